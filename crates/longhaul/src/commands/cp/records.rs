//! Records of a copy that has ended: for the next copy of the same tree, and for `longhaul job`.

use engine::lastcopy::LastCopy;
use engine::transfer::{Ends, Transfer};
use model::{spec, v1};

use super::job::CopyJob;
use crate::job_control;

impl CopyJob<'_> {
    /// The record of the last copy from the same sources to the same target; none where no tree of files is copied.
    pub(super) fn last_copy(&self) -> Option<LastCopy> {
        if self.files.is_some() || self.is_piped() || self.is_test() || self.mirrors.is_some() {
            return None;
        }
        let state = self.settings.state().ok()?;
        let rules = self.cp.filters.iter().map(|rule| format!("{} {}", rule.include, rule.pattern));
        let options = format!("{} {} {}", self.cp.recursive, self.cp.copy_links, self.into_dir);
        let identity: Vec<String> = self.all_locators_in_full().into_iter().chain([options]).chain(rules).collect();
        Some(LastCopy::of(state.path(), &identity))
    }

    /// Records how the copy ended, and, if it was complete, when it began.
    pub(super) fn remember(&self, transfer: &Transfer<'_>, receipt: &v1::Receipt) {
        transfer.control.end(Some(receipt.clone()));
        if receipt.dry_run || self.is_test() {
            return;
        }
        // With `exists` or `size`, entries that have changed may have been skipped: such a copy is no base for the next one.
        let compares_content = !matches!(transfer.options.sync, spec::Sync::Exists | spec::Sync::Size);
        let is_complete =
            receipt.state == v1::State::Done && compares_content && matches!(transfer.ends, Ends::Push { .. });
        if let Some(last_copy) = transfer.session_parts.last_copy.as_ref().filter(|_| is_complete) {
            let _ = last_copy.keep();
        }
        if let Ok(state) = self.settings.state() {
            job_control::remember(state.path(), &transfer.control.show());
        }
    }
}
