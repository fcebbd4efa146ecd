//! Locators: the source or target of bytes, as people type it.
//!
//! Order of recognition: `null:`, `zero:[SIZE]`, `-`; then a scheme; then the scp rule (a colon before any slash); else
//! a local path, which `./` forces.

use std::ffi::OsStr;
use std::fmt;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::name::{NameError, RelPath, show_bytes};
use crate::units::{Bytes, UnitError};

/// The one port of a node, TCP and UDP.
pub const DEFAULT_PORT: u16 = 7411;

/// The size of `zero:` without a number: it goes on until it is stopped. The largest size of a file.
pub const ENDLESS: Bytes = Bytes(i64::MAX as u64);

/// A host with its port; IPv6 addresses are kept without brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// Name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// A place on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePlace {
    /// `lh://HOST/`: the list of exports.
    Exports,
    /// `lh://HOST/EXPORT/PATH`.
    Path {
        /// The export's name.
        export: String,
        /// The path below it.
        path: RelPath,
    },
    /// `lh://HOST/null:`: takes everything, keeps nothing.
    Null,
    /// `lh://HOST/zero:SIZE`: so many zero bytes; [`ENDLESS`] without a size.
    Zero(Bytes),
}

/// The source or target of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Locator {
    /// `null:` on this host.
    Null,
    /// `zero:SIZE` on this host; [`ENDLESS`] without a size.
    Zero(Bytes),
    /// `-`: standard input or output.
    Pipe,
    /// A path on this host.
    Local(PathBuf),
    /// A place on a node. `into` is set where the locator ended in a slash.
    Node {
        /// The node.
        at: HostPort,
        /// The place on it.
        place: NodePlace,
        /// Whether the locator ended in `/`.
        into: bool,
    },
    /// `user@host:path`, over ssh.
    Ssh {
        /// `user@host` or `host`.
        login: String,
        /// The path on the host.
        path: Vec<u8>,
    },
    /// A place on a remote server (WebDAV, HTTP, S3, XRootD, FTP, …).
    Remote {
        /// The scheme, lower case.
        scheme: String,
        /// The whole URL.
        url: String,
    },
}

/// Why a locator cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocatorError {
    /// The text is empty.
    #[error("an empty locator names nothing")]
    Empty,
    /// An unknown scheme.
    #[error("{0:?} is not a scheme this program knows; a local file with a colon in its name is written ./NAME")]
    Scheme(String),
    /// No host, a bad port, a bad escape.
    #[error("{locator:?} is not a node's locator: {why}; write lh://HOST[:PORT]/EXPORT/PATH")]
    Node {
        /// What was typed.
        locator: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Probably a node's locator without its `lh://`; as typed it would be a path over ssh.
    #[error("did you mean {suggestion}? For a path over ssh to the host {host:?} write {host}:./{path}")]
    ProbablyNode {
        /// The node's locator that was probably meant.
        suggestion: String,
        /// The ssh host that the text names as it was typed.
        host: String,
        /// The path on the host.
        path: String,
    },
    /// A path that leaves its export, or is too long.
    #[error(transparent)]
    Path(#[from] NameError),
    /// The size in `zero:SIZE`.
    #[error(transparent)]
    Size(#[from] UnitError),
}

/// Schemes of remote servers, in lower case; not all of them are supported.
pub const REMOTE_SCHEMES: [&str; 11] =
    ["https", "http", "davs", "dav", "s3", "root", "roots", "ftp", "ftps", "sftp", "gsiftp"];

/// The part before `://`, if it could be a scheme (RFC 3986, section 3.1).
fn scheme(text: &[u8]) -> Option<(&str, &[u8])> {
    let at = text.windows(3).position(|w| w == b"://")?;
    let scheme = std::str::from_utf8(&text[..at]).ok()?;
    let plausible = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    plausible.then_some((scheme, &text[at + 3..]))
}

/// The node's locator that `HOST:PATH` was probably meant to be. Years have four digits, so a number of four digits is taken for a port
/// only where it is the usual one, or the host is an address.
fn probable_node_locator(login: &str, path: &str) -> Option<String> {
    if login.eq_ignore_ascii_case("lh") {
        return Some(format!("lh://{}", path.trim_start_matches('/')));
    }
    let port = path.split('/').next().unwrap_or_default();
    let is_port = port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_likely = port == "7411" || port.len() == 5 || login.parse::<Ipv4Addr>().is_ok();
    (is_port && is_likely).then(|| format!("lh://{login}:{path}"))
}

/// Undoes percent-encoding.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            out.push(byte);
            rest = tail;
            continue;
        }
        let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        out.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &tail[2..];
    }
    Some(out)
}

