//! Keys for single copies between nodes, good for a moment, kept in memory alone: a node that stops takes them with it.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use auth::{Access, AccessKey, Fingerprint, Grant, Grants, Rights};
use model::fault::Fault;
use model::name::RelPath;
use wire::frame::{JobName, Refusal};

use super::{Exports, unix_seconds};

/// How long such a key opens a session; what runs by then goes on.
const LENT_SECONDS: i64 = 15 * 60;

/// Such keys that are out at once.
const LENT_MAX: usize = 10_000;

/// What is out, and whose keys they are.
#[derive(Default)]
pub(super) struct Lent {
    grants: Mutex<Grants>,
    node: OnceLock<Fingerprint>,
}

impl Lent {
    /// The grants that are out.
    pub fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exports {
    /// The node's identity.
    pub fn fingerprint(&self) -> Result<Fingerprint, crate::StateError> {
        if let Some(known) = self.lent.node.get() {
            return Ok(*known);
        }
        let read = self.state.fingerprint()?;
        Ok(*self.lent.node.get_or_init(|| read))
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
        let (prefix, rights) = match job {
            None => (path.clone(), Rights::Read),
            Some(_) if replaces => (path.parent(), Rights::Write),
            Some(_) => (path.parent(), Rights::Create),
        };
        let mut grant = Grant::new(id, &secret, export.to_owned(), &prefix, rights, now);
        grant.name = format!("one copy of {}", access.who());
        grant.expires = Some(now + LENT_SECONDS);
        grant.errand = job.map(|job| auth::Errand {
            job: model::id::Uuid::from_bytes(job).to_string(),
            path: Some(auth::hex(path.as_bytes())),
            parent: access.holder().to_owned(),
            delete: false,
        });
        let mut lent = self.lent.grants();
        lent.list.retain(|grant| grant.expires.is_some_and(|expires| expires > now));
        if lent.list.len() >= LENT_MAX {
            return Err(Refusal::new(
                Fault::Local,
                format!("{LENT_MAX} keys for copies are out already; try again later"),
            ));
        }
        lent.list.push(grant);
        drop(lent);
        let node = self.fingerprint().map_err(|error| {
            tracing::error!(%error, "the node's identity cannot be read");
            Refusal::new(Fault::Local, "the node cannot read its identity; its operator must look at its log")
        })?;
        Ok(AccessKey::new(id, secret, node))
    }
}
