//! Runs a transfer from its first connection to its end, for a client or for a node that carries it for a client. Where the path
//! breaks, the next attempt resumes where the last one stopped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::fault::{Blame, Fault};
use model::id::JobId;
use model::locator::NodePlace;
use model::spec::{self, Options};
use model::v1;
use pilot::verdict;
use sys::waker::Waker;
use wire::frame::{Direction, Open};

use crate::SOFTWARE;
use crate::control::Control;
use crate::error::{Error, Result};
use crate::filelist::FileList;
use crate::job::JobEvent;
use crate::patience::Patience;
use crate::receipt::{self, Context};
use crate::receive::Receiving;
use crate::scan::SourceRoot;
use crate::session::{Report, Session, SessionParts};

/// Makes the receiving side of an attempt.
pub type MakeReceiving<'a> = &'a dyn Fn(&Options, Waker) -> Result<Arc<Receiving>>;

/// The source and target of a transfer.
pub enum Ends<'a> {
    /// From this end to a place on the node.
    Push {
        /// The sources, opened anew for every attempt.
        sources: &'a dyn Fn() -> Result<Vec<SourceRoot>>,
        /// The place on the node.
        target: NodePlace,
    },
    /// From places on the node to this end.
    Pull {
        /// The places on the node.
        sources: Vec<NodePlace>,
        /// The receiving side.
        target: MakeReceiving<'a>,
    },
}

/// A transfer.
pub struct Transfer<'a> {
    /// Its id.
    pub id: JobId,
    /// Its options.
    pub options: Options,
    /// Congestion control asked for.
    pub congestion: Option<String>,
    /// The streams, history and series of its attempts.
    pub session_parts: SessionParts,
    /// Its source and target.
    pub ends: Ends<'a>,
    /// The files to move, where that is not all of the source.
    pub files: Option<FileList>,
    /// How long to keep trying without progress.
    pub retry_for: Duration,
    /// It cannot be tried a second time: a pipe is at one end.
    pub is_piped: bool,
    /// It resumes what an earlier run of this process began: its peer has been reached before.
    pub begun: bool,
    /// Whether a failed attempt may succeed if it is tried again at once: one of several sources was excluded, or there is another access
    /// key.
    pub is_retry_useful: Option<&'a dyn Fn(&Report) -> bool>,
    /// Its control.
    pub control: &'a Control,
    /// Takes over the session after a transfer without error.
    pub keep: Option<&'a dyn Fn(Session)>,
}

/// The result of all attempts together.
#[derive(Default)]
pub struct Outcome {
    /// The report of the last attempt, with the others' numbers added.
    pub report: Report,
    /// How long it took to connect.
    pub connected: Duration,
    /// Program versions.
    pub versions: v1::Versions,
    /// The time since the start of the first attempt.
    pub elapsed: Duration,
    /// How long there was no session, or the node was silent.
    pub away: Duration,
    /// The session had been kept from an earlier job and turned out dead.
    stale: bool,
}

