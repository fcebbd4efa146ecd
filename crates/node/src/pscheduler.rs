//! The second participant of throughput tests that a pScheduler of perfSONAR leads: the tasks and runs that the lead has posted, and
//! when their iperf3 is answered. Time is an argument, seconds since 1970.
//!
//! The lead posts a task, asks for free times, books a run, and posts the data of both participants. At the start of the run its
//! iperf3 connects to the node's port. The result of a run is that of the iperf3 test that the node has served.

pub(crate) mod leading;

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::holder_bound::HolderBound;
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use model::id::Uuid;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The API level that this node speaks.
pub(crate) const API_LEVEL: i64 = 6;
/// Tasks of one lead, and of all leads.
pub(crate) const TASKS_MAX: HolderBound = HolderBound { each: 64, all: 256 };
/// Runs of a task.
const RUNS_MAX: usize = 64;
/// Bytes of a task.
pub(crate) const TASK_BYTES_MAX: usize = 64 << 10;
/// The longest test, seconds.
const SECONDS_MAX: f64 = 300.0;
/// How long a run is kept after its end, and a task after the lead's last request; seconds.
const REMEMBERED_S: f64 = 3_600.0;
const TASK_IDLE_S_MAX: f64 = 86_400.0;
/// The horizon of bookings, seconds.
const HORIZON_S: f64 = 86_400.0;
/// The delay of iperf3's client after the start, and the margin at the end; constants of pScheduler's iperf3 tool, seconds.
const START_S: f64 = 3.0;
const FUDGE_S: f64 = 2.0;
/// The default round-trip time of a test, seconds.
const LINK_RTT_S: f64 = 0.2;
/// How far a lead's clock may differ from the node's, seconds.
const CLOCKS_S: f64 = 5.0;

/// Why a request is refused, with a status of HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParticipantError {
    pub status: u16,
    pub why: String,
}

fn refuse(status: u16, why: impl Into<String>) -> ParticipantError {
    ParticipantError { status, why: why.into() }
}

type ParticipantResult<T> = Result<T, ParticipantError>;

/// The tasks and runs that leads have posted.
#[derive(Debug, Default)]
pub(crate) struct Participant {
    tasks: Mutex<BTreeMap<Uuid, Task>>,
}

#[derive(Debug)]
struct Task {
    lead: IpAddr,
    key: Option<String>,
    task: Value,
    seconds: f64,
    runs: BTreeMap<Uuid, BookedRun>,
    last_request_s: f64,
}

#[derive(Debug, Default)]
struct BookedRun {
    start_s: f64,
    part_data_full: Option<Value>,
    /// The result of its iperf3.
    served: Option<ServedTest>,
}

/// A test of iperf3 that was served.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServedTest {
    pub bytes: u64,
    pub seconds: f64,
    pub error: Option<String>,
}

/// Reads an ISO 8601 duration.
fn seconds_of(text: &str) -> Option<f64> {
    let span: Span = text.parse().ok()?;
    let length: SignedDuration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Some(length.as_secs_f64()).filter(|seconds| *seconds >= 0.0)
}

fn time_of(text: &str) -> Option<f64> {
    let time: Timestamp = text.parse().ok()?;
    Some(time.as_millisecond() as f64 / 1e3)
}

fn rfc3339(at_s: f64) -> String {
    Timestamp::from_millisecond((at_s * 1e3) as i64).map_or_else(|_| at_s.to_string(), |time| time.to_string())
}

/// The length of a run, seconds: iperf3's set-up, the omitted time, the measurement, and the tool's margins.
fn length(spec: &Value) -> ParticipantResult<f64> {
    let seconds = |key: &str, default: f64| match spec.get(key) {
        None => Ok(default),
        Some(Value::String(text)) => {
            seconds_of(text).ok_or_else(|| refuse(400, format!("{key} is not a duration: {text}")))
        }
        Some(other) => Err(refuse(400, format!("{key} is not a duration: {other}"))),
    };
    let duration = seconds("duration", 10.0)?;
    let omit = seconds("omit", 0.0)?;
    let rtt = seconds("link-rtt", LINK_RTT_S)?;
    if duration > SECONDS_MAX || omit > SECONDS_MAX || rtt > 10.0 {
        return Err(refuse(403, format!("tests with this node last {SECONDS_MAX} s at most")));
    }
    Ok((rtt * 1e3 / 50.0).max(1.0) + omit + duration + START_S + FUDGE_S)
}

