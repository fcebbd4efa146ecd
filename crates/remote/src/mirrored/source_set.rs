//! The source set: runs the chooser with a thread for each request, closes the connections of requests that are no longer needed,
//! and is driven by the readers that wait for bytes.
//!
//! Does not know: what is read ahead, or whether the bytes are right.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::RelPath;
use model::fault::{Blame, Fault};
use parking_lot::{Condvar, Mutex, MutexGuard};
use store::Error;
use store::error::shown;

use super::chooser::{Chooser, PieceRequest};
use super::{Member, Share};
use crate::pieces::{FailureScope, Flight, MemberFailure, RangeSource};

/// The interval at which a waiting reader looks for late requests.
const TICK: Duration = Duration::from_millis(100);

/// Bytes that a reader waits for.
pub(super) struct Load {
    file: Arc<dyn SharedFile>,
    span: Range<u64>,
    filling: Mutex<LoadBuffer>,
    changed: Condvar,
}

struct LoadBuffer {
    bytes: Vec<u8>,
    missing: u64,
    /// The members that brought them, in the order of arrival.
    runs: Vec<MemberRun>,
}

/// A contiguous range of a file that one member brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemberRun {
    pub span: Range<u64>,
    pub by: usize,
}

struct State {
    chooser: Chooser,
    flights: HashMap<u64, Arc<Flight>>,
    loads: HashMap<u64, Arc<Load>>,
    next: u64,
    /// When bytes last came, or were wanted after none had been.
    heard: Instant,
    words: Vec<MemberStatus>,
    /// The user has been told that a file cannot be verified.
    unproven_said: bool,
    /// A file that failed may succeed now, since a member with other bytes has been left out.
    fares_better: bool,
}

/// What the report and the messages say of a member.
#[derive(Clone, Default)]
struct MemberStatus {
    /// Its last failure.
    last: Option<(Fault, String)>,
    /// The reason why it was left out, of one file at least.
    left_out: Option<String>,
    /// The user has been told of a failure.
    said: bool,
    /// It has other bytes than the first.
    is_liar: bool,
    /// Files in which only samples of its bytes were compared with the first's.
    unproven_files: u64,
}

impl MemberStatus {
    /// Notes a failure. Returns whether it is the first.
    fn note(&mut self, fault: Fault, why: &str) -> bool {
        self.last = Some((fault, why.to_owned()));
        !std::mem::replace(&mut self.said, true)
    }
}

/// The members of a set, and their requests in flight.
pub(super) struct SourceSet {
    pub members: Vec<Member>,
    state: Mutex<State>,
    began: Instant,
    patience: Duration,
    say: Box<dyn Fn(&str) + Send + Sync>,
}

/// A file of the set, shared by the threads that fetch it.
pub(super) trait SharedFile: Send + Sync {
    /// The number by which the set knows it.
    fn id(&self) -> u64;

    fn path(&self) -> &RelPath;

    fn size(&self) -> u64;

    /// The file at one member; opens it there the first time.
    fn at(self: Arc<Self>, sources: &Arc<SourceSet>, member: usize) -> Result<Arc<dyn RangeSource>, MemberFailure>;
}

impl Load {
    fn filling(&self) -> MutexGuard<'_, LoadBuffer> {
        self.filling.lock()
    }
}

