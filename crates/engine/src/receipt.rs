//! Makes a job's receipt and exit code from its report.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::checksum::Digest;
use model::fault::{Blame, Exit, Fault};
use model::name::RelPath;
use model::units::{BitRate, Bytes};
use model::{Algorithm, Refusal, v1};

use crate::session::Report;

/// The facts of a receipt that the report does not have.
pub struct Context {
    /// The job's id.
    pub job: String,
    /// Sources as typed.
    pub source: Vec<String>,
    /// Target as typed.
    pub target: String,
    /// Whole-file digests that were verified.
    pub checksums: Vec<Algorithm>,
    /// Seconds since the command began.
    pub seconds: f64,
    /// Seconds that it took to connect.
    pub connect_s: f64,
    /// What limited the job.
    pub limited_by: v1::Limit,
    /// Both ends in numbers.
    pub ends: Vec<v1::End>,
    /// Versions at both ends.
    pub versions: v1::Versions,
    /// It was a dry run: nothing was changed.
    pub dry_run: bool,
    /// Payload that crossed the path.
    pub sent_bytes: u64,
    /// Bytes that arrived, of finished and of unfinished files.
    pub arrived_bytes: u64,
    /// Whether the target keeps unfinished files for a later attempt.
    pub keeps: bool,
    /// How payload was sent over each leg of its path.
    pub carried: Vec<v1::Carried>,
}

/// The limit in the receipt of a dry run.
fn dry_run_limit() -> v1::Limit {
    v1::Limit { part: "unknown".into(), evidence: "a dry run moves nothing".into(), remedy: String::new() }
}

/// The exit code of a job.
pub fn exit(report: &Report) -> Exit {
    let t = &report.totals;
    if let Some(error) = &report.error {
        return error.fault().into();
    }
    if t.failed == 0 {
        return if t.special > 0 { Exit::Partial } else { Exit::Done };
    }
    if t.files + t.links + t.skipped > 0 {
        return Exit::Partial;
    }
    report.misses.first().map_or(Exit::Failed, |miss| miss.refusal.fault.into())
}

fn state(exit: Exit) -> v1::State {
    match exit {
        Exit::Done => v1::State::Done,
        Exit::Partial => v1::State::Partial,
        Exit::Interrupted => v1::State::Interrupted,
        _ => v1::State::Failed,
    }
}

fn miss(path: &RelPath, fault: Fault, reason: String) -> v1::Miss {
    let bytes = path.as_bytes();
    let path_b64 = std::str::from_utf8(bytes).is_err().then(|| STANDARD.encode(bytes));
    v1::Miss { path: path.to_string(), path_b64, fault: fault.word().into(), reason }
}

/// The receipt.
pub fn build(report: &Report, context: Context) -> v1::Receipt {
    let exit = exit(report);
    let t = &report.totals;
    let seconds = |d: Option<std::time::Duration>| d.map_or(0.0, |d| d.as_secs_f64());
    let (scan, arrived) = (seconds(report.scanned_after), seconds(report.arrived_after));
    let rest = (context.seconds - context.connect_s).max(0.0);
    let transfer = if arrived > 0.0 { arrived } else { rest };
    let phases = v1::Phases { connect: context.connect_s, scan, transfer, finish: (rest - transfer).max(0.0) };
    let mut failures: Vec<v1::Miss> =
        report.misses.iter().map(|m| miss(&m.path, m.refusal.fault, m.refusal.reason.clone())).collect();
    let special = "a FIFO, socket or device: not copied";
    failures.extend(report.specials.iter().map(|path| miss(path, Fault::Storage, special.into())));
    failures.truncate(wire::sender::MISSES_NAMED_MAX);
    let value = |a: &Algorithm| report.digests.iter().find(|d| d.algorithm() == *a).map(Digest::hex);
    let verified = |a: &Algorithm| v1::Verified { algorithm: a.name().into(), files: t.files, value: value(a) };
    let is_cut = matches!(state(exit), v1::State::Interrupted | v1::State::Failed) && !context.dry_run;
    let whole = t.bytes.saturating_add(t.skipped_bytes);
    let kept_bytes = if is_cut && context.keeps { context.arrived_bytes.saturating_sub(whole) } else { 0 };
    let sent_bytes = if context.dry_run { 0 } else { context.sent_bytes };
    let checksums = if context.dry_run { &[][..] } else { &context.checksums[..] };
    v1::Receipt {
        v: 1,
        event: "receipt".into(),
        transfer: context.job,
        state: state(exit),
        exit: exit as u8,
        source: context.source,
        target: context.target,
        bytes: t.bytes,
        files: t.files,
        directories: t.directories,
        links: t.links,
        skipped: t.skipped,
        skipped_bytes: t.skipped_bytes,
        special: t.special,
        failed: t.failed,
        failures,
        resent_bytes: report.resent_bytes,
        resumed_bytes: t.resumed_bytes,
        deleted: t.deleted,
        unfinished: report.counts.unfinished,
        refreshed: report.counts.refreshed,
        dry_run: context.dry_run,
        seconds: context.seconds,
        sent_bytes,
        kept_bytes,
        rate_bit_s: BitRate::mean(Bytes(sent_bytes), context.seconds).0,
        phases,
        digests: checksums.iter().map(verified).collect(),
        streams: report.streams.clone(),
        limited_by: if context.dry_run { dry_run_limit() } else { context.limited_by },
        ends: if context.dry_run { Vec::new() } else { context.ends },
        carried: context.carried,
        mirrors: Vec::new(),
        versions: context.versions,
        error: report.error.as_ref().map(|e| Refusal::from_error(e).reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::frame::Totals;
    use wire::sender::Miss;

    fn report(files: u64, failed: u64, special: u64, fault: Fault) -> Report {
        let path = RelPath::parse(b"d/\xff").unwrap();
        let misses = (0..failed).map(|_| Miss { path: path.clone(), refusal: Refusal::new(fault, "why") }).collect();
        Report { totals: Totals { files, failed, special, ..Totals::default() }, misses, ..Report::default() }
    }

    #[test]
    fn the_exit_code_follows_from_the_errors_and_the_totals() {
        assert_eq!(exit(&report(3, 0, 0, Fault::Bug)), Exit::Done);
        assert_eq!(exit(&report(3, 0, 1, Fault::Bug)), Exit::Partial);
        assert_eq!(exit(&report(3, 1, 0, Fault::Storage)), Exit::Partial);
        assert_eq!(exit(&report(0, 1, 0, Fault::Storage)), Exit::Storage);
        assert_eq!(exit(&report(0, 1, 0, Fault::Missing)), Exit::Failed);
        assert_eq!(exit(&report(0, 1, 0, Fault::Integrity)), Exit::Integrity);
        let mut broken = report(3, 0, 0, Fault::Bug);
        broken.error = Some(crate::Error::Interrupted);
        assert_eq!(exit(&broken), Exit::Interrupted);
    }

    #[test]
    fn a_name_that_is_not_text_is_given_in_base64_too() {
        let m = miss(&RelPath::parse(b"d/\xff").unwrap(), Fault::Storage, "why".into());
        assert_eq!((m.path.as_str(), m.path_b64.as_deref()), ("d/\\xff", Some("ZC//")));
        assert_eq!(miss(&RelPath::parse(b"d").unwrap(), Fault::Storage, String::new()).path_b64, None);
    }
}
