//! The scheduler: runs a round once a second, or when something is new. [`planner::plan`] decides, the carriers run the transfers.

mod carried;
mod carrier;
mod demands;
mod metadata_rate;
mod outcomes;
mod pairs;
mod stragglers;
mod waits;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sched::high_water_mark::HighWaterMark;
use sched::retry::Breaker;
use tokio::sync::{mpsc, watch};

use crate::carriers::{Carriers, THIRD_PARTY, go_together};
use crate::database::claims::{Claim, ClaimRequest, EndpointLimits};
use crate::database::members::Underway;
use crate::database::outcomes::{Outcome, TransferOutcome};
use crate::database::queues::Queue;
use crate::database::{DatabaseError, Kind, Result};
use crate::limits::{HUB_BEATS, TRANSFER_FILES_MAX};
use crate::members::Members;
use crate::planner::{self, Begin, Plan, PlanInput, Running};
use crate::progress::{Finished, TransferControl, TransferReport};
use crate::promises::{PromiseStatus, Promises};
use crate::state::HubState;
use crate::time;
use crate::topology::{Resource, ResourceOf, Topology};
use carried::Carried;
use demands::Demands;
use metadata_rate::MetadataRates;
use outcomes::is_worth_another_try;
use pairs::Pairs;
use stragglers::Budgets;
use waits::Waits;

/// The time between two rounds.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The shortest time between two rounds: thousands of submissions wake it once.
const LOOK_AFTER: Duration = Duration::from_millis(50);
/// How often files that have waited too long are ended.
const EXPIRE_EVERY: Duration = Duration::from_secs(5);
struct Scheduler {
    hub: Arc<HubState>,
    carriers: Arc<Carriers>,
    started: Instant,
    carried: HashMap<i64, Carried>,
    marks: HashMap<ResourceOf, HighWaterMark>,
    breakers: HashMap<String, Breaker>,
    demands: Demands,
    pairs: Pairs,
    waits: Waits,
    budgets: Budgets,
    /// When files that had waited too long were ended last.
    expired: Option<Instant>,
    metadata_rates: MetadataRates,
    members: Members,
    /// When this hub last recorded that it is alive.
    beaten: Option<Instant>,
    told: mpsc::Sender<TransferReport>,
}

/// Runs until the hub stops. Transfers at nodes go on after that, and the next hub takes them up.
pub async fn run(hub: Arc<HubState>, carriers: Arc<Carriers>, mut stop: watch::Receiver<bool>) {
    let (told, mut heard) = mpsc::channel(1024);
    let mut scheduler = Scheduler {
        members: Members::alone(hub.name.clone()),
        hub: Arc::clone(&hub),
        carriers,
        started: Instant::now(),
        carried: HashMap::new(),
        marks: HashMap::new(),
        breakers: HashMap::new(),
        demands: Demands::default(),
        pairs: Pairs::default(),
        waits: Waits::default(),
        budgets: Budgets::default(),
        metadata_rates: MetadataRates::default(),
        expired: None,
        beaten: None,
        told,
    };
    let mut next = tokio::time::Instant::now();
    loop {
        tokio::select! {
            _ = stop.changed() => break,
            Some(told) = heard.recv() => scheduler.hear(told).await,
            () = hub.wake.notified() => next = next.min(tokio::time::Instant::now() + LOOK_AFTER),
            () = tokio::time::sleep_until(next) => {
                let begun = Instant::now();
                if let Err(error) = scheduler.look().await {
                    hub.meters.failed_looks.add(1);
                    tracing::error!(%error, "the scheduler could not look; it tries again");
                }
                hub.meters.looked(begun.elapsed());
                next = tokio::time::Instant::now() + LOOK_EVERY;
            }
        }
    }
    if let Err(error) = hub.database.leave(&hub.name).await {
        tracing::info!(%error, "the other hubs could not be told that this one stops; they will notice");
    }
}

impl Scheduler {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Records that this hub is alive, and reads from the database what other hubs have changed.
    async fn meet(&mut self) -> Result<()> {
        if self.beaten.is_some_and(|at| at.elapsed() < HUB_BEATS) {
            return Ok(());
        }
        // A database in a file has one hub.
        if self.hub.database.kind() == Kind::Postgres {
            let living = self.hub.database.beat(&self.members.own).await?;
            if self.members.set_living(living) {
                tracing::info!(hubs = %self.members, "the queues are divided anew");
            }
            self.hub.refresh_description().await?;
        } else {
            self.hub.follow_downtimes();
        }
        self.beaten = Some(Instant::now());
        Ok(())
    }

