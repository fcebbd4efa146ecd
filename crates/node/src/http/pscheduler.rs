//! `/pscheduler`: the REST API of a pScheduler (level 6), for a pScheduler that leads a test with this node. The addresses of
//! `--responders pscheduler` are answered without a key; a lead may change its own tasks only.

use std::time::{Duration, Instant};

use model::id::Uuid;
use serde_json::{Value, json};
use serve::Exchange;
use web::Method;
use web::target::{Target, pairs};

use super::HttpService;
use super::metrics::send_text;
use super::refused::{Outcome, refuse};
use super::short_body::read_short_body;
use crate::clock::now;
use crate::pscheduler::{API_LEVEL, ParticipantError, TASK_BYTES_MAX, can_run};

/// The first segment of the paths.
const ROOT: &[u8] = b"pscheduler";
/// How long an answer waits for the end of a run, at most.
const WAIT_MAX: Duration = Duration::from_secs(90);
/// How often a waiting thread checks whether the run has ended.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Whether a request is for a pScheduler.
pub(super) fn is_addressed(target: &Target) -> bool {
    target.path.as_bytes().split(|byte| *byte == b'/').next() == Some(ROOT)
}

fn now_s() -> f64 {
    let now = now();
    now.seconds as f64 + f64::from(now.nanos) / 1e9
}

/// Turns a result of the participant into an outcome: its error becomes a refusal.
fn to_outcome<T>(result: Result<T, ParticipantError>) -> Outcome<T> {
    result.map_err(|error| refuse(error.status, error.why))
}

fn read_json(exchange: &mut dyn Exchange) -> Outcome<Value> {
    let body = read_short_body(exchange, TASK_BYTES_MAX, "a task or a run")?;
    Ok(web::json::read(&body, "a task or a run")?)
}

/// A request to the participant.
struct ParticipantRequest {
    method: Method,
    /// The segments of the path behind `/pscheduler`.
    parts: Vec<String>,
    query: Vec<(String, String)>,
    body: Value,
    peer: std::net::IpAddr,
    base: String,
}

