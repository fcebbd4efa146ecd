//! Runs third-party copies to this node, each in a thread of its own.

use std::sync::Arc;

use xroot::{ErrorCode, RootAnswer, StreamId};

use super::connection::RootConnection;
use super::failure::{RootOutcome, refuse};
use super::pulled_file::{PulledFile, SyncOutcome};

/// How long a client waits for a copy, seconds.
const COPY_S: u32 = 24 * 3600;

impl RootConnection {
    /// Syncs a file that the node gets from another server.
    pub(super) fn sync_pulled(&self, stream: StreamId, file: &Arc<PulledFile>) -> RootOutcome<RootAnswer> {
        match file.sync()? {
            SyncOutcome::Done => Ok(RootAnswer::Ok(Vec::new())),
            SyncOutcome::Begins => self.begin_pull(stream, file),
        }
    }

    fn begin_pull(&self, stream: StreamId, file: &Arc<PulledFile>) -> RootOutcome<RootAnswer> {
        let session = Arc::clone(self.session()?);
        session.begin_answer();
        let work = {
            let (session, service, file) = (Arc::clone(&session), Arc::clone(&self.service), Arc::clone(file));
            move || {
                let answer = RootAnswer::Async { stream, answer: Box::new(file.run(&service)) };
                session.finish_answer(StreamId::default(), answer);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("root-copy".into()).spawn(work) {
            session.forget_answer();
            file.has_not_begun();
            let reason = format!("no thread is free for the copy ({error}); try again later");
            return Err(refuse(ErrorCode::Overloaded, reason));
        }
        Ok(RootAnswer::WaitForAnswer(COPY_S))
    }
}
