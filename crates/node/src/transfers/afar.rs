//! The other end of a transfer on somebody else's server: WebDAV and S3, with the credentials of the order, dialled as every
//! server is that a guest sends this node to.

use std::sync::Arc;
use std::time::Duration;

use engine::Error;
use engine::scan::SourceRoot;
use model::fault::Fault;
use model::name::{Name, RelPath};
use model::v1::node::Credentials;
use remote::s3::Bucket;
use remote::{Dav, Means, Redirects, S3, TokenSource, s3};
use store::Store;
use web::{Dialer, HttpUrl};
use wire::frame::Refusal;

use crate::host::storage;
use crate::http::Dialling;

/// For a connection, its handshake included.
const CONNECT: Duration = Duration::from_secs(20);
/// For a byte of an answer.
const SILENCE: Duration = Duration::from_secs(60);
/// How long one request is tried again; a transfer has a patience of its own.
const PATIENCE: Duration = Duration::from_secs(60);

fn wrong(reason: impl Into<String>) -> Refusal {
    Refusal::new(Fault::Config, reason)
}

/// A failure of ours, or of the server.
pub(super) fn refused(refusal: Refusal) -> Error {
    Error::Refused { peer: "this node".into(), refusal }
}

/// The store and the path that an address names. Nothing is asked of the server yet.
pub(super) fn place(
    url: &str,
    credentials: Option<&Credentials>,
    dialling: &Dialling,
) -> Result<(Arc<dyn Store>, RelPath), Refusal> {
    let (tls, guard) = (Arc::clone(&dialling.tls), Arc::clone(&dialling.guard));
    let dialer = Dialer { tls, guard, prepare: None, connect: CONNECT, silence: SILENCE };
    let is_bucket = url.split_once("://").is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("s3"));
    if is_bucket { bucket(url, credentials, dialer) } else { dav(url, credentials, dialer) }
}

/// Wherever a server sends us, the dialer looks at the address as it did at the first one.
fn means(dialer: Dialer, token: Arc<TokenSource>) -> Means {
    Means { dialer, token, redirects: Redirects::Anywhere, patience: PATIENCE }
}

fn dav(url: &str, credentials: Option<&Credentials>, dialer: Dialer) -> Result<(Arc<dyn Store>, RelPath), Refusal> {
    let address = HttpUrl::parse(url).map_err(|e| wrong(e.to_string()))?;
    let target = web::target::parse(address.path()).map_err(|e| wrong(format!("{}: {e}", address.redacted())))?;
    let token = credentials.and_then(|credentials| credentials.token.clone());
    let means = means(dialer, Arc::new(move || Ok(token.clone())));
    Ok((Arc::new(Dav::new(means, &address, RelPath::root())), target.path))
}

fn bucket(url: &str, credentials: Option<&Credentials>, dialer: Dialer) -> Result<(Arc<dyn Store>, RelPath), Refusal> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (name, key) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() {
        return Err(wrong(format!("{url} names no bucket; write s3://BUCKET/KEY")));
    }
    let path = RelPath::parse(key.as_bytes()).map_err(|e| wrong(format!("{url}: {e}")))?;
    let said = credentials.and_then(|credentials| credentials.s3.clone()).unwrap_or_default();
    let key = match (said.access_key_id, said.secret_access_key) {
        (Some(key), Some(secret)) => Some(s3::Credentials { key, secret, token: said.session_token }),
        (None, None) => None,
        _ => return Err(wrong("a key to S3 has two parts: access_key_id and secret_access_key")),
    };
    let bucket = Bucket {
        name: name.to_owned(),
        endpoint: said.endpoint,
        region: said.region.unwrap_or_else(|| "us-east-1".to_owned()),
        virtual_hosted: said.virtual_hosted,
        // An order holds one key; a newer one comes with a new order.
        credentials: Arc::new(move || Ok(key.clone())),
    };
    // What S3 is shown is a signature, made for each request.
    let means = means(dialer, Arc::new(|| Ok(None)));
    let store = S3::new(means, &bucket, RelPath::root()).map_err(storage)?;
    Ok((Arc::new(store), path))
}

/// Sources there. One that is not there, or not reachable, is known at once.
pub(super) fn sources(
    urls: &[String],
    credentials: Option<&Credentials>,
    dialling: &Dialling,
) -> engine::Result<Vec<SourceRoot>> {
    let root = |url: &String| {
        let (store, path) = place(url, credentials, dialling).map_err(refused)?;
        store.stat(&path)?;
        let name = path.name().or_else(|| Name::new(b"root").ok());
        let name = name.ok_or_else(|| refused(wrong("that place has no name")))?;
        Ok(SourceRoot { store, path, name })
    };
    let roots = urls.iter().map(root).collect::<engine::Result<Vec<_>>>()?;
    engine::scan::distinct_names(&roots).map_err(refused)?;
    Ok(roots)
}
