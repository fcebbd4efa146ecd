//! The movers of a node: further node processes, on this host or on others, that take streams of its jobs beside it.
//!
//! The node that the client came to is the head. It alone runs the job's machine, makes unfinished files and puts them in
//! place; a mover reads or writes the same files (a shared file system) and asks the head for every step ([`wire::mover`]). What a
//! mover holds when it dies goes out again over other streams, as after any stream that is lost.
//!
//! **A file is put in place only when no mover can write to it any more.** A mover writes under a lease: it asks for it
//! every second, and it counts from when it asked. The head has a file closed at those that have it open, and waits; of one that
//! is gone, it waits until its lease is over.
//!
//! What this room does not know: how a stream's questions are answered ([`MoverSide::answer`]), and what a mover does
//! ([`crate::lent`]). The arithmetic: docs/design/movers.md.

mod mover_client;
mod mover_stream;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use auth::AccessKey;
use model::account::Account;
use model::spec::Steer;
use model::{HostPort, Progress, v1};
use parking_lot::{Condvar, Mutex, MutexGuard};
use sys::waker::Waker;
use wire::Frame;
use wire::frame::{Open, Suite};
use wire::join::SessionId;
use wire::limits::ADDRESSES_MAX;
use wire::mover::{Answer, Ask, Lend, Loan, Word};

pub use mover_stream::MoverStream;

use crate::link::Link;
use crate::seal::Secret;
use crate::timeouts::Timeouts;

/// How long a mover may write after it asked whether it may.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// How often it asks.
pub(crate) const BEAT: Duration = Duration::from_millis(500);
/// A mover of which nothing was heard for so long is gone.
const QUIET: Duration = Duration::from_secs(5);
/// What clocks and threads may be late by.
const MARGIN: Duration = Duration::from_secs(1);
/// A mover that has not closed a file after so long is done without.
const CLOSING: Duration = Duration::from_secs(30);
/// When one that could not be reached, or was lost, is tried again within a job.
const AGAIN: Duration = Duration::from_secs(15);
/// Jobs of fewer bytes are not worth the handshakes.
const WORTH: u64 = 64 << 20;
/// How long the facts of movers are waited for when nothing has to be closed there.
const PARTING: Duration = Duration::from_secs(1);

/// Something that an operator wants to hear of a mover.
#[derive(Clone, Copy, Debug)]
pub enum Tiding<'a> {
    /// It takes streams of a job.
    Joined,
    /// It has left a job that goes on, or could not be reached: why, and whether it is asked again.
    Left(&'a str, bool),
}

/// Hears of movers, by their names.
pub type Hear = dyn Fn(&HostPort, Tiding<'_>) + Send + Sync;

/// The movers that a node has, and how it comes by them.
pub struct Peers {
    at: Vec<HostPort>,
    keys: Arc<[AccessKey]>,
    timeouts: Timeouts,
    hear: Box<Hear>,
    /// Whose turn it is to be first: of many, each job takes some.
    turn: AtomicUsize,
}

impl std::fmt::Debug for Peers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peers").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Peers {
    /// Movers there; `keys` are such as they gave out for the exports that they share with this node.
    pub fn new(at: Vec<HostPort>, keys: Arc<[AccessKey]>, timeouts: Timeouts, hear: Box<Hear>) -> Peers {
        Peers { at, keys, timeouts, hear, turn: AtomicUsize::new(0) }
    }

    /// Those of one job.
    fn chosen(&self) -> Vec<HostPort> {
        let count = self.at.len().min(ADDRESSES_MAX);
        // A job takes no more than a client goes to.
        let first = self.turn.fetch_add(count, Ordering::Relaxed);
        (0..count).map(|next| self.at[(first + next) % self.at.len()].clone()).collect()
    }
}

/// Of what movers are lent a part each.
pub(crate) struct Loans {
    /// The client's session's.
    pub secret: Secret,
    /// How its records are sealed.
    pub suite: Option<Suite>,
    /// The job.
    pub order: Open,
}

