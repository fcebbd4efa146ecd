//! One endpoint, several node processes: the streams of a job go to all of them, and a mover that ends, hangs or cannot help is
//! left out without the job failing.
//!
//! `LONGHAUL_SEED=n` draws the faults of one seed again, `LONGHAUL_FAULTS=n` those of n / 100 seeds.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, unfinished, words};
use crate::control::lift_limit;
use crate::kills::{SeededRng, number};
use crate::node::{Node, Setup};
use crate::tree::pattern;
use crate::unfinished_state::written;
use crate::wait::{LONG, until};

const MIB: u64 = 1 << 20;
/// More bytes than a job must have before it uses movers.
const LARGE: u64 = 96 * MIB;
/// Slow enough for something to happen in the middle of it; then the limit is lifted.
const RATE: &str = "40Mbit/s";

/// A coordinator and its movers, on one directory.
struct Site {
    shared: TempDir,
    coordinator: Node,
    movers: Vec<Node>,
}

fn content(len: u64) -> Vec<u8> {
    pattern(len as usize)
}

fn mover(dir: &Path) -> Node {
    Setup::new().export("data", dir, "rw").start()
}

/// Starts a coordinator of these movers, with their keys.
fn coordinator(dir: &Path, at: &[String], keys: &[String], options: &[&str]) -> Node {
    let setup = Setup::new().export("data", dir, "rw").arg("--anonymous").arg("rw");
    let file = setup.state().with_file_name("keys");
    fs::write(&file, keys.join("\n")).unwrap();
    let setup = setup.arg("--peers").arg(at.join(",")).arg("--key-file").arg(file);
    options.iter().fold(setup, |setup, option| setup.arg(option)).start()
}

impl Site {
    fn new(count: usize) -> Site {
        let shared = tempfile::tempdir().unwrap();
        let movers: Vec<Node> = (0..count).map(|_| mover(shared.path())).collect();
        let at: Vec<String> = movers.iter().map(Node::address).collect();
        let keys: Vec<String> = movers.iter().map(|mover| mover.grant(&["--export", "data", "--write"])).collect();
        let coordinator = coordinator(shared.path(), &at, &keys, &[]);
        Site { shared, coordinator, movers }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.shared.path().join(below)
    }

    fn assert_content(&self, below: &str, bytes: &[u8]) {
        assert!(fs::read(self.path(below)).unwrap() == bytes, "{below} is not what was sent");
        assert_eq!(unfinished(self.shared.path()), Vec::<PathBuf>::new());
    }

    /// Waits until each mover has taken streams of `jobs` jobs.
    fn wait_for_streams(&self, jobs: usize) {
        until("all movers take streams", LONG, || {
            let log = self.coordinator.log();
            let taken = |mover: &Node| {
                let of_it = |line: &&str| line.contains("the mover takes streams") && line.contains(&mover.address());
                log.lines().filter(of_it).count()
            };
            self.movers.iter().all(|mover| taken(mover) >= jobs)
        });
    }

    /// Waits until all movers are in the middle of a job: they have a file open whose name ends with `end`, and more bytes arrive in the
    /// directory `target`.
    fn wait_for_the_open_file(&self, jobs: usize, end: &str, target: &Path) {
        self.wait_for_streams(jobs);
        let all_have = || self.movers.iter().all(|mover| has_open(mover, end));
        until("all movers have the file open", LONG, all_have);
        wait_for_more(target, 6 * MIB);
    }
}

/// Waits until the unfinished files of a directory have grown by `bytes`.
fn wait_for_more(dir: &Path, bytes: u64) {
    let there = || unfinished(dir).iter().map(|path| written(path)).sum::<u64>();
    let before = there();
    until("more arrives", LONG, || there() >= before + bytes);
}

