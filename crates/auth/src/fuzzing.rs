//! The parsers of bytes from peers, as plain functions: the property tests run them in every `make test`, and
//! `make fuzz` (`fuzz/` at the root of the workspace) runs them for a given time.
//!
//! Each function takes any bytes and must not panic. No bytes may give access without a valid secret or signature.

use crate::grants::Grants;
use crate::issuer::Issuer;
use crate::key::{AccessKey, Fingerprint};
use crate::limits::JWKS_KEYS;
use crate::macaroon::{self, MacaroonRequest};
use crate::policy::{DistinguishedName, Policy};
use crate::token::{self, Jwks};
use crate::x509::{self, Authorities, AuthorityDirectory, VomsServers};
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// An RSA public key whose private key nobody has.
const JWKS: &[u8] = br#"{"keys":[{"kty":"RSA","kid":"k","n":"AQAB","e":"AQAB"}]}"#;

/// Parses a set of keys.
pub fn jwks(bytes: &[u8]) {
    if let Ok(jwks) = Jwks::parse(bytes) {
        assert!(!jwks.is_empty() && jwks.len() <= JWKS_KEYS, "a set of {} keys", jwks.len());
    }
}

/// Parses and verifies a token, and the claims of one.
pub fn token(bytes: &[u8]) {
    let issuer = Issuer { iss: "https://issuer.example".into(), ..Issuer::default() };
    let audiences = ["https://node.example".to_owned()];
    if let Ok(claims) = token::claims_of(bytes, &issuer, &audiences, 1_000) {
        assert!(claims.expires > 1_000, "an expired token was read");
    }
    let (Ok(text), Ok(jwks)) = (std::str::from_utf8(bytes), Jwks::parse(JWKS)) else { return };
    let _ = token::peek(text);
    assert!(token::verify(text, &issuer, &jwks, &audiences, 0).is_err(), "a token was accepted that nobody signed");
}

/// Parses and verifies a macaroon, and a request for one.
pub fn macaroon(bytes: &[u8]) {
    for request in [MacaroonRequest::parse(bytes, 60), MacaroonRequest::parse_form(bytes, 60)].into_iter().flatten() {
        assert!(request.validity_seconds <= 60 && !request.activities.is_empty(), "a request beyond its bounds");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let secret = [7; 32];
    let _ = macaroon::is_macaroon(text);
    assert!(macaroon::verify(&secret, text, 0).is_err(), "a macaroon was accepted that nobody made");
    // A valid macaroon with any further caveat never allows more than without it.
    let caveats = ["name:n", "activity:DOWNLOAD,LIST", "path:/d"].map(String::from);
    let good = macaroon::mint(&secret, "l", "u:h", &caveats);
    let narrowed = macaroon::attenuate(&good, text).and_then(|text| macaroon::verify(&secret, &text, 0));
    let (Ok(before), Ok(after)) = (macaroon::verify(&secret, &good, 0), narrowed) else { return };
    assert!(before.actions().contains(after.actions()), "a caveat added an action");
    assert!(after.path.starts_with(&before.path), "a caveat allowed another path");
}

/// Parses a policy, and a distinguished name.
pub fn policy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = DistinguishedName::parse(text).map(|name| name.to_string());
    if let Err(error) = Policy::parse(text) {
        assert!(!error.to_string().is_empty(), "an error says something");
    }
}

/// Verifies a chain of certificates, each behind its length in two bytes, and parses the same bytes as a list of VOMS servers, and as files of a directory of authorities.
pub fn certificates(bytes: &[u8]) {
    let mut rest = bytes;
    let mut chain = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let (one, after) = after.split_at(after.len().min(usize::from(u16::from_be_bytes(*length))));
        chain.push(CertificateDer::from(one));
        rest = after;
    }
    let mut voms = VomsServers::default();
    if std::str::from_utf8(bytes).is_ok_and(|text| voms.add("vo", text).is_ok()) {
        assert!(!voms.is_empty(), "a list without a server");
    }
    let mut directory = AuthorityDirectory::default();
    ["x.0", "x.r0", "x.signing_policy"].iter().for_each(|name| drop(directory.add(name, bytes)));
    let authorities = Authorities { voms, ..Authorities::new(Arc::new(rustls::RootCertStore::empty())) };
    assert!(
        x509::verify(&chain, &authorities, 1_780_000_000).is_err(),
        "a chain was accepted that no authority signed"
    );
    chain.iter().for_each(|one| drop((x509::subject(one), x509::public_key(one))));
    // The attributes in a proxy, without the signatures around them.
    x509::fuzz_attributes(bytes);
}

/// Parses an access key, and a fingerprint.
pub fn key(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(key) = text.parse::<AccessKey>() {
        assert_eq!(key.expose_text(), text.trim(), "a key has one form");
    }
    if let Ok(found) = text.parse::<Fingerprint>() {
        assert_eq!(found.to_string(), text, "a fingerprint has one form");
    }
}

/// Parses the grants of a node, in the form of its state directory.
pub fn grants(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(grants) = toml::from_str::<Grants>(text) else { return };
    let written = toml::to_string(&grants);
    assert!(written.is_ok_and(|text| toml::from_str(&text).as_ref() == Ok(&grants)), "grants are parsed differently");
    for grant in &grants.list {
        let _ = grant.prefix_path();
        let [with, without] = [true, false].map(|delete| grant.allows_transfer("job", None, delete));
        assert!(!with || without, "a grant that may remove may also write");
    }
    if grants.check(&[7; 8], &[9; 32], 1_000).is_ok() {
        let hash = crate::grant::hex(&Sha256::digest([9; 32]));
        assert!(grants.list.iter().any(|grant| grant.secret_sha256 == hash), "a secret was accepted that no grant has");
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    const GRANT: &str = "[[grant]]\nid = \"0707070707070707\"\nexport = \"data\"\nrights = \"read\"\ncreated = 1\n\
        secret_sha256 = \"00\"\n[grant.errand]\njob = \"j\"\nparent = \"p\"\ndelete = true\n";

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in vec(any::<u8>(), 0..200)) {
            super::key(&bytes);
            super::grants(&bytes);
            super::jwks(&bytes);
            super::certificates(&bytes);
        }

        #[test]
        fn changed_grants_are_parsed_or_refused(at in 0..GRANT.len(), to in "[\\[\\]\"=.a-z0-9\n-]{0,3}", cut in 0..3usize) {
            let mut text = GRANT.to_owned();
            text.replace_range(at..(at + cut).min(GRANT.len()), &to);
            super::grants(text.as_bytes());
        }

        #[test]
        fn text_like_a_key_is_parsed_or_refused(text in "(lhk1_|SHA256:)[A-Za-z0-9_-]{40,105}") {
            super::key(text.as_bytes());
        }

        #[test]
        fn text_like_a_key_set_is_parsed_or_refused(keys in vec("\\{\"kty\":\"(RSA|EC|OKP)\",\"kid\":\"k\",\"crv\":\"(P-256|P-384|Ed25519)\",\"(n|x)\":\"[A-Z]{0,9}\",\"(e|y)\":\"AQAB\"\\}", 0..4)) {
            super::jwks(format!("{{\"keys\":[{}]}}", keys.join(",")).as_bytes());
        }
    }
}
