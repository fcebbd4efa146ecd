//! Leading a test of throughput of which a pScheduler of perfSONAR is the second participant: its part is booked there, and its iperf3 is met at the time.

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

use super::{START_S, seconds_of, show, time_of};
use crate::test_orders::Failed;

/// For a connection, and for a byte of an answer: longer than an end is waited for.
const CONNECT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(60);
/// How long the other end is asked to wait for its own result, seconds.
const WAIT_S: u32 = 30;
/// A run is booked so far ahead at least, for the words between, and at most: a claim of this node lasts no longer. Seconds.
const AHEAD_S: (f64, f64) = (3.0, 45.0);
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Characters of a refusal that are told.
const SAID_MAX: usize = 200;
const LOOK: Duration = Duration::from_millis(100);

/// The API of a pScheduler.
struct Lead {
    dialer: Dialer,
    base: String,
}

/// An answer: its status, and what it says.
struct Said {
    status: u16,
    text: String,
}

impl Said {
    fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
}

fn failed(why: impl Into<String>) -> Failed {
    Failed::new(Fault::Path, why.into())
}

impl Lead {
    /// Its certificate is hardly ever one that anybody vouches for; nothing secret is said to it.
    fn new(to: SocketAddr) -> Result<Lead, Failed> {
        let (tls, _) = client_config(&Trust::Fingerprints(Vec::new()), vec![b"http/1.1".to_vec()])
            .map_err(|error| Failed::new(Fault::Local, error.to_string()))?;
        let dialer = Dialer { tls, guard: Arc::new(|_| Ok(())), prepare: None, connect: CONNECT, silence: SILENCE };
        Ok(Lead { dialer, base: format!("https://{to}/pscheduler") })
    }

    fn ask(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Said, Failed> {
        let url = format!("{}{path}", self.base);
        let url = HttpUrl::parse(&url).map_err(|error| Failed::new(Fault::Bug, error.to_string()))?;
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
        let (response, mut body) = client.answer(method).map_err(broken)?;
        let bytes = client.read_all(&mut body, ANSWER_BYTES_MAX).map_err(broken)?;
        Ok(Said { status: response.status, text: String::from_utf8_lossy(&bytes).into_owned() })
    }

    /// What it answers, where it agrees.
    fn good(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Value, Failed> {
        let said = self.ask(method, path, body)?;
        let words: String = said.text.trim().chars().take(SAID_MAX).collect();
        match said.status {
            200..300 => Ok(said.value()),
            401 | 403 => Err(Failed::new(Fault::Auth, format!("its pScheduler refuses: {words}"))),
            409 => Err(Failed { is_busy: true, ..failed(format!("its pScheduler is booked: {words}")) }),
            status => Err(failed(format!("its pScheduler answers {status} to {method:?} {path}: {words}"))),
        }
    }
}

/// The address of this host that packets to the other one leave from.
fn own_address(to: SocketAddr) -> Result<IpAddr, Failed> {
    let any: IpAddr = if to.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    let chosen = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(to)?;
        socket.local_addr()
    });
    chosen.map(|address| address.ip()).map_err(|error| failed(format!("no route to {to}: {error}")))
}

