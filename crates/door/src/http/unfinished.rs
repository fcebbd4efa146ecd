//! The names of files that are not finished, and the lists by which a later start removes what a killed node left.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::leftovers::Leftovers;

use crate::host::Reach;

/// One list for each directory that somebody was let into.
pub(crate) struct Unfinished {
    state: PathBuf,
    lists: Mutex<HashMap<PathBuf, (String, Option<Leftovers>)>>,
    last: AtomicU64,
    turns: [Mutex<()>; TURNS],
}

/// Names that can be given at the same time: enough that nobody waits for another file's.
const TURNS: usize = 64;

impl Unfinished {
    /// With its lists in this state directory.
    pub fn new(state: &std::path::Path) -> Unfinished {
        Unfinished {
            state: state.to_owned(),
            lists: Mutex::default(),
            last: AtomicU64::new(0),
            turns: [const { Mutex::new(()) }; TURNS],
        }
    }

    /// The turn of whoever gives a file this name: what stands there is looked at and replaced by one at a time.
    pub fn turn(&self, reach: &Reach) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        (&reach.dir, reach.path.as_bytes()).hash(&mut hasher);
        let at = (hasher.finish() % TURNS as u64) as usize;
        self.turns[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tag that no other unfinished file has; its directory is written down.
    pub fn tag(&self, reach: &Reach) -> String {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let (tag, list) = lists.entry(reach.dir.clone()).or_insert_with(|| {
            let number = self.last.fetch_add(1, Ordering::Relaxed);
            // Without random numbers the process and the count are what tells tags apart.
            let tag = engine::identity::random_tag().unwrap_or_else(|_| format!("{}x{number}", std::process::id()));
            let list = Leftovers::begin(&self.state, &reach.dir, &tag);
            let list = list.inspect_err(|error| {
                tracing::warn!(%error, "cannot write down unfinished files; if this node is killed they stay");
            });
            (tag, list.ok())
        });
        if let Some(list) = list {
            list.opening(&reach.path.parent());
        }
        format!("{tag}-{:x}", self.last.fetch_add(1, Ordering::Relaxed))
    }
}
