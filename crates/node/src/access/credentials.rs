//! The credentials of this node, for the authentication of HTTP requests.

use std::sync::Arc;

use auth::{AccessKey, Grant, Policy, Rights};
use authn::Credentials;
use model::{Fault, Refusal};

use super::AccessControl;

impl Credentials for AccessControl {
    fn policy(&self) -> Arc<Policy> {
        AccessControl::policy(self)
    }

    fn anonymous(&self) -> Option<Rights> {
        AccessControl::anonymous(self)
    }

    fn grant_of_key(&self, key: &AccessKey) -> Result<Grant, Refusal> {
        AccessControl::grant_of_key(self, key)
    }

    fn is_delegated(&self, grant: &Grant) -> bool {
        AccessControl::is_delegated(self, grant)
    }

    fn macaroon_key(&self) -> Result<[u8; 32], Refusal> {
        self.state().macaroon_key().map_err(|error| Refusal::new(Fault::Local, error.to_string()))
    }

    fn is_valid(&self, holder: &str) -> bool {
        self.is_holder_valid(holder)
    }
}
