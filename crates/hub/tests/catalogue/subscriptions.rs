//! Names that wait for the rules of a subscription.

use hub::database::catalogue::{MissingRules, SubscriptionRow};

use crate::refused;
use crate::test_catalogue::{TestCatalogue, dataset};

pub async fn a_name_is_queued_once_for_a_subscription(world: TestCatalogue) {
    world.enter(&[dataset("s:d")], None).await.unwrap();
    let id = world.data("s:d").await.id;
    let row = SubscriptionRow { name: "push".into(), account: "ann".into(), ..SubscriptionRow::default() };
    world.database.set_subscription(row.clone(), true).await.unwrap();
    let number = world.database.subscription("push").await.unwrap().unwrap().number;
    let waiting = async || world.database.subscription("push").await.unwrap().unwrap().waiting;

    // Two hubs compared the name: one could make no rule, the other made one.
    for made in [0, 1] {
        let missing = MissingRules { made, error: Some("no room".into()) };
        world.database.mark_not_subscribed(number, id, missing, world.now()).await.unwrap();
    }
    assert_eq!(waiting().await, 1);
    let due = async || {
        let news = world.database.uncompared_names(10, world.now()).await.unwrap();
        news.into_iter().filter(|item| item.subscription == number).collect::<Vec<_>>()
    };
    assert!(due().await.is_empty(), "it is tried again later");
    world.wait(10 * 60_000);
    assert_eq!(due().await.iter().map(|item| item.rules_made).collect::<Vec<_>>(), [1]);

    // A waiting name is compared at once when the subscription is set again, and only once.
    let missing = MissingRules { made: 1, error: None };
    world.database.mark_not_subscribed(number, id, missing, world.now()).await.unwrap();
    world.database.set_subscription(row.clone(), true).await.unwrap();
    assert_eq!(due().await.len(), 1);
    world.database.mark_subscribed(number, id, world.now()).await.unwrap();
    assert_eq!((waiting().await, due().await.len()), (0, 0));
    let bob = SubscriptionRow { account: "bob".into(), ..row };
    refused(world.database.set_subscription(bob, false).await, "another account has just made a subscription push");
}
