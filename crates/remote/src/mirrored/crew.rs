//! The chooser at work: a thread for each question, lines that are closed where nobody needs an answer any more, and whoever
//! waits for bytes as the clock.
//!
//! Does not know: what is read ahead, or whether what came is right.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::RelPath;
use model::fault::{Blame, Fault};
use parking_lot::{Condvar, Mutex, MutexGuard};
use store::Error;
use store::error::shown;

use super::chooser::{Chooser, Order};
use super::{Member, Share};
use crate::pieces::{Flight, How, Pieces, Trouble};

/// Who waits looks so often whether something is late.
const TICK: Duration = Duration::from_millis(100);

/// Bytes that somebody waits for.
pub(super) struct Load {
    file: Arc<dyn Whole>,
    span: Range<u64>,
    filling: Mutex<Filling>,
    changed: Condvar,
}

struct Filling {
    bytes: Vec<u8>,
    missing: u64,
    /// Who brought which of it, as it came.
    runs: Vec<Run>,
}

/// Bytes of a file, in one piece, that one member brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub span: Range<u64>,
    pub by: usize,
}

struct State {
    chooser: Chooser,
    flights: HashMap<u64, Arc<Flight>>,
    loads: HashMap<u64, Arc<Load>>,
    next: u64,
    /// When somebody brought something last, or something was wanted after a rest.
    heard: Instant,
    words: Vec<Words>,
    /// That something cannot be proven has been said.
    unproven_said: bool,
    /// Files that failed would fare better now: who brought other bytes takes no part any more.
    fares_better: bool,
}

/// What is to be said of a member.
#[derive(Clone, Default)]
struct Words {
    /// Its last failure.
    last: Option<(Fault, String)>,
    /// Why it was left out, of one file at least.
    left_out: Option<String>,
    /// That it failed has been said.
    said: bool,
    /// It has other bytes than the first.
    is_liar: bool,
    /// Files in which its bytes were held against the first's by samples alone.
    unproven_files: u64,
}

impl Words {
    /// Notes a failure. Whether it is the first.
    fn note(&mut self, fault: Fault, why: &str) -> bool {
        self.last = Some((fault, why.to_owned()));
        !std::mem::replace(&mut self.said, true)
    }
}

/// The members of a set, and what is on its way from them.
pub(super) struct Crew {
    pub members: Vec<Member>,
    state: Mutex<State>,
    began: Instant,
    patience: Duration,
    say: Box<dyn Fn(&str) + Send + Sync>,
}

/// A file that the crew fetches: all who fetch it share it.
pub(super) trait Whole: Send + Sync {
    /// By which the crew knows it.
    fn id(&self) -> u64;

    fn path(&self) -> &RelPath;

    fn size(&self) -> u64;

    /// The file at one member, opened there if it was not.
    fn at(self: Arc<Self>, crew: &Arc<Crew>, member: usize) -> Result<Arc<dyn Pieces>, Trouble>;
}

impl Load {
    fn filling(&self) -> MutexGuard<'_, Filling> {
        self.filling.lock()
    }
}