/// Percent-encodes the bytes that may not stand in a locator's path.
fn encode(bytes: &[u8]) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&b);
    bytes.iter().map(|&b| if plain(b) { (b as char).to_string() } else { format!("%{b:02X}") }).collect()
}

impl std::str::FromStr for HostPort {
    type Err = &'static str;

    /// `HOST`, `HOST:PORT`, `[v6]`, `[v6]:PORT`.
    fn from_str(text: &str) -> Result<HostPort, &'static str> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or("a [ without its ]")?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| "what stands in [ ] is not an IPv6 address")?;
                (host, after)
            }
            None => match text.find(':') {
                Some(at) => text.split_at(at),
                None => (text, ""),
            },
        };
        if host.is_empty() {
            return Err("the host is missing");
        }
        // No host name has these, and they would be written to a terminal wherever the host is shown.
        if host.contains(|c: char| c.is_control() || c.is_whitespace()) {
            return Err("the host has a space or a control character");
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => DEFAULT_PORT,
            None => return Err("there is something between the address and the slash"),
            Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => {
                port.parse().ok().filter(|p| *p > 0).ok_or("the port is not between 1 and 65535")?
            }
            Some(_) => return Err("the port is not a number (IPv6 addresses go in [ ])"),
        };
        Ok(HostPort { host: host.to_owned(), port })
    }
}

impl Locator {
    /// Parses a locator, in the order that the head of this module gives.
    ///
    /// # Errors
    /// The text is empty, has an unknown scheme or a bad size, or is not a valid locator of a node.
    pub fn parse(text: &OsStr) -> Result<Locator, LocatorError> {
        let bytes = text.as_bytes();
        match bytes {
            b"" => return Err(LocatorError::Empty),
            b"null:" => return Ok(Locator::Null),
            b"-" => return Ok(Locator::Pipe),
            _ => {}
        }
        if let Some(size) = bytes.strip_prefix(b"zero:") {
            return Ok(Locator::Zero(parse_zero_size(size)?));
        }
        if let Some((scheme, rest)) = scheme(bytes) {
            let scheme = scheme.to_ascii_lowercase();
            return match scheme.as_str() {
                "lh" => parse_node(text, rest),
                "file" => Ok(Locator::Local(PathBuf::from(OsStr::from_bytes(rest)))),
                known if REMOTE_SCHEMES.contains(&known) => Ok(Locator::Remote { scheme, url: show_bytes(bytes) }),
                _ => Err(LocatorError::Scheme(scheme)),
            };
        }
        let first = bytes.iter().position(|b| *b == b':' || *b == b'/');
        if let Some(at) = first.filter(|at| bytes[*at] == b':' && *at > 0) {
            let (login, path) = (show_bytes(&bytes[..at]), &bytes[at + 1..]);
            return match probable_node_locator(&login, &show_bytes(path)) {
                Some(suggestion) => Err(LocatorError::ProbablyNode { suggestion, host: login, path: show_bytes(path) }),
                None => Ok(Locator::Ssh { login, path: path.to_vec() }),
            };
        }
        Ok(Locator::Local(PathBuf::from(text)))
    }

    /// A place on a node, from a path that is not percent-encoded: `EXPORT/PATH`, `null:`, `zero:SIZE`, nothing.
    ///
    /// # Errors
    /// The text is not a path on a node.
    pub fn on_node(at: &HostPort, path: &[u8]) -> Result<Locator, LocatorError> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        parse_node_path(at.clone(), path, |why| LocatorError::Node {
            locator: format!("{at}: {}", show_bytes(path)),
            why,
        })
    }

    /// The node of a locator on a node.
    pub fn node(&self) -> Option<&HostPort> {
        match self {
            Locator::Node { at, .. } => Some(at),
            _ => None,
        }
    }

    /// Whether the locator ended in a slash: as a target it is then a directory to copy into.
    pub fn into_dir(&self) -> bool {
        match self {
            Locator::Local(path) => path.as_os_str().as_bytes().ends_with(b"/"),
            Locator::Node { into, .. } => *into,
            Locator::Ssh { path, .. } => path.ends_with(b"/"),
            Locator::Remote { url, .. } => url.split(['?', '#']).next().is_some_and(|path| path.ends_with('/')),
            _ => false,
        }
    }
}

