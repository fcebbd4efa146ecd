//! Tests of rules: which copies they make, where, and what happens if a copy fails.

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

/// The endpoints at which each file of a dataset has copies.
async fn places(world: &TestCatalogue, of: &str, files: usize) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for at in 0..files {
        all.push(world.available_at(&format!("{of}.{at}")).await);
    }
    all
}

pub async fn the_files_of_a_dataset_go_to_one_endpoint(world: TestCatalogue) {
    let mut ends = BTreeSet::new();
    for product in 0..6 {
        let of = format!("s:p{product}");
        world.dataset_at(&of, 4, "cern").await;
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

    // If files are placed independently, a dataset is spread over both endpoints.
    world.dataset_at("s:spread", 20, "cern").await;
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
        world.dataset_at(&of, 2, "bnl").await;
        world.rule(&of, "region=eu", 2).await;
        world.settle_down().await;
        let places = world.available_at(&format!("{of}.0")).await;
        assert!(places.contains(&"ral".to_owned()), "{places:?} are at two sites");
    }
}

pub async fn two_rules_share_copies(world: TestCatalogue) {
    world.dataset_at("s:d", 3, "cern").await;
    let one = world.rule("s:d", "ral", 1).await;
    let other = world.rule("s:d", "tier=1", 1).await;
    world.settle_down().await;
    for at in 0..3 {
        assert_eq!(
            world.available_at(&format!("s:d.{at}")).await,
            ["cern", "ral"],
            "a copy that is under way counts for both rules"
        );
    }
    let update = RuleUpdate { expires: Some(Some(world.now())), ..RuleUpdate::default() };
    world.database.change_rule(world.row(&one.id).await.number, "ann".into(), update, world.now()).await.unwrap();
    world.settle_down().await;
    let copies = world.database.files_below(&world.data("s:d").await, 0, 1).await.unwrap();
    let ral = copies[0].replicas.iter().find(|copy| copy.endpoint == "ral").unwrap();
    assert_eq!((ral.locks, ral.unlocked), (1, None), "the other rule holds it");
    assert_eq!(world.row(&other.id).await.ok, 3);
}

pub async fn files_attached_later_are_copied_too(world: TestCatalogue) {
    let mut container = dataset("s:c");
    container.kind = DataKind::Container;
    world.enter(&[container], None).await.unwrap();
    let rule = world.rule("s:c", "ral", 1).await;
    world.settle_down().await;
    assert!(world.row(&rule.id).await.fulfilled.is_some(), "a rule of an empty container is fulfilled");
    world.dataset_at("s:d", 3, "cern").await;
    world.attach("s:c", &["s:d"]).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 3);
    for at in 3..6 {
        world.enter(&[world.file_at(&format!("s:d.{at}"), 10, &["cern"])], Some("s:d")).await.unwrap();
    }
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 6);
    // A file that has been in the catalogue for longer is attached: its number is lower than those of the others.
    world.enter(&[dataset("s:e")], None).await.unwrap();
    world.attach("s:c", &["s:e"]).await.unwrap();
    world.attach("s:e", &["s:d.0", "s:d.5"]).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 6, "a file that is contained twice is locked once");
    crate::invariants::check_quiet(&world).await;
}

pub async fn detached_files_are_unlocked(world: TestCatalogue) {
    world.dataset_at("s:d", 3, "cern").await;
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
    assert_eq!(world.row(&rule.id).await.ok, 2, "one of them is still contained through another dataset");
    world.detach("s:c", &["s:d"]).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 1);
    crate::invariants::check_quiet(&world).await;
}

pub async fn a_rule_that_ends_releases_its_locks(world: TestCatalogue) {
    world.dataset_at("s:d", 2, "cern").await;
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

    // A copy that has not been begun is not wanted any longer.
    let rule = world.rule("s:d", "cern2", 1).await;
    world.evaluate().await;
    assert_eq!(world.copies("s:d.0").await[1], ("cern2".to_owned(), ReplicaState::Wanted));
    let update = RuleUpdate { expires: Some(Some(world.now())), ..RuleUpdate::default() };
    world.database.change_rule(rule.number, "ann".into(), update, world.now()).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.available_at("s:d.0").await, ["cern", "ral"]);
    assert_eq!(world.copies("s:d.0").await.len(), 2);
}

