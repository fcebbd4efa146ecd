//! Free space at the target: checked before a file is wanted, reserved while it is written, waited for when the target is full.
//!
//! A wanted file is promised its space until the space is reserved in the file system or written, so that the jobs of one process
//! do not promise the same space twice. Other programs may fill the target meanwhile: an operation that finds the target full is
//! tried again until there is space, or the time of `--wait-space` is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::units::Bytes;
use parking_lot::Mutex;
use store::Space;
use wire::frame::UNKNOWN_SIZE;
use wire::receiver::Wanted;

use super::Receiving;

/// Bytes promised on each device, by all jobs of this process.
static PROMISED: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

fn with_promises(change: impl FnOnce(&mut BTreeMap<u64, u64>)) {
    change(&mut PROMISED.lock());
}

/// Space that is promised to a file, until this is dropped.
#[derive(Debug)]
pub(super) struct Promise {
    device: u64,
    bytes: u64,
}

impl Promise {
    /// Takes back a part of the promise whose bytes were written: they are no longer free space.
    pub(super) fn reduce(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        with_promises(|all| {
            let left = all.get(&self.device).copied().unwrap_or(0).saturating_sub(bytes);
            match left {
                0 => all.remove(&self.device),
                left => all.insert(self.device, left),
            };
        });
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.reduce(u64::MAX);
    }
}

/// There is not enough space for a file now.
#[derive(Clone, Copy, Debug)]
pub(super) struct NoRoom {
    needed: u64,
    free: u64,
    /// The file is larger than the device: no wait helps.
    pub is_too_large: bool,
}

impl NoRoom {
    pub(super) fn reason(self) -> String {
        let (needed, free) = (Bytes(self.needed), Bytes(self.free));
        if self.is_too_large {
            format!("the target's device is too small: {needed} needed")
        } else {
            format!("the target is full: {needed} needed, {free} free")
        }
    }
}

/// The free space as it was last measured, and since when the target is full.
#[derive(Debug, Default)]
pub(super) struct SpaceState {
    measured: Mutex<Option<(Instant, Space)>>,
    full_since: Mutex<Option<Instant>>,
}

/// How long a measurement of free space is used again, while there is plenty.
const REUSE_FOR: Duration = Duration::from_secs(1);
/// How often a full target is tried again.
const TRY_EVERY: Duration = Duration::from_millis(300);

impl Receiving {
    /// Promises a file its space, less the `allocated` bytes of its unfinished file. None where the size is unknown, the file is sparse or
    /// complete, or the store does not report its space.
    ///
    /// # Errors
    /// [`NoRoom`]: there is not enough free space.
    pub(super) fn promise(&self, wanted: &Wanted, allocated: u64) -> Result<Option<Promise>, NoRoom> {
        let sparse = wanted.attributes.as_ref().is_some_and(|a| a.sparse);
        if wanted.size == UNKNOWN_SIZE || wanted.size <= allocated || sparse {
            return Ok(None);
        }
        let needed = wanted.size - allocated;
        // Measured without the lock: a file system that does not answer must not stop the jobs of others.
        let Some(space) = self.space(wanted, needed) else { return Ok(None) };
        let mut result = Ok(None);
        with_promises(|all| {
            let taken = all.entry(space.device).or_default();
            let free = space.free_bytes.saturating_sub(*taken);
            if free < needed {
                result = Err(NoRoom { needed, free, is_too_large: needed > space.total_bytes });
                return;
            }
            *taken += needed;
            result = Ok(Some(Promise { device: space.device, bytes: needed }));
        });
        result
    }

    /// The free space, measured again unless there was plenty within [`REUSE_FOR`].
    fn space(&self, wanted: &Wanted, needed: u64) -> Option<Space> {
        let measured = *self.room.measured.lock();
        if let Some((at, space)) = measured {
            let mut taken = 0;
            with_promises(|all| taken = all.get(&space.device).copied().unwrap_or(0));
            if at.elapsed() < REUSE_FOR && taken.saturating_add(needed) < space.free_bytes / 2 {
                return Some(space);
            }
        }
        let space = self.store.space(&wanted.path.parent()).ok().flatten()?;
        *self.room.measured.lock() = Some((Instant::now(), space));
        Some(space)
    }

    /// Tries an operation again for as long as the target is full and `--wait-space` lasts.
    ///
    /// # Errors
    /// The operation failed for another reason, or the target stayed full.
    pub(super) fn with_room<T>(&self, mut operation: impl FnMut() -> store::Result<T>) -> store::Result<T> {
        loop {
            match operation() {
                Err(error) if error.is_full() => {
                    let reason = format!("the target is full ({})", self.target.path);
                    if !self.wait_for_room(&reason) {
                        return Err(error);
                    }
                }
                other => {
                    if other.is_ok() {
                        self.note_room();
                    }
                    return other;
                }
            }
        }
    }

    /// Notes that the target has space, and ends a wait for it.
    pub(super) fn note_room(&self) {
        let mut since = self.room.full_since.lock();
        if let Some(since) = since.take() {
            self.note_wait(|all| all.space += since.elapsed());
            self.set_busy(String::new());
        }
    }

    /// How long the target has been full.
    pub(super) fn full_for(&self) -> Duration {
        let since = self.room.full_since.lock();
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Waits a while for space. Returns `false` when `--wait-space` is over, or the job is.
    pub(super) fn wait_for_room(&self, reason: &str) -> bool {
        let patience = self.policy.options.wait_space;
        let waited = {
            let mut since = self.room.full_since.lock();
            since.get_or_insert_with(Instant::now).elapsed()
        };
        if waited >= patience {
            return false;
        }
        let left = model::duration::show(Duration::from_secs((patience - waited).as_secs().max(1)));
        self.set_busy(format!("{reason}; free space there: the job goes on by itself (waiting up to {left} more)"));
        !self.sleep(TRY_EVERY.min(patience - waited))
    }
}