/// The size after `zero:`; [`ENDLESS`] where there is none.
fn parse_zero_size(size: &[u8]) -> Result<Bytes, UnitError> {
    if size.is_empty() { Ok(ENDLESS) } else { show_bytes(size).parse() }
}

fn show_zeros(f: &mut fmt::Formatter<'_>, size: Bytes) -> fmt::Result {
    if size == ENDLESS { f.write_str("zero:") } else { write!(f, "zero:{}", size.0) }
}

fn parse_node(text: &OsStr, rest: &[u8]) -> Result<Locator, LocatorError> {
    let error = |why| LocatorError::Node { locator: show_bytes(text.as_bytes()), why };
    let (authority, path) = match rest.iter().position(|b| *b == b'/') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, &b""[..]),
    };
    let authority = std::str::from_utf8(authority).map_err(|_| error("the host is not text"))?;
    if authority.contains('@') {
        return Err(error("a key or user does not belong in a locator (keys: LONGHAUL_KEY or --key-file)"));
    }
    let at: HostPort = authority.parse().map_err(error)?;
    let path = decode(path).ok_or_else(|| error("a % is not followed by two hexadecimal digits"))?;
    parse_node_path(at, &path, error)
}

/// The place that a path without percent-encoding names on a node.
fn parse_node_path(
    at: HostPort,
    path: &[u8],
    error: impl Fn(&'static str) -> LocatorError,
) -> Result<Locator, LocatorError> {
    let into = path.ends_with(b"/");
    let place = match path.iter().position(|b| *b == b'/') {
        _ if path.is_empty() => NodePlace::Exports,
        _ if path == b"null:" => NodePlace::Null,
        _ if path.starts_with(b"zero:") => NodePlace::Zero(parse_zero_size(&path[5..])?),
        at => {
            let (export, below) = path.split_at(at.unwrap_or(path.len()));
            let export = std::str::from_utf8(export).map_err(|_| error("the export's name is not text"))?;
            if export.contains(':') || export.is_empty() || export == "." || export == ".." {
                return Err(error("that is not an export's name"));
            }
            NodePlace::Path { export: export.to_owned(), path: RelPath::parse(below)? }
        }
    };
    Ok(Locator::Node { at, place, into })
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for NodePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodePlace::Exports => Ok(()),
            NodePlace::Path { export, path } if path.is_root() => f.write_str(&encode(export.as_bytes())),
            NodePlace::Path { export, path } => write!(f, "{}/{}", encode(export.as_bytes()), encode(path.as_bytes())),
            NodePlace::Null => f.write_str("null:"),
            NodePlace::Zero(size) => show_zeros(f, *size),
        }
    }
}

