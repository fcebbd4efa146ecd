//! Tests of copies that are deleted, copies that are bad, and names that are removed.

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
    /// Takes the copies that are to be deleted next.
    async fn take_removals(&self) -> Vec<Removal> {
        self.database.take_removals(Arc::clone(&self.topology), self.now()).await.unwrap()
    }

    /// Deletes all copies that are to be deleted, and returns them.
    pub async fn remove_all(&self) -> BTreeSet<(String, String)> {
        let mut removed = BTreeSet::new();
        loop {
            let taken = self.take_removals().await;
            if taken.is_empty() {
                self.check().await;
                return removed;
            }
            removed.extend(taken.iter().map(|it| (it.name.to_string(), it.endpoint.clone())));
            self.database.record_removed(taken, self.now()).await.unwrap();
        }
    }

    async fn end_rule(&self, id: &str) {
        let update = RuleUpdate { expires: Some(Some(self.now())), ..RuleUpdate::default() };
        self.database.change_rule(self.row(id).await.number, "ann".into(), update, self.now()).await.unwrap();
        self.settle_down().await;
    }

    /// The same catalogue, with a changed description of the storage of an endpoint.
    pub fn with_storage(mut self, endpoint: &str, change: impl FnOnce(&mut model::v1::hub::Storage)) -> TestCatalogue {
        let mut described = self.topology.described.clone();
        change(described.endpoints.get_mut(endpoint).unwrap().storage.as_mut().unwrap());
        self.topology = Arc::new(Topology::new(described).unwrap());
        self
    }

    async fn declare_bad(&self, file: &str, endpoint: &str) {
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

/// Enters ten files of 90 bytes at cern and has them copied to bnl, which has space for eleven. Returns the id of the rule.
async fn full_endpoint(world: &TestCatalogue) -> Vec<String> {
    world.enter(&[dataset("s:d")], None).await.unwrap();
    let new: Vec<_> = (0..10).map(|at| world.file_at(&format!("s:d.{at}"), 90, &["cern"])).collect();
    world.enter(&new, Some("s:d")).await.unwrap();
    world.rule("s:d", "cern", 1).await;
    let rule = world.rule("s:d", "bnl", 1).await;
    world.settle_down().await;
    vec![rule.id]
}

pub async fn replicas_without_locks_are_deleted_when_an_endpoint_is_full(world: TestCatalogue) {
    let rules = full_endpoint(&world).await;
    world.end_rule(&rules[0]).await;
    assert!(world.take_removals().await.is_empty(), "they stay for a day");
    world.wait(UNDO_MS);
    assert!(world.take_removals().await.is_empty(), "900 of 1,000 bytes are not above the high-water mark");
    world.enter(&[world.file_at("s:f", 50, &["cern"])], None).await.unwrap();
    world.rule("s:f", "bnl", 1).await;
    world.settle_down().await;
    // 950 bytes are used, and 800 may stay: two files of 90 are deleted.
    let gone = world.remove_all().await;
    assert_eq!(
        gone,
        [("s:d.0".into(), "bnl".into()), ("s:d.1".into(), "bnl".into())].into(),
        "the least recently used"
    );
    assert_eq!(world.available_at("s:d.0").await, ["cern"]);
}

pub async fn new_rules_take_the_space_of_replicas_without_locks(world: TestCatalogue) {
    let rules = full_endpoint(&world).await;
    world.enter(&[world.file_at("s:large", 700, &["cern"])], None).await.unwrap();
    let large = world.data("s:large").await;
    let shortage = world.try_rule(new_rule(&large, "bnl", 1)).await.unwrap();
    assert_eq!(shortage.full, ["bnl"], "a rule holds everything there");
    world.end_rule(&rules[0]).await;
    assert_eq!(world.try_rule(new_rule(&large, "bnl", 1)).await, None);
    world.settle_down().await;
    world.wait(UNDO_MS);
    let gone = world.remove_all().await;
    assert_eq!(gone.len(), 9, "800 of 1,600 bytes are to be deleted, in files of 90");
    assert_eq!(world.available_at("s:large").await, ["bnl", "cern"]);
}

pub async fn the_last_copy_stays(world: TestCatalogue) {
    let world = world.with_storage("cern", |it| it.greedy = true).with_storage("ral", |it| it.greedy = true);
    world
        .enter(&[world.file_at("s:one", 10, &["cern"]), world.file_at("s:two", 10, &["cern", "ral"])], None)
        .await
        .unwrap();
    world.wait(UNDO_MS);
    let taken = world.take_removals().await;
    assert_eq!(taken.len(), 1, "of two copies that may both be deleted, one stays: {taken:?}");
    assert_eq!(taken[0].name, name("s:two"));
    world.database.record_removed(taken, world.now()).await.unwrap();
    assert!(world.remove_all().await.is_empty());
    assert_eq!((world.available_at("s:one").await.len(), world.available_at("s:two").await.len()), (1, 1));
}

pub async fn a_copy_that_cannot_be_deleted_is_available_again(world: TestCatalogue) {
    let world = world.with_storage("ral", |it| it.greedy = true);
    world.enter(&[world.file_at("s:f", 10, &["cern", "ral"])], None).await.unwrap();
    world.wait(UNDO_MS);
    let taken = world.take_removals().await;
    assert_eq!(world.copies("s:f").await[1], ("ral".to_owned(), ReplicaState::Deleting));
    assert!(world.take_removals().await.is_empty(), "it is leased for a while");
    let failed = taken.into_iter().map(|it| (it, "the server is down".to_owned())).collect();
    world.database.record_not_removed(failed, world.now()).await.unwrap();
    world.check().await;
    assert_eq!(world.available_at("s:f").await, ["cern", "ral"]);
    assert!(world.take_removals().await.is_empty(), "it is tried again later");
    world.wait(10 * 60_000);
    assert_eq!(world.take_removals().await.len(), 1);
    // The hub that took it is killed.
    world.wait(10 * 60_000);
    assert_eq!(world.remove_all().await.len(), 1);
}

pub async fn a_rule_made_during_a_deletion_has_the_copy_made_again(world: TestCatalogue) {
    let world = world.with_storage("ral", |it| it.greedy = true);
    world.enter(&[world.file_at("s:f", 10, &["cern", "ral"])], None).await.unwrap();
    world.wait(UNDO_MS);
    let taken = world.take_removals().await;
    let rule = world.rule("s:f", "ral", 1).await;
    world.evaluate().await;
    world.check().await;
    assert_eq!(world.row(&rule.id).await.replicating, 1);
    world.database.record_removed(taken, world.now()).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.available_at("s:f").await, ["cern", "ral"]);
    assert_eq!(world.row(&rule.id).await.ok, 1);
}