impl Crew {
    pub fn new(members: Vec<Member>, patience: Duration, say: Box<dyn Fn(&str) + Send + Sync>) -> Crew {
        let state = State {
            chooser: Chooser::new(members.len()),
            flights: HashMap::new(),
            loads: HashMap::new(),
            next: 0,
            heard: Instant::now(),
            words: vec![Words::default(); members.len()],
            unproven_said: false,
            fares_better: false,
        };
        Crew { members, state: Mutex::new(state), began: Instant::now(), patience, say }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// A number that nothing else has.
    pub fn number(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.next
    }

    /// A file has been closed.
    pub fn close(&self, file: u64) {
        self.state().chooser.close(file);
    }

    /// Whether a member is better not asked now.
    pub fn is_doubtful(&self, member: usize) -> bool {
        let state = self.state();
        state.chooser.is_gone(member) || state.chooser.is_doubtful(member)
    }

    /// What each member brought, and why it was left out where it was.
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

    /// Bytes of a file, and who brought which of them, in order.
    pub fn fetch(self: &Arc<Crew>, file: &Arc<dyn Whole>, span: Range<u64>) -> Result<(Vec<u8>, Vec<Run>), Error> {
        let len = span.end - span.start;
        let filling = Filling { bytes: vec![0; len as usize], missing: len, runs: Vec::new() };
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

    fn wait(self: &Arc<Crew>, load: &Load) -> Result<(), Error> {
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

    /// Asks what is to be asked now.
    fn pump(self: &Arc<Crew>) {
        loop {
            let mut state = self.state();
            let now = self.now();
            let Some(order) = state.chooser.next(now) else { return };
            let Some(load) = state.loads.get(&order.load).map(Arc::clone) else { return };
            let flight = Arc::new(Flight::default());
            state.flights.insert(order.ask, Arc::clone(&flight));
            drop(state);
            let (crew, ask) = (Arc::clone(self), order.ask);
            let begun =
                std::thread::Builder::new().name("mirror".into()).spawn(move || crew.run(&order, &load, &flight));
            if begun.is_err() {
                // Not the member's fault, and no better at once.
                let mut state = self.state();
                state.flights.remove(&ask);
                state.chooser.failed(ask, How::Passing(None), now);
                return;
            }
        }
    }

    fn run(self: &Arc<Crew>, order: &Order, load: &Load, flight: &Flight) {
        let mut at = order.span.start;
        let brought = Arc::clone(&load.file).at(self, order.member).and_then(|pieces| {
            pieces.bring(order.span.clone(), flight, &mut |bytes| self.take(order, load, &mut at, bytes))
        });
        let trouble = match brought {
            Err(trouble) => Some(trouble),
            Ok(()) if at < order.span.end => Some(Trouble::from(Error::Server {
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

    /// Bytes of an answer. Whether more of it is wanted.
    fn take(&self, order: &Order, load: &Load, at: &mut u64, bytes: &[u8]) -> bool {
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
            filling.runs.push(Run { span: new.clone(), by: order.member });
            if filling.missing == 0 {
                load.changed.notify_all();
            }
        }
        *at += bytes.len() as u64;
        true
    }

    /// An answer failed that somebody still needed.
    fn failed(&self, ask: u64, member: usize, path: &RelPath, trouble: &Trouble) {
        let Trouble { how, error } = trouble;
        let why = model::fault::with_causes(error);
        let words = match how {
            How::Passing(_) => "is left out for a while".to_owned(),
            How::File => format!("is left out of {}", shown(path)),
            How::Ever => "is left out".to_owned(),
        };
        let say = {
            let mut state = self.state();
            let now = self.now();
            state.chooser.failed(ask, *how, now) && {
                let told = &mut state.words[member];
                if !matches!(how, How::Passing(_)) && told.left_out.is_none() {
                    told.left_out = Some(why.clone());
                }
                told.note(error.fault(), &why)
            }
        };
        if say {
            self.say(&format!("{} {words}: {why}", self.members[member].name));
        }
    }

    /// A member could not be asked what it has.
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

    /// No source tells a digest of what these members brought, a bit for each; whether samples of it were the first's bytes.
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

    /// A member has other bytes than the first: nothing of it is taken any more.
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

    /// Those who have other bytes than the first: a bit for each.
    pub fn liars(&self) -> u32 {
        let state = self.state();
        let liars = state.words.iter().enumerate().filter(|(_, words)| words.is_liar);
        liars.map(|(at, _)| 1 << at).sum()
    }

    /// A file fails for what somebody brought who brings nothing of it the next time.
    pub fn will_fare_better(&self) {
        self.state().fares_better = true;
    }

    /// Whether a file has failed that would fare better now. Told once.
    pub fn fares_better(&self) -> bool {
        std::mem::take(&mut self.state().fares_better)
    }
}

/// Runs by their place, those of one member that follow each other as one.
fn in_order(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_by_key(|run| run.span.start);
    let mut joined: Vec<Run> = Vec::with_capacity(runs.len());
    for run in runs {
        match joined.last_mut() {
            Some(last) if last.by == run.by && last.span.end == run.span.start => last.span.end = run.span.end,
            _ => joined.push(run),
        }
    }
    joined
}

/// Nobody brings a file: by the words of the first of those who should.
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
        let run = |span: Range<u64>, by| Run { span, by };
        let came = vec![run(4..6, 1), run(0..2, 0), run(2..4, 0), run(8..9, 0), run(6..8, 1)];
        assert_eq!(in_order(came), [run(0..4, 0), run(4..8, 1), run(8..9, 0)]);
    }
}
