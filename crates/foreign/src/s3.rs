//! A bucket of an S3 server, from a prefix on, as a store.
//!
//! `object_store` knows S3: signatures, listings, parts, conditions. The bytes go over our own HTTP client ([`service`]), so
//! there is one set of timeouts, authorities and tries for every server.
//!
//! Does not know: empty directories. S3 has none: a directory is there as long as something is in it, or as long as the store
//! that made it lives.

mod reading;
mod service;
mod writing;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::name::{Name, RelPath};
use model::{Fault, Kind, Timestamp};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{CopyMode, CopyOptions, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig};
use store::error::shown;
use store::{Capabilities, Entries, Error, Result, Sink, Source, Stat, Store, Writes};

use crate::failed::Failed;
use crate::known::{Answer, Facts, Known};
use crate::server::{Means, Server};
use service::{Connector, drive};

/// Where a bucket is, and who one is there.
#[derive(Clone)]
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// `https://HOST[:PORT]`; none for Amazon's own.
    pub endpoint: Option<String>,
    /// The region; requests are signed for it.
    pub region: String,
    /// The name comes before the host rather than before the path.
    pub virtual_hosted: bool,
    /// Key, secret, and the token of a session; none for a bucket that is open to all.
    pub credentials: Option<Credentials>,
}

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

/// A bucket, from a prefix on. Clones share what is known of it.
#[derive(Clone, Debug)]
pub struct S3(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: AmazonS3,
    bucket: String,
    base: RelPath,
    known: Known,
    /// Directories that were made and have nothing in them as far as the server knows.
    made: Mutex<HashSet<RelPath>>,
}

/// What went wrong, found behind what `object_store` made of it.
fn failed(error: object_store::Error) -> Failed {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if let Some(failed) = inner.downcast_ref::<Failed>() {
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
        _ => return Failed::peer(why),
    };
    let fault = if matches!(status, 401 | 403) { Fault::Auth } else { Fault::Peer };
    Failed { status: Some(status), fault, general: status == 401, ..Failed::peer(why) }
}

fn facts(meta: &ObjectMeta) -> Facts {
    let at = meta.last_modified;
    let mtime = Timestamp { seconds: at.timestamp(), nanos: at.timestamp_subsec_nanos() };
    Facts { mtime: Some(mtime), etag: meta.e_tag.clone(), ..Facts::file(meta.size) }
}

fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(Error::Unsupported { what, store: "an S3 server" })
}

/// The address that requests go to: with the bucket before the host, where that is how the server wants it.
fn endpoint_of(bucket: &Bucket, endpoint: &str) -> String {
    let endpoint = endpoint.trim_end_matches('/');
    match endpoint.split_once("://").filter(|_| bucket.virtual_hosted) {
        Some((scheme, host)) => format!("{scheme}://{}.{host}", bucket.name),
        None => endpoint.to_owned(),
    }
}

type Asked<T> = std::result::Result<T, Failed>;

