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
use super::{
    GONE_AFTER, LEASE, LEASE_REQUEST_EVERY, MARGIN, Mover, MoverEvent, MoverPhase, RETRY_AFTER, Shared, Stream,
};
use crate::connect::{Connect, LoggedIn};
use crate::error::{Error, Result};
use crate::identity::{self, Trust};
use crate::link::Link;
use crate::timeouts::Timeouts;

/// Connects to a mover for this job, and again after each failure, until the job is over or a failure is permanent.
pub(super) fn run(shared: &Arc<Shared>, at: usize) {
    let name = &shared.chosen[at];
    loop {
        let result = run_once(shared, at);
        let over = note_gone(shared, at);
        let Err(error) = result else { break };
        if over {
            break;
        }
        let is_retried = may_pass(&error);
        (shared.configured.observer)(name, MoverEvent::Left(&model::fault::with_causes(&error), is_retried));
        if !is_retried || wait(shared) {
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

/// Waits until the mover is tried again. Returns whether the job is over.
fn wait(shared: &Shared) -> bool {
    let mut state = shared.state();
    shared.changed.wait_while_for(&mut state, |state| !state.over, RETRY_AFTER);
    state.over
}

/// Notes that the mover is gone, or was never reached: its streams are lost. Returns whether the job is over.
pub(super) fn note_gone(shared: &Shared, at: usize) -> bool {
    let mut state = shared.state();
    let over = state.over;
    let mover = &mut state.movers[at];
    for (_, stream) in mover.streams.drain() {
        stream.flags.lost.store(true, Ordering::Release);
    }
    let was_here = mover.phase == MoverPhase::Here;
    let doubtful: Vec<u64> = if was_here { mover.files.keys().copied().collect() } else { Vec::new() };
    if was_here {
        mover.phase = MoverPhase::Gone(mover.lease_end);
    }
    mover.waker = None;
    mover.account = None;
    mover.spread.clear();
    mover.out.clear();
    state.doubtful.extend(doubtful);
    drop(state);
    shared.changed.notify_all();
    shared.waker.wake();
    over
}

/// Runs one connection to the mover. Returns without an error once the job is over.
fn run_once(shared: &Arc<Shared>, at: usize) -> Result<()> {
    let mut keys = &shared.configured.keys[..];
    loop {
        let mut login = connect(shared, at, keys)?;
        let further = further_keys(keys, login.fingerprint);
        match delegate(shared, at, &mut login.link) {
            // A key is for one export: another key may be for this one.
            Err(Error::Refused { .. }) if !further.is_empty() => keys = further,
            Err(error) => return Err(error),
            Ok(()) => {
                let result = serve(shared, at, &mut login.link);
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
fn further_keys(keys: &[AccessKey], node: Fingerprint) -> &[AccessKey] {
    let mut of_node = (0..keys.len()).filter(|at| keys[*at].node == node).skip(1);
    of_node.next().map_or(&[], |second| &keys[second..])
}

fn connect(shared: &Shared, at: usize, keys: &[AccessKey]) -> Result<LoggedIn> {
    let pace = Pace { ping_after: LEASE_REQUEST_EVERY, gone_after: GONE_AFTER };
    let timeouts = Timeouts { pace, connect: GONE_AFTER, ..shared.configured.timeouts };
    let trust = Trust::Fingerprints(keys.iter().map(|key| key.node).collect());
    let connect = Connect { timeouts, ..Connect::new(trust, keys)? };
    connect.dial(&shared.chosen[at]).map_err(|error| match error {
        Error::Identity { .. } => Error::NoKeyOfMover,
        other => other,
    })
}

/// Delegates a session to the mover, and waits until streams may join it.
fn delegate(shared: &Shared, at: usize, link: &mut Link) -> Result<()> {
    let id =
        identity::random().map_err(|e| Error::Host { doing: "get random numbers", source: std::io::Error::other(e) });
    let delegated = shared.delegation.delegate(id?);
    let session = delegated.session;
    link.send(&Frame::Lend(Box::new(delegated)))?;
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
    mover.addresses = addresses.into_iter().map(|at| DelegatedAddress { at, session }).collect();
    mover.phase = MoverPhase::Here;
    mover.waker = Some(link.waker());
    mover.files.clear();
    mover.lease_end = Instant::now();
    if state.over {
        state.movers[at].send(Frame::Word(MoverMessage::Over));
    }
    drop(state);
    (shared.configured.observer)(&shared.chosen[at], MoverEvent::Joined);
    shared.waker.wake();
    Ok(())
}

fn unexpected(link: &Link) -> Error {
    Error::Protocol { peer: link.peer().to_owned(), source: WireError::Unexpected("a mover does not send that now") }
}

fn silent(link: &Link) -> Error {
    Error::Silent { peer: link.peer().to_owned(), seconds: link.timeouts().handshake.as_secs() }
}

/// Passes queries and answers until the job is over and the mover has sent the facts of its streams.
fn serve(shared: &Arc<Shared>, at: usize, link: &mut Link) -> Result<()> {
    loop {
        let (out, over, expelled) = {
            let mut state = shared.state();
            let mover = &mut state.movers[at];
            let out = std::mem::take(&mut mover.out);
            let expelled = mover.expelled.clone();
            (out, state.over, expelled)
        };
        if let Some(why) = expelled.filter(|_| !over) {
            return Err(Error::Expelled { why });
        }
        out.iter().try_for_each(|frame| link.send(frame))?;
        link.exchange(LEASE_REQUEST_EVERY)?;
        while let Some(frame) = link.next_frame()? {
            if handle(shared, at, link, frame)? {
                return Ok(());
            }
        }
    }
}

/// Handles one message of the mover. Returns whether it was the last one.
fn handle(shared: &Arc<Shared>, at: usize, link: &mut Link, frame: Frame) -> Result<bool> {
    let mut state = shared.state();
    let mover = &mut state.movers[at];
    match frame {
        Frame::Word(MoverMessage::Ask(stream, query)) => {
            let is_new = mover.streams.get(&stream).is_none_or(|known| known.queries.send(query.clone()).is_err());
            if is_new {
                begin_stream(shared, at, mover, stream, query);
            }
        }
        Frame::Word(MoverMessage::Beat(requested)) => {
            mover.lease_end = Instant::now() + LEASE + MARGIN;
            mover.send(Frame::Word(MoverMessage::Beat(requested)));
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
            mover.lease_end = Instant::now();
            return Ok(true);
        }
        Frame::Busy(_) | Frame::Steer(_) => {}
        _ => return Err(unexpected(link)),
    }
    Ok(false)
}

/// Starts the thread that answers a stream, when its first query arrives.
fn begin_stream(shared: &Arc<Shared>, at: usize, mover: &mut Mover, id: u32, query: StreamQuery) {
    let (sender, queries) = channel();
    let flags = Arc::new(Flags::default());
    // Cannot fail: the receiver is `queries`.
    let _ = sender.send(query);
    let stream = MoverStream { id, mover: at, queries, flags: Arc::clone(&flags), shared: Arc::clone(shared) };
    let side = Arc::clone(&shared.side);
    let run = move || side.answer(&stream);
    match std::thread::Builder::new().name(format!("stream-{id}")).spawn(run) {
        Ok(_) => drop(mover.streams.insert(id, Stream { queries: sender, flags })),
        Err(error) => mover.expel(&Refusal::new(Fault::Local, format!("no thread for its streams: {error}")).reason),
    }
}
