//! From a visitor to an [`Access`]: what the policy makes of an address and of the credential that was shown.
//!
//! One credential decides: an access key, else a macaroon, else a token, else a certificate. Whoever shows a narrow token
//! wants to be held to it, whatever certificate the connection has besides. What anyone may, everybody may.

use std::net::IpAddr;
use std::sync::Arc;

use model::name::RelPath;
use sha2::{Digest, Sha256};

use super::Policy;
use super::address::is_in;
use super::dn::DistinguishedName;
use super::rule::{Rule, Who};
use crate::access::{Access, Denied, GUEST, Opens, Permit, Ticket};
use crate::actions::Actions;
use crate::grant::{Grant, Rights, hex};
use crate::issuer::Issuer;
use crate::macaroon::{Held, MacaroonError};
use crate::mark::mark;
use crate::token::{Capability, Claims, TokenError, shown};

/// Somebody who comes, with what was checked of them already.
#[derive(Clone, Copy, Debug)]
pub struct Visitor<'a> {
    /// From where.
    pub address: IpAddr,
    /// The grant of the access key that was shown.
    pub grant: Option<&'a Grant>,
    /// What the macaroon that was shown is worth.
    pub held: Option<&'a Held>,
    /// The claims of the token that was shown.
    pub claims: Option<&'a Claims>,
    /// The subject of the certificate, in the form of RFC 4514 ([`DistinguishedName::rfc4514`]): in the slash form a slash
    /// within a value could pass for another component.
    pub dn: Option<&'a str>,
    /// What the node lets anybody do in every export (`--anonymous`).
    pub anonymous: Option<Rights>,
}

impl<'a> Visitor<'a> {
    /// Somebody from an address, with nothing.
    pub fn new(address: IpAddr) -> Visitor<'a> {
        Visitor { address, grant: None, held: None, claims: None, dn: None, anonymous: None }
    }
}

impl Policy {
    /// What a visitor may do here.
    ///
    /// Errors: [`Denied::Address`] for an address that is not served, [`Denied::NoKey`] for somebody without a credential
    /// where nothing is open, and [`Denied::Nothing`] for a good credential that nothing here is for.
    pub fn access(&self, visitor: &Visitor<'_>) -> Result<Access, Denied> {
        match self.identify(visitor)? {
            Access::Visitor(ticket) if ticket.permits.is_empty() && ticket.everywhere.is_empty() => {
                Err(Denied::Nothing(ticket.who.clone()))
            }
            access => Ok(access),
        }
    }

    /// The same, but a good credential that nothing here is for is an access that may nothing: a program that is asked
    /// may still think otherwise.
    pub fn identify(&self, visitor: &Visitor<'_>) -> Result<Access, Denied> {
        if !self.admits(visitor.address) {
            return Err(Denied::Address(visitor.address));
        }
        let mut ticket = self.ticket(visitor)?;
        let extra = self.permits(visitor, |who| matches!(who, Who::Anyone));
        if let Some(grant) = visitor.grant {
            // A key that no rule is about stays a key; one for a single job is for nothing else, whatever rules say.
            if grant.errand.is_some() || (extra.is_empty() && ticket.permits.len() <= 1) {
                return Ok(Access::Granted(grant.clone()));
            }
        }
        if ticket.holder == GUEST && extra.is_empty() {
            return visitor.anonymous.map(Access::Anonymous).ok_or(Denied::NoKey);
        }
        ticket.permits.extend(extra);
        ticket.everywhere |= visitor.anonymous.map_or(Actions::NONE, Rights::actions);
        Ok(Access::Visitor(Arc::new(ticket)))
    }

    /// The ticket for the one credential that decides.
    fn ticket(&self, visitor: &Visitor<'_>) -> Result<Ticket, Denied> {
        if let Some(grant) = visitor.grant {
            return Ok(self.of_grant(visitor, grant));
        }
        if let Some(held) = visitor.held {
            return self.of_macaroon(visitor, held);
        }
        if let Some(claims) = visitor.claims {
            return self.of_token(visitor, claims);
        }
        let Some(dn) = visitor.dn else {
            return Ok(ticket(GUEST.into(), GUEST.into(), None));
        };
        // A certificate whose name does not read is nobody's; what anyone may is left to it.
        let Ok(dn) = DistinguishedName::parse(dn) else {
            return Ok(ticket(shown(dn), holder("dn", &[dn]), None));
        };
        let name = dn.to_string();
        let mut ticket = ticket(shown(&name), holder("dn", &[&format!("{dn:?}")]), None);
        ticket.permits = self.permits(visitor, |who| *who == Who::Dn(dn.clone()));
        Ok(ticket)
    }