impl S3 {
    /// A bucket, from `base` on. Nothing is asked yet.
    pub fn new(means: Means, bucket: &Bucket, base: RelPath) -> Result<S3> {
        let server = Arc::new(Server::new(means));
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&bucket.name)
            .with_region(&bucket.region)
            .with_virtual_hosted_style_request(bucket.virtual_hosted)
            .with_allow_http(true)
            // One object at a time is what every server knows.
            .with_disable_bulk_delete(true)
            // Our own client tries again.
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .with_http_connector(Connector(server));
        if let Some(endpoint) = &bucket.endpoint {
            builder = builder.with_endpoint(endpoint_of(bucket, endpoint));
        }
        builder = match &bucket.credentials {
            Some(Credentials { key, secret, token }) => {
                let builder = builder.with_access_key_id(key).with_secret_access_key(secret);
                token.iter().fold(builder, |builder, token| builder.with_config(AmazonS3ConfigKey::Token, token))
            }
            None => builder.with_skip_signature(true),
        };
        let opened = builder.build().map_err(|error| {
            let why = model::fault::with_causes(&error);
            Failed { fault: Fault::Config, ..Failed::peer(why) }.doing("open the bucket", &RelPath::root())
        });
        let (known, made) = (Known::default(), Mutex::default());
        Ok(S3(Arc::new(Inner { store: opened?, bucket: bucket.name.clone(), base, known, made })))
    }

    fn ask_facts(&self, path: &RelPath) -> Asked<Facts> {
        if self.made().contains(path) {
            return Ok(Facts::dir());
        }
        match drive(self.0.store.head(&self.key(path)?)).map_err(failed) {
            Ok(meta) => Ok(facts(&meta)),
            Err(failed) if failed.is(&[404]) && self.is_there_as_dir(path)? => Ok(Facts::dir()),
            Err(failed) => Err(failed),
        }
    }

    fn is_there_as_dir(&self, path: &RelPath) -> Asked<bool> {
        Ok(self.made().contains(path) || !self.ask_entries(path)?.is_empty())
    }

    /// Objects and common prefixes right below a path.
    fn ask_entries(&self, path: &RelPath) -> Asked<Vec<(Name, Facts)>> {
        let prefix = self.key(path)?;
        let prefix = Some(&prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let listed = drive(self.0.store.list_with_delimiter(prefix)).map_err(failed)?;
        let name = |path: &Path| path.filename().and_then(|name| Name::new(name.as_bytes()).ok());
        let dirs = listed.common_prefixes.iter().filter_map(|at| Some((name(at)?, Facts::dir())));
        let mut entries: Vec<(Name, Facts)> = dirs.collect();
        let known: HashSet<Name> = entries.iter().map(|(name, _)| name.clone()).collect();
        // Consoles mark a directory with an empty object of its name.
        let below = listed.objects.iter().filter(|meta| Some(&meta.location) != prefix);
        let files = below.filter_map(|meta| Some((name(&meta.location)?, facts(meta))));
        entries.extend(files.filter(|(name, facts)| facts.size > 0 || !known.contains(name)));
        let made: Vec<Name> = self.made().iter().filter(|at| at.parent() == *path).filter_map(RelPath::name).collect();
        let new: Vec<_> = made.into_iter().filter(|name| !entries.iter().any(|(known, _)| known == name)).collect();
        entries.extend(new.into_iter().map(|name| (name, Facts::dir())));
        Ok(entries)
    }

    fn facts(&self, path: &RelPath) -> Asked<Facts> {
        if path.is_root() {
            return Ok(Facts::dir());
        }
        let missing = || Failed::status(&self.0.bucket, 404, b"");
        match self.0.known.answer(path) {
            Answer::There(facts) => return Ok(facts),
            Answer::Missing if self.made().contains(path) => return Ok(Facts::dir()),
            Answer::Missing => return Err(missing()),
            Answer::List => {
                if let Ok(entries) = self.ask_entries(&path.parent()) {
                    self.learn(&path.parent(), &entries);
                    return self.0.known.last(path).ok_or_else(missing);
                }
            }
            Answer::Ask => {}
        }
        let facts = self.ask_facts(path);
        match &facts {
            Ok(facts) => self.0.known.learn(path, facts.clone()),
            Err(_) => self.0.known.forget(path),
        }
        facts
    }

    /// What is there now, if anything is. That nobody can tell is no answer.
    fn there(&self, path: &RelPath) -> Asked<Option<Facts>> {
        match self.ask_facts(path) {
            Ok(facts) => Ok(Some(facts)),
            Err(failed) if failed.is(&[404, 410]) => Ok(None),
            Err(failed) => Err(failed),
        }
    }

    fn learn(&self, dir: &RelPath, entries: &[(Name, Facts)]) {
        let entries: Vec<_> = entries.iter().map(|(name, facts)| (dir.join(name), facts.clone())).collect();
        self.0.known.listed(dir, &entries);
    }

    /// COPY, which S3 does by itself.
    fn copy(&self, from: &RelPath, to: &RelPath, replace: bool) -> Asked<()> {
        if !replace && self.there(to)?.is_some() {
            return Err(Failed { status: Some(412), ..Failed::peer(format!("{to} is there")) });
        }
        let options = CopyOptions::new().with_mode(CopyMode::Overwrite);
        drive(self.0.store.copy_opts(&self.key(from)?, &self.key(to)?, options)).map_err(failed)
    }

    fn remove_object(&self, path: &RelPath) -> Asked<()> {
        drive(self.0.store.delete(&self.key(path)?)).map_err(failed)?;
        self.0.known.forget(path);
        Ok(())
    }

    /// Renames what is below a path, object by object: copy, then remove.
    fn move_all(&self, from: &RelPath, to: &RelPath) -> Asked<()> {
        for (name, facts) in self.ask_entries(from)? {
            let (from, to) = (from.join(&name), to.join(&name));
            match facts.kind {
                Kind::Dir => self.move_all(&from, &to)?,
                _ => {
                    self.copy(&from, &to, true)?;
                    self.remove_object(&from)?;
                }
            }
        }
        let mut made = self.made();
        made.remove(from);
        made.insert(to.clone());
        Ok(())
    }

    fn made(&self) -> MutexGuard<'_, HashSet<RelPath>> {
        self.0.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key of a path. Keys are text.
    fn key(&self, path: &RelPath) -> Asked<Path> {
        let whole = self.0.base.join_path(path);
        let no = |why: String| Failed { fault: Fault::Config, ..Failed::peer(why) };
        let text = std::str::from_utf8(whole.as_bytes());
        let text = text.map_err(|_| no(format!("{whole} is not text (UTF-8), as names on an S3 server must be")))?;
        Path::parse(text).map_err(|e| no(e.to_string()))
    }
}

