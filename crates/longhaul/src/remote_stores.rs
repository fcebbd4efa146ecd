//! Ends of a copy that this process reaches by itself: paths here, and places on other people's servers, from what was typed
//! and what the environment says about who one is there.

mod environment;
pub mod mirrors;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::client_certificate::http_client_config;
use client::remote_store::{self, PATIENCE, Reach, RemoteStore};
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

/// Whoever types an address may go there, and wherever its server sends him.
fn typed(roots: Arc<RootCertStore>, patience: Duration) -> Result<Reach, Failure> {
    let tls = http_client_config(roots, None).map_err(|e| Failure::local(format!("no TLS: {e}")))?;
    let dialer = remote_store::dialer(tls, Arc::new(|_| Ok(())));
    Ok(Reach { dialer, redirects: Redirects::Anywhere, patience })
}

/// Opens what a locator of somebody else's server names. Nothing is asked of it yet.
fn open(url: &str, reach: Reach) -> Result<RemoteStore, Failure> {
    remote_store::open(url, reach, &Environment).map_err(|error| match error {
        remote_store::Error::Address(UrlError::Userinfo(_)) => Failure::usage(format!(
            "{error}; a token belongs into BEARER_TOKEN or the file that BEARER_TOKEN_FILE names, not into the address"
        )),
        error => error.into(),
    })
}

/// The place that a locator names, if it is on somebody else's server.
pub fn place(locator: &Locator, settings: &Settings) -> Result<Option<RemoteStore>, Failure> {
    match locator {
        Locator::Foreign { url, .. } => open(url, typed(settings.authorities(), PATIENCE)?).map(Some),
        _ => Ok(None),
    }
}

/// A source here or on somebody else's server. One that is not there, or not reachable, is known at once.
pub fn source(locator: &Locator, settings: &Settings) -> Result<SourceRoot, Failure> {
    match place(locator, settings)? {
        Some(there) => Ok(there.source()?),
        None => local::source(locator),
    }
}

/// A target here or on somebody else's server.
pub fn target(locator: &Locator, settings: &Settings) -> Result<LocalTarget, Failure> {
    match place(locator, settings)? {
        Some(there) => {
            there.check()?;
            Ok(LocalTarget { store: there.store, path: there.path, root: None })
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
        Locator::Foreign { url, .. } => {
            let roots = roots.map_or_else(|| Arc::new(RootCertStore::empty()), Arc::clone);
            let reach = Reach { redirects: Redirects::OfItsKind, ..typed(roots, PATIENCE)? };
            let RemoteStore { store, path, .. } = open(&url, reach)?;
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
