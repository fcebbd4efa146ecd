//! The authenticator: finds the principal of a request, and writes the challenge of a refusal (RFC 6750, section 3).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use auth::x509::CertificateCheck;
use auth::{AccessKey, Claims, Denied, Policy, TokenError, VerifiedMacaroon};
use model::{Fault, Refusal};
use web::{Method, Refused, Request};

use crate::backoff::Backoff;
use crate::credentials::Credentials;
use crate::issuers::Issuers;
use crate::presented::{AuthRequest, Presented, bearer};
use crate::principal::{Credential, Principal, no_access};
use crate::sessions::Sessions;

/// A result whose error is the answer to the client.
type Result<T> = std::result::Result<T, Box<Refused>>;

/// Authenticates the requests of one service.
pub struct Authenticator {
    credentials: Arc<dyn Credentials>,
    backoff: Backoff,
    issuers: ArcSwap<Issuers>,
    /// Sessions of browsers.
    pub sessions: Sessions,
}

/// What the connection says about its client.
struct ClientConnection<'a> {
    peer: IpAddr,
    certificate: Option<&'a Arc<CertificateCheck>>,
}

impl<'a> ClientConnection<'a> {
    fn of(request: &AuthRequest<'a>) -> ClientConnection<'a> {
        let AuthRequest { peer, certificate, .. } = *request;
        ClientConnection { peer, certificate }
    }
}

/// A credential that was checked.
enum Checked {
    Nothing,
    Grant(Box<auth::Grant>),
    Token(Box<Claims>),
    Macaroon(Box<VerifiedMacaroon>),
}

/// Why a credential is not accepted.
enum Rejected {
    /// It is not valid. A client that presents such credentials often waits.
    Invalid(String),
    /// It is valid, but not for this use.
    OtherUse(String),
    /// The service could not check it.
    Unknown(Box<Refused>),
}

impl From<Refusal> for Rejected {
    fn from(refusal: Refusal) -> Rejected {
        match refusal.fault {
            Fault::Auth => Rejected::Invalid(refusal.reason),
            _ => Rejected::Unknown(Box::new(refusal.into())),
        }
    }
}

impl From<TokenError> for Rejected {
    fn from(error: TokenError) -> Rejected {
        Rejected::Invalid(error.to_string())
    }
}

impl Authenticator {
    /// Creates the authenticator of a service with these credentials. `issuers` provides the keys of token issuers.
    pub fn new(credentials: Arc<dyn Credentials>, issuers: Issuers) -> Authenticator {
        Authenticator {
            credentials,
            backoff: Backoff::default(),
            issuers: ArcSwap::from_pointee(issuers),
            sessions: Sessions::default(),
        }
    }

    /// Where the keys of token issuers come from.
    pub fn issuers(&self) -> Arc<Issuers> {
        self.issuers.load_full()
    }

    /// Replaces where the keys of token issuers come from.
    pub fn replace_issuers(&self, issuers: Issuers) {
        self.issuers.store(Arc::new(issuers));
    }

    /// Returns the principal of a request, with its rights.
    ///
    /// # Errors
    /// The answer that refuses: 401 with a challenge, 403, 429 where too many clients with invalid credentials wait already, or 503
    /// where the keys of an issuer are not available.
    pub fn authenticate(&self, auth_request: &AuthRequest<'_>) -> Result<Principal> {
        let peer = auth_request.peer;
        let policy = self.credentials.policy();
        // Checked before a credential is looked at: an address that is not admitted learns nothing about credentials.
        if !policy.admits(peer) {
            return Err(Refused::new(403, Denied::Address(peer).to_string()).into());
        }
        let checked = match Presented::of(auth_request.request, auth_request.target) {
            Presented::Nothing => self.check_connection(auth_request, &policy),
            presented => self.check(presented, &policy),
        };
        match checked {
            Ok(checked) => {
                if !matches!(checked, Checked::Nothing) {
                    self.backoff.succeeded(peer);
                }
                self.admit(&ClientConnection::of(auth_request), &policy, checked)
            }
            // Clients send their credential also to services that it is not for. They may still read public data.
            Err(Rejected::Invalid(why)) if auth_request.reads_public_data && self.has_public_data(peer) => {
                let anonymous = self.admit(&ClientConnection::of(auth_request), &policy, Checked::Nothing)?;
                Ok(Principal { rejected: Some(why), ..anonymous })
            }
            Err(Rejected::Invalid(why)) => Err(self.reject(peer, &why)),
            Err(Rejected::OtherUse(why)) => {
                Err(challenge(Refused::new(403, why.clone()), Some(("insufficient_scope", &why))).into())
            }
            Err(Rejected::Unknown(refused)) => Err(refused),
        }
    }

