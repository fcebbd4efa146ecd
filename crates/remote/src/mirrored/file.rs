//! A file of a set of mirrors, open for reading. It is opened at each source when bytes are first asked of that source, and
//! verified with a digest that one of the sources reports.
//!
//! Does not know: which source brings which bytes.

use std::ops::Range;
use std::sync::Arc;

use model::RelPath;
use model::fault::Fault;
use parking_lot::Mutex;
use store::error::shown;
use store::{Error, Result, Stat};

use super::proof::{PartSum, Proof};
use super::source_set::{SharedFile, SourceSet};
use crate::ahead::{AHEAD, Fetch, RemoteFile};
use crate::range_source::{MemberFailure, RangeSource};

/// The most chunks that are fetched ahead of the reader, however many members there are.
const AHEAD_MAX: u64 = 31;

/// A file that several threads fetch.
struct OpenedFile {
    id: u64,
    path: RelPath,
    size: u64,
    /// The file at each member, once it has been opened there.
    opened: Vec<Mutex<Option<Arc<dyn RangeSource>>>>,
    proof: Arc<Proof>,
}

impl SharedFile for OpenedFile {
    fn id(&self) -> u64 {
        self.id
    }

    fn path(&self) -> &RelPath {
        &self.path
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn at(
        self: Arc<Self>,
        sources: &Arc<SourceSet>,
        member: usize,
    ) -> std::result::Result<Arc<dyn RangeSource>, MemberFailure> {
        if member != 0 {
            self.proof.admits(sources, &self.path)?;
            let whole: Arc<dyn SharedFile> = Arc::<OpenedFile>::clone(&self);
            self.proof.request_digest(sources, &whole);
        }
        let mut opened = self.opened[member].lock();
        if let Some(pieces) = &*opened {
            return Ok(Arc::clone(pieces));
        }
        let (size, pieces) = sources.members[member].open_ranges(&self.path)?;
        if size != self.size {
            let why = format!("it has {size} bytes there and {} at the first source", self.size);
            let (path, fault) = (shown(&self.path), Fault::Storage);
            return Err(MemberFailure::from(Error::Server { doing: "read", path, fault, general: false, why }));
        }
        let pieces: Arc<dyn RangeSource> = Arc::from(pieces);
        *opened = Some(Arc::clone(&pieces));
        Ok(pieces)
    }
}

struct MirroredFile {
    sources: Arc<SourceSet>,
    file: Arc<OpenedFile>,
}

impl Fetch for MirroredFile {
    fn fetch(&self, span: Range<u64>) -> Result<Vec<u8>> {
        let MirroredFile { sources, file } = self;
        let whole: Arc<dyn SharedFile> = Arc::<OpenedFile>::clone(file);
        loop {
            file.proof.check_members(sources, &file.path)?;
            let (bytes, runs) = sources.fetch(&whole, span.clone())?;
            let wrong_members = sources.with_other_bytes();
            // A source was found to have other bytes while these were fetched: they are fetched again, from the others.
            if runs.iter().any(|run| wrong_members & (1 << run.by) != 0) {
                continue;
            }
            if let Some(sum) = file.proof.add(PartSum::all_of(&bytes, runs), file.size) {
                file.proof.check(sources, &whole, sum)?;
            }
            return Ok(bytes);
        }
    }

    fn is_random(&self) -> bool {
        true
    }
}

impl Drop for MirroredFile {
    fn drop(&mut self) {
        self.sources.close(self.file.id);
    }
}

/// Opens a file of a set. Its facts are those of the first source.
pub(super) fn file(sources: &Arc<SourceSet>, path: &RelPath, stat: Stat, proof: Arc<Proof>) -> RemoteFile {
    let members = sources.members.len();
    let opened = (0..members).map(|_| Mutex::default()).collect();
    let (id, path, size) = (sources.next_id(), path.clone(), stat.meta.size);
    let file = Arc::new(OpenedFile { id, path, size, opened, proof });
    let fetching = MirroredFile { sources: Arc::clone(sources), file };
    let ahead = ((AHEAD + 1) * members as u64 - 1).min(AHEAD_MAX);
    RemoteFile::with_ahead(fetching, stat, ahead)
}
