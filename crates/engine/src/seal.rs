//! Sealed records: AEAD over a stream's records under keys that only the two ends of the session's TLS connection have.
//!
//! # Key and nonce discipline
//!
//! The session's TLS 1.3 connection exports a 32-byte secret (RFC 8446, section 7.5). Everything else is HMAC-SHA-256
//! of a label under it: the code that lets a stream join, and one AEAD key for every (stream, direction, epoch). A
//! stream's number is never used twice in a session, a direction has one sender, and an epoch is 2^18 records, so a
//! key seals exactly one run of at most 2^18 records, and the nonce is the number of the record in its stream.
//! No nonce is used twice under a key. At 1 MiB a record, a key seals at most 256 GiB, 2^34 AES blocks: below the
//! 2^34.5 that RFC 8446 (section 5.5) allows a TLS key. The draft of AEGIS-128L bounds neither so few records nor so many
//! bytes (draft-irtf-cfrg-aegis-aead, section 9).
//!
//! A record's head is authenticated with it, so that its length cannot be changed. Records of one stream arrive in order
//! (TCP) or not at all; one that is missing, repeated or swapped does not open.

mod record_key;
mod suites;

use aws_lc_rs::hmac;
use wire::frame::Suite;
use wire::join::{Join, SessionId};

use self::record_key::RecordKey;
pub use self::suites::{is_accepted, objection, suites};

/// Bytes that sealing adds to a record.
pub const TAG_BYTES: usize = 16;
/// Records under one key, as a power of two.
const EPOCH_BITS: u32 = 18;

/// The label under which TLS exports a session's secret (RFC 5705: experimental labels carry this prefix).
pub const EXPORT_LABEL: &[u8] = b"EXPERIMENTAL longhaul session";

/// A session's exported secret.
#[derive(Clone)]
pub struct Secret {
    key: hmac::Key,
    exported: [u8; 32],
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The end that seals a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealingEnd {
    /// The end that dialled.
    Client = 0,
    /// The end that listened.
    Node = 1,
}

impl SealingEnd {
    /// The other end.
    pub fn other(self) -> SealingEnd {
        match self {
            SealingEnd::Client => SealingEnd::Node,
            SealingEnd::Node => SealingEnd::Client,
        }
    }
}

impl Secret {
    /// A secret of exported bytes.
    pub fn new(exported: &[u8; 32]) -> Secret {
        Secret { key: hmac::Key::new(hmac::HMAC_SHA256, exported), exported: *exported }
    }

    /// The exported bytes. They may be sent only to a mover of the same node, over TLS.
    pub fn expose(&self) -> &[u8; 32] {
        &self.exported
    }

    /// The secret of a delegated session, which carries a part of this session's streams. This secret, and that of another delegated
    /// session, cannot be computed from it.
    pub fn delegated(&self, session: &SessionId) -> Secret {
        Secret::new(&self.derive(b"lent ", session))
    }

    fn derive(&self, label: &[u8], parts: &[u8]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(label);
        context.update(parts);
        let mut out = [0; 32];
        out.copy_from_slice(context.sign().as_ref());
        out
    }

    /// Fills in the code that lets a stream join.
    pub fn sign_join(&self, join: &mut Join) {
        join.code = self.derive(b"join ", &join.covered());
    }

    /// Whether the code is right. Compares in constant time.
    pub fn verify_join(&self, join: &Join) -> bool {
        let mut message = b"join ".to_vec();
        message.extend_from_slice(&join.covered());
        hmac::verify(&self.key, &message, &join.code).is_ok()
    }

    fn key(&self, suite: Suite, stream: u32, from: SealingEnd, epoch: u64) -> Option<RecordKey> {
        let mut parts = [0; 14];
        parts[..4].copy_from_slice(&stream.to_be_bytes());
        parts[4] = from as u8;
        parts[5] = match suite {
            Suite::Aes128Gcm => 1,
            Suite::ChaCha20Poly1305 => 2,
            Suite::Aegis128L => 3,
        };
        parts[6..].copy_from_slice(&epoch.to_be_bytes());
        RecordKey::new(suite, &self.derive(b"record key ", &parts))
    }
}

/// One direction of one stream: seals or opens records in order.
pub struct Sealer {
    secret: Secret,
    suite: Suite,
    stream: u32,
    from: SealingEnd,
    number: u64,
    key: Option<RecordKey>,
}

/// A record that does not open, or a key that could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSeal;

impl Sealer {
    /// A sealer for the records that `from` sends on a stream.
    pub fn new(secret: Secret, suite: Suite, stream: u32, from: SealingEnd) -> Sealer {
        Sealer { secret, suite, stream, from, number: 0, key: None }
    }

    /// The key and the number of the next record.
    fn next(&mut self) -> Result<(&RecordKey, u64), BadSeal> {
        let number = self.number;
        if number & ((1 << EPOCH_BITS) - 1) == 0 {
            self.key = self.secret.key(self.suite, self.stream, self.from, number >> EPOCH_BITS);
        }
        self.number = number.checked_add(1).ok_or(BadSeal)?;
        Ok((self.key.as_ref().ok_or(BadSeal)?, number))
    }

