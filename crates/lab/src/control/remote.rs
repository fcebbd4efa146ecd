//! A lab of another process, controlled through its socket.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use model::v1;
use sys::namespace::Namespaces;

use super::{ControlReply, ControlRequest, REPLY_TIMEOUT, Set, labs};
use crate::error::Error;
use crate::site::Group;

/// A lab that another process holds.
#[derive(Clone, Debug)]
pub struct Remote {
    name: String,
    dir: PathBuf,
}

/// The labs that are up.
pub fn list(state: &Path) -> Vec<Remote> {
    let entries = std::fs::read_dir(labs(state)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut up: Vec<Remote> = names.filter_map(|name| Remote::at(state, &name).ok()).collect();
    up.sort_by(|a, b| a.name.cmp(&b.name));
    up
}

impl Remote {
    /// The lab of this name.
    ///
    /// # Errors
    /// No lab of this name is up.
    pub fn at(state: &Path, name: &str) -> Result<Remote, Error> {
        super::check_name(name)?;
        let remote = Remote { name: name.to_owned(), dir: labs(state).join(name) };
        match UnixStream::connect(remote.dir.join("control")) {
            Ok(_) => Ok(remote),
            Err(_) => Err(Error::NotUp { name: name.to_owned() }),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn request(&self, request: &ControlRequest) -> Result<ControlReply, Error> {
        let exchange = || -> io::Result<ControlReply> {
            let socket = UnixStream::connect(self.dir.join("control"))?;
            socket.set_read_timeout(Some(REPLY_TIMEOUT))?;
            socket.set_write_timeout(Some(REPLY_TIMEOUT))?;
            let line = serde_json::to_string(request).map_err(io::Error::other)? + "\n";
            (&socket).write_all(line.as_bytes())?;
            let mut line = String::new();
            if BufReader::new(&socket).read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            serde_json::from_str(&line).map_err(io::Error::other)
        };
        let refused = |reason: String| Error::Refused { name: self.name.clone(), reason };
        let reply = exchange().map_err(|error| match error.kind() {
            // A lab that is killed during the request closes the connection without a reply.
            io::ErrorKind::NotFound
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Error::Ended { name: self.name.clone() },
            _ => refused(format!("does not answer: {error}")),
        })?;
        match reply.error {
            None => Ok(reply),
            Some(reason) => Err(refused(reason)),
        }
    }

    /// Its numbers.
    ///
    /// # Errors
    /// The lab has ended, or its reply is malformed.
    pub fn status(&self) -> Result<v1::Lab, Error> {
        let reply = self.request(&ControlRequest::Status)?;
        reply.status.ok_or_else(|| Error::Ended { name: self.name.clone() })
    }

    /// Changes words of a path or an uplink while packets flow.
    ///
    /// # Errors
    /// The lab has ended, or refuses the change.
    pub fn set(&self, set: Set) -> Result<(), Error> {
        self.request(&ControlRequest::Set(set)).map(drop)
    }

    /// The number of the process that holds the lab, from its file.
    fn holder_pid(&self) -> Option<u32> {
        std::fs::read_to_string(self.dir.join("pid")).ok()?.trim().parse().ok()
    }

    /// Ends the lab and all processes at its sites. Returns its last numbers, and the number of those processes.
    ///
    /// # Errors
    /// The lab does not answer, or does not end in time.
    pub fn down(&self) -> Result<(Option<v1::Lab>, usize), Error> {
        let holder = self.holder_pid();
        let reply = self.request(&ControlRequest::Down)?;
        // The lab is gone with its directory; a new lab under its name would have another number.
        let deadline = std::time::Instant::now() + REPLY_TIMEOUT;
        let is_there = || self.dir.exists() && self.holder_pid().is_none_or(|pid| holder == Some(pid));
        while is_there() && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok((reply.status, reply.ended))
    }

    /// A command that will run at a site.
    ///
    /// # Errors
    /// There is no such site, or the command cannot be prepared.
    pub fn command(&self, site: &str, program: impl AsRef<OsStr>) -> Result<Command, Error> {
        let status = self.status()?;
        let known = || status.sites.iter().map(|site| site.site.as_str()).collect::<Vec<_>>().join(", ");
        let found = status.sites.iter().find(|known| known.site == site);
        let found = found.ok_or_else(|| Error::NoSite { name: site.to_owned(), known: known() })?;
        let failed = |source| Error::site(site, "enter it", source);
        let namespaces = Arc::new(Namespaces::of_process(status.pid, found.namespaces).map_err(failed)?);
        let group = found.group.as_deref().map(|path| Group::at(path).open_procs()).transpose().map_err(failed)?;
        let mut command = Command::new(program);
        if let Some(state) = self.dir.ancestors().nth(2) {
            // With this, `longhaul lab` finds this lab from the site.
            command.env("LONGHAUL_STATE", state);
        }
        command.env("LONGHAUL_LAB", &self.name).env(crate::site_processes::LAB_VARIABLE, &self.dir);
        namespaces.run_in(&mut command, group).map_err(failed)?;
        Ok(command)
    }
}
