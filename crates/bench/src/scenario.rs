//! Scenarios: the data, the medium, and Longhaul's targets. Values only: the contestants know how to move the data, `round`
//! knows how to run them.

use crate::contestant::{BARE_LOOP, FDT, IPERF3, LONGHAUL, SEALED, longhaul};
use crate::job::Data;
use crate::target::{Against, Limit, Measure, Target};

/// The medium of sources and targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// The scratch directory's file system.
    Disk,
    /// A file system in memory.
    Tmpfs,
    /// No files: zeros are sent and discarded.
    Memory,
}

/// One task for all contestants.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its short name, for `--only` and for directories.
    pub name: &'static str,
    /// The title for the report.
    pub title: String,
    /// The data of a job.
    pub data: Data,
    /// The medium of the data.
    pub medium: Medium,
    /// The jobs of one run, one after the other.
    pub jobs: u32,
    /// Longhaul's targets.
    pub targets: Vec<Target>,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The target of memory: a bound for every job of Longhaul, at each side.
fn memory() -> Target {
    Target { contestant: LONGHAUL, measure: Measure::Peak, limit: Limit::At(longhaul::memory_mib_max()) }
}

fn ours(measure: Measure, limit: Limit) -> Target {
    Target { contestant: LONGHAUL, measure, limit }
}

fn sealed(measure: Measure, limit: Limit) -> Target {
    Target { contestant: SEALED, measure, limit }
}

/// The targets beside the peers: in clear faster and cheaper than the best of them; sealed as fast as the best one in clear, and
/// twice as fast as the best one that encrypts.
fn beside_peers() -> Vec<Target> {
    vec![
        ours(Measure::Wall, Limit::Times(0.80, Against::BestPeer)),
        ours(Measure::Cpu, Limit::Times(0.85, Against::BestPeer)),
        sealed(Measure::Wall, Limit::Times(1.0, Against::BestPeer)),
        sealed(Measure::Wall, Limit::Times(0.5, Against::BestEncryptedPeer)),
        memory(),
    ]
}

/// A large file, compared with the best of the peers.
fn large(name: &'static str, title: &str, medium: Medium, scale: f64) -> Scenario {
    Scenario {
        name,
        title: title.into(),
        data: Data::File { bytes: scaled(4 * GIB, scale) },
        medium,
        jobs: 1,
        targets: beside_peers(),
    }
}

/// A tree of small files on disk, compared with the best of the peers and with the bare loop on the same file system.
fn small(name: &'static str, title: &str, files: u64, bytes_each: u64, scale: f64) -> Scenario {
    Scenario {
        name,
        title: title.into(),
        data: Data::Tree { files: scaled(files, scale), bytes_each },
        medium: Medium::Disk,
        jobs: 1,
        targets: [beside_peers(), vec![ours(Measure::Files, Limit::Times(0.55, Against::Named(BARE_LOOP)))]].concat(),
    }
}

/// Part of a size or count, at least one.
fn scaled(whole: u64, scale: f64) -> u64 {
    ((whole as f64 * scale) as u64).max(1)
}

/// All scenarios at a scale; the targets are meant for scale 1.
pub fn all(scale: f64) -> Vec<Scenario> {
    let mut all = whole_or_part(scale);
    if (scale - 1.0).abs() > f64::EPSILON {
        all.iter_mut().filter(|s| s.jobs == 1).for_each(|s| s.title += &format!(" (× {scale})"));
    }
    all
}

fn whole_or_part(scale: f64) -> Vec<Scenario> {
    vec![
        large("large-disk", "4 GiB file, disk to disk, hot in the page cache", Medium::Disk, scale),
        large("large-tmpfs", "4 GiB file, tmpfs to tmpfs", Medium::Tmpfs, scale),
        Scenario {
            name: "mib-tmpfs",
            title: "2,000 files of 1 MiB, tmpfs to tmpfs".into(),
            data: Data::Tree { files: scaled(2_000, scale), bytes_each: MIB },
            medium: Medium::Tmpfs,
            jobs: 1,
            targets: beside_peers(),
        },
        small("64kib-disk", "20,000 files of 64 KiB, disk to disk", 20_000, 64 * KIB, scale),
        small("1kib-disk", "100,000 files of 1 KiB, disk to disk", 100_000, KIB, scale),
        Scenario {
            name: "memory",
            title: "16 GiB of zeros, memory to memory, no block digests".into(),
            data: Data::Zeros { bytes: scaled(16 * GIB, scale) },
            medium: Medium::Memory,
            jobs: 1,
            targets: vec![
                ours(Measure::Rate, Limit::Times(0.95, Against::Named(IPERF3))),
                ours(Measure::Cpu, Limit::Times(1.05, Against::Named(IPERF3))),
                ours(Measure::Rate, Limit::Times(1.0, Against::Named(FDT))),
                memory(),
            ],
        },
        Scenario {
            name: "one-kib",
            title: "one file of 1 KiB, process start included; 100 such jobs back to back".into(),
            data: Data::File { bytes: KIB },
            medium: Medium::Disk,
            jobs: 100,
            targets: vec![sealed(Measure::Wall, Limit::At(0.015)), memory()],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_have_names_of_their_own_and_scale() {
        let (whole, tenth) = (all(1.0), all(0.1));
        let names: std::collections::BTreeSet<_> = whole.iter().map(|s| s.name).collect();
        assert_eq!(names.len(), whole.len());
        assert_eq!(whole[0].data.bytes(), 4 << 30);
        assert_eq!(whole[3].data.bytes(), 20_000 << 16);
        assert_eq!(tenth[4].data.files(), 10_000);
        assert_eq!(tenth[6].data, whole[6].data, "a small job stays small");
        assert_eq!(scaled(3, 0.01), 1);
    }
}
