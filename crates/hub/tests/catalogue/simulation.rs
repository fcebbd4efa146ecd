//! A simulation with the real code and a random seed: thousands of random steps of users, nodes and clocks, with a check of the invariants
//! every hundred steps.

use std::io::Write;
use std::sync::Arc;

use fastrand::Rng;
use hub::admission::admit;
use hub::catalogue::orders;
use hub::database::DatabaseError;
use hub::database::catalogue::{ExistingReplica, NewRule, RuleFilter, RuleUpdate};
use hub::database::outcomes::Outcome;
use hub::roles::Member;
use model::v1::hub::{DataKind, Grouping};

use crate::invariants::{check, check_quiet};
use crate::test_catalogue::{TestCatalogue, dataset, name, new_rule};

/// The number of steps.
const STEPS: usize = 10_000;
/// The number of steps between two checks, which are slow; a violation is still found some steps later.
const CHECK_EVERY: usize = 100;
const ENDPOINTS: [&str; 4] = ["cern", "cern2", "ral", "bnl"];
const DATASETS: usize = 12;
const FILES: usize = 200;

/// Expects that a request succeeded or was refused: no other error may occur.
fn expect_ok_or_refused<T>(result: Result<T, DatabaseError>) {
    match result {
        Ok(_) | Err(DatabaseError::Refused(_)) => {}
        Err(error) => panic!("{error}"),
    }
}

struct Simulation {
    world: TestCatalogue,
    random: Rng,
    /// The quota that ann has in Europe.
    quota: i64,
}

impl Simulation {
    async fn begin(world: TestCatalogue, seed: u64) -> Simulation {
        let world = world.with_storage("cern2", |it| it.greedy = true);
        let mut names: Vec<_> = (0..DATASETS).map(|at| dataset(&format!("s:d{at}"))).collect();
        for at in 0..3 {
            let mut container = dataset(&format!("s:c{at}"));
            container.kind = DataKind::Container;
            names.push(container);
        }
        world.enter(&names, None).await.unwrap();
        let quota = 4_000;
        world.database.set_quotas("ann".into(), vec![("region=eu".into(), quota)]).await.unwrap();
        Simulation { world, random: Rng::with_seed(seed), quota }
    }

    fn file(&mut self) -> String {
        format!("s:f{}", self.random.usize(..FILES))
    }

    fn dataset(&mut self) -> String {
        format!("s:d{}", self.random.usize(..DATASETS))
    }

