//! Reports beside the protocol: files as they are settled, and the file under way.

use model::name::RelPath;

use super::Sender;
use crate::settled_files::SettledFile;

impl Sender {
    /// From now on [`Sender::take_files`] returns every file that is settled.
    pub fn tell_files(&mut self) {
        self.told.ask();
    }

    /// Files that were settled since the last call.
    pub fn take_files(&mut self) -> Vec<SettledFile> {
        self.told.take()
    }

    /// The file that was dealt last, if it is not settled.
    pub fn current(&self) -> Option<RelPath> {
        self.items.get(&self.told.latest).map(|item| self.shown(item))
    }
}
