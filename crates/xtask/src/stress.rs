//! `cargo xtask stress`: runs all tests several times on a machine that is kept busy. A test that fails here will fail in CI one day.
//! Writes docs/results/stress.md.
//!
//! One busy loop for each processor, and a thread that writes files and flushes them, run beside the tests.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};

use crate::demo::repository;
use crate::soak::{first_line, machine};
use crate::suite::{self, conclusion::Conclusion};

/// The size of each file of the disk writer.
const FILE_BYTES: usize = 64 << 20;
/// The bytes that it writes at once.
const WRITE_BYTES: usize = 1 << 20;

/// Options of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// How often the tests run.
    pub runs: usize,
    /// Only tests whose name contains one of these.
    pub filters: Vec<String>,
}

impl Request {
    /// Reads `[--runs N] [WORD]…`; none if there are other options.
    pub fn parse(words: &[&str]) -> Option<Request> {
        match words {
            ["--runs", runs, filters @ ..] => Some(Request { runs: runs.parse().ok()?, ..Request::parse(filters)? }),
            [option, ..] if option.starts_with('-') => None,
            filters => Some(Request { runs: 5, filters: filters.iter().map(|word| (*word).to_owned()).collect() }),
        }
    }
}

/// Runs the tests. Writes the page if all tests were requested.
///
/// # Errors
/// A test fails in one of the runs.
pub fn run(request: &Request) -> Result<()> {
    let wanted = suite::Request { unhurried: true, filters: request.filters.clone(), ..Default::default() };
    // The programs are built before the machine is kept busy: only the tests are tried.
    let tests = suite::Tests::build(&wanted)?;
    let commit = commit();
    let mut rows = Vec::new();
    for number in 1..=request.runs {
        let conclusion = under_load(|| tests.run(&wanted))?;
        println!("{}", conclusion.text());
        println!("run {number} of {}: {}", request.runs, if conclusion.is_green() { "green" } else { "NOT GREEN" });
        rows.push(conclusion);
        // Written after each run, so that an interrupted task leaves its results.
        if request.filters.is_empty() {
            fs::write(repository().join("docs/results/stress.md"), page(&rows, &commit))?;
        }
    }
    println!("\n{}", page(&rows, &commit));
    let green = rows.iter().filter(|row| row.is_green()).count();
    ensure!(green == rows.len(), "{green} of {} runs were green", rows.len());
    Ok(())
}

/// Runs `work` while the machine is kept busy.
fn under_load<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let is_over = AtomicBool::new(false);
    let directory = repository().join("target/stress");
    fs::create_dir_all(&directory)?;
    thread::scope(|scope| {
        let loops = thread::available_parallelism().map_or(2, usize::from);
        (0..loops).for_each(|_| drop(scope.spawn(|| spin(&is_over))));
        let writer = scope.spawn(|| write_files(&directory, &is_over));
        let result = work();
        is_over.store(true, Ordering::Relaxed);
        writer.join().ok().context("the disk writer panicked")??;
        result
    })
}

fn spin(is_over: &AtomicBool) {
    let mut count = 0u64;
    while !is_over.load(Ordering::Relaxed) {
        count = black_box(count.wrapping_add(1));
    }
}

fn write_files(directory: &Path, is_over: &AtomicBool) -> Result<()> {
    let path = directory.join("written");
    let piece = vec![0x5a; WRITE_BYTES];
    loop {
        let mut file = File::create(&path)?;
        for _ in 0..FILE_BYTES / WRITE_BYTES {
            file.write_all(&piece)?;
        }
        file.sync_all()?;
        if is_over.load(Ordering::Relaxed) {
            break;
        }
    }
    fs::remove_file(&path).context("cannot remove the file of the disk writer")
}

/// The commit that is tested. Found out before the page is written, because the page itself is a change.
fn commit() -> String {
    first_line("git", &["describe", "--always", "--dirty"])
}

fn page(rows: &[Conclusion], commit: &str) -> String {
    let mut page = String::from("# Stress: all tests on a busy machine\n\n");
    page.push_str("Beside the tests ran as many busy loops as there are processors, and a thread that wrote files of 64 MiB and flushed\n");
    page.push_str("each to the disk.\n\n");
    let date = first_line("date", &["-u", "+%Y-%m-%d %H:%M UTC"]);
    let _ = writeln!(page, "- Date: {date}\n- Machine: {}", machine().unwrap_or_default());
    let _ = writeln!(page, "- Command: `make stress`, at {commit}\n");
    page.push_str(
        "| run | passed | failed | skipped or not judged | seconds | processor seconds |\n|---|---|---|---|---|---|\n",
    );
    for (at, row) in rows.iter().enumerate() {
        let _ = writeln!(page, "| {} | {} |", at + 1, row.cells().join(" | "));
    }
    let green = rows.iter().filter(|row| row.is_green()).count();
    let _ = writeln!(page, "\n{green} of {} green.", rows.len());
    for (at, row) in rows.iter().enumerate() {
        for outcome in row.failed() {
            let _ = writeln!(page, "- run {}: `{}` failed", at + 1, outcome.test.title());
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_from_words_and_other_options_are_refused() {
        let request =
            |runs, filters: &[&str]| Request { runs, filters: filters.iter().map(|f| (*f).to_owned()).collect() };
        assert_eq!(Request::parse(&[]), Some(request(5, &[])));
        assert_eq!(Request::parse(&["--runs", "30", "resume", "kept"]), Some(request(30, &["resume", "kept"])));
        for words in [&["--runs"][..], &["--runs", "many"], &["--load", "2"]] {
            assert_eq!(Request::parse(words), None, "{words:?}");
        }
    }

    #[test]
    fn the_load_ends_with_the_work() {
        assert_eq!(under_load(|| Ok(7)).unwrap(), 7);
        assert!(under_load::<()>(|| anyhow::bail!("no")).is_err());
    }
}
