//! The public keys of trusted issuers: from a file, or from the issuer's server. Fetched keys are stored, so that a node keeps working
//! while an issuer's server is down for a weekend.
//!
//! Times are those of WLCG profile 1.3: keys are refreshed after 6 hours and expire after 2 days. The policy names the issuers; `auth`
//! verifies tokens with the keys.

mod fetch;
mod stored;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::{Issuer, Jwks};
use parking_lot::Mutex;
use rustls::RootCertStore;
use web::client::Dialer;

use self::stored::{LocalFile, StoredKeys};

/// The age from which keys are fetched again, while requests still use the old ones.
const REFRESH_SECONDS: i64 = 6 * 3600;
/// The age at which keys expire.
const EXPIRE_SECONDS: i64 = 2 * 24 * 3600;
/// The pause between two attempts to fetch keys: not every token that names an unknown key may cause a request.
const RETRY_SECONDS: i64 = 60;
/// The pause where there are no usable keys, and all tokens wait for them.
const RETRY_WITHOUT_KEYS_SECONDS: i64 = 10;

/// The keys of issuers.
pub struct Issuers {
    dir: PathBuf,
    dialer: Option<Dialer>,
    known: Mutex<HashMap<String, Arc<IssuerKeys>>>,
    files: Mutex<HashMap<String, LocalFile>>,
}

/// The keys of one issuer.
struct IssuerKeys {
    state: Mutex<State>,
    /// Locked by the thread that fetches.
    fetching: Mutex<()>,
}

#[derive(Clone)]
struct State {
    stored: Option<StoredKeys>,
    /// When the last attempt to fetch the keys began, seconds since 1970.
    tried: Option<i64>,
    /// The reason why that attempt failed.
    failure: Option<String>,
}

impl State {
    /// The keys, unless they have expired.
    fn usable(&self, now: i64) -> Option<&StoredKeys> {
        self.stored.as_ref().filter(|stored| now.saturating_sub(stored.fetched) < EXPIRE_SECONDS)
    }

    /// Whether another attempt may be made.
    fn may_try(&self, now: i64) -> bool {
        let pause = if self.usable(now).is_some() { RETRY_SECONDS } else { RETRY_WITHOUT_KEYS_SECONDS };
        // A clock that was set back must not prevent the next attempt.
        self.tried.is_none_or(|tried| now - tried >= pause || tried > now)
    }

    /// Whether the keys are due for a refresh: they are old, or from a time in the future.
    fn is_due(&self, now: i64) -> bool {
        self.stored.as_ref().is_none_or(|stored| !(0..REFRESH_SECONDS).contains(&(now - stored.fetched)))
    }
}

impl Issuers {
    /// Uses the keys that are stored in a state directory. Without authorities no keys are fetched.
    pub fn new(state: &Path, authorities: Option<&Arc<RootCertStore>>) -> Issuers {
        let dialer = authorities.filter(|roots| !roots.is_empty()).and_then(fetch::dialer);
        Issuers { dir: state.join("issuers"), dialer, known: Mutex::default(), files: Mutex::default() }
    }

    /// The dialer for issuers; `None` where this service trusts no authority.
    pub(crate) fn dialer(&self) -> Option<&Dialer> {
        self.dialer.as_ref()
    }

    /// The endpoints at which an issuer signs users in, from its metadata: the page for browsers, and the address that exchanges codes.
    pub(crate) fn endpoints(&self, iss: &str, now: i64) -> Result<(String, String), String> {
        let dialer = self.dialer.as_ref().ok_or("this service trusts no authority: no provider can be reached")?;
        let metadata = fetch::fetch_metadata(dialer, iss, now)?;
        let (page, exchange) = (metadata.authorization_endpoint, metadata.token_endpoint);
        let (page, exchange) = page
            .zip(exchange)
            .ok_or_else(|| format!("{iss} offers no sign-in: its metadata name no endpoints for it"))?;
        fetch::secure(&page)?;
        fetch::secure(&exchange)?;
        Ok((page, exchange))
    }

    /// The keys of an issuer, with the key `kid` if the issuer has it.
    ///
    /// # Errors
    /// The keys are not available; a sentence for the client that presents the token.
    pub fn keys(self: &Arc<Self>, issuer: &Issuer, kid: &str, now: i64) -> Result<Arc<Jwks>, String> {
        if let Some(path) = &issuer.jwks {
            return self.keys_in_file(issuer, path);
        }
        let known = self.known(&issuer.iss, now);
        let state = known.state.lock().clone();
        match state.usable(now) {
            Some(stored) if stored.jwks.has_key(kid) => {
                if state.is_due(now) && state.may_try(now) {
                    self.refresh_in_background(issuer, &known, now);
                }
                Ok(Arc::clone(&stored.jwks))
            }
            // There are no keys, or this one is not among them: this request waits for a fetch, while others use the present keys.
            _ => {
                let _fetching = known.fetching.lock();
                let was_fetched = known.state.lock().usable(now).is_some_and(|stored| stored.jwks.has_key(kid));
                if !was_fetched && known.state.lock().may_try(now) {
                    self.fetch(issuer, &known, now);
                }
                let state = known.state.lock();
                let unavailable = || {
                    let why = state.failure.as_deref().unwrap_or("they were not fetched yet");
                    format!(
                        "the keys of the issuer {} are not available: {}; try again later",
                        issuer.iss,
                        auth::token::shown(why)
                    )
                };
                state.usable(now).map(|stored| Arc::clone(&stored.jwks)).ok_or_else(unavailable)
            }
        }
    }

