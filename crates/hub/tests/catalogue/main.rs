//! The catalogue on real databases, SQLite and PostgreSQL: what rules ask for, what becomes of it, and what holds whatever happens.
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
use hub::database::catalogue::{MetadataChange, NameFilter, NewCopy};
use model::v1::hub::DataKind;

use lifecycle::{
    a_bad_copy_is_made_anew_from_another_one, a_container_that_is_removed_leaves_what_it_contained,
    a_copy_that_cannot_be_deleted_is_a_copy_again, a_copy_that_is_being_deleted_cannot_be_entered,
    a_copy_that_was_not_deleted_is_what_others_are_made_of, a_dataset_that_is_removed_can_be_had_back_for_a_day,
    a_file_that_something_else_contains_meanwhile_stays, a_rule_that_comes_while_a_copy_is_deleted_has_it_made_again,
    a_source_that_has_not_what_it_should_is_suspected, copies_that_no_rule_holds_give_way_when_an_endpoint_is_full,
    rules_of_a_container_let_go_of_a_dataset_that_ends, rules_of_what_contains_a_name_are_rules_of_it,
    the_last_copy_stays, what_has_an_end_of_its_own_keeps_it, what_has_been_removed_is_not_used_again,
    what_is_in_what_only_grows_is_not_removed, what_rules_ask_for_takes_the_room_of_what_none_holds,
};
use rules::{
    a_copy_of_two_rules_is_read_where_either_permits, a_copy_that_fails_is_tried_again_later,
    a_copy_waits_for_the_one_that_it_is_read_from, a_data_product_goes_to_one_endpoint_whole,
    a_file_of_two_datasets_has_its_copies_once, a_rule_that_ends_lets_go, a_rule_that_has_ended_is_not_changed,
    a_rule_that_is_made_again_within_a_day_moves_nothing, a_rule_that_is_suspended_copies_nothing,
    a_rule_that_outgrows_its_endpoint_waits_and_says_so, an_impossible_rule_is_told_what_could_be,
    copies_are_at_different_sites, copies_that_are_lost_in_a_crash_are_made_again, files_that_come_later_follow,
    files_that_go_are_let_go, groups_of_a_rule_see_what_the_others_take,
    one_copy_crosses_the_ocean_and_the_others_are_made_of_it, rules_of_which_nothing_can_be_copied_stop_no_others,
    the_deadline_of_a_rule_is_that_of_its_jobs, two_rules_share_copies, what_can_be_read_nowhere_says_so,
    what_is_put_there_while_it_is_copied_stays, what_is_uploaded_meanwhile_is_not_copied,
};
use subscriptions::a_name_waits_once_for_a_subscription;
use test_catalogue::{TestCatalogue, dataset, file, name};

