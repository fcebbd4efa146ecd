//! The state that the parts of a running hub share.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arc_swap::ArcSwap;
use authn::Authenticator;
use model::v1::hub::{Collaboration, Job, JobChange, JobOrder, Offer};
use model::{Fault, Refusal};
use tokio::sync::{Mutex, MutexGuard, Notify, Semaphore};
use web::Refused;

use crate::admission::admit;
use crate::audit_trail::AuditTrail;
use crate::database::jobs::StoredJob;
use crate::database::submissions::{NewJob, SubmitResult};
use crate::database::{Database, DatabaseError, Kind};
use crate::limits;
use crate::measurements::{MeasuredPaths, Measurements};
use crate::meters::Meters;
use crate::portal::providers::SignIn;
use crate::promises::{PromiseRequest, Promises};
use crate::roles::{HubCredentials, Member};
use crate::servers::Servers;
use crate::snapshot::Snapshot;
use crate::sources;
use crate::states::{FileState, JobKind};
use crate::time;
use crate::topology::{Resource, Topology};

/// The shared state of a running hub.
pub struct HubState {
    /// Its name for other hubs on the same database: `HOST:PORT`.
    pub name: String,
    /// Its database.
    pub database: Database,
    /// The described collaboration; a change replaces it as a whole.
    pub topology: ArcSwap<Topology>,
    /// Authenticates requests.
    pub authenticator: Arc<Authenticator>,
    /// The providers with which members sign in.
    pub sign_ins: Vec<SignIn>,
    /// Makes requests to servers of endpoints over HTTP.
    pub servers: Arc<Servers>,
    /// The credentials that it accepts.
    pub credentials: Arc<HubCredentials>,
    /// The last decisions of the scheduler.
    pub snapshot: ArcSwap<Snapshot>,
    /// The counters for monitoring.
    pub meters: Meters,
    /// Wakes the scheduler when something is new.
    pub wake: Notify,
    /// Wakes the worker that evaluates rules when there is work for it.
    pub catalogue_wake: Notify,
    /// The audit trail.
    pub audit_trail: AuditTrail,
    /// Answers with what is measured between sites; `None` if no watch runs in this process.
    pub measurements: Option<Measurements>,
    /// Bounds the number of event streams.
    pub event_streams: Semaphore,
    /// Serialises changes of the description.
    describe_lock: Mutex<()>,
    /// Serialises promises of deadlines.
    promise_lock: Mutex<()>,
    /// The version of the description in force.
    description_version: AtomicI64,
}

impl HubState {
    /// The state of a hub on a database, with the description that is stored there.
    ///
    /// # Errors
    /// The database cannot be read, or its description is not consistent.
    pub async fn new(
        name: String,
        database: Database,
        authenticator: Arc<Authenticator>,
        credentials: Arc<HubCredentials>,
        servers: Servers,
        sign_ins: Vec<SignIn>,
        audit_trail: AuditTrail,
    ) -> Result<HubState, Refusal> {
        let version = database.description_version().await.map_err(unavailable)?;
        let described = database.collaboration().await.map_err(unavailable)?;
        credentials.read_banned().await?;
        let topology = Topology::new(described).map_err(|error| Refusal::new(Fault::Config, error.to_string()))?;
        credentials.describe(&topology.described);
        Ok(HubState {
            name,
            description_version: AtomicI64::new(version),
            database,
            topology: ArcSwap::from_pointee(topology),
            authenticator,
            credentials,
            sign_ins,
            servers: Arc::new(servers),
            snapshot: ArcSwap::default(),
            meters: Meters::default(),
            wake: Notify::new(),
            catalogue_wake: Notify::new(),
            audit_trail,
            measurements: None,
            event_streams: Semaphore::new(limits::EVENT_STREAMS_MAX),
            describe_lock: Mutex::new(()),
            promise_lock: Mutex::new(()),
        })
    }

