//! The traits that a user of the server implements: [`Service`] for HTTP, [`Protocols`] for what else the port speaks.

use std::net::SocketAddr;

use crate::{Exchange, Idle, Incoming, Match};

/// Answers requests.
pub trait Service: Send + Sync + 'static {
    /// Answers a request. The server calls it on a thread of the request's own, which it may block. The service logs errors of the
    /// connection; the server does not see them.
    fn answer(&self, exchange: &mut dyn Exchange);

    /// Reports a connection or request that the server refused before it became an [`Exchange`].
    fn refused(&self, refusal: &Rejection<'_>);
}

/// A connection or request that the server refused before it became an [`Exchange`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Rejection<'a> {
    /// No descriptor was left for the connection, or no thread became free in time.
    Busy {
        /// The address of the client.
        peer: SocketAddr,
        /// What was used up.
        reason: &'a str,
    },
    /// The connection speaks a protocol that this port does not speak, or one that it speaks over TLS only.
    Protocol {
        /// The address of the client.
        peer: SocketAddr,
        /// What was wrong.
        reason: &'a str,
    },
    /// The bytes of a request do not parse.
    Request {
        /// The address of the client.
        peer: SocketAddr,
        /// The status of the answer.
        status: u16,
        /// What was wrong.
        reason: &'a str,
    },
    /// The connection failed before its first request, in the TLS handshake for example.
    Failed {
        /// The address of the client.
        peer: SocketAddr,
        /// What failed.
        reason: &'a str,
    },
}

/// What the server does with HTTP in clear text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClearText {
    /// Serves it as it serves HTTP over TLS.
    Served,
    /// Hands each request to the service marked with [`Exchange::is_restricted`], so that the service may refuse it.
    Restricted,
    /// Refuses it, with this reason.
    Refused(&'static str),
}

/// The other protocols of the port, and the treatment of HTTP in clear text. By default there are none, and clear text is served.
pub trait Protocols: Service {
    /// What the server does with HTTP in clear text from this address.
    fn clear_text(&self, _peer: SocketAddr) -> ClearText {
        ClearText::Served
    }

    /// Whether the first bytes of a connection begin a protocol of the service's own. The server recognises TLS and HTTP itself.
    fn recognises(&self, _first: &[u8]) -> Match {
        Match::No
    }

    /// Serves a connection whose first bytes were recognised, on a thread of its own. Returns it if it is idle, and none when it has ended.
    fn serve(&self, _connection: Incoming) -> Option<Box<dyn Idle>> {
        None
    }

    /// Serves a connection whose TLS chose a protocol of [`crate::tls::OtherProtocol`]; the service finishes the handshake.
    fn serve_tls(&self, _connection: Incoming, _tls: rustls::Connection) {}

    /// Does periodic work. The thread that watches idle connections calls it about once a second, so it must not block.
    fn tick(&self) {}
}
