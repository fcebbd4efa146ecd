//! `/pscheduler`: the words of a pScheduler that leads a test with this node (its REST API, level 6). Whom `--responders pscheduler` names is answered,
//! without a key; what a lead may change is its own.

use std::time::{Duration, Instant};

use model::id::Uuid;
use serde_json::{Value, json};
use serve::Exchange;
use web::Method;
use web::target::{Target, pairs};

use super::Web;
use super::little::read_little;
use super::metrics::tell;
use super::refused::{Outcome, refuse};
use crate::clock::now;
use crate::pscheduler::{API_LEVEL, NotDone, TASK_BYTES_MAX, can_run};

/// What the paths begin with.
const ROOT: &[u8] = b"pscheduler";
/// How long an answer waits for the end of a run, at most.
const WAIT_MAX: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(200);

/// Whether a request is for a pScheduler.
pub(super) fn is_addressed(target: &Target) -> bool {
    target.path.as_bytes().split(|byte| *byte == b'/').next() == Some(ROOT)
}

fn now_s() -> f64 {
    let now = now();
    now.seconds as f64 + f64::from(now.nanos) / 1e9
}

fn done<T>(result: Result<T, NotDone>) -> Outcome<T> {
    result.map_err(|not| refuse(not.status, not.why))
}

fn read_json(exchange: &mut dyn Exchange) -> Outcome<Value> {
    let body = read_little(exchange, TASK_BYTES_MAX, "a task or a run")?;
    Ok(web::json::read(&body, "a task or a run")?)
}

/// What a request says.
struct Said {
    method: Method,
    /// The parts of the path behind `/pscheduler`.
    parts: Vec<String>,
    query: Vec<(String, String)>,
    body: Value,
    peer: std::net::IpAddr,
    base: String,
}

