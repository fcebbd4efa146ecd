//! Who may do what: access keys and grants, tokens, macaroons, certificates and the policy become one [`Access`], which
//! answers every question the node asks.
//!
//! What this crate does not know: files, sockets, clocks, randomness. Keys, random bytes and the time are arguments; the
//! door reads files and the clock, and fetches issuers' keys. This is the boundary that a security review reads first.

pub mod access;
pub mod fuzzing;
pub mod grant;
pub mod key;
pub mod limits;
pub mod macaroon;
pub mod policy;
pub mod token;

pub use access::{Access, Action, Actions, Denied, Permit, Ticket};
pub use grant::{Errand, Grant, Grants, Rights, hex};
pub use key::{AccessKey, Fingerprint};
pub use macaroon::{Held, MacaroonError, MacaroonRequest};
pub use policy::{Issuer, Policy, PolicyError, Visitor};
pub use token::{Claims, Jwks, TokenError};
