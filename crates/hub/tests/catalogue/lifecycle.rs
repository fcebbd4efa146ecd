//! Copies that go, copies that are not what they should be, and names that end.

use std::collections::BTreeSet;
use std::sync::Arc;

use hub::database::DatabaseError;
use hub::database::catalogue::{DataRow, NewRule, Removal, ReplicaState, RuleUpdate, UNDO_MS};
use hub::database::outcomes::Outcome;
use hub::topology::Topology;
use model::v1::hub::DataKind;

use crate::refused;
use crate::test_catalogue::{TestCatalogue, dataset, name, new_rule};

impl TestCatalogue {
    /// Copies that are deleted next.
    async fn take(&self) -> Vec<Removal> {
        self.database.take_removals(Arc::clone(&self.topology), self.now()).await.unwrap()
    }

    /// Deletes all that is to be deleted; which copies that were.
    async fn remove_all(&self) -> BTreeSet<(String, String)> {
        let mut gone = BTreeSet::new();
        loop {
            let taken = self.take().await;
            if taken.is_empty() {
                self.check().await;
                return gone;
            }
            gone.extend(taken.iter().map(|it| (it.name.to_string(), it.endpoint.clone())));
            self.database.removed(taken, self.now()).await.unwrap();
        }
    }

    async fn end_rule(&self, id: &str) {
        let update = RuleUpdate { expires: Some(Some(self.now())), ..RuleUpdate::default() };
        self.database.change_rule(self.row(id).await.number, "ann".into(), update, self.now()).await.unwrap();
        self.settle_down().await;
    }

    /// The same, with storage of an endpoint described otherwise.
    pub fn with_storage(mut self, endpoint: &str, change: impl FnOnce(&mut model::v1::hub::Storage)) -> TestCatalogue {
        let mut described = self.topology.described.clone();
        change(described.endpoints.get_mut(endpoint).unwrap().storage.as_mut().unwrap());
        self.topology = Arc::new(Topology::new(described).unwrap());
        self
    }

    async fn bad(&self, file: &str, endpoint: &str) {
        let why = "bits are flipped".to_owned();
        self.database.declare_bad(name(file), endpoint.into(), "ann".into(), why, self.now()).await.unwrap();
        self.check().await;
    }

    pub async fn end_names(&self) {
        while self.database.end_names(self.now()).await.unwrap() {
            self.settle_down().await;
        }
    }
}

/// Ten files of 90 bytes at cern, copied to bnl, which has room for eleven.
async fn full_endpoint(world: &TestCatalogue) -> Vec<String> {
    world.enter(&[dataset("s:d")], None).await.unwrap();
    let new: Vec<_> = (0..10).map(|at| world.there(&format!("s:d.{at}"), 90, &["cern"])).collect();
    world.enter(&new, Some("s:d")).await.unwrap();
    world.rule("s:d", "cern", 1).await;
    let rule = world.rule("s:d", "bnl", 1).await;
    world.settle_down().await;
    vec![rule.id]
}

pub async fn copies_that_no_rule_holds_give_way_when_an_endpoint_is_full(world: TestCatalogue) {
    let rules = full_endpoint(&world).await;
    world.end_rule(&rules[0]).await;
    assert!(world.take().await.is_empty(), "for a day they stay");
    world.wait(UNDO_MS);
    assert!(world.take().await.is_empty(), "900 of 1,000 bytes are not above the high water");
    world.enter(&[world.there("s:f", 50, &["cern"])], None).await.unwrap();
    world.rule("s:f", "bnl", 1).await;
    world.settle_down().await;
    // Down to 800 bytes: of 950, two files of 90 go.
    let gone = world.remove_all().await;
    assert_eq!(gone, [("s:d.0".into(), "bnl".into()), ("s:d.1".into(), "bnl".into())].into(), "those used longest ago");
    assert_eq!(world.at("s:d.0").await, ["cern"]);
}

pub async fn what_rules_ask_for_takes_the_room_of_what_none_holds(world: TestCatalogue) {
    let rules = full_endpoint(&world).await;
    world.enter(&[world.there("s:large", 700, &["cern"])], None).await.unwrap();
    let large = world.data("s:large").await;
    let shortage = world.try_rule(new_rule(&large, "bnl", 1)).await.unwrap();
    assert_eq!(shortage.full, ["bnl"], "a rule holds all that is there");
    world.end_rule(&rules[0]).await;
    assert_eq!(world.try_rule(new_rule(&large, "bnl", 1)).await, None);
    world.settle_down().await;
    world.wait(UNDO_MS);
    let gone = world.remove_all().await;
    assert_eq!(gone.len(), 9, "of 1,600 bytes 800 are to go, in files of 90");
    assert_eq!(world.at("s:large").await, ["bnl", "cern"]);
}

