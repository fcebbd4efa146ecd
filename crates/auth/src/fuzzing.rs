//! Where strangers' bytes come in, as plain functions: the property tests run them in every `make test`, cargo-fuzz
//! (`fuzz/` at the root of the workspace) for as long as one likes.
//!
//! Each takes any bytes and must come back: no panic, and nobody is let in who was not.

use crate::macaroon::{self, MacaroonRequest};
use crate::policy::{DistinguishedName, Issuer, Policy};
use crate::token::{self, Jwks};

/// An RSA key whose other half nobody has.
const JWKS: &[u8] = br#"{"keys":[{"kty":"RSA","kid":"k","n":"AQAB","e":"AQAB"}]}"#;

/// A token, the claims of one, and a set of keys.
pub fn token(bytes: &[u8]) {
    let _ = Jwks::parse(bytes);
    let issuer = Issuer { iss: "https://issuer.example".into(), ..Issuer::default() };
    let audiences = ["https://node.example".to_owned()];
    if let Ok(claims) = token::claims_of(bytes, &issuer, &audiences, 1_000) {
        assert!(claims.expires > 1_000, "an expired token was read");
    }
    let (Ok(text), Ok(jwks)) = (std::str::from_utf8(bytes), Jwks::parse(JWKS)) else { return };
    let _ = token::peek(text);
    assert!(token::verify(text, &issuer, &jwks, &audiences, 0).is_err(), "a token was accepted that nobody signed");
}

/// A macaroon, and a request for one.
pub fn macaroon(bytes: &[u8]) {
    for request in [MacaroonRequest::parse(bytes, 60), MacaroonRequest::parse_form(bytes, 60)].into_iter().flatten() {
        assert!(request.validity_seconds <= 60 && !request.activities.is_empty(), "a request beyond its bounds");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let secret = [7; 32];
    let _ = macaroon::is_macaroon(text);
    assert!(macaroon::verify(&secret, text, 0).is_err(), "a macaroon was accepted that nobody made");
    // A good one with any caveat at all never allows more than without it.
    let caveats = ["name:n", "activity:DOWNLOAD,LIST", "path:/d"].map(String::from);
    let good = macaroon::mint(&secret, "l", "u:h", &caveats);
    let narrowed = macaroon::attenuate(&good, text).and_then(|text| macaroon::verify(&secret, &text, 0));
    let (Ok(before), Ok(after)) = (macaroon::verify(&secret, &good, 0), narrowed) else { return };
    assert!(before.actions().contains(after.actions()), "a caveat gave something");
    assert!(after.path.starts_with(&before.path), "a caveat led elsewhere");
}

/// A policy, and a distinguished name.
pub fn policy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = DistinguishedName::parse(text).map(|name| name.to_string());
    if let Err(error) = Policy::parse(text) {
        assert!(!error.to_string().is_empty(), "an error says something");
    }
}
