//! The channel of a mover's streams to the coordinator, and the lease under which the mover writes.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use model::Progress;
use parking_lot::{Mutex, MutexGuard};
use sys::waker::Waker;
use wire::mover::{Answer, MoverMessage, StreamQuery};
use wire::{Frame, WireError};

use crate::error::Error;
use crate::movers::{LEASE, LEASE_REQUEST_EVERY};

/// How often a stream that waits for an answer checks whether its connection is lost.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// How often a stream that waits for the lease checks again.
const LEASE_CHECK_EVERY: Duration = Duration::from_millis(20);

/// The channel that all streams of a delegated session share.
pub(super) struct CoordinatorChannel {
    waker: Waker,
    out: Mutex<VecDeque<MoverMessage>>,
    answer_senders: Mutex<HashMap<u32, SyncSender<Answer>>>,
    started: Instant,
    /// The time of the last request for the lease, in milliseconds since the start.
    lease_requested_ms: AtomicU64,
    /// The end of the lease, in milliseconds since the start.
    lease_end_ms: AtomicU64,
    /// How long a lease lasts.
    pub(super) lease_length: Duration,
    /// The coordinator has reported that the job is over.
    finished: AtomicBool,
    /// This side has stopped working on the job.
    closed: AtomicBool,
    failure: Mutex<Option<Error>>,
    bytes: AtomicU64,
}

/// The channel of one stream to the coordinator: one query at a time.
pub(super) struct StreamChannel<'a> {
    coordinator: &'a CoordinatorChannel,
    stream: u32,
    answers: Receiver<Answer>,
    is_lost: &'a dyn Fn() -> bool,
}

impl CoordinatorChannel {
    pub fn new(waker: Waker) -> CoordinatorChannel {
        CoordinatorChannel {
            waker,
            out: Mutex::default(),
            answer_senders: Mutex::default(),
            started: Instant::now(),
            lease_requested_ms: AtomicU64::new(0),
            lease_end_ms: AtomicU64::new(0),
            lease_length: LEASE,
            finished: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            failure: Mutex::default(),
            bytes: AtomicU64::new(0),
        }
    }

    fn out(&self) -> MutexGuard<'_, VecDeque<MoverMessage>> {
        self.out.lock()
    }

    fn answer_senders(&self) -> MutexGuard<'_, HashMap<u32, SyncSender<Answer>>> {
        self.answer_senders.lock()
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    pub fn send(&self, message: MoverMessage) {
        self.out().push_back(message);
        self.waker.wake();
    }

    pub fn poll(&self) -> Option<Frame> {
        self.out().pop_front().map(Frame::Word)
    }

    /// Opens the channel of a stream that joined. Dropping it reports the stream's end.
    pub fn stream_channel<'a>(&'a self, stream: u32, is_lost: &'a dyn Fn() -> bool) -> StreamChannel<'a> {
        let (sender, answers) = sync_channel(1);
        self.answer_senders().insert(stream, sender);
        StreamChannel { coordinator: self, stream, answers, is_lost }
    }

    /// Handles a message of the coordinator. Returns a message that the side has to handle itself.
    ///
    /// # Errors
    /// The coordinator sent a message out of turn.
    pub fn handle(&self, frame: Frame) -> Result<Option<MoverMessage>, WireError> {
        match frame {
            Frame::Word(MoverMessage::Answer(stream, answer)) => {
                // The answer to a stream that is over is dropped.
                if let Some(channel) = self.answer_senders().get(&stream)
                    && channel.try_send(answer).is_err()
                {
                    return Err(WireError::Unexpected("a second answer to one question of a stream"));
                }
            }
            Frame::Word(MoverMessage::Beat(requested)) => {
                let lease_length = self.lease_length.as_millis() as u64;
                self.lease_end_ms.fetch_max(
                    requested.saturating_add(lease_length).min(self.now_ms() + lease_length),
                    Ordering::AcqRel,
                );
            }
            Frame::Word(MoverMessage::Over) => self.finished.store(true, Ordering::Release),
            Frame::Word(other @ MoverMessage::Close(_)) => return Ok(Some(other)),
            _ => return Err(WireError::Unexpected("a coordinator does not send that to a mover")),
        }
        Ok(None)
    }

    /// Asks for a new lease every [`LEASE_REQUEST_EVERY`].
    pub fn tick(&self) {
        let now = self.now_ms();
        let requested = self.lease_requested_ms.load(Ordering::Acquire);
        if requested == 0 || now >= requested + LEASE_REQUEST_EVERY.as_millis() as u64 {
            self.lease_requested_ms.store(now.max(1), Ordering::Release);
            self.send(MoverMessage::Beat(now));
        }
    }

    /// Whether this side may write now. Waits for the lease, at most for as long as a lease lasts.
    pub fn may_write(&self) -> bool {
        let deadline = Instant::now() + self.lease_length;
        while self.now_ms() >= self.lease_end_ms.load(Ordering::Acquire) {
            if self.is_closed() || Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(LEASE_CHECK_EVERY);
        }
        !self.is_closed()
    }

    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Stops this side: streams that wait for an answer get none.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.answer_senders().clear();
    }

    /// Fails this mover's part of the job.
    pub fn fail(&self, error: Error) {
        self.failure.lock().get_or_insert(error);
        self.waker.wake();
    }

    pub fn take_failure(&self) -> Option<Error> {
        self.failure.lock().take()
    }

    pub fn note_moved(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes that this mover has received or sent.
    pub fn progress(&self) -> Progress {
        let bytes = self.bytes.load(Ordering::Relaxed);
        Progress { bytes_offered: bytes, bytes_arrived: bytes, ..Progress::default() }
    }
}

