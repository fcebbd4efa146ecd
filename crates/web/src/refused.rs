//! The refusal of a request: its status, and a sentence for the client.

use model::v1::node::Problem;
use model::{Fault, Refusal};

use crate::Headers;

/// A refusal, with its HTTP status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status.
    pub status: u16,
    /// One sentence: what, where and the remedy.
    pub reason: String,
    /// The fault, where the status does not imply it.
    pub fault: Option<Fault>,
    /// Fields of the response, such as `WWW-Authenticate` and `Retry-After`.
    pub headers: Headers,
}

impl Refused {
    /// A refusal with this status and reason.
    pub fn new(status: u16, reason: impl Into<String>) -> Refused {
        Refused { status, reason: reason.into(), fault: None, headers: Headers::new() }
    }

    /// The refusal as a problem of RFC 9457.
    pub fn problem(&self) -> Problem {
        let fault = self.fault.unwrap_or(match self.status {
            401 | 403 => Fault::Auth,
            404 => Fault::Missing,
            500.. => Fault::Local,
            _ => Fault::Config,
        });
        let title = crate::head::reason(self.status).to_owned();
        Problem { title, status: self.status, fault: fault.word().to_owned(), reason: self.reason.clone() }
    }

    /// Adds a field of the response.
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