    fn endpoint(&mut self) -> &'static str {
        ENDPOINTS[self.random.usize(..ENDPOINTS.len())]
    }

    /// Makes one random step. A refused request must change nothing.
    async fn step(&mut self) {
        let (world, now) = (&self.world, self.world.now());
        match self.random.u32(..100) {
            0..15 => self.enter().await,
            15..22 => {
                let (parent, child) = (self.dataset(), self.file());
                let _ = self.world.attach(&parent, &[&child]).await;
            }
            22..27 => {
                let (parent, child) = (self.dataset(), self.file());
                let _ = self.world.detach(&parent, &[&child]).await;
            }
            27..30 => {
                let (parent, child) = (format!("s:c{}", self.random.usize(..3)), self.dataset());
                let is_put = self.random.bool();
                let _ = if is_put {
                    self.world.attach(&parent, &[&child]).await
                } else {
                    self.world.detach(&parent, &[&child]).await
                };
            }
            30..36 => self.make_rule().await,
            36..40 => self.change_rule().await,
            40..44 => {
                let (file, endpoint) = (self.file(), self.endpoint());
                let copies = vec![ExistingReplica { endpoint: endpoint.to_owned(), path: None }];
                // Nothing is entered by hand at bnl: its capacity does not bound what users enter.
                if endpoint != "bnl" {
                    let _ = self.world.database.add_copies(name(&file), copies, now).await;
                }
            }
            44..55 => drop(world.database.evaluate(Arc::clone(&world.topology), now).await.unwrap()),
            55..67 => self.submit_next().await,
            67..85 => self.carry().await,
            85..93 => drop(world.database.settle_copies(Arc::clone(&world.topology), now).await.unwrap()),
            93 => drop(world.database.end_rules(now).await.unwrap()),
            94 => self.end_or_keep().await,
            95 => self.lose_or_remove().await,
            // The clock advances; sometimes it is set back.
            96..99 => world.wait(self.random.i64(0..600_000)),
            _ => world.wait(-self.random.i64(0..30_000)),
        }
    }

    async fn enter(&mut self) {
        let (file, endpoint) = (self.file(), self.endpoint());
        let bytes = 1 + (file.len() as i64 * 7 + file.as_bytes()[file.len() - 1] as i64) % 20;
        let endpoint = if endpoint == "bnl" { "cern" } else { endpoint };
        let new = self.world.file_at(&file, bytes, &[endpoint]);
        let into = self.dataset();
        let _ = self.world.enter(&[new], Some(&into)).await;
    }

    async fn make_rule(&mut self) {
        let of = match self.random.u32(..4) {
            0 => self.file(),
            1 => format!("s:c{}", self.random.usize(..3)),
            _ => self.dataset(),
        };
        let Some(row) = self.world.database.data(&name(&of)).await.unwrap() else { return };
        let expression = ["*", "region=eu", "tier=1", "ral|bnl", r"*\cern", "part>0"][self.random.usize(..6)];
        let grouping = [Grouping::All, Grouping::Dataset, Grouping::File][self.random.usize(..3)];
        let copies = self.random.i64(1..4);
        let expires = self.random.bool().then(|| self.world.now() + self.random.i64(1..2_000_000));
        let priority = self.random.i64(1..6);
        let rule = NewRule { grouping, expires, priority, ..new_rule(&row, expression, copies) };
        expect_ok_or_refused(
            self.world.database.make_rule(rule, Arc::clone(&self.world.topology), self.world.now()).await,
        );
    }

    /// A user removes a name, restores one, or enters one again; or the hub removes those that have ended.
    async fn end_or_keep(&mut self) {
        let (world, now) = (&self.world, self.world.now());
        let of = match self.random.u32(..3) {
            0 => format!("s:f{}", self.random.usize(..FILES)),
            _ => format!("s:d{}", self.random.usize(..DATASETS)),
        };
        match self.random.u32(..6) {
            0 => expect_ok_or_refused(world.database.end_name(name(&of), "ann".into(), Some(now + 600_000), now).await),
            1 => expect_ok_or_refused(world.database.end_name(name(&of), "ann".into(), None, now).await),
            2 => expect_ok_or_refused(world.enter(&[dataset(&of.replace(":f", ":d"))], None).await),
            _ => drop(world.database.end_names(now).await.unwrap()),
        }
    }

    async fn change_rule(&mut self) {
        let filter = RuleFilter { limit: 50, ..RuleFilter::default() };
        let rules = self.world.database.rules(&filter).await.unwrap();
        let Some(rule) = (!rules.is_empty()).then(|| rules[self.random.usize(..rules.len())].clone()) else { return };
        let update = match self.random.u32(..4) {
            0 => RuleUpdate { expires: Some(Some(self.world.now())), ..RuleUpdate::default() },
            1 => RuleUpdate { suspended: Some(!rule.suspended), ..RuleUpdate::default() },
            2 => RuleUpdate { priority: Some(self.random.i64(1..6)), ..RuleUpdate::default() },
            _ => RuleUpdate {
                source_expression: Some(self.random.bool().then(|| "region=eu".to_owned())),
                ..RuleUpdate::default()
            },
        };
        expect_ok_or_refused(
            self.world.database.change_rule(rule.number, "ann".into(), update, self.world.now()).await,
        );
    }

    /// Takes a batch of copies and submits it; sometimes the hub is killed before that, or the batch is refused.
    async fn submit_next(&mut self) {
        let (world, now) = (&self.world, self.world.now());
        let Some(batch) = world.database.take_copies(Arc::clone(&world.topology), now).await.unwrap() else { return };
        let order = orders::order(&batch, &world.topology, now);
        match self.random.u32(..10) {
            0 => {}
            1 => world.database.return_copies(batch.id, "refused".into(), now).await.unwrap(),
            _ => {
                let job = admit(&order, &Member::user("ann", "astro"), &world.topology, now).unwrap();
                world.database.writer.submit(vec![job]).await.unwrap();
            }
        }
    }

    /// Some files end; most of them are done.
    async fn carry(&mut self) {
        let files = self.random.usize(1..6);
        let draw = self.random.u32(..10);
        let later = self.world.now() + 1_000;
        self.world
            .end_files(files, |_| match draw {
                0 => Outcome::Failed { fault: "disk".into(), reason: "the disk is full".into() },
                1 => Outcome::Retry { not_before: later, fault: "network".into(), reason: "cut".into() },
                2 => Outcome::Stopped,
                3 => Outcome::Returned,
                _ => Outcome::Done { bytes: 10 },
            })
            .await;
    }

    /// A copy becomes bad, copies are deleted, or the hub is killed while it deletes them.
    async fn lose_or_remove(&mut self) {
        let (file, endpoint, now) = (self.file(), self.endpoint(), self.world.now());
        if self.random.u32(..3) == 0 {
            let why = "bits are flipped".to_owned();
            let _ = self.world.database.declare_bad(name(&file), endpoint.into(), "ann".into(), why, now).await;
            return;
        }
        let world = &self.world;
        let taken = world.database.take_removals(Arc::clone(&world.topology), now).await.unwrap();
        for removal in &taken {
            if world.data(&removal.name.to_string()).await.has_ended(now) {
                continue;
            }
            let left = world.available_at(&removal.name.to_string()).await;
            assert!(!left.is_empty(), "the last copy of {} at {} is deleted", removal.name, removal.endpoint);
        }
        match self.random.u32(..4) {
            0 => {}
            1 => {
                let failed = taken.into_iter().map(|it| (it, "the server is down".to_owned())).collect();
                world.database.record_not_removed(failed, now).await.unwrap();
            }
            _ => world.database.record_removed(taken, now).await.unwrap(),
        }
    }

    /// Checks that ann holds no more in Europe than her quota.
    async fn check_quota(&self) {
        let stores = self.world.database.stores().await.unwrap();
        let held = self.world.database.held_bytes("ann").await.unwrap();
        let europe = ["cern", "cern2", "ral"].iter().filter_map(|endpoint| stores.get(*endpoint));
        let held: i64 = europe.filter_map(|store| held.get(&store.id)).sum();
        assert!(held <= self.quota, "{held} bytes are held of {}", self.quota);
    }
}

