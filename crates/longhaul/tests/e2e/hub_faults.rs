//! A hub and its nodes under random faults of a seed: killed, frozen and cut off; a full disk, a clock that steps, a database that
//! restarts. In the end every file is at its target with the right bytes, or failed with its cause; none is lost, and none that was done
//! is moved again.
//!
//! `LONGHAUL_SEED=n` draws the faults of one seed again, `LONGHAUL_FAULTS=n` draws n / 2 faults for each test.

#![allow(clippy::print_stdout, reason = "how much was tested belongs to the test's own output")]

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::hub::{Hub, Member};
use crate::kills::{SeededRng, number};
use crate::mirrors::ThrottledLine;
use crate::node::Node;
use crate::postgres::{MISSING, Postgres};
use crate::tree::pattern;
use crate::wait::skipped;
use crate::wrappers::{Mount, mounted, with_mounts};

/// Faults in an ordinary run of the tests, on each database.
const FAULTS: u64 = 12;
/// The longest that submitted files may take once the faults are over: there are pauses between attempts.
const ALL_ENDED_WITHIN: Duration = Duration::from_secs(150);
/// The library that makes the clock of a program step.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// The faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    HubKilled,
    SourceKilled,
    TargetKilled,
    SourceFrozen,
    TargetFrozen,
    LineCut,
    DiskFull,
    ClockBack,
    ClockForward,
    DatabaseRestarted,
}

/// A submitted file.
struct Submitted {
    job: String,
    name: String,
    /// Its content; none where it is missing at its source.
    bytes: Option<Vec<u8>>,
    /// Its target when the hub first reported it done: inode, time of change.
    done: Option<(u64, i64, i64)>,
}

struct FaultFixture {
    hubs: Vec<Hub>,
    key: String,
    a: Node,
    b: Node,
    line: ThrottledLine,
    database: Option<Postgres>,
    /// The directory of the hub's state, if its disk can be filled.
    disk: Option<PathBuf>,
    /// The file that sets the time of the hub.
    clock: Option<PathBuf>,
    files: Vec<Submitted>,
    /// The number of names given out, with those of refused jobs.
    named: u64,
    rng: SeededRng,
}

impl FaultFixture {
    fn new(hubs: Vec<Hub>, seed: u64) -> FaultFixture {
        let (a, b) = (Node::closed(), Node::closed());
        let line = ThrottledLine::to(&b, ThrottledLine::FREE);
        let key = hubs[0].grant(&["--role", "admin", "--name", "root", "--community", ""]);
        let admin = hubs[0].with_key(&key);
        for (site, name, node, at) in [("alpha", "na", &a, a.at("")), ("beta", "nb", &b, line.at(""))] {
            let secret = admin.write(&format!("{name}.key"), &node.grant(&["--export", "data", "--write"]));
            admin.run(&["hub", "site", "add", site]).expect(0);
            let endpoint =
                ["hub", "endpoint", "add", name, "--site", site, "--url", &at, "--endpoint-key-file", &secret];
            admin.run(&endpoint).expect(0);
        }
        admin.run(&["hub", "link", "add", "wan", "--capacity", "160Mbit/s", "--between", "alpha,beta"]).expect(0);
        drop(admin);
        let rng = SeededRng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        FaultFixture {
            hubs,
            key,
            a,
            b,
            line,
            database: None,
            disk: None,
            clock: None,
            files: Vec::new(),
            named: 0,
            rng,
        }
    }

