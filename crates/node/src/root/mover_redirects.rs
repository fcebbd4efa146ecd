//! Redirects to movers. A client that opens a large file for reading at a coordinator is sent to one of its movers, which are taken in turn,
//! with a macaroon that reads this one file there. Before that, the coordinator reads the facts of the file at the mover as the client will:
//! stock clients that cannot open a file where they are sent to do not come back. Where no mover can serve the file, the coordinator does.
//!
//! Files that are written stay at the coordinator: it alone knows who else has them open.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use auth::AccessKey;
use auth::trust::{HTTP_BY_KEY_ALPN, Trust, client_config};
use model::fault::with_causes;
use model::{HostPort, Meta};
use parking_lot::Mutex;
use rustls::ClientConfig;
use web::target::{encode, encode_value};
use web::{Client, Dialer, Headers, HttpUrl, Method, date};
use xroot::RootAnswer;

use super::resolved::ExportPath;
use crate::clock::unix_seconds;
use crate::movers::RootMovers;

/// Smaller files stay at the coordinator: another connection would cost more than it saves. The engine uses movers from this size on, too.
pub(super) const FILE_BYTES_MIN: u64 = 64 << 20;
/// The parameter of an open that was redirected once. It is not redirected again: movers may be coordinators of each other.
pub(super) const REDIRECTED: &str = "longhaul.redirected";
/// A mover that could not serve a file is not asked again for this time.
const PAUSE: Duration = Duration::from_secs(60);
/// How long a macaroon is valid, at most and at least: the client opens the file at once, or after it has waited for the mover.
const VALID_S_MAX: i64 = 900;
const VALID_S_MIN: i64 = 30;
/// Timeout for a connection to a mover, and for a byte of its answer: the client waits meanwhile.
const PATIENCE: Duration = Duration::from_secs(3);

/// A file that a mover may serve.
pub(super) struct LargeFile<'a> {
    pub place: &'a ExportPath,
    pub meta: &'a Meta,
    /// When the client's credential expires, seconds since 1970.
    pub expires: Option<i64>,
}

/// What the node remembers about its movers between redirects.
#[derive(Default)]
pub(super) struct MoverRedirects {
    next: AtomicUsize,
    /// Until when a mover is not asked, for one export or for any.
    paused: Mutex<HashMap<(HostPort, Option<String>), Instant>>,
    /// By mover and export, the coordinator's key that the mover has accepted last.
    accepted: Mutex<HashMap<(HostPort, String), AccessKey>>,
}

/// A mover that serves a file, with a macaroon for it.
#[derive(Debug)]
pub(super) struct Redirect {
    pub mover: HostPort,
    macaroon: String,
}

/// Why a mover cannot serve a file.
struct NoMover {
    why: String,
    /// It is so for this export alone.
    is_of_export: bool,
}

impl NoMover {
    /// A mover that cannot be reached or trusted.
    fn at_all(why: impl Into<String>) -> NoMover {
        NoMover { why: why.into(), is_of_export: false }
    }

    /// A mover that does not serve an export, or other files than this node.
    fn of_export(why: impl Into<String>) -> NoMover {
        NoMover { why: why.into(), is_of_export: true }
    }
}

impl Redirect {
    /// The answer to the client. It names TLS, without which the mover would not take the macaroon.
    pub fn answer(&self) -> RootAnswer {
        let HostPort { host, port } = &self.mover;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let macaroon = encode_value(&self.macaroon);
        RootAnswer::Redirect { port: *port, host: format!("roots://{host}?authz={macaroon}&{REDIRECTED}=1") }
    }
}

impl MoverRedirects {
    /// Chooses a mover for a file, none of those that the client has tried (host names, separated by commas); none if no mover can serve it.
    /// `authorities` are the TLS settings by which clients trust the site's hosts.
    pub fn choose(
        &self,
        movers: &RootMovers,
        authorities: &Arc<ClientConfig>,
        file: &LargeFile<'_>,
        tried: &str,
    ) -> Option<Redirect> {
        let valid_s = file.expires.map_or(VALID_S_MAX, |ends| (ends - unix_seconds()).min(VALID_S_MAX));
        // A request for a macaroon is text.
        if valid_s < VALID_S_MIN || std::str::from_utf8(&file.place.path).is_err() {
            return None;
        }
        let addresses = &movers.addresses;
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let in_turn = (0..addresses.len()).map(|offset| &addresses[first.wrapping_add(offset) % addresses.len()]);
        let was_tried =
            |mover: &HostPort| tried.split(',').any(|host| host.trim_matches(['[', ']']) == mover.host.as_str());
        let left = in_turn.filter(|mover| !was_tried(mover) && !self.is_paused(mover, &file.place.export));
        let mut redirects = left.filter_map(|mover| match self.macaroon(mover, &movers.keys, file, valid_s) {
            Ok(macaroon) => {
                let redirect = Redirect { mover: mover.clone(), macaroon };
                self.use_if_same(redirect, authorities, file)
            }
            Err(no_mover) => self.pause(mover, file, &no_mover),
        });
        redirects.next()
    }