    /// Seals a record's body in place and returns its tag.
    ///
    /// # Errors
    /// The key cannot be made, or all record numbers are used.
    pub fn seal(&mut self, head: &[u8], body: &mut [u8]) -> Result<[u8; TAG_BYTES], BadSeal> {
        let (key, number) = self.next()?;
        key.seal(number, head, body)
    }

    /// Opens a record's body in place; the tag follows it.
    ///
    /// # Errors
    /// The record was damaged, forged, or is not the next one of its stream.
    pub fn open(&mut self, head: &[u8], body_and_tag: &mut [u8]) -> Result<(), BadSeal> {
        let (key, number) = self.next()?;
        key.open(number, head, body_and_tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(suite: Suite) -> (Sealer, Sealer) {
        let secret = Secret::new(&[7; 32]);
        let make = || Sealer::new(secret.clone(), suite, 3, SealingEnd::Client);
        (make(), make())
    }

    fn sealed(sealer: &mut Sealer, text: &[u8]) -> Vec<u8> {
        let mut body = text.to_vec();
        let tag = sealer.seal(b"head", &mut body).unwrap();
        body.extend_from_slice(&tag);
        body
    }

    #[test]
    fn records_open_in_order_only() {
        for suite in [Suite::Aes128Gcm, Suite::ChaCha20Poly1305, Suite::Aegis128L] {
            let (mut near, mut far) = pair(suite);
            let mut first = sealed(&mut near, b"one");
            let second = sealed(&mut near, b"two");
            assert_ne!(&first[..3], b"one");
            assert_eq!(far.open(b"head", &mut first), Ok(()));
            assert_eq!(&first[..3], b"one");
            let mut skipped = pair(suite).1;
            assert_eq!(skipped.open(b"head", &mut second.clone()), Err(BadSeal));
            assert_eq!(far.open(b"bent", &mut second.clone()), Err(BadSeal));
        }
    }

    #[test]
    fn directions_and_streams_have_their_own_keys() {
        let secret = Secret::new(&[7; 32]);
        let mut record = sealed(&mut Sealer::new(secret.clone(), Suite::Aes128Gcm, 1, SealingEnd::Client), b"x");
        for (stream, from) in [(1, SealingEnd::Node), (2, SealingEnd::Client)] {
            let mut other = Sealer::new(secret.clone(), Suite::Aes128Gcm, stream, from);
            assert_eq!(other.open(b"head", &mut record.clone()), Err(BadSeal));
        }
        assert!(Sealer::new(secret, Suite::Aes128Gcm, 1, SealingEnd::Client).open(b"head", &mut record).is_ok());
    }

    #[test]
    fn the_key_changes_with_the_epoch() {
        let (mut near, mut far) = pair(Suite::Aes128Gcm);
        near.number = (1 << EPOCH_BITS) - 1;
        near.key = near.secret.key(near.suite, near.stream, near.from, 0);
        far.number = near.number;
        far.key = far.secret.key(far.suite, far.stream, far.from, 0);
        for _ in 0..2 {
            let mut record = sealed(&mut near, b"x");
            assert_eq!(far.open(b"head", &mut record), Ok(()));
        }
        assert_eq!(near.number >> EPOCH_BITS, 1);
    }

    /// A join of one session is refused by another: otherwise an attacker could replay it at a second node, and two nodes
    /// would seal different records under the same keys.
    #[test]
    fn a_delegated_session_has_its_own_keys() {
        let secret = Secret::new(&[1; 32]);
        let delegated = secret.delegated(&[5; 16]);
        let mut join = Join { session: [5; 16], stream: 1, sealed: true, code: [0; 32] };
        delegated.sign_join(&mut join);
        assert!(delegated.verify_join(&join) && secret.delegated(&[5; 16]).verify_join(&join), "both ends derive it");
        assert!(!secret.verify_join(&join) && !secret.delegated(&[6; 16]).verify_join(&join));
        let seal =
            |secret: &Secret| sealed(&mut Sealer::new(secret.clone(), Suite::Aes128Gcm, 1, SealingEnd::Node), b"x");
        let sealed = [seal(&secret), seal(&delegated), seal(&secret.delegated(&[6; 16]))];
        assert!(sealed[0] != sealed[1] && sealed[1] != sealed[2] && sealed[0] != sealed[2]);
    }

    #[test]
    fn a_join_is_checked() {
        let secret = Secret::new(&[1; 32]);
        let mut join = Join { session: [5; 16], stream: 1, sealed: true, code: [0; 32] };
        assert!(!secret.verify_join(&join));
        secret.sign_join(&mut join);
        assert!(secret.verify_join(&join));
        join.sealed = false;
        assert!(!secret.verify_join(&join));
        assert!(!Secret::new(&[2; 32]).verify_join(&join));
    }
}
