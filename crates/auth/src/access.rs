//! The rights of a session, decided path by path.

use std::sync::Arc;

use model::name::RelPath;

use crate::actions::{Action, Actions};
use crate::grant::{Grant, Rights};

pub(crate) mod denied;
pub(crate) mod granted_path;
mod ticket;

pub use denied::Denied;
pub use granted_path::{GrantedPath, PathKind};
pub(crate) use ticket::Basis;
pub use ticket::{ANONYMOUS, Permit, Ticket};

/// The rights of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one per session")]
pub enum Access {
    /// An anonymous client, with rights to every export.
    Anonymous(Rights),
    /// The holder of a key.
    Granted(Grant),
    /// A principal with permits by the policy: for a token, a macaroon, a certificate, or without a credential.
    Ticket(Arc<Ticket>),
}

impl Access {
    /// The principal's name, for logs.
    pub fn who(&self) -> String {
        match self {
            Access::Anonymous(_) => "anonymous".into(),
            Access::Granted(grant) if grant.name.is_empty() => grant.id.clone(),
            Access::Granted(grant) => format!("{} ({})", grant.id, grant.name),
            Access::Ticket(ticket) => ticket.who.clone(),
        }
    }

    /// The grant behind it, if any.
    pub fn grant(&self) -> Option<&Grant> {
        match self {
            Access::Granted(grant) => Some(grant),
            Access::Anonymous(_) | Access::Ticket(_) => None,
        }
    }

    /// The ticket behind it, if any.
    pub fn ticket(&self) -> Option<&Ticket> {
        match self {
            Access::Ticket(ticket) => Some(ticket),
            Access::Anonymous(_) | Access::Granted(_) => None,
        }
    }

    /// The owner of its transfers, who may control them: the holder of the same key or credential; for anonymous clients, all
    /// anonymous clients.
    pub fn holder(&self) -> &str {
        match self {
            Access::Anonymous(_) => "",
            Access::Granted(grant) => &grant.id,
            Access::Ticket(ticket) => &ticket.holder,
        }
    }

    /// Whether it was given without a credential: the client may then try a refused request again with one.
    pub fn is_anonymous(&self) -> bool {
        self.grant().is_none() && self.ticket().is_none_or(|ticket| ticket.holder == ANONYMOUS)
    }

    /// When its credential expires, seconds since 1970.
    pub fn expires(&self) -> Option<i64> {
        self.grant().map_or_else(|| self.ticket().and_then(|t| t.expires), |grant| grant.expires)
    }

    /// The most that it may do, as the rights of a key. A ticket may have fewer rights at each of its paths.
    pub fn rights(&self) -> Rights {
        match self {
            Access::Anonymous(rights) => *rights,
            Access::Granted(grant) => grant.rights,
            Access::Ticket(ticket) => {
                let all = ticket.permits.iter().fold(ticket.everywhere, |all, permit| all | permit.actions);
                let may = |actions: Actions| !(all & actions).is_empty();
                match (may(Actions::READ | Actions::LIST), may(Actions::CREATE | Actions::MAKE_DIR)) {
                    _ if may(Actions::OVERWRITE | Actions::REMOVE) => Rights::Write,
                    (true, true) => Rights::Write,
                    (false, true) => Rights::Create,
                    _ => Rights::Read,
                }
            }
        }
    }

    /// Whether an export may be seen at all.
    pub fn may_see(&self, export: &str) -> bool {
        match self {
            Access::Anonymous(_) => true,
            Access::Granted(grant) => grant.export == export,
            Access::Ticket(ticket) => {
                !ticket.everywhere.is_empty() || ticket.permits.iter().any(|permit| permit.export == export)
            }
        }
    }

    /// The path below its export that this access is confined to; for a ticket the common prefix of all its permits.
    pub fn prefix(&self) -> RelPath {
        match self {
            Access::Anonymous(_) => RelPath::root(),
            Access::Granted(grant) => grant.prefix_path().unwrap_or_default(),
            Access::Ticket(ticket) => ticket.shared_prefix(),
        }
    }

