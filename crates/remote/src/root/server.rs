//! Connections to a server and to those that it names: kept and used again; requests that fail for a passing reason are tried again.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use store::PayloadProtection;
use xroot::{Malformed, RootPath, RootRequest};

use super::RootSettings;
use super::connection::{self, RootConnection, RootReply, RootTarget};
use super::redirect_chain::RedirectChain;
use crate::request_error::RequestError;
use crate::retries::Retries;

/// Idle connections that are kept.
const IDLE_MAX: usize = 32;

/// A server, with its idle connections.
pub(super) struct RootServer {
    settings: RootSettings,
    host: String,
    port: u16,
    is_secure: bool,
    idle: Mutex<Vec<RootConnection>>,
    /// The address of the server itself, once it was reached.
    origin_address: OnceLock<SocketAddr>,
    /// Whether files were carried by TLS (index 0), and in clear (index 1).
    carried: [AtomicBool; 2],
    /// The server has answered. From then on, not to reach it counts as an outage, and not as a wrong name.
    was_reached: AtomicBool,
}

impl std::fmt::Debug for RootServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RootServer").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

impl RootServer {
    pub fn new(settings: RootSettings, host: String, port: u16, is_secure: bool) -> RootServer {
        RootServer {
            settings,
            host,
            port,
            is_secure,
            idle: Mutex::default(),
            origin_address: OnceLock::new(),
            carried: Default::default(),
            was_reached: AtomicBool::new(false),
        }
    }

    /// The failure of a server that does not follow the protocol.
    pub fn wrong(&self, error: &Malformed) -> RequestError {
        connection::wrong(&xroot::url::authority(&self.host, self.port), error)
    }

    /// The server itself, as a target.
    pub fn origin(&self) -> RootTarget {
        RootTarget { host: self.host.clone(), port: self.port, is_secure: self.is_secure, parameters: String::new() }
    }

    /// Connects to a server: to one that another names, only where redirects are followed to.
    fn connect(&self, to: &RootTarget) -> Result<RootConnection, RequestError> {
        let is_origin = (to.host.as_str(), to.port) == (self.host.as_str(), self.port);
        let dialer = match self.origin_address.get() {
            Some(origin) if !is_origin => self.settings.redirects.dialer(&self.settings.dialer, *origin),
            _ => self.settings.dialer.clone(),
        };
        let connection = RootConnection::open(&self.settings, &dialer, to, self.is_secure || to.is_secure)?;
        if is_origin {
            let _ = self.origin_address.set(connection.conn.peer());
        }
        self.was_reached.store(true, Ordering::Relaxed);
        Ok(connection)
    }

    /// A connection to a server, an idle one if there is one; and whether it has been used before.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the login.
    pub fn connection(&self, to: &RootTarget) -> Result<(RootConnection, bool), RequestError> {
        let authority = to.authority();
        let is_secure = self.is_secure || to.is_secure;
        let fits = |one: &RootConnection| one.authority == authority && (one.is_secure || !is_secure);
        loop {
            let kept = {
                let mut idle = self.idle.lock();
                idle.iter().rposition(fits).map(|at| idle.swap_remove(at))
            };
            match kept {
                // A connection that is closed, or has bytes that belong to no request, cannot be used.
                Some(one) if one.conn.is_closed_by_peer() || one.conn.has_unread() => {}
                Some(one) => return Ok((one, true)),
                None => return Ok((self.connect(to)?, false)),
            }
        }
    }

    /// Keeps a connection on which no answer is outstanding.
    pub fn keep(&self, connection: RootConnection) {
        let mut idle = self.idle.lock();
        if idle.len() >= IDLE_MAX {
            idle.remove(0);
        }
        idle.push(connection);
    }

    /// Notes whether a connection that carries a file uses TLS.
    pub fn note_transport(&self, connection: &RootConnection) {
        self.carried[usize::from(!connection.is_secure)].store(true, Ordering::Relaxed);
    }

