//! Authenticates HTTP requests: from what a request presents to the one [`auth::Access`] that answers every question of
//! authorization. Access keys, tokens (RFC 9068, WLCG profile 1.3), macaroons, client certificates and sessions of browsers count.
//!
//! A service gives its [`Credentials`], six answers, and asks its [`Authenticator`] for the [`Principal`] of each request. A node
//! answers them from its exports, another service from its own roles. For services of tower, as axum's are, the authenticator is a [`tower::AuthenticateLayer`].
//!
//! Does not know: which service runs, what is asked of it, which paths or roles there are. It blocks while the keys of a token's
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
pub use presented::{AuthRequest, ClientCertificate, Presented};
pub use principal::{Credential, Principal};
