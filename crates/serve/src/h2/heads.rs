//! Converts heads between HTTP/2 and HTTP/1.1, which services know (RFC 9113, sections 8.2 and 8.3).

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use web::head::{FIELDS_MAX, HeadError};
use web::{Headers, Method, Request, Response, body};

/// Fields that speak of a connection, of which there are none here (RFC 9113, section 8.2.2).
const OF_CONNECTIONS: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// Why a head is not taken: the status, and the reason.
pub(super) type BadHead = (u16, String);

/// A request, and its body's length where it says so.
pub(super) fn request(parts: &Parts, over: bool) -> Result<(Request, Option<u64>), BadHead> {
    let bad = |error: HeadError| (error.status(), error.to_string());
    let target = match (parts.uri.path_and_query(), parts.uri.authority()) {
        (Some(path), _) => path.as_str(),
        // CONNECT has no path; that no tunnels are dug here is for the service to say.
        (None, Some(authority)) => authority.as_str(),
        (None, None) => return Err(bad(HeadError::Malformed("there is no :path"))),
    };
    if target.len() > web::head::TARGET_BYTES_MAX {
        return Err(bad(HeadError::TargetTooLong));
    }
    if parts.headers.len() > FIELDS_MAX {
        return Err(bad(HeadError::TooLarge));
    }
    let mut headers = Headers::new();
    if let Some(host) = host(parts).map_err(bad)? {
        headers.add("Host", host);
    }
    add(&parts.headers, &mut headers);
    let request = Request::new(Method::parse(parts.method.as_str()), target, headers);
    body::of_request(&request).map_err(|error| (error.status(), error.to_string()))?;
    let length = request.headers.get("content-length").and_then(|length| length.trim().parse().ok());
    Ok((request, if over { Some(0) } else { length }))
}

/// The fields behind a body.
pub(super) fn trailers(map: &HeaderMap) -> Headers {
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

/// Converts fields to HTTP/2: lower case, and none of the connection. Fields that HTTP/2 cannot carry are left out.
pub(super) fn fields(headers: &Headers) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers.iter() {
        if OF_CONNECTIONS.iter().any(|of| name.eq_ignore_ascii_case(of)) {
            continue;
        }
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes()))
        {
            map.append(name, value);
        }
    }
    map
}

/// The head of an answer.
pub(super) fn response(response: &Response) -> http::Response<()> {
    let mut head = http::Response::new(());
    *head.status_mut() = http::StatusCode::from_u16(response.status).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    *head.headers_mut() = fields(&response.headers);
    head
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
        let (found, length) = request(&parts("https://h:1/a%20b?c=d", &[]), false).unwrap();
        assert_eq!((found.target.as_str(), found.headers.get("host"), length), ("/a%20b?c=d", Some("h:1"), None));
        assert_eq!((found.minor, found.headers.get("x")), (1, Some("a")));
        let (found, length) = request(&parts("/a", &["h"]), true).unwrap();
        assert_eq!((found.headers.get("host"), length), (Some("h"), Some(0)));
        assert!(request(&parts("https://h/a", &["H"]), true).is_ok());
        for (uri, hosts) in
            [("/a", &[][..]), ("/a", &["h", "h"]), ("https://h/a", &["i"]), ("https://h/a", &["h", "h"])]
        {
            assert_eq!(request(&parts(uri, hosts), true).unwrap_err().0, 400, "{uri} {hosts:?}");
        }
        assert_eq!(request(&parts(&format!("https://h/{}", "x".repeat(9000)), &[]), true).unwrap_err().0, 414);
    }

    #[test]
    fn nothing_of_connections_and_no_capitals() {
        let headers = Headers::new().with("Connection", "close").with("ETag", "\"x\"").with("Keep-Alive", "1");
        let map = fields(&headers.with("Transfer-Encoding", "chunked").with("ETag", "y"));
        assert_eq!((map.len(), map.get_all("etag").iter().count()), (2, 2));
    }
}
