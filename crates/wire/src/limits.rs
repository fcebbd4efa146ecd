//! Bounds on everything that a peer can make this end hold, derived in one place.

/// Bytes of a block of a file: it is read, digested and sent while it is in one core's cache (1 MiB was the cheapest
/// size in CPU seconds per byte in a prototype that tried 64 KiB to 4 MiB).
pub const BLOCK_BYTES: u64 = 1 << 20;
/// Payload bytes of a record: one block, or small files packed together.
pub const RECORD_PAYLOAD_BYTES_MAX: usize = BLOCK_BYTES as usize;
/// Parts in one record. A pack of small files ends here, or at the payload bound.
pub const RECORD_PARTS_MAX: usize = 256;
/// Payload bytes at which a pack of small files is closed, so that several streams share them.
pub const PACK_BYTES: u64 = 256 << 10;
/// Files in one pack.
pub const PACK_FILES_MAX: usize = 64;
/// A control frame, without its head. Holds an inline record or some thousand entries.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// Bytes at which a frame of many small things is closed.
pub const FRAME_BYTES_AIM: usize = 64 << 10;
/// The most directories above a source whose tokens the sender sends; paths of Linux have 2,048 components at the most.
pub const LINEAGE_MAX: usize = 2048;

/// Entries offered by the sender and not yet settled. At 300 ms and two round trips each, 20,480 entries in flight
/// allow 34,000 files a second, about as many as a file system creates; a job of a million files takes no more memory than these.
pub const ENTRIES_IN_FLIGHT_MAX: usize = 20_480;
/// Bytes of names and link targets of those entries.
pub const ENTRY_BYTES_IN_FLIGHT_MAX: usize = 16 << 20;
/// Directories open at once at the receiver: the depth of the tree plus those with something in flight below them. The
/// sender keeps the same count and waits.
pub const DIRS_OPEN_MAX: usize = ENTRIES_IN_FLIGHT_MAX + 4096;
/// Bytes of a job's first files that go on the control connection, without waiting for a verdict: as much as one initial
/// window of a jumbo path carries, and little against any job that wants streams.
pub const INLINE_BYTES_MAX: u64 = 64 << 10;
/// Records sent on one stream and not yet acknowledged. At 1 MiB each, 64 GiB: above any window.
pub const RECORDS_UNACKNOWLEDGED_MAX: usize = 65_536;
/// Spans in one file's ledger that do not touch yet: blocks in flight on all streams.
pub const LEDGER_SPANS_MAX: usize = 1 << 20;
/// Times one block may arrive damaged before the job is given up.
pub const BAD_BLOCKS_MAX: u64 = 1024;
/// How many misses are kept by name; the rest is counted.
pub const MISSES_NAMED_MAX: usize = 1000;
/// Streams in one session.
pub const STREAMS_MAX: u32 = 1024;
/// Addresses that a node advertises: paths of one job.
pub const ADDRESSES_MAX: usize = 16;
/// A string on the wire that is not a name: software, a reason.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Paths in one request.
pub const PATHS_MAX: usize = 4096;
/// Ranges in one verdict or one request to send again.
pub const RANGES_MAX: usize = 16_384;

/// Filters of one job.
pub const FILTERS_MAX: usize = 128;
/// Extended attributes of one entry.
pub const XATTRS_MAX: usize = 256;
/// Bytes of one extended attribute's value (Linux: XATTR_SIZE_MAX).
pub const XATTR_BYTES_MAX: usize = 64 << 10;
/// Bytes of a line of an answer in text or JSON.
pub const ANSWER_LINE_BYTES_MAX: usize = 512 << 10;
/// Files named one by one in a job.
pub const FILES_MAX: usize = 1 << 20;
/// Bytes of the names of files named one by one.
pub const FILES_BYTES_MAX: usize = 64 << 20;
/// Steps of a dry run in one message.
pub const PLANS_MAX: usize = 256;

/// What a file counts for besides its bytes, so that not all empty files go on the control connection.
pub const INLINE_CHARGE_BYTES: u64 = 256;

/// Whether the next file offered goes on the control connection: in the order in which they are offered, every file
/// that fits the rest of [`INLINE_BYTES_MAX`]. Both ends count alike, so that the receiver knows without a message
/// which files no stream will carry.
pub fn fits_inline(used: &mut u64, size: u64) -> bool {
    let charge = size.saturating_add(INLINE_CHARGE_BYTES);
    let fits = used.checked_add(charge).is_some_and(|sum| sum <= INLINE_BYTES_MAX);
    if fits {
        *used += charge;
    }
    fits
}

const _: () = assert!(INLINE_BYTES_MAX as usize + RECORD_PARTS_MAX * 64 < FRAME_BYTES_MAX);
const _: () = assert!(FRAME_BYTES_AIM + 2 * model::name::PATH_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(PACK_FILES_MAX <= RECORD_PARTS_MAX && PACK_BYTES <= BLOCK_BYTES);
const _: () = assert!(RANGES_MAX * 24 < FRAME_BYTES_MAX);
const _: () = assert!(PLANS_MAX * (model::name::PATH_BYTES_MAX / 2) < FRAME_BYTES_MAX);
const _: () = assert!(ANSWER_LINE_BYTES_MAX < FRAME_BYTES_MAX);
