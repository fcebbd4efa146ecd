//! Third-party copy over HTTP: the COPY request (in this module), the markers that report its progress ([`marker`]), and the last line
//! of its response ([`outcome`]).
//!
//! There is no RFC. The rules are those on which xrootd, dCache and StoRM agree; where they differ, this module follows the stricter
//! server.

mod line;
pub mod marker;
pub mod outcome;

use std::fmt;

use percent_encoding::percent_decode_str;

use crate::headers::is_token;
use crate::scitag::SciTag;
use crate::url::HttpUrl;

/// The most streams that a request may ask for.
pub const STREAMS_MAX: u32 = 100;
/// The most headers that are passed on.
pub const TRANSFER_HEADERS_MAX: usize = 32;
/// The most characters of the text about the client; the rest is cut off.
const CLIENT_INFO_MAX: usize = 1024;

/// `TransferHeaderX: v` is passed on as `X: v`; compared without regard to case.
const PREFIX: &str = "transferheader";

/// Headers that are silently not passed on: they belong to one hop (RFC 9110, section 7.6.1), frame the message, or are set by this
/// server because the copy depends on them. They are not refused, since many clients send them.
const NOT_PASSED_ON: [&str; 18] = [
    "accept-encoding",
    "connection",
    "content-length",
    "content-range",
    "expect",
    "host",
    "http2-settings",
    "if-range",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "want-repr-digest",
];

/// Headers that are passed on: credentials, and headers that say how to treat the request. Clients may not choose others: the server at
/// the other end would read them as instructions of this node.
const PASSED_ON: [&str; 10] = [
    "accept",
    "authorization",
    "cache-control",
    "clientinfo",
    "content-type",
    "scitag",
    "user-agent",
    "want-digest",
    "x-auth-token",
    "x-request-id",
];

/// Prefixes of headers that are passed on: S3, Azure and Google sign these.
const PASSED_ON_PREFIXES: [&str; 3] = ["x-amz-", "x-goog-", "x-ms-"];

fn is_passed_on(name: &str) -> bool {
    let begins = |prefix: &&str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    PASSED_ON.iter().any(|known| name.eq_ignore_ascii_case(known)) || PASSED_ON_PREFIXES.iter().any(begins)
}

/// The direction of the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a remote server to the request's target.
    Pull {
        /// The address of the source.
        source: HttpUrl,
    },
    /// From the request's target to a remote server.
    Push {
        /// The address of the destination.
        destination: HttpUrl,
    },
}

impl Direction {
    /// The address at the other end.
    pub fn remote(&self) -> &HttpUrl {
        match self {
            Direction::Pull { source } => source,
            Direction::Push { destination } => destination,
        }
    }
}

/// A COPY request. `Debug` shows no values of headers: they are credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct CopyRequest {
    /// The direction, and the address at the other end.
    pub direction: Direction,
    /// Headers for the requests to the other end.
    pub transfer_headers: Vec<(String, String)>,
    /// Whether a target that exists may be replaced; if not, 412.
    pub overwrite: bool,
    /// Whether the copy fails where the other end reports no digest; `None` where the client does not say.
    pub require_checksum: Option<bool>,
    /// The number of connections; `None` (0 in the request, as gfal2 writes it) lets the server choose.
    pub streams: Option<u32>,
    /// The mark of the flows; `None` where none was requested.
    pub scitag: Option<SciTag>,
    /// The value of `Want-Digest`.
    pub want_digest: Option<String>,
    /// Whether no HEAD may be sent to the other end: because of `Copy-Flags: NoHead`, or because its URL is signed for one method.
    pub no_head: bool,
    /// Text about the client, for logs: `job-id=…;file-id=…;retry=…`.
    pub client_info: Option<String>,
}

impl fmt::Debug for CopyRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.transfer_headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("CopyRequest")
            .field("direction", &self.direction)
            .field("transfer_headers", &names)
            .field("overwrite", &self.overwrite)
            .field("streams", &self.streams)
            .finish_non_exhaustive()
    }
}

/// The refusal of a malformed COPY request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BadRequest {
    /// The status.
    pub status: u16,
    /// What is wrong, and what to write instead.
    pub reason: String,
}

fn bad(reason: impl Into<String>) -> BadRequest {
    BadRequest { status: 400, reason: reason.into() }
}

/// Whether a `Destination` names this server, so that the request is a plain WebDAV COPY (or MOVE): it is a path, or its host and port
/// are those of `authority`, the value of `Host` or `:authority`. If `authority` has no port, it has that of the destination's scheme.
pub fn is_local(destination: &str, authority: &str) -> bool {
    let destination = destination.trim();
    if destination.starts_with('/') && !destination.starts_with("//") {
        return true;
    }
    let Ok(target) = HttpUrl::parse(destination) else { return false };
    let scheme = if target.is_secure() { "https" } else { "http" };
    let this_server = HttpUrl::parse(&format!("{scheme}://{}", authority.trim()));
    this_server.is_ok_and(|this_server| this_server.is_same_origin(&target))
}

/// Headers by name, without regard to case.
struct FieldLines<'a>(Vec<(&'a str, &'a str)>);

impl<'a> FieldLines<'a> {
    fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// The value of a header that may be given only once.
    fn one(&self, name: &str) -> Result<Option<&'a str>, BadRequest> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(bad(format!("{name} is given more than once; give it once"))),
            (value, None) => Ok(value),
        }
    }

    /// The value of a header that is one of two words.
    fn choice(&self, name: &str, yes: &str, no: &str) -> Result<Option<bool>, BadRequest> {
        match self.one(name)? {
            None => Ok(None),
            Some(value) if value.eq_ignore_ascii_case(yes) => Ok(Some(true)),
            Some(value) if value.eq_ignore_ascii_case(no) => Ok(Some(false)),
            Some(value) => Err(bad(format!("{name} must be {yes} or {no}, not {value:?}"))),
        }
    }
}

