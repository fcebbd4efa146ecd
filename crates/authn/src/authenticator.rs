//! The authenticator: who sends a request, and how a refusal asks for a credential (RFC 6750, section 3).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use auth::{AccessKey, Claims, Denied, Policy, TokenError, VerifiedMacaroon};
use model::{Fault, Refusal};
use web::{Method, Refused, Request};

use crate::backoff::Backoff;
use crate::credentials::Credentials;
use crate::issuers::Issuers;
use crate::presented::{AuthRequest, ClientCertificate, Presented, bearer};
use crate::principal::{Credential, Principal, no_access};
use crate::sessions::Sessions;

/// Shorthand.
type Result<T> = std::result::Result<T, Box<Refused>>;

/// Authenticates the requests of one service.
pub struct Authenticator {
    credentials: Arc<dyn Credentials>,
    backoff: Backoff,
    issuers: ArcSwap<Issuers>,
    /// Sessions of browsers.
    pub sessions: Sessions,
}

/// A credential that was checked.
enum Checked {
    Nothing,
    Grant(Box<auth::Grant>),
    Token(Box<Claims>),
    Macaroon(Box<VerifiedMacaroon>),
}

/// Why a credential does not count.
enum Rejected {
    /// It is not valid. A client that presents such credentials often waits.
    Invalid(String),
    /// It is valid, and for something else.
    Elsewhere(String),
    /// The service could not find out.
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
    /// Of a service with these credentials; keys of token issuers come by way of `issuers`.
    pub fn new(credentials: Arc<dyn Credentials>, issuers: Issuers) -> Authenticator {
        Authenticator {
            credentials,
            backoff: Backoff::default(),
            issuers: ArcSwap::from_pointee(issuers),
            sessions: Sessions::default(),
        }
    }

    /// The way in which keys of issuers come.
    pub fn issuers(&self) -> Arc<Issuers> {
        self.issuers.load_full()
    }

    /// Fetches keys of issuers this way from now on.
    pub fn replace_issuers(&self, issuers: Issuers) {
        self.issuers.store(Arc::new(issuers));
    }

    /// The principal of a request, and what it may do.
    ///
    /// # Errors
    /// The answer that refuses: 401 with a challenge, 403, 429 where too many clients that guess wait already, or 503 where the keys
    /// of an issuer cannot be had.
    pub fn authenticate(&self, of: &AuthRequest<'_>) -> Result<Principal> {
        let policy = self.credentials.policy();
        // Before a credential is looked at: an address that is not admitted learns nothing about credentials.
        if !policy.admits(of.peer) {
            return Err(Refused::new(403, Denied::Address(of.peer).to_string()).into());
        }
        let checked = match Presented::of(of.request, of.target) {
            Presented::Nothing => self.of_connection(of, &policy),
            presented => self.check(presented, &policy),
        };
        match checked {
            Ok(checked) => {
                if !matches!(checked, Checked::Nothing) {
                    self.backoff.succeeded(of.peer);
                }
                self.admit(of, &policy, checked)
            }
            // Clients present what they have, also to services that it is not for: public data is theirs all the same.
            Err(Rejected::Invalid(why)) if of.reads_public_data && self.has_public_data(of.peer) => {
                let anonymous = self.admit(of, &policy, Checked::Nothing)?;
                Ok(Principal { rejected: Some(why), ..anonymous })
            }
            Err(Rejected::Invalid(why)) => Err(self.reject(of.peer, &why)),
            Err(Rejected::Elsewhere(why)) => {
                Err(challenge(Refused::new(403, why.clone()), Some(("insufficient_scope", &why))).into())
            }
            Err(Rejected::Unknown(refused)) => Err(refused),
        }
    }

    /// The refusal of a credential that is not valid, after the wait of a client that presents such credentials often.
    fn reject(&self, peer: IpAddr, why: &str) -> Box<Refused> {
        if !self.backoff.hold_up(peer) {
            return too_many_failures();
        }
        challenge(Refused::new(401, why), Some(("invalid_token", why))).into()
    }

    /// Whether anything is open to an anonymous client from this address.
    pub fn has_public_data(&self, address: IpAddr) -> bool {
        let anybody = auth::PresentedCredentials {
            anonymous: self.credentials.anonymous(),
            ..auth::PresentedCredentials::new(address)
        };
        self.credentials.policy().access(&anybody).is_ok()
    }

