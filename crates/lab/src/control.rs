//! A lab in a process of its own, and its control: a directory with a lock, and a socket that takes a line of JSON and answers with one.
//!
//! Does not know: how that process is started.

mod remote;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::v1;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::lab::Lab;
use crate::scenario::{Change, Problem, Scenario};
use crate::site::Group;
use crate::site_processes;

pub use remote::{Remote, list};

/// How long a caller waits for the reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a caller may take for a line, and its longest length: other callers wait meanwhile.
const LINE_TIMEOUT: Duration = Duration::from_secs(1);
const LINE_MAX: u64 = 64 << 10;

/// How long a process that was killed may take to release its lab's name.
const RELEASE_TIME: Duration = Duration::from_secs(5);

/// The longest path that a socket can have.
const SOCKET_PATH_MAX: usize = 107;

/// A request to a lab, one line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ControlRequest {
    Status,
    Set(Set),
    Down,
}

/// A request to change the network, as it was typed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Set {
    /// A path, or a site whose uplink is meant.
    pub target: String,
    /// 0 for `ab`, 1 for `ba`, both if none.
    pub direction: Option<usize>,
    /// From 0.
    pub member: Option<usize>,
    /// Words and their values.
    pub words: Vec<(String, String)>,
    /// The time after which the change is taken back, in seconds.
    pub lasts_s: Option<f64>,
}

/// The reply, one line of JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ControlReply {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<v1::Lab>,
    /// The number of processes that were ended.
    #[serde(default)]
    ended: usize,
}

/// A lab's directory, whose lock reserves its name.
#[derive(Debug)]
pub struct LabDirectory {
    name: String,
    dir: PathBuf,
    /// How long a process may take to end when it is asked to.
    grace: Duration,
    /// How long a caller may take for a line.
    line_timeout: Duration,
    _lock: File,
}

/// The directory of the labs of a state directory. Absolute: leftovers of a lab are found by it, and relative paths of two labs may be the
/// same.
pub fn labs(state: &Path) -> PathBuf {
    std::path::absolute(state).unwrap_or_else(|_| state.to_owned()).join("lab")
}

/// Checks the name of a lab, which is also that of a directory that is removed in the end.
///
/// # Errors
/// The name is empty, too long, or has characters that it must not have.
pub fn check_name(name: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if (1..=40).contains(&name.len()) && !name.starts_with('.') && name.chars().all(fits) {
        Ok(())
    } else {
        Err(Error::Name { name: name.to_owned() })
    }
}

/// Opens the lock of a directory, never through a symbolic link, and never emptying an existing file.
fn open_lock(dir: &Path) -> io::Result<File> {
    let options = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(dir.join("lock"), options, Mode::RUSR | Mode::WUSR)?.into())
}

