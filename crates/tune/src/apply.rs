//! Changing a host, with all that was there before kept first; and taking it back.

use std::collections::BTreeMap;
use std::fmt;
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
/// What `systemctl enable` would do by a link, as a file: it can be kept and put back like the others (systemd.unit(5)).
const WANT_FILE: &str = "/etc/systemd/system/multi-user.target.d/90-longhaul.conf";
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
        /// What, in words.
        place: String,
        /// To what.
        value: String,
        /// Why.
        why: Unread,
        /// What was done about the changes before it.
        undone: TakenBack,
    },
    /// Our own files.
    #[error("cannot write {path} ({why}); {undone}")]
    File {
        /// Which.
        path: String,
        /// Why.
        why: Unread,
        /// What was done about it.
        undone: TakenBack,
    },
    /// Not all of it could be taken back.
    #[error("{0}")]
    Stuck(TakenBack),
    /// All is as it was, but the snapshot that says otherwise is still there.
    #[error("all is as it was, but {path} cannot be removed")]
    Left {
        /// Where.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// How taking something back went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakenBack {
    /// What could not be, in words.
    pub left: Vec<String>,
}

impl fmt::Display for TakenBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left.is_empty() {
            true => f.write_str("all is as it was"),
            false => write!(f, "not all of it could be taken back: {}", self.left.join("; ")),
        }
    }
}

/// The host's id, and its boot's. A host without an id (an image before its first start, a container) is known by its
/// boot: two of them are not the same.
pub fn identity(host: &dyn Host) -> (String, String) {
    let read = |path: &str| host.read(Path::new(path)).ok().filter(|text| !text.is_empty());
    let boot = read("/proc/sys/kernel/random/boot_id").unwrap_or_else(|| "unknown".into());
    let id = read("/etc/machine-id").filter(|id| id != "uninitialized");
    (id.unwrap_or_else(|| format!("boot {boot}")), boot)
}

/// Keeps what is there, then changes it; with `persist`, in our own files as well. Where the kernel refuses half-way, what
/// was done is taken back. Returns where the snapshot is.
///
/// # Errors
/// [`ApplyError`]; nothing is left changed, or what is left is named.
pub fn apply(
    host: &dyn Host,
    changes: &[Change],
    directory: &Path,
    made: &str,
    persist: bool,
) -> Result<PathBuf, ApplyError> {
    let files = if persist { persisted(host, changes) } else { BTreeMap::new() };
    let snapshot = Snapshot { files: as_they_are(host, files.keys())?, ..look(host, changes, made) };
    let path = keep(&snapshot, directory)?;
    let done = set(host, &snapshot).and_then(|()| write_ours(host, &snapshot, &files));
    if let Err(ApplyError::Refused { undone, .. } | ApplyError::File { undone, .. }) = &done
        && undone.left.is_empty()
    {
        // There is nothing to undo; that it failed weighs more than that a file is left.
        let _ = forget(&path);
    }
    done.map(|()| path)
}

/// Keeps what is there before changes that are to be taken back soon.
///
/// # Errors
/// It cannot be kept.
pub(crate) fn begin(
    host: &dyn Host,
    changes: &[Change],
    directory: &Path,
    made: &str,
) -> Result<(Snapshot, PathBuf), ApplyError> {
    let snapshot = look(host, changes, made);
    let path = keep(&snapshot, directory)?;
    Ok((snapshot, path))
}

/// Makes all changes, or none.
///
/// # Errors
/// [`ApplyError::Refused`].
pub(crate) fn set(host: &dyn Host, snapshot: &Snapshot) -> Result<(), ApplyError> {
    let refused = |change: &Change, why: Unread, count: usize| {
        let (place, value) = (change.place.to_string(), change.after.clone());
        ApplyError::Refused { place, value, why, undone: take_back(host, snapshot, count) }
    };
    let made = || snapshot.changes.iter().filter(|change| !change.follows);
    for (at, change) in snapshot.changes.iter().enumerate().filter(|(_, change)| !change.follows) {
        let done = change.place.write(host, &change.after).and_then(|()| took(host, change));
        // What is not there has not been changed either.
        let count = if done == Err(Unread::Absent) { at } else { at + 1 };
        done.map_err(|why| refused(change, why, count))?;
    }
    // A later change may have set an earlier one anew: a scheduler of a disk brings its own depth of queue.
    for change in made().filter(|change| took(host, change).is_err()) {
        // Whether it holds is asked below, of all of them.
        let _ = change.place.write(host, &change.after);
    }
    let all = snapshot.changes.len();
    made().try_for_each(|change| took(host, change).map_err(|why| refused(change, why, all)))
}

