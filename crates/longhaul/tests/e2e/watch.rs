//! The watch as its users see it: a file, a command, a grid; a fault, an alarm with its direction; an archive that outlasts restarts.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::client::{Client, words};
use crate::hub::{Hub, Member};
use crate::node::{Node, Setup};
use crate::wait::{LONG, until, until_some};

/// A node that answers STAMP.
fn node() -> Node {
    Setup::new().data_export("rw").arg("--responders").arg("stamp").start()
}

/// A configuration's table of a node, with a key to it in a file.
fn node_table(name: &str, node: &Node, dir: &Client) -> String {
    let key = dir.write(&format!("{name}.key"), node.grant(&["--export", "data", "--write"]));
    format!("[node.{name}]\naddress = \"{}\"\nkey-file = \"{}\"\nlink = \"1Gbit/s\"\n", node.address(), key.display())
}

/// A watch on some nodes; all times of the judge are a fiftieth.
fn watch(tables: &str, rest: &str, dir: &Client) -> Hub {
    let text = format!("[judge]\nscale = 0.02\nlearn = 4\n{tables}{rest}");
    let file = dir.write("watch.toml", &text);
    Hub::start_in(&std::env::temp_dir(), &["--watch", file.display().to_string().leak()], &[])
}

fn cells(member: &Member<'_>) -> Vec<Value> {
    member.json(&["watch", "grid"])[0]["cells"].as_array().unwrap().clone()
}

fn health(member: &Member<'_>, from: &str, to: &str, test: &str) -> Option<(String, String)> {
    let is_it = |cell: &Value| cell["from"] == from && cell["to"] == to && cell["test"] == test;
    let cell = cells(member).into_iter().find(is_it)?;
    let word = |half: &str| cell[half]["health"].as_str().unwrap().to_owned();
    Some((word("forward"), word("reverse")))
}

fn is_ok(member: &Member<'_>, from: &str, to: &str, test: &str) -> bool {
    health(member, from, to, test) == Some(("ok".into(), "ok".into()))
}

#[test]
fn a_mesh_is_measured_a_lost_node_is_reported_and_history_survives_restarts() {
    let dir = Client::new();
    let (a, b, mut c) = (node(), node(), node());
    let tables = [("a", &a), ("b", &b), ("c", &c)].map(|(name, node)| node_table(name, node, &dir)).concat();
    let group = "[[interface]]\nname = \"nic\"\nsite = \"a\"\nnode = \"a\"\nevery = \"10s\"\n\
                 [[group]]\nlatency = { rate = 20, report = \"1s\" }\npath = { every = \"10s\" }\n\
                 throughput = { every = \"10s\", lasts = \"1s\", waits-for-transfers = false }\n";
    let mut hub = watch(&tables, group, &dir);
    let operator_key = hub.grant(&["--role", "operator", "--name", "noc"]);
    let operator = hub.with_key(&operator_key);
    until("all pairs are measured", LONG, || {
        ["latency", "path"]
            .iter()
            .all(|test| [("a", "b"), ("a", "c"), ("b", "c")].iter().all(|(x, y)| is_ok(&operator, x, y, test)))
    });
    let text = operator.run(&["watch", "grid", "--test", "latency"]).expect(0).text();
    assert!(text.lines().count() == 4 && text.contains("+ 0.0 % lost"), "{text}");
    let nodes = operator.json(&["watch", "nodes"]);
    assert!(nodes[0].to_string().contains("measurements"), "{nodes:?}");
    until("all nodes report their largest users", LONG, || {
        operator.json(&["watch", "talkers", "--window", "start"])[0]["nodes"].as_array().unwrap().len() == 3
    });
    until("the NICs of a node's host are read", LONG, || {
        operator.json(&["watch", "interfaces"])[0]["interfaces"][0]["in_bit_s"].is_number()
    });
    let tested = || {
        let why = operator.json(&["watch", "why", "a", "b"]).remove(0);
        why["forward"]["throughput_bit_s"].as_f64()
    };
    let rate = until_some("TCP is tested in its slot", Duration::from_secs(150), tested);
    assert!(rate > 1e6, "{rate}");
    c.kill();
    let alarms = || operator.json(&["watch", "alarms"])[0]["alarms"].as_array().unwrap().clone();
    let silent = || {
        let of_c = |alarm: &Value| alarm["kind"] == "silent" && alarm["to"] == "c" && alarm["id"].as_i64() > Some(0);
        (alarms().iter().filter(|alarm| of_c(alarm)).count() == 2).then(alarms)
    };
    let silent_alarms = until_some("both paths to it are silent", LONG, silent);
    let checked = operator.run(&["watch", "check", "a", "c"]);
    assert!(checked.expect(2).text().starts_with("CRITICAL - a to c: nothing has answered"));
    operator.run(&["watch", "check"]).expect(2);
    let id = silent_alarms.iter().find(|alarm| alarm["kind"] == "silent").unwrap()["id"].to_string();
    let user = hub.member("user", "reader", "");
    user.run(&["watch", "acknowledge", &id]).expect(4);
    let seen = operator.json(&["watch", "acknowledge", &id, "--note", "power is off"]);
    assert_eq!(seen[0]["acknowledged"]["by"], "noc");
    operator.run(&["watch", "note", "power work at c"]).expect(0);
    assert!(operator.run(&["watch", "why", "nowhere", "c"]).expect(1).err.contains("nothing is watched"));
    c.restart();
    until("it is measured again", LONG, || is_ok(&operator, "a", "c", "latency"));
    let rows = |member: &Member<'_>| {
        member.json(&["watch", "history", "b", "a", "--rows", "500"])[0]["rows"].as_array().unwrap().len()
    };
    let before = rows(&operator);
    drop((operator, user));
    hub.restart();
    let operator = hub.with_key(&operator_key);
    assert!(before > 0 && rows(&operator) >= before, "what was measured outlasts the watch");
    until("it continues", LONG, || is_ok(&operator, "b", "c", "latency"));
    assert!(!operator.json(&["watch", "alarms", "--since", "1h"])[0]["alarms"].as_array().unwrap().is_empty());
}

