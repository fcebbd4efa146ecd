//! Stores on other people's servers, by their address: here alone a scheme leads to WebDAV or S3.

use std::sync::Arc;
use std::time::Duration;

use engine::scan::SourceRoot;
use model::fault::{Blame, Fault};
use model::name::{Name, NameError, RelPath};
use remote::mirrored::Place;
use remote::s3::Bucket;
use remote::{Dav, Means, Redirects, S3, TokenSource};
use rustls::{ClientConfig, RootCertStore};
use store::Store;
use web::client::Guard;
use web::target::TargetError;
use web::url::UrlError;
use web::{Dialer, HttpUrl};

/// Schemes that are spoken, in small letters.
pub const SCHEMES: [&str; 5] = ["https", "http", "davs", "dav", "s3"];

/// For a connection, its handshake included.
const CONNECT: Duration = Duration::from_secs(20);
/// For a byte of an answer.
const SILENCE: Duration = Duration::from_secs(60);
/// How long one request is tried again; a transfer has a patience of its own.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A place on somebody else's server.
pub struct RemoteStore {
    /// The server, or the bucket.
    pub store: Arc<dyn Store>,
    /// The place in it.
    pub path: RelPath,
    /// What tells servers and buckets apart: two places in one can be renamed into each other.
    pub server: String,
    /// The server itself, where it is one that may copy from and to others.
    pub dav: Option<Arc<Dav>>,
    /// The same as one of several sources.
    pub place: Place,
}

/// How a server is reached.
pub struct Reach {
    /// How connections to it are made.
    pub dialer: Dialer,
    /// Where it may send us.
    pub redirects: Redirects,
    /// How long one request is tried again.
    pub patience: Duration,
}

/// Who one is on a server.
pub trait Credentials {
    /// Where a token comes from that WebDAV servers are shown: asked for each request.
    fn token(&self) -> Arc<TokenSource>;

    /// A bucket with the key to it.
    ///
    /// # Errors
    /// The key is incomplete, or its settings do not read.
    fn bucket(&self, name: &str) -> Result<Bucket, Error>;
}

/// Why an address leads to no store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scheme is not spoken.
    #[error("{0}:// cannot be copied from or to by this version")]
    Scheme(String),
    /// The address does not read.
    #[error(transparent)]
    Address(UrlError),
    /// The path in it does not read.
    #[error("{url}: {source}")]
    Path {
        /// The address, without secrets.
        url: String,
        /// Why.
        source: TargetError,
    },
    /// The key in it does not read.
    #[error("{url}: {source}")]
    Key {
        /// The address.
        url: String,
        /// Why.
        source: NameError,
    },
    /// It names no bucket.
    #[error("{0} names no bucket; write s3://BUCKET/KEY")]
    NoBucket(String),
    /// The credentials cannot be used.
    #[error("{0}")]
    Credentials(String),
    /// The root of a server has no name that a copy of it could have.
    #[error("that place has no name")]
    Nameless,
    /// The store.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Blame for Error {
    fn fault(&self) -> Fault {
        match self {
            Error::Store(error) if error.is_not_found() => Fault::Missing,
            Error::Store(error) => error.fault(),
            _ => Fault::Config,
        }
    }
}

/// TLS to servers that these authorities vouch for.
///
/// # Errors
/// The provider of cryptography has no protocol in common with TLS.
pub fn tls(roots: Arc<RootCertStore>) -> Result<Arc<ClientConfig>, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(engine::identity::provider());
    let mut tls = builder.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}

/// Connects with this TLS, to addresses that the guard lets pass.
pub fn dialer(tls: Arc<ClientConfig>, guard: Arc<Guard>) -> Dialer {
    Dialer { tls, guard, prepare: None, connect: CONNECT, silence: SILENCE }
}

/// Opens what an address names. Nothing is asked of the server yet.
///
/// # Errors
/// The address does not read, its scheme is not spoken, or the credentials cannot be used.
pub fn open(url: &str, reach: Reach, credentials: &dyn Credentials) -> Result<RemoteStore, Error> {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    match scheme.as_str() {
        "s3" => open_bucket(url, reach, credentials),
        known if SCHEMES.contains(&known) => open_dav(url, reach, credentials),
        _ => Err(Error::Scheme(scheme)),
    }
}

fn means(reach: Reach, token: Arc<TokenSource>) -> Means {
    Means { dialer: reach.dialer, token, redirects: reach.redirects, patience: reach.patience }
}

fn open_dav(url: &str, reach: Reach, credentials: &dyn Credentials) -> Result<RemoteStore, Error> {
    let address = HttpUrl::parse(url).map_err(Error::Address)?;
    let target = web::target::parse(address.path())
        .map_err(|source| Error::Path { url: address.redacted().to_string(), source })?;
    let server = format!("{}:{}", address.host(), address.port());
    let dav = Arc::new(Dav::new(means(reach, credentials.token()), &address, RelPath::root()));
    let place = Place::Dav(Dav::clone(&dav));
    Ok(RemoteStore { store: Arc::clone(&dav) as Arc<dyn Store>, path: target.path, server, dav: Some(dav), place })
}

/// `s3://BUCKET/KEY`.
fn open_bucket(url: &str, reach: Reach, credentials: &dyn Credentials) -> Result<RemoteStore, Error> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (name, key) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() {
        return Err(Error::NoBucket(url.to_owned()));
    }
    let path = RelPath::parse(key.as_bytes()).map_err(|source| Error::Key { url: url.to_owned(), source })?;
    let bucket = credentials.bucket(name)?;
    let server = format!("{}/{name}", bucket.endpoint.as_deref().unwrap_or("s3"));
    // What S3 is shown is a signature, made for each request.
    let s3 = S3::new(means(reach, Arc::new(|| Ok(None))), &bucket, RelPath::root())?;
    Ok(RemoteStore { store: Arc::new(s3.clone()), path, server, dav: None, place: Place::S3(s3) })
}

impl RemoteStore {
    /// Asks once whether the server can be reached, so that it is known before anything is scanned.
    ///
    /// # Errors
    /// It cannot be reached, or does not let us in. That nothing is at the place yet is none.
    pub fn check(&self) -> store::Result<()> {
        match self.store.stat(&self.path) {
            Err(error) if !error.is_not_found() && error.is_fatal() => Err(error),
            _ => Ok(()),
        }
    }

    /// The place as a source. One that is not there, or not reachable, is known at once.
    ///
    /// # Errors
    /// It is not there, or the server cannot be asked.
    pub fn source(self) -> Result<SourceRoot, Error> {
        self.store.stat(&self.path)?;
        let name = self.path.name().or_else(|| Name::new(b"root").ok()).ok_or(Error::Nameless)?;
        Ok(SourceRoot { store: self.store, path: self.path, name })
    }
}
