//! Signed tokens that are accepted, and forged or malformed ones that are refused.

use std::sync::LazyLock;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaKeyPair,
};
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::actions::Actions;
use crate::issuer::Profile;

const NOW: i64 = 1_800_000_000;
const ISS: &str = "https://issuer.example/";

struct Keys {
    rsa: RsaKeyPair,
    p256: EcdsaKeyPair,
    p384: EcdsaKeyPair,
    ed: Ed25519KeyPair,
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| Keys {
    rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
    p256: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
    p384: EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap(),
    ed: Ed25519KeyPair::generate().unwrap(),
});

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn rsa_jwk() -> Value {
    // RSAPublicKey of 2048 bits: nine bytes of DER, the modulus, five more, and the exponent 65537.
    let der = KEYS.rsa.public_key().as_ref();
    json!({"kty": "RSA", "kid": "rsa", "use": "sig", "n": b64(&der[9..265]), "e": "AQAB"})
}

fn ec_jwk(kid: &str, curve: &str, key: &EcdsaKeyPair) -> Value {
    let point = &key.public_key().as_ref()[1..];
    let (x, y) = point.split_at(point.len() / 2);
    json!({"kty": "EC", "kid": kid, "crv": curve, "x": b64(x), "y": b64(y)})
}

fn set(keys: &[Value]) -> Jwks {
    Jwks::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

fn jwks() -> Jwks {
    let ed = json!({"kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": b64(KEYS.ed.public_key())});
    set(&[rsa_jwk(), ec_jwk("p256", "P-256", &KEYS.p256), ec_jwk("p384", "P-384", &KEYS.p384), ed])
}

fn issuer() -> Issuer {
    Issuer { iss: ISS.into(), ..Issuer::default() }
}

fn audiences() -> Vec<String> {
    vec!["https://node.example:1094".into(), "https://node.example".into()]
}

fn wlcg() -> Value {
    json!({"iss": ISS, "sub": "alice", "jti": "1", "aud": "https://node.example", "wlcg.ver": "1.0", "iat": NOW - 10,
        "nbf": NOW - 10, "exp": NOW + 600, "scope": "openid storage.read:/data storage.create:/data/new"})
}

fn scitoken() -> Value {
    json!({"iss": ISS, "aud": ["x", "ANY"], "ver": "scitoken:2.0", "exp": NOW + 600, "scope": "read:/ write:/home/a"})
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    match value {
        Value::Null => claims.as_object_mut().unwrap().remove(name),
        value => claims.as_object_mut().unwrap().insert(name.into(), value),
    };
    claims
}

fn join(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
    let signature = sign(message.as_bytes());
    format!("{message}.{}", b64(signature))
}

fn rsa(padding: &'static dyn aws_lc_rs::signature::RsaEncoding, message: &[u8]) -> Vec<u8> {
    let mut out = vec![0; KEYS.rsa.public_modulus_len()];
    KEYS.rsa.sign(padding, &SystemRandom::new(), message, &mut out).unwrap();
    out
}

fn ec(key: &EcdsaKeyPair, message: &[u8]) -> Vec<u8> {
    key.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec()
}

fn signed(header: &Value, claims: &Value) -> String {
    join(header, claims, |message| ec(&KEYS.p256, message))
}

fn token(claims: &Value) -> String {
    signed(&json!({"alg": "ES256", "kid": "p256", "typ": "JWT"}), claims)
}

fn check(token: &str) -> Result<Claims, TokenError> {
    verify(token, &issuer(), &jwks(), &audiences(), NOW)
}

fn why(claims: &Value) -> TokenError {
    check(&token(claims)).unwrap_err()
}

#[test]
fn tokens_of_every_supported_algorithm_are_accepted() {
    let header = |alg: &str, kid: &str| json!({"alg": alg, "kid": kid});
    let tokens = [
        join(&header("RS256", "rsa"), &wlcg(), |m| rsa(&RSA_PKCS1_SHA256, m)),
        join(&header("RS512", "rsa"), &wlcg(), |m| rsa(&RSA_PKCS1_SHA512, m)),
        join(&header("PS256", "rsa"), &wlcg(), |m| rsa(&RSA_PSS_SHA256, m)),
        join(&header("ES256", "p256"), &wlcg(), |m| ec(&KEYS.p256, m)),
        join(&header("ES384", "p384"), &wlcg(), |m| ec(&KEYS.p384, m)),
        join(&header("EdDSA", "ed"), &wlcg(), |m| KEYS.ed.sign(m).as_ref().to_vec()),
    ];
    for token in tokens {
        let claims = check(&token).unwrap();
        assert_eq!((claims.subject.as_str(), claims.expires, claims.profile), ("alice", NOW + 600, Profile::Wlcg));
        assert_eq!(claims.capabilities.len(), 2);
        assert_eq!(claims.capabilities[1].actions, Actions::FOR_CREATE);
    }
}

#[test]
fn scitokens_are_accepted() {
    let claims = check(&token(&scitoken())).unwrap();
    assert_eq!((claims.profile, claims.subject.as_str()), (Profile::SciTokens, ""));
    assert_eq!(
        claims.capabilities.iter().map(|c| c.actions).collect::<Vec<_>>(),
        [Actions::FOR_READ, Actions::FOR_MODIFY]
    );
    let only = Issuer { profile: Some(Profile::Wlcg), ..issuer() };
    let refused = verify(&token(&scitoken()), &only, &jwks(), &audiences(), NOW);
    assert_eq!(refused.unwrap_err(), TokenError::Profile);
}

#[test]
fn peeking_trusts_nothing_and_finds_the_issuer() {
    let peeked = peek(&token(&wlcg())).unwrap();
    assert_eq!((peeked.issuer.as_str(), peeked.kid.as_str()), (ISS, "p256"));
}

#[test]
fn a_token_whose_algorithm_does_not_fit_the_key_is_refused() {
    let header = |alg: &str, kid: &str| json!({"alg": alg, "kid": kid});
    let unsigned = |alg: &str| join(&header(alg, "p256"), &wlcg(), |_| Vec::new());
    for alg in ["none", "None", "NONE"] {
        assert_eq!(check(&unsigned(alg)).unwrap_err(), TokenError::Unsigned);
    }
    // The public key used as the secret of an HMAC, in each form that a careless library might use.
    let der = KEYS.rsa.public_key().as_ref();
    let pem = format!("-----BEGIN RSA PUBLIC KEY-----\n{}\n-----END RSA PUBLIC KEY-----\n", STANDARD.encode(der));
    let point = KEYS.p256.public_key().as_ref();
    for (kid, secret) in [("rsa", der), ("rsa", pem.as_bytes()), ("rsa", &der[9..265]), ("p256", point)] {
        for alg in ["HS256", "HS384", "HS512", "hs256"] {
            let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret);
            let sign = |m: &[u8]| aws_lc_rs::hmac::sign(&key, m).as_ref().to_vec();
            let forged = join(&header(alg, kid), &wlcg(), sign);
            assert_eq!(check(&forged).unwrap_err(), TokenError::SharedSecret(alg.into()));
        }
        // The same bytes under the name of the real algorithm.
        let forged = join(&header("RS256", "rsa"), &wlcg(), |m| {
            let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret);
            aws_lc_rs::hmac::sign(&key, m).as_ref().to_vec()
        });
        assert_eq!(check(&forged).unwrap_err(), TokenError::Signature);
    }
    assert_eq!(check(&unsigned("ES512")).unwrap_err(), TokenError::Algorithm("ES512".into()));
    // A key of another kind than the algorithm, and one of the same kind and another curve.
    for (alg, kid) in [("RS256", "p256"), ("ES256", "rsa"), ("ES384", "p256"), ("EdDSA", "p256")] {
        let wrong = join(&header(alg, kid), &wlcg(), |m| ec(&KEYS.p256, m));
        assert_eq!(check(&wrong).unwrap_err(), TokenError::KeyMismatch(kid.into()), "{alg} {kid}");
    }
    let crit = signed(&json!({"alg": "ES256", "kid": "p256", "crit": ["x"]}), &wlcg());
    assert_eq!(check(&crit).unwrap_err(), TokenError::Critical);
}

