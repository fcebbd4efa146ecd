//! Directories of plain HTTP servers: pages for people, which are never data.
//!
//! Such a server shows that an address is a directory in one of two ways: it redirects `/d` to `/d/`, or it answers with a page of
//! names. There is no standard form of such a page, so it is not read as a listing.

use web::{Headers, HttpUrl, Method, Response};

use super::Dav;
use super::facts::bytes_of;
use crate::request_error::RequestError;
use crate::server::ClientRequest;

/// The bytes of a page that are read.
const HEAD_BYTES: usize = 4 << 10;
/// The titles of such pages, in lower case: of Apache, nginx and lighttpd; Python; `serve` and Caddy.
const TITLES: [&str; 4] = ["index of /", "directory listing", "listing of", "files within"];
/// Suffixes of files that are pages themselves.
const PAGES: [&[u8]; 4] = [b".html", b".htm", b".xhtml", b".shtml"];

/// Whether the title of a page is that of a list of names.
fn is_list_of_names(page: &[u8]) -> bool {
    let page = String::from_utf8_lossy(page).to_lowercase();
    let titles = ["<title", "<h1"].iter().filter_map(|tag| {
        let (_, rest) = page.split_once(tag)?;
        let (_, text) = rest.split_once('>')?;
        text.split('<').next()
    });
    titles.into_iter().any(|title| TITLES.iter().any(|words| title.trim_start().starts_with(words)))
}

impl Dav {
    /// Whether a response is a page of names, by its headers and the start of its body, which is requested.
    pub(super) fn is_page_of_names(&self, url: &HttpUrl, response: &Response) -> Result<bool, RequestError> {
        let is_html = response.headers.get("content-type").is_some_and(|kind| {
            let kind = kind.trim_start().to_ascii_lowercase();
            kind.starts_with("text/html") || kind.starts_with("application/xhtml")
        });
        let name = bytes_of(url.path()).to_ascii_lowercase();
        if !is_html || url.is_presigned() || PAGES.iter().any(|ending| name.ends_with(ending)) {
            return Ok(false);
        }
        let range = format!("bytes=0-{}", HEAD_BYTES - 1);
        let headers = Headers::new().with("Accept-Encoding", "identity").with("Range", range);
        let mut streaming = self.0.server.streaming(&ClientRequest::plain(&Method::Get, url, &headers))?;
        if !matches!(streaming.response.status, 200 | 206) {
            return Ok(false);
        }
        let mut page = vec![0; HEAD_BYTES];
        let mut filled = 0;
        while filled < page.len() {
            match streaming.client.read(&mut streaming.body, &mut page[filled..])? {
                0 => break,
                more => filled += more,
            }
        }
        Ok(is_list_of_names(&page[..filled]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_names_is_recognised_by_its_title() {
        for page in [
            "<html><title>Index of /d/</title>",
            "<HTML><HEAD><TITLE lang=en>\n Directory listing for /",
            "<h1>Index of /a</h1>",
        ] {
            assert!(is_list_of_names(page.as_bytes()), "{page}");
        }
        for page in ["", "<title>An index of prices</title>", "<p>index of /", "<title", "plain\0text"] {
            assert!(!is_list_of_names(page.as_bytes()), "{page}");
        }
    }
}
