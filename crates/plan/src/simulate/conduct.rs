//! How the files of a queue become transfers: as a hub orders them, or as one copy.
//!
//! Does not know: files, rates.

use scenario::{Scheduler, SimulationSettings};
use sched::limits::QUEUE_TRANSFERS_MAX;

/// Files of one transfer, as a hub orders them from a node.
const FILES_PER_TRANSFER: u32 = 1000;

/// How the files of a queue become transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConduct {
    /// Transfers at once.
    pub transfers_max: u32,
    /// Files of one transfer.
    pub files_per_transfer: u32,
    /// Whether the first losses of a transfer are followed one by one.
    pub follows_loss: bool,
}

impl QueueConduct {
    /// A hub orders several transfers of bounded length. Without one, all files are one transfer, as `longhaul cp` moves them; its losses are followed
    /// where rates are computed at each change.
    pub fn of(settings: &SimulationSettings) -> QueueConduct {
        match settings.scheduler {
            Scheduler::Hub => QueueConduct {
                transfers_max: QUEUE_TRANSFERS_MAX,
                files_per_transfer: FILES_PER_TRANSFER,
                follows_loss: false,
            },
            Scheduler::None => {
                QueueConduct { transfers_max: 1, files_per_transfer: u32::MAX, follows_loss: settings.step.is_zero() }
            }
        }
    }
}
