//! Marks: short hashes by which a macaroon refers to a rule or an issuer. Does not know either.

use model::hex::encode as hex;
use sha2::{Digest, Sha256};

/// A short hash of a text: the first 8 bytes of its SHA-256, hexadecimal.
pub(crate) fn mark(text: &str) -> String {
    hex(&Sha256::digest(text)[..8])
}
