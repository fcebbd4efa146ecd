//! From an address and a verified credential to an [`Access`], by the policy.
//!
//! One credential decides: an access key, else a macaroon, else a token, else a certificate. So a client that shows a narrow token is
//! confined to it, even if its connection has a certificate. Rules for anyone apply to all clients.

use std::net::IpAddr;
use std::sync::Arc;

use model::name::RelPath;
use sha2::{Digest, Sha256};

use super::Policy;
use super::address::is_in;
use super::dn::DistinguishedName;
use super::rule::{Rule, RuleSubject};
use crate::access::{ANONYMOUS, Access, Denied, PathKind, Permit, Ticket};
use crate::actions::Actions;
use crate::grant::{Grant, Rights, hex};
use crate::issuer::Issuer;
use crate::macaroon::{MacaroonError, VerifiedMacaroon};
use crate::mark::mark;
use crate::token::{Capability, Claims, TokenError, shown};
use crate::voms_attributes::VomsAttributes;

/// A client, with its verified credentials.
#[derive(Clone, Copy, Debug)]
pub struct PresentedCredentials<'a> {
    /// The client's address.
    pub address: IpAddr,
    /// The grant of its access key.
    pub grant: Option<&'a Grant>,
    /// Its macaroon.
    pub macaroon: Option<&'a VerifiedMacaroon>,
    /// The claims of its token.
    pub claims: Option<&'a Claims>,
    /// The subject of the certificate, in the form of RFC 4514 ([`DistinguishedName::rfc4514`]): in the slash form a slash
    /// within a value could pass for another component.
    pub dn: Option<&'a str>,
    /// The verified VOMS attributes of the certificate.
    pub attributes: &'a [VomsAttributes],
    /// Rights of anonymous clients to every export (`--anonymous`).
    pub anonymous: Option<Rights>,
}

impl<'a> PresentedCredentials<'a> {
    /// A client from an address, without a credential.
    pub fn new(address: IpAddr) -> PresentedCredentials<'a> {
        PresentedCredentials {
            address,
            grant: None,
            macaroon: None,
            claims: None,
            dn: None,
            attributes: &[],
            anonymous: None,
        }
    }
}

impl Policy {
    /// The access of a client.
    ///
    /// # Errors
    /// [`Denied::Address`] for an address that is not served, [`Denied::NoKey`] for a client without a credential where nothing is
    /// open, [`Denied::NoRight`] for a valid credential without a permit, and the errors of tokens and macaroons.
    pub fn access(&self, client: &PresentedCredentials<'_>) -> Result<Access, Denied> {
        match self.identify(client)? {
            Access::Ticket(ticket) if ticket.permits.is_empty() && ticket.everywhere.is_empty() => {
                Err(Denied::NoRight(ticket.who.clone()))
            }
            access => Ok(access),
        }
    }

    /// As [`Policy::access`], except that a valid credential without a permit gives an access without rights: a callout program may
    /// still allow something.
    ///
    /// # Errors
    /// As [`Policy::access`], except [`Denied::NoRight`].
    pub fn identify(&self, client: &PresentedCredentials<'_>) -> Result<Access, Denied> {
        if !self.admits(client.address) {
            return Err(Denied::Address(client.address));
        }
        let mut ticket = self.ticket(client)?;
        let extra = self.permits(client, |who| matches!(who, RuleSubject::Anyone));
        if let Some(grant) = client.grant {
            // A key without a rule stays a grant. A key for one transfer is for nothing else, whatever rules say.
            if grant.errand.is_some() || (extra.is_empty() && ticket.permits.len() <= 1) {
                return Ok(Access::Granted(grant.clone()));
            }
        }
        if ticket.holder == ANONYMOUS && extra.is_empty() {
            return client.anonymous.map(Access::Anonymous).ok_or(Denied::NoKey);
        }
        ticket.permits.extend(extra);
        ticket.everywhere |= client.anonymous.map_or(Actions::NONE, Rights::actions);
        Ok(Access::Ticket(Arc::new(ticket)))
    }