/// Asserts that one tree has the files of the other.
fn assert_same(ours: &Path, theirs: &Path, what: &str) {
    let names = |dir: &Path| {
        let mut names: Vec<OsString> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let all = names(ours);
    assert_eq!(all, names(theirs), "{what}: {}", theirs.display());
    for (ours, theirs) in all.iter().map(|name| (ours.join(name), theirs.join(name))) {
        if ours.is_dir() {
            assert_same(&ours, &theirs, what);
        } else {
            assert!(fs::read(&ours).unwrap() == fs::read(&theirs).unwrap(), "{what}: {}", theirs.display());
        }
    }
}

/// Bytes of a receipt's streams that went by a node.
fn by(receipt: &Value, node: &Node) -> u64 {
    let streams = receipt["streams"].as_array().unwrap().iter();
    let there = streams.filter(|stream| stream["peer_address"] == node.address());
    there.map(|stream| stream["bytes"].as_u64().unwrap()).sum()
}

#[test]
fn streams_go_to_all_movers() {
    let (site, client, bytes) = (Site::new(2), Client::new(), content(LARGE));
    client.write("f", &bytes);
    let running = client.begin(words!["cp", "--json", "f", site.coordinator.at("data/in"), "--limit", RATE]);
    site.wait_for_the_open_file(1, ".part", site.shared.path());
    lift_limit(&client);
    let receipt = running.finish().expect(0).json();
    site.assert_content("in", &bytes);
    let parts = || site.movers.iter().chain([&site.coordinator]);
    assert!(parts().all(|node| by(&receipt, node) > 0), "{receipt}");
    assert_eq!(parts().map(|node| by(&receipt, node)).sum::<u64>(), LARGE, "{receipt}");
    let running = client.begin(words!["cp", "--json", site.coordinator.at("data/in"), "back", "--limit", RATE]);
    site.wait_for_the_open_file(2, "/in", &client.path(""));
    lift_limit(&client);
    let receipt = running.finish().expect(0).json();
    assert!(fs::read(client.path("back")).unwrap() == bytes);
    assert!(parts().all(|node| by(&receipt, node) > 0), "{receipt}");
    for mover in &site.movers {
        let log = mover.log();
        assert!(log.contains("event=\"push\"") && log.contains("event=\"pull\""), "{log}");
        assert_eq!(log.matches("outcome=\"done\"").count(), 2, "{log}");
    }
}

/// Small files, large ones, holes, and digests that need a file in order.
#[test]
fn trees_arrive_whole() {
    let (site, client) = (Site::new(2), Client::new());
    for at in 0..200u64 {
        client.write(&format!("t/small/{at}"), content(at * 997));
    }
    client.write("t/large", content(66 * MIB + 5));
    client.write("t/middle", content(700_000));
    let sparse = fs::File::create(client.path("t/sparse")).unwrap();
    sparse.write_all_at(b"begin", 3).unwrap();
    sparse.write_all_at(&content(3 * MIB), 50 * MIB).unwrap();
    sparse.set_len(100 * MIB).unwrap();
    let same = |ours: &Path, theirs: &Path| {
        assert_same(ours, theirs, "");
        assert!(fs::metadata(theirs.join("sparse")).unwrap().blocks() * 512 < 40 * MIB, "holes are holes");
    };
    for checksums in ["crc32c", "crc32c,sha256", "md5,adler32"] {
        let to = format!("data/{}", checksums.replace(',', "-"));
        client.cp(0, words!["-r", "t", site.coordinator.at(&to), "--checksum", checksums]);
        same(&client.path("t"), &site.path(&to["data/".len()..]));
        let back = format!("back-{checksums}");
        client.cp(0, words!["-r", site.coordinator.at(&to), back, "--checksum", checksums]);
        same(&client.path("t"), &client.path(&back));
    }
    assert!(unfinished(site.shared.path()).is_empty());
    // On a busy machine a mover may be late, and is then left out.
    let log = site.coordinator.log();
    let late = ["silent", "timed out", "does not close"];
    let mut left = log.lines().filter(|line| line.contains("left out"));
    assert!(left.all(|line| late.iter().any(|why| line.contains(why))), "{log}");
}

/// Whether a node has a file open whose name ends with `end`.
fn has_open(node: &Node, end: &str) -> bool {
    let open = fs::read_dir(format!("/proc/{}/fd", node.pid())).unwrap().flatten();
    open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|file| file.to_string_lossy().ends_with(end))
}

