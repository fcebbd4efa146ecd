//! `longhaul job`: lists and changes the jobs of this host or of a node.

use std::ffi::OsStr;

use engine::Timeouts;
use engine::session::Session;
use model::fault::{Exit, Fault};
use model::locator::NodePlace;
use model::units::{BitRate, Bytes};
use model::{HostPort, Locator, duration, v1};
use report::receipt;
use serde::Serialize;
use wire::frame::Request;

use crate::args::{Job, JobAction, JobId};
use crate::failure::Failure;
use crate::job_control;
use crate::printer::Printer;
use crate::settings::Settings;

/// A transfer as a line of `--json`.
#[derive(Serialize)]
struct JobLine<'a> {
    v: u32,
    event: &'static str,
    #[serde(flatten)]
    transfer: &'a v1::Transfer,
}

impl JobLine<'_> {
    fn of(transfer: &v1::Transfer) -> JobLine<'_> {
        JobLine { v: 1, event: "transfer", transfer }
    }
}

/// Where the jobs run.
enum JobHost<'a> {
    /// This host: processes of this user.
    Local(&'a Settings),
    /// A node.
    Node(Box<Session>),
}

fn node(text: &OsStr, settings: &Settings) -> Result<HostPort, Failure> {
    match settings.locator(text)? {
        Locator::Node { at, place: NodePlace::Exports, .. } => Ok(at),
        other => Err(Failure::usage(format!("{other} is not a node; write --node lh://HOST[:PORT]"))),
    }
}

impl JobHost<'_> {
    fn list(&mut self) -> Result<Vec<v1::Transfer>, Failure> {
        match self {
            JobHost::Local(settings) => Ok(job_control::list(settings.state()?.path())),
            JobHost::Node(session) => {
                let lines = session.query_text(Request::Jobs(None))?;
                let read = |line: &String| serde_json::from_str(line).map_err(|e| Failure::local(e.to_string()));
                lines.iter().map(read).collect()
            }
        }
    }

    fn change(&mut self, job: &v1::Transfer, change: &v1::Change) -> Result<(), Failure> {
        match self {
            JobHost::Local(settings) => {
                let changed = job_control::change(settings.state()?.path(), job.id, change);
                changed.map_err(|message| Failure { exit: Exit::Failed, fault: Fault::Missing, message })
            }
            JobHost::Node(session) => {
                session.query_text(Request::Change(*job.id.as_bytes(), *change)).map(drop).map_err(Failure::from)
            }
        }
    }

    /// The job whose id begins or ends with the typed one. If several do, running jobs have precedence over ended ones.
    fn find(&mut self, wanted: &JobId) -> Result<v1::Transfer, Failure> {
        let id = wanted.id.to_ascii_lowercase();
        let is_like = |job: &v1::Transfer| {
            let full = job.id.to_string();
            full.starts_with(&id) || full.ends_with(&id)
        };
        let mut found: Vec<v1::Transfer> = self.list()?.into_iter().filter(is_like).collect();
        let is_running = |job: &v1::Transfer| !job.state.is_last();
        if found.iter().any(is_running) {
            found.retain(is_running);
        }
        found.dedup_by(|a, b| a.id == b.id);
        let missing = |message: String| Failure { exit: Exit::Failed, fault: Fault::Missing, message };
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(missing(format!("there is no job {} (longhaul job list shows all)", wanted.id))),
            n => Err(missing(format!("{n} jobs have an id like {}; give more of it", wanted.id))),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// The node cannot be reached, no job or several jobs have the id, or the change is refused.
pub fn run(job: &Job, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let mut host = match &job.node {
        None => JobHost::Local(settings),
        Some(text) => JobHost::Node(Box::new(settings.connect(&node(text, settings)?, false, Timeouts::default())?)),
    };
    let (id, change) = match &job.action {
        JobAction::List => {
            let jobs = host.list()?;
            if printer.is_json() {
                jobs.iter().for_each(|job| printer.object(&JobLine::of(job)));
            } else {
                let head = (!jobs.is_empty() && printer.is_chatty()).then(header);
                head.into_iter().chain(jobs.iter().map(line)).for_each(|line| printer.line(&line));
            }
            return Ok(Exit::Done);
        }
        JobAction::Show(id) => {
            let found = host.find(id)?;
            if printer.is_json() {
                printer.object(&JobLine::of(&found));
            } else {
                show(&found, printer);
            }
            return Ok(Exit::Done);
        }
        JobAction::Set { job, limit, streams } => {
            if limit.is_none() && streams.is_none() {
                return Err(Failure::usage("say what to set: --limit RATE, --streams N"));
            }
            let limit_bit_s = limit.map(|rate| rate.0);
            (job, v1::Change { limit_bit_s, streams: *streams, ..v1::Change::default() })
        }
        JobAction::Pause(id) => (id, v1::Change { paused: Some(true), ..v1::Change::default() }),
        JobAction::Resume(id) => (id, v1::Change { paused: Some(false), ..v1::Change::default() }),
        JobAction::Cancel(id) => (id, v1::Change { cancel: true, ..v1::Change::default() }),
    };
    let found = host.find(id)?;
    host.change(&found, &change)?;
    Ok(Exit::Done)
}

/// The titles of the columns of [`line`].
fn header() -> String {
    format!("{:<36}  {:<11} {:<7} {:>8}  {:<24} {:>12}  FROM -> TO", "JOB", "STATE", "ROLE", "AGE", "DONE", "RATE")
}

/// A job in one line: id, state, role, age, progress, rate, source and target.
fn line(job: &v1::Transfer) -> String {
    let more = if job.scanned { "" } else { "+" };
    let age = duration::show(std::time::Duration::from_secs_f64(job.seconds.max(0.0)));
    let done = format!("{} of {}{more}", Bytes(job.bytes), Bytes(job.bytes_total));
    format!(
        "{:<36}  {:<11} {:<7} {age:>8}  {done:<24} {:>12}  {} -> {}",
        job.id.to_string(),
        job.state.word(),
        job.role,
        BitRate(job.rate_bit_s).to_string(),
        job.source.join(" "),
        job.target
    )
}

fn show(job: &v1::Transfer, printer: &Printer) {
    printer.line(&format!("{} ({}, {})", job.id, job.state.word(), job.role));
    printer.line(&format!("  from {} to {}", job.source.join(" "), job.target));
    let more = if job.scanned { "" } else { "+" };
    printer.line(&format!(
        "  {} of {}{more}, {} of {}{more} files, {} now, for {}",
        Bytes(job.bytes),
        Bytes(job.bytes_total),
        job.files,
        job.files_total,
        BitRate(job.rate_bit_s),
        duration::show(std::time::Duration::from_secs_f64(job.seconds.max(0.0)))
    ));
    if let (Some(left), Some(error)) = (job.eta_s, job.eta_error_s) {
        let [left, error] = [left, error].map(|s| std::time::Duration::try_from_secs_f64(s).unwrap_or_default());
        printer.line(&format!("  {} left (± {})", duration::show(left), duration::show(error)));
    }
    let limit = if job.limit_bit_s > 0 { BitRate(job.limit_bit_s).to_string() } else { "none".into() };
    printer.line(&format!("  streams {}, limit {limit}", job.streams));
    if !job.waiting_for.is_empty() {
        printer.line(&format!("  waiting: {}", job.waiting_for));
    }
    if let Some(receipt) = &job.receipt {
        receipt::lines(receipt).iter().for_each(|line| printer.line(&format!("  {line}")));
        if let Some(error) = &receipt.error {
            printer.line(&format!("  {error}"));
        }
    }
}
