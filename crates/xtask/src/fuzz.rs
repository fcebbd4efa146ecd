//! `cargo xtask fuzz`: coverage-guided fuzzing of all targets in `fuzz/src/bin`, which take turns of a minute until each has had
//! its runs. Corpus and counts are kept below `fuzz/`, so that each call continues where the last one ended.
//! Writes docs/results/fuzz.md.
//!
//! Does not know: which function a target feeds, or what must hold there.

mod counts;
mod report;
mod seeds;
mod turn;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::counts::FuzzCounts;
use self::turn::{Finding, Programs};
use crate::demo::repository;

/// Options of the task.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The wanted runs of each target, with those of earlier calls.
    pub runs: u64,
    /// The targets; all targets if none is named.
    pub targets: Vec<String>,
    /// How long one target runs before the next one.
    pub turn: Duration,
    /// The longest that the call may take, even if runs are missing.
    pub time_limit: Option<Duration>,
    /// Whether nothing is run, and the page is written from the existing counts.
    pub only_report: bool,
}

impl Request {
    /// Reads the words of the command line; none if an option is unknown or lacks its value.
    pub fn parse(words: &[&str]) -> Option<Request> {
        let turn = Duration::from_secs(60);
        let mut request =
            Request { runs: 100_000_000, targets: Vec::new(), turn, time_limit: None, only_report: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--report" => request.only_report = true,
                "--runs" => request.runs = words.next()?.replace('_', "").parse().ok()?,
                "--target" => request.targets.push((*words.next()?).to_owned()),
                "--turn" => request.turn = seconds(words.next()?, 1.0)?,
                "--minutes" => request.time_limit = Some(seconds(words.next()?, 60.0)?),
                _ => return None,
            }
        }
        Some(request)
    }
}

fn seconds(number: &str, each: f64) -> Option<Duration> {
    let seconds = number.parse::<f64>().ok()? * each;
    Duration::try_from_secs_f64(seconds).ok().filter(|span| span.as_secs() >= 1)
}

/// The directory of targets, seeds, corpora and counts.
fn fuzz_directory() -> PathBuf {
    repository().join("fuzz")
}

/// The names of all targets, in order.
fn all_targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(fuzz_directory().join("src/bin")).context("cannot list the targets in fuzz/src/bin")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".rs").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Runs the requested targets, and writes the page.
///
/// # Errors
/// A target does not exist, a target does not build, or a target has a finding.
pub fn run(request: &Request) -> Result<()> {
    let all = all_targets()?;
    if let Some(unknown) = request.targets.iter().find(|name| !all.contains(name)) {
        bail!("there is no target {unknown}; the targets are {}", all.join(", "));
    }
    if request.only_report {
        return report::write(&all);
    }
    let wanted = if request.targets.is_empty() { &all } else { &request.targets };
    let programs = Programs::build(&fuzz_directory(), wanted)?;
    for target in wanted {
        seeds::write_corpus(&fuzz_directory(), target)?;
    }
    let found = rounds(request, wanted, &all, &programs)?;
    found.iter().for_each(|finding| println!("\n{finding}"));
    ensure!(found.is_empty(), "{} of {} targets have a finding", found.len(), wanted.len());
    Ok(())
}

/// Runs rounds: one turn of each target that has not had its runs and has no finding yet. Returns the findings.
fn rounds(request: &Request, wanted: &[String], all: &[String], programs: &Programs) -> Result<Vec<Finding>> {
    let started = Instant::now();
    let mut found = Vec::<Finding>::new();
    let is_late = || request.time_limit.is_some_and(|time_limit| started.elapsed() >= time_limit);
    loop {
        let mut ran = 0;
        for target in wanted.iter().filter(|_| !is_late()) {
            let done = FuzzCounts::read(&fuzz_directory(), target)?;
            if done.runs >= request.runs || found.iter().any(|finding| finding.target == *target) {
                continue;
            }
            ran += 1;
            let turn = programs.turn(target, request.runs - done.runs, request.turn)?;
            let now = done.with(&turn);
            now.write(&fuzz_directory(), target)?;
            println!("{}", progress(target, &now, request.runs));
            found.extend(turn.finding);
        }
        report::write(all)?;
        if ran == 0 || is_late() {
            return Ok(found);
        }
    }
}

fn progress(target: &str, counts: &FuzzCounts, wanted: u64) -> String {
    format!(
        "{target:<20} {:>13} of {} runs {:>9}/s {:>6} edges, corpus {}",
        grouped(counts.runs),
        grouped(wanted),
        grouped(counts.rate()),
        grouped(counts.edges),
        grouped(counts.corpus)
    )
}

/// A number with a comma after every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// The files of a directory; none if it does not exist.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(Vec::new()) };
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_from_words_and_other_options_are_refused() {
        let request = Request::parse(&[]).unwrap();
        assert_eq!((request.runs, request.turn.as_secs(), request.time_limit), (100_000_000, 60, None));
        let words = ["--runs", "1_000", "--target", "join", "--target", "frames", "--turn", "5", "--minutes", "0.5"];
        let request = Request::parse(&words).unwrap();
        assert_eq!((request.runs, request.turn.as_secs(), request.targets.len()), (1_000, 5, 2));
        assert_eq!(request.time_limit, Some(Duration::from_secs(30)));
        for wrong in [&["--runs"][..], &["--runs", "many"], &["--turn", "0"], &["--minutes", "-1"], &["frames"]] {
            assert_eq!(Request::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!([0, 999, 1_000, 12_345_678].map(grouped), ["0", "999", "1,000", "12,345,678"]);
    }

    #[test]
    fn every_target_has_a_seed_and_the_name_of_its_function() {
        let all = all_targets().unwrap();
        assert!(all.len() > 40 && all.contains(&"sender_hears".to_owned()), "{all:?}");
        for target in all {
            assert!(!seeds::of(&fuzz_directory(), &target).unwrap().is_empty(), "fuzz/seeds/{target} has no seed");
            let text = fs::read_to_string(fuzz_directory().join(format!("src/bin/{target}.rs"))).unwrap();
            let function = text.split("::fuzzing::").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
            assert!(target.ends_with(function), "{target} feeds {function}");
        }
    }
}
