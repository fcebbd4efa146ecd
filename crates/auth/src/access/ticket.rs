//! Tickets: the permits of a principal, path by path. Does not know which credential they come from.

use ipnet::IpNet;
use model::name::RelPath;

use super::denied::Denied;
use super::granted_path::{GrantedPath, PathKind};
use crate::actions::{Action, Actions};

/// The holder of a ticket without a credential. All anonymous clients share it.
pub const ANONYMOUS: &str = "guest";

/// The actions that are allowed at and below one path of one export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// The export.
    pub export: String,
    /// The path below it.
    pub prefix: RelPath,
    /// The kind of entry at the path.
    pub kind: PathKind,
    /// The actions.
    pub actions: Actions,
    /// The addresses that the rule is for; empty for all. The holder's address is one of them.
    pub addresses: Vec<IpNet>,
    /// The mark of the rule's [`RuleSubject`](crate::policy::RuleSubject); `None` for a permit of the credential itself.
    pub rule_mark: Option<String>,
}

/// What gives the allowed actions at a path: the credential itself, and rules.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Basis {
    /// The actions that the credential gives by itself.
    pub rights: Actions,
    /// The marks of the rules that give the rest.
    pub rules: Vec<String>,
    /// The addresses that these rules are for; all of the lists must hold.
    pub addresses: Vec<Vec<IpNet>>,
}

impl Permit {
    /// A permit that a credential gives by itself.
    pub fn own(export: String, prefix: RelPath, kind: PathKind, actions: Actions) -> Permit {
        Permit { export, prefix, kind, actions, addresses: Vec::new(), rule_mark: None }
    }

    /// Whether it covers a path: one at or below its own, or one above it where the action is also allowed for the directories above.
    fn covers(&self, action: Action, export: &str, path: &RelPath) -> bool {
        let within = path.starts_with(&self.prefix) || (action.includes_parents() && self.prefix.starts_with(path));
        self.export == export && within
    }
}

/// The permits of a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The principal's name, for logs and refusals: `sub@issuer`, a distinguished name, `macaroon NAME`.
    pub who: String,
    /// The stable id that owns its transfers. It has a colon, or is [`ANONYMOUS`]: never a grant's id, never empty.
    pub holder: String,
    /// The permits, path by path.
    pub permits: Vec<Permit>,
    /// The actions that are allowed in every export.
    pub everywhere: Actions,
    /// When the credential expires, seconds since 1970. Transfers that are running then may finish.
    pub expires: Option<i64>,
}

impl Ticket {
    /// The actions that are allowed at a path and everywhere below it.
    pub fn actions_below(&self, export: &str, path: &RelPath) -> Actions {
        let here = self.permits.iter().filter(|p| p.export == export && path.starts_with(&p.prefix));
        here.fold(self.everywhere, |all, permit| all | permit.actions)
    }

    /// The origin of the wanted actions that are allowed at a path and everywhere below it.
    pub(crate) fn basis(&self, export: &str, path: &RelPath, wanted: Actions) -> Basis {
        let here = self.permits.iter().filter(|p| p.export == export && path.starts_with(&p.prefix));
        let (own, mut ruled): (Vec<_>, Vec<_>) = here.partition(|p| p.rule_mark.is_none());
        let mut have = own.iter().fold(self.everywhere, |all, permit| all | permit.actions);
        let mut basis = Basis { rights: have & wanted, ..Basis::default() };
        // Rules for all addresses first: other rules, and their addresses, are added only where they give more.
        ruled.sort_by_key(|permit| !permit.addresses.is_empty());
        for permit in ruled {
            if have.contains(permit.actions & wanted) {
                continue;
            }
            have |= permit.actions;
            match &permit.rule_mark {
                Some(mark) if !basis.rules.contains(mark) => basis.rules.push(mark.clone()),
                _ => {}
            }
            basis.addresses.extend(Some(permit.addresses.clone()).filter(|addresses| !addresses.is_empty()));
        }
        basis
    }

    /// The permits that cover a path and give at least a part of what the action needs.
    fn deciding(&self, action: Action, export: &str, path: &RelPath) -> Vec<&Permit> {
        let about = |p: &&Permit| !(p.actions & action.needs()).is_empty() && p.covers(action, export, path);
        self.permits.iter().filter(about).collect()
    }

