//! The verdict on a job over real sockets whose limit is a slow disk, at either end. The buffers in between could hold the whole file.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[path = "verdict/slow.rs"]
mod slow;
mod support;

use std::sync::Arc;
use std::time::Duration;

use engine::receive::Policy;
use engine::session::{Report, SessionParts};
use model::v1::Limit;
use pilot::verdict as judge;
use slow::SlowStore;
use store::posix::Links;
use support::fixture::NodeFixture;
use support::job::TestTransfer;
use wire::frame::Direction;

/// The rate of the slow disk, in bytes per second: the job takes two seconds.
const RATE: u64 = 16_000_000;
/// The length of the file: so many blocks that a single write does not decide the verdict.
const BYTES: usize = 32 << 20;

fn verdict(report: &Report, pushing: bool) -> Limit {
    assert!(report.error.is_none(), "{:?}", report.error);
    let elapsed = report.arrived_after.unwrap_or(Duration::from_secs(1));
    judge::of(&judge::Case::new(&report.measured(), pushing, elapsed))
}

/// Whether the disk was the limit on this machine. If other programs took its processors, they were, and the test says so.
#[allow(clippy::print_stderr, reason = "the test reports what it could not test")]
fn is_judged(test: &str, limit: &Limit) -> bool {
    let lacks_processors = limit.part.ends_with("_cpu") && limit.remedy.contains("other work takes the processors");
    if lacks_processors {
        eprintln!("NOT JUDGED: {test}: {}", limit.evidence);
    }
    !lacks_processors
}

#[test]
fn a_slow_disk_at_the_source_is_the_verdict() {
    for streams in [1, 4] {
        let fixture = NodeFixture::new();
        fixture.write("near/one", BYTES, 1);
        let store = Arc::new(SlowStore::new(fixture.near(Links::Inside), RATE));
        let mut session = fixture.connect(fixture.node(), false).unwrap();
        let job = TestTransfer::new(
            NodeFixture::order(Direction::Push, "one"),
            SessionParts { streams, ..SessionParts::default() },
        );
        let report = job.push(&mut session, store, "near/one");
        session.close();
        let limit = verdict(&report, true);
        if !is_judged("a_slow_disk_at_the_source_is_the_verdict", &limit) {
            continue;
        }
        assert_eq!(limit.part, "source", "{streams} streams: {limit:?}");
        assert!(limit.evidence.starts_with("readers busy ") && limit.remedy.contains("at the source"), "{limit:?}");
    }
}

#[test]
fn a_slow_disk_at_the_target_is_the_verdict() {
    for streams in [1, 4] {
        let fixture = NodeFixture::new();
        fixture.write("far/one", BYTES, 1);
        let order = NodeFixture::order(Direction::Pull, "one");
        let policy = Policy { journals: None, ..fixture.policy(&order.options) };
        let store = Arc::new(SlowStore::new(fixture.near(Links::Refuse), RATE));
        let mut session = fixture.connect(fixture.node(), false).unwrap();
        let job = TestTransfer::new(order, SessionParts { streams, ..SessionParts::default() });
        let report = job.pull(&mut session, store, fixture.target("near/one"), policy);
        session.close();
        let limit = verdict(&report, false);
        if !is_judged("a_slow_disk_at_the_target_is_the_verdict", &limit) {
            continue;
        }
        assert_eq!(limit.part, "target", "{streams} streams: {limit:?}");
        assert!(limit.evidence.starts_with("writers busy ") && limit.remedy.contains("at the target"), "{limit:?}");
    }
}
