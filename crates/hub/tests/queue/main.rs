//! Tests of the queue on real databases, SQLite and PostgreSQL: files are submitted, claimed and ended.
#![allow(clippy::unwrap_used, missing_docs)]

mod databases;
mod fts;
mod people;
#[path = "../servers/postgres.rs"]
#[allow(dead_code, reason = "the tests of the program need more of it")]
mod postgres;
mod retention;

use hub::admission::admit;
use hub::database::Database;
use hub::database::claims::{Claim, ClaimRequest, EndpointLimits};
use hub::database::jobs::JobFilter;
use hub::database::outcomes::{Outcome, TransferOutcome};
use hub::database::submissions::{NewJob, SubmitResult};
use hub::roles::Member;
use hub::topology::Topology;
use model::v1::Stage;
use model::v1::hub::{FileOrder, Job, JobChange, JobOrder};
use uuid::Uuid;

use fts::{
    a_cancelled_file_is_not_queued_again, bans_and_config_changes_are_stored,
    tokens_are_kept_until_their_file_has_ended,
};
use people::{
    a_limited_job_gets_its_own_queues_with_its_transfers, a_notice_of_an_ended_job_is_sent_until_it_is_received,
    a_paused_job_waits_and_resumes_unchanged, a_repeated_order_is_due_at_its_time,
    a_share_link_is_found_by_its_token_and_counts_password_tries, actions_are_kept_in_order_for_400_days,
    deleted_files_are_kept_until_they_expire,
};
use retention::{a_delegated_proxy_is_kept_for_its_owner_until_it_expires, changes_of_files_are_kept_for_a_broker};

pub struct Hub {
    database: Database,
    limits: EndpointLimits,
    now: i64,
}

impl Hub {
    async fn open(url: &str) -> Hub {
        let (database, _) = Database::open(url).await.unwrap();
        Hub { database, limits: EndpointLimits::default(), now: 1_000_000 }
    }

    fn admitted(&self, order: &JobOrder) -> NewJob {
        admit(order, &Member::user("ann", "astro"), &Topology::default(), self.now).unwrap()
    }

    async fn submit(&self, order: &JobOrder) -> SubmitResult {
        self.database.writer.submit(vec![self.admitted(order)]).await.unwrap().remove(0)
    }

    async fn job(&self, id: Uuid) -> Job {
        self.database.job(&id.to_string()).await.unwrap().unwrap().job
    }

    async fn claim(&self, files: usize) -> Option<Claim> {
        for queue in self.database.queues().await.unwrap() {
            let wanted = ClaimRequest {
                queue: queue.id,
                carrier: queue.key.source.clone(),
                hub: "one".into(),
                limits: self.limits,
                files,
                bytes: i64::MAX,
                now: self.now,
                can_share_transfer: |_, _| true,
            };
            if let Some(claim) = self.database.claim(wanted).await.unwrap() {
                return Some(claim);
            }
        }
        None
    }

    async fn end(&self, claim: &Claim, outcome: impl Fn(i64) -> Outcome) {
        let files = claim.files.iter().map(|file| (file.id, outcome(file.id))).collect();
        self.database
            .store_outcomes(TransferOutcome { transfer: claim.number, now: self.now, files, is_over: true })
            .await
            .unwrap();
    }

    async fn states(&self, id: Uuid) -> Vec<String> {
        let job = self.database.job(&id.to_string()).await.unwrap().unwrap();
        self.database.files(&job, 0, 1000).await.unwrap().into_iter().map(|file| file.state).collect()
    }
}

fn file(name: &str, sources: &[&str]) -> FileOrder {
    FileOrder {
        sources: sources.iter().map(|host| format!("lh://{host}/d/{name}")).collect(),
        target: format!("lh://target/d/{name}"),
        bytes: Some(10),
        ..FileOrder::default()
    }
}

fn order(files: Vec<FileOrder>) -> JobOrder {
    JobOrder { id: Some(Uuid::now_v7()), files, ..JobOrder::default() }
}

fn done(_: i64) -> Outcome {
    Outcome::Done { bytes: 10 }
}

