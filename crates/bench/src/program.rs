//! What the programs of the benches share: how they end, which binary they measure, what stops them, and where results go.
//! Their other flags, and what is measured, are their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::machine;

/// What a program ends with: success where it ran and all was as it should be. An error is said under the program's name.
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

/// The flag of all benches that run the binary.
#[derive(Debug, clap::Args)]
pub struct Binary {
    /// The longhaul binary; default: beside this one
    #[arg(long, value_name = "FILE")]
    pub longhaul: Option<PathBuf>,
}

impl Binary {
    /// Where it is or would be.
    ///
    /// # Errors
    /// The kernel does not say where this program is.
    pub fn path(&self) -> Result<PathBuf> {
        match &self.longhaul {
            Some(longhaul) => Ok(longhaul.clone()),
            None => Ok(build()?.join("longhaul")),
        }
    }

    /// Where it is.
    ///
    /// # Errors
    /// It is not there.
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

/// A directory of the run's own, which goes with it, also when it fails: below the place that was asked for, else beside the
/// build, which is on a disk.
///
/// # Errors
/// It cannot be made.
pub fn scratch(name: &str, below: Option<&Path>) -> Result<TempDir> {
    let build = build()?;
    let below = below.unwrap_or_else(|| build.parent().unwrap_or(&build));
    let made = tempfile::Builder::new().prefix(&format!("longhaul-{name}-")).tempdir_in(below);
    made.with_context(|| format!("no scratch in {}", below.display()))
}

/// Labs are for root.
///
/// # Errors
/// This process is somebody else's.
pub fn needs_root() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "a lab needs root");
    Ok(())
}

/// What a signal sets that ends a program: a run stops between two measurements, and takes its lab and nodes down.
///
/// # Errors
/// The kernel takes no handler.
pub fn stopped_by_signals() -> Result<Arc<AtomicBool>> {
    let stop: Arc<AtomicBool> = Arc::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Whether a part of the table was asked for, by words that are in its name; all are where no word was given.
pub fn is_wanted(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|word| name.contains(word.as_str()))
}

/// Words for `make`, as one types them; nothing where there are none.
pub fn make_words(words: &[String]) -> String {
    if words.is_empty() { String::new() } else { format!("BENCH=\"{}\"", words.join(" ")) }
}

/// What was asked for, as one would say it again. Flags with a place on this machine are left out, or are given with the name
/// that stands for it: a reader has other places.
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
    /// The directory that was asked for, else docs/results; made where it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(out: Option<&Path>) -> Result<Results> {
        let dir = out.map_or_else(machine::repository_results, Path::to_owned);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Results(dir))
    }

    /// Writes a page or a picture in place of the last one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, text: impl AsRef<str>) -> Result<()> {
        let file = self.0.join(name);
        fs::write(&file, text.as_ref()).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Says where a page is, when a run is over.
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
