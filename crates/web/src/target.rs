//! The request target (RFC 9112, section 3.2): a path and a query.
//!
//! A target is decoded once, component by component, so that an escape cannot hide a slash, a NUL or `..`. The result is a
//! [`RelPath`], which cannot lead out of an export. Targets can contain secrets: see [`redacted`].

use model::name::NameError;
use model::{Name, RelPath};
use percent_encoding::percent_decode_str;

mod written;

pub use written::{encode, encode_value, href, location};

/// The longest target, bytes.
pub const TARGET_BYTES_MAX: usize = 8192;

/// Query parameters whose values may be logged, in lower case: parameters of this node and of object stores that are not secret. The
/// values of all others are left out, since the names of secrets cannot all be listed.
const NOT_SECRET: [&str; 22] = [
    "after",
    "continuation",
    "delete",
    "delimiter",
    "encoding-type",
    "limit",
    "list-type",
    "marker",
    "max-keys",
    "partnumber",
    "prefix",
    "rate_bit_s",
    "recursive",
    "role",
    "rtt_s",
    "start-after",
    "state",
    "top",
    "uploads",
    "versionid",
    "x-id",
    "metalink",
];

/// A parsed request target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The path below the node's root: the export's name, then the path within it.
    pub path: RelPath,
    /// Whether it ended in a slash, or is the root.
    pub is_dir: bool,
    /// Whether it was `*`: the server as a whole (OPTIONS).
    pub is_server: bool,
    /// The query as it came, without its `?`.
    pub query: Option<String>,
    /// Host and port where the target was in absolute form; they outrank `Host` (RFC 9112, section 3.2.2).
    pub authority: Option<String>,
}

/// Why a target cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Longer than [`TARGET_BYTES_MAX`].
    #[error("a request target of {0} bytes is longer than the {TARGET_BYTES_MAX} that are read here")]
    Long(usize),
    /// Neither origin form, nor absolute form, nor `*`.
    #[error("a request target must be /PATH?QUERY, or http(s)://HOST/PATH?QUERY, or *; this one is none of them")]
    Form,
    /// A byte that has to be escaped.
    #[error("a request target may not contain the byte 0x{0:02x}; write it as %{0:02X}")]
    Byte(u8),
    /// A `%` without two hexadecimal digits.
    #[error("an escape in a request target is % and two hexadecimal digits; a literal % is written %25")]
    Escape,
    /// An escaped slash or NUL.
    #[error("a name in a path contains neither a slash nor a NUL, escaped or not")]
    Hidden,
    /// `..`, in any spelling, or a name or path that is too long.
    #[error(transparent)]
    Path(#[from] NameError),
}

impl TargetError {
    /// The status of the refusal.
    pub fn status(&self) -> u16 {
        match self {
            TargetError::Long(_) | TargetError::Path(NameError::TooLong { .. }) => 414,
            _ => 400,
        }
    }
}

/// Parses a request target.
///
/// # Errors
/// [`TargetError`]: the text is too long or malformed, or its path leads upwards or has an illegal name.
pub fn parse(text: &str) -> Result<Target, TargetError> {
    if text.len() > TARGET_BYTES_MAX {
        return Err(TargetError::Long(text.len()));
    }
    if text == "*" {
        return Ok(Target { path: RelPath::root(), is_dir: true, is_server: true, query: None, authority: None });
    }
    // A fragment stays with the client (RFC 9112, section 3.2); a `#` here belongs to a name that was not escaped.
    if let Some(byte) = text.bytes().find(|b| b.is_ascii_control() || matches!(b, b' ' | b'#')) {
        return Err(TargetError::Byte(byte));
    }
    let (authority, rest) = split_authority(text)?;
    let (raw, query) = match rest.split_once('?') {
        Some((raw, query)) => (raw, Some(query.to_owned())),
        None => (rest, None),
    };
    if !raw.is_empty() && !raw.starts_with('/') || (raw.is_empty() && authority.is_none()) {
        return Err(TargetError::Form);
    }
    let path = decode_path(raw)?;
    let last = raw.rsplit('/').next().unwrap_or_default();
    let is_dir = path.is_root() || last.is_empty() || is_dot(last);
    Ok(Target { path, is_dir, is_server: false, query, authority: authority.map(str::to_owned) })
}

fn is_dot(component: &str) -> bool {
    percent_decode_str(component).eq(*b".")
}

fn split_authority(text: &str) -> Result<(Option<&str>, &str), TargetError> {
    if text.starts_with('/') {
        return Ok((None, text));
    }
    let (scheme, rest) = text.split_once("://").ok_or(TargetError::Form)?;
    let known = ["http", "https", "dav", "davs"].iter().any(|s| scheme.eq_ignore_ascii_case(s));
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    // Credentials have no place in a request target (RFC 9110, section 4.2.4).
    if !known || authority.is_empty() || authority.contains('@') {
        return Err(TargetError::Form);
    }
    Ok((Some(authority), rest))
}

