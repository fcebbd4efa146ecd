//! Bounds of a hub: everything that clients can fill is bounded.

/// Files of a job.
pub const JOB_FILES_MAX: usize = 100_000;
/// Bytes of a request's body: enough for a job of [`JOB_FILES_MAX`] files with long names.
pub const BODY_BYTES_MAX: usize = 128 << 20;
/// Bytes of a URL.
pub const URL_BYTES_MAX: usize = 4096;
/// Bytes of a job's metadata, and of a file's.
pub const METADATA_BYTES_MAX: usize = 4096;
/// Bytes of a subscription's filter, and of its rules.
pub const SUBSCRIPTION_BYTES_MAX: usize = 16_384;
/// Files of a listing that is compared with the catalogue: some 200 MB of memory.
pub const LISTED_MAX: usize = 1_000_000;
/// Sources of a file.
pub const SOURCES_MAX: usize = 32;
/// Copies that a rule asks for.
pub const COPIES_MAX: u32 = 32;
/// Connections to the database.
pub const CONNECTIONS_MAX: u32 = 8;
/// Writes that wait for the writer.
pub const WRITES_WAITING_MAX: usize = 4096;
/// Writes of one transaction.
pub const GROUP_WRITES_MAX: usize = 500;
/// Files that one transaction submits; a single larger job is still submitted whole.
pub const GROUP_FILES_MAX: usize = 20_000;
/// Jobs or files on a page.
pub const PAGE_MAX: usize = 10_000;
/// Files of one transfer at a node.
pub const TRANSFER_FILES_MAX: usize = 10_000;

const _: () = assert!(TRANSFER_FILES_MAX <= JOB_FILES_MAX);
const _: () = assert!(JOB_FILES_MAX * SOURCES_MAX < u32::MAX as usize);
/// Keys for delegations that are made at once: an RSA key takes a second of a processor.
pub const KEYS_MADE_MAX: usize = 2;
/// Bytes of a delegated proxy with its chain.
pub const DELEGATION_BYTES_MAX: usize = 256 << 10;
/// Changes of files that wait for a broker: some 100 MB of database. The oldest are given up for newer ones.
pub const CHANGES_WAITING_MAX: i64 = 1_000_000;
/// Changes that are sent to a broker at once.
pub const CHANGES_AT_ONCE: i64 = 100;
/// Bytes of a frame that a broker sends.
pub const FRAME_BYTES_MAX: usize = 64 << 10;
/// Connections of clients that are open at once.
pub const CONNECTIONS_OPEN_MAX: usize = 4096;
/// Requests of one HTTP/2 connection at once.
pub const STREAMS_MAX: u32 = 64;
/// How long a hub that stops waits for running requests.
pub const SHUTDOWN_MAX: std::time::Duration = std::time::Duration::from_secs(5);
/// Streams of events at once.
pub const EVENT_STREAMS_MAX: usize = 256;
/// How often a hub records that it is alive.
pub const HUB_BEATS: std::time::Duration = std::time::Duration::from_secs(2);
/// How long a hub may be silent before others take over its transfers.
pub const HUB_SILENT_MAX: std::time::Duration = std::time::Duration::from_secs(8);

const _: () = assert!(HUB_SILENT_MAX.as_secs() >= 3 * HUB_BEATS.as_secs());
