//! Opens stores on remote servers by URL. This is the one place where a scheme selects WebDAV, S3, XRootD, FTP or SFTP.

use std::sync::Arc;
use std::time::Duration;

use engine::scan::SourceRoot;
use model::fault::{Blame, Fault};
use model::name::{Name, NameError, RelPath};
use remote::ftp::{self, FtpSettings, FtpUser};
use remote::mirrored::SourceStore;
use remote::root::RootSettings;
use remote::s3::Bucket;
use remote::sftp::{self, SftpSettings};
use remote::{ArchiveAddress, ArchiveAddressError, Dav, Redirects, Root, S3, ServerSettings, TokenSource};
use rustls::ClientConfig;
use store::Store;
use web::client::Guard;
use web::target::TargetError;
use web::url::UrlError;
use web::{Dialer, HttpUrl};
use xroot::RootUrl;

/// The schemes that can be opened with credentials that a client hands over, in lower case. [`open`] opens `ftp`, `ftps` and `sftp` as well,
/// for whose servers only this host's own user has names, passwords and keys.
pub const SCHEMES: [&str; 7] = ["https", "http", "davs", "dav", "s3", "root", "roots"];

/// How long to wait for a connection, its handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long to wait for the next byte of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// How long one request is retried. A transfer retries longer, by its own setting.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A place on a remote server.
pub struct RemoteStore {
    /// The server, or the bucket.
    pub store: Arc<dyn Store>,
    /// The path in the store.
    pub path: RelPath,
    /// Identifies the server or bucket: a rename is possible between two places that have the same.
    pub server: String,
    /// The WebDAV server, which may be able to copy from and to others; none for others.
    pub dav: Option<Arc<Dav>>,
    /// The same place as a member of a set of mirrors.
    pub place: SourceStore,
}

/// How to reach a server.
pub struct RemoteSettings {
    /// Makes the connections.
    pub dialer: Dialer,
    /// Which redirects to follow.
    pub redirects: Redirects,
    /// How long to retry one request.
    pub patience: Duration,
}

/// The caller's credentials on remote servers.
pub trait Credentials {
    /// The source of the bearer token for WebDAV servers; it is called for each request.
    fn token(&self) -> Arc<TokenSource>;

    /// A bucket with its access key.
    ///
    /// # Errors
    /// The access key is incomplete, or its settings do not parse.
    fn bucket(&self, name: &str) -> Result<Bucket, Error>;

    /// The user at an FTP server: the one with this name, or the usual one. None for an anonymous login.
    ///
    /// # Errors
    /// There is no password for the name, or the passwords cannot be read.
    fn ftp_user(&self, host: &str, name: Option<&str>) -> Result<Option<FtpUser>, Error>;

    /// The ssh client with its options, for SFTP.
    fn ssh(&self) -> Vec<String>;
}

