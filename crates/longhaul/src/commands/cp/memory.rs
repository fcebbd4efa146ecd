//! What is kept of a copy that has ended: for the next one of the same, and for `longhaul job`.

use engine::lastcopy::LastCopy;
use engine::transfer::{Ends, Transfer};
use model::{spec, v1};

use super::job::Job;
use crate::reins;

impl Job<'_> {
    /// When the same was last copied to the same place; none of what is no tree of files that are there before and after.
    pub(super) fn last_copy(&self) -> Option<LastCopy> {
        if self.files.is_some() || self.is_piped() || self.is_test() || self.mirrors.is_some() {
            return None;
        }
        let state = self.settings.state().ok()?;
        let rules = self.cp.filters.iter().map(|rule| format!("{} {}", rule.include, rule.pattern));
        let how = format!("{} {} {}", self.cp.recursive, self.cp.copy_links, self.into);
        let what: Vec<String> = self.places_of_all().into_iter().chain([how]).chain(rules).collect();
        Some(LastCopy::of(state.path(), &what))
    }

    /// Keeps when it began, where it was complete, and how it ended.
    pub(super) fn remember(&self, transfer: &Transfer<'_>, receipt: &v1::Receipt) {
        transfer.control.end(Some(receipt.clone()));
        if receipt.dry_run || self.is_test() {
            return;
        }
        // Where an entry of that name, or of that size, was enough nobody compared what changed.
        let compares = !matches!(transfer.options.sync, spec::Sync::Exists | spec::Sync::Size);
        let is_complete = receipt.state == v1::State::Done && compares && matches!(transfer.ends, Ends::Push { .. });
        if let Some(last_copy) = transfer.means.last_copy.as_ref().filter(|_| is_complete) {
            let _ = last_copy.keep();
        }
        if let Ok(state) = self.settings.state() {
            reins::remember(state.path(), &transfer.control.show());
        }
    }
}
