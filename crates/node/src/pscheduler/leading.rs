//! Leads a throughput test whose second participant is a pScheduler of perfSONAR: books a run there, and connects to its iperf3 at
//! the start of the run.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use auth::trust::{Trust, client_config};
use model::fault::{Blame, Fault, with_causes};
use model::id::Uuid;
use model::v1::probe::tcp::{Directions, Order, Report};
use probe::Stop;
use serde_json::{Value, json};
use web::{Client, Dialer, Headers, HttpUrl, Method};

use super::{START_S, rfc3339, seconds_of, time_of};
use crate::test_orders::TestFailure;

/// Timeouts for a connection, and for a byte of an answer: longer than [`WAIT_S`].
const CONNECT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(60);
/// How long the participant is asked to wait for its own result, seconds.
const WAIT_S: u32 = 30;
/// How far ahead a run is booked, seconds: at least, for the requests in between, and at most, as a claim of this node lasts.
const AHEAD_S: (f64, f64) = (3.0, 45.0);
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Characters of a reply that are quoted in a failure.
const QUOTED_CHARS_MAX: usize = 200;
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// A client of a pScheduler's API.
struct PschedulerClient {
    dialer: Dialer,
    base: String,
}

/// A reply of a pScheduler.
struct PschedulerReply {
    status: u16,
    text: String,
}

impl PschedulerReply {
    fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

fn failed(why: impl Into<String>) -> TestFailure {
    TestFailure::new(Fault::Path, why.into())
}

impl PschedulerClient {
    /// Any certificate is accepted: that of a pScheduler is hardly ever signed by an authority, and no secret is sent.
    fn new(to: SocketAddr) -> Result<PschedulerClient, TestFailure> {
        let (tls, _) = client_config(&Trust::Fingerprints(Vec::new()), vec![b"http/1.1".to_vec()])
            .map_err(|error| TestFailure::new(Fault::Local, error.to_string()))?;
        let dialer = Dialer { tls, guard: Arc::new(|_| Ok(())), prepare: None, connect: CONNECT, silence: SILENCE };
        Ok(PschedulerClient { dialer, base: format!("https://{to}/pscheduler") })
    }