    /// Returns the principal that logs in by another protocol than HTTP, with a bearer credential or without any.
    ///
    /// # Errors
    /// As for [`Authenticator::authenticate`].
    pub fn log_in(&self, peer: IpAddr, credential: Option<&str>) -> Result<Principal> {
        let policy = self.credentials.policy();
        if !policy.admits(peer) {
            return Err(Refused::new(403, Denied::Address(peer).to_string()).into());
        }
        let connection = ClientConnection { peer, certificate: None };
        match credential.map_or(Ok(Checked::Nothing), |credential| self.check(bearer(credential), &policy)) {
            Ok(checked) => {
                if !matches!(checked, Checked::Nothing) {
                    self.backoff.succeeded(peer);
                }
                self.admit(&connection, &policy, checked)
            }
            Err(Rejected::Invalid(why)) => Err(self.reject(peer, &why)),
            Err(Rejected::OtherUse(why)) => Err(Refused::new(403, why).into()),
            Err(Rejected::Unknown(refused)) => Err(refused),
        }
    }

    /// The refusal of an invalid credential, after the wait of a client that presents such credentials often.
    fn reject(&self, peer: IpAddr, why: &str) -> Box<Refused> {
        if !self.backoff.delay(peer) {
            return too_many_failures();
        }
        challenge(Refused::new(401, why), Some(("invalid_token", why))).into()
    }

    /// Whether anything is open to an anonymous client from this address.
    pub fn has_public_data(&self, address: IpAddr) -> bool {
        let no_credential = auth::PresentedCredentials {
            anonymous: self.credentials.anonymous(),
            ..auth::PresentedCredentials::new(address)
        };
        self.credentials.policy().access(&no_credential).is_ok()
    }

    /// Checks the credential of a request that presents none itself: a browser's session, else the certificates of its connection.
    /// Invalid certificates are refused like any other invalid credential; the client does not become anonymous.
    fn check_connection(
        &self,
        auth_request: &AuthRequest<'_>,
        policy: &Policy,
    ) -> std::result::Result<Checked, Rejected> {
        match (self.check_session(auth_request, policy), auth_request.certificate.map(Arc::as_ref)) {
            (Checked::Nothing, Some(CertificateCheck::Rejected(why))) => Err(Rejected::Invalid(why.clone())),
            // A connection may outlive the proxy certificate with which it began.
            (Checked::Nothing, Some(CertificateCheck::Verified(who))) if who.expires < unix_seconds() => {
                Err(Rejected::Invalid(
                    "the certificate of this connection has expired meanwhile: make a new one".to_owned(),
                ))
            }
            // A browser presents its certificate in every request that a page makes, also one of another site: such requests must
            // change nothing.
            (Checked::Nothing, Some(CertificateCheck::Verified(_))) if is_cross_site_change(auth_request.request) => {
                Err(Rejected::OtherUse("a page of another site may not use a browser's certificate".to_owned()))
            }
            (checked, _) => Ok(checked),
        }
    }

    /// Checks the credential of a browser's session. A session whose credential is not valid any more ends, and the request counts as
    /// one without a credential.
    fn check_session(&self, auth_request: &AuthRequest<'_>, policy: &Policy) -> Checked {
        let (request, is_secure) = (auth_request.request, auth_request.is_secure);
        let Some(credential) = self.sessions.credential(request, is_secure) else { return Checked::Nothing };
        self.check(bearer(&credential), policy).unwrap_or_else(|_| {
            self.sessions.close(request, is_secure);
            Checked::Nothing
        })
    }

    /// Checks a credential for which a client wants a session.
    ///
    /// # Errors
    /// The credential is not accepted: 403, 429 or 503, as for [`Authenticator::authenticate`].
    pub fn check_new_session_credential(&self, peer: IpAddr, credential: &str) -> Result<()> {
        match self.check(bearer(credential), &self.credentials.policy()) {
            Ok(_) => {
                self.backoff.succeeded(peer);
                Ok(())
            }
            Err(Rejected::Invalid(why)) if self.backoff.delay(peer) => Err(Refused::new(403, why).into()),
            Err(Rejected::Invalid(_)) => Err(too_many_failures()),
            Err(Rejected::OtherUse(why)) => Err(Refused::new(403, why).into()),
            Err(Rejected::Unknown(refused)) => Err(refused),
        }
    }

