//! Errors of Rucio's API: a class that its clients know, and a sentence.

use axum::response::Response;
use http::{HeaderName, HeaderValue};
use serde_json::json;
use web::Refused;

use super::with_body;
use crate::catalogue::refused;
use crate::database::DatabaseError;

/// An error of Rucio's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RucioError {
    pub status: u16,
    pub class: &'static str,
    pub message: String,
}

const CLASS: HeaderName = HeaderName::from_static("exceptionclass");
const MESSAGE: HeaderName = HeaderName::from_static("exceptionmessage");
/// The most characters of a sentence in a header field.
const HEADER_CHARS_MAX: usize = 125;

impl RucioError {
    pub fn new(status: u16, class: &'static str, message: impl Into<String>) -> RucioError {
        RucioError { status, class, message: message.into() }
    }

    /// The same error; if it means that something is missing (404), with the class that clients expect.
    pub fn missing(self, class: &'static str) -> RucioError {
        if self.status == 404 { RucioError { class, ..self } } else { self }
    }

    pub fn response(&self) -> Response {
        let body = json!({"ExceptionClass": self.class, "ExceptionMessage": self.message});
        let mut response = with_body(self.status, "application/json", body.to_string());
        let plain = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
        let short: String = self.message.chars().map(plain).take(HEADER_CHARS_MAX).collect();
        response.headers_mut().insert(CLASS, HeaderValue::from_static(self.class));
        if let Ok(short) = HeaderValue::try_from(short) {
            response.headers_mut().insert(MESSAGE, short);
        }
        response
    }
}

impl From<Refused> for RucioError {
    fn from(refused: Refused) -> RucioError {
        // After a 401 clients log in again, three times. So an authenticated client without the right gets a 403.
        let (status, class) = match refused.status {
            401 | 403 => (403, "AccessDenied"),
            404 => (404, "DataIdentifierNotFound"),
            409 => (409, "UnsupportedOperation"),
            500.. => (refused.status, "RucioException"),
            status => (status, "InvalidObject"),
        };
        RucioError::new(status, class, refused.reason)
    }
}

impl From<DatabaseError> for RucioError {
    fn from(error: DatabaseError) -> RucioError {
        RucioError::from(refused(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_in_a_header_is_one_line_of_ascii() {
        let response = RucioError::new(404, "RuleNotFound", "no\nrule \u{e4}").response();
        assert_eq!(response.headers()[MESSAGE], "no?rule ?");
        assert_eq!(RucioError::from(Refused::new(401, "x")).status, 403);
        assert_eq!(RucioError::from(Refused::new(404, "x")).missing("RuleNotFound").class, "RuleNotFound");
    }
}
