//! Disk tests: the order and the result.

use serde::{Deserialize, Serialize};

use super::host::Use;

/// What to measure on a disk. A field that is left out has its value of [`Order::default`]; the test refuses values that make no sense
/// and does not correct them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Order {
    /// Which tests; they are done in the order of [`Test`], each once.
    pub tests: Vec<Test>,
    /// Past the page cache, through it, or both; for `write`, `read` and `sustained`.
    pub modes: Vec<IoMode>,
    /// Lengths of the files of `write` and `read`: a sweep. Multiples of 4 KiB.
    pub file_bytes: Vec<u64>,
    /// How many at once, each with a file of its own: a sweep.
    pub workers: Vec<u32>,
    /// What one call writes or reads. A multiple of 4 KiB.
    pub block_bytes: u64,
    /// The longest that one point of a sweep may take; what it has done by then is its result.
    pub seconds: f64,
    /// The same for `sustained`: long enough to see a cache end.
    pub sustained_seconds: f64,
    /// The most that ever lies on the disk. `sustained` writes as much, if it has the time.
    pub budget_bytes: u64,
    /// How often `fsync` writes and flushes.
    pub fsyncs: u32,
    /// Lengths of the files of `small_files`: a sweep.
    pub small_bytes: Vec<u64>,
    /// Files in each point of `small_files`, all workers together.
    pub small_files: u32,
    /// Whether each of them gets its name by a rename, as a careful writer does it.
    pub rename: bool,
    /// Where the random bytes begin; without it every run writes others, so that no store that finds equal blocks has
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
    /// The same files again. Without `write` they are written first, and that is not counted.
    Read,
    /// 4 KiB at the end of a file and a flush, again and again, by one worker: what a journal pays.
    Fsync,
    /// Create, write, close, rename; then remove. Each worker in a directory of its own, nothing flushed.
    SmallFiles,
    /// Writing without end, ten samples a second: where a cache ends. The last, as it leaves the caches full.
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
    /// In the order in which they were measured.
    pub points: Vec<Point>,
    /// One for each sweep over workers.
    pub knees: Vec<Knee>,
    /// What was asked for and not measured.
    pub left_out: Vec<LeftOut>,
    /// Directories of earlier tests that were killed, with all their files: no test uses them, and they were not removed.
    pub left_behind: Vec<String>,
    /// From start to end.
    pub seconds: f64,
    /// The host during the test.
    pub host: Use,
}

/// The file system and what is below it, as far as the host tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// `xfs`, `ext4`, `nfs4`, …
    pub file_system: String,
    /// Where it is mounted.
    pub mounted_at: String,
    /// With which options: of the mount and of the file system.
    pub mount_options: String,
    /// What is mounted there: a device, a server's export.
    pub source: String,
    /// Room in the file system, free or not.
    pub total_bytes: u64,
    /// What users may still write, before the test.
    pub free_bytes: u64,
    /// Major and minor number of the block device, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// Its name below `/dev`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its maker calls it.
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
    /// What the kernel reads ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_bytes: Option<u64>,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Of which test.
    pub test: Test,
    /// How.
    pub mode: IoMode,
    /// Length of each file; for `sustained` of all together.
    pub file_bytes: u64,
    /// How many at once.
    pub workers: u32,
    /// What one call wrote or read at most.
    pub block_bytes: u64,
    /// What was written or read.
    pub bytes: u64,
    /// In how many calls. A call of `fsync` is a write with its flush, one of `small_files` a whole file.
    pub calls: u64,
    /// From the first call of the first worker to the end of the last one, its flush included.
    pub seconds: f64,
    /// The part of `seconds` after the last call: the flush (fsync) of what was written. For `direct` it is the drive's
    /// own cache and the file's length.
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
    /// How busy all processors of the host were meanwhile, from 0 to 1, whoever used them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_busy: Option<f64>,
    /// What the device did meanwhile, where the kernel counts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Traffic>,
    /// Why this says nothing about the disk: the bytes stayed in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<String>,
    /// Why it is less than was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_short: Option<String>,
    /// The course of `sustained`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Course>,
}

/// How long calls took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// On average.
    pub mean_s: f64,
    /// Half of them at most. Percentiles are exact to 1 %.
    pub p50_s: f64,
    /// 95 % of them.
    pub p95_s: f64,
    /// 99 % of them.
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
    /// Until a cache was full; without a cliff, over all.
    pub burst_bit_s: u64,
    /// From then on; without a cliff the same.
    pub sustained_bit_s: u64,
    /// Where it fell.
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
    /// What had been written by then.
    pub at_bytes: u64,
    /// The time since the start of the write.
    pub at_s: f64,
    /// How sure: the statistic of the two-segment fit, of which chance alone reaches 13 in one run of a hundred.
    pub f: f64,
}

/// The fewest workers that reach the best rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Of which test.
    pub test: Test,
    /// How.
    pub mode: IoMode,
    /// Length of the files.
    pub file_bytes: u64,
    /// The fewest within 5 % of the best.
    pub workers: u32,
    /// Their rate.
    pub rate_bit_s: u64,
    /// How many had the best rate.
    pub best_workers: u32,
    /// The best rate.
    pub best_rate_bit_s: u64,
    /// The best rate needs the most workers that were tried: more workers might give more.
    pub is_open: bool,
}

/// Something that was asked for and not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// What.
    pub what: String,
    /// Why, and what can be done.
    pub why: String,
}
