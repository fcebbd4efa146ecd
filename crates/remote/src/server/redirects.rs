//! The redirects of a request: the next address, the headers that go with it, and the addresses to which the server of an export
//! may redirect.
//!
//! Clients of a node choose the requests to an export's server, and that server chooses its redirects. So no redirect is followed
//! to an address that only the node can reach (its loopback, its links, a private network), unless the server itself is there.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use auth::policy::ThirdParty;
use web::client::{ClientError, REDIRECTS_MAX, follow};
use web::{Dialer, Headers, HttpUrl, Response};

use crate::request_error::RequestError;

/// The addresses to which a server may redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    /// All addresses: the user who typed the address makes the request.
    Anywhere,
    /// Public addresses, and those of the server's own kind (loopback, link, private).
    SameKind,
}

impl Redirects {
    /// The dialer for a server to which the one at `origin` redirects: with [`Redirects::SameKind`] its guard checks the address.
    pub(crate) fn dialer(self, dialer: &Dialer, origin: SocketAddr) -> Dialer {
        if self == Redirects::Anywhere {
            return dialer.clone();
        }
        let guard = Arc::clone(&dialer.guard);
        let guard = move |to: &SocketAddr| guard(to).and_then(|()| check(origin.ip(), to.ip()));
        Dialer { guard: Arc::new(guard), ..dialer.clone() }
    }
}

/// A request, and the redirects that it has followed.
pub(super) struct RedirectChain {
    pub url: HttpUrl,
    pub headers: Headers,
    /// The request goes to the first server, so the credential may be sent.
    pub is_first_server: bool,
    /// The address of the first server, once it has redirected.
    origin: Option<SocketAddr>,
    redirects: usize,
}

impl RedirectChain {
    pub fn new(url: &HttpUrl, headers: Headers) -> RedirectChain {
        RedirectChain { url: url.clone(), headers, is_first_server: true, origin: None, redirects: 0 }
    }

    /// Follows the redirect in the response of the server at `peer`. Returns `false` where the response is no redirect.
    ///
    /// # Errors
    /// The redirect leads from TLS to clear text, or is one too many.
    pub fn advance(&mut self, response: &Response, peer: SocketAddr) -> Result<bool, RequestError> {
        let Some(to) = follow(response, &self.url, &mut self.headers)? else { return Ok(false) };
        if self.redirects == REDIRECTS_MAX {
            return Err(ClientError::Redirects { host: self.url.authority().to_owned() }.into());
        }
        self.redirects += 1;
        self.is_first_server &= self.url.is_same_origin(&to);
        self.origin.get_or_insert(peer);
        self.url = to;
        Ok(true)
    }

    /// The dialer for the next server: with [`Redirects::SameKind`] its guard checks the address.
    pub fn dialer(&self, dialer: &Dialer, redirects: Redirects) -> Dialer {
        match self.origin {
            Some(origin) if !self.is_first_server => redirects.dialer(dialer, origin),
            _ => dialer.clone(),
        }
    }
}

/// The kind of an address: which hosts can reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressKind {
    Public,
    Private,
    Loopback,
    Link,
    NotUnicast,
}

/// The kind of an address, by the rules for third-party copies.
fn kind_of(address: IpAddr) -> AddressKind {
    let none = ThirdParty { private: false, ..ThirdParty::default() };
    let may = |rules: ThirdParty| rules.check(address, &|_| false).is_ok();
    if may(none.clone()) {
        AddressKind::Public
    } else if may(ThirdParty { private: true, ..none.clone() }) {
        AddressKind::Private
    } else if may(ThirdParty { loopback: true, ..none.clone() }) {
        AddressKind::Loopback
    } else if may(ThirdParty { local: true, private: true, ..none }) {
        AddressKind::Link
    } else {
        AddressKind::NotUnicast
    }
}

/// Checks that a server at `origin` may redirect to `to`.
fn check(origin: IpAddr, to: IpAddr) -> Result<(), String> {
    let what = match kind_of(to) {
        AddressKind::Public => return Ok(()),
        AddressKind::NotUnicast => "not a unicast address",
        kind if kind == kind_of(origin) => return Ok(()),
        AddressKind::Private => "in a private network",
        AddressKind::Loopback => "this machine",
        AddressKind::Link => "on a link of this machine",
    };
    Err(format!(
        "{origin} redirects to {to}, which is {what}; a server may redirect only to public addresses and to addresses of its own kind"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_redirect_to_public_addresses_and_to_its_own_kind() {
        let kinds = [
            ("192.0.2.1", AddressKind::Public),
            ("2001:db8::1", AddressKind::Public),
            ("10.1.2.3", AddressKind::Private),
            ("fd00::1", AddressKind::Private),
            ("127.0.0.1", AddressKind::Loopback),
            ("::1", AddressKind::Loopback),
            ("::ffff:127.0.0.2", AddressKind::Loopback),
            ("169.254.169.254", AddressKind::Link),
            ("fe80::1", AddressKind::Link),
            ("0.0.0.0", AddressKind::Link),
            // A gateway would forward these to 127.0.0.1 and to a cloud's metadata service.
            ("64:ff9b::7f00:1", AddressKind::Link),
            ("64:ff9b::a9fe:a9fe", AddressKind::Link),
            ("224.0.0.1", AddressKind::NotUnicast),
        ];
        for (from, of) in kinds {
            assert_eq!(kind_of(from.parse().unwrap()), of, "{from}");
            for (to, kind) in kinds {
                let may = kind == AddressKind::Public || kind == of && kind != AddressKind::NotUnicast;
                assert_eq!(check(from.parse().unwrap(), to.parse().unwrap()).is_ok(), may, "{from} -> {to}");
            }
        }
        let why = check("192.0.2.1".parse().unwrap(), "169.254.169.254".parse().unwrap()).unwrap_err();
        assert!(why.contains("redirects to 169.254.169.254, which is on a link of this machine"), "{why}");
    }
}
