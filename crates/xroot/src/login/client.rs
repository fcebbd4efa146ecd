//! The login of a client.

use crate::answer::{LoginAnswer, ProtocolAnswer, RootAnswer};
use crate::codes::{VERSION, protocol_flags, server_flags};
use crate::credentials::{self, CredentialKind, write_name, write_token};
use crate::head::{SessionId, StreamId};
use crate::login::HELLO;
use crate::place::RootPath;
use crate::request::{Purpose, RootRequest};
use crate::{ErrorCode, Malformed};

/// Whether a client wants TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsWish {
    /// If the server wants it.
    IfServerWants,
    /// In any case: `roots://`.
    Always,
}

/// What a client says about itself.
#[derive(Clone)]
pub struct ClientSettings {
    /// Whether it wants TLS.
    pub tls: TlsWish,
    /// The name of the user.
    pub user: String,
    /// The process.
    pub process: u32,
    /// A bearer token. It is sent over TLS only.
    pub token: Option<String>,
    /// The name of the program.
    pub program: String,
    /// The connection is bound to this session, instead of a login.
    pub session: Option<SessionId>,
}

/// Why a login failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The server does not follow the protocol.
    #[error("the server does not follow the protocol of XRootD: {0}")]
    Protocol(#[from] Malformed),
    /// The server cannot speak TLS, and the client wants it.
    #[error("the server does not speak TLS; use root:// if clear text is good enough")]
    NoTls,
    /// The server takes none of the credentials that the client has.
    #[error("the server wants a credential of one of these kinds: {0}")]
    NoCredential(String),
    /// The server refused.
    #[error("{text}")]
    Refused {
        /// The number of the error.
        code: u32,
        /// The server's reason.
        text: String,
    },
}

/// What a client does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientStep {
    /// Sends these bytes, and hands the next answer to the machine.
    Send(Vec<u8>),
    /// Makes a TLS handshake, then sends these bytes.
    StartTls(Vec<u8>),
    /// The connection is ready.
    Ready {
        /// Its session; none for a bound connection.
        session: Option<SessionId>,
        /// The number of a bound connection; 0 for the first one.
        path_id: u8,
        /// The version of the server.
        version: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientState {
    Protocol,
    Login,
    Authenticate(SessionId),
    Bind,
}

/// The login of a client on one connection.
pub struct ClientLogin {
    settings: ClientSettings,
    state: ClientState,
    version: u32,
    is_tls: bool,
}

impl ClientLogin {
    /// A login, and the first bytes to send. `is_tls` says whether the connection speaks TLS already.
    pub fn begin(settings: ClientSettings, is_tls: bool) -> (ClientLogin, Vec<u8>) {
        let wants = if settings.tls == TlsWish::Always && !is_tls { protocol_flags::WANT_TLS } else { 0 };
        let flags = protocol_flags::SECURITY_REQUIREMENTS | protocol_flags::ABLE_TLS | wants;
        let purpose = if settings.session.is_some() { Purpose::Bind } else { Purpose::Login };
        let request = RootRequest::Protocol { version: VERSION, flags, purpose };
        let bytes = [&HELLO[..], &request.to_bytes(StreamId::default())].concat();
        (ClientLogin { settings, state: ClientState::Protocol, version: 0, is_tls }, bytes)
    }

    /// Takes the answer to the last request. The answer to the first bytes of a connection, which comes before, is not for the machine.
    ///
    /// # Errors
    /// [`LoginError`].
    pub fn answered(&mut self, answer: &RootAnswer) -> Result<ClientStep, LoginError> {
        if let RootAnswer::Error { code, text } = answer {
            return Err(LoginError::Refused { code: *code, text: text.clone() });
        }
        match (self.state, answer) {
            (ClientState::Protocol, RootAnswer::Ok(body)) => self.protocol(body),
            (ClientState::Login, RootAnswer::Ok(body)) => {
                let LoginAnswer { session, security } = LoginAnswer::parse(body)?;
                if security.is_empty() { Ok(self.ready(session)) } else { self.authenticate(session, &security) }
            }
            (ClientState::Authenticate(session), RootAnswer::Ok(_)) => Ok(self.ready(session)),
            (ClientState::Bind, RootAnswer::Ok(body)) => {
                let path_id = *body.first().ok_or(Malformed::Field("the number of the stream"))?;
                Ok(ClientStep::Ready { session: None, path_id, version: self.version })
            }
            _ => Err(Malformed::Order("an answer that no request of a login has").into()),
        }
    }

    fn protocol(&mut self, body: &[u8]) -> Result<ClientStep, LoginError> {
        let ProtocolAnswer { version, flags } = ProtocolAnswer::parse(body)?;
        self.version = version;
        let starts_tls = flags & server_flags::GO_TO_TLS != 0 && !self.is_tls;
        if self.settings.tls == TlsWish::Always && !starts_tls && !self.is_tls {
            return Err(LoginError::NoTls);
        }
        self.is_tls |= starts_tls;
        let next = match self.settings.session {
            Some(session) => {
                self.state = ClientState::Bind;
                RootRequest::Bind(session)
            }
            None => {
                self.state = ClientState::Login;
                self.login()
            }
        };
        let bytes = next.to_bytes(StreamId::default());
        Ok(if starts_tls { ClientStep::StartTls(bytes) } else { ClientStep::Send(bytes) })
    }

    fn login(&self) -> RootRequest {
        let ClientSettings { user, process, program, .. } = &self.settings;
        let about = RootPath::default().with("xrd.appname", program.clone());
        RootRequest::Login { process: *process, user: user.clone(), is_able_tls: true, takes_async: true, about }
    }

    fn ready(&self, session: SessionId) -> ClientStep {
        ClientStep::Ready { session: Some(session), path_id: 0, version: self.version }
    }

    /// Shows the first credential that both sides know: a token over TLS, else the user's name.
    fn authenticate(&mut self, session: SessionId, security: &str) -> Result<ClientStep, LoginError> {
        let token = self.settings.token.as_deref().filter(|_| self.is_tls).and_then(write_token);
        for kind in credentials::kinds(security) {
            let found = match kind {
                "ztn" => token.clone().map(|token| (CredentialKind::TOKEN, token)),
                "unix" => Some((CredentialKind::NAME, write_name(&self.settings.user, "users"))),
                _ => None,
            };
            if let Some((kind, credential)) = found {
                self.state = ClientState::Authenticate(session);
                let request = RootRequest::Authenticate { kind, credential };
                return Ok(ClientStep::Send(request.to_bytes(StreamId::default())));
            }
        }
        let kinds: Vec<&str> = credentials::kinds(security).collect();
        Err(LoginError::NoCredential(kinds.join(", ")))
    }
}

impl LoginError {
    /// Whether another credential might help.
    pub fn is_about_rights(&self) -> bool {
        let codes = [ErrorCode::NotAuthorized, ErrorCode::AuthFailed, ErrorCode::TlsRequired];
        match self {
            LoginError::NoCredential(_) => true,
            LoginError::Refused { code, .. } => codes.iter().any(|known| known.number() == *code),
            _ => false,
        }
    }
}
