//! `longhaul support backup`: a state directory in one file.
//!
//! The services replace small files as a whole, so a copy of each is one of its states. Databases are copied by SQLite itself. A journal that
//! grows meanwhile loses its last rows, as in a power failure; a transfer that is resumed verifies what its journal claims.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use model::Exit;
use model::units::Bytes;
use serde::{Deserialize, Serialize};

use super::{cannot_write, file_name};
use crate::failure::Failure;
use crate::printer::Printer;

/// The first member of a backup.
pub const MANIFEST: &str = "longhaul-backup.json";
/// The directory of all other members.
pub const STATE: &str = "state";
/// The first bytes of every SQLite database.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";
/// The files that SQLite keeps beside a database; their content is in the copy.
const BESIDE_DATABASES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// What a backup says of itself.
#[derive(Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the form of backups.
    pub v: u32,
    /// The program that made it.
    pub software: String,
    /// The host that it was made on.
    pub host: String,
    /// When it was made.
    pub created: String,
}

#[derive(Serialize)]
struct BackupReport {
    v: u32,
    event: &'static str,
    path: String,
    bytes: u64,
    files: usize,
}

/// Saves a state directory.
///
/// # Errors
/// The directory cannot be read, or the file cannot be written.
pub fn run(state: &Path, out: Option<&Path>, printer: &Printer) -> Result<Exit, Failure> {
    let now = Timestamp::now();
    let out = out.map_or_else(|| PathBuf::from(format!("{}.tar.gz", file_name("backup", now))), Path::to_owned);
    let files = files(state).map_err(|error| {
        Failure::local(format!("cannot read {}: {error} (--state names the state directory)", state.display()))
    })?;
    let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&out);
    let file = file.map_err(|error| cannot_write(&out, &error))?;
    let written = write((&file, &out), state, &files, now).and_then(|()| file.sync_all());
    let written = written.and_then(|()| file.metadata());
    let bytes = written.map_err(|error| {
        // A part of a backup must not be taken for one.
        let _ = fs::remove_file(&out);
        cannot_write(&out, &error)
    })?;
    let (path, bytes, files) = (out.display().to_string(), bytes.len(), files.len());
    if printer.is_json() {
        printer.object(&BackupReport { v: 1, event: "backup", path, bytes, files });
    } else {
        printer.line(&format!("wrote {path} ({}): {files} files of {}", Bytes(bytes), state.display()));
        printer.line("It holds the identity: keep it as secret as the directory, and not on the same disk.");
    }
    Ok(Exit::Done)
}

/// All directories and regular files below a directory, each directory before what is in it, relative to it.
fn files(state: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(state.join(&dir))? {
            let entry = entry?;
            let (path, kind) = (dir.join(entry.file_name()), entry.file_type()?);
            if kind.is_dir() {
                open.push(path.clone());
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_beside = BESIDE_DATABASES.iter().any(|end| {
                name.strip_suffix(end).is_some_and(|database| is_database(&state.join(&dir).join(database)))
            });
            if kind.is_dir() || (kind.is_file() && !is_beside) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_database(path: &Path) -> bool {
    let mut head = [0; 16];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *SQLITE
}

fn write((file, out): (&File, &Path), state: &Path, files: &[PathBuf], now: Timestamp) -> io::Result<()> {
    let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::fast()));
    let manifest =
        Manifest { v: 1, software: engine::SOFTWARE.to_owned(), host: super::host::name(), created: now.to_string() };
    let text = serde_json::to_vec(&manifest)?;
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o600);
    header.set_mtime(now.as_second().unsigned_abs());
    tar.append_data(&mut header, MANIFEST, &text[..])?;
    // Copies of databases lie where the backup has to have room in any case.
    let beside = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let scratch = tempfile::Builder::new().prefix(".longhaul-backup-").tempdir_in(beside)?;
    for path in files {
        let from = state.join(path);
        let result = if is_database(&from) {
            let copy = scratch.path().join("database");
            copy_database(&from, &copy)
                .and_then(|()| append(&mut tar, &copy, path))
                .and_then(|()| fs::remove_file(&copy))
        } else {
            append(&mut tar, &from, path)
        };
        match result {
            // The service has removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    tar.into_inner()?.finish()?.flush()
}

/// Appends a file or directory. A file that has grown since its size was read is cut off there; one that has shrunk is filled with zeros.
fn append(tar: &mut tar::Builder<GzEncoder<&File>>, from: &Path, path: &Path) -> io::Result<()> {
    let name = Path::new(STATE).join(path);
    let metadata = fs::symlink_metadata(from)?;
    let mut header = tar::Header::new_gnu();
    header.set_mode(metadata.mode() & 0o777);
    header.set_mtime(metadata.mtime().unsigned_abs());
    if metadata.is_dir() {
        header.set_entry_type(tar::EntryType::Directory);
        header.set_size(0);
        return tar.append_data(&mut header, name, io::empty());
    }
    let file = File::open(from)?;
    let size = file.metadata()?.len();
    header.set_size(size);
    tar.append_data(&mut header, name, file.chain(io::repeat(0)).take(size))
}

fn copy_database(from: &Path, to: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(database::copy_sqlite(from, to)).map_err(io::Error::other)
}
