//! The path that a credential opens, and the kind of entry there. Does not know the holder.

use model::name::RelPath;

/// The kind of entry at the path of a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A directory, which is made where it is missing; or an existing file. For keys and rules of the policy.
    Tree,
    /// A directory, and never a file: see [`Ticket::only_as_dir`](crate::access::Ticket::only_as_dir).
    DirOnly,
    /// A file or a directory, existing or to come. For paths of tokens and macaroons.
    Entry,
}

/// The path that a credential opens, and the kind of entry there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedPath {
    /// The path that confines the credential; the root for a whole export.
    pub prefix: RelPath,
    /// The kind of entry at that path.
    pub kind: PathKind,
    /// The one path, at or below `prefix`, of a key that was delegated for one transfer.
    pub entry: Option<RelPath>,
}

impl GrantedPath {
    /// The whole of an export.
    pub fn whole() -> GrantedPath {
        GrantedPath::at(RelPath::root(), PathKind::Tree)
    }

    /// A path of an export.
    pub fn at(prefix: RelPath, kind: PathKind) -> GrantedPath {
        GrantedPath { prefix, kind, entry: None }
    }
}
