//! What rules ask for, and what becomes of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use hub::admission::admit;
use hub::database::catalogue::{NewRule, ReplicaState, RuleUpdate, UNDO_MS};
use hub::database::outcomes::Outcome;
use hub::roles::Member;
use model::v1::hub::{DataKind, Grouping};

use crate::test_catalogue::{TestCatalogue, dataset, file, name, new_rule};

fn fails(_: i64) -> Outcome {
    Outcome::Failed { fault: "disk".into(), reason: "the disk is full".into() }
}

fn succeeds(_: i64) -> Outcome {
    Outcome::Done { bytes: 10 }
}

/// Where each file of a dataset has copies.
async fn places(world: &TestCatalogue, of: &str, files: usize) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for at in 0..files {
        all.push(world.at(&format!("{of}.{at}")).await);
    }
    all
}

pub async fn a_data_product_goes_to_one_endpoint_whole(world: TestCatalogue) {
    let mut ends = BTreeSet::new();
    for product in 0..6 {
        let of = format!("s:p{product}");
        world.filled(&of, 4, "cern").await;
        let rule = world.rule(&of, "cern2|ral", 1).await;
        world.settle_down().await;
        let row = world.row(&rule.id).await;
        assert_eq!((row.ok, row.replicating, row.stuck, row.bytes, row.bytes_left), (4, 0, 0, 40, 0));
        assert!(row.fulfilled.is_some() && !row.is_evaluating);
        let places: BTreeSet<Vec<String>> = places(&world, &of, 4).await.into_iter().collect();
        assert_eq!(places.len(), 1, "{of} is at one endpoint: {places:?}");
        ends.extend(places);
    }
    assert_eq!(ends.len(), 2, "six products go to both endpoints");

    // With files by themselves, one dataset is spread.
    world.filled("s:spread", 20, "cern").await;
    let of = world.data("s:spread").await;
    world.make(NewRule { grouping: Grouping::File, ..new_rule(&of, "cern2|ral", 1) }).await;
    world.settle_down().await;
    let places: BTreeSet<Vec<String>> = places(&world, "s:spread", 20).await.into_iter().collect();
    assert_eq!(places.len(), 2);
    crate::invariants::check_quiet(&world).await;
}

pub async fn copies_are_at_different_sites(world: TestCatalogue) {
    for product in 0..5 {
        let of = format!("s:p{product}");
        world.filled(&of, 2, "bnl").await;
        world.rule(&of, "region=eu", 2).await;
        world.settle_down().await;
        let places = world.at(&format!("{of}.0")).await;
        assert!(places.contains(&"ral".to_owned()), "{places:?} are at two sites");
    }
}

pub async fn two_rules_share_copies(world: TestCatalogue) {
    world.filled("s:d", 3, "cern").await;
    let one = world.rule("s:d", "ral", 1).await;
    let other = world.rule("s:d", "tier=1", 1).await;
    world.settle_down().await;
    for at in 0..3 {
        assert_eq!(world.at(&format!("s:d.{at}")).await, ["cern", "ral"], "what is on its way need not go elsewhere");
    }
    let update = RuleUpdate { expires: Some(Some(world.now())), ..RuleUpdate::default() };
    world.database.change_rule(world.row(&one.id).await.number, "ann".into(), update, world.now()).await.unwrap();
    world.settle_down().await;
    let copies = world.database.files_below(&world.data("s:d").await, 0, 1).await.unwrap();
    let ral = copies[0].replicas.iter().find(|copy| copy.endpoint == "ral").unwrap();
    assert_eq!((ral.locks, ral.unlocked), (1, None), "the other rule holds it");
    assert_eq!(world.row(&other.id).await.ok, 3);
}

pub async fn files_that_come_later_follow(world: TestCatalogue) {
    let mut container = dataset("s:c");
    container.kind = DataKind::Container;
    world.enter(&[container], None).await.unwrap();
    let rule = world.rule("s:c", "ral", 1).await;
    world.settle_down().await;
    assert!(world.row(&rule.id).await.fulfilled.is_some(), "of nothing, nothing is missing");
    world.filled("s:d", 3, "cern").await;
    world.attach("s:c", &["s:d"]).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 3);
    for at in 3..6 {
        world.enter(&[world.there(&format!("s:d.{at}"), 10, &["cern"])], Some("s:d")).await.unwrap();
    }
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 6);
    // One that has been in the catalogue for long, and has a lower number than all of these.
    world.enter(&[dataset("s:e")], None).await.unwrap();
    world.attach("s:c", &["s:e"]).await.unwrap();
    world.attach("s:e", &["s:d.0", "s:d.5"]).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 6, "a file that is there twice is held once");
    crate::invariants::check_quiet(&world).await;
}