impl fmt::Display for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Locator::Null => f.write_str("null:"),
            Locator::Zero(size) => show_zeros(f, *size),
            Locator::Pipe => f.write_str("-"),
            Locator::Local(path) => f.write_str(&show_bytes(path.as_os_str().as_bytes())),
            Locator::Node { at, place, into } => {
                let slash = if *into && *place != NodePlace::Exports { "/" } else { "" };
                let at = at.to_string();
                let shown = at.strip_suffix(&format!(":{DEFAULT_PORT}")).unwrap_or(&at);
                write!(f, "lh://{shown}/{place}{slash}")
            }
            Locator::Ssh { login, path } => write!(f, "{login}:{}", show_bytes(path)),
            // The query is often a secret.
            Locator::Remote { url, .. } => match url.split_once('?') {
                Some((place, _)) => write!(f, "{place}?…"),
                None => f.write_str(url),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Locator, LocatorError> {
        Locator::parse(OsStr::new(text))
    }

    fn node(host: &str, port: u16, place: NodePlace, into: bool) -> Result<Locator, LocatorError> {
        Ok(Locator::Node { at: HostPort { host: host.into(), port }, place, into })
    }

    fn path(export: &str, path: &str) -> NodePlace {
        NodePlace::Path { export: export.into(), path: RelPath::parse(path.as_bytes()).expect("valid") }
    }

    #[test]
    fn the_forms_of_a_locator_are_recognised_in_order() {
        assert_eq!(parse("null:"), Ok(Locator::Null));
        assert_eq!(parse("zero:1GiB"), Ok(Locator::Zero(Bytes(1 << 30))));
        for endless in ["zero:", "lh://h/zero:"] {
            assert_eq!(parse(endless).map(|locator| locator.to_string()), Ok(endless.to_owned()));
        }
        assert_eq!(parse("-"), Ok(Locator::Pipe));
        assert_eq!(parse("./a:b"), Ok(Locator::Local("./a:b".into())));
        assert_eq!(parse("/a:b"), Ok(Locator::Local("/a:b".into())));
        assert_eq!(parse("me@far:/data"), Ok(Locator::Ssh { login: "me@far".into(), path: b"/data".to_vec() }));
        assert!(matches!(parse("https://x/y"), Ok(Locator::Remote { .. })));
        assert!(matches!(parse("gopher://x/y"), Err(LocatorError::Scheme(_))));
        assert_eq!(parse(""), Err(LocatorError::Empty));
    }

    #[test]
    fn a_node_without_its_scheme_is_refused_with_the_locator_that_was_probably_meant() {
        for (typed, meant) in [
            ("127.0.0.1:17411/x", "lh://127.0.0.1:17411/x"),
            ("127.0.0.1:2024/x", "lh://127.0.0.1:2024/x"),
            ("dtn.example:7411", "lh://dtn.example:7411"),
            ("dtn.example:17411/data/", "lh://dtn.example:17411/data/"),
            ("lh:/dtn.example/data", "lh://dtn.example/data"),
            ("lh:dtn.example/data", "lh://dtn.example/data"),
        ] {
            let error = parse(typed).unwrap_err().to_string();
            assert!(error.contains(&format!("did you mean {meant}?")), "{typed}: {error}");
        }
        for path in [
            "far:2024/run",
            "far:/7411/x",
            "far:./17411/x",
            "127.0.0.1:./17411/x",
            "far:99999/x",
            "far:",
            "me@far:7412x",
        ] {
            assert!(matches!(parse(path), Ok(Locator::Ssh { .. })), "{path}");
        }
    }

    #[test]
    fn locators_of_nodes_are_parsed_or_refused() {
        assert_eq!(parse("lh://h/"), node("h", DEFAULT_PORT, NodePlace::Exports, false));
        assert_eq!(parse("lh://h"), node("h", DEFAULT_PORT, NodePlace::Exports, false));
        assert_eq!(parse("lh://h/e"), node("h", DEFAULT_PORT, path("e", ""), false));
        assert_eq!(parse("lh://h:99/e/a/b/"), node("h", 99, path("e", "a/b"), true));
        assert_eq!(parse("lh://[::1]:99/e/x"), node("::1", 99, path("e", "x"), false));
        assert_eq!(parse("LH://h/e/a%20%ff"), {
            let odd = NodePlace::Path { export: "e".into(), path: RelPath::parse(b"a \xff").expect("valid") };
            node("h", DEFAULT_PORT, odd, false)
        });
        assert_eq!(parse("lh://h/null:"), node("h", DEFAULT_PORT, NodePlace::Null, false));
        assert_eq!(parse("lh://h/zero:1kB"), node("h", DEFAULT_PORT, NodePlace::Zero(Bytes(1000)), false));
        for bad in [
            "lh://",
            "lh:///e",
            "lh://h:0/e",
            "lh://h:99999/e",
            "lh://::1/e",
            "lh://[::1/e",
            "lh://h/e/../x",
            "lh://h/e/%2e%2e/x",
            "lh://h/e/%",
            "lh://h/e/%zz",
            "lh://h/a:b/c",
            "lh://key@h/e",
            "lh://h/../x",
            "lh://h\u{1b}[2J/e",
            "lh://h\nh/e",
            "lh://h h/e",
        ] {
            assert!(parse(bad).is_err(), "{bad} must be refused");
        }
    }

    proptest! {
        #[test]
        fn a_written_locator_is_parsed_unchanged(parts in proptest::collection::vec("[^/\0]{1,12}", 0..4), into: bool, port in 1u16..) {
            let parts: Vec<_> = parts.into_iter().filter(|p| p != "." && p != "..").collect();
            let below = RelPath::parse(parts.join("/").as_bytes()).expect("valid");
            let place = NodePlace::Path { export: "data".into(), path: below };
            let locator = Locator::Node { at: HostPort { host: "host.example".into(), port }, place, into };
            prop_assert_eq!(parse(&locator.to_string()), Ok(locator));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Locator::parse(OsStr::from_bytes(&bytes));
        }
    }
}
