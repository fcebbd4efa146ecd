//! Macaroons: bearer credentials that this node makes and anybody can narrow without asking it.
//!
//! The format is that of libmacaroons, version 1, in base64url, and the caveats are those of XrdMacaroons and dCache, so
//! that gfal2, davix, FTS and Rucio can use them. Every caveat must be understood and must hold; the first one that is
//! not understood shuts the door. Does not know: where the node's secret lies, and what its holder may today.

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
mod request;
mod standing;

pub use activity::Activities;
pub use error::{MacaroonError, RequestError};
pub use issue::{Birth, Issued, issue};
pub use request::MacaroonRequest;
pub use standing::Standing;

use packet::Packets;

/// How the holder of a macaroon begins, before its id.
const HOLDER: &str = "macaroon:";

/// What a macaroon whose signature is good, and whose caveats hold, is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// `UUID:HOLDER`, and what it stands on, as it was minted.
    pub identifier: String,
    /// Which macaroon it descends from.
    pub uuid: String,
    /// The holder of the access that it was made from: while that is a grant, the door checks that it still exists.
    pub origin: String,
    /// What that access came from; none where it was a grant alone.
    pub standing: Option<Standing>,
    /// Who asked for it, as the node wrote it down.
    pub name: String,
    /// What all of its `activity:` caveats leave.
    pub activities: Activities,
    /// The path that all of its `path:` caveats leave: an export and what is below it.
    pub path: RelPath,
    /// From where it counts: each of its `ip:` caveats, and all of them have to hold.
    pub from: Vec<Vec<IpNet>>,
    /// When it ends, seconds since 1970: the earliest of its `before:` caveats.
    pub before: Option<i64>,
}

impl Held {
    /// Who owns its jobs: whoever comes with it or one that descends from it.
    pub fn holder(&self) -> String {
        format!("{HOLDER}{}", self.uuid)
    }

    /// What it may do below its path.
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

/// The signature chain of libmacaroons: the secret is hashed to a key, and each text signed with what came before.
fn chain<'a>(secret: &[u8; 32], identifier: &[u8], caveats: impl Iterator<Item = &'a [u8]>) -> [u8; 32] {
    let key = hmac_sha256(b"macaroons-key-generator", secret);
    caveats.fold(hmac_sha256(&key, identifier), |signature, caveat| hmac_sha256(&signature, caveat))
}

/// A macaroon, as text. `identifier` is `UUID:HOLDER`, and what it stands on ([`Standing`]); see [`issue`] for making one from
/// a request.
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

/// The macaroon with one more caveat, as any holder can make it without the node.
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

/// Whether text looks like a macaroon rather than a token: it starts as the packet of a location does.
pub fn is_macaroon(text: &str) -> bool {
    packet::starts_well(text)
}

/// What a macaroon is worth, if it was made with this secret and all of its caveats hold at this time.
pub fn verify(secret: &[u8; 32], text: &str, now: i64) -> Result<Held, MacaroonError> {
    let packets = Packets::decode(text)?;
    let expected = chain(secret, &packets.identifier, packets.caveats.iter().map(Vec::as_slice));
    if !bool::from(expected.ct_eq(&packets.signature)) {
        return Err(MacaroonError::Signature);
    }
    let identifier = String::from_utf8(packets.identifier).map_err(|_| MacaroonError::Identifier)?;
    let (uuid, origin) = identifier.split_once(':').ok_or(MacaroonError::Identifier)?;
    let (origin, standing) = match origin.split_once(' ') {
        Some((origin, words)) => (origin, Some(Standing::parse(words).ok_or(MacaroonError::Identifier)?)),
        None => (origin, None),
    };
    let (uuid, origin) = (uuid.to_owned(), origin.to_owned());
    let left = Left::after(&packets.caveats)?;
    if let Some(before) = left.before.filter(|before| *before <= now) {
        return Err(MacaroonError::Expired { seconds_ago: now.saturating_sub(before) });
    }
    Ok(Held {
        identifier,
        uuid,
        origin,
        standing,
        name: left.name.unwrap_or_default(),
        activities: left.activities.ok_or(MacaroonError::NoActivity)?,
        path: left.path.ok_or(MacaroonError::NoPath)?,
        from: left.from,
        before: left.before,
    })
}

/// What caveats leave.
#[derive(Default)]
struct Left {
    name: Option<String>,
    activities: Option<Activities>,
    path: Option<RelPath>,
    from: Vec<Vec<IpNet>>,
    before: Option<i64>,
}

impl Left {
    fn after(caveats: &[Vec<u8>]) -> Result<Left, MacaroonError> {
        let mut left = Left::default();
        // Whether its first holder could look at facts; if so, whoever may do anything may (as in XrdMacaroons).
        let mut looks = None;
        for (at, caveat) in caveats.iter().enumerate() {
            let unknown = || MacaroonError::Caveat { number: at + 1 };
            let text = std::str::from_utf8(caveat).map_err(|_| unknown())?;
            let (kind, value) = text.split_once(':').ok_or_else(unknown)?;
            match kind {
                // The node writes the name first. A later one is a holder's own idea of a name, and harmless.
                "name" if at == 0 => left.name = Some(value.to_owned()),
                "name" => {}
                "activity" => {
                    let activities = Activities::parse(value).ok_or_else(unknown)?;
                    looks.get_or_insert(activities.contains(Activities::READ_METADATA));
                    left.activities = Some(left.activities.map_or(activities, |all| all & activities));
                }
                "path" => {
                    let path = value.starts_with('/').then(|| RelPath::parse(value.as_bytes()).ok()).flatten();
                    left.narrow(path.ok_or_else(unknown)?)?;
                }
                // As dCache has it: addresses and prefixes with commas between them.
                "ip" => left.from.push(value.split(',').map(prefix).collect::<Option<_>>().ok_or_else(unknown)?),
                "before" => {
                    let before = value.parse::<Timestamp>().map_err(|_| unknown())?.as_second();
                    left.before = Some(left.before.map_or(before, |all| all.min(before)));
                }
                _ => return Err(unknown()),
            }
        }
        if left.activities.is_some_and(Activities::is_empty) {
            return Err(MacaroonError::Nothing { what: "activity" });
        }
        if looks == Some(true) {
            left.activities = left.activities.map(|activities| activities | Activities::READ_METADATA);
        }
        Ok(left)
    }

    /// All paths must hold: the deepest counts, and paths beside each other leave nothing.
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
