//! What a mover and its head say to each other, as seen from the mover's streams; and the lease under which it writes.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use model::Progress;
use parking_lot::{Mutex, MutexGuard};
use sys::waker::Waker;
use wire::mover::{Answer, Ask, Word};
use wire::{Frame, WireError};

use crate::error::Error;
use crate::movers::{BEAT, LEASE};

/// How often a stream that waits for an answer looks whether its peer still has it.
const LOOK: Duration = Duration::from_millis(250);
/// How often one that waits for the lease looks again.
const SOON: Duration = Duration::from_millis(20);

/// What all streams of a lent session share.
pub(super) struct Talk {
    waker: Waker,
    out: Mutex<VecDeque<Word>>,
    lines: Mutex<HashMap<u32, SyncSender<Answer>>>,
    started: Instant,
    /// When it was last asked for, and until when it lasts: milliseconds since the start.
    asked: AtomicU64,
    lease: AtomicU64,
    /// How long it lasts each time.
    pub(super) lasts: Duration,
    /// The head said that the job is over.
    finished: AtomicBool,
    /// Nothing more is to be done here.
    closed: AtomicBool,
    failure: Mutex<Option<Error>>,
    bytes: AtomicU64,
}

/// One stream's line to the head: one question at a time.
pub(super) struct Line<'a> {
    talk: &'a Talk,
    stream: u32,
    answers: Receiver<Answer>,
    is_lost: &'a dyn Fn() -> bool,
}

impl Talk {
    pub fn new(waker: Waker) -> Talk {
        Talk {
            waker,
            out: Mutex::default(),
            lines: Mutex::default(),
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

    fn out(&self) -> MutexGuard<'_, VecDeque<Word>> {
        self.out.lock()
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<u32, SyncSender<Answer>>> {
        self.lines.lock()
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    pub fn say(&self, word: Word) {
        self.out().push_back(word);
        self.waker.wake();
    }

    pub fn poll(&self) -> Option<Frame> {
        self.out().pop_front().map(Frame::Word)
    }

    /// A stream joined: its line, until it is dropped.
    pub fn line<'a>(&'a self, stream: u32, is_lost: &'a dyn Fn() -> bool) -> Line<'a> {
        let (sender, answers) = sync_channel(1);
        self.lines().insert(stream, sender);
        Line { talk: self, stream, answers, is_lost }
    }

    /// What the head says. What is not for all streams of any kind comes back.
    pub fn hear(&self, frame: Frame) -> Result<Option<Word>, WireError> {
        match frame {
            Frame::Word(Word::Answer(stream, answer)) => {
                // A stream that is over asks nothing any more.
                if let Some(line) = self.lines().get(&stream)
                    && line.try_send(answer).is_err()
                {
                    return Err(WireError::Unexpected("a second answer to one question of a stream"));
                }
            }
            Frame::Word(Word::Beat(asked)) => {
                let lasts = self.lasts.as_millis() as u64;
                self.lease.fetch_max(asked.saturating_add(lasts).min(self.now() + lasts), Ordering::AcqRel);
            }
            Frame::Word(Word::Over) => self.finished.store(true, Ordering::Release),
            Frame::Word(other @ Word::Close(_)) => return Ok(Some(other)),
            _ => return Err(WireError::Unexpected("a head does not say that to a mover")),
        }
        Ok(None)
    }

    /// Asks for the lease anew, when it is time.
    pub fn tick(&self) {
        let (now, asked) = (self.now(), self.asked.load(Ordering::Acquire));
        if asked == 0 || now >= asked + BEAT.as_millis() as u64 {
            self.asked.store(now.max(1), Ordering::Release);
            self.say(Word::Beat(now));
        }
    }

    /// Whether this side may write now. Waits for the lease, but not for long.
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

    /// Streams that wait for an answer get none any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.lines().clear();
    }

    /// This mover is of no use to the job.
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

    /// What has come or gone by here.
    pub fn progress(&self) -> Progress {
        let bytes = self.bytes.load(Ordering::Relaxed);
        Progress { bytes_offered: bytes, bytes_arrived: bytes, ..Progress::default() }
    }
}

impl Line<'_> {
    /// Tells the head something that needs no answer.
    pub fn tell(&self, ask: Ask) {
        self.talk.say(Word::Ask(self.stream, ask));
    }

    /// Asks, and waits for the answer: none where the job or the stream is over.
    pub fn ask(&self, ask: Ask) -> Option<Answer> {
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

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.talk.lines().remove(&self.stream);
        self.talk.say(Word::Gone(self.stream));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk() -> Talk {
        Talk::new(Waker::new().unwrap())
    }

    #[test]
    fn the_lease_counts_from_when_it_was_asked_for() {
        let lasts = Duration::from_secs(60);
        let talk = Talk { lasts, ..talk() };
        talk.tick();
        let Some(Frame::Word(Word::Beat(asked))) = talk.poll() else { panic!("it asks at once") };
        assert!(talk.poll().is_none());
        talk.hear(Frame::Word(Word::Beat(asked))).unwrap();
        assert!(talk.may_write());
        assert_eq!(talk.lease.load(Ordering::Acquire), asked + lasts.as_millis() as u64);
        // An answer that was on its way for long gives nothing that it would not have given then.
        talk.lease.store(70_000, Ordering::Release);
        talk.hear(Frame::Word(Word::Beat(asked))).unwrap();
        assert_eq!(talk.lease.load(Ordering::Acquire), 70_000);
        // Nor does a head give more than there is.
        talk.hear(Frame::Word(Word::Beat(u64::MAX))).unwrap();
        assert!(talk.lease.load(Ordering::Acquire) < 70_000 + lasts.as_millis() as u64);
    }

    #[test]
    fn nothing_is_written_once_all_is_over() {
        let talk = talk();
        talk.hear(Frame::Word(Word::Beat(0))).unwrap();
        talk.close();
        assert!(!talk.may_write());
    }

    #[test]
    fn one_question_has_one_answer() {
        let talk = talk();
        let line = talk.line(3, &|| false);
        let answer = || Frame::Word(Word::Answer(3, Answer::Noted));
        talk.hear(answer()).unwrap();
        assert!(talk.hear(answer()).is_err(), "nobody asked");
        assert_eq!(line.ask(Ask::Next), Some(Answer::Noted));
        drop(line);
        assert_eq!(talk.hear(answer()), Ok(None), "the stream is over: its answer came too late");
        talk.close();
        assert_eq!(talk.line(4, &|| true).ask(Ask::Next), None);
    }
}
