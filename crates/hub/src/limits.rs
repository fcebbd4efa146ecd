//! Bounds of a hub: everything that clients can fill is bounded.

/// The most files of a job.
pub const JOB_FILES_MAX: usize = 100_000;
/// The most bytes of a request's body: enough for a job of [`JOB_FILES_MAX`] files with long names.
pub const BODY_BYTES_MAX: usize = 128 << 20;
/// The most bytes of a URL.
pub const URL_BYTES_MAX: usize = 4096;
/// The most bytes of a job's metadata, and of a file's.
pub const METADATA_BYTES_MAX: usize = 4096;
/// The most bytes of a subscription's filter, and of its rules.
pub const SUBSCRIPTION_BYTES_MAX: usize = 16_384;
/// The most files of a listing that is compared with the catalogue: some 200 MB of memory.
pub const LISTED_MAX: usize = 1_000_000;
/// The most sources of a file.
pub const SOURCES_MAX: usize = 32;
/// The most copies that a rule may ask for.
pub const COPIES_MAX: u32 = 32;
/// The most connections to the database.
pub const CONNECTIONS_MAX: u32 = 8;
/// The most writes that wait for the writer.
pub const WRITES_WAITING_MAX: usize = 4096;
/// The most writes of one transaction.
pub const GROUP_WRITES_MAX: usize = 500;
/// The most files that one transaction submits; a single larger job is submitted whole.
pub const GROUP_FILES_MAX: usize = 20_000;
/// The most jobs or files on a page.
pub const PAGE_MAX: usize = 10_000;
/// The most files of one transfer at a node.
pub const TRANSFER_FILES_MAX: usize = 10_000;

const _: () = assert!(TRANSFER_FILES_MAX <= JOB_FILES_MAX);
const _: () = assert!(JOB_FILES_MAX * SOURCES_MAX < u32::MAX as usize);
/// The most keys for delegations that are made at the same time: an RSA key takes a second of a processor.
pub const KEYS_MADE_MAX: usize = 2;
/// The most bytes of a delegated proxy with its chain.
pub const DELEGATION_BYTES_MAX: usize = 256 << 10;
/// The most changes of files that wait for a broker: some 100 MB of database. Beyond it the oldest are removed.
pub const CHANGES_WAITING_MAX: i64 = 1_000_000;
/// The most changes that are sent to a broker at once.
pub const CHANGES_AT_ONCE: i64 = 100;
/// The most bytes of a frame that a broker sends.
pub const FRAME_BYTES_MAX: usize = 64 << 10;
/// The most connections of clients that are open at the same time.
pub const CONNECTIONS_OPEN_MAX: usize = 4096;
/// The most requests of one HTTP/2 connection at the same time.
pub const STREAMS_MAX: u32 = 64;
/// How long a hub that stops waits for running requests.
pub const SHUTDOWN_MAX: std::time::Duration = std::time::Duration::from_secs(5);
/// The most streams of events at the same time.
pub const EVENT_STREAMS_MAX: usize = 256;
/// How often a hub records that it is alive.
pub const HUB_BEAT_EVERY: std::time::Duration = std::time::Duration::from_secs(2);
/// How long a hub may be silent before others take over its transfers.
pub const HUB_SILENT_MAX: std::time::Duration = std::time::Duration::from_secs(8);

const _: () = assert!(HUB_SILENT_MAX.as_secs() >= 3 * HUB_BEAT_EVERY.as_secs());