    /// Takes up transfers: those that this hub had begun before a restart, and those of hubs that are gone. Each is ordered again with the same
    /// id, which a node takes for the same transfer. Transfers that another hub has taken over are dropped here.
    async fn take_up(&mut self, queues: &HashMap<i64, &Queue>) -> Result<Vec<Underway>> {
        let underway = self.hub.database.underway().await?;
        let own: HashSet<i64> =
            underway.iter().filter(|it| it.hub == self.members.own).map(|transfer| transfer.number).collect();
        self.carried.retain(|number, _| own.contains(number));
        let mut others = Vec::new();
        for transfer in underway {
            if let Some(carried) = self.carried.get_mut(&transfer.number) {
                // A limit that was set on its job has moved it to another queue.
                carried.claim.queue = transfer.queue;
                continue;
            }
            let is_orphan = !self.members.is_living(&transfer.hub);
            let is_own = transfer.hub == self.members.own
                || is_orphan
                    && self.members.owns(transfer.queue)
                    && self.hub.database.adopt(&transfer, &self.members.own).await?;
            if !is_own {
                others.push(transfer);
            } else if let Some(claim) = self.hub.database.unended(transfer.number).await? {
                // The limit follows within this round; a transfer that no node has yet starts with next to nothing.
                match queues.get(&claim.queue) {
                    Some(queue) if !claim.files.is_empty() => self.carry(claim, queue, 0.0),
                    _ => {
                        let (transfer, now) = (claim.number, time::now());
                        self.end(TransferOutcome { transfer, now, files: Vec::new(), is_over: true }).await;
                    }
                }
            }
        }
        Ok(others)
    }

    async fn look(&mut self) -> Result<()> {
        self.meet().await?;
        let topology = self.hub.topology.load_full();
        if self.expired.is_none_or(|at| at.elapsed() >= EXPIRE_EVERY) {
            self.hub.database.expire(time::now()).await?;
            self.hub.database.forget_tokens().await?;
            // Another hub on this database may have banned a user.
            self.hub.read_banned().await;
            self.expired = Some(Instant::now());
        }
        let queues = self.hub.database.queues().await?;
        let by_id: HashMap<i64, &Queue> = queues.iter().map(|queue| (queue.id, queue)).collect();
        let others = self.take_up(&by_id).await?;
        self.stop_cancelled().await?;
        let usable = self.usable(&topology);
        let running = self.running(&others, &by_id);
        self.tell_rates().await?;
        let now = self.now();
        let (waited, broken) = (self.waits.look(&self.hub.database, &queues, now).await?, self.broken());
        let caps = self.demands.caps(now, &running);
        self.pairs.look(now, &topology, &queues, &self.hub.snapshot.load());
        let copies = self.pairs.copies();
        let promised = self.promised(&topology, &usable, &queues);
        let look = PlanInput {
            at: time::now(),
            topology: &topology,
            usable: &usable,
            queues: &queues,
            waited: &waited,
            running: &running,
            caps: &caps,
            promised: &promised,
            broken: &broken,
            copies: &copies,
        };
        let Plan { limits, begin, mut snapshot } = planner::plan(&look);
        snapshot.pairs = self.pairs.seen();
        snapshot.moving = self.carried.values().map(|carried| (carried.claim.id, carried.moving())).collect();
        self.demands.given(&snapshot);
        self.hub.snapshot.store(Arc::new(snapshot));
        for (number, limit) in limits {
            if let Some(carried) = self.carried.get(&number) {
                carried.steer.send_if_modified(|steer| std::mem::replace(&mut steer.limit, limit) != limit);
            }
        }
        self.give_up_stragglers(&topology).await?;
        for Begin { queue, limit } in begin {
            if let Some(queue) = by_id.get(&queue).filter(|queue| self.members.owns(queue.id)) {
                self.begin(&topology, queue, limit).await?;
            }
        }
        Ok(())
    }

    /// Stops the transfers whose files all belong to cancelled jobs. A transfer that also carries files of other jobs goes on, the files of the
    /// cancelled job included: what has arrived stays.
    async fn stop_cancelled(&self) -> Result<()> {
        for number in self.hub.database.cancelled(&self.members.own).await? {
            if let Some(carried) = self.carried.get(&number) {
                carried.steer.send_if_modified(|steer| !std::mem::replace(&mut steer.is_cancelled, true));
            }
        }
        Ok(())
    }

    /// The rate that each resource may be used for now, bytes per second.
    fn usable(&mut self, topology: &Topology) -> Vec<f64> {
        let now = self.now();
        let marks = &mut self.marks;
        let usable = |resource: &Resource| {
            let new = || HighWaterMark::new(now, resource.capacity, resource.mark);
            let mark = marks.entry(resource.of.clone()).or_insert_with(new);
            mark.step(now, resource.capacity, resource.mark, resource.others) * resource.payload_part()
        };
        topology.resources.iter().map(usable).collect()
    }

