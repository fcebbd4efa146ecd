//! The target of a transfer, and the receiving side that is made for it.

use std::sync::Arc;

use model::spec::Options;
use model::{Refusal, RelPath};
use store::Store;
use sys::waker::Waker;
use wire::receiver::Target;

use super::{Policy, Receiving};
use crate::journal::Journals;

/// A target that the client may write to.
pub struct TargetPlace {
    /// Its store.
    pub store: Arc<dyn Store>,
    /// Its path there.
    pub path: RelPath,
    /// Whether existing files may be replaced; if not, why.
    pub may_replace: Result<(), Refusal>,
    /// Called with each directory before an unfinished file is made in it.
    pub before_unfinished_file: Box<dyn Fn(&RelPath) + Send + Sync>,
    /// The journals of large files; none where unfinished files are not kept for a later attempt.
    pub journals: Option<Journals>,
}

impl TargetPlace {
    /// A target where files may be replaced, without journals.
    pub fn new(store: Arc<dyn Store>, path: RelPath) -> TargetPlace {
        TargetPlace { store, path, may_replace: Ok(()), before_unfinished_file: Box::new(|_| {}), journals: None }
    }

    /// The receiving side of an attempt. The tag is a part of the names of unfinished files: random, and used by this attempt only.
    pub fn receive(self, options: Options, tag: String, waker: Waker) -> Arc<Receiving> {
        self.receive_for(options, tag, false, waker)
    }

    /// The receiving side of an attempt that reports the steps of a dry run to the other end.
    pub(crate) fn receive_reporting(self, options: Options, tag: String, waker: Waker) -> Arc<Receiving> {
        self.receive_for(options, tag, true, waker)
    }

    fn receive_for(self, options: Options, tag: String, reports_plans: bool, waker: Waker) -> Arc<Receiving> {
        let is_dir = self.store.is_dir(&self.path);
        let target = Target { path: self.path, into: options.into, is_dir };
        let policy = Policy { options, may_replace: self.may_replace, tag, journals: self.journals, reports_plans };
        Receiving::new(self.store, target, policy, waker, self.before_unfinished_file)
    }
}
