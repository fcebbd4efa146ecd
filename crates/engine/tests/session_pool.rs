//! A session that carries several jobs: the connections stay the same, each job has its own key, and nothing is left of the job before.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::time::{Duration, Instant};

use auth::{AccessKey, Grant, Grants, Rights};
use engine::Timeouts;
use engine::session::Session;
use model::fault::{Blame, Fault};
use support::fixture::{NodeFixture, patient, rel};
use support::relay::{Relay, Rules};
use wire::liveness::Pace;

const RTT: Duration = Duration::from_millis(100);
const KEPT: Duration = Duration::from_secs(60);

fn pace() -> Pace {
    Pace { ping_after: Duration::from_millis(500), gone_after: Duration::from_secs(15) }
}

/// A kept session over the relay, with its first job done.
fn kept_session(fixture: &NodeFixture, relay: &Relay, plain: bool) -> Session {
    let mut session = fixture.connect(relay.address(), plain).unwrap();
    session.keep(KEPT).unwrap();
    let report = fixture.push_on(&mut session, "near/large", "first");
    assert!(report.error.is_none(), "{:?}", report.error);
    fixture.assert_same("near/large", "far/first");
    assert_eq!(session.idle_limit(), Some(Timeouts::default().idle));
    session
}

#[test]
fn the_next_job_goes_over_the_same_connections() {
    for plain in [false, true] {
        let fixture = NodeFixture::new();
        fixture.write("near/large", 16 << 20, 1);
        fixture.write("near/other", (16 << 20) + 7, 2);
        let relay = Relay::start(fixture.node(), Rules { one_way: RTT / 2, ..Rules::default() });
        let mut session = kept_session(&fixture, &relay, plain);
        let before = relay.connections();
        assert_eq!(before, 4, "a control connection and three streams");
        for name in ["second", "third"] {
            session.tend().unwrap();
            session.renew(&[]).unwrap();
            // A new connection would take at least two round trips.
            assert!(session.connected_after() < RTT * 3 / 2);
            let report = fixture.push_on(&mut session, "near/other", name);
            assert!(report.error.is_none(), "{name}: {:?}", report.error);
            assert_eq!(report.totals.bytes, (16 << 20) + 7);
            // The report counts this job's bytes only.
            let carried: u64 = report.streams.iter().map(|stream| stream.bytes).sum();
            assert_eq!((carried, report.streams.len()), ((16 << 20) + 7, 4), "{:?}", report.streams);
            let sent: u64 = report.streams.iter().map(|stream| stream.sent_bytes).sum();
            assert!((16 << 20..18 << 20).contains(&sent), "{sent}");
            fixture.assert_same("near/other", &format!("far/{name}"));
        }
        assert_eq!(relay.connections(), before);
        session.close();
    }
}

#[test]
fn small_jobs_keep_streams_that_they_do_not_use() {
    let fixture = NodeFixture::new();
    fixture.write("near/large", 24 << 20, 1);
    fixture.write("near/small", 1024, 2);
    // Much longer than the delays of a busy machine.
    let rtt = Duration::from_millis(500);
    let relay = Relay::start(fixture.node(), Rules { one_way: rtt / 2, ..Rules::default() });
    let mut session = kept_session(&fixture, &relay, false);
    // The job alone takes one round trip. A machine that halts for a moment delays one of the jobs, not all.
    let took = |name: &str, session: &mut Session| {
        session.renew(&[]).unwrap();
        let started = Instant::now();
        let report = fixture.push_on(session, "near/small", name);
        assert!(report.error.is_none(), "{:?}", report.error);
        started.elapsed()
    };
    let names = ["one", "two", "three", "four", "five"];
    assert!(names.into_iter().any(|name| took(name, &mut session) < rtt * 2), "each took two round trips or more");
    session.renew(&[]).unwrap();
    let report = fixture.push_on(&mut session, "near/large", "again");
    assert!(report.error.is_none(), "{:?}", report.error);
    fixture.assert_same("near/large", "far/again");
    assert_eq!(relay.connections(), 4);
}

