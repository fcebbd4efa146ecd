//! Tests of the catalogue on real databases, SQLite and PostgreSQL: names, rules, copies and deletions, and the invariants of the tables.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../queue/databases.rs"]
mod databases;
mod invariants;
mod lifecycle;
#[path = "../servers/postgres.rs"]
#[allow(dead_code, reason = "the tests of the program need more of it")]
mod postgres;
mod rules;
mod simulation;
mod subscriptions;
mod test_catalogue;

use hub::database::DatabaseError;
use hub::database::catalogue::{ExistingReplica, MetadataChange, NameFilter};
use model::v1::hub::DataKind;

use lifecycle::{
    a_bad_copy_is_replaced_from_a_good_one, a_copy_that_cannot_be_deleted_is_available_again,
    a_copy_that_is_being_deleted_cannot_be_entered, a_copy_that_was_not_deleted_can_be_a_source,
    a_dataset_cannot_be_restored_once_the_copies_of_a_file_are_deleted, a_file_removed_by_itself_keeps_its_end,
    a_removed_dataset_can_be_restored_for_a_day, a_removed_file_that_was_attached_elsewhere_stays,
    a_rule_made_during_a_deletion_has_the_copy_made_again, a_rule_of_a_container_unlocks_a_removed_dataset,
    a_source_with_a_wrong_checksum_becomes_suspicious, files_of_monotonic_datasets_cannot_be_removed,
    new_rules_take_the_space_of_replicas_without_locks, removed_names_cannot_be_used_again,
    removing_a_container_keeps_its_datasets, replicas_without_locks_are_deleted_when_an_endpoint_is_full,
    the_last_copy_stays, the_removal_preview_counts_rules_of_containers,
};
use rules::{
    a_copy_of_two_rules_may_use_the_sources_of_either, a_copy_that_fails_is_tried_again_later,
    a_copy_waits_for_its_source_to_arrive, a_file_in_two_datasets_is_copied_once,
    a_file_uploaded_to_the_target_is_not_copied, a_file_uploaded_to_the_target_survives_a_failed_copy,
    a_rule_made_again_within_a_day_moves_nothing, a_rule_that_cannot_be_fulfilled_is_refused_with_reasons,
    a_rule_that_ends_releases_its_locks, a_rule_that_outgrows_its_endpoint_waits_with_an_error,
    a_suspended_rule_copies_nothing, an_ended_rule_cannot_be_changed, copies_are_at_different_sites,
    copies_lost_in_a_crash_are_made_again, detached_files_are_unlocked, files_attached_later_are_copied_too,
    files_without_a_readable_source_are_reported, only_one_copy_crosses_the_ocean,
    rules_without_possible_copies_do_not_block_others, the_files_of_a_dataset_go_to_one_endpoint,
    the_groups_of_a_rule_count_the_space_of_each_other, the_jobs_of_a_rule_have_its_deadline, two_rules_share_copies,
};
use subscriptions::a_name_is_queued_once_for_a_subscription;
use test_catalogue::{TestCatalogue, dataset, file, name};

/// Expects a refusal whose text contains `part`.
fn refused<T: std::fmt::Debug>(result: Result<T, DatabaseError>, part: &str) {
    match result {
        Err(DatabaseError::Refused(text)) => assert!(text.contains(part), "{text}"),
        other => panic!("{other:?}, where a refusal with {part:?} was expected"),
    }
}

async fn names_are_entered_once(world: TestCatalogue) {
    let (one, other) = (file("s:f1", 10), file("s:f2", 20));
    let entered = world.enter(&[one.clone(), other.clone(), dataset("s:d")], None).await.unwrap();
    assert_eq!(entered.new, 3);
    let again = world.enter(&[one.clone(), file("s:f3", 30)], Some("s:d")).await.unwrap();
    assert_eq!((again.ids[0], again.new), (entered.ids[0], 1));
    let row = world.data("s:d").await;
    assert_eq!((row.kind, row.entries, row.bytes), (DataKind::Dataset, 2, 40));
    refused(world.enter(&[file("s:f1", 11)], None).await, "with 10 bytes and not 11");
    let with_sum = |sum: &str| {
        let mut new = file("s:sum", 1);
        new.adler32 = Some(sum.to_owned());
        new
    };
    world.enter(&[with_sum("00000001")], None).await.unwrap();
    refused(world.enter(&[with_sum("00000002")], None).await, "with the Adler-32 00000001");
    refused(world.enter(&[dataset("s:d")], None).await, "exists already");
    refused(world.enter(&[dataset("s:f1")], None).await, "is of another kind");
    refused(world.enter(&[file("s:f9", 1)], Some("s:nowhere")).await, "there is no s:nowhere");
    assert!(world.database.data(&name("s:f9")).await.unwrap().is_none(), "either all names are entered, or none");
    world.check().await;
}

