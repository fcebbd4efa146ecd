//! Requests for macaroons: the JSON of dCache and XrdMacaroons, or an OAuth 2 form. Does not know the requester.

use jiff::SpanRelativeTo;
use jiff::fmt::temporal::SpanParser;
use model::name::RelPath;
use serde::Deserialize;

use super::activity::Activities;
use super::error::RequestError;
use crate::limits::{CAVEATS, REQUEST_BYTES};
use crate::token::{decode, parse_path};

/// A request for a macaroon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacaroonRequest {
    /// The activities that it should allow at most.
    pub activities: Activities,
    /// Paths of this node that it should be confined to, besides the path of the request.
    pub paths: Vec<RelPath>,
    /// Its validity, seconds; at most that of the policy.
    pub validity_seconds: u64,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    caveats: Vec<String>,
    validity: Option<String>,
}

/// Seconds of an ISO 8601 duration. Months and years have no fixed length.
fn seconds(text: &str) -> Option<u64> {
    let span = SpanParser::new().parse_span(text.as_bytes()).ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    u64::try_from(duration.as_secs()).ok().filter(|seconds| *seconds > 0)
}

fn bounded(body: &[u8]) -> Result<&[u8], RequestError> {
    if body.len() > REQUEST_BYTES {
        return Err(RequestError::TooLong { bytes: body.len() });
    }
    Ok(body)
}

impl MacaroonRequest {
    /// Parses `application/macaroon-request`: `{"caveats":["activity:DOWNLOAD,LIST"],"validity":"PT10M"}`.
    ///
    /// # Errors
    /// [`RequestError`]: the body is malformed or too long, has an unknown or reserved caveat, or asks for nothing.
    pub fn parse(body: &[u8], seconds_max: u64) -> Result<MacaroonRequest, RequestError> {
        let body: Body = serde_json::from_slice(bounded(body)?).map_err(|_| RequestError::Json)?;
        let validity = body.validity.as_deref().and_then(seconds).ok_or(RequestError::Validity)?;
        let mut activities = Activities::ALL;
        let mut paths = Vec::new();
        for (at, caveat) in body.caveats.iter().enumerate() {
            // The node adds caveats too, so the client may use only half of the bound.
            let unknown = || RequestError::Caveat { number: at + 1 };
            let (kind, value) = caveat.split_once(':').filter(|_| at < CAVEATS / 2).ok_or_else(unknown)?;
            match kind {
                "activity" => activities = activities & Activities::parse(value).ok_or_else(unknown)?,
                "path" if value.starts_with('/') => {
                    paths.push(RelPath::parse(value.as_bytes()).map_err(|_| unknown())?);
                }
                "name" => return Err(RequestError::Reserved("name")),
                "before" => return Err(RequestError::Reserved("before")),
                _ => return Err(unknown()),
            }
        }
        if activities.is_empty() {
            return Err(RequestError::Nothing);
        }
        Ok(MacaroonRequest { activities, paths, validity_seconds: validity.min(seconds_max) })
    }

    /// Reads a token request (RFC 6749, 4.4): `grant_type=client_credentials&expire_in=600&scope=DOWNLOAD:/a UPLOAD:/a`.
    ///
    /// Without `expire_in` the macaroon is as long-lived as the policy allows. `paths` holds the one path that all scopes name.
    ///
    /// # Errors
    /// As [`MacaroonRequest::parse`].
    pub fn parse_form(body: &[u8], seconds_max: u64) -> Result<MacaroonRequest, RequestError> {
        let body = std::str::from_utf8(bounded(body)?).map_err(|_| RequestError::Form)?;
        let (mut grant_type, mut validity, mut scope) = (None, None, None);
        for pair in body.trim_end().split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or(RequestError::Form)?;
            let value = decode(&value.replace('+', " ")).and_then(|value| String::from_utf8(value).ok());
            let value = value.ok_or(RequestError::Form)?;
            let place = match key {
                "grant_type" => &mut grant_type,
                "expire_in" => &mut validity,
                "scope" => &mut scope,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return Err(RequestError::Form);
            }
        }
        if grant_type.as_deref() != Some("client_credentials") {
            return Err(RequestError::Form);
        }
        let positive = |text: String| text.parse().ok().filter(|seconds| *seconds > 0).ok_or(RequestError::Validity);
        let validity = validity.map_or(Ok(seconds_max), positive)?;
        let (activities, path) = scopes(&scope.ok_or(RequestError::Form)?)?;
        Ok(MacaroonRequest { activities, paths: vec![path], validity_seconds: validity.min(seconds_max) })
    }
}