fn decode_path(raw: &str) -> Result<RelPath, TargetError> {
    let mut joined = Vec::with_capacity(raw.len());
    for component in raw.split('/') {
        if !escapes_are_whole(component) {
            return Err(TargetError::Escape);
        }
        let start = joined.len();
        joined.extend(percent_decode_str(component));
        if joined[start..].iter().any(|b| matches!(b, b'/' | 0)) {
            return Err(TargetError::Hidden);
        }
        joined.push(b'/');
    }
    Ok(RelPath::parse(&joined)?)
}

fn escapes_are_whole(text: &str) -> bool {
    let mut pieces = text.as_bytes().split(|b| *b == b'%');
    pieces.next();
    pieces.all(|piece| matches!(piece, [a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit()))
}

impl Target {
    /// The export's name and the path within it; `None` for the root of the node.
    pub fn export(&self) -> Option<(Name, RelPath)> {
        let first = self.path.as_bytes().split(|b| *b == b'/').next()?;
        let below = self.path.below(&RelPath::parse(first).ok()?)?;
        Some((Name::new(first).ok()?, below))
    }

    /// The credentials in the query: `authz`, as grids write it, often with `Bearer ` in front, or `access_token`
    /// (RFC 6750, section 2.3). Form encoding writes the blank after `Bearer` as a plus.
    pub fn authz(&self) -> Option<String> {
        let query = self.query.as_deref()?;
        let value = |wanted: &str| pairs(query).find(|(name, _)| name == wanted).map(|(_, value)| value);
        let credential = value("authz").or_else(|| value("access_token"))?;
        Some(match credential.split_once('+') {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => format!("{scheme} {rest}"),
            _ => credential,
        })
    }
}

/// Decodes percent-escapes.
pub fn decode(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// The parameters of a query, decoded. A `+` stays a plus: tokens are in base64, and clients escape a space as
/// `%20`. Bytes that are not UTF-8 are replaced.
pub fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    query.split('&').filter(|pair| !pair.is_empty()).map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    })
}

/// A target or URL for logs and error texts. The values of parameters that may be secret, and credentials before an `@`, are replaced by
/// `…`; control characters are escaped, so that the text is one line.
pub fn redacted(target: &str) -> String {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let mut out = without_userinfo(path);
    for (at, pair) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
        out.push(if at == 0 { '?' } else { '&' });
        match pair.split_once('=') {
            _ if may_be_logged(pair.split('=').next().unwrap_or_default()) => out.push_str(pair),
            Some((name, _)) if is_name(name) => out.push_str(&format!("{name}=…")),
            _ => out.push('…'),
        }
    }
    model::name::show_bytes(out.as_bytes())
}

fn may_be_logged(name: &str) -> bool {
    NOT_SECRET.contains(&name.to_ascii_lowercase().as_str())
}

/// Whether this looks like the name of a parameter, and not like a secret.
fn is_name(name: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b"-_.%".contains(&b);
    name.len() <= SHOWN_NAME_BYTES_MAX && name.bytes().all(is_word)
}

/// The longest name of a parameter that is shown: names are shorter than secrets.
const SHOWN_NAME_BYTES_MAX: usize = 32;

