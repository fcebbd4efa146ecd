//! Real sessions over a relay that delays, cuts, damages or withholds the bytes of a path. Round trips are counted by time.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use engine::Error;
use engine::session::Report;
use model::fault::{Blame, Fault};
use support::fixture::NodeFixture;
use support::relay::{Relay, Rules};
use wire::liveness::Pace;

const RTT: Duration = Duration::from_millis(200);

/// A job of one KiB over a new connection takes three round trips (TCP, TLS, job). Round trips are long here, and one of five tries
/// must keep to the time: on a busy machine, at least one try takes less than a round trip more.
#[track_caller]
fn assert_three_round_trips(from: &str, to: &str, job: impl Fn(&NodeFixture, SocketAddr) -> Report) {
    const ROUND_TRIP: Duration = Duration::from_secs(1);
    let mut took = Vec::new();
    for _ in 0..5 {
        let fixture = NodeFixture::new();
        fixture.write(from, 1024, 1);
        let relay = Relay::start(fixture.node(), Rules { one_way: ROUND_TRIP / 2, ..Rules::default() });
        let started = Instant::now();
        let report = job(&fixture, relay.address());
        let elapsed = started.elapsed();
        assert!(report.error.is_none(), "{:?}", report.error);
        assert_eq!((report.totals.files, report.totals.bytes), (1, 1024));
        assert_eq!(relay.connections(), 1, "one connection carries it all");
        fixture.assert_same(from, to);
        // The relay must really be in between, or this test means nothing.
        assert!(elapsed >= ROUND_TRIP * 5 / 2, "it took only {elapsed:?}: the relay does not delay");
        took.push(elapsed);
        if elapsed < ROUND_TRIP * 4 {
            return;
        }
    }
    panic!("it took {took:?}, {ROUND_TRIP:?} a round trip");
}

#[test]
fn a_cold_push_of_one_kib_takes_three_round_trips() {
    assert_three_round_trips("near/one", "far/one", |fixture, to| fixture.push(to, "near/one", "one", false).unwrap());
}

#[test]
fn a_cold_pull_of_one_kib_takes_three_round_trips() {
    assert_three_round_trips("far/one", "near/one", |fixture, to| fixture.pull(to, "one", "near/one", false).unwrap());
}

#[test]
fn small_files_cost_no_round_trip_each() {
    let fixture = NodeFixture::new();
    for at in 0..2_000 {
        fixture.write(&format!("near/tree/{}/{at}", at % 20), 4096, at);
    }
    let relay = Relay::start(fixture.node(), Rules { one_way: RTT / 2, ..Rules::default() });
    let started = Instant::now();
    let report = fixture.push(relay.address(), "near/tree", "tree", false).unwrap();
    let elapsed = started.elapsed();
    assert!(report.error.is_none(), "{:?}", report.error);
    assert_eq!(report.totals.files, 2_000);
    // A round trip each would be 400 s. It takes seven; the rest is for a busy machine.
    assert!(elapsed < Duration::from_secs(60), "2,000 files took {elapsed:?}");
    fixture.assert_same("near/tree", "far/tree");
}

#[test]
fn lost_streams_are_replaced_and_nothing_is_lost() {
    for pull in [false, true] {
        let fixture = NodeFixture::new();
        let (from, to) = if pull { ("far/tree", "near/tree") } else { ("near/tree", "far/tree") };
        fixture.write(&format!("{from}/large"), 20 << 20, 1);
        (0..300).for_each(|at| fixture.write(&format!("{from}/small/{at}"), 20_000, at + 2));
        // Each of the first streams is cut after a few MiB, in the middle of a record.
        let rules = Rules { cut_streams_after: Some((2 << 20) + 12_345), streams_to_cut: 5, ..Rules::default() };
        let relay = Relay::start(fixture.node(), rules);
        let report = fixture.copy(relay.address(), pull, "tree");
        assert!(report.error.is_none(), "{:?}", report.error);
        assert_eq!(report.totals.files, 301);
        assert!(relay.cut() >= 2, "only {} streams were cut", relay.cut());
        fixture.assert_same(from, to);
    }
}

