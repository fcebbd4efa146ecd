//! Why a token is refused, as texts that fit into `error_description` of a `WWW-Authenticate` header (RFC 6750).
//!
//! The texts never contain the token; parts that are quoted from it are short printable ASCII without quotes.

use model::fault::{Blame, Fault};

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Too long.
    #[error("the token has {bytes} bytes, more than the {} that are read", crate::limits::TOKEN_BYTES)]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Not a token at all.
    #[error("this is not a JSON Web Token: {what} is missing or damaged; copy all of it again")]
    Malformed {
        /// What should be there.
        what: &'static str,
    },
    /// Not signed (`alg: none`).
    #[error("the token is not signed (alg none); only signed tokens are accepted")]
    Unsigned,
    /// Signed with a shared secret: HS256 and similar.
    #[error("the token is signed with a shared secret ({0}); issuers sign with RS256 or ES256")]
    SharedSecret(String),
    /// An unknown algorithm.
    #[error("the signature algorithm {0} is not known here; issuers sign with RS256 or ES256")]
    Algorithm(String),
    /// A header with `crit`.
    #[error("the token needs extensions (crit) that are not known here")]
    Critical,
    /// No key id.
    #[error("the token does not say which key signed it (kid is missing in its header); its issuer must be asked")]
    NoKid,
    /// A key id that the issuer's set does not have.
    #[error("the issuer has published no key {0}; the token may be old or forged: ask for a new one")]
    UnknownKid(String),
    /// Several keys fit.
    #[error("the issuer has published several keys named {0}; its operator must give each its own kid")]
    AmbiguousKid(String),
    /// The key is for another algorithm.
    #[error("the issuer's key {0} is for another algorithm than the token names")]
    KeyMismatch(String),
    /// Not an issuer of this node.
    #[error("the issuer {0} is not trusted here; the node's operator can add it to access.toml")]
    Issuer(String),
    /// The signature is wrong.
    #[error("the signature is wrong; the token was changed or forged")]
    Signature,
    /// A claim that the profile requires is missing.
    #[error("the claim {claim} is missing; the token does not follow its profile")]
    Missing {
        /// The name of the claim.
        claim: &'static str,
    },
    /// A claim of another type or form.
    #[error("the claim {claim} is malformed; the token does not follow its profile")]
    Claim {
        /// The name of the claim.
        claim: &'static str,
    },
    /// It has expired.
    #[error("the token expired {} ago; get a new one",
            model::duration::show(std::time::Duration::from_secs(seconds_ago.unsigned_abs())))]
    Expired {
        /// How long ago.
        seconds_ago: i64,
    },
    /// It is not valid yet.
    #[error("the token becomes valid in {seconds} s ({claim}); the clock here or at its issuer is wrong")]
    NotYet {
        /// In how many seconds it becomes valid.
        seconds: i64,
        /// `nbf` or `iat`.
        claim: &'static str,
    },
    /// For another service.
    #[error("the token is for {found}, this node is {expected}; ask the issuer for that audience")]
    Audience {
        /// The audience that it is for.
        found: String,
        /// The audience of this node.
        expected: String,
    },
    /// Of neither profile, or of an unknown version.
    #[error("the token's version {0} is not known here (WLCG 1.x and scitoken:2.x are)")]
    Version(String),
    /// The issuer is configured for another profile.
    #[error("tokens of this issuer are expected to be of the other profile (profile in access.toml)")]
    Profile,
    /// A storage scope without a path.
    #[error("the scope {0} has no path; it must be like storage.read:/path")]
    ScopeWithoutPath(String),
    /// A storage scope with a malformed path.
    #[error("the path of the scope {0} is malformed: a path starts with a slash, has no .. and no encoded slash")]
    ScopePath(String),
}

impl Blame for TokenError {
    fn fault(&self) -> Fault {
        Fault::Auth
    }
}

const _: () = assert!(size_of::<TokenError>() <= 128, "results stay small");

/// The most characters that are quoted from a peer's text.
const SHOWN: usize = 80;

/// A peer's text for a header or a log: printable ASCII without quote and backslash, cut to a bound.
pub fn shown(text: &str) -> String {
    let plain = |c: char| if (c.is_ascii_graphic() || c == ' ') && c != '"' && c != '\\' { c } else { '?' };
    let mut out: String = text.chars().take(SHOWN).map(plain).collect();
    if text.chars().nth(SHOWN).is_some() {
        out.push_str("...");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_text_cannot_break_a_header() {
        assert_eq!(shown("a\"b\\c\r\nd\u{e9}"), "a?b?c??d?");
        assert_eq!(shown(&"x".repeat(100)).len(), 83);
    }
}