fn without_userinfo(path: &str) -> String {
    let Some((scheme, rest)) = path.split_once("://") else { return path.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}{path}"),
        None => format!("{scheme}://{authority}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(target: &str) -> String {
        parse(target).unwrap().path.to_string()
    }

    #[test]
    fn targets_of_every_form_are_parsed() {
        let target = parse("//data/a%20b/?x=1?2").unwrap();
        assert_eq!((target.path.to_string().as_str(), target.is_dir), ("data/a b", true));
        assert_eq!(target.query.as_deref(), Some("x=1?2"));
        let (export, below) = target.export().unwrap();
        assert_eq!((export.to_string().as_str(), below.to_string().as_str()), ("data", "a b"));
        let absolute = parse("HTTPS://node.example:7411/data/f").unwrap();
        assert_eq!(absolute.authority.as_deref(), Some("node.example:7411"));
        assert_eq!((absolute.path.to_string().as_str(), absolute.is_dir), ("data/f", false));
        assert_eq!(parse("http://node?q").unwrap().query.as_deref(), Some("q"));
        assert!(parse("*").unwrap().is_server);
        assert!(parse("/").unwrap().is_dir && parse("/").unwrap().export().is_none());
        for (bad, status) in
            [("", 400), ("data/f", 400), ("ftp://h/f", 400), ("http:///f", 400), ("http://u:p@h/", 400)]
        {
            assert_eq!(parse(bad).unwrap_err().status(), status, "{bad}");
        }
        assert_eq!(parse(&format!("/{}", "a/".repeat(5000))).unwrap_err().status(), 414);
        assert_eq!(parse(&format!("/{}", "a".repeat(256))).unwrap_err().status(), 414);
    }

    #[test]
    fn a_path_is_decoded_once_and_cannot_lead_upwards() {
        assert_eq!(path("/d/%2541"), "d/%41");
        assert_eq!(path("/d/.//%2e/./f"), "d/f");
        assert_eq!(path("/d/..."), "d/...");
        assert_eq!(path(r"/d/..\f"), r"d/..\f");
        assert!(parse("/d/f/.").unwrap().is_dir && parse("/d/f/%2E").unwrap().is_dir);
        assert_eq!(parse("/d/%ff%FE").unwrap().path.as_bytes(), b"d/\xff\xfe");
        for up in ["/d/../e", "/..", "/d/%2e%2e/e", "/d/%2E./e", "/d/.%2e", "/d/.."] {
            assert!(matches!(parse(up), Err(TargetError::Path(NameError::Escapes(_)))), "{up}");
        }
        for hidden in ["/d/a%2fb", "/d/a%2Fb", "/d/%00", "/%2f", "/d/..%2fe"] {
            assert_eq!(parse(hidden), Err(TargetError::Hidden), "{hidden}");
        }
        for escape in ["/d/%", "/d/%4", "/d/%zz", "/d/%%41", "/d/%+1"] {
            assert_eq!(parse(escape), Err(TargetError::Escape), "{escape}");
        }
        assert_eq!(parse("/d/a b"), Err(TargetError::Byte(b' ')));
        assert_eq!(
            parse("/d/a#b").unwrap_err().to_string(),
            "a request target may not contain the byte 0x23; write it as %23"
        );
    }

    #[test]
    fn parameters_and_credentials_of_a_query_are_decoded() {
        let all: Vec<_> = pairs("authz=Bearer%20a+b%3D&&x&y=1=2").collect();
        let expected = [("authz", "Bearer a+b="), ("x", ""), ("y", "1=2")];
        assert_eq!(all, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(parse("/d/f?x=1&authz=Bearer%20t").unwrap().authz().as_deref(), Some("Bearer t"));
        assert_eq!(
            parse("/d/f?authz=Bearer+a%2Bb").unwrap().authz().as_deref(),
            Some("Bearer a+b"),
            "a plus after Bearer is a space"
        );
        assert_eq!(parse("/d/f?authz=a+b").unwrap().authz().as_deref(), Some("a+b"));
        assert_eq!(parse("/d/f?access_token=t").unwrap().authz().as_deref(), Some("t"));
        assert_eq!(parse("/d/f").unwrap().authz(), None);
    }

    #[test]
    fn values_that_may_be_secret_are_redacted() {
        for (given, shown) in [
            ("/d/f?authz=Bearer%20s&limit=1", "/d/f?authz=…&limit=1"),
            ("/d/f?Limit=1&Access_Token=s", "/d/f?Limit=1&Access_Token=…"),
            (
                "/d/f?temp_url_sig=s&id_token=s&client_secret=s&x=s",
                "/d/f?temp_url_sig=…&id_token=…&client_secret=…&x=…",
            ),
            ("/d/f?eyJhbGciOi.J9", "/d/f?…"),
            ("/d/f?eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln=&uploads", "/d/f?…&uploads"),
            ("/d/f?%61uthz=s&key=s", "/d/f?%61uthz=…&key=…"),
            ("/f?X-Amz-Signature=s&X-Amz-Date=s&partNumber=1", "/f?X-Amz-Signature=…&X-Amz-Date=…&partNumber=1"),
            ("https://user:s@h/f?sig=s", "https://…@h/f?sig=…"),
            ("/d/f", "/d/f"),
            ("/d?authz", "/d?…"),
            ("/d\r\n/f", "/d\\x0d\\x0a/f"),
        ] {
            assert_eq!(redacted(given), shown);
        }
    }

    proptest! {
        #[test]
        fn any_target_is_parsed_or_refused(text in any::<String>()) {
            crate::fuzzing::target(text.as_bytes());
        }

        #[test]
        fn likely_targets_are_parsed_or_refused(text in "(/|//|%2[eEfF]|%00|\\.|\\.\\.|a|%61|%|\\?|&|authz=SECRET){0,12}") {
            crate::fuzzing::target(format!("/{text}").as_bytes());
        }
    }
}
