//! Delegated keys for single copies between nodes. They are valid for minutes and kept in memory only, so they end with the
//! process. They are valid for the native protocol only, expire no later than the credential that they were delegated from, and
//! cannot be delegated again.

use model::Refusal;
use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use auth::{Access, AccessKey, Fingerprint, Grant, Grants, Rights};
use model::fault::Fault;
use model::name::RelPath;
use parking_lot::{Mutex, MutexGuard};
use sha2::{Digest, Sha256};
use wire::frame::JobName;

use super::AccessControl;
use crate::clock::unix_seconds;
use crate::holder_bound::HolderBound;

/// How long a delegated key opens sessions, seconds. A session that has been opened continues after that.
const DELEGATED_SECONDS: i64 = 15 * 60;

/// Delegated keys that are valid at once: in all, and of one holder.
const DELEGATED_MAX: HolderBound = HolderBound { each: 2_500, all: 10_000 };

/// How long a key with which this node opens a session with itself is valid.
const LOOPBACK_WITHIN: Duration = Duration::from_secs(60);

/// The delegated keys that are valid.
#[derive(Default)]
pub struct Delegations {
    delegated: Mutex<DelegatedKeys>,
    /// Keys of this node to itself, by their ids. Each opens one session and is then removed.
    loopback: Mutex<HashMap<[u8; 8], LoopbackKey>>,
    /// The node's identity, once it has been read.
    node: OnceLock<Fingerprint>,
}

/// A key of this node to itself.
struct LoopbackKey {
    /// SHA-256 of the secret.
    digest: [u8; 32],
    /// The access of the principal that this node acts for.
    access: Access,
    since: Instant,
}

/// Delegated grants, and the holder that each was delegated from, by the grant's id.
#[derive(Default)]
struct DelegatedKeys {
    grants: Grants,
    parents: HashMap<String, String>,
}

impl DelegatedKeys {
    fn remove_expired(&mut self, now: i64) {
        self.grants.list.retain(|grant| grant.expires.is_some_and(|expires| expires > now));
        if self.parents.len() > self.grants.list.len() {
            let left: HashSet<&str> = self.grants.list.iter().map(|grant| grant.id.as_str()).collect();
            self.parents.retain(|id, _| left.contains(id.as_str()));
        }
    }
}

impl Delegations {
    fn delegated(&self) -> MutexGuard<'_, DelegatedKeys> {
        self.delegated.lock()
    }

    /// The access that a key of this node to itself gives. The key is valid once.
    pub fn take_loopback(&self, id: &[u8; 8], secret: &[u8; 32]) -> Option<Access> {
        let mut loopback = self.loopback.lock();
        // Digests are compared, so that the time of the comparison tells nothing about the secret.
        let is_valid = loopback.get(id).is_some_and(|known| known.digest == <[u8; 32]>::from(Sha256::digest(secret)));
        let known = if is_valid { loopback.remove(id)? } else { return None };
        Some(known.access).filter(|_| known.since.elapsed() < LOOPBACK_WITHIN)
    }

    /// The grant of a delegated key, and the holder that it was delegated from.
    pub fn check(&self, id: &[u8; 8], secret: &[u8; 32], now: i64) -> Option<(Grant, String)> {
        let delegated = self.delegated();
        let Ok(Access::Granted(grant)) = delegated.grants.check(id, secret, now) else { return None };
        let parent = delegated.parents.get(&grant.id)?.clone();
        Some((grant, parent))
    }

    /// The holder that a grant was delegated from.
    pub fn parent(&self, id: &str) -> Option<String> {
        self.delegated().parents.get(id).cloned()
    }

    /// Whether a grant is a delegated one.
    pub fn is_delegated(&self, id: &str) -> bool {
        self.delegated().parents.contains_key(id)
    }
}

impl AccessControl {
    /// The node's identity.
    ///
    /// # Errors
    /// The state directory cannot be read.
    pub fn fingerprint(&self) -> Result<Fingerprint, client::StateError> {
        if let Some(known) = self.delegations.node.get() {
            return Ok(*known);
        }
        let read = self.state.fingerprint()?;
        Ok(*self.delegations.node.get_or_init(|| read))
    }

    /// Whether a grant is that of a key for one copy.
    pub fn is_delegated(&self, grant: &Grant) -> bool {
        self.delegations.is_delegated(&grant.id)
    }