/// Keys and a token that other software made, and the forms in which the key is published.
#[test]
fn a_published_key_is_not_a_secret() {
    let key = rcgen::KeyPair::generate().unwrap();
    let (x, y) = key.public_key_raw()[1..].split_at(32);
    let jwks = set(&[json!({"kty": "EC", "kid": "k", "crv": "P-256", "alg": "ES256", "x": b64(x), "y": b64(y)})]);
    let header = |alg| jsonwebtoken::Header { kid: Some("k".into()), ..jsonwebtoken::Header::new(alg) };
    let private = jsonwebtoken::EncodingKey::from_ec_der(key.serialized_der());
    let honest = jsonwebtoken::encode(&header(Algorithm::ES256), &wlcg(), &private).unwrap();
    assert!(verify(&honest, &issuer(), &jwks, &audiences(), NOW).is_ok());
    let (pem, spki) = (key.public_key_pem(), rcgen::PublicKeyData::subject_public_key_info(&key));
    for secret in [pem.as_bytes(), pem.trim_end().as_bytes(), &spki, key.public_key_raw()] {
        let secret = jsonwebtoken::EncodingKey::from_secret(secret);
        let forged = jsonwebtoken::encode(&header(Algorithm::HS256), &wlcg(), &secret).unwrap();
        let refused = verify(&forged, &issuer(), &jwks, &audiences(), NOW);
        assert_eq!(refused.unwrap_err(), TokenError::SharedSecret("HS256".into()));
    }
}