impl Loans {
    /// A session of this name.
    fn lend(&self, session: SessionId) -> Lend {
        let secret = *self.secret.lent(&session).expose();
        Lend { session, secret, suite: self.suite, order: self.order.clone() }
    }
}

/// How a mover stands to the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It is being asked.
    Coming,
    /// It takes streams.
    Here,
    /// It is gone. What it had open it may write to until then.
    Gone(Instant),
}

/// What a mover has of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Open,
    /// It was told to close it.
    Closing,
}

/// One of them.
struct Mover {
    phase: Phase,
    /// Where it takes streams, and of which session.
    loans: Vec<Loan>,
    /// What is to be said to it.
    out: VecDeque<Frame>,
    /// Wakes who says it.
    waker: Option<Waker>,
    /// Until when it may write, by what it was answered.
    lease: Instant,
    files: HashMap<u64, Hold>,
    streams: HashMap<u32, Stream>,
    spread: Vec<(u32, u32)>,
    account: Option<Account>,
    facts: Vec<v1::Stream>,
    /// It is done without, for this reason.
    expelled: Option<String>,
}

/// A stream of a mover, as its attendant knows it.
struct Stream {
    asks: Sender<Ask>,
    flags: Arc<mover_stream::Flags>,
}

struct State {
    movers: Vec<Mover>,
    /// Of these the client was told last.
    told: Vec<Loan>,
    over: bool,
    /// Files that a mover had open when it was lost: what it said it had written may have been lost with its host.
    doubtful: HashSet<u64>,
}

struct Shared {
    peers: Arc<Peers>,
    loans: Loans,
    side: Arc<dyn MoverSide>,
    /// The session's.
    waker: Waker,
    state: Mutex<State>,
    changed: Condvar,
    chosen: Vec<HostPort>,
}

/// A side of a transfer whose streams movers may carry.
pub trait MoverSide: Send + Sync {
    /// Movers are asked to carry streams of this side.
    fn meet(&self, _movers: &Movers) {}
    /// Answers a stream that a mover carries, until it is over.
    fn answer(&self, stream: &MoverStream);
}

/// The movers of one job. Clones are the same.
#[derive(Clone)]
pub struct Movers(Arc<Shared>);

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn say(&self, mover: usize, frame: Frame) {
        let mut state = self.state();
        state.movers[mover].say(frame);
    }
}

impl Mover {
    fn new() -> Mover {
        Mover {
            phase: Phase::Coming,
            loans: Vec::new(),
            out: VecDeque::new(),
            waker: None,
            lease: Instant::now(),
            files: HashMap::new(),
            streams: HashMap::new(),
            spread: Vec::new(),
            account: None,
            facts: Vec::new(),
            expelled: None,
        }
    }

    fn say(&mut self, frame: Frame) {
        self.out.push_back(frame);
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }

    fn expel(&mut self, why: &str) {
        self.expelled.get_or_insert_with(|| why.to_owned());
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }

    /// Whether it may still write to a file.
    fn may_write(&self, file: u64, now: Instant) -> bool {
        match self.phase {
            Phase::Gone(until) => self.files.contains_key(&file) && now < until,
            Phase::Here | Phase::Coming => self.files.contains_key(&file),
        }
    }
}

impl Movers {
    /// Whether a transfer is worth asking movers for.
    pub(crate) fn are_worth(progress: &Progress) -> bool {
        progress.bytes_offered >= WORTH
    }

    /// Asks the movers to take streams of a job.
    pub(crate) fn begin(peers: &Arc<Peers>, loans: Loans, side: Arc<dyn MoverSide>, waker: Waker) -> Movers {
        let chosen = peers.chosen();
        let state = State {
            movers: chosen.iter().map(|_| Mover::new()).collect(),
            told: Vec::new(),
            over: false,
            doubtful: HashSet::new(),
        };
        let shared = Arc::new(Shared {
            peers: Arc::clone(peers),
            loans,
            side: Arc::clone(&side),
            waker,
            state: Mutex::new(state),
            changed: Condvar::new(),
            chosen,
        });
        for at in 0..shared.chosen.len() {
            let attended = Arc::clone(&shared);
            let name = format!("mover-{at}");
            // Without a thread for it this one does not help.
            let _ = std::thread::Builder::new().name(name).spawn(move || mover_client::attend(&attended, at));
        }
        let movers = Movers(shared);
        side.meet(&movers);
        movers
    }

