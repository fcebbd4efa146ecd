//! A range of an object for whoever reads it from several places at once.
//!
//! Does not know: the other places; how to give up what is on its way: the library's answers come whole.

use std::ops::Range;

use model::RelPath;

use super::Fetching;
use crate::known::Told;
use crate::pieces::{Flight, Pieces, Trouble};
use crate::s3::S3;

impl S3 {
    /// An object as one of several of the same bytes, with its length.
    pub(crate) fn pieces(&self, path: &RelPath) -> Result<(u64, Box<dyn Pieces>), Trouble> {
        let failed = |failed| Trouble::of(failed, "open", path);
        let facts = self.facts_to_read(path).map_err(failed)?;
        let size = if facts.kind == model::Kind::File { facts.size } else { return Err(Trouble::dir(path)) };
        let key = self.key(path).map_err(failed)?;
        Ok((size, Box::new(Fetching { s3: self.clone(), path: path.clone(), key, facts })))
    }
}

impl Pieces for Fetching {
    fn bring(&self, span: Range<u64>, _flight: &Flight, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Trouble> {
        let bytes = self.get(&span).map_err(|failed| Trouble::of(failed, "read", &self.path))?;
        take(&bytes);
        Ok(())
    }
}
