//! Reading an object over several connections, ahead of its readers. Each response is compared with the facts of the object when
//! it was opened.

mod piece;

use std::ops::Range;

use model::Fault;
use model::name::RelPath;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore};
use store::Result;

use super::drive::drive;
use super::{S3, failed};
use crate::ahead::{Fetch, RemoteFile};
use crate::facts_cache::{Facts, Namespace};
use crate::request_error::RequestError;

/// Opens an object for reading.
pub(super) fn open(s3: &S3, path: &RelPath, key: Path, facts: Facts) -> RemoteFile {
    let stat = facts.stat(s3.host(), path);
    RemoteFile::new(S3Object { s3: s3.clone(), path: path.clone(), key, facts }, stat)
}

struct S3Object {
    s3: S3,
    path: RelPath,
    key: Path,
    facts: Facts,
}

impl S3Object {
    fn get(&self, span: &Range<u64>) -> std::result::Result<Vec<u8>, RequestError> {
        let options = || GetOptions::new().with_range(Some(GetRange::Bounded(span.clone())));
        let got = self.s3.ask(|store| store.get_opts(&self.key, options()))?;
        // The library detects a response with another range than the requested one.
        if !super::facts(&got.meta).agrees(&self.facts) {
            let why = "its size, time or tag differs from that of the object that was opened";
            return Err(RequestError { status: Some(412), ..RequestError::protocol_error(why) });
        }
        let expected = span.end - span.start;
        let range = got.range.clone();
        let bytes = drive(got.bytes()).map_err(failed)?;
        if range != *span || bytes.len() as u64 != expected {
            let why = format!("the server sends {} bytes where {expected} were expected", bytes.len());
            return Err(RequestError::protocol_error(why));
        }
        Ok(bytes.into())
    }
}

impl Fetch for S3Object {
    fn fetch(&self, span: Range<u64>) -> Result<Vec<u8>> {
        self.get(&span).map_err(|failed| match failed.status {
            Some(404 | 412 | 416) => {
                let why =
                    "it changed in the bucket while it was being read; run the same command again when it is at rest";
                RequestError { fault: Fault::Storage, ..RequestError::protocol_error(why) }
                    .into_store_error("read", &self.path)
            }
            _ => failed.into_store_error("read", &self.path),
        })
    }

    fn is_random(&self) -> bool {
        true
    }
}