#[test]
fn streams_that_are_lost_between_jobs_are_replaced() {
    let fixture = NodeFixture::new();
    fixture.write("near/large", 24 << 20, 1);
    // Each stream is cut in its second job, or at its end.
    let rules = Rules { cut_streams_after: Some(12 << 20), streams_to_cut: 3, ..Rules::default() };
    let relay = Relay::start(fixture.node(), rules);
    let mut session = kept_session(&fixture, &relay, false);
    for name in ["second", "third"] {
        session.renew(&[]).unwrap();
        let report = fixture.push_on(&mut session, "near/large", name);
        assert!(report.error.is_none(), "{name}: {:?}", report.error);
        fixture.assert_same("near/large", &format!("far/{name}"));
    }
    assert!(relay.cut() > 0);
}

fn fingerprint(fixture: &NodeFixture) -> auth::Fingerprint {
    client::StateDir::open(&fixture.path("state")).unwrap().fingerprint().unwrap()
}

/// Adds a grant for each path. Returns the identifiers and secrets of their keys.
fn add_keys(grants: &mut Grants, paths: &[&str]) -> Vec<([u8; 8], [u8; 32])> {
    let make = |(at, path): (usize, &&str)| {
        let id = [at as u8 + 1; 8];
        let secret = [at as u8 + 1; 32];
        grants.list.push(Grant::new(id, &secret, "far".into(), &rel(path), Rights::Write, 0));
        (id, secret)
    };
    paths.iter().enumerate().map(make).collect()
}

#[test]
fn the_rights_of_a_key_end_with_the_next_login() {
    let mut grants = Grants::default();
    let keys = add_keys(&mut grants, &["a", "b"]);
    let fixture = NodeFixture::with(Timeouts { handshake: Duration::from_secs(15), ..patient(pace()) }, grants);
    fixture.write("near/large", 9 << 20, 1);
    let node = fingerprint(&fixture);
    let [a, b] = [0, 1].map(|at: usize| [AccessKey::new(keys[at].0, keys[at].1, node)]);
    let mut session = fixture.connect_with(fixture.node(), false, &a).unwrap();
    session.keep(KEPT).unwrap();
    let refused = |session: &mut Session, to: &str| {
        let error = fixture.push_on(session, "near/large", to).error;
        error.is_some_and(|error| error.fault() == Fault::Auth)
    };
    assert!(fixture.push_on(&mut session, "near/large", "a/1").error.is_none());
    session.renew(&b).unwrap();
    assert!(fixture.push_on(&mut session, "near/large", "b/1").error.is_none());
    session.renew(&a).unwrap();
    assert!(refused(&mut session, "b/2"), "the rights of the key before");
    assert!(!fixture.path("far/b/2").exists() && fixture.path("far/b/1").exists());
    // A key that the node does not know ends the session.
    let mut session = fixture.connect_with(fixture.node(), false, &a).unwrap();
    session.keep(KEPT).unwrap();
    assert!(fixture.push_on(&mut session, "near/large", "a/2").error.is_none());
    session.renew(&[AccessKey::new([9; 8], [9; 32], node)]).unwrap();
    assert!(refused(&mut session, "a/3"));
}

#[test]
fn a_kept_session_ends_when_its_time_is_over() {
    let timeouts = Timeouts { idle: Duration::from_millis(600), handshake: Duration::from_secs(5), ..patient(pace()) };
    let fixture = NodeFixture::with(timeouts, Grants::default());
    fixture.write("near/large", 9 << 20, 1);
    let mut session = fixture.connect(fixture.node(), false).unwrap();
    session.keep(KEPT).unwrap();
    let started = Instant::now();
    assert!(fixture.push_on(&mut session, "near/large", "one").error.is_none());
    // The node keeps the session for longer than one that did not ask to be kept, and then closes it.
    while session.tend().is_ok() {
        assert!(started.elapsed() < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(started.elapsed() > Duration::from_secs(5), "{:?}", started.elapsed());
}
