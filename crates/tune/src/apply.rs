//! Changing a host, with all that was there before kept first; and taking it back.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::{Host, Unread};
use crate::judge::selected;
use crate::plan::{Change, Place};
use crate::rule::Persist;

/// Our files. No other is ever written.
const SYSCTL_FILE: &str = "/etc/sysctl.d/90-longhaul.conf";
const UNIT_FILE: &str = "/etc/systemd/system/longhaul-tune.service";
const UDEV_FILE: &str = "/etc/udev/rules.d/90-longhaul.rules";
const HEAD: &str = "# Written by `longhaul tune apply --persist`; `longhaul tune undo` takes it away.\n";

/// What was there before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// 1.
    pub v: u32,
    /// The host's machine id.
    pub host: String,
    /// The boot that the values are of: another one has forgotten what was not made to last.
    pub boot: String,
    /// When, for people.
    pub made: String,
    /// What is changed, in this order.
    pub changes: Vec<Change>,
    /// Our files as they were; none where they were not there.
    pub files: BTreeMap<String, Option<String>>,
}

/// Why a change, or taking it back, failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The snapshot.
    #[error("cannot keep what is there now in {path}: nothing was changed")]
    Snapshot {
        /// Where.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A snapshot that is none.
    #[error("{path} is no snapshot of this program's: {why}")]
    NoSnapshot {
        /// Where.
        path: String,
        /// Why.
        why: String,
    },
    /// A snapshot of somebody else.
    #[error("{path} is of another host ({host}): its values are not this one's")]
    OtherHost {
        /// Where.
        path: String,
        /// Of whom.
        host: String,
    },
    /// The kernel refuses.
    #[error("{place} could not be set to {value:?} ({why}); {undone}")]
    Refused {
        /// What.
        place: Place,
        /// To what.
        value: String,
        /// Why.
        why: Unread,
        /// What was done about the changes before it.
        undone: String,
    },
    /// Our own files.
    #[error("cannot write {path} ({why}); {undone}")]
    File {
        /// Which.
        path: String,
        /// Why.
        why: Unread,
        /// What was done about it.
        undone: String,
    },
    /// Not all of it could be taken back.
    #[error("not all of it could be taken back: {}", .0.join("; "))]
    Stuck(Vec<String>),
}

/// The host's id, and its boot's.
pub fn identity(host: &dyn Host) -> (String, String) {
    let read = |path: &str| host.read(Path::new(path)).unwrap_or_else(|_| "unknown".into());
    (read("/etc/machine-id"), read("/proc/sys/kernel/random/boot_id"))
}

/// Keeps what is there, then changes it; with `persist`, in our own files as well. Where the kernel refuses half-way, what
/// was done is taken back. Returns where the snapshot is.
///
/// # Errors
/// [`ApplyError`]; nothing is left changed, or what is left is named.
pub fn apply(host: &dyn Host, changes: &[Change], directory: &Path, made: &str, persist: bool) -> Result<PathBuf, ApplyError> {
    let files = if persist { persisted(host, changes) } else { BTreeMap::new() };
    let before = |path: &String| (path.clone(), host.read_exact(Path::new(path)).ok());
    let (id, boot) = identity(host);
    let snapshot =
        Snapshot { v: 1, host: id, boot, made: made.to_owned(), changes: changes.to_vec(), files: files.keys().map(before).collect() };
    let path = keep(&snapshot, directory)?;
    for (at, change) in changes.iter().enumerate() {
        let done = change.place.write(host, &change.after).and_then(|()| took(host, change));
        if let Err(why) = done {
            let undone = take_back(host, &snapshot, at + 1);
            return Err(ApplyError::Refused { place: change.place.clone(), value: change.after.clone(), why, undone: told(undone) });
        }
    }
    for (file, text) in &files {
        if let Err(why) = host.write(Path::new(file), text) {
            let undone = take_back(host, &snapshot, changes.len());
            return Err(ApplyError::File { path: file.clone(), why, undone: told(undone) });
        }
    }
    Ok(path)
}

/// Some of the kernel's files take what they do not keep.
fn took(host: &dyn Host, change: &Change) -> Result<(), Unread> {
    let is = change.place.read(host)?;
    let same = |a: &str, b: &str| a.split_whitespace().eq(b.split_whitespace());
    match same(&is, &change.after) || selected(&is) == change.after {
        true => Ok(()),
        false => Err(Unread::Failed(format!("it says {is:?} afterwards"))),
    }
}

fn told(left: Vec<String>) -> String {
    match left.is_empty() {
        true => "what was changed before it is as it was".into(),
        false => format!("what was changed before it could not all be taken back: {}", left.join("; ")),
    }
}

