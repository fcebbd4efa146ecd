//! A client of the WLCG Tape REST API, version 1, which stages many files at once from tape to disk, and releases them again.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::json;
use web::{Dialer, Headers, HttpUrl, Method};

use crate::database::stages::StageOutcome;

/// The path of the discovery document, which says where a server's API is.
const DISCOVERY: &str = "/.well-known/wlcg-tape-rest-api";
/// How long a staged file is kept on disk (ISO 8601): long enough for its transfer to begin.
const DISK_LIFETIME: &str = "P2D";
/// The most bytes of an answer: enough for 1,000 files with long names.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// A server with files on tape.
#[derive(Clone)]
pub struct TapeServer {
    dialer: Dialer,
    /// Its WebDAV address, `https://HOST:PORT/`.
    origin: HttpUrl,
    /// The value of the `Authorization` header: `Bearer …`.
    authorization: Option<String>,
}

/// Why a request to a server failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapeError {
    /// The server does not know the stage request.
    #[error("the server does not know the request")]
    Unknown,
    /// Any other failure: the server does not answer, refuses, or does not speak the API.
    #[error("{0}")]
    Failed(String),
}

type Result<T> = std::result::Result<T, TapeError>;

#[derive(Deserialize)]
struct Discovery {
    endpoints: Vec<DiscoveredApi>,
}

#[derive(Deserialize)]
struct DiscoveredApi {
    uri: String,
    version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Accepted {
    request_id: String,
}

#[derive(Deserialize)]
struct Progress {
    files: Vec<FileProgress>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileProgress {
    path: String,
    on_disk: Option<bool>,
    state: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct FileLocality {
    path: String,
    locality: Option<String>,
    error: Option<String>,
}

impl FileProgress {
    /// The outcome: from `onDisk`, then from the state, as other clients read it.
    fn outcome(&self) -> StageOutcome {
        match (self.on_disk, self.state.as_deref()) {
            (Some(true), _) | (_, Some("COMPLETED")) => StageOutcome::OnDisk,
            // Servers use both spellings.
            (_, Some("FAILED" | "CANCELLED" | "CANCELED")) => {
                StageOutcome::Failed(self.error.clone().unwrap_or_else(|| "the server does not say why".to_owned()))
            }
            _ => match &self.error {
                Some(error) => StageOutcome::Failed(error.clone()),
                None => StageOutcome::Pending,
            },
        }
    }
}

/// A path in which successive slashes are collapsed into one.
pub fn collapsed(path: &str) -> String {
    let mut out = String::with_capacity(path.len() + 1);
    for part in path.split('/').filter(|part| !part.is_empty()) {
        out.push('/');
        out.push_str(part);
    }
    out
}

/// The locality of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locality {
    /// The file is on tape, on disk, or on both.
    Present,
    /// The file is lost; the text says what the server answered.
    Lost(String),
    /// The server does not know it now.
    Unknown,
}

impl TapeServer {
    /// The server with a WebDAV address.
    pub fn new(dialer: Dialer, origin: HttpUrl, key: Option<&str>) -> TapeServer {
        TapeServer { dialer, origin, authorization: key.map(|key| format!("Bearer {key}")) }
    }

    /// Discovers the URL of the API, of the newest version that the hub supports.
    ///
    /// # Errors
    /// The server has none, or names another host, which must not get the credential for this one.
    pub fn api(&self) -> Result<String> {
        let url = format!("{}{DISCOVERY}", self.origin_text());
        let found: Discovery = self.get(&url)?;
        let known = found.endpoints.into_iter().filter(|api| ["v0", "v1"].contains(&api.version.as_str()));
        let api = known.max_by(|a, b| a.version.cmp(&b.version));
        let api =
            api.ok_or_else(|| TapeError::Failed(format!("{url} names no API of a version that the hub supports: v1")))?;
        let uri = HttpUrl::parse(&api.uri).map_err(|error| TapeError::Failed(format!("{url}: {error}")))?;
        if uri.host() != self.origin.host() || uri.is_secure() != self.origin.is_secure() {
            return Err(TapeError::Failed(format!(
                "{url} names an API on another host, {}, which is not used",
                api.uri
            )));
        }
        Ok(api.uri.trim_end_matches('/').to_owned())
    }

    fn origin_text(&self) -> String {
        let scheme = if self.origin.is_secure() { "https" } else { "http" };
        format!("{scheme}://{}", self.origin.authority())
    }

    /// Requests that files are staged to disk; returns the server's id of the request.
    ///
    /// # Errors
    /// The server does not accept the request.
    pub fn stage(&self, api: &str, paths: &[String]) -> Result<String> {
        let files: Vec<_> = paths.iter().map(|path| json!({"path": path, "diskLifetime": DISK_LIFETIME})).collect();
        let answer = self.post(&format!("{api}/stage"), &json!({"files": files}))?;
        Ok(read::<Accepted>(&answer)?.request_id)
    }

