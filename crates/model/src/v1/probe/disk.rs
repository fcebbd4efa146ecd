//! Disk tests: the order and the result.

use serde::{Deserialize, Serialize};

use super::host::Use;

/// The order for a disk test. A field that is left out has its value of [`Order::default`]; the test refuses values that make no
/// sense and does not correct them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Order {
    /// The tests. Each runs once, in the order of [`Test`].
    pub tests: Vec<Test>,
    /// Past the page cache, through it, or both; for `write`, `read` and `sustained`.
    pub modes: Vec<IoMode>,
    /// Lengths of the files of `write` and `read`: a sweep. Multiples of 4 KiB.
    pub file_bytes: Vec<u64>,
    /// The numbers of workers, each with a file of its own: a sweep.
    pub workers: Vec<u32>,
    /// The bytes that one call writes or reads. A multiple of 4 KiB.
    pub block_bytes: u64,
    /// The longest time of one point of a sweep, seconds. The result covers what was done by then.
    pub seconds: f64,
    /// The longest time of `sustained`, seconds: long enough to fill a cache.
    pub sustained_seconds: f64,
    /// The most bytes that the test occupies on the disk at any time. `sustained` writes this much, if its time suffices.
    pub budget_bytes: u64,
    /// The number of writes and flushes of `fsync`.
    pub fsyncs: u32,
    /// Lengths of the files of `small_files`: a sweep.
    pub small_bytes: Vec<u64>,
    /// Files in each point of `small_files`, all workers together.
    pub small_files: u32,
    /// Whether each of these files gets its name by a rename, as a careful writer does.
    pub rename: bool,
    /// The seed of the random bytes. Without a seed every run writes different bytes, so that a store that deduplicates blocks has not
    /// seen them before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl Default for Order {
    fn default() -> Order {
        Order {
            tests: vec![Test::Write, Test::Read, Test::Fsync, Test::SmallFiles, Test::Sustained],
            modes: vec![IoMode::Direct, IoMode::Buffered],
            file_bytes: vec![1 << 30],
            workers: vec![1, 2, 4, 8],
            block_bytes: 1 << 20,
            seconds: 10.0,
            sustained_seconds: 60.0,
            budget_bytes: 32 << 30,
            fsyncs: 1_000,
            small_bytes: vec![4 << 10, 64 << 10],
            small_files: 10_000,
            rename: true,
            seed: None,
        }
    }
}

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// One new file per worker, from its beginning to its end, and a flush.
    Write,
    /// Reads the same files. Without `write` they are written first, which is not counted.
    Read,
    /// One worker appends 4 KiB to a file and flushes it, again and again, as a journal does.
    Fsync,
    /// Create, write, close, rename; then remove. Each worker in a directory of its own, nothing flushed.
    SmallFiles,
    /// Writes continuously, with ten samples a second, to find where a cache is full. It runs last, because it leaves the caches full.
    Sustained,
}

/// How bytes go between memory and the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoMode {
    /// Past the page cache (`O_DIRECT`).
    Direct,
    /// Through the page cache.
    Buffered,
}

/// The result of a disk test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The directory that was measured.
    pub directory: String,
    /// The order, with the seed that was used.
    pub order: Order,
    /// The file system of the directory, and its device.
    pub device: Device,
    /// The measurements, in the order in which they were made.
    pub points: Vec<Point>,
    /// One for each sweep over workers.
    pub knees: Vec<Knee>,
    /// The parts of the order that were not measured.
    pub left_out: Vec<LeftOut>,
    /// Directories that earlier, killed tests left with all their files. No test uses them; they were not removed.
    pub left_behind: Vec<String>,
    /// The time from start to end, seconds.
    pub seconds: f64,
    /// The host during the test.
    pub host: Use,
}

