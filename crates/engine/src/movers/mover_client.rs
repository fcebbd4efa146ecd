//! The coordinator's client of one mover: a thread that delegates a session to it, and passes queries and answers until it leaves.

use model::Refusal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use auth::{AccessKey, Fingerprint};
use model::fault::Fault;
use wire::liveness::Pace;
use wire::mover::{DelegatedAddress, MoverMessage, StreamQuery};
use wire::{Frame, WireError};

use super::mover_stream::{Flags, MoverStream};
use super::{AGAIN, BEAT, LEASE, MARGIN, Mover, MoverEvent, MoverPhase, QUIET, Shared, Stream};
use crate::connect::{Connect, LoggedIn};
use crate::error::{Error, Result};
use crate::identity::{self, Trust};
use crate::link::Link;
use crate::timeouts::Timeouts;

/// Connects to a mover for this job, and again after each failure, until the job is over or the mover refuses for good.
pub(super) fn attend(shared: &Arc<Shared>, at: usize) {
    let name = &shared.chosen[at];
    loop {
        let result = once(shared, at);
        let over = part(shared, at);
        let Err(error) = result else { break };
        if over {
            break;
        }
        let passes = may_pass(&error);
        (shared.peers.hear)(name, MoverEvent::Left(&model::fault::with_causes(&error), passes));
        if !passes || wait(shared) {
            break;
        }
        shared.state().movers[at].expelled = None;
    }
}

/// Whether an error may pass by itself: the path may recover and the mover restart, but its identity and settings stay.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::Refused { refusal, .. } => matches!(refusal.fault, Fault::Path | Fault::Peer | Fault::Interrupted),
        Error::Resolve { .. } | Error::Connect { .. } | Error::Silent { .. } | Error::Broken { .. } => true,
        Error::Stalled { .. } | Error::NotANode { .. } | Error::Certificate { .. } | Error::Seal { .. } => true,
        Error::Store(_) | Error::Order(_) | Error::Interrupted | Error::Host { .. } => true,
        Error::NoKeyOfMover | Error::Expelled { .. } | Error::MoverCannotRead { .. } => false,
        Error::Identity { .. } | Error::Protocol { .. } | Error::Version { .. } | Error::Bookkeeping(_) => false,
        Error::TargetWithinSource { .. } | Error::SourceWithinTarget { .. } | Error::Full { .. } => false,
        Error::WriteUnderWay | Error::ThisEnd(_) | Error::UnseenFile { .. } => false,
    }
}

/// Waits until the mover is worth another try; says whether the job is over instead.
fn wait(shared: &Shared) -> bool {
    let mut state = shared.state();
    shared.changed.wait_while_for(&mut state, |state| !state.over, AGAIN);
    state.over
}

/// It is gone, or was never there: its streams are lost. Says whether the job is over.
pub(super) fn part(shared: &Shared, at: usize) -> bool {
    let mut state = shared.state();
    let over = state.over;
    let mover = &mut state.movers[at];
    for (_, stream) in mover.streams.drain() {
        stream.flags.lost.store(true, Ordering::Release);
    }
    let was_here = mover.phase == MoverPhase::Here;
    let doubtful: Vec<u64> = if was_here { mover.files.keys().copied().collect() } else { Vec::new() };
    if was_here {
        mover.phase = MoverPhase::Gone(mover.lease);
    }
    (mover.waker, mover.account) = (None, None);
    mover.spread.clear();
    mover.out.clear();
    state.doubtful.extend(doubtful);
    drop(state);
    shared.changed.notify_all();
    shared.waker.wake();
    over
}

/// Runs one connection to the mover. Returns without an error once the job is over.
fn once(shared: &Arc<Shared>, at: usize) -> Result<()> {
    let mut keys = &shared.peers.keys[..];
    loop {
        let mut login = connect(shared, at, keys)?;
        let others = others(keys, login.fingerprint);
        match lend(shared, at, &mut login.link) {
            // A key is for one export: another key may be for this one.
            Err(Error::Refused { .. }) if !others.is_empty() => keys = others,
            Err(error) => return Err(error),
            Ok(()) => {
                let result = converse(shared, at, &mut login.link);
                match &result {
                    Ok(()) => login.link.close(),
                    Err(error) => login.link.abort_for(error),
                }
                return result;
            }
        }
    }
}

/// The keys from the second one for this node on; empty where there is none.
fn others(keys: &[AccessKey], node: Fingerprint) -> &[AccessKey] {
    let mut ours = (0..keys.len()).filter(|at| keys[*at].node == node).skip(1);
    ours.next().map_or(&[], |next| &keys[next..])
}

fn connect(shared: &Shared, at: usize, keys: &[AccessKey]) -> Result<LoggedIn> {
    let pace = Pace { ping_after: BEAT, gone_after: QUIET };
    let timeouts = Timeouts { pace, connect: QUIET, ..shared.peers.timeouts };
    let trust = Trust::Fingerprints(keys.iter().map(|key| key.node).collect());
    let connect = Connect { timeouts, ..Connect::new(trust, keys)? };
    connect.dial(&shared.chosen[at]).map_err(|error| match error {
        Error::Identity { .. } => Error::NoKeyOfMover,
        other => other,
    })
}