/// The test as pScheduler has it.
fn spec(own: IpAddr, far: &str, order: &Order) -> Result<Value, Failed> {
    let unsaid = |why: &str| Failed::new(Fault::Config, format!("with a pScheduler {why}"));
    let is_reverse = match order.direction {
        Directions::Forward => false,
        Directions::Reverse => true,
        Directions::Both => return Err(unsaid("one direction is tested at a time")),
    };
    if order.seconds <= 0.0 {
        return Err(unsaid("a test lasts a time, and no number of bytes"));
    }
    let mut spec = json!({"schema": 1, "source": own, "dest": far, "duration": format!("PT{}S", order.seconds.ceil())});
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

/// Tests TCP with a host whose pScheduler is at this address. `now_s` is the time, seconds since 1970; `is_over` says that this node stops.
pub(crate) fn test(
    (to, far): (SocketAddr, &str),
    order: &Order,
    now_s: &dyn Fn() -> f64,
    is_over: &dyn Fn() -> bool,
) -> Result<Report, Failed> {
    let lead = Lead::new(to)?;
    if !lead.good(&Method::Get, "/api", None)?.is_number() {
        return Err(failed("no pScheduler answers there"));
    }
    let own = own_address(to)?;
    let test = json!({"type": "throughput", "spec": spec(own, far, order)?});
    let asked = web::target::encode(test.to_string().as_bytes());
    let tools = lead.good(&Method::Get, &format!("/tools?api=6&test={asked}"), None)?;
    let has_iperf3 = tools.as_array().into_iter().flatten().any(|tool| tool["tool"]["name"] == "iperf3");
    if !has_iperf3 {
        return Err(failed("its pScheduler has no iperf3 for this test"));
    }
    let task = json!({"schema": 3, "test": test, "tool": "iperf3", "participants": [own, far],
        "_key": Uuid::now_v7().to_string()});
    let path = format!("/tasks/{}", Uuid::now_v7());
    lead.good(&Method::Post, &format!("{path}?participant=1"), Some(&task))?;
    let found = run(&lead, &path, (to, order), now_s, is_over);
    // Whatever came of it, nothing stays booked there; what cannot be removed is forgotten there in time.
    let _ = lead.ask(&Method::Delete, &path, None);
    found
}

fn run(
    lead: &Lead,
    task: &str,
    (to, order): (SocketAddr, &Order),
    now_s: &dyn Fn() -> f64,
    is_over: &dyn Fn() -> bool,
) -> Result<Report, Failed> {
    let told = lead.good(&Method::Get, &format!("{task}?detail=true"), None)?;
    let seconds = told["detail"]["duration"].as_str().and_then(seconds_of);
    let seconds = seconds.ok_or_else(|| failed("its pScheduler does not say how long the test takes"))?;
    let now = now_s();
    let until = now + AHEAD_S.1 + seconds;
    let [from, end] = [now, until].map(|at_s| web::target::encode(show(at_s).as_bytes()));
    let free = lead.good(&Method::Get, &format!("{task}/runtimes?start={from}&end={end}"), None)?;
    let start_s = room(&free, now + AHEAD_S.0, seconds).ok_or_else(|| Failed {
        is_busy: true,
        ..failed(format!("its pScheduler has no room within {} s", AHEAD_S.1))
    })?;
    let run = format!("{task}/runs/{}", Uuid::now_v7());
    lead.good(&Method::Put, &run, Some(&json!({"start-time": show(start_s)})))?;
    let data = lead.good(&Method::Get, &run, None)?["participant-data"].take();
    if !data["_auth"].is_null() {
        return Err(Failed::new(Fault::Auth, "its iperf3 wants credentials, which a node has not".into()));
    }
    let port = data["server_port"].as_u64().and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or_else(|| failed("its pScheduler does not say where its iperf3 listens"))?;
    lead.good(&Method::Put, &run, Some(&json!({"part-data-full": [{"schema": 3}, data]})))?;
    while now_s() < start_s + START_S {
        if is_over() {
            return Err(Failed::new(Fault::Local, "this node stops".into()));
        }
        std::thread::sleep(LOOK);
    }
    let tested = probe::iperf3::test(SocketAddr::new(to.ip(), port), order, &Stop::default(), &mut |_| {});
    tested.map_err(|error| {
        let theirs = lead.ask(&Method::Get, &format!("{run}?wait-local=true&wait={WAIT_S}"), None);
        let result = theirs.map(|said| said.value()["result"].take()).unwrap_or_default();
        let said = ["error", "diags"].map(|name| result[name].as_str().unwrap_or_default().trim()).join(" ");
        let said: String = said.trim().chars().take(SAID_MAX).collect();
        let theirs = if said.is_empty() { String::new() } else { format!("; its side says: {said}") };
        Failed::new(error.fault(), format!("{}{theirs}", with_causes(&error)))
    })
}

/// The first moment from `from_s` on at which a run of so many seconds has room.
fn room(free: &Value, from_s: f64, seconds: f64) -> Option<f64> {
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
    fn a_run_begins_where_there_is_room() {
        let span = |lower: f64, upper: f64| json!({"lower": show(lower), "upper": show(upper)});
        let free = json!([span(1_000.0, 1_020.0), span(1_030.0, 1_100.0)]);
        assert_eq!(room(&free, 1_003.0, 10.0), Some(1_003.0));
        assert_eq!(room(&free, 1_015.0, 10.0), Some(1_030.0));
        assert_eq!(
            (room(&free, 1_003.0, 100.0), room(&json!([{"lower": 7}]), 0.0, 1.0), room(&Value::Null, 0.0, 1.0)),
            (None, None, None)
        );
    }

    #[test]
    fn what_a_pscheduler_cannot_be_asked_is_refused() {
        let own: IpAddr = "192.0.2.10".parse().unwrap();
        let order = |direction, seconds| Order { direction, seconds, streams: 4, ..Order::default() };
        let said = spec(own, "b.example", &order(Directions::Reverse, 9.5)).unwrap();
        assert_eq!(
            said,
            json!({"schema": 1, "source": "192.0.2.10", "dest": "b.example", "duration": "PT10S", "parallel": 4, "reverse": true})
        );
        assert!(
            spec(own, "b", &order(Directions::Both, 9.0)).is_err()
                && spec(own, "b", &order(Directions::Forward, 0.0)).is_err()
        );
    }
}