#[test]
fn the_key_is_chosen_by_name_and_algorithm() {
    let header = |kid: Value| with(json!({"alg": "ES256"}), "kid", kid);
    for (kid, expected) in [
        (Value::Null, TokenError::NoKid),
        (json!(""), TokenError::NoKid),
        (json!("other"), TokenError::UnknownKid("other".into())),
    ] {
        assert_eq!(check(&signed(&header(kid), &wlcg())).unwrap_err(), expected);
    }
    let twice = set(&[ec_jwk("p256", "P-256", &KEYS.p256), ec_jwk("p256", "P-256", &KEYS.p256)]);
    let refused = verify(&token(&wlcg()), &issuer(), &twice, &audiences(), NOW);
    assert_eq!(refused.unwrap_err(), TokenError::AmbiguousKid("p256".into()));
    // A key of another kind with the same name does no harm.
    let beside = with(rsa_jwk(), "kid", json!("p256"));
    assert!(
        verify(&token(&wlcg()), &issuer(), &set(&[ec_jwk("p256", "P-256", &KEYS.p256), beside]), &audiences(), NOW)
            .is_ok()
    );
    // Another key under the name.
    let other = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let refused = verify(&token(&wlcg()), &issuer(), &set(&[ec_jwk("p256", "P-256", &other)]), &audiences(), NOW);
    assert_eq!(refused.unwrap_err(), TokenError::Signature);
    // A key that is published for another purpose.
    for (name, value) in [("alg", json!("ES384")), ("alg", json!("RS256"))] {
        let keys = set(&[with(ec_jwk("p256", "P-256", &KEYS.p256), name, value)]);
        let refused = verify(&token(&wlcg()), &issuer(), &keys, &audiences(), NOW);
        assert_eq!(refused.unwrap_err(), TokenError::KeyMismatch("p256".into()));
    }
}

#[test]
fn a_token_is_valid_between_its_times() {
    let at = |exp: i64, nbf: i64, iat: i64| {
        with(with(with(wlcg(), "exp", json!(exp)), "nbf", json!(nbf)), "iat", json!(iat))
    };
    for (claims, expected) in [
        (at(NOW + 1, NOW, NOW), None),
        (at(NOW + 1, NOW + 60, NOW + 60), None),
        (at(NOW, NOW - 9, NOW - 9), Some(TokenError::Expired { seconds_ago: 0 })),
        (at(NOW - 30, NOW - 99, NOW - 99), Some(TokenError::Expired { seconds_ago: 30 })),
        (at(NOW + 600, NOW + 61, NOW), Some(TokenError::NotYet { seconds: 61, claim: "nbf" })),
        (at(NOW + 600, NOW, NOW + 61), Some(TokenError::NotYet { seconds: 61, claim: "iat" })),
        (with(wlcg(), "nbf", Value::Null), None),
        (with(wlcg(), "exp", json!(NOW as f64 + 0.5)), Some(TokenError::Expired { seconds_ago: 0 })),
        (with(wlcg(), "exp", json!("tomorrow")), Some(TokenError::Claim { claim: "exp" })),
        (with(wlcg(), "exp", json!(1e300)), Some(TokenError::Claim { claim: "exp" })),
        (with(wlcg(), "exp", json!(u64::MAX)), Some(TokenError::Claim { claim: "exp" })),
    ] {
        assert_eq!(check(&token(&claims)).err(), expected, "{claims}");
    }
}

#[test]
fn a_token_of_another_issuer_or_audience_is_refused() {
    let audience = |aud: Value| check(&token(&with(wlcg(), "aud", aud)));
    for good in [
        json!("https://node.example"),
        json!(["x", "https://node.example:1094"]),
        json!(["https://wlcg.cern.ch/jwt/v1/any"]),
    ] {
        assert!(audience(good.clone()).is_ok(), "{good}");
    }
    let bad = ["https://node.example/", "HTTPS://node.example", "https://other.example", "ANY", ""];
    for bad in bad.map(Value::from).into_iter().chain([json!([]), json!(["x"])]) {
        assert!(matches!(audience(bad.clone()), Err(TokenError::Audience { .. })), "{bad}");
    }
    assert_eq!(audience(Value::Null).unwrap_err(), TokenError::Missing { claim: "aud" });
    assert_eq!(audience(json!({"a": 1})).unwrap_err(), TokenError::Claim { claim: "aud" });
    assert_eq!(why(&with(scitoken(), "aud", Value::Null)), TokenError::Missing { claim: "aud" });
    for other in ["https://issuer.example", "https://evil.example/", "HTTPS://issuer.example/"] {
        assert_eq!(why(&with(wlcg(), "iss", json!(other))), TokenError::Issuer(other.into()));
    }
}