fn failed(_: i64) -> Outcome {
    Outcome::Failed { fault: "missing".into(), reason: "it is not there".into() }
}

fn counts(job: &Job) -> [u64; 5] {
    [job.queued, job.running, job.done, job.failed, job.cancelled]
}

async fn a_job_goes_from_queued_to_ended(hub: Hub) {
    let order = order((0..3).map(|at| file(&at.to_string(), &["a"])).collect());
    let id = order.id.unwrap();
    assert_eq!(hub.submit(&order).await, SubmitResult::New);
    let job = hub.job(id).await;
    assert_eq!((job.state, job.files, job.bytes, counts(&job)), (Stage::Queued, 3, 30, [3, 0, 0, 0, 0]));
    assert_eq!(hub.admitted(&order).to_api(), job, "the answer to the submission is the job that is read later");

    let claim = hub.claim(2).await.unwrap();
    assert_eq!((claim.files.len(), claim.files[0].attempt), (2, 1));
    assert_eq!(counts(&hub.job(id).await), [1, 2, 0, 0, 0]);
    hub.end(&claim, done).await;
    let job = hub.job(id).await;
    assert_eq!((job.state, counts(&job), job.done_bytes), (Stage::Waiting, [1, 0, 2, 0, 0], 20));

    let claim = hub.claim(10).await.unwrap();
    hub.end(&claim, failed).await;
    let job = hub.job(id).await;
    assert_eq!((job.state, counts(&job)), (Stage::Partial, [0, 0, 2, 1, 0]));
    assert!(job.ended.is_some() && hub.database.queues().await.unwrap().is_empty());
    assert!(hub.claim(10).await.is_none());
}

async fn an_order_that_is_sent_twice_is_one_job(hub: Hub) {
    let order = order(vec![file("1", &["a"])]);
    assert_eq!(hub.submit(&order).await, SubmitResult::New);
    assert_eq!(hub.submit(&order).await, SubmitResult::Known);
    let other = JobOrder { files: vec![file("2", &["a"])], ..order };
    assert_eq!(hub.submit(&other).await, SubmitResult::Conflict);
    assert_eq!(hub.database.jobs(&JobFilter { limit: 10, ..JobFilter::default() }).await.unwrap().len(), 1);
}

async fn submissions_that_come_together_are_all_stored(hub: Hub) {
    let orders: Vec<JobOrder> = (0..300).map(|at| order(vec![file(&at.to_string(), &["a"])])).collect();
    let submitted = orders.iter().map(|order| {
        let job = admit(order, &Member::user("ann", "astro"), &Topology::default(), 1).unwrap();
        let writer = hub.database.writer.clone();
        tokio::spawn(async move { writer.submit(vec![job]).await.unwrap().remove(0) })
    });
    for task in submitted.collect::<Vec<_>>() {
        assert_eq!(task.await.unwrap(), SubmitResult::New);
    }
    let queues = hub.database.queues().await.unwrap();
    assert_eq!((queues.len(), queues[0].queued, queues[0].queued_bytes), (1, 300, 3000));
    for order in &orders {
        assert_eq!(hub.states(order.id.unwrap()).await, ["queued"]);
    }
}

async fn the_next_source_is_tried_if_one_fails(hub: Hub) {
    let order = order(vec![file("1", &["a", "b"]), file("2", &["a", "b"])]);
    let id = order.id.unwrap();
    hub.submit(&order).await;
    assert_eq!(hub.states(id).await, ["queued", "standby", "queued", "standby"]);
    let claim = hub.claim(1).await.unwrap();
    hub.end(&claim, failed).await;
    assert_eq!(hub.states(id).await, ["failed", "queued", "queued", "standby"]);
    assert_eq!(counts(&hub.job(id).await), [2, 0, 0, 0, 0]);
    while let Some(claim) = hub.claim(1).await {
        hub.end(&claim, done).await;
    }
    assert_eq!(hub.states(id).await, ["failed", "done", "done", "standby"]);
    let job = hub.job(id).await;
    assert_eq!((job.state, job.files, counts(&job)), (Stage::Done, 2, [0, 0, 2, 0, 0]));
}

