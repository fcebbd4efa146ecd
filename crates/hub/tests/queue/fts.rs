//! Tests of what the FTS API needs besides the queue: cancelled files, tokens of files, bans, and the record of changes of the
//! configuration.

use hub::admission::admit;
use hub::database::fts::{BannedUser, ConfigChange};
use hub::database::outcomes::Outcome;
use hub::roles::Member;
use hub::states::FileState;
use hub::tokens::FileTokens;
use hub::topology::Topology;
use model::v1::Stage;
use sqlx::Row;

use super::{Hub, counts, done, failed, file, order};

pub async fn a_cancelled_file_is_not_queued_again(hub: Hub) {
    let order = order((0..3).map(|at| file(&at.to_string(), &["a"])).collect());
    let id = order.id.unwrap();
    hub.submit(&order).await;
    let claim = hub.claim(1).await.unwrap();
    let first = claim.files[0].id;
    let unended = hub.database.unended_files("lh://target").await.unwrap();
    assert_eq!(unended.iter().map(|file| file.id).collect::<Vec<_>>(), [first + 1, first + 2, first]);
    let states = hub.database.cancel_files(vec![first, first + 1, first + 99], hub.now).await.unwrap();
    assert_eq!(states, [Some(FileState::Cancelled), Some(FileState::Cancelled), None]);
    assert_eq!(hub.states(id).await, ["running", "cancelled", "queued"], "its carrier ends the running file");
    assert_eq!(hub.database.cancelled_transfers("one").await.unwrap(), [claim.number]);
    assert_eq!(hub.database.unended_files("lh://a").await.unwrap().len(), 1);
    hub.end(&claim, |_| Outcome::Retry { not_before: 0, fault: "path".into(), reason: "timed out".into() }).await;
    assert!(hub.database.cancelled_transfers("one").await.unwrap().is_empty());
    assert_eq!(hub.states(id).await, ["cancelled", "cancelled", "queued"]);
    let claim = hub.claim(9).await.unwrap();
    hub.end(&claim, done).await;
    let job = hub.job(id).await;
    assert_eq!((job.state, counts(&job)), (Stage::Partial, [0, 0, 1, 0, 2]));
    let queue = hub.database.queues().await.unwrap();
    assert!(queue.is_empty(), "{queue:?}");
}

pub async fn tokens_are_kept_until_their_file_has_ended(hub: Hub) {
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
    assert_eq!(hub.database.unended_transfers().await.unwrap().len(), 1);
    hub.database.remove_ended_tokens().await.unwrap();
    assert_eq!(kept().await, 2);
    hub.end(&claim, failed).await;
    hub.database.remove_ended_tokens().await.unwrap();
    assert_eq!(kept().await, 1, "the token of the next source is still kept");
    let claim = hub.claim(1).await.unwrap();
    assert_eq!(claim.files[0].tokens, tokens("B"));
    hub.end(&claim, done).await;
    hub.database.remove_ended_tokens().await.unwrap();
    assert_eq!(kept().await, 0);
}

pub async fn bans_and_config_changes_are_stored(hub: Hub) {
    let database = &hub.database;
    let ban = |reason: &str| BannedUser { dn: "/CN=ann".into(), reason: reason.into() };
    database.ban_user(ban("one"), "root".into(), 1).await.unwrap();
    database.ban_user(ban("two"), "root".into(), 2).await.unwrap();
    assert_eq!(database.banned_users().await.unwrap(), [ban("two")]);
    assert!(database.unban_user("/CN=ann".into()).await.unwrap());
    assert!(!database.unban_user("/CN=ann".into()).await.unwrap() && database.banned_users().await.unwrap().is_empty());
    let done =
        |at| ConfigChange { at, dn: "/CN=root".into(), action: "POST /config/links".into(), config: "{}".into() };
    database.add_config_change(done(1)).await.unwrap();
    database.add_config_change(done(2)).await.unwrap();
    assert_eq!(database.config_changes().await.unwrap(), [done(2), done(1)], "newest first");
}
