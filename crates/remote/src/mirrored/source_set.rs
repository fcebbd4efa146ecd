//! The source set: runs the chooser with a thread for each request, and closes the connections of requests that are no longer needed.
//! The readers that wait for bytes drive it.
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
use crate::range_source::{FailureScope, MemberFailure, RangeSource, ReadHandle};

/// The interval at which a waiting reader looks for late requests.
const TICK: Duration = Duration::from_millis(100);

/// Bytes that a reader waits for.
pub(super) struct PendingRead {
    file: Arc<dyn SharedFile>,
    span: Range<u64>,
    buffer: Mutex<LoadBuffer>,
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
    reads: HashMap<u64, Arc<ReadHandle>>,
    pending: HashMap<u64, Arc<PendingRead>>,
    next: u64,
    /// When bytes last came, or when a reader began to wait while no other reader waited.
    last_bytes_at: Instant,
    statuses: Vec<MemberStatus>,
    /// It has been reported that a file cannot be verified.
    unproven_reported: bool,
    /// A file that failed may succeed now, because a member with other bytes has been excluded.
    retry_may_succeed: bool,
}

/// The state of a member for reports and messages.
#[derive(Clone, Default)]
struct MemberStatus {
    /// Its last failure.
    last: Option<(Fault, String)>,
    /// The reason why it was left out, of one file at least.
    left_out: Option<String>,
    /// A failure has been reported.
    reported: bool,
    /// It has other bytes than the first.
    has_other_bytes: bool,
    /// Files in which only samples of its bytes were compared with the first's.
    unproven_files: u64,
}

impl MemberStatus {
    /// Notes a failure. Returns whether it is the first.
    fn note(&mut self, fault: Fault, why: &str) -> bool {
        self.last = Some((fault, why.to_owned()));
        !std::mem::replace(&mut self.reported, true)
    }
}

/// The members of a set, and their requests in flight.
pub(super) struct SourceSet {
    pub members: Vec<Member>,
    state: Mutex<State>,
    began: Instant,
    patience: Duration,
    report: Box<dyn Fn(&str) + Send + Sync>,
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

impl PendingRead {
    fn buffer(&self) -> MutexGuard<'_, LoadBuffer> {
        self.buffer.lock()
    }
}

