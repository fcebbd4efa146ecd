//! Breaches of the protocol: in a peer's bytes, or in the order of its messages.

use model::fault::{Blame, Fault};

/// A breach of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Fewer bytes than the field needs.
    #[error("the message ends inside {0}")]
    Short(&'static str),
    /// More bytes than the message has fields.
    #[error("{0} bytes follow the end of the message")]
    Trailing(usize),
    /// A length or count above its bound.
    #[error("{what} of {got} is above the limit of {limit}")]
    TooLarge {
        /// The name of the length or count.
        what: &'static str,
        /// The peer's value.
        got: u64,
        /// The bound.
        limit: u64,
    },
    /// A value that has no meaning.
    #[error("{0} has a value without meaning")]
    Invalid(&'static str),
    /// A message type that this version does not have.
    #[error("message type {0} is not of this protocol version")]
    Unknown(u8),
    /// A message that makes sense, but not now.
    #[error("{0}")]
    Unexpected(&'static str),
    /// The checksum over a record's table is wrong.
    #[error("a record's table arrived damaged")]
    Damaged,
    /// No version in common.
    #[error("no common protocol version: this side speaks {ours}, the peer {theirs}")]
    Version {
        /// The versions of this side, as text.
        ours: String,
        /// The versions of the peer, as text.
        theirs: String,
    },
}

impl Blame for WireError {
    fn fault(&self) -> Fault {
        match self {
            WireError::Damaged => Fault::Integrity,
            _ => Fault::Peer,
        }
    }
}
