//! Top talkers by address, user and family, for clients that may see the whole node.

use std::fs;
use std::net::TcpStream;

use model::v1::flows::{Flows, User, Window};

use crate::client::{Client, words};
use crate::node::{Node, Setup};
use crate::tree::pattern;
use crate::wait::{LONG, until, until_some};
use crate::web::raw::Raw;

const LARGE: u64 = 6 << 20;

fn flows(node: &Node, key: &str) -> Flows {
    let fields = [("Authorization", format!("Bearer {key}"))];
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let answer = Raw::sealed(node).ask("GET", "/api/v1/flows", &fields, &[]).expect(200);
    assert_eq!(answer.field("content-type"), Some("application/json"));
    serde_json::from_slice(&answer.body).unwrap()
}

fn start(node: &Node, key: &str) -> Window {
    flows(node, key).windows.remove(2)
}

fn of<'a>(window: &'a Window, name: &str) -> Option<&'a User> {
    window.users.iter().find(|user| user.user.contains(name))
}

fn bytes(hosts: &[model::v1::flows::Host], address: &str) -> u64 {
    hosts.iter().find(|host| host.address == address).map_or(0, |host| host.bytes)
}

#[test]
fn top_talkers_are_counted_by_family_and_direction() {
    let node = Setup::new().on_both_families().data_export("rw").start();
    fs::write(node.data("down"), pattern(LARGE as usize)).unwrap();
    let key = node.grant(&["--export", "data", "--write", "--name", "site B"]);
    let client = Client::with_key(&key);
    client.write("up", pattern(LARGE as usize / 2));
    client.cp(0, words![client.path("up"), node.at("data/up")]);
    client.cp(0, words![format!("lh://[::1]:{}/data/down", node.port), client.path("down")]);
    // By HTTP too, over IPv6.
    let bearer = format!("Bearer {key}");
    let mut raw = Raw::sealed_over(TcpStream::connect(("::1", node.port)).unwrap());
    raw.ask("PUT", "/data/web", &[("Authorization", &bearer)], b"web").expect(201);
    let window = until_some("all has been counted", LONG, || {
        let window = start(&node, &key);
        let requests = of(&window, "site B").map_or(0, |user| user.volume.requests);
        (requests >= 3 && window.ipv6?.bytes_out == LARGE).then_some(window)
    });
    let (four, six) = (window.ipv4.unwrap(), window.ipv6.unwrap());
    assert_eq!((four.bytes_in, four.bytes_out), (LARGE / 2, 0));
    assert_eq!((six.bytes_in, six.bytes_out), (3, LARGE));
    assert_eq!(window.all.unwrap().bytes(), LARGE / 2 + LARGE + 3);
    assert_eq!((bytes(&window.sources, "127.0.0.1"), bytes(&window.sources, "::1")), (LARGE / 2, 3));
    assert_eq!((bytes(&window.targets, "127.0.0.1"), bytes(&window.targets, "::1")), (0, LARGE));
    let user = of(&window, "site B").unwrap();
    assert_eq!((user.volume.bytes_in, user.volume.bytes_out), (LARGE / 2 + 3, LARGE));
    assert_eq!((user.volume.files_in, user.volume.files_out, user.missed_bytes_max), (2, 1, 0));
    assert!(user.rate_bit_s > 0);
    // As the audit log names them.
    let audit_log = fs::read_to_string(node.state().join("audit.jsonl")).unwrap();
    assert!(audit_log.contains(&format!("\"who\":\"{}\"", user.user)), "{} in {audit_log}", user.user);
}

#[test]
fn a_client_of_a_part_of_the_node_sees_only_its_own_row() {
    let setup = Setup::new().data_export("rw");
    let other = setup.data().with_file_name("other");
    fs::create_dir(&other).unwrap();
    let node = setup.export("other", &other, "ro").arg("--anonymous").arg("ro").start();
    let keys = ["mine", "theirs"].map(|name| {
        let key = node.grant(&["--export", "data", "--path", name, "--write", "--name", name]);
        let client = Client::with_key(&key);
        client.write("f", pattern(1000));
        client.cp(0, words![client.path("f"), node.at(&format!("data/{name}/f"))]);
        key
    });
    until("my row is there", LONG, || of(&start(&node, &keys[0]), "mine").is_some());
    let report = flows(&node, &keys[0]);
    assert!(!report.whole_node);
    for window in &report.windows {
        assert!(window.sources.is_empty() && window.targets.is_empty() && window.all.is_none(), "{window:?}");
        assert!(window.users.iter().all(|user| user.user.contains("mine")), "{window:?}");
    }
    // A key for one whole export does not cover two.
    let one = node.grant(&["--export", "data", "--write"]);
    assert!(!flows(&node, &one).whole_node);
    // A client without a key sees nothing, although everything may be read: not even on the host itself.
    let refused = Raw::sealed(&node).ask("GET", "/api/v1/flows", &[], &[]).expect(401);
    assert!(!refused.text().contains("mine"));
}

#[test]
fn the_query_decides_the_number_of_rows() {
    let node = Node::closed();
    let key = node.grant(&["--export", "data"]);
    let bearer = format!("Bearer {key}");
    let ask = |query: &str| {
        let target = format!("/api/v1/flows{query}");
        Raw::sealed(&node).ask("GET", &target, &[("Authorization", &bearer)], &[]).status
    };
    assert_eq!((ask(""), ask("?top=1"), ask("?top=0"), ask("?top=many")), (200, 200, 400, 400));
    assert_eq!(Raw::sealed(&node).ask("DELETE", "/api/v1/flows", &[("Authorization", &bearer)], &[]).status, 405);
    let report = flows(&node, &key);
    assert!(report.whole_node && report.v == 1);
    let names: Vec<&str> = report.windows.iter().map(|window| window.window.as_str()).collect();
    assert_eq!(names, ["minute", "hour", "start"]);
}