    /// A key with which this node opens one session with itself, with the access of the principal whose transfer it runs.
    ///
    /// # Errors
    /// The system gives no random numbers, or the node's identity cannot be read.
    pub fn loopback_key(&self, access: &Access) -> Result<AccessKey, Refusal> {
        let random = |_| Refusal::new(Fault::Local, "the node's system gives no random numbers");
        let (id, secret) = (engine::identity::random().map_err(random)?, engine::identity::random().map_err(random)?);
        let node = self.fingerprint().map_err(|error| {
            tracing::error!(%error, "the node's identity cannot be read");
            Refusal::new(Fault::Local, "the node cannot read its identity; its operator must look at its log")
        })?;
        let mut loopback = self.delegations.loopback.lock();
        loopback.retain(|_, known| known.since.elapsed() < LOOPBACK_WITHIN);
        let digest = Sha256::digest(secret).into();
        loopback.insert(id, LoopbackKey { digest, access: access.clone(), since: Instant::now() });
        Ok(AccessKey::new(id, secret, node))
    }

    /// A short-lived key for one file, for another node that copies the file on behalf of this principal: to read it, or, with
    /// a job, to write it.
    ///
    /// # Errors
    /// Too many delegated keys are valid, the system gives no random numbers, or the node's identity cannot be read.
    pub fn delegate(
        &self,
        access: &Access,
        export: &str,
        path: &RelPath,
        job: Option<JobName>,
        replaces: bool,
    ) -> Result<AccessKey, Refusal> {
        let random = |_| Refusal::new(Fault::Local, "the node's system gives no random numbers");
        let (id, secret) = (engine::identity::random().map_err(random)?, engine::identity::random().map_err(random)?);
        let now = unix_seconds();
        let rights = match job {
            None => Rights::Read,
            Some(_) if replaces => Rights::Write,
            Some(_) => Rights::Create,
        };
        let mut grant = Grant::new(id, &secret, export.to_owned(), path, rights, now);
        grant.name = format!("one copy of {}", access.who());
        // A delegated key does not outlive the credential that it is delegated from.
        let most = now + DELEGATED_SECONDS;
        grant.expires = Some(access.expires().map_or(most, |ends| ends.min(most)));
        grant.errand = job.map(|job| auth::DelegatedScope {
            job: model::id::Uuid::from_bytes(job).to_string(),
            path: Some(auth::hex(path.as_bytes())),
            parent: access.holder().to_owned(),
            delete: false,
        });
        let mut delegated = self.delegations.delegated();
        delegated.remove_expired(now);
        let own = delegated.parents.values().filter(|parent| *parent == access.holder()).count();
        if delegated.grants.list.len() >= DELEGATED_MAX.all || own >= DELEGATED_MAX.each {
            let reason = "too many keys for single copies are in use; try again later";
            return Err(Refusal::new(Fault::Local, reason));
        }
        delegated.parents.insert(grant.id.clone(), access.holder().to_owned());
        delegated.grants.list.push(grant);
        drop(delegated);
        let node = self.fingerprint().map_err(|error| {
            tracing::error!(%error, "the node's identity cannot be read");
            Refusal::new(Fault::Local, "the node cannot read its identity; its operator must look at its log")
        })?;
        Ok(AccessKey::new(id, secret, node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_node_to_itself_opens_one_session() {
        let delegations = Delegations::default();
        let key = || LoopbackKey {
            digest: Sha256::digest([2; 32]).into(),
            access: Access::Anonymous(Rights::Read),
            since: Instant::now(),
        };
        delegations.loopback.lock().insert([1; 8], key());
        assert_eq!(delegations.take_loopback(&[1; 8], &[3; 32]), None);
        assert_eq!(delegations.take_loopback(&[9; 8], &[2; 32]), None);
        assert_eq!(delegations.take_loopback(&[1; 8], &[2; 32]), Some(Access::Anonymous(Rights::Read)));
        assert_eq!(delegations.take_loopback(&[1; 8], &[2; 32]), None, "once");
        let since = Instant::now().checked_sub(LOOPBACK_WITHIN);
        delegations.loopback.lock().insert([1; 8], LoopbackKey { since: since.unwrap(), ..key() });
        assert_eq!(delegations.take_loopback(&[1; 8], &[2; 32]), None, "too late");
    }
}