pub async fn a_bad_copy_is_replaced_from_a_good_one(world: TestCatalogue) {
    world.enter(&[world.file_at("s:f", 10, &["cern"])], None).await.unwrap();
    let rule = world.rule("s:f", "ral", 1).await;
    world.settle_down().await;
    world.declare_bad("s:f", "ral").await;
    let row = world.row(&rule.id).await;
    assert_eq!((row.ok, row.replicating), (0, 1));
    world.settle_down().await;
    assert_eq!(world.available_at("s:f").await, ["cern", "ral"]);

    // All copies become bad, one after the other: the file is lost until a copy is entered again.
    world.declare_bad("s:f", "cern").await;
    world.declare_bad("s:f", "ral").await;
    let lost = world.database.lost(10).await.unwrap();
    assert_eq!(lost.iter().map(|row| row.name.to_string()).collect::<Vec<_>>(), ["s:f"]);
    assert_eq!(world.row(&rule.id).await.stuck, 1);
    let other = world.rule("s:f", "tier=1", 1).await;
    world.settle_down().await;
    assert_eq!(world.row(&other.id).await.stuck, 1);
    assert_eq!(world.database.lost(10).await.unwrap().len(), 1, "a new rule does not make it available");
    let copies = world.file_at("s:f", 10, &["bnl"]).copies;
    world.database.add_copies(name("s:f"), copies, world.now()).await.unwrap();
    world.settle_down().await;
    assert!(world.database.lost(10).await.unwrap().is_empty());
    assert_eq!(world.row(&rule.id).await.ok, 1);
    refused(
        world.database.declare_bad(name("s:f"), "cern2".into(), "ann".into(), String::new(), world.now()).await,
        "no copy of s:f is available at cern2",
    );
}

