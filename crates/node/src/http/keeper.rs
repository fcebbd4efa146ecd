//! Who asks: from what a request carries to the one `Access` that answers every question.

pub(super) mod shown;

use std::net::IpAddr;
use std::sync::Arc;

use auth::{Access, AccessKey, Actions, Claims, Denied, Held, Policy, Ticket, TokenError};
use model::{Fault, Refusal};
use serve::Exchange;
use web::target::Target;

use self::shown::{Shown, shown};
use super::callout::Callouts;
use super::issuers::Issuers;
use super::refused::{Outcome, Refused, Trouble, refuse};
use super::sessions::Sessions;
use super::slow::Slow;
use crate::access::AccessControl;
use crate::clock::now;
use arc_swap::ArcSwap;

/// Somebody who asks.
pub(crate) struct Visitor {
    /// What they may do.
    pub access: Access,
    /// Nothing was shown that says who they are: a better question may get a better answer.
    pub is_nobody: bool,
    /// How they showed who they are.
    pub credential: Credential,
    /// Why what they showed does not count, where they are let look at what is everybody's all the same.
    pub bad: Option<String>,
}

/// A credential that was checked, as far as it may be spoken of.
#[derive(Debug)]
pub(crate) enum Credential {
    None,
    Key { id: String },
    Token { claims: Box<Claims> },
    Macaroon { uuid: String, name: String },
    Certificate { dn: String },
}

impl Visitor {
    /// Somebody of whom nobody has asked who it is.
    pub fn unknown() -> Visitor {
        Visitor { access: nothing(), is_nobody: true, credential: Credential::None, bad: None }
    }
}

impl Credential {
    /// Whether it was one of those that RFC 6750 is about.
    fn is_borne(&self) -> bool {
        matches!(self, Credential::Key { .. } | Credential::Token { .. } | Credential::Macaroon { .. })
    }
}

/// Lets in, or asks who is there.
pub(crate) struct Keeper {
    rules: Arc<AccessControl>,
    slow: Slow,
    issuers: ArcSwap<Issuers>,
    pub callouts: Callouts,
    /// Of browsers.
    pub sessions: Sessions,
}

/// What was shown and checked.
enum Checked {
    Nothing,
    Grant(Box<auth::Grant>),
    Token(Box<Claims>),
    Macaroon(Box<Held>),
}

/// Why what was shown does not count.
enum Bad {
    /// It is not good: whoever shows such things often waits.
    Credential(String),
    /// It is good, and for something else.
    Elsewhere(String),
    /// We could not find out.
    Unknown(Trouble),
}

impl From<Refusal> for Bad {
    fn from(refusal: Refusal) -> Bad {
        if refusal.fault == Fault::Auth { Bad::Credential(refusal.reason) } else { Bad::Unknown(refusal.into()) }
    }
}

impl From<TokenError> for Bad {
    fn from(error: TokenError) -> Bad {
        Bad::Credential(error.to_string())
    }
}

impl Keeper {
    pub fn new(rules: Arc<AccessControl>, issuers: Issuers) -> Keeper {
        Keeper {
            rules,
            slow: Slow::default(),
            issuers: ArcSwap::from_pointee(issuers),
            callouts: Callouts::default(),
            sessions: Sessions::default(),
        }
    }

    /// The keys of issuers come this way from now on.
    pub fn replace_issuers(&self, issuers: Issuers) {
        self.issuers.store(Arc::new(issuers));
    }

