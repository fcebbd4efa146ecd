//! `cargo xtask <task>`: finds the task and reports what it says.

use std::process::ExitCode;

use xtask::{demo, soak, tidy};

const USAGE: &str = "usage: cargo xtask <task>

tasks:
  tidy    check the house rules, which `cargo test -p xtask` checks as well
  demo    two nodes on this machine and a real tree from one to the other
  soak    random faults by the thousand, then an hour at full rate; writes docs/results
          [--minutes M] [--faults N]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["tidy"] => report(),
        ["demo"] => task("demo", demo::run()),
        ["soak", ref rest @ ..] => match soak::Asked::parse(rest) {
            Some(asked) => task("soak", soak::run(asked)),
            None => say(USAGE, ExitCode::from(2)),
        },
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

fn report() -> ExitCode {
    match tidy::run_all() {
        Ok(report) if report.is_empty() => say("tidy: all rules hold", ExitCode::SUCCESS),
        Ok(report) => say(&report, ExitCode::FAILURE),
        Err(error) => say(&format!("tidy: {error:#}"), ExitCode::FAILURE),
    }
}
