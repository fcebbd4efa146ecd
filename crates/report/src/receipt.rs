//! The few lines of a receipt for people.

use model::units::{BitRate, Bytes};
use model::v1;

/// The most failures that are shown to people; the receipt has more.
const FAILURES_SHOWN: usize = 10;

/// The first line: the outcome in a few words.
pub fn headline(receipt: &v1::Receipt) -> String {
    let word = match receipt.state {
        v1::State::Done => "done",
        v1::State::Partial => "done in part",
        v1::State::Failed => "failed",
        v1::State::Interrupted => "interrupted",
    };
    let files = match (receipt.files, receipt.kept_bytes) {
        (0, kept) if kept > 0 => format!("{} kept for the next attempt", Bytes(kept)),
        // A test that was stopped has moved bytes, but no whole file.
        (0, _) if receipt.bytes > 0 => Bytes(receipt.bytes).to_string(),
        (n, 0) => format!("{} in {}", Bytes(receipt.bytes), count(n, "file")),
        (n, kept) => {
            let done = format!("{} in {}", Bytes(receipt.bytes), count(n, "file"));
            format!("{done}, {} of unfinished files kept for the next attempt", Bytes(kept))
        }
    };
    if receipt.dry_run {
        return format!("dry run, nothing changed: would send: {files}");
    }
    format!("{word}: {files} in {:.2} s{}", receipt.seconds, sent(receipt))
}

/// The mean rate of the bytes sent, and their number if it is not that of all bytes.
fn sent(receipt: &v1::Receipt) -> String {
    let rate = BitRate(receipt.rate_bit_s);
    match receipt.sent_bytes {
        0 if receipt.rate_bit_s == 0 => String::new(),
        // A receipt of an older node, which does not distinguish the two.
        0 => format!(", {rate}"),
        all if all == receipt.bytes => format!(", {rate}"),
        part => format!("; {} sent, {rate}", Bytes(part)),
    }
}

/// All lines for people.
pub fn lines(receipt: &v1::Receipt) -> Vec<String> {
    let mut out = vec![headline(receipt)];
    let mut also = Vec::new();
    if receipt.directories > 0 {
        also.push(count(receipt.directories, "directory"));
    }
    if receipt.links > 0 {
        also.push(count(receipt.links, "link"));
    }
    if receipt.skipped > 0 {
        also.push(format!("{} already there ({})", count(receipt.skipped, "file"), Bytes(receipt.skipped_bytes)));
    }
    if receipt.refreshed > 0 {
        also.push(format!(
            "mode, time, owner or attributes of {} brought up to date",
            count(receipt.refreshed, "file")
        ));
    }
    if receipt.unfinished > 0 {
        also.push(format!("{} left out", count(receipt.unfinished, "unfinished file")));
    }
    if receipt.resumed_bytes > 0 {
        also.push(format!("{} were there from an earlier attempt", Bytes(receipt.resumed_bytes)));
    }
    if receipt.deleted > 0 {
        let word = if receipt.dry_run { "to be deleted" } else { "deleted" };
        also.push(format!("{} {word}", count(receipt.deleted, "extra entry")));
    }
    if receipt.resent_bytes > 0 {
        also.push(format!("{} sent more than once", Bytes(receipt.resent_bytes)));
    }
    if receipt.special > 0 {
        also.push(format!("{} left out", count(receipt.special, "special file")));
    }
    if receipt.failed > 0 {
        also.push(format!("{} FAILED", receipt.failed));
    }
    if !also.is_empty() {
        out.push(format!("  also: {}", also.join(", ")));
    }
    if (receipt.files > 0 || receipt.bytes > 0) && !receipt.dry_run {
        out.extend(details(receipt));
    }
    for v1::Mirror { source, bytes, left_out, unproven_files } in &receipt.mirrors {
        let left_out = left_out.as_ref().map(|why| format!("; left out: {why}")).unwrap_or_default();
        let files = count(*unproven_files, "file");
        let unproven = if *unproven_files > 0 { format!("; {files} compared by samples alone") } else { String::new() };
        out.push(format!("  {} from {source}{unproven}{left_out}", Bytes(*bytes)));
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

/// A number with its noun.
pub fn count(n: u64, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if n == 1 => format!("1 {noun}"),
        Some(stem) => format!("{n} {stem}ies"),
        None => format!("{n} {noun}s"),
    }
}

/// The name of a limiting part for people.
pub fn part(name: &str) -> &str {
    match name {
        "source" => "source storage",
        "target" => "target storage",
        "sender_cpu" => "the sending host's processors",
        "receiver_cpu" => "the receiving host's processors",
        "network" => "the network",
        "cap" => "a limit that was set",
        "outage" => "a path or a host that was away",
        "space" => "a target that was full",
        "lock" => "another job with the same file",
        other => other,
    }
}

/// The protection of the payload, leg by leg if the legs differ.
fn payload(receipt: &v1::Receipt) -> String {
    let protection = |word: &str| match word {
        "tls" => "within TLS".to_owned(),
        "plain" => "in clear".to_owned(),
        "unseen" => "between the servers, unseen".to_owned(),
        other => other.to_owned(),
    };
    match &receipt.carried[..] {
        // A receipt of an older program, which reports streams only.
        [] => {
            let last = receipt.streams.iter().max_by_key(|stream| stream.id);
            format!("payload {}", protection(last.map_or("sealed", |stream| stream.payload.as_str())))
        }
        [only] if only.payload == "local" => "payload stayed on this host".to_owned(),
        [first, rest @ ..] if rest.iter().all(|leg| leg.payload == first.payload) => {
            format!("payload {}", protection(&first.payload))
        }
        legs => {
            let leg = |leg: &v1::Carried| format!("from {} to {} {}", leg.from, leg.to, protection(&leg.payload));
            format!("payload {}", legs.iter().map(leg).collect::<Vec<_>>().join(", "))
        }
    }
}

/// The limiting part, for people.
fn limited(by: &v1::Limit) -> String {
    let part = part(&by.part);
    let remedy = if by.remedy.is_empty() { String::new() } else { format!(" → {}", by.remedy) };
    format!("  limited by {part}: {}{remedy}", by.evidence)
}

fn details(receipt: &v1::Receipt) -> Vec<String> {
    let data: Vec<&v1::Stream> = receipt.streams.iter().filter(|s| s.id > 0).collect();
    let digests: Vec<&str> = receipt.digests.iter().map(|d| d.algorithm.as_str()).collect();
    let is_memory = receipt.target.ends_with("null:") || receipt.source.iter().all(|source| source.contains("zero:"));
    let digests = if !digests.is_empty() {
        format!("verified by {}", digests.join(", "))
    } else if is_memory {
        "not verified (--checksum none)".to_owned()
    } else {
        "not verified by this program".to_owned()
    };
    let mut out = vec![format!("  {digests}; {}", payload(receipt))];
    out.push(limited(&receipt.limited_by));
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
