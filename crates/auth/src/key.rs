//! Access keys, which a node's operator gives to users.
//!
//! A key is text that mail and shells leave unchanged: `lhk1_` and the base64url of the grant's id (8 bytes), its secret (32),
//! the fingerprint of the node it belongs to (32) and a CRC-32C, by which a damaged key is found before it is sent.
//! With the fingerprint a client verifies the node before it sends the secret, without an authority.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::checksum::crc32c;
use secrecy::{ExposeSecret, SecretBox};

/// SHA-256 of a node's public key (its certificate's SubjectPublicKeyInfo), like the pins of RFC 7469.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Display for Fingerprint {
    /// `SHA256:` and base64, as ssh shows host keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA256:{}", URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Fingerprint, KeyError> {
        let encoded = text.strip_prefix("SHA256:").ok_or(KeyError::Fingerprint)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| KeyError::Fingerprint)?;
        Ok(Fingerprint(bytes.try_into().map_err(|_| KeyError::Fingerprint)?))
    }
}

/// A key, with its secret.
pub struct AccessKey {
    /// The grant it stands for.
    pub id: [u8; 8],
    /// The node it belongs to.
    pub node: Fingerprint,
    secret: SecretBox<[u8; 32]>,
}

/// Why text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text does not begin with the prefix of keys.
    #[error("an access key starts with {PREFIX}")]
    Prefix,
    /// Characters are missing or wrong.
    #[error("the access key is damaged or incomplete; copy all of it again")]
    Damaged,
    /// Not a fingerprint.
    #[error("a fingerprint is written SHA256: and 43 characters")]
    Fingerprint,
}

const PREFIX: &str = "lhk1_";

impl AccessKey {
    /// A key from its parts.
    pub fn new(id: [u8; 8], secret: [u8; 32], node: Fingerprint) -> AccessKey {
        AccessKey { id, node, secret: SecretBox::new(Box::new(secret)) }
    }

    /// The secret.
    pub fn expose_secret(&self) -> &[u8; 32] {
        self.secret.expose_secret()
    }

    /// The text of the key, for its user. It contains the secret.
    pub fn expose_text(&self) -> String {
        let mut bytes = Vec::with_capacity(76);
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(self.expose_secret());
        bytes.extend_from_slice(&self.node.0);
        let check = crc32c(&bytes);
        bytes.extend_from_slice(&check.to_be_bytes());
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl Clone for AccessKey {
    fn clone(&self) -> AccessKey {
        AccessKey::new(self.id, *self.expose_secret(), self.node)
    }
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessKey").field("id", &self.id).field("node", &self.node).finish_non_exhaustive()
    }
}

impl FromStr for AccessKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<AccessKey, KeyError> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(KeyError::Prefix)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| KeyError::Damaged)?;
        let bytes: [u8; 76] = bytes.try_into().map_err(|_| KeyError::Damaged)?;
        let (mut id, mut secret, mut node, mut check) = ([0; 8], [0; 32], [0; 32], [0; 4]);
        id.copy_from_slice(&bytes[..8]);
        secret.copy_from_slice(&bytes[8..40]);
        node.copy_from_slice(&bytes[40..72]);
        check.copy_from_slice(&bytes[72..]);
        if crc32c(&bytes[..72]) != u32::from_be_bytes(check) {
            return Err(KeyError::Damaged);
        }
        Ok(AccessKey::new(id, secret, Fingerprint(node)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_key_is_read_back_from_its_text(id: [u8; 8], secret: [u8; 32], node: [u8; 32]) {
            let text = AccessKey::new(id, secret, Fingerprint(node)).expose_text();
            let key: AccessKey = format!(" {text}\n").parse().unwrap();
            prop_assert_eq!(key.id, id);
            prop_assert_eq!(key.expose_secret(), &secret);
            prop_assert_eq!(key.node, Fingerprint(node));
            prop_assert_eq!(key.node.to_string().parse::<Fingerprint>(), Ok(Fingerprint(node)));
        }

        #[test]
        fn a_mangled_key_is_refused(at in 5usize..100, to in "[A-Za-z0-9_-]") {
            let text = AccessKey::new([1; 8], [2; 32], Fingerprint([3; 32])).expose_text();
            let mut mangled = text.clone();
            mangled.replace_range(at..at + 1, &to);
            prop_assert_eq!(mangled.parse::<AccessKey>().is_err(), mangled != text);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = text.parse::<AccessKey>();
            let _ = format!("{PREFIX}{text}").parse::<AccessKey>();
        }
    }

    #[test]
    fn the_secret_is_not_shown() {
        let key = AccessKey::new([1; 8], [0xab; 32], Fingerprint([3; 32]));
        assert!(!format!("{key:?}").contains("171"));
    }
}
