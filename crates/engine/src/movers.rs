//! The coordinator's side of movers: further node processes, on this host or on others, that take streams of its jobs.
//!
//! The node that the client connected to is the coordinator. It alone runs the job's machine, makes unfinished files and commits
//! them; a mover reads or writes the same files (a shared file system) and asks the coordinator for every step ([`wire::mover`]). Ranges
//! that a dead mover had not finished are sent again over other streams, as after any lost stream.
//!
//! **A file is committed only when no mover can write to it any more.** A mover writes under a lease: it asks for the lease twice
//! a second, and the lease counts from the request. The coordinator orders the movers that have the file open to close it, and waits for
//! their answers; for a mover that is gone, it waits until its lease is over.
//!
//! What this module does not know: how a stream's queries are answered ([`MoverSide::answer`]), and what a mover does (the module
//! `delegated`). The arithmetic: docs/design/movers.md.

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
use model::spec::LiveSettings;
use model::{HostPort, Progress, v1};
use parking_lot::{Condvar, Mutex, MutexGuard};
use sys::waker::Waker;
use wire::Frame;
use wire::frame::{Open, Suite};
use wire::join::SessionId;
use wire::limits::ADDRESSES_MAX;
use wire::mover::{Answer, DelegatedAddress, DelegatedSession, MoverMessage, StreamQuery};

pub use mover_stream::MoverStream;

use crate::link::Link;
use crate::seal::Secret;
use crate::timeouts::Timeouts;

/// How long a mover may write after it asked for the lease.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// How often a mover asks for the lease.
pub(crate) const LEASE_REQUEST_EVERY: Duration = Duration::from_millis(500);
/// A mover that is silent for this time is gone.
const GONE_AFTER: Duration = Duration::from_secs(5);
/// The tolerance for late clocks and threads.
const MARGIN: Duration = Duration::from_secs(1);
/// A mover that has not closed a file after this time is expelled from the job.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);
/// The pause before a mover that could not be reached, or was lost, is tried again within a job.
const RETRY_AFTER: Duration = Duration::from_secs(15);
/// Jobs of fewer bytes use no movers: the handshakes would cost more than they save.
const JOB_BYTES_MIN: u64 = 64 << 20;
/// How long to wait for the movers' facts where they have no files to close.
const FACTS_PATIENCE: Duration = Duration::from_secs(1);

/// An event of a mover, for the operator.
#[derive(Clone, Copy, Debug)]
pub enum MoverEvent<'a> {
    /// The mover takes streams of a job.
    Joined,
    /// The mover has left a running job, or could not be reached: the reason, and whether it is tried again.
    Left(&'a str, bool),
}

/// Receives the events of movers, with the mover's address.
pub type MoverObserver = dyn Fn(&HostPort, MoverEvent<'_>) + Send + Sync;

/// The movers that a node is configured with, and how to connect to them.
pub struct ConfiguredMovers {
    addresses: Vec<HostPort>,
    keys: Arc<[AccessKey]>,
    timeouts: Timeouts,
    observer: Box<MoverObserver>,
    /// The index of the first mover for the next job: jobs take movers in turn.
    next: AtomicUsize,
}

impl std::fmt::Debug for ConfiguredMovers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfiguredMovers").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl ConfiguredMovers {
    /// Movers at these addresses. `keys` are keys that the movers issued for the exports that they share with this node.
    pub fn new(
        addresses: Vec<HostPort>,
        keys: Arc<[AccessKey]>,
        timeouts: Timeouts,
        observer: Box<MoverObserver>,
    ) -> ConfiguredMovers {
        ConfiguredMovers { addresses, keys, timeouts, observer, next: AtomicUsize::new(0) }
    }

    /// Chooses the movers of one job.
    fn chosen(&self) -> Vec<HostPort> {
        // A client dials no more addresses than this.
        let count = self.addresses.len().min(ADDRESSES_MAX);
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        (0..count).map(|offset| self.addresses[(first + offset) % self.addresses.len()].clone()).collect()
    }
}

