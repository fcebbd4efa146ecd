//! Directories of servers that speak HTTP alone: pages for people to read, which are never data.
//!
//! Such a server says that an address is a directory in one of two ways: it sends whoever asks for `/d` on to `/d/`, or it
//! answers at once with a page of names. The page has no form that anybody has agreed upon, so it is not read as a listing.

use web::{Headers, HttpUrl, Method, Response};

use super::Dav;
use super::facts::bytes_of;
use crate::failed::Failed;
use crate::server::ClientRequest;

/// How much of a page is looked at.
const HEAD_BYTES: usize = 4 << 10;
/// What servers call such pages, in lower case: Apache, nginx and lighttpd; Python; `serve` and Caddy.
const TITLES: [&str; 4] = ["index of /", "directory listing", "listing of", "files within"];
/// Names of files that are pages.
const PAGES: [&[u8]; 4] = [b".html", b".htm", b".xhtml", b".shtml"];

/// Whether the start of a page says that it is a list of names.
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
    /// Whether what is at an address is a page of names, as its answer and the start of its body show.
    pub(super) fn is_page_of_names(&self, url: &HttpUrl, response: &Response) -> Result<bool, Failed> {
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
        let mut begun = self.0.server.begin(&ClientRequest::plain(&Method::Get, url, &headers))?;
        if !matches!(begun.response.status, 200 | 206) {
            return Ok(false);
        }
        let mut page = vec![0; HEAD_BYTES];
        let mut filled = 0;
        while filled < page.len() {
            match begun.client.read(&mut begun.body, &mut page[filled..])? {
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
    fn lists_of_names_have_such_titles() {
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
