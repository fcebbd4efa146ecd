//! Accepts clients that send an address in brackets as the server name of TLS: davix, and so gfal2 and xrdcp, for `https://[::1]`.
//! No address is allowed there (RFC 6066, section 3), and rustls ends such a handshake.
//!
//! For these clients alone the name is replaced by letters before rustls reads it, and restored where rustls hashes the transcript,
//! since the client has signed its own spelling. Nothing else of the handshake is changed. A client that gets a HelloRetryRequest, or
//! that shows a certificate over TLS 1.2, is refused as before.

use std::sync::{Arc, LazyLock};

use rustls::crypto::{CryptoProvider, hash};
use rustls::{CipherSuiteCommon, SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};

/// The record of a handshake, and the message that begins it (RFC 8446, sections 5.1 and 4).
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
/// Bytes in front of a record's payload.
pub(super) const RECORD_HEAD_BYTES: usize = 5;
/// The letter that replaces each bracket or colon: none of them is a hexadecimal digit.
const SPELLING: [(u8, u8); 3] = [(b'[', b'l'), (b':', b'o'), (b']', b'r')];

/// Replaces the server name in a record that holds a whole ClientHello if the name is an address in brackets. Returns whether it is.
pub(super) fn rewrite_name(record: &mut [u8]) -> bool {
    let Some((HANDSHAKE, message)) = record.split_at_mut_checked(RECORD_HEAD_BYTES).map(|(head, rest)| (head[0], rest))
    else {
        return false;
    };
    let Some(name) = server_name(message).filter(|name| is_bracketed(&message[name.clone()])) else { return false };
    translate(&mut message[name], |(written, spelt)| (written, spelt));
    true
}

/// The message with its original name, if the name was rewritten.
fn with_original_name(message: &[u8]) -> Option<Vec<u8>> {
    let name = server_name(message)?;
    let mut message = message.to_vec();
    translate(&mut message[name.clone()], |(written, spelt)| (spelt, written));
    is_bracketed(&message[name]).then_some(message)
}

fn translate(name: &mut [u8], pair: impl Fn((u8, u8)) -> (u8, u8)) {
    for byte in name {
        if let Some((_, to)) = SPELLING.iter().map(|one| pair(*one)).find(|(from, _)| from == byte) {
            *byte = to;
        }
    }
}

fn is_bracketed(name: &[u8]) -> bool {
    let inner = name.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    inner.is_some_and(|inner| !inner.is_empty() && inner.iter().all(|b| b.is_ascii_hexdigit() || b":.".contains(b)))
}

/// Reads a message from its front.
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn number(&mut self, bytes: usize) -> Option<usize> {
        let digits = self.message.get(self.at..self.at + bytes)?;
        self.at += bytes;
        Some(digits.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Skips a vector that is preceded by its length.
    fn skip(&mut self, length_bytes: usize) -> Option<()> {
        let length = self.number(length_bytes)?;
        self.at += length;
        Some(())
    }
}

/// The range of the server's name in a ClientHello (RFC 8446, section 4.1.2; RFC 6066, section 3).
fn server_name(message: &[u8]) -> Option<std::ops::Range<usize>> {
    let mut reader = Reader { message, at: 0 };
    if reader.number(1)? != usize::from(CLIENT_HELLO) {
        return None;
    }
    let length = reader.number(3)?;
    if reader.at + length > message.len() {
        return None;
    }
    // Version and random.
    reader.at += 34;
    reader.skip(1)?;
    reader.skip(2)?;
    reader.skip(1)?;
    let extensions = reader.number(2)?;
    let end = (reader.at + extensions).min(message.len());
    while reader.at < end {
        let (kind, length) = (reader.number(2)?, reader.number(2)?);
        if kind != 0 {
            reader.at += length;
            continue;
        }
        let (_list, name_type, name) = (reader.number(2)?, reader.number(1)?, reader.number(2)?);
        let range = reader.at..reader.at.checked_add(name)?;
        return (name_type == 0 && range.end <= end).then_some(range);
    }
    None
}

/// The provider `base` with other hashes: each restores the original name in the ClientHello that it hashes.
pub(super) fn provider(base: &CryptoProvider) -> Arc<CryptoProvider> {
    static SUITES: LazyLock<parking_lot::Mutex<Vec<(rustls::CipherSuite, SupportedCipherSuite)>>> =
        LazyLock::new(Default::default);
    let mut known = SUITES.lock();
    let mut replacement = |suite: &SupportedCipherSuite| match known.iter().find(|(id, _)| *id == suite.suite()) {
        Some((_, made)) => *made,
        None => {
            let made = restoring_suite(*suite);
            known.push((suite.suite(), made));
            made
        }
    };
    let cipher_suites = base.cipher_suites.iter().map(&mut replacement).collect();
    Arc::new(CryptoProvider { cipher_suites, ..base.clone() })
}

/// The suite with a hash that restores the original name. rustls requires suites with a static lifetime; there are nine of them,
/// created once.
fn restoring_suite(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let common = |common: &CipherSuiteCommon| CipherSuiteCommon {
        suite: common.suite,
        hash_provider: Box::leak(Box::new(RestoringHash(common.hash_provider))),
        confidentiality_limit: common.confidentiality_limit,
    };
    match suite {
        SupportedCipherSuite::Tls12(suite) => SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite {
            common: common(&suite.common),
            ..*suite
        }))),
        SupportedCipherSuite::Tls13(suite) => SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
            common: common(&suite.common),
            ..*suite
        }))),
    }
}

