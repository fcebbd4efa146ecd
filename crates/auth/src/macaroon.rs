//! Macaroons: bearer credentials that this node makes, and that any holder can narrow without the node.
//!
//! The format is that of libmacaroons, version 1, in base64url, and the caveats are those of XrdMacaroons and dCache, so
//! that gfal2, davix, FTS and Rucio can use them. Every caveat must be understood and must hold: a macaroon with an unknown caveat is
//! refused. Does not know: where the node's secret is stored, and the present rights of the holder.

use aws_lc_rs::hmac;
use ipnet::IpNet;
use jiff::Timestamp;
use model::name::RelPath;
use subtle::ConstantTimeEq;

use crate::actions::Actions;
use crate::address_prefix::prefix;
use crate::limits::{CAVEATS, MACAROON_BYTES};

mod activity;
pub(crate) mod error;
mod issue;
mod packet;
mod provenance;
mod request;

pub use activity::Activities;
pub use error::{MacaroonError, RequestError};
pub use issue::{Issued, MacaroonContext, issue};
pub use provenance::Provenance;
pub use request::MacaroonRequest;

use packet::Packets;

/// The prefix of the holder of a macaroon, before its id.
const HOLDER: &str = "macaroon:";

/// A macaroon whose signature is valid and whose caveats hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedMacaroon {
    /// `UUID:HOLDER` and its provenance, as it was minted.
    pub identifier: String,
    /// The id of the macaroon that the node made, from which it descends.
    pub uuid: String,
    /// The holder of the access that it was made from. Where that is a grant, the node checks that the grant still exists.
    pub origin: String,
    /// The origin of that access; `None` where it was a grant alone.
    pub provenance: Option<Provenance>,
    /// The principal that asked for it, as the node recorded it.
    pub name: String,
    /// The activities that all of its `activity:` caveats allow.
    pub activities: Activities,
    /// The path that all of its `path:` caveats allow: an export, and a path below it.
    pub path: RelPath,
    /// Its `ip:` caveats: the client's address must be in each of the lists.
    pub addresses: Vec<Vec<IpNet>>,
    /// When it expires, seconds since 1970: the earliest of its `before:` caveats.
    pub before: Option<i64>,
}

impl VerifiedMacaroon {
    /// The owner of its transfers: the holder of it, or of a macaroon that descends from the same one.
    pub fn holder(&self) -> String {
        format!("{HOLDER}{}", self.uuid)
    }

    /// The actions that it allows below its path.
    pub fn actions(&self) -> Actions {
        self.activities.actions()
    }
}

/// The HMAC-SHA256 (RFC 2104) of bytes.
pub fn hmac_sha256(key: &[u8], data: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data);
    let mut out = [0; 32];
    out.copy_from_slice(tag.as_ref());
    out
}

/// The signature chain of libmacaroons: the secret is hashed to a key, and each text is signed with the signature before it.
fn chain<'a>(secret: &[u8; 32], identifier: &[u8], caveats: impl Iterator<Item = &'a [u8]>) -> [u8; 32] {
    let key = hmac_sha256(b"macaroons-key-generator", secret);
    caveats.fold(hmac_sha256(&key, identifier), |signature, caveat| hmac_sha256(&signature, caveat))
}

/// Makes a macaroon, as text. `identifier` is `UUID:HOLDER` and a [`Provenance`]; [`issue`] makes one from a request.
pub fn mint(secret: &[u8; 32], location: &str, identifier: &str, caveats: &[String]) -> String {
    let bytes = || caveats.iter().map(|caveat| caveat.as_bytes());
    let packets = Packets {
        location: location.as_bytes().to_vec(),
        identifier: identifier.as_bytes().to_vec(),
        caveats: bytes().map(<[u8]>::to_vec).collect(),
        signature: chain(secret, identifier.as_bytes(), bytes()),
    };
    packets.encode()
}

/// Adds a caveat to a macaroon, as any holder can without the node.
///
/// # Errors
/// The text is no macaroon, or would have too many caveats or bytes.
pub fn attenuate(text: &str, caveat: &str) -> Result<String, MacaroonError> {
    let mut packets = Packets::decode(text)?;
    if packets.caveats.len() == CAVEATS {
        return Err(MacaroonError::TooManyCaveats);
    }
    packets.signature = hmac_sha256(&packets.signature, caveat.as_bytes());
    packets.caveats.push(caveat.as_bytes().to_vec());
    let narrowed = packets.encode();
    if narrowed.len() > MACAROON_BYTES {
        return Err(MacaroonError::TooLong { bytes: narrowed.len() });
    }
    Ok(narrowed)
}

