//! Addresses of FTP and SFTP servers: `ftp://[USER@]HOST[:PORT]/PATH`, percent-encoded as in RFC 1738.
//!
//! A path is relative to the directory in which a login begins; a path that begins with two slashes is below the root of the server.

use model::name::{NameError, RelPath};
use url::{Host, Url};

/// The address of a place on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveAddress {
    /// A name or an address; IPv6 addresses are without brackets.
    pub host: String,
    /// The port, if the address has one.
    pub port: Option<u16>,
    /// The name of the user, if the address has one.
    pub user: Option<String>,
    /// Whether the path is below the root of the server.
    pub is_absolute: bool,
    /// The path.
    pub path: RelPath,
}

/// Why an address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveAddressError {
    /// Not a URL with a host.
    #[error("{0:?} is not an address of a server; write ftp://[USER@]HOST[:PORT]/PATH")]
    Malformed(String),
    /// It holds a password, which others could read in the list of processes.
    #[error("an address holds no password; write it into ~/.netrc (machine HOST login USER password PASSWORD)")]
    Password,
    /// It has parameters, which these protocols do not know.
    #[error("{0:?} has parameters or a fragment; write ? as %3F and # as %23 where they belong to a name")]
    Parameters(String),
    /// The path does not parse.
    #[error(transparent)]
    Path(#[from] NameError),
}

impl ArchiveAddress {
    /// Parses an address.
    ///
    /// # Errors
    /// [`ArchiveAddressError`]: it is malformed, or holds a password or parameters.
    pub fn parse(text: &str) -> Result<ArchiveAddress, ArchiveAddressError> {
        let malformed = || ArchiveAddressError::Malformed(text.to_owned());
        let url = Url::parse(text).map_err(|_| malformed())?;
        if url.password().is_some() {
            return Err(ArchiveAddressError::Password);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(ArchiveAddressError::Parameters(text.to_owned()));
        }
        let host = match url.host().ok_or_else(malformed)? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        // The URL standard takes the first name of a path for a host that is missing.
        if host.is_empty() || host.starts_with('-') || text.contains(":///") {
            return Err(malformed());
        }
        let decoded = |text: &str| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
        let user = Some(url.username()).filter(|user| !user.is_empty());
        let user = user.map(|user| String::from_utf8(decoded(user)).map_err(|_| malformed())).transpose()?;
        if user.as_ref().is_some_and(|user| user.starts_with('-') || user.contains(char::is_control)) {
            return Err(malformed());
        }
        let path = url.path().strip_prefix('/').unwrap_or(url.path());
        let path = decoded(path);
        Ok(ArchiveAddress {
            host,
            port: url.port(),
            user,
            is_absolute: path.starts_with(b"/"),
            path: RelPath::parse(&path)?,
        })
    }

    /// `HOST`, or `HOST:PORT` where the address has one.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        self.port.map_or(host.clone(), |port| format!("{host}:{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_parsed() {
        let address = ArchiveAddress::parse("ftp://ann@archive.example:2121/pub/run%207/f").unwrap();
        assert_eq!(
            (address.host.as_str(), address.port, address.user.as_deref()),
            ("archive.example", Some(2121), Some("ann"))
        );
        assert_eq!((address.path.as_bytes(), address.is_absolute), (&b"pub/run 7/f"[..], false));
        let address = ArchiveAddress::parse("sftp://[2001:db8::1]//data/f").unwrap();
        assert_eq!((address.host.as_str(), address.port, address.is_absolute), ("2001:db8::1", None, true));
        assert_eq!((address.path.as_bytes(), address.authority().as_str()), (&b"data/f"[..], "[2001:db8::1]"));
    }

    #[test]
    fn an_address_with_a_password_or_an_option_is_refused() {
        use ArchiveAddressError::{Malformed, Parameters, Password};
        assert_eq!(ArchiveAddress::parse("ftp://ann:secret@h/f"), Err(Password));
        assert!(matches!(ArchiveAddress::parse("sftp://-oProxyCommand=x/f"), Err(Malformed(_))));
        assert!(matches!(ArchiveAddress::parse("sftp://-oProxyCommand=x@h/f"), Err(Malformed(_))));
        assert!(matches!(ArchiveAddress::parse("ftp:///f"), Err(Malformed(_))));
        assert!(matches!(ArchiveAddress::parse("ftp://h/f?x"), Err(Parameters(_))));
        assert!(matches!(
            ArchiveAddress::parse("ftp://h/a/%2e%2e/%2e%2e/b"),
            Err(ArchiveAddressError::Path(_)) | Ok(_)
        ));
    }
}