pub async fn the_last_copy_stays(world: TestCatalogue) {
    let world = world.with_storage("cern", |it| it.greedy = true).with_storage("ral", |it| it.greedy = true);
    world
        .enter(&[world.there("s:one", 10, &["cern"]), world.there("s:two", 10, &["cern", "ral"])], None)
        .await
        .unwrap();
    world.wait(UNDO_MS);
    let taken = world.take().await;
    assert_eq!(taken.len(), 1, "of two copies that are both to go one stays: {taken:?}");
    assert_eq!(taken[0].name, name("s:two"));
    world.database.removed(taken, world.now()).await.unwrap();
    assert!(world.remove_all().await.is_empty());
    assert_eq!((world.at("s:one").await.len(), world.at("s:two").await.len()), (1, 1));
}

pub async fn a_copy_that_cannot_be_deleted_is_a_copy_again(world: TestCatalogue) {
    let world = world.with_storage("ral", |it| it.greedy = true);
    world.enter(&[world.there("s:f", 10, &["cern", "ral"])], None).await.unwrap();
    world.wait(UNDO_MS);
    let taken = world.take().await;
    assert_eq!(world.copies("s:f").await[1], ("ral".to_owned(), ReplicaState::Deleting));
    assert!(world.take().await.is_empty(), "it is somebody's for a while");
    let failed = taken.into_iter().map(|it| (it, "the server is down".to_owned())).collect();
    world.database.not_removed(failed, world.now()).await.unwrap();
    world.check().await;
    assert_eq!(world.at("s:f").await, ["cern", "ral"]);
    assert!(world.take().await.is_empty(), "it is tried again later");
    world.wait(10 * 60_000);
    assert_eq!(world.take().await.len(), 1);
    // Whoever took it is killed.
    world.wait(10 * 60_000);
    assert_eq!(world.remove_all().await.len(), 1);
}

pub async fn a_rule_that_comes_while_a_copy_is_deleted_has_it_made_again(world: TestCatalogue) {
    let world = world.with_storage("ral", |it| it.greedy = true);
    world.enter(&[world.there("s:f", 10, &["cern", "ral"])], None).await.unwrap();
    world.wait(UNDO_MS);
    let taken = world.take().await;
    let rule = world.rule("s:f", "ral", 1).await;
    world.evaluate().await;
    world.check().await;
    assert_eq!(world.row(&rule.id).await.replicating, 1);
    world.database.removed(taken, world.now()).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.at("s:f").await, ["cern", "ral"]);
    assert_eq!(world.row(&rule.id).await.ok, 1);
}

pub async fn a_bad_copy_is_made_anew_from_another_one(world: TestCatalogue) {
    world.enter(&[world.there("s:f", 10, &["cern"])], None).await.unwrap();
    let rule = world.rule("s:f", "ral", 1).await;
    world.settle_down().await;
    world.bad("s:f", "ral").await;
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.replicating), (0, 1));
    world.settle_down().await;
    assert_eq!(world.at("s:f").await, ["cern", "ral"]);

    // One after another all are bad: the file is lost, until somebody brings it back.
    world.bad("s:f", "cern").await;
    world.bad("s:f", "ral").await;
    let lost = world.database.lost(10).await.unwrap();
    assert_eq!(lost.iter().map(|row| row.name.to_string()).collect::<Vec<_>>(), ["s:f"]);
    assert_eq!(world.row(&rule.id).await.stuck, 1);
    let other = world.rule("s:f", "tier=1", 1).await;
    world.settle_down().await;
    assert_eq!(world.row(&other.id).await.stuck, 1);
    assert_eq!(world.database.lost(10).await.unwrap().len(), 1, "a rule that asks for it anew does not bring it back");
    let copies = world.there("s:f", 10, &["bnl"]).copies;
    world.database.add_copies(name("s:f"), copies, world.now()).await.unwrap();
    world.settle_down().await;
    assert!(world.database.lost(10).await.unwrap().is_empty());
    assert_eq!(world.row(&rule.id).await.ok, 1);
    refused(
        world.database.declare_bad(name("s:f"), "cern2".into(), "ann".into(), String::new(), world.now()).await,
        "no copy of s:f is available at cern2",
    );
}

