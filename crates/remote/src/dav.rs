//! A WebDAV or plain HTTP server as a store.
//!
//! WebDAV has no links, modes and owners. A server's `DAV:` header is not relied on: the first request is a PROPFIND, and a server
//! that cannot answer it is used as a plain HTTP server, without listings.

pub(crate) mod facts;
pub(crate) mod leftovers;
mod pages;
mod reading;
pub mod third;
mod writing;

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use model::checksum::Digest;
use model::name::RelPath;
use model::{Algorithm, Kind, Timestamp};
use store::error::shown;
use store::{Capabilities, Entries, Error, Result, Sink, Source, Stat, Store, Writes};
use web::{Headers, HttpUrl, Method, digest, target};

use crate::facts_cache::{Entry, Facts, FactsCache, Namespace};
use crate::request_error::RequestError;
use crate::server::{ClientRequest, Server, ServerSettings};

/// The server has not answered yet.
const UNKNOWN_PROTOCOL: u8 = 0;
/// The server answers PROPFIND.
const WEBDAV: u8 = 1;
/// The server answers HEAD, but not PROPFIND.
const PLAIN_HTTP: u8 = 2;

/// A directory of a server, as a store. Clones share their connections and caches.
#[derive(Clone, Debug)]
pub struct Dav(Arc<DavShared>);

#[derive(Debug)]
struct DavShared {
    server: Arc<Server>,
    /// `https://HOST:PORT`.
    origin: String,
    /// The query of every address: `?authz=…`.
    query: String,
    base: RelPath,
    cache: FactsCache,
    leftovers: leftovers::UnfinishedFiles,
    protocol: AtomicU8,
    /// Whether the server reports that it can rename files; unset until it is asked.
    can_rename: OnceLock<bool>,
    /// A rename failed, although the server reports that it can rename.
    rename_failed: AtomicBool,
}

fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(Error::Unsupported { what, store: "a WebDAV or HTTP server" })
}

impl Dav {
    /// The directory `base` of the server at an address, whose query goes with every request. Makes no request.
    pub fn new(settings: ServerSettings, address: &HttpUrl, base: RelPath) -> Dav {
        let scheme = if address.is_secure() { "https" } else { "http" };
        Dav(Arc::new(DavShared {
            server: Arc::new(Server::new(settings)),
            origin: format!("{scheme}://{}", address.authority()),
            query: address.query().map(|query| format!("?{query}")).unwrap_or_default(),
            base,
            cache: FactsCache::default(),
            leftovers: leftovers::UnfinishedFiles::default(),
            // The signature in a presigned address covers one file, and only GET.
            protocol: AtomicU8::new(if address.is_presigned() { PLAIN_HTTP } else { UNKNOWN_PROTOCOL }),
            can_rename: OnceLock::new(),
            rename_failed: AtomicBool::new(false),
        }))
    }

    fn refuse_root(&self, doing: &'static str, path: &RelPath) -> Result<()> {
        if path.is_root() {
            return Err(Error::Unsupported { what: doing, store: "the root itself" });
        }
        Ok(())
    }

    /// COPY or MOVE within the server.
    fn copy_or_move(
        &self,
        method: &Method,
        (from, to): (&RelPath, &RelPath),
        is_dir: bool,
        replace: bool,
    ) -> std::result::Result<(), RequestError> {
        let (url, target) = (self.url(from, is_dir)?, self.url(to, is_dir)?);
        let overwrite = if replace { "T" } else { "F" };
        let headers = Headers::new().with("Destination", target.as_str()).with("Overwrite", overwrite);
        let whole = self.0.server.buffered(&ClientRequest::plain(method, &url, &headers))?;
        match whole.response.status {
            207 => Err(self.partial_failure(&whole.body)),
            200..300 => Ok(()),
            // An earlier try has moved the file, and its response was lost.
            404 if whole.repeated && self.find(to)?.is_some() => Ok(()),
            _ => Err(whole.refusal(&url)),
        }
    }

    /// The failure of a request of which the server has done a part; its body (207) says which part failed.
    fn partial_failure(&self, body: &[u8]) -> RequestError {
        RequestError::protocol_error(format!(
            "{} did only a part of it: {}",
            self.host(),
            crate::request_error::explanation(body)
        ))
    }

