//! What one holder can have a node remember is bounded in bytes, and pushes out nothing of anybody else's.

use std::fs;
use std::time::{Duration, Instant};

use model::id::Uuid;
use model::locator::HostPort;
use model::spec::Filter;
use serde_json::Value;
use wire::frame::{Direction, Errand, KeyProof, Request};

use super::measures::{bytes_below, memory};
use super::requests::Requests;
use super::session::{Session, order_at, place};
use crate::node::{Node, Setup};
use crate::wait::{LONG, until, until_some};

const MIB: u64 = 1 << 20;
/// What a node may grow by, whatever one holder orders.
const GROWTH_MAX: u64 = 64 * MIB;
const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

fn plain() -> Node {
    let node = Setup::new().data_export("rw").arg("--plain").start();
    fs::write(node.data("f"), b"here").unwrap();
    node
}

fn writer(node: &Node) -> String {
    node.grant(&["--export", "data", "--write"])
}

/// Memory and state of a node before something.
struct Before {
    memory: u64,
    state: u64,
}

impl Before {
    fn of(node: &Node) -> Before {
        Before { memory: memory(node), state: bytes_below(&node.state()) }
    }

    #[track_caller]
    fn assert_bounded(&self, node: &Node, what: &str) {
        let memory = memory(node).saturating_sub(self.memory);
        let state = bytes_below(&node.state()).saturating_sub(self.state);
        assert!(memory <= GROWTH_MAX, "{what}: {} MiB more memory", memory / MIB);
        assert!(state <= GROWTH_MAX, "{what}: {} MiB more in the state directory", state / MIB);
    }
}

/// An order by the API that fails at once: nobody is at the other end.
fn order(id: Uuid, filters: &str) -> String {
    let node = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    format!(
        "{{\"id\":\"{id}\",\"source\":[\"/data/f\"],\"target\":\"lh://127.0.0.1:1/data/x\",\"retry_for_s\":0,\
         \"node\":\"{node}\",\"options\":{{\"filters\":[{filters}]}}}}"
    )
}

#[test]
fn large_orders_of_one_holder_are_bounded() {
    let node = plain();
    let key = writer(&node);
    let before = Before::of(&node);
    let mut requests = Requests::new(&node, Some(&key));
    let pattern = format!("{{\"include\":true,\"pattern\":\"{}\"}}", "x".repeat(4000));
    let filters = vec![pattern; 225].join(",");
    let mut taken = 0;
    for _ in 0..160 {
        let status = requests.status("POST", "/api/v1/transfers", &JSON, order(Uuid::now_v7(), &filters).as_bytes());
        assert!(status == 201 || (400..500).contains(&status) || [503, 507].contains(&status), "{status}");
        taken += usize::from(status == 201);
    }
    // Those that wait and those that have ended alike; what was refused costs nothing.
    before.assert_bounded(&node, &format!("{taken} orders of 0.9 MB were taken"));
    assert_eq!(requests.status("GET", "/data/f", &[], b""), 200);
}

#[test]
fn large_native_orders_of_one_holder_are_bounded() {
    let node = plain();
    let key = writer(&node);
    let before = Before::of(&node);
    let filter = Filter { include: true, pattern: "x".repeat(4000) };
    let mut session = Session::open(&node, Some(&key)).unwrap();
    let (mut taken, deadline) = (0, Instant::now() + LONG);
    for _ in 0..320 {
        assert!(Instant::now() < deadline);
        let mut order = order_at(Direction::Push, place("data", "x"));
        order.options.filters = vec![filter.clone(); 120];
        let to = HostPort { host: "127.0.0.1".into(), port: 1 };
        let key = KeyProof { id: [7; 8], secret: [7; 32] };
        let sources = vec![place("data", "f")];
        let errand = Errand { order, sources, to, node: [7; 32], key, plain: false, retry_for_s: 0 };
        taken += usize::from(session.told(Request::Carry(Box::new(errand))).is_ok());
    }
    before.assert_bounded(&node, &format!("{taken} orders of 480 KB were taken"));
}

#[test]
fn a_session_that_lists_and_sends_much_is_bounded() {
    let node = plain();
    let key = writer(&node);
    fs::create_dir(node.data("many")).unwrap();
    for n in 0..20_000 {
        fs::write(node.data("many").join(format!("{n:0>200}")), b"").unwrap();
    }
    let before = Before::of(&node);
    // Each asks for everything and takes nothing of it.
    let mut open: Vec<Session> = (0..24).map(|_| Session::open(&node, Some(&key)).unwrap()).collect();
    for session in &mut open {
        session.guest.say_raw(&crate::guest::encoded(&wire::Frame::Ask(1, Request::List(place("data", "many")))));
    }
    let mut most = 0;
    let until_when = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until_when {
        most = most.max(memory(&node).saturating_sub(before.memory));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(most <= GROWTH_MAX, "{} MiB for {} listings that nobody reads", most / MIB, open.len());
}

fn told(requests: &mut Requests<'_>, id: Uuid) -> Value {
    let told = requests.ask("GET", &format!("/api/v1/transfers/{id}"), &[], b"");
    serde_json::from_slice(&told.body).unwrap()
}

#[test]
fn many_orders_of_one_holder_push_out_none_of_anothers() {
    let (node, far) = (plain(), Node::closed());
    let (key, flood, there) = (writer(&node), writer(&node), writer(&far));
    let mut requests = Requests::new(&node, Some(&key));
    let id = Uuid::now_v7();
    let body = format!(
        "{{\"id\":\"{id}\",\"source\":[\"/data/f\"],\"target\":\"{}\",\"credentials\":{{\"key\":\"{there}\"}}}}",
        far.at("data/came")
    );
    requests.ask("POST", "/api/v1/transfers", &JSON, body.as_bytes()).expect(201);
    until("the transfer is done", LONG, || told(&mut requests, id)["state"] == "done");
    assert_eq!(fs::read(far.data("came")).unwrap(), b"here");
    fs::remove_file(far.data("came")).unwrap();
    let (mut flooding, mut taken, deadline) = (Requests::new(&node, Some(&flood)), 0, Instant::now() + LONG);
    let mut first = None;
    for _ in 0..10_100 {
        let new = Uuid::now_v7();
        let status = flooding.status("POST", "/api/v1/transfers", &JSON, order(new, "").as_bytes());
        taken += usize::from(status == 201);
        first = first.or((status == 201).then_some(new));
        if status != 201 || Instant::now() > deadline {
            break;
        }
    }
    until_some("the flood has ended", LONG, || {
        let list = flooding.ask("GET", "/api/v1/transfers?limit=10000&state=queued", &[], b"");
        let list: Value = serde_json::from_slice(&list.body).ok()?;
        list["transfers"].as_array()?.is_empty().then_some(())
    });
    let shown = told(&mut requests, id);
    assert_eq!(shown["state"], "done", "{taken} orders of another holder pushed it out: {shown}");
    // The same order again is the same transfer, and does not run again; nor does the flood's own first.
    let again = requests.ask("POST", "/api/v1/transfers", &JSON, body.as_bytes());
    assert_eq!(again.status, 200, "{}", again.text());
    let status = flooding.status("POST", "/api/v1/transfers", &JSON, order(first.unwrap(), "").as_bytes());
    assert_ne!(status, 201, "an id that had ended was taken for a new one after {taken} others");
    assert!(!far.data("came").exists(), "the transfer ran again");
}