pub async fn a_source_with_a_wrong_checksum_becomes_suspicious(world: TestCatalogue) {
    world.enter(&[world.file_at("s:f", 10, &["cern"])], None).await.unwrap();
    world.rule("s:f", "ral", 1).await;
    assert!(world.submit_next().await);
    let failed = |_| Outcome::Failed { fault: "integrity".into(), reason: "its checksum is another one".into() };
    assert_eq!(world.end_files(10, failed).await, 1);
    world.database.settle_copies(Arc::clone(&world.topology), world.now()).await.unwrap();
    let suspicions = world.database.suspicions(world.now()).await.unwrap();
    assert_eq!((suspicions.len(), suspicions[0].endpoint.as_str()), (1, "cern"));
    assert!(suspicions[0].why.contains("another one"));
    let id = suspicions[0].file.id;
    world.database.postpone_suspicion(id, "cern".into(), world.now()).await.unwrap();
    assert!(world.database.suspicions(world.now()).await.unwrap().is_empty(), "it is checked again later");
    world.wait(15 * 60_000);
    world.database.clear_suspicion(id, "cern".into()).await.unwrap();
    assert!(world.database.suspicions(world.now()).await.unwrap().is_empty());
}

pub async fn a_removed_dataset_can_be_restored_for_a_day(world: TestCatalogue) {
    world.dataset_at("s:d", 3, "cern").await;
    world.enter(&[dataset("s:e")], None).await.unwrap();
    world.attach("s:e", &["s:d.2"]).await.unwrap();
    world.rule("s:d", "ral", 1).await;
    world.settle_down().await;
    let preview = world.database.removal_preview(&world.data("s:d").await).await.unwrap();
    assert_eq!((preview.files, preview.bytes, preview.copies, preview.kept_files), (2, 20, 4, 1));
    assert_eq!(preview.accounts(), ["ann"]);

    let end =
        async |at: Option<i64>| world.database.end_name(name("s:d"), "ann".into(), at, world.now()).await.unwrap();
    end(Some(world.now() + UNDO_MS)).await;
    assert!(world.data("s:d.0").await.expires.is_some() && world.data("s:d.2").await.expires.is_none());
    end(None).await;
    assert!(world.data("s:d.0").await.expires.is_none());
    world.wait(UNDO_MS);
    world.end_names().await;
    assert_eq!(world.data("s:d").await.entries, 3, "it was restored");

    end(Some(world.now() + UNDO_MS)).await;
    world.wait(UNDO_MS);
    world.end_names().await;
    assert!(world.database.data(&name("s:d")).await.unwrap().is_none());
    // Their copies lose their locks and are deleted, the last ones too: the files themselves have been removed.
    let gone = world.remove_all().await;
    assert_eq!(gone.len(), 4, "two copies of each of two files: {gone:?}");
    world.end_names().await;
    assert!(world.database.data(&name("s:d.0")).await.unwrap().is_none());
    assert_eq!(world.available_at("s:d.2").await, ["cern", "ral"], "a file of another dataset stays");
    crate::invariants::check_quiet(&world).await;
}

pub async fn removing_a_container_keeps_its_datasets(world: TestCatalogue) {
    world.dataset_at("s:d", 2, "cern").await;
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
        "only grows: it cannot be removed",
    );
}

pub async fn the_removal_preview_counts_rules_of_containers(world: TestCatalogue) {
    world.dataset_at("s:d", 2, "cern").await;
    let mut container = dataset("s:c");
    container.kind = DataKind::Container;
    world.enter(&[container], None).await.unwrap();
    world.attach("s:c", &["s:d"]).await.unwrap();
    let of = world.data("s:c").await;
    world.make(NewRule { account: "bob".into(), ..new_rule(&of, "ral", 1) }).await;
    for name in ["s:c", "s:d", "s:d.0"] {
        let preview = world.database.removal_preview(&world.data(name).await).await.unwrap();
        assert_eq!(preview.accounts(), ["bob"], "a rule of bob concerns {name}");
    }
}

/// Removes a name at a time, or restores it.
async fn end(world: &TestCatalogue, of: &str, at: Option<i64>) -> Result<(), DatabaseError> {
    world.database.end_name(name(of), "ann".into(), at, world.now()).await
}

