//! Third-party copy over HTTP: the order that a COPY request gives (here), the markers that tell how it goes ([`marker`]),
//! and the line that ends it ([`outcome`]).
//!
//! There is no RFC; the rules are those on which xrootd, dCache and StoRM agree, and where they do not, the one that
//! refuses what nobody can have meant.

mod line;
pub mod marker;
pub mod outcome;

use std::fmt;

use percent_encoding::percent_decode_str;

use crate::headers::is_token;
use crate::scitag::SciTag;
use crate::url::HttpUrl;

/// The most streams that one may ask for.
pub const STREAMS_MAX: u32 = 100;
/// The most headers that are passed on.
pub const TRANSFER_HEADERS_MAX: usize = 32;
/// The longest text about the client that is kept, characters.
const CLIENT_INFO_MAX: usize = 1024;

/// `TransferHeaderX: v` is sent on as `X: v`; compared without regard to case.
const PREFIX: &str = "transferheader";

/// Headers that belong to one hop (RFC 9110, section 7.6.1), frame the message, or are ours to choose because the copy
/// depends on them. They are left out rather than refused: clients send them without thinking.
const OURS: [&str; 18] = [
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

/// What is passed on: credentials, and what says how to treat the request. What else a server at the other end might take for an
/// order of ours is not the client's to say.
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

/// The same by how the name begins: what S3, Azure and Google sign.
const PASSED_ON_PREFIXES: [&str; 3] = ["x-amz-", "x-goog-", "x-ms-"];

fn is_passed_on(name: &str) -> bool {
    let begins = |prefix: &&str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    PASSED_ON.iter().any(|known| name.eq_ignore_ascii_case(known)) || PASSED_ON_PREFIXES.iter().any(begins)
}

/// Which way the bytes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From there into the request's target.
    Pull {
        /// Where from.
        source: HttpUrl,
    },
    /// From the request's target to there.
    Push {
        /// Where to.
        destination: HttpUrl,
    },
}

impl Direction {
    /// The other end.
    pub fn remote(&self) -> &HttpUrl {
        match self {
            Direction::Pull { source } => source,
            Direction::Push { destination } => destination,
        }
    }
}

/// What a COPY request orders. `Debug` shows no values of headers: they are credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Order {
    /// Which way, and with whom.
    pub direction: Direction,
    /// Headers for the requests to the other end.
    pub transfer_headers: Vec<(String, String)>,
    /// Whether a target that exists may be replaced; if not, 412.
    pub overwrite: bool,
    /// Whether a copy without a digest of the other end to compare with is a failure; none where the client does not say.
    pub require_checksum: Option<bool>,
    /// How many connections; none (or 0, as gfal2 says it) leaves it to the server.
    pub streams: Option<u32>,
    /// The mark of the flows; none where it was not asked for.
    pub scitag: Option<SciTag>,
    /// The value of `Want-Digest`.
    pub want_digest: Option<String>,
    /// Whether the other end must not be asked by HEAD: `Copy-Flags: NoHead`, or a URL signed for one method.
    pub no_head: bool,
    /// What the client says of itself, for logs: `job-id=…;file-id=…;retry=…`.
    pub client_info: Option<String>,
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.transfer_headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Order")
            .field("direction", &self.direction)
            .field("transfer_headers", &names)
            .field("overwrite", &self.overwrite)
            .field("streams", &self.streams)
            .finish_non_exhaustive()
    }
}

/// A COPY request that cannot be carried out as it stands: the answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Bad {
    /// The status.
    pub status: u16,
    /// What is wrong, and how it should be.
    pub reason: String,
}

fn bad(reason: impl Into<String>) -> Bad {
    Bad { status: 400, reason: reason.into() }
}

/// Whether a `Destination` names this very server, so that the request is a plain WebDAV COPY (or MOVE): it is a path,
/// or its host and port are those of `authority`, as `Host` or `:authority` give it. Without a port in it, the port of
/// the destination's scheme is meant.
pub fn is_local(destination: &str, authority: &str) -> bool {
    let destination = destination.trim();
    if destination.starts_with('/') && !destination.starts_with("//") {
        return true;
    }
    let Ok(there) = HttpUrl::parse(destination) else { return false };
    let scheme = if there.is_secure() { "https" } else { "http" };
    let here = HttpUrl::parse(&format!("{scheme}://{}", authority.trim()));
    here.is_ok_and(|here| here.is_same_origin(&there))
}

