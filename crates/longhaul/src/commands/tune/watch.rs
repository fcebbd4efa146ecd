//! `longhaul tune watch`: an eye on drops, and on settings that somebody changes.

use std::path::Path;
use std::time::{Duration, Instant};

use model::Exit;
use probe::Stop;
use serde::Serialize;
use tune::rule::Severity;
use tune::watch::{Event, Watch, What, undone};

use super::undo::kept_snapshots;
use super::{Sight, now};
use crate::args::{Tune, TuneWatch};
use crate::commands::probe::stop;
use crate::commands::standing::Standing;
use crate::failure::Failure;
use crate::printer::Printer;

/// How often a watch that waits looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// With --check somebody waits for the answer.
const CHECK_LASTS: Duration = Duration::from_secs(10);

/// An event as JSON.
#[derive(Serialize)]
struct Said<'a> {
    v: u8,
    event: &'static str,
    at: String,
    #[serde(flatten)]
    what: &'a Event,
}

/// Watches until it is stopped, or for a time; with `--check` the exit code says what it saw, and a host that cannot be
/// looked at is unknown.
pub fn run<'a>(
    args: &TuneWatch,
    tune: &'a Tune,
    host: &'a dyn tune::host::Host,
    kept: &Path,
    printer: &Printer,
) -> Result<u8, Failure> {
    let seen = watch(args, tune, host, kept, printer);
    if !args.check {
        return seen.map(|_| Exit::Done as u8);
    }
    let (standing, line) = match seen {
        Ok(events) => judged(&events),
        Err(failure) => (Standing::Unknown, failure.message),
    };
    printer.line(&format!("{} - {line}", standing.word()));
    Ok(standing as u8)
}

fn watch(
    args: &TuneWatch,
    tune: &Tune,
    host: &dyn tune::host::Host,
    kept: &Path,
    printer: &Printer,
) -> Result<Vec<Event>, Failure> {
    let stop = stop()?;
    let lasts = args.time.or(args.check.then_some(CHECK_LASTS));
    let end = lasts.map(|lasts| Instant::now() + lasts);
    let sight = Sight::of(host, tune, &args.target)?;
    let mut events = undone(host, &kept_snapshots(host, kept)?, &sight.audit);
    tell(&events, args, printer);
    let mut watch = Watch::begin(&sight.audit);
    if printer.is_chatty() && !args.check {
        let (count, every) = (sight.audit.findings.len(), args.every.as_secs_f64());
        Printer::say(&format!("watching {count} settings and counters, every {every} s; Ctrl-C ends it"));
    }
    while wait(args.every, end, &stop) {
        let sight = Sight::of(host, tune, &args.target)?;
        let new = watch.look(&sight.audit);
        tell(&new, args, printer);
        // Whoever watches for years does not keep all of it.
        if args.check {
            events.extend(new);
        }
    }
    Ok(events)
}

/// Waits for the next look; false where there is none. At the end of the time there is a last one.
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
        std::thread::sleep(LOOK_EVERY.min(next.saturating_duration_since(Instant::now())));
    }
    !stop.is_stopped()
}

fn tell(events: &[Event], args: &TuneWatch, printer: &Printer) {
    for event in events.iter().filter(|_| !args.check) {
        match printer.is_json() {
            true => printer.object(&Said { v: 1, event: "tune_watch", at: now(), what: event }),
            false => printer.line(&format!("{}  {}", now(), row(event))),
        }
    }
}

/// `N18c grew: 16 more, now 16 (Packets the kernel dropped from its backlog)`.
fn row(event: &Event) -> String {
    let Event { rule, title, subject, from, to, .. } = event;
    let on = subject.as_ref().map_or(String::new(), |subject| format!(" {subject}"));
    let by =
        if event.suspects.is_empty() { String::new() } else { format!("; look at: {}", event.suspects.join(", ")) };
    match event.what {
        What::Grew => format!("{rule}{on} grew: {from} → {to} ({title})"),
        What::Clobbered => format!("{rule}{on} is not as wanted any more: {from} → {to} ({title}){by}"),
        What::Changed => format!("{rule}{on} changed, and is as wanted: {from} → {to} ({title})"),
        What::Undone => format!("{rule}{on}: `tune apply` had set {from}, and it is {to} ({title}){by}"),
    }
}

/// What a monitoring system is told.
fn judged(events: &[Event]) -> (Standing, String) {
    let (mut standing, mut told) = (Standing::Well, Vec::new());
    for event in events {
        let of_it = match (event.what, event.severity) {
            (What::Changed, _) | (_, Severity::Info) => Standing::Well,
            (What::Grew, _) => Standing::Warning,
            (_, Severity::High) => Standing::Critical,
            _ => Standing::Warning,
        };
        standing = standing.and(of_it);
        if of_it != Standing::Well {
            told.push(row(event));
        }
    }
    let count = told.len();
    let told = if told.is_empty() { "nothing dropped, nothing changed".into() } else { told.join("; ") };
    (standing, format!("{told} | events={count}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: What, severity: Severity) -> Event {
        let (rule, title, from, to) = ("T07".into(), "t".into(), "1".into(), "0".into());
        Event { what, rule, title, subject: None, from, to, severity, suspects: vec!["tuned: balanced".into()] }
    }

    #[test]
    fn the_worst_of_what_was_seen_counts() {
        assert_eq!(judged(&[]).0, Standing::Well);
        assert_eq!(judged(&[event(What::Changed, Severity::High)]).0, Standing::Well);
        assert_eq!(judged(&[event(What::Grew, Severity::High)]).0, Standing::Warning);
        let all = [event(What::Grew, Severity::Medium), event(What::Clobbered, Severity::High)];
        let (standing, line) = judged(&all);
        assert_eq!(standing, Standing::Critical);
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