pub async fn a_rule_made_again_within_a_day_moves_nothing(world: TestCatalogue) {
    world.dataset_at("s:d", 2, "cern").await;
    let rule = world.rule("s:d", "ral", 1).await;
    world.settle_down().await;
    let update = RuleUpdate { expires: Some(Some(world.now())), ..RuleUpdate::default() };
    world.database.change_rule(rule.number, "ann".into(), update, world.now()).await.unwrap();
    world.settle_down().await;
    let again = world.rule("s:d", "tier=1|cern2", 1).await;
    world.evaluate().await;
    let row = world.row(&again.id).await;
    assert_eq!((row.ok, row.replicating), (2, 0));
    assert!(!world.submit_next().await);
    let same = NewRule { id: again.id.clone(), ..new_rule(&world.data("s:d").await, "bnl", 1) };
    assert_eq!(world.try_rule(same).await, None);
    assert_eq!(world.row(&again.id).await.expression, "tier=1|cern2", "the same id twice is one rule");
}

pub async fn a_suspended_rule_copies_nothing(world: TestCatalogue) {
    world.dataset_at("s:d", 2, "cern").await;
    let rule = world.rule("s:d", "ral", 1).await;
    let suspend = async |suspended: bool| {
        let update = RuleUpdate { suspended: Some(suspended), ..RuleUpdate::default() };
        world.database.change_rule(world.row(&rule.id).await.number, "ann".into(), update, world.now()).await.unwrap();
    };
    suspend(true).await;
    world.evaluate().await;
    assert!(!world.submit_next().await);
    suspend(false).await;
    assert!(world.submit_next().await);
}

pub async fn a_copy_that_fails_is_tried_again_later(world: TestCatalogue) {
    world.dataset_at("s:d", 2, "cern").await;
    let rule = world.rule("s:d", "ral", 1).await;
    for attempt in 1..4 {
        assert!(world.submit_next().await);
        assert_eq!(world.end_files(10, fails).await, 2);
        world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
        world.check().await;
        let row = world.row(&rule.id).await;
        assert_eq!((row.ok, row.replicating, row.stuck), (0, 0, 2));
        let locks = world.database.locks_left(row.number, 10).await.unwrap();
        assert_eq!((locks[0].attempts, locks[0].error.as_deref()), (attempt, Some("the disk is full")));
        assert!(!world.submit_next().await, "not at once");
        world.wait(locks[0].not_before - world.now());
    }
    world.settle_down().await;
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.stuck, row.fulfilled.is_some()), (2, 0, true));
}

pub async fn files_without_a_readable_source_are_reported(world: TestCatalogue) {
    world.enter(&[file("s:lost", 10), world.file_at("s:there", 10, &["cern"])], None).await.unwrap();
    let lost = world.rule("s:lost", "ral", 1).await;
    let of = world.data("s:there").await;
    let other = world.make(NewRule { source_expression: Some("bnl".into()), ..new_rule(&of, "ral", 1) }).await;
    world.evaluate().await;
    assert!(!world.submit_next().await);
    for rule in [&lost, &other] {
        let row = world.row(&rule.id).await;
        assert_eq!((row.stuck, row.replicating), (1, 0));
        let locks = world.database.locks_left(row.number, 10).await.unwrap();
        assert!(locks[0].error.as_deref().unwrap().contains("no copy of it can be read"), "{locks:?}");
    }
    // A copy of it is entered.
    let copies = world.file_at("s:lost", 10, &["bnl"]).copies;
    world.database.add_copies(name("s:lost"), copies, world.now()).await.unwrap();
    world.wait(10 * 60_000);
    world.settle_down().await;
    assert_eq!(world.row(&lost.id).await.ok, 1);
}

pub async fn a_file_uploaded_to_the_target_is_not_copied(world: TestCatalogue) {
    world.enter(&[world.file_at("s:f", 10, &["cern"])], None).await.unwrap();
    let rule = world.rule("s:f", "ral", 1).await;
    world.evaluate().await;
    let copies = world.file_at("s:f", 10, &["ral"]).copies;
    world.database.add_copies(name("s:f"), copies, world.now()).await.unwrap();
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.replicating, row.fulfilled.is_some()), (1, 0, true));
    assert!(!world.submit_next().await);
    world.check().await;
}

pub async fn copies_lost_in_a_crash_are_made_again(world: TestCatalogue) {
    world.dataset_at("s:d", 2, "cern").await;
    let rule = world.rule("s:d", "ral", 1).await;
    // The hub is killed after it has recorded the copies in the catalogue, and before it has submitted the job.
    let order = world.next_order().await.unwrap();
    assert_eq!(order.files.len(), 2);
    assert!(!world.submit_next().await);
    world.wait(61_000);
    world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
    world.check().await;
    let row = world.row(&rule.id).await;
    assert_eq!((row.replicating, row.stuck), (2, 0), "nothing has been tried, so nothing has failed");
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 2);

    // One file of a job is done and the other one is still queued: the one that is done counts.
    world.dataset_at("s:e", 2, "cern").await;
    let rule = world.rule("s:e", "ral", 1).await;
    assert!(world.submit_next().await);
    assert_eq!(world.end_files(1, succeeds).await, 1);
    world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.replicating), (1, 1));
    world.check().await;
}

