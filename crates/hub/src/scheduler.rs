//! The scheduler: looks once a second, or when something is new; what is decided is [`planner::plan`]'s, what is done is the carriers'.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::v1::hub::EndpointKind;
use sched::demand::DemandEstimate;
use sched::high_water_mark::HighWaterMark;
use sched::retry::{Backoff, Breaker, Remedy, remedy};
use tokio::sync::{mpsc, watch};

use crate::carriers::{Carriers, THIRD_PARTY, go_together};
use crate::database::claims::{Claim, ClaimedFile, Wanted};
use crate::database::outcomes::{Ended, Outcome};
use crate::database::queues::Queue;
use crate::database::{DatabaseError, Result};
use crate::limits::TRANSFER_FILES_MAX;
use crate::planner::{self, Begin, Look, Plan, Running};
use crate::progress::{Finished, Steer, Told};
use crate::state::HubState;
use crate::time;
use crate::topology::{Resource, ResourceOf, Topology};

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The shortest time between two looks: submissions that come by the thousand wake it once.
const LOOK_AFTER: Duration = Duration::from_millis(50);
/// How often files that have waited too long are ended.
const EXPIRE_EVERY: Duration = Duration::from_secs(5);
/// How long a transfer takes to get going: what it uses until then says nothing.
const STARTUP: Duration = Duration::from_secs(5);
/// How long the files of one transfer take, about.
const BATCH: Duration = Duration::from_secs(30);
/// Bytes of one transfer where no rate bounds it.
const BATCH_BYTES_MAX: i64 = 64 << 30;
/// Attempts of a file after the first, unless its job says otherwise.
const RETRIES: i64 = 3;
/// The pause before a second attempt, and the longest.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(10), longest: Duration::from_secs(600) };

/// A transfer that is carried.
struct Carried {
    claim: Claim,
    source: String,
    target: String,
    rate: f64,
    steer: watch::Sender<Steer>,
}

/// What is known of what a queue can use.
struct QueueDemand {
    /// Since when transfers of it run.
    since: Duration,
    /// What it was given last, bytes per second.
    given: f64,
    demand: DemandEstimate,
}

struct Scheduler {
    hub: Arc<HubState>,
    carriers: Arc<Carriers>,
    started: Instant,
    carried: HashMap<i64, Carried>,
    marks: HashMap<ResourceOf, HighWaterMark>,
    breakers: HashMap<String, Breaker>,
    demands: HashMap<i64, QueueDemand>,
    /// When files that had waited too long were ended last.
    expired: Option<Instant>,
    told: mpsc::Sender<Told>,
}

/// Runs until told to stop. Transfers that run at nodes go on meanwhile, and are found again by the next hub.
pub async fn run(hub: Arc<HubState>, carriers: Arc<Carriers>, mut stop: watch::Receiver<bool>) {
    let (told, mut heard) = mpsc::channel(1024);
    let mut scheduler = Scheduler {
        hub: Arc::clone(&hub),
        carriers,
        started: Instant::now(),
        carried: HashMap::new(),
        marks: HashMap::new(),
        breakers: HashMap::new(),
        demands: HashMap::new(),
        expired: None,
        told,
    };
    // Until it is known what runs nothing may begin: endpoints would have more than they may.
    while let Err(error) = scheduler.go_on().await {
        tracing::error!(%error, "cannot read which transfers are under way; trying again");
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
    let mut next = tokio::time::Instant::now();
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            Some(told) = heard.recv() => scheduler.hear(told).await,
            () = hub.wake.notified() => next = next.min(tokio::time::Instant::now() + LOOK_AFTER),
            () = tokio::time::sleep_until(next) => {
                if let Err(error) = scheduler.look().await {
                    tracing::error!(%error, "the scheduler could not look; it tries again");
                }
                next = tokio::time::Instant::now() + LOOK_EVERY;
            }
        }
    }
}

impl Scheduler {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes up the transfers that an earlier hub had begun: each is ordered again, which a node takes as once.
    async fn go_on(&mut self) -> Result<()> {
        let queues: HashMap<i64, Queue> = self.hub.database.queues().await?.into_iter().map(|it| (it.id, it)).collect();
        for claim in self.hub.database.unended().await? {
            match queues.get(&claim.queue) {
                // One that is taken up a second time is carried already. The limit comes with the first look, at once; one that no node knows of
                // yet has next to nothing until then.
                _ if self.carried.contains_key(&claim.number) => {}
                Some(queue) if !claim.files.is_empty() => self.carry(claim, queue, 0.0),
                _ => {
                    self.end(Ended { transfer: claim.number, now: time::now(), files: Vec::new(), is_over: true }).await
                }
            }
        }
        Ok(())
    }

