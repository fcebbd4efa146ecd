//! `longhaul queue`: the jobs of a hub: which run, which wait, and why.

use hubapi::Api;
use model::Exit;
use model::units::{BitRate, Bytes};
use model::v1::hub::{Every, File, Job, JobChange, QueueLine, Repeat, ResourceLine, Why};
use serde::Serialize;

use crate::args::{Queue, QueueAction};
use crate::failure::Failure;
use crate::hub_client::{api, failure};
use crate::printer::Printer;
use crate::settings::Settings;

/// The most files of a job that are shown.
const FILES_MAX: usize = 1000;

/// Runs the command.
///
/// # Errors
/// The hub cannot be reached or refuses the request, or an argument is wrong.
pub fn run(queue: &Queue, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let api = api(&queue.at, settings)?;
    match &queue.action {
        QueueAction::List { all, limit } => {
            let jobs = api.jobs(!all, None, *limit).map_err(failure)?.jobs;
            jobs.iter().for_each(|job| print_value(printer, job, job_line));
        }
        QueueAction::Show { id: Some(id) } => {
            print_value(printer, &api.job(id).map_err(failure)?, job_line);
            let files = api.files(id, 0, FILES_MAX).map_err(failure)?;
            files.files.iter().for_each(|file| print_value(printer, file, file_line));
            if files.next.is_some() {
                Printer::note(&format!("the first {FILES_MAX} files; GET /api/v1/jobs/{id}/files has all"));
            }
        }
        QueueAction::Show { id: None } => {
            let queues = api.queues().map_err(failure)?.queues;
            queues.iter().for_each(|queue| print_value(printer, queue, queue_line));
            let shares = api.shares().map_err(failure)?.resources;
            shares.iter().for_each(|resource| print_value(printer, resource, resource_line));
        }
        QueueAction::Why { id } => {
            let whys = api.why(id, FILES_MAX).map_err(failure)?;
            whys.iter().for_each(|why| print_value(printer, why, why_line));
            if whys.is_empty() && printer.is_chatty() {
                let job = api.job(id).map_err(failure)?;
                Printer::note(&format!("no file of {id} waits; {}", job_line(&job)));
            }
        }
        QueueAction::Set { id, priority, limit } => {
            let limit_bit_s = limit.map(|limit| limit.0);
            let change = JobChange { priority: *priority, limit_bit_s, ..JobChange::default() };
            print_value(printer, &api.change(id, &change).map_err(failure)?, job_line);
        }
        QueueAction::Pause { id } => set_paused(&api, id, true, printer)?,
        QueueAction::Resume { id } => set_paused(&api, id, false, printer)?,
        QueueAction::Repeats => {
            let repeats = api.repeats().map_err(failure)?.repeats;
            repeats.iter().for_each(|repeat| print_value(printer, repeat, repeat_line));
        }
        QueueAction::EndRepeat { id } => print_value(printer, &api.end_repeat(id).map_err(failure)?, repeat_line),
        QueueAction::Cancel { id } => print_value(printer, &api.cancel(id).map_err(failure)?, job_line),
    }
    Ok(Exit::Done)
}

fn set_paused(api: &Api, id: &str, paused: bool, printer: &Printer) -> Result<(), Failure> {
    let change = JobChange { paused: Some(paused), ..JobChange::default() };
    print_value(printer, &api.change(id, &change).map_err(failure)?, job_line);
    Ok(())
}

/// Prints a value as JSON, or as the text that `line` makes of it.
fn print_value<T: Serialize>(printer: &Printer, value: &T, line: fn(&T) -> String) {
    if printer.is_json() {
        printer.object(value);
    } else {
        printer.line(&line(value));
    }
}

pub(super) fn repeat_line(repeat: &Repeat) -> String {
    let last = repeat.error.as_ref().or(repeat.last_job.as_ref()).map_or("none yet", String::as_str);
    let every = if repeat.every == Every::Week { "week" } else { "day" };
    format!(
        "{}  {} -> {}  {} files, every {every} at {} UTC, next {}  of {}, the last time: {last}",
        repeat.id, repeat.source, repeat.target, repeat.files, repeat.at, repeat.next, repeat.owner
    )
}

fn job_line(job: &Job) -> String {
    let failed = if job.failed > 0 { format!(", {} failed", job.failed) } else { String::new() };
    let bytes = format!("{} of {}", Bytes(job.done_bytes), Bytes(job.bytes));
    let state = job.state.word();
    let owner = format!("{}/{} of {}", job.community, job.activity, job.owner);
    let limit = job.limit_bit_s.map(|limit| format!(", limited to {}", BitRate(limit))).unwrap_or_default();
    format!(
        "{}  {state:<9}  {}/{} files{failed}, {bytes}  {owner}, priority {}{limit}",
        job.id, job.done, job.files, job.priority
    )
}

fn file_line(file: &File) -> String {
    let error =
        file.error.as_ref().filter(|_| file.state != "done").map(|error| format!("  {error}")).unwrap_or_default();
    format!("  {:>8}  {:<9}  {} -> {}  {}{error}", file.number, file.state, file.source, file.target, Bytes(file.bytes))
}

fn queue_line(queue: &QueueLine) -> String {
    let allocated = queue.allocated_bit_s.map_or_else(|| "no limit".to_owned(), |rate| BitRate(rate).to_string());
    let constraint =
        if queue.constraint.text.is_empty() { String::new() } else { format!(": {}", queue.constraint.text) };
    let late = queue.late_bytes.map_or_else(String::new, |bytes| format!(", {} will be late", Bytes(bytes)));
    let promised = queue.deadline.as_ref().map_or_else(String::new, |deadline| {
        let floor = BitRate(queue.promised_bit_s.unwrap_or(0));
        format!("  promised by {deadline}: {floor} at least now{late}")
    });
    format!(
        "{} -> {}  {}/{} of {}, priority {}  {} queued ({}), {} running  {} of {allocated}{constraint}{promised}",
        queue.source,
        queue.target,
        queue.community,
        queue.activity,
        queue.owner,
        queue.priority,
        queue.queued,
        Bytes(queue.queued_bytes),
        queue.running,
        BitRate(queue.used_bit_s),
    )
}

fn resource_line(resource: &ResourceLine) -> String {
    let rate = |bits| BitRate(bits).to_string();
    format!(
        "{}: {} used, {} allocated of {}",
        resource.name,
        rate(resource.used_bit_s),
        rate(resource.allocated_bit_s),
        rate(resource.usable_bit_s)
    )
}

fn why_line(why: &Why) -> String {
    let reason = if why.constraint.text.is_empty() {
        "it begins at the next pass of the scheduler"
    } else {
        &why.constraint.text
    };
    let start = why.expected_start.as_ref().map(|at| format!("; expected to begin at {at}")).unwrap_or_default();
    let end = why.expected_end.as_ref().map(|at| format!(" and to end at {at}")).unwrap_or_default();
    let held_by =
        if why.held_by.is_empty() { String::new() } else { format!("\n    held by {}", why.held_by.join("; ")) };
    format!(
        "  {:>8}  {} -> {}  {} before it: {reason}{start}{end}{held_by}",
        why.file, why.source, why.target, why.position
    )
}