    /// The ticket for the one credential that decides.
    fn ticket(&self, client: &PresentedCredentials<'_>) -> Result<Ticket, Denied> {
        if let Some(grant) = client.grant {
            return Ok(self.of_grant(client, grant));
        }
        if let Some(macaroon) = client.macaroon {
            return self.of_macaroon(client, macaroon);
        }
        if let Some(claims) = client.claims {
            return self.of_token(client, claims);
        }
        let Some(dn) = client.dn else {
            return Ok(ticket(ANONYMOUS.into(), ANONYMOUS.into(), None));
        };
        // A certificate with a malformed name has only the permits of rules for anyone.
        let Ok(dn) = DistinguishedName::parse(dn) else {
            return Ok(ticket(shown(dn), holder("dn", &[dn]), None));
        };
        let name = dn.to_string();
        let mut ticket = ticket(shown(&name), holder("dn", &[&format!("{dn:?}")]), None);
        ticket.permits = self.permits(client, |who| match who {
            RuleSubject::Dn(owner) => *owner == dn,
            RuleSubject::Fqan(fqan) => client.attributes.iter().any(|one| one.has(fqan)),
            _ => false,
        });
        Ok(ticket)
    }

    /// The permits of the rules with some subjects, as far as they are for the client's address.
    fn permits(&self, client: &PresentedCredentials<'_>, is_for: impl Fn(&RuleSubject) -> bool) -> Vec<Permit> {
        let about = |rule: &&Rule| is_for(&rule.subject) && rule.is_from(client.address);
        self.rules.iter().filter(about).map(Rule::permit).collect()
    }

    /// The ticket of a key: its own permit, and those of rules about it.
    fn of_grant(&self, client: &PresentedCredentials<'_>, grant: &Grant) -> Ticket {
        let who = Access::Granted(grant.clone()).who();
        let mut ticket = ticket(who, format!("key:{}", grant.id), grant.expires);
        if let Some(prefix) = grant.prefix_path() {
            let actions = grant.rights.actions();
            ticket.permits.push(Permit::own(grant.export.clone(), prefix, PathKind::Tree, actions));
        }
        ticket.permits.extend(self.permits(client, |who| *who == RuleSubject::Key(grant.id.clone())));
        ticket
    }

    /// The ticket of a macaroon: the actions that its caveats allow, as far as its origin still gives them. The first component of its
    /// path is the export.
    fn of_macaroon(&self, client: &PresentedCredentials<'_>, macaroon: &VerifiedMacaroon) -> Result<Ticket, Denied> {
        if !self.macaroons.on {
            return Err(MacaroonError::Off.into());
        }
        if macaroon.addresses.iter().any(|addresses| !is_in(addresses, client.address)) {
            return Err(MacaroonError::Address(client.address).into());
        }
        let name = if macaroon.name.is_empty() { &macaroon.uuid } else { &macaroon.name };
        let mut ticket = ticket(format!("macaroon {}", shown(name)), macaroon.holder(), macaroon.before);
        if let Some((export, prefix)) = split(&macaroon.path) {
            let actions = macaroon.actions() & self.remaining_actions(client, macaroon, &export, &prefix);
            if actions.is_empty() && !macaroon.actions().is_empty() {
                return Err(MacaroonError::Void.into());
            }
            ticket.permits.push(Permit::own(export, prefix, PathKind::Entry, actions));
        }
        Ok(ticket)
    }

