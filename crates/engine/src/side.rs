//! One side of a transfer, as the thread that drives it sees it.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::account::{Spent, Waited};
use model::name::RelPath;
use model::spec::Steer;
use model::{Progress, v1};
use wire::frame::{Counts, Plan, Removal};
use wire::{Frame, SettledFile, WireError};

use crate::error::{Error, Result};
use crate::movers::MoverSide;
use crate::stream::DataStream;

/// How a stream ended.
pub struct StreamEnd {
    /// The kernel's facts about it.
    pub facts: v1::Stream,
    /// Where its thread's time went.
    pub spent: Spent,
    /// Whether it ended in peace.
    pub result: Result<()>,
    /// The stream itself, where it stays for another job.
    pub stream: Option<DataStream>,
}

impl StreamEnd {
    /// The end of a stream that ran; the result says whether it could carry another job.
    pub fn of(stream: DataStream, result: Result<bool>) -> StreamEnd {
        let (facts, spent) = (stream.facts(), stream.meter().read());
        let stays = result.as_ref().is_ok_and(|stays| *stays);
        StreamEnd { facts, spent, result: result.map(drop), stream: stays.then_some(stream) }
    }

    /// The end of a stream that never began.
    pub(crate) fn failed(id: u32, error: Error) -> StreamEnd {
        let facts = v1::Stream { id, ..v1::Stream::default() };
        StreamEnd { facts, spent: Spent::default(), result: Err(error), stream: None }
    }
}

/// One side of a job: a machine and the threads around it.
pub trait Side: Send + Sync + 'static {
    /// A message from the other side.
    fn handle(&self, frame: Frame) -> std::result::Result<(), WireError>;
    /// The next message for the other side.
    fn poll_frame(&self) -> Option<Frame>;
    /// Does what the control thread owes the machine.
    fn pump(&self) -> Result<()>;
    /// Some time has passed.
    fn tick(&self);
    /// The limit, streams and pause are now these.
    fn steer(&self, to: &Steer);
    /// Whether this side sends.
    fn sends(&self) -> bool;
    /// Whether it is known of a stream that something arrived by it; of a sender's.
    fn has_carried(&self, _stream: u32) -> bool {
        false
    }
    /// Whether something was sent by a stream of which nothing is known yet; of a sender's.
    fn owes(&self, _stream: u32) -> bool {
        false
    }
    /// These streams are to end once all that they carried has arrived; others that were to need not.
    fn retire(&self, streams: &BTreeSet<u32>);
    /// The same side for movers, where they may carry streams of it.
    fn for_movers(self: Arc<Self>) -> Option<Arc<dyn MoverSide>> {
        None
    }
    /// Whether it is for this side to notice that nothing moves.
    fn watches_progress(&self) -> bool {
        true
    }
    /// Why nothing moves for a while; empty when it does.
    fn busy(&self) -> String {
        String::new()
    }
    /// Steps of a dry run, for the client, that nobody has been told of.
    fn take_plans(&self) -> Vec<Plan> {
        Vec::new()
    }
    /// That what the source lacks is about to be removed at the target, for the client; once.
    fn take_removal(&self) -> Option<Removal> {
        None
    }
    /// From now on [`Side::take_files`] tells of every file that is settled.
    fn tell_files(&self) {}
    /// Files that were settled since the last call, where somebody asked.
    fn take_files(&self) -> Vec<SettledFile> {
        Vec::new()
    }
    /// The file under way.
    fn current(&self) -> Option<RelPath> {
        None
    }
    /// Whether streams are worth opening.
    fn wants_streams(&self) -> bool;
    /// Whether the job is done.
    fn is_finished(&self) -> bool;
    /// Numbers for progress.
    fn progress(&self) -> Progress;
    /// What this side counts that the other cannot see.
    fn counts(&self) -> Counts {
        Counts::default()
    }
    /// How long it had to wait at its target.
    fn waited(&self) -> Waited {
        Waited::default()
    }
    /// Why the job cannot go on, if so.
    fn take_failure(&self) -> Option<Error>;
    /// Sends all waiting threads home.
    fn close(&self);
    /// A stream's thread, from its join to its end.
    fn run_stream(&self, stream: DataStream) -> StreamEnd;
}
