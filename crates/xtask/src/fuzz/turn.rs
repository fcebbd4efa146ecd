//! One turn: runs a target's program for a while, and reads the counts that libFuzzer prints.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cargo_metadata::Message;

/// A run that takes longer counts as a hang.
const RUN_SECONDS_MAX: u64 = 10;
/// The most memory of the program, in MiB. All bounds of the protocols together are far below.
const MEMORY_MIB_MAX: u64 = 512;
/// The most lines of a panic that a finding shows.
const PANIC_LINES_MAX: usize = 4;

/// The built programs of some targets.
pub struct Programs {
    home: PathBuf,
    paths: BTreeMap<String, PathBuf>,
}

/// The result of one turn.
#[derive(Debug, Default)]
pub struct FuzzRun {
    pub runs: u64,
    pub seconds: f64,
    pub edges: u64,
    /// Files of the corpus after the turn.
    pub corpus: u64,
    pub finding: Option<Finding>,
}

/// A failure that a target found, and how to reproduce it.
#[derive(Debug)]
pub struct Finding {
    pub target: String,
    artifact: String,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { target, artifact, message } = self;
        writeln!(f, "FINDING in {target}\n{message}")?;
        writeln!(f, "its input: fuzz/{artifact}")?;
        write!(f, "run it again: cd fuzz && cargo run --release --bin {target} -- {artifact}")
    }
}

impl Programs {
    /// Builds the programs of these targets with the settings of fuzz/.cargo/config.toml.
    ///
    /// # Errors
    /// cargo cannot be run, or a target does not build.
    pub fn build(home: &Path, targets: &[String]) -> Result<Programs> {
        println!("building {} targets …", targets.len());
        let mut command = Command::new("cargo");
        command.args(["build", "--release", "--message-format", "json-render-diagnostics"]);
        command.args(targets.iter().flat_map(|target| ["--bin", target]));
        // Flags in the environment would take the place of those in the file.
        command.current_dir(home).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
        ensure!(output.status.success(), "the targets do not build");
        let mut paths = BTreeMap::new();
        for message in Message::parse_stream(output.stdout.as_slice()) {
            if let Message::CompilerArtifact(artifact) = message?
                && let Some(path) = artifact.executable
            {
                paths.insert(artifact.target.name, path.into());
            }
        }
        Ok(Programs { home: home.to_owned(), paths })
    }

    /// Runs a target, at most `runs` times and at most `within`.
    ///
    /// # Errors
    /// The program cannot be run, or ends without counts.
    pub fn turn(&self, target: &str, runs: u64, within: Duration) -> Result<FuzzRun> {
        let program = self.paths.get(target).with_context(|| format!("cargo built no program for {target}"))?;
        let [corpus, artifacts] = ["corpus", "artifacts"].map(|dir| format!("{dir}/{target}"));
        fs::create_dir_all(self.home.join(&corpus))?;
        fs::create_dir_all(self.home.join(&artifacts))?;
        let mut command = Command::new(program);
        command.current_dir(&self.home).arg(format!("-runs={runs}"));
        command.arg(format!("-max_total_time={}", within.as_secs().max(1)));
        command.arg(format!("-timeout={RUN_SECONDS_MAX}")).arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"));
        command.arg("-print_final_stats=1").arg(format!("-artifact_prefix={artifacts}/"));
        let dictionary = super::seeds::dictionary(&self.home, target);
        command.args(dictionary.is_file().then(|| format!("-dict={}", dictionary.display())));
        let started = Instant::now();
        let output = command.arg(&corpus).stdout(Stdio::null()).output().context("cannot run the target")?;
        let text = String::from_utf8_lossy(&output.stderr);
        let mut turn = parse_output(target, &text).with_context(|| format!("{target} gave no counts:\n{text}"))?;
        turn.seconds = started.elapsed().as_secs_f64();
        turn.corpus = super::files(&self.home.join(&corpus))?.len() as u64;
        ensure!(output.status.success() || turn.finding.is_some(), "{target} ended with {}:\n{text}", output.status);
        Ok(turn)
    }
}

/// Reads the counts and the finding that libFuzzer printed.
fn parse_output(target: &str, text: &str) -> Option<FuzzRun> {
    let runs = after(text, "stat::number_of_executed_units:")?.parse().ok()?;
    let edges = text.lines().rev().find_map(|line| after(line, " cov: ")).and_then(|word| word.parse().ok());
    let finding = after(text, "Test unit written to ").map(|artifact| Finding {
        target: target.to_owned(),
        artifact: artifact.to_owned(),
        message: message(text),
    });
    Some(FuzzRun { runs, edges: edges.unwrap_or(0), finding, ..FuzzRun::default() })
}

/// The first word after a mark.
fn after<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    text.split_once(mark)?.1.split_whitespace().next()
}

/// The message of the panic, or the summary of libFuzzer if there was none.
fn message(text: &str) -> String {
    let panic: Vec<&str> =
        text.lines().skip_while(|line| !line.contains("panicked at")).take(PANIC_LINES_MAX).collect();
    let panic: Vec<&str> = panic
        .into_iter()
        .take_while(|line| !["note:", "stack backtrace:"].iter().any(|end| line.starts_with(end)))
        .collect();
    if panic.is_empty() {
        text.lines().find(|line| line.starts_with("SUMMARY:")).unwrap_or_default().to_owned()
    } else {
        panic.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &str = "INFO: seed corpus: files: 3\n#4\tINITED cov: 9 ft: 9 corp: 1/1b exec/s: 0 rss: 27Mb\n\
        #500\tDONE   cov: 12 ft: 13 corp: 2/9b lim: 4 exec/s: 250 rss: 28Mb\nDone 500 runs in 2 second(s)\n\
        stat::number_of_executed_units: 500\nstat::average_exec_per_sec:     250\n";
    const FOUND: &str = "#8\tNEW    cov: 10 ft: 9 corp: 1/1b\n\nthread '<unnamed>' (7) panicked at a.rs:3:5:\nno way\n\
        note: run with `RUST_BACKTRACE=1`\n==7== ERROR: libFuzzer: deadly signal\nSUMMARY: libFuzzer: deadly signal\n\
        artifact_prefix='artifacts/x/'; Test unit written to artifacts/x/crash-ab\nstat::number_of_executed_units: 9\n";

    #[test]
    fn counts_and_findings_are_read_from_the_output_of_libfuzzer() {
        let turn = parse_output("x", DONE).unwrap();
        assert_eq!((turn.runs, turn.edges, turn.finding.is_none()), (500, 12, true));
        let turn = parse_output("x", FOUND).unwrap();
        assert_eq!((turn.runs, turn.edges), (9, 10));
        let finding = turn.finding.unwrap().to_string();
        assert!(finding.contains("panicked at a.rs:3:5:\nno way\nits input: fuzz/artifacts/x/crash-ab"), "{finding}");
        let slow = FOUND.replace("panicked", "was").replace("deadly signal", "timeout");
        assert_eq!(parse_output("x", &slow).unwrap().finding.unwrap().message, "SUMMARY: libFuzzer: timeout");
        assert!(parse_output("x", "no such flag").is_none());
    }
}