    fn check(&self, presented: Presented, policy: &Policy) -> std::result::Result<Checked, Rejected> {
        match presented {
            Presented::Nothing => Ok(Checked::Nothing),
            Presented::Key(key) => self.check_key(&key),
            Presented::Token(text) => Ok(Checked::Token(Box::new(self.check_token(&text, policy)?))),
            Presented::Macaroon(text) => Ok(Checked::Macaroon(Box::new(self.check_macaroon(&text, policy)?))),
            Presented::Unknown(why) => Err(Rejected::Invalid(why.to_owned())),
        }
    }

    fn check_key(&self, key: &AccessKey) -> std::result::Result<Checked, Rejected> {
        let grant = self.credentials.grant_of_key(key)?;
        // Only the native protocol checks which transfer such a key is for. And a key that was delegated for one copy must not be
        // delegated again for the next one: copies could follow each other without end.
        if grant.errand.is_some() || self.credentials.is_delegated(&grant) {
            return Err(Rejected::OtherUse(
                "this access key is for one job of the native protocol, and for nothing else".into(),
            ));
        }
        Ok(Checked::Grant(Box::new(grant)))
    }

    fn check_token(&self, text: &str, policy: &Policy) -> std::result::Result<Claims, Rejected> {
        let peek = auth::token::peek(text)?;
        // Keys are fetched only from issuers that the operator trusts.
        let issuer = policy.issuer(&peek.issuer);
        let issuer = issuer.ok_or_else(|| TokenError::Issuer(auth::token::shown(&peek.issuer)))?;
        let seconds = unix_seconds();
        let jwks = self.issuers.load_full().keys(issuer, &peek.kid, seconds).map_err(|why| {
            let refused = Refused::new(503, why).with("Retry-After", "60");
            Rejected::Unknown(refused.into())
        })?;
        let audiences = policy.audiences_for(issuer);
        let checked = auth::token::verify(text, issuer, &jwks, &audiences, seconds);
        if audiences.is_empty() && matches!(checked, Err(TokenError::Audience { .. })) {
            let remedy = "write audiences = [\"https://THIS-HOST\"] into the policy's file";
            tracing::warn!(
                issuer = issuer.iss,
                remedy,
                "this service has no audience: only tokens for any audience are accepted"
            );
        }
        Ok(checked?)
    }

    fn check_macaroon(&self, text: &str, policy: &Policy) -> std::result::Result<VerifiedMacaroon, Rejected> {
        let invalid = |error: auth::MacaroonError| Rejected::Invalid(error.to_string());
        if !policy.macaroons.on {
            return Err(invalid(auth::MacaroonError::Off));
        }
        let secret = self.credentials.macaroon_key().map_err(|refusal| {
            tracing::error!(
                error = refusal.reason,
                "the secret of this service's macaroons cannot be read: every macaroon is refused"
            );
            let reason = "the service cannot read its own secret; its operator must look at its log";
            Rejected::Unknown(Refused::new(500, reason).into())
        })?;
        let macaroon = auth::macaroon::verify(&secret, text, unix_seconds()).map_err(invalid)?;
        if !self.credentials.is_valid(&macaroon.origin) {
            let why = "the access key that this macaroon was made from is not valid any more; ask for a new one";
            return Err(Rejected::Invalid(why.into()));
        }
        Ok(macaroon)
    }