pub async fn files_that_go_are_let_go(world: TestCatalogue) {
    world.filled("s:d", 3, "cern").await;
    world.enter(&[dataset("s:e")], None).await.unwrap();
    let mut container = dataset("s:c");
    container.kind = DataKind::Container;
    world.enter(&[container], None).await.unwrap();
    world.attach("s:e", &["s:d.1"]).await.unwrap();
    world.attach("s:c", &["s:d", "s:e"]).await.unwrap();
    let rule = world.rule("s:c", "ral", 1).await;
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 3);
    world.detach("s:d", &["s:d.0", "s:d.1"]).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 2, "one of them is still there by another dataset");
    world.detach("s:c", &["s:d"]).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 1);
    crate::invariants::check_quiet(&world).await;
}

pub async fn a_rule_that_ends_lets_go(world: TestCatalogue) {
    world.filled("s:d", 2, "cern").await;
    let of = world.data("s:d").await;
    let rule = world.make(NewRule { expires: Some(world.now() + 1_000), ..new_rule(&of, "ral", 1) }).await;
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 2);
    world.wait(1_000);
    world.settle_down().await;
    assert!(world.database.rule(&rule.id).await.unwrap().is_none());
    let files = world.database.files_below(&of, 0, 10).await.unwrap();
    let ral = files[0].replicas.iter().find(|copy| copy.endpoint == "ral").unwrap();
    assert_eq!((ral.locks, ral.unlocked), (0, Some(world.now() + UNDO_MS)));

    // What was only wanted is wanted no longer.
    let rule = world.rule("s:d", "cern2", 1).await;
    world.evaluate().await;
    assert_eq!(world.copies("s:d.0").await[1], ("cern2".to_owned(), ReplicaState::Wanted));
    let update = RuleUpdate { expires: Some(Some(world.now())), ..RuleUpdate::default() };
    world.database.change_rule(rule.number, "ann".into(), update, world.now()).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.at("s:d.0").await, ["cern", "ral"]);
    assert_eq!(world.copies("s:d.0").await.len(), 2);
}

pub async fn a_rule_that_is_made_again_within_a_day_moves_nothing(world: TestCatalogue) {
    world.filled("s:d", 2, "cern").await;
    let rule = world.rule("s:d", "ral", 1).await;
    world.settle_down().await;
    let update = RuleUpdate { expires: Some(Some(world.now())), ..RuleUpdate::default() };
    world.database.change_rule(rule.number, "ann".into(), update, world.now()).await.unwrap();
    world.settle_down().await;
    let again = world.rule("s:d", "tier=1|cern2", 1).await;
    world.evaluate().await;
    let row = world.row(&again.id).await;
    assert_eq!((row.ok, row.replicating), (2, 0));
    assert!(!world.put_into_queue().await);
    let same = NewRule { id: again.id.clone(), ..new_rule(&world.data("s:d").await, "bnl", 1) };
    assert_eq!(world.try_rule(same).await, None);
    assert_eq!(world.row(&again.id).await.expression, "tier=1|cern2", "the same id twice is one rule");
}

pub async fn a_rule_that_is_suspended_copies_nothing(world: TestCatalogue) {
    world.filled("s:d", 2, "cern").await;
    let rule = world.rule("s:d", "ral", 1).await;
    let suspend = async |suspended: bool| {
        let update = RuleUpdate { suspended: Some(suspended), ..RuleUpdate::default() };
        world.database.change_rule(world.row(&rule.id).await.number, "ann".into(), update, world.now()).await.unwrap();
    };
    suspend(true).await;
    world.evaluate().await;
    assert!(!world.put_into_queue().await);
    suspend(false).await;
    assert!(world.put_into_queue().await);
}

pub async fn a_copy_that_fails_is_tried_again_later(world: TestCatalogue) {
    world.filled("s:d", 2, "cern").await;
    let rule = world.rule("s:d", "ral", 1).await;
    for attempt in 1..4 {
        assert!(world.put_into_queue().await);
        assert_eq!(world.carry(10, fails).await, 2);
        world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
        world.check().await;
        let row = world.row(&rule.id).await;
        assert_eq!((row.ok, row.replicating, row.stuck), (0, 0, 2));
        let locks = world.database.locks_left(row.number, 10).await.unwrap();
        assert_eq!((locks[0].attempts, locks[0].error.as_deref()), (attempt, Some("the disk is full")));
        assert!(!world.put_into_queue().await, "not at once");
        world.wait(locks[0].not_before - world.now());
    }
    world.settle_down().await;
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.stuck, row.fulfilled.is_some()), (2, 0, true));
}

