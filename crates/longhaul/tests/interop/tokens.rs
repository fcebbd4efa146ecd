//! An issuer of tokens: WLCG's and SciTokens', signed with ES256 or RS256, and the keys that servers check them with.
//!
//! The tokens are signed by hand and not by the library with which the node checks them, so that both do not share an error.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// The issuer.
pub const ISSUER: &str = "https://issuer.test/";
/// The audience: the name that nodes and stock servers are given.
pub const AUDIENCE: &str = "https://dtn.test:7411";

/// An issuer with two keys.
pub struct Tokens {
    elliptic: EcdsaKeyPair,
    rsa: RsaKeyPair,
}

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    Es256,
    Rs256,
    /// Well-formed, but signed by no known key.
    Forged,
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

impl Tokens {
    pub fn new() -> Tokens {
        Tokens {
            elliptic: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
        }
    }

    /// The public keys (RFC 7517).
    pub fn jwks(&self) -> Value {
        // An uncompressed point: 4, x, y.
        let point = self.elliptic.public_key().as_ref();
        assert_eq!((point.len(), point[0]), (65, 4));
        let (modulus, exponent) = rsa_numbers(self.rsa.public_key().as_ref());
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({"keys": [
            {"kty": "EC", "crv": "P-256", "kid": "es", "alg": "ES256", "use": "sig",
             "x": text(&point[1..33]), "y": text(&point[33..])},
            {"kty": "RSA", "kid": "rs", "alg": "RS256", "use": "sig", "n": text(modulus), "e": text(exponent)},
        ]})
    }

    /// Signs claims.
    pub fn sign(&self, claims: &Value, how: Signature) -> String {
        let (algorithm, kid) = if how == Signature::Rs256 { ("RS256", "rs") } else { ("ES256", "es") };
        let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let head = json!({"typ": "JWT", "alg": algorithm, "kid": kid});
        let signed = format!("{}.{}", text(&head), text(claims));
        let random = SystemRandom::new();
        let signature = match how {
            Signature::Es256 => self.elliptic.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec(),
            Signature::Forged => self.elliptic.sign(&random, b"something else").unwrap().as_ref().to_vec(),
            Signature::Rs256 => {
                let mut signature = vec![0; self.rsa.public_modulus_len()];
                self.rsa.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).unwrap();
                signature
            }
        };
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The claims of a WLCG token that is good for an hour.
    pub fn claims(&self, scope: &str) -> Value {
        json!({
            "iss": ISSUER, "sub": "tester", "aud": AUDIENCE, "wlcg.ver": "1.0", "scope": scope, "jti": "1",
            "iat": now(), "nbf": now() - 5, "exp": now() + 3600,
        })
    }

    /// A WLCG token that is good for an hour.
    pub fn wlcg(&self, scope: &str) -> String {
        self.sign(&self.claims(scope), Signature::Es256)
    }

    /// A WLCG token with some claims replaced (null takes one away).
    pub fn with(&self, scope: &str, changes: Value) -> String {
        let mut claims = self.claims(scope);
        for (name, value) in changes.as_object().unwrap() {
            if value.is_null() {
                claims.as_object_mut().unwrap().remove(name);
            } else {
                claims[name] = value.clone();
            }
        }
        self.sign(&claims, Signature::Es256)
    }

    /// A token that expired an hour ago.
    pub fn expired(&self, scope: &str) -> String {
        self.with(scope, json!({"iat": now() - 7200, "nbf": now() - 7200, "exp": now() - 3600}))
    }

    /// Puts the keys where scitokens-cpp keeps those that it has fetched, so that it fetches none.
    pub fn seed_scitokens(&self, cache: &Path) {
        let dir = cache.join("scitokens");
        fs::create_dir_all(&dir).unwrap();
        let keys = json!({"jwks": self.jwks(), "expires": now() + 86_400, "next_update": now() + 43_200});
        let program = "import sqlite3, sys\n\
            db = sqlite3.connect(sys.argv[1])\n\
            db.execute('CREATE TABLE keycache (issuer text UNIQUE PRIMARY KEY NOT NULL, keys text NOT NULL)')\n\
            db.execute('INSERT INTO keycache VALUES (?, ?)', (sys.argv[2], sys.argv[3]))\n\
            db.commit()\n";
        let output = Command::new("/usr/bin/python3")
            .args(["-c", program])
            .arg(dir.join("scitokens_cpp.sqllite"))
            .args([ISSUER, &keys.to_string()])
            .output()
            .expect("no /usr/bin/python3, which gfal2 comes with");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Modulus and exponent of an RSAPublicKey (RFC 8017 A.1.1): a sequence of two integers in DER.
fn rsa_numbers(der: &[u8]) -> (&[u8], &[u8]) {
    fn element(der: &[u8]) -> (&[u8], &[u8]) {
        let (length, head) = match der[1] {
            short @ 0..=0x7f => (usize::from(short), 2),
            0x81 => (usize::from(der[2]), 3),
            0x82 => (usize::from(der[2]) << 8 | usize::from(der[3]), 4),
            long => panic!("a length of {long:#x} in a key of 2048 bits"),
        };
        der[head..].split_at(length)
    }
    fn positive(integer: &[u8]) -> &[u8] {
        integer.strip_prefix(&[0]).unwrap_or(integer)
    }
    let (sequence, _) = element(der);
    let (modulus, rest) = element(sequence);
    let (exponent, _) = element(rest);
    (positive(modulus), positive(exponent))
}
