//! A collaboration of four endpoints, and the catalogue of a hub for it, without nodes: the tests themselves claim and end the transfers.

use std::cell::Cell;
use std::sync::Arc;

use hub::admission::admit;
use hub::catalogue::orders;
use hub::database::catalogue::{DataRow, EnteredNames, ExistingReplica, NewName, NewRule, ReplicaState, RuleRow};
use hub::database::claims::{ClaimRequest, EndpointLimits};
use hub::database::outcomes::{Outcome, TransferOutcome};
use hub::database::{Database, DatabaseError};
use hub::roles::Member;
use hub::topology::Topology;
use model::v1::hub::{DataKind, Grouping, JobOrder};
use replicas::{DataName, Shortage};
use tempfile::TempDir;
use uuid::Uuid;

use crate::invariants;

/// Two endpoints are at the same site; one of the others has space for only 1,000 bytes.
const COLLABORATION: &str = r#"
    [site.cern]
    [site.ral]
    [site.bnl]
    [endpoint.cern]
    site = "cern"
    urls = ["lh://cern.example/"]
    storage = { url = "lh://cern.example/data", attributes = { region = "eu", tier = 0, part = 3 } }
    [endpoint.cern2]
    site = "cern"
    urls = ["lh://cern2.example/"]
    storage = { url = "lh://cern2.example/data", attributes = { region = "eu", tier = 0 } }
    [endpoint.ral]
    site = "ral"
    urls = ["lh://ral.example/"]
    storage = { url = "lh://ral.example/data", attributes = { region = "eu", tier = 1, part = 1 } }
    [endpoint.bnl]
    site = "bnl"
    urls = ["lh://bnl.example/"]
    storage = { url = "lh://bnl.example/data", naming = "hash", attributes = { region = "us", tier = 1 }, capacity_bytes = 1000 }
"#;

/// The time at which each test begins, milliseconds since 1970.
pub const BEGIN: i64 = 1_000_000_000_000;

/// A directory for a database, in memory if possible: the thousands of transactions of these tests need not reach a disk.
pub fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub fn name(text: &str) -> DataName {
    text.parse().unwrap()
}

pub fn file(text: &str, bytes: i64) -> NewName {
    NewName {
        name: name(text),
        kind: DataKind::File,
        bytes,
        adler32: None,
        md5: None,
        monotonic: false,
        expires: None,
        metadata: Default::default(),
        copies: Vec::new(),
    }
}

pub fn dataset(text: &str) -> NewName {
    NewName { kind: DataKind::Dataset, ..file(text, 0) }
}

/// A rule that ann makes.
pub fn new_rule(of: &DataRow, expression: &str, copies: i64) -> NewRule {
    NewRule {
        id: Uuid::now_v7().to_string(),
        name: of.id,
        account: "ann".into(),
        community: "astro".into(),
        activity: "default".into(),
        priority: 3,
        copies,
        expression: expression.into(),
        source_expression: None,
        grouping: Grouping::Dataset,
        weight: None,
        comment: None,
        expires: None,
        deadline: None,
    }
}

pub struct TestCatalogue {
    pub database: Database,
    pub topology: Arc<Topology>,
    now: Cell<i64>,
}

impl TestCatalogue {
    pub async fn open(url: &str) -> TestCatalogue {
        let (database, _) = Database::open(url).await.unwrap();
        let topology = Topology::new(toml::from_str(COLLABORATION).unwrap()).unwrap();
        TestCatalogue { database, topology: Arc::new(topology), now: Cell::new(BEGIN) }
    }

    pub fn now(&self) -> i64 {
        self.now.get()
    }

    pub fn wait(&self, ms: i64) {
        self.now.set(self.now.get() + ms);
    }

    pub async fn enter(&self, names: &[NewName], into: Option<&str>) -> Result<EnteredNames, DatabaseError> {
        self.database.enter("ann".into(), names.to_vec(), into.map(name), self.now()).await
    }

    /// A file with copies at these endpoints.
    pub fn file_at(&self, text: &str, bytes: i64, endpoints: &[&str]) -> NewName {
        let copy = |endpoint: &&str| ExistingReplica { endpoint: (*endpoint).to_owned(), path: None };
        NewName { copies: endpoints.iter().map(copy).collect(), ..file(text, bytes) }
    }

    /// Enters a dataset of files of 10 bytes each, which are at an endpoint.
    pub async fn dataset_at(&self, text: &str, files: usize, endpoint: &str) -> DataRow {
        self.enter(&[dataset(text)], None).await.unwrap();
        let new: Vec<NewName> = (0..files).map(|at| self.file_at(&format!("{text}.{at}"), 10, &[endpoint])).collect();
        self.enter(&new, Some(text)).await.unwrap();
        self.data(text).await
    }

