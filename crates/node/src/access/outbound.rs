//! Where a node connects to on behalf of somebody, and on whose behalf it does. Every protocol of the node asks here.

use model::Refusal;
use std::net::IpAddr;
use std::sync::Arc;

use auth::policy::ThirdParty;
use auth::{Access, Denied};
use engine::dial::Guard;

use super::{AccessControl, refuse};

impl AccessControl {
    /// Whether somebody may have this node connect elsewhere: a third-party copy, a transfer. `other` is where, for people.
    ///
    /// # Errors
    /// Guests may not unless the policy says so: the node would reach for anybody what only it can reach, and tell whether
    /// something answers there.
    pub fn may_send_out(&self, access: &Access, other: &str) -> Result<(), Refusal> {
        match access.is_guest() && !self.own_guests && !self.policy().third_party.guests {
            true => Err(refuse(&Denied::GuestCopies(other.to_owned()))),
            false => Ok(()),
        }
    }

    /// Whether an address is dialled on behalf of somebody; to loopback addresses where the node is reached there alone.
    pub fn may_dial(&self, address: IpAddr, on_loopback: bool) -> Result<(), String> {
        check(&self.rules(on_loopback), address)
    }

    /// The same, as it stands now.
    pub fn dial_guard(&self, on_loopback: bool) -> Arc<Guard> {
        let rules = self.rules(on_loopback);
        Arc::new(move |address| check(&rules, address))
    }

    fn rules(&self, on_loopback: bool) -> ThirdParty {
        let rules = self.policy().third_party.clone();
        // Its own user may dial what he likes.
        ThirdParty { local: rules.local || self.own_guests, loopback: on_loopback, ..rules }
    }
}

fn check(rules: &ThirdParty, address: IpAddr) -> Result<(), String> {
    rules.check(address, &sys::addresses::is_own).map_err(|denied| denied.to_string())
}
