//! Issues macaroons. A macaroon gets no more rights than its requester has at the path, and expires no later than the requester's
//! credential. Rights from a rule for certain addresses are valid from these addresses only; rights from rules and issuers are valid
//! as long as the policy has them.

use ipnet::IpNet;
use jiff::Timestamp;
use model::name::{Name, RelPath};

use super::activity::Activities;
use super::error::MacaroonError;
use super::request::MacaroonRequest;
use super::{HOLDER, Provenance, mint};
use crate::access::{Access, Basis, Denied};
use crate::limits::MACAROON_BYTES;
use crate::mark::mark;
use crate::token::shown;

/// The input for a macaroon, besides the request.
#[derive(Clone, Copy, Debug)]
pub struct MacaroonContext<'a> {
    /// The access of the requester.
    pub access: &'a Access,
    /// The issuer of the requester's token, if any.
    pub issuer: Option<&'a str>,
    /// The export of the request.
    pub export: &'a str,
    /// Whether that export is writable.
    pub writable: bool,
    /// The path of the request, below the export.
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
    /// Its validity, seconds.
    pub expires_in: u64,
    /// The activities that it allows, for the log.
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

/// Makes a macaroon with the requested rights that the requester has.
///
/// # Errors
/// [`Denied`]: the requester is anonymous (nobody would be accountable), has a key for one transfer or a macaroon, has none of the
/// requested rights, or asks for a path outside of the request's.
pub fn issue(secret: &[u8; 32], context: &MacaroonContext<'_>, request: &MacaroonRequest) -> Result<Issued, Denied> {
    let MacaroonContext { access, export, now, .. } = *context;
    check_requester(access)?;
    let name = Name::new(export.as_bytes()).map_err(|_| Denied::NoExport(export.to_owned()))?;
    let path = RelPath::root().join(&name).join_path(context.path);
    if let Some(outside) = request.paths.iter().find(|requested| !requested.starts_with(&path)) {
        return Err(Denied::CaveatPath { asked: outside.to_string(), path: path.to_string() });
    }
    let available = Activities::within(access.actions_below(export, context.writable, context.path));
    let activities = available & request.activities;
    let refused = |needed, permits| Denied::Lacks { who: access.who(), needed, place: path.to_string(), permits };
    if activities.is_empty() {
        let permits = if available.is_empty() { "do nothing there".to_owned() } else { format!("hand on {available}") };
        return Err(refused("hand on what was asked for at", permits));
    }
    let requested = now.saturating_add_unsigned(request.validity_seconds);
    let before = access.expires().map_or(requested, |expires| expires.min(requested));
    let left = u64::try_from(before.saturating_sub(now)).ok().filter(|left| *left > 0);
    let (Some(expires_in), Ok(time)) = (left, Timestamp::from_second(before)) else {
        return Err(Denied::Expired { seconds_ago: now.saturating_sub(before).max(0) });
    };
    // First the requester's activities, then the requested ones: a reader sees both, as with XrdMacaroons.
    let mut caveats = vec![format!("name:{}", shown(&access.who())), format!("activity:{available}")];
    if activities != available {
        caveats.push(format!("activity:{activities}"));
    }
    for path in std::iter::once(&path).chain(&request.paths) {
        let text = std::str::from_utf8(path.as_bytes());
        caveats.push(format!(
            "path:/{}",
            text.map_err(|_| refused("hand on a path that is not UTF-8:", "hand on others".into()))?
        ));
    }
    caveats.push(format!("before:{time}"));
    // A requester who can examine still can with the macaroon: see `CaveatLimits::of`.
    let effective =
        if available.contains(Activities::READ_METADATA) { activities | Activities::READ_METADATA } else { activities };
    let basis = access.ticket().map(|ticket| ticket.basis(export, context.path, effective.actions()));
    caveats.extend(basis.iter().flat_map(|basis| &basis.addresses).map(|addresses| ip(addresses)));
    let text = mint(secret, context.location, &identifier(context, basis), &caveats);
    if text.len() > MACAROON_BYTES {
        return Err(MacaroonError::TooLong { bytes: text.len() }.into());
    }
    Ok(Issued { text, expires_in, activities })
}

/// The caveat that restricts a macaroon to these addresses.
fn ip(addresses: &[IpNet]) -> String {
    let addresses: Vec<String> = addresses.iter().map(IpNet::to_string).collect();
    format!("ip:{}", addresses.join(","))
}

/// The identifier: the macaroon's id, the holder who asked for it, and the origin of that holder's access.
fn identifier(context: &MacaroonContext<'_>, basis: Option<Basis>) -> String {
    let provenance =
        basis.map(|basis| Provenance { rights: basis.rights, issuer: context.issuer.map(mark), rules: basis.rules });
    let words = provenance.map_or_else(String::new, |provenance| provenance.words());
    format!("{}:{}{words}", context.uuid, context.access.holder())
}

/// Checks that a requester may have macaroons.
fn check_requester(access: &Access) -> Result<(), Denied> {
    if access.is_anonymous() {
        return Err(Denied::NoKey);
    }
    if access.grant().is_some_and(|grant| grant.errand.is_some()) {
        return Err(Denied::Rights { allowed: "carry one job", needed: "hand out macaroons" });
    }
    if access.holder().starts_with(HOLDER) {
        return Err(Denied::MacaroonFromMacaroon);
    }
    Ok(())
}
