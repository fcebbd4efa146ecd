//! Other people's servers as places where bytes rest: WebDAV, plain HTTP and S3 behind the one trait that directories have, so
//! that whatever copies, compares and reports copies, compares and reports there too.
//!
//! What this crate does not know: what a job is, the native protocol, keys of nodes, command lines and environments. Who one is
//! there (tokens, keys of S3), whom to trust and how to dial comes from above.

mod ahead;
pub mod dav;
mod failed;
pub mod fuzzing;
mod known;
pub mod mirrored;
mod patience;
mod pauses;
mod pieces;
pub mod s3;
mod server;

pub use dav::Dav;
pub use mirrored::Mirrored;
pub use s3::S3;
pub use server::{Means, Redirects, TokenSource};
