//! Converts heads between HTTP/2 and HTTP/1.1, which services know (RFC 9113, sections 8.2 and 8.3).

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use web::head::HeadError;
use web::{Headers, Request, Response, body};

/// Fields about the connection, which HTTP/2 does not allow (RFC 9113, section 8.2.2).
const CONNECTION_FIELDS: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];

/// Why a head is refused: the status, and the reason.
pub(super) type BadHead = (u16, String);

/// A request, and the length of its body if it is known: zero if the stream has ended with the head, else as the head states it.
pub(super) fn request(parts: &Parts, has_ended: bool) -> Result<(Request, Option<u64>), BadHead> {
    let bad = |error: HeadError| (error.status(), error.to_string());
    let request = web::parts::request(parts).map_err(bad)?;
    body::of_request(&request).map_err(|error| (error.status(), error.to_string()))?;
    let length = request.headers.get("content-length").and_then(|length| length.trim().parse().ok());
    Ok((request, if has_ended { Some(0) } else { length }))
}

/// Converts fields to HTTP/2: lower case, and none of the connection. Fields that HTTP/2 cannot carry are left out.
pub(super) fn fields(headers: &Headers) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers.iter() {
        if CONNECTION_FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field)) {
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

    #[test]
    fn a_request_has_a_length_or_none() {
        let head = |name, value| http::Request::builder().uri("https://h/a").header(name, value).body(()).unwrap();
        let length =
            |name, value, has_ended| request(&head(name, value).into_parts().0, has_ended).map(|(_, length)| length);
        assert_eq!(length("X", "a", false), Ok(None));
        assert_eq!((length("X", "a", true), length("Content-Length", "7", false)), (Ok(Some(0)), Ok(Some(7))));
        assert_eq!(length("Host", "other", false).unwrap_err().0, 400);
    }

    #[test]
    fn fields_lose_their_capitals_and_connection_fields_are_left_out() {
        let headers = Headers::new().with("Connection", "close").with("ETag", "\"x\"").with("Keep-Alive", "1");
        let map = fields(&headers.with("Transfer-Encoding", "chunked").with("ETag", "y"));
        assert_eq!((map.len(), map.get_all("etag").iter().count()), (2, 2));
    }
}
