//! URLs of third-party copies and redirects. An [`HttpUrl`] is `http` or `https`, with a host and without credentials. Whether its host
//! may be reached is not checked here.

use std::fmt;

use ::url::Url;

use crate::target::redacted;

/// The longest address, bytes: as for a request target.
pub const URL_BYTES_MAX: usize = crate::target::TARGET_BYTES_MAX;

/// Schemes that grids write in `Source` and `Destination`, and the schemes of HTTP that they mean.
const SCHEMES: [(&str, &str); 6] =
    [("http", "http"), ("https", "https"), ("dav", "http"), ("davs", "https"), ("s3", "https"), ("s3s", "https")];

/// An `http` or `https` address. `Display` and `Debug` leave out secrets of the query; [`HttpUrl::as_str`] does not.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HttpUrl(Url);

/// Why an address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Longer than [`URL_BYTES_MAX`].
    #[error("a URL of {0} bytes is longer than the {URL_BYTES_MAX} that are read here")]
    Long(usize),
    /// Another scheme, or none.
    #[error("{0:?} is not a supported URL; write http://, https://, dav:// or davs:// and a host")]
    Scheme(String),
    /// Malformed by the URL standard.
    #[error("{url:?} is not a URL: {why}")]
    Malformed {
        /// The text, without secrets.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// User and password before the host.
    #[error("{0:?} contains credentials before its host; send them in a header instead")]
    Userinfo(String),
}