/// Removes a snapshot of which nothing is left to undo.
///
/// # Errors
/// It is still there.
pub(crate) fn forget(path: &Path) -> Result<(), ApplyError> {
    fs::remove_file(path).map_err(|source| ApplyError::Left { path: path.display().to_string(), source })
}

fn look(host: &dyn Host, changes: &[Change], made: &str) -> Snapshot {
    let (id, boot) = identity(host);
    Snapshot { v: 1, host: id, boot, made: made.to_owned(), changes: changes.to_vec(), files: BTreeMap::new() }
}

/// Files of ours, or that they are not there.
fn as_they_are<'a>(
    host: &dyn Host,
    paths: impl Iterator<Item = &'a String>,
) -> Result<BTreeMap<String, Option<String>>, ApplyError> {
    // One of ours that cannot be read could not be put back.
    let before = |path: &String| match host.read_exact(Path::new(path)) {
        Ok(text) => Ok((path.clone(), Some(text))),
        Err(Unread::Absent) => Ok((path.clone(), None)),
        Err(why) => Err(ApplyError::File { path: path.clone(), why, undone: TakenBack::default() }),
    };
    paths.map(before).collect()
}

fn write_ours(host: &dyn Host, snapshot: &Snapshot, files: &BTreeMap<String, String>) -> Result<(), ApplyError> {
    for (file, text) in files {
        if let Err(why) = host.write(Path::new(file), text) {
            let undone = take_back(host, snapshot, snapshot.changes.len());
            return Err(ApplyError::File { path: file.clone(), why, undone });
        }
    }
    Ok(())
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

/// The snapshot's file: whole and on the disk before anything is changed, or not there.
fn keep(snapshot: &Snapshot, directory: &Path) -> Result<PathBuf, ApplyError> {
    let path = directory.join(format!("{}.json", snapshot.made.replace([':', ' '], "-")));
    let on_the_way = path.with_extension("new");
    let failed = |source| ApplyError::Snapshot { path: path.display().to_string(), source };
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(directory)?;
        // Under another name until it is whole: half a snapshot would stand before those that can be undone.
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&on_the_way)?;
        file.write_all(&serde_json::to_vec_pretty(snapshot)?)?;
        file.sync_all()?;
        // Never over another one, of somebody who did so in the same millisecond.
        fs::hard_link(&on_the_way, &path)?;
        fs::remove_file(&on_the_way)?;
        fs::File::open(directory)?.sync_all()
    };
    write().map_err(|error| {
        // What is left of it is of no use; why it failed is what counts.
        let _ = fs::remove_file(&on_the_way);
        failed(error)
    })?;
    Ok(path)
}

