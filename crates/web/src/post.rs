//! Posts documents to other servers.

use std::time::Duration;

use serde_json::{Value, json};

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

/// Asks a server for a macaroon that allows one activity (`DOWNLOAD`, `UPLOAD`, …) with the file of a URL, and expires after a time.
///
/// # Errors
/// There is no response, or the server makes no macaroons.
pub fn for_macaroon(
    dialer: &Dialer,
    url: &str,
    credential: Option<&str>,
    activity: &str,
    expires_in: Duration,
) -> Result<String, PostError> {
    let validity = format!("PT{}S", expires_in.as_secs());
    let wanted = json!({"caveats": [format!("activity:{activity}")], "validity": validity});
    let bearer = credential.map(|credential| ("Authorization".to_owned(), format!("Bearer {credential}")));
    let answer = typed(dialer, url, "application/macaroon-request", bearer.as_slice(), &wanted.to_string())?;
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let without = || PostError { status: None, why: "the server answers without a macaroon".to_owned() };
    answer["macaroon"].as_str().map(str::to_owned).ok_or_else(without)
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
