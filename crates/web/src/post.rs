//! Documents that are posted to others: the answer counts by its status, and by what it says where that is wanted.

use serde_json::Value;

use crate::routes::JSON;
use crate::{Client, ClientError, Dialer, Headers, HttpUrl, Method};

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Why somebody did not take what was posted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NotTaken {
    /// What was answered; none where nothing was.
    pub status: Option<u16>,
    why: String,
}

/// Posts a document, with these fields besides.
///
/// # Errors
/// Nobody answers, or something else than 2xx.
pub fn document(dialer: &Dialer, url: &str, fields: &[(String, String)], document: &Value) -> Result<(), NotTaken> {
    text(dialer, url, fields, &document.to_string()).map(drop)
}

/// Posts a document; the document that is answered, or nothing where that is none.
///
/// # Errors
/// Nobody answers, or something else than 2xx.
pub fn for_document(dialer: &Dialer, url: &str, document: &Value) -> Result<Value, NotTaken> {
    let answer = text(dialer, url, &[], &document.to_string())?;
    Ok(serde_json::from_slice(&answer).unwrap_or_default())
}

/// Posts the text of a document, with these fields besides; what is answered.
///
/// # Errors
/// Nobody answers, or something else than 2xx.
pub fn text(dialer: &Dialer, url: &str, fields: &[(String, String)], text: &str) -> Result<Vec<u8>, NotTaken> {
    typed(dialer, url, JSON, fields, text)
}

/// The same, of another media type.
///
/// # Errors
/// Nobody answers, or something else than 2xx.
pub fn typed(
    dialer: &Dialer,
    url: &str,
    media: &str,
    fields: &[(String, String)],
    text: &str,
) -> Result<Vec<u8>, NotTaken> {
    let said = |error: ClientError| NotTaken { status: None, why: model::fault::with_causes(&error) };
    let parsed = HttpUrl::parse(url).map_err(|error| NotTaken { status: None, why: error.to_string() })?;
    let mut client = Client::new(dialer, &parsed).map_err(said)?;
    let mut headers = Headers::new().with("Content-Type", media).with("Content-Length", text.len().to_string());
    fields.iter().for_each(|(name, value)| headers.add(name, value.as_str()));
    client.send(&Method::Post, parsed.path_and_query(), &headers).map_err(said)?;
    client.write(text.as_bytes()).map_err(said)?;
    let (response, mut body) = client.answer(&Method::Post).map_err(said)?;
    match response.status {
        200..300 => client.read_all(&mut body, ANSWER_BYTES_MAX).map_err(said),
        status => Err(NotTaken { status: Some(status), why: format!("{} answers {status}", parsed.authority()) }),
    }
}
