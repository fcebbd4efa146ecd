//! `cargo xtask fuzz`: coverage-guided fuzzing of every target in `fuzz/src/bin`, in parts of a minute, one target after the
//! other, until each has had its runs. Corpus and counts stay below `fuzz/`, so that each call goes on where the last one ended.
//! Writes docs/results/fuzz.md.
//!
//! Does not know: what a target feeds, or what must hold there.

mod part;
mod report;
mod seeds;
mod tally;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::part::{Finding, Programs};
use self::tally::Tally;
use crate::demo::repository;

/// What a call of the task is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Runs that each target is to have, those of earlier calls included.
    pub runs: u64,
    /// Which targets; all of them where none is named.
    pub targets: Vec<String>,
    /// How long one target runs before the next one has its turn.
    pub part: Duration,
    /// When to stop, whatever is missing.
    pub within: Option<Duration>,
    /// Runs nothing, and writes the page from the existing counts.
    pub only_report: bool,
}

impl Request {
    /// Reads the words of the command line; none where they are others.
    pub fn parse(words: &[&str]) -> Option<Request> {
        let part = Duration::from_secs(60);
        let mut request = Request { runs: 100_000_000, targets: Vec::new(), part, within: None, only_report: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--report" => request.only_report = true,
                "--runs" => request.runs = words.next()?.replace('_', "").parse().ok()?,
                "--target" => request.targets.push((*words.next()?).to_owned()),
                "--part" => request.part = seconds(words.next()?, 1.0)?,
                "--minutes" => request.within = Some(seconds(words.next()?, 60.0)?),
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

/// Where everything about fuzzing is.
fn home() -> PathBuf {
    repository().join("fuzz")
}

/// The names of all targets, in order.
fn all_targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(home().join("src/bin")).context("cannot list the targets in fuzz/src/bin")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".rs").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Runs what is requested.
///
/// # Errors
/// A target that is not there, a build that fails, and every finding.
pub fn run(request: &Request) -> Result<()> {
    let all = all_targets()?;
    if let Some(unknown) = request.targets.iter().find(|name| !all.contains(name)) {
        bail!("there is no target {unknown}; there are {}", all.join(", "));
    }
    if request.only_report {
        return report::write(&all);
    }
    let wanted = if request.targets.is_empty() { &all } else { &request.targets };
    let programs = Programs::build(&home(), wanted)?;
    for target in wanted {
        seeds::sow(&home(), target)?;
    }
    let found = rounds(request, wanted, &all, &programs)?;
    found.iter().for_each(|finding| println!("\n{finding}"));
    ensure!(found.is_empty(), "{} of {} targets found something", found.len(), wanted.len());
    Ok(())
}

/// Rounds of one part for each target that has not had its runs, and found nothing yet.
fn rounds(request: &Request, wanted: &[String], all: &[String], programs: &Programs) -> Result<Vec<Finding>> {
    let (started, mut found) = (Instant::now(), Vec::<Finding>::new());
    let is_late = || request.within.is_some_and(|within| started.elapsed() >= within);
    loop {
        let mut ran = 0;
        for target in wanted.iter().filter(|_| !is_late()) {
            let done = Tally::read(&home(), target)?;
            if done.runs >= request.runs || found.iter().any(|finding| finding.target == *target) {
                continue;
            }
            ran += 1;
            let part = programs.part(target, request.runs - done.runs, request.part)?;
            let now = done.with(&part);
            now.write(&home(), target)?;
            println!("{}", progress(target, &now, request.runs));
            found.extend(part.finding);
        }
        report::write(all)?;
        if ran == 0 || is_late() {
            return Ok(found);
        }
    }
}

fn progress(target: &str, tally: &Tally, wanted: u64) -> String {
    format!(
        "{target:<20} {:>13} of {} runs {:>9}/s {:>6} edges, corpus {}",
        grouped(tally.runs),
        grouped(wanted),
        grouped(tally.rate()),
        grouped(tally.edges),
        grouped(tally.corpus)
    )
}

/// A number with a comma after every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// Files of a directory; none where it is not there.
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
    fn words_are_read_or_refused() {
        let request = Request::parse(&[]).unwrap();
        assert_eq!((request.runs, request.part.as_secs(), request.within), (100_000_000, 60, None));
        let words = ["--runs", "1_000", "--target", "join", "--target", "frames", "--part", "5", "--minutes", "0.5"];
        let request = Request::parse(&words).unwrap();
        assert_eq!((request.runs, request.part.as_secs(), request.targets.len()), (1_000, 5, 2));
        assert_eq!(request.within, Some(Duration::from_secs(30)));
        for wrong in [&["--runs"][..], &["--runs", "many"], &["--part", "0"], &["--minutes", "-1"], &["frames"]] {
            assert_eq!(Request::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1_000, 12_345_678].map(grouped), ["0", "999", "1,000", "12,345,678"]);
    }

    #[test]
    fn every_target_has_a_seed_and_the_name_of_its_function() {
        let all = all_targets().unwrap();
        assert!(all.len() > 40 && all.contains(&"sender_hears".to_owned()), "{all:?}");
        for target in all {
            assert!(!seeds::of(&home(), &target).unwrap().is_empty(), "fuzz/seeds/{target} has no seed");
            let text = fs::read_to_string(home().join(format!("src/bin/{target}.rs"))).unwrap();
            let function = text.split("::fuzzing::").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
            assert!(target.ends_with(function), "{target} feeds {function}");
        }
    }
}