    /// Tells the client where streams may go besides, when that is news.
    pub(crate) fn tell(&self, link: &mut Link) -> crate::Result<()> {
        let mut state = self.0.state();
        let here = state.movers.iter().filter(|mover| mover.phase == Phase::Here);
        let mut loans: Vec<Loan> = here.flat_map(|mover| mover.loans.clone()).collect();
        loans.truncate(ADDRESSES_MAX);
        if loans == state.told {
            return Ok(());
        }
        state.told.clone_from(&loans);
        drop(state);
        link.send(&Frame::Movers(loans))
    }

    fn to_all(&self, frame: &Frame) {
        let mut state = self.0.state();
        state.movers.iter_mut().filter(|mover| mover.phase == Phase::Here).for_each(|mover| mover.say(frame.clone()));
    }

    /// What holds for the job from now on.
    pub(crate) fn steer(&self, to: &Steer) {
        self.to_all(&Frame::Steer(*to));
    }

    /// What the client says of itself.
    pub(crate) fn hear_of_client(&self, account: &Account) {
        self.to_all(&Frame::Account(Box::new(account.clone())));
    }

    /// How many streams the paths to movers should have.
    pub(crate) fn spread(&self) -> Vec<(u32, u32)> {
        self.0.state().movers.iter().flat_map(|mover| mover.spread.clone()).collect()
    }

    /// Their streams, and what these say of themselves.
    pub(crate) fn accounts(&self) -> (usize, Vec<Account>) {
        let state = self.0.state();
        let streams = state.movers.iter().map(|mover| mover.streams.len()).sum();
        (streams, state.movers.iter().filter_map(|mover| mover.account.clone()).collect())
    }

    /// Makes sure that no mover writes to a file any more. Waits for that: with those that have it open at most for as long as
    /// they may write unasked. Says whether all have closed it: else what they wrote is to be looked at.
    pub(crate) fn fence(&self, file: u64) -> bool {
        let mut state = self.0.state();
        let since = Instant::now();
        loop {
            let now = Instant::now();
            for mover in &mut state.movers {
                let tell = mover.phase == Phase::Here && mover.files.get(&file) == Some(&Hold::Open);
                if tell {
                    mover.files.insert(file, Hold::Closing);
                    mover.say(Frame::Word(Word::Close(file)));
                }
            }
            let holding = state.movers.iter_mut().filter(|mover| mover.may_write(file, now));
            let mut waits = false;
            for mover in holding {
                waits = true;
                if now.duration_since(since) > CLOSING {
                    mover.expel("it does not close a file that is complete; is its storage stuck?");
                }
            }
            if !waits {
                for mover in &mut state.movers {
                    mover.files.remove(&file);
                }
                return !state.doubtful.remove(&file);
            }
            self.0.changed.wait_for(&mut state, Duration::from_millis(100));
        }
    }

    /// The job is over: lets the movers go, and takes in what they say of their streams.
    pub(crate) fn end(&self, writes: bool) -> Vec<v1::Stream> {
        let mut state = self.0.state();
        state.over = true;
        for mover in &mut state.movers {
            mover.say(Frame::Word(Word::Over));
        }
        self.0.changed.notify_all();
        let deadline = Instant::now() + if writes { LEASE + MARGIN } else { PARTING };
        while state.movers.iter().any(|mover| mover.phase == Phase::Here) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.0.changed.wait_for(&mut state, left);
        }
        state.movers.iter_mut().flat_map(|mover| std::mem::take(&mut mover.facts)).collect()
    }
}

/// An answer to a stream of a mover.
fn answer(stream: u32, answer: Answer) -> Frame {
    Frame::Word(Word::Answer(stream, answer))
}
