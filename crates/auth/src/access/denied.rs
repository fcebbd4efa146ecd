//! Refusals, each with a sentence for the client. Does not know HTTP, but knows which refusals a better credential would change.

use std::net::IpAddr;

use model::fault::{Blame, Fault};

use crate::macaroon::error::MacaroonError;
use crate::token::error::TokenError;

/// A refusal, with a sentence for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The client has no key, and nothing is open to anonymous clients.
    #[error("this node admits no client without a key; ask its operator for one (longhaul grant) and set LONGHAUL_KEY")]
    NoKey,
    /// The key was never issued, was revoked, or has a wrong secret. One message for all three, so that a client cannot tell them apart.
    #[error("the access key is not valid here (never issued, or revoked); ask the node's operator for a new one")]
    UnknownKey,
    /// The key has expired.
    #[error("the access key expired {} ago; ask the node's operator for a new one",
            model::duration::show(std::time::Duration::from_secs(*.seconds_ago as u64)))]
    Expired {
        /// How long ago.
        seconds_ago: i64,
    },
    /// The key is for another export or path.
    #[error("the access key is for {granted}, not for {wanted}")]
    OtherPath {
        /// The path that it is for.
        granted: String,
        /// The requested path.
        wanted: String,
    },
    /// The key allows less.
    #[error("the access key gives only the right to {allowed}; this needs the right to {needed}")]
    Rights {
        /// The actions that it allows.
        allowed: &'static str,
        /// The right that the request needs.
        needed: &'static str,
    },
    /// The export allows less.
    #[error("the export {0} is read-only on this node (its operator serves it without :rw)")]
    ReadOnly(String),
    /// The key was revoked after the session began.
    #[error("the access key was revoked; its running transfers continue, and it cannot begin new ones")]
    Revoked,
    /// There is no such export, or the key may not see it.
    #[error("there is no export {0:?} here (longhaul ls lh://HOST/ lists those that the key may see)")]
    NoExport(String),
    /// The token is not valid.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The macaroon is not valid.
    #[error(transparent)]
    Macaroon(#[from] MacaroonError),
    /// The node does not serve this address.
    #[error(
        "this node does not serve {0}; its operator decides which addresses it serves ([addresses] in access.toml)"
    )]
    Address(IpAddr),
    /// A third-party copy to or from an address that the node does not dial.
    #[error("this node copies nothing to or from {address}, {why} ([third_party] in its access.toml)")]
    ForbiddenAddress {
        /// The address.
        address: IpAddr,
        /// The reason, as a relative clause.
        why: &'static str,
    },
    /// The credential is valid, and no rule of the node gives it any permit.
    #[error(
        "{0} is authenticated, but no rule of this node gives it a right; its operator can add a rule to access.toml"
    )]
    NoRight(String),
    /// The credential is valid, and allows less or is for another path.
    #[error("{who} may not {needed} {place}; it may {permits}")]
    Lacks {
        /// The principal.
        who: String,
        /// What is needed.
        needed: &'static str,
        /// Where.
        place: String,
        /// The actions and paths that it allows.
        permits: String,
    },
    /// Anonymous clients may not do this.
    #[error("a client without a credential may not {needed} {place}; bring a token, a key or a certificate")]
    Anonymous {
        /// What is needed.
        needed: &'static str,
        /// Where.
        place: String,
    },
    /// Anonymous clients may not have the node connect to other hosts.
    #[error(
        "a client without a credential cannot order copies to or from {0}; bring a key, a token or a certificate (the node's \
         operator may allow it: [third_party] guests = true in access.toml)"
    )]
    AnonymousCopies(String),
    /// A macaroon was requested with a macaroon: only keys, tokens and certificates get one.
    #[error("a macaroon is not made from a macaroon; add caveats to the one at hand instead")]
    MacaroonFromMacaroon,
    /// A path caveat outside the path of the request for a macaroon.
    #[error("the caveat path:/{asked} does not lie below /{path}, the path of the request for the macaroon")]
    CaveatPath {
        /// The caveat's.
        asked: String,
        /// The request's.
        path: String,
    },
}

impl Denied {
    /// Whether a credential is missing or bad (HTTP 401). Otherwise it is good, but not for this (403).
    ///
    /// For an [`Access`](crate::Access) that [is anonymous](crate::Access::is_anonymous) every refusal is a 401: a credential could
    /// help.
    pub fn is_unauthenticated(&self) -> bool {
        use Denied::{Anonymous, AnonymousCopies, Expired, Macaroon, NoKey, Revoked, Token, UnknownKey};
        matches!(
            self,
            NoKey
                | UnknownKey
                | Revoked
                | Expired { .. }
                | Token(_)
                | Macaroon(_)
                | Anonymous { .. }
                | AnonymousCopies(_)
        )
    }
}

impl Blame for Denied {
    fn fault(&self) -> Fault {
        match self {
            Denied::NoExport(_) => Fault::Missing,
            _ => Fault::Auth,
        }
    }
}

const _: () = assert!(size_of::<Denied>() <= 128, "results stay small");
