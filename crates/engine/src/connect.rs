//! Connects to a node: makes a control connection, does its handshake, and sends the login.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use auth::{AccessKey, Fingerprint};
use model::HostPort;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection};
use wire::Frame;
use wire::frame::KeyProof;
use wire::join::SessionId;
use wire::version::{SPOKEN, Version};

use crate::error::{Error, Result};
use crate::identity::{self, Trust};
use crate::link::Link;
use crate::timeouts::Timeouts;
use crate::{SOFTWARE, dial, seal};

/// How to connect.
pub struct Connect<'a> {
    /// How the node's identity is verified.
    pub trust: Trust,
    /// Keys to choose from, by the node's fingerprint.
    pub keys: &'a [AccessKey],
    /// Payload in clear, where the node allows it.
    pub plain: bool,
    /// Bounds on waiting.
    pub timeouts: Timeouts,
    /// A random name for the session.
    pub session: SessionId,
    /// Checks each address before it is dialled, where a client ordered the connection.
    pub guard: Option<Arc<dial::Guard>>,
    /// Further addresses that nodes have advertised, for the next connection.
    pub advertised_addresses: dial::AdvertisedAddresses,
}

impl<'a> Connect<'a> {
    /// Settings for a node that passes `trust`, with one of these keys: sealed payload, default timeouts, no guard.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new(trust: Trust, keys: &'a [AccessKey]) -> Result<Connect<'a>> {
        let session = identity::random().map_err(|_| Error::Host {
            doing: "get random numbers",
            source: std::io::Error::other("the system gives none"),
        })?;
        Ok(Connect {
            trust,
            keys,
            plain: false,
            timeouts: Timeouts::default(),
            session,
            guard: None,
            advertised_addresses: dial::AdvertisedAddresses::default(),
        })
    }

    /// Settings for the one node that this key is for.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn with_key(key: &'a AccessKey) -> Result<Connect<'a>> {
        Connect::new(Trust::Fingerprints(vec![key.node]), std::slice::from_ref(key))
    }

    /// Connects to the node, and logs in.
    pub(crate) fn dial(&self, to: &HostPort) -> Result<LoggedIn> {
        let started = Instant::now();
        let socket = dial::dial(to, &self.timeouts, self.guard.as_deref(), &self.advertised_addresses)?;
        let mut login = self.log_in(socket, to).inspect_err(|_| self.advertised_addresses.forget(&to.to_string()))?;
        login.connected_after = started.elapsed();
        Ok(login)
    }

    /// Logs in over an open connection.
    pub(crate) fn log_in(&self, socket: TcpStream, to: &HostPort) -> Result<LoggedIn> {
        let started = Instant::now();
        let address = socket.peer_addr().map_err(|source| Error::Connect { to: to.to_string(), source })?;
        let tls_error = |e: rustls::Error| Error::NotANode { to: to.to_string(), why: e.to_string() };
        let (config, seen) = identity::client_config(&self.trust, SPOKEN).map_err(tls_error)?;
        let name = ServerName::try_from(to.host.clone()).unwrap_or_else(|_| ServerName::from(address.ip()));
        let tls = ClientConnection::new(config, name).map_err(tls_error)?;
        let mut link = Link::new(socket, Connection::Client(tls), to.to_string(), self.timeouts)?;
        link.handshake().map_err(|e| identity::handshake_error(e, to, &self.trust, &seen))?;
        let version = link.tls().alpn_protocol().and_then(Version::from_alpn);
        let version = version.ok_or_else(|| Error::NotANode {
            to: to.to_string(),
            why: "it speaks TLS, but not this protocol".into(),
        })?;
        let fingerprint = seen.get().unwrap_or(Fingerprint([0; 32]));
        let key = self.keys.iter().find(|k| k.node == fingerprint);
        let login = Frame::Login {
            session: self.session,
            software: SOFTWARE.into(),
            key: key.map(proof),
            suites: seal::suites().to_vec(),
            plain: self.plain,
        };
        link.send(&login)?;
        let has_key = key.is_some();
        Ok(LoggedIn { link, address, fingerprint, version, has_key, connected_after: started.elapsed() })
    }
}

/// A control connection over which the login has been sent.
pub(crate) struct LoggedIn {
    pub link: Link,
    /// The node's address.
    pub address: SocketAddr,
    /// The node's fingerprint, proven by the handshake.
    pub fingerprint: Fingerprint,
    pub version: Version,
    /// One of the given keys is for this node.
    pub has_key: bool,
    /// How long it took to connect.
    pub connected_after: Duration,
}

/// The id and secret of a key, as a login sends them.
pub(crate) fn proof(key: &AccessKey) -> KeyProof {
    KeyProof { id: key.id, secret: *key.expose_secret() }
}
