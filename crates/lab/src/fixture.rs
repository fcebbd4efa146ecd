//! Labs for tests: one at a time on a machine, and a message on standard error where there can be none.
//!
//! ```no_run
//! let Some(lab) = lab::fixture::up("my_test", "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"100ms\"") else { return };
//! let output = lab.command("a", "ping").unwrap().args(["-c", "1", "b"]).output().unwrap();
//! lab.set("a-b", &[("loss", "1%")]).unwrap();
//! let truth = lab.reading().unwrap();
//! ```

use std::fs::{self, File};
use std::io::Write;
use std::ops::Deref;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

use crate::error::Error;
use crate::lab::Lab;
use crate::scenario::Scenario;

static SKIPPED: AtomicU32 = AtomicU32::new(0);
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A lab of one test, removed when this is dropped.
pub struct Fixture {
    lab: Option<Lab>,
    dir: PathBuf,
    _lock: LabLock,
}

/// The right to have a lab, given to one test program at a time: two labs would disturb each other's measurements.
#[derive(Debug)]
pub struct LabLock(#[expect(dead_code, reason = "held for its lock")] File);

impl LabLock {
    /// Waits for the right.
    ///
    /// # Errors
    /// The lock file cannot be opened or locked.
    pub fn take() -> std::io::Result<LabLock> {
        // Any user may have made the file, so it is neither followed nor emptied.
        let options = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = std::env::temp_dir().join("longhaul-lab-tests.lock");
        let file = File::from(open(path, options, Mode::RUSR | Mode::WUSR)?);
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(LabLock(file))
    }
}

impl Deref for Fixture {
    type Target = Lab;

    #[expect(clippy::expect_used, reason = "only dropping takes the lab out")]
    fn deref(&self) -> &Lab {
        self.lab.as_ref().expect("the lab is there until it is dropped")
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        drop(self.lab.take());
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Whether this machine can have labs. If not, reports that past the test harness, with the test's name and the number of tests skipped.
pub fn has_prerequisites(test: &str) -> bool {
    let Err(error) = crate::site::check_prerequisites() else { return true };
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {error} ({count} skipped so far)");
    false
}

/// Brings a scenario up for a test; none where this machine cannot have labs, which is reported on standard error.
///
/// # Panics
/// The scenario makes no sense, or the lab does not come up.
#[expect(clippy::panic, reason = "for tests")]
pub fn up(test: &str, scenario: &str) -> Option<Fixture> {
    if !has_prerequisites(test) {
        return None;
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("longhaul-lab-fixture-{}-{number}", std::process::id()));
    let make = || -> Result<Fixture, Error> {
        let file = |source| Error::File { path: dir.clone(), doing: "make it", source };
        let lock = LabLock::take().map_err(file)?;
        fs::DirBuilder::new().mode(0o700).create(&dir).map_err(file)?;
        let lab = Lab::up("fixture", &Scenario::read(scenario)?, &dir)?;
        Ok(Fixture { lab: Some(lab), dir: dir.clone(), _lock: lock })
    };
    match make() {
        Ok(fixture) => Some(fixture),
        Err(error) => {
            let _ = fs::remove_dir_all(&dir);
            panic!("{test}: {error}")
        }
    }
}
