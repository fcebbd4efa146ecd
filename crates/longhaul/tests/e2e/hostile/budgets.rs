//! The memory that one holder of a key can fill at a node is bounded in bytes, and displaces nothing of other holders.

use std::fs;
use std::time::{Duration, Instant};

use model::id::Uuid;
use model::locator::HostPort;
use model::name::RelPath;
use model::spec::Filter;
use serde_json::Value;
use wire::Frame;
use wire::frame::{DelegationOrder, Direction, KeyProof, Request};

use super::measures::{bytes_below, memory};
use super::requests::Requests;
use super::session::{Session, order_at, place};
use crate::node::{Node, Setup};
use crate::wait::{LONG, until};

const MIB: u64 = 1 << 20;
/// The most by which a node may grow, whatever one holder orders.
const GROWTH_MAX: u64 = 64 * MIB;
/// The lists of one holder take at most 96 MiB, as docs/security.md says; the rest is for the buffers through which they come.
const LISTS_MAX: u64 = 160 * MIB;
const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

fn plain() -> Node {
    let node = Setup::new().data_export("rw").arg("--plain").start();
    fs::write(node.data("f"), b"here").unwrap();
    node
}

fn writer(node: &Node) -> String {
    node.grant(&["--export", "data", "--write"])
}

/// The memory and the bytes of state that a node uses at one moment.
struct NodeUsage {
    memory: u64,
    state: u64,
}

impl NodeUsage {
    fn of(node: &Node) -> NodeUsage {
        NodeUsage { memory: memory(node), state: bytes_below(&node.state()) }
    }

    #[track_caller]
    fn assert_bounded(&self, node: &Node, what: &str) {
        let memory = memory(node).saturating_sub(self.memory);
        let state = bytes_below(&node.state()).saturating_sub(self.state);
        assert!(memory <= GROWTH_MAX, "{what}: {} MiB more memory", memory / MIB);
        assert!(state <= GROWTH_MAX, "{what}: {} MiB more in the state directory", state / MIB);
    }
}

/// A path that is nearly as long as paths are.
fn long_path(n: usize) -> String {
    vec![format!("{n:0>200}"); 19].join("/")
}

/// An order by the API that fails at once: there is no node at the other end.
fn order(id: Uuid, sources: &str, filters: &str) -> String {
    let node = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    format!(
        "{{\"id\":\"{id}\",\"source\":[{sources}],\"target\":\"lh://127.0.0.1:1/data/x/\",\"retry_for_s\":0,\
         \"node\":\"{node}\",\"options\":{{\"filters\":[{filters}]}}}}"
    )
}

#[test]
fn large_orders_of_one_holder_are_bounded() {
    let node = plain();
    let key = writer(&node);
    let before = NodeUsage::of(&node);
    let mut requests = Requests::new(&node, Some(&key));
    let pattern = format!("{{\"include\":true,\"pattern\":\"{}\"}}", "x".repeat(4000));
    let filters = vec![pattern; 10].join(",");
    let sources = (0..225).map(|n| format!("\"/data/{}\"", long_path(n))).collect::<Vec<_>>().join(",");
    let mut accepted = 0;
    for _ in 0..84 {
        let status =
            requests.status("POST", "/api/v1/transfers", &JSON, order(Uuid::now_v7(), &sources, &filters).as_bytes());
        assert!(status == 201 || (400..500).contains(&status) || [503, 507].contains(&status), "{status}");
        accepted += usize::from(status == 201);
    }
    // Waiting orders and ended ones alike; refused orders cost nothing.
    before.assert_bounded(&node, &format!("{accepted} orders of 0.9 MB were accepted"));
    assert_eq!(requests.status("GET", "/data/f", &[], b""), 200);
}

#[test]
fn large_native_orders_of_one_holder_are_bounded() {
    let node = plain();
    let key = writer(&node);
    let before = NodeUsage::of(&node);
    let filter = Filter { include: true, pattern: "x".repeat(4000) };
    let sources: Vec<_> = (0..120).map(|n| place("data", &long_path(n))).collect();
    let mut session = Session::open(&node, Some(&key)).unwrap();
    let mut accepted = 0;
    for _ in 0..145 {
        let mut order = order_at(Direction::Push, place("data", "x"));
        order.options.filters = vec![filter.clone(); 2];
        let to = HostPort { host: "127.0.0.1".into(), port: 1 };
        let key = KeyProof { id: [7; 8], secret: [7; 32] };
        let delegation =
            DelegationOrder { order, sources: sources.clone(), to, node: [7; 32], key, plain: false, retry_for_s: 0 };
        accepted += usize::from(session.ask_text(Request::Carry(Box::new(delegation))).is_ok());
    }
    before.assert_bounded(&node, &format!("{accepted} orders of 480 KB were accepted"));
}

