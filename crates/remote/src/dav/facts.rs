//! The facts of files on a server: by PROPFIND where it speaks WebDAV, by HEAD where it does not, and by a GET of the first byte
//! where it accepts neither.

use std::sync::atomic::Ordering;

use model::Kind;
use model::fault::Fault;
use model::name::{Name, RelPath};
use percent_encoding::percent_decode_str;
use web::dav::{LISTING_BYTES_MAX, Resource, listing};
use web::range::ContentRange;
use web::{Headers, HttpUrl, Method, Response, date};

use super::{Dav, PLAIN_HTTP, UNKNOWN_PROTOCOL, WEBDAV};
use crate::facts_cache::{Entry, Facts, Namespace};
use crate::request_error::RequestError;
use crate::server::{BufferedResponse, ClientRequest};

/// The request for the facts of files.
const PROPFIND: &[u8] = b"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:propfind xmlns:D=\"DAV:\"><D:prop>\
<D:resourcetype/><D:getcontentlength/><D:getlastmodified/><D:getetag/></D:prop></D:propfind>";

/// Statuses with which servers refuse WebDAV, to all clients or to some.
const NOT_DAV: [u16; 7] = [400, 403, 404, 405, 415, 500, 501];

/// The facts in the head of a response.
pub(crate) fn of_response(response: &Response, size: u64) -> Facts {
    let mtime = response.headers.get("last-modified").and_then(date::parse_http);
    let etag = response.headers.get("etag").map(str::to_owned);
    Facts { mtime, etag, ..Facts::file(size) }
}

fn of_resource(resource: Resource) -> Option<Facts> {
    let kind = if resource.is_dir { Kind::Dir } else { Kind::File };
    // A file without a length cannot be copied, because a truncated copy could not be detected.
    let size = if resource.is_dir { 0 } else { resource.size? };
    let executable = resource.executable.unwrap_or(false);
    Some(Facts { kind, mtime: resource.modified, etag: resource.etag, executable, ..Facts::file(size) })
}

/// The path of an address as bytes: of a URL or of an absolute path, without the slash at its end.
pub(super) fn bytes_of(href: &str) -> Vec<u8> {
    let path = match href.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
        None => href,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    percent_decode_str(path.trim_matches('/')).collect()
}

/// The address of the directory that was listed. Some servers put a prefix before the requested path; then the directory's own entry
/// has that prefix, and all other entries lie below it.
fn own_address(resources: &[Resource], asked: &[u8]) -> Vec<u8> {
    let shown: Vec<_> = resources.iter().map(|resource| (bytes_of(&resource.href), resource.is_dir)).collect();
    let shortest = shown.iter().filter(|(path, _)| path.ends_with(asked)).min_by_key(|(path, _)| path.len());
    match shortest {
        Some((path, true)) if shown.iter().all(|(other, _)| is_within(path, other)) => path.clone(),
        _ => asked.to_vec(),
    }
}

/// Whether one address is another, or lies below it.
fn is_within(dir: &[u8], other: &[u8]) -> bool {
    let rest = other.strip_prefix(dir);
    rest.is_some_and(|rest| dir.is_empty() || rest.is_empty() || rest.starts_with(b"/"))
}

impl Dav {
    fn propfind(&self, url: &HttpUrl, depth: &str) -> Result<BufferedResponse, RequestError> {
        let headers = Headers::new().with("Depth", depth).with("Content-Type", "application/xml; charset=utf-8");
        let method = Method::Propfind;
        let plain = ClientRequest::plain(&method, url, &headers);
        let request = ClientRequest { body: PROPFIND, most: LISTING_BYTES_MAX, ..plain };
        let whole = self.0.server.buffered(&request)?;
        match whole.response.status {
            207 => Ok(whole),
            status if (200..300).contains(&status) => {
                // A server that does not know the method may answer with a page.
                Err(RequestError {
                    status: Some(405),
                    ..RequestError::protocol_error(format!("{} is no WebDAV server", url.authority()))
                })
            }
            _ => Err(whole.refusal(url)),
        }
    }

    fn resources(&self, url: &HttpUrl, depth: &str) -> Result<Vec<Resource>, RequestError> {
        let whole = self.propfind(url, depth)?;
        let read = listing::parse(&whole.body);
        read.map_err(|e| {
            RequestError::protocol_error(format!("{} answers with a malformed listing: {e}", url.authority()))
        })
    }

    /// Asks for the facts of a path, and notes whether the server speaks WebDAV.
    pub(super) fn query_facts(&self, path: &RelPath) -> Result<Facts, RequestError> {
        let protocol = self.0.protocol.load(Ordering::Relaxed);
        if protocol != PLAIN_HTTP {
            match self.by_propfind(path) {
                Ok(facts) => {
                    self.0.protocol.store(WEBDAV, Ordering::Relaxed);
                    return Ok(facts);
                }
                Err(failed) if protocol == UNKNOWN_PROTOCOL && failed.is(&NOT_DAV) => {
                    let by_head = self.by_head(path);
                    if by_head.is_ok() && !failed.is(&[404]) {
                        self.0.protocol.store(PLAIN_HTTP, Ordering::Relaxed);
                    }
                    return by_head;
                }
                Err(failed) => return Err(failed),
            }
        }
        self.by_head(path)
    }