    /// What is measured between sites now; empty if no watch runs in this process.
    pub fn measured_paths(&self) -> MeasuredPaths {
        self.measurements.iter().flat_map(|measurements| measurements()).collect()
    }

    /// Stores an order of a member as a job; `complete` fills in the fields of the job that an order does not have. Returns the job in the
    /// state of a new one, and whether it is new. If it was known already, the stored job may be in another state.
    ///
    /// # Errors
    /// The order cannot be carried out, its deadline cannot be promised, or the database does not answer. Nothing is stored then.
    pub async fn submit(
        &self,
        order: &JobOrder,
        member: &Member,
        complete: impl FnOnce(&mut NewJob),
    ) -> Result<(Job, SubmitResult), SubmitError> {
        let submitted = self.admit_and_store(order, member, complete).await;
        match &submitted {
            Ok((_, SubmitResult::New)) => self.meters.submitted_jobs.add(1),
            Ok((_, SubmitResult::Known)) => {}
            Ok((_, SubmitResult::Conflict)) | Err(_) => self.meters.refused_jobs.add(1),
        }
        submitted
    }

    async fn admit_and_store(
        &self,
        order: &JobOrder,
        member: &Member,
        complete: impl FnOnce(&mut NewJob),
    ) -> Result<(Job, SubmitResult), SubmitError> {
        if self.database.kind() == Kind::Postgres {
            // A description that was just changed at another hub must be in force.
            self.refresh_description().await.map_err(unavailable)?;
        }
        let mut job = admit(order, member, &self.topology.load(), time::now())?;
        complete(&mut job);
        if job.kind == JobKind::MultiSource && !order.options.in_order {
            sources::order(&mut job, &self.topology.load(), &self.snapshot.load());
        }
        // One deadline is promised at a time, and its job is stored before the next one is considered.
        let _promise_guard = match job.deadline {
            Some(deadline) => Some(self.promise(&job, deadline).await?),
            None => None,
        };
        let stored = job.to_api();
        let submitted = self.database.writer.submit(vec![job]).await.map_err(unavailable)?;
        self.wake.notify_one();
        Ok((stored, submitted.into_iter().next().unwrap_or(SubmitResult::Conflict)))
    }