    /// Who asks, and what they may do.
    pub fn who(&self, exchange: &dyn Exchange, target: &Target) -> Outcome<Visitor> {
        let (address, policy) = (exchange.peer().ip(), self.rules.policy());
        // Before a credential is looked at: who is shut out learns nothing about credentials.
        if !policy.admits(address) {
            return Err(refuse(403, Denied::Address(address).to_string()));
        }
        let checked = match shown(exchange, target) {
            Shown::Nothing => Ok(self.of_session(exchange, &policy)),
            shown => self.check(shown, &policy),
        };
        match checked {
            Ok(checked) => {
                if !matches!(checked, Checked::Nothing) {
                    self.slow.succeeded(address);
                }
                self.admit(exchange, &policy, checked)
            }
            // What is everybody's is theirs as well who show a credential of somewhere else: clients show what they have.
            Err(Bad::Credential(why)) if is_look(exchange, target) && self.has_public_data(address, &policy) => {
                let guest = self.admit(exchange, &policy, Checked::Nothing)?;
                Ok(Visitor { bad: Some(why), ..guest })
            }
            Err(Bad::Credential(why)) => Err(self.disbelieve(address, &why)),
            Err(Bad::Elsewhere(why)) => {
                Err(self.challenge(Refused::new(403, why.clone()), Some(("insufficient_scope", &why))).into())
            }
            Err(Bad::Unknown(trouble)) => Err(trouble),
        }
    }

    /// A no to a credential that is not good: whoever shows such often waits.
    fn disbelieve(&self, address: IpAddr, why: &str) -> Trouble {
        if !self.slow.hold_up(address) {
            let reason = "too many credentials that are not good have come from there; try again later";
            return Refused::new(429, reason).with("Retry-After", "10").into();
        }
        self.challenge(Refused::new(401, why), Some(("invalid_token", why))).into()
    }

    /// Whether there is anything here for somebody from there who shows nothing.
    pub fn has_public_data(&self, address: IpAddr, policy: &Policy) -> bool {
        let anybody = auth::Visitor { anonymous: self.rules.anonymous(), ..auth::Visitor::new(address) };
        policy.access(&anybody).is_ok()
    }

    /// What a browser has shown before. Where that is no longer good, nothing was shown, and it may be shown anew.
    fn of_session(&self, exchange: &dyn Exchange, policy: &Policy) -> Checked {
        let (request, is_secure) = (exchange.request(), exchange.is_secure());
        let Some(credential) = self.sessions.credential(request, is_secure) else { return Checked::Nothing };
        self.check(shown::bearer(&credential), policy).unwrap_or_else(|_| {
            self.sessions.close(request, is_secure);
            Checked::Nothing
        })
    }

    /// Whether a credential is good: of somebody who wants a session for it.
    pub fn vouch(&self, exchange: &dyn Exchange, credential: &str) -> Outcome<()> {
        let address = exchange.peer().ip();
        match self.check(shown::bearer(credential), &self.rules.policy()) {
            Ok(_) => {
                self.slow.succeeded(address);
                Ok(())
            }
            Err(Bad::Credential(why)) if self.slow.hold_up(address) => Err(refuse(403, why)),
            Err(Bad::Credential(_)) => {
                let reason = "too many credentials that are not good have come from there; try again later";
                Err(Refused::new(429, reason).with("Retry-After", "10").into())
            }
            Err(Bad::Elsewhere(why)) => Err(refuse(403, why)),
            Err(Bad::Unknown(trouble)) => Err(trouble),
        }
    }

    fn check(&self, shown: Shown, policy: &Policy) -> Result<Checked, Bad> {
        match shown {
            Shown::Nothing => Ok(Checked::Nothing),
            Shown::Key(key) => self.check_key(&key),
            Shown::Token(text) => Ok(Checked::Token(Box::new(self.check_token(&text, policy)?))),
            Shown::Macaroon(text) => Ok(Checked::Macaroon(Box::new(self.check_macaroon(&text, policy)?))),
            Shown::Unknown(why) => Err(Bad::Credential(why.to_owned())),
        }
    }

