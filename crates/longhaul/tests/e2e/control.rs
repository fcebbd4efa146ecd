//! Job control: running jobs are listed, changed, paused and ended from the client's host, from the node's host, and with
//! the key over the network.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Client, Outcome, Running, unfinished, words};
use crate::node::Node;
use crate::tree::pattern;
use crate::unfinished_state::written;
use crate::wait::{LONG, until, until_some};

/// The point from which a job is controlled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ControlPoint {
    /// The host on which the command runs.
    Client,
    /// The host of the node, over its state directory.
    Operator,
    /// Any host, with the key that started the job.
    Key,
}

const CONTROL_POINTS: [ControlPoint; 3] = [ControlPoint::Client, ControlPoint::Operator, ControlPoint::Key];

/// A node, and a client with a key to it.
struct Pair {
    node: Node,
    client: Client,
}

fn pair() -> Pair {
    let node = Node::closed();
    let client = Client::with_key(&node.grant(&["--export", "data", "--write"]));
    Pair { node, client }
}

/// Runs `longhaul job` with these arguments from a control point.
pub fn job(node: &Node, client: &Client, point: ControlPoint, words: Vec<OsString>) -> Outcome {
    let mut command = client.command([words!["job"], words].concat());
    match point {
        ControlPoint::Client => {}
        ControlPoint::Operator => drop(command.env("LONGHAUL_STATE", node.state())),
        ControlPoint::Key => drop(command.args(["--node", &node.at("")])),
    }
    client.start(command).finish()
}

/// Lifts the limit of all jobs of a client. Returns the number of jobs.
pub fn lift_limit(client: &Client) -> usize {
    set_limit(client, "none")
}

/// Sets the limit of all jobs of a client. Returns the number of jobs.
pub fn set_limit(client: &Client, limit: &str) -> usize {
    let running = until_some("a job is listed", LONG, || {
        let listed = client.run(words!["job", "list", "--json"]).expect(0).text();
        let jobs = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let running: Vec<Value> = jobs.filter(|job| job["receipt"].is_null()).collect();
        (!running.is_empty()).then_some(running)
    });
    for job in &running {
        client.run(words!["job", "set", job["id"].as_str().unwrap(), "--limit", limit]).expect(0);
    }
    running.len()
}

