//! Authorization: access keys and grants, tokens, macaroons, certificates and the policy become one [`Access`], which decides whether
//! a principal may do an action at a path.
//!
//! What this crate does not know: files, sockets, clocks, randomness. Keys, random bytes and the time are arguments; the
//! node reads files and the clock, and fetches issuers' keys. A security review begins with this crate.
//!
//! A node makes an access key; the text of the key is all that its holder needs:
//!
//! ```
//! use auth::{AccessKey, Fingerprint};
//!
//! let key = AccessKey::new([1; 8], [2; 32], Fingerprint([3; 32]));
//! let text = key.expose_text();
//! assert!(text.starts_with("lhk1_"));
//! assert_eq!(text.parse::<AccessKey>()?.expose_secret(), &[2; 32]);
//! assert!(text.replace('A', "B").parse::<AccessKey>().is_err(), "a damaged key is refused");
//! # Ok::<(), auth::key::KeyError>(())
//! ```

pub mod access;
pub mod actions;
mod address_prefix;
pub mod approved;
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
mod voms_attributes;
pub mod x509;

pub use access::{Access, Denied, Permit, Ticket};
pub use actions::{Action, Actions};
pub use grant::{DelegatedScope, Grant, Rights, hex};
pub use grants::Grants;
pub use issuer::Issuer;
pub use key::{AccessKey, Fingerprint};
pub use macaroon::{MacaroonError, MacaroonRequest, VerifiedMacaroon};
pub use policy::{Policy, PolicyError, PresentedCredentials};
pub use token::{Claims, Jwks, TokenError};
