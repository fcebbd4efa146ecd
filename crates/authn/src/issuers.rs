//! The public keys of those whose tokens count: from a file, or from the issuer's own server, kept so that a node works on
//! while that one is down for a weekend.
//!
//! Times are those of WLCG profile 1.3: refreshed after 6 hours, gone after 2 days. Whose keys are fetched is the policy's to
//! say; what a key is good for is `auth`'s.

mod fetch;
mod kept;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::{Issuer, Jwks};
use parking_lot::{Mutex, MutexGuard};
use rustls::RootCertStore;
use web::client::Dialer;

use self::kept::{Kept, LocalFile};

/// Keys that are older are fetched again, beside the requests that use them.
const REFRESH_SECONDS: i64 = 6 * 3600;
/// Keys that are older do not count.
const EXPIRE_SECONDS: i64 = 2 * 24 * 3600;
/// Between two attempts: a token that names a key which nobody knows is no way to make this service ask on and on.
const AGAIN_SECONDS: i64 = 60;
/// The same where there is no key at all, and every token waits for one.
const AGAIN_WITHOUT_SECONDS: i64 = 10;

/// The keys of issuers.
pub struct Issuers {
    dir: PathBuf,
    dialer: Option<Dialer>,
    known: Mutex<HashMap<String, Arc<Known>>>,
    files: Mutex<HashMap<String, LocalFile>>,
}

/// What is known of an issuer.
struct Known {
    now: Mutex<State>,
    /// Held by the one who fetches.
    fetching: Mutex<()>,
}

#[derive(Clone)]
struct State {
    kept: Option<Kept>,
    /// When the last attempt began, seconds since 1970.
    tried: Option<i64>,
    /// Why it failed.
    failure: Option<String>,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock()
}

impl State {
    /// Keys that count.
    fn usable(&self, now: i64) -> Option<&Kept> {
        self.kept.as_ref().filter(|kept| now.saturating_sub(kept.fetched) < EXPIRE_SECONDS)
    }

    /// Whether another attempt may be made.
    fn may_try(&self, now: i64) -> bool {
        let pause = if self.usable(now).is_some() { AGAIN_SECONDS } else { AGAIN_WITHOUT_SECONDS };
        // A clock that was set back must not keep us from trying.
        self.tried.is_none_or(|tried| now - tried >= pause || tried > now)
    }

    /// Whether the keys are old, or from a time that is yet to come.
    fn is_due(&self, now: i64) -> bool {
        self.kept.as_ref().is_none_or(|kept| !(0..REFRESH_SECONDS).contains(&(now - kept.fetched)))
    }
}

impl Issuers {
    /// In this state directory; without authorities nothing is fetched.
    pub fn new(state: &Path, authorities: Option<&Arc<RootCertStore>>) -> Issuers {
        let dialer = authorities.filter(|roots| !roots.is_empty()).and_then(fetch::dialer);
        Issuers { dir: state.join("issuers"), dialer, known: Mutex::default(), files: Mutex::default() }
    }

    /// How this service reaches issuers; none where it trusts no authority.
    pub(crate) fn dialer(&self) -> Option<&Dialer> {
        self.dialer.as_ref()
    }

    /// Where an issuer signs people in, as it says now: the page for browsers, and the address that exchanges codes.
    pub(crate) fn endpoints(&self, iss: &str, now: i64) -> Result<(String, String), String> {
        let dialer = self.dialer.as_ref().ok_or("this service trusts no authority: no provider can be reached")?;
        let metadata = fetch::described(dialer, iss, now)?;
        let (page, exchange) = (metadata.authorization_endpoint, metadata.token_endpoint);
        let (page, exchange) =
            page.zip(exchange).ok_or_else(|| format!("{iss} signs nobody in: it names no endpoints"))?;
        fetch::secure(&page)?;
        fetch::secure(&exchange)?;
        Ok((page, exchange))
    }

    /// The keys of an issuer, with the one of that name if there is any. The error is for whoever brings the token.
    pub fn keys(self: &Arc<Self>, issuer: &Issuer, kid: &str, now: i64) -> Result<Arc<Jwks>, String> {
        if let Some(path) = &issuer.jwks {
            return self.in_file(issuer, path);
        }
        let known = self.known(&issuer.iss, now);
        let state = held(&known.now).clone();
        match state.usable(now) {
            Some(kept) if kept.jwks.has(kid) => {
                if state.is_due(now) && state.may_try(now) {
                    self.refresh_beside(issuer, &known, now);
                }
                Ok(Arc::clone(&kept.jwks))
            }
            // Nobody's keys, or not the one that is wanted: this one waits, others go on with what there is.
            _ => {
                let _one = held(&known.fetching);
                let settled = held(&known.now).usable(now).is_some_and(|kept| kept.jwks.has(kid));
                if !settled && held(&known.now).may_try(now) {
                    self.fetch(issuer, &known, now);
                }
                let state = held(&known.now);
                let unavailable = || {
                    let why = state.failure.as_deref().unwrap_or("they were not fetched yet");
                    format!(
                        "the keys of the issuer {} cannot be had: {}; try again later",
                        issuer.iss,
                        auth::token::shown(why)
                    )
                };
                state.usable(now).map(|kept| Arc::clone(&kept.jwks)).ok_or_else(unavailable)
            }
        }
    }

