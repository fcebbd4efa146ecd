//! Connecting to a node: a control connection whose handshake is made, over which the login has been sent.

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
    /// How to make sure of the node.
    pub trust: Trust,
    /// Keys to choose from, by the node's fingerprint.
    pub keys: &'a [AccessKey],
    /// Payload in clear, where the node allows it.
    pub plain: bool,
    /// Bounds on waiting.
    pub timeouts: Timeouts,
    /// A random name for the session.
    pub session: SessionId,
    /// Where one may go, where somebody else asked for it.
    pub guard: Option<Arc<dial::Guard>>,
    /// Where nodes said that they are as well: heard here, and used by whoever connects again.
    pub elsewhere: dial::Elsewhere,
}

impl<'a> Connect<'a> {
    /// With one of these keys, to a node that is trusted like this: payload sealed, usual bounds on waiting, no guard.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn new(trust: Trust, keys: &'a [AccessKey]) -> Result<Connect<'a>> {
        let session = identity::random().map_err(|_| Error::Host {
            doing: "get random numbers",
            source: std::io::Error::other("the system gives none"),
        })?;
        let (timeouts, elsewhere) = (Timeouts::default(), dial::Elsewhere::default());
        Ok(Connect { trust, keys, plain: false, timeouts, session, guard: None, elsewhere })
    }

    /// To the one node that this key is for.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn with_key(key: &'a AccessKey) -> Result<Connect<'a>> {
        Connect::new(Trust::Fingerprints(vec![key.node]), std::slice::from_ref(key))
    }

    /// Connects to the node, and logs in.
    pub(crate) fn dial(&self, to: &HostPort) -> Result<LoggedIn> {
        let started = Instant::now();
        let socket = dial::dial(to, &self.timeouts, self.guard.as_deref(), &self.elsewhere)?;
        let mut login = self.over(socket, to).inspect_err(|_| self.elsewhere.forget(&to.to_string()))?;
        login.connected_after = started.elapsed();
        Ok(login)
    }

    /// Logs in over a connection that is there.
    pub(crate) fn over(&self, socket: TcpStream, to: &HostPort) -> Result<LoggedIn> {
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
            suites: seal::suites(),
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
    /// Where the node was found.
    pub address: SocketAddr,
    /// The node's, proven by the handshake.
    pub fingerprint: Fingerprint,
    pub version: Version,
    /// One of the given keys is for this node.
    pub has_key: bool,
    /// How long connecting took.
    pub connected_after: Duration,
}

/// What a node is shown of a key.
pub(crate) fn proof(key: &AccessKey) -> KeyProof {
    KeyProof { id: key.id, secret: *key.expose_secret() }
}