    /// The state of each file of a request, by path.
    ///
    /// # Errors
    /// The server gives no valid answer.
    pub fn poll(&self, api: &str, id: &str) -> Result<HashMap<String, StageOutcome>> {
        let progress: Progress = self.get(&format!("{api}/stage/{}", web::target::encode(id.as_bytes())))?;
        Ok(progress.files.iter().map(|file| (collapsed(&file.path), file.outcome())).collect())
    }

    /// Releases files of a request.
    ///
    /// # Errors
    /// The server does not accept the request.
    pub fn release(&self, api: &str, id: &str, paths: &[String]) -> Result<()> {
        let url = format!("{api}/release/{}", web::target::encode(id.as_bytes()));
        self.post(&url, &json!({"paths": paths})).map(drop)
    }

    /// Cancels the staging of files of a request.
    ///
    /// # Errors
    /// The server does not accept the request.
    pub fn cancel(&self, api: &str, id: &str, paths: &[String]) -> Result<()> {
        let url = format!("{api}/stage/{}/cancel", web::target::encode(id.as_bytes()));
        self.post(&url, &json!({"paths": paths})).map(drop)
    }

    /// The localities of files, by path.
    ///
    /// # Errors
    /// The server gives no valid answer.
    pub fn localities(&self, api: &str, paths: &[String]) -> Result<HashMap<String, Locality>> {
        let answer = self.post(&format!("{api}/archiveinfo"), &json!({"paths": paths}))?;
        let all: Vec<FileLocality> = read(&answer)?;
        let locality = |file: &FileLocality| match (file.locality.as_deref(), &file.error) {
            (Some("DISK" | "TAPE" | "DISK_AND_TAPE"), _) => Locality::Present,
            (Some("LOST"), _) => Locality::Lost("the server has lost it".to_owned()),
            // The cause of the error may be a missing right of the hub: the copy need not be lost.
            _ => Locality::Unknown,
        };
        Ok(all.iter().map(|file| (collapsed(&file.path), locality(file))).collect())
    }

    fn headers(&self) -> Headers {
        let mut headers = Headers::new().with("Accept", "application/json");
        if let Some(authorization) = &self.authorization {
            headers.add("Authorization", authorization.as_str());
        }
        headers
    }

    fn get<T: serde::de::DeserializeOwned>(&self, url: &str) -> Result<T> {
        let parsed = HttpUrl::parse(url).map_err(|error| TapeError::Failed(error.to_string()))?;
        let failed = |error: web::ClientError| TapeError::Failed(model::fault::with_causes(&error));
        let mut answer = web::client::fetch(&self.dialer, &Method::Get, &parsed, &self.headers()).map_err(failed)?;
        match answer.response.status {
            200..300 => {}
            404 => return Err(TapeError::Unknown),
            status => return Err(TapeError::Failed(format!("{url} answers {status}"))),
        }
        read(&answer.client.read_all(&mut answer.body, ANSWER_BYTES_MAX).map_err(failed)?)
    }

    fn post(&self, url: &str, document: &serde_json::Value) -> Result<Vec<u8>> {
        let fields: Vec<(String, String)> =
            self.authorization.iter().map(|value| ("Authorization".to_owned(), value.clone())).collect();
        let posted = web::post::text(&self.dialer, url, &fields, &document.to_string());
        posted.map_err(|error| match error.status {
            Some(404) => TapeError::Unknown,
            _ => TapeError::Failed(error.to_string()),
        })
    }
}

fn read<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<T> {
    serde_json::from_slice(text)
        .map_err(|error| TapeError::Failed(format!("the answer is not of the tape REST API: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_file_is_understood() {
        let outcome = |text: &str| read::<FileProgress>(text.as_bytes()).unwrap().outcome();
        assert_eq!(outcome(r#"{"path": "/a", "onDisk": true}"#), StageOutcome::OnDisk);
        assert_eq!(outcome(r#"{"path": "/a", "onDisk": true, "state": "CANCELED"}"#), StageOutcome::OnDisk);
        assert_eq!(outcome(r#"{"path": "/a", "onDisk": false}"#), StageOutcome::Pending);
        assert_eq!(outcome(r#"{"path": "/a", "state": "STARTED", "startedAt": 1770000005000}"#), StageOutcome::Pending);
        assert_eq!(outcome(r#"{"path": "/a", "state": "COMPLETED"}"#), StageOutcome::OnDisk);
        for text in [r#"{"path": "/a", "state": "FAILED", "error": "no"}"#, r#"{"path": "/a", "error": "no"}"#] {
            assert_eq!(outcome(text), StageOutcome::Failed("no".into()), "{text}");
        }
    }

    #[test]
    fn servers_collapse_slashes() {
        assert_eq!(collapsed("//a//b/"), "/a/b");
        assert_eq!(collapsed("a"), "/a");
    }
}