    fn ask(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<PschedulerReply, TestFailure> {
        let url = format!("{}{path}", self.base);
        let url = HttpUrl::parse(&url).map_err(|error| TestFailure::new(Fault::Bug, error.to_string()))?;
        let broken = |error: web::ClientError| failed(with_causes(&error));
        let mut client = Client::new(&self.dialer, &url).map_err(broken)?;
        let text = body.map(Value::to_string);
        let mut headers = Headers::new();
        if let Some(text) = &text {
            headers = headers.with("Content-Type", "application/json").with("Content-Length", text.len().to_string());
        }
        client.send(method, url.path_and_query(), &headers).map_err(broken)?;
        if let Some(text) = &text {
            client.write(text.as_bytes()).map_err(broken)?;
        }
        let (response, mut body) = client.final_response(method).map_err(broken)?;
        let bytes = client.read_all(&mut body, ANSWER_BYTES_MAX).map_err(broken)?;
        Ok(PschedulerReply { status: response.status, text: String::from_utf8_lossy(&bytes).into_owned() })
    }

    /// Sends a request; returns the JSON of a successful reply.
    fn request_ok(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Value, TestFailure> {
        let reply = self.ask(method, path, body)?;
        let quoted: String = reply.text.trim().chars().take(QUOTED_CHARS_MAX).collect();
        match reply.status {
            200..300 => Ok(reply.value()),
            401 | 403 => Err(TestFailure::new(Fault::Auth, format!("its pScheduler refuses: {quoted}"))),
            409 => Err(TestFailure { is_busy: true, ..failed(format!("its pScheduler is booked: {quoted}")) }),
            status => Err(failed(format!("its pScheduler answers {status} to {method:?} {path}: {quoted}"))),
        }
    }
}

/// The source address of packets from this host to the other.
fn own_address(to: SocketAddr) -> Result<IpAddr, TestFailure> {
    let any: IpAddr = if to.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    let chosen = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    chosen.map(|address| address.ip()).map_err(|error| failed(format!("no route to {to}: {error}")))
}

/// The specification of the test in pScheduler's form.
fn spec(own: IpAddr, remote: &str, order: &Order) -> Result<Value, TestFailure> {
    let unsupported = |why: &str| TestFailure::new(Fault::Config, format!("with a pScheduler {why}"));
    let is_reverse = match order.direction {
        Directions::Forward => false,
        Directions::Reverse => true,
        Directions::Both => return Err(unsupported("a test has one direction")),
    };
    if order.seconds <= 0.0 {
        return Err(unsupported("a test has a duration and not a number of bytes"));
    }
    let duration = format!("PT{}S", order.seconds.ceil());
    let mut spec = json!({"schema": 1, "source": own, "dest": remote, "duration": duration});
    if order.streams > 1 {
        spec["parallel"] = json!(order.streams);
    }
    if order.omit_s > 0.0 {
        spec["omit"] = json!(format!("PT{}S", order.omit_s.ceil()));
    }
    if is_reverse {
        spec["reverse"] = json!(true);
    }
    Ok(spec)
}

/// Tests TCP with a host whose pScheduler is at `to`; `remote` is that host's name. `now_s` is the time, seconds since 1970;
/// `is_over` returns whether this node stops.
///
/// # Errors
/// No pScheduler answers, it refuses or has no time free, or its iperf3 fails.
pub(crate) fn lead_test(
    to: SocketAddr,
    remote: &str,
    order: &Order,
    now_s: &dyn Fn() -> f64,
    is_over: &dyn Fn() -> bool,
) -> Result<Report, TestFailure> {
    let pscheduler = PschedulerClient::new(to)?;
    if !pscheduler.request_ok(&Method::Get, "/api", None)?.is_number() {
        return Err(failed("no pScheduler answers there"));
    }
    let own = own_address(to)?;
    let test = json!({"type": "throughput", "spec": spec(own, remote, order)?});
    let encoded = web::target::encode(test.to_string().as_bytes());
    let tools = pscheduler.request_ok(&Method::Get, &format!("/tools?api=6&test={encoded}"), None)?;
    let has_iperf3 = tools.as_array().into_iter().flatten().any(|tool| tool["tool"]["name"] == "iperf3");
    if !has_iperf3 {
        return Err(failed("its pScheduler has no iperf3 for this test"));
    }
    let task = json!({"schema": 3, "test": test, "tool": "iperf3", "participants": [own, remote],
        "_key": Uuid::now_v7().to_string()});
    let path = format!("/tasks/{}", Uuid::now_v7());
    pscheduler.request_ok(&Method::Post, &format!("{path}?participant=1"), Some(&task))?;
    let report = run(&pscheduler, &path, to, order, now_s, is_over);
    // The task is removed in any case; a pScheduler that does not answer removes it later by itself.
    let _ = pscheduler.ask(&Method::Delete, &path, None);
    report
}

fn run(
    pscheduler: &PschedulerClient,
    task: &str,
    to: SocketAddr,
    order: &Order,
    now_s: &dyn Fn() -> f64,
    is_over: &dyn Fn() -> bool,
) -> Result<Report, TestFailure> {
    let shown = pscheduler.request_ok(&Method::Get, &format!("{task}?detail=true"), None)?;
    let seconds = shown["detail"]["duration"].as_str().and_then(seconds_of);
    let seconds = seconds.ok_or_else(|| failed("its pScheduler does not say how long the test takes"))?;
    let now = now_s();
    let until = now + AHEAD_S.1 + seconds;
    let [from, end] = [now, until].map(|at_s| web::target::encode(rfc3339(at_s).as_bytes()));
    let free = pscheduler.request_ok(&Method::Get, &format!("{task}/runtimes?start={from}&end={end}"), None)?;
    let start_s = free_start(&free, now + AHEAD_S.0, seconds).ok_or_else(|| TestFailure {
        is_busy: true,
        ..failed(format!("its pScheduler has no free time within {} s", AHEAD_S.1))
    })?;
    let run = format!("{task}/runs/{}", Uuid::now_v7());
    pscheduler.request_ok(&Method::Put, &run, Some(&json!({"start-time": rfc3339(start_s)})))?;
    let data = pscheduler.request_ok(&Method::Get, &run, None)?["participant-data"].take();
    if !data["_auth"].is_null() {
        return Err(TestFailure::new(
            Fault::Auth,
            "its iperf3 requires credentials, which a node does not have".into(),
        ));
    }
    let port = data["server_port"].as_u64().and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or_else(|| failed("its pScheduler does not say where its iperf3 listens"))?;
    pscheduler.request_ok(&Method::Put, &run, Some(&json!({"part-data-full": [{"schema": 3}, data]})))?;
    while now_s() < start_s + START_S {
        if is_over() {
            return Err(TestFailure::new(Fault::Local, "this node stops".into()));
        }
        std::thread::sleep(CHECK_EVERY);
    }
    let tested = probe::iperf3::test(SocketAddr::new(to.ip(), port), order, &Stop::default(), &mut |_| {});
    tested.map_err(|error| {
        let theirs = pscheduler.ask(&Method::Get, &format!("{run}?wait-local=true&wait={WAIT_S}"), None);
        let result = theirs.map(|reply| reply.value()["result"].take()).unwrap_or_default();
        let quoted = ["error", "diags"].map(|name| result[name].as_str().unwrap_or_default().trim()).join(" ");
        let quoted: String = quoted.trim().chars().take(QUOTED_CHARS_MAX).collect();
        let theirs = if quoted.is_empty() { String::new() } else { format!("; its side reports: {quoted}") };
        TestFailure::new(error.fault(), format!("{}{theirs}", with_causes(&error)))
    })
}

/// The first time from `from_s` on that is free for a run of `seconds`.
fn free_start(free: &Value, from_s: f64, seconds: f64) -> Option<f64> {
    free.as_array()?.iter().find_map(|span| {
        let [lower, upper] = ["lower", "upper"].map(|name| span[name].as_str().and_then(time_of));
        let start = lower?.max(from_s);
        (start + seconds <= upper?).then_some(start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_begin_in_the_first_free_time() {
        let span = |lower: f64, upper: f64| json!({"lower": rfc3339(lower), "upper": rfc3339(upper)});
        let free = json!([span(1_000.0, 1_020.0), span(1_030.0, 1_100.0)]);
        assert_eq!(free_start(&free, 1_003.0, 10.0), Some(1_003.0));
        assert_eq!(free_start(&free, 1_015.0, 10.0), Some(1_030.0));
        assert_eq!(free_start(&free, 1_003.0, 100.0), None);
        assert_eq!(free_start(&json!([{"lower": 7}]), 0.0, 1.0), None);
        assert_eq!(free_start(&Value::Null, 0.0, 1.0), None);
    }

    #[test]
    fn tests_that_a_pscheduler_cannot_run_are_refused() {
        let own: IpAddr = "192.0.2.10".parse().unwrap();
        let order = |direction, seconds| Order { direction, seconds, streams: 4, ..Order::default() };
        let spec_of_reverse = spec(own, "b.example", &order(Directions::Reverse, 9.5)).unwrap();
        assert_eq!(
            spec_of_reverse,
            json!({"schema": 1, "source": "192.0.2.10", "dest": "b.example", "duration": "PT10S", "parallel": 4, "reverse": true})
        );
        assert!(
            spec(own, "b", &order(Directions::Both, 9.0)).is_err()
                && spec(own, "b", &order(Directions::Forward, 0.0)).is_err()
        );
    }
}
