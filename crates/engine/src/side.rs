//! One side of a transfer, as the thread that drives it sees it.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::account::{StageTimes, TargetWaits};
use model::name::RelPath;
use model::spec::LiveSettings;
use model::{Progress, v1};
use wire::frame::{Counts, Plan, Removal};
use wire::{Frame, SettledFile, WireError};

use crate::error::{Error, Result};
use crate::movers::MoverSide;
use crate::stream::DataStream;

/// The end of a stream.
pub struct StreamEnd {
    /// The kernel's facts about it.
    pub facts: v1::Stream,
    /// Where its thread's time went.
    pub spent: StageTimes,
    /// Its error, if it failed.
    pub result: Result<()>,
    /// The stream itself, where it is kept for another job.
    pub stream: Option<DataStream>,
}

impl StreamEnd {
    /// The end of a stream that ran; the result says whether it can carry another job.
    pub fn of(stream: DataStream, result: Result<bool>) -> StreamEnd {
        let facts = stream.facts();
        let spent = stream.meter().read();
        let can_stay = result.as_ref().is_ok_and(|can_stay| *can_stay);
        StreamEnd { facts, spent, result: result.map(drop), stream: can_stay.then_some(stream) }
    }

    /// The end of a stream that never began.
    pub(crate) fn failed(id: u32, error: Error) -> StreamEnd {
        let facts = v1::Stream { id, ..v1::Stream::default() };
        StreamEnd { facts, spent: StageTimes::default(), result: Err(error), stream: None }
    }
}

/// One side of a job: a machine and the threads around it.
pub trait Side: Send + Sync + 'static {
    /// Handles a message from the other side.
    ///
    /// # Errors
    /// The message breaks the protocol.
    fn handle(&self, frame: Frame) -> std::result::Result<(), WireError>;
    /// The next message for the other side.
    fn poll_frame(&self) -> Option<Frame>;
    /// Does the machine's work that belongs to the control thread.
    ///
    /// # Errors
    /// The state of this side is inconsistent.
    fn pump(&self) -> Result<()>;
    /// Called about ten times a second.
    fn tick(&self);
    /// Applies the job's limit, streams and pause.
    fn steer(&self, to: &LiveSettings);
    /// Whether this side sends.
    fn sends(&self) -> bool;
    /// Whether data is known to have arrived on a stream. Only a sender knows.
    fn has_carried(&self, _stream: u32) -> bool {
        false
    }
    /// Whether a stream has sent data whose arrival has not been reported yet. Only a sender knows.
    fn has_unacknowledged(&self, _stream: u32) -> bool {
        false
    }
    /// Sets the surplus streams: they end once all that they carried has arrived.
    fn retire(&self, streams: &BTreeSet<u32>);
    /// This side as movers see it; none where they cannot carry its streams.
    fn for_movers(self: Arc<Self>) -> Option<Arc<dyn MoverSide>> {
        None
    }
    /// Whether a job in which nothing moves is a failure of this side.
    fn watches_progress(&self) -> bool {
        true
    }
    /// The reason why nothing moves; empty when bytes move.
    fn busy(&self) -> String {
        String::new()
    }
    /// Steps of a dry run since the last call, for the client.
    fn take_plans(&self) -> Vec<Plan> {
        Vec::new()
    }
    /// The removal of entries that the source lacks, for the client; once, before it begins.
    fn take_removal(&self) -> Option<Removal> {
        None
    }
    /// Makes [`Side::take_files`] return every file that is settled from now on.
    fn report_files(&self) {}
    /// The files that were settled since the last call; empty without [`Side::report_files`].
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
    /// The numbers of its progress.
    fn progress(&self) -> Progress;
    /// The counts of this side that the other side cannot make.
    fn counts(&self) -> Counts {
        Counts::default()
    }
    /// How long it had to wait at its target.
    fn waited(&self) -> TargetWaits {
        TargetWaits::default()
    }
    /// The error with which the job must end, if there is one.
    fn take_failure(&self) -> Option<Error>;
    /// Ends all waits of this side's threads: the job is over.
    fn close(&self);
    /// Runs a stream to its end, on the stream's own thread.
    fn run_stream(&self, stream: DataStream) -> StreamEnd;
}