pub async fn what_can_be_read_nowhere_says_so(world: TestCatalogue) {
    world.enter(&[file("s:lost", 10), world.there("s:there", 10, &["cern"])], None).await.unwrap();
    let lost = world.rule("s:lost", "ral", 1).await;
    let of = world.data("s:there").await;
    let elsewhere = world.make(NewRule { source_expression: Some("bnl".into()), ..new_rule(&of, "ral", 1) }).await;
    world.evaluate().await;
    assert!(!world.put_into_queue().await);
    for rule in [&lost, &elsewhere] {
        let row = world.row(&rule.id).await;
        assert_eq!((row.stuck, row.replicating), (1, 0));
        let locks = world.database.locks_left(row.number, 10).await.unwrap();
        assert!(locks[0].error.as_deref().unwrap().contains("no copy of it can be read"), "{locks:?}");
    }
    // Somebody brings it back.
    let copies = world.there("s:lost", 10, &["bnl"]).copies;
    world.database.add_copies(name("s:lost"), copies, world.now()).await.unwrap();
    world.wait(10 * 60_000);
    world.settle_down().await;
    assert_eq!(world.row(&lost.id).await.ok, 1);
}

pub async fn what_is_uploaded_meanwhile_is_not_copied(world: TestCatalogue) {
    world.enter(&[world.there("s:f", 10, &["cern"])], None).await.unwrap();
    let rule = world.rule("s:f", "ral", 1).await;
    world.evaluate().await;
    let copies = world.there("s:f", 10, &["ral"]).copies;
    world.database.add_copies(name("s:f"), copies, world.now()).await.unwrap();
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.replicating, row.fulfilled.is_some()), (1, 0, true));
    assert!(!world.put_into_queue().await);
    world.check().await;
}

pub async fn copies_that_are_lost_in_a_crash_are_made_again(world: TestCatalogue) {
    world.filled("s:d", 2, "cern").await;
    let rule = world.rule("s:d", "ral", 1).await;
    // Between the note in the catalogue and the job in the queue the hub is killed.
    let order = world.next_order().await.unwrap();
    assert_eq!(order.files.len(), 2);
    assert!(!world.put_into_queue().await);
    world.wait(61_000);
    world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
    world.check().await;
    let row = world.row(&rule.id).await;
    assert_eq!((row.replicating, row.stuck), (2, 0), "nobody has tried: nothing has failed");
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 2);

    // Some of a job is done and the rest ended by somebody: what is done counts.
    world.filled("s:e", 2, "cern").await;
    let rule = world.rule("s:e", "ral", 1).await;
    assert!(world.put_into_queue().await);
    assert_eq!(world.carry(1, succeeds).await, 1);
    world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.replicating), (1, 1));
    world.check().await;
}

pub async fn an_impossible_rule_is_told_what_could_be(world: TestCatalogue) {
    world.filled("s:d", 3, "cern").await;
    let of = world.data("s:d").await;
    let shortage = world.try_rule(new_rule(&of, "tier=1", 3)).await.unwrap();
    assert_eq!((shortage.wanted, shortage.able.join(" ")), (3, "bnl ral".to_owned()));
    let shortage = world.try_rule(new_rule(&of, "region=moon", 1)).await.unwrap();
    assert!(shortage.able.is_empty() && shortage.full.is_empty());
    world.enter(&[world.there("s:large", 1_001, &["cern"])], None).await.unwrap();
    let shortage = world.try_rule(new_rule(&world.data("s:large").await, "bnl", 1)).await.unwrap();
    assert_eq!(shortage.full, ["bnl"]);
    world.database.set_quotas("ann".into(), vec![("region=eu".into(), 25)]).await.unwrap();
    let shortage = world.try_rule(new_rule(&of, "ral", 1)).await.unwrap();
    assert_eq!(shortage.full, ["ral"]);
    assert_eq!(world.try_rule(new_rule(&of, "bnl", 1)).await, None, "no quota is set there");
}