    fn check_key(&self, key: &AccessKey) -> Result<Checked, Bad> {
        let grant = self.rules.grant_of_key(key)?;
        // Its job and its target are asked about by the native protocol alone. And a key that was lent for a copy must not
        // lead to the next one: it would never end.
        if grant.errand.is_some() || self.rules.is_delegated(&grant) {
            return Err(Bad::Elsewhere(
                "this access key is for one job of the native protocol, and for nothing else".into(),
            ));
        }
        Ok(Checked::Grant(Box::new(grant)))
    }

    fn check_token(&self, text: &str, policy: &Policy) -> Result<Claims, Bad> {
        let peek = auth::token::peek(text)?;
        // Whose keys are fetched is the operator's to say, and nobody else's.
        let issuer = policy.issuer(&peek.issuer);
        let issuer = issuer.ok_or_else(|| TokenError::Issuer(auth::token::shown(&peek.issuer)))?;
        let seconds = now().seconds;
        let jwks = self.issuers.load_full().keys(issuer, &peek.kid, seconds).map_err(|why| {
            let refused = Refused::new(503, why).with("Retry-After", "60");
            Bad::Unknown(refused.into())
        })?;
        let audiences = policy.audiences_for(issuer);
        let checked = auth::token::verify(text, issuer, &jwks, &audiences, seconds);
        if audiences.is_empty() && matches!(checked, Err(TokenError::Audience { .. })) {
            let remedy = "write audiences = [\"https://THIS-NODE\"] into the policy's file";
            tracing::warn!(issuer = issuer.iss, remedy, "no audience is set for this node: tokens for one are refused");
        }
        Ok(checked?)
    }

    fn check_macaroon(&self, text: &str, policy: &Policy) -> Result<Held, Bad> {
        let bad = |error: auth::MacaroonError| Bad::Credential(error.to_string());
        if !policy.macaroons.on {
            return Err(bad(auth::MacaroonError::Off));
        }
        let secret = self.rules.state().macaroon_key().map_err(|error| {
            tracing::error!(%error, "the secret of this node's macaroons cannot be read: none counts");
            Bad::Unknown(refuse(500, "the node cannot read its own secret; its operator must look at its log"))
        })?;
        let held = auth::macaroon::verify(&secret, text, now().seconds).map_err(bad)?;
        if !self.rules.stands(&held.origin) {
            let why = "the access key that this macaroon was made from is not valid any more; ask for a new one";
            return Err(Bad::Credential(why.into()));
        }
        Ok(held)
    }

    /// What somebody may whose credential is good.
    fn admit(&self, exchange: &dyn Exchange, policy: &Policy, checked: Checked) -> Outcome<Visitor> {
        let (address, anonymous) = (exchange.peer().ip(), self.rules.anonymous());
        let visitor = auth::Visitor { anonymous, dn: exchange.client_name(), ..auth::Visitor::new(address) };
        let visitor = match &checked {
            Checked::Nothing => visitor,
            Checked::Grant(grant) => auth::Visitor { grant: Some(grant), ..visitor },
            Checked::Token(claims) => auth::Visitor { claims: Some(claims), ..visitor },
            Checked::Macaroon(held) => auth::Visitor { held: Some(held), ..visitor },
        };
        // A program that is asked may think otherwise of those for whom no rule is.
        let found = if policy.callout.is_some() { policy.identify(&visitor) } else { policy.access(&visitor) };
        let access = match found {
            Ok(access) => access,
            Err(Denied::NoKey) => nothing(),
            Err(denied) if denied.is_unauthenticated() => {
                let why = denied.to_string();
                return Err(self.challenge(Refused::new(401, why.clone()), Some(("invalid_token", &why))).into());
            }
            Err(denied) => {
                let borne = !matches!(checked, Checked::Nothing);
                return Err(self.too_little(Refused::new(403, denied.to_string()), borne).into());
            }
        };
        let credential = match checked {
            Checked::Grant(grant) => Credential::Key { id: grant.id },
            Checked::Token(claims) => Credential::Token { claims },
            Checked::Macaroon(held) => Credential::Macaroon { uuid: held.uuid, name: held.name },
            Checked::Nothing => {
                let dn = exchange.client_name().map(|dn| Credential::Certificate { dn: dn.to_owned() });
                dn.unwrap_or(Credential::None)
            }
        };
        Ok(Visitor { is_nobody: access.is_guest(), access, credential, bad: None })
    }

