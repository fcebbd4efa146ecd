//! Reports beside the protocol: files as they are settled, the file under way, and the steps of a dry run.

use model::name::RelPath;

use super::Receiver;
use crate::frame::Plan;
use crate::limits;
use crate::settled_files::SettledFile;

impl Receiver {
    /// Makes [`Receiver::take_files`] return every file that is settled from now on.
    pub fn report_files(&mut self) {
        self.settled_files.begin();
    }

    /// Files that were settled since the last call.
    pub fn take_files(&mut self) -> Vec<SettledFile> {
        self.settled_files.take()
    }

    /// The file whose bytes arrived last, if it is not settled.
    pub fn current(&self) -> Option<RelPath> {
        self.unsettled.contains_key(&self.settled_files.latest).then(|| self.display_path(self.settled_files.latest))
    }

    /// Adds a step of a dry run.
    pub fn planned(&mut self, plan: Plan) {
        self.plans.push_back(plan);
    }

    /// Takes the steps of a dry run that were not reported yet; at most [`limits::PLANS_MAX`].
    pub fn take_plans(&mut self) -> Vec<Plan> {
        let count = self.plans.len().min(limits::PLANS_MAX);
        self.plans.drain(..count).collect()
    }

    /// Steps that wait in [`Receiver::take_plans`].
    pub fn plans_waiting(&self) -> usize {
        self.plans.len()
    }
}
