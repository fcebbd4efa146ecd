//! Version, TLS, login and credentials.

use std::sync::Arc;

use authn::Principal;
use xroot::answer::LoginAnswer;
use xroot::credentials::{CredentialKind, parse_token, security_text};
use xroot::head::SessionId;
use xroot::request::Purpose;
use xroot::{ErrorCode, RootAnswer, RootPath, StreamId};

use super::connection::RootConnection;
use super::failure::{RootFailure, RootOutcome, refuse};
use super::session::{ClientName, RootSession};

/// Bytes of a token that clients may send.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// Characters of what a client says about itself that are kept.
const CLIENT_CHARS_MAX: usize = 80;

impl RootConnection {
    /// Agrees on the version, and starts TLS behind the answer if one side wants it.
    pub(super) fn protocol_request(
        &mut self,
        stream: StreamId,
        flags: u8,
        purpose: Purpose,
    ) -> RootOutcome<Option<RootAnswer>> {
        let (answer, begins_tls) = self.login.protocol(flags, purpose)?;
        let wants_security = flags & xroot::codes::protocol_flags::SECURITY_REQUIREMENTS != 0;
        let answer = RootAnswer::Ok(answer.to_bytes(wants_security));
        if !begins_tls {
            return Ok(Some(answer));
        }
        self.send(stream, &answer)?;
        self.start_tls()?;
        Ok(None)
    }

    /// Begins a session whose client is still to show a credential, and says which kinds there are.
    pub(super) fn log_in(&mut self, process: u32, user: &str, about: &RootPath) -> RootOutcome<RootAnswer> {
        let program = about.parameter("xrd.appname").unwrap_or_default();
        let plain = |text: &str| model::name::to_plain_line(text.trim()).chars().take(CLIENT_CHARS_MAX).collect();
        let login_name = plain(&format!("{user}.{process}"));
        self.client = ClientName { shown: plain(&format!("{program} {login_name}")), login_name };
        // An address that is not admitted learns nothing about credentials.
        let nobody = self.authenticate_as(None)?;
        let id = self.begin_session(nobody)?.id;
        self.login.logged_in(true);
        // In clear text clients would complain that they may not send theirs.
        let security = security_text(self.login.is_tls().then_some(TOKEN_BYTES_MAX), true);
        Ok(RootAnswer::Ok(LoginAnswer { session: id, security }.to_bytes()))
    }

    /// Takes a credential.
    pub(super) fn authenticate(&mut self, kind: CredentialKind, credential: &[u8]) -> RootOutcome<RootAnswer> {
        let principal = match kind {
            CredentialKind::TOKEN => {
                if !self.login.is_tls() {
                    return Err(refuse(ErrorCode::TlsRequired, "a token is taken over TLS only: use roots://"));
                }
                let token = parse_token(credential)?;
                self.authenticate_as(Some(&token)).map_err(|failure| match failure {
                    RootFailure::Refused(ErrorCode::NotAuthorized, why) => refuse(ErrorCode::AuthFailed, why),
                    other => other,
                })?
            }
            // The name proves nothing: its client is anonymous.
            CredentialKind::NAME => self.authenticate_as(None)?,
            other => {
                let reason = format!("credentials of the kind {other} are not taken here; use a token (ztn) over TLS");
                return Err(refuse(ErrorCode::AuthFailed, reason));
            }
        };
        let session = self.begin_session(principal)?;
        // Further connections may be bound from here on.
        self.service.sessions.add(&session);
        self.login.authenticated();
        self.give_place_back();
        Ok(RootAnswer::Ok(Vec::new()))
    }

    /// The principal of a credential, or of a client without one.
    fn authenticate_as(&self, token: Option<&str>) -> RootOutcome<Principal> {
        let found = self.service.services.authenticator.log_in(self.peer.ip(), token);
        found.map_err(|refused| (*refused).into())
    }

    /// Begins a session, in place of the one of a client that has not shown its credential. The number stays.
    fn begin_session(&mut self, principal: Principal) -> RootOutcome<Arc<RootSession>> {
        let id = match &self.session {
            Some(session) => session.id,
            None => {
                let random = engine::identity::random::<16>();
                let random = random.map_err(|error| refuse(ErrorCode::Server, format!("no random bytes: {error}")))?;
                SessionId(random)
            }
        };
        let session = Arc::new(RootSession::new(id, self.peer.ip(), self.client.clone(), principal));
        self.session = Some(Arc::clone(&session));
        Ok(session)
    }

    /// The principal of a request: that of the token in its path, or else that of the session.
    ///
    /// # Errors
    /// The token is not accepted, or came in clear text.
    pub(super) fn principal(&self, place: &RootPath) -> RootOutcome<Arc<Principal>> {
        let session = self.session()?;
        let Some(token) = place.parameter("authz").filter(|token| !token.is_empty()) else {
            return Ok(Arc::clone(&session.principal));
        };
        let token = token.strip_prefix("Bearer ").unwrap_or(&token).trim();
        if let Some(known) = session.principal_of(token) {
            return Ok(known);
        }
        let principal = Arc::new(self.authenticate_as(Some(token))?);
        session.note_principal(token, &principal);
        Ok(principal)
    }
}