/// The snapshot's file: whole and on the disk before anything is changed, or not there.
fn keep(snapshot: &Snapshot, directory: &Path) -> Result<PathBuf, ApplyError> {
    let path = directory.join(format!("{}.json", snapshot.made.replace([':', ' '], "-")));
    let failed = |source| ApplyError::Snapshot { path: path.display().to_string(), source };
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(directory)?;
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(&serde_json::to_vec_pretty(snapshot)?)?;
        file.sync_all()?;
        fs::File::open(directory)?.sync_all()
    };
    write().map_err(failed)?;
    Ok(path)
}

/// Our files, as they should be.
fn persisted(host: &dyn Host, changes: &[Change]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let of = |persist: Persist| changes.iter().filter(move |change| change.persist == persist);
    let mut settings: BTreeMap<String, String> =
        host.read(Path::new(SYSCTL_FILE)).map(|text| crate::facts::settings(&text).into_iter().collect()).unwrap_or_default();
    for change in of(Persist::SysctlD) {
        if let Place::Sysctl(name) = &change.place {
            settings.insert(name.clone(), change.after.clone());
        }
    }
    if of(Persist::SysctlD).next().is_some() {
        let lines: String = settings.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
        files.insert(SYSCTL_FILE.to_owned(), format!("{HEAD}{lines}"));
    }
    if of(Persist::Unit).next().is_some() {
        let new = of(Persist::Unit).map(|change| unit_line(&change.command));
        let lines = with_those_before(host, UNIT_FILE, "ExecStart=", new);
        let unit = "[Unit]\nDescription=Settings of a data transfer node\nAfter=network.target\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\n";
        files.insert(UNIT_FILE.to_owned(), format!("{HEAD}{unit}{lines}\n[Install]\nWantedBy=multi-user.target\n"));
    }
    let new: Vec<String> = of(Persist::Udev).filter_map(|change| udev_rule(&change.place, &change.after)).collect();
    if !new.is_empty() {
        let lines = with_those_before(host, UDEV_FILE, "ACTION==", new.into_iter());
        files.insert(UDEV_FILE.to_owned(), format!("{HEAD}{lines}"));
    }
    files
}

/// New lines of a file of ours, after those that earlier changes put there: of two about one value the later one counts.
fn with_those_before(host: &dyn Host, file: &str, start: &str, new: impl Iterator<Item = String>) -> String {
    let text = host.read(Path::new(file)).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect();
    for line in new {
        lines.retain(|old| *old != line);
        lines.push(line);
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A command as systemd takes it: in quotes of its kind, where `%` and `$` are its own (systemd.service(5)).
fn unit_line(command: &str) -> String {
    let quoted = command.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    format!("ExecStart=-/bin/sh -c \"{quoted}\"")
}

/// A line of udev for a file below a block device or a NIC.
fn udev_rule(place: &Place, value: &str) -> Option<String> {
    let Place::File(path) = place else { return None };
    let (subsystem, rest) = match path.strip_prefix("/sys/block/") {
        Some(rest) => ("block", rest),
        None => ("net", path.strip_prefix("/sys/class/net/")?),
    };
    let (device, attribute) = rest.split_once('/')?;
    Some(format!("ACTION==\"add|change\", SUBSYSTEM==\"{subsystem}\", KERNEL==\"{device}\", ATTR{{{attribute}}}=\"{value}\""))
}

/// Reads a snapshot, for this host.
///
/// # Errors
/// It is none, or of another host.
pub fn read(host: &dyn Host, path: &Path) -> Result<Snapshot, ApplyError> {
    let wrong = |why: String| ApplyError::NoSnapshot { path: path.display().to_string(), why };
    let text = fs::read(path).map_err(|e| wrong(e.to_string()))?;
    let snapshot: Snapshot = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    match snapshot.host == identity(host).0 {
        true => Ok(snapshot),
        false => Err(ApplyError::OtherHost { path: path.display().to_string(), host: snapshot.host }),
    }
}

/// Writes everything back as it was, the last change first, and looks whether it is.
///
/// # Errors
/// [`ApplyError::Stuck`]: what could not be written back.
pub fn undo(host: &dyn Host, snapshot: &Snapshot) -> Result<(), ApplyError> {
    let left = take_back(host, snapshot, snapshot.changes.len());
    if left.is_empty() { Ok(()) } else { Err(ApplyError::Stuck(left)) }
}

/// Takes back the first so many changes, and our files; what could not be taken back, in words.
fn take_back(host: &dyn Host, snapshot: &Snapshot, count: usize) -> Vec<String> {
    let mut left = Vec::new();
    for (file, before) in &snapshot.files {
        let path = Path::new(file);
        let done = match before {
            Some(text) => host.write(path, text),
            None => host.remove(path),
        };
        if let Err(why) = done {
            left.push(format!("{file}: {why}"));
        }
    }
    for change in snapshot.changes.iter().take(count).rev() {
        let back = Change { after: change.before.clone(), ..change.clone() };
        if let Err(why) = back.place.write(host, &back.after).and_then(|()| took(host, &back)) {
            left.push(format!("{}: {why}", change.place));
        }
    }
    left
}

#[cfg(test)]
mod tests;
