//! The version of the protocol that a session speaks: negotiated by TLS ALPN, so that it costs no round trip.
//!
//! A release speaks its version N and N-1. The client offers all its versions, newest first; the node takes the newest
//! common one. Version 1 was never in a release: [`SPOKEN`] has one element until there is a version 3.

use crate::error::WireError;

/// A protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16);

/// The versions that this release speaks, newest first.
pub const SPOKEN: &[Version] = &[Version(2)];

/// The start of every ALPN name of this protocol (RFC 7301).
const PREFIX: &str = "lh/";

impl Version {
    /// The ALPN name: `lh/2` for version 2.
    pub fn alpn(self) -> Vec<u8> {
        format!("{PREFIX}{}", self.0).into_bytes()
    }

    /// The version that an ALPN name stands for.
    pub fn from_alpn(name: &[u8]) -> Option<Version> {
        let digits = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?;
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse().ok().map(Version)).flatten()
    }
}

/// The newest version that is both `spoken` at this end and `offered` by the other.
///
/// # Errors
/// The ends have no version in common.
pub fn negotiate(spoken: &[Version], offered: &[Version]) -> Result<Version, WireError> {
    let common = spoken.iter().filter(|v| offered.contains(v)).max();
    common.copied().ok_or_else(|| WireError::Version { ours: list(spoken), theirs: list(offered) })
}

/// Versions as text for people.
pub fn list(versions: &[Version]) -> String {
    if versions.is_empty() {
        return "none".into();
    }
    versions.iter().map(|v| v.0.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_chosen() {
        let v = |n: &[u16]| n.iter().map(|n| Version(*n)).collect::<Vec<_>>();
        // A node of release N beside a client of N+1 that still speaks N, and the other way round.
        assert_eq!(negotiate(&v(&[1]), &v(&[2, 1])), Ok(Version(1)));
        assert_eq!(negotiate(&v(&[2, 1]), &v(&[1])), Ok(Version(1)));
        assert_eq!(negotiate(&v(&[2, 1]), &v(&[2, 1])), Ok(Version(2)));
        // Two releases apart: refused, with both sides named.
        let refused = negotiate(&v(&[3, 2]), &v(&[1])).unwrap_err().to_string();
        assert!(refused.contains("3, 2") && refused.contains("the peer 1"), "{refused}");
        assert!(negotiate(SPOKEN, &[]).is_err());
    }

    #[test]
    fn alpn_names_are_read_as_written() {
        assert_eq!(Version(1).alpn(), b"lh/1");
        assert_eq!(Version::from_alpn(b"lh/12"), Some(Version(12)));
        for bad in [&b"h2"[..], b"lh/", b"lh/x", b"lh/99999", b"lh/+1", b"\xff"] {
            assert_eq!(Version::from_alpn(bad), None);
        }
    }
}