/// A mover's host goes down, with blocks that it had reported written but not yet brought to the file system. The coordinator
/// notices this before the file gets its name, and requests the blocks again.
#[test]
fn blocks_lost_with_a_movers_host_are_sent_again() {
    for checksums in ["crc32c", "adler32"] {
        let (mut site, client, bytes) = (Site::new(2), Client::new(), content(LARGE));
        client.write("f", &bytes);
        let to = site.coordinator.at("data/in");
        let running = client.begin(words!["cp", "--json", "f", to, "--limit", "80Mbit/s", "--checksum", checksums]);
        site.wait_for_the_open_file(1, ".part", site.shared.path());
        // The part that is overwritten below had arrived.
        wait_for_more(site.shared.path(), 10 * MIB);
        site.movers[0].kill();
        let part = unfinished(site.shared.path()).remove(0);
        let file = fs::OpenOptions::new().write(true).open(part).unwrap();
        file.write_all_at(&[0; MIB as usize], MIB).unwrap();
        lift_limit(&client);
        let outcome = running.finish().expect(0);
        site.assert_content("in", &bytes);
        let (receipt, log) = (outcome.json(), site.coordinator.log());
        assert!(log.contains("were lost with its host"), "{log}");
        assert!(outcome.err.contains("were lost with its host"), "{}", outcome.err);
        // Wrong bytes cost only their window of the journal, 64 MiB at most: the rest is resumed.
        assert!(receipt["resumed_bytes"].as_u64() > Some(16 * MIB), "{receipt}");
    }
}

/// Runs a job, and applies a fault to a mover in the middle of it.
fn run_with_fault(push: bool, fault: fn(&mut Node)) -> (Site, Value) {
    let (mut site, client, bytes) = (Site::new(2), Client::new(), content(LARGE));
    client.write("f", &bytes);
    fs::write(site.path("out"), &bytes).unwrap();
    let words = if push {
        words!["cp", "--json", "f", site.coordinator.at("data/in"), "--limit", RATE]
    } else {
        words!["cp", "--json", site.coordinator.at("data/out"), "back", "--limit", RATE]
    };
    let running = client.begin(words);
    if push {
        site.wait_for_the_open_file(1, ".part", site.shared.path());
    } else {
        site.wait_for_the_open_file(1, "/out", &client.path(""));
    }
    fault(&mut site.movers[0]);
    until("it is left out", LONG, || site.coordinator.log().contains("the mover is left out of a job"));
    lift_limit(&client);
    let outcome = running.finish().expect(0);
    if push {
        site.assert_content("in", &bytes);
    } else {
        assert!(fs::read(client.path("back")).unwrap() == bytes);
    }
    let receipt = outcome.json();
    assert!(by(&receipt, &site.movers[1]) > 0, "{receipt}");
    assert!(!outcome.err.contains("trying again"), "the job went on within the session: {}", outcome.err);
    (site, receipt)
}

#[test]
fn a_killed_mover_is_left_out_of_a_push() {
    run_with_fault(true, Node::kill);
}

#[test]
fn a_killed_mover_is_left_out_of_a_pull() {
    run_with_fault(false, Node::kill);
}

/// When the mover wakes up, it still has blocks to write, and open files: none of the blocks may reach a finished file.
#[test]
fn a_mover_that_hangs_is_left_out_and_writes_nothing_when_it_wakes() {
    let (site, _) = run_with_fault(true, |mover| mover.freeze());
    let other = content(LARGE + 1);
    fs::write(site.path("in"), &other[1..]).unwrap();
    site.movers[0].thaw();
    until("the mover has noticed", LONG * 2, || site.movers[0].log().contains("event=\"push\""));
    site.assert_content("in", &other[1..]);
}

