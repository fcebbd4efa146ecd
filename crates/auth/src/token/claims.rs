//! The claims of a token whose signature is valid: subject, times, audience and capabilities.
//!
//! Other claims are ignored. The policy decides which exports and paths a capability is for.

use serde::Deserialize;
use serde_json::Value;

use super::error::{TokenError, shown};
use super::scope::{Capability, capabilities};
use crate::issuer::{Issuer, Profile};
use crate::limits::SKEW_SECONDS;

/// The claims of a verified token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The issuer.
    pub issuer: String,
    /// The subject. Empty where a SciToken names none.
    pub subject: String,
    /// Its id, for logs.
    pub id: Option<String>,
    /// When it expires, seconds since 1970.
    pub expires: i64,
    /// Its family.
    pub profile: Profile,
    /// Its capabilities for storage. Where there is any, groups are ignored.
    pub capabilities: Vec<Capability>,
    /// `wlcg.groups`.
    pub groups: Vec<String>,
}

#[derive(Deserialize)]
struct RawClaims {
    sub: Option<Value>,
    exp: Option<Value>,
    iat: Option<Value>,
    nbf: Option<Value>,
    jti: Option<Value>,
    aud: Option<Value>,
    ver: Option<Value>,
    scope: Option<Value>,
    #[serde(rename = "wlcg.ver")]
    wlcg_ver: Option<Value>,
    #[serde(rename = "wlcg.groups")]
    wlcg_groups: Option<Value>,
}

/// Parses the claims, and checks everything except the signature and the issuer.
pub(crate) fn read(payload: &[u8], issuer: &Issuer, audiences: &[String], now: i64) -> Result<Claims, TokenError> {
    let malformed = |_| TokenError::Malformed { what: "an object with each claim once" };
    let raw: RawClaims = serde_json::from_slice(payload).map_err(malformed)?;
    let profile = profile(&raw)?;
    if issuer.profile.is_some_and(|expected| expected != profile) {
        return Err(TokenError::Profile);
    }
    let expires = check_times(&raw, profile, now)?;
    check_audience(raw.aud.as_ref(), profile, audiences)?;
    let (subject, id) = (text(raw.sub, "sub")?, text(raw.jti, "jti")?);
    if profile == Profile::Wlcg {
        // The profile requires both, so that the actions of a token can be traced.
        id.as_ref().ok_or(TokenError::Missing { claim: "jti" })?;
        subject.as_ref().ok_or(TokenError::Missing { claim: "sub" })?;
    }
    let scope = text(raw.scope, "scope")?.unwrap_or_default();
    Ok(Claims {
        issuer: issuer.iss.clone(),
        subject: subject.unwrap_or_default(),
        id,
        expires,
        profile,
        capabilities: capabilities(&scope, profile)?,
        groups: raw.wlcg_groups.map(|groups| texts(groups, "wlcg.groups")).transpose()?.unwrap_or_default(),
    })
}

fn text(value: Option<Value>, claim: &'static str) -> Result<Option<String>, TokenError> {
    match value {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(TokenError::Claim { claim }),
    }
}

fn texts(value: Value, claim: &'static str) -> Result<Vec<String>, TokenError> {
    serde_json::from_value(value).map_err(|_| TokenError::Claim { claim })
}

/// The family and its version: `wlcg.ver` 1.x, or `ver` scitoken:2.x. Every minor version is accepted: a newer one only adds to
/// the profile.
fn profile(raw: &RawClaims) -> Result<Profile, TokenError> {
    let (value, profile) = match (&raw.wlcg_ver, &raw.ver) {
        (Some(version), _) => (version, Profile::Wlcg),
        (None, Some(version)) => (version, Profile::SciTokens),
        (None, None) => return Err(TokenError::Missing { claim: "wlcg.ver" }),
    };
    let version = value.as_str().ok_or(TokenError::Claim { claim: "ver" })?;
    let major = match profile {
        Profile::Wlcg => version.strip_prefix("1."),
        // The specification writes scitoken:, the reference library reads both.
        Profile::SciTokens => version.strip_prefix("scitoken:2.").or_else(|| version.strip_prefix("scitokens:2.")),
    };
    match major {
        Some(minor) if !minor.is_empty() && minor.bytes().all(|b| b.is_ascii_digit()) => Ok(profile),
        _ => Err(TokenError::Version(shown(version))),
    }
}

/// Seconds since 1970. RFC 7519 allows fractions.
fn seconds(value: Option<&Value>, claim: &'static str) -> Result<Option<i64>, TokenError> {
    let Some(value) = value else { return Ok(None) };
    // A bound (the year 285,000) far below the overflow of later sums.
    let fraction = |f: f64| (f.abs() < 9e12).then_some(f as i64);
    let whole = |s: &i64| s.unsigned_abs() < 9_000_000_000_000;
    let read = value.as_i64().filter(whole).or_else(|| value.as_f64().and_then(fraction));
    read.map(Some).ok_or(TokenError::Claim { claim })
}

/// Checks the times, and returns the end. Clock skew is allowed at the start only, not at the end.
fn check_times(raw: &RawClaims, profile: Profile, now: i64) -> Result<i64, TokenError> {
    let expires = seconds(raw.exp.as_ref(), "exp")?.ok_or(TokenError::Missing { claim: "exp" })?;
    if expires <= now {
        return Err(TokenError::Expired { seconds_ago: now.saturating_sub(expires) });
    }
    let issued = seconds(raw.iat.as_ref(), "iat")?;
    if issued.is_none() && profile == Profile::Wlcg {
        return Err(TokenError::Missing { claim: "iat" });
    }
    for (start, claim) in [(seconds(raw.nbf.as_ref(), "nbf")?, "nbf"), (issued, "iat")] {
        let early = start.map_or(0, |start| start.saturating_sub(now));
        if early > SKEW_SECONDS {
            return Err(TokenError::NotYet { seconds: early, claim });
        }
    }
    Ok(expires)
}

fn check_audience(aud: Option<&Value>, profile: Profile, audiences: &[String]) -> Result<(), TokenError> {
    let found = match aud {
        None => return Err(TokenError::Missing { claim: "aud" }),
        Some(Value::String(one)) => vec![one.clone()],
        Some(several) => texts(several.clone(), "aud")?,
    };
    if found.iter().any(|aud| aud == profile.anybody() || audiences.contains(aud)) {
        return Ok(());
    }
    let expected = audiences.first().map_or("without an audience (audiences in access.toml)", String::as_str);
    Err(TokenError::Audience { found: shown(&found.join(" ")), expected: shown(expected) })
}