impl Store for S3 {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writes: Writes::InParts,
            any_name: false,
            sized: true,
            times: false,
            posix: false,
            sparse: false,
            keeps: true,
        }
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        self.facts(path).map(|facts| facts.stat(&self.0.bucket, path)).map_err(|failed| failed.doing("examine", path))
    }

    fn is_dir(&self, path: &RelPath) -> bool {
        self.facts(path).is_ok_and(|facts| facts.kind == Kind::Dir)
    }

    fn list(&self, path: &RelPath) -> Result<Entries> {
        let cannot = |failed: Failed| failed.doing("list", path);
        let entries = self.ask_entries(path).map_err(cannot)?;
        if entries.is_empty() && !path.is_root() {
            match self.ask_facts(path).map_err(cannot)?.kind {
                Kind::Dir => {}
                _ => return Err(Error::Kind { path: shown(path), found: "a file", wanted: "a directory" }),
            }
        }
        self.learn(path, &entries);
        let (dir, bucket) = (path.clone(), self.0.bucket.clone());
        Ok(Box::new(entries.into_iter().map(move |(name, facts)| {
            let stat = facts.stat(&bucket, &dir.join(&name));
            Ok((name, Ok(stat)))
        })))
    }

    fn read_link(&self, _path: &RelPath) -> Result<Vec<u8>> {
        unsupported("a symbolic link")
    }

    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>> {
        let facts = match self.0.known.last(path) {
            Some(facts) => facts,
            None => self.facts(path).map_err(|failed| failed.doing("open", path))?,
        };
        if facts.kind == Kind::Dir {
            return Err(Error::Kind { path: shown(path), found: "a directory", wanted: "a file" });
        }
        let key = self.key(path).map_err(|failed| failed.doing("open", path))?;
        Ok(Arc::new(reading::File::new(self, path, key, facts)))
    }

    fn create(&self, path: &RelPath, _tag: &str) -> Result<Arc<dyn Sink>> {
        if path.is_root() {
            return unsupported("the bucket itself as a file");
        }
        let key = self.key(path).map_err(|failed| failed.doing("create", path))?;
        // S3 itself has no objection to files below files, which nobody could copy back to a file system.
        let parent = path.parent();
        if self.facts(&parent).is_ok_and(|facts| facts.kind == Kind::File) {
            return Err(Error::Kind { path: shown(&parent), found: "a file", wanted: "a directory" });
        }
        Ok(Arc::new(writing::Putting::new(self, path, key)))
    }

    fn make_dir(&self, path: &RelPath) -> Result<()> {
        self.key(path).map_err(|failed| failed.doing("create", path))?;
        if path.is_root() {
            return Ok(());
        }
        let cannot = |failed: Failed| failed.doing("create", path);
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
        self.0.known.learn(path, Facts::dir());
        Ok(())
    }

    fn make_symlink(&self, _: &RelPath, _: &[u8], _: Timestamp, _: bool, _: &str) -> Result<()> {
        unsupported("a symbolic link")
    }

    /// S3 has no links: the other name gets a copy, which the server makes by itself.
    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, _tag: &str) -> Result<()> {
        self.copy(to, path, replace).map_err(|failed| match failed.status {
            Some(412) => Error::Exists(shown(path)),
            _ => failed.doing("create", path),
        })?;
        self.0.known.doubt(path);
        Ok(())
    }

    fn finish_dir(&self, _: &RelPath, _: u32, _: Timestamp) -> Result<()> {
        Ok(())
    }

    fn remove(&self, path: &RelPath) -> Result<()> {
        if path.is_root() {
            return unsupported("removing the bucket");
        }
        let cannot = |failed: Failed| failed.doing("remove", path);
        // A DELETE of what is not there is a success to S3.
        if self.ask_facts(path).map_err(cannot)?.kind == Kind::Dir {
            if !self.ask_entries(path).map_err(cannot)?.is_empty() {
                return Err(Error::io("remove", path, std::io::Error::from(ErrorKind::DirectoryNotEmpty)));
            }
            self.made().remove(path);
            self.0.known.forget(path);
            return Ok(());
        }
        self.remove_object(path).map_err(cannot)
    }

    /// S3 renames nothing: a copy and a removal, object by object. What breaks off in the middle leaves some under either name,
    /// and none under neither.
    fn rename(&self, from: &RelPath, to: &RelPath, replace: bool) -> Result<()> {
        let cannot = |failed: Failed| failed.doing("rename", from);
        let io = |kind| Err(Error::io("rename", from, std::io::Error::from(kind)));
        if from.is_root() || to.is_root() {
            return unsupported("renaming the bucket");
        }
        let is_dir = self.ask_facts(from).map_err(cannot)?.kind == Kind::Dir;
        if from == to {
            return if replace { Ok(()) } else { Err(Error::Exists(shown(to))) };
        }
        if to.starts_with(from) {
            return io(ErrorKind::InvalidInput);
        }
        if !self.is_dir(&to.parent()) {
            return io(ErrorKind::NotFound);
        }
        if let Some(there) = self.there(to).map_err(cannot)? {
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
        let moved = match is_dir {
            true => self.move_all(from, to),
            false => self.copy(from, to, true).and_then(|()| self.remove_object(from)),
        };
        moved.map_err(cannot)?;
        self.0.known.forget(from);
        self.0.known.doubt(to);
        Ok(())
    }
}
