//! A server of XRootD (`root://`) as a store.
//!
//! Such a server has no links and keeps no times. A manager has no files itself: it redirects each request to a server that has them.

mod connection;
mod parallel_read;
mod pipelined_reads;
mod reading;
mod redirect_chain;
mod server;
mod whole_read;
mod writing;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use model::checksum::Digest;
use model::name::{Name, RelPath};
use model::{Algorithm, Kind, Meta, Timestamp};
use store::error::shown;
use store::{Capabilities, Entries, Error, Finish, PayloadProtection, Result, Sink, Source, Stat, Store, Writes};
use web::Dialer;
use xroot::codes::list_options;
use xroot::entry::{EntryFacts, entry_flags, parse_listing};
use xroot::head::FileHandle;
use xroot::place::FileOrPath;
use xroot::{QueryKind, RootPath, RootRequest, RootUrl};

use crate::ahead::RemoteFile;
use crate::dav::leftovers::is_temporary_name;
use crate::facts_cache::{Entry, Facts, FactsCache, Namespace};
use crate::range_source::{MemberFailure, RangeSource};
use crate::request_error::RequestError;
use crate::server::{Redirects, TokenSource};

use parallel_read::ParallelRead;
use server::RootServer;
pub use whole_read::{ReadInterrupter, WholeRead};

/// Settings for connections to servers of XRootD.
#[derive(Clone)]
pub struct RootSettings {
    /// Makes connections, and holds the authorities that are trusted.
    pub dialer: Dialer,
    /// The token of this client. It is sent over TLS only, also to the servers that a manager names: a federation has the files there.
    pub token: Arc<TokenSource>,
    /// Addresses to which redirects are followed.
    pub redirects: Redirects,
    /// The time for which one request is tried again.
    pub patience: Duration,
}

/// A server of XRootD, as a store. Clones share their connections and caches.
#[derive(Clone, Debug)]
pub struct Root(Arc<RootShared>);

#[derive(Debug)]
struct RootShared {
    server: RootServer,
    /// `HOST:PORT`, for messages.
    host: String,
    /// Parameters of the address, which go with every path.
    parameters: Vec<(String, String)>,
    cache: FactsCache,
}

/// Bytes that are read at a time for a copy.
const COPY_BYTES: usize = 1 << 20;

fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(Error::Unsupported { what, store: "an XRootD server" })
}

/// The facts of an entry in the form of the cache.
fn facts_of(found: &EntryFacts) -> Facts {
    let is_dir = found.is_dir();
    Facts {
        kind: if is_dir { Kind::Dir } else { Kind::File },
        size: if is_dir { 0 } else { found.size },
        mtime: (found.mtime > 0).then_some(Timestamp { seconds: found.mtime, nanos: 0 }),
        executable: found.flags & entry_flags::EXECUTABLE != 0,
        ..Facts::file(0)
    }
}

impl Root {
    /// The server at an address. Makes no request.
    pub fn new(settings: RootSettings, address: RootUrl) -> Root {
        let parameters = address.place.parameters();
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let host = address.authority();
        let server = RootServer::new(settings, address.host, address.port, address.is_secure);
        Root(Arc::new(RootShared { server, host, parameters, cache: FactsCache::default() }))
    }

    /// A path with the parameters of the address.
    ///
    /// # Errors
    /// The protocol cannot express the name.
    fn path(&self, path: &RelPath) -> std::result::Result<RootPath, RequestError> {
        if path.as_bytes().iter().any(|byte| matches!(byte, b'?' | b'\n')) {
            let why = "XRootD's protocol has no way to write a name with ? or a line end";
            return Err(RequestError::config_error(why));
        }
        let parameters = self.0.parameters.iter();
        Ok(parameters.fold(RootPath::new(path.clone()), |path, (name, value)| path.with(name, value.as_str())))
    }

    /// Sends a request about a path, and returns the body of the answer.
    fn ask(&self, request: &RootRequest) -> std::result::Result<Vec<u8>, RequestError> {
        self.0.server.ask(request)
    }