async fn a_hop_begins_when_the_one_before_it_is_done(hub: Hub) {
    let hop = |from: &str, to: &str| FileOrder {
        sources: vec![format!("lh://{from}/d/1")],
        target: format!("lh://{to}/d/1"),
        bytes: Some(10),
        ..FileOrder::default()
    };
    let mut order = order(vec![hop("a", "b"), hop("b", "c"), hop("c", "d")]);
    (order.options.multihop, order.options.overwrite_hops) = (true, true);
    let id = order.id.unwrap();
    hub.submit(&order).await;
    assert_eq!(hub.states(id).await, ["queued", "standby", "standby"]);
    for _ in 0..2 {
        let claim = hub.claim(1).await.unwrap();
        assert!(claim.files[0].overwrites(), "another hop follows");
        hub.end(&claim, done).await;
    }
    assert_eq!(hub.states(id).await, ["done", "done", "queued"]);
    assert_eq!(hub.job(id).await.state, Stage::Queued);
    let claim = hub.claim(1).await.unwrap();
    assert!(!claim.files[0].overwrites(), "it is the last hop");
    hub.end(&claim, failed).await;
    let job = hub.job(id).await;
    assert_eq!((job.state, job.files, counts(&job)), (Stage::Failed, 1, [0, 0, 0, 1, 0]));
}

async fn a_failed_attempt_waits_and_a_returned_one_does_not_count(mut hub: Hub) {
    let order = order(vec![file("1", &["a"])]);
    let id = order.id.unwrap();
    hub.submit(&order).await;
    let claim = hub.claim(1).await.unwrap();
    let later = hub.now + 5_000;
    let again = |_| Outcome::Retry { not_before: later, fault: "path".into(), reason: "timed out".into() };
    hub.end(&claim, again).await;
    assert!(hub.claim(1).await.is_none(), "it waits");
    hub.now = later;
    let claim = hub.claim(1).await.unwrap();
    assert_eq!(claim.files[0].attempt, 2);
    hub.end(&claim, |_| Outcome::Returned).await;
    assert_eq!(hub.claim(1).await.unwrap().files[0].attempt, 2);
    let job = hub.database.job(&id.to_string()).await.unwrap().unwrap();
    let file = &hub.database.files(&job, 0, 10).await.unwrap()[0];
    assert_eq!((file.attempts, file.error.as_deref(), file.fault.as_deref()), (2, Some("timed out"), Some("path")));
}

async fn an_outcome_reported_twice_counts_once(hub: Hub) {
    let order = order(vec![file("1", &["a"])]);
    let id = order.id.unwrap();
    hub.submit(&order).await;
    let claim = hub.claim(1).await.unwrap();
    hub.end(&claim, done).await;
    hub.end(&claim, failed).await;
    hub.end(&claim, done).await;
    let job = hub.job(id).await;
    assert_eq!((job.state, counts(&job)), (Stage::Done, [0, 0, 1, 0, 0]));
}

async fn a_stopped_file_goes_to_its_next_source_or_waits(hub: Hub) {
    let order = order(vec![file("1", &["a", "b"]), file("2", &["a"])]);
    let id = order.id.unwrap();
    hub.submit(&order).await;
    let claim = hub.claim(2).await.unwrap();
    let next = |at: usize| hub.database.next_source(&claim.files[at]);
    let first = next(0).await.unwrap().unwrap();
    assert_eq!((first.pair.0.as_str(), first.job_bytes, next(1).await.unwrap()), ("lh://b", 20, None));
    hub.end(&claim, |_| Outcome::Stopped).await;
    assert_eq!(hub.states(id).await, ["failed", "queued", "queued"]);
    let claim = hub.claim(2).await.unwrap();
    assert_eq!(claim.files[0].source, "lh://b/d/1", "the stopped file waits for a while");
    hub.end(&claim, done).await;
    assert!(hub.claim(1).await.is_none());
    let job = hub.job(id).await;
    assert_eq!(counts(&job), [1, 0, 1, 0, 0]);
}

