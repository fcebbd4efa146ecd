//! The scheduler. It runs a round once a second, or when something is new: [`planner::plan`] decides, and the carriers run the transfers.

mod carrier;
mod demands;
mod metadata_rate;
mod outcomes;
mod pairs;
mod running;
mod stragglers;
mod waits;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sched::high_water_mark::HighWaterMark;
use sched::retry::Breaker;
use tokio::sync::{mpsc, watch};

use crate::carriers::{Carriers, THIRD_PARTY_CARRIER, can_share_transfer};
use crate::database::claims::{Claim, ClaimRequest, EndpointLimits};
use crate::database::hubs::UnendedTransfer;
use crate::database::outcomes::{Outcome, TransferOutcome};
use crate::database::queues::Queue;
use crate::database::{DatabaseError, Kind, Result};
use crate::hubs::LivingHubs;
use crate::limits::{HUB_BEAT_EVERY, TRANSFER_FILES_MAX};
use crate::planner::{self, Begin, Plan, PlanInput, PlannedTransfer};
use crate::progress::{TransferControl, TransferReport, TransferResult};
use crate::promises::{PromiseStatus, Promises};
use crate::state::HubState;
use crate::time;
use crate::topology::{Resource, ResourceOf, Topology};
use demands::Demands;
use metadata_rate::MetadataRates;
use outcomes::is_worth_another_try;
use pairs::Pairs;
use running::RunningTransfer;
use stragglers::Budgets;
use waits::Waits;

/// The time between two rounds.
const ROUND_EVERY: Duration = Duration::from_secs(1);
/// The shortest pause before a round: thousands of submissions cause one round.
const ROUND_PAUSE_MIN: Duration = Duration::from_millis(50);
/// How often files that have waited too long are ended.
const EXPIRE_EVERY: Duration = Duration::from_secs(5);

struct Scheduler {
    hub: Arc<HubState>,
    carriers: Arc<Carriers>,
    started: Instant,
    transfers: HashMap<i64, RunningTransfer>,
    marks: HashMap<ResourceOf, HighWaterMark>,
    breakers: HashMap<String, Breaker>,
    demands: Demands,
    pairs: Pairs,
    waits: Waits,
    budgets: Budgets,
    /// When files that had waited too long were last ended.
    expired_at: Option<Instant>,
    metadata_rates: MetadataRates,
    living_hubs: LivingHubs,
    /// When this hub last recorded that it is alive.
    beat_at: Option<Instant>,
    /// The sending end for the reports of running transfers.
    reports: mpsc::Sender<TransferReport>,
}

/// Runs until the hub stops. Transfers at nodes go on after that, and the next hub resumes them.
pub async fn run(hub: Arc<HubState>, carriers: Arc<Carriers>, mut stop: watch::Receiver<bool>) {
    let (reports, mut received) = mpsc::channel(1024);
    let mut scheduler = Scheduler {
        living_hubs: LivingHubs::alone(hub.name.clone()),
        hub: Arc::clone(&hub),
        carriers,
        started: Instant::now(),
        transfers: HashMap::new(),
        marks: HashMap::new(),
        breakers: HashMap::new(),
        demands: Demands::default(),
        pairs: Pairs::default(),
        waits: Waits::default(),
        budgets: Budgets::default(),
        metadata_rates: MetadataRates::default(),
        expired_at: None,
        beat_at: None,
        reports,
    };
    let mut next = tokio::time::Instant::now();
    loop {
        tokio::select! {
            _ = stop.changed() => break,
            Some(report) = received.recv() => scheduler.apply_report(report).await,
            () = hub.wake.notified() => next = next.min(tokio::time::Instant::now() + ROUND_PAUSE_MIN),
            () = tokio::time::sleep_until(next) => {
                let begun = Instant::now();
                if let Err(error) = scheduler.run_round().await {
                    hub.meters.failed_rounds.add(1);
                    tracing::error!(%error, "a round of the scheduler failed; it is tried again");
                }
                hub.meters.record_round(begun.elapsed());
                next = tokio::time::Instant::now() + ROUND_EVERY;
            }
        }
    }
    if let Err(error) = hub.database.remove_hub(&hub.name).await {
        tracing::info!(%error, "this hub could not be removed from the database's list; the other hubs will see that it no longer reports");
    }
}