pub async fn a_source_that_has_not_what_it_should_is_suspected(world: TestCatalogue) {
    world.enter(&[world.there("s:f", 10, &["cern"])], None).await.unwrap();
    world.rule("s:f", "ral", 1).await;
    assert!(world.put_into_queue().await);
    let failed = |_| Outcome::Failed { fault: "integrity".into(), reason: "its checksum is another one".into() };
    assert_eq!(world.carry(10, failed).await, 1);
    world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
    let suspicions = world.database.suspicions(world.now()).await.unwrap();
    assert_eq!((suspicions.len(), suspicions[0].endpoint.as_str()), (1, "cern"));
    assert!(suspicions[0].why.contains("another one"));
    let id = suspicions[0].file.id;
    world.database.not_told(id, "cern".into(), world.now()).await.unwrap();
    assert!(world.database.suspicions(world.now()).await.unwrap().is_empty(), "it is asked again later");
    world.wait(15 * 60_000);
    world.database.cleared(id, "cern".into()).await.unwrap();
    assert!(world.database.suspicions(world.now()).await.unwrap().is_empty());
}

pub async fn a_dataset_that_is_removed_can_be_had_back_for_a_day(world: TestCatalogue) {
    world.filled("s:d", 3, "cern").await;
    world.enter(&[dataset("s:e")], None).await.unwrap();
    world.attach("s:e", &["s:d.2"]).await.unwrap();
    world.rule("s:d", "ral", 1).await;
    world.settle_down().await;
    let ending = world.database.ending(&world.data("s:d").await).await.unwrap();
    assert_eq!((ending.files, ending.bytes, ending.copies, ending.kept_files), (2, 20, 4, 1));
    assert_eq!(ending.accounts(), ["ann"]);

    let end =
        async |at: Option<i64>| world.database.end_name(name("s:d"), "ann".into(), at, world.now()).await.unwrap();
    end(Some(world.now() + UNDO_MS)).await;
    assert!(world.data("s:d.0").await.expires.is_some() && world.data("s:d.2").await.expires.is_none());
    end(None).await;
    assert!(world.data("s:d.0").await.expires.is_none());
    world.wait(UNDO_MS);
    world.end_names().await;
    assert_eq!(world.data("s:d").await.entries, 3, "it was had back");

    end(Some(world.now() + UNDO_MS)).await;
    world.wait(UNDO_MS);
    world.end_names().await;
    assert!(world.database.data(&name("s:d")).await.unwrap().is_none());
    // Their copies are let go, and the last ones go, too: nobody wants these files any more.
    let gone = world.remove_all().await;
    assert_eq!(gone.len(), 4, "two copies of each of two files: {gone:?}");
    world.end_names().await;
    assert!(world.database.data(&name("s:d.0")).await.unwrap().is_none());
    assert_eq!(world.at("s:d.2").await, ["cern", "ral"], "what something else contains stays");
    crate::invariants::check_quiet(&world).await;
}

pub async fn a_container_that_is_removed_leaves_what_it_contained(world: TestCatalogue) {
    world.filled("s:d", 2, "cern").await;
    let mut container = dataset("s:c");
    container.kind = DataKind::Container;
    world.enter(&[container], None).await.unwrap();
    world.attach("s:c", &["s:d"]).await.unwrap();
    let rule = world.make(NewRule { ..new_rule(&world.data("s:c").await, "ral", 1) }).await;
    world.settle_down().await;
    world.database.end_name(name("s:c"), "ann".into(), Some(world.now()), world.now()).await.unwrap();
    world.end_names().await;
    assert!(world.database.data(&name("s:c")).await.unwrap().is_none());
    assert!(world.database.rule(&rule.id).await.unwrap().is_none());
    assert_eq!(world.data("s:d").await.entries, 2);
    let mut grows = dataset("s:grows");
    grows.monotonic = true;
    world.enter(&[grows], None).await.unwrap();
    refused(
        world.database.end_name(name("s:grows"), "ann".into(), Some(world.now()), world.now()).await,
        "only grows: it is not removed",
    );
}