async fn names_are_listed_by_pattern_kind_and_metadata(world: TestCatalogue) {
    let mut run = dataset("s:run_7");
    run.metadata = [("telescope".to_owned(), "\"low\"".to_owned())].into();
    world.enter(&[run, dataset("s:runx7"), dataset("t:run_7"), file("s:run_7.f", 1)], None).await.unwrap();
    let matching =
        |pattern: &str| NameFilter { scope: "s".into(), pattern: pattern.into(), limit: 10, ..NameFilter::default() };
    let listed = async |filter: NameFilter| {
        let rows = world.database.data_list(&filter).await.unwrap();
        rows.iter().map(|row| row.name.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(matching("")).await, ["run_7", "run_7.f", "runx7"]);
    assert_eq!(listed(matching("run_7*")).await, ["run_7", "run_7.f"]);
    assert_eq!(listed(NameFilter { kind: Some(DataKind::File), ..matching("") }).await, ["run_7.f"]);
    assert_eq!(listed(NameFilter { after: "run_7".into(), limit: 1, ..matching("") }).await, ["run_7.f"]);
    let of_telescope = |value: &str| NameFilter { metadata: vec![("telescope".into(), value.into())], ..matching("") };
    assert_eq!(listed(of_telescope("\"low\"")).await, ["run_7"]);
    let row = world.data("s:run_7").await;
    let change: MetadataChange = [("telescope".to_owned(), None), ("beam".to_owned(), Some("3".to_owned()))].into();
    world.database.change_metadata(row.id, "ann".into(), change, world.now()).await.unwrap();
    assert_eq!(world.database.metadata(row.id).await.unwrap(), [("beam".to_owned(), "3".to_owned())].into());
    assert!(listed(of_telescope("\"low\"")).await.is_empty());
}

async fn containers_contain_datasets_without_cycles(world: TestCatalogue) {
    let container = |text: &str| {
        let mut new = dataset(text);
        new.kind = DataKind::Container;
        new
    };
    world.enter(&[container("s:c1"), container("s:c2"), dataset("s:d"), file("s:f", 5)], None).await.unwrap();
    world.attach("s:d", &["s:f"]).await.unwrap();
    world.attach("s:c2", &["s:d"]).await.unwrap();
    world.attach("s:c1", &["s:c2"]).await.unwrap();
    refused(world.attach("s:c2", &["s:c1"]).await, "that would be a circle");
    refused(world.attach("s:c1", &["s:c1"]).await, "that would be a circle");
    refused(world.attach("s:d", &["s:c1"]).await, "is a dataset, which contains files");
    refused(world.attach("s:c1", &["s:f"]).await, "is a container, which contains datasets");
    refused(world.attach("s:f", &["s:f"]).await, "is a file");
    refused(world.attach("s:d", &["s:none"]).await, "there is no s:none");
    let files = world.database.files_below(&world.data("s:c1").await, 0, 10).await.unwrap();
    assert_eq!(files.iter().map(|row| row.file.name.to_string()).collect::<Vec<_>>(), ["s:f"]);
    assert_eq!(world.database.total(&world.data("s:c1").await).await.unwrap(), (1, 5));
    let parents = world.database.parents(world.data("s:d").await.id).await.unwrap();
    assert_eq!(parents.iter().map(|row| row.name.to_string()).collect::<Vec<_>>(), ["s:c2"]);

    let row = world.data("s:d").await;
    world.database.change_data(row.id, "ann".into(), Some(false), world.now()).await.unwrap();
    world.enter(&[file("s:late", 1)], None).await.unwrap();
    refused(world.attach("s:d", &["s:late"]).await, "is closed");
    world.check().await;
}

async fn nothing_can_be_detached_from_a_monotonic_dataset(world: TestCatalogue) {
    let mut grows = dataset("s:d");
    grows.monotonic = true;
    world.enter(&[grows, file("s:f", 5)], None).await.unwrap();
    world.attach("s:d", &["s:f"]).await.unwrap();
    refused(world.detach("s:d", &["s:f"]).await, "only grows");
}

async fn the_history_of_a_name_is_in_order(world: TestCatalogue) {
    world.enter(&[dataset("s:d")], None).await.unwrap();
    world.enter(&[world.file_at("s:f", 5, &["cern"])], Some("s:d")).await.unwrap();
    let rule = world.rule("s:d", "ral", 1).await;
    world.settle_down().await;
    let row = world.data("s:d").await;
    let kinds = |events: Vec<hub::database::catalogue::HistoryEvent>| {
        events.into_iter().map(|event| event.kind).collect::<Vec<_>>()
    };
    let events = world.database.history(row.id, 0, 100).await.unwrap();
    assert_eq!(kinds(events.clone()), ["created", "attached", "rule", "complete"]);
    assert!(events[3].facts.contains(&rule.id), "{}", events[3].facts);
    let behind = world.database.history(row.id, events[1].number, 1).await.unwrap();
    assert_eq!(kinds(behind), ["rule"]);
}

async fn a_scope_has_an_owner(world: TestCatalogue) {
    let make = async |account: &str| world.database.make_scope("s".into(), account.into(), 1).await.unwrap();
    assert_eq!((make("ann").await.as_str(), make("bob").await.as_str()), ("ann", "ann"));
    assert_eq!(world.database.scope_account("s").await.unwrap().as_deref(), Some("ann"));
    assert_eq!(world.database.scope_account("t").await.unwrap(), None);
}

async fn copies_have_paths_of_their_own(world: TestCatalogue) {
    let mut old = file("s:f", 5);
    old.copies = vec![ExistingReplica { endpoint: "cern".into(), path: Some("old/place".into()) }];
    world.enter(&[old], None).await.unwrap();
    world.rule("s:f", "ral", 1).await;
    let order = world.next_order().await.unwrap();
    assert_eq!(order.files[0].sources, ["lh://cern.example/data/old/place"]);
    assert_eq!(order.files[0].target, "lh://ral.example/data/s/f");
}

macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test]
            async fn $name() {
                let state = crate::test_catalogue::scratch();
                let url = format!("sqlite:{}/hub.db", state.path().display());
                super::$name(super::TestCatalogue::open(&url).await).await;
            })*
        }

        mod on_postgres {
            $(#[tokio::test]
            async fn $name() {
                if let Some(database) = super::databases::new() {
                    super::$name(super::TestCatalogue::open(&database.url).await).await;
                }
            })*
        }
    };
}

