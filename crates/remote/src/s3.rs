//! A bucket of an S3 server, or the part of it below a prefix, as a store.
//!
//! The library `object_store` implements S3: signatures, listings, parts, conditions. Its requests go through Longhaul's HTTP client
//! ([`service`]), so that timeouts, authorities and retries are the same for every server.
//!
//! S3 has no empty directories: a directory exists as long as an object is in it, or as long as the store that made it lives.

mod drive;
pub(crate) mod fuzzing;
mod keys;
mod listing;
mod reading;
mod service;
mod writing;

use std::collections::HashSet;
use std::future::Future;
use std::io::ErrorKind;
use std::sync::Arc;

use model::name::{Name, RelPath};
use model::{Fault, Kind, Timestamp};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{CopyMode, CopyOptions, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig};
use parking_lot::{Mutex, MutexGuard};
use store::error::shown;
use store::{Capabilities, Entries, Error, Result, Sink, Source, Stat, Store, Writes};

use crate::facts_cache::{Entry, Facts, FactsCache, Namespace};
use crate::request_error::RequestError;
use crate::server::{Server, ServerSettings};
use drive::drive;
use keys::Keys;
use listing::Listing;
use service::Connector;

/// A bucket's address, and the source of the key to it.
#[derive(Clone)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// `https://HOST[:PORT]`; none for Amazon's own.
    pub endpoint: Option<String>,
    /// The region for which requests are signed.
    pub region: String,
    /// Whether the bucket's name goes before the host rather than before the path.
    pub virtual_hosted: bool,
    /// Returns the key; `None` for a bucket that is open to all.
    pub credentials: Arc<KeySource>,
}

/// Returns the current key. Called at the beginning, and again when a server refuses the former key.
pub type KeySource = dyn Fn() -> std::result::Result<Option<Credentials>, String> + Send + Sync;

/// A key to an S3 server.
#[derive(Clone)]
pub struct Credentials {
    /// `AWS_ACCESS_KEY_ID`.
    pub key: String,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret: String,
    /// `AWS_SESSION_TOKEN`.
    pub token: Option<String>,
}

/// A prefix of a bucket, as a store. Clones share their connections and caches.
#[derive(Clone, Debug)]
pub struct S3(Arc<S3Shared>);

#[derive(Debug)]
struct S3Shared {
    store: AmazonS3,
    server: Arc<Server>,
    keys: Option<Arc<Keys>>,
    bucket: String,
    base: RelPath,
    cache: FactsCache,
    /// Directories that this store made; the server knows nothing of them while they are empty.
    made: Mutex<HashSet<RelPath>>,
    /// Paths that are known not to be files: files below them can be made without a further request.
    parents: Mutex<HashSet<RelPath>>,
}

/// The most bytes that S3 copies in one request; the library knows no other way to copy.
const COPY_BYTES_MAX: u64 = 5 << 30;

/// The failure behind an error of `object_store`.
fn failed(error: object_store::Error) -> RequestError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if let Some(failed) = inner.downcast_ref::<RequestError>() {
            return failed.clone();
        }
        cause = inner.source();
    }
    let why = model::fault::with_causes(&error);
    let status = match error {
        object_store::Error::NotFound { .. } => 404,
        object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. } => 412,
        object_store::Error::PermissionDenied { .. } => 403,
        object_store::Error::Unauthenticated { .. } => 401,
        object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. } => 501,
        _ => return RequestError::protocol_error(why),
    };
    let fault = if matches!(status, 401 | 403) { Fault::Auth } else { Fault::Peer };
    RequestError { status: Some(status), fault, affects_all_files: status == 401, ..RequestError::protocol_error(why) }
}

fn facts(meta: &ObjectMeta) -> Facts {
    let at = meta.last_modified;
    let mtime = Timestamp { seconds: at.timestamp(), nanos: at.timestamp_subsec_nanos() };
    Facts { mtime: Some(mtime), etag: meta.e_tag.clone(), ..Facts::file(meta.size) }
}

fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(Error::Unsupported { what, store: "an S3 server" })
}

/// The address of the server, with the bucket before the host where it is virtual-hosted.
fn endpoint_of(bucket: &Bucket, endpoint: &str) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    match endpoint.split_once("://").filter(|_| bucket.virtual_hosted) {
        Some((scheme, host)) => format!("{scheme}://{}.{host}", bucket.name),
        None => endpoint.to_owned(),
    }
}

type S3Result<T> = std::result::Result<T, RequestError>;

