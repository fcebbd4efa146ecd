//! Reports the steps of a dry run.

use model::name::RelPath;
use model::spec::Step;
use wire::frame::{Outcome, Plan};
use wire::receiver::{Judgement, Wanted};

use super::Receiving;

/// The number of steps that may wait to be reported; where the peer leaves them unread, the metadata worker waits.
const STEPS_WAITING_MAX: usize = 1 << 16;

impl Receiving {
    /// Notes a step of a dry run.
    pub(super) fn plan(&self, step: Step, path: &RelPath, bytes: u64) {
        while self.state().machine.plans_waiting() >= STEPS_WAITING_MAX {
            if self.sleep(std::time::Duration::from_millis(20)) {
                return;
            }
        }
        let path = path
            .below(&self.target.path)
            .filter(|below| !below.is_root())
            .unwrap_or_else(|| path.name().map(|name| RelPath::root().join(&name)).unwrap_or_default());
        self.state().machine.planned(Plan { step, path, bytes });
    }

    /// Handles a file's judgement in a dry run: reports and settles it, or leaves the comparison to the sender.
    pub(super) fn judge_dry(&self, wanted: &Wanted, judgement: Judgement) {
        let outcome = match judgement {
            Judgement::WantUnless(_) => {
                // Counted here: the receiver does not handle the file again after the sender's comparison.
                let _ = self.refresh_file(wanted);
                return self.state().machine.judged(wanted.id, judgement);
            }
            Judgement::Skip => Outcome::Skipped,
            Judgement::Refuse(refusal) => Outcome::Failed(refusal),
            Judgement::Want | Judgement::WantRest(_) => {
                let bytes = if wanted.size == wire::frame::UNKNOWN_SIZE { 0 } else { wanted.size };
                self.plan(Step::Copy, &wanted.path, bytes);
                Outcome::Done
            }
        };
        self.settle(wanted.id, outcome);
    }
}