    /// Checks that a job can be done before its deadline without breaking the existing promises. The returned guard must be held until the
    /// job is stored.
    async fn promise(&self, job: &NewJob, deadline: i64) -> Result<MutexGuard<'_, ()>, SubmitError> {
        let guard = self.promise_lock.lock().await;
        if self.database.job(&job.id).await.map_err(unavailable)?.is_some() {
            return Ok(guard);
        }
        let queues = self.database.queues().await.map_err(unavailable)?;
        let topology = self.topology.load();
        let usable: Vec<f64> = topology.resources.iter().map(Resource::below_mark).collect();
        let mut promises = Promises::new(&topology, &usable, &queues, &HashMap::new(), deadline, time::now());
        let mut wanted: BTreeMap<(&str, &str), i64> = BTreeMap::new();
        for file in job.files.iter().filter(|file| file.state == FileState::Queued) {
            *wanted.entry((&file.queue.source, &file.queue.target)).or_default() += file.bytes;
        }
        let wanted: Vec<PromiseRequest> = wanted
            .into_iter()
            .map(|((source, target), bytes)| PromiseRequest {
                source: source.to_owned(),
                target: target.to_owned(),
                community: job.community.clone(),
                deadline,
                bytes,
            })
            .collect();
        promises
            .accept(&wanted)
            .map_err(|refusal| SubmitError::NotPromised { text: refusal.text(deadline), offer: refusal.offer() })?;
        Ok(guard)
    }

    /// Changes a job; returns false if it has ended.
    ///
    /// # Errors
    /// The database cannot be written. Nothing is changed then.
    pub async fn change_job(&self, job: StoredJob, change: JobChange, by: String) -> Result<bool, Refusal> {
        let changed = self.database.change_job(job, change, by, time::now()).await.map_err(unavailable)?;
        self.wake.notify_one();
        Ok(changed)
    }

    /// Cancels files of jobs whose files are independent. Returns the state of each; a file that is being moved reaches it once its carrier
    /// has stopped.
    ///
    /// # Errors
    /// The database cannot be written. Nothing is changed then.
    pub async fn cancel_files(&self, files: Vec<i64>) -> Result<Vec<Option<FileState>>, Refusal> {
        let states = self.database.cancel_files(files, time::now()).await.map_err(unavailable)?;
        self.wake.notify_one();
        Ok(states)
    }

    /// Reads the banned users again. On an error the previous list stays in force.
    pub async fn read_banned(&self) {
        if let Err(refusal) = self.credentials.read_banned().await {
            tracing::warn!(reason = refusal.reason, "the list of banned users cannot be read");
        }
    }

    /// Changes the description: checks it as a whole, stores it, and puts it in force for the next round of the scheduler.
    ///
    /// # Errors
    /// The change is refused, or its result is not consistent. Nothing is changed then.
    pub async fn describe(
        &self,
        change: impl FnOnce(&mut Collaboration) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let _guard = self.describe_lock.lock().await;
        // Another hub may have changed the description meanwhile.
        self.read_description().await.map_err(unavailable)?;
        let mut described = self.topology.load().described.clone();
        change(&mut described)?;
        let topology =
            Topology::new(described.clone()).map_err(|error| Refusal::new(Fault::Config, error.to_string()))?;
        self.database.describe(described).await.map_err(unavailable)?;
        self.put_in_force(topology);
        Ok(())
    }

    /// Puts a description in force for jobs, shares and members.
    fn put_in_force(&self, topology: Topology) {
        self.credentials.describe(&topology.described);
        self.topology.store(Arc::new(topology));
        self.wake.notify_one();
    }

    /// Reads the description again if another hub has changed it.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn refresh_description(&self) -> Result<(), DatabaseError> {
        let _guard = self.describe_lock.lock().await;
        self.read_description().await
    }

    /// Rebuilds the topology if a downtime has begun or ended.
    pub(crate) fn follow_downtimes(&self) {
        let topology = self.topology.load();
        let now = time::now();
        if topology.next_change().is_some_and(|at| at <= now)
            && let Ok(topology) = Topology::at(topology.described.clone(), now)
        {
            self.put_in_force(topology);
            self.catalogue_wake.notify_one();
        }
    }

    async fn read_description(&self) -> Result<(), DatabaseError> {
        let version = self.database.description_version().await?;
        if self.description_version.load(Ordering::Relaxed) == version {
            self.follow_downtimes();
            return Ok(());
        }
        let described = self.database.collaboration().await?;
        // The version is stored last: a description that could not be read is read again.
        self.description_version.store(version, Ordering::Relaxed);
        match Topology::new(described) {
            Ok(topology) => self.put_in_force(topology),
            Err(error) => {
                tracing::error!(%error, "the description that another hub stored is not consistent; the previous one stays in force")
            }
        }
        Ok(())
    }
}

/// Why an order was not submitted.
#[derive(Debug)]
pub enum SubmitError {
    /// The order cannot be carried out.
    Refused(Refusal),
    /// Its deadline cannot be promised.
    NotPromised {
        /// One sentence.
        text: String,
        /// The counter-offer, if anything can be promised.
        offer: Option<Offer>,
    },
}

impl From<Refusal> for SubmitError {
    fn from(refusal: Refusal) -> SubmitError {
        SubmitError::Refused(refusal)
    }
}

impl From<SubmitError> for Refused {
    fn from(why: SubmitError) -> Refused {
        match why {
            SubmitError::Refused(refusal) => Refused::from(refusal),
            SubmitError::NotPromised { text, .. } => Refused::new(409, text),
        }
    }
}

/// The refusal for an error of the database: the client is not at fault.
pub fn unavailable(error: DatabaseError) -> Refusal {
    Refusal::new(Fault::Local, error.to_string())
}
