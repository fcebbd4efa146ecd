//! The open files of a session, and files of sessions that broke, whose clients may come back.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use store::{Source, Stat};
use xroot::ErrorCode;
use xroot::entry::EntryFacts;
use xroot::head::FileHandle;

use super::failure::{RootOutcome, refuse};
use super::native_pull::FetchedFile;
use super::pulled_file::PulledFile;
use super::resolved::{ExportPath, facts};
use super::written_file::WrittenFile;
use crate::fireflies::FlowGuard;
use crate::meters::WorkMeter;

/// Open files of one session.
const FILES_MAX: usize = 4096;
/// How long a file is kept for a client whose connection broke: it connects again at once, or after a pause.
const PARKED_FOR: Duration = Duration::from_secs(120);
/// Files that are kept for such clients.
const PARKED_MAX: usize = 256;

/// An open file.
pub(super) enum RootFile {
    Read(Box<ReadFile>),
    Written(Box<Mutex<WrittenFile>>),
    /// The node gets it from another server.
    Pulled(Arc<PulledFile>),
}

/// A file that is open for reading.
pub(super) struct ReadFile {
    pub source: Arc<dyn Source>,
    pub stat: Stat,
    /// `/EXPORT/PATH`, for logs.
    pub shown: String,
    pub meter: WorkMeter,
    pub opened: Instant,
    pub sent_bytes: AtomicU64,
    /// The client for whom the target of a third-party copy has opened the file.
    pub fetched_for: Option<FetchedFile>,
    /// Ends the flow when the file is closed.
    pub _flow: FlowGuard,
}

/// The open files of a session.
#[derive(Default)]
pub(super) struct OpenFiles(Mutex<FileTable>);

#[derive(Default)]
struct FileTable {
    last: u32,
    open: HashMap<u32, Arc<RootFile>>,
}

fn not_open() -> super::failure::RootFailure {
    refuse(ErrorCode::FileNotOpen, "no file is open under this handle")
}

impl OpenFiles {
    /// Adds a file.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn add(&self, file: RootFile) -> RootOutcome<FileHandle> {
        let mut table = self.0.lock();
        if table.open.len() >= FILES_MAX {
            return Err(refuse(ErrorCode::NoMemory, format!("{FILES_MAX} files are open in this session: close some")));
        }
        loop {
            table.last = table.last.wrapping_add(1);
            let number = table.last;
            if let Entry::Vacant(place) = table.open.entry(number) {
                place.insert(Arc::new(file));
                return Ok(FileHandle(number.to_be_bytes()));
            }
        }
    }

    /// An open file.
    ///
    /// # Errors
    /// No file is open under this handle.
    pub fn get(&self, handle: FileHandle) -> RootOutcome<Arc<RootFile>> {
        let number = u32::from_be_bytes(handle.0);
        self.0.lock().open.get(&number).cloned().ok_or_else(not_open)
    }

    /// Removes a file from the table.
    ///
    /// # Errors
    /// No file is open under this handle.
    pub fn take(&self, handle: FileHandle) -> RootOutcome<Arc<RootFile>> {
        let number = u32::from_be_bytes(handle.0);
        self.0.lock().open.remove(&number).ok_or_else(not_open)
    }

    /// Removes all files.
    pub fn take_all(&self) -> Vec<Arc<RootFile>> {
        self.0.lock().open.drain().map(|(_, file)| file).collect()
    }
}

impl RootFile {
    /// Its facts.
    pub fn facts(&self) -> EntryFacts {
        match self {
            RootFile::Read(read) => facts(&read.stat, false),
            RootFile::Written(written) => written.lock().facts(),
            RootFile::Pulled(pulled) => pulled.facts(),
        }
    }

    /// The file, if it is open for writing.
    ///
    /// # Errors
    /// It is open for reading only.
    pub fn written(&self) -> RootOutcome<&Mutex<WrittenFile>> {
        match self {
            RootFile::Written(file) => Ok(file),
            RootFile::Read(_) => Err(refuse(ErrorCode::NotAuthorized, "the file is open for reading only")),
            RootFile::Pulled(_) => {
                Err(refuse(ErrorCode::InvalidRequest, "the bytes of this file come by a third-party copy"))
            }
        }
    }
}

impl ReadFile {
    /// Counts bytes that were sent.
    pub fn sent(&self, bytes: u64) {
        self.meter.sent(bytes);
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A file of a connection that broke, by its place and the holder of the credential that wrote it.
type ParkedKey = (String, ExportPath);

/// Files of connections that broke while they were written. A client that opens such a file again for changes, without asking for a new
/// one, goes on with it.
#[derive(Default)]
pub(super) struct ParkedFiles(Mutex<HashMap<ParkedKey, (Instant, WrittenFile)>>);

impl ParkedFiles {
    /// Keeps a file.
    pub fn park(&self, file: WrittenFile) {
        let key = (file.holder.clone(), file.place.clone());
        let mut parked = self.0.lock();
        if parked.len() < PARKED_MAX {
            parked.insert(key, (Instant::now(), file));
        }
    }

    /// Takes a file back.
    pub fn take(&self, holder: &str, place: &ExportPath) -> Option<WrittenFile> {
        self.0.lock().remove(&(holder.to_owned(), place.clone())).map(|(_, file)| file)
    }

    /// Discards files whose clients have not come back.
    pub fn expire(&self) {
        // Dropped without the lock: a file is removed from the disk.
        let expired: Vec<WrittenFile> = {
            let mut parked = self.0.lock();
            let late: Vec<ParkedKey> = parked
                .iter()
                .filter(|(_, (since, _))| since.elapsed() >= PARKED_FOR)
                .map(|(key, _)| key.clone())
                .collect();
            late.iter().filter_map(|key| parked.remove(key)).map(|(_, file)| file).collect()
        };
        drop(expired);
    }
}
