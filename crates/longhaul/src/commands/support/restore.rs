//! `longhaul support restore`: a state directory from a backup.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use model::{Exit, Fault};
use serde::Serialize;

use super::backup::{MANIFEST, Manifest, STATE};
use crate::failure::Failure;
use crate::printer::Printer;

/// The most bytes of the manifest.
const MANIFEST_MAX: u64 = 1 << 16;

#[derive(Serialize)]
struct RestoreReport {
    v: u32,
    event: &'static str,
    state: String,
    files: usize,
    host: String,
    created: String,
}

/// Restores a state directory.
///
/// # Errors
/// The directory is not empty, the file is not a backup, or the files cannot be written.
pub fn run(file: &Path, state: &Path, printer: &Printer) -> Result<Exit, Failure> {
    let name = state.display();
    let is_empty = match fs::read_dir(state) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if !is_empty {
        let message = format!("{name} is not an empty directory: move it away, or name another one by --state");
        return Err(Failure { exit: Exit::Failed, fault: Fault::Config, message });
    }
    let opened =
        File::open(file).map_err(|error| Failure::local(format!("cannot read {}: {error}", file.display())))?;
    let mut archive = tar::Archive::new(GzDecoder::new(opened));
    let broken = |why: String| Failure::local(format!("{} is not a whole backup: {why}", file.display()));
    let mut entries = archive.entries().map_err(|error| broken(error.to_string()))?;
    let first = entries.next().ok_or_else(|| broken("it is empty".into()))?;
    let manifest = manifest(first.map_err(|error| broken(error.to_string()))?).map_err(broken)?;
    let restored = Restored::begin(state).map_err(|error| cannot_restore(state, &error))?;
    let filled = restored.fill(entries, &broken).and_then(|files| {
        // The checksum of the whole is at its end.
        let rest = io::copy(&mut archive.into_inner(), &mut io::sink());
        rest.map_or_else(|error| Err(broken(error.to_string())), |_| Ok(files))
    });
    let files = filled.inspect_err(|_| restored.undo())?;
    let Manifest { host, created, .. } = manifest;
    if printer.is_json() {
        let state = name.to_string();
        printer.object(&RestoreReport { v: 1, event: "restore", state, files, host, created });
    } else {
        printer.line(&format!("restored {files} files to {name}, as they were on {host} at {created}"));
        printer.line("Start the service only if no other one with this identity runs.");
    }
    Ok(Exit::Done)
}

fn cannot_restore(state: &Path, error: &dyn std::fmt::Display) -> Failure {
    let message = format!("cannot write to {}: {error}; nothing was restored", state.display());
    Failure { exit: Exit::Storage, fault: Fault::Storage, message }
}

fn manifest(entry: tar::Entry<'_, impl Read>) -> Result<Manifest, String> {
    let is_manifest = entry.path().is_ok_and(|path| path == Path::new(MANIFEST));
    let mut text = Vec::new();
    if !is_manifest || entry.take(MANIFEST_MAX).read_to_end(&mut text).is_err() {
        return Err("it was not written by `longhaul support backup`".into());
    }
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if manifest.v != 1 {
        return Err(format!(
            "it was written by {}, whose backups have another form: use that version",
            manifest.software
        ));
    }
    Ok(manifest)
}

/// The place of a member below the state directory. Only plain files and directories with plain names are restored: a backup may have been
/// changed on its way.
fn place(entry: &tar::Entry<'_, impl Read>) -> Result<PathBuf, String> {
    let path = entry.path().map_err(|error| error.to_string())?;
    let below = path.strip_prefix(STATE).map_err(|_| format!("{} is not below {STATE}", path.display()))?;
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    let kind = entry.header().entry_type();
    if !is_plain || !(kind.is_file() || kind.is_dir()) {
        return Err(format!("{} is not a plain file", path.display()));
    }
    Ok(below.to_owned())
}

/// Whether an error is one of the archive, and not of the directory.
fn is_of_archive(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// A state directory that is being restored. It was empty.
struct Restored<'a> {
    state: &'a Path,
    /// User and group of the directory, if it existed.
    owner: Option<(u32, u32)>,
}

impl<'a> Restored<'a> {
    fn begin(state: &'a Path) -> io::Result<Restored<'a>> {
        let owner = fs::metadata(state).ok().map(|metadata| (metadata.uid(), metadata.gid()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(state)?;
        Ok(Restored { state, owner })
    }

    /// Writes all members; returns the number of files.
    fn fill<R: Read>(
        &self,
        entries: tar::Entries<'_, R>,
        broken: &dyn Fn(String) -> Failure,
    ) -> Result<usize, Failure> {
        let failed = |error: io::Error| match is_of_archive(&error) {
            true => broken(error.to_string()),
            false => cannot_restore(self.state, &error),
        };
        let mut files = 0;
        for entry in entries {
            let mut entry = entry.map_err(|error| broken(error.to_string()))?;
            let path = self.state.join(place(&entry).map_err(broken)?);
            files += usize::from(entry.header().entry_type().is_file());
            self.write(&path, &mut entry).map_err(failed)?;
        }
        File::open(self.state).and_then(|dir| dir.sync_all()).map_err(failed)?;
        Ok(files)
    }

    fn write(&self, path: &Path, entry: &mut tar::Entry<'_, impl Read>) -> io::Result<()> {
        if entry.header().entry_type().is_dir() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        } else {
            let mut file = File::create_new(path)?;
            // What others could read before, only the owner can read now.
            file.set_permissions(fs::Permissions::from_mode(entry.header().mode()? & 0o700))?;
            io::copy(entry, &mut file)?;
            file.sync_all()?;
        }
        match self.owner {
            Some((uid, gid)) if rustix::process::geteuid().is_root() => chown(path, Some(uid), Some(gid)),
            _ => Ok(()),
        }
    }

    /// Leaves the directory as it was.
    fn undo(&self) {
        for entry in fs::read_dir(self.state).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
        if self.owner.is_none() {
            let _ = fs::remove_dir(self.state);
        }
    }
}