impl HttpUrl {
    /// Parses an absolute address.
    ///
    /// # Errors
    /// [`UrlError`]: the text is too long, has another scheme or credentials, or is malformed.
    pub fn parse(text: &str) -> Result<HttpUrl, UrlError> {
        let text = text.trim_matches([' ', '\t']);
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::Long(text.len()));
        }
        let malformed = |why: &str| UrlError::Malformed { url: redacted(text), why: why.to_owned() };
        // The URL standard drops some of these characters and replaces backslashes by slashes: two parsers could see different hosts.
        if text.contains(|c: char| c.is_ascii_control() || c == ' ' || c == '\\') {
            return Err(malformed("it contains spaces, control characters or backslashes; escape them with %"));
        }
        let unsupported = || UrlError::Scheme(redacted(text));
        let (scheme, rest) = text.split_once("://").ok_or_else(unsupported)?;
        let known = SCHEMES.iter().find(|(name, _)| scheme.eq_ignore_ascii_case(name));
        let (_, scheme) = known.ok_or_else(unsupported)?;
        // The URL standard skips surplus slashes, but `http:///etc/passwd` has no host.
        if rest.is_empty() || rest.starts_with(['/', '?', '#']) {
            return Err(malformed("it names no host"));
        }
        let mut url = Url::parse(&format!("{scheme}://{rest}")).map_err(|e| malformed(&e.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlError::Userinfo(redacted(text)));
        }
        url.set_fragment(None);
        if url.host_str().is_none_or(str::is_empty) {
            return Err(malformed("it names no host"));
        }
        Ok(HttpUrl(url))
    }

    /// Resolves the `Location` of a response from this URL.
    ///
    /// # Errors
    /// As [`HttpUrl::parse`].
    pub fn join(&self, location: &str) -> Result<HttpUrl, UrlError> {
        if location.len() > URL_BYTES_MAX {
            return Err(UrlError::Long(location.len()));
        }
        // An absolute URL is checked by `parse`.
        if location.trim_start().split_once("://").is_some_and(|(scheme, _)| !scheme.contains(['/', '?', '#'])) {
            return HttpUrl::parse(location);
        }
        let joined = self.0.join(location);
        let why = |e: ::url::ParseError| UrlError::Malformed { url: redacted(location), why: e.to_string() };
        HttpUrl::parse(joined.map_err(why)?.as_str())
    }

    /// Whether the scheme is `https`.
    pub fn is_secure(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// The name or address of the host; IPv6 without brackets.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    /// The port, or the default port of the scheme.
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or(if self.is_secure() { 443 } else { 80 })
    }

    /// The value of `Host`: the host, IPv6 in brackets, and the port where it is not the default of the scheme.
    pub fn authority(&self) -> &str {
        self.0.authority()
    }

    /// The target of a request to this URL, in origin form.
    pub fn path_and_query(&self) -> &str {
        &self.0[::url::Position::BeforePath..::url::Position::AfterQuery]
    }

    /// The path as it is written.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Whether this URL is `requested` with a slash at its end. HTTP servers redirect from the URL of a directory to the one with a slash.
    pub fn is_directory_of(&self, requested: &HttpUrl) -> bool {
        let plain = |path: &str| percent_encoding::percent_decode_str(path).collect::<Vec<_>>();
        let is_longer = self.path().ends_with('/') && !requested.path().ends_with('/');
        is_longer && plain(self.path().trim_end_matches('/')) == plain(requested.path())
    }

    /// The query as it is written, without its `?`.
    pub fn query(&self) -> Option<&str> {
        self.0.query()
    }

    /// Whether scheme, host and port are the same, so that credentials for one may be sent to the other.
    pub fn is_same_origin(&self, other: &HttpUrl) -> bool {
        self.0.origin() == other.0.origin()
    }

    /// Whether the query contains an S3 signature. It is valid for one method only, so that a HEAD before a GET fails, and not together
    /// with `Authorization`.
    pub fn is_presigned(&self) -> bool {
        self.query().is_some_and(|query| {
            crate::target::pairs(query).any(|(name, _)| name.eq_ignore_ascii_case("x-amz-signature"))
        })
    }

    /// The whole address, with its secrets.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The whole address, without secrets.
    pub fn redacted(&self) -> String {
        redacted(self.0.as_str())
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.redacted())
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.redacted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn url(text: &str) -> HttpUrl {
        HttpUrl::parse(text).unwrap()
    }

    #[test]
    fn a_url_is_split_into_its_parts() {
        let it = url("davs://[2001:db8::1]:8443/data/f%20g?authz=s#x");
        assert_eq!(it.as_str(), "https://[2001:db8::1]:8443/data/f%20g?authz=s");
        assert_eq!((it.host(), it.port(), it.authority()), ("2001:db8::1", 8443, "[2001:db8::1]:8443"));
        assert_eq!(it.path_and_query(), "/data/f%20g?authz=s");
        assert_eq!(it.to_string(), "https://[2001:db8::1]:8443/data/f%20g?authz=…");
        assert_eq!(format!("{it:?}"), "\"https://[2001:db8::1]:8443/data/f%20g?authz=…\"");
        assert_eq!((url("HTTP://h").port(), url("s3://h/f").port(), url("http://h").path_and_query()), (80, 443, "/"));
        assert!(url("https://h/f?X-Amz-Signature=a").is_presigned());
        assert!(!url("https://h/f?a=X-Amz-Signature").is_presigned());
    }

    #[test]
    fn a_redirect_that_adds_a_slash_leads_to_a_directory() {
        for (asked, answered) in [("/a%7Eb", "/a~b/"), ("/a", "/a/"), ("/a%2Fb", "/a%2fb/")] {
            assert!(url(&format!("http://h{answered}")).is_directory_of(&url(&format!("http://h{asked}"))), "{asked}");
        }
        for (asked, answered) in [("/a", "/a"), ("/a/", "/a/"), ("/a", "/b/"), ("/a", "/a/b/"), ("/", "/")] {
            assert!(!url(&format!("http://h{answered}")).is_directory_of(&url(&format!("http://h{asked}"))), "{asked}");
        }
    }

    #[test]
    fn unsupported_and_malformed_urls_are_refused() {
        for bad in ["", "/data/f", "h/f", "ftp://h/f", "file:///etc/passwd", "http:h", "javascript://h/", "gopher://h"]
        {
            assert!(matches!(HttpUrl::parse(bad), Err(UrlError::Scheme(_))), "{bad}");
        }
        for bad in
            ["http://", "http:///f", "http://h\\@evil/", "http://a b/", "http://h:99999/", "http://[::1", "http://?"]
        {
            assert!(matches!(HttpUrl::parse(bad), Err(UrlError::Malformed { .. })), "{bad}");
        }
        let error = HttpUrl::parse("https://user:secret@h/f?key=secret").unwrap_err();
        assert!(matches!(error, UrlError::Userinfo(_)) && !error.to_string().contains("secret"), "{error}");
        assert!(matches!(HttpUrl::parse(&format!("http://h/{}", "a".repeat(9000))), Err(UrlError::Long(_))));
    }

    #[test]
    fn locations_are_resolved() {
        let from = url("https://a/data/f?x=1");
        for (location, to) in [
            ("/g", "https://a/g"),
            ("g?authz=s", "https://a/data/g?authz=s"),
            ("//b/g", "https://b/g"),
            ("davs://b:1/g", "https://b:1/g"),
            ("/g?to=http://x/", "https://a/g?to=http://x/"),
        ] {
            assert_eq!(from.join(location).unwrap().as_str(), to);
        }
        for bad in ["ftp://b/", "mailto:a@b", "//user@b/", "https://"] {
            assert!(from.join(bad).is_err(), "{bad}");
        }
        assert!(from.is_same_origin(&url("https://a:443/x")));
        assert!(!from.is_same_origin(&url("http://a/x")) && !from.is_same_origin(&url("https://b/x")));
    }

    proptest! {
        #[test]
        fn any_url_is_parsed_or_refused(text in "(https?|davs?|s3)://\\PC{0,40}", location in "\\PC{0,40}") {
            if let Ok(it) = HttpUrl::parse(&text) {
                prop_assert_eq!(HttpUrl::parse(it.as_str()), Ok(it.clone()));
                prop_assert!(it.path_and_query().starts_with('/'));
                if let Ok(to) = it.join(&location) {
                    prop_assert!(!to.host().is_empty());
                }
            }
        }
    }
}
