//! `longhaul tune watch`: watches for dropped packets, and for settings that change.

use std::path::Path;
use std::time::{Duration, Instant};

use model::Exit;
use probe::Stop;
use serde::Serialize;
use tune::rule::Severity;
use tune::watch::{Event, EventKind, Watch, lost_changes};

use super::undo::pending_snapshots;
use super::{AuditedHost, now};
use crate::args::{Tune, TuneWatch};
use crate::commands::check_status::CheckStatus;
use crate::commands::probe::stop_on_signals;
use crate::failure::Failure;
use crate::printer::Printer;

/// How often a waiting watch checks whether it must end.
const STOP_CHECK_EVERY: Duration = Duration::from_millis(100);
/// How long a watch with `--check` lasts. It is short, because a monitoring system waits for it.
const CHECK_LASTS: Duration = Duration::from_secs(10);

/// An event as JSON.
#[derive(Serialize)]
struct EventReport<'a> {
    v: u8,
    event: &'static str,
    at: String,
    #[serde(flatten)]
    what: &'a Event,
}

/// Watches for the time of `--time`, or until it is stopped. With `--check` the exit code is that of a monitoring plug-in, and a host that
/// cannot be audited is unknown.
///
/// # Errors
/// Without `--check`: the host cannot be audited, or the snapshots cannot be read.
pub fn run<'a>(
    args: &TuneWatch,
    tune: &'a Tune,
    host: &'a dyn tune::host::Host,
    snapshot_dir: &Path,
    printer: &Printer,
) -> Result<u8, Failure> {
    let result = watch(args, tune, host, snapshot_dir, printer);
    if !args.check {
        return result.map(|_| Exit::Done as u8);
    }
    let (status, line) = match result {
        Ok(events) => status_line(&events),
        Err(failure) => (CheckStatus::Unknown, failure.message),
    };
    printer.line(&format!("{} - {line}", status.word()));
    Ok(status as u8)
}

fn watch(
    args: &TuneWatch,
    tune: &Tune,
    host: &dyn tune::host::Host,
    snapshot_dir: &Path,
    printer: &Printer,
) -> Result<Vec<Event>, Failure> {
    let stop = stop_on_signals()?;
    let lasts = args.time.or(args.check.then_some(CHECK_LASTS));
    let end = lasts.map(|lasts| Instant::now() + lasts);
    let audited = AuditedHost::of(host, tune, &args.target)?;
    let mut events = lost_changes(host, &pending_snapshots(host, snapshot_dir)?, &audited.audit);
    print_events(&events, args, printer);
    let mut watch = Watch::begin(&audited.audit);
    if printer.is_chatty() && !args.check {
        let count = audited.audit.findings.len();
        let every = args.every.as_secs_f64();
        Printer::stderr_line(&format!("watching {count} settings and counters, every {every} s; Ctrl-C ends it"));
    }
    while wait(args.every, end, &stop) {
        let audited = AuditedHost::of(host, tune, &args.target)?;
        let new = watch.compare(&audited.audit);
        print_events(&new, args, printer);
        // Only `--check` needs the events in the end; a watch may run for years.
        if args.check {
            events.extend(new);
        }
    }
    Ok(events)
}

/// Waits for the next audit. Returns false if there is none; the last one is at the end of the time.
fn wait(every: Duration, end: Option<Instant>, stop: &Stop) -> bool {
    let now = Instant::now();
    if end.is_some_and(|end| end <= now) {
        return false;
    }
    let next = end.map_or(now + every, |end| end.min(now + every));
    while Instant::now() < next {
        if stop.is_stopped() {
            return false;
        }
        std::thread::sleep(STOP_CHECK_EVERY.min(next.saturating_duration_since(Instant::now())));
    }
    !stop.is_stopped()
}

fn print_events(events: &[Event], args: &TuneWatch, printer: &Printer) {
    for event in events.iter().filter(|_| !args.check) {
        if printer.is_json() {
            printer.object(&EventReport { v: 1, event: "tune_watch", at: now(), what: event });
        } else {
            printer.line(&format!("{}  {}", now(), row(event)));
        }
    }
}

/// `N18c grew: 0 → 16 (Packets the kernel dropped from its backlog)`.
fn row(event: &Event) -> String {
    let Event { rule, title, subject, from, to, .. } = event;
    let on = subject.as_ref().map_or(String::new(), |subject| format!(" {subject}"));
    let by =
        if event.suspects.is_empty() { String::new() } else { format!("; look at: {}", event.suspects.join(", ")) };
    match event.what {
        EventKind::Grew => format!("{rule}{on} grew: {from} → {to} ({title})"),
        EventKind::Clobbered => format!("{rule}{on} is not as wanted any more: {from} → {to} ({title}){by}"),
        EventKind::Changed => format!("{rule}{on} changed, and is as wanted: {from} → {to} ({title})"),
        EventKind::Undone => format!("{rule}{on}: `tune apply` had set {from}, and it is {to} ({title}){by}"),
    }
}

/// The status and the line for a monitoring system.
fn status_line(events: &[Event]) -> (CheckStatus, String) {
    let mut status = CheckStatus::Well;
    let mut rows = Vec::new();
    for event in events {
        let event_status = match (event.what, event.severity) {
            (EventKind::Changed, _) | (_, Severity::Info) => CheckStatus::Well,
            (EventKind::Grew, _) => CheckStatus::Warning,
            (_, Severity::High) => CheckStatus::Critical,
            _ => CheckStatus::Warning,
        };
        status = status.and(event_status);
        if event_status != CheckStatus::Well {
            rows.push(row(event));
        }
    }
    let count = rows.len();
    let text = if rows.is_empty() { "nothing dropped, nothing changed".into() } else { rows.join("; ") };
    (status, format!("{text} | events={count}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: EventKind, severity: Severity) -> Event {
        Event {
            what,
            rule: "T07".into(),
            title: "t".into(),
            subject: None,
            from: "1".into(),
            to: "0".into(),
            severity,
            suspects: vec!["tuned: balanced".into()],
        }
    }

    #[test]
    fn the_worst_event_decides() {
        assert_eq!(status_line(&[]).0, CheckStatus::Well);
        assert_eq!(status_line(&[event(EventKind::Changed, Severity::High)]).0, CheckStatus::Well);
        assert_eq!(status_line(&[event(EventKind::Grew, Severity::High)]).0, CheckStatus::Warning);
        let all = [event(EventKind::Grew, Severity::Medium), event(EventKind::Clobbered, Severity::High)];
        let (status, line) = status_line(&all);
        assert_eq!(status, CheckStatus::Critical);
        assert!(line.contains("look at: tuned: balanced") && line.ends_with("| events=2"), "{line}");
    }

    #[test]
    fn a_watch_ends_with_its_time() {
        let stop = Stop::default();
        assert!(wait(Duration::from_millis(1), Some(Instant::now() + Duration::from_secs(60)), &stop));
        let end = Instant::now() + Duration::from_secs(1);
        assert!(wait(Duration::from_secs(60), Some(end), &stop), "a last look at the end");
        assert!(!wait(Duration::from_secs(60), Some(end), &stop));
        stop.stop();
        assert!(!wait(Duration::from_secs(60), None, &stop));
    }
}
