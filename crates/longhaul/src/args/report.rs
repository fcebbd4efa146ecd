//! The arguments of `longhaul report`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Render receipts, series and TCP tests as one HTML page.
///
/// FILE is a receipt (`cp --receipt FILE`), what `cp --json`, `job show --json`, `probe tcp --json` or `probe all --json`
/// printed, or a series (`cp --series FILE`): files are told apart by what they hold. A series joins the receipt of its
/// job. Several jobs are shown side by side.
///
/// The page is one file, without scripts, and fetches nothing: a verdict, the rate and what limited it over time, what TCP
/// says of each stream, both hosts, and what did not arrive, with the numbers of every chart.
#[derive(Debug, ClapArgs)]
pub struct Report {
    /// What to read; - is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the page to this file, not to standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// What the page is called (default: from where to where)
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
}
