//! The metrics of a node: they agree with what was moved, never shrink, and are shown only to permitted clients.

mod access;
mod exposition;
mod names;
mod talkers;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use self::exposition::{Numbers, read};
use crate::client::{Client, words};
use crate::node::{Node, Setup};
use crate::tree::pattern;
use crate::wait::{LONG, skipped, until};
use crate::web::peers::{Peer, honest};
use crate::web::raw::{Raw, ask};

/// Waits until all of these metrics have their values at once: a request may be answered a moment before it is counted.
#[track_caller]
fn wait_for_values(node: &Node, wanted: &[(&str, f64)]) -> Numbers {
    let deadline = Instant::now() + LONG;
    loop {
        let all = read(node);
        let others: Vec<_> = wanted.iter().map(|(series, value)| (*series, *value, all.of(series))).collect();
        if others.iter().all(|(_, value, found)| value == found) {
            return all;
        }
        assert!(Instant::now() < deadline, "not all have their values (series, wanted, found): {others:#?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a metric has this value.
#[track_caller]
fn wait_for_value(node: &Node, series: &str, value: f64) {
    wait_for_values(node, &[(series, value)]);
}

fn moved(protocol: &str, direction: &str) -> String {
    format!("longhaul_moved_bytes_total{{protocol=\"{protocol}\",direction=\"{direction}\"}}")
}

fn files(protocol: &str, direction: &str) -> String {
    moved(protocol, direction).replace("bytes", "files")
}

fn ended(protocol: &str, outcome: &str) -> String {
    format!("longhaul_jobs_ended_total{{protocol=\"{protocol}\",outcome=\"{outcome}\"}}")
}

const LARGE: usize = 24 << 20;

#[test]
fn native_copies_are_counted_in_both_directions() {
    let node = Node::closed();
    let client = Client::with_key(&node.grant(&["--export", "data", "--write"]));
    client.write("t/large", pattern(LARGE));
    client.write("t/small", b"small");
    let tree = LARGE as f64 + 5.0;
    client.cp(0, words!["-r", client.path("t"), node.at("data/t")]);
    let ended = ended("native", "done");
    let [bytes_in, bytes_out] = ["in", "out"].map(|direction| moved("native", direction));
    let [files_in, files_out] = ["in", "out"].map(|direction| files("native", direction));
    wait_for_values(&node, &[(&ended, 1.0), (&bytes_in, tree), (&files_in, 2.0), (&bytes_out, 0.0)]);
    // Existing files are not moved.
    client.cp(0, words!["-r", client.path("t"), node.at("data/t")]);
    client.cp(0, words!["-r", node.at("data/t"), client.path("back")]);
    wait_for_values(
        &node,
        &[(&ended, 3.0), (&bytes_in, tree), (&bytes_out, tree), (&files_in, 2.0), (&files_out, 2.0)],
    );
    let all = wait_for_values(&node, &[("longhaul_sessions", 0.0), ("longhaul_streams", 0.0)]);
    assert_eq!(all.of("longhaul_jobs_begun_total{protocol=\"native\"}"), 3.0);
    assert!(all.of("longhaul_logins_total") >= 3.0);
    for name in ["longhaul_integrity_failures_total", "longhaul_resent_bytes_total"] {
        assert_eq!(all.of(name), 0.0, "{name}");
    }
}

#[test]
fn a_running_transfer_is_seen_and_counters_never_shrink() {
    let node = Node::open();
    let client = Client::new();
    client.write("f", pattern(LARGE));
    let running = client.begin(words![
        "cp",
        client.path("f"),
        node.at("data/f"),
        "--limit",
        "80Mbit/s",
        "--streams",
        "2",
        "--json"
    ]);
    let mut before = Numbers::default();
    let (mut steps, mut had_streams) = (0, false);
    until("it is seen to move, step by step", LONG, || {
        let now = read(&node);
        now.assert_not_below(&before);
        had_streams |= now.of("longhaul_streams") > 0.0;
        let bytes = now.of(&moved("native", "in"));
        if bytes > before.get(&moved("native", "in")).unwrap_or(0.0) {
            assert_eq!(now.of("longhaul_transfers_running{protocol=\"native\"}"), 1.0);
            steps += 1;
        }
        before = now;
        std::thread::sleep(Duration::from_millis(50));
        steps >= 4
    });
    assert!(had_streams, "streams are open while it runs");
    running.finish().expect(0);
    wait_for_value(&node, &moved("native", "in"), LARGE as f64);
    read(&node).assert_not_below(&before);
    wait_for_value(&node, "longhaul_transfers_running{protocol=\"native\"}", 0.0);
}

#[test]
fn requests_are_counted_by_protocol() {
    let node = Setup::new().data_export("rw").arg("--anonymous").arg("rw").arg("--plain").start();
    let bytes = pattern(3 << 20);
    for (protocol, mut raw) in [("http", Raw::to(&node)), ("https", Raw::sealed(&node))] {
        raw.ask("PUT", "/data/f", &[], &bytes);
        assert!(raw.ask("GET", "/data/f", &[], &[]).expect(200).body == bytes);
        raw.ask("GET", "/data/f", &[("Range", "bytes=10-19")], &[]).expect(206);
        raw.ask("DELETE", "/data/f", &[("Authorization", "Bearer lhk1_AAAA")], &[]).expect(401);
        let digest = ("Digest", "adler32=00000001");
        raw.ask("PUT", "/data/g", &[digest], b"other").expect(400);
        let size = bytes.len() as f64;
        let refused = format!("longhaul_http_requests_total{{protocol=\"{protocol}\",status=\"4xx\"}}");
        let wanted = [
            (moved(protocol, "out"), size + 10.0),
            (moved(protocol, "in"), size + 5.0),
            (files(protocol, "in"), 1.0),
            // A part is no file.
            (files(protocol, "out"), 1.0),
            (refused, 2.0),
        ];
        wait_for_values(&node, &wanted.each_ref().map(|(series, value)| (series.as_str(), *value)));
    }
    // Two promised digests that are wrong, and two invalid keys.
    let wanted = [("longhaul_integrity_failures_total", 2.0), ("longhaul_refusals_total{reason=\"auth\"}", 2.0)];
    wait_for_values(&node, &wanted);
}

#[test]
fn http_2_is_counted_apart() {
    let node = Setup::new().data_export("ro").arg("--anonymous").arg("ro").arg("--plain").start();
    fs::write(node.data("f"), pattern(1 << 20)).unwrap();
    let url = format!("http://127.0.0.1:{}/data/f", node.port);
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--fail", "--http2-prior-knowledge", "--output", "/dev/null", &url]).stdin(Stdio::null());
    match curl.status() {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(error) => return skipped("metrics::http_2_is_counted_apart", &format!("curl: {error}")),
    }
    let answered = "longhaul_http_requests_total{protocol=\"h2\",status=\"2xx\"}";
    wait_for_values(&node, &[(&moved("h2", "out"), f64::from(1 << 20)), (answered, 1.0)]);
}

#[test]
fn third_party_copies_are_counted_at_the_node_that_carries_them() {
    let (source, target) = (Node::closed(), Node::closed());
    let keys = [source.grant(&["--export", "data"]), target.grant(&["--export", "data", "--write"])];
    fs::write(source.data("f"), pattern(LARGE)).unwrap();
    Client::with_key(&keys.join(",")).cp(0, words![source.at("data/f"), target.at("data/f")]);
    let sent = [(&*moved("errand", "out"), LARGE as f64), (&*moved("native", "out"), 0.0)];
    let ended = [(&*ended("errand", "done"), 1.0), (&*files("errand", "out"), 1.0)];
    wait_for_values(&source, &[sent, ended].concat());
    wait_for_value(&target, &moved("native", "in"), LARGE as f64);
}

#[test]
fn copies_over_http_are_counted_by_how_they_ended() {
    let node = Setup::new().data_export("rw").arg("--anonymous").arg("rw").arg("--plain").anonymous_may_copy().start();
    let bytes = pattern(3 << 20);
    let peer = Peer::new({
        let bytes = bytes.clone();
        move |request, socket| honest(request, socket, &bytes, "")
    });
    ask(&node, "COPY", "/data/f", &[("Source", &peer.url("/f"))], &[]).expect(202);
    wait_for_value(&node, &ended("copy", "done"), 1.0);
    let size = bytes.len() as f64;
    let wrong_source =
        Peer::new(move |request, socket| honest(request, socket, &bytes, "Digest: adler32=00000001\r\n"));
    let outcome = ask(&node, "COPY", "/data/g", &[("Source", &wrong_source.url("/f"))], &[]).expect(202);
    assert!(outcome.last_line().starts_with("failure: "), "{}", outcome.text());
    // The moved bytes count, although they were wrong.
    let moved_in = [(&*moved("copy", "in"), 2.0 * size), (&*files("copy", "in"), 1.0)];
    let failed = [(&*ended("copy", "failed"), 1.0), ("longhaul_integrity_failures_total", 1.0)];
    let all = wait_for_values(&node, &[moved_in, failed].concat());
    assert_eq!(all.of(&moved("http", "in")), 0.0, "the bytes of a copy do not count as bytes of http");
}

#[test]
fn refused_clients_are_counted() {
    let (node, other) = (Node::closed(), Node::closed());
    let refused = |why: &str| format!("longhaul_refusals_total{{reason=\"{why}\"}}");
    Client::new().run(words!["ls", node.at("data")]).expect(4);
    wait_for_value(&node, &refused("auth"), 1.0);
    let key = node.grant(&["--export", "data", "--path", "a"]);
    Client::with_key(&key).run(words!["ls", node.at("data/b")]).expect(4);
    wait_for_value(&node, &refused("policy"), 1.0);
    Client::with_key(&key).write("f", b"f");
    let client = Client::with_key(&key);
    client.write("f", b"f");
    client.run(words!["cp", client.path("f"), node.at("data/a/f")]).expect(4);
    wait_for_value(&node, &ended("native", "refused"), 1.0);
    // Plain HTTP, where only TLS is permitted.
    ask(&node, "GET", "/data/f", &[], &[]).expect(403);
    wait_for_value(&node, &refused("protocol"), 1.0);
    assert_eq!(read(&other).of(&refused("auth")), 0.0);
}

#[test]
fn space_tests_and_the_process_have_metrics() {
    let node = Node::open();
    let client = Client::new();
    let words = words!["probe", "tcp", node.at(""), "--time", "0.2s", "--json"];
    let test = client.run(words);
    assert_eq!(test.code, 0, "{}", test.err);
    let all = wait_for_values(&node, &[("longhaul_probes_running", 0.0), ("longhaul_probes_total{kind=\"tcp\"}", 1.0)]);
    assert!(all.of("longhaul_probe_bytes_total") > 1e6);
    let space = rustix::fs::statvfs(node.data("")).unwrap();
    let size = (space.f_blocks * space.f_frsize) as f64;
    assert_eq!(all.of("longhaul_export_size_bytes{export=\"data\"}"), size);
    assert!((1.0..=size).contains(&all.of("longhaul_export_free_bytes{export=\"data\"}")));
    assert!(all.of("process_open_fds") > 3.0 && all.of("process_resident_memory_bytes") > 1e6);
    assert!(all.of("process_cpu_seconds_total") > 0.0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((0.0..600.0).contains(&(now - all.of("process_start_time_seconds"))));
}
