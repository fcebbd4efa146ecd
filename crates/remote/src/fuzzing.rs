//! The parsers of responses of remote servers, as plain functions: the property tests run them in every `make test`, and
//! `make fuzz` (`fuzz/` at the root of the workspace) runs them for a given time.
//!
//! Each function takes any bytes as a server's response and must return without a panic; no response leads out of a directory, and
//! none makes an error text of more than one line.

use model::name::Name;
use model::{Kind, RelPath};
use web::dav::listing;
use web::head;

use crate::dav::facts::{entries_of, of_response};
use crate::request_error::RequestError;
use crate::retries::retry_after;

pub use crate::s3::fuzzing::s3_listing;

/// The most characters of an error text, with the explanation of the server in it.
const WHY_CHARS_MAX: usize = 400;

/// Reads a multistatus document, as the listing of `d/e`.
pub fn dav_listing(bytes: &[u8]) {
    let (Ok(resources), Ok(base), Ok(path)) = (listing::parse(bytes), RelPath::parse(b"d"), RelPath::parse(b"e"))
    else {
        return;
    };
    let count = resources.len();
    let Ok(entries) = entries_of(resources, (&base, &path), "h") else { return };
    assert!(entries.len() <= count);
    for (name, facts) in entries {
        assert_eq!(Name::new(name.as_bytes()).as_ref(), Ok(&name), "an entry is a name");
        assert!(facts.is_err() || facts.is_ok_and(|facts| facts.kind == Kind::File || facts.size == 0));
    }
}

/// Reads a refusal: its head, and its body.
pub fn refusal(bytes: &[u8]) {
    let Ok(Some((response, taken))) = head::parse_response(bytes) else { return };
    let facts = of_response(&response, 1);
    assert!(facts.mtime.is_none_or(|at| at.seconds >= 0) && facts.size == 1);
    retry_after(response.headers.get("retry-after"));
    let failed = RequestError::refusal("h", response.status, &bytes[taken..]);
    assert!(!failed.why.contains(char::is_control), "one line stays one line");
    assert!(failed.why.chars().count() <= WHY_CHARS_MAX, "{} characters", failed.why.len());
    let error = failed.into_store_error("read", &RelPath::root());
    assert!(!error.to_string().is_empty());
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
            super::dav_listing(&bytes);
            super::refusal(&bytes);
            super::s3_listing(&bytes);
        }

        #[test]
        fn any_refusal_makes_one_line_of_text(status in 100..1_000u16, retry in "[0-9]{0,12}|[A-Z][a-z, 0-9:]{0,30}", body in vec(any::<u8>(), 0..300)) {
            let head = format!("HTTP/1.1 {status} x\r\nRetry-After: {retry}\r\nLast-Modified: {retry}\r\n\r\n<Error><Message>");
            super::refusal(&[head.as_bytes(), &body].concat());
        }

        #[test]
        fn listings_with_any_address_are_read_or_refused(hrefs in vec("(/d/e|/x/d/e|)(/[a-z.%0-9]{0,6}){0,2}", 1..4), size in "[0-9]{0,20}") {
            let response = |href: &String| format!("<D:response><D:href>{href}</D:href><D:propstat><D:prop><D:getcontentlength>{size}\
                </D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>");
            let all = hrefs.iter().map(response).collect::<String>();
            super::dav_listing(format!("<D:multistatus xmlns:D=\"DAV:\">{all}</D:multistatus>").as_bytes());
        }

        #[test]
        fn pages_with_any_key_are_read_or_refused(keys in vec("[a-z/.&#;x0-9]{0,8}", 0..4), size in "[0-9]{1,20}", more: bool) {
            let entry = |key: &String| format!("<Contents><Key>d/{key}</Key><LastModified>2026-01-01T00:00:00Z</LastModified>\
                <ETag>\"e\"</ETag><Size>{size}</Size></Contents><CommonPrefixes><Prefix>d/{key}/</Prefix></CommonPrefixes>");
            let all = keys.iter().map(entry).collect::<String>();
            let token = if more { "<NextContinuationToken>t</NextContinuationToken>" } else { "" };
            super::s3_listing(format!("<ListBucketResult>{token}{all}</ListBucketResult>").as_bytes());
        }
    }
}