    /// The path, at or above `path`, that confines an allowed action: no link may lead out of it.
    pub fn confining_path(&self, action: Action, export: &str, path: &RelPath) -> GrantedPath {
        match self {
            Access::Ticket(ticket) => ticket.confining_path(action, export, path),
            Access::Granted(grant) => {
                grant.confining_path().filter(|g| path.starts_with(&g.prefix)).unwrap_or(GrantedPath::whole())
            }
            Access::Anonymous(_) => GrantedPath::whole(),
        }
    }

    /// Whether an action is allowed at a path only if a directory is there.
    pub fn only_as_dir(&self, action: Action, export: &str, path: &RelPath) -> bool {
        self.ticket().is_some_and(|ticket| ticket.only_as_dir(action, export, path))
    }

    /// Whether a directory may be made at a path: where `create` is allowed, and for the missing directories above.
    pub fn may_make_dir(&self, export: &str, path: &RelPath) -> bool {
        self.allow(Action::MakeDir, export, true, path).is_ok()
    }

    /// The actions that are allowed at a path and everywhere below it. None for a key that was delegated for one transfer.
    pub fn actions_below(&self, export: &str, writable: bool, path: &RelPath) -> Actions {
        let actions = match self {
            Access::Anonymous(rights) => rights.actions(),
            Access::Granted(grant) => match grant.prefix_path() {
                Some(prefix) if grant.errand.is_none() && grant.export == export && path.starts_with(&prefix) => {
                    grant.rights.actions()
                }
                _ => Actions::NONE,
            },
            Access::Ticket(ticket) => ticket.actions_below(export, path),
        };
        if writable { actions } else { actions.unchanging() }
    }

    /// Checks that an action is allowed at a path of an export. `writable` is the export's own setting.
    ///
    /// # Errors
    /// [`Denied`], with the reason: the credential does not allow it, or the export is read-only.
    pub fn allow(&self, action: Action, export: &str, writable: bool, path: &RelPath) -> Result<(), Denied> {
        match self {
            Access::Ticket(ticket) if !ticket.allows(action, export, path) => {
                return Err(ticket.refusal(action, export, path));
            }
            Access::Ticket(_) => {}
            Access::Granted(grant) => {
                within(grant, action, export, path)?;
                by_rights(grant.rights, action)?;
            }
            // The refusal must not mention a key, because the client presented none.
            Access::Anonymous(rights) => by_rights(*rights, action)
                .map_err(|_| Denied::Anonymous { needed: action.words(), place: format!("{export}/{path}") })?,
        }
        if action.changes() && !writable {
            return Err(Denied::ReadOnly(export.to_owned()));
        }
        Ok(())
    }
}

/// Checks that a grant covers a path.
fn within(grant: &Grant, action: Action, export: &str, path: &RelPath) -> Result<(), Denied> {
    // A malformed path (the file was edited) opens nothing.
    let prefix = grant.confining_path().ok_or(Denied::UnknownKey)?.prefix;
    if grant.errand.is_some() && !action.changes() {
        return Err(Denied::Rights { allowed: "carry one job", needed: "read" });
    }
    let reached = path.starts_with(&prefix) || (action.includes_parents() && prefix.starts_with(path));
    if grant.export != export || !reached {
        let place = |export: &str, path: &RelPath| format!("{export}/{path}");
        return Err(Denied::OtherPath { granted: place(&grant.export, &prefix), wanted: place(export, path) });
    }
    Ok(())
}

