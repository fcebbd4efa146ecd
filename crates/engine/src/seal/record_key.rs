//! The keys of records: the AEADs behind the suites, each with its key, nonce and tag.

use aegis::aegis128l::Aegis128L;
use aws_lc_rs::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use wire::frame::Suite;

use super::{BadSeal, TAG_BYTES};

/// A key that seals the records of one epoch.
pub(super) enum RecordKey {
    /// AES-128-GCM or ChaCha20-Poly1305.
    AwsLc(LessSafeKey),
    Aegis128L([u8; 16]),
}

impl RecordKey {
    /// The key of a suite from derived bytes; none if the library does not accept it.
    pub fn new(suite: Suite, derived: &[u8; 32]) -> Option<RecordKey> {
        let algorithm = match suite {
            Suite::Aes128Gcm => &AES_128_GCM,
            Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Suite::Aegis128L => return derived.first_chunk().copied().map(RecordKey::Aegis128L),
        };
        let key = UnboundKey::new(algorithm, derived.get(..algorithm.key_len())?).ok()?;
        Some(RecordKey::AwsLc(LessSafeKey::new(key)))
    }

    /// Seals the body of the record of this number in place, and returns its tag.
    ///
    /// # Errors
    /// The body is longer than a key may seal at once.
    pub fn seal(&self, number: u64, head: &[u8], body: &mut [u8]) -> Result<[u8; TAG_BYTES], BadSeal> {
        match self {
            RecordKey::AwsLc(key) => {
                let nonce = Nonce::assume_unique_for_key(nonce(number));
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(head), body).map_err(|_| BadSeal)?;
                tag.as_ref().try_into().map_err(|_| BadSeal)
            }
            RecordKey::Aegis128L(key) => {
                Ok(Aegis128L::<TAG_BYTES>::new(key, &nonce(number)).encrypt_in_place(body, head))
            }
        }
    }

    /// Opens the body of the record of this number in place; the tag follows it.
    ///
    /// # Errors
    /// The record was damaged or forged.
    pub fn open(&self, number: u64, head: &[u8], body_and_tag: &mut [u8]) -> Result<(), BadSeal> {
        match self {
            RecordKey::AwsLc(key) => {
                let nonce = Nonce::assume_unique_for_key(nonce(number));
                key.open_in_place(nonce, Aad::from(head), body_and_tag).map(drop).map_err(|_| BadSeal)
            }
            RecordKey::Aegis128L(key) => {
                let (body, tag) = body_and_tag.split_last_chunk_mut().ok_or(BadSeal)?;
                let opener = Aegis128L::<TAG_BYTES>::new(key, &nonce(number));
                opener.decrypt_in_place(body, tag, head).map_err(|_| BadSeal)
            }
        }
    }
}

/// The nonce of a record: zeros, and its number.
fn nonce<const BYTES: usize>(number: u64) -> [u8; BYTES] {
    let mut nonce = [0; BYTES];
    if let Some(end) = nonce.last_chunk_mut() {
        *end = number.to_be_bytes();
    }
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        model::hex::decode(hex).unwrap()
    }

    /// Test vectors of draft-irtf-cfrg-aegis-aead, appendix A.2: key, nonce and associated data, plain text, cipher text, tag of 128 bits.
    #[test]
    fn aegis_128l_is_that_of_the_draft() {
        let vectors = [
            (
                "",
                "00000000000000000000000000000000",
                "c1c0e58bd913006feba00f4b3cc3594e",
                "abe0ece80c24868a226a35d16bdae37a",
            ),
            ("", "", "", "c2b879a67def9d74e6c14f708bbcc9b4"),
            (
                "0001020304050607",
                "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
                "79d94593d8c2119d7e8fd9b8fc77845c5c077a05b2528b6ac54b563aed8efe84",
                "cc6f3372f6aa1bb82388d695c3962d9a",
            ),
            (
                "0001020304050607",
                "000102030405060708090a0b0c0d",
                "79d94593d8c2119d7e8fd9b8fc77",
                "5c04b3dba849b2701effbe32c7f0fab7",
            ),
        ];
        let key = bytes("10010000000000000000000000000000").try_into().unwrap();
        let nonce = bytes("10000200000000000000000000000000").try_into().unwrap();
        for (associated, plain, sealed, tag) in vectors {
            let mut body = bytes(plain);
            let made = Aegis128L::<TAG_BYTES>::new(&key, &nonce).encrypt_in_place(&mut body, &bytes(associated));
            assert_eq!((body.as_slice(), made.as_slice()), (bytes(sealed).as_slice(), bytes(tag).as_slice()));
        }
    }

    #[test]
    fn a_nonce_ends_with_the_number_of_the_record() {
        assert_eq!(nonce(0x0102), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(nonce(0x0102), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn a_damaged_record_does_not_open() {
        for suite in [Suite::Aes128Gcm, Suite::ChaCha20Poly1305, Suite::Aegis128L] {
            let key = RecordKey::new(suite, &[7; 32]).unwrap();
            let mut record = b"payload".to_vec();
            let tag = key.seal(5, b"head", &mut record).unwrap();
            record.extend_from_slice(&tag);
            for at in 0..record.len() {
                let mut damaged = record.clone();
                damaged[at] ^= 1;
                assert_eq!(key.open(5, b"head", &mut damaged), Err(BadSeal), "{suite:?}, byte {at}");
            }
            assert_eq!(key.open(5, b"head", &mut record[..10].to_vec()), Err(BadSeal), "shorter than a tag");
            assert_eq!(key.open(6, b"head", &mut record.clone()), Err(BadSeal), "another number");
            assert_eq!(key.open(5, b"head", &mut record), Ok(()));
            assert_eq!(&record[..7], b"payload");
        }
    }
}