/// The jobs that a control point lists.
fn jobs(node: &Node, client: &Client, point: ControlPoint) -> Vec<Value> {
    let listed = job(node, client, point, words!["list", "--json"]).expect(0).text();
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

impl Pair {
    fn job(&self, point: ControlPoint, words: Vec<OsString>) -> Outcome {
        job(&self.node, &self.client, point, words)
    }

    fn jobs(&self, point: ControlPoint) -> Vec<Value> {
        jobs(&self.node, &self.client, point)
    }

    /// Starts a copy, and waits until both ends list it; returns its id.
    fn begin(&self, words: Vec<OsString>) -> (Running, String) {
        let running = self.client.begin([words!["cp", "--json"], words].concat());
        let listed = until_some("the node has the job", LONG, || {
            let job = self.jobs(ControlPoint::Operator).pop()?;
            (job["bytes"].as_u64().unwrap() > 0).then_some(job)
        });
        (running, listed["id"].as_str().unwrap().to_owned())
    }

    fn show(&self, point: ControlPoint, id: &str) -> Value {
        self.job(point, words!["show", id, "--json"]).expect(0).json()
    }

    /// Waits until every control point shows this state of the job.
    fn all_see(&self, id: &str, what: &str, value: impl Into<Value>) {
        let value = value.into();
        for point in CONTROL_POINTS {
            until(&format!("{point:?} sees {what} {value}"), LONG, || self.show(point, id)[what] == value);
        }
    }
}

/// The progress lines of a running `--json`.
fn progress(running: &Running) -> Vec<(f64, u64)> {
    let lines = running.out();
    let objects = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let progress = objects.filter(|object| object["event"] == "progress");
    progress.map(|line| (line["seconds"].as_f64().unwrap(), line["bytes"].as_u64().unwrap())).collect()
}

/// The bits and the seconds of the next two seconds of progress lines.
fn measured(running: &Running) -> (f64, f64) {
    let skip = progress(running).len() + 1;
    until("two seconds of progress", LONG, || {
        let seen = progress(running);
        seen.len() > skip && seen[seen.len() - 1].0 - seen[skip].0 >= 2.0
    });
    let seen = progress(running);
    let ((from, first), (to, last)) = (seen[skip], seen[seen.len() - 1]);
    ((last - first) as f64 * 8.0, to - from)
}

/// On a quiet machine, the limit is kept within 2 % over ten seconds. In this run, other tests use the same processors: they
/// may slow a job down, and it does not make up for the lost time, but nothing makes it faster. A burst after a stall is
/// less than half a second's worth, or than the content of the buffers.
#[track_caller]
fn assert_kept((bits, seconds): (f64, f64), limit_bit_s: f64, least_bit_s: f64, what: &str) {
    let most = limit_bit_s * seconds + (limit_bit_s / 2.0).max(8.0 * 1024.0 * 1024.0);
    assert!(bits <= most && bits / seconds > least_bit_s, "{what}: {bits} bits in {seconds} s");
}

fn change_holds(push: bool, point: ControlPoint) {
    let pair = pair();
    let (from, to) = if push {
        ("zero:4GB".to_owned(), pair.node.at("null:"))
    } else {
        (pair.node.at("zero:4GB"), "null:".to_owned())
    };
    let (running, id) = pair.begin(words![from, to, "--limit", "24Mbit/s", "--checksum", "none"]);
    pair.job(point, words!["set", id, "--limit", "120Mbit/s"]).expect(0);
    pair.all_see(&id, "limit_bit_s", 120_000_000);
    assert_kept(measured(&running), 120e6, 1.5 * 24e6, &format!("{point:?}, push {push}"));
}

#[test]
fn the_limit_is_kept_from_the_beginning() {
    let pair = pair();
    let words = words!["zero:4GB", pair.node.at("null:"), "--limit", "80Mbit/s", "--checksum", "none"];
    let (running, _) = pair.begin(words);
    assert_kept(measured(&running), 80e6, 80e6 / 3.0, "from the beginning");
}

#[test]
fn the_client_changes_the_limit_of_a_running_job() {
    change_holds(true, ControlPoint::Client);
}

#[test]
fn the_client_changes_the_limit_of_a_running_pull() {
    change_holds(false, ControlPoint::Client);
}

#[test]
fn the_operator_changes_the_limit_of_a_running_job() {
    change_holds(true, ControlPoint::Operator);
}

#[test]
fn the_operator_changes_the_limit_of_a_running_pull() {
    change_holds(false, ControlPoint::Operator);
}

#[test]
fn the_key_changes_the_limit_of_a_running_job() {
    change_holds(true, ControlPoint::Key);
}

#[test]
fn a_limit_is_lowered_and_lifted() {
    let pair = pair();
    let words = words!["zero:200MB", pair.node.at("null:"), "--limit", "80Mbit/s", "--checksum", "none"];
    let (running, id) = pair.begin(words);
    pair.job(ControlPoint::Client, words!["set", id, "--limit", "8Mbit/s"]).expect(0);
    pair.all_see(&id, "limit_bit_s", 8_000_000);
    assert_kept(measured(&running), 8e6, 8e6 / 3.0, "lowered");
    let lifted = Instant::now();
    pair.job(ControlPoint::Operator, words!["set", id, "--limit", "none"]).expect(0);
    let receipt = running.finish().expect(0).json();
    // At the former rate it would take minutes.
    assert!(lifted.elapsed() < Duration::from_secs(60), "{:?}", lifted.elapsed());
    assert_eq!(receipt["bytes"], 200_000_000u64);
}

#[test]
fn a_job_is_listed_and_shown() {
    let pair = pair();
    let file = pair.client.write("f", pattern(20 << 20));
    let (running, id) = pair.begin(words![file, pair.node.at("data/f"), "--limit", "2Mbit/s"]);
    for (point, role) in
        [(ControlPoint::Client, "send"), (ControlPoint::Operator, "receive"), (ControlPoint::Key, "receive")]
    {
        let listed = pair.jobs(point);
        assert_eq!(listed.len(), 1, "{point:?}: {listed:?}");
        let shown = pair.show(point, &id);
        for job in [&listed[0], &shown] {
            assert_eq!((&job["v"], &job["event"], &job["id"]), (&1.into(), &"transfer".into(), &id.as_str().into()));
            assert_eq!((&job["role"], &job["state"]), (&role.into(), &"running".into()), "{point:?}");
            assert_eq!((&job["limit_bit_s"], &job["bytes_total"]), (&2_000_000.into(), &(20 << 20).into()));
            assert!(job["target"].as_str().unwrap().contains("data/f"), "{point:?}: {job}");
            assert!(job["streams"].as_u64().unwrap() >= 1 && job["seconds"].as_f64().unwrap() > 0.0, "{job}");
        }
        // The end of an id is enough, and without --json the output is text.
        let text = pair.job(point, words!["show", id[id.len() - 8..].to_owned()]).expect(0).text();
        assert!(text.contains(&id) && text.contains("running") && text.contains("2.00 Mbit/s"), "{point:?}: {text}");
        let line = pair.job(point, words!["list"]).expect(0).text();
        assert!(line.lines().count() == 2 && line.lines().any(|line| line.starts_with(&id)), "{line}");
    }
    pair.job(ControlPoint::Client, words!["set", id]).refused(2, &["--limit", "--streams"]);
    pair.job(ControlPoint::Client, words!["set", id, "--limit", "40"]).expect(2);
    drop(running);
    assert!(pair.jobs(ControlPoint::Client).is_empty(), "what was killed is not listed");
    until("the node knows that it is over", LONG, || pair.jobs(ControlPoint::Operator).is_empty());
}

#[test]
fn ended_copies_are_listed_for_a_while() {
    let pair = pair();
    let file = pair.client.write("f", pattern(1 << 20));
    let done = pair.client.cp(0, words![file, pair.node.at("data/f")]);
    pair.client.cp(0, words![file, "g", "--dry-run"]);
    pair.client.run(words!["cp", "missing", "g"]).expect(1);
    let listed = pair.jobs(ControlPoint::Client);
    let states: Vec<&str> = listed.iter().map(|job| job["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["done", "failed"], "{listed:?}");
    assert_eq!((&listed[0]["id"], &listed[0]["receipt"]["bytes"]), (&done["transfer"], &(1 << 20).into()));
    let id = done["transfer"].as_str().unwrap();
    let text = pair.job(ControlPoint::Client, words!["show", id]).expect(0).text();
    assert!(text.contains("done") && text.contains("verified by crc32c"), "{text}");
    pair.job(ControlPoint::Client, words!["cancel", id]).refused(1, &["runs here any more"]);
}

#[test]
fn an_unknown_job_is_reported() {
    let pair = pair();
    for point in CONTROL_POINTS {
        for words in [words!["show"], words!["pause"], words!["resume"], words!["cancel"]] {
            let words = [words, words!["0123abcd"]].concat();
            pair.job(point, words).refused(1, &["0123abcd", "job list"]);
        }
        pair.job(point, words!["set", "0123abcd", "--limit", "1Mbit/s"]).refused(1, &["0123abcd"]);
        assert!(pair.jobs(point).is_empty());
    }
    pair.client.run(words!["job", "list", "--node", pair.node.at("data/x")]).refused(2, &["is not a node"]);
}

#[test]
fn another_key_cannot_control_the_job() {
    let pair = pair();
    let other = Client::with_key(&pair.node.grant(&["--export", "data", "--write", "--name", "another"]));
    let (running, id) = pair.begin(words!["zero:1GB", pair.node.at("null:"), "--limit", "40Mbit/s"]);
    assert!(jobs(&pair.node, &other, ControlPoint::Key).is_empty());
    for words in [words!["show", id], words!["pause", id], words!["cancel", id], words!["set", id, "--streams", "9"]] {
        job(&pair.node, &other, ControlPoint::Key, words).refused(1, &[&id]);
    }
    let keyless = Client::new();
    keyless.run(words!["job", "list", "--node", pair.node.at("")]).expect(4);
    let (before, shown) = (progress(&running).len(), pair.show(ControlPoint::Client, &id));
    assert_eq!((&shown["state"], &shown["limit_bit_s"]), (&"running".into(), &40_000_000.into()));
    until("it continues", LONG, || progress(&running).len() > before + 1);
}

#[test]
fn a_pause_holds_and_ends() {
    std::thread::scope(|scope| {
        for (push, [pauses, resumes]) in [
            (true, [ControlPoint::Client, ControlPoint::Operator]),
            (true, [ControlPoint::Operator, ControlPoint::Client]),
            (false, [ControlPoint::Key, ControlPoint::Client]),
            (false, [ControlPoint::Client, ControlPoint::Key]),
        ] {
            scope.spawn(move || pause_and_resume(push, pauses, resumes));
        }
    });
}

fn pause_and_resume(push: bool, pauses: ControlPoint, resumes: ControlPoint) {
    let pair = pair();
    let bytes = pattern(24 << 20);
    let (from, to, target) = if push {
        (pair.client.write("f", &bytes).display().to_string(), pair.node.at("data/f"), pair.node.data("f"))
    } else {
        (pair.node.at("data/f"), pair.client.path("f").display().to_string(), pair.client.path("f"))
    };
    if !push {
        fs::write(pair.node.data("f"), &bytes).unwrap();
    }
    // The pause is longer than `--retry-for`: a pause does not count as a broken path.
    let (running, id) = pair.begin(words![from, to, "--limit", "8Mbit/s", "--retry-for", "2s"]);
    pair.job(pauses, words!["pause", id]).expect(0);
    pair.all_see(&id, "state", "paused");
    // What was in flight at the pause has arrived once no point sees anything new, twice.
    let seen = || CONTROL_POINTS.map(|point| pair.show(point, &id)["bytes"].as_u64().unwrap());
    until("what was sent has arrived", LONG, || {
        let looks = [(); 3].map(|()| {
            std::thread::sleep(Duration::from_millis(300));
            seen()
        });
        looks[0] == looks[1] && looks[1] == looks[2]
    });
    let (bytes_at_pause, started) = (seen(), Instant::now());
    while started.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(seen(), bytes_at_pause, "push {push}, paused by {pauses:?}");
    }
    pair.job(resumes, words!["resume", id]).expect(0);
    pair.job(resumes, words!["set", id, "--limit", "none"]).expect(0);
    let receipt = running.finish().expect(0).json();
    assert_eq!((&receipt["bytes"], &receipt["resent_bytes"]), (&(24 << 20).into(), &0.into()), "{receipt}");
    assert!(fs::read(target).unwrap() == bytes);
}

#[test]
fn the_number_of_streams_changes_while_a_job_runs() {
    std::thread::scope(|scope| {
        for (push, point) in [
            (true, ControlPoint::Client),
            (false, ControlPoint::Client),
            (true, ControlPoint::Operator),
            (false, ControlPoint::Key),
        ] {
            scope.spawn(move || streams_change(push, point));
        }
    });
}

/// The number of connections of peers to the node's port, without listening sockets.
pub fn connections(node: &Node) -> usize {
    let hex = format!(":{:04X}", node.port);
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    // Columns: number, local address, remote address, state; 01 is established.
    let established = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words[1].ends_with(&hex) && words[3] == "01"
    };
    table.lines().skip(1).filter(established).count()
}

fn streams_change(push: bool, point: ControlPoint) {
    let pair = pair();
    let bytes = pattern(40 << 20);
    let (from, to, target) = if push {
        (pair.client.write("f", &bytes).display().to_string(), pair.node.at("data/f"), pair.node.data("f"))
    } else {
        (pair.node.at("data/f"), pair.client.path("f").display().to_string(), pair.client.path("f"))
    };
    if !push {
        fs::write(pair.node.data("f"), &bytes).unwrap();
    }
    let idle = pair.node.descriptors();
    let (running, id) = pair.begin(words![from, to, "--limit", "2Mbit/s", "--streams", "1"]);
    for streams in [6, 2, 4] {
        pair.job(point, words!["set", id, "--streams", streams.to_string()]).expect(0);
        pair.all_see(&id, "streams", streams);
        // One more is the control connection.
        until("as many connections are there", LONG, || connections(&pair.node) == streams + 1);
    }
    pair.job(point, words!["set", id, "--limit", "none"]).expect(0);
    let receipt = running.finish().expect(0).json();
    assert_eq!(receipt["bytes"], 40 << 20, "{receipt}");
    assert!(fs::read(target).unwrap() == bytes);
    until("no connection is left", LONG, || connections(&pair.node) == 0 && pair.node.descriptors() <= idle);
}

#[test]
fn a_cancelled_job_is_resumed_by_the_same_command() {
    std::thread::scope(|scope| {
        for (push, point) in CONTROL_POINTS.map(|point| [(true, point), (false, point)]).concat() {
            scope.spawn(move || cancel_and_resume(push, point));
        }
    });
}

fn has_unfinished_blocks(target: &Path) -> bool {
    unfinished(target).iter().any(|path| written(path) > 4 << 20)
}

fn cancel_and_resume(push: bool, point: ControlPoint) {
    let pair = pair();
    let bytes = pattern(40 << 20);
    let (source, target) =
        if push { (pair.client.path("s"), pair.node.data("t")) } else { (pair.node.data("s"), pair.client.path("t")) };
    fs::create_dir(&source).unwrap();
    fs::write(source.join("f"), &bytes).unwrap();
    let (from, to) = if push {
        (source.display().to_string(), pair.node.at("data/t"))
    } else {
        (pair.node.at("data/s"), target.display().to_string())
    };
    let (running, id) = pair.begin(words!["-r", from, to, "--limit", "16Mbit/s"]);
    until("blocks have been written", LONG, || {
        has_unfinished_blocks(&target) && pair.show(ControlPoint::Client, &id)["bytes"].as_u64() > Some(8 << 20)
    });
    pair.job(point, words!["cancel", id]).expect(0);
    let outcome = running.finish().expect(130);
    assert_eq!(outcome.json()["state"], "interrupted", "{point:?}: {}", outcome.err);
    assert!(outcome.err.contains("again"), "{point:?}: {}", outcome.err);
    assert!(!target.join("f").exists());
    // The node's end of the job may outlive the client by a moment.
    until("no point lists the job", LONG, || pair.job(point, words!["cancel", id]).code == 1);
    let receipt = pair.client.cp(0, words!["-r", from, to]);
    assert!(receipt["resumed_bytes"].as_u64() >= Some(4 << 20), "{point:?}, push {push}: {receipt}");
    assert!(fs::read(target.join("f")).unwrap() == bytes);
    assert!(unfinished(&target).is_empty());
}
