//! Authentication by access keys and authorisation by the policy, the same for every protocol of the node.

use model::Refusal;
use std::net::IpAddr;
use std::sync::Arc;

use auth::access::ANONYMOUS;
use auth::{Access, AccessKey, Action, Denied, Grant, Grants, Policy, PresentedCredentials, Rights};
use model::fault::Fault;
use model::locator::NodePlace;
use wire::frame::{JobName, KeyProof};

use super::{AccessControl, refusal};
use crate::clock::unix_seconds;
use crate::holder_bound::HolderBound;

/// Validity of a key for one transfer, seconds: longer than any transfer, short enough that unused keys do not accumulate.
const TRANSFER_KEY_SECONDS: i64 = 30 * 24 * 3600;

/// Keys for single transfers that are valid at once: for each holder, and in all.
const TRANSFER_KEYS_MAX: HolderBound = HolderBound { each: 256, all: 4096 };

fn unreadable(error: &client::StateError) -> Refusal {
    tracing::error!(%error, "grants cannot be read: no client is accepted");
    Refusal::new(Fault::Local, "the node cannot read its grants; its operator must look at its log")
}

impl AccessControl {
    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.live.load_full().policy.policy()
    }

    /// The rights of anonymous clients in every export, besides those that the policy gives them.
    pub fn anonymous(&self) -> Option<Rights> {
        self.live.load_full().anonymous
    }

    /// Whether an export is writable; none if there is no such export. Does not check who may see the export.
    pub fn is_writable(&self, export: &str) -> Option<bool> {
        self.live.load_full().export(export).map(|served| served.export.writable)
    }

    /// The state directory.
    pub fn state(&self) -> &client::StateDir {
        &self.state
    }

    /// The access of a client that logs in by the native protocol.
    ///
    /// # Errors
    /// The policy does not admit the address, or the key is unknown, expired or revoked.
    pub fn log_in(&self, key: Option<&KeyProof>, address: IpAddr) -> Result<Access, Refusal> {
        // The client is this node itself, on behalf of a principal that it has authenticated already.
        if let Some(access) = key.and_then(|key| self.delegations.take_loopback(&key.id, &key.secret)) {
            return Ok(access);
        }
        let live = self.live.load_full();
        let policy = live.policy.policy();
        // Checked before the key: an address that is not admitted learns nothing about keys.
        if !policy.admits(address) {
            return Err(refusal(&Denied::Address(address)));
        }
        let grant = key.map(|key| self.grant_of_proof(&key.id, &key.secret)).transpose()?;
        // A key for a single copy or for a scratch place gives that right and no other, whatever the rules say.
        let has_no_rules = |grant: &&Grant| self.is_delegated(grant) || self.is_of_scratch_place(&grant.id);
        if let Some(grant) = grant.as_ref().filter(has_no_rules) {
            return Ok(Access::Granted(grant.clone()));
        }
        let credentials = PresentedCredentials {
            grant: grant.as_ref(),
            anonymous: live.anonymous,
            ..PresentedCredentials::new(address)
        };
        policy.access(&credentials).map_err(|denied| refusal(&denied))
    }

    /// The grant that a key proves.
    ///
    /// # Errors
    /// The key is unknown or expired, or the grants cannot be read.
    pub fn grant_of_key(&self, key: &AccessKey) -> Result<Grant, Refusal> {
        self.grant_of_proof(&key.id, key.expose_secret())
    }

    fn grant_of_proof(&self, id: &[u8; 8], secret: &[u8; 32]) -> Result<Grant, Refusal> {
        let granted = |access: Access| match access {
            Access::Granted(grant) => Ok(grant),
            _ => Err(refusal(&Denied::UnknownKey)),
        };
        if let Ok(access) = self.grants.check(id, secret, unix_seconds()) {
            return granted(access);
        }
        if let Some((grant, parent)) = self.delegations.check(id, secret, unix_seconds()) {
            return if self.is_holder_valid(&parent) { Ok(grant) } else { Err(refusal(&Denied::UnknownKey)) };
        }
        if let Some(grant) = self.scratch.as_ref().and_then(|places| places.grant_of_key(id, secret)) {
            return Ok(grant);
        }
        let transfer_grants = self.state.transfer_grants().map_err(|e| unreadable(&e))?;
        if let Ok(access) = transfer_grants.check(id, secret, unix_seconds()) {
            // The grant of the holder who requested the key may have been revoked since.
            return granted(access).and_then(|grant| match &grant.errand {
                Some(scope) if self.is_holder_valid(&scope.parent) => Ok(grant),
                _ => Err(refusal(&Denied::UnknownKey)),
            });
        }
        let grants = self.state.grants().map_err(|e| unreadable(&e))?;
        grants.check(id, secret, unix_seconds()).map_err(|e| refusal(&e)).and_then(granted)
    }

    /// The grant with this id, if it is valid now.
    fn grant(&self, id: &str) -> Option<Grant> {
        if let Some(grant) = self.scratch.as_ref().and_then(|places| places.grant(id)) {
            return Some(grant);
        }
        let stored = self.state.grants().unwrap_or_default();
        let mut all = self.grants.list.iter().chain(&stored.list);
        let valid = |g: &&Grant| g.id == id && g.expires.is_none_or(|expires| expires > unix_seconds());
        all.find(valid).cloned()
    }

    /// Whether a grant is that of the key of a scratch place which has not ended.
    fn is_of_scratch_place(&self, id: &str) -> bool {
        self.scratch.as_ref().is_some_and(|places| places.grant(id).is_some())
    }

    /// Checks that a principal may order tests from this node, and schedules of such tests.
    ///
    /// # Errors
    /// The principal may see no export, or shows the key of a scratch place, which tests and schedules would outlive.
    pub fn may_order_tests(&self, access: &Access) -> Result<(), Refusal> {
        if self.visible(access).is_empty() {
            return Err(Refusal::new(Fault::Auth, "tests from this node need access to one of its exports"));
        }
        let holder = access.holder();
        if self.is_of_scratch_place(holder.strip_prefix("key:").unwrap_or(holder)) {
            let reason = "the key of a scratch place is for files and transfers; order tests with the key that ordered the place";
            return Err(Refusal::new(Fault::Auth, reason));
        }
        Ok(())
    }

    /// Whether a holder's grant is still valid. The node does not keep tokens and certificates, so it cannot check them again:
    /// the access that they authorised ends with their own expiry.
    pub fn is_holder_valid(&self, holder: &str) -> bool {
        let is_key = !holder.contains(':') || holder.starts_with("key:");
        !is_key || self.access_of(holder).is_some()
    }

    /// Checks that a session may begin another request with the access that it was opened with. The node keeps nothing about
    /// anonymous clients and bearers of tokens; a reload of the policy applies from the next session on.
    ///
    /// # Errors
    /// The credential has expired, or its grant has been revoked.
    pub fn check_session(&self, access: &Access) -> Result<(), Refusal> {
        if let Some(ended) = access.expires().filter(|ends| *ends <= unix_seconds()) {
            return Err(refusal(&Denied::Expired { seconds_ago: unix_seconds() - ended }));
        }
        let is_valid = match (access.grant(), access.holder().strip_prefix("key:")) {
            (Some(grant), _) => self.is_grant_valid(grant),
            (None, Some(id)) => self.grant(id).is_some(),
            (None, None) => true,
        };
        if is_valid { Ok(()) } else { Err(refusal(&Denied::Revoked)) }
    }

    fn is_grant_valid(&self, grant: &Grant) -> bool {
        if let Some(parent) = self.delegations.parent(&grant.id) {
            return self.is_holder_valid(&parent);
        }
        match &grant.errand {
            None => self.grant(&grant.id).is_some(),
            Some(scope) => {
                let known = self.state.transfer_grants().unwrap_or_default();
                known.list.iter().any(|known| known.id == grant.id) && self.is_holder_valid(&scope.parent)
            }
        }
    }

    /// Whether an order of this principal may continue. The node keeps no token, macaroon or certificate that it could check again:
    /// they are valid until their expiry.
    pub fn may_continue(&self, access: &Access) -> bool {
        let has_no_grant = access.ticket().is_some_and(|t| t.holder.contains(':') && !t.holder.starts_with("key:"));
        if has_no_grant {
            access.expires().is_none_or(|expires| expires > unix_seconds())
        } else {
            self.access_of(access.holder()).is_some()
        }
    }

    /// Checks that a transfer with these options may write to a place, as at the transfer's beginning.
    ///
    /// # Errors
    /// The place cannot be written to, the principal lacks a right there, or its key is for another transfer.
    pub fn may_receive(
        &self,
        access: &Access,
        place: &NodePlace,
        job: JobName,
        options: &model::spec::Options,
    ) -> Result<(), Refusal> {
        let path = match place {
            NodePlace::Null => return Ok(()),
            NodePlace::Path { path, .. } => path,
            _ => return Err(Refusal::new(Fault::Config, format!("{place} cannot be written to"))),
        };
        let job = model::id::Uuid::from_bytes(job).to_string();
        if access.grant().is_some_and(|grant| !grant.allows_transfer(&job, Some(path), options.delete.is_allowed())) {
            return Err(Refusal::new(Fault::Auth, "the access key is for another job"));
        }
        self.resolve(access, Action::Create, place)?;
        if options.delete.is_allowed() {
            self.resolve(access, Action::Modify, place)?;
        }
        Ok(())
    }

    /// The access of a transfer's holder after a restart; none if the grant has been removed. Rules for certain addresses do
    /// not apply, because the node does not keep the holder's address.
    pub fn access_of(&self, holder: &str) -> Option<Access> {
        let live = self.live.load_full();
        if holder.is_empty() {
            return live.anonymous.map(Access::Anonymous);
        }
        let unknown_address = IpAddr::from([0, 0, 0, 0]);
        let policy = || Policy { addresses: auth::policy::Addresses::default(), ..(*live.policy.policy()).clone() };
        let credentials =
            PresentedCredentials { anonymous: live.anonymous, ..PresentedCredentials::new(unknown_address) };
        if holder == ANONYMOUS {
            return policy().access(&credentials).ok();
        }
        let Some(id) = holder.strip_prefix("key:") else { return self.grant(holder).map(Access::Granted) };
        let grant = self.grant(id)?;
        policy().access(&PresentedCredentials { grant: Some(&grant), ..credentials }).ok()
    }

    /// A key for one transfer into a place, for another node to use. It has no more rights than the principal has there.
    ///
    /// # Errors
    /// The principal may not write there, too many such keys are valid, or the key cannot be stored.
    pub fn transfer_key(
        &self,
        access: &Access,
        job: &JobName,
        place: &NodePlace,
        delete: bool,
    ) -> Result<AccessKey, Refusal> {
        let (export, path) = match place {
            NodePlace::Null if access.rights() == Rights::Read => {
                return Err(refusal(&Denied::Rights { allowed: "read", needed: "create" }));
            }
            NodePlace::Null => (String::new(), None),
            NodePlace::Path { export, path } => {
                self.resolve(access, Action::Create, place)?;
                (export.clone(), Some(path))
            }
            _ => return Err(Refusal::new(Fault::Config, format!("{place} cannot be written to"))),
        };
        let may_replace = path.is_none() || self.resolve(access, Action::Modify, place).is_ok();
        let rights = if may_replace { Rights::Write } else { Rights::Create };
        let random = |_| Refusal::new(Fault::Local, "the node's system gives no random numbers");
        let (id, secret) = (engine::identity::random().map_err(random)?, engine::identity::random().map_err(random)?);
        let now = unix_seconds();
        let mut grant = Grant::new(id, &secret, export, &access.prefix(), rights, now);
        grant.name = format!("one job of {}", access.who());
        let most = now + TRANSFER_KEY_SECONDS;
        // The node cannot check a token again later: a key that a token authorised expires with the token.
        let ends = access.ticket().and_then(|ticket| ticket.expires);
        grant.expires = Some(ends.map_or(most, |ends| ends.min(most)));
        let job = model::id::Uuid::from_bytes(*job).to_string();
        let path = path.map(|path| auth::hex(path.as_bytes()));
        grant.errand = Some(auth::DelegatedScope { job, path, parent: access.holder().to_owned(), delete });
        self.store_transfer_grant(grant, now)?;
        let node = self.state.fingerprint().map_err(|error| unwritable(&error))?;
        Ok(AccessKey::new(id, secret, node))
    }

    fn store_transfer_grant(&self, grant: Grant, now: i64) -> Result<(), Refusal> {
        let parent = grant.errand.as_ref().map(|scope| scope.parent.clone());
        let keep = |grants: &mut Grants| {
            grants.list.retain(|g| g.expires.is_some_and(|expires| expires > now));
            let of_parent = |g: &&Grant| g.errand.as_ref().map(|scope| &scope.parent) == parent.as_ref();
            let own = grants.list.iter().filter(of_parent).count();
            let has_room = own < TRANSFER_KEYS_MAX.each && grants.list.len() < TRANSFER_KEYS_MAX.all;
            if has_room {
                grants.list.push(grant);
            }
            has_room
        };
        if !self.state.change_transfer_grants(keep).map_err(|error| unwritable(&error))? {
            let reason = "too many keys for single jobs are in use; they end with their jobs";
            return Err(Refusal::new(Fault::Auth, reason));
        }
        Ok(())
    }

    /// Removes the keys for single transfers that were made for a holder.
    pub fn remove_transfer_keys_of(&self, holder: &str) {
        let is_of_holder = |grant: &Grant| grant.errand.as_ref().is_some_and(|scope| scope.parent == holder);
        let known = self.state.transfer_grants().unwrap_or_default();
        if known.list.iter().any(is_of_holder) {
            let _ = self.state.change_transfer_grants(|grants| grants.list.retain(|grant| !is_of_holder(grant)));
        }
    }

    /// Removes the key of a transfer that has succeeded.
    pub fn remove_transfer_key(&self, access: &Access) {
        let Some(grant) = access.grant().filter(|grant| grant.errand.is_some()) else { return };
        let _ = self.state.change_transfer_grants(|grants| grants.list.retain(|g| g.id != grant.id));
    }
}

fn unwritable(error: &client::StateError) -> Refusal {
    tracing::error!(%error, "a key for a job cannot be written down");
    Refusal::new(Fault::Local, "the node cannot write its grants; its operator must look at its log")
}
