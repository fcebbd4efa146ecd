//! Tests of what the portal needs, on both databases: paused and limited jobs, share links, deleted files, repeated orders, notices and the
//! audit trail.

use hub::database::actions::ActionRow;
use hub::database::deletions::DeletionRow;
use hub::database::outcomes::Outcome;
use hub::database::repeats::RepeatRow;
use hub::database::share_links::ShareLinkRow;
use model::v1::Stage;
use model::v1::hub::{JobChange, JobOrder};

use super::{Hub, done, file, order};
use uuid::Uuid;

fn paused(is_paused: bool) -> JobChange {
    JobChange { paused: Some(is_paused), ..JobChange::default() }
}

/// The numbers of files in queues that are not paused, and in queues that are.
async fn queued(hub: &Hub) -> (i64, i64) {
    let queues = hub.database.queues().await.unwrap();
    let sum = |is_paused: bool| {
        let of = queues.iter().filter(|queue| (queue.key.priority == hub::states::PAUSED) == is_paused);
        of.map(|queue| queue.queued).sum()
    };
    (sum(false), sum(true))
}

async fn change(hub: &Hub, id: Uuid, change: JobChange) {
    let stored = hub.database.job(&id.to_string()).await.unwrap().unwrap();
    hub.database.change_job(stored, change, "ann".into(), hub.now).await.unwrap();
}

pub async fn a_paused_job_waits_and_resumes_unchanged(hub: Hub) {
    let order = order((0..3).map(|at| file(&at.to_string(), &["a"])).collect());
    let id = order.id.unwrap();
    hub.submit(&order).await;
    let running = hub.claim(1).await.unwrap();
    change(&hub, id, JobChange { priority: Some(5), ..JobChange::default() }).await;
    change(&hub, id, paused(true)).await;
    change(&hub, id, paused(true)).await;
    assert_eq!(queued(&hub).await, (0, 2));
    let job = hub.job(id).await;
    assert_eq!((job.paused, job.priority, job.state), (true, 5, Stage::Running), "running files go on");
    // A file that fails meanwhile waits like the others.
    let again = Outcome::Retry { not_before: 0, fault: "peer".into(), reason: "it broke".into() };
    hub.end(&running, |_| again.clone()).await;
    assert_eq!((queued(&hub).await, hub.job(id).await.state), ((0, 3), Stage::Paused));
    // A new priority takes effect once the job goes on.
    change(&hub, id, JobChange { priority: Some(2), ..JobChange::default() }).await;
    assert_eq!((queued(&hub).await, hub.job(id).await.priority), ((0, 3), 2));
    change(&hub, id, paused(false)).await;
    let job = hub.job(id).await;
    assert_eq!((queued(&hub).await, job.paused, job.priority), ((3, 0), false, 2));
    assert_eq!(hub.claim(10).await.unwrap().files.len(), 3);
}

