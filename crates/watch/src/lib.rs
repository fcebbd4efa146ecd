//! Regular tests among many nodes, as a part of a hub: the tests and their times ([`mesh`], [`slots`]), their results ([`archive`]), what
//! is expected of paths and what is wrong with them ([`judge`], [`segments`], [`loss_rates`], [`alarms`]), and the recipients of alarms ([`notify`]).
//!
//! The flow of data: configuration -> mesh -> slots -> schedules at nodes ([`collector`]) -> measurements -> observations -> archive and
//! judge -> alarms -> notifications, pages, API ([`api`]).
//!
//! What this crate does not know: how anything is measured (nodes do that), how a hub authenticates and listens (each request arrives with
//! its authenticated caller).

pub mod alarms;
pub mod api;
pub mod archive;
pub mod collector;
pub mod config;
pub mod counters;
pub mod diagnosis;
pub mod directory;
mod exercises;
pub mod fetch;
pub mod fuzzing;
pub mod judge;
pub mod lookup;
pub mod loss_rates;
pub mod mesh;
pub mod notify;
pub mod observation;
mod outgoing;
mod pages;
pub mod psconfig;
pub mod records;
pub mod remote_write;
pub mod run;
pub mod segments;
pub mod slots;
pub mod state;
mod time;