impl S3 {
    /// The prefix `base` of a bucket. Makes no request.
    ///
    /// # Errors
    /// The key cannot be read, or the bucket's settings do not make an address.
    pub fn new(settings: ServerSettings, bucket: &Bucket, base: RelPath) -> Result<S3> {
        let server = Arc::new(Server::new(settings));
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&bucket.name)
            .with_region(&bucket.region)
            .with_virtual_hosted_style_request(bucket.virtual_hosted)
            .with_allow_http(true)
            // Every server can delete single objects.
            .with_disable_bulk_delete(true)
            // Longhaul's client tries again.
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .with_http_connector(Connector(Arc::clone(&server)));
        if let Some(endpoint) = &bucket.endpoint {
            builder = builder.with_endpoint(endpoint_of(bucket, endpoint));
        }
        let wrong = |why: String| RequestError::config_error(why).into_store_error("open the bucket", &RelPath::root());
        let keys = Keys::new(&bucket.credentials).map_err(wrong)?;
        builder = match &keys {
            Some(keys) => builder.with_credentials(Arc::clone(keys) as _),
            None => builder.with_skip_signature(true),
        };
        let store = builder.build().map_err(|error| wrong(model::fault::with_causes(&error)))?;
        Ok(S3(Arc::new(S3Shared {
            store,
            server,
            keys,
            bucket: bucket.name.clone(),
            base,
            cache: FactsCache::default(),
            made: Mutex::default(),
            parents: Mutex::default(),
        })))
    }

    /// Makes a request, and once more where the server refused the key and there is a new one.
    fn ask<'a, T, F>(&'a self, question: impl Fn(&'a AmazonS3) -> F) -> S3Result<T>
    where
        F: Future<Output = object_store::Result<T>>,
    {
        self.ask_with_current_key(|store| drive(question(store)))
    }

    fn ask_with_current_key<'a, T>(
        &'a self,
        question: impl Fn(&'a AmazonS3) -> object_store::Result<T>,
    ) -> S3Result<T> {
        let used = self.0.keys.as_ref().map(|keys| (keys, keys.now()));
        let answer = question(&self.0.store).map_err(failed);
        match (&answer, used) {
            // Some servers answer 400 when the session of a key has ended.
            (Err(failure), Some((keys, used))) if failure.is(&[400, 401, 403]) && keys.renew(&used) => {
                question(&self.0.store).map_err(failed)
            }
            _ => answer,
        }
    }

    /// The objects and common prefixes right below a path.
    fn list_below(&self, path: &RelPath, all: bool) -> S3Result<Listing> {
        let dir = self.key(path)?;
        self.ask_with_current_key(|store| listing::list(store, &dir, all))
    }

    fn exists_as_dir(&self, path: &RelPath) -> S3Result<bool> {
        let Listing { dirs, objects, pathless } = self.list_below(path, false)?;
        Ok(!(dirs.is_empty() && objects.is_empty() && pathless.is_empty()))
    }

    /// Copies within the server.
    fn copy(&self, from: &RelPath, to: &RelPath, replace: bool) -> S3Result<()> {
        if !replace && self.find(to)?.is_some() {
            return Err(RequestError { status: Some(412), ..RequestError::protocol_error(format!("{to} is there")) });
        }
        let (from, to) = (self.key(from)?, self.key(to)?);
        let options = || CopyOptions::new().with_mode(CopyMode::Overwrite);
        self.ask(|store| store.copy_opts(&from, &to, options()))
    }

    fn remove_object(&self, path: &RelPath) -> S3Result<()> {
        let key = self.key(path)?;
        self.ask(|store| store.delete(&key))?;
        self.0.cache.forget(path);
        // Its directory may have existed only because of this object. It must not vanish while other writers use it.
        let dir = path.parent();
        if !dir.is_root() {
            self.made().insert(dir);
        }
        Ok(())
    }

    /// Collects the directories and files at and below a path.
    fn tree(&self, at: RelPath, facts: &Facts, dirs: &mut Vec<RelPath>, files: &mut Vec<RelPath>) -> S3Result<()> {
        if facts.kind != Kind::Dir {
            check_copyable(&at, facts)?;
            files.push(at);
            return Ok(());
        }
        for (name, facts) in self.ask_entries(&at)? {
            self.tree(at.join(&name), &facts?, dirs, files)?;
        }
        dirs.push(at);
        Ok(())
    }

    /// Renames a file or directory object by object: copy, then remove. All objects are checked before the first is changed.
    fn copy_and_remove(&self, from: &RelPath, facts: &Facts, to: &RelPath) -> S3Result<()> {
        let (mut dirs, mut files) = (Vec::new(), Vec::new());
        self.tree(from.clone(), facts, &mut dirs, &mut files)?;
        let moved = |at: &RelPath| at.below(from).map_or_else(|| to.clone(), |below| to.join_path(&below));
        for file in &files {
            self.copy(file, &moved(file), true)?;
            self.remove_object(file)?;
        }
        let mut made = self.made();
        for dir in &dirs {
            made.remove(dir);
            made.insert(moved(dir));
        }
        self.forget_parents(from);
        Ok(())
    }

    fn parents(&self) -> MutexGuard<'_, HashSet<RelPath>> {
        self.0.parents.lock()
    }

    fn forget_parents(&self, gone: &RelPath) {
        self.parents().retain(|dir| !dir.starts_with(gone));
    }

    fn made(&self) -> MutexGuard<'_, HashSet<RelPath>> {
        self.0.made.lock()
    }

    /// The key of a path. Keys are text.
    fn key(&self, path: &RelPath) -> S3Result<Path> {
        let whole = self.0.base.join_path(path);
        let text = std::str::from_utf8(whole.as_bytes());
        let not_text = || format!("{whole} is not text (UTF-8), as names on an S3 server must be");
        let text = text.map_err(|_| RequestError::config_error(not_text()))?;
        Path::parse(text).map_err(|error| RequestError::config_error(error.to_string()))
    }
}

