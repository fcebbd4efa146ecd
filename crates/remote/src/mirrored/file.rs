//! A file of several sources, open for reading: opened at each of them when it is first asked there, and held against a digest
//! that one of them tells.
//!
//! Does not know: who brings which bytes.

use std::ops::Range;
use std::sync::Arc;

use model::RelPath;
use model::fault::Fault;
use parking_lot::Mutex;
use store::error::shown;
use store::{Error, Result, Stat};

use super::crew::{Crew, Whole};
use super::proof::{Part, Proof};
use crate::ahead::{AHEAD, Fetch, File};
use crate::pieces::{Pieces, Trouble};

/// Chunks ahead of the reader, whatever number of members there is.
const AHEAD_MAX: u64 = 31;

/// What all who fetch it have in common.
struct Opened {
    id: u64,
    path: RelPath,
    size: u64,
    /// At each member, once it was asked there.
    opened: Vec<Mutex<Option<Arc<dyn Pieces>>>>,
    proof: Arc<Proof>,
}

impl Whole for Opened {
    fn id(&self) -> u64 {
        self.id
    }

    fn path(&self) -> &RelPath {
        &self.path
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn at(self: Arc<Self>, crew: &Arc<Crew>, member: usize) -> std::result::Result<Arc<dyn Pieces>, Trouble> {
        if member != 0 {
            self.proof.admits(crew, &self.path)?;
            let whole: Arc<dyn Whole> = Arc::<Opened>::clone(&self);
            self.proof.ask(crew, &whole);
        }
        let mut opened = self.opened[member].lock();
        if let Some(pieces) = &*opened {
            return Ok(Arc::clone(pieces));
        }
        let (size, pieces) = crew.members[member].pieces(&self.path)?;
        if size != self.size {
            let why = format!("it has {size} bytes there and {} at the first source", self.size);
            let (path, fault) = (shown(&self.path), Fault::Storage);
            return Err(Trouble::from(Error::Server { doing: "read", path, fault, general: false, why }));
        }
        let pieces: Arc<dyn Pieces> = Arc::from(pieces);
        *opened = Some(Arc::clone(&pieces));
        Ok(pieces)
    }
}

struct Fetching {
    crew: Arc<Crew>,
    file: Arc<Opened>,
}

impl Fetch for Fetching {
    fn fetch(&self, span: Range<u64>) -> Result<Vec<u8>> {
        let Fetching { crew, file } = self;
        let whole: Arc<dyn Whole> = Arc::<Opened>::clone(file);
        loop {
            file.proof.not_lied_to(crew, &file.path)?;
            let (bytes, runs) = crew.fetch(&whole, span.clone())?;
            let liars = crew.liars();
            // Found out while its bytes were on their way: they are asked of the others.
            if runs.iter().any(|run| liars & (1 << run.by) != 0) {
                continue;
            }
            if let Some(sum) = file.proof.add(Part::all_of(&bytes, runs), file.size) {
                file.proof.check(crew, &whole, sum)?;
            }
            return Ok(bytes);
        }
    }

    fn is_random(&self) -> bool {
        true
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.crew.close(self.file.id);
    }
}

/// A file of several sources. Its facts are those that the first one told.
pub(super) fn file(crew: &Arc<Crew>, path: &RelPath, stat: Stat, proof: Arc<Proof>) -> File {
    let members = crew.members.len();
    let opened = (0..members).map(|_| Mutex::default()).collect();
    let (id, path, size) = (crew.number(), path.clone(), stat.meta.size);
    let file = Arc::new(Opened { id, path, size, opened, proof });
    let fetching = Fetching { crew: Arc::clone(crew), file };
    let ahead = ((AHEAD + 1) * members as u64 - 1).min(AHEAD_MAX);
    File::so_far(fetching, stat, ahead)
}
