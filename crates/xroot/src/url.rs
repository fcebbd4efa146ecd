//! Addresses: `root://[USER@]HOST[:PORT]//PATH[?name=value&…]`, and `roots://` for TLS.

use crate::place::RootPath;

/// The port of a server, where an address has none.
pub const DEFAULT_PORT: u16 = 1094;

/// An address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootUrl {
    /// Whether TLS is wanted in any case.
    pub is_secure: bool,
    /// The user, if the address names one.
    pub user: Option<String>,
    /// The host; an IPv6 address without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path and its parameters.
    pub place: RootPath,
}

/// Why a text is no such address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address:?} is not the address of an XRootD server: {why}; write root://HOST[:PORT]//PATH")]
pub struct RootUrlError {
    /// The text, without its parameters.
    pub address: String,
    /// What is wrong.
    pub why: &'static str,
}

/// `HOST:PORT`, with brackets around an IPv6 address.
pub fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl RootUrl {
    /// Parses an address. Of the schemes, `xroot` and `xroots` mean the same as `root` and `roots`.
    ///
    /// # Errors
    /// The scheme is another one, the host is missing, the port is not a number, or the path leads upwards.
    pub fn parse(text: &str) -> Result<RootUrl, RootUrlError> {
        let shown = text.split('?').next().unwrap_or_default();
        let wrong = |why| RootUrlError { address: model::name::show_bytes(shown.as_bytes()), why };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "root" | "xroot" => false,
            "roots" | "xroots" => true,
            _ => return Err(wrong("its scheme is neither root nor roots")),
        };
        let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, authority),
        };
        // A password would be shown by every tool that shows its arguments.
        let user = user.map(|user| user.split(':').next().unwrap_or_default()).filter(|user| !user.is_empty());
        let (host, port) = host_and_port(authority).map_err(wrong)?;
        let place = RootPath::parse(path.as_bytes()).map_err(|_| wrong("its path leads upwards, or is too long"))?;
        Ok(RootUrl { is_secure, user: user.map(str::to_owned), host: host.to_owned(), port, place })
    }

    /// `HOST:PORT`, with brackets around an IPv6 address.
    pub fn authority(&self) -> String {
        authority(&self.host, self.port)
    }

    /// The address for people, without its parameters: they may hold a token.
    pub fn redacted(&self) -> String {
        let scheme = if self.is_secure { "roots" } else { "root" };
        format!("{scheme}://{}//{}", self.authority(), self.place.path)
    }
}

/// Splits `HOST[:PORT]`, as addresses and redirects have it.
///
/// # Errors
/// The host is missing, or the port is not a number from 1 on.
pub fn host_and_port(authority: &str) -> Result<(&str, u16), &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("a [ has no ]")?;
            (host, after.strip_prefix(':'))
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() || host.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err("the host is missing");
    }
    let port = match port {
        None | Some("") => DEFAULT_PORT,
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or("the port is not a number")?,
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        let url = RootUrl::parse("root://ann@se.example:1095//data/run 7/f?authz=secret").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.user.as_deref()), ("se.example", 1095, Some("ann")));
        assert_eq!(url.place.path.as_bytes(), b"data/run 7/f");
        assert_eq!(url.redacted(), "root://se.example:1095//data/run 7/f");
        let url = RootUrl::parse("xroots://[2001:db8::1]").unwrap();
        assert_eq!((url.is_secure, url.authority()), (true, "[2001:db8::1]:1094".to_owned()));
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_secrets() {
        for bad in ["http://h/f", "root:///f", "root://h:x//f", "root://h//../f", "h//f", "root://[::1//f"] {
            assert!(RootUrl::parse(bad).is_err(), "{bad}");
        }
        let error = RootUrl::parse("root://h:0//f?authz=secret").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