pub async fn a_removed_file_that_was_attached_elsewhere_stays(world: TestCatalogue) {
    world.dataset_at("s:d", 3, "cern").await;
    world.dataset_at("s:e", 1, "cern").await;
    end(&world, "s:d", Some(world.now() + UNDO_MS)).await.unwrap();
    world.attach("s:e", &["s:d.1"]).await.unwrap();
    assert_eq!(world.data("s:d.1").await.expires, None);
    assert!(world.data("s:d.2").await.expires.is_some());
    // A file that is detached stays, too.
    world.dataset_at("s:moved", 1, "cern").await;
    end(&world, "s:moved", Some(world.now() + UNDO_MS)).await.unwrap();
    world.detach("s:moved", &["s:moved.0"]).await.unwrap();
    assert_eq!(world.data("s:moved.0").await.expires, None);
    // A file that was removed by itself is removed, whatever contains it.
    end(&world, "s:d.2", Some(world.now() + UNDO_MS / 2)).await.unwrap();
    world.attach("s:e", &["s:d.2"]).await.unwrap();
    world.wait(UNDO_MS);
    world.end_names().await;
    let gone = world.remove_all().await;
    world.end_names().await;
    assert_eq!(gone, [("s:d.0".into(), "cern".into()), ("s:d.2".into(), "cern".into())].into());
    assert_eq!(world.available_at("s:d.1").await, ["cern"]);
    assert_eq!(world.data("s:e").await.entries, 2);
    crate::invariants::check_quiet(&world).await;
}

pub async fn removed_names_cannot_be_used_again(world: TestCatalogue) {
    world.dataset_at("s:d", 1, "cern").await;
    world.dataset_at("s:e", 1, "cern").await;
    let rule = |of: &DataRow, expires| NewRule { expires, ..new_rule(of, "ral", 1) };
    let make = async |rule| world.database.make_rule(rule, Arc::clone(&world.topology), world.now()).await;
    end(&world, "s:d", Some(world.now() + UNDO_MS)).await.unwrap();
    let row = world.data("s:d").await;
    refused(make(rule(&row, None)).await, "is to be removed at");
    assert_eq!(
        make(rule(&row, Some(world.now() + 1_000))).await.unwrap(),
        None,
        "a rule that ends before the name may be made"
    );
    let later = NewRule { expires: Some(world.now() + 2 * UNDO_MS), ..new_rule(&row, "bnl", 1) };
    let (id, number) = (later.id.clone(), world.make(later).await.number);
    assert_eq!(world.row(&id).await.expires, row.expires, "it ends with its name");
    let never = RuleUpdate { expires: Some(None), ..RuleUpdate::default() };
    refused(world.database.change_rule(number, "ann".into(), never, world.now()).await, "is to be removed at");
    world.wait(UNDO_MS);
    refused(make(rule(&row, None)).await, "s:d has been removed");
    refused(world.attach("s:d", &["s:e.0"]).await, "s:d has been removed");
    refused(world.attach("s:e", &["s:d.0"]).await, "s:d.0 has been removed");
    refused(end(&world, "s:d", None).await, "cannot be restored");
    world.settle_down().await;
    world.end_names().await;
    world.remove_all().await;
    world.end_names().await;
    assert!(world.database.data(&name("s:d.0")).await.unwrap().is_none());
    crate::invariants::check_quiet(&world).await;
}

pub async fn a_rule_of_a_container_unlocks_a_removed_dataset(world: TestCatalogue) {
    let mut container = dataset("s:c");
    container.kind = DataKind::Container;
    world.enter(&[container], None).await.unwrap();
    for of in ["s:d", "s:e"] {
        world.dataset_at(of, 2, "cern").await;
        world.attach("s:c", &[of]).await.unwrap();
    }
    let rule = world.make(NewRule { ..new_rule(&world.data("s:c").await, "ral", 1) }).await;
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 4);
    end(&world, "s:d", Some(world.now())).await.unwrap();
    world.end_names().await;
    // The files of another dataset are detached before the rule has been evaluated again.
    world.detach("s:c", &["s:e"]).await.unwrap();
    world.detach("s:e", &["s:e.0"]).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 0, "nothing is in the container any more");
    crate::invariants::check_quiet(&world).await;
}