    async fn look(&mut self) -> Result<()> {
        let topology = self.hub.topology.load_full();
        if self.expired.is_none_or(|at| at.elapsed() >= EXPIRE_EVERY) {
            self.hub.database.expire(time::now()).await?;
            self.expired = Some(Instant::now());
        }
        self.stop_cancelled();
        let queues = self.hub.database.queues().await?;
        let usable = self.usable(&topology);
        let running = self.running();
        let (waited, broken) = (self.waited(&queues).await?, self.broken());
        let caps = self.caps();
        let look = Look {
            at: time::now(),
            topology: &topology,
            usable: &usable,
            queues: &queues,
            waited: &waited,
            running: &running,
            caps: &caps,
            broken: &broken,
        };
        let Plan { limits, begin, snapshot } = planner::plan(&look);
        for (queue, decision) in &snapshot.queues {
            if let Some(demand) = self.demands.get_mut(queue) {
                demand.given = decision.rate;
            }
        }
        self.hub.snapshot.store(Arc::new(snapshot));
        for (number, limit) in limits {
            if let Some(carried) = self.carried.get(&number) {
                carried.steer.send_if_modified(|steer| std::mem::replace(&mut steer.limit, limit) != limit);
            }
        }
        let by_id: HashMap<i64, &Queue> = queues.iter().map(|queue| (queue.id, queue)).collect();
        for Begin { queue, limit } in begin {
            let Some(queue) = by_id.get(&queue) else { continue };
            self.begin(&topology, queue, limit).await?;
        }
        Ok(())
    }

    /// Stops the transfers of which all files are of jobs that were ended. Files of others in one transfer go on, and those of the ended
    /// job with them: what has arrived stays.
    fn stop_cancelled(&self) {
        let mut cancelled = self.hub.cancelled.lock();
        if cancelled.is_empty() {
            return;
        }
        for carried in self.carried.values() {
            if carried.claim.files.iter().all(|file| cancelled.contains(&file.job)) {
                carried.steer.send_if_modified(|steer| !std::mem::replace(&mut steer.is_cancelled, true));
            }
        }
        let is_carried = |job: &i64| self.carried.values().any(|it| it.claim.files.iter().any(|file| file.job == *job));
        cancelled.retain(is_carried);
    }

    /// What each resource may be used for now.
    fn usable(&mut self, topology: &Topology) -> Vec<f64> {
        let now = self.now();
        let marks = &mut self.marks;
        let usable = |resource: &Resource| {
            let new = || HighWaterMark::new(now, resource.capacity, resource.mark);
            let mark = marks.entry(resource.of.clone()).or_insert_with(new);
            mark.step(now, resource.capacity, resource.mark, resource.others)
        };
        topology.resources.iter().map(usable).collect()
    }

    fn running(&self) -> Vec<Running> {
        let running = |(number, carried): (&i64, &Carried)| Running {
            number: *number,
            queue: carried.claim.queue,
            source: carried.source.clone(),
            target: carried.target.clone(),
            rate: carried.rate,
            bytes: carried.claim.files.iter().map(|file| file.bytes).sum(),
        };
        self.carried.iter().map(running).collect()
    }

    /// The most that each queue is known to use: told by its transfers, once they have run for a while.
    fn caps(&mut self) -> HashMap<i64, f64> {
        let now = self.now();
        let mut used: HashMap<i64, f64> = HashMap::new();
        for carried in self.carried.values() {
            *used.entry(carried.claim.queue).or_default() += carried.rate;
        }
        self.demands.retain(|queue, _| used.contains_key(queue));
        let mut caps = HashMap::new();
        for (queue, used) in used {
            let new = || QueueDemand { since: now, given: f64::INFINITY, demand: DemandEstimate::default() };
            let QueueDemand { since, given, demand } = self.demands.entry(queue).or_insert_with(new);
            if given.is_finite() && now.saturating_sub(*since) >= STARTUP {
                caps.insert(queue, demand.step(now, used, *given));
            }
        }
        caps
    }

