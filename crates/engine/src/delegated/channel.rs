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
use crate::movers::{BEAT, LEASE};

/// How often a stream that waits for an answer checks whether its connection is lost.
const LOOK: Duration = Duration::from_millis(250);
/// How often a stream that waits for the lease checks again.
const SOON: Duration = Duration::from_millis(20);

/// The channel that all streams of a delegated session share.
pub(super) struct CoordinatorChannel {
    waker: Waker,
    out: Mutex<VecDeque<MoverMessage>>,
    answer_senders: Mutex<HashMap<u32, SyncSender<Answer>>>,
    started: Instant,
    /// When the lease was last asked for, in milliseconds since the start.
    asked: AtomicU64,
    /// Until when the lease lasts, in milliseconds since the start.
    lease: AtomicU64,
    /// How long a lease lasts.
    pub(super) lasts: Duration,
    /// The coordinator has said that the job is over.
    finished: AtomicBool,
    /// This side has stopped working on the job.
    closed: AtomicBool,
    failure: Mutex<Option<Error>>,
    bytes: AtomicU64,
}

/// The channel of one stream to the coordinator: one query at a time.
pub(super) struct StreamChannel<'a> {
    talk: &'a CoordinatorChannel,
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
            asked: AtomicU64::new(0),
            lease: AtomicU64::new(0),
            lasts: LEASE,
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

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    pub fn say(&self, word: MoverMessage) {
        self.out().push_back(word);
        self.waker.wake();
    }

    pub fn poll(&self) -> Option<Frame> {
        self.out().pop_front().map(Frame::Word)
    }

    /// Opens the channel of a stream that joined. Dropping it reports the stream's end.
    pub fn stream_channel<'a>(&'a self, stream: u32, is_lost: &'a dyn Fn() -> bool) -> StreamChannel<'a> {
        let (sender, answers) = sync_channel(1);
        self.answer_senders().insert(stream, sender);
        StreamChannel { talk: self, stream, answers, is_lost }
    }

    /// Handles a message of the coordinator. Returns a message that the side has to handle itself.
    ///
    /// # Errors
    /// The coordinator sent a message out of turn.
    pub fn hear(&self, frame: Frame) -> Result<Option<MoverMessage>, WireError> {
        match frame {
            Frame::Word(MoverMessage::Answer(stream, answer)) => {
                // The answer to a stream that is over is dropped.
                if let Some(channel) = self.answer_senders().get(&stream)
                    && channel.try_send(answer).is_err()
                {
                    return Err(WireError::Unexpected("a second answer to one question of a stream"));
                }
            }
            Frame::Word(MoverMessage::Beat(asked)) => {
                let lasts = self.lasts.as_millis() as u64;
                self.lease.fetch_max(asked.saturating_add(lasts).min(self.now() + lasts), Ordering::AcqRel);
            }
            Frame::Word(MoverMessage::Over) => self.finished.store(true, Ordering::Release),
            Frame::Word(other @ MoverMessage::Close(_)) => return Ok(Some(other)),
            _ => return Err(WireError::Unexpected("a coordinator does not send that to a mover")),
        }
        Ok(None)
    }

    /// Asks for a new lease every [`BEAT`].
    pub fn tick(&self) {
        let (now, asked) = (self.now(), self.asked.load(Ordering::Acquire));
        if asked == 0 || now >= asked + BEAT.as_millis() as u64 {
            self.asked.store(now.max(1), Ordering::Release);
            self.say(MoverMessage::Beat(now));
        }
    }

    /// Whether this side may write now. Waits for the lease, at most for as long as a lease lasts.
    pub fn may_write(&self) -> bool {
        let deadline = Instant::now() + self.lasts;
        while self.now() >= self.lease.load(Ordering::Acquire) {
            if self.is_closed() || Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(SOON);
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

    pub fn moved(&self, bytes: u64) {
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
    pub fn tell(&self, ask: StreamQuery) {
        self.talk.say(MoverMessage::Ask(self.stream, ask));
    }

    /// Sends a query and waits for the answer; none where the job or the stream is over.
    pub fn ask(&self, ask: StreamQuery) -> Option<Answer> {
        self.tell(ask);
        loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Timeout) if !(self.is_lost)() => {}
                Err(_) => return None,
            }
        }
    }
}

impl Drop for StreamChannel<'_> {
    fn drop(&mut self) {
        self.talk.answer_senders().remove(&self.stream);
        self.talk.say(MoverMessage::Gone(self.stream));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk() -> CoordinatorChannel {
        CoordinatorChannel::new(Waker::new().unwrap())
    }

    #[test]
    fn the_lease_counts_from_when_it_was_asked_for() {
        let lasts = Duration::from_secs(60);
        let talk = CoordinatorChannel { lasts, ..talk() };
        talk.tick();
        let Some(Frame::Word(MoverMessage::Beat(asked))) = talk.poll() else { panic!("it asks at once") };
        assert!(talk.poll().is_none());
        talk.hear(Frame::Word(MoverMessage::Beat(asked))).unwrap();
        assert!(talk.may_write());
        assert_eq!(talk.lease.load(Ordering::Acquire), asked + lasts.as_millis() as u64);
        // A late answer gives no longer lease than a prompt one.
        talk.lease.store(70_000, Ordering::Release);
        talk.hear(Frame::Word(MoverMessage::Beat(asked))).unwrap();
        assert_eq!(talk.lease.load(Ordering::Acquire), 70_000);
        // A coordinator cannot extend the lease beyond its length.
        talk.hear(Frame::Word(MoverMessage::Beat(u64::MAX))).unwrap();
        assert!(talk.lease.load(Ordering::Acquire) < 70_000 + lasts.as_millis() as u64);
    }

    #[test]
    fn nothing_is_written_once_all_is_over() {
        let talk = talk();
        talk.hear(Frame::Word(MoverMessage::Beat(0))).unwrap();
        talk.close();
        assert!(!talk.may_write());
    }

    #[test]
    fn one_query_has_one_answer() {
        let talk = talk();
        let channel = talk.stream_channel(3, &|| false);
        let answer = || Frame::Word(MoverMessage::Answer(3, Answer::Noted));
        talk.hear(answer()).unwrap();
        assert!(talk.hear(answer()).is_err(), "nobody asked");
        assert_eq!(channel.ask(StreamQuery::Next), Some(Answer::Noted));
        drop(channel);
        assert_eq!(talk.hear(answer()), Ok(None), "the stream is over: its answer came too late");
        talk.close();
        assert_eq!(talk.stream_channel(4, &|| true).ask(StreamQuery::Next), None);
    }
}
