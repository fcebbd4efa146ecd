//! Whose fault a failure is, whether trying again helps, and the exit code that says so.
//!
//! Every error of every crate answers two questions, [`Fault`] and [`Retry`]; these two drive exit codes, HTTP status
//! and retry policy, so that no caller ever has to read an error's text.

use serde::{Deserialize, Serialize};

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// What was typed or configured here cannot be done.
    Config,
    /// This host lacks a resource other than storage (descriptors, memory, a clock).
    Local,
    /// The peer broke the protocol, or speaks another.
    Peer,
    /// The peer, or the path to it, cannot be reached or went silent.
    Path,
    /// A file system refused: full, quota, permission, I/O error.
    Storage,
    /// The key, identity or policy does not allow it.
    Auth,
    /// Bytes are not what they were.
    Integrity,
    /// A thing that was named does not exist.
    Missing,
    /// The user stopped it.
    Interrupted,
    /// A defect of Longhaul.
    Bug,
}

/// Whether trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// The same attempt will fail the same way.
    Never,
    /// At once, for example on another stream.
    Now,
    /// After a pause.
    After,
}

/// Explanations, with the remedy, of library messages that only print the name of an error type.
const EXPLANATIONS: [(&str, &str); 1] = [(
    "CaUsedAsEndEntity",
    "the server shows the certificate of an authority as its own (CA:TRUE); make one with basicConstraints=CA:FALSE, or one \
     that the authority signs",
)];

/// A library's message, or its explanation where the message is only the name of an error type.
pub fn explain_library_message(message: String) -> String {
    EXPLANATIONS.iter().find(|(name, _)| message.contains(name)).map_or(message, |(_, words)| (*words).to_owned())
}

/// An error and its chain of causes in one line; a cause whose text is already there is not repeated.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let message = explain_library_message(inner.to_string());
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = inner.source();
    }
    text
}

/// Whose fault an error is and whether to try again: every `Error` type of the workspace implements it.
pub trait Blame {
    /// Whose fault it is.
    fn fault(&self) -> Fault;
    /// Whether trying again can help.
    fn retry(&self) -> Retry {
        match self.fault() {
            Fault::Path => Retry::After,
            _ => Retry::Never,
        }
    }
}

/// Why something was refused or failed, in the words that the other end shows to its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whose fault, as the end that refuses sees it.
    pub fault: Fault,
    /// One sentence: what, where and the remedy.
    pub reason: String,
}

impl Refusal {
    /// A refusal with its reason.
    pub fn new(fault: Fault, reason: impl Into<String>) -> Refusal {
        Refusal { fault, reason: reason.into() }
    }

    /// A refusal that carries the whole chain of an error's causes.
    pub fn from_error<E: std::error::Error + Blame>(error: &E) -> Refusal {
        Refusal { fault: error.fault(), reason: with_causes(error) }
    }
}

/// The exit codes: one table for every command, relied on by scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed: nothing, or not all, arrived.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Done in part; what is missing is named in the receipt.
    Partial = 3,
    /// Refused: key, identity, policy.
    Refused = 4,
    /// Peer or path unreachable.
    Unreachable = 5,
    /// Storage: full, quota, permission, I/O.
    Storage = 6,
    /// Bytes are not what they were.
    Integrity = 7,
    /// Version or protocol.
    Protocol = 8,
    /// A defect of Longhaul.
    Bug = 70,
    /// Interrupted, resumable.
    Interrupted = 130,
}

impl From<Fault> for Exit {
    fn from(fault: Fault) -> Exit {
        match fault {
            Fault::Config => Exit::Usage,
            Fault::Local | Fault::Missing => Exit::Failed,
            Fault::Interrupted => Exit::Interrupted,
            Fault::Peer => Exit::Protocol,
            Fault::Path => Exit::Unreachable,
            Fault::Storage => Exit::Storage,
            Fault::Auth => Exit::Refused,
            Fault::Integrity => Exit::Integrity,
            Fault::Bug => Exit::Bug,
        }
    }
}

impl Fault {
    /// The HTTP status of a request that failed with this fault (RFC 9110, section 15): one table for every service. A service
    /// that knows more than the fault, for example that a disk is full (507), answers with the more precise status.
    pub fn http_status(self) -> u16 {
        match self {
            Fault::Config | Fault::Peer => 400,
            Fault::Auth => 403,
            Fault::Missing => 404,
            Fault::Integrity => 422,
            Fault::Local | Fault::Storage | Fault::Bug => 500,
            Fault::Interrupted => 503,
            Fault::Path => 504,
        }
    }

    /// All faults.
    pub const ALL: [Fault; 10] = [
        Fault::Config,
        Fault::Local,
        Fault::Peer,
        Fault::Path,
        Fault::Storage,
        Fault::Auth,
        Fault::Integrity,
        Fault::Missing,
        Fault::Interrupted,
        Fault::Bug,
    ];

    /// The fault that a word in JSON stands for; none for a word of a later version.
    pub fn of_word(word: &str) -> Option<Fault> {
        Fault::ALL.into_iter().find(|fault| fault.word() == word)
    }

    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Fault::Config => "config",
            Fault::Local => "local",
            Fault::Peer => "peer",
            Fault::Path => "path",
            Fault::Storage => "storage",
            Fault::Auth => "auth",
            Fault::Integrity => "integrity",
            Fault::Missing => "missing",
            Fault::Interrupted => "interrupted",
            Fault::Bug => "bug",
        }
    }

    /// The byte that stands for this fault on the wire.
    pub fn code(self) -> u8 {
        match self {
            Fault::Config => 1,
            Fault::Local => 2,
            Fault::Peer => 3,
            Fault::Path => 4,
            Fault::Storage => 5,
            Fault::Auth => 6,
            Fault::Integrity => 7,
            Fault::Bug => 8,
            Fault::Missing => 9,
            Fault::Interrupted => 10,
        }
    }

    /// The fault that a byte on the wire stands for. A byte of a later version is taken as [`Fault::Peer`].
    pub fn from_code(code: u8) -> Fault {
        match code {
            1 => Fault::Config,
            4 => Fault::Path,
            5 => Fault::Storage,
            6 => Fault::Auth,
            7 => Fault::Integrity,
            8 => Fault::Bug,
            9 => Fault::Missing,
            10 => Fault::Interrupted,
            2 => Fault::Local,
            _ => Fault::Peer,
        }
    }
}