/// Checks that the rights of a key, or of anonymous clients, suffice for an action.
fn by_rights(rights: Rights, action: Action) -> Result<(), Denied> {
    let needed = match (rights, action) {
        (Rights::Write, _)
        | (Rights::Read, Action::Read | Action::List | Action::Stat)
        | (Rights::Create, Action::Create | Action::MakeDir) => return Ok(()),
        (Rights::Read, Action::Create | Action::MakeDir) => "create",
        (Rights::Create, Action::Read | Action::List | Action::Stat) => "read",
        (Rights::Read | Rights::Create, _) => "change what is there",
    };
    Err(Denied::Rights { allowed: rights.word(), needed })
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
    fn a_key_allows_the_actions_of_its_rights() {
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
    fn a_key_is_confined_to_its_export_and_prefix() {
        let access = granted("a/b", Rights::Write);
        assert!(access.allow(Action::Read, "data", true, &path("a/b/c")).is_ok());
        assert!(access.allow(Action::Read, "data", true, &path("a/b")).is_ok());
        for outside in ["a", "a/bc", ""] {
            assert!(matches!(access.allow(Action::Read, "data", true, &path(outside)), Err(Denied::OtherPath { .. })));
        }
        assert!(access.allow(Action::Read, "other", true, &path("a/b")).is_err());
    }

    #[test]
    fn nobody_writes_to_a_read_only_export() {
        let anyone = Access::Anonymous(Rights::Write);
        assert_eq!(anyone.allow(Action::Create, "e", false, &path("x")), Err(Denied::ReadOnly("e".into())));
        assert!(anyone.allow(Action::Read, "e", false, &path("x")).is_ok());
    }

    #[test]
    fn a_key_allows_detailed_actions_as_it_allows_the_coarse_ones() {
        let may = |rights, action| granted("a", rights).allow(action, "data", true, &path("a/x")).is_ok();
        for rights in [Rights::Read, Rights::Create, Rights::Write] {
            for reading in [Action::Stat, Action::List] {
                assert_eq!(may(rights, reading), may(rights, Action::Read), "a drop box shows nothing");
            }
            for changing in [Action::Overwrite, Action::Rename, Action::Remove] {
                assert_eq!(may(rights, changing), may(rights, Action::Modify));
            }
            assert_eq!(may(rights, Action::MakeDir), may(rights, Action::Create));
        }
        assert!(granted("a/b", Rights::Create).may_make_dir("data", &path("a")));
        assert!(!granted("a/b", Rights::Create).may_make_dir("data", &path("b")));
        assert!(!granted("a/b", Rights::Read).may_make_dir("data", &path("a")));
        assert_eq!(granted("a", Rights::Create).actions_below("data", true, &path("a")), Actions::FOR_DROP);
        assert_eq!(granted("a/b", Rights::Write).actions_below("data", true, &path("a")), Actions::NONE);
    }

    #[test]
    fn a_ticket_has_the_rights_of_a_key_that_allows_as_much() {
        let access_with = |actions: &[Actions]| {
            let permit = |actions: &Actions| Permit::own("data".into(), path("a"), PathKind::Entry, *actions);
            let permits = actions.iter().map(permit).collect();
            let (who, holder) = ("w".to_owned(), "token:1".to_owned());
            Access::Ticket(Arc::new(Ticket { who, holder, permits, everywhere: Actions::NONE, expires: Some(5) }))
        };
        let table: [(&[Actions], Rights); 5] = [
            (&[Actions::FOR_READ], Rights::Read),
            (&[Actions::CREATE | Actions::STAT], Rights::Create),
            (&[Actions::FOR_READ, Actions::FOR_CREATE], Rights::Write),
            (&[Actions::FOR_MODIFY], Rights::Write),
            (&[Actions::FOR_STAGE], Rights::Read),
        ];
        for (actions, rights) in table {
            assert_eq!(access_with(actions).rights(), rights, "{actions:?}");
        }
        let reader = access_with(&[Actions::FOR_READ]);
        assert!(reader.may_see("data") && !reader.may_see("other") && !reader.is_anonymous());
        assert_eq!((reader.prefix(), reader.expires(), reader.grant()), (path("a"), Some(5), None));
        assert!(matches!(reader.allow(Action::Create, "data", true, &path("a")), Err(Denied::Lacks { .. })));
        let writer = access_with(&[Actions::FOR_MODIFY]);
        assert!(writer.allow(Action::Modify, "data", true, &path("a/b")).is_ok());
        assert_eq!(writer.allow(Action::Remove, "data", false, &path("a")), Err(Denied::ReadOnly("data".into())));
        assert!(writer.allow(Action::Read, "data", true, &path("a")).is_err());
    }
}
