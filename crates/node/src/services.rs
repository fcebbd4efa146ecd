//! What a node does for its guests: transfers, tests, digests, numbers; and the answers that sessions of the native protocol need.

mod notes;
mod numbers;

use model::Refusal;
use std::net::SocketAddr;
use std::sync::Arc;

use auth::Access;
use engine::budget::{Budget, Part};
use engine::control::Control;
use engine::history::History;
use engine::movers::Peers;
use engine::node::{Asker, Event, Gate, Host, Said};
use engine::path_shares::PathShares;
use engine::receive::TargetPlace;
use engine::scan::SourceRoot;
use model::fault::Fault;
use model::locator::Place;
use wire::frame::{Direction, KeyProof, Open, Request};
use wire::join::SessionId;

pub(crate) use self::numbers::user;
use crate::access::AccessControl;
use crate::audit::AuditLog;
use crate::config::NodeConfig;
use crate::digests::Digests;
use crate::jobs::Jobs;
use crate::meters::Meters;
use crate::nics::Nics;
use crate::questions;
use crate::registry::Registry;
use crate::shutdown::Shutdown;
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
    /// Tests that its guests make with it.
    pub tests: TestService,
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
        let test_orders = Arc::new(TestOrders::new(Arc::clone(&access), Arc::clone(&transfers), shutdown.clone()));
        Services {
            access,
            registry: Registry::default(),
            jobs,
            digests: Digests::new(state),
            nics: Nics::default(),
            transfers,
            test_orders,
            tests: TestService::default(),
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

    /// Whether the node stops.
    pub fn is_stopping(&self) -> bool {
        self.shutdown.has_begun()
    }

    /// How this host stands, where the node tells.
    pub fn audit(&self, access: &Access, ask: &model::v1::tune::Ask) -> Result<Vec<String>, Refusal> {
        self.tests.audit(self.access.audit(), access, ask)
    }
}

impl Host for Services {
    fn login(&self, key: Option<&KeyProof>, peer: SocketAddr) -> Result<Access, Refusal> {
        let let_in = self.access.let_in(key, peer.ip());
        let_in.inspect_err(|refusal| self.turned_away(peer, refusal))
    }

    fn still_stands(&self, access: &Access) -> Result<(), Refusal> {
        self.access.session_stands(access)
    }

    fn open_gate(&self, session: SessionId, gate: Gate) -> Result<Box<dyn Send>, Refusal> {
        self.registry.open(session, gate)
    }

    fn memory(&self, access: &Access) -> Part {
        self.memory.part(access.holder())
    }

    fn path_shares(&self) -> Option<PathShares> {
        Some(self.access.path_shares())
    }

    fn history(&self) -> Option<History> {
        Some(self.access.history())
    }

    fn allows_plain(&self) -> bool {
        self.access.allows_plain()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.access.addresses()
    }

    fn movers(&self) -> Option<Arc<Peers>> {
        self.access.movers()
    }

    fn source(&self, access: &Access, place: &Place) -> Result<SourceRoot, Refusal> {
        self.access.source(access, place)
    }

    fn target(&self, access: &Access, order: &Open, tag: &str) -> Result<TargetPlace, Refusal> {
        self.access.target(access, order, tag)
    }

    fn begin(&self, access: &Access, order: &Open, control: &Control) -> Result<Box<dyn Send>, Refusal> {
        let role = if order.direction == Direction::Push { "receive" } else { "send" };
        let held = self.jobs.begin(order.job, role, access.holder(), control)?;
        // Out of the numbers first: whoever comes after it may be told them.
        Ok(Box::new((self.meters.job(user(access), control, role == "receive"), held)))
    }

    fn ask(&self, asker: Asker<'_>, request: &Request, emit: &mut dyn FnMut(Said) -> bool) -> Result<(), Refusal> {
        if asker.access.grant().is_some_and(|grant| grant.errand.is_some() || self.access.is_delegated(grant)) {
            return Err(Refusal::new(Fault::Auth, "this access key is for one job, and for nothing else"));
        }
        match request {
            Request::Probe(ask) => {
                let access = asker.access;
                let directory = |place: &str| self.access.testing_ground(access, place);
                self.tests.answer(asker, ask, (&directory, self.access.audit()), emit)
            }
            other => questions::answer(self, &asker, other, emit),
        }
    }

    fn note(&self, peer: SocketAddr, access: &Access, event: &Event<'_>) {
        self.write_down(peer, access, event);
    }
}