    /// Whether an action is allowed.
    pub fn allows(&self, action: Action, export: &str, path: &RelPath) -> bool {
        let all =
            self.deciding(action, export, path).into_iter().fold(self.everywhere, |all, permit| all | permit.actions);
        all.contains(action.needs())
    }

    /// Whether the path is allowed only if it is a directory (`storage.read:/store/`). The caller refuses a file there.
    pub fn only_as_dir(&self, action: Action, export: &str, path: &RelPath) -> bool {
        let enough = |all: Actions| all.contains(action.needs());
        let any = self
            .deciding(action, export, path)
            .into_iter()
            .filter(|p| !(p.kind == PathKind::DirOnly && p.prefix == *path));
        !enough(any.fold(self.everywhere, |all, permit| all | permit.actions))
    }

    /// The path that confines an action: that of the widest permit that by itself allows the action; where none does, that of the
    /// widest permit that gives a part of it. The whole export for a directory above the permits.
    pub fn confining_path(&self, action: Action, export: &str, path: &RelPath) -> GrantedPath {
        if self.everywhere.contains(action.needs()) {
            return GrantedPath::whole();
        }
        let deciding = self.deciding(action, export, path);
        let alone: Vec<_> = deciding.iter().filter(|p| p.actions.contains(action.needs())).copied().collect();
        let counting = if alone.is_empty() { deciding } else { alone };
        let widest = counting.iter().map(|p| &p.prefix).min_by_key(|prefix| prefix.as_bytes().len());
        let Some(widest) = widest.filter(|prefix| path.starts_with(prefix)) else { return GrantedPath::whole() };
        let here = || counting.iter().filter(|p| p.prefix == *widest);
        let kind = here().map(|p| p.kind).find(|kind| *kind != PathKind::Entry).unwrap_or(PathKind::Entry);
        GrantedPath::at(widest.clone(), kind)
    }

    /// The longest path that all permits have in common; the root where they are for several exports.
    pub(super) fn shared_prefix(&self) -> RelPath {
        let Some((first, rest)) = self.permits.split_first().filter(|_| self.everywhere.is_empty()) else {
            return RelPath::root();
        };
        if rest.iter().any(|p| p.export != first.export) {
            return RelPath::root();
        }
        let mut prefix = first.prefix.clone();
        while !rest.iter().all(|p| p.prefix.starts_with(&prefix)) {
            prefix = prefix.parent();
        }
        prefix
    }

