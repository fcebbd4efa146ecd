//! Changes a host, after a snapshot of everything that will be changed; and takes the changes back.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::{Host, HostError};
use crate::judge::selected;
use crate::plan::{Change, SettingLocation};
use crate::rule::Persist;

/// The files of this program. It writes no others.
const SYSCTL_FILE: &str = "/etc/sysctl.d/90-longhaul.conf";
const UNIT_FILE: &str = "/etc/systemd/system/longhaul-tune.service";
/// A file in place of the link that `systemctl enable` would make: it can be kept and put back like the others (systemd.unit(5)).
const WANT_FILE: &str = "/etc/systemd/system/multi-user.target.d/90-longhaul.conf";
const UDEV_FILE: &str = "/etc/udev/rules.d/90-longhaul.rules";
const HEAD: &str = "# Written by `longhaul tune apply --persist`; `longhaul tune undo` removes it.\n";

/// A snapshot: the state of a host before a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// The version of the format: 1.
    pub v: u32,
    /// The host's machine id.
    pub host: String,
    /// The boot in which the snapshot was made: a restart loses the values that are not persistent.
    pub boot: String,
    /// When it was made, for people.
    pub made: String,
    /// The changes, in the order in which they are made.
    pub changes: Vec<Change>,
    /// The contents of the program's files before the changes; none for a file that did not exist.
    pub files: BTreeMap<String, Option<String>>,
}

/// Why a change failed, or could not be taken back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The snapshot cannot be written.
    #[error("cannot write the snapshot {path}: nothing was changed")]
    Snapshot {
        /// Its path.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is not a snapshot.
    #[error("{path} is not a snapshot of this program: {why}")]
    NoSnapshot {
        /// Its path.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The snapshot is of another host.
    #[error("{path} is a snapshot of another host ({host})")]
    OtherHost {
        /// Its path.
        path: String,
        /// The id of that host.
        host: String,
    },
    /// The kernel refuses a change.
    #[error("{place} could not be set to {value:?} ({why}); {undone}")]
    Refused {
        /// The setting.
        place: String,
        /// The value that was refused.
        value: String,
        /// The reason.
        why: HostError,
        /// Whether the changes before it were taken back.
        undone: RestoreOutcome,
    },
    /// A file of this program cannot be written.
    #[error("cannot write {path} ({why}); {undone}")]
    File {
        /// Its path.
        path: String,
        /// The reason.
        why: HostError,
        /// Whether the changes were taken back.
        undone: RestoreOutcome,
    },
    /// Some changes could not be taken back.
    #[error("{0}")]
    NotRestored(RestoreOutcome),
    /// Everything was restored, but the snapshot could not be removed.
    #[error("all is as it was, but {path} cannot be removed")]
    SnapshotNotRemoved {
        /// Its path.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The result of taking changes back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreOutcome {
    /// The settings that could not be restored, each with the reason.
    pub not_restored: Vec<String>,
}

impl fmt::Display for RestoreOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.not_restored.is_empty() {
            f.write_str("all is as it was")
        } else {
            write!(f, "not all changes could be taken back: {}", self.not_restored.join("; "))
        }
    }
}

/// The id of the host, and that of its boot. A host without an id (an image before its first start, a container) is identified by its
/// boot, so that two of them differ.
pub fn identity(host: &dyn Host) -> (String, String) {
    let read = |path: &str| host.read(Path::new(path)).ok().filter(|text| !text.is_empty());
    let boot = read("/proc/sys/kernel/random/boot_id").unwrap_or_else(|| "unknown".into());
    let id = read("/etc/machine-id").filter(|id| id != "uninitialized");
    (id.unwrap_or_else(|| format!("boot {boot}")), boot)
}