    /// Makes a change, and forgets what was known of the path.
    fn change(&self, doing: &'static str, path: &RelPath, request: &RootRequest) -> Result<()> {
        self.0.cache.forget(path);
        self.ask(request).map(drop).map_err(|failed| failed.into_store_error(doing, path))
    }

    /// Opens a file that other servers have too, for reading by ranges. Returns its size in bytes with it.
    pub(crate) fn open_ranges(
        &self,
        path: &RelPath,
    ) -> std::result::Result<(u64, Box<dyn RangeSource>), MemberFailure> {
        let facts = self.facts_to_read(path).map_err(|failed| MemberFailure::of(failed, "open", path))?;
        if facts.kind != Kind::File {
            return Err(MemberFailure::dir(path));
        }
        Ok((facts.size, Box::new(reading::RootFile::new(self, path, facts))))
    }
}

impl Namespace for Root {
    fn cache(&self) -> &FactsCache {
        &self.0.cache
    }

    fn host(&self) -> &str {
        &self.0.host
    }

    fn lists(&self) -> bool {
        true
    }

    fn ask_facts(&self, path: &RelPath) -> std::result::Result<Facts, RequestError> {
        let of = FileOrPath::Path(self.path(path)?);
        let body = self.ask(&RootRequest::Stat { of, of_file_system: false })?;
        let found = EntryFacts::parse(String::from_utf8_lossy(&body).trim_end_matches('\0'));
        Ok(facts_of(&found.map_err(|error| self.0.server.wrong(&error))?))
    }

    /// Leaves out files of uploads under way. An old server lists names only, and is asked for the facts of each.
    fn ask_entries(&self, path: &RelPath) -> std::result::Result<Vec<Entry>, RequestError> {
        let request = RootRequest::List { place: self.path(path)?, options: list_options::STAT };
        let body = self.ask(&request)?;
        let listed = parse_listing(&body, true).map_err(|error| self.0.server.wrong(&error))?;
        let listed = listed.into_iter().filter(|entry| !is_temporary_name(entry.name.as_bytes()));
        let facts = |name: &Name, found: Option<EntryFacts>| match found {
            Some(found) => Ok(facts_of(&found)),
            None => self.ask_facts(&path.join(name)),
        };
        Ok(listed.map(|entry| (entry.name.clone(), facts(&entry.name, entry.facts))).collect())
    }
}

impl Store for Root {
    fn payload_protection(&self) -> Option<PayloadProtection> {
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
            lists: true,
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
        let entries = self.ask_entries(path).map_err(|failed| failed.into_store_error("list", path))?;
        Ok(self.to_entries(path, entries))
    }

    fn read_link(&self, _path: &RelPath) -> Result<Vec<u8>> {
        unsupported("a symbolic link")
    }

    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>> {
        let facts = self.facts_to_read(path).map_err(|failed| failed.into_store_error("open", path))?;
        if facts.kind == Kind::Dir {
            return Err(Error::Kind { path: shown(path), found: "a directory", wanted: "a file" });
        }
        let stat = facts.stat(self.host(), path);
        let file = ParallelRead::new(reading::RootFile::new(self, path, facts));
        Ok(Arc::new(RemoteFile::new(file, stat)))
    }

    fn create(&self, path: &RelPath, tag: &str) -> Result<Arc<dyn Sink>> {
        if path.is_root() {
            return unsupported("creating the root itself");
        }
        Ok(Arc::new(writing::RootSink::new(self, path, tag)))
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        let cannot = |failed: RequestError| failed.into_store_error("create", path);
        let request = RootRequest::MakeDirectory { place: self.path(path).map_err(cannot)?, with_parents: false };
        let Err(failed) = self.ask(&request) else {
            self.0.cache.store(path, Facts::dir());
            return Ok(());
        };
        match self.ask_facts(path) {
            Ok(facts) if facts.kind == Kind::Dir => {
                self.0.cache.store(path, facts);
                Ok(())
            }
            Ok(_) => Err(Error::Kind { path: shown(path), found: "a file", wanted: "a directory" }),
            Err(_) => Err(failed.into_store_error("create", path)),
        }
    }

