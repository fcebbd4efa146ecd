//! The node as the host of the engine's sessions: logins, places, and the answers to requests outside of transfers.

use std::net::SocketAddr;
use std::sync::Arc;

use auth::Access;
use engine::budget::Part;
use engine::control::Control;
use engine::history::History;
use engine::movers::ConfiguredMovers;
use engine::node::{AnswerPart, Event, Host, OpenRendezvous, Requester};
use engine::path_shares::PathShares;
use engine::receive::TargetPlace;
use engine::scan::SourceRoot;
use model::locator::NodePlace;
use model::{Fault, Refusal};
use wire::frame::{Direction, KeyProof, Open, Request};
use wire::join::SessionId;

use crate::native_requests;
use crate::services::{Services, user};
use crate::test_service::TestEnvironment;

impl Host for Services {
    fn login(&self, key: Option<&KeyProof>, peer: SocketAddr) -> Result<Access, Refusal> {
        let access = self.access.log_in(key, peer.ip());
        access.inspect_err(|refusal| self.log_refused_login(peer, refusal))
    }

    fn check_access(&self, access: &Access) -> Result<(), Refusal> {
        self.access.check_session(access)
    }

    fn open_rendezvous(&self, session: SessionId, rendezvous: OpenRendezvous) -> Result<Box<dyn Send>, Refusal> {
        self.rendezvous.open(session, rendezvous)
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

    fn movers(&self) -> Option<Arc<ConfiguredMovers>> {
        self.access.movers()
    }

    fn source(&self, access: &Access, place: &NodePlace) -> Result<SourceRoot, Refusal> {
        self.access.source(access, place)
    }

    fn target(&self, access: &Access, order: &Open, tag: &str) -> Result<TargetPlace, Refusal> {
        self.access.target(access, order, tag)
    }

    fn begin(&self, access: &Access, order: &Open, control: &Control) -> Result<Box<dyn Send>, Refusal> {
        let role = if order.direction == Direction::Push { "receive" } else { "send" };
        let entry = self.jobs.begin(order.job, role, access.holder(), control)?;
        // Dropped in this order: the meter first, so that the metrics are complete when the job's entry is gone.
        Ok(Box::new((self.meters.job(user(access), control, role == "receive"), entry)))
    }

    fn ask(
        &self,
        requester: Requester<'_>,
        request: &Request,
        emit: &mut dyn FnMut(AnswerPart) -> bool,
    ) -> Result<(), Refusal> {
        if requester.access.grant().is_some_and(|grant| grant.errand.is_some() || self.access.is_delegated(grant)) {
            return Err(Refusal::new(Fault::Auth, "this access key is for one job, and for nothing else"));
        }
        match request {
            Request::Probe(ask) => {
                let access = requester.access;
                let directory = |place: &str| self.access.disk_test_directory(access, place);
                let environment = TestEnvironment {
                    directory: &directory,
                    audit: self.access.audit(),
                    claims: &self.claims,
                    transfers: self.jobs.under_way(),
                };
                self.tests.answer(requester, ask, &environment, emit)
            }
            other => native_requests::answer(self, &requester, other, emit),
        }
    }

    fn note(&self, peer: SocketAddr, access: &Access, event: &Event<'_>) {
        self.log_event(peer, access, event);
    }
}
