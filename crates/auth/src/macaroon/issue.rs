//! Making a macaroon for somebody who has access: it gets no more than they have at that path, and ends no later. What they
//! have by a rule that is for some addresses counts for these, and what they have of rules and issuers counts while these are
//! there.

use ipnet::IpNet;
use jiff::Timestamp;
use model::name::{Name, RelPath};

use super::activity::Activities;
use super::error::MacaroonError;
use super::request::MacaroonRequest;
use super::{HOLDER, Standing, mint};
use crate::access::{Access, Basis, Denied};
use crate::limits::MACAROON_BYTES;
use crate::mark::mark;
use crate::token::shown;

/// What a macaroon is made of, besides the request.
#[derive(Clone, Copy, Debug)]
pub struct Birth<'a> {
    /// The access of whoever asks.
    pub access: &'a Access,
    /// The issuer of the token that was shown, if it was one.
    pub issuer: Option<&'a str>,
    /// The export that was asked.
    pub export: &'a str,
    /// Whether that export may be written to.
    pub writable: bool,
    /// The path below it that was asked.
    pub path: &'a RelPath,
    /// The node's name, for people.
    pub location: &'a str,
    /// A new random id.
    pub uuid: &'a str,
    /// The time, seconds since 1970.
    pub now: i64,
}

/// A macaroon that was made.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The macaroon. It is a secret.
    pub text: String,
    /// How long it is good for, seconds.
    pub expires_in: u64,
    /// What it allows, for the log.
    pub activities: Activities,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued")
            .field("activities", &self.activities)
            .field("expires_in", &self.expires_in)
            .finish_non_exhaustive()
    }
}

/// Makes a macaroon with what the request asks for and its asker has.
///
/// Guests get none (there is nobody to hold to account), nor do keys for one job, nor holders of macaroons.
pub fn issue(secret: &[u8; 32], birth: &Birth<'_>, request: &MacaroonRequest) -> Result<Issued, Denied> {
    let Birth { access, export, now, .. } = *birth;
    check_asker(access)?;
    let name = Name::new(export.as_bytes()).map_err(|_| Denied::NoExport(export.to_owned()))?;
    let path = RelPath::root().join(&name).join_path(birth.path);
    if let Some(beside) = request.paths.iter().find(|asked| !asked.starts_with(&path)) {
        return Err(Denied::CaveatPath { asked: beside.to_string(), path: path.to_string() });
    }
    let held = Activities::within(access.actions_below(export, birth.writable, birth.path));
    let activities = held & request.activities;
    let refused = |needed, permits| Denied::Lacks { who: access.who(), needed, place: path.to_string(), permits };
    if activities.is_empty() {
        let permits = if held.is_empty() { "do nothing there".to_owned() } else { format!("hand on {held}") };
        return Err(refused("hand on what was asked for at", permits));
    }
    let asked = now.saturating_add_unsigned(request.validity_seconds);
    let before = access.expires().map_or(asked, |expires| expires.min(asked));
    let left = u64::try_from(before.saturating_sub(now)).ok().filter(|left| *left > 0);
    let (Some(expires_in), Ok(time)) = (left, Timestamp::from_second(before)) else {
        return Err(Denied::Expired { seconds_ago: now.saturating_sub(before).max(0) });
    };
    // First what its asker has, then what was asked: whoever reads it sees both, as with XrdMacaroons.
    let mut caveats = vec![format!("name:{}", shown(&access.who())), format!("activity:{held}")];
    if activities != held {
        caveats.push(format!("activity:{activities}"));
    }
    for path in std::iter::once(&path).chain(&request.paths) {
        let text = std::str::from_utf8(path.as_bytes());
        caveats
            .push(format!("path:/{}", text.map_err(|_| refused("hand on names that are not UTF-8:", "not".into()))?));
    }
    caveats.push(format!("before:{time}"));
    // Whoever could look at facts still can: see `Left::after`.
    let worth =
        if held.contains(Activities::READ_METADATA) { activities | Activities::READ_METADATA } else { activities };
    let basis = access.ticket().map(|ticket| ticket.basis(export, birth.path, worth.actions()));
    caveats.extend(basis.iter().flat_map(|basis| &basis.from).map(|from| ip(from)));
    let text = mint(secret, birth.location, &identifier(birth, basis), &caveats);
    if text.len() > MACAROON_BYTES {
        return Err(MacaroonError::TooLong { bytes: text.len() }.into());
    }
    Ok(Issued { text, expires_in, activities })
}

/// The caveat that only these addresses may use it.
fn ip(from: &[IpNet]) -> String {
    let from: Vec<String> = from.iter().map(IpNet::to_string).collect();
    format!("ip:{}", from.join(","))
}

/// Which macaroon it is, who asked for it, and what that access came from.
fn identifier(birth: &Birth<'_>, basis: Option<Basis>) -> String {
    let standing =
        basis.map(|basis| Standing { rights: basis.rights, issuer: birth.issuer.map(mark), rules: basis.rules });
    let words = standing.map_or_else(String::new, |standing| standing.words());
    format!("{}:{}{words}", birth.uuid, birth.access.holder())
}

/// Whether somebody may have macaroons at all.
fn check_asker(access: &Access) -> Result<(), Denied> {
    if access.is_guest() {
        return Err(Denied::NoKey);
    }
    if access.grant().is_some_and(|grant| grant.errand.is_some()) {
        return Err(Denied::Rights { allowed: "carry one job", needed: "hand out macaroons" });
    }
    if access.holder().starts_with(HOLDER) {
        return Err(Denied::Derived);
    }
    Ok(())
}