    pub async fn attach(&self, parent: &str, children: &[&str]) -> Result<(), DatabaseError> {
        let children = children.iter().map(|text| name(text)).collect();
        self.database.attach(name(parent), children, "ann".into(), self.now()).await
    }

    pub async fn detach(&self, parent: &str, children: &[&str]) -> Result<(), DatabaseError> {
        let children = children.iter().map(|text| name(text)).collect();
        self.database.detach(name(parent), children, "ann".into(), self.now()).await
    }

    pub async fn data(&self, text: &str) -> DataRow {
        self.database.data(&name(text)).await.unwrap().unwrap_or_else(|| panic!("{text} is not there"))
    }

    pub async fn try_rule(&self, rule: NewRule) -> Option<Shortage> {
        self.database.make_rule(rule, Arc::clone(&self.topology), self.now()).await.unwrap()
    }

    pub async fn make(&self, rule: NewRule) -> RuleRow {
        let id = rule.id.clone();
        assert_eq!(self.try_rule(rule).await, None);
        self.row(&id).await
    }

    pub async fn rule(&self, of: &str, expression: &str, copies: i64) -> RuleRow {
        self.make(new_rule(&self.data(of).await, expression, copies)).await
    }

    /// A rule as it is now.
    pub async fn row(&self, id: &str) -> RuleRow {
        self.database.rule(id).await.unwrap().unwrap_or_else(|| panic!("the rule {id} is not there"))
    }

    /// Evaluates rules until nothing is left to evaluate.
    pub async fn evaluate(&self) {
        while self.database.evaluate(Arc::clone(&self.topology), self.now()).await.unwrap().is_some() {}
    }

    /// The next order of the catalogue for the queue.
    pub async fn next_order(&self) -> Option<JobOrder> {
        self.evaluate().await;
        let batch = self.database.take_copies(Arc::clone(&self.topology), self.now()).await.unwrap()?;
        Some(orders::order(&batch, &self.topology, self.now()))
    }

    /// Submits the next order; returns false if there is none.
    pub async fn submit_next(&self) -> bool {
        let Some(order) = self.next_order().await else { return false };
        let job = admit(&order, &Member::user("ann", "astro"), &self.topology, self.now()).unwrap();
        self.database.writer.submit(vec![job]).await.unwrap();
        true
    }

    /// Ends some queued files with an outcome; returns their number.
    pub async fn end_files(&self, files: usize, outcome: impl Fn(i64) -> Outcome) -> usize {
        for queue in self.database.queues().await.unwrap() {
            let wanted = ClaimRequest {
                queue: queue.id,
                carrier: queue.key.source.clone(),
                hub: "one".into(),
                limits: EndpointLimits::default(),
                files,
                bytes: i64::MAX,
                now: self.now(),
                can_share_transfer: |_, _| true,
            };
            let Some(claim) = self.database.claim(wanted).await.unwrap() else { continue };
            let files = claim.files.iter().map(|file| (file.id, outcome(file.id))).collect();
            let result = TransferOutcome { transfer: claim.number, now: self.now(), files, is_over: true };
            self.database.store_outcomes(result).await.unwrap();
            return claim.files.len();
        }
        0
    }

    /// Works until nothing is left to do.
    pub async fn settle_down(&self) {
        loop {
            let mut is_busy = self.database.settle_copies(Arc::clone(&self.topology), self.now()).await.unwrap() > 0;
            is_busy |= self.database.end_rules(self.now()).await.unwrap();
            self.evaluate().await;
            is_busy |= self.submit_next().await;
            is_busy |= self.end_files(1_000, |_| Outcome::Done { bytes: 10 }).await > 0;
            if !is_busy {
                break;
            }
        }
        self.check().await;
    }

    /// The copies of a file: endpoints and states.
    pub async fn copies(&self, text: &str) -> Vec<(String, ReplicaState)> {
        let row = self.data(text).await;
        let mut copies = self.database.replicas_of(&[row.id]).await.unwrap();
        copies.remove(&row.id).unwrap_or_default().into_iter().map(|copy| (copy.endpoint, copy.state)).collect()
    }

    /// The endpoints at which copies of a file are available.
    pub async fn available_at(&self, text: &str) -> Vec<String> {
        let copies = self.copies(text).await;
        copies
            .into_iter()
            .filter(|(_, state)| *state == ReplicaState::Available)
            .map(|(endpoint, _)| endpoint)
            .collect()
    }

    /// Checks the invariants.
    pub async fn check(&self) {
        invariants::check(self).await;
    }
}