/// Whether this node takes part in a test.
///
/// # Errors
/// Why it does not.
pub(crate) fn can_run(test: &Value) -> Result<(), String> {
    if test["type"] != "throughput" {
        return Err(format!("this node takes part in throughput tests only, not in tests of type {}", test["type"]));
    }
    let spec = &test["spec"];
    for key in ["loopback", "single-ended", "reverse-connections"] {
        if spec[key].as_bool().unwrap_or(false) {
            return Err(format!("this node does not support {key}"));
        }
    }
    length(spec).map(drop).map_err(|refusal| refusal.why)
}

impl Participant {
    /// Adds a task of a lead, of which this node is the second participant.
    ///
    /// # Errors
    /// The node cannot run the task, it is another lead's, or there are too many.
    pub fn add(&self, id: Uuid, lead: IpAddr, participant: i64, task: Value, now_s: f64) -> ParticipantResult<()> {
        if participant != 1 {
            return Err(refuse(403, "this node is the second participant (participant=1), and no other"));
        }
        can_run(&task["test"]).map_err(|why| refuse(403, why))?;
        if task["tool"].as_str().is_some_and(|tool| tool != "iperf3") {
            return Err(refuse(403, "the tool of this node is iperf3"));
        }
        let seconds = length(&task["test"]["spec"])?;
        let key = task["_key"].as_str().map(str::to_owned);
        let mut tasks = self.tasks.lock();
        sweep(&mut tasks, now_s);
        if tasks.get(&id).is_some_and(|known| known.lead != lead) {
            return Err(refuse(403, "this task is another lead's"));
        }
        let of_lead = tasks.values().filter(|task| task.lead == lead).count();
        if !tasks.contains_key(&id) && (of_lead >= TASKS_MAX.each || tasks.len() >= TASKS_MAX.all) {
            return Err(refuse(403, "this node has no room for more tasks"));
        }
        let runs = tasks.remove(&id).map(|known| known.runs).unwrap_or_default();
        tasks.insert(id, Task { lead, key, task, seconds, runs, last_request_s: now_s });
        Ok(())
    }

    fn with<T>(
        &self,
        id: &Uuid,
        now_s: f64,
        act: impl FnOnce(&mut Task) -> ParticipantResult<T>,
    ) -> ParticipantResult<T> {
        let mut tasks = self.tasks.lock();
        let task = tasks.get_mut(id).ok_or_else(|| refuse(404, "there is no such task here"))?;
        task.last_request_s = now_s;
        act(task)
    }

    /// Changes a task, for its lead alone, or a client that shows its key.
    fn change<T>(
        &self,
        id: &Uuid,
        caller: (IpAddr, Option<&str>),
        now_s: f64,
        act: impl FnOnce(&mut Task) -> ParticipantResult<T>,
    ) -> ParticipantResult<T> {
        self.with(id, now_s, |task| {
            let knows_key = task.key.is_some() && task.key.as_deref() == caller.1;
            if task.lead != caller.0 && !knows_key {
                return Err(refuse(403, "this task is another lead's"));
            }
            act(task)
        })
    }

    /// A task as JSON, with the details that a lead needs.
    ///
    /// # Errors
    /// There is no such task.
    pub fn task(&self, id: &Uuid, base: &str, with_detail: bool, now_s: f64) -> ParticipantResult<Value> {
        self.with(id, now_s, |task| {
            let mut shown = task.task.clone();
            if let Some(fields) = shown.as_object_mut() {
                fields.retain(|name, _| !name.starts_with('_'));
                if with_detail {
                    let href = format!("{base}/tasks/{id}");
                    fields.insert("detail".into(), json!({
                        "added": rfc3339(task.last_request_s), "enabled": true, "duration": format!("PT{}S", task.seconds.ceil()),
                        "participant": 1, "participants": [participant_name(&task.task, "source"), participant_name(&task.task, "dest")],
                        "hints": null, "exclusive": true, "multi-result": false, "anytime": false, "slip": "PT0S", "start": null,
                        "runs": task.runs.len(), "href": href, "runs-href": format!("{href}/runs"),
                        "first-run-href": format!("{href}/runs/first"), "next-run-href": format!("{href}/runs/next"),
                    }));
                }
            }
            Ok(shown)
        })
    }

