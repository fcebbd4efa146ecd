//! Actions on a path, and sets of them. Does not know who may do them.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};

/// An action on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Read the bytes of a file. A key that may read may also examine and list.
    Read,
    /// Create a file.
    Create,
    /// Replace, rename and remove.
    Modify,
    /// Examine: size, times, digests. Allowed for the directories above a permit's path too, since clients walk
    /// down to it.
    Stat,
    /// List a directory.
    List,
    /// Make a directory. Allowed for the missing directories above a permit's path too (WLCG profile 1.3, storage.create).
    MakeDir,
    /// Replace the content of a file.
    Overwrite,
    /// Move to or from a name, where nothing is replaced.
    Rename,
    /// Remove.
    Remove,
}

impl Action {
    /// Whether the action changes something.
    pub fn changes(self) -> bool {
        !matches!(self, Action::Read | Action::Stat | Action::List)
    }

    /// Whether the action is also allowed for the directories above a permit's path.
    pub(crate) fn includes_parents(self) -> bool {
        matches!(self, Action::Stat | Action::MakeDir)
    }

    /// The set of actions that must be allowed for it.
    pub fn needs(self) -> Actions {
        match self {
            Action::Read => Actions::READ,
            Action::Create => Actions::CREATE,
            Action::Modify => Actions::OVERWRITE | Actions::RENAME | Actions::REMOVE,
            Action::Stat => Actions::STAT,
            Action::List => Actions::LIST,
            Action::MakeDir => Actions::MAKE_DIR,
            Action::Overwrite => Actions::OVERWRITE,
            Action::Rename => Actions::RENAME,
            Action::Remove => Actions::REMOVE,
        }
    }

    /// The words for people: "to ... PATH".
    pub fn words(self) -> &'static str {
        match self {
            Action::Read => "read",
            Action::Create => "create",
            Action::Modify => "change what is there at",
            Action::Stat => "look at",
            Action::List => "list",
            Action::MakeDir => "make the directory",
            Action::Overwrite => "overwrite",
            Action::Rename => "rename",
            Action::Remove => "remove",
        }
    }
}

/// A set of actions.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Actions(u16);

impl Actions {
    /// Nothing.
    pub const NONE: Actions = Actions(0);
    /// Read the bytes of files.
    pub const READ: Actions = Actions(1);
    /// List directories.
    pub const LIST: Actions = Actions(1 << 1);
    /// Examine files and directories.
    pub const STAT: Actions = Actions(1 << 2);
    /// Create files.
    pub const CREATE: Actions = Actions(1 << 3);
    /// Make directories.
    pub const MAKE_DIR: Actions = Actions(1 << 4);
    /// Replace the content of files.
    pub const OVERWRITE: Actions = Actions(1 << 5);
    /// Rename where nothing is replaced.
    pub const RENAME: Actions = Actions(1 << 6);
    /// Remove.
    pub const REMOVE: Actions = Actions(1 << 7);
    /// Bring from tape, and keep on disk.
    pub const STAGE: Actions = Actions(1 << 8);
    /// Ask whether something is on disk.
    pub const POLL: Actions = Actions(1 << 9);

    /// `storage.read`: read, list, examine.
    pub const FOR_READ: Actions = Actions(Self::READ.0 | Self::LIST.0 | Self::STAT.0);
    /// `storage.create`: new files and directories, renames that replace nothing, examine.
    pub const FOR_CREATE: Actions = Actions(Self::CREATE.0 | Self::MAKE_DIR.0 | Self::RENAME.0 | Self::STAT.0);
    /// `storage.modify`: the actions of `storage.create`, and replace and remove.
    pub const FOR_MODIFY: Actions = Actions(Self::FOR_CREATE.0 | Self::OVERWRITE.0 | Self::REMOVE.0);
    /// `storage.stage`: stage, poll, examine. Not read (WLCG profile 1.3).
    pub const FOR_STAGE: Actions = Actions(Self::STAGE.0 | Self::POLL.0 | Self::STAT.0);
    /// The actions of a key with the right to create: a drop box, which shows nothing.
    pub const FOR_DROP: Actions = Actions(Self::CREATE.0 | Self::MAKE_DIR.0);
    /// Everything.
    pub const ALL: Actions = Actions(Self::FOR_READ.0 | Self::FOR_MODIFY.0 | Self::FOR_STAGE.0);

    /// Parses `read+list`, as `Display` writes it; `None` where a word is unknown.
    pub fn parse(text: &str) -> Option<Actions> {
        text.split('+').try_fold(Actions::NONE, |all, word| {
            WORDS.iter().find(|(_, known)| *known == word).map(|(one, _)| all | *one)
        })
    }

    /// Whether it contains all of `other`.
    pub fn contains(self, other: Actions) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The actions of the set that change nothing.
    pub fn unchanging(self) -> Actions {
        self & (Actions::FOR_READ | Actions::POLL)
    }
}

impl BitOr for Actions {
    type Output = Actions;

    fn bitor(self, other: Actions) -> Actions {
        Actions(self.0 | other.0)
    }
}

impl BitOrAssign for Actions {
    fn bitor_assign(&mut self, other: Actions) {
        self.0 |= other.0;
    }
}

impl BitAnd for Actions {
    type Output = Actions;

    fn bitand(self, other: Actions) -> Actions {
        Actions(self.0 & other.0)
    }
}

const WORDS: [(Actions, &str); 10] = [
    (Actions::READ, "read"),
    (Actions::LIST, "list"),
    (Actions::STAT, "stat"),
    (Actions::CREATE, "create"),
    (Actions::MAKE_DIR, "mkdir"),
    (Actions::OVERWRITE, "overwrite"),
    (Actions::RENAME, "rename"),
    (Actions::REMOVE, "remove"),
    (Actions::STAGE, "stage"),
    (Actions::POLL, "poll"),
];

impl fmt::Display for Actions {
    /// `read+list+stat`; `nothing` for none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = WORDS.iter().filter(|(one, _)| self.contains(*one)).map(|(_, word)| *word).collect();
        f.write_str(&if words.is_empty() { "nothing".to_owned() } else { words.join("+") })
    }
}

impl fmt::Debug for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Actions({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_actions_contain_their_parts_and_are_read_back() {
        assert!(Actions::FOR_MODIFY.contains(Action::Modify.needs()));
        assert!(!Actions::FOR_CREATE.contains(Actions::OVERWRITE));
        assert!(!Actions::FOR_STAGE.contains(Actions::READ));
        assert_eq!(Actions::ALL.unchanging(), Actions::FOR_READ | Actions::POLL);
        assert_eq!(
            (Actions::FOR_READ.to_string(), Actions::NONE.to_string()),
            ("read+list+stat".into(), "nothing".into())
        );
        assert_eq!(Actions::parse(&Actions::ALL.to_string()), Some(Actions::ALL));
        assert_eq!((Actions::parse("read+fly"), Actions::parse("")), (None, None));
    }
}