    fn make_symlink(&self, _: &RelPath, _: &[u8], _: Timestamp, _: bool, _: &str) -> Result<()> {
        unsupported("a symbolic link")
    }

    /// Such a server has no links: the file is read, and written under the other name.
    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, tag: &str) -> Result<()> {
        let source = self.open(to)?;
        let meta = source.stat()?.meta;
        let sink = self.create(path, tag)?;
        let mut piece = vec![0; COPY_BYTES];
        let mut at = 0;
        while at < meta.size {
            let got = source.read_at(&mut piece, at)?;
            if got == 0 {
                return Err(Error::io("read", to, std::io::Error::from(ErrorKind::UnexpectedEof)));
            }
            sink.write_at(&piece[..got], at)?;
            at += got as u64;
        }
        let Meta { size, mode, mtime, .. } = meta;
        sink.commit(&Finish { size, mode, mtime, durable: false, replace, attributes: None })
    }

    fn finish_dir(&self, _: &RelPath, _: u32, _: Timestamp) -> Result<()> {
        Ok(())
    }

    fn remove(&self, path: &RelPath) -> Result<()> {
        let cannot = |failed: RequestError| failed.into_store_error("remove", path);
        let place = self.path(path).map_err(cannot)?;
        let is_dir = self.ask_facts(path).map_err(cannot)?.kind == Kind::Dir;
        let request = if is_dir { RootRequest::RemoveDirectory(place) } else { RootRequest::Remove(place) };
        self.change("remove", path, &request)
    }

    fn rename(&self, from: &RelPath, to: &RelPath, replace: bool) -> Result<()> {
        let cannot = |failed: RequestError| failed.into_store_error("rename", from);
        let existing = self.find(to).map_err(cannot)?;
        match existing.map(|facts| facts.kind) {
            Some(_) if !replace => return Err(Error::Exists(shown(to))),
            Some(Kind::Dir) => return Err(Error::io("rename", from, std::io::Error::from(ErrorKind::IsADirectory))),
            _ => {}
        }
        let request = RootRequest::Move { from: self.path(from).map_err(cannot)?, to: self.path(to).map_err(cannot)? };
        let renamed = match self.ask(&request) {
            // Some servers rename only to a name that is free.
            Err(failed) if failed.is(&[409]) && replace => {
                self.remove(to)?;
                self.ask(&request)
            }
            other => other,
        };
        self.0.cache.forget(from);
        self.0.cache.invalidate(to);
        renamed.map(drop).map_err(cannot)
    }

    fn digests(&self, path: &RelPath, wanted: &[Algorithm]) -> Result<Vec<Digest>> {
        let mut digests = Vec::new();
        for algorithm in wanted {
            let cannot = |failed: RequestError| failed.into_store_error("examine", path);
            let place = self.path(path).map_err(cannot)?.with("cks.type", algorithm.name());
            let (kind, file) = (QueryKind::Checksum.number(), FileHandle::default());
            match self.ask(&RootRequest::Query { kind, file, text: place.to_bytes() }) {
                Ok(body) => digests.extend(digest_of(&body).filter(|digest| digest.algorithm() == *algorithm)),
                // A server that refuses the question reports no digest.
                Err(failed) if !failed.affects_all_files && !failed.is(&[404]) => {}
                Err(failed) => return Err(cannot(failed)),
            }
        }
        Ok(digests)
    }
}

/// The digest in an answer: `adler32 091e01de`.
fn digest_of(body: &[u8]) -> Option<Digest> {
    let text = String::from_utf8_lossy(body);
    let mut words = text.trim_end_matches('\0').split_ascii_whitespace();
    format!("{}:{}", words.next()?, words.next()?).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_and_facts_are_read() {
        assert_eq!(digest_of(b"adler32 091e01de\0").unwrap().hex(), "091e01de");
        assert!(digest_of(b"none\0").is_none() && digest_of(b"adler32 zz").is_none());
        let dir = EntryFacts { flags: entry_flags::DIRECTORY, size: 4096, ..EntryFacts::default() };
        assert_eq!((facts_of(&dir).kind, facts_of(&dir).size, facts_of(&dir).mtime), (Kind::Dir, 0, None));
    }
}
