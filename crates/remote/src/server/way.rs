//! The way of a request through redirects: who is asked next, what is sent along, and where an export's server may send us.
//!
//! Guests of a node choose what is asked of an export's server, and that server chooses where it sends on to. So it sends nobody
//! to what only the node can reach: its loopback, its links, a private network, unless the server itself is there.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use auth::policy::ThirdParty;
use web::client::{ClientError, REDIRECTS_MAX, follow};
use web::{Dialer, Headers, HttpUrl, Response};

use crate::failed::Failed;

/// Where a server may send us on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    /// Anywhere: who asks is who typed the address.
    Anywhere,
    /// To public addresses, and to those of its own kind (loopback, link, private).
    OfItsKind,
}

/// A request on its way.
pub(super) struct Way {
    pub url: HttpUrl,
    pub headers: Headers,
    /// Nobody but the first server has been asked: we may say who we are.
    pub own: bool,
    /// The address of the first server, where it has sent us on.
    origin: Option<SocketAddr>,
    redirects: usize,
}

impl Way {
    pub fn new(url: &HttpUrl, headers: Headers) -> Way {
        Way { url: url.clone(), headers, own: true, origin: None, redirects: 0 }
    }

    /// Goes on where the answer of a server at this address sends us. `false` where it sends nobody on.
    pub fn goes_on(&mut self, response: &Response, peer: SocketAddr) -> Result<bool, Failed> {
        let Some(to) = follow(response, &self.url, &mut self.headers)? else { return Ok(false) };
        if self.redirects == REDIRECTS_MAX {
            return Err(ClientError::Redirects { host: self.url.authority().to_owned() }.into());
        }
        self.redirects += 1;
        self.own &= self.url.is_same_origin(&to);
        self.origin.get_or_insert(peer);
        self.url = to;
        Ok(true)
    }

    /// How the next server is dialled.
    pub fn dialer(&self, dialer: &Dialer, redirects: Redirects) -> Dialer {
        let Some(origin) = self.origin.filter(|_| !self.own && redirects == Redirects::OfItsKind) else {
            return dialer.clone();
        };
        let guard = Arc::clone(&dialer.guard);
        let guard = move |to: &SocketAddr| guard(to).and_then(|()| check(origin.ip(), to.ip()));
        Dialer { guard: Arc::new(guard), ..dialer.clone() }
    }
}

/// Kinds of addresses, by who can reach them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Public,
    Private,
    Loopback,
    Link,
    Nobody,
}

/// By the rules that third-party copies keep to.
fn reach(address: IpAddr) -> Reach {
    let none = ThirdParty { private: false, ..ThirdParty::default() };
    let may = |rules: ThirdParty| rules.check(address, &|_| false).is_ok();
    match () {
        () if may(none.clone()) => Reach::Public,
        () if may(ThirdParty { private: true, ..none.clone() }) => Reach::Private,
        () if may(ThirdParty { loopback: true, ..none.clone() }) => Reach::Loopback,
        () if may(ThirdParty { local: true, private: true, ..none }) => Reach::Link,
        () => Reach::Nobody,
    }
}

/// Whether a server at one address may send us on to another one.
fn check(origin: IpAddr, to: IpAddr) -> Result<(), String> {
    let what = match reach(to) {
        Reach::Public => return Ok(()),
        Reach::Nobody => "nobody's address",
        kind if kind == reach(origin) => return Ok(()),
        Reach::Private => "in a private network",
        Reach::Loopback => "this machine",
        Reach::Link => "on a link of this machine",
    };
    Err(format!(
        "{origin} redirects to {to}, which is {what}; an export is followed to public addresses and those of its own kind"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_sends_to_the_public_and_to_its_own_kind() {
        let kinds = [
            ("192.0.2.1", Reach::Public),
            ("2001:db8::1", Reach::Public),
            ("10.1.2.3", Reach::Private),
            ("fd00::1", Reach::Private),
            ("127.0.0.1", Reach::Loopback),
            ("::1", Reach::Loopback),
            ("::ffff:127.0.0.2", Reach::Loopback),
            ("169.254.169.254", Reach::Link),
            ("fe80::1", Reach::Link),
            ("0.0.0.0", Reach::Link),
            // A gateway would send these on to 127.0.0.1 and to a cloud's metadata.
            ("64:ff9b::7f00:1", Reach::Link),
            ("64:ff9b::a9fe:a9fe", Reach::Link),
            ("224.0.0.1", Reach::Nobody),
        ];
        for (from, of) in kinds {
            assert_eq!(reach(from.parse().unwrap()), of, "{from}");
            for (to, kind) in kinds {
                let may = kind == Reach::Public || kind == of && kind != Reach::Nobody;
                assert_eq!(check(from.parse().unwrap(), to.parse().unwrap()).is_ok(), may, "{from} -> {to}");
            }
        }
        let why = check("192.0.2.1".parse().unwrap(), "169.254.169.254".parse().unwrap()).unwrap_err();
        assert!(why.contains("redirects to 169.254.169.254, which is on a link of this machine"), "{why}");
    }
}