struct RestoringHash(&'static dyn hash::Hash);

impl hash::Hash for RestoringHash {
    fn start(&self) -> Box<dyn hash::Context> {
        Box::new(RestoringContext(self.0.start()))
    }

    fn hash(&self, data: &[u8]) -> hash::Output {
        self.0.hash(data)
    }

    fn output_len(&self) -> usize {
        self.0.output_len()
    }

    fn algorithm(&self) -> hash::HashAlgorithm {
        self.0.algorithm()
    }
}

struct RestoringContext(Box<dyn hash::Context>);

impl hash::Context for RestoringContext {
    fn fork_finish(&self) -> hash::Output {
        self.0.fork_finish()
    }

    fn fork(&self) -> Box<dyn hash::Context> {
        Box::new(RestoringContext(self.0.fork()))
    }

    fn finish(self: Box<Self>) -> hash::Output {
        self.0.finish()
    }

    fn update(&mut self, data: &[u8]) {
        match with_original_name(data) {
            Some(message) => self.0.update(&message),
            None => self.0.update(data),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A record with a ClientHello to that name.
    fn hello(name: &[u8]) -> Vec<u8> {
        let length = |bytes: usize, length: usize| length.to_be_bytes()[8 - bytes..].to_vec();
        let entry = [&[0][..], &length(2, name.len()), name].concat();
        let list = [length(2, entry.len()), entry].concat();
        let server_name = [vec![0, 0], length(2, list.len()), list].concat();
        let other = [0, 43, 0, 3, 2, 3, 4];
        let extensions = [&other[..], &server_name].concat();
        let body = [
            vec![3, 3],
            vec![7; 32],
            vec![2, 1, 1],
            vec![0, 2, 0x13, 1],
            vec![1, 0],
            length(2, extensions.len()),
            extensions,
        ]
        .concat();
        let message = [vec![CLIENT_HELLO], length(3, body.len()), body].concat();
        [vec![HANDSHAKE, 3, 1], length(2, message.len()), message].concat()
    }

    #[test]
    fn a_bracketed_address_is_rewritten_and_restored() {
        for name in [&b"[::1]"[..], b"[fe80::1:2]", b"[::ffff:192.0.2.7]"] {
            let mut record = hello(name);
            assert!(rewrite_name(&mut record));
            let spelt = &record[server_name(&record[5..]).map(|at| at.start + 5..at.end + 5).unwrap()];
            assert!(rustls::pki_types::DnsName::try_from(spelt).is_ok(), "{}", String::from_utf8_lossy(spelt));
            assert_eq!(with_original_name(&record[5..]).unwrap(), hello(name)[5..]);
        }
    }

    #[test]
    fn a_name_without_brackets_stays_as_it_is() {
        for name in [&b"node.example.org"[..], b"::1", b"[node]", b"[]", b"192.0.2.7", b"looser"] {
            let mut record = hello(name);
            assert!(!rewrite_name(&mut record), "{}", String::from_utf8_lossy(name));
            assert_eq!(record, hello(name));
        }
        assert!(with_original_name(&hello(b"looser")[5..]).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(mut bytes: Vec<u8>, at in 0usize..90, byte: u8) {
            rewrite_name(&mut bytes);
            with_original_name(&bytes);
            let mut damaged = hello(b"[::1]");
            let at = at % damaged.len();
            damaged[at] = byte;
            rewrite_name(&mut damaged);
        }
    }
}