    async fn waited(&self, queues: &[Queue]) -> Result<HashMap<i64, Duration>> {
        let mut waited = HashMap::new();
        for queue in queues.iter().filter(|queue| queue.queued > 0) {
            if let Some(oldest) = self.hub.database.oldest(queue.id).await? {
                let since = time::now().saturating_sub(oldest.submitted).max(0) as u64;
                waited.insert(queue.id, Duration::from_millis(since));
            }
        }
        Ok(waited)
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
        let Some(carrier) = carrier(topology, queue) else {
            return self.give_up(queue).await;
        };
        // One that begins in this look may be the one that tries an endpoint.
        if self.is_broken(&queue.key.source) || self.is_broken(&queue.key.target) {
            return Ok(());
        }
        let wanted = Wanted {
            queue: queue.id,
            // A server is asked for one file at a time.
            files: if carrier == THIRD_PARTY { 1 } else { TRANSFER_FILES_MAX },
            carrier,
            bytes: batch_bytes(limit),
            now: time::now(),
            together: go_together,
        };
        if let Some(claim) = self.hub.database.claim(wanted).await? {
            self.carry(claim, queue, limit);
        }
        Ok(())
    }

    fn carry(&mut self, claim: Claim, queue: &Queue, limit: f64) {
        let (steer, steered) = watch::channel(Steer { limit, is_cancelled: false });
        let carriers = Arc::clone(&self.carriers);
        let (number, told, carried) = (claim.number, self.told.clone(), claim.clone());
        tokio::spawn(async move { carriers.carry(carried, steered, told).await });
        let (source, target) = (queue.key.source.clone(), queue.key.target.clone());
        for name in [&source, &target] {
            self.breakers.entry(name.clone()).or_default().began();
        }
        self.carried.insert(number, Carried { claim, source, target, rate: 0.0, steer });
    }

    /// Nobody can carry what is first in this queue: neither end is a node, and there is no gateway.
    async fn give_up(&mut self, queue: &Queue) -> Result<()> {
        let wanted = Wanted {
            queue: queue.id,
            carrier: String::new(),
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
            Told::Moving { transfer, rate } => {
                if let Some(carried) = self.carried.get_mut(&transfer) {
                    carried.rate = rate;
                }
            }
            Told::Files { transfer, files } => {
                let Some(carried) = self.carried.get(&transfer) else { return };
                let by_id: HashMap<i64, &ClaimedFile> =
                    carried.claim.files.iter().map(|file| (file.id, file)).collect();
                let outcome = |(id, finished): &(i64, Finished)| Some((*id, outcome(by_id.get(id)?, finished)));
                let files = files.iter().filter_map(outcome).collect();
                self.end(Ended { transfer, now: time::now(), files, is_over: false }).await;
            }
            Told::Ended { transfer, finished } => {
                let Some(carried) = self.carried.remove(&transfer) else { return };
                let now = self.now();
                for name in [&carried.source, &carried.target] {
                    let breaker = self.breakers.entry(name.clone()).or_default();
                    match finished {
                        // The other end may be well: only who was asked is known to be unreachable.
                        Finished::Unreachable { .. } if *name != carried.claim.carrier => {}
                        Finished::Unreachable { .. } => breaker.failed(now),
                        _ => breaker.succeeded(),
                    }
                }
                let is_one = carried.claim.files.len() == 1;
                let of_file = |file: &ClaimedFile| match &finished {
                    // The bytes that the node tells are those of all files together.
                    Finished::Done { .. } if !is_one => Outcome::Done { bytes: file.bytes },
                    // What made it end may be another file's: this one was not told of, and is tried again.
                    Finished::Failed { fault, reason } if !is_one => again(file, fault, reason),
                    finished => outcome(file, finished),
                };
                let files = carried.claim.files.iter().map(|file| (file.id, of_file(file))).collect();
                self.end(Ended { transfer, now: time::now(), files, is_over: true }).await;
                self.hub.wake.notify_one();
            }
        }
    }

