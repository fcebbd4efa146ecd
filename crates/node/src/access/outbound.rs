//! Which connections a node makes on behalf of a principal, for every protocol of the node.

use model::Refusal;
use std::net::IpAddr;
use std::sync::Arc;

use auth::policy::ThirdParty;
use auth::{Access, Denied};
use engine::dial::Guard;

use super::{AccessControl, refusal};

impl AccessControl {
    /// Whether a principal may have this node connect to another server, for a third-party copy or a transfer. `other` names
    /// the server in the error text.
    ///
    /// # Errors
    /// The client is anonymous and the policy does not allow it: the node would connect for anybody to hosts that only the
    /// node can reach, and tell whether they answer.
    pub fn may_have_connect(&self, access: &Access, other: &str) -> Result<(), Refusal> {
        if access.is_anonymous() && !self.serves_one_copy && !self.policy().third_party.for_anonymous {
            return Err(refusal(&Denied::AnonymousCopies(other.to_owned())));
        }
        Ok(())
    }

    /// Whether this node may dial an address on behalf of a principal. `on_loopback` allows loopback addresses, for a node that
    /// listens only there.
    ///
    /// # Errors
    /// The policy forbids the address; the text says why.
    pub fn may_dial(&self, address: IpAddr, on_loopback: bool) -> Result<(), String> {
        check(&self.rules(on_loopback), address)
    }

    /// The check of [`AccessControl::may_dial`] as a function, with the present policy.
    pub fn dial_guard(&self, on_loopback: bool) -> Arc<Guard> {
        let rules = self.rules(on_loopback);
        Arc::new(move |address| check(&rules, address))
    }

    fn rules(&self, on_loopback: bool) -> ThirdParty {
        let rules = self.policy().third_party.clone();
        // The operator of a node that exists for one copy may dial any address.
        ThirdParty { local: rules.local || self.serves_one_copy, loopback: on_loopback, ..rules }
    }
}

fn check(rules: &ThirdParty, address: IpAddr) -> Result<(), String> {
    rules.check(address, &sys::addresses::is_own).map_err(|denied| denied.to_string())
}