    /// All running transfers, those of other hubs included.
    fn running(&self, others: &[Underway], queues: &HashMap<i64, &Queue>) -> Vec<Running> {
        let own = self.carried.iter().map(|(number, carried)| Running {
            number: *number,
            queue: carried.claim.queue,
            source: carried.pair.0.clone(),
            target: carried.pair.1.clone(),
            rate: carried.rate,
            bytes: carried.claim.files.iter().map(|file| file.bytes).sum(),
        });
        let others = others.iter().filter_map(|transfer| {
            let queue = queues.get(&transfer.queue)?;
            Some(Running {
                number: transfer.number,
                queue: queue.id,
                source: queue.key.source.clone(),
                target: queue.key.target.clone(),
                rate: transfer.rate as f64,
                bytes: transfer.bytes,
            })
        });
        own.chain(others).collect()
    }

    /// Publishes the rates of this hub's transfers, if there are other hubs.
    async fn tell_rates(&self) -> Result<()> {
        if self.members.is_alone() || self.carried.is_empty() {
            return Ok(());
        }
        let rates = self.carried.iter().map(|(number, carried)| (*number, carried.rate as i64)).collect();
        self.hub.database.tell_rates(rates).await
    }

    /// The state of the promises of queues with a deadline.
    fn promised(&self, topology: &Topology, usable: &[f64], queues: &[Queue]) -> HashMap<i64, PromiseStatus> {
        let mut moved: HashMap<i64, f64> = HashMap::new();
        for carried in self.carried.values() {
            *moved.entry(carried.claim.queue).or_default() +=
                carried.arrived_bytes.saturating_sub(carried.ended_bytes) as f64;
        }
        let promises = Promises::new(topology, usable, queues, &moved, 0, time::now());
        queues.iter().filter_map(|queue| Some((queue.id, promises.standing(queue.id)?))).collect()
    }

    /// Endpoints that get no new transfers after failures, and until when.
    fn broken(&self) -> HashMap<String, String> {
        let now = self.now();
        let open = self.breakers.iter().filter(|(_, breaker)| breaker.is_open(now));
        let until = |breaker: &Breaker| {
            let left = breaker.open_until().map_or(Duration::ZERO, |until| until.saturating_sub(now));
            time::show(time::now() + left.as_millis() as i64)
        };
        open.map(|(name, breaker)| (name.clone(), until(breaker))).collect()
    }

    fn is_broken(&self, name: &str) -> bool {
        self.breakers.get(name).is_some_and(|breaker| breaker.is_open(self.now()))
    }

    /// Claims the next files of a queue, and starts their transfer.
    async fn begin(&mut self, topology: &Topology, queue: &Queue, limit: f64) -> Result<()> {
        let Some(carrier) = carrier::carrier(topology, queue) else {
            return self.give_up(queue).await;
        };
        // A transfer that has begun in this round may be the one that probes an endpoint.
        if self.is_broken(&queue.key.source) || self.is_broken(&queue.key.target) {
            return Ok(());
        }
        let files = self.files_left(topology, queue);
        if files == 0 {
            return Ok(());
        }
        let wanted = ClaimRequest {
            queue: queue.id,
            hub: self.members.own.clone(),
            limits: EndpointLimits {
                out_transfers: topology.transfers_max(&queue.key.source).0,
                in_transfers: topology.transfers_max(&queue.key.target).1,
                space_bytes: topology.space_bytes(&queue.key.target).unwrap_or(i64::MAX),
            },
            // A third-party copy is of one file.
            files: files.min(if carrier == THIRD_PARTY { 1 } else { TRANSFER_FILES_MAX }),
            carrier,
            bytes: carrier::batch_bytes(limit),
            now: time::now(),
            together: go_together,
        };
        if let Some(claim) = self.hub.database.claim(wanted).await? {
            for name in [&queue.key.source, &queue.key.target] {
                self.metadata_rates.take(name, claim.files.len());
            }
            self.carry(claim, queue, limit);
        }
        Ok(())
    }

    /// The number of files that may be opened now at both endpoints of a queue. Several hubs have equal parts.
    fn files_left(&mut self, topology: &Topology, queue: &Queue) -> usize {
        let (now, hubs) = (self.now(), self.members.count() as f64);
        let mut left = usize::MAX;
        for name in [&queue.key.source, &queue.key.target] {
            if let Some(files_s) = topology.files_s(name) {
                left = left.min(self.metadata_rates.left(name, files_s / hubs, now));
            }
        }
        left
    }

