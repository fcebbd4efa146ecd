//! The arguments of `longhaul report`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Render receipts, series and TCP tests as one HTML page.
///
/// FILE is a receipt (`cp --receipt FILE`), a series (`cp --series FILE`), or the output of `cp --json`, `job show --json`,
/// `probe tcp --json` or `probe all --json`. The command recognises a file by its contents. It adds a series to the receipt of
/// its job. It shows several jobs side by side.
///
/// The page is one file without scripts, and it fetches nothing. It shows a verdict, the rate and its limits over time, the
/// numbers of TCP for each stream, both hosts, and the files that did not arrive. Each chart has its numbers below it.
#[derive(Debug, ClapArgs)]
pub struct Report {
    /// The files to read; - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the page to this file (default: standard output)
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The title of the page (default: source and target of the job)
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
}