pub async fn a_limited_job_gets_its_own_queues_with_its_transfers(hub: Hub) {
    let limited_to = |limit| JobChange { limit_bit_s: Some(limit), ..JobChange::default() };
    let of_queues = async |hub: &Hub| -> Vec<(bool, Option<f64>, i64, i64)> {
        let queues = hub.database.queues().await.unwrap();
        queues.iter().map(|queue| (queue.key.limited_job > 0, queue.limit, queue.queued, queue.running)).collect()
    };
    let name = |at: usize| file(&at.to_string(), &[&format!("lh://a/e/{at}")]);
    let (long, other) = (order((0..4).map(name).collect()), order(vec![name(9)]));
    let id = long.id.unwrap();
    hub.submit(&long).await;
    hub.submit(&other).await;
    let alone = hub.claim(2).await.unwrap();
    let mixed = hub.claim(3).await.unwrap();
    assert_eq!(of_queues(&hub).await, [(false, None, 0, 5)]);
    change(&hub, id, limited_to(80)).await;
    // A transfer that also has a file of the other job is not limited.
    assert_eq!(of_queues(&hub).await, [(false, None, 0, 1), (true, Some(10.0), 0, 4)]);
    let transfers = hub.database.unended_transfers().await.unwrap();
    let queue_of = |number| transfers.iter().find(|one| one.number == number).unwrap().queue;
    assert_eq!(queue_of(mixed.number), mixed.queue);
    assert_ne!(queue_of(alone.number), alone.queue);
    assert_eq!(hub.job(id).await.limit_bit_s, Some(80));
    // A file that fails waits in the limited queue; another limit, or none, moves it along.
    let again = Outcome::Retry { not_before: 0, fault: "peer".into(), reason: "it broke".into() };
    hub.end(&mixed, |_| again.clone()).await;
    change(&hub, id, limited_to(160)).await;
    assert_eq!(of_queues(&hub).await, [(false, None, 1, 0), (true, Some(20.0), 2, 2)]);
    change(&hub, id, limited_to(0)).await;
    assert_eq!((of_queues(&hub).await, hub.job(id).await.limit_bit_s), (vec![(false, None, 3, 2)], None));
    hub.end(&alone, done).await;
    let new = JobOrder { limit_bit_s: Some(800), ..order(vec![name(10)]) };
    hub.submit(&new).await;
    assert_eq!(of_queues(&hub).await, [(false, None, 3, 0), (true, Some(100.0), 1, 0)]);
    assert_eq!(hub.job(new.id.unwrap()).await.limit_bit_s, Some(800));
    assert_eq!(hub.job(other.id.unwrap()).await.limit_bit_s, None);
}

pub async fn a_share_link_is_found_by_its_token_and_counts_password_tries(hub: Hub) {
    let link = |id: &str, owner: &str| ShareLinkRow {
        id: id.to_owned(),
        token_sha256: format!("token of {id}"),
        owner: owner.to_owned(),
        target: "lh://a/e/".to_owned(),
        kind: "read".to_owned(),
        created: hub.now,
        expires: hub.now + 1000,
        ..ShareLinkRow::default()
    };
    hub.database.add_share_link(link("1", "ann")).await.unwrap();
    hub.database.add_share_link(link("2", "bob")).await.unwrap();
    let found = hub.database.share_link_of_token("token of 1").await.unwrap().unwrap();
    assert_eq!(found, link("1", "ann"));
    let (anns, all) =
        (hub.database.share_links("ann", 10).await.unwrap(), hub.database.share_links("", 10).await.unwrap());
    assert_eq!((anns.len(), all.len()), (1, 2));
    let mut taken = Vec::new();
    for after in [0, 0, 0, 59_999, 60_000] {
        taken.push(hub.database.take_password_try("1".into(), hub.now + after, 3, 60_000).await.unwrap());
    }
    assert_eq!(taken, [true, true, true, false, true], "after three tries none is checked for a minute");
    hub.database.record_link_opened("1".into()).await.unwrap();
    let opened = hub.database.share_link("1").await.unwrap().unwrap();
    assert_eq!((opened.opened, opened.failures), (1, 0));
    hub.database.remove_share_link("1".into()).await.unwrap();
    assert!(hub.database.share_link_of_token("token of 1").await.unwrap().is_none());
}

pub async fn deleted_files_are_kept_until_they_expire(hub: Hub) {
    let row = DeletionRow {
        id: "1".into(),
        owner: "ann".into(),
        endpoint: "a".into(),
        target: "lh://a/e/f".into(),
        kept_at: "lh://a/e/.longhaul-deleted-1".into(),
        deleted: hub.now,
        expires: hub.now + 100,
    };
    hub.database.add_deletion(row.clone()).await.unwrap();
    assert_eq!(hub.database.deletion("1").await.unwrap(), Some(row.clone()));
    assert_eq!(hub.database.take_expired_deletion(hub.now + 99, 1000).await.unwrap(), None);
    assert_eq!(hub.database.take_expired_deletion(hub.now + 100, 1000).await.unwrap(), Some(row));
    assert_eq!(hub.database.take_expired_deletion(hub.now + 101, 1000).await.unwrap(), None, "another hub works on it");
    hub.database.remove_deletion("1".into()).await.unwrap();
    assert!(hub.database.deletions("", 10).await.unwrap().is_empty());
}