    /// The free times for a run of a task.
    ///
    /// # Errors
    /// There is no such task.
    pub fn runtimes(&self, id: &Uuid, from_s: f64, to_s: f64, now_s: f64) -> ParticipantResult<Value> {
        let booked = self.booked();
        self.with(id, now_s, |task| {
            let mut at = from_s.max(now_s);
            let end = to_s.min(now_s + HORIZON_S);
            let mut free = Vec::new();
            for (start, stop) in booked {
                if start - at >= task.seconds {
                    free.push(json!({"lower": rfc3339(at), "upper": rfc3339(start)}));
                }
                at = at.max(stop);
            }
            if end - at >= task.seconds {
                free.push(json!({"lower": rfc3339(at), "upper": rfc3339(end)}));
            }
            Ok(Value::Array(free))
        })
    }

    /// Begin and end of every booked run, in order.
    fn booked(&self) -> Vec<(f64, f64)> {
        let tasks = self.tasks.lock();
        let spans =
            tasks.values().flat_map(|task| task.runs.values().map(|run| (run.start_s, run.start_s + task.seconds)));
        let mut spans: Vec<(f64, f64)> = spans.collect();
        spans.sort_by(|a, b| a.0.total_cmp(&b.0));
        spans
    }

    /// Whether a test of `seconds` from now on would overlap a booked run.
    pub fn is_booked(&self, now_s: f64, seconds: f64) -> bool {
        self.booked().iter().any(|(start, stop)| *start < now_s + seconds && *stop > now_s)
    }

    /// Books a run, or adds the data of both participants to it.
    ///
    /// # Errors
    /// There is no such task or run, it is another lead's, the time is taken or out of range, or the task has too many runs.
    pub fn put_run(
        &self,
        id: &Uuid,
        run: Uuid,
        caller: (IpAddr, Option<&str>),
        body: &Value,
        now_s: f64,
    ) -> ParticipantResult<()> {
        let booked = self.booked();
        self.change(id, caller, now_s, |task| {
            if let Some(data) = body.get("part-data-full") {
                let known = task.runs.get_mut(&run).ok_or_else(|| refuse(404, "there is no such run here"))?;
                known.part_data_full = Some(data.clone());
                return Ok(());
            }
            let start = body["start-time"].as_str().and_then(time_of);
            let start_s = start
                .ok_or_else(|| refuse(400, "a run needs start-time (RFC 3339), or part-data-full once it is booked"))?;
            if start_s < now_s - CLOCKS_S || start_s > now_s + HORIZON_S {
                return Err(refuse(
                    400,
                    format!("the start of a run is at most {HORIZON_S} s from now; check the clocks"),
                ));
            }
            let own = task.runs.get(&run).map(|run| (run.start_s, run.start_s + task.seconds));
            let end_s = start_s + task.seconds;
            let overlaps = |span: &(f64, f64)| Some(*span) != own && span.0 < end_s && span.1 > start_s;
            if booked.iter().any(overlaps) {
                return Err(refuse(409, "another run is booked at that time"));
            }
            if !task.runs.contains_key(&run) && task.runs.len() >= RUNS_MAX {
                return Err(refuse(403, format!("a task has {RUNS_MAX} runs here at most")));
            }
            task.runs.insert(run, BookedRun { start_s, ..BookedRun::default() });
            Ok(())
        })
    }

    /// A run as JSON: this participant's data, and the result.
    ///
    /// # Errors
    /// There is no such task or run.
    pub fn run(&self, id: &Uuid, run: &Uuid, base: &str, port: u16, now_s: f64) -> ParticipantResult<Value> {
        self.with(id, now_s, |task| {
            let known = task.runs.get(run).ok_or_else(|| refuse(404, "there is no such run here"))?;
            let end_s = known.start_s + task.seconds;
            let state = match (&known.served, now_s) {
                (Some(served), _) if served.error.is_none() => "finished",
                (Some(_), _) => "failed",
                (None, now) if now >= end_s => "missed",
                (None, now) if now >= known.start_s => "running",
                (None, now) if now >= known.start_s - 30.0 => "on-deck",
                _ => "pending",
            };
            let href = format!("{base}/tasks/{id}/runs/{run}");
            let mut shown = json!({
                "href": href, "task-href": format!("{base}/tasks/{id}"), "start-time": rfc3339(known.start_s), "end-time": rfc3339(end_s),
                "duration": format!("PT{}S", task.seconds.ceil()), "participant": 1, "state": state, "state-display": state,
                "participants": [participant_name(&task.task, "source"), participant_name(&task.task, "dest")],
                "participant-data": {"schema": 3, "iperf3-version": "3.12", "server_port": port},
                "participant-data-full": known.part_data_full, "errors": null, "result": null, "result-full": null, "result-merged": null,
            });
            if let Some(result) = result(known, state) {
                shown["result"] = result;
            }
            Ok(shown)
        })
    }