async fn a_cancelled_job_ends_with_its_running_files(hub: Hub) {
    let order = order((0..3).map(|at| file(&at.to_string(), &["a"])).collect());
    let id = order.id.unwrap();
    hub.submit(&order).await;
    let claim = hub.claim(1).await.unwrap();
    let stored = hub.database.job(&id.to_string()).await.unwrap().unwrap();
    let cancel = JobChange { cancel: true, ..JobChange::default() };
    assert!(hub.database.change_job(stored.clone(), cancel, "ann".into(), hub.now).await.unwrap());
    let job = hub.job(id).await;
    assert_eq!((job.state, counts(&job)), (Stage::Running, [0, 1, 0, 0, 2]));
    assert_eq!(hub.database.transfers_of(&stored).await.unwrap(), [claim.id.to_string()]);
    hub.end(&claim, |_| Outcome::Stopped).await;
    let job = hub.job(id).await;
    assert_eq!((job.state, counts(&job)), (Stage::Cancelled, [0, 0, 0, 0, 3]));
    assert!(!hub.database.change_job(stored, cancel, "ann".into(), hub.now).await.unwrap(), "it has ended");
}

async fn a_cancelled_job_is_not_queued_again(hub: Hub) {
    let order = order(vec![file("1", &["a"])]);
    let id = order.id.unwrap();
    hub.submit(&order).await;
    let claim = hub.claim(1).await.unwrap();
    let stored = hub.database.job(&id.to_string()).await.unwrap().unwrap();
    let cancel = JobChange { cancel: true, ..JobChange::default() };
    hub.database.change_job(stored, cancel, "ann".into(), hub.now).await.unwrap();
    hub.end(&claim, |_| Outcome::Retry { not_before: 0, fault: "path".into(), reason: "timed out".into() }).await;
    let job = hub.job(id).await;
    assert_eq!((job.state, counts(&job)), (Stage::Cancelled, [0, 0, 0, 0, 1]));
    assert!(hub.claim(1).await.is_none());
}

async fn a_new_priority_moves_waiting_files_to_another_queue(hub: Hub) {
    let order = order((0..3).map(|at| file(&at.to_string(), &["a", "b"])).collect());
    let id = order.id.unwrap();
    hub.submit(&order).await;
    hub.claim(1).await.unwrap();
    let stored = hub.database.job(&id.to_string()).await.unwrap().unwrap();
    let change = JobChange { priority: Some(5), ..JobChange::default() };
    hub.database.change_job(stored, change, "ann".into(), hub.now).await.unwrap();
    let queues = hub.database.queues().await.unwrap();
    let rows: Vec<_> =
        queues.iter().map(|queue| (queue.key.priority, queue.queued, queue.running, queue.queued_bytes)).collect();
    assert_eq!(rows, [(3, 0, 1, 0), (5, 2, 0, 20)]);
    assert_eq!(hub.job(id).await.priority, 5);
}

async fn files_that_wait_too_long_fail(hub: Hub) {
    let mut order = order(vec![file("1", &["a", "b"]), file("2", &["a"])]);
    order.options.queue_for_s = Some(60);
    let id = order.id.unwrap();
    hub.submit(&order).await;
    let claim = hub.claim(1).await.unwrap();
    assert_eq!(hub.database.expire_files(hub.now + 59_999).await.unwrap(), 0);
    assert_eq!(hub.database.expire_files(hub.now + 60_000).await.unwrap(), 1);
    assert_eq!(hub.states(id).await, ["running", "standby", "failed"], "running files go on");
    hub.end(&claim, done).await;
    let job = hub.job(id).await;
    assert_eq!((job.state, counts(&job)), (Stage::Partial, [0, 0, 1, 1, 0]));
    assert!(hub.database.queues().await.unwrap().is_empty());
}

async fn a_claim_can_be_read_again(hub: Hub) {
    hub.submit(&order((0..3).map(|at| file(&at.to_string(), &["a"])).collect())).await;
    let claim = hub.claim(2).await.unwrap();
    let transfers = hub.database.unended_transfers().await.unwrap();
    assert_eq!((transfers.len(), transfers[0].number, transfers[0].hub.as_str()), (1, claim.number, "one"));
    assert_eq!(hub.database.unended_claim(claim.number).await.unwrap(), Some(claim.clone()));
    let first = vec![(claim.files[0].id, done(0))];
    hub.database
        .store_outcomes(TransferOutcome { transfer: claim.number, now: hub.now, files: first, is_over: false })
        .await
        .unwrap();
    let rest = hub.database.unended_claim(claim.number).await.unwrap().unwrap();
    assert_eq!((rest.files.len(), rest.is_whole(), &rest.order), (1, false, &claim.order), "the order is unchanged");
}