pub async fn a_rule_that_cannot_be_fulfilled_is_refused_with_reasons(world: TestCatalogue) {
    world.dataset_at("s:d", 3, "cern").await;
    let of = world.data("s:d").await;
    let shortage = world.try_rule(new_rule(&of, "tier=1", 3)).await.unwrap();
    assert_eq!((shortage.wanted, shortage.able.join(" ")), (3, "bnl ral".to_owned()));
    let shortage = world.try_rule(new_rule(&of, "region=moon", 1)).await.unwrap();
    assert!(shortage.able.is_empty() && shortage.full.is_empty());
    world.enter(&[world.file_at("s:large", 1_001, &["cern"])], None).await.unwrap();
    let shortage = world.try_rule(new_rule(&world.data("s:large").await, "bnl", 1)).await.unwrap();
    assert_eq!(shortage.full, ["bnl"]);
    world.database.set_quotas("ann".into(), vec![("region=eu".into(), 25)]).await.unwrap();
    let shortage = world.try_rule(new_rule(&of, "ral", 1)).await.unwrap();
    assert_eq!(shortage.full, ["ral"]);
    assert_eq!(world.try_rule(new_rule(&of, "bnl", 1)).await, None, "no quota is set there");
}

pub async fn a_rule_that_outgrows_its_endpoint_waits_with_an_error(world: TestCatalogue) {
    world.dataset_at("s:d", 3, "cern").await;
    let rule = world.rule("s:d", "bnl", 1).await;
    world.settle_down().await;
    world.enter(&[world.file_at("s:large", 980, &["cern"])], Some("s:d")).await.unwrap();
    world.settle_down().await;
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.fulfilled), (3, None));
    assert!(row.error.as_deref().unwrap().contains("bnl, which has no room"), "{:?}", row.error);
    world.detach("s:d", &["s:large"]).await.unwrap();
    world.wait(61_000);
    world.settle_down().await;
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.error, row.fulfilled.is_some()), (3, None, true));
}

pub async fn a_file_uploaded_to_the_target_survives_a_failed_copy(world: TestCatalogue) {
    world.dataset_at("s:d", 2, "cern").await;
    let rule = world.rule("s:d", "ral", 1).await;
    assert!(world.submit_next().await);
    let copies = world.file_at("s:d.0", 10, &["ral"]).copies;
    world.database.add_copies(name("s:d.0"), copies, world.now()).await.unwrap();
    assert_eq!(world.end_files(10, fails).await, 2);
    world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
    world.check().await;
    assert_eq!(world.available_at("s:d.0").await, ["cern", "ral"]);
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.stuck), (1, 1));
}

pub async fn a_copy_waits_for_its_source_to_arrive(world: TestCatalogue) {
    world.dataset_at("s:d", 3, "cern").await;
    let of = world.data("s:d").await;
    world.rule("s:d", "ral", 1).await;
    let onward = world.make(NewRule { source_expression: Some("ral".into()), ..new_rule(&of, "bnl", 1) }).await;
    assert!(world.submit_next().await);
    assert!(!world.submit_next().await, "the files for bnl have not arrived at ral yet");
    let row = world.row(&onward.id).await;
    assert_eq!((row.replicating, row.stuck), (3, 0), "it waits, which is no failure");
    let locks = world.database.locks_left(row.number, 10).await.unwrap();
    assert!(locks[0].error.as_deref().unwrap().contains("does not have it yet"), "{locks:?}");
    world.end_files(10, succeeds).await;
    world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
    let order = world.next_order().await.expect("the next copies begin at once");
    let from_ral = |source: &String| source.starts_with("lh://ral.example/");
    assert!(order.files.iter().all(|file| file.sources.len() == 1 && file.sources.iter().all(from_ral)), "{order:?}");
    world.check().await;
}

pub async fn a_copy_of_two_rules_may_use_the_sources_of_either(world: TestCatalogue) {
    world.dataset_at("s:d", 1, "cern").await;
    let of = world.data("s:d").await;
    world.make(NewRule { source_expression: Some("bnl".into()), priority: 5, ..new_rule(&of, "ral", 1) }).await;
    assert!(world.next_order().await.is_none());
    world.rule("s:d", "ral", 1).await;
    world.wait(10 * 60_000);
    let order = world.next_order().await.expect("the other rule permits cern as source");
    assert!(order.files[0].sources[0].starts_with("lh://cern.example/"), "{order:?}");
    world.check().await;
}

