//! Why a chain of certificates proves nobody.

use model::fault::{Blame, Fault};

use crate::limits::{CERTIFICATE_BYTES, CHAIN_CERTIFICATES, PROXIES};

/// Why a chain of certificates proves nobody. Each is a sentence for whoever showed it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// No certificate at all.
    #[error("no certificate was shown")]
    Empty,
    /// Too many, or too long.
    #[error("the chain has more than {CHAIN_CERTIFICATES} certificates, or one of more than {CERTIFICATE_BYTES} bytes")]
    TooLong,
    /// Something that does not parse.
    #[error("a certificate in the chain is damaged")]
    Malformed,
    /// The end-entity has no name that could be compared.
    #[error("the certificate has no name, or one with several attributes in one part")]
    Nameless,
    /// Over.
    #[error("the {kind} {name} expired at {at}: make a new one")]
    Expired {
        /// `certificate` or `proxy certificate`.
        kind: &'static str,
        /// Whose.
        name: String,
        /// When.
        at: String,
    },
    /// Too early.
    #[error("the {kind} {name} is not valid before {at}: look at the clocks")]
    NotYet {
        /// `certificate` or `proxy certificate`.
        kind: &'static str,
        /// Whose.
        name: String,
        /// When.
        at: String,
    },
    /// Nobody who is trusted vouches for the end-entity.
    #[error("no authority that is trusted here vouches for the certificate {name}; its issuer is {issuer}")]
    UnknownIssuer {
        /// Whose.
        name: String,
        /// Who signed it.
        issuer: String,
    },
    /// The end-entity is none, or not for clients.
    #[error("the certificate {name} does not count for a client: {why}")]
    EndEntity {
        /// Whose.
        name: String,
        /// Why.
        why: String,
    },
    /// A proxy without the certificate that signed it.
    #[error("the certificate that signed the proxy certificate {0} was not sent along")]
    Incomplete(String),
    /// A proxy of before RFC 3820.
    #[error(
        "{0} is a legacy proxy certificate, of before RFC 3820, which does not count: make one with voms-proxy-init --rfc"
    )]
    Legacy(String),
    /// A proxy of the draft of RFC 3820.
    #[error(
        "{0} is a proxy certificate by a draft of RFC 3820 (Globus 3), which does not count: make one with voms-proxy-init --rfc"
    )]
    Draft(String),
    /// A proxy that inherits no rights, or some that only others understand.
    #[error(
        "the proxy certificate {0} does not inherit all rights of its owner, or says how in a language that is not spoken here"
    )]
    Language(String),
    /// A proxy that breaks a rule of RFC 3820.
    #[error("the proxy certificate {name} is none by RFC 3820: {why}")]
    Proxy {
        /// Which.
        name: String,
        /// Which rule.
        why: &'static str,
    },
    /// More proxies than somebody above allows.
    #[error("there are more proxy certificates below {0} than it allows")]
    Depth(String),
    /// More proxies than are read.
    #[error("there are more than {PROXIES} proxy certificates in the chain")]
    Proxies,
    /// A signature that is not by the key above.
    #[error("the proxy certificate {0} was not signed by the certificate above it")]
    Signature(String),
    /// An algorithm that does not count.
    #[error(
        "the proxy certificate {0} is signed with an algorithm or a key that is too weak: RSA takes 2048 bits, and SHA-1 does not count"
    )]
    Algorithm(String),
}

impl Blame for ChainError {
    fn fault(&self) -> Fault {
        Fault::Auth
    }
}

/// A time as people read it.
pub(super) fn at(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| "an unknown time".to_owned(), |time| time.to_string())
}