    /// The principal that holds a checked credential, with its rights.
    fn admit(&self, connection: &ClientConnection<'_>, policy: &Policy, checked: Checked) -> Result<Principal> {
        let anonymous = self.credentials.anonymous();
        let ClientConnection { peer, certificate } = *connection;
        let identity = certificate.and_then(|check| check.identity());
        let identity = identity.map(|identity| Arc::new(identity.without_expired_attributes(unix_seconds())));
        let presented = auth::PresentedCredentials {
            anonymous,
            dn: identity.as_ref().map(|identity| identity.name.as_str()),
            attributes: identity.as_ref().map_or(&[][..], |identity| &identity.attributes[..]),
            ..auth::PresentedCredentials::new(peer)
        };
        let presented = match &checked {
            Checked::Nothing => presented,
            Checked::Grant(grant) => auth::PresentedCredentials { grant: Some(grant), ..presented },
            Checked::Token(claims) => auth::PresentedCredentials { claims: Some(claims), ..presented },
            Checked::Macaroon(macaroon) => auth::PresentedCredentials { macaroon: Some(macaroon), ..presented },
        };
        // The policy's program may allow what no rule allows, and so may a service that has no rules.
        let found = if policy.callout.is_some() || self.credentials.admits_all_known() {
            policy.identify(&presented)
        } else {
            policy.access(&presented)
        };
        let access = match found {
            Ok(access) => access,
            Err(Denied::NoKey) => no_access(),
            Err(denied) if denied.is_unauthenticated() => {
                let why = denied.to_string();
                return Err(challenge(Refused::new(401, why.clone()), Some(("invalid_token", &why))).into());
            }
            Err(denied) => {
                let is_bearer = !matches!(checked, Checked::Nothing);
                return Err(insufficient(Refused::new(403, denied.to_string()), is_bearer).into());
            }
        };
        let credential = match checked {
            Checked::Grant(grant) => Credential::Key { id: grant.id },
            Checked::Token(claims) => Credential::Token { claims },
            Checked::Macaroon(macaroon) => Credential::Macaroon { uuid: macaroon.uuid, name: macaroon.name },
            Checked::Nothing => identity.map_or(Credential::None, |identity| Credential::Certificate { identity }),
        };
        Ok(Principal { is_anonymous: access.is_anonymous(), access, credential, rejected: None })
    }

    /// The refusal of a request for which an anonymous client must authenticate.
    pub fn challenge_anonymous(&self, reason: &str) -> Box<Refused> {
        challenge(Refused::new(401, reason), None).into()
    }

    /// The answer to a refused principal: it asks an anonymous one for a credential, and says to any other that its credential is not
    /// enough.
    pub fn deny(&self, principal: &Principal, peer: IpAddr, refused: Refused) -> Box<Refused> {
        let is_hidden = matches!(refused.status, 403 | 404);
        match &principal.rejected {
            Some(why) if is_hidden => self.reject(peer, why),
            // An anonymous client must not learn whether the path exists.
            _ if is_hidden && principal.is_anonymous => {
                let reason = "nothing here is open to everybody; show a key, a token, a macaroon or a certificate";
                challenge(Refused { status: 401, reason: reason.into(), ..refused }, None).into()
            }
            _ if refused.status == 403 => insufficient(refused, principal.credential.is_bearer()).into(),
            _ => refused.into(),
        }
    }
}

/// Whether a page of another site makes a browser change something. Browsers send `Origin` with every such request.
fn is_cross_site_change(request: &Request) -> bool {
    let only_reads = matches!(request.method, Method::Get | Method::Head | Method::Options);
    let host = request.headers.get("host").unwrap_or_default();
    let is_own =
        |origin: &str| origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host));
    !only_reads && request.headers.get("origin").is_some_and(|origin| !is_own(origin))
}

fn too_many_failures() -> Box<Refused> {
    let reason = "too many invalid credentials have come from this address; try again later";
    Refused::new(429, reason).with("Retry-After", "10").into()
}

/// A refusal that asks for a credential (RFC 6750, section 3). `error` is a code and a sentence.
fn challenge(refused: Refused, error: Option<(&str, &str)>) -> Refused {
    refused
        .with("WWW-Authenticate", format!("Bearer realm=\"longhaul\"{}", parameters(error)))
        .with("WWW-Authenticate", "Basic realm=\"longhaul: an access key or a token as the password\"")
}

/// A refusal to a principal whose valid credential is not enough. Basic is not offered: a browser would ask for another password.
fn insufficient(refused: Refused, is_bearer: bool) -> Refused {
    if !is_bearer {
        return refused;
    }
    let error = parameters(Some(("insufficient_scope", &refused.reason)));
    refused.with("WWW-Authenticate", format!("Bearer realm=\"longhaul\"{error}"))
}

/// The parameters of a challenge that describe the error. Quotes and characters beyond ASCII are replaced: they would end the
/// parameter early.
fn parameters(error: Option<(&str, &str)>) -> String {
    let Some((code, why)) = error else { return String::new() };
    let plain = |c: char| match c {
        '"' | '\\' => '\'',
        c if c.is_ascii_graphic() || c == ' ' => c,
        _ => '?',
    };
    let why: String = why.chars().map(plain).collect();
    format!(", error=\"{code}\", error_description=\"{why}\"")
}

/// The time in seconds since 1970, as grants and tokens use it.
fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_in_a_challenge_cannot_end_its_quoted_string() {
        let text = parameters(Some(("invalid_token", "a \"b\"\r\nc\\\u{e9}")));
        assert_eq!(text, ", error=\"invalid_token\", error_description=\"a 'b'??c'?\"");
    }
}