/// Our files, as they should be.
fn persisted(host: &dyn Host, changes: &[Change]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let of = |persist: Persist| changes.iter().filter(move |change| change.persist == persist && !change.follows);
    let mut settings: BTreeMap<String, String> = host
        .read(Path::new(SYSCTL_FILE))
        .map(|text| crate::facts::settings(&text).into_iter().collect())
        .unwrap_or_default();
    for change in of(Persist::SysctlD) {
        if let Place::Sysctl(name) = &change.place {
            settings.insert(name.clone(), change.after.clone());
        }
    }
    if of(Persist::SysctlD).next().is_some() {
        let lines: String = settings.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
        files.insert(SYSCTL_FILE.to_owned(), format!("{HEAD}{lines}"));
    }
    // What an earlier call made to last stays, in its order.
    let with_earlier = |file: &str, is_ours: fn(&str) -> bool, lines: Vec<String>| {
        let earlier = host.read(Path::new(file)).unwrap_or_default();
        let mut all: Vec<String> = earlier.lines().filter(|line| is_ours(line)).map(str::to_owned).collect();
        for line in lines {
            all.retain(|known| subject_of(known) != subject_of(&line));
            all.push(line);
        }
        all.iter().map(|line| format!("{line}\n")).collect::<String>()
    };
    if of(Persist::Unit).next().is_some() {
        let lines =
            of(Persist::Unit).map(|change| format!("ExecStart=-/bin/sh -c '{}'", in_unit(&change.command))).collect();
        let lines = with_earlier(UNIT_FILE, |line| line.starts_with("ExecStart="), lines);
        let unit = "[Unit]\nDescription=Settings of a data transfer node\nAfter=network.target\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\n";
        files.insert(UNIT_FILE.to_owned(), format!("{HEAD}{unit}{lines}"));
        files.insert(WANT_FILE.to_owned(), format!("{HEAD}[Unit]\nWants=longhaul-tune.service\n"));
    }
    let udev: Vec<String> = of(Persist::Udev).filter_map(|change| udev_rule(&change.place, &change.after)).collect();
    if !udev.is_empty() {
        let udev = with_earlier(UDEV_FILE, |line| line.starts_with("ACTION="), udev);
        files.insert(UDEV_FILE.to_owned(), format!("{HEAD}{udev}"));
    }
    files
}

/// What a line of ours is about: two that differ only in the value, their last word, are about the same.
fn subject_of(line: &str) -> &str {
    match line.starts_with("ACTION=") {
        true => line.rsplit_once('=').map_or(line, |(about, _)| about),
        // A command writes its value first or last; only the very same one is known to be about the same.
        false => line,
    }
}

/// A command between single quotes in a line of a unit (systemd.service(5)): quotes, variables and specifiers are its own.
fn in_unit(command: &str) -> String {
    command.replace('\\', r"\\").replace('\'', r"\'").replace('$', "$$").replace('%', "%%")
}

/// A line of udev for a file below a block device or a NIC.
fn udev_rule(place: &Place, value: &str) -> Option<String> {
    let Place::File(path) = place else { return None };
    let (subsystem, rest) = match path.strip_prefix("/sys/block/") {
        Some(rest) => ("block", rest),
        None => ("net", path.strip_prefix("/sys/class/net/")?),
    };
    let (device, attribute) = rest.split_once('/')?;
    // A NIC gets its name after it was added, which is a move.
    let action = if subsystem == "net" { "add|change|move" } else { "add|change" };
    Some(format!(
        "ACTION==\"{action}\", SUBSYSTEM==\"{subsystem}\", KERNEL==\"{device}\", ATTR{{{attribute}}}=\"{value}\""
    ))
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
    let undone = take_back(host, snapshot, snapshot.changes.len());
    if undone.left.is_empty() { Ok(()) } else { Err(ApplyError::Stuck(undone)) }
}

/// Takes back the first so many changes, and our files.
fn take_back(host: &dyn Host, snapshot: &Snapshot, count: usize) -> TakenBack {
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
    // Twice, as one may set another anew. What is as it was needs no writing; there are values that the kernel says and
    // does not take.
    for _ in 0..2 {
        for change in snapshot.changes.iter().take(count).rev() {
            let back = Change { after: change.before.clone(), ..change.clone() };
            if took(host, &back).is_err() {
                // Whether it is as it was is asked below, of all of them.
                let _ = back.place.write(host, &back.after);
            }
        }
    }
    for change in snapshot.changes.iter().take(count).rev() {
        let back = Change { after: change.before.clone(), ..change.clone() };
        if let Err(why) = took(host, &back) {
            let refused = back.place.write(host, &back.after).err();
            left.push(format!("{}: {}", change.place, refused.unwrap_or(why)));
        }
    }
    TakenBack { left }
}

#[cfg(test)]
mod tests;
