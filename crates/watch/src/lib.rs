//! Regular tests among many nodes, as a part of a hub: what is tested when ([`mesh`], [`slots`]), what was found and when ([`archive`]), what a path
//! should give and what is wrong with it ([`judge`], [`segments`], [`alarms`]), and who is told ([`notify`]).
//!
//! The straight line: configuration -> mesh -> slots -> schedules at nodes ([`collector`]) -> measurements -> observations -> archive and
//! judge -> alarms -> notifications, pages, API ([`api`]).
//!
//! What this crate does not know: how anything is measured (nodes do), how a hub authenticates and listens (it is given who asks).

pub mod alarms;
pub mod api;
pub mod archive;
pub mod collector;
pub mod config;
pub mod counters;
pub mod directory;
pub mod fetch;
pub mod fuzzing;
pub mod judge;
pub mod lookup;
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