impl SourceSet {
    pub fn new(members: Vec<Member>, patience: Duration, say: Box<dyn Fn(&str) + Send + Sync>) -> SourceSet {
        let state = State {
            chooser: Chooser::new(members.len()),
            flights: HashMap::new(),
            loads: HashMap::new(),
            next: 0,
            heard: Instant::now(),
            words: vec![MemberStatus::default(); members.len()],
            unproven_said: false,
            fares_better: false,
        };
        SourceSet { members, state: Mutex::new(state), began: Instant::now(), patience, say }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// A number that is unique in the set.
    pub fn number(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.next
    }

    /// Forgets a file that has been closed.
    pub fn close(&self, file: u64) {
        self.state().chooser.close(file);
    }

    /// Whether a member has failed and brought nothing since, or is left out.
    pub fn is_doubtful(&self, member: usize) -> bool {
        let state = self.state();
        state.chooser.is_gone(member) || state.chooser.is_doubtful(member)
    }

    /// The contribution of each member.
    pub fn shares(&self) -> Vec<Share> {
        let state = self.state();
        let share = |(at, member): (usize, &Member)| {
            let words = &state.words[at];
            let failing = state.chooser.is_doubtful(at).then(|| words.last.as_ref().map(|(_, why)| why.clone()));
            let left_out = words.left_out.clone().or(failing.flatten());
            let (source, bytes) = (member.name.clone(), state.chooser.counted(at));
            let carried = member.store().carried();
            Share { source, bytes, left_out, carried, unproven_files: words.unproven_files }
        };
        self.members.iter().enumerate().map(share).collect()
    }

    pub fn say(&self, words: &str) {
        (self.say)(words);
    }

    /// Fetches a range of a file. Returns its bytes, and the members that brought them, in the order of the file.
    ///
    /// # Errors
    /// No member is left for the file, or none has brought a byte for the time of patience.
    pub fn fetch(
        self: &Arc<SourceSet>,
        file: &Arc<dyn SharedFile>,
        span: Range<u64>,
    ) -> Result<(Vec<u8>, Vec<MemberRun>), Error> {
        let len = span.end - span.start;
        let filling = LoadBuffer { bytes: vec![0; len as usize], missing: len, runs: Vec::new() };
        let (file, filling) = (Arc::clone(file), Mutex::new(filling));
        let load = Arc::new(Load { file, span: span.clone(), filling, changed: Condvar::new() });
        let id = self.number();
        {
            let mut state = self.state();
            if state.loads.is_empty() {
                state.heard = Instant::now();
            }
            state.chooser.want(id, load.file.id(), span);
            state.loads.insert(id, Arc::clone(&load));
        }
        let done = self.wait(&load);
        let given_up = {
            let mut state = self.state();
            state.loads.remove(&id);
            let now = self.now();
            let asks = state.chooser.forget(id, now);
            asks.iter().filter_map(|ask| state.flights.remove(ask)).collect::<Vec<_>>()
        };
        given_up.iter().for_each(|flight| flight.give_up());
        done?;
        let mut filling = load.filling();
        Ok((std::mem::take(&mut filling.bytes), in_order(std::mem::take(&mut filling.runs))))
    }

    fn wait(self: &Arc<SourceSet>, load: &Load) -> Result<(), Error> {
        loop {
            self.pump();
            let mut filling = load.filling();
            load.changed.wait_while_for(&mut filling, |filling| filling.missing > 0, TICK);
            if filling.missing == 0 {
                return Ok(());
            }
            drop(filling);
            let state = self.state();
            let hopeless = state.chooser.is_hopeless(load.file.id());
            if hopeless || state.heard.elapsed() > self.patience {
                return Err(none_left(&state, load.file.path(), hopeless));
            }
        }
    }

    /// Makes all requests that the chooser wants now.
    fn pump(self: &Arc<SourceSet>) {
        loop {
            let mut state = self.state();
            let now = self.now();
            let Some(order) = state.chooser.next(now) else { return };
            let Some(load) = state.loads.get(&order.load).map(Arc::clone) else { return };
            let flight = Arc::new(Flight::default());
            state.flights.insert(order.ask, Arc::clone(&flight));
            drop(state);
            let (sources, ask) = (Arc::clone(self), order.ask);
            let begun =
                std::thread::Builder::new().name("mirror".into()).spawn(move || sources.run(&order, &load, &flight));
            if begun.is_err() {
                // Not the member's fault, and no better at once.
                let mut state = self.state();
                state.flights.remove(&ask);
                state.chooser.failed(ask, FailureScope::Passing(None), now);
                return;
            }
        }
    }

    fn run(self: &Arc<SourceSet>, order: &PieceRequest, load: &Load, flight: &Flight) {
        let mut at = order.span.start;
        let brought = Arc::clone(&load.file).at(self, order.member).and_then(|pieces| {
            pieces.bring(order.span.clone(), flight, &mut |bytes| self.take(order, load, &mut at, bytes))
        });
        let trouble = match brought {
            Err(trouble) => Some(trouble),
            Ok(()) if at < order.span.end => Some(MemberFailure::from(Error::Server {
                doing: "read",
                path: shown(load.file.path()),
                fault: Fault::Peer,
                general: false,
                why: "it ended before all bytes came".into(),
            })),
            Ok(()) => None,
        };
        self.state().flights.remove(&order.ask);
        if let Some(trouble) = trouble {
            self.failed(order.ask, order.member, load.file.path(), &trouble);
        }
        self.pump();
    }

    /// Enters bytes that came. Returns whether more of the request is wanted.
    fn take(&self, order: &PieceRequest, load: &Load, at: &mut u64, bytes: &[u8]) -> bool {
        let (new, given_up) = {
            let mut state = self.state();
            let now = self.now();
            let Some(brought) = state.chooser.brought(order.ask, bytes.len() as u64, now) else { return false };
            state.heard = Instant::now();
            let given_up = brought.given_up.iter().filter_map(|ask| state.flights.remove(ask)).collect::<Vec<_>>();
            (brought.new, given_up)
        };
        given_up.iter().for_each(|flight| flight.give_up());
        if !new.is_empty() {
            let from = (new.start - *at) as usize..(new.end - *at) as usize;
            let into = (new.start - load.span.start) as usize..(new.end - load.span.start) as usize;
            let mut filling = load.filling();
            // Empty where nobody waits any more.
            if let Some(into) = filling.bytes.get_mut(into) {
                into.copy_from_slice(&bytes[from]);
            }
            filling.missing = filling.missing.saturating_sub(new.end - new.start);
            filling.runs.push(MemberRun { span: new.clone(), by: order.member });
            if filling.missing == 0 {
                load.changed.notify_all();
            }
        }
        *at += bytes.len() as u64;
        true
    }

    /// Enters the failure of a request, and reports the member's first one.
    fn failed(&self, ask: u64, member: usize, path: &RelPath, trouble: &MemberFailure) {
        let MemberFailure { how, error } = trouble;
        let why = model::fault::with_causes(error);
        let words = match how {
            FailureScope::Passing(_) => "is left out for a while".to_owned(),
            FailureScope::File => format!("is left out of {}", shown(path)),
            FailureScope::Ever => "is left out".to_owned(),
        };
        let say = {
            let mut state = self.state();
            let now = self.now();
            state.chooser.failed(ask, *how, now) && {
                let told = &mut state.words[member];
                if !matches!(how, FailureScope::Passing(_)) && told.left_out.is_none() {
                    told.left_out = Some(why.clone());
                }
                told.note(error.fault(), &why)
            }
        };
        if say {
            self.say(&format!("{} {words}: {why}", self.members[member].name));
        }
    }

    /// Notes that a member could not be reached for something else than bytes.
    pub fn fell(&self, member: usize, fault: Fault, why: &str) {
        let say = {
            let mut state = self.state();
            let now = self.now();
            state.chooser.stumbled(member, now);
            state.words[member].note(fault, why)
        };
        if say {
            self.say(&format!("{} is left out for a while: {why}", self.members[member].name));
        }
    }

    /// Notes that no source reports a digest of a file that these members brought (`by`, a bit for each). `sampled`: samples of all were
    /// compared with the first's bytes.
    pub fn unproven(&self, path: &RelPath, by: u32, sampled: bool) {
        let say = {
            let mut state = self.state();
            for (at, words) in state.words.iter_mut().enumerate().skip(1) {
                words.unproven_files += u64::from(by & (1 << at) != 0);
            }
            !std::mem::replace(&mut state.unproven_said, true)
        };
        if say {
            let held = if sampled { "samples of all were held against the first's; " } else { "" };
            self.say(&format!(
                "no source tells a digest of {}: {held}that all have the same bytes is not verified",
                shown(path)
            ));
        }
    }

    /// Leaves a member out for good: it has other bytes than the first.
    pub fn accuse(&self, member: usize, why: &str) {
        let is_new = {
            let mut state = self.state();
            state.chooser.leave_out(member);
            state.words[member].left_out = Some(why.to_owned());
            !std::mem::replace(&mut state.words[member].is_liar, true)
        };
        if is_new {
            self.say(&format!("{} is left out: {why}", self.members[member].name));
        }
    }

    /// The members that have other bytes than the first: a bit for each.
    pub fn liars(&self) -> u32 {
        let state = self.state();
        let liars = state.words.iter().enumerate().filter(|(_, words)| words.is_liar);
        liars.map(|(at, _)| 1 << at).sum()
    }

    /// Notes that a file fails by the bytes of a member that is left out from now on.
    pub fn will_fare_better(&self) {
        self.state().fares_better = true;
    }

    /// Whether a file has failed that may succeed now. Returns `true` once for such failures.
    pub fn fares_better(&self) -> bool {
        std::mem::take(&mut self.state().fares_better)
    }
}

/// Runs in the order of the file; adjacent runs of one member are joined.
fn in_order(mut runs: Vec<MemberRun>) -> Vec<MemberRun> {
    runs.sort_by_key(|run| run.span.start);
    let mut joined: Vec<MemberRun> = Vec::with_capacity(runs.len());
    for run in runs {
        match joined.last_mut() {
            Some(last) if last.by == run.by && last.span.end == run.span.start => last.span.end = run.span.end,
            _ => joined.push(run),
        }
    }
    joined
}

/// The error of a file that no member brings, with the failure of the first member that failed.
fn none_left(state: &State, path: &RelPath, hopeless: bool) -> Error {
    let last = state.words.iter().find_map(|words| words.last.clone());
    let (fault, said) = last.unwrap_or((Fault::Path, "none of them has brought anything for too long".into()));
    let fault = if hopeless { fault } else { Fault::Path };
    let why = format!("no source of it is left: {said}");
    Error::Server { doing: "read", path: shown(path), fault, general: !hopeless, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_member_are_joined() {
        let run = |span: Range<u64>, by| MemberRun { span, by };
        let came = vec![run(4..6, 1), run(0..2, 0), run(2..4, 0), run(8..9, 0), run(6..8, 1)];
        assert_eq!(in_order(came), [run(0..4, 0), run(4..8, 1), run(8..9, 0)]);
    }
}