/// The file system and the devices below it, as far as the host reports them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// `xfs`, `ext4`, `nfs4`, …
    pub file_system: String,
    /// Where it is mounted.
    pub mounted_at: String,
    /// The options of the mount and of the file system.
    pub mount_options: String,
    /// What is mounted there: a device or the export of a server.
    pub source: String,
    /// The size of the file system, bytes.
    pub total_bytes: u64,
    /// The space that users may still write, before the test, bytes.
    pub free_bytes: u64,
    /// Major and minor number of the block device, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// Its name below `/dev`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The model name of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The devices that it consists of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// The scheduler of its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Whether it is a rotating disk, as the kernel reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// `write back` or `write through`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cache: Option<String>,
    /// The read-ahead of the kernel, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_bytes: Option<u64>,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The test.
    pub test: Test,
    /// The I/O mode.
    pub mode: IoMode,
    /// Length of each file; for `sustained` of all together.
    pub file_bytes: u64,
    /// The number of workers.
    pub workers: u32,
    /// The most bytes that one call wrote or read.
    pub block_bytes: u64,
    /// The bytes that were written or read.
    pub bytes: u64,
    /// The number of calls. A call of `fsync` is a write with its flush; a call of `small_files` is a whole file.
    pub calls: u64,
    /// From the first call of the first worker to the end of the last one, its flush included.
    pub seconds: f64,
    /// The part of `seconds` after the last call: the flush (fsync) of what was written. With `direct`, only the drive's own cache and the
    /// file's length are left to flush.
    pub flush_s: f64,
    /// `bytes` over `seconds`.
    pub rate_bit_s: u64,
    /// `bytes` over `seconds` without `flush_s`: what a writer sees that does not wait for the disk.
    pub rate_before_flush_bit_s: u64,
    /// Calls (flushes, files) per second, of `seconds` without `flush_s`.
    pub calls_per_s: f64,
    /// Files removed again per second; `small_files` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removals_per_s: Option<f64>,
    /// How long a call took.
    pub latency: Latency,
    /// Processor time of the workers, flushes included; the kernel's own writers are not in it.
    pub cpu_s: f64,
    /// The use of all processors of the host in this time, by all programs, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_busy: Option<f64>,
    /// The traffic of the device in this time, if the kernel counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Traffic>,
    /// Why this says nothing about the disk: the bytes stayed in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<String>,
    /// Why the measurement covers less than was ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
    /// The course of `sustained`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Course>,
}

/// How long calls took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean.
    pub mean_s: f64,
    /// The median. Percentiles are exact to 1 %.
    pub p50_s: f64,
    /// The 95th percentile.
    pub p95_s: f64,
    /// The 99th percentile.
    pub p99_s: f64,
    /// The longest one.
    pub max_s: f64,
}

/// What a device did (`/proc/diskstats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Read from it, by anybody.
    pub read_bytes: u64,
    /// Written to it, by anybody.
    pub written_bytes: u64,
    /// Read beyond what the test asked for: others, read-ahead, the file system's own tables.
    pub others_read_bytes: u64,
    /// Written beyond what the test wrote: others, the file system's journal.
    pub others_written_bytes: u64,
}

/// The rate of a long write over time. In a buffered write the first cache that fills up is this host's memory; a direct write shows the
/// drive's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Course {
    /// The rate until a cache was full; without a cliff, the rate of the whole write.
    pub burst_bit_s: u64,
    /// The rate after a cache was full; without a cliff, the rate of the whole write.
    pub sustained_bit_s: u64,
    /// The point at which the rate fell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cliff: Option<Cliff>,
    /// Why a cliff would not have been found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unclear: Option<String>,
    /// Time between samples.
    pub sample_s: f64,
    /// Rates, one for each sample.
    pub samples_bit_s: Vec<u64>,
}

/// The point at which a cache was full.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cliff {
    /// The bytes written up to this point.
    pub at_bytes: u64,
    /// The time since the start of the write.
    pub at_s: f64,
    /// The F statistic of the two-segment fit, a measure of certainty: chance alone reaches 13 in 1 % of the runs.
    pub f: f64,
}

/// The fewest workers that reach the best rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The test.
    pub test: Test,
    /// The I/O mode.
    pub mode: IoMode,
    /// Length of the files.
    pub file_bytes: u64,
    /// The smallest number of workers within 5 % of the best rate.
    pub workers: u32,
    /// Their rate.
    pub rate_bit_s: u64,
    /// The number of workers with the best rate.
    pub best_workers: u32,
    /// The best rate.
    pub best_rate_bit_s: u64,
    /// The best rate needs the most workers that were tried: more workers might give more.
    pub is_open: bool,
}

/// A part of the order that was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The part that was not measured.
    pub what: String,
    /// Why, and what can be done.
    pub why: String,
}
