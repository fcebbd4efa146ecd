//! Reading a range of an object that several servers have.
//!
//! Does not know: the other servers. A read cannot be given up while it runs: the library returns whole responses.

use std::ops::Range;

use model::RelPath;

use super::S3Object;
use crate::facts_cache::Namespace;
use crate::range_source::{MemberFailure, RangeSource, ReadHandle};
use crate::s3::S3;

impl S3 {
    /// Opens an object that other servers have too, for reading by ranges. Returns its size in bytes with it.
    pub(crate) fn open_ranges(&self, path: &RelPath) -> Result<(u64, Box<dyn RangeSource>), MemberFailure> {
        let failed = |failed| MemberFailure::of(failed, "open", path);
        let facts = self.facts_to_read(path).map_err(failed)?;
        let size = if facts.kind == model::Kind::File { facts.size } else { return Err(MemberFailure::dir(path)) };
        let key = self.key(path).map_err(failed)?;
        Ok((size, Box::new(S3Object { s3: self.clone(), path: path.clone(), key, facts })))
    }
}

impl RangeSource for S3Object {
    fn read_range(
        &self,
        span: Range<u64>,
        _handle: &ReadHandle,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), MemberFailure> {
        let bytes = self.get(&span).map_err(|failed| MemberFailure::of(failed, "read", &self.path))?;
        take(&bytes);
        Ok(())
    }
}