pub async fn the_jobs_of_a_rule_have_its_deadline(world: TestCatalogue) {
    world.dataset_at("s:d", 1, "cern").await;
    let of = world.data("s:d").await;
    let at = world.now() + 3_600_000;
    world.make(NewRule { deadline: Some(at), ..new_rule(&of, "ral", 1) }).await;
    let order = world.next_order().await.unwrap();
    assert_eq!(order.deadline.as_deref(), Some(hub::time::show(at).as_str()));
    world.make(NewRule { deadline: Some(at), ..new_rule(&of, "bnl", 1) }).await;
    world.wait(3_600_000);
    assert_eq!(world.next_order().await.unwrap().deadline, None, "a deadline in the past is not set");
}

pub async fn only_one_copy_crosses_the_ocean(world: TestCatalogue) {
    world.dataset_at("s:d", 2, "bnl").await;
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
        while world.end_files(1_000, succeeds).await > 0 {}
        world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
    }
    assert_eq!(world.row(&fan.id).await.ok, 6);
    assert_eq!(crossings, 2, "each of the two files once");
    world.check().await;
}

pub async fn rules_without_possible_copies_do_not_block_others(world: TestCatalogue) {
    // There are more such rules than one transaction looks at, and they are more urgent.
    for at in 0..450 {
        let of = format!("s:waits{at}");
        world.enter(&[file(&of, 10)], None).await.unwrap();
        world.make(NewRule { priority: 5, ..new_rule(&world.data(&of).await, "ral", 1) }).await;
    }
    world.dataset_at("s:d", 1, "cern").await;
    let rule = world.rule("s:d", "ral", 1).await;
    world.evaluate().await;
    let topology = Arc::clone(&world.topology);
    let batch = world.database.take_copies(Arc::clone(&topology), world.now()).await.unwrap();
    let batch = batch.expect("the rule that can be fulfilled gets its turn");
    assert_eq!(batch.rule.id, rule.id);
    // A waiting rule continues as soon as there is something to copy.
    world
        .database
        .add_copies(name("s:waits449"), world.file_at("s:waits449", 10, &["cern"]).copies, world.now())
        .await
        .unwrap();
    let batch = world.database.take_copies(topology, world.now()).await.unwrap().unwrap();
    assert_eq!(batch.files[0].name, name("s:waits449"));
    world.check().await;
}

pub async fn the_groups_of_a_rule_count_the_space_of_each_other(world: TestCatalogue) {
    // bnl has space for 1,000 bytes: for two of three datasets of 400 bytes each.
    let mut container = dataset("s:c");
    container.kind = DataKind::Container;
    world.enter(&[container], None).await.unwrap();
    for at in 0..3 {
        let of = format!("s:d{at}");
        world.enter(&[dataset(&of)], None).await.unwrap();
        world.enter(&[world.file_at(&format!("{of}.0"), 400, &["cern"])], Some(&of)).await.unwrap();
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
        assert_eq!((row.ok, row.error), (3, None), "{grouping:?}: the files without space at bnl go to ral");
    }
}

pub async fn a_file_in_two_datasets_is_copied_once(world: TestCatalogue) {
    let mut container = dataset("s:c");
    container.kind = DataKind::Container;
    world.enter(&[container], None).await.unwrap();
    for at in 0..2 {
        let of = format!("s:d{at}");
        world.enter(&[dataset(&of)], None).await.unwrap();
        world.enter(&[world.file_at(&format!("{of}.0"), 300, &["cern"])], Some(&of)).await.unwrap();
        world.attach("s:c", &[&of]).await.unwrap();
    }
    world.enter(&[world.file_at("s:both", 300, &["cern"])], Some("s:d0")).await.unwrap();
    world.attach("s:d1", &["s:both"]).await.unwrap();
    let of = world.data("s:c").await;
    for grouping in [Grouping::File, Grouping::Dataset, Grouping::All] {
        let rule = world.make(NewRule { grouping, ..new_rule(&of, "bnl", 1) }).await;
        world.settle_down().await;
        let row = world.row(&rule.id).await;
        assert_eq!((row.ok, row.error), (3, None), "{grouping:?}: 900 bytes fit at bnl");
    }
    crate::invariants::check_quiet(&world).await;
}

pub async fn an_ended_rule_cannot_be_changed(world: TestCatalogue) {
    world.dataset_at("s:d", 1, "cern").await;
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
