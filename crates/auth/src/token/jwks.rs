//! The public keys of an issuer (RFC 7517): read within bounds, found by name and algorithm.
//!
//! Does not know where they come from. Symmetric keys (`oct`) are never kept, so that no token can be verified with one.

use std::fmt;

use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;

use super::error::{TokenError, shown};
use crate::limits::{JWKS_BYTES, JWKS_KEYS};

/// The public keys of an issuer.
#[derive(Clone, Default)]
pub struct Jwks {
    keys: Vec<Key>,
}

/// A key that can verify signatures.
#[derive(Clone)]
struct Key {
    kid: String,
    kind: Kind,
    /// The one algorithm that its publisher restricts it to.
    alg: Option<String>,
    key: DecodingKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rsa,
    P256,
    P384,
    Ed25519,
}

/// Why a set of keys is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwksError {
    /// Too long.
    #[error("the key set has {bytes} bytes, more than the {JWKS_BYTES} that are read")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Too many keys.
    #[error("the key set has {0} keys, more than the {JWKS_KEYS} that are read")]
    TooMany(usize),
    /// Not a key set.
    #[error("this is not a JWK set (RFC 7517): an object with a list \"keys\" is expected")]
    Malformed,
    /// Nothing in it can be used.
    #[error(
        "none of the {0} keys of the set can check a signature here (RSA, P-256, P-384 and Ed25519 with a kid can)"
    )]
    Nothing(usize),
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Jwk {
    /// The key, if it can verify signatures here.
    fn usable(self) -> Option<Key> {
        let verifies = |ops: &Vec<String>| ops.iter().any(|op| op == "verify");
        if self.purpose.is_some_and(|purpose| purpose != "sig") || self.key_ops.as_ref().is_some_and(|o| !verifies(o)) {
            return None;
        }
        let (kind, key) = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => (Kind::Rsa, DecodingKey::from_rsa_components(&self.n?, &self.e?)),
            ("EC", Some("P-256")) => (Kind::P256, DecodingKey::from_ec_components(&self.x?, &self.y?)),
            ("EC", Some("P-384")) => (Kind::P384, DecodingKey::from_ec_components(&self.x?, &self.y?)),
            ("OKP", Some("Ed25519")) => (Kind::Ed25519, DecodingKey::from_ed_components(&self.x?)),
            _ => return None,
        };
        Some(Key { kid: self.kid?, kind, alg: self.alg, key: key.ok()? })
    }
}

impl Key {
    fn fits(&self, algorithm: Algorithm) -> bool {
        let kind = match algorithm {
            Algorithm::RS256 | Algorithm::RS384 | Algorithm::RS512 => Kind::Rsa,
            Algorithm::PS256 | Algorithm::PS384 | Algorithm::PS512 => Kind::Rsa,
            Algorithm::ES256 => Kind::P256,
            Algorithm::ES384 => Kind::P384,
            Algorithm::EdDSA => Kind::Ed25519,
            // Algorithms with a shared secret, and those of a later version of the library, have no key.
            _ => return false,
        };
        self.kind == kind && self.alg.as_ref().is_none_or(|alg| *alg == format!("{algorithm:?}"))
    }
}

impl Jwks {
    /// Parses a set. Keys of unknown types, for encryption, or without a name are skipped.
    ///
    /// # Errors
    /// [`JwksError`]: the text is too long or no set, or the set has too many keys or none that can be used.
    pub fn parse(bytes: &[u8]) -> Result<Jwks, JwksError> {
        if bytes.len() > JWKS_BYTES {
            return Err(JwksError::TooLong { bytes: bytes.len() });
        }
        let set: Set = serde_json::from_slice(bytes).map_err(|_| JwksError::Malformed)?;
        let all = set.keys.len();
        if all > JWKS_KEYS {
            return Err(JwksError::TooMany(all));
        }
        let usable = |value| serde_json::from_value::<Jwk>(value).ok().and_then(Jwk::usable);
        let keys: Vec<Key> = set.keys.into_iter().filter_map(usable).collect();
        if keys.is_empty() {
            return Err(JwksError::Nothing(all));
        }
        Ok(Jwks { keys })
    }

    /// Whether the set has a key of this name. The caller asks this of an old set before it fetches a new one.
    pub fn has_key(&self, kid: &str) -> bool {
        self.keys.iter().any(|key| key.kid == kid)
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The one key of this name for this algorithm.
    pub(super) fn find(&self, kid: &str, algorithm: Algorithm) -> Result<&DecodingKey, TokenError> {
        if !self.has_key(kid) {
            return Err(TokenError::UnknownKid(shown(kid)));
        }
        let mut fitting = self.keys.iter().filter(|key| key.kid == kid && key.fits(algorithm));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Ok(&key.key),
            (Some(_), Some(_)) => Err(TokenError::AmbiguousKid(shown(kid))),
            (None, _) => Err(TokenError::KeyMismatch(shown(kid))),
        }
    }
}

impl fmt::Debug for Jwks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| (&key.kid, key.kind))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_of_a_set_are_skipped() {
        let set = br#"{"keys":[{"kty":"oct","k":"AAAA","kid":"s"},{"kty":"LMS","kid":"l"},{"kty":1},7,
            {"kty":"RSA","kid":"e","use":"enc","n":"AQAB","e":"AQAB"},{"kty":"RSA","n":"AQAB","e":"AQAB"},
            {"kty":"RSA","kid":"r","alg":"RS256","n":"AQAB","e":"AQAB","x5c":["x"]}]}"#;
        let jwks = Jwks::parse(set).unwrap();
        assert_eq!((jwks.len(), jwks.has_key("r"), jwks.has_key("s")), (1, true, false));
        assert!(jwks.find("r", Algorithm::RS256).is_ok());
        assert_eq!(jwks.find("r", Algorithm::PS256).err(), Some(TokenError::KeyMismatch("r".into())));
        assert_eq!(jwks.find("r", Algorithm::HS256).err(), Some(TokenError::KeyMismatch("r".into())));
        assert_eq!(jwks.find("s", Algorithm::HS256).err(), Some(TokenError::UnknownKid("s".into())));
    }

    #[test]
    fn sets_are_bounded() {
        let many = format!("{{\"keys\":[{}7]}}", "7,".repeat(JWKS_KEYS));
        assert_eq!(Jwks::parse(many.as_bytes()).err(), Some(JwksError::TooMany(JWKS_KEYS + 1)));
        assert_eq!(Jwks::parse(&vec![b' '; JWKS_BYTES + 1]).err(), Some(JwksError::TooLong { bytes: JWKS_BYTES + 1 }));
        assert_eq!(Jwks::parse(b"{\"keys\":[7]}").err(), Some(JwksError::Nothing(1)));
        assert_eq!(Jwks::parse(b"[]").err(), Some(JwksError::Malformed));
    }
}
