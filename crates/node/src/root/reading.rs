//! Reads: on which connection they are answered.

use std::sync::Arc;

use xroot::head::FileHandle;
use xroot::request::{FileRange, VectorPart};
use xroot::{ErrorCode, RootAnswer, StreamId};

use super::connection::RootConnection;
use super::data::{self, PageBuffers, ReadKind, ReadOrder};
use super::failure::{RootOutcome, refuse};
use super::files::RootFile;

impl RootConnection {
    /// Reads a range.
    pub(super) fn read(
        &mut self,
        kind: ReadKind,
        stream: StreamId,
        range: FileRange,
    ) -> RootOutcome<Option<RootAnswer>> {
        let file = self.session()?.files.get(range.file)?;
        // Any connection.
        let path_id = if range.path_id == u8::MAX { 0 } else { range.path_id };
        if path_id == 0 {
            data::send_range(&mut self.conn, stream, kind, &file, &range, &mut PageBuffers::default())?;
            return Ok(None);
        }
        self.submit(path_id, ReadOrder::Range { kind, stream, file, range })
    }

    /// Reads several ranges.
    pub(super) fn read_vector(
        &mut self,
        stream: StreamId,
        parts: Vec<VectorPart>,
        path_id: u8,
    ) -> RootOutcome<Option<RootAnswer>> {
        let mut files: Vec<(FileHandle, Arc<RootFile>)> = Vec::new();
        for part in &parts {
            if !files.iter().any(|(handle, _)| *handle == part.file) {
                files.push((part.file, self.session()?.files.get(part.file)?));
            }
        }
        if path_id == 0 || path_id == u8::MAX {
            data::send_parts(&mut self.conn, stream, &files, &parts)?;
            return Ok(None);
        }
        self.submit(path_id, ReadOrder::Parts { stream, files, parts })
    }

    fn submit(&mut self, path_id: u8, order: ReadOrder) -> RootOutcome<Option<RootAnswer>> {
        let bound = self.session()?.stream(path_id);
        let bound =
            bound.ok_or_else(|| refuse(ErrorCode::ArgInvalid, "that connection does not belong to the session"))?;
        bound.submit(order);
        Ok(None)
    }
}
