//! The services of a node for its clients: transfers, tests, digests, metrics.

mod metrics;
mod session_log;

use std::sync::Arc;

use arc_swap::ArcSwap;
use auth::Access;
use authn::{Authenticator, Issuers};
use engine::budget::Budget;
use model::Refusal;

pub(crate) use self::metrics::user;
use crate::access::AccessControl;
use crate::audit::AuditLog;
use crate::callout::Callouts;
use crate::claims::TestClaims;
use crate::config::NodeConfig;
use crate::digests::Digests;
use crate::holder_bound::HolderBound;
use crate::jobs::Jobs;
use crate::meters::Meters;
use crate::nics::Nics;
use crate::pscheduler::Participant;
use crate::responders::Responders;
use crate::schedules::{self, Schedules};
use crate::shutdown::Shutdown;
use crate::stream_rendezvous::StreamRendezvous;
use crate::tape::requests::StageRequests;
use crate::test_orders::TestOrders;
use crate::test_service::TestService;
use crate::transfers::Transfers;
use crate::unfinished::UnfinishedFiles;

/// The services of a node.
pub(crate) struct Services {
    /// The access control.
    pub access: Arc<AccessControl>,
    /// Finds the principal of a client.
    pub authenticator: Authenticator,
    /// The call-out program of the policy.
    pub callouts: Callouts,
    /// Files that clients are writing.
    pub unfinished: UnfinishedFiles,
    /// Sessions that data streams may join.
    pub rendezvous: StreamRendezvous,
    pub jobs: Jobs,
    pub digests: Digests,
    /// The traffic over the interfaces of this host.
    pub nics: Nics,
    pub transfers: Arc<Transfers>,
    /// Tests from this node that clients have ordered.
    pub test_orders: Arc<TestOrders>,
    /// Repeated tests from this node.
    pub schedules: Arc<Schedules>,
    /// Requests to bring files from tape.
    pub stage_requests: StageRequests,
    /// Tests that clients run with this node.
    pub tests: Arc<TestService>,
    /// The tasks of pSchedulers that use this node as a participant.
    pub participant: Arc<Participant>,
    /// The test protocols that are answered without a key.
    pub responders: ArcSwap<Responders>,
    /// The claim of a test that must not run beside others.
    pub claims: Arc<TestClaims>,
    /// The memory of requests that are being read or answered.
    pub memory: Budget,
    /// The audit log.
    pub audit_log: AuditLog,
    /// The metrics.
    pub meters: Arc<Meters>,
    shutdown: Shutdown,
}

/// Bytes of requests in memory, in all and of one holder: lists of files, bodies of orders.
const MEMORY_BYTES: HolderBound = HolderBound { each: 96 << 20, all: 256 << 20 };

impl Services {
    /// The services of a node with this configuration.
    pub fn new(access: Arc<AccessControl>, config: &NodeConfig) -> Services {
        let state = config.state.path();
        let jobs = Jobs::default();
        let shutdown = Shutdown::default();
        let transfers = Transfers::new(Arc::clone(&access), jobs.clone(), shutdown.clone(), config);
        let transfers = Arc::new(transfers);
        let participant = Arc::<Participant>::default();
        let tests = Arc::new(TestService::new(Arc::clone(&participant)));
        let claims = Arc::<TestClaims>::default();
        let test_orders =
            TestOrders::new(Arc::clone(&access), Arc::clone(&transfers), Arc::clone(&claims), shutdown.clone());
        let services = schedules::ScheduleServices {
            access: Arc::clone(&access),
            transfers: Arc::clone(&transfers),
            tests: Arc::clone(&tests),
            claims: Arc::clone(&claims),
            jobs: jobs.clone(),
            shutdown: shutdown.clone(),
        };
        let schedules = Arc::new(Schedules::new(services, config));
        let stage_requests = StageRequests::new(Arc::clone(&access), state);
        stage_requests.resume();
        access.tapes().iter().for_each(|library| library.resume());
        let issuers = Issuers::new(state, config.web.authorities.as_ref());
        Services {
            authenticator: Authenticator::new(Arc::<AccessControl>::clone(&access), issuers),
            callouts: Callouts::default(),
            unfinished: UnfinishedFiles::new(state, access.dirs()),
            access,
            stage_requests,
            rendezvous: StreamRendezvous::default(),
            jobs,
            digests: Digests::new(state),
            nics: Nics::default(),
            transfers,
            test_orders: Arc::new(test_orders),
            schedules,
            tests,
            participant,
            responders: ArcSwap::from_pointee(config.responders.clone()),
            claims,
            memory: Budget::new(MEMORY_BYTES.all, MEMORY_BYTES.each),
            // A node that exists for one copy of its operator keeps no audit log.
            audit_log: if config.serves_one_copy { AuditLog::none() } else { AuditLog::new(state) },
            meters: Arc::default(),
            shutdown,
        }
    }

    /// Stops the services: transfers end here and continue with the next start; pooled sessions are closed.
    pub fn stop(&self) {
        self.shutdown.begin();
        self.jobs.cancel_all();
        self.transfers.stop();
        self.test_orders.stop();
    }

    /// The flag that tells all threads of the node that it stops.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Whether the node stops.
    pub fn is_stopping(&self) -> bool {
        self.shutdown.has_begun()
    }

    /// The audit of this host's settings, as lines of JSON.
    ///
    /// # Errors
    /// The node offers no audit, or the principal is anonymous.
    pub fn audit(&self, access: &Access, ask: &model::v1::tune::AuditRequest) -> Result<Vec<String>, Refusal> {
        self.tests.audit(self.access.audit(), access, ask)
    }
}