#[test]
fn counters_of_an_interface_are_read_and_resume_after_a_restart() {
    let dir = Client::new();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    // A gigabit a second.
    let line = |minute: u64| format!("{},{}\n", now - 600 + minute * 60, minute * 7_500_000_000);
    let counted = |minutes: u64| format!("time,in_octets\n{}", (0..minutes).map(line).collect::<String>());
    let file = dir.write("counters.csv", counted(4));
    let interface = format!(
        "[[interface]]\nname = \"border\"\nsite = \"geneva\"\ncapacity = \"10Gbit/s\"\nevery = \"10s\"\ncsv = \"{}\"\n",
        file.display()
    );
    let mut hub = watch("", &interface, &dir);
    let key = hub.grant(&["--role", "user", "--name", "reader"]);
    let rows = |member: &Member<'_>| -> Vec<Value> {
        let found = member.run(&["watch", "history", "border", "--since", "1h", "--rows", "100", "--json"]);
        let history: Option<Value> = found.text().lines().next().and_then(|line| serde_json::from_str(line).ok());
        history.and_then(|history| Some(history["rows"].as_array()?.clone())).unwrap_or_default()
    };
    let member = hub.with_key(&key);
    until("the file is read", LONG, || rows(&member).len() == 3);
    let text = member.run(&["watch", "interfaces"]).expect(0).text();
    assert!(text.contains("border") && text.contains("1.00 Gbit/s (10 %)"), "{text}");
    assert!(member.run(&["watch", "history", "other"]).expect(1).err.contains("no counters of an interface other"));
    drop(member);
    dir.write("counters.csv", counted(8));
    hub.restart();
    let member = hub.with_key(&key);
    until("the new rows of the file are read", LONG, || rows(&member).len() == 7);
    assert!(rows(&member).iter().all(|row| row[1] == 1e9), "no row is missing, and none is there twice");
}

/// A path for datagrams that loses every `one_of`th one in the forward direction, and none where that is 0.
struct LossyPath {
    at: SocketAddr,
    /// Of the same address: see [`LossyPath::relay_connections`].
    listener: TcpListener,
    over: Arc<AtomicBool>,
    one_of: Arc<AtomicU64>,
}