    /// Stores what became of a transfer, however long the database does not answer: it would be lost otherwise.
    async fn end(&self, ended: Ended) {
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

/// Who carries the files of a queue: an end that is a node, the source before the target; a gateway of theirs; or, of two WebDAV servers,
/// they themselves.
fn carrier(topology: &Topology, queue: &Queue) -> Option<String> {
    let (source, target) = (&queue.key.source, &queue.key.target);
    let is = |name: &String, kind| topology.kind(name) == kind;
    let node = [source, target].into_iter().find(|name| is(name, EndpointKind::Node)).cloned();
    let gateway = |name: &String| topology.described_endpoint(name)?.gateway.clone();
    let both_copy = is(source, EndpointKind::Webdav) && is(target, EndpointKind::Webdav);
    let themselves = || both_copy.then(|| THIRD_PARTY.to_owned());
    node.or_else(|| gateway(source)).or_else(|| gateway(target)).or_else(themselves)
}

/// Bytes of one transfer: half a minute of them, so that what is queued meanwhile with a better claim does not wait for long, and one file at
/// the least.
fn batch_bytes(limit: f64) -> i64 {
    if limit.is_finite() { (limit * BATCH.as_secs_f64()) as i64 } else { BATCH_BYTES_MAX }
}

/// What becomes of a file of a transfer that finished so.
fn outcome(file: &ClaimedFile, finished: &Finished) -> Outcome {
    match finished {
        Finished::Done { bytes } => Outcome::Done { bytes: i64::try_from(*bytes).unwrap_or(i64::MAX) },
        Finished::Cancelled => Outcome::Cancelled,
        Finished::Unreachable { reason } => again(file, "path", reason),
        Finished::Failed { fault, reason } => {
            let known = model::Fault::of_word(fault).unwrap_or(model::Fault::Peer);
            match remedy(known, false) {
                Remedy::Later | Remedy::QueueWaits => again(file, fault, reason),
                Remedy::OtherSource | Remedy::Never => Outcome::Failed { fault: fault.clone(), reason: reason.clone() },
            }
        }
    }
}

fn again(file: &ClaimedFile, fault: &str, reason: &str) -> Outcome {
    let retries = crate::admission::options(&file.options).retries.map_or(RETRIES, i64::from);
    let (fault, reason) = (fault.to_owned(), reason.to_owned());
    if file.attempt > retries {
        return Outcome::Failed { fault, reason };
    }
    let pause = BACKOFF.pause(file.attempt as u32, fastrand::f64());
    Outcome::Again { not_before: time::now() + pause.as_millis() as i64, fault, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::states::JobKind;

    fn file(attempt: i64) -> ClaimedFile {
        ClaimedFile {
            id: 1,
            job: 1,
            at: 0,
            bytes: 0,
            attempt,
            source: String::new(),
            target: String::new(),
            checksum: None,
            kind: JobKind::Independent,
            options: r#"{"retries": 2}"#.into(),
        }
    }

    #[test]
    fn what_passes_is_tried_again_and_not_for_ever() {
        let failed = |fault: &str| Finished::Failed { fault: fault.into(), reason: "x".into() };
        assert!(matches!(outcome(&file(1), &failed("path")), Outcome::Again { .. }));
        assert!(matches!(outcome(&file(2), &failed("storage")), Outcome::Again { .. }));
        assert!(matches!(outcome(&file(3), &failed("path")), Outcome::Failed { .. }));
        assert!(matches!(outcome(&file(1), &failed("missing")), Outcome::Failed { .. }));
        assert!(matches!(outcome(&file(1), &failed("auth")), Outcome::Failed { .. }));
        assert!(matches!(outcome(&file(1), &Finished::Unreachable { reason: "x".into() }), Outcome::Again { .. }));
        assert_eq!(outcome(&file(9), &Finished::Done { bytes: 7 }), Outcome::Done { bytes: 7 });
    }

    #[test]
    fn an_end_that_is_a_node_carries() {
        let toml = "[endpoint.dtn]\nurls = [\"lh://n\"]\n[endpoint.bucket]\nkind = \"s3\"\nurls = [\"s3://b\"]\ngateway = \"dtn\"";
        let topology = Topology::new(toml::from_str(toml).unwrap()).unwrap();
        let of = |source: &str, target: &str| {
            let key = crate::database::submissions::QueueKey {
                source: source.into(),
                target: target.into(),
                community: String::new(),
                activity: String::new(),
                owner: String::new(),
                priority: 3,
                class: 1,
            };
            let queue = Queue { id: 1, key, queued: 1, queued_bytes: 0, running: 0, running_bytes: 0 };
            carrier(&topology, &queue)
        };
        assert_eq!(of("dtn", "lh://other").as_deref(), Some("dtn"));
        assert_eq!(of("https://x", "dtn").as_deref(), Some("dtn"));
        assert_eq!(of("bucket", "https://x").as_deref(), Some("dtn"));
        assert_eq!(of("https://x", "https://y").as_deref(), Some(THIRD_PARTY));
        assert_eq!(of("s3://x", "https://y"), None);
    }
}
