//! What the programs of the benches share: exit code, the binary to measure, the stop flag, and the directory of results. Each
//! program has its other flags and its measurements.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::machine;

/// The exit code of a program: success if it ran and met its targets. An error is printed with the program's name.
pub fn exit_code(name: &str, result: Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The flag of all benches that run the longhaul binary.
#[derive(Debug, clap::Args)]
pub struct Binary {
    /// The longhaul binary; default: beside this one
    #[arg(long, value_name = "FILE")]
    pub longhaul: Option<PathBuf>,
}

impl Binary {
    /// The absolute path of the binary, whether or not it exists.
    ///
    /// # Errors
    /// The kernel does not report the path of this program, or the working directory.
    pub fn path(&self) -> Result<PathBuf> {
        match &self.longhaul {
            // Processes of a lab have another working directory.
            Some(longhaul) => Ok(std::path::absolute(longhaul)?),
            None => Ok(build_directory()?.join("longhaul")),
        }
    }

    /// The path of the binary.
    ///
    /// # Errors
    /// The binary does not exist.
    pub fn find(&self) -> Result<PathBuf> {
        let longhaul = self.path()?;
        ensure!(longhaul.exists(), "{} does not exist; run `make build` first", longhaul.display());
        Ok(longhaul)
    }
}

/// The directory that this program was built into.
///
/// # Errors
/// The kernel does not report the path of this program.
pub fn build_directory() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().context("this program has a directory")?.to_owned())
}

/// Makes a directory of the run's own, which is removed when the run ends, also when it fails. It lies below `below`, or else
/// beside the build, which is on a disk.
///
/// # Errors
/// It cannot be made.
pub fn scratch(name: &str, below: Option<&Path>) -> Result<TempDir> {
    let build_directory = build_directory()?;
    let below = below.unwrap_or_else(|| build_directory.parent().unwrap_or(&build_directory));
    let made = tempfile::Builder::new().prefix(&format!("longhaul-{name}-")).tempdir_in(below);
    made.with_context(|| format!("cannot make a scratch directory in {}", below.display()))
}

/// Checks that the program runs as root, which labs need.
///
/// # Errors
/// The program does not run as root.
pub fn require_root() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "a lab needs root");
    Ok(())
}

/// The flag that a terminating signal sets. The run then stops between two measurements, and ends its lab and nodes.
///
/// # Errors
/// The handler cannot be installed.
pub fn stopped_by_signals() -> Result<Arc<AtomicBool>> {
    let stop: Arc<AtomicBool> = Arc::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Whether a part of the table is selected: its name contains one of the words, or there are none.
pub fn is_wanted(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|word| name.contains(word.as_str()))
}

/// The argument of `make` that passes these words to the program; empty without words.
pub fn make_words(words: &[String]) -> String {
    if words.is_empty() { String::new() } else { format!("BENCH=\"{}\"", words.join(" ")) }
}

/// Flags of all programs that have a path of this machine as their value.
const PLACES: [(&str, Option<&str>); 3] = [("--out", None), ("--scratch", None), ("--longhaul", None)];

/// The arguments of this run, for a reader who wants to repeat it, without paths of this machine. `more` has further flags with such a value,
/// which are left out, or shown with the name that stands for the path.
pub fn shown_arguments(more: &[(&str, Option<&str>)]) -> String {
    make_words(&without_places(std::env::args().skip(1), &[&PLACES[..], more].concat()))
}

fn without_places(given: impl Iterator<Item = String>, places: &[(&str, Option<&str>)]) -> Vec<String> {
    let mut words = Vec::new();
    let mut given = given;
    while let Some(word) = given.next() {
        let (flag, has_value) = word.split_once('=').map_or((word.as_str(), false), |(flag, _)| (flag, true));
        match places.iter().find(|(place, _)| *place == flag) {
            None => words.push(word),
            Some((flag, name)) => {
                if !has_value {
                    given.next();
                }
                words.extend(name.map(|name| format!("{flag} {name}")));
            }
        }
    }
    words
}

/// The directory that results are written to.
#[derive(Debug)]
pub struct Results(PathBuf);

impl Results {
    /// Opens the given directory, or else docs/results; makes it if it does not exist.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(out: Option<&Path>) -> Result<Results> {
        let dir = out.map_or_else(machine::repository_results, Path::to_owned);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Results(dir))
    }

    /// Writes a page or a picture, and replaces the previous one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, text: impl AsRef<str>) -> Result<()> {
        let file = self.0.join(name);
        fs::write(&file, text.as_ref()).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Prints the path of a page at the end of a run.
    pub fn print_path(&self, name: &str) {
        println!("\nwritten: {}", self.0.join(name).display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_this_machine_are_left_out_of_the_shown_arguments() {
        let places = [&PLACES[..], &[("--fdt", Some("fdt.jar"))]].concat();
        let again = |line: &str| without_places(line.split(' ').map(String::from), &places).join(" ");
        assert_eq!(again("--quick --out /tmp/x --tools a,b --longhaul target/x"), "--quick --tools a,b");
        assert_eq!(again("--out=/tmp/x --outer=y --rate 7"), "--outer=y --rate 7");
        assert_eq!(again("--fdt /home/me/fdt.jar --fdt=/fdt.jar --full"), "--fdt fdt.jar --fdt fdt.jar --full");
        assert_eq!((make_words(&[]), make_words(&["--full".into()])), (String::new(), "BENCH=\"--full\"".into()));
    }

    #[test]
    fn a_part_is_wanted_if_its_name_contains_a_word() {
        let only = ["tls".to_owned(), "idle".to_owned()];
        assert!(is_wanted(&[], "asks") && is_wanted(&only, "pull-tls") && !is_wanted(&only, "asks"));
    }

    #[test]
    fn results_are_written_to_the_given_directory() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("deep/er");
        Results::open(Some(&out)).unwrap().write("a.md", "# A\n").unwrap();
        assert_eq!(fs::read_to_string(out.join("a.md")).unwrap(), "# A\n");
    }
}
