//! From a job's report to its receipt, its exit code, and the few lines that people read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use engine::session::Report;
use model::checksum::Digest;
use model::fault::{Blame, Exit, Fault};
use model::name::RelPath;
use model::units::{BitRate, Bytes};
use model::{Algorithm, v1};
use wire::frame::Refusal;

/// What the report does not know.
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
    /// Seconds of connecting.
    pub connect_s: f64,
    /// What held the job back.
    pub limited_by: v1::Limit,
    /// Versions at both ends.
    pub versions: v1::Versions,
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
    v1::Receipt {
        v: 1,
        event: "receipt",
        job: context.job,
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
        seconds: context.seconds,
        rate_bit_s: BitRate::mean(Bytes(t.bytes), context.seconds).0,
        phases,
        digests: context.checksums.iter().map(verified).collect(),
        streams: report.streams.clone(),
        limited_by: context.limited_by,
        versions: context.versions,
        error: report.error.as_ref().map(|e| Refusal::from_error(e).reason),
    }
}

/// How many failures are shown to people; the receipt has more.
const FAILURES_SHOWN: usize = 10;

/// The lines for people.
pub fn lines(receipt: &v1::Receipt) -> Vec<String> {
    let mut out = Vec::new();
    let word = match receipt.state {
        v1::State::Done => "done",
        v1::State::Partial => "done in part",
        v1::State::Failed => "failed",
        v1::State::Interrupted => "interrupted",
    };
    out.push(format!(
        "{word}: {} in {} in {:.2} s, {}",
        Bytes(receipt.bytes),
        count(receipt.files, "file"),
        receipt.seconds,
        BitRate(receipt.rate_bit_s)
    ));
    let mut also = Vec::new();
    if receipt.directories > 0 {
        let noun = if receipt.directories == 1 { "directory" } else { "directories" };
        also.push(format!("{} {noun}", receipt.directories));
    }
    if receipt.links > 0 {
        also.push(count(receipt.links, "link"));
    }
    if receipt.skipped > 0 {
        also.push(format!("{} already there ({})", count(receipt.skipped, "file"), Bytes(receipt.skipped_bytes)));
    }
    if receipt.resent_bytes > 0 {
        also.push(format!("{} sent more than once", Bytes(receipt.resent_bytes)));
    }
    if receipt.special > 0 {
        also.push(format!("{} left out", count(receipt.special, "FIFO, socket or device")));
    }
    if receipt.failed > 0 {
        also.push(format!("{} FAILED", receipt.failed));
    }
    if !also.is_empty() {
        out.push(format!("  also: {}", also.join(", ")));
    }
    if receipt.files > 0 {
        out.extend(details(receipt));
    }
    for miss in receipt.failures.iter().take(FAILURES_SHOWN) {
        out.push(format!("  not copied: {}: {}", miss.path, miss.reason));
    }
    let more = receipt.failures.len().saturating_sub(FAILURES_SHOWN);
    if more > 0 {
        out.push(format!("  … and {more} more, named in --json and --receipt"));
    }
    out
}

fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

fn details(receipt: &v1::Receipt) -> Vec<String> {
    let data: Vec<&v1::Stream> = receipt.streams.iter().filter(|s| s.id > 0).collect();
    let digests: Vec<&str> = receipt.digests.iter().map(|d| d.algorithm.as_str()).collect();
    let digests = match digests.is_empty() {
        true => "not verified (--checksum none)".to_owned(),
        false => format!("verified by {}", digests.join(", ")),
    };
    let payload = receipt.streams.iter().max_by_key(|s| s.id).map_or("sealed", |s| s.payload.as_str());
    let mut out = vec![format!("  {digests}; payload {payload}; limited by {}", receipt.limited_by.part)];
    if let Some(first) = data.first() {
        let resent: u64 = data.iter().map(|s| s.retransmits).sum();
        let rtt = data.iter().map(|s| s.min_rtt_s).fold(f64::INFINITY, f64::min);
        out.push(format!(
            "  {} ({}), round trip {:.3} ms, {resent} segments retransmitted",
            count(data.len() as u64, "stream"),
            first.congestion,
            rtt * 1e3
        ));
    }
    out
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
    fn exit_codes() {
        assert_eq!(exit(&report(3, 0, 0, Fault::Bug)), Exit::Done);
        assert_eq!(exit(&report(3, 0, 1, Fault::Bug)), Exit::Partial);
        assert_eq!(exit(&report(3, 1, 0, Fault::Storage)), Exit::Partial);
        assert_eq!(exit(&report(0, 1, 0, Fault::Storage)), Exit::Storage);
        assert_eq!(exit(&report(0, 1, 0, Fault::Missing)), Exit::Failed);
        assert_eq!(exit(&report(0, 1, 0, Fault::Integrity)), Exit::Integrity);
        let mut broken = report(3, 0, 0, Fault::Bug);
        broken.error = Some(engine::Error::Interrupted);
        assert_eq!(exit(&broken), Exit::Interrupted);
    }

    #[test]
    fn odd_names_come_twice() {
        let m = miss(&RelPath::parse(b"d/\xff").unwrap(), Fault::Storage, "why".into());
        assert_eq!((m.path.as_str(), m.path_b64.as_deref()), ("d/\\xff", Some("ZC//")));
        assert_eq!(miss(&RelPath::parse(b"d").unwrap(), Fault::Storage, String::new()).path_b64, None);
    }
}
