//! An object, read ahead over several connections, and held against what was known when it was opened.

mod piece;

use std::ops::Range;

use model::Fault;
use model::name::RelPath;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore};
use store::{Extent, Result, Source, Stat};

use super::service::drive;
use super::{S3, failed};
use crate::ahead::{Ahead, Fetch};
use crate::failed::Failed;
use crate::known::Facts;

/// An object open for reading.
pub(super) struct File {
    stat: Stat,
    ahead: Ahead,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("File").field("stat", &self.stat).finish_non_exhaustive()
    }
}

impl File {
    pub fn new(s3: &S3, path: &RelPath, key: Path, facts: Facts) -> File {
        let fetching = Fetching { s3: s3.clone(), path: path.clone(), key, facts: facts.clone() };
        File { ahead: Ahead::new(Box::new(fetching), facts.size), stat: facts.stat(&s3.0.bucket, path) }
    }
}

impl Source for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.ahead.read_at(buffer, offset)
    }

    fn stat(&self) -> Result<Stat> {
        Ok(self.stat)
    }

    fn extent(&self, _offset: u64, size: u64) -> Result<Extent> {
        Ok(Extent::Data(size))
    }
}

struct Fetching {
    s3: S3,
    path: RelPath,
    key: Path,
    facts: Facts,
}

impl Fetching {
    fn get(&self, span: &Range<u64>) -> std::result::Result<Vec<u8>, Failed> {
        let options = GetOptions::new().with_range(Some(GetRange::Bounded(span.clone())));
        let got = drive(self.s3.0.store.get_opts(&self.key, options)).map_err(failed)?;
        // A server that answers with another range than the one asked for is found out by the library.
        if !super::facts(&got.meta).agrees(&self.facts) {
            return Err(Failed { status: Some(412), ..Failed::peer("it answers with another") });
        }
        let (due, range) = (span.end - span.start, got.range.clone());
        let bytes = drive(got.bytes()).map_err(failed)?;
        if range != *span || bytes.len() as u64 != due {
            let why = format!("the server sends {} bytes where {due} were due", bytes.len());
            return Err(Failed::peer(why));
        }
        Ok(bytes.into())
    }
}

impl Fetch for Fetching {
    fn fetch(&self, span: Range<u64>) -> Result<Vec<u8>> {
        self.get(&span).map_err(|failed| match failed.status {
            Some(404 | 412 | 416) => {
                let why =
                    "it changed in the bucket while it was being read; run the same command again when it is at rest";
                Failed { fault: Fault::Storage, ..Failed::peer(why) }.doing("read", &self.path)
            }
            _ => failed.doing("read", &self.path),
        })
    }

    fn is_random(&self) -> bool {
        true
    }
}