#[test]
fn flipped_bits_are_noticed_and_sent_again() {
    for plain in [true, false] {
        let fixture = NodeFixture::new();
        fixture.write("near/large", 24 << 20, 3);
        let rules = Rules { flip_stream_bit_every: Some(7 << 20), ..Rules::default() };
        let relay = Relay::start(fixture.node(), rules);
        let report = fixture.push(relay.address(), "near/large", "large", plain).unwrap();
        assert!(report.error.is_none(), "plain {plain}: {:?}", report.error);
        assert!(relay.flipped() > 0, "plain {plain}: no bit was flipped");
        assert!(report.resent_bytes > 0, "plain {plain}: nothing was sent again");
        fixture.assert_same("near/large", "far/large");
        fixture.assert_no_leftovers();
    }
}

#[test]
fn a_cut_job_is_resumed() {
    for pull in [false, true] {
        let fixture = NodeFixture::new();
        let (from, to) = if pull { ("far/large", "near/large") } else { ("near/large", "far/large") };
        fixture.write(from, 64 << 20, 4);
        let rules = Rules { cut_everything_after: Some(48 << 20), ..Rules::default() };
        let relay = Relay::start(fixture.node(), rules);
        let report = fixture.copy(relay.address(), pull, "large");
        let error = report.error.expect("the path was cut");
        assert_eq!(error.fault(), Fault::Path, "{error}");
        assert!(!fixture.path(to).exists(), "an incomplete file has its final name");
        fixture.wait_until_idle();
        assert!(fixture.unfinished() == 1, "what arrived is kept");
        // The same job again, over a path that holds.
        let report = fixture.copy(fixture.node(), pull, "large");
        assert!(report.error.is_none(), "{:?}", report.error);
        // The relay passed on 48 MiB, including records' seals and TLS. Bytes in the receiver's sockets are lost: more than half of
        // all on a machine without free processors.
        let resumed = report.totals.resumed_bytes;
        assert!((1..=48 << 20).contains(&resumed), "{resumed} bytes were resumed");
        fixture.assert_same(from, to);
        fixture.assert_no_leftovers();
    }
}

#[test]
fn silence_is_noticed_by_both_ends() {
    let pace = Pace { ping_after: Duration::from_millis(500), gone_after: Duration::from_secs(4) };
    let fixture = NodeFixture::with_pace(pace);
    fixture.write("near/large", 64 << 20, 5);
    let rules = Rules { mute_after: Some(8 << 20), ..Rules::default() };
    let relay = Relay::start(fixture.node(), rules);
    let started = Instant::now();
    let report = fixture.push(relay.address(), "near/large", "large", false).unwrap();
    let error = report.error.expect("the node is silent");
    assert_eq!(relay.faults(), 1);
    assert!(matches!(error, Error::Silent { .. } | Error::Broken { .. }), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(60), "it took {:?}", started.elapsed());
    // The node has noticed the silence when it no longer locks the journal.
    let waited = Instant::now();
    fixture.wait_until_idle();
    assert!(waited.elapsed() < Duration::from_secs(60), "it took the node {:?}", waited.elapsed());
    assert!(!fixture.path("far/large").exists());
    assert!(fixture.unfinished() == 1, "what arrived is kept");
}

#[test]
fn jobs_can_follow_each_other_without_a_pause() {
    let fixture = NodeFixture::new();
    fixture.write("near/one", 1024, 1);
    fixture.write("near/more", 3 << 20, 1);
    for job in 0..60 {
        let from = if job % 3 == 0 { "near/more" } else { "near/one" };
        let report = fixture.push(fixture.node(), from, &format!("copy-{job}"), false).unwrap();
        assert!(report.error.is_none(), "job {job}: {:?}", report.error);
        fixture.assert_same(from, &format!("far/copy-{job}"));
    }
}

#[test]
fn one_session_carries_twenty_jobs() {
    let fixture = NodeFixture::new();
    fixture.write("near/more", 3 << 20, 1);
    let mut session = fixture.connect(fixture.node(), false).unwrap();
    for job in 0..20 {
        let report = fixture.push_on(&mut session, "near/more", &format!("copy-{job}"));
        assert!(report.error.is_none(), "job {job}: {:?}", report.error);
        fixture.assert_same("near/more", &format!("far/copy-{job}"));
    }
}