/// Headers by name, without regard to case.
struct Lines<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Lines<'a> {
    fn all(&self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// The value of a header that may come once only.
    fn one(&self, name: &str) -> Result<Option<&'a str>, Bad> {
        let mut values = self.all(name);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(bad(format!("{name} is given more than once; once is enough"))),
            (value, None) => Ok(value),
        }
    }

    /// One of two words.
    fn choice(&self, name: &str, yes: &str, no: &str) -> Result<Option<bool>, Bad> {
        match self.one(name)? {
            None => Ok(None),
            Some(value) if value.eq_ignore_ascii_case(yes) => Ok(Some(true)),
            Some(value) if value.eq_ignore_ascii_case(no) => Ok(Some(false)),
            Some(value) => Err(bad(format!("{name} is {yes} or {no}; {value:?} is neither"))),
        }
    }
}

impl Order {
    /// Reads the headers of a COPY request: names and values as they came.
    pub fn from_headers<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Order, Bad> {
        let lines = Lines(headers.into_iter().collect());
        let direction = direction(&lines)?;
        credential(&lines)?;
        let mut transfer_headers = transfer_headers(&lines)?;
        let scitag = lines.one("SciTag")?.map(SciTag::parse);
        if scitag.is_some() {
            // Both would mark the flow twice, perhaps differently; this end's mark wins.
            transfer_headers.retain(|(name, _)| !name.eq_ignore_ascii_case("scitag"));
        }
        let no_head =
            lines.all("Copy-Flags").flat_map(|v| v.split(',')).any(|f| f.trim().eq_ignore_ascii_case("nohead"));
        let want_digest = lines.all("Want-Digest").collect::<Vec<_>>().join(", ");
        Ok(Order {
            no_head: no_head || direction.remote().is_presigned(),
            transfer_headers,
            overwrite: lines.choice("Overwrite", "T", "F")?.unwrap_or(true),
            require_checksum: lines.choice("RequireChecksumVerification", "true", "false")?,
            streams: streams(&lines)?,
            scitag,
            want_digest: Some(want_digest).filter(|wanted| !wanted.is_empty()),
            client_info: lines.all("ClientInfo").next().map(client_info),
            direction,
        })
    }
}

fn direction(lines: &Lines<'_>) -> Result<Direction, Bad> {
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

/// Delegation of X.509 proxies and of OIDC tokens is refused, so that nobody waits for it.
fn credential(lines: &Lines<'_>) -> Result<(), Bad> {
    match lines.one("Credential")? {
        None => Ok(()),
        Some(word) if word.eq_ignore_ascii_case("none") => Ok(()),
        Some(word) => Err(bad(format!(
            "Credential: {word} asks for delegation, which this server does not do; send Credential: none, and the \
             credentials for the other end in TransferHeaderAuthorization"
        ))),
    }
}

fn streams(lines: &Lines<'_>) -> Result<Option<u32>, Bad> {
    let Some(value) = lines.one("X-Number-Of-Streams")? else { return Ok(None) };
    let number = value.parse::<u32>().ok().filter(|n| *n <= STREAMS_MAX);
    let number = number
        .ok_or_else(|| bad(format!("X-Number-Of-Streams is a number from 0 to {STREAMS_MAX}; {value:?} is not")))?;
    Ok(Some(number).filter(|n| *n > 0))
}

fn transfer_headers(lines: &Lines<'_>) -> Result<Vec<(String, String)>, Bad> {
    let mut passed = Vec::new();
    for (name, value) in &lines.0 {
        let (name, value) = if name.eq_ignore_ascii_case("Copy-Header") {
            // xrootd's form of old: the whole header as a value.
            value.split_once(':').ok_or_else(|| bad("Copy-Header is `NAME: VALUE`; there is no colon in it"))?
        } else if let Some(rest) = without_prefix(name) {
            (rest, *value)
        } else {
            continue;
        };
        let (name, value) = (name.trim(), value.trim());
        if !is_token(name.as_bytes()) {
            return Err(bad(format!("{name:?} is no name for a header to pass on; write TransferHeaderNAME: VALUE")));
        }
        if !value.chars().all(|c| c == '\t' || !c.is_control()) {
            return Err(bad(format!("the value of TransferHeader{name} contains control characters; it may not")));
        }
        if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
            continue;
        }
        if !is_passed_on(name) {
            return Err(bad(format!(
                "the header {name} is not passed on: those are {}, and what begins with {}",
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