impl LossyPath {
    fn to(far: SocketAddr) -> LossyPath {
        let (socket, listener) = socket_and_listener();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (at, over, one_of) =
            (socket.local_addr().unwrap(), Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (is_over, loses) = (Arc::clone(&over), Arc::clone(&one_of));
        std::thread::spawn(move || {
            let mut sockets: HashMap<SocketAddr, UdpSocket> = HashMap::new();
            let (mut buffer, mut count) = ([0; 2048], 0u64);
            while !is_over.load(Ordering::SeqCst) {
                let Ok((bytes, from)) = socket.recv_from(&mut buffer) else { continue };
                let out = sockets.entry(from).or_insert_with(|| {
                    let out = UdpSocket::bind("127.0.0.1:0").unwrap();
                    out.connect(far).unwrap();
                    let (back, home) = (out.try_clone().unwrap(), socket.try_clone().unwrap());
                    std::thread::spawn(move || {
                        let mut buffer = [0; 2048];
                        while let Ok(bytes) = back.recv(&mut buffer) {
                            let _ = home.send_to(&buffer[..bytes], from);
                        }
                    });
                    out
                });
                count += 1;
                let one_of = loses.load(Ordering::SeqCst);
                if one_of == 0 || !count.is_multiple_of(one_of) {
                    let _ = out.send(&buffer[..bytes]);
                }
            }
            // Wakes the threads that wait for answers.
            sockets.values().for_each(|out| drop(out.send_to(&[0], out.local_addr().unwrap())));
        });
        LossyPath { at, listener, over, one_of }
    }

    /// Relays connections to `far`, so that the path can stand for a node.
    fn relay_connections(&self, far: SocketAddr) {
        let listener = self.listener.try_clone().unwrap();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (Ok(near), Ok(far)) = (near, TcpStream::connect(far)) else { continue };
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Write);
                    });
                }
            }
        });
    }
}

/// A socket for datagrams and a listener for connections at one address: the port of one may be taken for the other.
fn socket_and_listener() -> (UdpSocket, TcpListener) {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        match UdpSocket::bind(listener.local_addr().unwrap()) {
            Ok(socket) => return (socket, listener),
            Err(error) => assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}"),
        }
    }
}

