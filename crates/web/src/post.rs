//! Posts documents to other servers.

use serde_json::Value;

use crate::routes::JSON;
use crate::{Client, ClientError, Dialer, Headers, HttpUrl, Method};

/// The most bytes of a response.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Why a server did not accept a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct PostError {
    /// The status of the response; `None` where there was none.
    pub status: Option<u16>,
    why: String,
}

/// Posts a document, with additional header fields.
///
/// # Errors
/// There is no response, or its status is not 2xx.
pub fn document(dialer: &Dialer, url: &str, fields: &[(String, String)], document: &Value) -> Result<(), PostError> {
    text(dialer, url, fields, &document.to_string()).map(drop)
}

/// Posts a document. Returns the document in the response, or null where that is not JSON.
///
/// # Errors
/// There is no response, or its status is not 2xx.
pub fn for_document(dialer: &Dialer, url: &str, document: &Value) -> Result<Value, PostError> {
    let answer = text(dialer, url, &[], &document.to_string())?;
    Ok(serde_json::from_slice(&answer).unwrap_or_default())
}

/// Posts the text of a document, with additional header fields. Returns the body of the response.
///
/// # Errors
/// There is no response, or its status is not 2xx.
pub fn text(dialer: &Dialer, url: &str, fields: &[(String, String)], text: &str) -> Result<Vec<u8>, PostError> {
    typed(dialer, url, JSON, fields, text)
}

/// Posts a text of another media type. Returns the body of the response.
///
/// # Errors
/// There is no response, or its status is not 2xx.
pub fn typed(
    dialer: &Dialer,
    url: &str,
    media: &str,
    fields: &[(String, String)],
    text: &str,
) -> Result<Vec<u8>, PostError> {
    let failed = |error: ClientError| PostError { status: None, why: model::fault::with_causes(&error) };
    let parsed = HttpUrl::parse(url).map_err(|error| PostError { status: None, why: error.to_string() })?;
    let mut client = Client::new(dialer, &parsed).map_err(failed)?;
    let mut headers = Headers::new().with("Content-Type", media).with("Content-Length", text.len().to_string());
    fields.iter().for_each(|(name, value)| headers.add(name, value.as_str()));
    client.send(&Method::Post, parsed.path_and_query(), &headers).map_err(failed)?;
    client.write(text.as_bytes()).map_err(failed)?;
    let (response, mut body) = client.final_response(&Method::Post).map_err(failed)?;
    match response.status {
        200..300 => client.read_all(&mut body, ANSWER_BYTES_MAX).map_err(failed),
        status => Err(PostError { status: Some(status), why: format!("{} answers {status}", parsed.authority()) }),
    }
}
