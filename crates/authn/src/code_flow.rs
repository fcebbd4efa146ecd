//! Sign-in with OpenID Connect: the authorization code flow (OpenID Connect Core 1.0, section 3.1) with PKCE (RFC 7636).
//!
//! A browser is redirected to its provider with a state, a nonce and a challenge, all derived from one secret that it keeps. It comes back
//! with a code, which the service exchanges for an ID token. Does not know: cookies, sessions, and rights.

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::Issuer;
use auth::limits::SKEW_SECONDS;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use web::form::PAIRS;

use crate::Issuers;

/// Bytes of the secret of one flow.
pub const SECRET_BYTES: usize = 32;

/// A provider, as an operator registered this service with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its URL: the exact `iss` of its tokens.
    pub issuer: String,
    /// The id of this service at the provider.
    pub client_id: String,
    /// The secret of this service at the provider; `None` for a public client, which PKCE alone protects.
    pub client_secret: Option<String>,
    /// The scopes besides `openid`: `profile`, `email`, …
    pub scopes: Vec<String>,
}

/// A user who has signed in: the claims of a verified ID token.
#[derive(Clone, Debug, PartialEq)]
pub struct SignedIn(BTreeMap<String, Value>);

impl SignedIn {
    /// Creates a user from claims, for tests.
    pub fn from_claims(claims: Value) -> SignedIn {
        SignedIn(serde_json::from_value(claims).unwrap_or_default())
    }

    /// A claim that is text.
    pub fn text(&self, claim: &str) -> Option<&str> {
        self.0.get(claim).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Whether a claim is this text, or a list with it.
    pub fn has(&self, claim: &str, wanted: &str) -> bool {
        match self.0.get(claim) {
            Some(Value::String(text)) => text == wanted,
            Some(Value::Array(all)) => all.iter().any(|one| one == wanted),
            _ => false,
        }
    }
}

/// The texts of one flow. Each is a digest of the secret: only the secret must be stored, and no text can be derived from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Comes back with the browser and ties the answer to this flow.
    pub state: String,
    nonce: String,
    verifier: String,
}

impl Flow {
    /// Derives the texts from a secret.
    pub fn from_secret(secret: &[u8; SECRET_BYTES]) -> Flow {
        let text =
            |what: &str| URL_SAFE_NO_PAD.encode(Sha256::new().chain_update(what).chain_update(secret).finalize());
        Flow { state: text("state"), nonce: text("nonce"), verifier: text("verifier") }
    }

    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier))
    }
}

/// The part of a token response (RFC 6749, section 5.1) that matters.
#[derive(Deserialize)]
struct TokenResponse {
    id_token: String,
}

