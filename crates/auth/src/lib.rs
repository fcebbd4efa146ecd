//! Who may do what: access keys and grants, tokens, macaroons, certificates and the policy become one [`Access`], which
//! answers every question the node asks.
//!
//! What this crate does not know: files, sockets, clocks, randomness. Keys, random bytes and the time are arguments; the
//! door reads files and the clock, and fetches issuers' keys. This is the boundary that a security review reads first.

pub mod access;
pub mod actions;
mod address_prefix;
pub mod client_certificate;
pub mod fuzzing;
pub mod grant;
pub mod grants;
pub mod issuer;
pub mod key;
pub mod limits;
pub mod macaroon;
mod mark;
pub mod policy;
pub mod token;
pub mod trust;
pub mod x509;

pub use access::{Access, Denied, Permit, Ticket};
pub use actions::{Action, Actions};
pub use grant::{Errand, Grant, Rights, hex};
pub use grants::Grants;
pub use issuer::Issuer;
pub use key::{AccessKey, Fingerprint};
pub use macaroon::{Held, MacaroonError, MacaroonRequest};
pub use policy::{Policy, PolicyError, Visitor};
pub use token::{Claims, Jwks, TokenError};