    /// A refusal that asks who is there (RFC 6750, section 3), with what was wrong: a code and a sentence.
    pub fn challenge(&self, refused: Refused, wrong: Option<(&str, &str)>) -> Refused {
        refused
            .with("WWW-Authenticate", format!("Bearer realm=\"longhaul\"{}", told(wrong)))
            .with("WWW-Authenticate", "Basic realm=\"longhaul: an access key or a token as the password\"")
    }

    /// The same, to somebody who has shown nothing.
    pub fn challenge_nobody(&self, reason: &str) -> Trouble {
        self.challenge(Refused::new(401, reason), None).into()
    }

    /// A refusal to somebody whose credential is good, and for less. Basic is not offered: a browser would ask for another
    /// password.
    fn too_little(&self, refused: Refused, is_borne: bool) -> Refused {
        if !is_borne {
            return refused;
        }
        let error = told(Some(("insufficient_scope", &refused.reason)));
        refused.with("WWW-Authenticate", format!("Bearer realm=\"longhaul\"{error}"))
    }

    /// A no to what a visitor wanted: who has not said who he is is asked, who has hears that it is not enough.
    pub fn unwelcome(&self, visitor: &Visitor, peer: IpAddr, trouble: Trouble) -> Trouble {
        match trouble {
            Trouble::Refused(refused) if matches!(refused.status, 403 | 404) && visitor.bad.is_some() => {
                self.disbelieve(peer, visitor.bad.as_deref().unwrap_or_default())
            }
            Trouble::Refused(refused) if visitor.is_nobody && matches!(refused.status, 403 | 404) => {
                // Whether there is such a place is not for somebody who has not said who they are.
                let reason = "nothing here is open to everybody; show a key, a token, a macaroon or a certificate";
                self.challenge(Refused { status: 401, reason: reason.into(), ..*refused }, None).into()
            }
            Trouble::Refused(refused) if refused.status == 403 => {
                self.too_little(*refused, visitor.credential.is_borne()).into()
            }
            other => other,
        }
    }
}

/// The parameters of a challenge that say what was wrong. A quote or what is not ASCII would end them early.
fn told(wrong: Option<(&str, &str)>) -> String {
    let Some((code, why)) = wrong else { return String::new() };
    let plain = |c: char| match c {
        '"' | '\\' => '\'',
        c if c.is_ascii_graphic() || c == ' ' => c,
        _ => '?',
    };
    let why: String = why.chars().map(plain).collect();
    format!(", error=\"{code}\", error_description=\"{why}\"")
}

/// Whether a request looks at files: it changes nothing, and asks for nothing that is somebody's own.
fn is_look(exchange: &dyn Exchange, target: &Target) -> bool {
    use web::Method::{Get, Head, Options, Propfind};
    let is_own = super::api::is_addressed(target) || super::metrics::is_meant(target);
    // What the root shows depends on who asks: a client whose token has ended must not take its exports for gone.
    matches!(exchange.request().method, Get | Head | Propfind | Options) && !is_own && !target.path.is_root()
}

/// What those may for whom nothing is open.
fn nothing() -> Access {
    let (who, holder) = ("nobody".to_owned(), auth::access::GUEST.to_owned());
    Access::Visitor(Arc::new(Ticket { who, holder, permits: Vec::new(), everywhere: Actions::NONE, expires: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_stays_within_its_quotes() {
        let text = told(Some(("invalid_token", "a \"b\"\r\nc\\\u{e9}")));
        assert_eq!(text, ", error=\"invalid_token\", error_description=\"a 'b'??c'?\"");
    }
}