    /// The actions that the origin of a macaroon still gives to its first holder.
    fn remaining_actions(
        &self,
        client: &PresentedCredentials<'_>,
        macaroon: &VerifiedMacaroon,
        export: &str,
        path: &RelPath,
    ) -> Actions {
        let Some(provenance) = &macaroon.provenance else {
            // Made from a grant alone: the node checks that the grant still exists.
            return if macaroon.origin.contains(':') { Actions::NONE } else { Actions::ALL };
        };
        let is_trusted = match &provenance.issuer {
            Some(known) => self.issuers.iter().any(|issuer| mark(&issuer.iss) == *known),
            None => !macaroon.origin.starts_with("token:"),
        };
        if !is_trusted {
            return Actions::NONE;
        }
        let here = |rule: &&Rule| rule.export == export && path.starts_with(&rule.path) && rule.is_from(client.address);
        let counting = self.rules.iter().filter(here).filter(|rule| provenance.rules.contains(&rule.subject.mark()));
        counting.fold(provenance.rights, |all, rule| all | rule.actions)
    }

    fn of_token(&self, client: &PresentedCredentials<'_>, claims: &Claims) -> Result<Ticket, Denied> {
        let unknown = || TokenError::Issuer(shown(&claims.issuer));
        let issuer = self.issuer(&claims.issuer).ok_or_else(unknown)?;
        let subject = if claims.subject.is_empty() { claims.id.as_deref().unwrap_or("?") } else { &claims.subject };
        let who = format!("{}@{}", shown(subject), shown(&claims.issuer));
        let mut ticket = ticket(who, holder("token", &[&claims.issuer, subject]), Some(claims.expires));
        if claims.capabilities.is_empty() {
            ticket.permits = self.permits(client, |who| match who {
                RuleSubject::Group { iss, group } => *iss == claims.issuer && claims.groups.contains(group),
                RuleSubject::Subject { iss, subject } => *iss == claims.issuer && *subject == claims.subject,
                _ => false,
            });
        } else {
            claims.capabilities.iter().for_each(|capability| issuer.add_permits(capability, &mut ticket));
        }
        Ok(ticket)
    }
}

impl Issuer {
    /// Adds the permits of a capability of its tokens. A capability for an export that is not the issuer's gives none.
    fn add_permits(&self, capability: &Capability, ticket: &mut Ticket) {
        let Capability { actions, dir_only, ref path } = *capability;
        let kind = if dir_only { PathKind::DirOnly } else { PathKind::Entry };
        let mut permit = |export: &str, below: &RelPath| {
            let prefix = self.path.join_path(below);
            ticket.permits.push(Permit::own(export.to_owned(), prefix, kind, actions));
        };
        match (&self.export, &self.exports) {
            (Some(export), _) => permit(export, path),
            (None, Some(exports)) if path.is_root() => exports.iter().for_each(|export| permit(export, path)),
            (None, None) if path.is_root() && self.path.is_root() => ticket.everywhere |= actions,
            (None, exports) => {
                let named = split(path).filter(|(export, _)| exports.as_ref().is_none_or(|all| all.contains(export)));
                if let Some((export, below)) = named {
                    permit(&export, &below);
                }
            }
        }
    }
}

/// The export that a path names, and the path below it.
fn split(path: &RelPath) -> Option<(String, RelPath)> {
    let mut parts = path.as_bytes().splitn(2, |b| *b == b'/');
    let export = parts.next().filter(|export| !export.is_empty())?;
    let below = RelPath::parse(parts.next().unwrap_or_default()).ok()?;
    Some((std::str::from_utf8(export).ok()?.to_owned(), below))
}

fn ticket(who: String, holder: String, expires: Option<i64>) -> Ticket {
    Ticket { who, holder, permits: Vec::new(), everywhere: Actions::NONE, expires }
}

/// A stable id of bounded length, from names that peers chose. The lengths are hashed too: ("a", "bc") is not ("ab", "c").
fn holder(kind: &str, names: &[&str]) -> String {
    let mut hash = Sha256::new();
    for name in names {
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name);
    }
    format!("{kind}:{}", hex(&hash.finalize()[..16]))
}

#[cfg(test)]
mod tests;
