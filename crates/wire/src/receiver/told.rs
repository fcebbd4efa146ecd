//! What is told beside the protocol: files as they are settled, the one under way, and the steps of a dry run.

use model::name::RelPath;

use super::Receiver;
use crate::frame::Plan;
use crate::limits;
use crate::told::FileTold;

impl Receiver {
    /// From now on [`Receiver::take_files`] tells of every file that is settled.
    pub fn tell_files(&mut self) {
        self.told.ask();
    }

    /// Files that were settled since the last call.
    pub fn take_files(&mut self) -> Vec<FileTold> {
        self.told.take()
    }

    /// The file of which something arrived last, if it is not settled.
    pub fn current(&self) -> Option<RelPath> {
        self.unsettled.contains_key(&self.told.latest).then(|| self.shown(self.told.latest))
    }

    /// A step of a dry run.
    pub fn planned(&mut self, plan: Plan) {
        self.plans.push_back(plan);
    }

    /// Steps of a dry run that nobody has been told of yet; at most [`limits::PLANS_MAX`].
    pub fn take_plans(&mut self) -> Vec<Plan> {
        let count = self.plans.len().min(limits::PLANS_MAX);
        self.plans.drain(..count).collect()
    }

    /// Steps that wait in [`Receiver::take_plans`].
    pub fn plans_waiting(&self) -> usize {
        self.plans.len()
    }
}
