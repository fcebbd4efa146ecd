//! Third-party copies from this node: a client announces a key and the target, and the target opens the file by the key, with the rights
//! of the client.

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use authn::Principal;
use parking_lot::Mutex;
use xroot::ErrorCode;

use super::failure::{RootOutcome, refuse};
use super::resolved::ExportPath;

/// How long an announcement is valid, unless the client says less. The target connects and logs in meanwhile: at 300 ms that takes two
/// seconds.
const LIFETIME: Duration = Duration::from_secs(15);
/// Announcements of all clients.
const ANNOUNCED_MAX: usize = 4096;
/// Characters of a key.
const KEY_CHARS_MAX: usize = 256;

/// A copy that a client has announced.
pub(super) struct AnnouncedCopy {
    /// The client, whose rights the target has.
    pub principal: Arc<Principal>,
    pub place: ExportPath,
    /// The host of the target, as the client names it.
    pub target: String,
}

/// The announced copies, by their keys. A key opens a file once.
#[derive(Default)]
pub(super) struct AnnouncedCopies(Mutex<HashMap<String, (Instant, AnnouncedCopy)>>);

impl AnnouncedCopies {
    /// Adds a copy, for at most this time.
    ///
    /// # Errors
    /// Another copy has the key, or there are too many.
    pub fn add(&self, key: String, copy: AnnouncedCopy, lifetime_s: Option<u64>) -> RootOutcome<()> {
        let lifetime = lifetime_s.map_or(LIFETIME, |seconds| Duration::from_secs(seconds).min(LIFETIME));
        let now = Instant::now();
        let mut known = self.0.lock();
        known.retain(|_, (until, _)| *until > now);
        if key.len() > KEY_CHARS_MAX || known.contains_key(&key) {
            return Err(refuse(
                ErrorCode::ArgInvalid,
                "the key of the third-party copy is too long, or used by another one",
            ));
        }
        if known.len() >= ANNOUNCED_MAX {
            return Err(refuse(ErrorCode::Overloaded, "too many third-party copies begin at once; try again later"));
        }
        known.insert(key, (now + lifetime, copy));
        Ok(())
    }

    /// The client that allows the target at this address to read a file; the key is used up.
    ///
    /// # Errors
    /// The key is unknown, used or too old, or it is for another file or another target.
    pub fn take(&self, key: &str, place: &ExportPath, peer: IpAddr) -> RootOutcome<Arc<Principal>> {
        let found = self.0.lock().remove(key).filter(|(until, copy)| *until > Instant::now() && copy.place == *place);
        let Some((_, copy)) = found else {
            let reason = "tpc authorization expired: the key of this third-party copy is unknown, used, older than 15 s, or for another file";
            return Err(refuse(ErrorCode::NotAuthorized, reason));
        };
        if !is_address_of(&copy.target, peer) {
            let reason =
                format!("the client has announced a copy to {}, which does not have the address {peer}", copy.target);
            return Err(refuse(ErrorCode::NotAuthorized, reason));
        }
        Ok(copy.principal)
    }
}

/// Whether a host, with or without a port, has an address. All addresses of this host are the same here: a target on the same host may
/// connect from any of them.
fn is_address_of(host: &str, address: IpAddr) -> bool {
    let address = address.to_canonical();
    let Ok(known) = (host_alone(host), 0).to_socket_addrs() else { return false };
    let known: Vec<IpAddr> = known.map(|known| known.ip().to_canonical()).collect();
    known.contains(&address) || sys::addresses::is_own(address) && known.into_iter().any(sys::addresses::is_own)
}

/// `HOST` of `HOST:PORT`, without the brackets of an IPv6 address.
fn host_alone(text: &str) -> &str {
    match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inner, _)) => inner,
        None if text.matches(':').count() == 1 => text.split(':').next().unwrap_or_default(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(target: &str) -> AnnouncedCopy {
        let principal = Arc::new(Principal::unknown());
        let place = ExportPath { export: "data".into(), path: b"f".to_vec() };
        AnnouncedCopy { principal, place, target: target.into() }
    }

    #[test]
    fn a_key_opens_its_file_once_for_its_target() {
        let (copies, here) = (AnnouncedCopies::default(), IpAddr::from([192, 0, 2, 7]));
        let place = copy("192.0.2.7").place;
        let refused = |taken: RootOutcome<Arc<Principal>>| taken.is_err();
        copies.add("k".into(), copy("192.0.2.7:1094"), None).unwrap();
        assert!(copies.add("k".into(), copy("192.0.2.7"), None).is_err(), "the key is in use");
        assert!(copies.take("k", &place, here).is_ok());
        assert!(refused(copies.take("k", &place, here)), "the key is used");
        for (target, lifetime_s, path) in
            [("192.0.2.8", None, "f"), ("192.0.2.7", Some(0), "f"), ("192.0.2.7", None, "g")]
        {
            copies.add("k".into(), copy(target), lifetime_s).unwrap();
            let place = ExportPath { path: path.into(), ..place.clone() };
            assert!(refused(copies.take("k", &place, here)), "{target} {lifetime_s:?} {path}");
        }
    }

    #[test]
    fn hosts_are_compared_by_their_addresses() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        for (host, of) in
            [("192.0.2.7:1094", "192.0.2.7"), ("[2001:db8::1]:1094", "2001:db8::1"), ("2001:db8::1", "2001:db8::1")]
        {
            assert!(is_address_of(host, address(of)), "{host}");
        }
        assert!(is_address_of("localhost:1094", address("::ffff:127.0.0.1")));
        assert!(!is_address_of("192.0.2.7:1094", address("192.0.2.8")));
        assert!(!is_address_of("no such host", address("192.0.2.8")));
    }
}
