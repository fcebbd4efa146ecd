//! Reports beside the protocol: files as they are settled, and the file under way.

use model::name::RelPath;

use super::Sender;
use crate::settled_files::SettledFile;

impl Sender {
    /// Makes [`Sender::take_files`] return every file that is settled from now on.
    pub fn report_files(&mut self) {
        self.settled_files.begin();
    }

    /// Files that were settled since the last call.
    pub fn take_files(&mut self) -> Vec<SettledFile> {
        self.settled_files.take()
    }

    /// The file that was dealt last, if it is not settled.
    pub fn current(&self) -> Option<RelPath> {
        self.items.get(&self.settled_files.latest).map(|item| self.display_path(item))
    }
}