/// The terms from which the delegated sessions of a job are derived.
pub(crate) struct DelegationTerms {
    /// The secret of the client's session.
    pub secret: Secret,
    /// How the session's records are sealed; none where they go in clear.
    pub suite: Option<Suite>,
    /// The job.
    pub order: Open,
}

impl DelegationTerms {
    /// Derives the delegated session of this id.
    fn delegate(&self, session: SessionId) -> DelegatedSession {
        let secret = *self.secret.delegated(&session).expose();
        DelegatedSession { session, secret, suite: self.suite, order: self.order.clone() }
    }
}

/// The phase of a mover in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MoverPhase {
    /// The coordinator is connecting to it.
    Coming,
    /// It takes streams.
    Here,
    /// It is gone. It may write to files that it had open until its lease is over, at this time.
    Gone(Instant),
}

/// The state of a file that a mover has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MoverFileState {
    Open,
    /// The mover was ordered to close the file.
    Closing,
}

/// A mover of one job.
struct Mover {
    phase: MoverPhase,
    /// The addresses at which it takes streams, each with its delegated session.
    addresses: Vec<DelegatedAddress>,
    /// Messages that wait to be sent to it.
    out: VecDeque<Frame>,
    /// Wakes the thread that sends them.
    waker: Option<Waker>,
    /// The time until which it may write, by the coordinator's last answer.
    lease_end: Instant,
    files: HashMap<u64, MoverFileState>,
    streams: HashMap<u32, Stream>,
    spread: Vec<(u32, u32)>,
    account: Option<Account>,
    facts: Vec<v1::Stream>,
    /// Why it was expelled from the job, if it was.
    expelled: Option<String>,
}

/// A stream of a mover, as its mover client knows it.
struct Stream {
    queries: Sender<StreamQuery>,
    flags: Arc<mover_stream::Flags>,
}

struct State {
    movers: Vec<Mover>,
    /// The addresses that were last sent to the client.
    sent_addresses: Vec<DelegatedAddress>,
    over: bool,
    /// Files that a mover had open when it was lost: blocks that it reported as written may have been lost with its host.
    doubtful: HashSet<u64>,
}

struct Shared {
    configured: Arc<ConfiguredMovers>,
    delegation: DelegationTerms,
    side: Arc<dyn MoverSide>,
    /// Wakes the session's thread.
    waker: Waker,
    state: Mutex<State>,
    changed: Condvar,
    chosen: Vec<HostPort>,
}

/// A side of a transfer whose streams movers may carry.
pub trait MoverSide: Send + Sync {
    /// Called when movers are about to carry streams of this side.
    fn attach_movers(&self, _movers: &Movers) {}
    /// Answers the queries of a mover's stream until the stream is over.
    fn answer(&self, stream: &MoverStream);
}

/// The movers of one job. Clones share their state.
#[derive(Clone)]
pub struct Movers(Arc<Shared>);

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn send(&self, mover: usize, frame: Frame) {
        let mut state = self.state();
        state.movers[mover].send(frame);
    }
}

impl Mover {
    fn new() -> Mover {
        Mover {
            phase: MoverPhase::Coming,
            addresses: Vec::new(),
            out: VecDeque::new(),
            waker: None,
            lease_end: Instant::now(),
            files: HashMap::new(),
            streams: HashMap::new(),
            spread: Vec::new(),
            account: None,
            facts: Vec::new(),
            expelled: None,
        }
    }

    fn send(&mut self, frame: Frame) {
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
            MoverPhase::Gone(until) => self.files.contains_key(&file) && now < until,
            MoverPhase::Here | MoverPhase::Coming => self.files.contains_key(&file),
        }
    }
}

impl Movers {
    /// Whether a transfer is large enough for movers.
    pub(crate) fn are_worthwhile(progress: &Progress) -> bool {
        progress.bytes_offered >= JOB_BYTES_MIN
    }