#[test]
fn a_token_without_the_claims_of_its_profile_is_refused() {
    for claim in ["sub", "exp", "iss", "wlcg.ver", "aud", "iat", "jti"] {
        assert_eq!(why(&with(wlcg(), claim, Value::Null)), TokenError::Missing { claim });
    }
    for version in ["9.9", "2.0", "1", "1.", "1.x", "10.0", ""] {
        assert_eq!(why(&with(wlcg(), "wlcg.ver", json!(version))), TokenError::Version(version.into()));
    }
    assert!(check(&token(&with(wlcg(), "wlcg.ver", json!("1.7")))).is_ok());
    for version in ["scitoken:1.0", "scitoken:3.0", "scitoken:2", "2.0"] {
        assert_eq!(why(&with(scitoken(), "ver", json!(version))), TokenError::Version(version.into()));
    }
    assert!(check(&token(&with(wlcg(), "admin", json!(true)))).is_ok());
    let groups = |value: Value| check(&token(&with(wlcg(), "wlcg.groups", value))).map(|claims| claims.groups);
    assert_eq!(groups(json!(["/cms", "/cms/a"])), Ok(vec!["/cms".into(), "/cms/a".into()]));
    assert_eq!(groups(json!("/cms")), Err(TokenError::Claim { claim: "wlcg.groups" }));
}

#[test]
fn a_malformed_storage_scope_makes_the_token_invalid() {
    for scope in ["storage.read", "storage.read:", "storage.read:/ok storage.modify"] {
        assert!(matches!(why(&with(wlcg(), "scope", json!(scope))), TokenError::ScopeWithoutPath(_)), "{scope}");
    }
    for path in ["data", "/../x", "/a/..", "/%2e%2e/x", "/a%2fb", "/%2E%2E%2Fx", "/a%00"] {
        let scope = format!("storage.read:/ok storage.read:{path}");
        assert!(matches!(why(&with(wlcg(), "scope", json!(scope))), TokenError::ScopePath(_)), "{path}");
    }
}

#[test]
fn text_that_is_not_a_token_is_refused() {
    let good = token(&wlcg());
    for bad in ["", ".", "..", "...", "a.b.c", "a.b", "\u{e9}.\u{e9}.\u{e9}", "e30.e30.e30", "bm9uc2Vuc2U.e30.e30"] {
        assert!(matches!(check(bad), Err(TokenError::Malformed { .. })), "{bad}");
    }
    assert!(matches!(check(&format!("{good}=")), Err(TokenError::Malformed { .. })));
    assert!(matches!(check(&format!("{good}.x")), Err(TokenError::Malformed { .. })));
    let twice = b64(format!("{{\"exp\":1,\"exp\":{},\"iss\":\"{ISS}\"}}", NOW + 9));
    let message = format!("{}.{twice}", b64(r#"{"alg":"ES256","kid":"p256"}"#));
    let token = format!("{message}.{}", b64(ec(&KEYS.p256, message.as_bytes())));
    assert!(matches!(check(&token), Err(TokenError::Malformed { .. })), "a claim that is there twice");
    let huge = "a".repeat(TOKEN_BYTES + 1);
    assert_eq!(check(&huge).unwrap_err(), TokenError::TooLong { bytes: TOKEN_BYTES + 1 });
}

#[test]
fn errors_never_hold_the_token() {
    let good = token(&wlcg());
    let (message, _) = good.rsplit_once('.').unwrap();
    let (_, payload) = message.split_once('.').unwrap();
    for bad in [format!("{message}.AAAA"), format!("{good}x"), token(&with(wlcg(), "exp", json!(1)))] {
        let error = check(&bad).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(!text.contains(payload) && !text.contains(&bad), "{text}");
        assert!(error.to_string().bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'"' && b != b'\\'), "{text}");
    }
}

proptest! {
    #[test]
    fn a_changed_token_is_refused(at in 0usize..400, to in "[A-Za-z0-9_.-]") {
        let good = token(&wlcg());
        let at = at % good.len();
        let mut changed = good.clone();
        changed.replace_range(at..=at, &to);
        // The last character of a signature of 64 bytes has unused bits, which the decoder requires to be 0.
        prop_assert_eq!(check(&changed).is_err(), changed != good);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        crate::fuzzing::token(&bytes);
    }

    #[test]
    fn any_claims_are_read_or_refused(claims in "\\{\"(exp|aud|iss|ver|wlcg.ver|scope)\":(1e9|\"1.0\"|\\[\\]|null|\"storage.read:/%2e\")\\}") {
        crate::fuzzing::token(claims.as_bytes());
    }
}
