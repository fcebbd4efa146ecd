//! Where a transfer is to arrive, and how from there a receiving side is put together.

use std::sync::Arc;

use model::spec::Options;
use model::{Refusal, RelPath};
use store::Store;
use sys::waker::Waker;
use wire::receiver::Target;

use super::{Policy, Receiving};
use crate::journal::Journals;

/// A target that somebody may write to.
pub struct TargetPlace {
    /// Its store.
    pub store: Arc<dyn Store>,
    /// Its path there.
    pub path: RelPath,
    /// Whether existing files may be replaced; if not, why.
    pub may_replace: Result<(), Refusal>,
    /// Hears of directories in which unfinished files are made.
    pub opening: Box<dyn Fn(&RelPath) + Send + Sync>,
    /// Where it is written down what arrived of large files; none where nothing is kept for a later attempt.
    pub journals: Option<Journals>,
}

impl TargetPlace {
    /// A place where files may be replaced, and of which nothing is written down.
    pub fn new(store: Arc<dyn Store>, path: RelPath) -> TargetPlace {
        TargetPlace { store, path, may_replace: Ok(()), opening: Box::new(|_| {}), journals: None }
    }

    /// The receiving side of an attempt. The tag is a part of the names of unfinished files: random, and this attempt's alone.
    pub fn receive(self, options: Options, tag: String, waker: Waker) -> Arc<Receiving> {
        self.receive_for(options, tag, false, waker)
    }

    /// The same for another end that is told the steps of a dry run.
    pub(crate) fn receive_telling(self, options: Options, tag: String, waker: Waker) -> Arc<Receiving> {
        self.receive_for(options, tag, true, waker)
    }

    fn receive_for(self, options: Options, tag: String, tells_plans: bool, waker: Waker) -> Arc<Receiving> {
        let is_dir = self.store.is_dir(&self.path);
        let target = Target { path: self.path, into: options.into, is_dir };
        let policy = Policy { options, may_replace: self.may_replace, tag, journals: self.journals, tells_plans };
        Receiving::new(self.store, target, policy, waker, self.opening)
    }
}