on_both!(
    names_are_entered_once,
    names_are_listed_by_pattern_kind_and_metadata,
    containers_contain_datasets_without_cycles,
    nothing_can_be_detached_from_a_monotonic_dataset,
    the_history_of_a_name_is_in_order,
    a_scope_has_an_owner,
    copies_have_paths_of_their_own,
    the_files_of_a_dataset_go_to_one_endpoint,
    copies_are_at_different_sites,
    two_rules_share_copies,
    files_attached_later_are_copied_too,
    detached_files_are_unlocked,
    a_rule_that_ends_releases_its_locks,
    a_rule_made_again_within_a_day_moves_nothing,
    a_suspended_rule_copies_nothing,
    a_copy_that_fails_is_tried_again_later,
    files_without_a_readable_source_are_reported,
    a_file_uploaded_to_the_target_is_not_copied,
    a_file_uploaded_to_the_target_survives_a_failed_copy,
    copies_lost_in_a_crash_are_made_again,
    a_rule_that_cannot_be_fulfilled_is_refused_with_reasons,
    a_rule_that_outgrows_its_endpoint_waits_with_an_error,
    replicas_without_locks_are_deleted_when_an_endpoint_is_full,
    new_rules_take_the_space_of_replicas_without_locks,
    the_last_copy_stays,
    a_copy_that_cannot_be_deleted_is_available_again,
    a_rule_made_during_a_deletion_has_the_copy_made_again,
    a_bad_copy_is_replaced_from_a_good_one,
    a_source_with_a_wrong_checksum_becomes_suspicious,
    a_removed_dataset_can_be_restored_for_a_day,
    removing_a_container_keeps_its_datasets,
    the_removal_preview_counts_rules_of_containers,
    a_copy_of_two_rules_may_use_the_sources_of_either,
    a_copy_waits_for_its_source_to_arrive,
    the_jobs_of_a_rule_have_its_deadline,
    only_one_copy_crosses_the_ocean,
    rules_without_possible_copies_do_not_block_others,
    the_groups_of_a_rule_count_the_space_of_each_other,
    an_ended_rule_cannot_be_changed,
    a_file_in_two_datasets_is_copied_once,
    a_removed_file_that_was_attached_elsewhere_stays,
    removed_names_cannot_be_used_again,
    a_rule_of_a_container_unlocks_a_removed_dataset,
    files_of_monotonic_datasets_cannot_be_removed,
    a_dataset_cannot_be_restored_once_the_copies_of_a_file_are_deleted,
    a_file_removed_by_itself_keeps_its_end,
    a_copy_that_was_not_deleted_can_be_a_source,
    a_copy_that_is_being_deleted_cannot_be_entered,
    a_name_is_queued_once_for_a_subscription,
);