impl Drop for LossyPath {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

#[test]
fn loss_is_reported_with_its_direction_and_a_nearby_event() {
    let dir = Client::new();
    let (a, far) = (node(), node());
    let path = LossyPath::to(far.address().parse().unwrap());
    let tables = node_table("a", &a, &dir) + &format!("[target.far]\nurl = \"stamp://{}\"\n", path.at);
    let group = "[[group]]\nmode = \"island\"\nto = [\"far\"]\nlatency = { rate = 100, report = \"1s\", ports = 4 }\n\
                 throughput = false\npath = false\n";
    let hub = watch(&tables, group, &dir);
    let operator = hub.member("operator", "noc", "");
    until("it is measured", LONG, || is_ok(&operator, "a", "far", "latency"));
    operator.run(&["watch", "note", "firewall update", "--place", "far"]).expect(0);
    path.one_of.store(50, Ordering::SeqCst);
    let alarms = || operator.json(&["watch", "alarms"])[0]["alarms"].as_array().unwrap().clone();
    // On a busy machine the cause is congestion for a while, and packets are late that nobody knows the direction of.
    let wanted = [("kind", "loss"), ("direction", "forward"), ("cause", "random_loss")];
    let lost = until_some("loss is reported with its direction and cause", LONG, || {
        alarms().into_iter().find(|alarm| wanted.iter().all(|(field, value)| alarm[*field] == *value))
    });
    assert!(lost["event"].as_str().unwrap().contains("firewall update"), "{lost}");
    assert!(lost["evidence"].as_str().unwrap().contains("packets lost forward"), "{lost}");
    until("only the way there is not well", LONG, || {
        let (forward, reverse) = health(&operator, "a", "far", "latency").unwrap();
        forward != "ok" && reverse == "ok"
    });
    until("the reason is shown", LONG, || {
        let text = operator.run(&["watch", "why", "far", "a"]).expect(0).text();
        text.contains("a to far") && text.contains("cause: random_loss")
    });
    path.one_of.store(0, Ordering::SeqCst);
    until("it is over", LONG, || alarms().iter().all(|alarm| alarm["kind"] != "loss"));
}

#[test]
fn an_alarm_of_loss_has_the_path_tested_from_many_ports() {
    let dir = Client::new();
    let (a, b) = (node(), node());
    let path = LossyPath::to(b.address().parse().unwrap());
    path.relay_connections(b.address().parse().unwrap());
    let far = node_table("b", &b, &dir).replace(&b.address().to_string(), &path.at.to_string());
    let group = "[[group]]\nmode = \"island\"\nfrom = [\"a\"]\nto = [\"b\"]\nlatency = { rate = 100, report = \"1s\", ports = 4 }\n\
                 throughput = false\npath = false\n";
    let hub = watch(&(node_table("a", &a, &dir) + &far), group, &dir);
    let operator = hub.member("operator", "noc", "");
    until("it is measured", LONG, || is_ok(&operator, "a", "b", "latency"));
    path.one_of.store(50, Ordering::SeqCst);
    let found = until_some("the evidence has the result of the tests", Duration::from_secs(150), || {
        let alarms = operator.json(&["watch", "alarms"])[0]["alarms"].as_array().unwrap().clone();
        alarms
            .into_iter()
            .find(|alarm| alarm["kind"] == "loss" && alarm["evidence"].to_string().contains("tests ordered at"))
    });
    let evidence = found["evidence"].as_str().unwrap();
    assert!(evidence.contains("probes from 32 source ports") && evidence.contains("bytes pass"), "{evidence}");
    let history = operator.json(&["watch", "history", "a", "b", "--test", "path", "--since", "1h"]).remove(0);
    assert!(!history["rows"].as_array().unwrap().is_empty(), "it is archived: {history}");
}

#[test]
fn another_domain_finds_our_nodes_by_a_signed_directory() {
    let (dir, a) = (Client::new(), node());
    let rest = "[[show]]\nto = \"ska\"\nnetworks = [\"127.0.0.0/8\"]\nplaces = [\"a\"]\n[[group]]\nthroughput = false\n\
                [node.inner]\naddress = \"inner.example\"\n";
    let file = dir.write("watch.toml", format!("domain = \"janet\"\n{}{rest}", node_table("a", &a, &dir)));
    let words = ["--plain", "--watch", file.display().to_string().leak()];
    let hub = Hub::start_in(&std::env::temp_dir(), &words, &[]);
    let key = hub.member("user", "reader", "").run(&["watch", "directory"]).expect(0).text().trim().to_owned();
    let url = format!("{}/api/v1/watch/directory", hub.url.replace("https://", "http://"));
    let found = dir.run(words!["watch", "find", url, "--key", key]).expect(0).text();
    let wanted = format!("url = \"lh://{}\"", a.address());
    assert!(found.contains(&wanted) && found.contains("domain = \"janet\"") && !found.contains("inner"), "{found}");
    let other = format!("ed25519:{}", "A".repeat(43));
    let refused = dir.run(words!["watch", "find", url, "--key", other]).expect(2);
    assert!(refused.err.contains("not signed with"), "{}", refused.err);
}

#[test]
fn a_template_is_imported_and_its_errors_are_named() {
    let dir = Client::new();
    let part = dir.write("schedules.json", r#"{"schedules":{"s":{"repeat":"PT4H"}}}"#);
    let template = dir.write(
        "mesh.json",
        r#"{"includes":["file://PART"],"addresses":{"a":{"address":"a.example"},"b":{"address":"b.example"}},
            "groups":{"g":{"type":"mesh","addresses":[{"name":"a"},{"name":"b"}]}},
            "archives":{"old":{"archiver":"esmond","data":{}}},
            "tests":{"t":{"type":"throughput","spec":{"duration":"PT30S","parallel":2}}},
            "tasks":{"x":{"group":"g","test":"t","schedule":"s"}}}"#
            .replace("PART", &part.display().to_string()),
    );
    let out = dir.path("watch.toml");
    let done = dir.run(words!["watch", "import", template, "--out", out]);
    assert!(done.expect(0).err.contains("archive old is not imported"));
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.contains("[node.a]") && text.contains("every = \"14400s\"") && text.contains("streams = 2"), "{text}");
    let bad = dir.write("bad.json", "{\"addresses\":{}}");
    let refused = dir.run(words!["watch", "import", bad]);
    assert!(refused.expect(2).err.contains("no groups"));
    let config = dir.write("bad.toml", "[[group]]\nmode = \"star\"\n");
    let refused = dir.run(words!["watch", "serve", "--config", config]);
    assert!(refused.expect(2).err.contains("mesh, island"));
}