/// Delegates a session to the mover, and waits until streams may join it.
fn lend(shared: &Shared, at: usize, link: &mut Link) -> Result<()> {
    let name =
        identity::random().map_err(|e| Error::Host { doing: "get random numbers", source: std::io::Error::other(e) });
    let lend = shared.loans.lend(name?);
    let session = lend.session;
    link.send(&Frame::Lend(Box::new(lend)))?;
    let deadline = Instant::now() + link.timeouts().handshake;
    loop {
        match link.next_frame()? {
            Some(Frame::Word(MoverMessage::Ready)) => break,
            Some(_) => return Err(unexpected(link)),
            None if Instant::now() > deadline => return Err(silent(link)),
            None => link.exchange(Duration::from_millis(100))?,
        }
    }
    let mut addresses = link.addresses().to_vec();
    if addresses.is_empty() {
        addresses.extend(link.socket().peer_addr().ok());
    }
    let mut state = shared.state();
    let mover = &mut state.movers[at];
    mover.loans = addresses.into_iter().map(|at| DelegatedAddress { at, session }).collect();
    (mover.phase, mover.waker) = (MoverPhase::Here, Some(link.waker()));
    mover.files.clear();
    mover.lease = Instant::now();
    if state.over {
        state.movers[at].say(Frame::Word(MoverMessage::Over));
    }
    drop(state);
    (shared.peers.hear)(&shared.chosen[at], MoverEvent::Joined);
    shared.waker.wake();
    Ok(())
}

fn unexpected(link: &Link) -> Error {
    Error::Protocol { peer: link.peer().to_owned(), source: WireError::Unexpected("no mover says that now") }
}

fn silent(link: &Link) -> Error {
    Error::Silent { peer: link.peer().to_owned(), seconds: link.timeouts().handshake.as_secs() }
}

/// Passes queries and answers until the job is over and the mover has sent the facts of its streams.
fn converse(shared: &Arc<Shared>, at: usize, link: &mut Link) -> Result<()> {
    loop {
        let (out, over, expelled) = {
            let mut state = shared.state();
            let mover = &mut state.movers[at];
            let (out, expelled) = (std::mem::take(&mut mover.out), mover.expelled.clone());
            (out, state.over, expelled)
        };
        if let Some(why) = expelled.filter(|_| !over) {
            return Err(Error::Expelled { why });
        }
        out.iter().try_for_each(|frame| link.send(frame))?;
        link.exchange(BEAT)?;
        while let Some(frame) = link.next_frame()? {
            if hear(shared, at, link, frame)? {
                return Ok(());
            }
        }
    }
}

/// Handles one message of the mover. Returns whether it was the last one.
fn hear(shared: &Arc<Shared>, at: usize, link: &mut Link, frame: Frame) -> Result<bool> {
    let mut state = shared.state();
    let mover = &mut state.movers[at];
    match frame {
        Frame::Word(MoverMessage::Ask(stream, ask)) => {
            let strange = mover.streams.get(&stream).is_none_or(|known| known.asks.send(ask.clone()).is_err());
            if strange {
                begin(shared, at, mover, stream, ask);
            }
        }
        Frame::Word(MoverMessage::Beat(asked)) => {
            mover.lease = Instant::now() + LEASE + MARGIN;
            mover.say(Frame::Word(MoverMessage::Beat(asked)));
        }
        Frame::Word(MoverMessage::Surplus(streams)) => {
            for (id, stream) in &mover.streams {
                stream.flags.surplus.store(streams.contains(id), Ordering::Release);
            }
        }
        Frame::Word(MoverMessage::Gone(stream)) => {
            if let Some(stream) = mover.streams.remove(&stream) {
                stream.flags.lost.store(true, Ordering::Release);
            }
        }
        Frame::Word(MoverMessage::Closed(file)) => {
            mover.files.remove(&file);
            shared.changed.notify_all();
        }
        Frame::Spread(over) => mover.spread = over,
        Frame::Account(of) => mover.account = Some(*of),
        Frame::Facts(facts) => {
            // The mover has closed all files.
            mover.facts = facts;
            mover.files.clear();
            mover.lease = Instant::now();
            return Ok(true);
        }
        Frame::Busy(_) | Frame::Steer(_) => {}
        _ => return Err(unexpected(link)),
    }
    Ok(false)
}

/// Starts the thread that answers a stream, when its first query arrives.
fn begin(shared: &Arc<Shared>, at: usize, mover: &mut Mover, id: u32, ask: StreamQuery) {
    let (asks, heard) = channel();
    let flags = Arc::new(Flags::default());
    // Cannot fail: the receiver is `heard`.
    let _ = asks.send(ask);
    let stream = MoverStream { id, mover: at, asks: heard, flags: Arc::clone(&flags), shared: Arc::clone(shared) };
    let side = Arc::clone(&shared.side);
    let run = move || side.answer(&stream);
    match std::thread::Builder::new().name(format!("stream-{id}")).spawn(run) {
        Ok(_) => drop(mover.streams.insert(id, Stream { asks, flags })),
        Err(error) => mover.expel(&Refusal::new(Fault::Local, format!("no thread for its streams: {error}")).reason),
    }
}
