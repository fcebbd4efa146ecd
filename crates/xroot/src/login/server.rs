//! The order of requests on a connection of a server.

use crate::answer::ProtocolAnswer;
use crate::codes::{VERSION, protocol_flags, server_flags};
use crate::request::{Purpose, RootRequest};
use crate::{ErrorCode, Malformed};

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginPhase {
    /// It has not logged in.
    New,
    /// It has logged in, and must show a credential.
    Unauthenticated,
    /// It may request everything.
    Ready,
    /// It carries data of a session, and requests nothing itself.
    Bound,
}

/// A connection of a server, as far as the order of its requests goes.
#[derive(Clone, Copy, Debug)]
pub struct ServerLogin {
    phase: LoginPhase,
    /// The server can speak TLS.
    has_tls: bool,
    /// A login, and everything after it, must go over TLS.
    requires_tls: bool,
    /// The connection speaks TLS.
    is_tls: bool,
}

impl ServerLogin {
    /// A new connection.
    pub fn new(has_tls: bool, requires_tls: bool, is_tls: bool) -> ServerLogin {
        ServerLogin { phase: LoginPhase::New, has_tls, requires_tls, is_tls }
    }

    /// How far the connection is.
    pub fn phase(&self) -> LoginPhase {
        self.phase
    }

    /// Whether the connection speaks TLS.
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// Checks that a request may come now.
    ///
    /// # Errors
    /// The error of the answer, and its reason.
    pub fn check(&self, request: &RootRequest) -> Result<(), (ErrorCode, &'static str)> {
        let needs_tls = matches!(request, RootRequest::Login { .. } | RootRequest::Bind(_));
        if needs_tls && self.requires_tls && !self.is_tls {
            let why = "this server wants TLS: use roots://, or a client of version 5 or newer";
            return Err((ErrorCode::TlsRequired, why));
        }
        let is_allowed = match (self.phase, request) {
            (_, RootRequest::Protocol { .. }) => true,
            (LoginPhase::New, RootRequest::Login { .. } | RootRequest::Bind(_)) => true,
            (LoginPhase::Unauthenticated, RootRequest::Authenticate { .. } | RootRequest::EndSession(_)) => true,
            (
                LoginPhase::Ready,
                RootRequest::Login { .. } | RootRequest::Authenticate { .. } | RootRequest::Bind(_),
            ) => false,
            (LoginPhase::Ready, _) => true,
            _ => false,
        };
        match (is_allowed, self.phase) {
            (true, _) => Ok(()),
            (false, LoginPhase::New) => Err((ErrorCode::InvalidRequest, "log in first")),
            (false, LoginPhase::Unauthenticated) => Err((ErrorCode::InvalidRequest, "authenticate first")),
            (false, _) => Err((ErrorCode::InvalidRequest, "this connection has a session already")),
        }
    }

    /// The answer to a request for the protocol, and whether TLS begins behind it.
    ///
    /// # Errors
    /// [`Malformed::Order`]: the client speaks only TLS, and the server cannot.
    pub fn protocol(&mut self, flags: u8, purpose: Purpose) -> Result<(ProtocolAnswer, bool), Malformed> {
        let wants_tls = flags & protocol_flags::WANT_TLS != 0;
        let is_able_tls = flags & protocol_flags::ABLE_TLS != 0;
        if wants_tls && !self.has_tls && !self.is_tls {
            return Err(Malformed::Order("this server does not speak TLS"));
        }
        let is_due = wants_tls || (is_able_tls && self.requires_tls && purpose != Purpose::Unknown);
        let begins = is_due && self.has_tls && !self.is_tls;
        let mut answer = server_flags::IS_SERVER | server_flags::PERSIST_ON_CLOSE;
        for (is_set, flag) in [
            (self.has_tls, server_flags::HAVE_TLS),
            (self.requires_tls, server_flags::TLS_LOGIN | server_flags::TLS_DATA | server_flags::TLS_COPY),
            (begins, server_flags::GO_TO_TLS),
        ] {
            answer |= if is_set { flag } else { 0 };
        }
        self.is_tls |= begins;
        Ok((ProtocolAnswer { version: VERSION, flags: answer }, begins))
    }

    /// Notes that the client has logged in; `must_authenticate` says whether a credential must follow.
    pub fn logged_in(&mut self, must_authenticate: bool) {
        self.phase = if must_authenticate { LoginPhase::Unauthenticated } else { LoginPhase::Ready };
    }

    /// Notes that the client has shown a credential that is accepted.
    pub fn authenticated(&mut self) {
        self.phase = LoginPhase::Ready;
    }

    /// Notes that the connection belongs to a session.
    pub fn bound(&mut self) {
        self.phase = LoginPhase::Bound;
    }
}