impl SourceSet {
    pub fn new(members: Vec<Member>, patience: Duration, report: Box<dyn Fn(&str) + Send + Sync>) -> SourceSet {
        let state = State {
            chooser: Chooser::new(members.len()),
            reads: HashMap::new(),
            pending: HashMap::new(),
            next: 0,
            last_bytes_at: Instant::now(),
            statuses: vec![MemberStatus::default(); members.len()],
            unproven_reported: false,
            retry_may_succeed: false,
        };
        SourceSet { members, state: Mutex::new(state), began: Instant::now(), patience, report }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// A number that is unique in the set.
    pub fn next_id(&self) -> u64 {
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
        state.chooser.is_excluded(member) || state.chooser.is_doubtful(member)
    }

    /// The contribution of each member.
    pub fn shares(&self) -> Vec<Share> {
        let state = self.state();
        let share = |(at, member): (usize, &Member)| {
            let status = &state.statuses[at];
            let failing = state.chooser.is_doubtful(at).then(|| status.last.as_ref().map(|(_, why)| why.clone()));
            let left_out = status.left_out.clone().or(failing.flatten());
            let (source, bytes) = (member.name.clone(), state.chooser.counted(at));
            let payload_protection = member.store().payload_protection();
            Share { source, bytes, left_out, payload_protection, unproven_files: status.unproven_files }
        };
        self.members.iter().enumerate().map(share).collect()
    }

    pub fn report(&self, message: &str) {
        (self.report)(message);
    }

    /// Fetches a range of a file. Returns its bytes, and the members that brought them, in the order of the file.
    ///
    /// # Errors
    /// No member is left for the file, or none has sent a byte for the time `patience`.
    pub fn fetch(
        self: &Arc<SourceSet>,
        file: &Arc<dyn SharedFile>,
        span: Range<u64>,
    ) -> Result<(Vec<u8>, Vec<MemberRun>), Error> {
        let len = span.end - span.start;
        let buffer = LoadBuffer { bytes: vec![0; len as usize], missing: len, runs: Vec::new() };
        let read = Arc::new(PendingRead {
            file: Arc::clone(file),
            span: span.clone(),
            buffer: Mutex::new(buffer),
            changed: Condvar::new(),
        });
        let id = self.next_id();
        {
            let mut state = self.state();
            if state.pending.is_empty() {
                state.last_bytes_at = Instant::now();
            }
            state.chooser.want(id, read.file.id(), span);
            state.pending.insert(id, Arc::clone(&read));
        }
        let done = self.wait(&read);
        let given_up = {
            let mut state = self.state();
            state.pending.remove(&id);
            let now = self.now();
            let requests = state.chooser.forget(id, now);
            requests.iter().filter_map(|request| state.reads.remove(request)).collect::<Vec<_>>()
        };
        given_up.iter().for_each(|handle| handle.give_up());
        done?;
        let mut buffer = read.buffer();
        Ok((std::mem::take(&mut buffer.bytes), in_order(std::mem::take(&mut buffer.runs))))
    }

    fn wait(self: &Arc<SourceSet>, read: &PendingRead) -> Result<(), Error> {
        loop {
            self.make_requests();
            let mut buffer = read.buffer();
            read.changed.wait_while_for(&mut buffer, |buffer| buffer.missing > 0, TICK);
            if buffer.missing == 0 {
                return Ok(());
            }
            drop(buffer);
            let state = self.state();
            let hopeless = state.chooser.is_hopeless(read.file.id());
            if hopeless || state.last_bytes_at.elapsed() > self.patience {
                return Err(none_left(&state, read.file.path(), hopeless));
            }
        }
    }

    /// Makes all requests that the chooser wants now.
    fn make_requests(self: &Arc<SourceSet>) {
        loop {
            let mut state = self.state();
            let now = self.now();
            let Some(request) = state.chooser.next(now) else { return };
            let Some(read) = state.pending.get(&request.read).map(Arc::clone) else { return };
            let handle = Arc::new(ReadHandle::default());
            state.reads.insert(request.id, Arc::clone(&handle));
            drop(state);
            let id = request.id;
            let sources = Arc::clone(self);
            let spawned =
                std::thread::Builder::new().name("mirror".into()).spawn(move || sources.run(&request, &read, &handle));
            if spawned.is_err() {
                // Not the member's fault; an immediate retry would fail too.
                let mut state = self.state();
                state.reads.remove(&id);
                state.chooser.failed(id, FailureScope::Temporary(None), now);
                return;
            }
        }
    }

    fn run(self: &Arc<SourceSet>, request: &PieceRequest, read: &PendingRead, handle: &ReadHandle) {
        let mut at = request.span.start;
        let brought = Arc::clone(&read.file).at(self, request.member).and_then(|file| {
            file.read_range(request.span.clone(), handle, &mut |bytes| self.take(request, read, &mut at, bytes))
        });
        let failure = match brought {
            Err(failure) => Some(failure),
            Ok(()) if at < request.span.end => Some(MemberFailure::from(Error::Server {
                doing: "read",
                path: shown(read.file.path()),
                fault: Fault::Peer,
                general: false,
                why: "it ended before all bytes came".into(),
            })),
            Ok(()) => None,
        };
        self.state().reads.remove(&request.id);
        if let Some(failure) = failure {
            self.failed(request.id, request.member, read.file.path(), &failure);
        }
        self.make_requests();
    }

    /// Stores bytes that came. Returns whether more of the request is wanted.
    fn take(&self, request: &PieceRequest, read: &PendingRead, at: &mut u64, bytes: &[u8]) -> bool {
        let (new, given_up) = {
            let mut state = self.state();
            let now = self.now();
            let Some(brought) = state.chooser.record_bytes(request.id, bytes.len() as u64, now) else { return false };
            state.last_bytes_at = Instant::now();
            let given_up =
                brought.given_up.iter().filter_map(|request| state.reads.remove(request)).collect::<Vec<_>>();
            (brought.new, given_up)
        };
        given_up.iter().for_each(|handle| handle.give_up());
        if !new.is_empty() {
            let from = (new.start - *at) as usize..(new.end - *at) as usize;
            let into = (new.start - read.span.start) as usize..(new.end - read.span.start) as usize;
            let mut buffer = read.buffer();
            // The buffer is empty where the reader has stopped waiting.
            if let Some(into) = buffer.bytes.get_mut(into) {
                into.copy_from_slice(&bytes[from]);
            }
            buffer.missing = buffer.missing.saturating_sub(new.end - new.start);
            buffer.runs.push(MemberRun { span: new.clone(), by: request.member });
            if buffer.missing == 0 {
                read.changed.notify_all();
            }
        }
        *at += bytes.len() as u64;
        true
    }

    /// Records the failure of a request, and reports the member's first one.
    fn failed(&self, request: u64, member: usize, path: &RelPath, failure: &MemberFailure) {
        let MemberFailure { scope, error } = failure;
        let why = model::fault::with_causes(error);
        let words = match scope {
            FailureScope::Temporary(_) => "is left out for a while".to_owned(),
            FailureScope::File => format!("is left out of {}", shown(path)),
            FailureScope::AllFiles => "is left out".to_owned(),
        };
        let report = {
            let mut state = self.state();
            let now = self.now();
            state.chooser.failed(request, *scope, now) && {
                let status = &mut state.statuses[member];
                if !matches!(scope, FailureScope::Temporary(_)) && status.left_out.is_none() {
                    status.left_out = Some(why.clone());
                }
                status.note(error.fault(), &why)
            }
        };
        if report {
            self.report(&format!("{} {words}: {why}", self.members[member].name));
        }
    }

    /// Notes that a member could not be reached by another request than one for bytes.
    pub fn note_unreachable(&self, member: usize, fault: Fault, why: &str) {
        let report = {
            let mut state = self.state();
            let now = self.now();
            state.chooser.note_failure(member, now);
            state.statuses[member].note(fault, why)
        };
        if report {
            self.report(&format!("{} is left out for a while: {why}", self.members[member].name));
        }
    }

    /// Notes that no source reports a digest of a file that these members brought (`by`, a bit for each). `sampled`: samples of all were
    /// compared with the first's bytes.
    pub fn unproven(&self, path: &RelPath, by: u32, sampled: bool) {
        let report = {
            let mut state = self.state();
            for (at, status) in state.statuses.iter_mut().enumerate().skip(1) {
                status.unproven_files += u64::from(by & (1 << at) != 0);
            }
            !std::mem::replace(&mut state.unproven_reported, true)
        };
        if report {
            let compared = if sampled { "samples of all were compared with the first's; " } else { "" };
            self.report(&format!(
                "no source reports a digest of {}: {compared}it is not verified that all have the same bytes",
                shown(path)
            ));
        }
    }

    /// Excludes a member for good: it has other bytes than the first.
    pub fn exclude(&self, member: usize, why: &str) {
        let is_new = {
            let mut state = self.state();
            state.chooser.leave_out(member);
            state.statuses[member].left_out = Some(why.to_owned());
            !std::mem::replace(&mut state.statuses[member].has_other_bytes, true)
        };
        if is_new {
            self.report(&format!("{} is left out: {why}", self.members[member].name));
        }
    }

    /// The members that have other bytes than the first: a bit for each.
    pub fn with_other_bytes(&self) -> u32 {
        let state = self.state();
        let wrong = state.statuses.iter().enumerate().filter(|(_, status)| status.has_other_bytes);
        wrong.map(|(at, _)| 1 << at).sum()
    }

    /// Notes that a file failed because of a member that is excluded from now on.
    pub fn note_retry_may_succeed(&self) {
        self.state().retry_may_succeed = true;
    }

    /// Whether a file has failed that may succeed now. Answers `true` once, and `false` until the next such failure.
    pub fn take_retry_may_succeed(&self) -> bool {
        std::mem::take(&mut self.state().retry_may_succeed)
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
    let last = state.statuses.iter().find_map(|status| status.last.clone());
    let (fault, reason) = last.unwrap_or((Fault::Path, "none of them has sent anything for too long".into()));
    let fault = if hopeless { fault } else { Fault::Path };
    let why = format!("no source of it is left: {reason}");
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
