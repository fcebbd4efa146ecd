//! Reports of settled files, and the file under way.

use model::name::RelPath;

use crate::frame::Outcome;

/// A file that is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledFile {
    /// Its path: the source root's name, and what is below it.
    pub path: RelPath,
    /// Its length, bytes.
    pub size: u64,
    /// Its result.
    pub outcome: Outcome,
}

/// The files that were settled since the last call, where reports are wanted; and the file whose bytes moved last.
#[derive(Debug, Default)]
pub(crate) struct SettledFiles {
    is_wanted: bool,
    files: Vec<SettledFile>,
    /// The id of the file under way.
    pub latest: u64,
}

impl SettledFiles {
    /// Reports each settled file from now on.
    pub fn begin(&mut self) {
        self.is_wanted = true;
    }

    /// Whether each settled file is reported.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Notes a settled file. Its path is computed only where reports are wanted.
    pub fn settled(&mut self, path: impl FnOnce() -> RelPath, size: u64, outcome: &Outcome) {
        if self.is_wanted {
            self.files.push(SettledFile { path: path(), size, outcome: outcome.clone() });
        }
    }

    /// Takes the files that were settled since the last call.
    pub fn take(&mut self) -> Vec<SettledFile> {
        std::mem::take(&mut self.files)
    }
}