/// An event of a running transfer, for its caller.
pub enum TransferEvent<'a> {
    /// An event of the running attempt.
    Job(JobEvent<'a>),
    /// The path broke; the next attempt comes after this pause.
    Retry(&'a Error, Duration),
}

impl Transfer<'_> {
    /// Runs the transfer to its end. The outcome of a transfer that failed has its error in the report.
    ///
    /// # Errors
    /// The first connection failed; later ones are tried again.
    pub fn run<E>(
        &self,
        connect: &mut dyn FnMut() -> std::result::Result<Session, E>,
        note: &mut dyn FnMut(TransferEvent<'_>),
    ) -> std::result::Result<Outcome, E>
    where
        E: From<Error> + Into<Error>,
    {
        let started = Instant::now();
        let mut patience = Patience::new(self.retry_for);
        let mut total: Option<Outcome> = None;
        // When the path broke, until there is a session again.
        let mut broken_since = None::<Instant>;
        // How long there was no session, in all.
        let mut away = Duration::ZERO;
        loop {
            let attempt = connect().and_then(|session| {
                away += broken_since.take().map_or(Duration::ZERO, |since| since.elapsed());
                let mut watch = |event: JobEvent<'_>| {
                    if let JobEvent::Progress(progress, _) = &event {
                        patience.record_progress(progress);
                    }
                    note(TransferEvent::Job(event));
                };
                self.attempt(session, self.begun || total.is_some(), &mut watch).map_err(E::from)
            });
            let attempt = match attempt {
                // Nothing was tried yet: the next session is a fresh one.
                Ok(attempt) if attempt.stale => continue,
                Ok(attempt) => attempt,
                // The first connection is not tried again: the name may be mistyped.
                Err(error) if total.is_none() && !self.begun => return Err(error),
                Err(error) => Outcome::failed(error.into()),
            };
            let mut merged = merge(total.take(), attempt);
            merged.elapsed = started.elapsed();
            merged.away = away + broken_since.map_or(Duration::ZERO, |since| since.elapsed()) + merged.report.silent;
            let again = merged.report.error.as_ref().filter(|e| e.fault() == Fault::Path && !self.is_piped);
            if let (Some(error), Some(pause)) = (again, patience.pause().filter(|_| again.is_some())) {
                note(TransferEvent::Retry(error, pause));
                broken_since.get_or_insert_with(Instant::now);
                self.control.wait_for(&format!("the path: {error}"));
                if Patience::wait(pause, self.control.cancel_flag()) {
                    total = Some(merged);
                    continue;
                }
                merged.report.error = Some(Error::Interrupted);
            }
            if !self.is_piped && self.is_retry_useful.is_some_and(|is_retry_useful| is_retry_useful(&merged.report)) {
                total = Some(merged);
                continue;
            }
            return Ok(merged);
        }
    }

    fn options(&self, again: bool) -> Options {
        let mut options = self.options.clone();
        // Files that an earlier attempt of this job has put in place are compared by digest, not sent again.
        if again && options.sync == spec::Sync::None {
            options.sync = spec::Sync::Digest;
        }
        options
    }

    fn attempt(&self, mut session: Session, again: bool, watch: &mut dyn FnMut(JobEvent<'_>)) -> Result<Outcome> {
        let (direction, places) = match &self.ends {
            Ends::Push { target, .. } => (Direction::Push, vec![target.clone()]),
            Ends::Pull { sources, .. } => (Direction::Pull, sources.clone()),
        };
        let order = Open {
            job: *self.id.0.as_bytes(),
            direction,
            places,
            options: self.options(again),
            congestion: self.congestion.clone(),
            steer: self.control.settings().0,
            listed: self.files.is_some() && direction == Direction::Pull,
        };
        let report = match &self.ends {
            Ends::Push { sources, .. } => {
                let sources = sources()?;
                session.push(order, sources, self.files.clone(), &self.session_parts, self.control, watch)
            }
            Ends::Pull { target, .. } => {
                let options = order.options.clone();
                let mut failure = None;
                let report = session.pull(
                    order,
                    self.files.clone(),
                    &self.session_parts,
                    |waker| target(&options, waker).map_err(|e| failure = Some(e)).ok(),
                    self.control,
                    watch,
                );
                if let Some(error) = failure {
                    return Err(error);
                }
                report
            }
        };
        let versions = v1::Versions {
            client: SOFTWARE.into(),
            node: session.node_software().to_owned(),
            protocol: session.version().0,
        };
        let connected = session.connected_after();
        let stale = report.error.as_ref().is_some_and(|e| e.fault() == Fault::Path) && session.is_stale();
        match self.keep {
            Some(keep) if report.error.is_none() => keep(session),
            _ => session.close(),
        }
        Ok(Outcome { report, connected, versions, stale, ..Outcome::default() })
    }

    /// The receipt of a transfer that has ended.
    pub fn receipt(&self, done: &Outcome, source: Vec<String>, target: String) -> v1::Receipt {
        let pushing = matches!(self.ends, Ends::Push { .. });
        let measured = done.report.measured();
        let case = verdict::Case {
            measured: &measured,
            pushing,
            limit_bit_s: self.control.settings().0.limit_bit_s,
            limit_is_remote: self.control.limit_is_remote(),
            pipe: self.is_piped,
            unreachable: done.away,
            all_attempts: done.elapsed,
            elapsed: done.report.arrived_after.unwrap_or(done.elapsed),
        };
        let payload = done.report.streams.iter().max_by_key(|stream| stream.id).map(|stream| stream.payload.clone());
        let leg = |payload| v1::Carried { from: source.join(", "), to: target.clone(), payload };
        let context = Context {
            job: self.id.to_string(),
            carried: payload
                .filter(|_| done.report.totals.bytes > 0 || self.control.moved().0.bytes > 0)
                .map(leg)
                .into_iter()
                .collect(),
            source,
            target,
            checksums: self.options.checksums.clone(),
            seconds: done.elapsed.as_secs_f64(),
            connect_s: done.connected.as_secs_f64(),
            limited_by: verdict::of(&case),
            ends: verdict::ends(&case),
            versions: done.versions.clone(),
            dry_run: self.options.dry_run,
            sent_bytes: self.control.moved().0.bytes,
            arrived_bytes: self.control.show().bytes,
            keeps: !self.is_piped,
        };
        receipt::build(&done.report, context)
    }
}

impl Outcome {
    /// An attempt that failed before it began.
    pub fn failed(error: Error) -> Outcome {
        Outcome { report: Report { error: Some(error), ..Report::default() }, ..Outcome::default() }
    }
}

/// Merges the outcome of an attempt with that of all attempts before it. An attempt counts files as skipped that an earlier one has put in
/// place.
fn merge(before: Option<Outcome>, mut now: Outcome) -> Outcome {
    if let Some(Outcome { report, versions, connected, .. }) = before {
        let t = &mut now.report.totals;
        t.skipped = t.skipped.saturating_sub(report.totals.files);
        t.skipped_bytes = t.skipped_bytes.saturating_sub(report.totals.bytes);
        t.files += report.totals.files;
        t.bytes += report.totals.bytes;
        // The next attempt resumes what this one has sent, so these bytes are not added up.
        t.resumed_bytes = t.resumed_bytes.max(report.totals.resumed_bytes);
        t.deleted += report.totals.deleted;
        now.report.resent_bytes += report.resent_bytes;
        now.report.silent += report.silent;
        now.report.waited.space += report.waited.space;
        now.report.waited.writer += report.waited.writer;
        // Each attempt scans the whole source. Metadata that one attempt has updated are right for the next one, which does not count them.
        now.report.counts.unfinished = now.report.counts.unfinished.max(report.counts.unfinished);
        now.report.counts.refreshed += report.counts.refreshed;
        if now.versions.node.is_empty() {
            now.versions = versions;
            now.connected = connected;
        }
    }
    now
}
