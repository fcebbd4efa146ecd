//! The counts of a target so far: a line of `NAME VALUE` for each count, in `fuzz/tally/TARGET`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::turn::FuzzRun;
use crate::soak::first_line;

/// The counts of a target, over all calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FuzzCounts {
    /// Runs, as libFuzzer counts them.
    pub runs: u64,
    /// The time of the program, with its start.
    pub seconds: f64,
    /// Edges that the corpus covered in the last turn.
    pub edges: u64,
    /// Files of the corpus.
    pub corpus: u64,
    /// Turns with a finding.
    pub findings: u64,
    /// The commit that the last turn was built from.
    pub commit: String,
}

fn path(home: &Path, target: &str) -> PathBuf {
    home.join("tally").join(target)
}

impl FuzzCounts {
    /// Reads the counts of a target; zeros if it has never run.
    ///
    /// # Errors
    /// The file has other lines.
    pub fn read(home: &Path, target: &str) -> Result<FuzzCounts> {
        let mut counts = FuzzCounts::default();
        let Ok(text) = fs::read_to_string(path(home, target)) else { return Ok(counts) };
        counts.parse(&text).with_context(|| format!("fuzz/tally/{target} cannot be read; remove it to begin again"))?;
        Ok(counts)
    }

    fn parse(&mut self, text: &str) -> Option<()> {
        for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
            match name {
                "runs" => self.runs = value.parse().ok()?,
                "seconds" => self.seconds = value.parse().ok()?,
                "edges" => self.edges = value.parse().ok()?,
                "corpus" => self.corpus = value.parse().ok()?,
                "findings" => self.findings = value.parse().ok()?,
                "commit" => self.commit = value.to_owned(),
                _ => return None,
            }
        }
        Some(())
    }

    /// Adds the counts of one more turn.
    pub fn with(&self, turn: &FuzzRun) -> FuzzCounts {
        FuzzCounts {
            runs: self.runs + turn.runs,
            seconds: self.seconds + turn.seconds,
            edges: turn.edges,
            corpus: turn.corpus,
            findings: self.findings + u64::from(turn.finding.is_some()),
            commit: commit(),
        }
    }

    /// Writes the counts of a target.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, home: &Path, target: &str) -> Result<()> {
        let path = path(home, target);
        fs::create_dir_all(home.join("tally"))?;
        fs::write(path.with_extension("new"), self.text()?)?;
        Ok(fs::rename(path.with_extension("new"), path)?)
    }

    fn text(&self) -> Result<String> {
        let FuzzCounts { runs, seconds, edges, corpus, findings, commit } = self;
        let mut text = format!("runs {runs}\nseconds {seconds}\nedges {edges}\ncorpus {corpus}\nfindings {findings}\n");
        writeln!(text, "commit {commit}")?;
        Ok(text)
    }

    /// Runs per second, over all turns.
    pub fn rate(&self) -> u64 {
        if self.seconds > 0.0 { (self.runs as f64 / self.seconds).round() as u64 } else { 0 }
    }
}

/// The commit that is checked out, with a plus if the code was changed since.
fn commit() -> String {
    let root = crate::demo::repository().display().to_string();
    let changed = first_line("git", &["-C", &root, "status", "--porcelain", "--untracked-files=no", "crates", "fuzz"]);
    let plus = if changed.is_empty() { "" } else { "+" };
    format!("{}{plus}", first_line("git", &["-C", &root, "rev-parse", "--short=10", "HEAD"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_they_were_written_and_add_up() {
        let turn = FuzzRun { runs: 500, seconds: 2.5, edges: 12, corpus: 3, finding: None };
        let counts = FuzzCounts { commit: "ab".into(), ..FuzzCounts::default().with(&turn).with(&turn) };
        let mut read = FuzzCounts::default();
        read.parse(&counts.text().unwrap()).unwrap();
        assert_eq!((read.runs, read.edges, read.rate()), (1_000, 12, 200));
        assert_eq!(read, counts);
        assert_eq!(read.parse("runs many\n"), None);
    }
}
