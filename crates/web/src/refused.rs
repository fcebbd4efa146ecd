//! A request that is refused: its status, and a sentence for whoever reads it.

use model::{Fault, Refusal};

use crate::Headers;

/// A refusal, with its HTTP status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status.
    pub status: u16,
    /// One sentence: what, where and the remedy.
    pub reason: String,
    /// Whose fault, where the status does not say it all.
    pub fault: Option<Fault>,
    /// Fields of the answer, such as `WWW-Authenticate` and `Retry-After`.
    pub headers: Headers,
}

impl Refused {
    /// With this status and reason.
    pub fn new(status: u16, reason: impl Into<String>) -> Refused {
        Refused { status, reason: reason.into(), fault: None, headers: Headers::new() }
    }

    /// The same with a field of the answer.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Refused {
        self.headers.add(name, value);
        self
    }
}

impl From<Refusal> for Refused {
    fn from(Refusal { fault, reason }: Refusal) -> Refused {
        Refused { fault: Some(fault), ..Refused::new(fault.http_status(), reason) }
    }
}