    /// Whether a run has ended, with or without a test.
    pub fn has_ended(&self, id: &Uuid, run: &Uuid, now_s: f64) -> bool {
        let tasks = self.tasks.lock();
        let Some(task) = tasks.get(id) else { return true };
        task.runs.get(run).is_none_or(|run| run.served.is_some() || now_s >= run.start_s + task.seconds)
    }

    /// Removes a run, or a task with all of its runs.
    ///
    /// # Errors
    /// There is no such task or run, or it is another lead's.
    pub fn remove(
        &self,
        id: &Uuid,
        run: Option<&Uuid>,
        caller: (IpAddr, Option<&str>),
        now_s: f64,
    ) -> ParticipantResult<()> {
        self.change(id, caller, now_s, |task| match run {
            Some(run) => task.runs.remove(run).map(drop).ok_or_else(|| refuse(404, "there is no such run here")),
            None => Ok(()),
        })?;
        if run.is_none() {
            self.tasks.lock().remove(id);
        }
        Ok(())
    }

    /// Whether a run expects iperf3 from this address now.
    pub fn is_expected(&self, from: IpAddr, now_s: f64) -> bool {
        let tasks = self.tasks.lock();
        tasks.values().any(|task| task.is_lead_or_source(from) && task.current(now_s).is_some())
    }

    /// Records the result of iperf3 from this address for the current run.
    pub fn served(&self, from: IpAddr, served: &ServedTest, now_s: f64) {
        let mut tasks = self.tasks.lock();
        for task in tasks.values_mut().filter(|task| task.is_lead_or_source(from)) {
            if let Some(run) = task.current(now_s)
                && let Some(run) = task.runs.get_mut(&run)
            {
                run.served = Some(served.clone());
                return;
            }
        }
    }
}

impl Task {
    /// The unserved run whose time includes `now_s`.
    fn current(&self, now_s: f64) -> Option<Uuid> {
        let is_now = |run: &BookedRun| {
            run.served.is_none() && now_s >= run.start_s - CLOCKS_S && now_s < run.start_s + self.seconds + CLOCKS_S
        };
        self.runs.iter().find(|(_, run)| is_now(run)).map(|(id, _)| *id)
    }

    /// Whether an address is that of the lead, or of the source that the test names by its address: iperf3 comes from one of these.
    fn is_lead_or_source(&self, from: IpAddr) -> bool {
        let source = self.task["test"]["spec"]["source"].as_str().and_then(|text| text.parse::<IpAddr>().ok());
        self.lead == from || source == Some(from)
    }
}

fn participant_name(task: &Value, key: &str) -> Value {
    task["test"]["spec"].get(key).cloned().unwrap_or_default()
}

/// The result of the server's side: whether iperf3 was served. The client's side has the numbers.
fn result(run: &BookedRun, state: &str) -> Option<Value> {
    let (succeeded, diags) = match (&run.served, state) {
        (Some(ServedTest { error: None, bytes, seconds }), _) => (true, format!("{bytes} bytes in {seconds:.1} s")),
        (Some(ServedTest { error: Some(error), .. }), _) => (false, error.clone()),
        (None, "missed") => (false, "the other participant's iperf3 did not connect".to_owned()),
        (None, _) => return None,
    };
    let mut result = json!({"schema": 1, "succeeded": succeeded, "diags": diags, "intervals": [], "summary": {}});
    if !succeeded {
        result["error"] = Value::String(diags);
    }
    Some(result)
}

/// Removes old runs and idle tasks.
fn sweep(tasks: &mut BTreeMap<Uuid, Task>, now_s: f64) {
    tasks.retain(|_, task| {
        let seconds = task.seconds;
        task.runs.retain(|_, run| now_s < run.start_s + seconds + REMEMBERED_S);
        !task.runs.is_empty() || now_s < task.last_request_s + TASK_IDLE_S_MAX
    });
}

#[cfg(test)]
mod tests;
