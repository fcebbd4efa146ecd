//! Decides who gets what, and when. Rates: max-min fair shares of one resource ([`max_min`]), of many resources ([`allocation`],
//! [`shares`]) and of one path ([`path_shares`]), below high-water marks ([`high_water_mark`]). Time: promised deadlines ([`calendar`]),
//! retries ([`retry`]), stragglers ([`endgame`]), a queue in which parties take turns ([`FairQueue`]). And the choice among several
//! sources ([`sources`]).
//!
//! Rates are in bytes per second. Times are durations since an origin that the caller chooses once.
//!
//! What this crate does not know: clocks, sockets, threads, randomness. Everything is a function of its arguments, so that a
//! simulator in virtual time steps the code that runs for real.
//!
//! ```
//! // Three transfers over a path of 100 bytes per second; one of them needs 10.
//! assert_eq!(sched::max_min(100.0, &[10.0, 80.0, 60.0]), [10.0, 45.0, 45.0]);
//! ```

pub mod allocation;
pub mod average;
pub mod calendar;
pub mod concurrency;
pub mod demand;
pub mod endgame;
mod fair_queue;
pub mod fluid;
pub mod high_water_mark;
pub mod limits;
mod max_min;
pub mod path_shares;
pub mod priority;
pub mod retry;
pub mod shares;
pub mod sources;

pub use fair_queue::FairQueue;
pub use max_min::{left_for_one_more, max_min, weighted_max_min};
