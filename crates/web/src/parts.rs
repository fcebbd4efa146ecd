//! Converts heads of the `http` crate, which HTTP/2 and services of tower use, to the heads of this crate.

use http::header::{HeaderMap, HeaderValue};
use http::request::Parts;

use crate::head::{FIELDS_MAX, HeadError, TARGET_BYTES_MAX};
use crate::{Headers, Method, Request};

/// The head of a request. Bytes of fields that are not UTF-8 are replaced, so that a credential with such bytes is an invalid credential
/// rather than a missing one.
///
/// # Errors
/// There is no host or more than one, no path, or more than the limits of this crate allow.
pub fn request(parts: &Parts) -> Result<Request, HeadError> {
    let target = match (parts.uri.path_and_query(), parts.uri.authority()) {
        (Some(path), _) => path.as_str(),
        // CONNECT has no path; the service refuses it.
        (None, Some(authority)) => authority.as_str(),
        (None, None) => return Err(HeadError::Malformed("there is no :path")),
    };
    if target.len() > TARGET_BYTES_MAX {
        return Err(HeadError::TargetTooLong);
    }
    if parts.headers.len() > FIELDS_MAX {
        return Err(HeadError::TooLarge);
    }
    let mut headers = Headers::new();
    if let Some(host) = host(parts)? {
        headers.add("Host", host);
    }
    add(&parts.headers, &mut headers);
    Ok(Request::new(Method::parse(parts.method.as_str()), target, headers))
}

/// The trailer fields of a body.
pub fn trailers(map: &HeaderMap) -> Headers {
    let mut headers = Headers::new();
    add(map, &mut headers);
    headers
}

fn add(map: &HeaderMap, headers: &mut Headers) {
    for (name, value) in map.iter().filter(|(name, _)| *name != http::header::HOST) {
        headers.add(name.as_str(), String::from_utf8_lossy(value.as_bytes()).trim());
    }
}

/// Checks that `:authority` and `Host` name one host (RFC 9113, section 8.3.1).
fn host(parts: &Parts) -> Result<Option<String>, HeadError> {
    let mut hosts: Vec<&[u8]> = parts.headers.get_all(http::header::HOST).iter().map(HeaderValue::as_bytes).collect();
    let fields = hosts.len();
    hosts.extend(parts.uri.authority().map(|authority| authority.as_str().as_bytes()));
    let Some(last) = hosts.pop() else { return Err(HeadError::Malformed("there is neither :authority nor Host")) };
    if fields > 1 || hosts.iter().any(|host| !host.eq_ignore_ascii_case(last)) {
        return Err(HeadError::Malformed("there is more than one host"));
    }
    Ok(Some(String::from_utf8_lossy(last).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(uri: &str, hosts: &[&str]) -> Parts {
        let mut builder = http::Request::builder().uri(uri).header("X", " a ");
        for host in hosts {
            builder = builder.header("host", *host);
        }
        builder.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_request_has_one_host() {
        let found = request(&parts("https://h:1/a%20b?c=d", &[])).unwrap();
        assert_eq!((found.target.as_str(), found.headers.get("host")), ("/a%20b?c=d", Some("h:1")));
        assert_eq!((found.minor, found.headers.get("x")), (1, Some("a")));
        assert_eq!(request(&parts("/a", &["h"])).unwrap().headers.get("host"), Some("h"));
        assert!(request(&parts("https://h/a", &["H"])).is_ok());
        for (uri, hosts) in
            [("/a", &[][..]), ("/a", &["h", "h"]), ("https://h/a", &["i"]), ("https://h/a", &["h", "h"])]
        {
            assert_eq!(request(&parts(uri, hosts)).unwrap_err().status(), 400, "{uri} {hosts:?}");
        }
        assert_eq!(request(&parts(&format!("https://h/{}", "x".repeat(9000)), &[])).unwrap_err().status(), 414);
    }
}
