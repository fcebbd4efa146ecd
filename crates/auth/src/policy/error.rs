//! Errors of a policy: the line in the file, what is wrong, and what to write instead.

use model::fault::{Blame, Fault};

/// Why a policy is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Too long.
    #[error("the policy has {bytes} bytes, more than the {} that are read", crate::limits::POLICY_BYTES)]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Not TOML, or with an unknown word.
    #[error("line {line}: {what}")]
    Syntax {
        /// The line.
        line: usize,
        /// What is wrong, and what is expected.
        what: String,
    },
    /// A value that is not valid, or contradicts another one.
    #[error("line {line}: {what}; {remedy}")]
    Meaning {
        /// Where the table begins.
        line: usize,
        /// What is wrong.
        what: String,
        /// What to write instead.
        remedy: &'static str,
    },
}

impl Blame for PolicyError {
    fn fault(&self) -> Fault {
        Fault::Config
    }
}

const _: () = assert!(size_of::<PolicyError>() <= 128, "results stay small");
