//! The principal of a request.

use std::sync::Arc;

use auth::x509::Identity;
use auth::{Access, Actions, Claims, Ticket};

/// The sender of a request, with its rights and its credential.
pub struct Principal {
    /// The rights of the principal.
    pub access: Access,
    /// The request presented no valid credential. A better credential may get a better answer.
    pub is_anonymous: bool,
    /// The credential that was accepted.
    pub credential: Credential,
    /// The reason why the presented credential is rejected, where the request may still read public data.
    pub rejected: Option<String>,
}

/// A credential that was checked, without its secret.
#[derive(Debug)]
pub enum Credential {
    /// None was presented.
    None,
    /// An access key.
    Key {
        /// The id of its grant.
        id: String,
    },
    /// A token.
    Token {
        /// Its claims.
        claims: Box<Claims>,
    },
    /// A macaroon.
    Macaroon {
        /// Its id.
        uuid: String,
        /// The name of the principal to whom it was issued.
        name: String,
    },
    /// A certificate, by TLS.
    Certificate {
        /// The identity of the holder.
        identity: Arc<Identity>,
    },
}

impl Principal {
    /// A principal that has not been authenticated.
    pub fn unknown() -> Principal {
        Principal { access: no_access(), is_anonymous: true, credential: Credential::None, rejected: None }
    }
}

impl Credential {
    /// Whether it is a bearer credential (RFC 6750): a key, a token or a macaroon, wherever in the request it was presented.
    pub(crate) fn is_bearer(&self) -> bool {
        matches!(self, Credential::Key { .. } | Credential::Token { .. } | Credential::Macaroon { .. })
    }
}

/// No rights: those of an anonymous client where nothing is public.
pub(crate) fn no_access() -> Access {
    let (who, holder) = ("nobody".to_owned(), auth::access::ANONYMOUS.to_owned());
    Access::Ticket(Arc::new(Ticket { who, holder, permits: Vec::new(), everywhere: Actions::NONE, expires: None }))
}