    /// What the rules permit to some, from where the visitor comes.
    fn permits(&self, visitor: &Visitor<'_>, is_for: impl Fn(&Who) -> bool) -> Vec<Permit> {
        let about = |rule: &&Rule| is_for(&rule.who) && rule.is_from(visitor.address);
        self.rules.iter().filter(about).map(Rule::permit).collect()
    }

    /// The key's own permit, and those of rules about it.
    fn of_grant(&self, visitor: &Visitor<'_>, grant: &Grant) -> Ticket {
        let who = Access::Granted(grant.clone()).who();
        let mut ticket = ticket(who, format!("key:{}", grant.id), grant.expires);
        if let Some(prefix) = grant.prefix_path() {
            let actions = grant.rights.actions();
            ticket.permits.push(Permit::own(grant.export.clone(), prefix, Opens::Tree, actions));
        }
        ticket.permits.extend(self.permits(visitor, |who| *who == Who::Key(grant.id.clone())));
        ticket
    }

    /// A macaroon's caveats say what it may, and of that counts what it stands on still gives: the first component of its
    /// path is the export.
    fn of_macaroon(&self, visitor: &Visitor<'_>, held: &Held) -> Result<Ticket, Denied> {
        if !self.macaroons.on {
            return Err(MacaroonError::Off.into());
        }
        if held.from.iter().any(|from| !is_in(from, visitor.address)) {
            return Err(MacaroonError::Address(visitor.address).into());
        }
        let name = if held.name.is_empty() { &held.uuid } else { &held.name };
        let mut ticket = ticket(format!("macaroon {}", shown(name)), held.holder(), held.before);
        if let Some((export, prefix)) = split(&held.path) {
            let actions = held.actions() & self.remains(visitor, held, &export, &prefix);
            if actions.is_empty() && !held.actions().is_empty() {
                return Err(MacaroonError::Void.into());
            }
            ticket.permits.push(Permit::own(export, prefix, Opens::Entry, actions));
        }
        Ok(ticket)
    }

    /// What whoever a macaroon was made for would still have of what it was made of.
    fn remains(&self, visitor: &Visitor<'_>, held: &Held, export: &str, path: &RelPath) -> Actions {
        let Some(standing) = &held.standing else {
            // Made of a grant alone: that it still exists is the door's to see.
            return if held.origin.contains(':') { Actions::NONE } else { Actions::ALL };
        };
        let is_trusted = match &standing.issuer {
            Some(known) => self.issuers.iter().any(|issuer| mark(&issuer.iss) == *known),
            None => !held.origin.starts_with("token:"),
        };
        if !is_trusted {
            return Actions::NONE;
        }
        let here =
            |rule: &&Rule| rule.export == export && path.starts_with(&rule.path) && rule.is_from(visitor.address);
        let counting = self.rules.iter().filter(here).filter(|rule| standing.rules.contains(&rule.who.mark()));
        counting.fold(standing.rights, |all, rule| all | rule.actions)
    }

    fn of_token(&self, visitor: &Visitor<'_>, claims: &Claims) -> Result<Ticket, Denied> {
        let unknown = || TokenError::Issuer(shown(&claims.issuer));
        let issuer = self.issuer(&claims.issuer).ok_or_else(unknown)?;
        let subject = if claims.subject.is_empty() { claims.id.as_deref().unwrap_or("?") } else { &claims.subject };
        let who = format!("{}@{}", shown(subject), shown(&claims.issuer));
        let mut ticket = ticket(who, holder("token", &[&claims.issuer, subject]), Some(claims.expires));
        if claims.capabilities.is_empty() {
            ticket.permits = self.permits(visitor, |who| match who {
                Who::Group { iss, group } => *iss == claims.issuer && claims.groups.contains(group),
                Who::Subject { iss, subject } => *iss == claims.issuer && *subject == claims.subject,
                _ => false,
            });
        } else {
            claims.capabilities.iter().for_each(|capability| issuer.open(capability, &mut ticket));
        }
        Ok(ticket)
    }
}

impl Issuer {
    /// Adds what a capability of its tokens opens here. One for an export that is not the issuer's opens nothing.
    fn open(&self, capability: &Capability, ticket: &mut Ticket) {
        let Capability { actions, dir_only, ref path } = *capability;
        let opens = if dir_only { Opens::DirOnly } else { Opens::Entry };
        let mut permit = |export: &str, below: &RelPath| {
            let prefix = self.path.join_path(below);
            ticket.permits.push(Permit::own(export.to_owned(), prefix, opens, actions));
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

/// A stable id of bounded length from names that others chose. The lengths are hashed as well: ("a", "bc") is not
/// ("ab", "c").
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