/// Whether text looks like a macaroon rather than a token: it begins with the packet of a location.
pub fn is_macaroon(text: &str) -> bool {
    packet::starts_with_location(text)
}

/// Verifies a macaroon: it was made with this secret, and all of its caveats hold at the time `now`, seconds since 1970.
///
/// # Errors
/// [`MacaroonError`]: the text is no macaroon, the signature is wrong, a caveat is unknown, or it has expired or allows nothing.
pub fn verify(secret: &[u8; 32], text: &str, now: i64) -> Result<VerifiedMacaroon, MacaroonError> {
    let packets = Packets::decode(text)?;
    let expected = chain(secret, &packets.identifier, packets.caveats.iter().map(Vec::as_slice));
    if !bool::from(expected.ct_eq(&packets.signature)) {
        return Err(MacaroonError::Signature);
    }
    let identifier = String::from_utf8(packets.identifier).map_err(|_| MacaroonError::Identifier)?;
    let (uuid, origin) = identifier.split_once(':').ok_or(MacaroonError::Identifier)?;
    let (origin, provenance) = match origin.split_once(' ') {
        Some((origin, words)) => (origin, Some(Provenance::parse(words).ok_or(MacaroonError::Identifier)?)),
        None => (origin, None),
    };
    let (uuid, origin) = (uuid.to_owned(), origin.to_owned());
    let limits = CaveatLimits::of(&packets.caveats)?;
    if let Some(before) = limits.before.filter(|before| *before <= now) {
        return Err(MacaroonError::Expired { seconds_ago: now.saturating_sub(before) });
    }
    Ok(VerifiedMacaroon {
        identifier,
        uuid,
        origin,
        provenance,
        name: limits.name.unwrap_or_default(),
        activities: limits.activities.ok_or(MacaroonError::NoActivity)?,
        path: limits.path.ok_or(MacaroonError::NoPath)?,
        addresses: limits.addresses,
        before: limits.before,
    })
}

/// What the caveats of a macaroon allow together.
#[derive(Default)]
struct CaveatLimits {
    name: Option<String>,
    activities: Option<Activities>,
    path: Option<RelPath>,
    addresses: Vec<Vec<IpNet>>,
    before: Option<i64>,
}

impl CaveatLimits {
    fn of(caveats: &[Vec<u8>]) -> Result<CaveatLimits, MacaroonError> {
        let mut limits = CaveatLimits::default();
        // Whether the first holder could examine. If so, a holder with any activity can (as in XrdMacaroons).
        let mut may_examine = None;
        for (at, caveat) in caveats.iter().enumerate() {
            let unknown = || MacaroonError::Caveat { number: at + 1 };
            let text = std::str::from_utf8(caveat).map_err(|_| unknown())?;
            let (kind, value) = text.split_once(':').ok_or_else(unknown)?;
            match kind {
                // The node writes the name first. A later name was added by a holder, and is ignored.
                "name" if at == 0 => limits.name = Some(value.to_owned()),
                "name" => {}
                "activity" => {
                    let activities = Activities::parse(value).ok_or_else(unknown)?;
                    may_examine.get_or_insert(activities.contains(Activities::READ_METADATA));
                    limits.activities = Some(limits.activities.map_or(activities, |all| all & activities));
                }
                "path" => {
                    let path = value.starts_with('/').then(|| RelPath::parse(value.as_bytes()).ok()).flatten();
                    limits.narrow(path.ok_or_else(unknown)?)?;
                }
                // The form of dCache: addresses and prefixes with commas between them.
                "ip" => limits.addresses.push(value.split(',').map(prefix).collect::<Option<_>>().ok_or_else(unknown)?),
                "before" => {
                    let before = value.parse::<Timestamp>().map_err(|_| unknown())?.as_second();
                    limits.before = Some(limits.before.map_or(before, |all| all.min(before)));
                }
                _ => return Err(unknown()),
            }
        }
        if limits.activities.is_some_and(Activities::is_empty) {
            return Err(MacaroonError::Nothing { what: "activity" });
        }
        if may_examine == Some(true) {
            limits.activities = limits.activities.map(|activities| activities | Activities::READ_METADATA);
        }
        Ok(limits)
    }

    /// Applies a path caveat. All paths must hold: the deepest counts, and paths of which none contains the other allow nothing.
    fn narrow(&mut self, path: RelPath) -> Result<(), MacaroonError> {
        match &self.path {
            Some(all) if all.starts_with(&path) => {}
            Some(all) if !path.starts_with(all) => return Err(MacaroonError::Nothing { what: "path" }),
            _ => self.path = Some(path),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