    fn is_paused(&self, mover: &HostPort, export: &str) -> bool {
        let paused = self.paused.lock();
        let lasts = |key| paused.get(&key).is_some_and(|until| Instant::now() < *until);
        lasts((mover.clone(), None)) || lasts((mover.clone(), Some(export.to_owned())))
    }

    /// Leaves a mover out for a while.
    fn pause(&self, mover: &HostPort, file: &LargeFile<'_>, no_mover: &NoMover) -> Option<Redirect> {
        let NoMover { why, is_of_export } = no_mover;
        let export = &file.place.export;
        tracing::warn!(%mover, export, why, "clients of root:// are not sent to this mover for a while");
        let key = (mover.clone(), is_of_export.then(|| export.clone()));
        self.paused.lock().insert(key, Instant::now() + PAUSE);
        None
    }

    /// Gets a macaroon for a file from a mover, by the first of the coordinator's keys that the mover accepts.
    fn macaroon(
        &self,
        mover: &HostPort,
        keys: &[AccessKey],
        file: &LargeFile<'_>,
        valid_s: i64,
    ) -> Result<String, NoMover> {
        let place = (mover.clone(), file.place.export.clone());
        let accepted = self.accepted.lock().get(&place).cloned();
        let own: Vec<AccessKey> = match accepted {
            Some(accepted) if keys.iter().any(|key| (key.id, key.node) == (accepted.id, accepted.node)) => {
                vec![accepted]
            }
            _ => keys_of(mover, keys)?,
        };
        let mut no_mover = NoMover::of_export("the coordinator has no access key of this mover");
        for key in own {
            match macaroon_by_key(mover, &key, file.place, valid_s) {
                Ok(macaroon) => {
                    self.accepted.lock().insert(place, key);
                    return Ok(macaroon);
                }
                Err(failed) if failed.is_of_export => no_mover = failed,
                Err(failed) => return Err(failed),
            }
        }
        self.accepted.lock().remove(&place);
        Err(no_mover)
    }

    /// The redirect, if a client that follows it gets this file.
    fn use_if_same(
        &self,
        redirect: Redirect,
        authorities: &Arc<ClientConfig>,
        file: &LargeFile<'_>,
    ) -> Option<Redirect> {
        match check_as_client(&redirect, authorities, file) {
            Ok(()) => Some(redirect),
            Err(no_mover) => self.pause(&redirect.mover, file, &no_mover),
        }
    }
}

/// A dialer for a mover, whose address the operator has named.
fn dialer(tls: Arc<ClientConfig>) -> Dialer {
    Dialer { tls, guard: Arc::new(|_| Ok(())), prepare: None, connect: PATIENCE, silence: PATIENCE }
}

/// The URL of a file at a mover.
fn url_at(mover: &HostPort, place: &ExportPath) -> String {
    format!("https://{mover}/{}/{}", encode(place.export.as_bytes()), encode(&place.path))
}

/// A dialer that trusts nodes by their keys.
fn dialer_by_key(nodes: Vec<auth::Fingerprint>) -> Result<(Dialer, auth::trust::SeenFingerprint), NoMover> {
    let settings = client_config(&Trust::Fingerprints(nodes), vec![HTTP_BY_KEY_ALPN.to_vec()]);
    let (tls, seen) = settings.map_err(|error| NoMover::at_all(error.to_string()))?;
    Ok((dialer(tls), seen))
}

/// The keys that the node at an address has issued: no other node sees them.
fn keys_of(mover: &HostPort, keys: &[AccessKey]) -> Result<Vec<AccessKey>, NoMover> {
    let (dialer, seen) = dialer_by_key(keys.iter().map(|key| key.node).collect())?;
    let url = HttpUrl::parse(&format!("https://{mover}/")).map_err(|error| NoMover::at_all(error.to_string()))?;
    Client::new(&dialer, &url).map_err(|error| NoMover::at_all(with_causes(&error)))?;
    let node = seen.get();
    Ok(keys.iter().filter(|key| Some(key.node) == node).cloned().collect())
}

