//! The hub: joins nodes into a collaboration. Jobs wait in a queue that shares links by bytes, and the hub explains why each file waits.
//!
//! The hub moves no payload: it orders transfers at nodes and third-party copies at servers, over HTTP, and follows them. Its state is in a
//! database ([`database`]). Pure functions (`sched`, [`topology`], [`admission`], [`planner`]) make all decisions from what was read there.
//!
//! What this crate does not know: the data plane, exports, flags, the environment.

pub mod admission;
pub mod api;
pub mod audit_trail;
pub mod carriers;
pub mod catalogue;
pub mod database;
pub mod delegated;
pub mod estimates;
pub mod fts;
pub mod hubs;
pub mod keys;
pub mod limits;
pub mod measurements;
pub mod messages;
pub mod meters;
pub mod planner;
pub mod portal;
pub mod progress;
pub mod promises;
pub mod roles;
pub mod rucio;
pub mod run;
pub mod scheduler;
pub mod server;
pub mod servers;
pub mod snapshot;
pub mod sources;
pub mod stager;
pub mod state;
pub mod states;
pub mod tape;
pub mod third_party;
pub mod time;
pub mod tls;
pub mod tokens;
pub mod topology;
mod twin;