/// Writes a snapshot, then makes the changes; with `persist`, also in the program's own files. If the kernel refuses one of them, those
/// made so far are taken back. Returns the path of the snapshot.
///
/// # Errors
/// [`ApplyError`]. Nothing stays changed, or the error names what does.
pub fn apply(
    host: &dyn Host,
    changes: &[Change],
    directory: &Path,
    made: &str,
    persist: bool,
) -> Result<PathBuf, ApplyError> {
    let files = if persist { persistent_files(host, changes) } else { BTreeMap::new() };
    let snapshot = Snapshot { files: current_files(host, files.keys())?, ..new_snapshot(host, changes, made) };
    let path = write_snapshot(&snapshot, directory)?;
    let done = set(host, &snapshot).and_then(|()| write_own_files(host, &snapshot, &files));
    if let Err(ApplyError::Refused { undone, .. } | ApplyError::File { undone, .. }) = &done
        && undone.not_restored.is_empty()
    {
        // There is nothing to undo; the error of the change matters more than a snapshot that cannot be removed.
        let _ = remove_snapshot(&path);
    }
    done.map(|()| path)
}

/// Writes a snapshot before changes that will be taken back soon.
///
/// # Errors
/// The snapshot cannot be written.
pub(crate) fn begin(
    host: &dyn Host,
    changes: &[Change],
    directory: &Path,
    made: &str,
) -> Result<(Snapshot, PathBuf), ApplyError> {
    let snapshot = new_snapshot(host, changes, made);
    let path = write_snapshot(&snapshot, directory)?;
    Ok((snapshot, path))
}

/// Makes all changes, or none.
///
/// # Errors
/// [`ApplyError::Refused`].
pub(crate) fn set(host: &dyn Host, snapshot: &Snapshot) -> Result<(), ApplyError> {
    // Takes back the first `count` changes, and makes the error for the one that was refused.
    let refused = |change: &Change, why: HostError, count: usize| {
        let place = change.place.to_string();
        let value = change.after.clone();
        ApplyError::Refused { place, value, why, undone: take_back(host, snapshot, count) }
    };
    let written = || snapshot.changes.iter().filter(|change| !change.follows);
    for (at, change) in snapshot.changes.iter().enumerate().filter(|(_, change)| !change.follows) {
        let done = change.place.write(host, &change.after).and_then(|()| verify_written(host, change));
        // A setting that does not exist has not been changed either.
        let count = if done == Err(HostError::Absent) { at } else { at + 1 };
        done.map_err(|why| refused(change, why, count))?;
    }
    // A later change may have reset an earlier one: a disk's scheduler brings its own queue depth.
    for change in written().filter(|change| verify_written(host, change).is_err()) {
        // Whether the changes hold is checked below, for all of them.
        let _ = change.place.write(host, &change.after);
    }
    let all = snapshot.changes.len();
    written().try_for_each(|change| verify_written(host, change).map_err(|why| refused(change, why, all)))
}

/// Removes a snapshot of which nothing is left to undo.
///
/// # Errors
/// The file cannot be removed.
pub(crate) fn remove_snapshot(path: &Path) -> Result<(), ApplyError> {
    fs::remove_file(path).map_err(|source| ApplyError::SnapshotNotRemoved { path: path.display().to_string(), source })
}

fn new_snapshot(host: &dyn Host, changes: &[Change], made: &str) -> Snapshot {
    let (id, boot) = identity(host);
    Snapshot { v: 1, host: id, boot, made: made.to_owned(), changes: changes.to_vec(), files: BTreeMap::new() }
}

/// The present contents of the program's files; none for a file that does not exist.
fn current_files<'a>(
    host: &dyn Host,
    paths: impl Iterator<Item = &'a String>,
) -> Result<BTreeMap<String, Option<String>>, ApplyError> {
    // A file that cannot be read could not be restored.
    let before = |path: &String| match host.read_exact(Path::new(path)) {
        Ok(text) => Ok((path.clone(), Some(text))),
        Err(HostError::Absent) => Ok((path.clone(), None)),
        Err(why) => Err(ApplyError::File { path: path.clone(), why, undone: RestoreOutcome::default() }),
    };
    paths.map(before).collect()
}