impl ParticipantRequest {
    fn read(exchange: &mut dyn Exchange, target: &Target) -> Outcome<ParticipantRequest> {
        let path = String::from_utf8_lossy(target.path.as_bytes()).into_owned();
        let query = pairs(target.query.as_deref().unwrap_or_default()).collect();
        let method = exchange.request().method.clone();
        let host = exchange.request().headers.get("host").unwrap_or("localhost").to_owned();
        let has_body = matches!(method, Method::Post | Method::Put);
        let body = if has_body { read_json(exchange)? } else { Value::Null };
        let scheme = if exchange.is_secure() { "https" } else { "http" };
        Ok(ParticipantRequest {
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

    fn time(&self, name: &str, default: f64) -> Outcome<f64> {
        let Some(text) = self.parameter(name) else { return Ok(default) };
        let read = web::date::parse_rfc3339(text).map(|time| time.seconds as f64 + f64::from(time.nanos) / 1e9);
        read.ok_or_else(|| refuse(400, format!("{name} is not a time: {text}")))
    }
}

/// The id of a task or of a run.
fn parse_id(text: &str) -> Outcome<Uuid> {
    text.parse().map_err(|_| refuse(404, "tasks and runs have UUIDs"))
}

/// Answers one request.
pub(super) fn answer(service: &HttpService, exchange: &mut dyn Exchange, target: &Target) -> Outcome {
    let request = ParticipantRequest::read(exchange, target)?;
    if request.parameter("api").and_then(|level| level.parse::<i64>().ok()).is_some_and(|level| level > API_LEVEL) {
        return Err(refuse(501, format!("this node speaks level {API_LEVEL} of that API")));
    }
    let value = value(service, &request)?;
    let text = serde_json::to_string(&value).unwrap_or_default();
    send_json(exchange, text.as_bytes())
}

/// Sends JSON as the whole answer to any method.
fn send_json(exchange: &mut dyn Exchange, text: &[u8]) -> Outcome {
    if matches!(exchange.request().method, Method::Get | Method::Head) {
        return send_text(exchange, "application/json", text);
    }
    let response = web::Response::new(200).with("Content-Type", "application/json");
    exchange.begin(response, serve::Length::Known(text.len() as u64))?;
    exchange.write(text)?;
    exchange.end(&web::Headers::new())?;
    Ok(super::refused::RequestOutcome { status: 200, bytes: text.len() as u64 })
}

fn value(service: &HttpService, request: &ParticipantRequest) -> Outcome<Value> {
    let participant = &service.services.participant;
    let caller = (request.peer, request.parameter("key"));
    let parts: Vec<&str> = request.parts.iter().map(String::as_str).collect();
    match (&request.method, &parts[..]) {
        (Method::Get, []) => Ok(json!("This is the pScheduler API server of a Longhaul node")),
        (Method::Get, ["api"]) => Ok(json!(API_LEVEL)),
        (Method::Get, ["hostname"]) => Ok(json!(crate::fireflies::host_name())),
        (Method::Get, ["clock"]) => Ok(clock()),
        (Method::Get, ["tests"]) => Ok(json!(["throughput"])),
        (Method::Get, ["tools"]) => tools(request),
        (Method::Post | Method::Put, ["tasks", task]) => {
            let number = request.parameter("participant").and_then(|text| text.parse().ok()).unwrap_or(0);
            let id = parse_id(task)?;
            to_outcome(participant.add(id, request.peer, number, request.body.clone(), now_s()))?;
            Ok(json!(format!("{}/tasks/{id}", request.base)))
        }
        (Method::Get, ["tasks", task]) => {
            let with_detail = request.parameter("detail").is_some_and(|value| value != "false");
            to_outcome(participant.task(&parse_id(task)?, &request.base, with_detail, now_s()))
        }
        (Method::Delete, ["tasks", task]) => {
            removed(to_outcome(participant.remove(&parse_id(task)?, None, caller, now_s())))
        }
        (Method::Get, ["tasks", task, "runtimes"]) => {
            let (from, to) = (request.time("start", now_s())?, request.time("end", now_s() + 86_400.0)?);
            to_outcome(participant.runtimes(&parse_id(task)?, from, to, now_s()))
        }
        (Method::Put | Method::Post, ["tasks", task, "runs", run]) => {
            to_outcome(participant.put_run(&parse_id(task)?, parse_id(run)?, caller, &request.body, now_s()))?;
            Ok(json!("OK"))
        }
        (Method::Get, ["tasks", task, "runs", run]) => run_of(service, request, &parse_id(task)?, &parse_id(run)?),
        (Method::Delete, ["tasks", task, "runs", run]) => {
            removed(to_outcome(participant.remove(&parse_id(task)?, Some(&parse_id(run)?), caller, now_s())))
        }
        _ => Err(refuse(404, "this node only takes part in throughput tests: it has no such resource")),
    }
}

fn removed(result: Outcome<()>) -> Outcome<Value> {
    result.map(|()| json!("Deleted"))
}

/// The tool that can run a test; an empty list if none can.
fn tools(request: &ParticipantRequest) -> Outcome<Value> {
    let tool = json!({"schema": 1, "name": "iperf3", "version": "1.0", "description": "iperf3, answered by a Longhaul node",
        "tests": ["throughput"], "preference": 0, "maintainer": {"name": "Longhaul"}});
    let Some(text) = request.parameter("test") else { return Ok(json!([tool])) };
    let test: Value = serde_json::from_str(text).map_err(|error| refuse(400, format!("test is no JSON: {error}")))?;
    Ok(match can_run(&test) {
        Ok(()) => json!([{"can-run": {"can-run": true, "reasons": []}, "tool": tool}]),
        Err(_) => json!([]),
    })
}

/// Answers with a run; with `wait-local` it first waits for the run's end, for at most `wait` seconds.
fn run_of(service: &HttpService, request: &ParticipantRequest, task: &Uuid, run: &Uuid) -> Outcome<Value> {
    let participant = &service.services.participant;
    let waits = request.parameter("wait-local").is_some_and(|value| value != "false");
    let wait = request.parameter("wait").and_then(|text| text.parse().ok()).map_or(WAIT_MAX, Duration::from_secs);
    let until = Instant::now() + wait.min(WAIT_MAX);
    while waits
        && Instant::now() < until
        && !service.services.is_stopping()
        && !participant.has_ended(task, run, now_s())
    {
        std::thread::sleep(CHECK_EVERY);
    }
    to_outcome(participant.run(task, run, &request.base, service.access_control.address().port(), now_s()))
}

fn clock() -> Value {
    let quality = sys::clock_quality::read().unwrap_or_default();
    let time = crate::clock::now_text();
    if quality.synchronised {
        json!({"time": time, "synchronized": true, "source": "ntp", "reference": "kernel", "offset": quality.error.as_secs_f64()})
    } else {
        json!({"time": time, "synchronized": false})
    }
}