#[test]
fn a_mover_that_hangs_is_left_out_of_a_pull() {
    let (site, _) = run_with_fault(false, |mover| mover.freeze());
    site.movers[0].thaw();
}

/// A job depends on its coordinator: when the coordinator is back, the job resumes, also from the blocks that movers wrote.
#[test]
fn a_restarted_coordinator_resumes_from_what_movers_wrote() {
    let (mut site, client, bytes) = (Site::new(2), Client::new(), content(LARGE));
    client.write("f", &bytes);
    let running = client.begin(words!["cp", "--json", "f", site.coordinator.at("data/in"), "--limit", RATE]);
    site.wait_for_the_open_file(1, ".part", site.shared.path());
    site.coordinator.restart();
    until("the client reports that it tries again", LONG, || running.err().contains("again"));
    lift_limit(&client);
    let outcome = running.finish().expect(0);
    site.assert_content("in", &bytes);
    let receipt = outcome.json();
    let resumed = receipt["phases"].as_array().map_or(0, Vec::len);
    assert!(outcome.err.contains("again"), "it was tried again: {} {resumed}", outcome.err);
}

#[test]
fn unusable_movers_are_left_out_by_name() {
    let (shared, other_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let write = ["--export", "data", "--write"];
    let unrelated = mover(other_dir.path());
    let create_only = mover(shared.path());
    let closed = mover(shared.path());
    let mut killed = mover(shared.path());
    killed.kill();
    let other = Setup::new().export("other", shared.path(), "rw").start();
    // The key of one export is not that of another; among several keys of a mover the right one is found.
    let several = Setup::new().export("data", shared.path(), "rw").export("more", other_dir.path(), "rw").start();
    let keys = [
        unrelated.grant(&write),
        create_only.grant(&["--export", "data", "--create"]),
        other.grant(&["--export", "other", "--write"]),
        several.grant(&["--export", "more", "--write"]),
        several.grant(&write),
        killed.grant(&write),
    ];
    let at = [&unrelated, &create_only, &closed, &killed, &other, &several].map(Node::address);
    let coordinator = coordinator(shared.path(), &at, &keys, &[]);
    let (client, bytes) = (Client::new(), content(LARGE));
    client.write("f", &bytes);
    let running = client.begin(words!["cp", "--json", "f", coordinator.at("data/in"), "--limit", RATE]);
    let wait_for_report = |node: &Node, what: &str| {
        let of_it = |line: &str| line.contains("left out") && line.contains(&node.address()) && line.contains(what);
        until(&format!("{what:?} is reported of {}", node.address()), LONG, || coordinator.log().lines().any(of_it));
    };
    wait_for_report(&unrelated, "must be the same file system");
    wait_for_report(&create_only, "gives only the right to create");
    wait_for_report(&closed, "none of the access keys at hand is its own");
    wait_for_report(&other, "no export");
    wait_for_report(&killed, "cannot connect");
    until("the one that can help writes", LONG, || has_open(&several, ".part"));
    wait_for_more(shared.path(), 6 * MIB);
    lift_limit(&client);
    let receipt = running.finish().expect(0).json();
    assert!(fs::read(shared.path().join("in")).unwrap() == bytes && unfinished(shared.path()).is_empty());
    assert!(by(&receipt, &several) > 0, "{receipt}");
    assert!([&create_only, &closed, &other].iter().all(|node| by(&receipt, node) == 0), "{receipt}");
}

#[test]
fn invalid_options_of_movers_are_refused_at_the_start() {
    let client = Client::new();
    let serve = |more: &[&str]| {
        let words = ["serve", "--listen", "127.0.0.1:0", "--peers"].iter().chain(more);
        client.run(words.map(std::ffi::OsString::from).collect()).expect(2).err
    };
    assert!(serve(&["192.0.2.7"]).contains("longhaul grant --export NAME --write"));
    for bad in ["https://192.0.2.7", "lh://h/data", "h:notaport"] {
        assert!(serve(&[bad]).contains("write HOST, HOST:PORT"), "{bad}");
    }
}

/// A node that carries a delegated transfer to this site uses the movers as well, where it may connect to them.
#[test]
fn a_delegated_transfer_uses_all_movers() {
    let (site, source, client, bytes) = (Site::new(1), Node::open(), Client::new(), content(LARGE));
    fs::write(source.data("f"), &bytes).unwrap();
    let receipt = client.cp(0, words![source.at("data/f"), site.coordinator.at("data/in"), "--limit", "80Mbit/s"]);
    site.assert_content("in", &bytes);
    assert_eq!(receipt["bytes"], LARGE, "{receipt}");
    let log = site.movers[0].log();
    assert!(log.contains("event=\"push\""), "{log}");
}

/// Jobs of an ordinary run of the tests. `make soak` draws more.
const RANDOM_JOBS: u64 = 1;

/// A random fault at a random moment of a job: movers and their coordinator are killed and restarted, or hang for a while.
fn inject_fault(site: &mut Site, rng: &mut SeededRng) -> String {
    let who = rng.below(5) as usize / 2;
    let wait = |rng: &mut SeededRng, most: u64| std::thread::sleep(Duration::from_millis(rng.below(most)));
    let node = if who < 2 { &mut site.movers[who] } else { &mut site.coordinator };
    wait(rng, 1500);
    if rng.below(2) == 0 {
        node.restart();
        return format!("{who} is started again");
    }
    node.freeze();
    wait(rng, 7000);
    node.thaw();
    format!("{who} hung")
}

fn run_seed(seed: u64) {
    let mut rng = SeededRng(seed + 1);
    let (mut site, client) = (Site::new(2), Client::new());
    client.write("t/large", content(70 * MIB + rng.below(30 * MIB)));
    client.write("t/middle", content(rng.below(3 * MIB)));
    (0..40).for_each(|at| drop(client.write(&format!("t/{at}"), content(rng.below(300_000)))));
    let push = rng.below(3) > 0;
    if !push {
        let copied = std::process::Command::new("cp").arg("-a").args([client.path("t"), site.path("out")]).status();
        assert!(copied.unwrap().success());
    }
    let rate = ["200Mbit/s", "400Mbit/s"][rng.below(2) as usize];
    let mut words = words!["cp", "-r", "--json", "--limit", rate, "--retry-for", "60s"];
    words.extend(if push {
        words!["t", site.coordinator.at("data/in")]
    } else {
        words![site.coordinator.at("data/out"), "back"]
    });
    if rng.below(2) == 0 {
        words.extend(words!["--durable", "--checksum", "crc32c,sha256"]);
    }
    let running = client.begin(words);
    site.wait_for_streams(1);
    let faults: Vec<String> = (0..=rng.below(3)).map(|_| inject_fault(&mut site, &mut rng)).collect();
    let outcome = running.finish();
    assert_eq!(outcome.code, 0, "{faults:?}: {outcome:?}");
    let there = if push { site.path("in") } else { client.path("back") };
    assert_same(&client.path("t"), &there, &format!("{faults:?}"));
    assert_eq!(unfinished(site.shared.path()), Vec::<PathBuf>::new(), "{faults:?}");
}

#[test]
#[allow(clippy::print_stdout, reason = "how much was tested belongs to the test's own output")]
fn a_copy_is_whole_when_any_node_dies_or_hangs() {
    let seeds = match number("LONGHAUL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LONGHAUL_FAULTS").map_or(RANDOM_JOBS, |count| count.div_ceil(100)),
    };
    println!("movers: {} jobs", seeds.end - seeds.start);
    for seed in seeds {
        let result = std::panic::catch_unwind(|| run_seed(seed));
        result.unwrap_or_else(|_| panic!("it fails again with LONGHAUL_SEED={seed}"));
    }
}