pub async fn a_rule_that_outgrows_its_endpoint_waits_and_says_so(world: TestCatalogue) {
    world.filled("s:d", 3, "cern").await;
    let rule = world.rule("s:d", "bnl", 1).await;
    world.settle_down().await;
    world.enter(&[world.there("s:large", 980, &["cern"])], Some("s:d")).await.unwrap();
    world.settle_down().await;
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.fulfilled), (3, None));
    assert!(row.error.as_deref().unwrap().contains("bnl with no room"), "{:?}", row.error);
    world.detach("s:d", &["s:large"]).await.unwrap();
    world.wait(61_000);
    world.settle_down().await;
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.error, row.fulfilled.is_some()), (3, None, true));
}

pub async fn what_is_put_there_while_it_is_copied_stays(world: TestCatalogue) {
    world.filled("s:d", 2, "cern").await;
    let rule = world.rule("s:d", "ral", 1).await;
    assert!(world.put_into_queue().await);
    let copies = world.there("s:d.0", 10, &["ral"]).copies;
    world.database.add_copies(name("s:d.0"), copies, world.now()).await.unwrap();
    assert_eq!(world.carry(10, fails).await, 2);
    world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
    world.check().await;
    assert_eq!(world.at("s:d.0").await, ["cern", "ral"]);
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.stuck), (1, 1));
}

pub async fn a_copy_waits_for_the_one_that_it_is_read_from(world: TestCatalogue) {
    world.filled("s:d", 3, "cern").await;
    let of = world.data("s:d").await;
    world.rule("s:d", "ral", 1).await;
    let onward = world.make(NewRule { source_expression: Some("ral".into()), ..new_rule(&of, "bnl", 1) }).await;
    assert!(world.put_into_queue().await);
    assert!(!world.put_into_queue().await, "what goes on to bnl is not at ral yet");
    let row = world.row(&onward.id).await;
    assert_eq!((row.replicating, row.stuck), (3, 0), "it waits, and nothing is wrong");
    let locks = world.database.locks_left(row.number, 10).await.unwrap();
    assert!(locks[0].error.as_deref().unwrap().contains("does not have it yet"), "{locks:?}");
    world.carry(10, succeeds).await;
    world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
    let order = world.next_order().await.expect("it goes on at once");
    let from_ral = |source: &String| source.starts_with("lh://ral.example/");
    assert!(order.files.iter().all(|file| file.sources.len() == 1 && file.sources.iter().all(from_ral)), "{order:?}");
    world.check().await;
}

pub async fn a_copy_of_two_rules_is_read_where_either_permits(world: TestCatalogue) {
    world.filled("s:d", 1, "cern").await;
    let of = world.data("s:d").await;
    world.make(NewRule { source_expression: Some("bnl".into()), priority: 5, ..new_rule(&of, "ral", 1) }).await;
    assert!(world.next_order().await.is_none());
    world.rule("s:d", "ral", 1).await;
    world.wait(10 * 60_000);
    let order = world.next_order().await.expect("the other rule has it read at cern");
    assert!(order.files[0].sources[0].starts_with("lh://cern.example/"), "{order:?}");
    world.check().await;
}

pub async fn the_deadline_of_a_rule_is_that_of_its_jobs(world: TestCatalogue) {
    world.filled("s:d", 1, "cern").await;
    let of = world.data("s:d").await;
    let at = world.now() + 3_600_000;
    world.make(NewRule { deadline: Some(at), ..new_rule(&of, "ral", 1) }).await;
    let order = world.next_order().await.unwrap();
    assert_eq!(order.deadline.as_deref(), Some(hub::time::show(at).as_str()));
    world.make(NewRule { deadline: Some(at), ..new_rule(&of, "bnl", 1) }).await;
    world.wait(3_600_000);
    assert_eq!(world.next_order().await.unwrap().deadline, None, "what has passed is not asked for");
}

pub async fn one_copy_crosses_the_ocean_and_the_others_are_made_of_it(world: TestCatalogue) {
    world.filled("s:d", 2, "bnl").await;
    let of = world.data("s:d").await;
    world.rule("s:d", "ral", 1).await;
    let fan =
        world.make(NewRule { source_expression: Some("region=eu".into()), ..new_rule(&of, "region=eu", 3) }).await;
    let mut crossings = 0;
    loop {
        let Some(order) = world.next_order().await else { break };
        let sources = order.files.iter().flat_map(|file| &file.sources);
        crossings += sources.filter(|source| source.starts_with("lh://bnl.example/")).count();
        let job = admit(&order, &Member::user("ann", "astro"), &world.topology, world.now()).unwrap();
        world.database.writer.submit(vec![job]).await.unwrap();
        while world.carry(1_000, succeeds).await > 0 {}
        world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
    }
    assert_eq!(world.row(&fan.id).await.ok, 6);
    assert_eq!(crossings, 2, "each of the two files once");
    world.check().await;
}

