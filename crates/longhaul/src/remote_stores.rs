//! Sources and targets that this process opens itself: local paths and remote stores, from the locators of the command line and
//! the credentials of the environment.

mod environment;
pub mod mirrors;
mod netrc;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::client_certificate::http_client_config;
use client::remote_store::{self, PATIENCE, RemoteSettings, RemoteStore};
use engine::scan::SourceRoot;
use model::Locator;
use model::name::RelPath;
use remote::Redirects;
use rustls::RootCertStore;
use store::Store;
use web::url::UrlError;

use self::environment::Environment;
use crate::failure::Failure;
use crate::local::{self, LocalTarget};
use crate::settings::Settings;

/// Access without restrictions, for a server whose address the user typed: any address and any redirect is permitted.
fn unrestricted(roots: Arc<RootCertStore>, patience: Duration) -> Result<RemoteSettings, Failure> {
    let tls = http_client_config(roots, None).map_err(|e| Failure::local(format!("cannot set up TLS: {e}")))?;
    let dialer = remote_store::dialer(tls, Arc::new(|_| Ok(())));
    Ok(RemoteSettings { dialer, redirects: Redirects::Anywhere, patience })
}

/// Opens the remote store that a URL names. No request is sent yet.
fn open(url: &str, access: RemoteSettings) -> Result<RemoteStore, Failure> {
    remote_store::open(url, access, &Environment).map_err(|error| match error {
        remote_store::Error::Address(UrlError::Userinfo(_)) => Failure::usage(format!(
            "{error}; a token belongs in BEARER_TOKEN or in the file that BEARER_TOKEN_FILE names, not in the address"
        )),
        error => error.into(),
    })
}

/// The remote store that a locator names; none where the locator names no place on a remote server.
///
/// # Errors
/// The address is wrong, or the environment's credentials cannot be read.
pub fn remote_store(locator: &Locator, settings: &Settings) -> Result<Option<RemoteStore>, Failure> {
    match locator {
        Locator::Remote { url, .. } => open(url, unrestricted(settings.authorities(), PATIENCE)?).map(Some),
        _ => Ok(None),
    }
}

/// A local source, or one on a remote server.
///
/// # Errors
/// The source does not exist, or its server cannot be reached.
pub fn source(locator: &Locator, settings: &Settings) -> Result<SourceRoot, Failure> {
    match remote_store(locator, settings)? {
        Some(remote) => Ok(remote.source()?),
        None => local::source(locator),
    }
}

/// A local target, or one on a remote server.
///
/// # Errors
/// The target cannot be opened, or its server refuses it.
pub fn target(locator: &Locator, settings: &Settings) -> Result<LocalTarget, Failure> {
    match remote_store(locator, settings)? {
        Some(remote) => {
            remote.check()?;
            Ok(LocalTarget { store: remote.store, path: remote.path, root: None })
        }
        None => local::target(locator),
    }
}

/// The store of `serve --export NAME=URL`; none where the export is a directory.
///
/// # Errors
/// The URL is wrong, its server cannot be reached or refuses, or there is no directory at it.
pub fn export(place: &Path, roots: Option<&Arc<RootCertStore>>) -> Result<Option<Arc<dyn Store>>, Failure> {
    let Some(text) = place.to_str().filter(|text| text.contains("://")) else { return Ok(None) };
    let locator = Locator::parse(std::ffi::OsStr::new(text))?;
    let shown = locator.to_string();
    match locator {
        Locator::Remote { url, .. } => {
            let roots = roots.map_or_else(|| Arc::new(RootCertStore::empty()), Arc::clone);
            let access = RemoteSettings { redirects: Redirects::SameKind, ..unrestricted(roots, PATIENCE)? };
            let RemoteStore { store, path, .. } = open(&url, access)?;
            Ok(Some(subtree(&store, &path, &shown)?))
        }
        other => Err(Failure::usage(format!("{other} cannot be an export; write NAME=DIR or NAME=URL"))),
    }
}

/// The part of a store below a directory, as a store.
fn subtree(store: &Arc<dyn Store>, path: &RelPath, shown: &str) -> Result<Arc<dyn Store>, Failure> {
    // `stat` comes first, so that a server that does not answer or refuses is not reported as a missing directory.
    store.stat(path).and_then(|_| store::below(store, path)).map_err(|error| {
        let failure = Failure::from(error);
        Failure { message: format!("cannot serve {}: {}", shown, failure.message), ..failure }
    })
}
