//! What a credential opens: where it begins, and what is there. Does not know who holds it.

use model::name::RelPath;

/// What the path of a permit stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opens {
    /// A directory, made where it is missing; or the file that is there: keys and rules of the policy.
    Tree,
    /// A directory, and never a file: see [`Ticket::only_as_dir`](crate::access::Ticket::only_as_dir).
    DirOnly,
    /// Whatever is there or comes there, a file or a directory: paths of tokens and macaroons.
    Entry,
}

/// What a credential opens at a path: where it begins, and what that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ground {
    /// The path that nothing leads out of; the root for all of an export.
    pub prefix: RelPath,
    /// What that path stands for.
    pub opens: Opens,
    /// The one path at or below it that a key for one job is for.
    pub entry: Option<RelPath>,
}

impl Ground {
    /// The whole of an export.
    pub fn whole() -> Ground {
        Ground::at(RelPath::root(), Opens::Tree)
    }

    /// A path of an export.
    pub fn at(prefix: RelPath, opens: Opens) -> Ground {
        Ground { prefix, opens, entry: None }
    }
}