/// Why a URL opens no store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scheme is not supported.
    #[error("{0}:// cannot be copied from or to by this version")]
    Scheme(String),
    /// The URL does not parse.
    #[error(transparent)]
    Address(UrlError),
    /// The URL of an XRootD server does not parse.
    #[error(transparent)]
    RootAddress(#[from] xroot::url::RootUrlError),
    /// The URL of an FTP or SFTP server does not parse.
    #[error(transparent)]
    ArchiveAddress(#[from] ArchiveAddressError),
    /// The path in the URL does not parse.
    #[error("{url}: {source}")]
    Path {
        /// The URL, without secrets.
        url: String,
        /// Why.
        source: TargetError,
    },
    /// The S3 key in the URL is not a path.
    #[error("{url}: {source}")]
    Key {
        /// The URL.
        url: String,
        /// Why.
        source: NameError,
    },
    /// The URL names no bucket.
    #[error("{0} names no bucket; write s3://BUCKET/KEY")]
    NoBucket(String),
    /// The credentials cannot be used.
    #[error("{0}")]
    Credentials(String),
    /// The URL is the root of a server: a copy of it has no name.
    #[error("the URL is the root of a server, and a copy of it has no name; choose a directory below it")]
    Nameless,
    /// The store failed.
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

/// A dialer with these TLS settings, to addresses that the guard allows.
pub fn dialer(tls: Arc<ClientConfig>, guard: Arc<Guard>) -> Dialer {
    Dialer { tls, guard, prepare: None, connect: CONNECT_TIMEOUT, silence: READ_TIMEOUT }
}

/// Opens the store that a URL names. Sends no request yet.
///
/// # Errors
/// The URL does not parse, its scheme is not supported, or the credentials cannot be used.
pub fn open(url: &str, settings: RemoteSettings, credentials: &dyn Credentials) -> Result<RemoteStore, Error> {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    match scheme.as_str() {
        "s3" => open_bucket(url, settings, credentials),
        "root" | "roots" => open_root(url, settings, credentials),
        "ftp" | "ftps" | "sftp" => open_archive(&scheme, url, settings, credentials),
        known if SCHEMES.contains(&known) => open_dav(url, settings, credentials),
        _ => Err(Error::Scheme(scheme)),
    }
}

fn server_settings(settings: RemoteSettings, token: Arc<TokenSource>) -> ServerSettings {
    ServerSettings { dialer: settings.dialer, token, redirects: settings.redirects, patience: settings.patience }
}

fn open_dav(url: &str, settings: RemoteSettings, credentials: &dyn Credentials) -> Result<RemoteStore, Error> {
    let address = HttpUrl::parse(url).map_err(Error::Address)?;
    let target = web::target::parse(address.path())
        .map_err(|source| Error::Path { url: address.redacted().to_string(), source })?;
    let server = format!("{}:{}", address.host(), address.port());
    let dav = Arc::new(Dav::new(server_settings(settings, credentials.token()), &address, RelPath::root()));
    let place = SourceStore::Dav(Dav::clone(&dav));
    Ok(RemoteStore { store: Arc::clone(&dav) as Arc<dyn Store>, path: target.path, server, dav: Some(dav), place })
}

/// `root://HOST//PATH`, and `roots://` for TLS in any case.
fn open_root(url: &str, settings: RemoteSettings, credentials: &dyn Credentials) -> Result<RemoteStore, Error> {
    let address = RootUrl::parse(url)?;
    let (server, path) = (address.authority(), address.place.path.clone());
    let RemoteSettings { dialer, redirects, patience } = settings;
    let settings = RootSettings { dialer, token: credentials.token(), redirects, patience };
    let root = Root::new(settings, address);
    Ok(RemoteStore { store: Arc::new(root.clone()), path, server, dav: None, place: SourceStore::Root(root) })
}

/// `ftp://HOST/PATH`, `ftps://` with TLS, and `sftp://`.
fn open_archive(
    scheme: &str,
    url: &str,
    settings: RemoteSettings,
    credentials: &dyn Credentials,
) -> Result<RemoteStore, Error> {
    let address = ArchiveAddress::parse(url)?;
    let RemoteSettings { dialer, patience, .. } = settings;
    let archive = if scheme == "sftp" {
        sftp::open(SftpSettings { command: credentials.ssh(), patience, silence: dialer.silence }, &address)
    } else {
        let user = credentials.ftp_user(&address.host, address.user.as_deref())?;
        ftp::open(FtpSettings { dialer, is_secure: scheme == "ftps", user, patience }, &address)
    };
    let user = address.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    let root = if address.is_absolute { "/" } else { "" };
    let server = format!("{scheme}://{user}{}/{root}", address.authority());
    let store: Arc<dyn Store> = Arc::new(archive);
    Ok(RemoteStore { place: SourceStore::Local(Arc::clone(&store)), store, path: address.path, server, dav: None })
}

/// `s3://BUCKET/KEY`.
fn open_bucket(url: &str, settings: RemoteSettings, credentials: &dyn Credentials) -> Result<RemoteStore, Error> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (name, key) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() {
        return Err(Error::NoBucket(url.to_owned()));
    }
    let path = RelPath::parse(key.as_bytes()).map_err(|source| Error::Key { url: url.to_owned(), source })?;
    let bucket = credentials.bucket(name)?;
    let server = format!("{}/{name}", bucket.endpoint.as_deref().unwrap_or("s3"));
    // S3 takes a signature of each request, and no token.
    let s3 = S3::new(server_settings(settings, Arc::new(|| Ok(None))), &bucket, RelPath::root())?;
    Ok(RemoteStore { store: Arc::new(s3.clone()), path, server, dav: None, place: SourceStore::S3(s3) })
}

impl RemoteStore {
    /// Checks with one request that the server can be reached, before anything is scanned.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the credentials. A place that does not exist yet is no error.
    pub fn check(&self) -> store::Result<()> {
        match self.store.stat(&self.path) {
            Err(error) if !error.is_not_found() && error.is_fatal() => Err(error),
            _ => Ok(()),
        }
    }

    /// Uses the place as the source of a transfer, after a check that it exists.
    ///
    /// # Errors
    /// The place does not exist, or the server cannot be reached.
    pub fn source(self) -> Result<SourceRoot, Error> {
        self.store.stat(&self.path)?;
        let name = self.path.name().or_else(|| Name::new(b"root").ok()).ok_or(Error::Nameless)?;
        Ok(SourceRoot { store: self.store, path: self.path, name })
    }
}