#[test]
fn a_session_that_lists_and_sends_much_is_bounded() {
    let node = plain();
    let key = writer(&node);
    fs::create_dir(node.data("many")).unwrap();
    for n in 0..5_000 {
        fs::write(node.data("many").join(format!("{n:0>200}")), b"").unwrap();
    }
    let before = NodeUsage::of(&node);
    // Each requests everything and reads nothing of it.
    let mut open: Vec<Session> = (0..24).map(|_| Session::open(&node, Some(&key)).unwrap()).collect();
    for session in &mut open {
        session
            .raw_client
            .send_raw(&crate::raw_client::encoded(&Frame::Request(1, Request::List(place("data", "many")))));
    }
    let mut most = 0;
    let deadline = Instant::now() + Duration::from_millis(1500);
    while Instant::now() < deadline {
        most = most.max(memory(&node).saturating_sub(before.memory));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(most <= GROWTH_MAX, "{} MiB for {} listings that are not read", most / MIB, open.len());
}

/// Names of files to send, a little less than a message holds.
fn names() -> Vec<u8> {
    let name = |n: u32| RelPath::parse(format!("{n:0>230}").as_bytes()).unwrap();
    crate::raw_client::encoded(&Frame::Files((0..2000).map(|n| (name(n), name(n))).collect(), true))
}

#[test]
fn lists_of_names_of_one_holder_are_bounded() {
    let node = plain();
    let key = writer(&node);
    let (before, names) = (NodeUsage::of(&node), names());
    assert!(names.len() > 900_000 && names.len() < 1 << 20, "{}", names.len());
    let mut most = 0;
    let mut open: Vec<Session> = (0..4).map(|_| Session::open(&node, Some(&key)).unwrap()).collect();
    for session in &mut open {
        let order = order_at(Direction::Pull, place("data", ""));
        session.raw_client.send(&Frame::Open(wire::frame::Open { listed: true, ..order }));
    }
    for _ in 0..56 {
        for session in &mut open {
            // A refused session gets a refusal or a closed connection: the others continue.
            session.raw_client.send_raw(&names);
        }
        most = most.max(memory(&node).saturating_sub(before.memory));
    }
    assert!(most <= LISTS_MAX, "{} MiB for the lists of one holder", most / MIB);
    drop(open);
    assert_eq!(Requests::new(&node, Some(&key)).status("GET", "/data/f", &[], b""), 200);
}

fn transfer(requests: &mut Requests<'_>, id: Uuid) -> Value {
    let transfer = requests.ask("GET", &format!("/api/v1/transfers/{id}"), &[], b"");
    serde_json::from_slice(&transfer.body).unwrap()
}

/// Copies one ended transfer under other ids until there are as many as one holder could have.
fn multiply(node: &Node, id: Uuid, times: u128) {
    let dir = node.state().join("transfers");
    let names = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let name = names.into_iter().find(|name| name.contains(&id.to_string())).unwrap();
    let text = fs::read_to_string(dir.join(&name)).unwrap();
    for n in 1..=times {
        let other = Uuid::from_u128(id.as_u128() + n).to_string();
        fs::write(dir.join(name.replace(&id.to_string(), &other)), text.replace(&id.to_string(), &other)).unwrap();
    }
}

#[test]
fn many_orders_of_one_holder_displace_none_of_another_holder() {
    let (mut node, far) = (plain(), Node::closed());
    let (key, flood, there) = (writer(&node), writer(&node), writer(&far));
    let (id, flooded) = (Uuid::now_v7(), Uuid::now_v7());
    let body = format!(
        "{{\"id\":\"{id}\",\"source\":[\"/data/f\"],\"target\":\"{}\",\"credentials\":{{\"key\":\"{there}\"}}}}",
        far.at("data/came")
    );
    let ended = |node: &Node, key: &str, id: Uuid| {
        let state = transfer(&mut Requests::new(node, Some(key)), id)["state"].clone();
        state == "done" || state == "failed"
    };
    let ask = |node: &Node, key: &str, body: &str| {
        Requests::new(node, Some(key)).status("POST", "/api/v1/transfers", &JSON, body.as_bytes())
    };
    assert_eq!(ask(&node, &key, &body), 201);
    until("the transfer is done", LONG, || ended(&node, &key, id));
    assert_eq!(fs::read(far.data("came")).unwrap(), b"here");
    fs::remove_file(far.data("came")).unwrap();
    assert_eq!(ask(&node, &flood, &order(flooded, "\"/data/f\"", "")), 201);
    until("the flood has begun", LONG, || ended(&node, &flood, flooded));
    let is_kept_as_ended =
        |path: std::path::PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains("\"ended\""));
    until("both are kept as ended", LONG, || {
        fs::read_dir(node.state().join("transfers")).unwrap().all(|entry| is_kept_as_ended(entry.unwrap().path()))
    });
    node.stop();
    multiply(&node, flooded, 10_100);
    node.restart();
    let shown = transfer(&mut Requests::new(&node, Some(&key)), id);
    assert_eq!(shown["state"], "done", "10,100 orders of another holder displaced it: {shown}");
    // The same order again is the same transfer, and does not run again; nor does an order that the node has already forgotten.
    assert_eq!(ask(&node, &key, &body), 200);
    let again = ask(&node, &flood, &order(flooded, "\"/data/f\"", ""));
    assert_ne!(again, 201, "an ended id was taken for a new one");
    assert!(!far.data("came").exists(), "the transfer ran again");
}
