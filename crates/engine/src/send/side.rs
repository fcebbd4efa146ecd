//! The sending side as a job sees it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::Progress;
use model::name::RelPath;
use model::spec::LiveSettings;
use wire::frame::{Counts, Plan, Removal};
use wire::limits::{PATHS_MAX, RANGES_MAX};
use wire::{Frame, SettledFile, WireError};

use super::Sending;
use crate::error::{Error, Result};
use crate::movers::{MoverSide, MoverStream};
use crate::side::{Side, StreamEnd};
use crate::stream::DataStream;

impl Side for Sending {
    fn handle(&self, frame: Frame) -> std::result::Result<(), WireError> {
        let result = self.state().machine.handle_frame(frame);
        self.work.notify_all();
        self.room.notify_all();
        result
    }

    fn poll_frame(&self) -> Option<Frame> {
        let lineage = {
            let mut all = self.lineage.lock();
            let some = all.len().min(PATHS_MAX);
            all.drain(..some).collect::<Vec<_>>()
        };
        if lineage.iter().any(|places| !places.is_empty()) {
            return Some(Frame::Lineage(lineage));
        }
        let mut state = self.state();
        if !state.doubted.is_empty() {
            let some = state.doubted.len().min(RANGES_MAX);
            return Some(Frame::Doubted(state.doubted.drain(..some).collect()));
        }
        state.machine.poll_frame()
    }

    fn pump(&self) -> Result<()> {
        self.pump_inline()
    }

    fn tick(&self) {}

    fn steer(&self, to: &LiveSettings) {
        // A limit below a byte a second is not none.
        self.pace.set(to.limit_bit_s.div_ceil(8), to.paused);
        let mut state = self.state();
        state.machine.set_block_bytes(self.pace.block_bytes());
        drop(state);
        self.work.notify_all();
    }

    fn sends(&self) -> bool {
        true
    }

    fn has_unacknowledged(&self, stream: u32) -> bool {
        self.state().machine.unacknowledged(stream) > 0
    }

    fn for_movers(self: Arc<Self>) -> Option<Arc<dyn MoverSide>> {
        let is_sized = self.open_files.roots.iter().all(|root| root.store.capabilities().sized);
        let takes_movers = is_sized && !self.state().machine.is_dry();
        takes_movers.then_some(self as Arc<dyn MoverSide>)
    }

    fn has_carried(&self, stream: u32) -> bool {
        self.state().machine.has_carried(stream)
    }

    fn retire(&self, streams: &BTreeSet<u32>) {
        self.state().retired.clone_from(streams);
        self.work.notify_all();
    }

    fn busy(&self) -> String {
        self.busy.lock().clone()
    }

    fn take_plans(&self) -> Vec<Plan> {
        Sending::take_plans(self)
    }

    fn report_files(&self) {
        self.state().machine.report_files();
    }

    fn take_files(&self) -> Vec<SettledFile> {
        self.state().machine.take_files()
    }

    fn current(&self) -> Option<RelPath> {
        self.state().machine.current()
    }

    fn take_removal(&self) -> Option<Removal> {
        self.state().machine.take_removal()
    }

    fn wants_streams(&self) -> bool {
        self.state().machine.wants_streams()
    }

    fn is_finished(&self) -> bool {
        self.state().machine.finished().is_some()
    }

    fn progress(&self) -> Progress {
        self.state().machine.progress()
    }

    fn counts(&self) -> Counts {
        Counts { unfinished: self.unfinished.load(Ordering::Relaxed), ..Counts::default() }
    }

    fn take_failure(&self) -> Option<Error> {
        self.state().failure.take()
    }

    fn close(&self) {
        self.state().over = true;
        self.pace.close();
        self.work.notify_all();
        self.room.notify_all();
    }

    fn run_stream(&self, mut stream: DataStream) -> StreamEnd {
        self.state().machine.stream_joined(stream.id());
        let result = self.send_loop(&mut stream);
        if result.is_err() {
            let mut state = self.state();
            state.machine.stream_lost(stream.id());
            if let Err(Error::Bookkeeping(source)) = &result {
                state.failure.get_or_insert_with(|| Error::Bookkeeping(source.clone()));
            }
        }
        self.work.notify_all();
        StreamEnd::of(stream, result)
    }
}

impl MoverSide for Sending {
    fn answer(&self, stream: &MoverStream) {
        self.answer_mover(stream);
    }
}
