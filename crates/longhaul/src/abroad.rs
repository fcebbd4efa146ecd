//! Ends of a copy that this process reaches by itself: paths here, and places on other people's servers, from what was typed
//! and what the environment says about who one is there.

pub mod mirrors;
mod who;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::scan::SourceRoot;
use model::Locator;
use model::name::{Name, RelPath};
use remote::mirrored::Place;
use remote::{Dav, Means, Redirects, S3, TokenSource};
use rustls::{ClientConfig, RootCertStore};
use store::Store;
use web::{Dialer, HttpUrl};

use crate::failure::Failure;
use crate::local::{self, LocalTarget};
use crate::settings::Settings;

/// For a connection, its handshake included.
const CONNECT: Duration = Duration::from_secs(20);
/// For a byte of an answer.
const SILENCE: Duration = Duration::from_secs(60);
/// How long one request is tried again; a job has a patience of its own (`--retry-for`).
const PATIENCE: Duration = Duration::from_secs(60);

/// A place on somebody else's server.
pub struct Abroad {
    /// The server, or the bucket.
    pub store: Arc<dyn Store>,
    /// The place in it.
    pub path: RelPath,
    /// What tells servers and buckets apart: two places in one can be renamed into each other.
    pub server: String,
    /// The server itself, where it is one that may copy from and to others.
    pub dav: Option<Arc<Dav>>,
    /// The same as one of several sources.
    kind: Place,
}

/// Whether a scheme is one that is spoken here.
fn is_spoken(scheme: &str) -> bool {
    ["https", "http", "davs", "dav", "s3"].contains(&scheme)
}

/// How servers are dialled.
fn dialer(roots: Arc<RootCertStore>) -> Result<Dialer, Failure> {
    let tls = ClientConfig::builder_with_provider(engine::identity::provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| Failure::local(format!("no TLS: {e}")))?;
    let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Who types an address may go there.
    Ok(Dialer { tls: Arc::new(tls), guard: Arc::new(|_| Ok(())), prepare: None, connect: CONNECT, silence: SILENCE })
}

/// How a server is gone to.
struct Ways {
    roots: Arc<RootCertStore>,
    redirects: Redirects,
    patience: Duration,
}

impl Ways {
    /// Whoever types an address may be sent wherever its server sends him.
    fn typed(roots: Arc<RootCertStore>, patience: Duration) -> Ways {
        Ways { roots, redirects: Redirects::Anywhere, patience }
    }

    fn means(self, token: Arc<TokenSource>) -> Result<Means, Failure> {
        Ok(Means { dialer: dialer(self.roots)?, token, redirects: self.redirects, patience: self.patience })
    }
}

/// Opens what a locator of somebody else's server names. Nothing is asked of it yet.
fn open(scheme: &str, url: &str, ways: Ways) -> Result<Abroad, Failure> {
    if !is_spoken(scheme) {
        return Err(Failure::usage(format!("{scheme}:// cannot be copied from or to by this version")));
    }
    if scheme == "s3" {
        return bucket(url, ways);
    }
    let address = HttpUrl::parse(url).map_err(|error| match error {
        web::url::UrlError::Userinfo(_) => Failure::usage(format!(
            "{error}; a token belongs into BEARER_TOKEN or the file that BEARER_TOKEN_FILE names, not into the address"
        )),
        error => Failure::usage(error.to_string()),
    })?;
    let target = web::target::parse(address.path()).map_err(|e| Failure::usage(format!("{address}: {e}")))?;
    let means = ways.means(Arc::new(who::token))?;
    let server = format!("{}:{}", address.host(), address.port());
    let dav = Arc::new(Dav::new(means, &address, RelPath::root()));
    let (store, kind) = (Arc::clone(&dav) as Arc<dyn Store>, Place::Dav(Dav::clone(&dav)));
    Ok(Abroad { store, path: target.path, server, dav: Some(dav), kind })
}

/// `s3://BUCKET/KEY`.
fn bucket(url: &str, ways: Ways) -> Result<Abroad, Failure> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (name, key) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() {
        return Err(Failure::usage(format!("{url} names no bucket; write s3://BUCKET/KEY")));
    }
    let path = RelPath::parse(key.as_bytes()).map_err(|e| Failure::usage(format!("{url}: {e}")))?;
    let bucket = who::bucket(name)?;
    // What S3 is shown is a signature, made for each request.
    let means = ways.means(Arc::new(|| Ok(None)))?;
    let server = format!("{}/{name}", bucket.endpoint.as_deref().unwrap_or("s3"));
    let s3 = S3::new(means, &bucket, RelPath::root())?;
    Ok(Abroad { store: Arc::new(s3.clone()), path, server, dav: None, kind: Place::S3(s3) })
}

/// The place that a locator names, if it is on somebody else's server.
pub fn place(locator: &Locator, settings: &Settings) -> Result<Option<Abroad>, Failure> {
    match locator {
        Locator::Foreign { scheme, url } => open(scheme, url, Ways::typed(settings.authorities(), PATIENCE)).map(Some),
        _ => Ok(None),
    }
}

/// A source here or on somebody else's server. One that is not there, or not reachable, is known at once.
pub fn source(locator: &Locator, settings: &Settings) -> Result<SourceRoot, Failure> {
    let Some(Abroad { store, path, .. }) = place(locator, settings)? else { return local::source(locator) };
    store.stat(&path)?;
    let name = path.name().or_else(|| Name::new(b"root").ok());
    let name = name.ok_or_else(|| Failure::usage("that place has no name"))?;
    Ok(SourceRoot { store, path, name })
}

/// A target here or on somebody else's server.
pub fn target(locator: &Locator, settings: &Settings) -> Result<LocalTarget, Failure> {
    match place(locator, settings)? {
        Some(Abroad { store, path, .. }) => {
            // Asked once: a server that cannot be reached is known before anything is scanned.
            match store.stat(&path) {
                Err(error) if !error.is_not_found() && error.is_fatal() => Err(error.into()),
                _ => Ok(LocalTarget { store, path, root: None }),
            }
        }
        None => local::target(locator),
    }
}

/// What `serve --export NAME=URL` offers; none where it names a directory.
pub fn export(place: &Path, roots: Option<&Arc<RootCertStore>>) -> Result<Option<Arc<dyn Store>>, Failure> {
    let Some(text) = place.to_str().filter(|text| text.contains("://")) else { return Ok(None) };
    let locator = Locator::parse(std::ffi::OsStr::new(text))?;
    let shown = locator.to_string();
    match locator {
        Locator::Foreign { scheme, url } => {
            let roots = roots.map_or_else(|| Arc::new(RootCertStore::empty()), Arc::clone);
            let ways = Ways { roots, redirects: Redirects::OfItsKind, patience: PATIENCE };
            let Abroad { store, path, .. } = open(&scheme, &url, ways)?;
            Ok(Some(based(&store, &path, &shown)?))
        }
        other => Err(Failure::usage(format!("{other} cannot be an export; write NAME=DIR or NAME=URL"))),
    }
}

/// The store from a directory of it on.
fn based(store: &Arc<dyn Store>, path: &RelPath, shown: &str) -> Result<Arc<dyn Store>, Failure> {
    // Asked first: that nobody answers, or that one may not look, is not that nothing is there.
    store.stat(path).and_then(|_| store::below(store, path)).map_err(|error| {
        let failure = Failure::from(error);
        Failure { message: format!("cannot serve {}: {}", shown, failure.message), ..failure }
    })
}
