//! Redirects to movers. A client that opens a large file for reading at a coordinator is sent to one of its movers, which are taken in turn,
//! with a macaroon that reads this one file there. Where no mover gives one, the coordinator serves the file itself.
//!
//! Files that are written stay at the coordinator: it alone knows who else has them open.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use auth::AccessKey;
use auth::trust::{HTTP_BY_KEY_ALPN, Trust, client_config};
use engine::movers::ConfiguredMovers;
use model::HostPort;
use parking_lot::Mutex;
use rustls::ClientConfig;
use web::target::{encode, encode_value};
use web::{Client, Dialer, HttpUrl};
use xroot::RootAnswer;

use super::resolved::ExportPath;

/// Smaller files stay at the coordinator: another connection would cost more than it saves. The engine uses movers from this size on, too.
pub(super) const FILE_BYTES_MIN: u64 = 64 << 20;
/// A mover that has given no macaroon is not asked again for this time.
const PAUSE: Duration = Duration::from_secs(60);
/// For how long the certificate of a mover counts as verified.
const VERIFIED_FOR: Duration = Duration::from_secs(600);
/// How long a macaroon is valid: the client opens the file at once, or after it has waited for the mover.
const VALID_FOR: Duration = Duration::from_secs(900);
/// Timeout for a connection to a mover, and for a byte of its answer: the client waits meanwhile.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the node remembers about its movers between redirects.
#[derive(Default)]
pub(super) struct MoverRedirects {
    next: AtomicUsize,
    paused: Mutex<HashMap<HostPort, Instant>>,
    verified: Mutex<HashMap<HostPort, Instant>>,
    /// By mover and export, the coordinator's key that the mover has accepted last.
    accepted: Mutex<HashMap<(HostPort, String), AccessKey>>,
}

/// A mover that serves a file, with a macaroon for it.
pub(super) struct Redirect {
    pub mover: HostPort,
    macaroon: String,
}

impl Redirect {
    /// The answer to the client. It names TLS, without which the mover would not take the macaroon.
    pub fn answer(&self) -> RootAnswer {
        let HostPort { host, port } = &self.mover;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        RootAnswer::Redirect { port: *port, host: format!("roots://{host}?authz={}", encode_value(&self.macaroon)) }
    }
}

/// Whether a time is known for a mover that is not over.
fn lasts(times: &Mutex<HashMap<HostPort, Instant>>, mover: &HostPort) -> bool {
    times.lock().get(mover).is_some_and(|until| Instant::now() < *until)
}

impl MoverRedirects {
    /// Chooses a mover for a file, none of those that the client has tried (host names, separated by commas); none if no mover can serve it.
    /// `authorities` are the TLS settings by which clients trust the site's hosts.
    pub fn choose(
        &self,
        movers: &ConfiguredMovers,
        authorities: &Arc<ClientConfig>,
        file: &ExportPath,
        tried: &str,
    ) -> Option<Redirect> {
        let addresses = movers.addresses();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let in_turn = (0..addresses.len()).map(|offset| &addresses[first.wrapping_add(offset) % addresses.len()]);
        let left = in_turn.filter(|mover| !tried.split(',').any(|host| host == mover.host));
        let mut redirects = left.filter(|mover| !lasts(&self.paused, mover)).filter_map(|mover| {
            let macaroon = self
                .verify(mover, authorities)
                .and_then(|()| self.macaroon(mover, movers.keys(), file))
                .inspect_err(|why| {
                    tracing::warn!(%mover, why, "clients of root:// are not sent to this mover for a while");
                    self.paused.lock().insert(mover.clone(), Instant::now() + PAUSE);
                });
            Some(Redirect { mover: mover.clone(), macaroon: macaroon.ok()? })
        });
        redirects.next()
    }

    /// Checks that clients can trust a mover: a client that does not trust its certificate fails, and does not come back.
    fn verify(&self, mover: &HostPort, authorities: &Arc<ClientConfig>) -> Result<(), String> {
        if lasts(&self.verified, mover) {
            return Ok(());
        }
        let url = HttpUrl::parse(&format!("https://{mover}/")).map_err(|error| error.to_string())?;
        Client::new(&dialer(Arc::clone(authorities)), &url).map_err(|error| model::fault::with_causes(&error))?;
        self.verified.lock().insert(mover.clone(), Instant::now() + VERIFIED_FOR);
        Ok(())
    }

    /// Gets a macaroon for a file from a mover, by the first of the coordinator's keys that the mover accepts.
    fn macaroon(&self, mover: &HostPort, keys: &[AccessKey], file: &ExportPath) -> Result<String, String> {
        let place = (mover.clone(), file.export.clone());
        let accepted = self.accepted.lock().remove(&place);
        let mut why = String::from("there is no access key for it");
        for own in accepted.iter().chain(keys) {
            match macaroon_by_key(mover, own, file) {
                Ok(macaroon) => {
                    self.accepted.lock().insert(place, own.clone());
                    return Ok(macaroon);
                }
                Err(error) => why = error,
            }
        }
        Err(why)
    }
}

/// A dialer for a mover, whose address the operator has named.
fn dialer(tls: Arc<ClientConfig>) -> Dialer {
    Dialer { tls, guard: Arc::new(|_| Ok(())), prepare: None, connect: PATIENCE, silence: PATIENCE }
}

/// Asks the mover that gave out a key for a macaroon that reads one file.
fn macaroon_by_key(mover: &HostPort, own: &AccessKey, file: &ExportPath) -> Result<String, String> {
    let trust = Trust::Fingerprints(vec![own.node]);
    let (tls, _) = client_config(&trust, vec![HTTP_BY_KEY_ALPN.to_vec()]).map_err(|error| error.to_string())?;
    let url = format!("https://{mover}/{}/{}", encode(file.export.as_bytes()), encode(&file.path));
    web::post::for_macaroon(&dialer(tls), &url, Some(&own.expose_text()), "DOWNLOAD", VALID_FOR)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str) -> HostPort {
        HostPort { host: host.into(), port: 7411 }
    }

    #[test]
    fn a_redirect_names_tls_the_mover_and_the_macaroon() {
        for (host, written) in
            [("m1.example", "roots://m1.example?authz=a%26b"), ("2001:db8::1", "roots://[2001:db8::1]?authz=a%26b")]
        {
            let redirect = Redirect { mover: at(host), macaroon: "a&b".into() };
            assert_eq!(redirect.answer(), RootAnswer::Redirect { port: 7411, host: written.into() });
        }
    }

    #[test]
    fn a_mover_that_cannot_be_verified_is_paused_and_the_node_serves_the_file() {
        let file = ExportPath { export: "data".into(), path: b"f".to_vec() };
        // Nothing listens on port 1 of loopback.
        let [first, second] = ["127.0.0.1", "127.0.0.2"].map(|host| HostPort { host: host.into(), port: 1 });
        let movers =
            crate::movers::movers(vec![first.clone(), second.clone()], Arc::new([]), engine::Timeouts::default());
        let authorities = auth::client_certificate::http_client_config(Arc::new(rustls::RootCertStore::empty()), None);
        let (redirects, authorities) = (MoverRedirects::default(), authorities.unwrap());
        assert!(redirects.choose(&movers, &authorities, &file, "127.0.0.2").is_none());
        assert!(lasts(&redirects.paused, &first), "it was asked");
        assert!(!lasts(&redirects.paused, &second), "the client has tried it: it was not asked");
        assert!(redirects.choose(&movers, &authorities, &file, "").is_none());
        assert!(lasts(&redirects.paused, &second));
    }
}