    /// The address of a path.
    fn url(&self, path: &RelPath, is_dir: bool) -> std::result::Result<HttpUrl, RequestError> {
        let href = target::href(&self.0.base.join_path(path), is_dir);
        let url = HttpUrl::parse(&format!("{}{href}{}", self.0.origin, self.0.query));
        url.map_err(|e| RequestError::config_error(e.to_string()))
    }
}

impl Namespace for Dav {
    fn cache(&self) -> &FactsCache {
        &self.0.cache
    }

    fn host(&self) -> &str {
        self.0.origin.split_once("://").map_or("", |(_, host)| host)
    }

    fn lists(&self) -> bool {
        self.0.protocol.load(Ordering::Relaxed) == WEBDAV
    }

    fn ask_facts(&self, path: &RelPath) -> std::result::Result<Facts, RequestError> {
        self.query_facts(path)
    }

    /// Leaves out temporary files of uploads.
    fn ask_entries(&self, path: &RelPath) -> std::result::Result<Vec<Entry>, RequestError> {
        Ok(self.without_leftovers(path, self.all_entries(path)?))
    }
}

impl Store for Dav {
    fn payload_protection(&self) -> Option<store::PayloadProtection> {
        self.0.server.payload_protection()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writes: Writes::InOrder,
            any_name: true,
            sized: true,
            times: false,
            posix: false,
            sparse: false,
            keeps: true,
            lists: self.0.protocol.load(Ordering::Relaxed) != PLAIN_HTTP,
        }
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        self.facts(path)
            .map(|facts| facts.stat(self.host(), path))
            .map_err(|failed| failed.into_store_error("examine", path))
    }

    fn is_dir(&self, path: &RelPath) -> bool {
        path.is_root() || self.facts(path).is_ok_and(|facts| facts.kind == Kind::Dir)
    }

    fn list(&self, path: &RelPath) -> Result<Entries> {
        let all = self.all_entries(path).map_err(|failed| failed.into_store_error("list", path))?;
        let number = all.len();
        let entries = self.without_leftovers(path, all);
        let left_out = number - entries.len();
        Ok(self.to_entries(path, entries).without(left_out as u64))
    }

    fn read_link(&self, _path: &RelPath) -> Result<Vec<u8>> {
        unsupported("a symbolic link")
    }

    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>> {
        let facts = self.facts_to_read(path).map_err(|failed| failed.into_store_error("open", path))?;
        if facts.kind == Kind::Dir {
            return Err(Error::Kind { path: shown(path), found: "a directory", wanted: "a file" });
        }
        Ok(Arc::new(reading::open(self, path, facts)))
    }

    fn create(&self, path: &RelPath, tag: &str) -> Result<Arc<dyn Sink>> {
        self.refuse_root("creating", path)?;
        Ok(Arc::new(writing::DavSink::new(self, path, tag)))
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        let made = self.url(path, true).and_then(|url| {
            let method = Method::Mkcol;
            self.0.server.ask(&method, &url, &Headers::new())
        });
        let failed = match made {
            Ok(_) => {
                self.0.cache.store(path, Facts::dir());
                return Ok(());
            }
            Err(failed) => failed,
        };
        // For a directory that exists, RFC 4918 prescribes 405; some servers answer 409, or redirect to it.
        match self.ask_facts(path) {
            Ok(facts) if facts.kind == Kind::Dir => {
                self.0.cache.store(path, facts);
                Ok(())
            }
            Ok(_) => Err(Error::Kind { path: shown(path), found: "a file", wanted: "a directory" }),
            Err(_) if failed.is(&[409]) => Err(Error::io("create", path, std::io::Error::from(ErrorKind::NotFound))),
            Err(_) => Err(failed.into_store_error("create", path)),
        }
    }

    fn make_symlink(&self, _: &RelPath, _: &[u8], _: Timestamp, _: bool, _: &str) -> Result<()> {
        unsupported("a symbolic link")
    }

    /// WebDAV has no links: the server makes a copy under the other name.
    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, _tag: &str) -> Result<()> {
        let cannot = |failed: RequestError| failed.into_store_error("create", path);
        // COPY would replace a directory and everything in it.
        if self.find(path).map_err(cannot)?.is_some_and(|there| there.kind == Kind::Dir) {
            return Err(Error::Kind { path: shown(path), found: "a directory", wanted: "a file" });
        }
        let copied = self.copy_or_move(&Method::Copy, (to, path), false, replace);
        copied.map_err(|failed| match failed.status {
            Some(412) => Error::Exists(shown(path)),
            _ => cannot(failed),
        })?;
        self.0.cache.invalidate(path);
        Ok(())
    }

    fn finish_dir(&self, _: &RelPath, _: u32, _: Timestamp) -> Result<()> {
        Ok(())
    }

    fn remove(&self, path: &RelPath) -> Result<()> {
        self.refuse_root("removing", path)?;
        let cannot = |failed: RequestError| failed.into_store_error("remove", path);
        let is_dir = self.ask_facts(path).map_err(cannot)?.kind == Kind::Dir;
        // DELETE removes a directory with everything in it.
        if is_dir && !self.is_empty(path).map_err(cannot)? {
            return Err(Error::io("remove", path, std::io::Error::from(ErrorKind::DirectoryNotEmpty)));
        }
        let url = self.url(path, is_dir).map_err(cannot)?;
        let whole = self.0.server.ask(&Method::Delete, &url, &Headers::new()).map_err(cannot)?;
        if whole.response.status == 207 {
            return Err(cannot(self.partial_failure(&whole.body)));
        }
        self.0.cache.forget(path);
        Ok(())
    }

    fn rename(&self, from: &RelPath, to: &RelPath, replace: bool) -> Result<()> {
        self.refuse_root("renaming", from)?;
        self.refuse_root("renaming", to)?;
        let cannot = |failed: RequestError| failed.into_store_error("rename", from);
        let is_dir = self.ask_facts(from).map_err(cannot)?.kind == Kind::Dir;
        if from == to {
            return if replace { Ok(()) } else { Err(Error::Exists(shown(to))) };
        }
        if to.starts_with(from) {
            return Err(Error::io("rename", from, std::io::Error::from(ErrorKind::InvalidInput)));
        }
        if let Some(there) = self.find(to).map_err(cannot)? {
            // MOVE would replace an existing entry and everything in it.
            let full = there.kind == Kind::Dir && !self.is_empty(to).map_err(cannot)?;
            let refused = match (there.kind == Kind::Dir, is_dir) {
                _ if !replace => return Err(Error::Exists(shown(to))),
                (true, false) => Some(ErrorKind::IsADirectory),
                (true, true) if full => Some(ErrorKind::DirectoryNotEmpty),
                (false, true) => Some(ErrorKind::NotADirectory),
                _ => None,
            };
            if let Some(kind) = refused {
                return Err(Error::io("rename", from, std::io::Error::from(kind)));
            }
        }
        self.copy_or_move(&Method::Move, (from, to), is_dir, replace).map_err(|failed| match failed.status {
            Some(412) => Error::Exists(shown(to)),
            Some(409) => Error::io("rename", from, std::io::Error::from(ErrorKind::NotFound)),
            _ => cannot(failed),
        })?;
        self.0.cache.forget(from);
        self.0.cache.invalidate(to);
        Ok(())
    }

    fn digests(&self, path: &RelPath, wanted: &[Algorithm]) -> Result<Vec<Digest>> {
        let mut digests = Vec::new();
        for algorithm in wanted {
            let headers = Headers::new().with("Want-Digest", digest::want(&[*algorithm]));
            let url = self.url(path, false).map_err(|failed| failed.into_store_error("examine", path))?;
            let whole = match self.0.server.ask(&Method::Head, &url, &headers) {
                Ok(whole) => whole,
                // A server that refuses the question reports no digest.
                Err(failed) if !failed.affects_all_files && !failed.is(&[404, 410]) => return Ok(Vec::new()),
                Err(failed) => return Err(failed.into_store_error("examine", path)),
            };
            let reported = digest::parse(whole.response.headers.all("digest"));
            digests.extend(reported.into_iter().find(|digest| digest.algorithm() == *algorithm));
        }
        Ok(digests)
    }
}
