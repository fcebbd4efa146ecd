//! The interface through which a service gives its keys, rules and secrets to the authenticator.

use std::sync::Arc;

use auth::{AccessKey, Grant, Policy, Rights};
use model::Refusal;

/// The keys, rules and secrets of a service. The authenticator calls it for each request, so that a change takes effect with the
/// next one.
pub trait Credentials: Send + Sync {
    /// The served addresses, the trusted issuers of tokens, and the rules of access.
    fn policy(&self) -> Arc<Policy>;

    /// Rights of an anonymous client in addition to those that the policy gives.
    fn anonymous(&self) -> Option<Rights>;

    /// The grant that an access key proves.
    ///
    /// # Errors
    /// No such grant, or it has expired or was revoked ([`Fault::Auth`](model::Fault::Auth)); any other fault means that the service
    /// could not check the key.
    fn grant_of_key(&self, key: &AccessKey) -> Result<Grant, Refusal>;

    /// Whether a grant was delegated for one transfer. Such a grant is valid only in the native protocol.
    fn is_delegated(&self, grant: &Grant) -> bool;

    /// Whether every valid credential is admitted, without a rule for it: for services with roles of their own.
    fn admits_all_known(&self) -> bool {
        false
    }

    /// The secret with which macaroons of this service are signed.
    ///
    /// # Errors
    /// The secret cannot be read; the reason is for the log of the service.
    fn macaroon_key(&self) -> Result<[u8; 32], Refusal>;

    /// Whether the credential of a holder ([`auth::Access::holder`]) is still valid: a macaroon ends with the key that it was made
    /// from.
    fn is_valid(&self, holder: &str) -> bool;
}
