//! What limited a job, over real sockets: disks that are slow, at either end, behind buffers that could hold all of it.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[path = "verdict/slow.rs"]
mod slow;
mod support;

use std::sync::Arc;
use std::time::Duration;

use engine::receive::Policy;
use engine::session::{Means, Report};
use model::v1::Limit;
use pilot::verdict as judge;
use slow::SlowStore;
use store::posix::Links;
use support::job::TestTransfer;
use support::world::NodeFixture;
use wire::frame::Direction;

/// A disk's rate at which the job takes two seconds, and for how much: so many blocks that no single write stands for the job.
const RATE: u64 = 16_000_000;
const BYTES: usize = 32 << 20;

fn verdict(report: &Report, pushing: bool) -> Limit {
    assert!(report.error.is_none(), "{:?}", report.error);
    let elapsed = report.arrived_after.unwrap_or(Duration::from_secs(1));
    judge::of(&judge::Case::new(&report.measured(), pushing, elapsed))
}

/// Whether the machine let the disk be the limit: where others had its processors, they were, which is said.
#[allow(clippy::print_stderr, reason = "what was not tested belongs to the test's own output")]
fn is_judged(test: &str, limit: &Limit) -> bool {
    let is_withheld = limit.part.ends_with("_cpu") && limit.remedy.contains("other work takes the processors");
    if is_withheld {
        eprintln!("NOT JUDGED: {test}: {}", limit.evidence);
    }
    !is_withheld
}

#[test]
fn a_slow_disk_at_the_source() {
    for streams in [1, 4] {
        let world = NodeFixture::new();
        world.write("near/one", BYTES, 1);
        let store = Arc::new(SlowStore::new(world.near(Links::Inside), RATE));
        let mut session = world.connect(world.node(), false).unwrap();
        let job = TestTransfer::new(NodeFixture::order(Direction::Push, "one"), Means { streams, ..Means::default() });
        let report = job.push(&mut session, store, "near/one");
        session.close();
        let limit = verdict(&report, true);
        if !is_judged("a_slow_disk_at_the_source", &limit) {
            continue;
        }
        assert_eq!(limit.part, "source", "{streams} streams: {limit:?}");
        assert!(limit.evidence.starts_with("readers busy ") && limit.remedy.contains("at the source"), "{limit:?}");
    }
}

#[test]
fn a_slow_disk_at_the_target() {
    for streams in [1, 4] {
        let world = NodeFixture::new();
        world.write("far/one", BYTES, 1);
        let order = NodeFixture::order(Direction::Pull, "one");
        let policy = Policy { journals: None, ..world.policy(&order.options) };
        let store = Arc::new(SlowStore::new(world.near(Links::Refuse), RATE));
        let mut session = world.connect(world.node(), false).unwrap();
        let job = TestTransfer::new(order, Means { streams, ..Means::default() });
        let report = job.pull(&mut session, store, world.target("near/one"), policy);
        session.close();
        let limit = verdict(&report, false);
        if !is_judged("a_slow_disk_at_the_target", &limit) {
            continue;
        }
        assert_eq!(limit.part, "target", "{streams} streams: {limit:?}");
        assert!(limit.evidence.starts_with("writers busy ") && limit.remedy.contains("at the target"), "{limit:?}");
    }
}