    /// Asks the movers to take streams of a job.
    pub(crate) fn begin(
        configured: &Arc<ConfiguredMovers>,
        delegation: DelegationTerms,
        side: Arc<dyn MoverSide>,
        waker: Waker,
    ) -> Movers {
        let chosen = configured.chosen();
        let state = State {
            movers: chosen.iter().map(|_| Mover::new()).collect(),
            sent_addresses: Vec::new(),
            over: false,
            doubtful: HashSet::new(),
        };
        let shared = Arc::new(Shared {
            configured: Arc::clone(configured),
            delegation,
            side: Arc::clone(&side),
            waker,
            state: Mutex::new(state),
            changed: Condvar::new(),
            chosen,
        });
        for at in 0..shared.chosen.len() {
            let shared_by_client = Arc::clone(&shared);
            let name = format!("mover-{at}");
            // Without a thread this mover takes no streams.
            let _ = std::thread::Builder::new().name(name).spawn(move || mover_client::run(&shared_by_client, at));
        }
        let movers = Movers(shared);
        side.attach_movers(&movers);
        movers
    }

    /// Sends the client the movers' addresses, when they have changed.
    ///
    /// # Errors
    /// The connection to the client is broken.
    pub(crate) fn send_addresses(&self, link: &mut Link) -> crate::Result<()> {
        let mut state = self.0.state();
        let here = state.movers.iter().filter(|mover| mover.phase == MoverPhase::Here);
        let mut addresses: Vec<DelegatedAddress> = here.flat_map(|mover| mover.addresses.clone()).collect();
        addresses.truncate(ADDRESSES_MAX);
        if addresses == state.sent_addresses {
            return Ok(());
        }
        state.sent_addresses.clone_from(&addresses);
        drop(state);
        link.send(&Frame::Movers(addresses))
    }

    fn send_to_all(&self, frame: &Frame) {
        let mut state = self.0.state();
        state
            .movers
            .iter_mut()
            .filter(|mover| mover.phase == MoverPhase::Here)
            .for_each(|mover| mover.send(frame.clone()));
    }

    /// Sends the job's new settings to all movers.
    pub(crate) fn steer(&self, to: &LiveSettings) {
        self.send_to_all(&Frame::Steer(*to));
    }

    /// Passes the client's account to all movers.
    pub(crate) fn pass_client_account(&self, account: &Account) {
        self.send_to_all(&Frame::Account(Box::new(account.clone())));
    }

    /// How many streams each path to a mover should have.
    pub(crate) fn spread(&self) -> Vec<(u32, u32)> {
        self.0.state().movers.iter().flat_map(|mover| mover.spread.clone()).collect()
    }

    /// The number of the movers' streams, and the movers' accounts.
    pub(crate) fn accounts(&self) -> (usize, Vec<Account>) {
        let state = self.0.state();
        let streams = state.movers.iter().map(|mover| mover.streams.len()).sum();
        (streams, state.movers.iter().filter_map(|mover| mover.account.clone()).collect())
    }

    /// Makes sure that no mover writes to a file any more: orders the movers that have the file open to close it, and waits until each has
    /// closed it or its lease is over. Returns whether all have closed it; else the blocks that they wrote must be verified.
    pub(crate) fn fence(&self, file: u64) -> bool {
        let mut state = self.0.state();
        let since = Instant::now();
        loop {
            let now = Instant::now();
            for mover in &mut state.movers {
                let must_close =
                    mover.phase == MoverPhase::Here && mover.files.get(&file) == Some(&MoverFileState::Open);
                if must_close {
                    mover.files.insert(file, MoverFileState::Closing);
                    mover.send(Frame::Word(MoverMessage::Close(file)));
                }
            }
            let writers = state.movers.iter_mut().filter(|mover| mover.may_write(file, now));
            let mut waits = false;
            for mover in writers {
                waits = true;
                if now.duration_since(since) > CLOSE_PATIENCE {
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

    /// Ends the movers' part of the job. Returns the facts of their streams.
    pub(crate) fn end(&self, writes: bool) -> Vec<v1::Stream> {
        let mut state = self.0.state();
        state.over = true;
        for mover in &mut state.movers {
            mover.send(Frame::Word(MoverMessage::Over));
        }
        self.0.changed.notify_all();
        let deadline = Instant::now() + if writes { LEASE + MARGIN } else { FACTS_PATIENCE };
        while state.movers.iter().any(|mover| mover.phase == MoverPhase::Here) {
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
    Frame::Word(MoverMessage::Answer(stream, answer))
}