    fn known(&self, iss: &str, now: i64) -> Arc<IssuerKeys> {
        let mut all = self.known.lock();
        let known = all.entry(iss.to_owned()).or_insert_with(|| {
            let stored = stored::read(&self.dir, iss);
            if stored.as_ref().is_some_and(|stored| stored.fetched > now + auth::limits::SKEW_SECONDS) {
                tracing::warn!(
                    issuer = iss,
                    "the stored keys were fetched at a time in the future: this host's clock was set back"
                );
            }
            Arc::new(IssuerKeys {
                state: Mutex::new(State { stored, tried: None, failure: None }),
                fetching: Mutex::default(),
            })
        });
        Arc::clone(known)
    }

    fn keys_in_file(&self, issuer: &Issuer, path: &str) -> Result<Arc<Jwks>, String> {
        let mut files = self.files.lock();
        let file = files.entry(path.to_owned()).or_default();
        file.keys(Path::new(path)).map_err(|why| {
            let remedy = "put the issuer's key set (RFC 7517) there";
            tracing::error!(
                issuer = issuer.iss,
                file = path,
                error = why,
                remedy,
                "the keys of an issuer cannot be read"
            );
            format!("the node cannot read its keys of the issuer {}; its operator must look at its log", issuer.iss)
        })
    }

    fn refresh_in_background(self: &Arc<Self>, issuer: &Issuer, known: &Arc<IssuerKeys>, now: i64) {
        let (issuers, issuer, known) = (Arc::clone(self), issuer.clone(), Arc::clone(known));
        let refresh = move || {
            // Another thread fetches already.
            let Some(_fetching) = known.fetching.try_lock() else { return };
            if known.state.lock().may_try(now) {
                issuers.fetch(&issuer, &known, now);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("issuer".into()).spawn(refresh) {
            tracing::warn!(%error, "cannot start a thread to fetch the keys of an issuer");
        }
    }

    /// Fetches the keys. The caller holds the lock `fetching`.
    fn fetch(&self, issuer: &Issuer, known: &IssuerKeys, now: i64) {
        known.state.lock().tried = Some(now);
        let iss = issuer.iss.as_str();
        let Some(dialer) = &self.dialer else {
            let remedy = "set jwks in its [[issuer]], or --cacert";
            tracing::error!(issuer = iss, remedy, "no authority is trusted here: keys of issuers cannot be fetched");
            known.state.lock().failure = Some("this service trusts no authority".into());
            return;
        };
        match fetch::fetch(dialer, iss, now) {
            Ok(text) => match StoredKeys::new(iss, &text, now) {
                Ok(stored) => {
                    tracing::info!(issuer = iss, keys = stored.jwks.len(), "fetched the keys of an issuer");
                    if let Err(error) = stored.write(&self.dir) {
                        tracing::warn!(issuer = iss, %error, "keys of an issuer cannot be stored: after a restart they are fetched again");
                    }
                    *known.state.lock() = State { stored: Some(stored), tried: Some(now), failure: None };
                }
                Err(why) => self.failed(iss, known, why, now),
            },
            Err(why) => self.failed(iss, known, why, now),
        }
    }

    fn failed(&self, iss: &str, known: &IssuerKeys, why: String, now: i64) {
        let mut state = known.state.lock();
        let left = state.usable(now).map(|stored| stored.fetched + EXPIRE_SECONDS - now);
        let remedy =
            "check that its server answers this host over https with a certificate that --cacert trusts, or set jwks";
        tracing::warn!(
            issuer = iss,
            error = why,
            old_keys_valid_for_s = left,
            remedy,
            "the keys of an issuer cannot be fetched"
        );
        state.failure = Some(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_expire_by_age_and_are_fetched_again_after_a_pause() {
        let stored = |fetched| StoredKeys { iss: "i".into(), jwks: Arc::default(), text: String::new(), fetched };
        let state = |fetched, tried| State { stored: Some(stored(fetched)), tried, failure: None };
        let now = 10_000_000;
        assert!(!state(now - REFRESH_SECONDS + 1, None).is_due(now) && state(now - REFRESH_SECONDS, None).is_due(now));
        assert!(state(now + 5, None).is_due(now), "fetched in the future");
        assert!(state(now - EXPIRE_SECONDS + 1, None).usable(now).is_some());
        assert!(state(now - EXPIRE_SECONDS, None).usable(now).is_none());
        assert!(!state(now, Some(now - 59)).may_try(now) && state(now, Some(now - 60)).may_try(now));
        assert!(state(now, Some(now + 5)).may_try(now));
        let none = State { stored: None, tried: Some(now - 9), failure: None };
        assert!(!none.may_try(now) && none.may_try(now + 1) && none.is_due(now));
    }
}