    /// Whether files were carried by TLS or, at least one of them, in clear.
    pub fn payload_protection(&self) -> Option<PayloadProtection> {
        let [tls, plain] = [0, 1].map(|kind| self.carried[kind].load(Ordering::Relaxed));
        plain.then_some(PayloadProtection::Plain).or(tls.then_some(PayloadProtection::Tls))
    }

    /// Tries something again while it fails for a passing reason. A server that was never reached may be a mistyped name: that fails at
    /// once.
    ///
    /// # Errors
    /// The last failure.
    pub fn retrying<T>(&self, mut work: impl FnMut() -> Result<T, RequestError>) -> Result<T, RequestError> {
        let mut retries = Retries::new(self.settings.patience);
        loop {
            match work() {
                Ok(done) => return Ok(done),
                Err(failed) if failed.status.is_none() && !self.was_reached.load(Ordering::Relaxed) => {
                    return Err(failed);
                }
                Err(failed) => retries.wait(failed)?,
            }
        }
    }

    /// Sends a request about a path, and returns the body of its answer. Redirects are followed.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses.
    pub fn ask(&self, request: &RootRequest) -> Result<Vec<u8>, RequestError> {
        self.retrying(|| {
            let (connection, body) = self.ask_once(request)?;
            self.keep(connection);
            Ok(body)
        })
    }

    /// Sends a request once, and returns the connection that answered.
    ///
    /// # Errors
    /// As [`RootServer::ask`].
    pub fn ask_once(&self, request: &RootRequest) -> Result<(RootConnection, Vec<u8>), RequestError> {
        let mut chain = RedirectChain::new(self.origin(), None);
        loop {
            let to = chain.to();
            let redirected = with_parameters(request, to);
            let request = redirected.as_ref().unwrap_or(request);
            let (mut connection, was_used) = self.connection(to)?;
            let reply = match connection.ask(request) {
                // A kept connection may be dead. A request that changes something is not repeated: it may have had its effect.
                Err(failed) if was_used && failed.status.is_none() && !changes(request) => {
                    connection = self.connect(to)?;
                    connection.ask(request)?
                }
                other => other?,
            };
            match reply {
                RootReply::Done(body) => return Ok((connection, body)),
                RootReply::Elsewhere(next) => {
                    self.keep(connection);
                    chain.follow(next)?;
                }
            }
        }
    }
}

/// Whether a request changes something at the server.
fn changes(request: &RootRequest) -> bool {
    use RootRequest::{ChangeMode, MakeDirectory, Move, Remove, RemoveDirectory, Truncate};
    matches!(
        request,
        ChangeMode { .. } | MakeDirectory { .. } | Move { .. } | Remove(_) | RemoveDirectory(_) | Truncate { .. }
    )
}

/// A request with the parameters that a redirect adds to its path; none if there are none, or the request has no path.
fn with_parameters(request: &RootRequest, to: &RootTarget) -> Option<RootRequest> {
    if to.parameters.is_empty() {
        return None;
    }
    let add = |path: &RootPath| to.add_parameters(path.clone());
    match request {
        RootRequest::Open { place, mode, options } => {
            Some(RootRequest::Open { place: add(place), mode: *mode, options: *options })
        }
        RootRequest::List { place, options } => Some(RootRequest::List { place: add(place), options: *options }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_redirect_go_with_the_path() {
        let to = |text: &str| RootTarget { host: "h".into(), port: 1, is_secure: false, parameters: text.into() };
        let place = RootPath::parse(b"/data/f?a=1").unwrap();
        let open = RootRequest::Open { place, mode: 0, options: 16 };
        let Some(RootRequest::Open { place, .. }) = with_parameters(&open, &to("tried=x&b=2")) else { panic!() };
        assert_eq!(place.to_bytes(), b"/data/f?a=1&tried=x&b=2");
        let Some(RootRequest::Open { place, .. }) = with_parameters(&open, &to("a=2")) else { panic!() };
        assert_eq!(place.to_bytes(), b"/data/f?a=2", "the value of the redirect counts");
        assert_eq!(with_parameters(&open, &to("")), None);
        assert_eq!(with_parameters(&RootRequest::Ping, &to("b=2")), None);
    }
}
