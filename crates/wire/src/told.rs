//! What becomes of files, for whoever wants to hear of each; and which of them is under way.

use model::name::RelPath;

use crate::frame::Outcome;

/// A file that is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTold {
    /// Its path: the source root's name, and what is below it.
    pub path: RelPath,
    /// Its bytes.
    pub size: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// Files that were settled, where somebody asked for them; and the one that bytes were last of.
#[derive(Debug, Default)]
pub(crate) struct Told {
    is_asked: bool,
    files: Vec<FileTold>,
    /// The id of the file under way.
    pub latest: u64,
}

impl Told {
    /// From now on each file is told of.
    pub fn ask(&mut self) {
        self.is_asked = true;
    }

    /// Whether each file is told of.
    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// A file is settled; its path is made only where somebody wants it.
    pub fn settled(&mut self, path: impl FnOnce() -> RelPath, size: u64, outcome: &Outcome) {
        if self.is_asked {
            self.files.push(FileTold { path: path(), size, outcome: outcome.clone() });
        }
    }

    /// Those that were settled since the last call.
    pub fn take(&mut self) -> Vec<FileTold> {
        std::mem::take(&mut self.files)
    }
}
