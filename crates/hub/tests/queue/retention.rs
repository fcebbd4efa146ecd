//! Tests of what a hub keeps besides its queue: delegated proxies, and changes of files for a broker.

use hub::database::delegations::{Delegation, DelegationRequest};
use hub::database::outcomes::Outcome;
use hub::states::FileState;

use super::{Hub, done, file, order};

pub async fn a_delegated_proxy_is_kept_for_its_owner_until_it_expires(hub: Hub) {
    let (database, now) = (&hub.database, hub.now);
    let request = |owner: &str, created: i64| DelegationRequest {
        id: "0123456789abcdef".into(),
        owner: owner.into(),
        private_key: format!("key of {owner} at {created}"),
        request: "PEM".into(),
        created,
    };
    let first = database.keep_delegation_request(request("ann", now), now - 10).await.unwrap();
    // A second request of an owner gets the same key until that is old; another owner gets another key.
    assert_eq!(database.keep_delegation_request(request("ann", now + 1), now - 10).await.unwrap(), first);
    assert_ne!(database.keep_delegation_request(request("bob", now), now - 10).await.unwrap(), first);
    assert_eq!(database.delegation_request(&first.id, "ann", now).await.unwrap(), Some(first.clone()));
    assert_eq!(database.delegation_request(&first.id, "ann", now + 1).await.unwrap(), None);
    let second = database.keep_delegation_request(request("ann", now + 20), now + 10).await.unwrap();
    assert_eq!(second.created, now + 20);

    let delegation = |expires: i64| Delegation {
        id: first.id.clone(),
        owner: "ann".into(),
        private_key: "key".into(),
        chain: "PEM".into(),
        attributes: vec!["/astro".into()],
        expires,
    };
    database.keep_delegation(delegation(now + 5), now).await.unwrap();
    database.keep_delegation(delegation(now + 9), now).await.unwrap();
    assert_eq!(database.delegation(&first.id, "ann", now + 8).await.unwrap(), Some(delegation(now + 9)));
    assert_eq!(database.delegation(&first.id, "ann", now + 9).await.unwrap(), None);
    assert_eq!(database.delegation(&first.id, "bob", now).await.unwrap(), None);
    assert!(!database.remove_delegation(first.id.clone(), "bob".into()).await.unwrap());
    assert!(database.remove_delegation(first.id.clone(), "ann".into()).await.unwrap());
    assert_eq!(database.delegation(&first.id, "ann", now).await.unwrap(), None);
    assert!(!format!("{:?}{second:?}", delegation(1)).contains("key"), "logs have no keys");
}

pub async fn changes_of_files_are_kept_for_a_broker(hub: Hub) {
    let database = &hub.database;
    let submitted = || order(vec![file("1", &["a"])]);
    hub.submit(&submitted()).await;
    assert_eq!(database.changes(100).await.unwrap().last, None, "there is no broker");
    while let Some(claim) = hub.claim(1).await {
        hub.end(&claim, done).await;
    }

    database.record_changes(true).await.unwrap();
    hub.submit(&submitted()).await;
    let again = |_| Outcome::Retry { not_before: 0, fault: "path".into(), reason: "it broke off".into() };
    hub.end(&hub.claim(1).await.unwrap(), |_| Outcome::Returned).await;
    hub.end(&hub.claim(1).await.unwrap(), again).await;
    hub.end(&hub.claim(1).await.unwrap(), done).await;
    let kept = database.changes(100).await.unwrap();
    let changes: Vec<(Option<FileState>, FileState, bool)> =
        kept.changes.iter().map(|change| (change.before, change.state, change.ends_attempt)).collect();
    use FileState::{Done, Queued, Running};
    let begun = (Some(Queued), Running, false);
    assert_eq!(
        changes,
        [
            (None, Queued, false),
            begun,
            (Some(Running), Queued, false),
            begun,
            (Some(Running), Queued, true),
            begun,
            (Some(Running), Done, true),
        ]
    );
    assert!(kept.changes.windows(2).all(|pair| pair[0].number < pair[1].number && pair[0].at <= pair[1].at));
    assert!((kept.changes[0].at - hub::time::now()).abs() < 600_000, "milliseconds since 1970");

    let third = kept.changes[2].number;
    database.remove_changes(third).await.unwrap();
    assert_eq!(database.changes(100).await.unwrap().changes, kept.changes[3..]);
    assert_eq!(database.trim_changes(1).await.unwrap(), 3);
    assert_eq!(database.changes(100).await.unwrap().changes, kept.changes[6..]);
    database.record_changes(false).await.unwrap();
    hub.submit(&submitted()).await;
    assert_eq!(database.changes(100).await.unwrap().last, None);
}
