//! What the parts of a running hub share.

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use authn::Authenticator;
use model::v1::hub::{Collaboration, JobChange};
use model::{Fault, Refusal};
use tokio::sync::{Mutex, Notify, Semaphore};

use crate::database::jobs::StoredJob;
use crate::database::{Database, DatabaseError};
use crate::limits;
use crate::roles::HubCredentials;
use crate::snapshot::Snapshot;
use crate::time;
use crate::topology::Topology;

/// A running hub.
pub struct HubState {
    /// Its database.
    pub database: Database,
    /// The collaboration; a change replaces it whole.
    pub topology: ArcSwap<Topology>,
    /// Authenticates requests.
    pub authenticator: Arc<Authenticator>,
    /// The grants.
    pub credentials: Arc<HubCredentials>,
    /// What the scheduler decided last.
    pub snapshot: ArcSwap<Snapshot>,
    /// Wakes the scheduler: something is new.
    pub wake: Notify,
    /// Jobs that were ended while files of theirs move: their transfers are to be stopped.
    pub cancelled: parking_lot::Mutex<HashSet<i64>>,
    /// Places for streams of events.
    pub event_streams: Semaphore,
    /// One description is changed at a time.
    describing: Mutex<()>,
}

impl HubState {
    /// Of a database, with what is described there.
    ///
    /// # Errors
    /// The database cannot be read, or what it describes is not consistent.
    pub async fn new(
        database: Database,
        authenticator: Arc<Authenticator>,
        credentials: Arc<HubCredentials>,
    ) -> Result<HubState, Refusal> {
        let described = database.collaboration().await.map_err(unavailable)?;
        let topology = Topology::new(described).map_err(|error| Refusal::new(Fault::Config, error.to_string()))?;
        credentials.describe(&topology.described);
        Ok(HubState {
            database,
            topology: ArcSwap::from_pointee(topology),
            authenticator,
            credentials,
            snapshot: ArcSwap::default(),
            wake: Notify::new(),
            cancelled: parking_lot::Mutex::default(),
            event_streams: Semaphore::new(limits::EVENT_STREAMS_MAX),
            describing: Mutex::new(()),
        })
    }

    /// Changes a job; false where it has ended.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn change_job(&self, job: StoredJob, change: JobChange, by: String) -> Result<bool, Refusal> {
        let number = job.number;
        let changed = self.database.change_job(job, change, by, time::now()).await.map_err(unavailable)?;
        if changed && change.cancel {
            self.cancelled.lock().insert(number);
        }
        self.wake.notify_one();
        Ok(changed)
    }

    /// Changes what is described: checked whole, stored, and in force with the next look of the scheduler.
    ///
    /// # Errors
    /// The change is refused, or leads to what is not consistent: nothing has changed.
    pub async fn describe(
        &self,
        change: impl FnOnce(&mut Collaboration) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let _one = self.describing.lock().await;
        let mut described = self.topology.load().described.clone();
        change(&mut described)?;
        let topology =
            Topology::new(described.clone()).map_err(|error| Refusal::new(Fault::Config, error.to_string()))?;
        self.database.describe(described).await.map_err(unavailable)?;
        self.credentials.describe(&topology.described);
        self.topology.store(Arc::new(topology));
        self.wake.notify_one();
        Ok(())
    }
}

/// The database does not answer: nobody's fault who asks.
pub fn unavailable(error: DatabaseError) -> Refusal {
    Refusal::new(Fault::Local, error.to_string())
}
