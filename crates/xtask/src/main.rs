//! `cargo xtask <task>`: finds the task and reports what it says.

use std::path::PathBuf;
use std::process::ExitCode;

use xtask::package::PackageOptions;
use xtask::{check, demo, fuzz, picture, soak, stress, suite, tidy, try_deb};

const USAGE: &str = "usage: cargo xtask <task>

tasks:
  tidy    check the house rules, which `cargo test -p xtask` checks as well
  check   format, dependencies, lints, house rules and pure tests: no root, no system packages but a C compiler
  test    builds every test and runs each in a process of its own; what failed, what was skipped and where the time went
          is told at the end. [--pure] only what needs neither root nor system packages; [--unhurried] seconds are not
          held against the budget; [WORD]… only tests whose name has one of these in it
  stress  all of them five times beside busy loops and a disk writer; writes docs/results/stress.md
          [--runs N] that often; [WORD]… only tests whose name has one of these in it
  demo    two nodes on this machine and a real tree from one to the other
  soak    random faults by the thousand, then an hour at full rate; writes docs/results
          [--minutes M] [--faults N]
  fuzz    every parser and both protocol machines, guided by coverage: hours, and days for all; goes on where the last
          call ended; writes docs/results/fuzz.md
          [--runs N] of each target in all, 10^8 unless given; [--target NAME]… only these; [--part SECONDS] until the
          next target has its turn; [--minutes M] in this call; [--report] the page alone
  picture draws docs/crates.svg anew: the crates, and which links which
  deb     a Debian package of the release program, into target/dist
  dist    an archive of it, with checksums, into target/dist
          both: [--binary FILE] [--version V] [--out DIR]
  try-deb the package on a system of its own: installed, started, upgraded under a transfer, removed, purged; as root";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["tidy"] => report(),
        ["test", ref rest @ ..] => match suite::Request::parse(rest) {
            Some(request) => task("test", suite::run(&request)),
            None => say(USAGE, ExitCode::from(2)),
        },
        ["check"] => task("check", check::run()),
        ["stress", ref rest @ ..] => match stress::Request::parse(rest) {
            Some(request) => task("stress", stress::run(&request)),
            None => say(USAGE, ExitCode::from(2)),
        },
        ["demo"] => task("demo", demo::run()),
        ["soak", ref rest @ ..] => match soak::SoakOptions::parse(rest) {
            Some(asked) => task("soak", soak::run(asked)),
            None => say(USAGE, ExitCode::from(2)),
        },
        ["fuzz", ref rest @ ..] => match fuzz::Request::parse(rest) {
            Some(request) => task("fuzz", fuzz::run(&request)),
            None => say(USAGE, ExitCode::from(2)),
        },
        ["picture"] => task("picture", picture::write(&demo::repository())),
        ["deb", ref rest @ ..] => task("deb", wrapped(rest, PackageOptions::deb)),
        ["dist", ref rest @ ..] => task("dist", wrapped(rest, PackageOptions::dist)),
        ["try-deb", ref rest @ ..] => task("try-deb", try_deb::run(rest)),
        ["--help" | "-h" | "help"] => say(USAGE, ExitCode::SUCCESS),
        _ => say(USAGE, ExitCode::from(2)),
    }
}

#[allow(clippy::print_stdout, reason = "a task of the command line answers there")]
fn say(text: &str, code: ExitCode) -> ExitCode {
    println!("{text}");
    code
}

fn task(name: &str, result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => say(&format!("{name}: {error:#}"), ExitCode::FAILURE),
    }
}

/// Wraps the program up, and says where the result lies.
fn wrapped(words: &[&str], wrap: fn(&PackageOptions) -> anyhow::Result<PathBuf>) -> anyhow::Result<()> {
    say(&wrap(&PackageOptions::parse(words)?)?.display().to_string(), ExitCode::SUCCESS);
    Ok(())
}

fn report() -> ExitCode {
    match tidy::run_all() {
        Ok(report) if report.is_empty() => say("tidy: all rules hold", ExitCode::SUCCESS),
        Ok(report) => say(&report, ExitCode::FAILURE),
        Err(error) => say(&format!("tidy: {error:#}"), ExitCode::FAILURE),
    }
}
