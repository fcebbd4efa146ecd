//! The chooser at work: a thread for each question, lines that are closed where nobody needs an answer any more, and whoever
//! waits for bytes as the clock.
//!
//! Does not know: what is read ahead, or whether what came is right.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::RelPath;
use model::fault::{Blame, Fault};
use store::Error;
use store::error::shown;

use super::chooser::{Chooser, How, Order};
use super::file::Whole;
use super::pieces::{Flight, Trouble};
use super::{Member, Share};

/// Who waits looks so often whether something is late.
const TICK: Duration = Duration::from_millis(100);

/// Bytes that somebody waits for.
pub(super) struct Load {
    file: Arc<Whole>,
    span: Range<u64>,
    filling: Mutex<Filling>,
    changed: Condvar,
}

struct Filling {
    bytes: Vec<u8>,
    missing: u64,
    /// Who brought some of it: a bit for each member.
    by: u32,
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

impl Load {
    fn filling(&self) -> MutexGuard<'_, Filling> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
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
        };
        Crew { members, state: Mutex::new(state), began: Instant::now(), patience, say }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
            Share { source: member.name.clone(), bytes: state.chooser.counted(at), left_out }
        };
        self.members.iter().enumerate().map(share).collect()
    }

    pub fn say(&self, words: &str) {
        (self.say)(words);
    }

    /// Bytes of a file, and who brought some of them.
    pub fn fetch(self: &Arc<Crew>, file: &Arc<Whole>, span: Range<u64>) -> Result<(Vec<u8>, u32), Error> {
        let len = span.end - span.start;
        let filling = Filling { bytes: vec![0; len as usize], missing: len, by: 0 };
        let (file, filling) = (Arc::clone(file), Mutex::new(filling));
        let load = Arc::new(Load { file, span: span.clone(), filling, changed: Condvar::new() });
        let id = self.number();
        {
            let mut state = self.state();
            if state.loads.is_empty() {
                state.heard = Instant::now();
            }
            state.chooser.want(id, load.file.id, span);
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
        Ok((std::mem::take(&mut filling.bytes), filling.by))
    }

    fn wait(self: &Arc<Crew>, load: &Load) -> Result<(), Error> {
        loop {
            self.pump();
            let filling = load.filling();
            let waiting = load.changed.wait_timeout_while(filling, TICK, |filling| filling.missing > 0);
            let (filling, _) = waiting.unwrap_or_else(PoisonError::into_inner);
            if filling.missing == 0 {
                return Ok(());
            }
            drop(filling);
            let state = self.state();
            let hopeless = state.chooser.is_hopeless(load.file.id);
            if hopeless || state.heard.elapsed() > self.patience {
                return Err(none_left(&state, &load.file.path, hopeless));
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
        let brought = load.file.at(self, order.member).and_then(|pieces| {
            pieces.bring(order.span.clone(), flight, &mut |bytes| self.take(order, load, &mut at, bytes))
        });
        let trouble = match brought {
            Err(trouble) => Some(trouble),
            Ok(()) if at < order.span.end => Some(Trouble::from(Error::Server {
                doing: "read",
                path: shown(&load.file.path),
                fault: Fault::Peer,
                general: false,
                why: "it ended before all bytes came".into(),
            })),
            Ok(()) => None,
        };
        self.state().flights.remove(&order.ask);
        if let Some(trouble) = trouble {
            self.failed(order.ask, order.member, &load.file.path, &trouble);
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
            filling.by |= 1 << order.member;
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

    /// No source tells a digest of what was put together from several.
    pub fn unproven(&self, path: &RelPath) {
        if !std::mem::replace(&mut self.state().unproven_said, true) {
            let path = shown(path);
            self.say(&format!("no source tells a digest of {path}: that all have the same bytes is not verified"));
        }
    }

    /// A member has other bytes than the first: nothing of it is taken any more.
    pub fn accuse(&self, member: usize, why: &str) {
        let mut state = self.state();
        state.chooser.leave_out(member);
        state.words[member].left_out = Some(why.to_owned());
    }
}

/// Nobody brings a file: by the words of the first of those who should.
fn none_left(state: &State, path: &RelPath, hopeless: bool) -> Error {
    let last = state.words.iter().find_map(|words| words.last.clone());
    let (fault, said) = last.unwrap_or((Fault::Path, "none of them has brought anything for too long".into()));
    let fault = if hopeless { fault } else { Fault::Path };
    let why = format!("no source of it is left: {said}");
    Error::Server { doing: "read", path: shown(path), fault, general: !hopeless, why }
}