/// The activities of scopes, and the one path that all of them name.
fn scopes(scope: &str) -> Result<(Activities, RelPath), RequestError> {
    let mut all: Option<(Activities, RelPath)> = None;
    for (at, one) in scope.split(' ').filter(|one| !one.is_empty()).enumerate() {
        let unknown = || RequestError::Scope { number: at + 1 };
        let (activity, path) = one.split_once(':').ok_or_else(unknown)?;
        let activity = Activities::parse(activity).ok_or_else(unknown)?;
        let path = parse_path(path).ok_or_else(unknown)?;
        all = match all {
            None => Some((activity, path)),
            Some((activities, known)) if known == path => Some((activities | activity, path)),
            Some(_) => return Err(RequestError::Paths),
        };
    }
    all.ok_or(RequestError::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_request_of_gfal_is_read() {
        let read = |body: &str| MacaroonRequest::parse(body.as_bytes(), 3600);
        let request = read(r#"{"caveats":["activity:DOWNLOAD,LIST"],"validity":"PT10M"}"#).unwrap();
        assert_eq!(request.activities, Activities::DOWNLOAD | Activities::LIST);
        assert_eq!((request.validity_seconds, request.paths.len()), (600, 0));
        assert_eq!(read(r#"{"validity":"P1DT1S"}"#).unwrap().validity_seconds, 3600);
        let both =
            read(r#"{"caveats":["activity:DOWNLOAD,LIST","activity:LIST","path:/d/x"],"validity":"PT1S"}"#).unwrap();
        assert_eq!((both.activities, both.paths), (Activities::LIST, vec![path("d/x")]));
    }

    #[test]
    fn a_bad_request_is_refused_with_its_reason() {
        let refused = |body: &str| MacaroonRequest::parse(body.as_bytes(), 3600).unwrap_err();
        for validity in ["", "PT0S", "-PT5M", "10m", "600", "P1M", "P1Y", "PT", "P99999999999D"] {
            let body = format!(r#"{{"caveats":[],"validity":"{validity}"}}"#);
            assert_eq!(refused(&body), RequestError::Validity, "{validity}");
        }
        assert_eq!(refused(r#"{"caveats":["activity:LIST"]}"#), RequestError::Validity);
        let caveat = |caveat: &str| refused(&format!(r#"{{"caveats":["{caveat}"],"validity":"PT1M"}}"#));
        assert_eq!(caveat("name:me"), RequestError::Reserved("name"));
        assert_eq!(caveat("before:2030-01-01T00:00:00Z"), RequestError::Reserved("before"));
        for bad in ["", "activity", "activity:FLY", "root:/x", "path:x", "path:/../x"] {
            assert_eq!(caveat(bad), RequestError::Caveat { number: 1 }, "{bad}");
        }
        let apart = r#"{"caveats":["activity:LIST","activity:DELETE"],"validity":"PT1M"}"#;
        assert_eq!(refused(apart), RequestError::Nothing);
        assert_eq!(refused("nonsense"), RequestError::Json);
        assert_eq!(refused(&" ".repeat(5000)), RequestError::TooLong { bytes: 5000 });
    }

    #[test]
    fn an_oauth_form_is_read_or_refused() {
        let read = |body: &str| MacaroonRequest::parse_form(body.as_bytes(), 3600);
        let request = read("grant_type=client_credentials&expire_in=600&scope=DOWNLOAD:/a/b%20UPLOAD:/a/b").unwrap();
        assert_eq!(request.activities, Activities::DOWNLOAD | Activities::UPLOAD);
        assert_eq!((request.paths, request.validity_seconds), (vec![path("a/b")], 600));
        let plus = read("scope=LIST%3A%2Fa+DOWNLOAD:/a&grant_type=client_credentials&other=1").unwrap();
        assert_eq!((plus.paths, plus.validity_seconds), (vec![path("a")], 3600));
        let start = "grant_type=client_credentials&scope=";
        assert_eq!(read(&format!("{start}LIST:/a+LIST:/b")), Err(RequestError::Paths));
        assert_eq!(read(&format!("{start}LIST")), Err(RequestError::Scope { number: 1 }));
        assert_eq!(read(start), Err(RequestError::Nothing));
        assert_eq!(read("grant_type=password&scope=LIST:/a"), Err(RequestError::Form));
        assert_eq!(read(&format!("{start}LIST:/a&scope=LIST:/b")), Err(RequestError::Form));
        assert_eq!(read(&format!("{start}LIST:/a&expire_in=0")), Err(RequestError::Validity));
    }
}
