//! A grant: what an operator allows to whoever holds a key. The node keeps a hash of the secret, never the secret.

pub use model::hex::encode as hex;
use model::name::RelPath;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::access::ground::{Ground, Opens};
use crate::actions::Actions;

/// What a grant allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rights {
    /// Look and read.
    Read,
    /// Put new files and directories; not read, not change what is there.
    Create,
    /// Read, create, change, remove.
    Write,
}

impl Rights {
    /// The word people see.
    pub fn word(self) -> &'static str {
        match self {
            Rights::Read => "read",
            Rights::Create => "create",
            Rights::Write => "write",
        }
    }

    /// What it allows, one by one.
    pub fn actions(self) -> Actions {
        match self {
            Rights::Read => Actions::FOR_READ,
            Rights::Create => Actions::FOR_DROP,
            Rights::Write => Actions::ALL,
        }
    }
}

/// One grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its id, hexadecimal.
    pub id: String,
    /// What the operator calls it.
    #[serde(default)]
    pub name: String,
    /// The export it is for.
    pub export: String,
    /// The path below the export that it is confined to.
    #[serde(default)]
    pub prefix: String,
    /// What it allows.
    pub rights: Rights,
    /// When it was made, seconds since 1970.
    pub created: i64,
    /// When it ends, seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<i64>,
    /// SHA-256 of the secret, hexadecimal. The secret is 32 random bytes, so a slow hash would add nothing.
    pub secret_sha256: String,
    /// The one job that it is for: handed to another node, which carries the job for the holder of an ordinary key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errand: Option<Errand>,
}

/// The one job that a grant is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errand {
    /// The job's id.
    pub job: String,
    /// Its target below the export, hexadecimal: a path need not be text. None for the memory end.
    pub path: Option<String>,
    /// The grant of whoever asked for it: without that one this one is void. Empty for an anonymous guest.
    pub parent: String,
    /// It may remove what the source lacks.
    pub delete: bool,
}

impl Grant {
    /// A grant for a new secret.
    pub fn new(id: [u8; 8], secret: &[u8; 32], export: String, prefix: &RelPath, rights: Rights, now: i64) -> Grant {
        Grant {
            id: hex(&id),
            name: String::new(),
            export,
            // Only prefixes that are text can be written to a text file; the binary refuses others.
            prefix: String::from_utf8_lossy(prefix.as_bytes()).into_owned(),
            rights,
            created: now,
            expires: None,
            secret_sha256: hex(&Sha256::digest(secret)),
            errand: None,
        }
    }

    /// Whether this is good for writing to a path (none: the memory end) as part of a job. A grant that is for no job
    /// in particular is.
    pub fn is_for(&self, job: &str, path: Option<&RelPath>, delete: bool) -> bool {
        let path = path.map(|path| hex(path.as_bytes()));
        self.errand.as_ref().is_none_or(|errand| errand.job == job && errand.path == path && (errand.delete || !delete))
    }
}

impl Grant {
    /// The path that the grant is confined to, if it reads.
    pub fn prefix_path(&self) -> Option<RelPath> {
        RelPath::parse(self.prefix.as_bytes()).ok()
    }

    /// What the key opens; none if its path does not read. A key for one job opens the target of that job alone.
    pub(crate) fn ground(&self) -> Option<Ground> {
        let prefix = self.prefix_path()?;
        let Some(target) = self.errand.as_ref().and_then(|errand| errand.path.as_ref()) else {
            return Some(Ground::at(prefix, Opens::Tree));
        };
        let target = RelPath::parse(&model::hex::decode(target)?).ok()?;
        Some(match target == prefix {
            true => Ground::at(prefix, Opens::Entry),
            false => Ground { entry: Some(target), ..Ground::at(prefix, Opens::Tree) },
        })
    }
}
