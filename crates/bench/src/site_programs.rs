//! Programs at the sites of a lab: their commands, their output in files, and the wait until a server listens.
//! Does not know: which programs they are.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lab::Lab;

use crate::contestant::find_program;
use crate::process::has_listener;

/// The longest that a server may take until it listens.
const SERVER_START_MAX: Duration = Duration::from_secs(15);
/// The interval at which a starting server is asked.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Starts programs at the sites of a lab.
pub struct SitePrograms<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// The directory for output, and for Longhaul's state.
    pub dir: &'a Path,
}

impl SitePrograms<'_> {
    /// The command of a program at a site: the program, then its arguments. Its output goes to `NAME.out` and `NAME.err`. If this program
    /// is killed, the kernel kills the other one as well (setpriv(1), `--pdeathsig`). Longhaul gets a state directory for each site, so
    /// that it remembers no earlier run.
    ///
    /// # Errors
    /// The lab has no such site, the program is not installed, or the files for its output cannot be made.
    pub fn command(&self, site: &str, name: &str, words: &[String]) -> Result<Command> {
        let (program, arguments) = words.split_first().context("an empty command")?;
        let program = find_program(Path::new(program)).with_context(|| format!("{program} is not installed"))?;
        let mut command = self.lab.command(site, "setpriv")?;
        command.args(["--pdeathsig", "KILL"]).arg(program).args(arguments).stdin(Stdio::null());
        command.env("LONGHAUL_STATE", self.dir.join(format!("state-{site}"))).env_remove("LONGHAUL_KEY");
        command.stdout(File::create(self.log(name, "out"))?).stderr(File::create(self.log(name, "err"))?);
        Ok(command)
    }

    /// Waits until a server that was just started listens.
    ///
    /// # Errors
    /// It ends, it does not listen in time, or a signal stopped the run.
    pub fn wait_for_listener(
        &self,
        site: &str,
        name: &str,
        server: &mut Child,
        port: u16,
        stop: &AtomicBool,
    ) -> Result<()> {
        let started = Instant::now();
        while !self.listens(site, port)? {
            ensure!(!stop.load(Ordering::Relaxed), "stopped by a signal");
            ensure!(server.try_wait()?.is_none(), "{name} ended: {}", self.last_line(name));
            ensure!(started.elapsed() < SERVER_START_MAX, "{name} does not listen: {}", self.last_line(name));
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    fn listens(&self, site: &str, port: u16) -> Result<bool> {
        let read = |name: &str| fs::read_to_string(Path::new("/proc/thread-self/net").join(name));
        let tables = self.lab.site(site)?.within(|| ["tcp", "tcp6"].map(read))?;
        Ok(tables.into_iter().flatten().any(|table| has_listener(&table, port)))
    }

    /// The file with the output of a program, on `out` or `err`.
    pub fn log(&self, name: &str, end: &str) -> PathBuf {
        self.dir.join(format!("{name}.{end}"))
    }

    /// The last line that a program wrote: its error, if it failed.
    pub fn last_line(&self, name: &str) -> String {
        let read = |end: &str| fs::read(self.log(name, end)).unwrap_or_default();
        let texts = ["err", "out"].map(|end| String::from_utf8_lossy(&read(end)).into_owned());
        last_line(&texts).unwrap_or("it printed nothing").to_owned()
    }
}

/// The last line of the first text that has one. Progress output overwrites itself, so lines also end at carriage returns.
fn last_line(texts: &[String]) -> Option<&str> {
    let last = |text: &'_ str| text.trim_end().rfind(['\n', '\r']).map_or(0, |at| at + 1);
    texts.iter().find(|text| !text.trim().is_empty()).map(|text| text[last(text)..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_the_first_text_that_has_one_is_taken() {
        let texts = |err: &str, out: &str| [err.to_owned(), out.to_owned()];
        assert_eq!(last_line(&texts("one\ntwo\n\n", "three")), Some("two"));
        assert_eq!(last_line(&texts("50 %\r100 %\rno room\n", "")), Some("no room"));
        assert_eq!(last_line(&texts(" \n", "three")), Some("three"));
        assert_eq!(last_line(&texts("", "")), None);
    }
}