/// Asks the mover that gave out a key for a macaroon that reads one file.
fn macaroon_by_key(mover: &HostPort, own: &AccessKey, place: &ExportPath, valid_s: i64) -> Result<String, NoMover> {
    let (dialer, _) = dialer_by_key(vec![own.node])?;
    let valid_for = Duration::from_secs(valid_s.unsigned_abs());
    let asked =
        web::post::for_macaroon(&dialer, &url_at(mover, place), Some(&own.expose_text()), "DOWNLOAD", valid_for);
    asked.map_err(|error| NoMover { is_of_export: error.status.is_some(), why: error.to_string() })
}

/// Checks that a client which trusts these authorities gets the same file by a redirect.
fn check_as_client(redirect: &Redirect, authorities: &Arc<ClientConfig>, file: &LargeFile<'_>) -> Result<(), NoMover> {
    let failed = |error: web::ClientError| NoMover::at_all(with_causes(&error));
    let url = HttpUrl::parse(&url_at(&redirect.mover, file.place));
    let url = url.map_err(|error| NoMover::of_export(error.to_string()))?;
    let headers = Headers::new().with("Authorization", format!("Bearer {}", redirect.macaroon));
    let response =
        web::client::fetch(&dialer(Arc::clone(authorities)), &Method::Head, &url, &headers).map_err(failed)?.response;
    if response.status != 200 {
        return Err(NoMover::of_export(format!("it answers {} where this node has a file", response.status)));
    }
    let field = |name: &str| response.headers.get(name).unwrap_or_default().to_owned();
    let is_same =
        field("content-length") == file.meta.size.to_string() && field("last-modified") == date::http(file.meta.mtime);
    if is_same {
        return Ok(());
    }
    Err(NoMover::of_export("it has another file there: is the export the same directory?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_names_tls_the_mover_and_the_macaroon() {
        for (host, written) in [("m1.example", "roots://m1.example"), ("2001:db8::1", "roots://[2001:db8::1]")] {
            let mover = HostPort { host: host.into(), port: 7411 };
            let answer = Redirect { mover, macaroon: "a&b".into() }.answer();
            let host = format!("{written}?authz=a%26b&longhaul.redirected=1");
            assert_eq!(answer, RootAnswer::Redirect { port: 7411, host });
        }
    }

    #[test]
    fn a_mover_that_cannot_be_reached_is_paused_and_the_node_serves_the_file() {
        let place = ExportPath { export: "data".into(), path: b"f".to_vec() };
        let mtime = model::Timestamp { seconds: 1, nanos: 0 };
        let meta = Meta { kind: model::Kind::File, mode: 0o644, size: FILE_BYTES_MIN, mtime };
        let file = LargeFile { place: &place, meta: &meta, expires: None };
        // Nothing listens on port 1 of loopback.
        let [first, second] = ["127.0.0.1", "127.0.0.2"].map(|host| HostPort { host: host.into(), port: 1 });
        let key = AccessKey::new([1; 8], [2; 32], auth::Fingerprint([3; 32]));
        let movers = RootMovers { addresses: vec![first.clone(), second.clone()], keys: Arc::new([key]) };
        let authorities = auth::client_certificate::http_client_config(Arc::new(rustls::RootCertStore::empty()), None);
        let (redirects, authorities) = (MoverRedirects::default(), authorities.unwrap());
        let expired = LargeFile { expires: Some(unix_seconds() + 5), ..file };
        assert!(redirects.choose(&movers, &authorities, &expired, "").is_none());
        assert!(!redirects.is_paused(&first, "data"), "the credential ends too soon: nobody was asked");
        let file = LargeFile { expires: None, ..expired };
        assert!(redirects.choose(&movers, &authorities, &file, "127.0.0.2").is_none());
        assert!(redirects.is_paused(&first, "data"), "it was asked");
        assert!(redirects.is_paused(&first, "other"), "for another export it would not answer either");
        assert!(!redirects.is_paused(&second, "data"), "the client has tried it: it was not asked");
        assert!(redirects.choose(&movers, &authorities, &file, "").is_none());
        assert!(redirects.is_paused(&second, "data"));
    }
}