    /// The credential of a request that presents none itself: a browser's session, else the certificates of its connection. Those are
    /// presented as well, so ones that do not count are no way to be anonymous.
    fn of_connection(&self, of: &AuthRequest<'_>, policy: &Policy) -> std::result::Result<Checked, Rejected> {
        match (self.of_session(of, policy), of.client.map(Arc::as_ref)) {
            (Checked::Nothing, Some(ClientCertificate::Rejected(why))) => Err(Rejected::Invalid(why.clone())),
            // A connection may live longer than the proxy that it began with.
            (Checked::Nothing, Some(ClientCertificate::Verified(who))) if who.expires < unix_seconds() => {
                Err(Rejected::Invalid(
                    "the certificate of this connection has expired meanwhile: make a new one".to_owned(),
                ))
            }
            // Browsers show certificates to whatever a page asks: a page of another site changes nothing by them.
            (Checked::Nothing, Some(ClientCertificate::Verified(_))) if is_of_another_site(of.request) => {
                Err(Rejected::Elsewhere("a page of another site does not act by a browser's certificate".to_owned()))
            }
            (checked, _) => Ok(checked),
        }
    }

    /// The credential of a browser's session. Where that does not count any more, the session ends and nothing was presented.
    fn of_session(&self, of: &AuthRequest<'_>, policy: &Policy) -> Checked {
        let Some(credential) = self.sessions.credential(of.request, of.is_secure) else { return Checked::Nothing };
        self.check(bearer(&credential), policy).unwrap_or_else(|_| {
            self.sessions.close(of.request, of.is_secure);
            Checked::Nothing
        })
    }

    /// Checks a credential for which a client wants a session.
    ///
    /// # Errors
    /// The credential does not count: 403, 429 or 503, as for [`Authenticator::authenticate`].
    pub fn check_for_session(&self, peer: IpAddr, credential: &str) -> Result<()> {
        match self.check(bearer(credential), &self.credentials.policy()) {
            Ok(_) => {
                self.backoff.succeeded(peer);
                Ok(())
            }
            Err(Rejected::Invalid(why)) if self.backoff.hold_up(peer) => Err(Refused::new(403, why).into()),
            Err(Rejected::Invalid(_)) => Err(too_many_failures()),
            Err(Rejected::Elsewhere(why)) => Err(Refused::new(403, why).into()),
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
        // Which transfer such a key is for, the native protocol alone asks. And a key that was delegated for one copy must not lead to
        // the next one: it would never end.
        if grant.errand.is_some() || self.credentials.is_delegated(&grant) {
            return Err(Rejected::Elsewhere(
                "this access key is for one job of the native protocol, and for nothing else".into(),
            ));
        }
        Ok(Checked::Grant(Box::new(grant)))
    }

    fn check_token(&self, text: &str, policy: &Policy) -> std::result::Result<Claims, Rejected> {
        let peek = auth::token::peek(text)?;
        // Whose keys are fetched is the operator's to say, and nobody else's.
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
                "no audience is set for this service: tokens for one are refused"
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
                "the secret of this service's macaroons cannot be read: none counts"
            );
            let reason = "the service cannot read its own secret; its operator must look at its log";
            Rejected::Unknown(Refused::new(500, reason).into())
        })?;
        let held = auth::macaroon::verify(&secret, text, unix_seconds()).map_err(invalid)?;
        if !self.credentials.is_valid(&held.origin) {
            let why = "the access key that this macaroon was made from is not valid any more; ask for a new one";
            return Err(Rejected::Invalid(why.into()));
        }
        Ok(held)
    }

    /// What the holder of a credential may do.
    fn admit(&self, of: &AuthRequest<'_>, policy: &Policy, checked: Checked) -> Result<Principal> {
        let anonymous = self.credentials.anonymous();
        let asked =
            auth::PresentedCredentials { anonymous, dn: of.client_name, ..auth::PresentedCredentials::new(of.peer) };
        let asked = match &checked {
            Checked::Nothing => asked,
            Checked::Grant(grant) => auth::PresentedCredentials { grant: Some(grant), ..asked },
            Checked::Token(claims) => auth::PresentedCredentials { claims: Some(claims), ..asked },
            Checked::Macaroon(held) => auth::PresentedCredentials { held: Some(held), ..asked },
        };
        // The policy's program may allow what no rule allows, and so may a service that has no rules.
        let found = if policy.callout.is_some() || self.credentials.admits_all_known() {
            policy.identify(&asked)
        } else {
            policy.access(&asked)
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
            Checked::Macaroon(held) => Credential::Macaroon { uuid: held.uuid, name: held.name },
            Checked::Nothing => {
                let identity = match of.client.map(Arc::as_ref) {
                    Some(ClientCertificate::Verified(identity)) => Some(Arc::new(identity.clone())),
                    _ => None,
                };
                let dn = of.client_name.map(|dn| Credential::Certificate { dn: dn.to_owned(), identity });
                dn.unwrap_or(Credential::None)
            }
        };
        Ok(Principal { is_anonymous: access.is_guest(), access, credential, rejected: None })
    }

    /// The refusal of something that only an authenticated principal may do, to one that is anonymous.
    pub fn challenge_anonymous(&self, reason: &str) -> Box<Refused> {
        challenge(Refused::new(401, reason), None).into()
    }

    /// What a principal that was refused is told: an anonymous one is asked for a credential, any other learns that its own is not
    /// enough.
    pub fn deny(&self, principal: &Principal, peer: IpAddr, refused: Refused) -> Box<Refused> {
        let is_hidden = matches!(refused.status, 403 | 404);
        match &principal.rejected {
            Some(why) if is_hidden => self.reject(peer, why),
            // Whether there is such a place is not for an anonymous client.
            _ if is_hidden && principal.is_anonymous => {
                let reason = "nothing here is open to everybody; show a key, a token, a macaroon or a certificate";
                challenge(Refused { status: 401, reason: reason.into(), ..refused }, None).into()
            }
            _ if refused.status == 403 => insufficient(refused, principal.credential.is_bearer()).into(),
            _ => refused.into(),
        }
    }
}

