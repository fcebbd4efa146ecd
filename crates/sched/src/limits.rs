//! The bounds that a hub and the simulator keep.

use std::time::Duration;

use crate::retry::Backoff;

/// Transfers of one queue at once. Each fills its path by itself; a few of them hide the pauses between files.
pub const QUEUE_TRANSFERS_MAX: u32 = 4;
/// The pause before a file is tried again.
pub const FILE_BACKOFF: Backoff = Backoff { first: Duration::from_secs(10), longest: Duration::from_secs(600) };
/// How long a transfer takes to reach its rate: its rate until then says nothing about what its queue can use.
pub const DEMAND_STARTUP: Duration = Duration::from_secs(5);