impl StreamChannel<'_> {
    /// Sends the coordinator a report that needs no answer.
    pub fn report(&self, report: StreamQuery) {
        self.coordinator.send(MoverMessage::Ask(self.stream, report));
    }

    /// Sends a query and waits for the answer; none where the job or the stream is over.
    pub fn query(&self, query: StreamQuery) -> Option<Answer> {
        self.report(query);
        loop {
            match self.answers.recv_timeout(CHECK_EVERY) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Timeout) if !(self.is_lost)() => {}
                Err(_) => return None,
            }
        }
    }
}

impl Drop for StreamChannel<'_> {
    fn drop(&mut self) {
        self.coordinator.answer_senders().remove(&self.stream);
        self.coordinator.send(MoverMessage::Gone(self.stream));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coordinator() -> CoordinatorChannel {
        CoordinatorChannel::new(Waker::new().unwrap())
    }

    #[test]
    fn the_lease_counts_from_its_request() {
        let lease_length = Duration::from_secs(60);
        let coordinator = CoordinatorChannel { lease_length, ..coordinator() };
        coordinator.tick();
        let Some(Frame::Word(MoverMessage::Beat(requested))) = coordinator.poll() else { panic!("it asks at once") };
        assert!(coordinator.poll().is_none());
        coordinator.handle(Frame::Word(MoverMessage::Beat(requested))).unwrap();
        assert!(coordinator.may_write());
        assert_eq!(coordinator.lease_end_ms.load(Ordering::Acquire), requested + lease_length.as_millis() as u64);
        // A late answer does not give a longer lease than a prompt one.
        coordinator.lease_end_ms.store(70_000, Ordering::Release);
        coordinator.handle(Frame::Word(MoverMessage::Beat(requested))).unwrap();
        assert_eq!(coordinator.lease_end_ms.load(Ordering::Acquire), 70_000);
        // A coordinator cannot extend the lease beyond its length.
        coordinator.handle(Frame::Word(MoverMessage::Beat(u64::MAX))).unwrap();
        assert!(coordinator.lease_end_ms.load(Ordering::Acquire) < 70_000 + lease_length.as_millis() as u64);
    }

    #[test]
    fn nothing_is_written_after_the_channel_is_closed() {
        let coordinator = coordinator();
        coordinator.handle(Frame::Word(MoverMessage::Beat(0))).unwrap();
        coordinator.close();
        assert!(!coordinator.may_write());
    }

    #[test]
    fn one_query_has_one_answer() {
        let coordinator = coordinator();
        let channel = coordinator.stream_channel(3, &|| false);
        let answer = || Frame::Word(MoverMessage::Answer(3, Answer::Noted));
        coordinator.handle(answer()).unwrap();
        assert!(coordinator.handle(answer()).is_err(), "nobody asked");
        assert_eq!(channel.query(StreamQuery::Next), Some(Answer::Noted));
        drop(channel);
        assert_eq!(coordinator.handle(answer()), Ok(None), "the stream is over: its answer came too late");
        coordinator.close();
        assert_eq!(coordinator.stream_channel(4, &|| true).query(StreamQuery::Next), None);
    }
}
