//! The sessions of transfers: with other nodes, kept for a while after use, and with this node itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use auth::{Access, AccessKey, Fingerprint};
use engine::dial::AdvertisedAddresses;
use engine::session::{Connect, Session, StreamMarker};
use engine::{Timeouts, Trust};
use model::fault::Fault;
use model::{HostPort, Refusal};

use super::Transfers;
use super::remote_end::refused;
use crate::access::AccessControl;
use crate::dialling::Dialling;
use crate::fireflies::{Fireflies, MarkedStreams};
use crate::session_pool::{Destination, SessionPool};
use arc_swap::ArcSwap;
use web::scitag::SciTag;

/// Connects transfers with other nodes and servers.
pub(super) struct Connector {
    pub timeouts: Timeouts,
    /// Transfers may lead to loopback addresses, whatever the policy says, because this node listens only there.
    allows_loopback: bool,
    /// The pool of sessions of earlier transfers.
    pub pool: Arc<SessionPool>,
    /// The address that this node listens on.
    listen_address: SocketAddr,
    /// Further addresses that nodes have advertised.
    advertised_addresses: AdvertisedAddresses,
    /// How servers are dialled on behalf of clients.
    dialling: OnceLock<Arc<ArcSwap<Dialling>>>,
    /// Where marked flows are reported.
    fireflies: OnceLock<Arc<ArcSwap<Fireflies>>>,
}

impl Connector {
    pub fn new(timeouts: Timeouts, listen_address: SocketAddr, serves_one_copy: bool) -> Connector {
        // A node that exists for one copy has no second transfer that could use a pooled session.
        let pool = SessionPool::new(if serves_one_copy { Duration::ZERO } else { timeouts.kept });
        let allows_loopback = serves_one_copy || listen_address.ip().is_loopback();
        Connector {
            timeouts,
            allows_loopback,
            pool,
            listen_address,
            advertised_addresses: AdvertisedAddresses::default(),
            dialling: OnceLock::new(),
            fireflies: OnceLock::new(),
        }
    }

    /// Sets how servers are dialled, and where marked flows are reported.
    pub fn set_outbound(&self, dialling: Arc<ArcSwap<Dialling>>, fireflies: Arc<ArcSwap<Fireflies>>) {
        let _ = self.dialling.set(dialling);
        let _ = self.fireflies.set(fireflies);
    }

    /// Reports the streams of a transfer with a SciTag; none without a mark, or if nobody is to be told.
    pub fn marker(&self, scitag: Option<u16>) -> Option<Arc<dyn StreamMarker>> {
        let tag = SciTag::parse(&scitag?.to_string());
        let fireflies = self.fireflies.get()?.load_full();
        tag.is_marked().then(|| Arc::new(MarkedStreams { fireflies, tag }) as Arc<dyn StreamMarker>)
    }

    /// How servers are dialled.
    ///
    /// # Errors
    /// It has not been set, which is a defect.
    pub fn dialling(&self) -> Result<Arc<Dialling>, Refusal> {
        let known = self.dialling.get().map(|dialling| dialling.load_full());
        known.ok_or_else(|| Refusal::new(Fault::Bug, "this node does not know how to dial servers"))
    }

    /// A session with another node: one of the pool, or a new one.
    ///
    /// # Errors
    /// The node cannot be reached, or the policy forbids its address.
    pub fn session(
        &self,
        access_control: &AccessControl,
        to: &Destination,
        keys: &[AccessKey],
    ) -> engine::Result<Session> {
        if let Some(session) = self.pool.take(to, keys) {
            return Ok(session);
        }
        let mut session = self.dial(access_control, to, keys)?;
        if !self.pool.idle_max().is_zero() {
            session.keep(self.pool.idle_max())?;
        }
        Ok(session)
    }

    /// A new session with another node, at an address that the policy allows.
    ///
    /// # Errors
    /// The node cannot be reached, or the policy forbids its address.
    pub fn dial(
        &self,
        access_control: &AccessControl,
        to: &Destination,
        keys: &[AccessKey],
    ) -> engine::Result<Session> {
        let guard = access_control.dial_guard(self.allows_loopback);
        let trust = Trust::Fingerprints(vec![Fingerprint(to.node)]);
        let connect = Connect {
            plain: to.plain,
            timeouts: self.timeouts,
            guard: Some(guard),
            advertised_addresses: self.advertised_addresses.clone(),
            ..Connect::new(trust, keys)?
        };
        Session::connect(&to.to, &connect)
    }

    /// A session with this node itself, over loopback, with the rights of the principal that ordered the transfer: by this, transfers
    /// with servers use the same code as all others.
    ///
    /// # Errors
    /// No key can be made, or the node cannot be reached.
    pub fn loopback_session(&self, access_control: &AccessControl, access: &Access) -> engine::Result<Session> {
        let key = access_control.loopback_key(access).map_err(refused)?;
        let ip = match self.listen_address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let to = HostPort { host: ip.to_string(), port: self.listen_address.port() };
        // Loopback traffic cannot be read by others; clear text is used only where the operator allows it.
        let plain = access_control.allows_plain();
        Session::connect(&to, &Connect { plain, timeouts: self.timeouts, ..Connect::with_key(&key)? })
    }
}

impl Transfers {
    /// A new session with another node for a test, dialled like those of transfers.
    ///
    /// # Errors
    /// The node cannot be reached, or the policy forbids its address.
    pub fn session_for_test(
        &self,
        access_control: &AccessControl,
        to: &Destination,
        keys: &[AccessKey],
    ) -> engine::Result<Session> {
        self.connector.dial(access_control, to, keys)
    }
}
