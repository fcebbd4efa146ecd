//! One stream of a mover, as the thread that answers its queries sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use wire::mover::{Answer, FileLocation, StreamQuery};

use super::{MoverFileState, Shared, answer};
use crate::error::Error;

/// The mover's reports about a stream, beside its queries.
#[derive(Debug, Default)]
pub(super) struct Flags {
    /// The stream is over.
    pub lost: AtomicBool,
    /// The mover has reported that the stream is surplus.
    pub surplus: AtomicBool,
}

/// A stream that a mover carries.
pub struct MoverStream {
    pub(super) id: u32,
    pub(super) mover: usize,
    pub(super) queries: Receiver<StreamQuery>,
    pub(super) flags: Arc<Flags>,
    pub(super) shared: Arc<Shared>,
}

impl MoverStream {
    /// The stream's number in the session.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Waits for the stream's next query; none once the stream is over.
    pub fn next_query(&self) -> Option<StreamQuery> {
        self.queries.recv().ok()
    }

    /// Answers the stream's last query.
    pub fn answer(&self, reply: Answer) {
        self.shared.send(self.mover, answer(self.id, reply));
    }

    /// Whether the stream is over.
    pub fn is_lost(&self) -> bool {
        self.flags.lost.load(Ordering::Acquire)
    }

    /// Whether the stream is surplus.
    pub fn is_surplus(&self) -> bool {
        self.flags.surplus.load(Ordering::Acquire)
    }

    /// The error of a stream whose mover is gone.
    pub fn lost(&self) -> Error {
        let peer = self.shared.chosen[self.mover].to_string();
        Error::Broken { peer, source: std::io::ErrorKind::ConnectionReset.into() }
    }

    /// Notes that the mover is about to open a file, before it gets the file's location.
    pub fn note_open(&self, file: u64) {
        self.shared.state().movers[self.mover].files.entry(file).or_insert(MoverFileState::Open);
    }

    /// Answers the stream's query for the location of a file: none where its blocks are not wanted, or it is being closed.
    pub fn answer_location(&self, file: u64, location: Option<FileLocation>) {
        let mut state = self.shared.state();
        let mover = &mut state.movers[self.mover];
        let reply = match location {
            Some(location) if mover.files.get(&file) == Some(&MoverFileState::Open) => Answer::Here(location),
            _ => Answer::Nowhere,
        };
        mover.send(answer(self.id, reply));
    }

    /// Expels the stream's mover from the job.
    pub fn expel(&self, why: &str) {
        self.shared.state().movers[self.mover].expel(why);
    }
}
