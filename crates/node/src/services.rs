//! What a node does for its clients: transfers, tests, digests, numbers.

mod notes;
mod numbers;

use std::sync::Arc;

use arc_swap::ArcSwap;
use auth::Access;
use engine::budget::Budget;
use model::Refusal;

pub(crate) use self::numbers::user;
use crate::access::AccessControl;
use crate::audit::AuditLog;
use crate::claims::TestClaims;
use crate::config::NodeConfig;
use crate::digests::Digests;
use crate::jobs::Jobs;
use crate::meters::Meters;
use crate::nics::Nics;
use crate::pscheduler::Participant;
use crate::registry::Registry;
use crate::responders::Responders;
use crate::schedules::{self, Schedules};
use crate::shutdown::Shutdown;
use crate::tape::requests::StageRequests;
use crate::test_orders::TestOrders;
use crate::test_service::TestService;
use crate::transfers::Transfers;

/// The services of a site.
pub(crate) struct Services {
    /// Who may do what, and where.
    pub access: Arc<AccessControl>,
    /// Sessions that data streams may join.
    pub registry: Registry,
    pub jobs: Jobs,
    pub digests: Digests,
    /// What goes over the interfaces of this host.
    pub nics: Nics,
    pub transfers: Arc<Transfers>,
    /// Tests that this node makes for its guests.
    pub test_orders: Arc<TestOrders>,
    /// Tests that this node repeats for its guests.
    pub schedules: Arc<Schedules>,
    /// Requests to bring files from tape.
    pub stage_requests: StageRequests,
    /// Tests that its guests make with it.
    pub tests: Arc<TestService>,
    /// What pSchedulers that lead tests have told this node of.
    pub participant: Arc<Participant>,
    /// Whose tests are answered without a key.
    pub responders: ArcSwap<Responders>,
    /// Which test has the node to itself.
    pub claims: Arc<TestClaims>,
    /// What is kept in memory for those who ask, until they are answered.
    pub memory: Budget,
    /// Where decisions are written down.
    pub audit_log: AuditLog,
    /// What the node does, in numbers.
    pub meters: Arc<Meters>,
    shutdown: Shutdown,
}

/// Bytes of what is being asked, in all and of one holder: lists of files, bodies of orders.
const MEMORY_BYTES: (usize, usize) = (256 << 20, 96 << 20);

impl Services {
    /// Of a node that is started like this.
    pub fn new(access: Arc<AccessControl>, config: &NodeConfig) -> Services {
        let (state, is_lasting) = (config.state.path(), !config.own_guests);
        let (jobs, shutdown) = (Jobs::default(), Shutdown::default());
        let transfers = Transfers::new(Arc::clone(&access), jobs.clone(), shutdown.clone(), config);
        let transfers = Arc::new(transfers);
        let participant = Arc::<Participant>::default();
        let (tests, claims) = (Arc::new(TestService::new(Arc::clone(&participant))), Arc::<TestClaims>::default());
        let test_orders =
            TestOrders::new(Arc::clone(&access), Arc::clone(&transfers), Arc::clone(&claims), shutdown.clone());
        let means = schedules::Means {
            access: Arc::clone(&access),
            transfers: Arc::clone(&transfers),
            tests: Arc::clone(&tests),
            claims: Arc::clone(&claims),
            jobs: jobs.clone(),
            shutdown: shutdown.clone(),
        };
        let schedules = Arc::new(Schedules::new(means, config));
        let stage_requests = StageRequests::new(Arc::clone(&access), state);
        stage_requests.go_on();
        access.tapes().iter().for_each(|library| library.go_on());
        Services {
            access,
            stage_requests,
            registry: Registry::default(),
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
            memory: Budget::new(MEMORY_BYTES.0, MEMORY_BYTES.1),
            // What its operator does with a node of his own is nobody's business to look up.
            audit_log: if is_lasting { AuditLog::new(state) } else { AuditLog::none() },
            meters: Arc::default(),
            shutdown,
        }
    }

    /// The node stops: what it carries ends, to go on with the next start, and no session is kept.
    pub fn stop(&self) {
        self.shutdown.begin();
        self.jobs.cancel_all();
        self.transfers.stop();
        self.test_orders.stop();
    }

    /// Told to whatever works for the node when it stops.
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }

    /// Whether the node stops.
    pub fn is_stopping(&self) -> bool {
        self.shutdown.has_begun()
    }

    /// How this host stands, where the node tells.
    pub fn audit(&self, access: &Access, ask: &model::v1::tune::Ask) -> Result<Vec<String>, Refusal> {
        self.tests.audit(self.access.audit(), access, ask)
    }
}
