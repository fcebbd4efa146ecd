//! `longhaul submit`: submits a job to a hub.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use model::fault::{Exit, Fault};
use model::id::Uuid;
use model::units::{BitRate, Bytes};
use model::v1::Stage;
use model::v1::hub::{Every, FileOrder, Job, JobOptions, JobOrder, RepeatOrder};

use hubapi::Api;

use super::queue::repeat_line;
use crate::args::{EveryWord, Submit};
use crate::failure::Failure;
use crate::hub_client::{api, failure};
use crate::printer::Printer;
use crate::settings::Settings;

/// Prints how long an order would take.
fn estimate(api: &Api, order: &JobOrder, printer: &Printer) -> Result<Exit, Failure> {
    let estimate = api.estimate(order).map_err(failure)?;
    if printer.is_json() {
        printer.object(&estimate);
        return Ok(Exit::Done);
    }
    let takes = match estimate.seconds {
        Some(seconds) => format!("about {}", model::duration::show(Duration::from_secs(seconds.ceil() as u64))),
        None if estimate.unsized_files > 0 => {
            format!("{} files or folders have no size: name sizes with --files-from", estimate.unsized_files)
        }
        None => "the duration is unknown".to_owned(),
    };
    let rate = estimate.rate_bit_s.map(|rate| format!(" at {}", BitRate(rate))).unwrap_or_default();
    printer.line(&format!("{takes} for {}{rate}: {}", Bytes(estimate.bytes), estimate.bound_by));
    Ok(Exit::Done)
}