    fn known(&self, iss: &str, now: i64) -> Arc<Known> {
        let mut all = held(&self.known);
        let known = all.entry(iss.to_owned()).or_insert_with(|| {
            let kept = kept::read(&self.dir, iss);
            if kept.as_ref().is_some_and(|kept| kept.fetched > now + auth::limits::SKEW_SECONDS) {
                tracing::warn!(
                    issuer = iss,
                    "keys were fetched at a time that is yet to come: this host's clock was set back"
                );
            }
            Arc::new(Known { now: Mutex::new(State { kept, tried: None, failure: None }), fetching: Mutex::default() })
        });
        Arc::clone(known)
    }

    fn in_file(&self, issuer: &Issuer, path: &str) -> Result<Arc<Jwks>, String> {
        let mut files = held(&self.files);
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

    fn refresh_beside(self: &Arc<Self>, issuer: &Issuer, known: &Arc<Known>, now: i64) {
        let (issuers, issuer, known) = (Arc::clone(self), issuer.clone(), Arc::clone(known));
        let refresh = move || {
            // Somebody else is at it.
            let Some(_one) = known.fetching.try_lock() else { return };
            if held(&known.now).may_try(now) {
                issuers.fetch(&issuer, &known, now);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("issuer".into()).spawn(refresh) {
            tracing::warn!(%error, "cannot start a thread to fetch the keys of an issuer");
        }
    }

    /// Fetches, with the lock for that held.
    fn fetch(&self, issuer: &Issuer, known: &Known, now: i64) {
        held(&known.now).tried = Some(now);
        let iss = issuer.iss.as_str();
        let Some(dialer) = &self.dialer else {
            let remedy = "set jwks in its [[issuer]], or --cacert";
            tracing::error!(issuer = iss, remedy, "no authority is trusted here: keys of issuers cannot be fetched");
            held(&known.now).failure = Some("this service trusts no authority".into());
            return;
        };
        match fetch::fetch(dialer, iss, now) {
            Ok(text) => match Kept::new(iss, &text, now) {
                Ok(kept) => {
                    tracing::info!(issuer = iss, keys = kept.jwks.len(), "fetched the keys of an issuer");
                    if let Err(error) = kept.write(&self.dir) {
                        tracing::warn!(issuer = iss, %error, "keys of an issuer cannot be kept: after a restart they are fetched anew");
                    }
                    *held(&known.now) = State { kept: Some(kept), tried: Some(now), failure: None };
                }
                Err(why) => self.failed(iss, known, why, now),
            },
            Err(why) => self.failed(iss, known, why, now),
        }
    }

    fn failed(&self, iss: &str, known: &Known, why: String, now: i64) {
        let mut state = held(&known.now);
        let left = state.usable(now).map(|kept| kept.fetched + EXPIRE_SECONDS - now);
        let remedy = "see that its server answers this host over https with a certificate that --cacert vouches for, or set jwks";
        tracing::warn!(
            issuer = iss,
            error = why,
            old_keys_count_for_s = left,
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
    fn when_keys_count_and_when_they_are_asked_for() {
        let kept = |fetched| Kept { iss: "i".into(), jwks: Arc::default(), text: String::new(), fetched };
        let state = |fetched, tried| State { kept: Some(kept(fetched)), tried, failure: None };
        let now = 10_000_000;
        assert!(!state(now - REFRESH_SECONDS + 1, None).is_due(now) && state(now - REFRESH_SECONDS, None).is_due(now));
        assert!(state(now + 5, None).is_due(now), "from a time to come");
        assert!(state(now - EXPIRE_SECONDS + 1, None).usable(now).is_some());
        assert!(state(now - EXPIRE_SECONDS, None).usable(now).is_none());
        assert!(!state(now, Some(now - 59)).may_try(now) && state(now, Some(now - 60)).may_try(now));
        assert!(state(now, Some(now + 5)).may_try(now));
        let none = State { kept: None, tried: Some(now - 9), failure: None };
        assert!(!none.may_try(now) && none.may_try(now + 1) && none.is_due(now));
    }
}
