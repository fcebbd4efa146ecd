//! Tokens: JSON Web Tokens of the WLCG profile (1.0 to 1.3) and SciTokens 2.0.
//!
//! [`peek`] returns the issuer whose keys are needed; nothing that it returns is trusted. [`verify`] checks signature,
//! times, audience and version, and returns the claims. The policy decides what the claims allow; the node fetches the keys.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::Algorithm;
use serde::Deserialize;

use crate::issuer::Issuer;
use crate::limits::TOKEN_BYTES;

mod claims;
pub(crate) mod error;
mod jwks;
mod scope;

pub use claims::Claims;
pub(crate) use claims::read as claims_of;
pub use error::{TokenError, shown};
pub use jwks::{Jwks, JwksError};
pub use scope::Capability;
pub(crate) use scope::{decode, parse_path};

/// The issuer and key that a token names. Not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnverifiedToken {
    /// The issuer that the token names.
    pub issuer: String,
    /// The issuer's key that the token names.
    pub kid: String,
    algorithm: Algorithm,
}

/// The part of a header that matters (RFC 7515).
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that must be understood. None is.
    crit: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct OnlyIssuer {
    iss: Option<String>,
}

/// A token's parts.
struct TokenParts<'a> {
    header: Vec<u8>,
    payload: Vec<u8>,
    /// What is signed: header and payload as they came.
    message: &'a str,
    signature: &'a str,
}

fn split(token: &str) -> Result<TokenParts<'_>, TokenError> {
    if token.len() > TOKEN_BYTES {
        return Err(TokenError::TooLong { bytes: token.len() });
    }
    let malformed = |what| move || TokenError::Malformed { what };
    let (message, signature) = token.rsplit_once('.').ok_or_else(malformed("three parts with dots between them"))?;
    let (header, payload) = message.split_once('.').ok_or_else(malformed("three parts with dots between them"))?;
    let decode = |part: &str, what| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed { what });
    let (header, payload) = (decode(header, "a header in base64url")?, decode(payload, "claims in base64url")?);
    decode(signature, "a signature in base64url")?;
    Ok(TokenParts { header, payload, message, signature })
}

/// The algorithm of a name. Algorithms with a shared secret are refused by name, whatever the key.
fn algorithm(name: &str) -> Result<Algorithm, TokenError> {
    match name {
        "RS256" => Ok(Algorithm::RS256),
        "RS384" => Ok(Algorithm::RS384),
        "RS512" => Ok(Algorithm::RS512),
        "PS256" => Ok(Algorithm::PS256),
        "PS384" => Ok(Algorithm::PS384),
        "PS512" => Ok(Algorithm::PS512),
        "ES256" => Ok(Algorithm::ES256),
        "ES384" => Ok(Algorithm::ES384),
        "EdDSA" => Ok(Algorithm::EdDSA),
        _ if name.eq_ignore_ascii_case("none") => Err(TokenError::Unsigned),
        _ if name.to_ascii_uppercase().starts_with("HS") => Err(TokenError::SharedSecret(error::shown(name))),
        _ => Err(TokenError::Algorithm(error::shown(name))),
    }
}

fn peek_parts(parts: &TokenParts<'_>) -> Result<UnverifiedToken, TokenError> {
    let malformed = |what| move |_| TokenError::Malformed { what };
    let header: Header = serde_json::from_slice(&parts.header).map_err(malformed("a header in JSON with alg"))?;
    let algorithm = algorithm(&header.alg)?;
    if header.crit.is_some() {
        return Err(TokenError::Critical);
    }
    let kid = header.kid.filter(|kid| !kid.is_empty()).ok_or(TokenError::NoKid)?;
    let claims: OnlyIssuer = serde_json::from_slice(&parts.payload).map_err(malformed("claims in JSON"))?;
    let issuer = claims.iss.ok_or(TokenError::Missing { claim: "iss" })?;
    Ok(UnverifiedToken { issuer, kid, algorithm })
}

/// Reads the issuer and the key that a token names, without verifying anything.
///
/// # Errors
/// [`TokenError`]: the token is malformed, or names no issuer, no key or no supported algorithm.
pub fn peek(token: &str) -> Result<UnverifiedToken, TokenError> {
    peek_parts(&split(token)?)
}

/// Verifies a token: the issuer signed it, it is for one of these audiences, and it is valid at the time `now`, seconds since 1970.
///
/// # Errors
/// [`TokenError`], with the reason. Only after [`TokenError::UnknownKid`] may newer keys of the issuer give another result.
pub fn verify(token: &str, issuer: &Issuer, jwks: &Jwks, audiences: &[String], now: i64) -> Result<Claims, TokenError> {
    claims::read(&verified_payload(token, &issuer.iss, jwks)?, issuer, audiences, now)
}

/// The claims of a token as JSON, if the issuer signed it. The caller checks audience and times.
///
/// # Errors
/// It is malformed, another issuer's, or not signed by one of these keys.
pub fn verified_payload(token: &str, iss: &str, jwks: &Jwks) -> Result<Vec<u8>, TokenError> {
    let parts = split(token)?;
    let peek = peek_parts(&parts)?;
    if peek.issuer != iss {
        return Err(TokenError::Issuer(error::shown(&peek.issuer)));
    }
    let key = jwks.find(&peek.kid, peek.algorithm)?;
    let is_genuine = jsonwebtoken::crypto::verify(parts.signature, parts.message.as_bytes(), key, peek.algorithm);
    if !is_genuine.unwrap_or(false) {
        return Err(TokenError::Signature);
    }
    Ok(parts.payload)
}

#[cfg(test)]
mod tests;
