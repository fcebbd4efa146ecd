//! Verdicts on made-up measurements of jobs.

use model::account::{StageTimes, TargetWaits};

use super::*;

/// Seconds in storage, compute, socket, pace, idle; the processor worked all of the time in compute, and a part of it
/// elsewhere.
fn account(wall: [f64; 5], cpu: [f64; 5]) -> Account {
    let spans = |of: [f64; 5]| of.map(Duration::from_secs_f64);
    Account {
        threads: 2,
        spent: StageTimes { wall: spans(wall), cpu: spans(cpu), records: 100, ..StageTimes::default() },
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

fn report(sender: Account, receiver: Account, stream: Stream) -> Measured {
    let mut report = Measured { account: sender, peer: Some(receiver), streams: vec![stream], ..Measured::default() };
    report.files = 1;
    report.bytes = 1_000_000_000;
    report
}

fn verdict(report: &Measured, limit_bit_s: u64) -> Limit {
    let elapsed = Duration::from_secs(60);
    of(&Case { limit_bit_s, ..Case::new(report, true, elapsed) })
}

#[track_caller]
fn expect(verdict: &Limit, part: &str, evidence: &str, remedy: &str) {
    let fits = verdict.part == part && verdict.evidence.contains(evidence) && verdict.remedy.contains(remedy);
    assert!(fits, "{verdict:?} is not {part}: {evidence} -> {remedy}");
}

#[test]
fn a_busy_disk_is_the_limit() {
    let slow = account([9.7, 0.2, 0.1, 0.0, 0.0], [0.3, 0.2, 0.1, 0.0, 0.0]);
    let waiting = account(WAITING, LITTLE);
    let target = verdict(&report(waiting.clone(), slow.clone(), stream()), 0);
    expect(&target, "target", "writers busy 94 %", "at the target");
    let source = verdict(&report(slow, waiting, stream()), 0);
    expect(&source, "source", "readers busy 94 %", "at the source");
}

#[test]
fn busy_processors_are_the_limit() {
    // All of the storage and socket time was processor time: the threads copied, and did not wait.
    let copying = account([3.0, 4.0, 3.0, 0.0, 0.0], [3.0, 4.0, 3.0, 0.0, 0.0]);
    let waiting = account(WAITING, LITTLE);
    let own = verdict(&report(copying.clone(), waiting.clone(), stream()), 0);
    expect(&own, "sender_cpu", "busy 100 %", "more or faster processors");
    // Ten seconds of wall time for three seconds of processor time: other work uses the processors.
    let starved = account([3.0, 4.0, 3.0, 0.0, 0.0], [0.9, 1.2, 0.9, 0.0, 0.0]);
    let hog = verdict(&report(waiting, starved, stream()), 0);
    expect(&hog, "receiver_cpu", "got one for 30 % of the time", "other work takes the processors");
}

#[test]
fn limits_and_waits_for_orders_are_named() {
    let paced = account([0.0, 0.5, 0.5, 9.0, 0.0], LITTLE);
    let waiting = account(WAITING, LITTLE);
    let capped = verdict(&report(paced, waiting.clone(), stream()), 1_000_000_000);
    expect(&capped, "cap", "limit of 1.00 Gbit/s, set here", "raise --limit");
    let idle = account([0.0, 0.2, 0.3, 0.0, 9.5], LITTLE);
    let mut few = report(idle, waiting, stream());
    expect(&verdict(&few, 0), "latency", "waited 95 %", "slow to take files in");
    few.files = 100_000;
    expect(&verdict(&few, 0), "latency", "waited 95 %", "many small files");
    expect(&verdict(&Measured::default(), 0), "unknown", "", "");
    let small = Measured { files: 1, ..Measured::default() };
    expect(&verdict(&small, 0), "latency", "control connection", "");
}

#[test]
fn windows_and_buffers_are_named_with_their_remedy() {
    let waiting = || account(WAITING, LITTLE);
    let full = Stream { receive_window_limited_s: 57.0, ..stream() };
    let small = verdict(&report(waiting(), waiting(), full), 0);
    expect(&small, "network", "receive window 4.00 MiB at 303 ms = 111 Mbit/s", "net.ipv4.tcp_rmem");
    let mut sender = waiting();
    sender.send_buffer_max = 4 << 20;
    let buffer = Stream { send_buffer_limited_s: 57.0, ..stream() };
    expect(&verdict(&report(sender, waiting(), buffer), 0), "network", "send buffer 4.00 MiB", "net.ipv4.tcp_wmem");
    let late = 1_700_000;
    let stripped = Stream { window_scaling: false, window_bytes: 65_000, delivery_rate_bit_s: late, ..stream() };
    let verdict_of = |receiver| verdict(&report(waiting(), receiver, stripped.clone()), 0);
    expect(&verdict_of(waiting()), "network", "no window scale", "strips the option");
    let off = Account { scales_windows: false, ..waiting() };
    expect(&verdict_of(off), "network", "1.73 Mbit/s", "at the receiving host");
}

#[test]
fn loss_the_path_and_slow_start_are_told_apart() {
    let waiting = || account(WAITING, LITTLE);
    let lossy = Account { clear_loss_ppb: 46_000, missed: "bbr".into(), ..waiting() };
    let lost = Stream { resent_bytes: 46_000, bytes: 200_000_000, ..stream() };
    let loss = verdict(&report(lossy.clone(), waiting(), lost.clone()), 0);
    expect(&loss, "network", "path loss 0.0046 % with cubic: expect 29.5 Mbit/s", "modprobe tcp_bbr");
    let bbr = Stream { congestion: "bbr".into(), bytes: 1_000_000_000, ..lost };
    let full = Account { capacity_bit_s: 938_000_000, missed: String::new(), ..lossy };
    let path = verdict(&report(full, waiting(), bbr.clone()), 0);
    expect(&path, "network", "the path gave 938 Mbit/s", "a faster path");
    let quick = report(waiting(), waiting(), bbr);
    let short = Case::new(&quick, true, Duration::from_secs(4));
    expect(&of(&short), "latency", "slow start over 303 ms", "");
}

#[test]
fn streams_that_carry_nothing_do_not_count() {
    // Four streams, one file that must be digested in order: one thread works at either end.
    let busy = account([0.2, 9.3, 0.3, 0.0, 30.2], [0.2, 9.3, 0.3, 0.0, 0.0]);
    let waiting = account([0.2, 7.0, 32.8, 0.0, 0.0], [0.2, 7.0, 0.3, 0.0, 0.0]);
    let mut job = report(busy, waiting, Stream { bytes: 1_000_000_000, ..stream() });
    job.streams.extend((2..5).map(|id| Stream { id, bytes: 0, ..stream() }));
    let one = verdict(&job, 0);
    expect(&one, "sender_cpu", "busy 98 %", "--checksum");
}

#[test]
fn within_one_machine_the_busier_end_is_the_limit() {
    let reading = account([0.0, 9.5, 0.5, 0.0, 0.0], [0.0, 9.5, 0.4, 0.0, 0.0]);
    let taking = account([1.0, 6.0, 3.0, 0.0, 0.0], [1.0, 6.0, 0.2, 0.0, 0.0]);
    expect(&verdict(&report(reading.clone(), taking.clone(), stream()), 0), "sender_cpu", "busy 99 %", "");
    expect(&verdict(&report(taking, reading, stream()), 0), "receiver_cpu", "busy 99 %", "");
}

#[test]
fn a_buffer_is_the_limit_where_data_in_flight_fills_it() {
    // BBR settles at the rate that the buffer allows: the kernel finds the buffer full only for a part of the time.
    let full = Stream {
        send_buffer_limited_s: 10.0,
        delivery_rate_bit_s: 70_000_000,
        congestion: "bbr".into(),
        window_bytes: 32 << 20,
        ..stream()
    };
    let sender = || Account { send_buffer_max: 4 << 20, ..account(WAITING, LITTLE) };
    let small = verdict(&report(sender(), account(WAITING, LITTLE), full.clone()), 0);
    expect(&small, "network", "send buffer 4.00 MiB at 303 ms", "net.ipv4.tcp_wmem (now 4.00 MiB)");
    let large = Account { send_buffer_max: 1 << 30, ..sender() };
    let path = verdict(&report(large, account(WAITING, LITTLE), full), 0);
    expect(&path, "network", "1 stream with bbr", "a faster path");
}

#[test]
fn loss_is_the_limit_only_at_the_rate_that_its_law_expects() {
    let waiting = || account(WAITING, LITTLE);
    // One per cent at 50 ms lets Reno have some Mbit/s; this stream has 130: something else set that rate.
    let policed = Account { clear_loss_ppb: 10_000_000, capacity_bit_s: 140_000_000, ..waiting() };
    let carries = Stream {
        min_rtt_s: 0.05,
        congestion: "reno".into(),
        bytes: 1_000_000_000,
        resent_bytes: 9_000_000,
        ..stream()
    };
    let fast = verdict(&report(policed.clone(), waiting(), carries.clone()), 0);
    expect(&fast, "network", "gave 140 Mbit/s", "1.00 % is lost without a queue: a policer");
    let slow = verdict(&report(policed.clone(), waiting(), Stream { bytes: 20_000_000, ..carries.clone() }), 0);
    expect(&slow, "network", "path loss 1.00 % with reno: expect 2.84 Mbit/s per stream at 50.0 ms", "bbr");
    // One stream after the other: each had what the law expects while it ran.
    let half = Stream { bytes: 6_000_000, resent_bytes: 60_000, busy_s: 30.0, ..carries.clone() };
    let mut job = report(policed.clone(), waiting(), half.clone());
    job.streams.push(Stream { id: 2, ..half });
    expect(&verdict(&job, 0), "network", "path loss 1.00 % with reno", "bbr");
    let forbidden = Account { missed: "bbr".into(), ..policed };
    expect(&verdict(&report(forbidden, waiting(), carries), 0), "network", "gave 140", "does not allow it");
}

/// A verdict once explained 7.5 Gbit/s on loopback by a loss that allowed 27.1 Tbit/s.
#[test]
fn a_part_that_allows_far_more_than_was_reached_is_not_the_limit() {
    let sender = Account { clear_loss_ppb: 140_000, ..account(WAITING, LITTLE) };
    let near = Stream {
        min_rtt_s: 0.000_03,
        mss_bytes: 65_483,
        bytes: 56_000_000_000,
        resent_bytes: 8_000_000,
        delivery_rate_bit_s: 7_500_000_000,
        ..stream()
    };
    let limit = verdict(&report(sender.clone(), account(WAITING, LITTLE), near.clone()), 0);
    assert!(!limit.evidence.contains("path loss"), "{limit:?}");
    // Nor is a window that is full for most of the time, and ten times as large as the data in flight.
    let full = Stream { min_rtt_s: 0.1, window_bytes: 1 << 30, receive_window_limited_s: 50.0, ..near };
    let limit = verdict(&report(sender, account(WAITING, LITTLE), full), 0);
    assert!(!limit.evidence.contains("receive window"), "{limit:?}");
    // Three segments sent again are no loss.
    let few = Stream { bytes: 200_000_000, resent_bytes: 4_344, ..stream() };
    let lossy = Account { clear_loss_ppb: 46_000, ..account(WAITING, LITTLE) };
    let limit = verdict(&report(lossy, account(WAITING, LITTLE), few), 0);
    assert!(!limit.evidence.contains("path loss"), "{limit:?}");
}

#[test]
fn the_reason_for_idle_senders_is_named() {
    let idle = || account([0.0, 0.2, 0.3, 0.0, 9.5], LITTLE);
    let mut flush = account(WAITING, LITTLE);
    flush.threads = 4;
    flush.spent.longest[Stage::Storage as usize] = Duration::from_secs(8);
    expect(&verdict(&report(idle(), flush, stream()), 0), "target", "took 8.0 s", "--durable");
    let mut listing = report(idle(), account(WAITING, LITTLE), stream());
    listing.scanned_after = Some(Duration::from_secs(50));
    expect(&verdict(&listing, 0), "source", "listing the source took 50.0 s", "directory");
    let skipped = Measured { skipped: 3, ..Measured::default() };
    expect(&verdict(&skipped, 0), "latency", "3 files were there already", "");
}

#[test]
fn outages_and_waits_at_the_target_are_named() {
    let full = || report(account(WAITING, LITTLE), account(WAITING, LITTLE), stream());
    let elapsed = Duration::from_secs(60);
    let of =
        |report: &Measured, away| of(&Case { limit_bit_s: 1, unreachable: away, ..Case::new(report, true, elapsed) });
    let s = Duration::from_secs;
    expect(&of(&full(), s(45)), "outage", "unreachable for 45.0 s of 60.0 s", "probe path");
    expect(&of(&full(), s(5)), "network", "", "");
    let waited = |space, writer| Measured { waited: TargetWaits { space: s(space), writer: s(writer) }, ..full() };
    expect(&of(&waited(30, 4), s(5)), "space", "full for 30.0 s", "--wait-space");
    expect(&of(&waited(3, 40), s(5)), "lock", "another job", "longhaul job list");
    // Hardly begun.
    let short = full();
    let case = Case::new(&short, true, Duration::from_millis(40));
    expect(&super::of(&case), "latency", "40 ms: too little", "nothing");
}

#[test]
fn pipes_and_past_limits_are_named() {
    let slow = || account([9.7, 0.2, 0.1, 0.0, 0.0], [0.3, 0.2, 0.1, 0.0, 0.0]);
    let waiting = || account(WAITING, LITTLE);
    let elapsed = Duration::from_secs(60);
    let of = |report: &Measured, pushing| of(&Case { pipe: true, ..Case::new(report, pushing, elapsed) });
    expect(&of(&report(slow(), waiting(), stream()), true), "source", "readers busy", "what writes into the pipe");
    // The same the other way round: a pull is reported by the end that receives.
    expect(&of(&report(slow(), waiting(), stream()), false), "target", "writers busy", "what reads from the pipe");
    let paused = account([0.0, 0.2, 0.3, 9.5, 0.0], LITTLE);
    expect(&verdict(&report(paused, waiting(), stream()), 0), "cap", "a limit or a pause", "no");
    // A limit that the path does not reach is not the reason.
    let below = verdict(&report(waiting(), waiting(), stream()), 140_000_000);
    expect(&below, "network", "waited 9", "");
}

#[test]
fn shares_of_other_jobs_and_few_round_trips_are_named() {
    let waiting = || account(WAITING, LITTLE);
    let sharing = Account { share_bit_s: 400_000_000, capacity_bit_s: 900_000_000, ..waiting() };
    let shared = verdict(&report(waiting(), sharing, stream()), 0);
    expect(&shared, "network", "shared with other jobs of the receiving node; this job's share is 400 Mbit/s", "");
    let idle = account([0.0, 0.2, 0.3, 0.0, 9.5], LITTLE);
    let quick = report(idle, waiting(), stream());
    let elapsed = Duration::from_millis(1540);
    let case = Case::new(&quick, true, elapsed);
    expect(&of(&case), "latency", "the whole job took 5.1 round trips of 303 ms", "nothing");
}

#[test]
fn the_numbers_of_both_ends_are_given() {
    let slow = Account { busy_permille: 250, send_buffer_max: 4 << 20, ..account([9.7, 0.2, 0.1, 0.0, 0.0], LITTLE) };
    let job = report(slow, account(WAITING, LITTLE), stream());
    let case = |pushing| {
        let elapsed = Duration::from_secs(60);
        ends(&Case::new(&job, pushing, elapsed))
    };
    let [here, there] = &case(true)[..] else { panic!("two ends") };
    assert!(here.here && here.sends && !there.here && !there.sends);
    assert_eq!((here.busy, here.send_buffer_max_bytes, here.processors, here.threads), (0.25, 4 << 20, 2, 2));
    assert_eq!((here.storage, here.cpu, here.idle), (0.97, 0.03, 0.0));
    assert_eq!((there.socket, there.cpu), (0.97, 0.03));
    let all = here.cpu + here.storage + here.socket + here.pace + here.idle;
    assert!((all - 1.0).abs() < 1e-3, "{here:?}");
    assert!(case(false)[0].here && !case(false)[0].sends, "a pull is reported by the end that receives");
    let none = Measured::default();
    let case = Case::new(&none, true, Duration::ZERO);
    assert!(ends(&case).is_empty());
}

#[test]
fn the_shares_of_a_moment_are_judged_like_those_of_a_job() {
    let busy = |storage: f64, cpu: f64| Shares { storage, cpu, socket: 1.0 - storage - cpu, ..Shares::default() };
    let waits = Shares { socket: 0.95, cpu: 0.05, ..Shares::default() };
    for (sender, receiver, wanted) in [
        (Some(busy(0.8, 0.1)), Some(waits), LimitingPart::Source),
        (Some(busy(0.1, 0.8)), Some(waits), LimitingPart::SenderCpu),
        (Some(waits), Some(busy(0.8, 0.1)), LimitingPart::Target),
        (Some(busy(0.1, 0.7)), Some(busy(0.1, 0.8)), LimitingPart::ReceiverCpu),
        (Some(waits), Some(waits), LimitingPart::Network),
        (None, Some(waits), LimitingPart::Network),
        (Some(Shares { pace: 0.6, socket: 0.4, ..Shares::default() }), Some(waits), LimitingPart::Cap),
        (Some(Shares { idle: 0.6, socket: 0.4, ..Shares::default() }), None, LimitingPart::Orders),
    ] {
        assert_eq!(limiting_part(sender.as_ref(), receiver.as_ref()), wanted, "{sender:?} {receiver:?}");
    }
    assert_eq!(LimitingPart::ALL.len(), 7);
    assert_eq!(spare([100.0, 4.0, 5.0, 0.0].into_iter()), 0.5);
    assert_eq!((spare([0.0, 0.0].into_iter()), spare([].into_iter())), (0.0, 0.0));
}
