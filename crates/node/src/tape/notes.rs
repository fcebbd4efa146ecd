//! Notes of files that are not archived yet, in the state directory: a node that restarts archives them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// The notes of one export.
#[derive(Debug)]
pub(crate) struct ArchiveNotes(PathBuf);

impl ArchiveNotes {
    /// The notes of an export, below the state directory.
    pub fn new(state: &Path, export: &str) -> ArchiveNotes {
        ArchiveNotes(state.join("tape-archive").join(export))
    }

    fn file(&self, path: &str) -> PathBuf {
        self.0.join(URL_SAFE_NO_PAD.encode(Sha256::digest(path)))
    }

    /// Notes a file. The note survives a power cut; without it the file is archived only if the node keeps running.
    pub fn add(&self, path: &str) {
        let write = || -> io::Result<()> {
            fs::create_dir_all(&self.0)?;
            let file = self.file(path);
            let part = file.with_extension("part");
            let mut note = File::create(&part)?;
            note.write_all(path.as_bytes())?;
            note.sync_data()?;
            fs::rename(&part, &file)?;
            File::open(&self.0)?.sync_all()
        };
        if let Err(error) = write() {
            tracing::warn!(%error, path, "the note that a file is to be archived to tape cannot be written");
        }
    }

    /// Removes the note of a file, if there is one.
    pub fn remove(&self, path: &str) {
        let _ = fs::remove_file(self.file(path));
    }

    /// All noted files.
    pub fn all(&self) -> Vec<String> {
        let notes = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let whole = notes.map(|note| note.path()).filter(|path| path.extension().is_none());
        whole.filter_map(|path| fs::read_to_string(path).ok()).collect()
    }
}
