//! What a service answers so that its requests can be authenticated.

use std::sync::Arc;

use auth::{AccessKey, Grant, Policy, Rights};
use model::Refusal;

/// The keys, rules and secrets of a service. Asked anew for each request, so that a change counts from the next one on.
pub trait Credentials: Send + Sync {
    /// Which addresses are served, whose tokens count, and what is allowed to whom.
    fn policy(&self) -> Arc<Policy>;

    /// Rights of an anonymous client, besides those that the policy gives.
    fn anonymous(&self) -> Option<Rights>;

    /// The grant that an access key proves.
    ///
    /// # Errors
    /// No such grant, or it has expired or was revoked ([`Fault::Auth`](model::Fault::Auth)); any other fault says that the service
    /// could not find out.
    fn grant_of_key(&self, key: &AccessKey) -> Result<Grant, Refusal>;

    /// Whether a grant was delegated for one transfer. It then counts in the native protocol alone.
    fn is_delegated(&self, grant: &Grant) -> bool;

    /// Whether a credential that counts is enough to come in, without a rule for it: the service has roles of its own.
    fn admits_all_known(&self) -> bool {
        false
    }

    /// The secret that macaroons of this service are made with.
    ///
    /// # Errors
    /// The secret cannot be read; the reason is for the log of the service.
    fn macaroon_key(&self) -> Result<[u8; 32], Refusal>;

    /// Whether the holder of a credential, as [`auth::Access::holder`] names it, still has it: a macaroon ends with the key that it was
    /// made from.
    fn is_valid(&self, holder: &str) -> bool;
}