    /// An admin of a hub that runs.
    fn admin(&self) -> Member<'_> {
        self.hubs[0].with_key(&self.key)
    }

    fn faults(&self) -> Vec<Fault> {
        let mut all = vec![
            Fault::HubKilled,
            Fault::SourceKilled,
            Fault::TargetKilled,
            Fault::SourceFrozen,
            Fault::TargetFrozen,
            Fault::LineCut,
        ];
        all.extend(self.disk.as_ref().map(|_| Fault::DiskFull));
        all.extend(self.clock.iter().flat_map(|_| [Fault::ClockBack, Fault::ClockForward]));
        all.extend(self.database.as_ref().map(|_| Fault::DatabaseRestarted));
        all
    }

    /// Submits a job of some files, of which one may be missing.
    fn submit(&mut self) {
        let count = 1 + self.rng.below(10);
        let mut list = String::new();
        let mut files = Vec::new();
        for _ in 0..count {
            let name = format!("f{}", self.named);
            self.named += 1;
            let is_missing = self.rng.below(12) == 0;
            let size = if self.rng.below(6) == 0 { 1 << 20 } else { 1 } * (1 + self.rng.below(4)) as usize;
            let bytes = pattern(size);
            if !is_missing {
                fs::write(self.a.data(&name), &bytes).unwrap();
            }
            let (source, target) = (self.a.at(&format!("data/{name}")), self.line.at(&format!("data/in/{name}")));
            list.push_str(&format!("{source} {target} {size}\n"));
            files.push((name, (!is_missing).then_some(bytes)));
        }
        let id = model::id::Uuid::now_v7().to_string();
        let admin = self.admin();
        let list = admin.write("list", &list);
        let submitted = admin.run(&["submit", "--id", &id, "--files-from", &list, "--overwrite"]);
        if submitted.code != 0 {
            // A refused submission leaves nothing in the hub, now or later.
            assert!(submitted.err.lines().count() <= 2, "{}", submitted.err);
            println!("not submitted: {}", submitted.err.trim_end());
            let again = admin.run(&["submit", "--id", &id, "--files-from", &list, "--overwrite"]);
            if again.code != 0 {
                return;
            }
        }
        let job = |(name, bytes): (String, Option<Vec<u8>>)| Submitted { job: id.clone(), name, bytes, done: None };
        let files: Vec<Submitted> = files.into_iter().map(job).collect();
        self.files.extend(files);
    }

    fn inject(&mut self, fault: Fault) {
        let pause = Duration::from_millis(100 + self.rng.below(1500));
        match fault {
            Fault::HubKilled => {
                // Of several hubs another one continues meanwhile.
                let which = self.rng.below(self.hubs.len() as u64) as usize;
                self.hubs[which].kill();
                sleep(pause / 4);
                self.hubs[which].restart();
            }
            Fault::SourceKilled => self.a.restart(),
            Fault::TargetKilled => self.b.restart(),
            Fault::SourceFrozen | Fault::TargetFrozen => {
                let node = if fault == Fault::SourceFrozen { &self.a } else { &self.b };
                node.freeze();
                sleep(pause);
                node.thaw();
            }
            Fault::LineCut => {
                self.line.cut();
                sleep(pause);
                self.line.mend();
            }
            Fault::DiskFull => {
                let filler = self.disk.as_ref().unwrap().join("filler");
                let mut block = 1 << 20;
                let mut file = fs::File::create(&filler).unwrap();
                while block > 0 {
                    if std::io::Write::write_all(&mut file, &vec![1; block]).is_err() {
                        block /= 2;
                    }
                }
                self.submit();
                sleep(pause);
                fs::remove_file(filler).unwrap();
            }
            Fault::ClockBack | Fault::ClockForward => {
                // Two hours before and after the time of the other machines.
                let step = if fault == Fault::ClockBack { "-7200\n" } else { "+7200\n" };
                fs::write(self.clock.as_ref().unwrap(), step).unwrap();
            }
            Fault::DatabaseRestarted => self.database.as_mut().unwrap().restart(),
        }
    }

    /// Notes the files that are done, and checks that those done before are unchanged.
    fn check_files(&mut self) -> bool {
        let mut listed: HashMap<(String, String), Value> = HashMap::new();
        let mut jobs: Vec<String> = self.files.iter().map(|file| file.job.clone()).collect();
        jobs.dedup();
        let admin = self.admin();
        for job in &jobs {
            for file in admin.files(job) {
                let name = file["target"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
                listed.insert((job.clone(), name), file);
            }
        }
        drop(admin);
        let mut is_over = true;
        for file in &mut self.files {
            let listed = listed.get(&(file.job.clone(), file.name.clone()));
            let listed = listed.unwrap_or_else(|| panic!("job {} has lost {}", file.job, file.name));
            let target = self.b.data(&format!("in/{}", file.name));
            match (listed["state"].as_str().unwrap(), &file.bytes) {
                ("done", Some(bytes)) => check_done(&target, bytes, &mut file.done),
                ("failed", _) => {
                    let (error, fault) =
                        (listed["error"].as_str().unwrap_or(""), listed["fault"].as_str().unwrap_or(""));
                    assert!(!error.is_empty() && !fault.is_empty(), "{listed}");
                    assert_eq!(fault == "missing", file.bytes.is_none(), "{listed}");
                }
                (state, Some(_)) => is_over &= state == "done",
                (state, None) => {
                    assert_ne!(state, "done", "{listed}");
                    is_over = false;
                }
            }
        }
        is_over
    }
}