pub async fn a_file_removed_by_itself_keeps_its_end(world: TestCatalogue) {
    world.dataset_at("s:d", 1, "cern").await;
    world.dataset_at("s:e", 1, "cern").await;
    let at = Some(world.now() + UNDO_MS);
    end(&world, "s:d.0", at).await.unwrap();
    end(&world, "s:d", at).await.unwrap();
    world.attach("s:e", &["s:d.0"]).await.unwrap();
    end(&world, "s:d", None).await.unwrap();
    assert_eq!(world.data("s:d.0").await.expires, at, "the file was removed by itself");
    let mut grows = dataset("s:grows");
    grows.monotonic = true;
    world.enter(&[grows], None).await.unwrap();
    refused(world.attach("s:grows", &["s:d.0"]).await, "s:d.0 has an end, and s:grows only grows");
    world.wait(UNDO_MS);
    refused(world.enter(&[world.file_at("s:d.0", 10, &["ral"])], None).await, "s:d.0 has been removed");
    let copies = world.file_at("s:d.0", 10, &["ral"]).copies;
    refused(world.database.add_copies(name("s:d.0"), copies, world.now()).await, "s:d.0 has been removed");
}

pub async fn a_dataset_cannot_be_restored_once_the_copies_of_a_file_are_deleted(world: TestCatalogue) {
    world.dataset_at("s:d", 1, "cern").await;
    end(&world, "s:d", Some(world.now() + UNDO_MS)).await.unwrap();
    world.wait(UNDO_MS);
    assert_eq!(world.remove_all().await.len(), 1);
    // The clock is set back to before the end.
    world.wait(-30_000);
    refused(end(&world, "s:d", None).await, "s:d has been removed: it cannot be restored");
    world.enter(&[dataset("s:e")], None).await.unwrap();
    world.detach("s:e", &["s:d.0"]).await.unwrap();
    assert_eq!(world.data("s:d.0").await.expires, Some(0), "the dataset never contained it");
    world.end_names().await;
    assert!(world.database.data(&name("s:d.0")).await.unwrap().is_none());
}

pub async fn a_copy_that_was_not_deleted_can_be_a_source(world: TestCatalogue) {
    let world = world.with_storage("ral", |it| it.greedy = true);
    world.enter(&[world.file_at("s:f", 10, &["cern", "cern2", "ral"])], None).await.unwrap();
    world.declare_bad("s:f", "cern2").await;
    world.wait(UNDO_MS);
    let taken: Vec<Removal> = world.take_removals().await.into_iter().filter(|it| it.endpoint == "ral").collect();
    assert_eq!(taken.len(), 1);
    world.declare_bad("s:f", "cern").await;
    let rule = world.rule("s:f", "cern", 1).await;
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.stuck, 1, "it has no source");
    let failed = taken.into_iter().map(|it| (it, "the server is down".to_owned())).collect();
    world.database.record_not_removed(failed, world.now()).await.unwrap();
    world.settle_down().await;
    assert_eq!(world.row(&rule.id).await.ok, 1);
}

pub async fn files_of_monotonic_datasets_cannot_be_removed(world: TestCatalogue) {
    let mut grows = dataset("s:grows");
    grows.monotonic = true;
    world.enter(&[grows], None).await.unwrap();
    world.enter(&[world.file_at("s:f", 10, &["cern"])], Some("s:grows")).await.unwrap();
    refused(end(&world, "s:f", Some(world.now())).await, "s:f is in s:grows, which only grows");
}

pub async fn a_copy_that_is_being_deleted_cannot_be_entered(world: TestCatalogue) {
    let world = world.with_storage("ral", |it| it.greedy = true);
    let new = world.file_at("s:f", 10, &["cern", "ral"]);
    world.enter(std::slice::from_ref(&new), None).await.unwrap();
    world.wait(UNDO_MS);
    let taken = world.take_removals().await;
    let refusal = "the copy of s:f at ral is being deleted";
    refused(world.database.add_copies(name("s:f"), new.copies.clone(), world.now()).await, refusal);
    refused(world.enter(std::slice::from_ref(&new), None).await, refusal);
    let merged = world.database.merge("ann".into(), vec![new.clone()], None, world.now()).await.unwrap();
    assert_eq!((merged.conflicts.len(), merged.skipped_copies), (0, 1));
    world.database.record_removed(taken, world.now()).await.unwrap();
    world.database.add_copies(name("s:f"), new.copies, world.now()).await.unwrap();
    world.check().await;
    assert_eq!(world.available_at("s:f").await, ["cern", "ral"]);
}
