//! Why a macaroon, or a request for one, is refused. The messages never contain the macaroon.

use std::net::IpAddr;

use model::fault::{Blame, Fault};

use crate::limits::{CAVEATS, MACAROON_BYTES, REQUEST_BYTES};

/// Why a macaroon is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MacaroonError {
    /// Too long.
    #[error("the macaroon has {bytes} characters, more than the {MACAROON_BYTES} that are read")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Not a macaroon.
    #[error("this is not a macaroon of libmacaroons version 1: {what} is missing or damaged; copy all of it again")]
    Malformed {
        /// What should be there.
        what: &'static str,
    },
    /// Too many caveats.
    #[error("the macaroon has more than {CAVEATS} caveats")]
    TooManyCaveats,
    /// A third-party caveat.
    #[error("the macaroon has a third-party caveat; this node knows no third parties")]
    ThirdParty,
    /// Another node made it, or it was changed.
    #[error("the macaroon was not made by this node, or was changed; ask this node for a new one")]
    Signature,
    /// It was made with this node's secret, and its identifier has another form.
    #[error("the macaroon's identifier is not one of this node; ask this node for a new one")]
    Identifier,
    /// An unknown caveat. It is refused, because its author wanted to restrict something.
    #[error(
        "caveat {number} of the macaroon is unknown or malformed (known are activity:, path:/, before:TIME, ip:, name:); the macaroon is refused"
    )]
    Caveat {
        /// Its number, from 1.
        number: usize,
    },
    /// Its caveats together allow nothing.
    #[error("the {what} caveats of the macaroon leave nothing that it could be used for")]
    Nothing {
        /// The kind of caveats.
        what: &'static str,
    },
    /// It has no activity caveat.
    #[error("the macaroon has no activity caveat; ask this node for a new one")]
    NoActivity,
    /// It has no path caveat.
    #[error("the macaroon has no path caveat; ask this node for a new one")]
    NoPath,
    /// The client's address is not in its `ip:` caveats.
    #[error("the macaroon is not valid for the address {0}: its ip: caveats name other addresses")]
    Address(IpAddr),
    /// The rules or the issuer that gave its first holder the rights no longer exist.
    #[error(
        "the rights that this macaroon was made from no longer exist (a rule or an issuer is gone); ask for a new one"
    )]
    Void,
    /// This node accepts no macaroons.
    #[error("this node accepts no macaroons; its operator can turn them on ([macaroons] in access.toml)")]
    Off,
    /// It has expired.
    #[error("the macaroon expired {} ago; ask for a new one",
            model::duration::show(std::time::Duration::from_secs(seconds_ago.unsigned_abs())))]
    Expired {
        /// How long ago.
        seconds_ago: i64,
    },
}

impl Blame for MacaroonError {
    fn fault(&self) -> Fault {
        Fault::Auth
    }
}

/// Why a request for a macaroon is refused (HTTP 400).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Too long.
    #[error("the request has {bytes} bytes, more than the {REQUEST_BYTES} that are read")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Not JSON of that form.
    #[error("the request is not of the form {{\"caveats\":[\"activity:DOWNLOAD,LIST\"],\"validity\":\"PT10M\"}}")]
    Json,
    /// Not a form of that kind.
    #[error("the request is not of the form grant_type=client_credentials&expire_in=600&scope=DOWNLOAD:/path")]
    Form,
    /// A missing or malformed validity.
    #[error(
        "the validity must be a positive ISO 8601 duration of weeks, days, hours, minutes and seconds, such as PT10M"
    )]
    Validity,
    /// A caveat that only the node writes.
    #[error("the caveat {0}: is written by the node; only activity: and path:/ can be asked for")]
    Reserved(&'static str),
    /// A caveat that is not known.
    #[error("caveat {number} of the request is unknown or malformed; write activity:DOWNLOAD,LIST or path:/PATH")]
    Caveat {
        /// Its number, from 1.
        number: usize,
    },
    /// A malformed scope.
    #[error("scope {number} of the request is malformed; write DOWNLOAD:/PATH")]
    Scope {
        /// Its number, from 1.
        number: usize,
    },
    /// Scopes for several paths: one macaroon has one path.
    #[error("the scopes name several paths; ask for one macaroon per path")]
    Paths,
    /// No activity remains: the activity caveats have none in common, or there is no scope.
    #[error("the activities asked for leave nothing")]
    Nothing,
}

impl Blame for RequestError {
    fn fault(&self) -> Fault {
        Fault::Config
    }
}

const _: () = assert!(size_of::<MacaroonError>() <= 128 && size_of::<RequestError>() <= 128, "results stay small");