fn write_own_files(host: &dyn Host, snapshot: &Snapshot, files: &BTreeMap<String, String>) -> Result<(), ApplyError> {
    for (file, text) in files {
        if let Err(why) = host.write(Path::new(file), text) {
            let undone = take_back(host, snapshot, snapshot.changes.len());
            return Err(ApplyError::File { path: file.clone(), why, undone });
        }
    }
    Ok(())
}

/// Checks that a change holds: some of the kernel's files accept values that they do not keep.
fn verify_written(host: &dyn Host, change: &Change) -> Result<(), HostError> {
    let value = change.place.read(host)?;
    let same = |a: &str, b: &str| a.split_whitespace().eq(b.split_whitespace());
    if same(&value, &change.after) || selected(&value) == change.after {
        Ok(())
    } else {
        Err(HostError::Failed(format!("it reads {value:?} afterwards")))
    }
}

/// Writes the snapshot's file. It is complete and on the disk before anything is changed, or does not exist.
fn write_snapshot(snapshot: &Snapshot, directory: &Path) -> Result<PathBuf, ApplyError> {
    let path = directory.join(format!("{}.json", snapshot.made.replace([':', ' '], "-")));
    let temporary = path.with_extension("new");
    let failed = |source| ApplyError::Snapshot { path: path.display().to_string(), source };
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(directory)?;
        // It has another name until it is complete: undo would take half a snapshot for the latest one.
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(snapshot)?)?;
        file.sync_all()?;
        // A link never replaces another snapshot, which another process may have made in the same millisecond.
        fs::hard_link(&temporary, &path)?;
        fs::remove_file(&temporary)?;
        fs::File::open(directory)?.sync_all()
    };
    write().map_err(|error| {
        // The rest of the file is of no use; the error matters.
        let _ = fs::remove_file(&temporary);
        failed(error)
    })?;
    Ok(path)
}

/// The program's files, with their new contents.
fn persistent_files(host: &dyn Host, changes: &[Change]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let changes_by =
        |persist: Persist| changes.iter().filter(move |change| change.persist == persist && !change.follows);
    let mut settings: BTreeMap<String, String> = host
        .read(Path::new(SYSCTL_FILE))
        .map(|text| crate::facts::settings(&text).into_iter().collect())
        .unwrap_or_default();
    for change in changes_by(Persist::SysctlD) {
        if let SettingLocation::Sysctl(name) = &change.place {
            settings.insert(name.clone(), change.after.clone());
        }
    }
    if changes_by(Persist::SysctlD).next().is_some() {
        let lines: String = settings.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
        files.insert(SYSCTL_FILE.to_owned(), format!("{HEAD}{lines}"));
    }
    // Lines that an earlier call made persistent stay, in their order.
    let with_earlier = |file: &str, is_own_line: fn(&str) -> bool, lines: Vec<String>| {
        let earlier = host.read(Path::new(file)).unwrap_or_default();
        let mut all: Vec<String> = earlier.lines().filter(|line| is_own_line(line)).map(str::to_owned).collect();
        for line in lines {
            all.retain(|known| setting_of(known) != setting_of(&line));
            all.push(line);
        }
        all.iter().map(|line| format!("{line}\n")).collect::<String>()
    };
    if changes_by(Persist::Unit).next().is_some() {
        let lines = changes_by(Persist::Unit)
            .map(|change| format!("ExecStart=-/bin/sh -c '{}'", quoted_for_unit(&change.command)))
            .collect();
        let lines = with_earlier(UNIT_FILE, |line| line.starts_with("ExecStart="), lines);
        let unit = "[Unit]\nDescription=Settings of a data transfer node\nAfter=network.target\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\n";
        files.insert(UNIT_FILE.to_owned(), format!("{HEAD}{unit}{lines}"));
        files.insert(WANT_FILE.to_owned(), format!("{HEAD}[Unit]\nWants=longhaul-tune.service\n"));
    }
    let udev: Vec<String> =
        changes_by(Persist::Udev).filter_map(|change| udev_rule(&change.place, &change.after)).collect();
    if !udev.is_empty() {
        let udev = with_earlier(UDEV_FILE, |line| line.starts_with("ACTION="), udev);
        files.insert(UDEV_FILE.to_owned(), format!("{HEAD}{udev}"));
    }
    files
}