/// Runs the command.
///
/// # Errors
/// The hub cannot be reached or refuses the request, or an argument is wrong.
pub fn run(submit: &Submit, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let files = match &submit.files_from {
        Some(list) => read_list(list)?,
        None => files_of_places(&submit.places)?,
    };
    let api = api(&submit.at, settings)?;
    let order = JobOrder {
        // The id makes a repeated request harmless: it is the same job.
        id: Some(submit.id.unwrap_or_else(Uuid::now_v7)),
        files,
        community: submit.community.clone(),
        activity: submit.activity.clone(),
        priority: submit.priority,
        deadline: submit.deadline.clone(),
        limit_bit_s: submit.limit.map(|limit| limit.0),
        notify: submit.notify.clone(),
        options: JobOptions { recursive: submit.recursive, overwrite: submit.overwrite, ..JobOptions::default() },
        ..JobOrder::default()
    };
    if submit.estimate {
        return estimate(&api, &order, printer);
    }
    if let Some((every, at)) = submit.every.zip(submit.time.clone()) {
        let every = if every == EveryWord::Week { Every::Week } else { Every::Day };
        let repeat = api.repeat(&RepeatOrder { order: JobOrder { id: None, ..order }, every, at }).map_err(failure)?;
        if printer.is_json() {
            printer.object(&repeat);
        } else {
            printer.line(&repeat_line(&repeat));
        }
        return Ok(Exit::Done);
    }
    let (job, _) = api.submit(&order).map_err(failure)?;
    if printer.is_json() {
        printer.object(&job);
    }
    printer.line(&job.id.to_string());
    if !submit.wait {
        return Ok(Exit::Done);
    }
    let id = job.id.to_string();
    let mut last = None;
    loop {
        let mut events = api.events(&id, last.as_deref()).map_err(failure)?;
        // A hub that restarts ends the stream. It is opened again after the last event.
        while let Ok(Some((number, event))) = events.next_event() {
            last = Some(number);
            if event.kind == "ended" {
                return exit_of(&api.job(&id).map_err(failure)?, &api);
            }
            if printer.is_chatty() && !printer.is_json() {
                Printer::note(&format!("{id}: {} {}", event.kind, event.facts));
            }
        }
        let job = api.job(&id).map_err(failure)?;
        if job.ended.is_some() {
            return exit_of(&job, &api);
        }
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

/// The exit code of a job that has ended: that of `longhaul cp` for the same result. The first failed files are printed.
fn exit_of(job: &Job, api: &hubapi::Api) -> Result<Exit, Failure> {
    match job.state {
        Stage::Done => return Ok(Exit::Done),
        Stage::Cancelled => return Ok(Exit::Interrupted),
        _ => {}
    }
    let files = api.files(&job.id.to_string(), 0, 10_000).map_err(failure)?.files;
    let failed: Vec<_> = files.iter().filter(|file| file.state == "failed").collect();
    for file in failed.iter().take(10) {
        Printer::note(&format!("{}: {}", file.target, file.error.as_deref().unwrap_or("failed")));
    }
    if job.state == Stage::Partial {
        return Ok(Exit::Partial);
    }
    let fault = failed.first().and_then(|file| file.fault.as_deref()).and_then(Fault::of_word);
    let message = format!("the job {} failed: {} of {} files", job.id, job.failed, job.files);
    let fault = fault.unwrap_or(Fault::Peer);
    Err(Failure { exit: fault.into(), fault, message })
}

fn files_of_places(places: &[String]) -> Result<Vec<FileOrder>, Failure> {
    let [source, targets @ ..] = places else { return Err(Failure::usage("say what to copy, and where to: S T")) };
    if targets.is_empty() {
        return Err(Failure::usage(format!("say where {source} is to go: S T")));
    }
    let order = |target: &String| FileOrder {
        sources: vec![source.clone()],
        target: target_of(source, target),
        ..FileOrder::default()
    };
    Ok(targets.iter().map(order).collect())
}

/// The target of a source. A target that ends in a slash is a directory, which gets the source under its own name.
fn target_of(source: &str, target: &str) -> String {
    match source.trim_end_matches('/').rsplit('/').next() {
        Some(name) if target.ends_with('/') => format!("{target}{name}"),
        _ => target.to_owned(),
    }
}

fn read_list(list: &Path) -> Result<Vec<FileOrder>, Failure> {
    let fail = |why: String| Failure::usage(format!("cannot read {}: {why}", list.display()));
    let mut text = String::new();
    let read = if list.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(list).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| fail(error.to_string()))?;
    let lines = text.lines().map(str::trim).enumerate();
    let files = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    files.map(|(at, line)| read_line(line).map_err(|why| fail(format!("line {}: {why}", at + 1)))).collect()
}

/// Parses `SOURCE TARGET [BYTES [ALGORITHM:VALUE]]`.
fn read_line(line: &str) -> Result<FileOrder, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ([source, target] | [source, target, _] | [source, target, _, _]) = words[..] else {
        return Err("write SOURCE TARGET [BYTES [ALGORITHM:VALUE]], with %20 for spaces".to_owned());
    };
    let bytes = words.get(2).filter(|text| **text != "-");
    let bytes = bytes.map(|text| text.parse().map_err(|_| format!("{text} is not a number of bytes"))).transpose()?;
    Ok(FileOrder {
        sources: vec![source.to_owned()],
        target: target_of(source, target),
        bytes,
        checksum: words.get(3).map(|text| (*text).to_owned()),
        ..FileOrder::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_source_target_size_and_checksum() {
        let file = read_line("lh://a/d/1 lh://b/d/ 7 adler32:00000001").unwrap();
        assert_eq!(
            (file.target.as_str(), file.bytes, file.checksum.as_deref()),
            ("lh://b/d/1", Some(7), Some("adler32:00000001"))
        );
        assert_eq!(read_line("lh://a/d/1 lh://b/d/2 -").unwrap().bytes, None);
        assert!(read_line("lh://a/d/1").is_err() && read_line("a b c").is_err() && read_line("a b 1 c d").is_err());
    }

    #[test]
    fn every_further_place_is_a_target() {
        let places = ["lh://a/d/run7", "lh://b/d/", "lh://c/d/x"].map(str::to_owned);
        let targets: Vec<String> = files_of_places(&places).unwrap().into_iter().map(|file| file.target).collect();
        assert_eq!(targets, ["lh://b/d/run7", "lh://c/d/x"]);
        assert!(files_of_places(&places[..1]).is_err());
    }
}
