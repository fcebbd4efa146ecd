//! One part: a target's program runs for a while; its result is read from libFuzzer's own counts.

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
/// Memory of the program, in MiB. All bounds of the protocols together stay far below.
const MEMORY_MIB_MAX: u64 = 512;
/// Lines of the program's words that say what it found.
const WORDS_MAX: usize = 4;

/// The programs of some targets, built.
pub struct Programs {
    home: PathBuf,
    paths: BTreeMap<String, PathBuf>,
}

/// The result of one part.
#[derive(Debug, Default)]
pub struct FuzzRun {
    pub runs: u64,
    pub seconds: f64,
    pub edges: u64,
    /// Files of the corpus afterwards.
    pub corpus: u64,
    pub finding: Option<Finding>,
}

/// A failure that a target found, and how to reproduce it.
#[derive(Debug)]
pub struct Finding {
    pub target: String,
    artifact: String,
    words: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { target, artifact, words } = self;
        writeln!(f, "FINDING in {target}\n{words}")?;
        writeln!(f, "the bytes: fuzz/{artifact}")?;
        write!(f, "once more: cd fuzz && cargo run --release --bin {target} -- {artifact}")
    }
}

impl Programs {
    /// Builds the programs of these targets, as fuzz/.cargo/config.toml says.
    pub fn build(home: &Path, targets: &[String]) -> Result<Programs> {
        println!("building {} targets …", targets.len());
        let mut command = Command::new("cargo");
        command.args(["build", "--release", "--message-format", "json-render-diagnostics"]);
        command.args(targets.iter().flat_map(|target| ["--bin", target]));
        // What called us may have been told otherwise: here only the file counts.
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

    /// Runs a target: at most so often, and so long.
    pub fn part(&self, target: &str, runs: u64, within: Duration) -> Result<FuzzRun> {
        let program = self.paths.get(target).with_context(|| format!("cargo built no program for {target}"))?;
        let [corpus, artifacts] = ["corpus", "artifacts"].map(|dir| format!("{dir}/{target}"));
        fs::create_dir_all(self.home.join(&corpus))?;
        fs::create_dir_all(self.home.join(&artifacts))?;
        let mut command = Command::new(program);
        command.current_dir(&self.home).arg(format!("-runs={runs}"));
        command.arg(format!("-max_total_time={}", within.as_secs().max(1)));
        command.arg(format!("-timeout={RUN_SECONDS_MAX}")).arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"));
        command.arg("-print_final_stats=1").arg(format!("-artifact_prefix={artifacts}/"));
        let words = super::seeds::dictionary(&self.home, target);
        command.args(words.is_file().then(|| format!("-dict={}", words.display())));
        let started = Instant::now();
        let output = command.arg(&corpus).stdout(Stdio::null()).output().context("cannot run the target")?;
        let text = String::from_utf8_lossy(&output.stderr);
        let mut part = read(target, &text).with_context(|| format!("{target} gave no counts:\n{text}"))?;
        part.seconds = started.elapsed().as_secs_f64();
        part.corpus = super::files(&self.home.join(&corpus))?.len() as u64;
        ensure!(output.status.success() || part.finding.is_some(), "{target} ended with {}:\n{text}", output.status);
        Ok(part)
    }
}

/// What libFuzzer wrote.
fn read(target: &str, text: &str) -> Option<FuzzRun> {
    let runs = after(text, "stat::number_of_executed_units:")?.parse().ok()?;
    let edges = text.lines().rev().find_map(|line| after(line, " cov: ")).and_then(|word| word.parse().ok());
    let finding = after(text, "Test unit written to ").map(|artifact| Finding {
        target: target.to_owned(),
        artifact: artifact.to_owned(),
        words: words(text),
    });
    Some(FuzzRun { runs, edges: edges.unwrap_or(0), finding, ..FuzzRun::default() })
}

/// The first word behind a mark.
fn after<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    text.split_once(mark)?.1.split_whitespace().next()
}

/// Where it panicked and why, or what libFuzzer calls it.
fn words(text: &str) -> String {
    let panic: Vec<&str> = text.lines().skip_while(|line| !line.contains("panicked at")).take(WORDS_MAX).collect();
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
    fn what_libfuzzer_says() {
        let part = read("x", DONE).unwrap();
        assert_eq!((part.runs, part.edges, part.finding.is_none()), (500, 12, true));
        let part = read("x", FOUND).unwrap();
        assert_eq!((part.runs, part.edges), (9, 10));
        let finding = part.finding.unwrap().to_string();
        assert!(finding.contains("panicked at a.rs:3:5:\nno way\nthe bytes: fuzz/artifacts/x/crash-ab"), "{finding}");
        let slow = FOUND.replace("panicked", "was").replace("deadly signal", "timeout");
        assert_eq!(read("x", &slow).unwrap().finding.unwrap().words, "SUMMARY: libFuzzer: timeout");
        assert!(read("x", "no such flag").is_none());
    }
}
