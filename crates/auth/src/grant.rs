//! Grants: what an operator allows to the holder of a key. The node stores a hash of the secret, never the secret.

pub use model::hex::encode as hex;
use model::name::RelPath;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::access::granted_path::{GrantedPath, PathKind};
use crate::actions::Actions;

/// The rights of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rights {
    /// Examine, list and read.
    Read,
    /// Create files and directories; neither read nor change existing ones.
    Create,
    /// Read, create, change, remove.
    Write,
}

impl Rights {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Rights::Read => "read",
            Rights::Create => "create",
            Rights::Write => "write",
        }
    }

    /// The actions that it allows.
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
    /// The one transfer that the grant was delegated for, to another node that carries it for the holder of an ordinary key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errand: Option<DelegatedScope>,
}

/// The one transfer that a grant was delegated for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegatedScope {
    /// The transfer's id.
    pub job: String,
    /// Its target below the export, hexadecimal: a path need not be text. `None` for a transfer to memory.
    pub path: Option<String>,
    /// The id of the grant of the principal who asked for it: without that grant this one is void. Empty for an anonymous client.
    pub parent: String,
    /// The transfer may remove entries that the source lacks.
    pub delete: bool,
}

impl Grant {
    /// A grant for a new secret.
    pub fn new(id: [u8; 8], secret: &[u8; 32], export: String, prefix: &RelPath, rights: Rights, now: i64) -> Grant {
        Grant {
            id: hex(&id),
            name: String::new(),
            export,
            // Only a prefix that is text can be written to the file of grants; the binary refuses others.
            prefix: String::from_utf8_lossy(prefix.as_bytes()).into_owned(),
            rights,
            created: now,
            expires: None,
            secret_sha256: hex(&Sha256::digest(secret)),
            errand: None,
        }
    }

    /// Whether the grant is for writing to a path (`None`: to memory) in a transfer. A grant that was not delegated is for all
    /// transfers.
    pub fn allows_transfer(&self, job: &str, path: Option<&RelPath>, delete: bool) -> bool {
        let path = path.map(|path| hex(path.as_bytes()));
        self.errand.as_ref().is_none_or(|errand| errand.job == job && errand.path == path && (errand.delete || !delete))
    }
}

impl Grant {
    /// The path that the grant is confined to, if it is well-formed.
    pub fn prefix_path(&self) -> Option<RelPath> {
        RelPath::parse(self.prefix.as_bytes()).ok()
    }

    /// The path that the key opens; `None` if it is malformed. A key for one transfer opens the target of that transfer alone.
    pub(crate) fn confining_path(&self) -> Option<GrantedPath> {
        let prefix = self.prefix_path()?;
        let Some(target) = self.errand.as_ref().and_then(|errand| errand.path.as_ref()) else {
            return Some(GrantedPath::at(prefix, PathKind::Tree));
        };
        let target = RelPath::parse(&model::hex::decode(target)?).ok()?;
        Some(if target == prefix {
            GrantedPath::at(prefix, PathKind::Entry)
        } else {
            GrantedPath { entry: Some(target), ..GrantedPath::at(prefix, PathKind::Tree) }
        })
    }
}