    fn by_propfind(&self, path: &RelPath) -> Result<Facts, RequestError> {
        let url = self.url(path, false)?;
        let mut resources = self.resources(&url, "0")?;
        let no_length = || RequestError::protocol_error(format!("{} does not say how long {path} is", url.authority()));
        match resources.len() {
            // The parser leaves out entries that the server reports as missing.
            0 => Err(RequestError::refusal(url.authority(), 404, b"")),
            1 => of_resource(resources.remove(0)).ok_or_else(no_length),
            n => Err(RequestError::protocol_error(format!(
                "{} answers with {n} files when asked for one",
                url.authority()
            ))),
        }
    }

    fn by_head(&self, path: &RelPath) -> Result<Facts, RequestError> {
        // The root of a host is a directory.
        if path.is_root() && self.0.base.is_root() {
            return Ok(Facts::dir());
        }
        let url = self.url(path, false)?;
        let headers = Headers::new().with("Accept-Encoding", "identity");
        if !url.is_presigned() {
            match self.0.server.ask(&Method::Head, &url, &headers) {
                Ok(whole) if whole.url.is_directory_of(&url) => return Ok(Facts::dir()),
                Ok(whole) if self.is_page_of_names(&url, &whole.response)? => return Ok(Facts::dir()),
                Ok(whole) => {
                    let length = whole.response.headers.get("content-length").and_then(|text| text.trim().parse().ok());
                    if let Some(size) = length {
                        return Ok(of_response(&whole.response, size));
                    }
                }
                Err(failed) if failed.is(&[400, 403, 405, 501]) => {}
                Err(failed) => return Err(failed),
            }
        }
        self.by_first_byte(&url, headers)
    }

    /// The facts by a GET of the first byte, for servers that answer only GET and for addresses that are signed for GET.
    fn by_first_byte(&self, url: &HttpUrl, headers: Headers) -> Result<Facts, RequestError> {
        let headers = headers.with("Range", "bytes=0-0");
        let method = Method::Get;
        let streaming = self.0.server.streaming(&ClientRequest::plain(&method, url, &headers))?;
        if streaming.url.is_directory_of(url) {
            return Ok(Facts::dir());
        }
        let range = streaming.response.headers.get("content-range").and_then(ContentRange::parse);
        let size = match (streaming.response.status, range) {
            (206, Some(ContentRange::Part(_, Some(size)))) => Some(size),
            (416, Some(ContentRange::Unsatisfied(size))) => Some(size),
            (200, _) => streaming.body.length(),
            (206, _) => None,
            _ => return Err(streaming.refusal()),
        };
        let no_length =
            || RequestError::protocol_error(format!("{} does not say how long the file is", url.authority()));
        Ok(of_response(&streaming.response, size.ok_or_else(no_length)?))
    }

    fn cannot_list(&self) -> RequestError {
        let why = format!("{} lists no directories: it is no WebDAV server", self.host());
        RequestError { status: Some(405), fault: Fault::Config, ..RequestError::protocol_error(why) }
    }

    /// The entries of a directory. An entry without usable facts holds the reason.
    pub(super) fn all_entries(&self, path: &RelPath) -> Result<Vec<Entry>, RequestError> {
        let protocol = self.0.protocol.load(Ordering::Relaxed);
        if protocol == PLAIN_HTTP {
            return Err(self.cannot_list());
        }
        let url = self.url(path, true)?;
        let resources = match self.resources(&url, "1") {
            // A plain HTTP server may have a page at this address.
            Err(failed) if protocol == UNKNOWN_PROTOCOL && failed.is(&NOT_DAV) && self.by_head(path).is_ok() => {
                return Err(self.cannot_list());
            }
            resources => resources?,
        };
        self.0.protocol.store(WEBDAV, Ordering::Relaxed);
        entries_of(resources, (&self.0.base, path), url.authority())
    }
}

/// The entries of the directory at `path` below `base`, from its listing.
pub(crate) fn entries_of(
    resources: Vec<Resource>,
    (base, path): (&RelPath, &RelPath),
    server: &str,
) -> Result<Vec<Entry>, RequestError> {
    let own = own_address(&resources, base.join_path(path).as_bytes());
    let is_own = |shown: &[u8]| shown == own;
    let mut entries = Vec::with_capacity(resources.len());
    for resource in resources {
        let shown = bytes_of(&resource.href);
        if is_own(&shown) {
            if !resource.is_dir {
                let why = format!("{path} is a file, not a directory");
                return Err(RequestError { status: Some(409), ..RequestError::protocol_error(why) });
            }
            continue;
        }
        let (dir, name) = match shown.iter().rposition(|b| *b == b'/') {
            Some(at) => (&shown[..at], &shown[at + 1..]),
            None => (&b""[..], &shown[..]),
        };
        // An entry of another directory is an error: accepted, it would let the server choose where files are written; left
        // out, it would make a full directory look empty.
        let Some(name) = Name::new(name).ok().filter(|_| is_own(dir)) else {
            return Err(RequestError::protocol_error(format!(
                "{server} lists {:?} as if it were in {path}",
                resource.href
            )));
        };
        let no_length = || RequestError::protocol_error(format!("{server} does not say how long {name} is"));
        let facts = of_resource(resource).ok_or_else(no_length);
        entries.push((name, facts));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_an_entry_may_be_a_path_or_a_url() {
        for href in ["/a/b%20c/", "https://h:1/a/b%20c", "http://h/a/b%20c?x=/y", "a/b c"] {
            assert_eq!(bytes_of(href), b"a/b c", "{href}");
        }
        assert_eq!((bytes_of("https://h"), bytes_of("/")), (vec![], vec![]));
    }
}