impl FaultFixture {
    /// The reports about the files that have not ended, with their reasons.
    fn pending_files(&self) -> Vec<Value> {
        let admin = self.admin();
        let mut jobs: Vec<&str> = self.files.iter().map(|file| file.job.as_str()).collect();
        jobs.dedup();
        let files = jobs.iter().flat_map(|job| admin.files(job));
        let mut pending: Vec<Value> = files.filter(|file| file["ended"].is_null()).collect();
        pending.extend(jobs.iter().flat_map(|job| admin.json(&["queue", "why", job])));
        pending.extend(admin.json(&["queue", "show"]));
        pending
    }
}

/// Checks that a file that is done has its bytes, and is unchanged since it was first reported done.
fn check_done(target: &Path, bytes: &[u8], done: &mut Option<(u64, i64, i64)>) {
    let there = fs::metadata(target).unwrap_or_else(|error| panic!("{}: {error}", target.display()));
    let now = (there.ino(), there.ctime(), there.ctime_nsec());
    match done {
        Some(before) => assert_eq!(*before, now, "{} was moved again after it was done", target.display()),
        None => {
            assert!(fs::read(target).unwrap() == bytes, "{} has other bytes", target.display());
            *done = Some(now);
        }
    }
}

fn run(mut fixture: FaultFixture, faults: u64) {
    for at in 0..faults {
        fixture.submit();
        sleep(Duration::from_millis(fixture.rng.below(700)));
        let all = fixture.faults();
        let fault = all[fixture.rng.below(all.len() as u64) as usize];
        println!("fault {at}: {fault:?}, {} files so far", fixture.files.len());
        fixture.inject(fault);
        if at % 8 == 7 {
            fixture.check_files();
        }
    }
    let begun = Instant::now();
    while !fixture.check_files() {
        assert!(begun.elapsed() < ALL_ENDED_WITHIN, "not all files have ended: {:#?}", fixture.pending_files());
        sleep(Duration::from_millis(500));
    }
    println!("hub: {faults} faults, {} files", fixture.files.len());
}

fn seed_and_faults() -> (u64, u64) {
    (number("LONGHAUL_SEED").unwrap_or(1), number("LONGHAUL_FAULTS").map_or(FAULTS, |faults| faults.div_ceil(2)))
}

#[test]
fn no_file_is_lost_under_faults_with_a_hub_on_a_file() {
    const TEST: &str = "hub_faults::no_file_is_lost_under_faults_with_a_hub_on_a_file";
    with_mounts(TEST, || {
        let (seed, faults) = seed_and_faults();
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk");
        // The write-ahead log alone may grow to 64 MiB.
        let mount: Option<Mount> = mounted(&disk, "size=96m", TEST);
        let clock = dir.path().join("clock");
        fs::write(&clock, "+0\n").unwrap();
        let is_faked = Path::new(FAKETIME).exists();
        if !is_faked {
            skipped(TEST, "the clock does not step: there is no libfaketime (apt-get install faketime)");
        }
        let environment = if is_faked {
            vec![
                ("LD_PRELOAD", FAKETIME.to_owned()),
                ("FAKETIME_TIMESTAMP_FILE", clock.display().to_string()),
                ("FAKETIME_NO_CACHE", "1".to_owned()),
                ("DONT_FAKE_MONOTONIC", "1".to_owned()),
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ]
        } else {
            Vec::new()
        };
        let hub = Hub::start_in(if mount.is_some() { &disk } else { dir.path() }, &[], &environment);
        let mut fixture = FaultFixture::new(vec![hub], seed);
        fixture.disk = mount.as_ref().map(|_| disk.clone());
        fixture.clock = is_faked.then_some(clock);
        run(fixture, faults);
    });
}

#[test]
fn no_file_is_lost_under_faults_with_two_hubs_on_postgresql() {
    let Some(server) = Postgres::start() else {
        return skipped("hub_faults::no_file_is_lost_under_faults_with_two_hubs_on_postgresql", MISSING);
    };
    let (seed, faults) = seed_and_faults();
    let url = server.database("hub");
    let args: [&'static str; 2] = ["--db", Box::leak(url.into_boxed_str())];
    let hubs = vec![Hub::start(&args), Hub::start(&args)];
    let mut fixture = FaultFixture::new(hubs, seed.wrapping_add(1000));
    fixture.database = Some(server);
    run(fixture, faults);
}
