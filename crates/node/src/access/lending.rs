//! Keys for single copies between nodes, good for a moment, kept in memory alone: a node that stops takes them with it. They
//! count for the native protocol, no longer than what they were lent on behalf of, and lead to no further ones.

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

/// How long such a key opens a session; what runs by then goes on.
const LENT_SECONDS: i64 = 15 * 60;

/// Such keys that are out at once: in all, and on behalf of one holder.
const LENT_MAX: (usize, usize) = (10_000, 2_500);

/// How long this node may take to come back to itself.
const OWN_WITHIN: Duration = Duration::from_secs(60);

/// What is out.
#[derive(Default)]
pub struct Delegations {
    out: Mutex<Out>,
    /// Keys of this node to itself, by their ids. Each opens one session, and is forgotten with that.
    own: Mutex<HashMap<[u8; 8], Own>>,
    node: OnceLock<Fingerprint>,
}

/// A key of this node to itself.
struct Own {
    /// Of its secret.
    digest: [u8; 32],
    /// Whose it stands for.
    access: Access,
    since: Instant,
}

/// The grants, and by their ids the holders on whose behalf they were lent.
#[derive(Default)]
struct Out {
    grants: Grants,
    parents: HashMap<String, String>,
}

impl Out {
    fn forget_the_ended(&mut self, now: i64) {
        self.grants.list.retain(|grant| grant.expires.is_some_and(|expires| expires > now));
        if self.parents.len() > self.grants.list.len() {
            let left: HashSet<&str> = self.grants.list.iter().map(|grant| grant.id.as_str()).collect();
            self.parents.retain(|id, _| left.contains(id.as_str()));
        }
    }
}

impl Delegations {
    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock()
    }

    /// The access that a key of this node to itself stands for. It is good once.
    pub fn take_own(&self, id: &[u8; 8], secret: &[u8; 32]) -> Option<Access> {
        let mut own = self.own.lock();
        // Digests are compared: how long that takes says nothing about the secret.
        let is_it = own.get(id).is_some_and(|known| known.digest == <[u8; 32]>::from(Sha256::digest(secret)));
        let known = if is_it { own.remove(id)? } else { return None };
        Some(known.access).filter(|_| known.since.elapsed() < OWN_WITHIN)
    }

    /// The grant of a lent key, and the holder on whose behalf it was lent.
    pub fn check(&self, id: &[u8; 8], secret: &[u8; 32], now: i64) -> Option<(Grant, String)> {
        let out = self.out();
        let Ok(Access::Granted(grant)) = out.grants.check(id, secret, now) else { return None };
        let parent = out.parents.get(&grant.id)?.clone();
        Some((grant, parent))
    }

    /// The holder on whose behalf a grant was lent.
    pub fn parent(&self, id: &str) -> Option<String> {
        self.out().parents.get(id).cloned()
    }

    /// Whether a grant was lent.
    pub fn has(&self, id: &str) -> bool {
        self.out().parents.contains_key(id)
    }
}

impl AccessControl {
    /// The node's identity.
    pub fn fingerprint(&self) -> Result<Fingerprint, client::StateError> {
        if let Some(known) = self.delegations.node.get() {
            return Ok(*known);
        }
        let read = self.state.fingerprint()?;
        Ok(*self.delegations.node.get_or_init(|| read))
    }

    /// Whether somebody is here with a key for one copy.
    pub fn is_delegated(&self, grant: &Grant) -> bool {
        self.delegations.has(&grant.id)
    }

    /// A key by which this node opens one session with itself, with the access of somebody for whom it carries something.
    pub fn lend_own(&self, access: &Access) -> Result<AccessKey, Refusal> {
        let random = |_| Refusal::new(Fault::Local, "the node's system gives no random numbers");
        let (id, secret) = (engine::identity::random().map_err(random)?, engine::identity::random().map_err(random)?);
        let node = self.fingerprint().map_err(|error| {
            tracing::error!(%error, "the node's identity cannot be read");
            Refusal::new(Fault::Local, "the node cannot read its identity; its operator must look at its log")
        })?;
        let mut own = self.delegations.own.lock();
        own.retain(|_, known| known.since.elapsed() < OWN_WITHIN);
        let digest = Sha256::digest(secret).into();
        own.insert(id, Own { digest, access: access.clone(), since: Instant::now() });
        Ok(AccessKey::new(id, secret, node))
    }

    /// A key for one file and for a moment, for another node that copies it on behalf of somebody who may: to read it, or,
    /// as part of a job, to write it.
    pub fn lend(
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
        // Nobody lends for longer than they have.
        let most = now + LENT_SECONDS;
        grant.expires = Some(access.expires().map_or(most, |ends| ends.min(most)));
        grant.errand = job.map(|job| auth::Errand {
            job: model::id::Uuid::from_bytes(job).to_string(),
            path: Some(auth::hex(path.as_bytes())),
            parent: access.holder().to_owned(),
            delete: false,
        });
        let mut out = self.delegations.out();
        out.forget_the_ended(now);
        let own = out.parents.values().filter(|parent| *parent == access.holder()).count();
        if out.grants.list.len() >= LENT_MAX.0 || own >= LENT_MAX.1 {
            let reason = "as many keys for single copies are out already as may be; try again later";
            return Err(Refusal::new(Fault::Local, reason));
        }
        out.parents.insert(grant.id.clone(), access.holder().to_owned());
        out.grants.list.push(grant);
        drop(out);
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
        let lent = Delegations::default();
        let own = || Own {
            digest: Sha256::digest([2; 32]).into(),
            access: Access::Anonymous(Rights::Read),
            since: Instant::now(),
        };
        lent.own.lock().insert([1; 8], own());
        assert_eq!(lent.take_own(&[1; 8], &[3; 32]), None);
        assert_eq!(lent.take_own(&[9; 8], &[2; 32]), None);
        assert_eq!(lent.take_own(&[1; 8], &[2; 32]), Some(Access::Anonymous(Rights::Read)));
        assert_eq!(lent.take_own(&[1; 8], &[2; 32]), None, "once");
        let since = Instant::now().checked_sub(OWN_WITHIN);
        lent.own.lock().insert([1; 8], Own { since: since.unwrap(), ..own() });
        assert_eq!(lent.take_own(&[1; 8], &[2; 32]), None, "too late");
    }
}
