//! Verdicts on jobs as they might have gone.

use super::*;
use model::account::Spent;

/// Seconds in storage, compute, socket, pace, idle; the processor worked all of the time in compute, and a part of it
/// elsewhere.
fn account(wall: [f64; 5], cpu: [f64; 5]) -> Account {
    let spans = |of: [f64; 5]| of.map(Duration::from_secs_f64);
    Account {
        threads: 2,
        spent: Spent { wall: spans(wall), cpu: spans(cpu), records: 100, ..Spent::default() },
        processors: 2,
        scales_windows: true,
        ..Account::default()
    }
}

const WAITING: [f64; 5] = [0.0, 0.2, 9.8, 0.0, 0.0];
const LITTLE: [f64; 5] = [0.0, 0.2, 0.1, 0.0, 0.0];

fn stream() -> Stream {
    Stream {
        id: 1,
        min_rtt_s: 0.303,
        mss_bytes: 1448,
        busy_s: 60.0,
        sent_bytes: 1_000_000_000,
        window_bytes: 4 << 20,
        window_scaling: true,
        congestion: "cubic".into(),
        delivery_rate_bit_s: 100_000_000,
        ..Stream::default()
    }
}

fn report(sender: Account, receiver: Account, stream: Stream) -> Report {
    let mut report = Report { account: sender, peer: Some(receiver), streams: vec![stream], ..Report::default() };
    report.totals.files = 1;
    report.totals.bytes = 1_000_000_000;
    report
}

fn verdict(report: &Report, limit_bit_s: u64) -> Limit {
    let elapsed = Duration::from_secs(60);
    of(&Case { report, pushing: true, limit_bit_s, limit_is_theirs: false, pipe: false, elapsed })
}

#[track_caller]
fn expect(verdict: &Limit, part: &str, evidence: &str, remedy: &str) {
    let fits = verdict.part == part && verdict.evidence.contains(evidence) && verdict.remedy.contains(remedy);
    assert!(fits, "{verdict:?} is not {part}: {evidence} -> {remedy}");
}

#[test]
fn disks() {
    let slow = account([9.7, 0.2, 0.1, 0.0, 0.0], [0.3, 0.2, 0.1, 0.0, 0.0]);
    let waiting = account(WAITING, LITTLE);
    let target = verdict(&report(waiting.clone(), slow.clone(), stream()), 0);
    expect(&target, "target", "writers busy 94 %", "at the target");
    let source = verdict(&report(slow, waiting, stream()), 0);
    expect(&source, "source", "readers busy 94 %", "at the source");
}

#[test]
fn processors() {
    // All of the storage and socket time was the processor's: copying, not waiting.
    let copying = account([3.0, 4.0, 3.0, 0.0, 0.0], [3.0, 4.0, 3.0, 0.0, 0.0]);
    let waiting = account(WAITING, LITTLE);
    let own = verdict(&report(copying.clone(), waiting.clone(), stream()), 0);
    expect(&own, "sender_cpu", "busy 100 %", "more or faster processors");
    // Ten seconds for what three seconds of processor would have done: somebody else has it.
    let starved = account([3.0, 4.0, 3.0, 0.0, 0.0], [0.9, 1.2, 0.9, 0.0, 0.0]);
    let hog = verdict(&report(waiting, starved, stream()), 0);
    expect(&hog, "receiver_cpu", "got one for 30 % of the time", "other work takes the processors");
}

#[test]
fn limits_and_pipes() {
    let paced = account([0.0, 0.5, 0.5, 9.0, 0.0], LITTLE);
    let waiting = account(WAITING, LITTLE);
    let capped = verdict(&report(paced, waiting.clone(), stream()), 1_000_000_000);
    expect(&capped, "cap", "limit of 1.00 Gbit/s, set here", "raise --limit");
    let idle = account([0.0, 0.2, 0.3, 0.0, 9.5], LITTLE);
    expect(&verdict(&report(idle, waiting, stream()), 0), "latency", "waited 95 %", "small files");
    expect(&verdict(&Report::default(), 0), "unknown", "", "");
    let mut small = Report::default();
    small.totals.files = 1;
    expect(&verdict(&small, 0), "latency", "control connection", "");
}

#[test]
fn windows() {
    let waiting = || account(WAITING, LITTLE);
    let full = Stream { receive_window_limited_s: 57.0, ..stream() };
    let small = verdict(&report(waiting(), waiting(), full), 0);
    expect(&small, "network", "receive window 4.00 MiB at 303 ms = 111 Mbit/s", "net.ipv4.tcp_rmem");
    let mut sender = waiting();
    sender.send_buffer_max = 4 << 20;
    let buffer = Stream { send_buffer_limited_s: 57.0, ..stream() };
    expect(&verdict(&report(sender, waiting(), buffer), 0), "network", "send buffer 4.00 MiB", "net.ipv4.tcp_wmem");
    let stripped = Stream { window_scaling: false, window_bytes: 65_000, ..stream() };
    let verdict_of = |receiver| verdict(&report(waiting(), receiver, stripped.clone()), 0);
    expect(&verdict_of(waiting()), "network", "no window scale", "strips the option");
    let off = Account { scales_windows: false, ..waiting() };
    expect(&verdict_of(off), "network", "1.73 Mbit/s", "at the receiving host");
}

#[test]
fn loss_and_the_path() {
    let waiting = || account(WAITING, LITTLE);
    let lossy = Account { clear_loss_ppb: 46_000, missed: "bbr".into(), ..waiting() };
    let lost = Stream { resent_bytes: 46_000, ..stream() };
    let loss = verdict(&report(lossy.clone(), waiting(), lost.clone()), 0);
    expect(&loss, "network", "path loss 0.0046 % with cubic: expect 29.5 Mbit/s per stream", "modprobe tcp_bbr");
    let bbr = Stream { congestion: "bbr".into(), ..lost };
    let full = Account { capacity_bit_s: 938_000_000, missed: String::new(), ..lossy };
    let path = verdict(&report(full, waiting(), bbr.clone()), 0);
    expect(&path, "network", "the path gave 938 Mbit/s", "a faster path");
    let quick = report(waiting(), waiting(), bbr);
    let short = Case {
        report: &quick,
        pushing: true,
        limit_bit_s: 0,
        limit_is_theirs: false,
        pipe: false,
        elapsed: Duration::from_secs(4),
    };
    expect(&of(&short), "latency", "slow start over 303 ms", "");
}