pub async fn rules_of_what_contains_a_name_are_rules_of_it(world: TestCatalogue) {
    world.filled("s:d", 2, "cern").await;
    let mut container = dataset("s:c");
    container.kind = DataKind::Container;
    world.enter(&[container], None).await.unwrap();
    world.attach("s:c", &["s:d"]).await.unwrap();
    let of = world.data("s:c").await;
    world.make(NewRule { account: "bob".into(), ..new_rule(&of, "ral", 1) }).await;
    for name in ["s:c", "s:d", "s:d.0"] {
        let ending = world.database.ending(&world.data(name).await).await.unwrap();
        assert_eq!(ending.accounts(), ["bob"], "{name} is not ann's alone to remove");
    }
}

/// Ends a dataset, or has it back.
async fn end(world: &TestCatalogue, of: &str, at: Option<i64>) -> Result<(), DatabaseError> {
    world.database.end_name(name(of), "ann".into(), at, world.now()).await
}

pub async fn a_file_that_something_else_contains_meanwhile_stays(world: TestCatalogue) {
    world.filled("s:d", 3, "cern").await;
    world.filled("s:e", 1, "cern").await;
    end(&world, "s:d", Some(world.now() + UNDO_MS)).await.unwrap();
    world.attach("s:e", &["s:d.1"]).await.unwrap();
    assert_eq!(world.data("s:d.1").await.expires, None);
    assert!(world.data("s:d.2").await.expires.is_some());
    // One that is taken out and put elsewhere stays, too.
    world.filled("s:moved", 1, "cern").await;
    end(&world, "s:moved", Some(world.now() + UNDO_MS)).await.unwrap();
    world.detach("s:moved", &["s:moved.0"]).await.unwrap();
    assert_eq!(world.data("s:moved.0").await.expires, None);
    // One that somebody removed for itself goes, whatever contains it.
    end(&world, "s:d.2", Some(world.now() + UNDO_MS / 2)).await.unwrap();
    world.attach("s:e", &["s:d.2"]).await.unwrap();
    world.wait(UNDO_MS);
    world.end_names().await;
    let gone = world.remove_all().await;
    world.end_names().await;
    assert_eq!(gone, [("s:d.0".into(), "cern".into()), ("s:d.2".into(), "cern".into())].into());
    assert_eq!(world.at("s:d.1").await, ["cern"]);
    assert_eq!(world.data("s:e").await.entries, 2);
    crate::invariants::check_quiet(&world).await;
}

pub async fn what_has_been_removed_is_not_used_again(world: TestCatalogue) {
    world.filled("s:d", 1, "cern").await;
    world.filled("s:e", 1, "cern").await;
    let rule = |of: &DataRow, expires| NewRule { expires, ..new_rule(of, "ral", 1) };
    let make = async |rule| world.database.make_rule(rule, Arc::clone(&world.topology), world.now()).await;
    end(&world, "s:d", Some(world.now() + UNDO_MS)).await.unwrap();
    let row = world.data("s:d").await;
    refused(make(rule(&row, None)).await, "is to be removed at");
    assert_eq!(make(rule(&row, Some(world.now() + 1_000))).await.unwrap(), None, "what ends before may be asked for");
    let later = NewRule { expires: Some(world.now() + 2 * UNDO_MS), ..new_rule(&row, "bnl", 1) };
    let (id, number) = (later.id.clone(), world.make(later).await.number);
    assert_eq!(world.row(&id).await.expires, row.expires, "it ends with its name");
    let never = RuleUpdate { expires: Some(None), ..RuleUpdate::default() };
    refused(world.database.change_rule(number, "ann".into(), never, world.now()).await, "is to be removed at");
    world.wait(UNDO_MS);
    refused(make(rule(&row, None)).await, "s:d has been removed");
    refused(world.attach("s:d", &["s:e.0"]).await, "s:d has been removed");
    refused(world.attach("s:e", &["s:d.0"]).await, "s:d.0 has been removed");
    refused(end(&world, "s:d", None).await, "cannot be had back");
    world.settle_down().await;
    world.end_names().await;
    world.remove_all().await;
    world.end_names().await;
    assert!(world.database.data(&name("s:d.0")).await.unwrap().is_none());
    crate::invariants::check_quiet(&world).await;
}

