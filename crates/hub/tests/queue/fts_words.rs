//! What FTS's words need beside the queue: files that are ended one by one, tokens, bans, an audit.

use hub::admission::admit;
use hub::database::fts::{Audited, BannedUser};
use hub::database::outcomes::Outcome;
use hub::roles::Member;
use hub::states::FileState;
use hub::tokens::FileTokens;
use hub::topology::Topology;
use model::v1::Stage;
use sqlx::Row;

use super::{Hub, counts, done, failed, file, order};

pub async fn a_file_is_ended_by_itself_and_does_not_come_back(hub: Hub) {
    let order = order((0..3).map(|at| file(&at.to_string(), &["a"])).collect());
    let id = order.id.unwrap();
    hub.submit(&order).await;
    let claim = hub.claim(1).await.unwrap();
    let first = claim.files[0].id;
    let live = hub.database.live_files("lh://target").await.unwrap();
    assert_eq!(live.iter().map(|file| file.id).collect::<Vec<_>>(), [first + 1, first + 2, first]);
    let states = hub.database.cancel_files(vec![first, first + 1, first + 99], hub.now).await.unwrap();
    assert_eq!(states, [Some(FileState::Cancelled), Some(FileState::Cancelled), None]);
    assert_eq!(hub.states(id).await, ["running", "cancelled", "queued"], "what moves is ended by whoever carries it");
    assert_eq!(hub.database.cancelled("one").await.unwrap(), [claim.number]);
    assert_eq!(hub.database.live_files("lh://a").await.unwrap().len(), 1);
    hub.end(&claim, |_| Outcome::Again { not_before: 0, fault: "path".into(), reason: "timed out".into() }).await;
    assert!(hub.database.cancelled("one").await.unwrap().is_empty());
    assert_eq!(hub.states(id).await, ["cancelled", "cancelled", "queued"]);
    let claim = hub.claim(9).await.unwrap();
    hub.end(&claim, done).await;
    let job = hub.job(id).await;
    assert_eq!((job.state, counts(&job)), (Stage::Partial, [0, 0, 1, 0, 2]));
    let queue = hub.database.queues().await.unwrap();
    assert!(queue.is_empty(), "{queue:?}");
}

pub async fn tokens_are_with_their_file_until_it_has_ended(hub: Hub) {
    let order = order(vec![file("1", &["a", "b"])]);
    let mut job = admit(&order, &Member::user("ann", "astro"), &Topology::default(), hub.now).unwrap();
    let tokens = |source: &str| FileTokens { source: source.into(), target: "T".into() };
    job.files[0].tokens = Some(tokens("A"));
    job.files[1].tokens = Some(tokens("B"));
    hub.database.writer.submit(vec![job]).await.unwrap();
    let kept = async || -> i64 {
        let row = sqlx::query("SELECT COUNT(*) FROM file_tokens").fetch_one(&hub.database.pool).await.unwrap();
        row.get(0)
    };
    let claim = hub.claim(1).await.unwrap();
    assert_eq!(claim.files[0].tokens, tokens("A"));
    assert_eq!(hub.database.underway().await.unwrap().len(), 1);
    hub.database.forget_tokens().await.unwrap();
    assert_eq!(kept().await, 2);
    hub.end(&claim, failed).await;
    hub.database.forget_tokens().await.unwrap();
    assert_eq!(kept().await, 1, "the next source has its own yet");
    let claim = hub.claim(1).await.unwrap();
    assert_eq!(claim.files[0].tokens, tokens("B"));
    hub.end(&claim, done).await;
    hub.database.forget_tokens().await.unwrap();
    assert_eq!(kept().await, 0);
}

pub async fn bans_and_an_audit_are_kept(hub: Hub) {
    let database = &hub.database;
    let ban = |reason: &str| BannedUser { dn: "/CN=ann".into(), reason: reason.into() };
    database.ban_user(ban("one"), "root".into(), 1).await.unwrap();
    database.ban_user(ban("two"), "root".into(), 2).await.unwrap();
    assert_eq!(database.banned_users().await.unwrap(), [ban("two")]);
    assert!(database.unban_user("/CN=ann".into()).await.unwrap());
    assert!(!database.unban_user("/CN=ann".into()).await.unwrap() && database.banned_users().await.unwrap().is_empty());
    let done = |at| Audited { at, dn: "/CN=root".into(), action: "POST /config/links".into(), config: "{}".into() };
    database.audit(done(1)).await.unwrap();
    database.audit(done(2)).await.unwrap();
    assert_eq!(database.audited().await.unwrap(), [done(2), done(1)], "newest first");
}