async fn an_endpoint_has_no_more_transfers_than_it_may(mut hub: Hub) {
    hub.limits = EndpointLimits { out_transfers: 2, in_transfers: 3, ..EndpointLimits::default() };
    hub.submit(&order((0..5).map(|at| file(&at.to_string(), &["a"])).collect())).await;
    let first = hub.claim(1).await.unwrap();
    assert!(hub.claim(1).await.is_some() && hub.claim(1).await.is_none(), "a has two at once");
    hub.submit(&order((0..5).map(|at| file(&at.to_string(), &["b"])).collect())).await;
    assert!(hub.claim(1).await.is_some() && hub.claim(1).await.is_none(), "the target has three at once");
    hub.end(&first, done).await;
    assert!(hub.claim(1).await.is_some() && hub.claim(1).await.is_none());
}

async fn bytes_in_flight_are_bounded_by_the_space_limit(mut hub: Hub) {
    hub.limits.space_bytes = 25;
    hub.submit(&order((0..5).map(|at| file(&at.to_string(), &["a"])).collect())).await;
    let first = hub.claim(10).await.unwrap();
    assert_eq!(first.files.len(), 2, "of 10 bytes each");
    assert!(hub.claim(10).await.is_none());
    hub.end(&first, done).await;
    assert_eq!(hub.claim(10).await.map(|claim| claim.files.len()), Some(2));
}

async fn transfers_of_cancelled_jobs_are_listed_to_be_stopped(hub: Hub) {
    let (mine, other) = (order(vec![file("1", &["a"])]), order(vec![file("2", &["a"])]));
    hub.submit(&mine).await;
    let claim = hub.claim(1).await.unwrap();
    hub.submit(&other).await;
    hub.claim(1).await.unwrap();
    let stored = hub.database.job(&mine.id.unwrap().to_string()).await.unwrap().unwrap();
    assert!(hub.database.cancelled_transfers("one").await.unwrap().is_empty());
    let cancel = JobChange { cancel: true, ..JobChange::default() };
    hub.database.change_job(stored, cancel, "ann".into(), hub.now).await.unwrap();
    assert_eq!(hub.database.cancelled_transfers("one").await.unwrap(), [claim.number]);
    assert!(hub.database.cancelled_transfers("another").await.unwrap().is_empty());
    hub.end(&claim, |_| Outcome::Stopped).await;
    assert!(hub.database.cancelled_transfers("one").await.unwrap().is_empty());
}

/// A full disk makes SQLite roll back a transaction by itself.
async fn writes_after_a_failed_transaction_are_stored(hub: Hub) {
    for at in 0..3 {
        let broken = hub.database.writer.change(|connection| {
            Box::pin(async move {
                sqlx::query("ROLLBACK").execute(connection).await?;
                Ok(())
            })
        });
        assert!(broken.await.is_err());
        let order = order(vec![file(&at.to_string(), &["a"])]);
        assert_eq!(hub.submit(&order).await, SubmitResult::New);
        assert_eq!(hub.job(order.id.unwrap()).await.queued, 1, "other connections see it");
    }
}

async fn a_silent_hub_is_removed_and_its_transfers_are_adopted_once(hub: Hub) {
    let database = &hub.database;
    assert_eq!(database.record_heartbeat("one").await.unwrap(), ["one"]);
    assert_eq!(database.record_heartbeat("two").await.unwrap(), ["one", "two"]);
    database.remove_hub("two").await.unwrap();
    assert_eq!(database.record_heartbeat("one").await.unwrap(), ["one"]);
    hub.submit(&order(vec![file("1", &["a"])])).await;
    hub.claim(1).await.unwrap();
    let transfer = database.unended_transfers().await.unwrap().remove(0);
    assert!(database.take_over_transfer(&transfer, "two").await.unwrap());
    assert!(!database.take_over_transfer(&transfer, "three").await.unwrap(), "its hub is not the one that was read");
    database.publish_rates(vec![(transfer.number, 5)]).await.unwrap();
    let now = database.unended_transfers().await.unwrap().remove(0);
    assert_eq!((now.hub.as_str(), now.rate), ("two", 5));
}

