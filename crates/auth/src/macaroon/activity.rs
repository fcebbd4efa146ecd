//! The activities in macaroons, as a set.

use std::fmt;
use std::ops::{BitAnd, BitOr};

use crate::actions::Actions;

/// A set of activities (the words of dCache and XrdMacaroons).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Activities(u8);

const WORDS: [(&str, u8); 8] = [
    ("READ_METADATA", 1),
    ("UPLOAD", 1 << 1),
    ("DOWNLOAD", 1 << 2),
    ("DELETE", 1 << 3),
    ("MANAGE", 1 << 4),
    ("UPDATE_METADATA", 1 << 5),
    ("LIST", 1 << 6),
    ("STAGE", 1 << 7),
];

impl Activities {
    /// Examine files and directories.
    pub const READ_METADATA: Activities = Activities(1);
    /// Create files, and their missing directories.
    pub const UPLOAD: Activities = Activities(1 << 1);
    /// Read.
    pub const DOWNLOAD: Activities = Activities(1 << 2);
    /// Remove.
    pub const DELETE: Activities = Activities(1 << 3);
    /// Make directories and rename; with `UPLOAD` also overwrite.
    pub const MANAGE: Activities = Activities(1 << 4);
    /// Change metadata. No request to a node needs it.
    pub const UPDATE_METADATA: Activities = Activities(1 << 5);
    /// List directories.
    pub const LIST: Activities = Activities(1 << 6);
    /// Bring from tape.
    pub const STAGE: Activities = Activities(1 << 7);
    /// All activities.
    pub const ALL: Activities = Activities(0xff);

    /// Parses `DOWNLOAD,LIST`; none where a word is unknown.
    pub fn parse(text: &str) -> Option<Activities> {
        text.split(',').try_fold(Activities(0), |all, word| {
            WORDS.iter().find(|(known, _)| *known == word).map(|(_, bit)| Activities(all.0 | bit))
        })
    }

    /// Whether it contains all of `other`.
    pub fn contains(self, other: Activities) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The actions that it allows.
    pub fn actions(self) -> Actions {
        let one = |activity, actions| if self.contains(activity) { actions } else { Actions::NONE };
        one(Activities::READ_METADATA, Actions::STAT)
            | one(Activities::UPLOAD, Actions::CREATE | Actions::MAKE_DIR)
            | one(Activities::DOWNLOAD, Actions::READ)
            | one(Activities::DELETE, Actions::REMOVE)
            | one(Activities::MANAGE, Actions::MAKE_DIR | Actions::RENAME)
            | one(Activities::UPLOAD | Activities::MANAGE, Actions::OVERWRITE)
            | one(Activities::LIST, Actions::LIST)
            | one(Activities::STAGE, Actions::STAGE | Actions::POLL)
    }

    /// The activities that a principal with these actions may pass on: those that allow nothing else.
    pub fn within(actions: Actions) -> Activities {
        let is_allowed = |bit: &u8| actions.contains(Activities(*bit).actions());
        let bits = WORDS.iter().map(|(_, bit)| *bit).filter(is_allowed).fold(0, |all, bit| all | bit);
        let mut activities = Activities(bits);
        // UPLOAD and MANAGE together allow to overwrite, which neither allows alone.
        if !actions.contains(activities.actions()) {
            activities.0 &= !Activities::MANAGE.0;
        }
        // UPDATE_METADATA allows no action here, so it would be in every set; a principal that may overwrite has it.
        if !actions.contains(Actions::OVERWRITE) {
            activities.0 &= !Activities::UPDATE_METADATA.0;
        }
        activities
    }
}

impl BitAnd for Activities {
    type Output = Activities;

    fn bitand(self, other: Activities) -> Activities {
        Activities(self.0 & other.0)
    }
}

impl BitOr for Activities {
    type Output = Activities;

    fn bitor(self, other: Activities) -> Activities {
        Activities(self.0 | other.0)
    }
}

impl fmt::Display for Activities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<&str> = WORDS.iter().filter(|(_, bit)| self.0 & bit != 0).map(|(word, _)| *word).collect();
        f.write_str(&words.join(","))
    }
}

impl fmt::Debug for Activities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Activities({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::Action;

    #[test]
    fn words_of_activities_are_read_back() {
        for (word, bit) in WORDS {
            assert_eq!(Activities::parse(word), Some(Activities(bit)));
        }
        assert_eq!(Activities::parse("DOWNLOAD,LIST").map(|a| a.to_string()), Some("DOWNLOAD,LIST".into()));
        for bad in ["", "DOWNLOAD,", "download", "READ", "LIST, DOWNLOAD"] {
            assert_eq!(Activities::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_activities_that_fts_requests_allow_to_replace() {
        let fts = Activities::parse("MANAGE,UPLOAD,DELETE,LIST").map(Activities::actions).unwrap();
        assert!(fts.contains(Action::Modify.needs()));
        let upload = Activities::UPLOAD.actions();
        assert!(upload.contains(Actions::CREATE) && !upload.contains(Actions::OVERWRITE));
    }

    #[test]
    fn nobody_passes_on_more_actions_than_they_have() {
        for bits in 0..1u16 << 10 {
            let singles = [
                Actions::READ,
                Actions::LIST,
                Actions::STAT,
                Actions::CREATE,
                Actions::MAKE_DIR,
                Actions::OVERWRITE,
                Actions::RENAME,
                Actions::REMOVE,
                Actions::STAGE,
                Actions::POLL,
            ];
            let chosen = singles.iter().enumerate().filter(|(at, _)| bits & (1 << at) != 0);
            let actions = chosen.fold(Actions::NONE, |all, (_, one)| all | *one);
            assert!(actions.contains(Activities::within(actions).actions()), "{actions}");
        }
        assert_eq!(Activities::within(Actions::FOR_READ).to_string(), "READ_METADATA,DOWNLOAD,LIST");
        assert_eq!(Activities::within(Actions::FOR_DROP).to_string(), "UPLOAD");
        assert_eq!(Activities::within(Actions::ALL), Activities::ALL);
        assert!(Activities::within(Actions::NONE).is_empty());
    }
}