impl Scheduler {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Records that this hub is alive, and reads from the database what other hubs have changed.
    async fn sync_with_hubs(&mut self) -> Result<()> {
        if self.beat_at.is_some_and(|at| at.elapsed() < HUB_BEAT_EVERY) {
            return Ok(());
        }
        // A database in a file has one hub.
        if self.hub.database.kind() == Kind::Postgres {
            let living = self.hub.database.record_heartbeat(&self.living_hubs.own).await?;
            if self.living_hubs.set_living(living) {
                tracing::info!(hubs = %self.living_hubs, "the queues are divided anew");
            }
            self.hub.refresh_description().await?;
        } else {
            self.hub.follow_downtimes();
        }
        self.beat_at = Some(Instant::now());
        Ok(())
    }

    /// Resumes transfers: those that this hub had begun before a restart, and those of hubs that are gone. Each is ordered again with the
    /// same id, which a node recognises as the same transfer. Transfers that another hub has taken over are dropped here. Returns the
    /// transfers of other hubs.
    async fn resume_transfers(&mut self, queues: &HashMap<i64, &Queue>) -> Result<Vec<UnendedTransfer>> {
        let transfers = self.hub.database.unended_transfers().await?;
        let is_ours = |transfer: &&UnendedTransfer| transfer.hub == self.living_hubs.own;
        let own: HashSet<i64> = transfers.iter().filter(is_ours).map(|transfer| transfer.number).collect();
        self.transfers.retain(|number, _| own.contains(number));
        let mut others = Vec::new();
        for transfer in transfers {
            if let Some(running) = self.transfers.get_mut(&transfer.number) {
                // A limit that was set on its job has moved it to another queue.
                running.claim.queue = transfer.queue;
                continue;
            }
            let is_orphan = !self.living_hubs.is_living(&transfer.hub);
            let is_own = transfer.hub == self.living_hubs.own
                || is_orphan
                    && self.living_hubs.owns(transfer.queue)
                    && self.hub.database.take_over_transfer(&transfer, &self.living_hubs.own).await?;
            if !is_own {
                others.push(transfer);
            } else if let Some(claim) = self.hub.database.unended_claim(transfer.number).await? {
                // The limit is set within this round; until then, a transfer that no node has yet does not move.
                match queues.get(&claim.queue) {
                    Some(queue) if !claim.files.is_empty() => self.start_transfer(claim, queue, 0.0),
                    _ => {
                        let (transfer, now) = (claim.number, time::now());
                        self.store_outcome(TransferOutcome { transfer, now, files: Vec::new(), is_over: true }).await;
                    }
                }
            }
        }
        Ok(others)
    }