    /// The refusal of an action.
    pub(super) fn refusal(&self, action: Action, export: &str, path: &RelPath) -> Denied {
        let (needed, place) = (action.words(), format!("{export}/{path}"));
        if self.holder == ANONYMOUS {
            return Denied::Anonymous { needed, place };
        }
        let show = |p: &Permit| format!("{} {}/{}", p.actions, p.export, p.prefix);
        // A token may have hundreds of scopes: the first few show what it is for.
        let mut shown: Vec<String> = self.permits.iter().take(4).map(show).collect();
        if self.permits.len() > 4 {
            shown.push(format!("{} more", self.permits.len() - 4));
        }
        if shown.is_empty() {
            shown.push(self.everywhere.to_string());
        }
        Denied::Lacks { who: self.who.clone(), needed, place, permits: shown.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    fn permit(export: &str, prefix: &str, actions: Actions) -> Permit {
        let kind = if prefix.ends_with('/') { PathKind::DirOnly } else { PathKind::Entry };
        Permit::own(export.into(), path(prefix), kind, actions)
    }

    fn ticket(permits: Vec<Permit>) -> Ticket {
        let (who, holder) = ("a@b".into(), "token:1".into());
        Ticket { who, holder, permits, everywhere: Actions::NONE, expires: None }
    }

    #[test]
    fn a_permit_covers_whole_components_of_paths() {
        let ticket = ticket(vec![permit("data", "foo/bar", Actions::FOR_READ)]);
        for (at, may) in [("foo/bar", true), ("foo/bar/qux", true), ("foo/bargain", false), ("foo", false), ("", false)]
        {
            assert_eq!(ticket.allows(Action::Read, "data", &path(at)), may, "{at}");
        }
        assert!(!ticket.allows(Action::Read, "other", &path("foo/bar")));
    }

    #[test]
    fn examining_and_making_directories_are_allowed_above_a_permit() {
        let ticket = ticket(vec![permit("data", "foo/bar", Actions::FOR_CREATE)]);
        for above in ["", "foo"] {
            assert!(ticket.allows(Action::Stat, "data", &path(above)));
            assert!(ticket.allows(Action::MakeDir, "data", &path(above)));
            assert!(!ticket.allows(Action::Create, "data", &path(above)));
            assert!(
                ticket.actions_below("data", &path(above)).is_empty(),
                "an action on a directory above is not one on everything in it"
            );
        }
        assert!(!ticket.allows(Action::Stat, "data", &path("fox")));
        assert!(!ticket.allows(Action::MakeDir, "data", &path("foo/bargain")));
        assert_eq!(ticket.confining_path(Action::Stat, "data", &path("foo")), GrantedPath::whole());
        assert_eq!(
            ticket.confining_path(Action::Create, "data", &path("foo/bar/x")),
            GrantedPath::at(path("foo/bar"), PathKind::Entry)
        );
    }

    #[test]
    fn the_actions_of_all_permits_at_a_path_are_allowed() {
        let ticket = ticket(vec![
            permit("data", "a", Actions::OVERWRITE | Actions::RENAME),
            permit("data", "a/b", Actions::REMOVE),
        ]);
        assert!(ticket.allows(Action::Modify, "data", &path("a/b/c")));
        assert!(!ticket.allows(Action::Modify, "data", &path("a/c")));
        assert_eq!(ticket.shared_prefix(), path("a"));
        assert_eq!(ticket.confining_path(Action::Modify, "data", &path("a/b/c")).prefix, path("a"));
    }

    #[test]
    fn a_basis_has_the_addresses_of_only_those_rules_that_it_needs() {
        let near: Vec<IpNet> = vec!["192.0.2.0/24".parse().unwrap()];
        let by = |mark: &str, from: &[IpNet], permit: Permit| Permit {
            rule_mark: Some(mark.into()),
            addresses: from.to_vec(),
            ..permit
        };
        let ticket = ticket(vec![
            permit("data", "a", Actions::STAT),
            by("bound", &near, permit("data", "a", Actions::FOR_MODIFY | Actions::FOR_READ)),
            by("free", &[], permit("data", "", Actions::FOR_READ)),
            by("elsewhere", &[], permit("data", "b", Actions::FOR_MODIFY)),
        ]);
        let basis = |wanted| ticket.basis("data", &path("a/x"), wanted);
        let reading = basis(Actions::FOR_READ);
        assert_eq!(
            (reading.rights, reading.rules, reading.addresses),
            (Actions::STAT, vec!["free".to_owned()], vec![])
        );
        let writing = basis(Actions::ALL);
        assert_eq!((writing.rules, writing.addresses), (vec!["free".to_owned(), "bound".to_owned()], vec![near]));
        assert!(basis(Actions::STAT).rules.is_empty());
    }

    #[test]
    fn a_permit_for_a_directory_alone_does_not_cover_a_file() {
        let one = ticket(vec![permit("data", "a/", Actions::FOR_READ)]);
        assert!(one.allows(Action::Read, "data", &path("a")) && one.only_as_dir(Action::Read, "data", &path("a")));
        assert!(!one.only_as_dir(Action::Read, "data", &path("a/b")));
        let both = ticket(vec![permit("data", "a/", Actions::FOR_READ), permit("data", "", Actions::FOR_READ)]);
        assert!(!both.only_as_dir(Action::Read, "data", &path("a")));
        assert_eq!(both.confining_path(Action::Read, "data", &path("a/b")).prefix, RelPath::root());
    }

    #[test]
    fn refusals_say_what_would_be_allowed() {
        let ticket = ticket(vec![permit("data", "a", Actions::FOR_READ); 6]);
        let text = ticket.refusal(Action::Remove, "data", &path("a/b")).to_string();
        assert_eq!(text.matches("read+list+stat data/a").count(), 4);
        assert!(text.starts_with("a@b may not remove data/a/b; it may") && text.ends_with("2 more"), "{text}");
    }
}