async fn simulate(world: TestCatalogue, seed: u64, steps: usize) {
    let mut simulation = Simulation::begin(world, seed).await;
    for step in 0..steps {
        simulation.step().await;
        if step % CHECK_EVERY == 0 {
            check(&simulation.world).await;
            simulation.check_quota().await;
        }
    }
    // Then nothing new is requested, and everything that was begun is finished: a deletion that a killed hub left behind too, because a
    // rule may want that copy again.
    let filter = RuleFilter { limit: 10_000, ..RuleFilter::default() };
    for rule in simulation.world.database.rules(&filter).await.unwrap() {
        let update = RuleUpdate { suspended: Some(false), source_expression: Some(None), ..RuleUpdate::default() };
        expect_ok_or_refused(
            simulation.world.database.change_rule(rule.number, "ann".into(), update, simulation.world.now()).await,
        );
    }
    for _ in 0..6 {
        simulation.world.wait(7 * 3_600_000);
        simulation.world.remove_all().await;
        simulation.world.settle_down().await;
        simulation.world.end_names().await;
    }
    check_quiet(&simulation.world).await;
    simulation.check_quota().await;
    for rule in simulation.world.database.rules(&filter).await.unwrap() {
        let is_lost = !simulation.world.database.lost(1).await.unwrap().is_empty();
        let is_done = rule.replicating + rule.stuck == 0;
        assert!(is_done || rule.error.is_some() || is_lost, "seed {seed}: {rule:?}");
    }
}

#[tokio::test]
async fn random_steps_keep_the_catalogue_consistent() {
    let seed =
        std::env::var("LONGHAUL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let _ = writeln!(std::io::stderr(), "LONGHAUL_SEED={seed} runs this again");
    let state = crate::test_catalogue::scratch();
    let url = format!("sqlite:{}/hub.db", state.path().display());
    simulate(TestCatalogue::open(&url).await, seed, STEPS).await;
}

#[tokio::test]
async fn random_steps_keep_the_catalogue_consistent_on_postgres() {
    let Some(database) = crate::databases::new() else { return };
    simulate(TestCatalogue::open(&database.url).await, 1, STEPS / 10).await;
}