    fn carry(&mut self, claim: Claim, queue: &Queue, limit: f64) {
        let (steer, steered) = watch::channel(TransferControl { limit, is_cancelled: false });
        let carriers = Arc::clone(&self.carriers);
        let (number, told, carried) = (claim.number, self.told.clone(), claim.clone());
        tokio::spawn(async move { carriers.carry(carried, steered, told).await });
        let pair = (queue.key.source.clone(), queue.key.target.clone());
        for name in [&pair.0, &pair.1] {
            self.breakers.entry(name.clone()).or_default().began();
        }
        self.carried.insert(number, Carried::new(claim, pair, steer, self.now()));
    }

    /// Fails the first files of a queue without a carrier: neither endpoint is a node, and there is no gateway.
    async fn give_up(&mut self, queue: &Queue) -> Result<()> {
        let wanted = ClaimRequest {
            queue: queue.id,
            carrier: String::new(),
            hub: self.members.own.clone(),
            limits: EndpointLimits::default(),
            files: 1000,
            bytes: i64::MAX,
            now: time::now(),
            together: |_, _| true,
        };
        let Some(claim) = self.hub.database.claim(wanted).await? else { return Ok(()) };
        let reason = format!(
            "neither {} nor {} is a node, they make no third-party copies, and no gateway is named for them: `longhaul hub endpoint set NAME --gateway NODE`",
            queue.key.source, queue.key.target
        );
        let failed = Outcome::Failed { fault: "config".into(), reason };
        let files = claim.files.iter().map(|file| (file.id, failed.clone())).collect();
        self.end(TransferOutcome { transfer: claim.number, now: time::now(), files, is_over: true }).await;
        Ok(())
    }

    async fn hear(&mut self, told: TransferReport) {
        match told {
            TransferReport::Moving { transfer, rate, bytes } => {
                if let Some(carried) = self.carried.get_mut(&transfer) {
                    self.pairs.moved(&carried.pair, bytes.saturating_sub(carried.arrived_bytes));
                    (carried.rate, carried.arrived_bytes) = (rate, bytes);
                }
            }
            TransferReport::Limited { transfer, by } => {
                let Some(carried) = self.carried.get(&transfer) else { return };
                let by = serde_json::to_string(&by).unwrap_or_default();
                if let Err(error) = self.hub.database.set_limited_by(carried.claim.order.clone(), by).await {
                    tracing::warn!(%error, transfer, "what held a transfer back is not kept");
                }
            }
            TransferReport::Files { transfer, files } => {
                let Some(carried) = self.carried.get_mut(&transfer) else { return };
                let files = carried.ended(&files.into_iter().collect());
                if !files.is_empty() {
                    self.end(TransferOutcome { transfer, now: time::now(), files, is_over: false }).await;
                }
            }
            TransferReport::Ended { transfer, finished } => {
                let Some(carried) = self.carried.remove(&transfer) else { return };
                let now = self.now();
                if let Finished::Done { bytes } = finished {
                    self.pairs.moved(&carried.pair, bytes.saturating_sub(carried.arrived_bytes));
                }
                self.pairs.ended(&carried.pair, is_worth_another_try(&finished));
                for name in [&carried.pair.0, &carried.pair.1] {
                    let breaker = self.breakers.entry(name.clone()).or_default();
                    match finished {
                        // The other endpoint may be reachable: only the carrier is known not to be.
                        Finished::Unreachable { .. } if *name != carried.claim.carrier => {}
                        Finished::Unreachable { .. } => breaker.failed(now),
                        _ => breaker.succeeded(),
                    }
                }
                let files = carried.all_ended(&finished);
                self.end(TransferOutcome { transfer, now: time::now(), files, is_over: true }).await;
                self.hub.wake.notify_one();
            }
        }
    }

    /// Stores the outcome of a transfer, and tries until the database answers: it would be lost otherwise.
    async fn end(&self, ended: TransferOutcome) {
        for (_, outcome) in &ended.files {
            match outcome {
                Outcome::Done { bytes } => {
                    self.hub.meters.done_files.add(1);
                    self.hub.meters.done_bytes.add(u64::try_from(*bytes).unwrap_or(0));
                }
                Outcome::Failed { .. } => self.hub.meters.failed_files.add(1),
                Outcome::Again { .. } => self.hub.meters.failed_attempts.add(1),
                Outcome::Stopped | Outcome::Returned => {}
            }
        }
        let mut pause = Duration::from_millis(200);
        while let Err(error) = self.hub.database.end(ended.clone()).await {
            if matches!(error, DatabaseError::Stopping) {
                return;
            }
            tracing::error!(%error, transfer = ended.transfer, "what became of a transfer could not be stored; trying again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(10));
        }
    }
}
