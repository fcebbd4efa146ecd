//! What a server asks of whoever uses it.

use std::net::SocketAddr;

use crate::{Exchange, Incoming, Match};

/// Answers requests.
pub trait Service: Send + Sync + 'static {
    /// Answers a request, whatever becomes of it.
    fn answer(&self, exchange: &mut dyn Exchange);

    /// Something was refused before there was a request to answer.
    fn refused(&self, refusal: &Rejection<'_>);
}

/// What was refused before there was a request to answer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Rejection<'a> {
    /// A connection for which there was no descriptor, or no thread in time.
    Busy {
        /// Who came.
        peer: SocketAddr,
        /// What was lacking.
        reason: &'a str,
    },
    /// A connection that speaks nothing that is spoken here, or not in clear.
    Protocol {
        /// Who came.
        peer: SocketAddr,
        /// What was wrong.
        reason: &'a str,
    },
    /// A request that is none.
    Request {
        /// Who sent it.
        peer: SocketAddr,
        /// The status of the answer.
        status: u16,
        /// What was wrong.
        reason: &'a str,
    },
    /// A connection that failed before it came to anything.
    Failed {
        /// Who came.
        peer: SocketAddr,
        /// How.
        reason: &'a str,
    },
}

/// How HTTP in clear is taken from an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClearText {
    /// As HTTP over TLS is.
    Served,
    /// The service looks at each request, and may refuse it: see [`Exchange::is_restricted`].
    Restricted,
    /// Not at all; for this reason.
    Refused(&'static str),
}

/// What else is spoken on the port, and how HTTP in clear is taken. The defaults: nothing else, and HTTP in clear is served.
pub trait Protocols: Service {
    /// Whether HTTP in clear is served to this address.
    fn clear_text(&self, _peer: SocketAddr) -> ClearText {
        ClearText::Served
    }

    /// Whether the first bytes of a connection begin another protocol. TLS and HTTP are recognised by the server.
    fn recognises(&self, _first: &[u8]) -> Match {
        Match::No
    }

    /// Serves a connection whose first bytes were recognised, on a thread of its own.
    fn serve(&self, _connection: Incoming) {}

    /// Serves a connection whose TLS chose a protocol of [`crate::tls::OtherProtocol`]; the handshake is the service's to finish.
    fn serve_tls(&self, _connection: Incoming, _tls: rustls::Connection) {}

    /// Called about once a second, from the thread that watches idle connections: it must not wait.
    fn tick(&self) {}
}
