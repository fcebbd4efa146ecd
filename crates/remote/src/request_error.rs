//! Failed requests to servers, and their meaning for the file, for the transfer and for a retry.
//!
//! Does not know: which store made the request, or the command of the user.

use std::time::Duration;

use model::RelPath;
use model::fault::{Fault, with_causes};
use store::Error;
use store::error::shown;
use web::client::ClientError;

/// A request that got no response, or a refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(crate) struct RequestError {
    /// The status of the response, where there was one.
    pub status: Option<u16>,
    pub fault: Fault,
    /// Requests for other files would fail in the same way.
    pub affects_all_files: bool,
    /// One sentence, without a full stop.
    pub why: String,
    /// The same request may succeed later.
    pub may_retry: bool,
    /// The pause that the server asks for, from now.
    pub pause: Option<Duration>,
}

/// The fault of a status, and whether other requests would fail in the same way.
fn meaning(status: u16) -> (Fault, bool) {
    match status {
        401 | 407 => (Fault::Auth, true),
        403 => (Fault::Auth, false),
        404 | 410 => (Fault::Missing, false),
        405 | 501 => (Fault::Config, false),
        408 | 425 | 429 | 502..=504 => (Fault::Path, true),
        // The server failed at this request; others may succeed.
        500 => (Fault::Peer, false),
        409 | 412 | 413 | 416 | 423 | 507 => (Fault::Storage, false),
        _ => (Fault::Peer, false),
    }
}

/// Whether a failure with this status may pass.
pub(crate) fn may_pass(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502..=504)
}

/// What the user can do about it.
fn remedy(status: u16) -> &'static str {
    match status {
        401 => " (a token is needed, or the one there has expired: BEARER_TOKEN, BEARER_TOKEN_FILE)",
        403 => " (the token or key does not allow this)",
        507 => " (it is full; free space there)",
        _ => "",
    }
}

/// The server's explanation, fit for one line of text: the first line of its body.
pub(crate) fn explanation(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 << 10)]);
    let text = match xml_message(&text) {
        Some(message) => message,
        None if text.trim_start().starts_with('<') => return String::new(),
        None => text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default(),
    };
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// The message in an error document of an S3 or WebDAV server.
fn xml_message(text: &str) -> Option<&str> {
    let text_after = |tag: &str| {
        let (_, rest) = text.split_once(tag)?;
        rest.split('<').next().map(str::trim).filter(|explanation| !explanation.is_empty())
    };
    text_after("<Message>").or_else(|| text_after("message>")).or_else(|| text_after("<Code>"))
}

impl RequestError {
    /// The server broke the protocol.
    pub fn protocol_error(why: impl Into<String>) -> RequestError {
        RequestError {
            status: None,
            fault: Fault::Peer,
            affects_all_files: false,
            why: why.into(),
            may_retry: false,
            pause: None,
        }
    }

    /// The store's configuration is wrong.
    pub fn config_error(why: impl Into<String>) -> RequestError {
        RequestError { fault: Fault::Config, ..RequestError::protocol_error(why) }
    }

    /// The connection broke, or could not be made.
    pub fn connection_error(why: impl Into<String>) -> RequestError {
        RequestError {
            status: None,
            fault: Fault::Path,
            affects_all_files: true,
            why: why.into(),
            may_retry: true,
            pause: None,
        }
    }

    /// A refusal, by its status and body.
    pub fn refusal(host: &str, status: u16, body: &[u8]) -> RequestError {
        let (fault, general) = meaning(status);
        let text = explanation(body);
        let colon = if text.is_empty() { "" } else { ": " };
        let why = format!("{host} answered {status}{colon}{text}{}", remedy(status));
        RequestError {
            status: Some(status),
            fault,
            affects_all_files: general,
            why,
            may_retry: may_pass(status),
            pause: None,
        }
    }

    /// A refusal of another protocol than HTTP: the status that means the same there, and the server's words.
    pub fn with_status(status: u16, why: String) -> RequestError {
        let (fault, general) = meaning(status);
        RequestError {
            status: Some(status),
            fault,
            affects_all_files: general,
            why: why + remedy(status),
            may_retry: may_pass(status),
            pause: None,
        }
    }

    /// This failure, for an upload whose bytes are lost: a retry has nothing to send.
    pub fn without_retry(self) -> RequestError {
        match self.status {
            Some(507) => RequestError { status: None, fault: Fault::Storage, may_retry: false, ..self },
            _ => self,
        }
    }

    /// Whether the status is one of these.
    pub fn is(&self, statuses: &[u16]) -> bool {
        self.status.is_some_and(|status| statuses.contains(&status))
    }

    /// The store's error for this failure; `verb` is the one of its message.
    pub fn into_store_error(self, verb: &'static str, path: &RelPath) -> Error {
        let io = |kind| Error::io(verb, path, std::io::Error::new(kind, self.why.clone()));
        match self.status {
            Some(404 | 410) => io(std::io::ErrorKind::NotFound),
            Some(507) => io(std::io::ErrorKind::StorageFull),
            _ => Error::Server {
                doing: verb,
                path: shown(path),
                fault: self.fault,
                general: self.affects_all_files,
                why: self.why,
            },
        }
    }
}

impl From<ClientError> for RequestError {
    fn from(error: ClientError) -> RequestError {
        let why = with_causes(&error);
        match error {
            ClientError::Url(_) => RequestError::config_error(why),
            ClientError::Forbidden { .. } => {
                RequestError { fault: Fault::Auth, affects_all_files: true, ..RequestError::protocol_error(why) }
            }
            // Waiting does not make a certificate trusted.
            ClientError::Tls { source, .. } if source.kind() == std::io::ErrorKind::InvalidData => {
                RequestError { fault: Fault::Auth, affects_all_files: true, ..RequestError::protocol_error(why) }
            }
            ClientError::Protocol { .. } | ClientError::Redirects { .. } => RequestError::protocol_error(why),
            _ => RequestError::connection_error(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::fault::Blame;

    fn error(status: u16) -> Error {
        RequestError::refusal("h", status, b"no\r\nmore").into_store_error("read", &RelPath::parse(b"d/f").unwrap())
    }

    #[test]
    fn a_status_decides_fault_and_retry() {
        assert!(error(404).is_not_found() && error(507).is_full());
        assert!(error(401).is_fatal() && !error(403).is_fatal() && error(503).is_fatal());
        assert_eq!(
            [401, 403, 418, 503].map(|s| error(s).fault()),
            [Fault::Auth, Fault::Auth, Fault::Peer, Fault::Path]
        );
        assert_eq!(error(418).to_string(), "cannot read d/f: h answered 418: no");
    }

    #[test]
    fn the_explanation_of_a_server_is_one_line_of_text() {
        assert_eq!(explanation(b"\n  too bad \r\nmore"), "too bad");
        assert_eq!(explanation(b"<html><body>No</body></html>"), "");
        assert_eq!(explanation(b"<?xml?><Error><Code>X</Code><Message>Slow down.</Message></Error>"), "Slow down.");
        assert_eq!(explanation(b"<?xml?><Error><Code>AccessDenied</Code><Message></Message></Error>"), "AccessDenied");
        assert_eq!(explanation(b"a\x1b[31mb\xff"), "a[31mb\u{fffd}");
        assert_eq!(explanation(&[b'x'; 9000]).len(), 200);
    }
}