/// The setting that a line of the program's files is about. Lines of udev that differ only in the value, their last word, are about the
/// same setting.
fn setting_of(line: &str) -> &str {
    if line.starts_with("ACTION=") {
        line.rsplit_once('=').map_or(line, |(about, _)| about)
    } else {
        // A command has its value first or last: only identical commands are known to be about the same setting.
        line
    }
}

/// Quotes a command for a line of a unit (systemd.service(5)): quotes, variables and specifiers are taken literally.
fn quoted_for_unit(command: &str) -> String {
    command.replace('\\', r"\\").replace('\'', r"\'").replace('$', "$$").replace('%', "%%")
}

/// A udev rule for a file below a block device or a NIC.
fn udev_rule(place: &SettingLocation, value: &str) -> Option<String> {
    let SettingLocation::File(path) = place else { return None };
    let (subsystem, rest) = match path.strip_prefix("/sys/block/") {
        Some(rest) => ("block", rest),
        None => ("net", path.strip_prefix("/sys/class/net/")?),
    };
    let (device, attribute) = rest.split_once('/')?;
    // A NIC gets its name after it was added, which udev reports as a move.
    let action = if subsystem == "net" { "add|change|move" } else { "add|change" };
    Some(format!(
        "ACTION==\"{action}\", SUBSYSTEM==\"{subsystem}\", KERNEL==\"{device}\", ATTR{{{attribute}}}=\"{value}\""
    ))
}

/// Reads a snapshot of this host.
///
/// # Errors
/// The file is not a snapshot, or is one of another host.
pub fn read(host: &dyn Host, path: &Path) -> Result<Snapshot, ApplyError> {
    let wrong = |why: String| ApplyError::NoSnapshot { path: path.display().to_string(), why };
    let text = fs::read(path).map_err(|e| wrong(e.to_string()))?;
    let snapshot: Snapshot = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
    if snapshot.host == identity(host).0 {
        Ok(snapshot)
    } else {
        Err(ApplyError::OtherHost { path: path.display().to_string(), host: snapshot.host })
    }
}

/// Restores all settings, the last change first, and checks that they are as before.
///
/// # Errors
/// [`ApplyError::NotRestored`]: some settings could not be restored.
pub fn undo(host: &dyn Host, snapshot: &Snapshot) -> Result<(), ApplyError> {
    let undone = take_back(host, snapshot, snapshot.changes.len());
    if undone.not_restored.is_empty() { Ok(()) } else { Err(ApplyError::NotRestored(undone)) }
}

/// Takes back the first `count` changes, and restores the program's files.
fn take_back(host: &dyn Host, snapshot: &Snapshot, count: usize) -> RestoreOutcome {
    let mut not_restored = Vec::new();
    for (file, before) in &snapshot.files {
        let path = Path::new(file);
        let done = match before {
            Some(text) => host.write(path, text),
            None => host.remove(path),
        };
        if let Err(why) = done {
            not_restored.push(format!("{file}: {why}"));
        }
    }
    // Twice, since one setting may reset another. A setting that is as before is not written; some values can be read but not
    // written.
    for _ in 0..2 {
        for change in snapshot.changes.iter().take(count).rev() {
            let back = Change { after: change.before.clone(), ..change.clone() };
            if verify_written(host, &back).is_err() {
                // Whether the settings are as before is checked below, for all of them.
                let _ = back.place.write(host, &back.after);
            }
        }
    }
    for change in snapshot.changes.iter().take(count).rev() {
        let back = Change { after: change.before.clone(), ..change.clone() };
        if let Err(why) = verify_written(host, &back) {
            let refused = back.place.write(host, &back.after).err();
            not_restored.push(format!("{}: {}", change.place, refused.unwrap_or(why)));
        }
    }
    RestoreOutcome { not_restored }
}

#[cfg(test)]
mod tests;
