//! The authority of a session: what it may do, asked path by path.

use model::fault::{Blame, Fault};
use model::name::RelPath;

use crate::grant::{Grant, Rights};

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look at facts, list, read.
    Read,
    /// Put something new.
    Create,
    /// Replace, rename, remove.
    Modify,
}

/// The authority of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one per session")]
pub enum Access {
    /// Whoever comes, for every export.
    Anonymous(Rights),
    /// The holder of a key.
    Granted(Grant),
}

/// A refusal, in words for the one who is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// No key, and none may go without.
    #[error("this node lets nobody in without a key; ask its operator for one (longhaul grant) and set LONGHAUL_KEY")]
    NoKey,
    /// Never issued, revoked, or a wrong secret. One message for all three: which of them is the operator's business.
    #[error("the access key is not valid here (never issued, or revoked); ask the node's operator for a new one")]
    UnknownKey,
    /// Past its end.
    #[error("the access key expired {} ago; ask the node's operator for a new one",
            model::duration::show(std::time::Duration::from_secs(*.seconds_ago as u64)))]
    Expired {
        /// How long ago.
        seconds_ago: i64,
    },
    /// The key is for something else.
    #[error("the access key is for {granted}, not for {wanted}")]
    Elsewhere {
        /// What it is for.
        granted: String,
        /// What was asked.
        wanted: String,
    },
    /// The key allows less.
    #[error("the access key allows to {allowed} only; this needs the right to {needed}")]
    Rights {
        /// What it allows.
        allowed: &'static str,
        /// What is needed.
        needed: &'static str,
    },
    /// The export allows less.
    #[error("the export {0} is read-only on this node (its operator serves it without :rw)")]
    ReadOnly(String),
    /// No such export, or none that the key may know of.
    #[error("there is no export {0:?} here (longhaul ls lh://HOST/ lists those that the key may see)")]
    NoExport(String),
}

impl Blame for Denied {
    fn fault(&self) -> Fault {
        match self {
            Denied::NoExport(_) => Fault::Missing,
            _ => Fault::Auth,
        }
    }
}

impl Access {
    /// Who this is, for logs.
    pub fn who(&self) -> String {
        match self {
            Access::Anonymous(_) => "anonymous".into(),
            Access::Granted(grant) if grant.name.is_empty() => grant.id.clone(),
            Access::Granted(grant) => format!("{} ({})", grant.id, grant.name),
        }
    }

    /// The grant behind it, if it is one.
    pub fn grant(&self) -> Option<&Grant> {
        match self {
            Access::Anonymous(_) => None,
            Access::Granted(grant) => Some(grant),
        }
    }

    /// Who may hold the reins of its jobs: whoever comes with the same key, or, for anonymous ones, anybody.
    pub fn holder(&self) -> &str {
        self.grant().map_or("", |grant| &grant.id)
    }

    /// What it may do at most.
    pub fn rights(&self) -> Rights {
        match self {
            Access::Anonymous(rights) => *rights,
            Access::Granted(grant) => grant.rights,
        }
    }

    /// Whether an export may be seen at all.
    pub fn may_see(&self, export: &str) -> bool {
        match self {
            Access::Anonymous(_) => true,
            Access::Granted(grant) => grant.export == export,
        }
    }

    /// The path below its export that this access is confined to.
    pub fn prefix(&self) -> RelPath {
        match self {
            Access::Anonymous(_) => RelPath::root(),
            Access::Granted(grant) => grant.prefix_path().unwrap_or_default(),
        }
    }

    /// Whether an action is allowed at a path of an export. `writable` is the export's own setting.
    pub fn allow(&self, action: Action, export: &str, writable: bool, path: &RelPath) -> Result<(), Denied> {
        if let Access::Granted(grant) = self {
            // A prefix that does not read (somebody edited the file) opens nothing.
            let prefix = grant.prefix_path().ok_or(Denied::UnknownKey)?;
            if grant.errand.is_some() && action == Action::Read {
                return Err(Denied::Rights { allowed: "carry one job", needed: "read" });
            }
            if grant.export != export || !path.starts_with(&prefix) {
                let place = |export: &str, path: &RelPath| format!("{export}/{path}");
                return Err(Denied::Elsewhere { granted: place(&grant.export, &prefix), wanted: place(export, path) });
            }
        }
        let (allowed, needed) = match (self.rights(), action) {
            (Rights::Write, _) | (Rights::Read, Action::Read) | (Rights::Create, Action::Create) => ("", ""),
            (Rights::Read, Action::Create) => ("read", "create"),
            (Rights::Read, Action::Modify) => ("read", "change what is there"),
            (Rights::Create, Action::Read) => ("create", "read"),
            (Rights::Create, Action::Modify) => ("create", "change what is there"),
        };
        if !needed.is_empty() {
            return Err(Denied::Rights { allowed, needed });
        }
        if action != Action::Read && !writable {
            return Err(Denied::ReadOnly(export.to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    fn granted(prefix: &str, rights: Rights) -> Access {
        Access::Granted(Grant::new([1; 8], &[2; 32], "data".into(), &path(prefix), rights, 0))
    }

    #[test]
    fn rights_by_action() {
        let may = |rights, action| granted("", rights).allow(action, "data", true, &path("x")).is_ok();
        let table = [
            (Rights::Read, [true, false, false]),
            (Rights::Create, [false, true, false]),
            (Rights::Write, [true, true, true]),
        ];
        for (rights, expected) in table {
            assert_eq!([Action::Read, Action::Create, Action::Modify].map(|a| may(rights, a)), expected, "{rights:?}");
        }
    }

    #[test]
    fn confined_to_export_and_prefix() {
        let access = granted("a/b", Rights::Write);
        assert!(access.allow(Action::Read, "data", true, &path("a/b/c")).is_ok());
        assert!(access.allow(Action::Read, "data", true, &path("a/b")).is_ok());
        for outside in ["a", "a/bc", ""] {
            assert!(matches!(access.allow(Action::Read, "data", true, &path(outside)), Err(Denied::Elsewhere { .. })));
        }
        assert!(access.allow(Action::Read, "other", true, &path("a/b")).is_err());
    }

    #[test]
    fn a_read_only_export_stays_so() {
        let anyone = Access::Anonymous(Rights::Write);
        assert_eq!(anyone.allow(Action::Create, "e", false, &path("x")), Err(Denied::ReadOnly("e".into())));
        assert!(anyone.allow(Action::Read, "e", false, &path("x")).is_ok());
    }
}