/// Checks that S3 can copy a file of this size.
fn check_copyable(path: &RelPath, facts: &Facts) -> S3Result<()> {
    if facts.size <= COPY_BYTES_MAX {
        return Ok(());
    }
    let why = format!(
        "{path} has more than the 5 GiB that S3 copies in one piece; nothing was changed; copy it with longhaul cp under its new \
         name, then remove it under the old one"
    );
    Err(RequestError::config_error(why))
}

impl Namespace for S3 {
    fn cache(&self) -> &FactsCache {
        &self.0.cache
    }

    fn host(&self) -> &str {
        &self.0.bucket
    }

    fn lists(&self) -> bool {
        true
    }

    fn ask_facts(&self, path: &RelPath) -> S3Result<Facts> {
        if path.is_root() || self.made().contains(path) {
            return Ok(Facts::dir());
        }
        let key = self.key(path)?;
        match self.ask(|store| store.head(&key)) {
            Ok(meta) => Ok(facts(&meta)),
            Err(failed) if failed.is(&[404]) && self.exists_as_dir(path)? => Ok(Facts::dir()),
            Err(failed) => Err(failed),
        }
    }

    fn ask_entries(&self, path: &RelPath) -> S3Result<Vec<Entry>> {
        let key = self.key(path)?;
        let listed = self.list_below(path, true)?;
        let name = |path: &Path| path.filename().and_then(|name| Name::new(name.as_bytes()).ok());
        let dirs = listed.dirs.iter().filter_map(|at| Some((name(at)?, Ok(Facts::dir()))));
        let mut entries: Vec<Entry> = dirs.collect();
        let dirs: HashSet<Name> = entries.iter().map(|(name, _)| name.clone()).collect();
        // An empty object of a directory's name marks it.
        let is_mark = |name: &Name, meta: &ObjectMeta| meta.size == 0 && dirs.contains(name);
        let files = listed.objects.iter().filter_map(|meta| Some((name(&meta.location)?, meta)));
        entries.extend(files.filter(|(name, meta)| !is_mark(name, meta)).map(|(name, meta)| (name, Ok(facts(meta)))));
        entries.extend(listed.pathless.iter().filter_map(|pathless| listing::placeholder(pathless, &key)));
        let known: HashSet<Name> = entries.iter().map(|(name, _)| name.clone()).collect();
        let made: Vec<Name> = self.made().iter().filter(|at| at.parent() == *path).filter_map(RelPath::name).collect();
        entries.extend(made.into_iter().filter(|name| !known.contains(name)).map(|name| (name, Ok(Facts::dir()))));
        Ok(entries)
    }
}

