//! `cargo xtask <task>`: runs the task, and prints its result.

use std::path::PathBuf;
use std::process::ExitCode;

use xtask::package::PackageOptions;
use xtask::{check, demo, fuzz, picture, soak, stress, suite, tidy, try_deb};

const USAGE: &str = "usage: cargo xtask <task>

tasks:
  tidy    check the house rules, which `cargo test -p xtask` checks as well
  check   format, dependencies, lints, house rules and pure tests: no root, no system packages but a C compiler
  test    builds every test and runs each in a process of its own; reports failed and skipped tests and the time of each
          program. [--pure] only tests that need neither root nor system packages; [--unhurried] does not compare the
          seconds with the budgets; [WORD]… only tests whose name contains one of these
  stress  runs all tests five times beside busy loops and a disk writer; writes docs/results/stress.md
          [--runs N] how often; [WORD]… only tests whose name contains one of these
  demo    starts two nodes on this machine and copies a tree from one to the other
  soak    random faults by the thousand, then an hour at full rate; writes docs/results
          [--minutes M] [--faults N]
  fuzz    fuzzes every parser and both protocol machines, guided by coverage, for hours or days; continues where the
          last call ended; writes docs/results/fuzz.md
          [--runs N] of each target in all, 10^8 by default; [--target NAME]… only these; [--turn SECONDS] of one target
          before the next; [--minutes M] of this call; [--report] only writes the page
  picture draws docs/crates.svg: the crates and their dependencies
  deb     makes a Debian package of the release program in target/dist
  rpm     makes an RPM package of it
  dist    makes an archive of it, with checksums
  release makes all three and an archive of its debugging symbols, if it keeps what is promised of a published program
          all four: [--binary FILE] [--documented-by FILE, where the program is for another kind of machine] [--version V] [--out DIR]
  try-deb tries the package in a separate root with its own systemd: installs, starts, upgrades it under a transfer, removes and purges it;
          needs root";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["tidy"] => report(),
        ["test", ref rest @ ..] => match suite::Request::parse(rest) {
            Some(request) => task("test", suite::run(&request)),
            None => print_with_code(USAGE, ExitCode::from(2)),
        },
        ["check"] => task("check", check::run()),
        ["stress", ref rest @ ..] => match stress::Request::parse(rest) {
            Some(request) => task("stress", stress::run(&request)),
            None => print_with_code(USAGE, ExitCode::from(2)),
        },
        ["demo"] => task("demo", demo::run()),
        ["soak", ref rest @ ..] => match soak::SoakOptions::parse(rest) {
            Some(options) => task("soak", soak::run(options)),
            None => print_with_code(USAGE, ExitCode::from(2)),
        },
        ["fuzz", ref rest @ ..] => match fuzz::Request::parse(rest) {
            Some(request) => task("fuzz", fuzz::run(&request)),
            None => print_with_code(USAGE, ExitCode::from(2)),
        },
        ["picture"] => task("picture", picture::write(&demo::repository())),
        ["deb", ref rest @ ..] => task("deb", package(rest, PackageOptions::deb)),
        ["rpm", ref rest @ ..] => task("rpm", package(rest, PackageOptions::rpm)),
        ["dist", ref rest @ ..] => task("dist", package(rest, PackageOptions::dist)),
        ["release", ref rest @ ..] => task("release", package(rest, PackageOptions::release)),
        ["try-deb", ref rest @ ..] => task("try-deb", try_deb::run(rest)),
        ["--help" | "-h" | "help"] => print_with_code(USAGE, ExitCode::SUCCESS),
        _ => print_with_code(USAGE, ExitCode::from(2)),
    }
}

#[allow(clippy::print_stdout, reason = "a program of the command line")]
fn print_with_code(text: &str, code: ExitCode) -> ExitCode {
    println!("{text}");
    code
}

fn task(name: &str, result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => print_with_code(&format!("{name}: {error:#}"), ExitCode::FAILURE),
    }
}

/// Makes a package, and prints its path.
#[allow(clippy::print_stdout, reason = "a program of the command line")]
fn package(words: &[&str], build: fn(&PackageOptions) -> anyhow::Result<PathBuf>) -> anyhow::Result<()> {
    println!("{}", build(&PackageOptions::parse(words)?)?.display());
    Ok(())
}

fn report() -> ExitCode {
    match tidy::run_all() {
        Ok(report) if report.is_empty() => print_with_code("tidy: all rules hold", ExitCode::SUCCESS),
        Ok(report) => print_with_code(&report, ExitCode::FAILURE),
        Err(error) => print_with_code(&format!("tidy: {error:#}"), ExitCode::FAILURE),
    }
}
