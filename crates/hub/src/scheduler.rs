//! The scheduler: looks once a second, or when something is new; what is decided is [`planner::plan`]'s, what is done is the carriers'.

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
use crate::database::claims::{Claim, EndpointLimits, Wanted};
use crate::database::members::Underway;
use crate::database::outcomes::{Ended, Outcome};
use crate::database::queues::Queue;
use crate::database::{DatabaseError, Kind, Result};
use crate::limits::{HUB_BEATS, TRANSFER_FILES_MAX};
use crate::members::Members;
use crate::planner::{self, Begin, Look, Plan, Running};
use crate::progress::{Finished, Steer, Told};
use crate::promises::{Promises, Standing};
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

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The shortest time between two looks: submissions that come by the thousand wake it once.
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
    /// When this hub said last that it lives.
    beaten: Option<Instant>,
    told: mpsc::Sender<Told>,
}

/// Runs until told to stop. Transfers that run at nodes go on meanwhile, and are found again by the next hub.
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

    /// Says that this hub lives, and learns from the database what other hubs have changed.
    async fn meet(&mut self) -> Result<()> {
        if self.beaten.is_some_and(|at| at.elapsed() < HUB_BEATS) {
            return Ok(());
        }
        // A file has one hub.
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

    /// Takes up transfers: those that this hub had begun before it was started again, and those of hubs that live no more. Each is ordered
    /// again, which a node takes as once. What another hub has taken over from this one is let go. The transfers of the others remain.
    async fn take_up(&mut self, queues: &HashMap<i64, &Queue>) -> Result<Vec<Underway>> {
        let underway = self.hub.database.underway().await?;
        let own: HashSet<i64> =
            underway.iter().filter(|it| it.hub == self.members.own).map(|transfer| transfer.number).collect();
        self.carried.retain(|number, _| own.contains(number));
        let mut others = Vec::new();
        for transfer in underway {
            if let Some(carried) = self.carried.get_mut(&transfer.number) {
                // Somebody may have limited its job, which has moved it to another queue.
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
                // The limit comes with this look, at once; a transfer that no node knows of yet has next to nothing until then.
                match queues.get(&claim.queue) {
                    Some(queue) if !claim.files.is_empty() => self.carry(claim, queue, 0.0),
                    _ => {
                        let (transfer, now) = (claim.number, time::now());
                        self.end(Ended { transfer, now, files: Vec::new(), is_over: true }).await;
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
            // Another hub on this database may have banned somebody.
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
        let look = Look {
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

    /// Stops the transfers of which all files are of jobs that were ended. Files of others in one transfer go on, and those of the ended
    /// job with them: what has arrived stays.
    async fn stop_cancelled(&self) -> Result<()> {
        for number in self.hub.database.cancelled(&self.members.own).await? {
            if let Some(carried) = self.carried.get(&number) {
                carried.steer.send_if_modified(|steer| !std::mem::replace(&mut steer.is_cancelled, true));
            }
        }
        Ok(())
    }

    /// What each resource may be used for now.
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

    /// All transfers that run, those of other hubs too.
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

    /// Tells other hubs, where there are any, how fast this one's transfers are.
    async fn tell_rates(&self) -> Result<()> {
        if self.members.is_alone() || self.carried.is_empty() {
            return Ok(());
        }
        let rates = self.carried.iter().map(|(number, carried)| (*number, carried.rate as i64)).collect();
        self.hub.database.tell_rates(rates).await
    }

    /// How the promises of queues with a deadline stand.
    fn promised(&self, topology: &Topology, usable: &[f64], queues: &[Queue]) -> HashMap<i64, Standing> {
        let mut moved: HashMap<i64, f64> = HashMap::new();
        for carried in self.carried.values() {
            *moved.entry(carried.claim.queue).or_default() +=
                carried.arrived_bytes.saturating_sub(carried.ended_bytes) as f64;
        }
        let promises = Promises::new(topology, usable, queues, &moved, 0, time::now());
        queues.iter().filter_map(|queue| Some((queue.id, promises.standing(queue.id)?))).collect()
    }

    /// Endpoints that are left in peace, and until when.
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

    /// Claims what is next of a queue, and has it carried.
    async fn begin(&mut self, topology: &Topology, queue: &Queue, limit: f64) -> Result<()> {
        let Some(carrier) = carrier::carrier(topology, queue) else {
            return self.give_up(queue).await;
        };
        // One that begins in this look may be the one that tries an endpoint.
        if self.is_broken(&queue.key.source) || self.is_broken(&queue.key.target) {
            return Ok(());
        }
        let files = self.files_left(topology, queue);
        if files == 0 {
            return Ok(());
        }
        let wanted = Wanted {
            queue: queue.id,
            hub: self.members.own.clone(),
            limits: EndpointLimits {
                out_transfers: topology.transfers_max(&queue.key.source).0,
                in_transfers: topology.transfers_max(&queue.key.target).1,
                space_bytes: topology.space_bytes(&queue.key.target).unwrap_or(i64::MAX),
            },
            // A server is asked for one file at a time.
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

    /// Files that may be opened now at both ends of a queue. Several hubs have equal parts.
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
        let (steer, steered) = watch::channel(Steer { limit, is_cancelled: false });
        let carriers = Arc::clone(&self.carriers);
        let (number, told, carried) = (claim.number, self.told.clone(), claim.clone());
        tokio::spawn(async move { carriers.carry(carried, steered, told).await });
        let pair = (queue.key.source.clone(), queue.key.target.clone());
        for name in [&pair.0, &pair.1] {
            self.breakers.entry(name.clone()).or_default().began();
        }
        self.carried.insert(number, Carried::new(claim, pair, steer, self.now()));
    }

    /// Nobody can carry what is first in this queue: neither end is a node, and there is no gateway.
    async fn give_up(&mut self, queue: &Queue) -> Result<()> {
        let wanted = Wanted {
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
        self.end(Ended { transfer: claim.number, now: time::now(), files, is_over: true }).await;
        Ok(())
    }

    async fn hear(&mut self, told: Told) {
        match told {
            Told::Moving { transfer, rate, bytes } => {
                if let Some(carried) = self.carried.get_mut(&transfer) {
                    self.pairs.moved(&carried.pair, bytes.saturating_sub(carried.arrived_bytes));
                    (carried.rate, carried.arrived_bytes) = (rate, bytes);
                }
            }
            Told::Limited { transfer, by } => {
                let Some(carried) = self.carried.get(&transfer) else { return };
                let by = serde_json::to_string(&by).unwrap_or_default();
                if let Err(error) = self.hub.database.set_limited_by(carried.claim.order.clone(), by).await {
                    tracing::warn!(%error, transfer, "what held a transfer back is not kept");
                }
            }
            Told::Files { transfer, files } => {
                let Some(carried) = self.carried.get_mut(&transfer) else { return };
                let files = carried.ended(&files.into_iter().collect());
                if !files.is_empty() {
                    self.end(Ended { transfer, now: time::now(), files, is_over: false }).await;
                }
            }
            Told::Ended { transfer, finished } => {
                let Some(carried) = self.carried.remove(&transfer) else { return };
                let now = self.now();
                if let Finished::Done { bytes } = finished {
                    self.pairs.moved(&carried.pair, bytes.saturating_sub(carried.arrived_bytes));
                }
                self.pairs.ended(&carried.pair, is_worth_another_try(&finished));
                for name in [&carried.pair.0, &carried.pair.1] {
                    let breaker = self.breakers.entry(name.clone()).or_default();
                    match finished {
                        // The other end may be well: only who was asked is known to be unreachable.
                        Finished::Unreachable { .. } if *name != carried.claim.carrier => {}
                        Finished::Unreachable { .. } => breaker.failed(now),
                        _ => breaker.succeeded(),
                    }
                }
                let files = carried.all_ended(&finished);
                self.end(Ended { transfer, now: time::now(), files, is_over: true }).await;
                self.hub.wake.notify_one();
            }
        }
    }

    /// Stores what became of a transfer, however long the database does not answer: it would be lost otherwise.
    async fn end(&self, ended: Ended) {
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