/// What contradicts what is there is refused, in a sentence with this in it.
fn refused<T: std::fmt::Debug>(result: Result<T, DatabaseError>, said: &str) {
    match result {
        Err(DatabaseError::Refused(text)) => assert!(text.contains(said), "{text}"),
        other => panic!("{other:?}, where {said:?} was expected"),
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
    refused(world.enter(&[dataset("s:d")], None).await, "is there already");
    refused(world.enter(&[dataset("s:f1")], None).await, "is something else");
    refused(world.enter(&[file("s:f9", 1)], Some("s:nowhere")).await, "there is no s:nowhere");
    assert!(world.database.data(&name("s:f9")).await.unwrap().is_none(), "all of them, or none");
    world.check().await;
}

async fn names_are_listed_by_what_they_are_and_what_is_said_of_them(world: TestCatalogue) {
    let mut run = dataset("s:run_7");
    run.metadata = [("telescope".to_owned(), "\"low\"".to_owned())].into();
    world.enter(&[run, dataset("s:runx7"), dataset("t:run_7"), file("s:run_7.f", 1)], None).await.unwrap();
    let which =
        |pattern: &str| NameFilter { scope: "s".into(), pattern: pattern.into(), limit: 10, ..NameFilter::default() };
    let listed = async |which: NameFilter| {
        let rows = world.database.data_list(&which).await.unwrap();
        rows.iter().map(|row| row.name.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(which("")).await, ["run_7", "run_7.f", "runx7"]);
    assert_eq!(listed(which("run_7*")).await, ["run_7", "run_7.f"]);
    assert_eq!(listed(NameFilter { kind: Some(DataKind::File), ..which("") }).await, ["run_7.f"]);
    assert_eq!(listed(NameFilter { after: "run_7".into(), limit: 1, ..which("") }).await, ["run_7.f"]);
    let said = |value: &str| NameFilter { metadata: vec![("telescope".into(), value.into())], ..which("") };
    assert_eq!(listed(said("\"low\"")).await, ["run_7"]);
    let row = world.data("s:run_7").await;
    let change: MetadataChange = [("telescope".to_owned(), None), ("beam".to_owned(), Some("3".to_owned()))].into();
    world.database.change_metadata(row.id, "ann".into(), change, world.now()).await.unwrap();
    assert_eq!(world.database.metadata(row.id).await.unwrap(), [("beam".to_owned(), "3".to_owned())].into());
    assert!(listed(said("\"low\"")).await.is_empty());
}

async fn containers_contain_datasets_and_no_circles(world: TestCatalogue) {
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

async fn what_only_grows_loses_nothing(world: TestCatalogue) {
    let mut grows = dataset("s:d");
    grows.monotonic = true;
    world.enter(&[grows, file("s:f", 5)], None).await.unwrap();
    world.attach("s:d", &["s:f"]).await.unwrap();
    refused(world.detach("s:d", &["s:f"]).await, "only grows");
}

async fn what_happened_is_told_in_order(world: TestCatalogue) {
    world.enter(&[dataset("s:d")], None).await.unwrap();
    world.enter(&[world.there("s:f", 5, &["cern"])], Some("s:d")).await.unwrap();
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
    old.copies = vec![NewCopy { endpoint: "cern".into(), path: Some("old/place".into()) }];
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
    names_are_listed_by_what_they_are_and_what_is_said_of_them,
    containers_contain_datasets_and_no_circles,
    what_only_grows_loses_nothing,
    what_happened_is_told_in_order,
    a_scope_has_an_owner,
    copies_have_paths_of_their_own,
    a_data_product_goes_to_one_endpoint_whole,
    copies_are_at_different_sites,
    two_rules_share_copies,
    files_that_come_later_follow,
    files_that_go_are_let_go,
    a_rule_that_ends_lets_go,
    a_rule_that_is_made_again_within_a_day_moves_nothing,
    a_rule_that_is_suspended_copies_nothing,
    a_copy_that_fails_is_tried_again_later,
    what_can_be_read_nowhere_says_so,
    what_is_uploaded_meanwhile_is_not_copied,
    what_is_put_there_while_it_is_copied_stays,
    copies_that_are_lost_in_a_crash_are_made_again,
    an_impossible_rule_is_told_what_could_be,
    a_rule_that_outgrows_its_endpoint_waits_and_says_so,
    copies_that_no_rule_holds_give_way_when_an_endpoint_is_full,
    what_rules_ask_for_takes_the_room_of_what_none_holds,
    the_last_copy_stays,
    a_copy_that_cannot_be_deleted_is_a_copy_again,
    a_rule_that_comes_while_a_copy_is_deleted_has_it_made_again,
    a_bad_copy_is_made_anew_from_another_one,
    a_source_that_has_not_what_it_should_is_suspected,
    a_dataset_that_is_removed_can_be_had_back_for_a_day,
    a_container_that_is_removed_leaves_what_it_contained,
    rules_of_what_contains_a_name_are_rules_of_it,
    a_copy_of_two_rules_is_read_where_either_permits,
    a_copy_waits_for_the_one_that_it_is_read_from,
    the_deadline_of_a_rule_is_that_of_its_jobs,
    one_copy_crosses_the_ocean_and_the_others_are_made_of_it,
    rules_of_which_nothing_can_be_copied_stop_no_others,
    groups_of_a_rule_see_what_the_others_take,
    a_rule_that_has_ended_is_not_changed,
    a_file_of_two_datasets_has_its_copies_once,
    a_file_that_something_else_contains_meanwhile_stays,
    what_has_been_removed_is_not_used_again,
    rules_of_a_container_let_go_of_a_dataset_that_ends,
    what_is_in_what_only_grows_is_not_removed,
    what_has_an_end_of_its_own_keeps_it,
    a_copy_that_was_not_deleted_is_what_others_are_made_of,
    a_copy_that_is_being_deleted_cannot_be_entered,
    a_name_waits_once_for_a_subscription,
);