impl Provider {
    /// The URL at which a browser signs in, to come back to `return_to`. Blocks while the provider's metadata are fetched.
    ///
    /// # Errors
    /// The provider cannot be reached, or offers no sign-in.
    pub fn sign_in_url(&self, issuers: &Issuers, flow: &Flow, return_to: &str, now: i64) -> Result<String, String> {
        let (page, _) = issuers.endpoints(&self.issuer, now)?;
        let scopes: Vec<&str> = ["openid"].into_iter().chain(self.scopes.iter().map(String::as_str)).collect();
        let scopes = scopes.join(" ");
        let challenge = flow.challenge();
        let query = pairs(&[
            ("response_type", "code"),
            ("client_id", &self.client_id),
            ("redirect_uri", return_to),
            ("scope", &scopes),
            ("state", &flow.state),
            ("nonce", &flow.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        Ok(format!("{page}{}{query}", if page.contains('?') { '&' } else { '?' }))
    }

    /// Exchanges a code for the user who has signed in. Blocks while the provider answers.
    ///
    /// # Errors
    /// The provider refuses the code, or its ID token is not accepted: it is not signed by the provider, is for another service or
    /// another flow, or has expired.
    pub fn exchange(
        &self,
        issuers: &Arc<Issuers>,
        flow: &Flow,
        code: &str,
        return_to: &str,
        now: i64,
    ) -> Result<SignedIn, String> {
        let (_, exchange) = issuers.endpoints(&self.issuer, now)?;
        let dialer = issuers.dialer().ok_or("this service trusts no authority: no provider can be reached")?;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", return_to),
            ("code_verifier", &flow.verifier),
        ];
        let mut fields = vec![("Accept".to_owned(), "application/json".to_owned())];
        match &self.client_secret {
            Some(secret) => fields.push(("Authorization".to_owned(), basic(&self.client_id, secret))),
            None => form.push(("client_id", &self.client_id)),
        }
        let answer = web::post::typed(dialer, &exchange, PAIRS, &fields, &pairs(&form));
        let answer = answer.map_err(|why| format!("the provider does not accept the code: {why}"))?;
        let answer: TokenResponse =
            serde_json::from_slice(&answer).map_err(|_| "the provider answers without an ID token".to_owned())?;
        self.check(issuers, flow, &answer.id_token, now)
    }

    /// Checks an ID token as OpenID Connect Core 1.0, section 3.1.3.7, says.
    fn check(&self, issuers: &Arc<Issuers>, flow: &Flow, token: &str, now: i64) -> Result<SignedIn, String> {
        let refused = |error: auth::TokenError| format!("the provider's ID token is not accepted: {error}");
        let kid = auth::token::peek(token).map_err(refused)?.kid;
        let issuer = Issuer { iss: self.issuer.clone(), ..Issuer::default() };
        let jwks = issuers.keys(&issuer, &kid, now)?;
        let payload = auth::token::verified_payload(token, &self.issuer, &jwks).map_err(refused)?;
        self.read(flow, &payload, now).map_err(|why| format!("the provider's ID token is not accepted: {why}"))
    }

    fn read(&self, flow: &Flow, payload: &[u8], now: i64) -> Result<SignedIn, String> {
        let claims = SignedIn(serde_json::from_slice(payload).map_err(|_| "it is not a JSON object")?);
        if !claims.has("aud", &self.client_id) {
            return Err("it is for another service".to_owned());
        }
        if claims.0.get("azp").is_some_and(|party| party != self.client_id.as_str()) {
            return Err("it was issued to another service".to_owned());
        }
        if claims.text("nonce") != Some(&flow.nonce) {
            return Err("it belongs to another sign-in".to_owned());
        }
        let ends = claims.0.get("exp").and_then(Value::as_i64).ok_or("it has no claim exp")?;
        if ends + SKEW_SECONDS < now {
            return Err(format!("it ended {} s ago: compare the clocks of this host and the provider", now - ends));
        }
        claims.text("sub").ok_or("it has no claim sub")?;
        Ok(claims)
    }
}

/// Encodes names and values as in forms and queries.
fn pairs(all: &[(&str, &str)]) -> String {
    let one = |(name, value): &(&str, &str)| format!("{name}={}", web::target::encode_value(value));
    all.iter().map(one).collect::<Vec<_>>().join("&")
}

/// The field that authenticates a client: its id and its secret are encoded as in a form first (RFC 6749, section 2.3.1).
fn basic(id: &str, secret: &str) -> String {
    let [id, secret] = [id, secret].map(web::target::encode_value);
    format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: i64 = 1_800_000_000;

    fn provider() -> Provider {
        Provider {
            issuer: "https://idp.example".to_owned(),
            client_id: "hub".to_owned(),
            client_secret: None,
            scopes: vec!["profile".to_owned()],
        }
    }

    #[test]
    fn the_texts_of_a_flow_depend_on_its_secret_and_differ_from_each_other() {
        let flow = Flow::from_secret(&[7; SECRET_BYTES]);
        assert_eq!(flow, Flow::from_secret(&[7; SECRET_BYTES]));
        assert_ne!(flow.state, Flow::from_secret(&[8; SECRET_BYTES]).state);
        assert!(flow.state != flow.nonce && flow.nonce != flow.verifier && flow.verifier != flow.challenge());
        // RFC 7636, section 4.1: 43 to 128 characters.
        assert_eq!(flow.verifier.len(), 43);
    }

    #[test]
    fn the_challenge_of_the_rfc_is_computed() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let flow = Flow { state: String::new(), nonce: String::new(), verifier };
        assert_eq!(flow.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn an_id_token_is_valid_only_for_its_service_its_flow_and_its_time() {
        let flow = Flow::from_secret(&[7; SECRET_BYTES]);
        let good = json!({"sub": "1", "aud": ["hub", "x"], "azp": "hub", "nonce": flow.nonce, "exp": NOW + 60, "groups": ["a"]});
        let read = |change: &dyn Fn(&mut Value)| {
            let mut claims = good.clone();
            change(&mut claims);
            provider().read(&flow, claims.to_string().as_bytes(), NOW)
        };
        let signed_in = read(&|_| {}).unwrap();
        assert_eq!(signed_in.text("sub"), Some("1"));
        assert!(signed_in.has("groups", "a") && !signed_in.has("groups", "b") && !signed_in.has("none", "a"));
        for (claim, value, why) in [
            ("aud", json!("other"), "for another service"),
            ("azp", json!("x"), "issued to another service"),
            ("nonce", json!("x"), "belongs to another sign-in"),
            ("nonce", Value::Null, "belongs to another sign-in"),
            ("exp", json!(NOW - 3600), "ended 3600 s ago"),
            ("exp", Value::Null, "has no claim exp"),
            ("sub", json!(""), "has no claim sub"),
        ] {
            let refused = read(&|claims| claims[claim] = value.clone()).unwrap_err();
            assert!(refused.contains(why), "{claim}={value}: {refused}");
        }
    }

    #[test]
    fn a_client_secret_is_encoded_before_it_is_sent() {
        assert_eq!(basic("a b", "s:1"), format!("Basic {}", STANDARD.encode("a%20b:s%3A1")));
        assert_eq!(pairs(&[("a", "b&c=d"), ("e", "/")]), "a=b%26c%3Dd&e=%2F");
    }
}
