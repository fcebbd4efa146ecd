//! A small run of the whole bench: Longhaul, `cp`, and a peer whose copy is wrong, in one tiny scenario.
#![allow(clippy::print_stdout, reason = "a test that cannot run says so")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bench::account::Accounts;
use bench::contestant::longhaul::Longhaul;
use bench::contestant::reference::Cp;
use bench::contestant::{Contestant, JobCommand, Role};
use bench::job::{Data, Job};
use bench::namespace;
use bench::round::RoundRunner;
use bench::scenario::{Medium, Scenario};

/// A contestant that exits with success, but makes only an empty directory.
struct EmptyCopy;

impl Contestant for EmptyCopy {
    fn name(&self) -> &'static str {
        "empty copy"
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec!["mkdir".into()]
    }

    fn job_command(&self, job: &Job) -> Option<JobCommand> {
        let copy = job.target.join("copy");
        Some(JobCommand::of(["mkdir".into(), copy.display().to_string()]).with_copy(copy))
    }
}

/// The binary that the tests of the workspace build; none if it does not exist.
fn longhaul() -> Option<PathBuf> {
    let binary = Path::new(env!("CARGO_BIN_EXE_bench")).with_file_name("longhaul");
    binary.exists().then_some(binary)
}

#[test]
fn contestants_take_turns_and_a_wrong_copy_is_found() {
    let Some(binary) = longhaul() else {
        return println!("SKIPPED contestants_take_turns_and_a_wrong_copy_is_found: build longhaul first");
    };
    let dir = tempfile::tempdir().unwrap();
    let (disk, tmpfs) = (dir.path().join("disk"), dir.path().join("tmpfs"));
    std::fs::create_dir(&disk).unwrap();
    std::fs::create_dir(&tmpfs).unwrap();
    let runner = RoundRunner {
        disk,
        tmpfs,
        rounds: 2,
        time_limit: Duration::from_secs(200),
        accounts: Accounts::open(),
        stop: Default::default(),
    };
    let scenario = Scenario {
        name: "tiny",
        title: "ten files of 10 kB".into(),
        data: Data::Tree { files: 10, bytes_each: 10_000 },
        medium: Medium::Disk,
        jobs: 1,
        targets: Vec::new(),
    };
    let contestants: Vec<Box<dyn Contestant>> =
        vec![Box::new(Longhaul { binary, is_plain: true }), Box::new(Cp), Box::new(EmptyCopy)];
    let rows = runner.run(&scenario, &contestants).unwrap();
    for row in &rows[..2] {
        assert_eq!((row.samples.len(), row.failed, &row.note), (2, false, &None), "{}", row.name);
        assert!(row.samples.iter().all(|s| s.wall_s > 0.0));
    }
    assert!(rows[0].samples.iter().any(|s| s.client_s > 0.0), "a handshake takes processor time");
    assert!(rows[2].failed && rows[2].note.as_ref().unwrap().contains("the copy differs from the source"));
}

#[test]
fn a_namespace_has_its_own_congestion_control() {
    if !namespace::is_possible() {
        return println!("SKIPPED a_namespace_has_its_own_congestion_control: no network namespace can be made here");
    }
    let dir = tempfile::tempdir().unwrap();
    let run = |congestion: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
        command.args(["--congestion", congestion, "--only", "no such scenario", "--out"]).arg(dir.path());
        let output = command.output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run("reno").contains("no scenario has a name that --only selects"), "it was set, and the run went on");
    assert!(run("imagined").contains("this kernel has no congestion control imagined"));
}