impl Store for S3 {
    fn payload_protection(&self) -> Option<store::PayloadProtection> {
        self.0.server.payload_protection()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writes: Writes::InParts,
            any_name: false,
            sized: true,
            times: false,
            posix: false,
            sparse: false,
            keeps: true,
            lists: true,
        }
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        let facts = self.facts(path).map_err(|failed| failed.into_store_error("examine", path))?;
        Ok(facts.stat(self.host(), path))
    }

    fn is_dir(&self, path: &RelPath) -> bool {
        self.facts(path).is_ok_and(|facts| facts.kind == Kind::Dir)
    }

    fn list(&self, path: &RelPath) -> Result<Entries> {
        let cannot = |failed: RequestError| failed.into_store_error("list", path);
        let entries = self.ask_entries(path).map_err(cannot)?;
        if entries.is_empty() && !path.is_root() {
            match self.ask_facts(path).map_err(cannot)?.kind {
                Kind::Dir => {}
                _ => return Err(Error::Kind { path: shown(path), found: "a file", wanted: "a directory" }),
            }
        }
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
        let key = self.key(path).map_err(|failed| failed.into_store_error("open", path))?;
        Ok(Arc::new(reading::open(self, path, key, facts)))
    }

    fn create(&self, path: &RelPath, _tag: &str) -> Result<Arc<dyn Sink>> {
        if path.is_root() {
            return unsupported("the bucket itself as a file");
        }
        let key = self.key(path).map_err(|failed| failed.into_store_error("create", path))?;
        // S3 permits objects below objects, which no file system permits.
        let parent = path.parent();
        let is_checked = self.parents().contains(&parent);
        if !is_checked {
            if self.facts(&parent).is_ok_and(|facts| facts.kind == Kind::File) {
                return Err(Error::Kind { path: shown(&parent), found: "a file", wanted: "a directory" });
            }
            self.parents().insert(parent);
        }
        Ok(Arc::new(writing::S3Sink::new(self, path, key)))
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        self.key(path).map_err(|failed| failed.into_store_error("create", path))?;
        if path.is_root() {
            return Ok(());
        }
        let cannot = |failed: RequestError| failed.into_store_error("create", path);
        match self.facts(path) {
            Ok(facts) if facts.kind == Kind::Dir => return Ok(()),
            Ok(_) => return Err(Error::Kind { path: shown(path), found: "a file", wanted: "a directory" }),
            Err(failed) if failed.is(&[404]) => {}
            Err(failed) => return Err(cannot(failed)),
        }
        let parent = path.parent();
        if !self.is_dir(&parent) {
            return Err(Error::io("create", path, std::io::Error::from(ErrorKind::NotFound)));
        }
        self.made().insert(path.clone());
        self.0.cache.store(path, Facts::dir());
        Ok(())
    }

    fn make_symlink(&self, _: &RelPath, _: &[u8], _: Timestamp, _: bool, _: &str) -> Result<()> {
        unsupported("a symbolic link")
    }

    /// S3 has no links: the server makes a copy under the other name.
    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, _tag: &str) -> Result<()> {
        let copied =
            self.ask_facts(to).and_then(|facts| check_copyable(to, &facts)).and_then(|()| self.copy(to, path, replace));
        copied.map_err(|failed| match failed.status {
            Some(412) => Error::Exists(shown(path)),
            _ => failed.into_store_error("create", path),
        })?;
        self.0.cache.invalidate(path);
        Ok(())
    }

    fn finish_dir(&self, _: &RelPath, _: u32, _: Timestamp) -> Result<()> {
        Ok(())
    }

    fn remove(&self, path: &RelPath) -> Result<()> {
        if path.is_root() {
            return unsupported("removing the bucket");
        }
        let cannot = |failed: RequestError| failed.into_store_error("remove", path);
        // To S3 a DELETE of a missing object is a success.
        if self.ask_facts(path).map_err(cannot)?.kind == Kind::Dir {
            if !self.ask_entries(path).map_err(cannot)?.is_empty() {
                return Err(Error::io("remove", path, std::io::Error::from(ErrorKind::DirectoryNotEmpty)));
            }
            self.made().remove(path);
            self.forget_parents(path);
            self.0.cache.forget(path);
            return Ok(());
        }
        self.remove_object(path).map_err(cannot)
    }

    /// S3 has no rename: each object is copied and then removed. A rename that breaks off leaves every object under at least one of
    /// the two names.
    fn rename(&self, from: &RelPath, to: &RelPath, replace: bool) -> Result<()> {
        let cannot = |failed: RequestError| failed.into_store_error("rename", from);
        let io = |kind| Err(Error::io("rename", from, std::io::Error::from(kind)));
        if from.is_root() || to.is_root() {
            return unsupported("renaming the bucket");
        }
        let facts = self.ask_facts(from).map_err(cannot)?;
        let is_dir = facts.kind == Kind::Dir;
        if from == to {
            return if replace { Ok(()) } else { Err(Error::Exists(shown(to))) };
        }
        if to.starts_with(from) {
            return io(ErrorKind::InvalidInput);
        }
        if !self.is_dir(&to.parent()) {
            return io(ErrorKind::NotFound);
        }
        if let Some(there) = self.find(to).map_err(cannot)? {
            match (there.kind == Kind::Dir, is_dir) {
                _ if !replace => return Err(Error::Exists(shown(to))),
                (true, false) => return io(ErrorKind::IsADirectory),
                (true, true) if !self.ask_entries(to).map_err(cannot)?.is_empty() => {
                    return io(ErrorKind::DirectoryNotEmpty);
                }
                (false, true) => return io(ErrorKind::NotADirectory),
                _ => {}
            }
        }
        self.copy_and_remove(from, &facts, to).map_err(cannot)?;
        self.0.cache.forget(from);
        self.0.cache.invalidate(to);
        Ok(())
    }
}
