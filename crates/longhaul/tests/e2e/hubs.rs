//! Several hubs on one PostgreSQL: queues are divided among them, and transfers of a dead hub are continued.

use std::fs;

use crate::hub::{Hub, Member, Pair, pair};
use crate::postgres::{MISSING, Postgres};
use crate::tree::pattern;
use crate::wait::{LONG, skipped, until};

/// Two hubs on one database.
fn two_hubs(server: &Postgres) -> (Hub, Hub) {
    let url = server.database("hub");
    let start = || Hub::start(&["--db", Box::leak(url.clone().into_boxed_str())]);
    (start(), start())
}

fn done(member: &Member<'_>, id: &str) -> bool {
    member.job(id)["state"] == "done"
}

#[test]
fn another_hub_finishes_the_transfers_of_a_dead_hub() {
    let Some(server) = Postgres::start() else {
        return skipped("hubs::another_hub_finishes_the_transfers_of_a_dead_hub", MISSING);
    };
    let (mut first, second) = two_hubs(&server);
    let admin = first.member("admin", "root", "");
    let Pair { a, b } = pair(&admin);
    // The link is added at one hub, and both have it.
    admin.run(&["hub", "link", "add", "wan", "--capacity", "40Mbit/s", "--between", "alpha,beta"]).expect(0);
    let other = second.member("admin", "other", "");
    until("the other hub knows the link", LONG, || other.run(&["hub", "link", "show", "wan"]).code == 0);
    const JOBS: usize = 8;
    let ids: Vec<String> = (0..JOBS)
        .map(|at| {
            fs::write(a.data(&format!("f{at}")), pattern(6 << 20)).unwrap();
            // Of several activities, so that there are several queues.
            let activity = format!("activity{at}");
            let target = b.at(&format!("data/in/f{at}"));
            admin.submit(&[&a.at(&format!("data/f{at}")), &target, "--activity", &activity])
        })
        .collect();
    until("some of them move", LONG, || ids.iter().any(|id| other.job(id)["state"] == "running"));
    first.kill();
    until("all of them have ended", LONG, || ids.iter().all(|id| done(&other, id)));
    for at in 0..JOBS {
        assert_eq!(fs::read(b.data(&format!("in/f{at}"))).unwrap(), pattern(6 << 20), "f{at}");
    }
    // No file was moved twice: the target's node has received each of them once.
    let received = b.log().matches("event=\"push\"").count();
    let finished = b.log().matches("outcome=\"done\"").count();
    assert_eq!((received, finished), (JOBS, JOBS), "{}", b.log());
}

#[test]
fn both_hubs_begin_transfers_and_each_queue_belongs_to_one() {
    let Some(server) = Postgres::start() else {
        return skipped("hubs::both_hubs_begin_transfers_and_each_queue_belongs_to_one", MISSING);
    };
    let (first, second) = two_hubs(&server);
    let admin = first.member("admin", "root", "");
    let Pair { a, b } = pair(&admin);
    let other = second.member("admin", "other", "");
    const JOBS: usize = 12;
    for at in 0..JOBS {
        fs::write(a.data(&format!("f{at}")), "x").unwrap();
    }
    until("the hubs have met", LONG, || [&first, &second].iter().all(|hub| hub.log().contains("divided anew")));
    let ids: Vec<String> = (0..JOBS)
        .map(|at| {
            let (activity, target) = (format!("activity{at}"), b.at(&format!("data/in/f{at}")));
            let member = if at % 2 == 0 { &admin } else { &other };
            member.submit(&[&a.at(&format!("data/f{at}")), &target, "--activity", &activity])
        })
        .collect();
    until("all of them have ended", LONG, || ids.iter().all(|id| done(&admin, id)));
    let hubs = server.rows("hub", "SELECT hub, COUNT(*) FROM transfers GROUP BY hub");
    assert_eq!(hubs.len(), 2, "{hubs:?}");
    assert_eq!(server.rows("hub", "SELECT COUNT(*) FROM transfers"), [JOBS.to_string()]);
}
