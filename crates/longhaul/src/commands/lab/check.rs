//! `longhaul lab check`: measures whether a lab does what its scenario says.

use std::sync::Arc;

use lab::check::{Ceiling, Finding, Report, Verdict};
use lab::control::LabDirectory;
use model::Exit;
use model::units::BitRate;
use parking_lot::Mutex;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{load, print_summary};
use crate::args::LabFile;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// A finding as a line of `--json`.
#[derive(Serialize)]
struct FindingLine<'a> {
    v: u32,
    event: &'static str,
    path: &'a str,
    what: &'static str,
    wanted: &'a str,
    measured: &'a str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

/// The last line of `--json`.
#[derive(Serialize)]
struct Summary<'a> {
    v: u32,
    event: &'static str,
    lab: &'a str,
    back_end: &'static str,
    ok: bool,
    right: usize,
    wrong: usize,
    limited: usize,
    not_judged: usize,
    emulator_limited: Option<String>,
    ceiling_bit_s: Option<u64>,
    ceiling_rtt_s: Option<f64>,
    ceiling_emulator_limited: Option<&'a str>,
}

fn verdict_words(verdict: &Verdict) -> (&'static str, Option<&str>) {
    match verdict {
        Verdict::Right => ("ok", None),
        Verdict::Wrong => ("WRONG", None),
        Verdict::Limited(why) => ("emulator-limited", Some(why)),
        Verdict::NotJudged(why) => ("not judged", Some(why)),
    }
}

fn print_finding(finding: &Finding, printer: &Printer) {
    let (verdict, why) = verdict_words(&finding.verdict);
    let Finding { path_and_direction, what, wanted, measured, .. } = finding;
    if printer.is_json() {
        let line =
            FindingLine { v: 1, event: "lab_finding", path: path_and_direction, what, wanted, measured, verdict, why };
        return printer.object(&line);
    }
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    printer.line(&format!("{path_and_direction:40} {what:5} wanted {wanted}, measured {measured}: {verdict}{why}"));
}

fn ceiling_line(ceiling: &Ceiling) -> String {
    let limited = ceiling.limited.as_ref().map(|why| format!(" (emulator-limited: {why})")).unwrap_or_default();
    let rate = BitRate(ceiling.rate_bit_s as u64);
    format!("this machine carries {rate} in one TCP stream over {:.1} ms{limited}", ceiling.rtt.as_secs_f64() * 1e3)
}

/// Brings the lab up, measures it and takes it down. The exit code is 0 if all is as the scenario says.
///
/// # Errors
/// The scenario is wrong, or the lab cannot be made or measured.
pub fn run(file: &LabFile, name: Option<&str>, settings: &Settings, printer: &Printer) -> Result<u8, Failure> {
    let loaded = load(file, name)?;
    if file.dry_run {
        return Ok(print_summary(&loaded, printer));
    }
    lab::check_prerequisites()?;
    let directory = LabDirectory::claim(settings.state_path()?, &loaded.name)?;
    let path = directory.dir().to_owned();
    let directory = remove_on_signals(directory)?;
    let report = lab::check::run(&loaded.scenario, &path, |finding| print_finding(finding, printer));
    release(&directory);
    let report = report?;
    summarise(&loaded.name, &report, printer);
    Ok(if report.is_right() { Exit::Done as u8 } else { Exit::Failed as u8 })
}

/// Registers signals that end the check and remove its directory. The network ends with the process.
fn remove_on_signals(directory: LabDirectory) -> Result<Arc<Mutex<Option<LabDirectory>>>, Failure> {
    let failed = |error| Failure::local(format!("cannot handle signals: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let directory = Arc::new(Mutex::new(Some(directory)));
    let directory_of_handler = Arc::clone(&directory);
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            release(&directory_of_handler);
            // The signal then has its default effect.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    Ok(directory)
}

fn release(directory: &Mutex<Option<LabDirectory>>) {
    drop(directory.lock().take());
}

fn summarise(name: &str, report: &Report, printer: &Printer) {
    let count = |fits: fn(&Verdict) -> bool| report.findings.iter().filter(|finding| fits(&finding.verdict)).count();
    let right = count(|verdict| *verdict == Verdict::Right);
    let not_judged = count(|verdict| matches!(verdict, Verdict::NotJudged(_)));
    let limited = count(|verdict| matches!(verdict, Verdict::Limited(_)));
    let why = report.findings.iter().find_map(|finding| match &finding.verdict {
        Verdict::Limited(why) => Some(why.clone()),
        _ => None,
    });
    let wrong = count(|verdict| *verdict == Verdict::Wrong);
    if printer.is_json() {
        let ceiling = report.ceiling.as_ref();
        return printer.object(&Summary {
            v: 1,
            event: "lab_check",
            lab: name,
            back_end: lab::BACK_END,
            ok: report.is_right(),
            right,
            wrong,
            limited,
            not_judged,
            emulator_limited: why,
            ceiling_bit_s: ceiling.map(|ceiling| ceiling.rate_bit_s as u64),
            ceiling_rtt_s: ceiling.map(|ceiling| ceiling.rtt.as_secs_f64()),
            ceiling_emulator_limited: ceiling.and_then(|ceiling| ceiling.limited.as_deref()),
        });
    }
    let all = report.findings.len();
    let verdict = if report.is_right() {
        format!("{name} is as it should be: {right} of {all} measurements within tolerance")
    } else {
        format!("{name} is NOT as it should be: {wrong} of {all} measurements out of tolerance")
    };
    let limited = why.map(|why| format!(", {limited} emulator-limited ({why})")).unwrap_or_default();
    let not_judged = if not_judged > 0 { format!(", {not_judged} not judged") } else { String::new() };
    let rest = limited + &not_judged;
    let ceiling = report.ceiling.as_ref().map(|found| format!("; {}", ceiling_line(found))).unwrap_or_default();
    printer.line(&format!("{verdict}{rest}{ceiling}"));
}