impl Said {
    fn read(exchange: &mut dyn Exchange, target: &Target) -> Outcome<Said> {
        let path = String::from_utf8_lossy(target.path.as_bytes()).into_owned();
        let query = pairs(target.query.as_deref().unwrap_or_default()).collect();
        let method = exchange.request().method.clone();
        let host = exchange.request().headers.get("host").unwrap_or("localhost").to_owned();
        let has_body = matches!(method, Method::Post | Method::Put);
        let body = if has_body { read_json(exchange)? } else { Value::Null };
        let scheme = if exchange.is_secure() { "https" } else { "http" };
        Ok(Said {
            method,
            parts: path.split('/').skip(1).filter(|part| !part.is_empty()).map(str::to_owned).collect(),
            query,
            body,
            peer: exchange.peer().ip().to_canonical(),
            base: format!("{scheme}://{host}/pscheduler"),
        })
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn id(text: &str) -> Outcome<Uuid> {
        text.parse().map_err(|_| refuse(404, "tasks and runs have UUIDs"))
    }

    fn time(&self, name: &str, default: f64) -> Outcome<f64> {
        let Some(text) = self.parameter(name) else { return Ok(default) };
        let read = web::date::parse_rfc3339(text).map(|time| time.seconds as f64 + f64::from(time.nanos) / 1e9);
        read.ok_or_else(|| refuse(400, format!("{name} is no time: {text}")))
    }
}

/// Answers one request.
pub(super) fn answer(web: &Web, exchange: &mut dyn Exchange, target: &Target) -> Outcome {
    let said = Said::read(exchange, target)?;
    if said.parameter("api").and_then(|level| level.parse::<i64>().ok()).is_some_and(|level| level > API_LEVEL) {
        return Err(refuse(501, format!("this node speaks level {API_LEVEL} of that API")));
    }
    let value = value(web, &said)?;
    let text = serde_json::to_string(&value).unwrap_or_default();
    tell_all(exchange, text.as_bytes())
}

/// A text that is the whole answer, whatever the method.
fn tell_all(exchange: &mut dyn Exchange, text: &[u8]) -> Outcome {
    if matches!(exchange.request().method, Method::Get | Method::Head) {
        return tell(exchange, "application/json", text);
    }
    let response = web::Response::new(200).with("Content-Type", "application/json");
    exchange.begin(response, serve::Length::Known(text.len() as u64))?;
    exchange.write(text)?;
    exchange.end(&web::Headers::new())?;
    Ok(super::refused::Done { status: 200, bytes: text.len() as u64 })
}

fn value(web: &Web, said: &Said) -> Outcome<Value> {
    let participant = &web.services.participant;
    let who = (said.peer, said.parameter("key"));
    let parts: Vec<&str> = said.parts.iter().map(String::as_str).collect();
    match (&said.method, &parts[..]) {
        (Method::Get, []) => Ok(json!("This is the pScheduler API server of a Longhaul node")),
        (Method::Get, ["api"]) => Ok(json!(API_LEVEL)),
        (Method::Get, ["hostname"]) => Ok(json!(super::fireflies::host_name())),
        (Method::Get, ["clock"]) => Ok(clock()),
        (Method::Get, ["tests"]) => Ok(json!(["throughput"])),
        (Method::Get, ["tools"]) => tools(said),
        (Method::Post | Method::Put, ["tasks", task]) => {
            let number = said.parameter("participant").and_then(|text| text.parse().ok()).unwrap_or(0);
            let id = Said::id(task)?;
            done(participant.add(id, said.peer, number, said.body.clone(), now_s()))?;
            Ok(json!(format!("{}/tasks/{id}", said.base)))
        }
        (Method::Get, ["tasks", task]) => {
            let with_detail = said.parameter("detail").is_some_and(|value| value != "false");
            done(participant.task(&Said::id(task)?, &said.base, with_detail, now_s()))
        }
        (Method::Delete, ["tasks", task]) => removed(done(participant.remove(&Said::id(task)?, None, who, now_s()))),
        (Method::Get, ["tasks", task, "runtimes"]) => {
            let (from, to) = (said.time("start", now_s())?, said.time("end", now_s() + 86_400.0)?);
            done(participant.runtimes(&Said::id(task)?, from, to, now_s()))
        }
        (Method::Put | Method::Post, ["tasks", task, "runs", run]) => {
            done(participant.put_run(&Said::id(task)?, Said::id(run)?, who, &said.body, now_s()))?;
            Ok(json!("OK"))
        }
        (Method::Get, ["tasks", task, "runs", run]) => run_of(web, said, &Said::id(task)?, &Said::id(run)?),
        (Method::Delete, ["tasks", task, "runs", run]) => {
            removed(done(participant.remove(&Said::id(task)?, Some(&Said::id(run)?), who, now_s())))
        }
        _ => Err(refuse(404, "this node is a participant of tests of throughput: it has no such resource")),
    }
}

fn removed(result: Outcome<()>) -> Outcome<Value> {
    result.map(|()| json!("Deleted"))
}

/// Whether a test can be run, and with which tool.
fn tools(said: &Said) -> Outcome<Value> {
    let tool = json!({"schema": 1, "name": "iperf3", "version": "1.0", "description": "iperf3, answered by a Longhaul node",
        "tests": ["throughput"], "preference": 0, "maintainer": {"name": "Longhaul"}});
    let Some(text) = said.parameter("test") else { return Ok(json!([tool])) };
    let test: Value = serde_json::from_str(text).map_err(|error| refuse(400, format!("test is no JSON: {error}")))?;
    let told = match can_run(&test) {
        Ok(()) => json!({"can-run": true, "reasons": []}),
        Err(why) => json!({"can-run": false, "reasons": [why]}),
    };
    let is_able = told["can-run"] == true;
    Ok(if is_able { json!([{"can-run": told, "tool": tool}]) } else { json!([]) })
}

/// A run; with `wait-local` not before it has ended, or not for longer than `wait`.
fn run_of(web: &Web, said: &Said, task: &Uuid, run: &Uuid) -> Outcome<Value> {
    let participant = &web.services.participant;
    let waits = said.parameter("wait-local").is_some_and(|value| value != "false");
    let wait = said.parameter("wait").and_then(|text| text.parse().ok()).map_or(WAIT_MAX, Duration::from_secs);
    let until = Instant::now() + wait.min(WAIT_MAX);
    while waits && Instant::now() < until && !web.services.is_stopping() && !participant.has_ended(task, run, now_s()) {
        std::thread::sleep(LOOK);
    }
    done(participant.run(task, run, &said.base, web.rules.address().port(), now_s()))
}

fn clock() -> Value {
    let quality = sys::clock_quality::read().unwrap_or_default();
    let time = crate::clock::now_text();
    match quality.synchronised {
        true => {
            json!({"time": time, "synchronized": true, "source": "ntp", "reference": "kernel", "offset": quality.error.as_secs_f64()})
        }
        false => json!({"time": time, "synchronized": false}),
    }
}
