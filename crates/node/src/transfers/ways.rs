//! How transfers reach nodes: others, by sessions that are kept for a while, and this one itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use auth::{Access, AccessKey, Fingerprint};
use engine::dial::Elsewhere;
use engine::session::{Connect, Session};
use engine::{Timeouts, Trust};
use model::fault::Fault;
use model::{HostPort, Refusal};

use super::Transfers;
use super::remote_end::refused;
use crate::access::AccessControl;
use crate::dialling::Dialling;
use crate::warm::{Destination, Warm};
use arc_swap::ArcSwap;

/// How transfers reach other nodes and servers.
pub(super) struct Ways {
    pub timeouts: Timeouts,
    /// Where this node listens on the loopback interface alone transfers may lead there, whatever the policy says.
    may_stay_here: bool,
    /// Sessions of earlier transfers.
    pub warm: Arc<Warm>,
    /// Where this node listens.
    own: SocketAddr,
    /// Where nodes said that they are as well.
    elsewhere: Elsewhere,
    /// How servers are dialled on behalf of guests.
    dialling: OnceLock<Arc<ArcSwap<Dialling>>>,
}

impl Ways {
    pub fn new(timeouts: Timeouts, own: SocketAddr, is_users_own: bool) -> Ways {
        // A node that lives for a single copy has no second transfer to keep anything for.
        let warm = Warm::new(if is_users_own { Duration::ZERO } else { timeouts.warm });
        let may_stay_here = is_users_own || own.ip().is_loopback();
        let (elsewhere, dialling) = (Elsewhere::default(), OnceLock::new());
        Ways { timeouts, may_stay_here, warm, own, elsewhere, dialling }
    }

    /// Servers are dialled like this.
    pub fn dial_by(&self, dialling: Arc<ArcSwap<Dialling>>) {
        let _ = self.dialling.set(dialling);
    }

    pub fn dialling(&self) -> Result<Arc<Dialling>, Refusal> {
        let known = self.dialling.get().map(|dialling| dialling.load_full());
        known.ok_or_else(|| Refusal::new(Fault::Bug, "this node does not know how to dial servers"))
    }

    /// A session with another node: one of an earlier transfer, or a new one.
    pub fn session(&self, rules: &AccessControl, there: &Destination, keys: &[AccessKey]) -> engine::Result<Session> {
        if let Some(session) = self.warm.take(there, keys) {
            return Ok(session);
        }
        let mut session = self.dial(rules, there, keys)?;
        if !self.warm.within().is_zero() {
            session.keep(self.warm.within())?;
        }
        Ok(session)
    }

    /// A new session with another node, at an address that the policy lets guests send this one to.
    pub fn dial(&self, rules: &AccessControl, there: &Destination, keys: &[AccessKey]) -> engine::Result<Session> {
        let guard = rules.dial_guard(self.may_stay_here);
        let trust = Trust::Fingerprints(vec![Fingerprint(there.node)]);
        let connect = Connect {
            plain: there.plain,
            timeouts: self.timeouts,
            guard: Some(guard),
            elsewhere: self.elsewhere.clone(),
            ..Connect::new(trust, keys)?
        };
        Session::connect(&there.to, &connect)
    }

    /// A session with this node itself, over loopback, with the rights of whoever ordered and nobody else's: what a server holds is
    /// copied by the same code as everything else.
    pub fn own_session(&self, rules: &AccessControl, access: &Access) -> engine::Result<Session> {
        let key = rules.lend_own(access).map_err(refused)?;
        let ip = match self.own.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let to = HostPort { host: ip.to_string(), port: self.own.port() };
        // Nobody is on this way who could read along; whether clear text is allowed at all is the operator's to say.
        let plain = rules.allows_plain();
        Session::connect(&to, &Connect { plain, timeouts: self.timeouts, ..Connect::with_key(&key)? })
    }
}

impl Transfers {
    /// A session of its own with another node, for a test: dialled as transfers dial.
    pub fn session_for_test(
        &self,
        rules: &AccessControl,
        there: &Destination,
        keys: &[AccessKey],
    ) -> engine::Result<Session> {
        self.ways.dial(rules, there, keys)
    }
}
