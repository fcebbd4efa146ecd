//! Shared by the programs of the benches: exit code, the binary to measure, stop by signals, and the directory of results.
//! Other flags and the measurements belong to each program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::machine;

/// The exit code of a program: success where it ran and met its targets. An error is printed with the program's name.
pub fn end(name: &str, result: Result<bool>) -> ExitCode {
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
    /// The path of the binary, whether or not it exists.
    ///
    /// # Errors
    /// The kernel does not report the path of this program.
    pub fn path(&self) -> Result<PathBuf> {
        match &self.longhaul {
            Some(longhaul) => Ok(longhaul.clone()),
            None => Ok(build()?.join("longhaul")),
        }
    }

    /// The path of the binary.
    ///
    /// # Errors
    /// The binary does not exist.
    pub fn find(&self) -> Result<PathBuf> {
        let longhaul = self.path()?;
        ensure!(longhaul.exists(), "{} is not there; run `make build` first", longhaul.display());
        Ok(longhaul)
    }
}

/// The directory that this program was built into.
fn build() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().context("this program has a directory")?.to_owned())
}

/// Makes a directory of the run's own, which is removed when the run ends, also when it fails. It lies below `below`, or else
/// beside the build, which is on a disk.
///
/// # Errors
/// It cannot be made.
pub fn scratch(name: &str, below: Option<&Path>) -> Result<TempDir> {
    let build = build()?;
    let below = below.unwrap_or_else(|| build.parent().unwrap_or(&build));
    let made = tempfile::Builder::new().prefix(&format!("longhaul-{name}-")).tempdir_in(below);
    made.with_context(|| format!("no scratch in {}", below.display()))
}

/// Checks that the program runs as root, which labs need.
///
/// # Errors
/// The program does not run as root.
pub fn needs_root() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "a lab needs root");
    Ok(())
}

/// The flag that a terminating signal sets: a run then stops between two measurements, and takes down its lab and nodes.
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

/// Whether a part of the table was selected by a word in its name; without words, all parts are.
pub fn is_wanted(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|word| name.contains(word.as_str()))
}

/// Arguments of `make`, as a user types them; empty where there are none.
pub fn make_words(words: &[String]) -> String {
    if words.is_empty() { String::new() } else { format!("BENCH=\"{}\"", words.join(" ")) }
}

/// The arguments of this run, as a reader can repeat them. Flags with a path of this machine are left out, or shown with the
/// name that stands for the path.
pub fn asked(places: &[(&str, Option<&str>)]) -> String {
    make_words(&without_places(std::env::args().skip(1), places))
}

fn without_places(given: impl Iterator<Item = String>, places: &[(&str, Option<&str>)]) -> Vec<String> {
    let (mut words, mut given) = (Vec::new(), given);
    while let Some(word) = given.next() {
        let (flag, has_value) = word.split_once('=').map_or((word.as_str(), false), |(flag, _)| (flag, true));
        match places.iter().find(|(place, _)| *place == flag) {
            None => words.push(word),
            Some((flag, stands)) => {
                if !has_value {
                    given.next();
                }
                words.extend(stands.map(|name| format!("{flag} {name}")));
            }
        }
    }
    words
}

/// The directory that results are written to.
#[derive(Debug)]
pub struct Results(PathBuf);

impl Results {
    /// Opens the given directory, or else docs/results; makes it where it does not exist.
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
    pub fn say(&self, name: &str) {
        println!("\nwritten: {}", self.0.join(name).display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_left_out_of_what_was_asked() {
        let places = [("--out", None), ("--fdt", Some("fdt.jar"))];
        let again = |line: &str| without_places(line.split(' ').map(String::from), &places).join(" ");
        assert_eq!(again("--quick --out /tmp/x --tools a,b"), "--quick --tools a,b");
        assert_eq!(again("--out=/tmp/x --outer=y --rate 7"), "--outer=y --rate 7");
        assert_eq!(again("--fdt /home/me/fdt.jar --fdt=/fdt.jar --full"), "--fdt fdt.jar --fdt fdt.jar --full");
        assert_eq!((make_words(&[]), make_words(&["--full".into()])), (String::new(), "BENCH=\"--full\"".into()));
    }

    #[test]
    fn parts_are_wanted_by_words_in_their_names() {
        let only = ["tls".to_owned(), "idle".to_owned()];
        assert!(is_wanted(&[], "asks") && is_wanted(&only, "pull-tls") && !is_wanted(&only, "asks"));
    }

    #[test]
    fn results_go_where_they_were_asked_to() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("deep/er");
        Results::open(Some(&out)).unwrap().write("a.md", "# A\n").unwrap();
        assert_eq!(fs::read_to_string(out.join("a.md")).unwrap(), "# A\n");
    }
}