pub async fn rules_of_which_nothing_can_be_copied_stop_no_others(world: TestCatalogue) {
    // More than are looked at in one transaction, and more urgent.
    for at in 0..450 {
        let of = format!("s:waits{at}");
        world.enter(&[file(&of, 10)], None).await.unwrap();
        world.make(NewRule { priority: 5, ..new_rule(&world.data(&of).await, "ral", 1) }).await;
    }
    world.filled("s:d", 1, "cern").await;
    let rule = world.rule("s:d", "ral", 1).await;
    world.evaluate().await;
    let topology = Arc::clone(&world.topology);
    let batch = world.database.take_copies(Arc::clone(&topology), world.now()).await.unwrap();
    let batch = batch.expect("the rule that can be fulfilled has its turn");
    assert_eq!(batch.rule.id, rule.id);
    // What waits goes on as soon as there is something to copy.
    world
        .database
        .add_copies(name("s:waits449"), world.there("s:waits449", 10, &["cern"]).copies, world.now())
        .await
        .unwrap();
    let batch = world.database.take_copies(topology, world.now()).await.unwrap().unwrap();
    assert_eq!(batch.files[0].name, name("s:waits449"));
    world.check().await;
}

pub async fn groups_of_a_rule_see_what_the_others_take(world: TestCatalogue) {
    // bnl has room for 1,000 bytes: for two of three datasets of 400.
    let mut container = dataset("s:c");
    container.kind = DataKind::Container;
    world.enter(&[container], None).await.unwrap();
    for at in 0..3 {
        let of = format!("s:d{at}");
        world.enter(&[dataset(&of)], None).await.unwrap();
        world.enter(&[world.there(&format!("{of}.0"), 400, &["cern"])], Some(&of)).await.unwrap();
        world.attach("s:c", &[&of]).await.unwrap();
    }
    let of = world.data("s:c").await;
    for grouping in [Grouping::Dataset, Grouping::All, Grouping::File] {
        let shortage = world.try_rule(NewRule { grouping, ..new_rule(&of, "bnl", 1) }).await.unwrap();
        assert_eq!(shortage.full, ["bnl"], "{grouping:?}: 1,200 bytes are too many");
    }
    for grouping in [Grouping::Dataset, Grouping::File] {
        let rule = world.make(NewRule { grouping, ..new_rule(&of, "bnl|ral", 1) }).await;
        world.settle_down().await;
        let row = world.row(&rule.id).await;
        assert_eq!((row.ok, row.error), (3, None), "{grouping:?}: what has no room at bnl goes to ral");
    }
}

pub async fn a_file_of_two_datasets_has_its_copies_once(world: TestCatalogue) {
    let mut container = dataset("s:c");
    container.kind = DataKind::Container;
    world.enter(&[container], None).await.unwrap();
    for at in 0..2 {
        let of = format!("s:d{at}");
        world.enter(&[dataset(&of)], None).await.unwrap();
        world.enter(&[world.there(&format!("{of}.0"), 300, &["cern"])], Some(&of)).await.unwrap();
        world.attach("s:c", &[&of]).await.unwrap();
    }
    world.enter(&[world.there("s:both", 300, &["cern"])], Some("s:d0")).await.unwrap();
    world.attach("s:d1", &["s:both"]).await.unwrap();
    let of = world.data("s:c").await;
    for grouping in [Grouping::File, Grouping::Dataset, Grouping::All] {
        let rule = world.make(NewRule { grouping, ..new_rule(&of, "bnl", 1) }).await;
        world.settle_down().await;
        let row = world.row(&rule.id).await;
        assert_eq!((row.ok, row.error), (3, None), "{grouping:?}: 900 bytes have room at bnl");
    }
    crate::invariants::check_quiet(&world).await;
}

pub async fn a_rule_that_has_ended_is_not_changed(world: TestCatalogue) {
    world.filled("s:d", 1, "cern").await;
    let rule = world.rule("s:d", "ral", 1).await;
    let change = async |expires| {
        let update = RuleUpdate { expires: Some(expires), ..RuleUpdate::default() };
        world.database.change_rule(rule.number, "ann".into(), update, world.now()).await
    };
    change(Some(world.now() + 1_000)).await.unwrap();
    change(None).await.unwrap();
    change(Some(world.now())).await.unwrap();
    crate::refused(change(None).await, "the rule has ended");
    world.settle_down().await;
    crate::refused(change(None).await, "the rule has ended");
}
