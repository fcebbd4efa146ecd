//! Why a chain of certificates proves no identity.

use model::fault::{Blame, Fault};

use crate::limits::{CERTIFICATE_BYTES, CHAIN_CERTIFICATES, PROXIES};

/// Why a chain of certificates proves no identity. Each is a sentence for the client that presented it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// No certificate at all.
    #[error("no certificate was shown")]
    Empty,
    /// Too many, or too long.
    #[error("the chain has more than {CHAIN_CERTIFICATES} certificates, or one of more than {CERTIFICATE_BYTES} bytes")]
    TooLong,
    /// A certificate that does not parse.
    #[error("a certificate in the chain is damaged")]
    Malformed,
    /// The end-entity has no name that could be compared.
    #[error("the certificate has no name, or one with several attributes in one part")]
    Nameless,
    /// It has expired.
    #[error("the {kind} {name} expired at {at}: make a new one")]
    Expired {
        /// `certificate` or `proxy certificate`.
        kind: &'static str,
        /// Whose.
        name: String,
        /// When.
        at: String,
    },
    /// It is not valid yet.
    #[error("the {kind} {name} is not valid before {at}: look at the clocks")]
    NotYet {
        /// `certificate` or `proxy certificate`.
        kind: &'static str,
        /// Whose.
        name: String,
        /// When.
        at: String,
    },
    /// No trusted authority signed the end-entity.
    #[error("no authority that is trusted here vouches for the certificate {name}; its issuer is {issuer}")]
    UnknownIssuer {
        /// Whose.
        name: String,
        /// Who signed it.
        issuer: String,
    },
    /// Its authority has revoked it, or an authority above has revoked that one.
    #[error(
        "the certificate {name} was revoked by its authority {issuer}, or that authority's own was: ask it for a new one"
    )]
    Revoked {
        /// Whose.
        name: String,
        /// Who signed it.
        issuer: String,
    },
    /// The revocation list of an authority on its path is too old to say whether it was revoked.
    #[error(
        "whether the certificate {name} was revoked is not known: the revocation list of its authority is past its next update; \
         the operator of this service must fetch a new one (fetch-crl)"
    )]
    OldRevocationList {
        /// Whose.
        name: String,
    },
    /// Its authority may not sign its name.
    #[error(
        "the authority {authority} may not sign the name {name}: its signing policy at this service does not permit it"
    )]
    SigningPolicy {
        /// The authority.
        authority: String,
        /// The name.
        name: String,
    },
    /// The end-entity is an authority's certificate, or not for clients.
    #[error("the certificate {name} is not accepted from a client: {why}")]
    EndEntity {
        /// Whose.
        name: String,
        /// Why.
        why: String,
    },
    /// A proxy without the certificate that signed it.
    #[error("the certificate that signed the proxy certificate {0} was not sent along")]
    Incomplete(String),
    /// A proxy from before RFC 3820.
    #[error(
        "{0} is a legacy proxy certificate, of before RFC 3820, which is not accepted: make one with voms-proxy-init --rfc"
    )]
    Legacy(String),
    /// A proxy of the draft of RFC 3820.
    #[error(
        "{0} is a proxy certificate by a draft of RFC 3820 (Globus 3), which is not accepted: make one with voms-proxy-init --rfc"
    )]
    Draft(String),
    /// A proxy that inherits not all rights, or whose policy language is unknown.
    #[error(
        "the proxy certificate {0} does not inherit all rights of its owner, or says how in a language that is not spoken here"
    )]
    Language(String),
    /// A proxy that breaks a rule of RFC 3820.
    #[error("the proxy certificate {name} does not follow RFC 3820: {why}")]
    Proxy {
        /// Which.
        name: String,
        /// Which rule.
        why: &'static str,
    },
    /// More proxies than a certificate above allows.
    #[error("there are more proxy certificates below {0} than it allows")]
    Depth(String),
    /// More proxies than the bound.
    #[error("there are more than {PROXIES} proxy certificates in the chain")]
    Proxies,
    /// A signature that is not by the key of the certificate above.
    #[error("the proxy certificate {0} was not signed by the certificate above it")]
    Signature(String),
    /// A signature algorithm or a key that is too weak.
    #[error(
        "the proxy certificate {0} is signed with an algorithm or a key that is too weak: RSA takes 2048 bits, and SHA-1 is not accepted"
    )]
    Algorithm(String),
}

impl Blame for ChainError {
    fn fault(&self) -> Fault {
        Fault::Auth
    }
}

/// A time as text.
pub(super) fn at(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| "an unknown time".to_owned(), |time| time.to_string())
}