impl CopyRequest {
    /// Parses the headers of a COPY request: unchanged names and values.
    ///
    /// # Errors
    /// [`BadRequest`]: a header is missing, given twice or malformed, or asks for something that is not supported.
    pub fn from_headers<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<CopyRequest, BadRequest> {
        let lines = FieldLines(headers.into_iter().collect());
        let direction = direction(&lines)?;
        credential(&lines)?;
        let mut transfer_headers = transfer_headers(&lines)?;
        let scitag = lines.one("SciTag")?.map(SciTag::parse);
        if scitag.is_some() {
            // Both ends would mark the flow, perhaps differently; only this end marks it.
            transfer_headers.retain(|(name, _)| !name.eq_ignore_ascii_case("scitag"));
        }
        let no_head =
            lines.all("Copy-Flags").flat_map(|v| v.split(',')).any(|f| f.trim().eq_ignore_ascii_case("nohead"));
        let want_digest = lines.all("Want-Digest").collect::<Vec<_>>().join(", ");
        Ok(CopyRequest {
            no_head: no_head || direction.remote().is_presigned(),
            transfer_headers,
            overwrite: lines.choice("Overwrite", "T", "F")?.unwrap_or(true),
            require_checksum: lines.choice("RequireChecksumVerification", "true", "false")?,
            streams: streams(&lines)?,
            scitag,
            want_digest: Some(want_digest).filter(|value| !value.is_empty()),
            client_info: lines.all("ClientInfo").next().map(client_info),
            direction,
        })
    }
}

fn direction(lines: &FieldLines<'_>) -> Result<Direction, BadRequest> {
    let url = |name: &str, value: &str| HttpUrl::parse(value).map_err(|e| bad(format!("{name}: {e}")));
    match (lines.one("Source")?, lines.one("Destination")?) {
        (Some(source), None) => Ok(Direction::Pull { source: url("Source", source)? }),
        (None, Some(destination)) => Ok(Direction::Push { destination: url("Destination", destination)? }),
        (Some(_), Some(_)) => {
            Err(bad("both Source and Destination are given; give Source to pull, or Destination to push"))
        }
        (None, None) => {
            Err(bad("neither Source nor Destination is given; give Source to pull, or Destination to push"))
        }
    }
}

/// Refuses delegation of X.509 proxies and of OIDC tokens, so that no client waits for it.
fn credential(lines: &FieldLines<'_>) -> Result<(), BadRequest> {
    match lines.one("Credential")? {
        None => Ok(()),
        Some(word) if word.eq_ignore_ascii_case("none") => Ok(()),
        Some(word) => Err(bad(format!(
            "Credential: {word} asks for delegation, which this server does not do; send Credential: none, and the \
             credentials for the other end in TransferHeaderAuthorization"
        ))),
    }
}

fn streams(lines: &FieldLines<'_>) -> Result<Option<u32>, BadRequest> {
    let Some(value) = lines.one("X-Number-Of-Streams")? else { return Ok(None) };
    let number = value.parse::<u32>().ok().filter(|n| *n <= STREAMS_MAX);
    let number = number
        .ok_or_else(|| bad(format!("X-Number-Of-Streams must be a number from 0 to {STREAMS_MAX}, not {value:?}")))?;
    Ok(Some(number).filter(|n| *n > 0))
}

fn transfer_headers(lines: &FieldLines<'_>) -> Result<Vec<(String, String)>, BadRequest> {
    let mut passed = Vec::new();
    for (name, value) in &lines.0 {
        let (name, value) = if name.eq_ignore_ascii_case("Copy-Header") {
            // xrootd's older form: the whole header as a value.
            value.split_once(':').ok_or_else(|| bad("Copy-Header must be `NAME: VALUE`; there is no colon in it"))?
        } else if let Some(rest) = without_prefix(name) {
            (rest, *value)
        } else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        if !is_token(name.as_bytes()) {
            return Err(bad(format!("{name:?} is not a valid name of a header; write TransferHeaderNAME: VALUE")));
        }
        if !value.chars().all(|c| c == '\t' || !c.is_control()) {
            return Err(bad(format!("the value of TransferHeader{name} must not contain control characters")));
        }
        if NOT_PASSED_ON.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            continue;
        }
        if !is_passed_on(name) {
            return Err(bad(format!(
                "the header {name} is not passed on; only these are: {}, and names that begin with {}",
                PASSED_ON.join(", "),
                PASSED_ON_PREFIXES.join(", ")
            )));
        }
        if passed.len() == TRANSFER_HEADERS_MAX {
            return Err(bad(format!("more than {TRANSFER_HEADERS_MAX} headers to pass on; send fewer")));
        }
        passed.push((name.to_owned(), value.to_owned()));
    }
    Ok(passed)
}

fn without_prefix(name: &str) -> Option<&str> {
    let (prefix, rest) = name.split_at_checked(PREFIX.len())?;
    prefix.eq_ignore_ascii_case(PREFIX).then_some(rest)
}

fn client_info(value: &str) -> String {
    let decoded = percent_decode_str(value).decode_utf8_lossy();
    decoded.chars().filter(|c| !c.is_control()).take(CLIENT_INFO_MAX).collect()
}

#[cfg(test)]
mod tests;