/// Whether a page of another site has a browser change something: `Origin` is sent with every such request.
fn is_of_another_site(request: &Request) -> bool {
    let only_reads = matches!(request.method, Method::Get | Method::Head | Method::Options);
    let host = request.headers.get("host").unwrap_or_default();
    let is_own =
        |origin: &str| origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host));
    !only_reads && request.headers.get("origin").is_some_and(|origin| !is_own(origin))
}

fn too_many_failures() -> Box<Refused> {
    let reason = "too many credentials that are not good have come from there; try again later";
    Refused::new(429, reason).with("Retry-After", "10").into()
}

/// A refusal that asks for a credential (RFC 6750, section 3), with what was wrong: a code and a sentence.
fn challenge(refused: Refused, wrong: Option<(&str, &str)>) -> Refused {
    refused
        .with("WWW-Authenticate", format!("Bearer realm=\"longhaul\"{}", parameters(wrong)))
        .with("WWW-Authenticate", "Basic realm=\"longhaul: an access key or a token as the password\"")
}

/// A refusal to a principal whose credential is valid, and for less. Basic is not offered: a browser would ask for another password.
fn insufficient(refused: Refused, is_bearer: bool) -> Refused {
    if !is_bearer {
        return refused;
    }
    let error = parameters(Some(("insufficient_scope", &refused.reason)));
    refused.with("WWW-Authenticate", format!("Bearer realm=\"longhaul\"{error}"))
}

/// The parameters of a challenge that say what was wrong. A quote, or what is not ASCII, would end them early.
fn parameters(wrong: Option<(&str, &str)>) -> String {
    let Some((code, why)) = wrong else { return String::new() };
    let plain = |c: char| match c {
        '"' | '\\' => '\'',
        c if c.is_ascii_graphic() || c == ' ' => c,
        _ => '?',
    };
    let why: String = why.chars().map(plain).collect();
    format!(", error=\"{code}\", error_description=\"{why}\"")
}

/// The time, as grants and tokens have it.
fn unix_seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_stays_within_its_quotes() {
        let text = parameters(Some(("invalid_token", "a \"b\"\r\nc\\\u{e9}")));
        assert_eq!(text, ", error=\"invalid_token\", error_description=\"a 'b'??c'?\"");
    }
}