pub async fn rules_of_a_container_let_go_of_a_dataset_that_ends(world: TestCatalogue) {
    let mut container = dataset("s:c");
    container.kind = DataKind::Container;
    world.enter(&[container], None).await.unwrap();
    for of in ["s:d", "s:e"] {
        world.filled(of, 2, "cern").await;
        world.attach("s:c", &[of]).await.unwrap();
    }
    let rule = world.make(NewRule { ..new_rule(&world.data("s:c").await, "ral", 1) }).await;
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 4);
    end(&world, "s:d", Some(world.now())).await.unwrap();
    world.end_names().await;
    // Of another one the files are taken out before anybody has looked at what that means.
    world.detach("s:c", &["s:e"]).await.unwrap();
    world.detach("s:e", &["s:e.0"]).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 0, "nothing is in the container any more");
    crate::invariants::check_quiet(&world).await;
}

pub async fn what_has_an_end_of_its_own_keeps_it(world: TestCatalogue) {
    world.filled("s:d", 1, "cern").await;
    world.filled("s:e", 1, "cern").await;
    let at = Some(world.now() + UNDO_MS);
    end(&world, "s:d.0", at).await.unwrap();
    end(&world, "s:d", at).await.unwrap();
    world.attach("s:e", &["s:d.0"]).await.unwrap();
    end(&world, "s:d", None).await.unwrap();
    assert_eq!(world.data("s:d.0").await.expires, at, "its owner said so of this file");
    let mut grows = dataset("s:grows");
    grows.monotonic = true;
    world.enter(&[grows], None).await.unwrap();
    refused(world.attach("s:grows", &["s:d.0"]).await, "s:d.0 is to be removed, and s:grows only grows");
    world.wait(UNDO_MS);
    refused(world.enter(&[world.there("s:d.0", 10, &["ral"])], None).await, "s:d.0 has been removed");
    let copies = world.there("s:d.0", 10, &["ral"]).copies;
    refused(world.database.add_copies(name("s:d.0"), copies, world.now()).await, "s:d.0 has been removed");
}

pub async fn a_copy_that_was_not_deleted_is_what_others_are_made_of(world: TestCatalogue) {
    let world = world.with_storage("ral", |it| it.greedy = true);
    world.enter(&[world.there("s:f", 10, &["cern", "cern2", "ral"])], None).await.unwrap();
    world.bad("s:f", "cern2").await;
    world.wait(UNDO_MS);
    let taken: Vec<Removal> = world.take().await.into_iter().filter(|it| it.endpoint == "ral").collect();
    assert_eq!(taken.len(), 1);
    world.bad("s:f", "cern").await;
    let rule = world.rule("s:f", "cern", 1).await;
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.stuck, 1, "there is nothing to make it of");
    let failed = taken.into_iter().map(|it| (it, "the server is down".to_owned())).collect();
    world.database.not_removed(failed, world.now()).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 1);
}

pub async fn what_is_in_what_only_grows_is_not_removed(world: TestCatalogue) {
    let mut grows = dataset("s:grows");
    grows.monotonic = true;
    world.enter(&[grows], None).await.unwrap();
    world.enter(&[world.there("s:f", 10, &["cern"])], Some("s:grows")).await.unwrap();
    refused(end(&world, "s:f", Some(world.now())).await, "s:f is in s:grows, which only grows");
}

pub async fn a_copy_that_is_being_deleted_cannot_be_entered(world: TestCatalogue) {
    let world = world.with_storage("ral", |it| it.greedy = true);
    let new = world.there("s:f", 10, &["cern", "ral"]);
    world.enter(std::slice::from_ref(&new), None).await.unwrap();
    world.wait(UNDO_MS);
    let taken = world.take().await;
    let said = "the copy of s:f at ral is being deleted";
    refused(world.database.add_copies(name("s:f"), new.copies.clone(), world.now()).await, said);
    refused(world.enter(std::slice::from_ref(&new), None).await, said);
    let merged = world.database.merge("ann".into(), vec![new.clone()], None, world.now()).await.unwrap();
    assert_eq!((merged.conflicts.len(), merged.skipped_copies), (0, 1));
    world.database.removed(taken, world.now()).await.unwrap();
    world.database.add_copies(name("s:f"), new.copies, world.now()).await.unwrap();
    world.check().await;
    assert_eq!(world.at("s:f").await, ["cern", "ral"]);
}
