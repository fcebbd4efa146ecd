//! Why bytes are not a message of the protocol.

/// Why bytes are not a message of the protocol. The peer can go on after it, unless the frame itself is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// A length below zero, after which no frame can be found.
    #[error("the length of a message is negative")]
    Length,
    /// A message that is longer than its kind may be.
    #[error("a message of {bytes} bytes is longer than the {limit} that are allowed")]
    TooLong {
        /// Its length, bytes.
        bytes: u64,
        /// The longest that is allowed, bytes.
        limit: u64,
    },
    /// A code that is not known.
    #[error("the request {0} is not known")]
    Code(u16),
    /// A field that is missing, or has an impossible value.
    #[error("{0} is missing or not valid")]
    Field(&'static str),
    /// A login, or another request, at a time at which it is not allowed.
    #[error("{0}")]
    Order(&'static str),
}