    /// Runs one round: brings what has changed into the plan, and carries the plan out.
    async fn run_round(&mut self) -> Result<()> {
        self.sync_with_hubs().await?;
        let topology = self.hub.topology.load_full();
        if self.expired_at.is_none_or(|at| at.elapsed() >= EXPIRE_EVERY) {
            self.hub.database.expire_files(time::now()).await?;
            self.hub.database.remove_ended_tokens().await?;
            // Another hub on this database may have banned a user.
            self.hub.read_banned().await;
            self.expired_at = Some(Instant::now());
        }
        let queues = self.hub.database.queues().await?;
        let by_id: HashMap<i64, &Queue> = queues.iter().map(|queue| (queue.id, queue)).collect();
        let others = self.resume_transfers(&by_id).await?;
        self.stop_cancelled().await?;
        let usable = self.usable(&topology);
        let running = self.running(&others, &by_id);
        self.publish_rates().await?;
        let now = self.now();
        let waited = self.waits.update(&self.hub.database, &queues, now).await?;
        let broken = self.broken();
        let caps = self.demands.caps(now, &running);
        self.pairs.update(now, &topology, &queues, &self.hub.snapshot.load());
        let copies = self.pairs.copies();
        let promised = self.promised(&topology, &usable, &queues);
        let input = PlanInput {
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
        let Plan { limits, begin, mut snapshot } = planner::plan(&input);
        snapshot.pairs = self.pairs.seen();
        snapshot.progress = self.transfers.values().map(|running| (running.claim.id, running.progress())).collect();
        self.demands.record_rates(&snapshot);
        self.hub.snapshot.store(Arc::new(snapshot));
        for (number, limit) in limits {
            if let Some(running) = self.transfers.get(&number) {
                running.control.send_if_modified(|control| std::mem::replace(&mut control.limit, limit) != limit);
            }
        }
        self.give_up_stragglers(&topology).await?;
        for Begin { queue, limit } in begin {
            if let Some(queue) = by_id.get(&queue).filter(|queue| self.living_hubs.owns(queue.id)) {
                self.begin(&topology, queue, limit).await?;
            }
        }
        Ok(())
    }

    /// Stops the transfers whose files all belong to cancelled jobs. A transfer that also carries files of other jobs goes on, the files of
    /// the cancelled job included: what has arrived stays.
    async fn stop_cancelled(&self) -> Result<()> {
        for number in self.hub.database.cancelled_transfers(&self.living_hubs.own).await? {
            if let Some(running) = self.transfers.get(&number) {
                running.control.send_if_modified(|control| !std::mem::replace(&mut control.is_cancelled, true));
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
    fn running(&self, others: &[UnendedTransfer], queues: &HashMap<i64, &Queue>) -> Vec<PlannedTransfer> {
        let own = self.transfers.iter().map(|(number, running)| PlannedTransfer {
            number: *number,
            queue: running.claim.queue,
            source: running.pair.0.clone(),
            target: running.pair.1.clone(),
            rate: running.rate,
            bytes: running.claim.files.iter().map(|file| file.bytes).sum(),
        });
        let others = others.iter().filter_map(|transfer| {
            let queue = queues.get(&transfer.queue)?;
            Some(PlannedTransfer {
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
    async fn publish_rates(&self) -> Result<()> {
        if self.living_hubs.is_alone() || self.transfers.is_empty() {
            return Ok(());
        }
        let rates = self.transfers.iter().map(|(number, running)| (*number, running.rate as i64)).collect();
        self.hub.database.publish_rates(rates).await
    }

    /// The state of the promises of queues with a deadline.
    fn promised(&self, topology: &Topology, usable: &[f64], queues: &[Queue]) -> HashMap<i64, PromiseStatus> {
        let mut moved: HashMap<i64, f64> = HashMap::new();
        for running in self.transfers.values() {
            *moved.entry(running.claim.queue).or_default() +=
                running.arrived_bytes.saturating_sub(running.ended_bytes) as f64;
        }
        let promises = Promises::new(topology, usable, queues, &moved, 0, time::now());
        queues.iter().filter_map(|queue| Some((queue.id, promises.status(queue.id)?))).collect()
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
            return self.fail_without_carrier(queue).await;
        };
        // After failures only one transfer tries an endpoint again: it may have begun earlier in this round.
        if self.is_broken(&queue.key.source) || self.is_broken(&queue.key.target) {
            return Ok(());
        }
        let files = self.files_left(topology, queue);
        if files == 0 {
            return Ok(());
        }
        let wanted = ClaimRequest {
            queue: queue.id,
            hub: self.living_hubs.own.clone(),
            limits: EndpointLimits {
                out_transfers: topology.transfers_max(&queue.key.source).0,
                in_transfers: topology.transfers_max(&queue.key.target).1,
                space_bytes: topology.space_bytes(&queue.key.target).unwrap_or(i64::MAX),
            },
            // A third-party copy is of one file.
            files: files.min(if carrier == THIRD_PARTY_CARRIER { 1 } else { TRANSFER_FILES_MAX }),
            carrier,
            bytes: carrier::batch_bytes(limit),
            now: time::now(),
            can_share_transfer,
        };
        if let Some(claim) = self.hub.database.claim(wanted).await? {
            for name in [&queue.key.source, &queue.key.target] {
                self.metadata_rates.take(name, claim.files.len());
            }
            self.start_transfer(claim, queue, limit);
        }
        Ok(())
    }

    /// The number of files that may be opened now at both endpoints of a queue. Several hubs share the limit equally.
    fn files_left(&mut self, topology: &Topology, queue: &Queue) -> usize {
        let now = self.now();
        let hubs = self.living_hubs.count() as f64;
        let mut left = usize::MAX;
        for name in [&queue.key.source, &queue.key.target] {
            if let Some(files_s) = topology.files_s(name) {
                left = left.min(self.metadata_rates.left(name, files_s / hubs, now));
            }
        }
        left
    }

    fn start_transfer(&mut self, claim: Claim, queue: &Queue, limit: f64) {
        let (control, control_receiver) = watch::channel(TransferControl { limit, is_cancelled: false });
        let carriers = Arc::clone(&self.carriers);
        let reports = self.reports.clone();
        let carried_claim = claim.clone();
        tokio::spawn(async move { carriers.run_transfer(carried_claim, control_receiver, reports).await });
        let pair = (queue.key.source.clone(), queue.key.target.clone());
        for name in [&pair.0, &pair.1] {
            self.breakers.entry(name.clone()).or_default().began();
        }
        self.transfers.insert(claim.number, RunningTransfer::new(claim, pair, control, self.now()));
    }

    /// Fails the first files of a queue without a carrier: neither endpoint is a node, and there is no gateway.
    async fn fail_without_carrier(&mut self, queue: &Queue) -> Result<()> {
        let wanted = ClaimRequest {
            queue: queue.id,
            carrier: String::new(),
            hub: self.living_hubs.own.clone(),
            limits: EndpointLimits::default(),
            files: 1000,
            bytes: i64::MAX,
            now: time::now(),
            can_share_transfer: |_, _| true,
        };
        let Some(claim) = self.hub.database.claim(wanted).await? else { return Ok(()) };
        let reason = format!(
            "neither {} nor {} is a node, they make no third-party copies, and no gateway is named for them: `longhaul hub endpoint set NAME --gateway NODE`",
            queue.key.source, queue.key.target
        );
        let failed = Outcome::Failed { fault: "config".into(), reason };
        let files = claim.files.iter().map(|file| (file.id, failed.clone())).collect();
        self.store_outcome(TransferOutcome { transfer: claim.number, now: time::now(), files, is_over: true }).await;
        Ok(())
    }

    /// Applies a report of a running transfer.
    async fn apply_report(&mut self, report: TransferReport) {
        match report {
            TransferReport::Moving { transfer, rate, bytes } => {
                if let Some(running) = self.transfers.get_mut(&transfer) {
                    self.pairs.moved(&running.pair, bytes.saturating_sub(running.arrived_bytes));
                    (running.rate, running.arrived_bytes) = (rate, bytes);
                }
            }
            TransferReport::Limited { transfer, by } => {
                let Some(running) = self.transfers.get(&transfer) else { return };
                let by = serde_json::to_string(&by).unwrap_or_default();
                if let Err(error) = self.hub.database.set_limited_by(running.claim.order.clone(), by).await {
                    tracing::warn!(%error, transfer, "what limited a transfer could not be stored");
                }
            }
            TransferReport::Files { transfer, files } => {
                let Some(running) = self.transfers.get_mut(&transfer) else { return };
                let files = running.take_ended(&files.into_iter().collect());
                if !files.is_empty() {
                    self.store_outcome(TransferOutcome { transfer, now: time::now(), files, is_over: false }).await;
                }
            }
            TransferReport::Ended { transfer, result } => {
                let Some(running) = self.transfers.remove(&transfer) else { return };
                let now = self.now();
                if let TransferResult::Done { bytes } = result {
                    self.pairs.moved(&running.pair, bytes.saturating_sub(running.arrived_bytes));
                }
                self.pairs.ended(&running.pair, is_worth_another_try(&result));
                for name in [&running.pair.0, &running.pair.1] {
                    let breaker = self.breakers.entry(name.clone()).or_default();
                    match result {
                        // Only the carrier is known to be unreachable: the other endpoint may be reachable.
                        TransferResult::Unreachable { .. } if *name != running.claim.carrier => {}
                        TransferResult::Unreachable { .. } => breaker.failed(now),
                        _ => breaker.succeeded(),
                    }
                }
                let files = running.all_ended(&result);
                self.store_outcome(TransferOutcome { transfer, now: time::now(), files, is_over: true }).await;
                self.hub.wake.notify_one();
            }
        }
    }

    /// Stores the outcome of a transfer, and retries until the database answers: it would be lost otherwise.
    async fn store_outcome(&self, result: TransferOutcome) {
        for (_, outcome) in &result.files {
            match outcome {
                Outcome::Done { bytes } => {
                    self.hub.meters.done_files.add(1);
                    self.hub.meters.done_bytes.add(u64::try_from(*bytes).unwrap_or(0));
                }
                Outcome::Failed { .. } => self.hub.meters.failed_files.add(1),
                Outcome::Retry { .. } => self.hub.meters.failed_attempts.add(1),
                Outcome::Stopped | Outcome::Returned => {}
            }
        }
        let mut pause = Duration::from_millis(200);
        while let Err(error) = self.hub.database.store_outcomes(result.clone()).await {
            if matches!(error, DatabaseError::Stopping) {
                return;
            }
            tracing::error!(%error, transfer = result.transfer, "the outcome of a transfer could not be stored; trying again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(10));
        }
    }
}
