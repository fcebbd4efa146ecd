//! One stream of a mover, from where its questions are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use wire::mover::{Answer, Ask, Here};

use super::{Hold, Shared, answer};
use crate::error::Error;

/// What is known of it besides its questions.
#[derive(Debug, Default)]
pub(super) struct Flags {
    /// It is over.
    pub lost: AtomicBool,
    /// Its mover says that it is one too many.
    pub surplus: AtomicBool,
}

/// A stream that a mover carries.
pub struct MoverStream {
    pub(super) id: u32,
    pub(super) mover: usize,
    pub(super) asks: Receiver<Ask>,
    pub(super) flags: Arc<Flags>,
    pub(super) shared: Arc<Shared>,
}

impl MoverStream {
    /// Its number in the session.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// What it asks next; none once it is over.
    pub fn hear(&self) -> Option<Ask> {
        self.asks.recv().ok()
    }

    /// Answers what it asked last.
    pub fn answer(&self, said: Answer) {
        self.shared.say(self.mover, answer(self.id, said));
    }

    /// Whether it is over.
    pub fn is_lost(&self) -> bool {
        self.flags.lost.load(Ordering::Acquire)
    }

    /// Whether it is one too many.
    pub fn is_surplus(&self) -> bool {
        self.flags.surplus.load(Ordering::Acquire)
    }

    /// The error of a stream whose mover is gone.
    pub fn lost(&self) -> Error {
        let peer = self.shared.chosen[self.mover].to_string();
        Error::Broken { peer, source: std::io::ErrorKind::ConnectionReset.into() }
    }

    /// The mover is about to have a file open; it has not been told where it is.
    pub fn holds(&self, file: u64) {
        self.shared.state().movers[self.mover].files.entry(file).or_insert(Hold::Open);
    }

    /// Tells it where a file's blocks go, or that nobody wants them: also where the file is being closed.
    pub fn tell_where(&self, file: u64, here: Option<Here>) {
        let mut state = self.shared.state();
        let mover = &mut state.movers[self.mover];
        let said = match here {
            Some(here) if mover.files.get(&file) == Some(&Hold::Open) => Answer::Here(here),
            _ => Answer::Nowhere,
        };
        mover.say(answer(self.id, said));
    }

    /// Its mover is of no use to this job.
    pub fn expel(&self, why: &str) {
        self.shared.state().movers[self.mover].expel(why);
    }
}