/// Runs each test on a new database of either kind.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $name() {
                let state = tempfile::tempdir().unwrap();
                let url = format!("sqlite:{}/hub.db", state.path().display());
                super::$name(super::Hub::open(&url).await).await;
            })*
        }

        mod on_postgres {
            $(#[tokio::test]
            async fn $name() {
                if let Some(database) = super::databases::new() {
                    super::$name(super::Hub::open(&database.url).await).await;
                }
            })*
        }
    };
}

on_both!(
    a_cancelled_file_is_not_queued_again,
    tokens_are_kept_until_their_file_has_ended,
    bans_and_config_changes_are_stored,
    changes_of_files_are_kept_for_a_broker,
    a_limited_job_gets_its_own_queues_with_its_transfers,
    a_share_link_is_found_by_its_token_and_counts_password_tries,
    a_paused_job_waits_and_resumes_unchanged,
    actions_are_kept_in_order_for_400_days,
    a_notice_of_an_ended_job_is_sent_until_it_is_received,
    a_repeated_order_is_due_at_its_time,
    deleted_files_are_kept_until_they_expire,
    a_delegated_proxy_is_kept_for_its_owner_until_it_expires,
    a_job_goes_from_queued_to_ended,
    an_order_that_is_sent_twice_is_one_job,
    submissions_that_come_together_are_all_stored,
    the_next_source_is_tried_if_one_fails,
    a_hop_begins_when_the_one_before_it_is_done,
    a_failed_attempt_waits_and_a_returned_one_does_not_count,
    an_outcome_reported_twice_counts_once,
    a_stopped_file_goes_to_its_next_source_or_waits,
    a_cancelled_job_ends_with_its_running_files,
    a_cancelled_job_is_not_queued_again,
    a_new_priority_moves_waiting_files_to_another_queue,
    files_that_wait_too_long_fail,
    a_claim_can_be_read_again,
    an_endpoint_has_no_more_transfers_than_it_may,
    bytes_in_flight_are_bounded_by_the_space_limit,
    transfers_of_cancelled_jobs_are_listed_to_be_stopped,
    writes_after_a_failed_transaction_are_stored,
    a_silent_hub_is_removed_and_its_transfers_are_adopted_once,
);

/// Two hubs on one database never claim the same file, and never assign a number twice.
#[tokio::test]
async fn two_hubs_share_one_database() {
    let Some(database) = databases::new() else { return };
    let (a, b) = (Hub::open(&database.url).await, Hub::open(&database.url).await);
    let order = |at: usize| order((0..10).map(|file_at| file(&format!("{at}-{file_at}"), &["a"])).collect());
    for at in 0..10 {
        let (one, other) = (order(at), order(at + 100));
        let (one, other) = tokio::join!(a.submit(&one), b.submit(&other));
        assert_eq!((one, other), (SubmitResult::New, SubmitResult::New));
    }
    let (one, other) = tokio::join!(a.claim(120), b.claim(80));
    let mut claimed: Vec<i64> =
        [one.unwrap(), other.unwrap()].iter().flat_map(|it| &it.files).map(|it| it.id).collect();
    claimed.sort_unstable();
    claimed.dedup();
    assert_eq!(claimed.len(), 200, "each file is claimed by one hub");
    let jobs = a.database.jobs(&JobFilter { limit: 100, ..JobFilter::default() }).await.unwrap();
    let mut firsts: Vec<i64> = jobs.iter().map(|job| job.first_file).collect();
    firsts.sort_unstable();
    assert!(jobs.len() == 20 && firsts.windows(2).all(|pair| pair[1] >= pair[0] + 10), "{firsts:?}");
}
