//! Remote servers as stores: WebDAV, plain HTTP, S3, XRootD, FTP and SFTP behind [`store::Store`], the trait that local directories implement. Code
//! that copies, compares and reports on directories does the same on servers.
//!
//! What this crate does not know: transfers, the native protocol, keys of nodes, command lines and environments. Its callers give
//! it the credentials (tokens, S3 keys), the authorities to trust and the dialer.

mod ahead;
mod archive;
mod archive_address;
pub mod dav;
mod facts_cache;
pub mod ftp;
pub mod fuzzing;
pub mod mirrored;
mod pauses;
mod range_source;
mod request_error;
mod retries;
pub mod root;
pub mod s3;
mod server;
pub mod sftp;

pub use archive::Archive;
pub use archive_address::{ArchiveAddress, ArchiveAddressError};
pub use dav::Dav;
pub use mirrored::Mirrored;
pub use root::Root;
pub use s3::S3;
pub use server::{Redirects, ServerSettings, TokenSource};