pub async fn a_repeated_order_is_due_at_its_time(hub: Hub) {
    let row = RepeatRow {
        id: "1".into(),
        owner: "ann".into(),
        order: "{}".into(),
        every: "day".into(),
        next_run: hub.now + 10,
        created: hub.now,
        ..RepeatRow::default()
    };
    hub.database.add_repeat(row.clone()).await.unwrap();
    assert_eq!(hub.database.due_repeat(hub.now + 9).await.unwrap(), None);
    assert_eq!(hub.database.due_repeat(hub.now + 10).await.unwrap(), Some(row));
    hub.database.record_repeat("1".into(), hub.now + 20, "job".into(), String::new()).await.unwrap();
    assert_eq!(hub.database.due_repeat(hub.now + 10).await.unwrap(), None);
    assert_eq!(hub.database.repeats("ann").await.unwrap()[0].last_job, "job");
    hub.database.remove_repeat("1".into()).await.unwrap();
    assert!(hub.database.repeat("1").await.unwrap().is_none());
}

pub async fn a_notice_of_an_ended_job_is_sent_until_it_is_received(hub: Hub) {
    let mut order = order(vec![file("1", &["a"])]);
    order.notify = Some("https://x.example/hook".to_owned());
    hub.submit(&order).await;
    let take = |now: i64| hub.database.take_notice(now, 1000);
    assert_eq!(take(hub.now).await.unwrap(), None, "it has not ended");
    let claim = hub.claim(1).await.unwrap();
    hub.end(&claim, |_| Outcome::Done { bytes: 1 }).await;
    let notice = take(hub.now).await.unwrap().unwrap();
    assert_eq!((notice.url.as_str(), notice.tries), ("https://x.example/hook", 1));
    assert_eq!(take(hub.now).await.unwrap(), None, "another hub works on it");
    hub.database.settle_notice(notice.job, Some(hub.now + 10)).await.unwrap();
    assert_eq!(take(hub.now + 9).await.unwrap(), None);
    assert_eq!(take(hub.now + 10).await.unwrap().unwrap().tries, 2);
    hub.database.settle_notice(notice.job, None).await.unwrap();
    assert_eq!(take(i64::MAX / 2).await.unwrap(), None);
}

async fn owners(hub: &Hub, by: &str) -> Vec<String> {
    let rows = hub.database.actions(by, i64::MAX, 10).await.unwrap();
    rows.into_iter().map(|row| row.owner).collect()
}

pub async fn actions_are_kept_in_order_for_400_days(hub: Hub) {
    const DAY_MS: i64 = 86_400_000;
    let action = |owner: &str, at: i64| ActionRow {
        at,
        owner: owner.into(),
        address: "192.0.2.1".into(),
        what: "stop".into(),
        path: "/api/v1/stops/all".into(),
        status: 200,
        ..ActionRow::default()
    };
    let first = vec![action("ann", hub.now), action("bob", hub.now + 1)];
    hub.database.keep_actions(first).await.unwrap();
    assert_eq!(owners(&hub, "").await, ["bob", "ann"]);
    assert_eq!(owners(&hub, "ann").await, ["ann"]);
    let rows = hub.database.actions("", i64::MAX, 1).await.unwrap();
    let before = hub.database.actions("", rows[0].number, 10).await.unwrap();
    assert_eq!(before[0].owner, "ann");
    hub.database.keep_actions(vec![action("eve", hub.now + 401 * DAY_MS)]).await.unwrap();
    assert_eq!(owners(&hub, "").await, ["eve"]);
}