impl LabDirectory {
    /// Reserves a name, and removes what a killed lab has left under it.
    ///
    /// # Errors
    /// A lab of this name is up.
    pub fn claim(state: &Path, name: &str) -> Result<LabDirectory, Error> {
        check_name(name)?;
        let dir = labs(state).join(name);
        let failed = |doing: &'static str| {
            let path = dir.clone();
            move |source| Error::File { path, doing, source }
        };
        if dir.join("control").as_os_str().len() > SOCKET_PATH_MAX {
            let what = format!("its path has more than {SOCKET_PATH_MAX} bytes; choose a shorter --state or --lab");
            return Err(failed("hold the lab's control socket")(io::Error::new(io::ErrorKind::InvalidInput, what)));
        }
        let started = Instant::now();
        let lock = loop {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed("make it"))?;
            let lock = match open_lock(&dir) {
                // Another lab that ends has just removed the directory.
                Err(error) if error.kind() == io::ErrorKind::NotFound && started.elapsed() < RELEASE_TIME => continue,
                lock => lock.map_err(failed("make a lock in it"))?,
            };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                // A lab that was killed a moment ago needs time to end.
                let answers = Remote::at(state, name).and_then(|lab| lab.status()).is_ok();
                if !answers && started.elapsed() < RELEASE_TIME {
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                }
                let pid = fs::read_to_string(dir.join("pid")).ok().and_then(|pid| pid.trim().parse().ok());
                return Err(Error::Up { name: name.to_owned(), pid: pid.unwrap_or(0) });
            }
            // A lab that was going down may have removed the file in between.
            let is_there = fs::metadata(dir.join("lock")).is_ok_and(|file| is_same_file(&file, &lock));
            if is_there {
                break lock;
            }
        };
        let directory = LabDirectory {
            name: name.to_owned(),
            dir: dir.clone(),
            grace: site_processes::GRACE,
            line_timeout: LINE_TIMEOUT,
            _lock: lock,
        };
        directory.clear();
        fs::write(dir.join("pid"), std::process::id().to_string()).map_err(failed("write into it"))?;
        Ok(directory)
    }

    /// Sets how long processes at its sites may take to end, and callers to send a line.
    #[must_use]
    pub fn with_timeouts(mut self, grace: Duration, line_timeout: Duration) -> LabDirectory {
        self.grace = grace;
        self.line_timeout = line_timeout;
        self
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn clear(&self) {
        site_processes::end_leftovers(&self.dir);
        let _ = fs::remove_file(self.dir.join("control"));
        self.clear_sites();
    }

    /// Removes the empty control groups and the files of its sites.
    fn clear_sites(&self) {
        let leftovers = fs::read_dir(self.dir.join("sites")).into_iter().flatten().flatten();
        let sites: Vec<String> = leftovers.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        Group::remove_leftovers(&self.dir, &sites);
        let _ = fs::remove_dir_all(self.dir.join("sites"));
    }

    /// Brings the scenario up in this process and answers requests until one ends the lab, or `is_over` returns true. `ready` is called once the
    /// lab is up.
    ///
    /// # Errors
    /// The scenario cannot be brought up, or the control socket cannot be made.
    pub fn serve(self, scenario: &Scenario, ready: impl FnOnce(), is_over: impl Fn() -> bool) -> Result<(), Error> {
        let lab = Lab::up(&self.name, scenario, &self.dir)?;
        let socket = self.dir.join("control");
        let failed = |source| Error::File { path: socket.clone(), doing: "listen on it", source };
        let listener = UnixListener::bind(&socket).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        ready();
        let accept = |listener: &UnixListener| -> io::Result<bool> {
            let (caller, _) = match listener.accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(20));
                    return Ok(true);
                }
                other => other?,
            };
            caller.set_nonblocking(false)?;
            Ok(self.answer_caller(&lab, caller).unwrap_or(true))
        };
        while !is_over() && accept(&listener).unwrap_or(true) {}
        self.end(&lab);
        Ok(())
    }

    /// Ends the processes that still run at the sites; returns how many there were.
    fn end(&self, lab: &Lab) -> usize {
        site_processes::end(&lab.networks(), self.grace)
    }

    /// Answers one caller. Returns whether the lab continues.
    fn answer_caller(&self, lab: &Lab, mut caller: UnixStream) -> io::Result<bool> {
        caller.set_read_timeout(Some(self.line_timeout))?;
        caller.set_write_timeout(Some(self.line_timeout))?;
        let mut line = String::new();
        BufReader::new((&caller).take(LINE_MAX)).read_line(&mut line)?;
        let request: ControlRequest = serde_json::from_str(&line).map_err(io::Error::other)?;
        let continues = !matches!(request, ControlRequest::Down);
        let reply = match request {
            ControlRequest::Status => match lab.status() {
                Ok(status) => ControlReply { status: Some(status), ..ControlReply::default() },
                Err(error) => ControlReply { error: Some(error.to_string()), ..ControlReply::default() },
            },
            ControlRequest::Set(set) => {
                let error = change(lab, &set).err().map(|error| error.to_string());
                ControlReply { error, ..ControlReply::default() }
            }
            ControlRequest::Down => {
                ControlReply { status: lab.status().ok(), ended: self.end(lab), ..ControlReply::default() }
            }
        };
        let text = serde_json::to_string(&reply).map_err(io::Error::other)? + "\n";
        // A lab that was asked to go down does so, even if the caller no longer waits for the reply.
        let _ = caller.write_all(text.as_bytes());
        Ok(continues)
    }
}

impl Drop for LabDirectory {
    fn drop(&mut self) {
        for leftover in ["control", "pid"] {
            let _ = fs::remove_file(self.dir.join(leftover));
        }
        self.clear_sites();
        let _ = fs::remove_file(self.dir.join("lock"));
        let _ = fs::remove_dir(&self.dir);
    }
}

fn is_same_file(file: &fs::Metadata, open: &File) -> bool {
    open.metadata().is_ok_and(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()))
}

fn change(lab: &Lab, set: &Set) -> Result<(), Error> {
    let change = Change::read(lab.scenario(), &set.target, set.direction, set.member, &set.words)?;
    let lasts = set.lasts_s.map(Duration::try_from_secs_f64).transpose().map_err(|error| Problem {
        line: 0,
        what: format!("no change can last this long: {error}"),
        remedy: "write a time like 30 s".to_owned(),
    })?;
    lab.change(change, lasts)
}
