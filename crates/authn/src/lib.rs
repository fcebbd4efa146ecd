//! Authenticates HTTP requests: checks the credential of a request and returns the [`auth::Access`] that decides every question of
//! authorization. It accepts access keys, tokens (RFC 9068, WLCG profile 1.3), macaroons, client certificates and sessions of browsers.
//!
//! A service implements [`Credentials`] and asks its [`Authenticator`] for the [`Principal`] of each request. A node implements it
//! from its exports, another service from its own roles. For services of tower, such as those of axum, the authenticator is a
//! [`tower::AuthenticateLayer`].
//!
//! Does not know: which service runs, what a request asks for, which paths or roles exist. It blocks while the keys of a token's
//! issuer are fetched, and while a client that guesses credentials waits.

mod authenticator;
mod backoff;
pub mod code_flow;
mod credentials;
mod issuers;
mod presented;
mod principal;
pub mod sessions;
pub mod tower;

pub use authenticator::Authenticator;
pub use credentials::Credentials;
pub use issuers::Issuers;
pub use presented::{AuthRequest, Presented};
pub use principal::{Credential, Principal};
