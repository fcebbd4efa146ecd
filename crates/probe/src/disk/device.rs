//! The file system of a directory and the device below it: their description, and the device's traffic during a test. Text is
//! parsed by pure functions; fields that cannot be read stay empty.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::v1::probe::disk::{Device, Traffic};

use super::test_directory::FreeSpace;

/// Most bytes of a table: hosts with very many mounts have tables of some MiB.
const TABLE_BYTES_MAX: u64 = 16 << 20;
const ATTRIBUTE_BYTES_MAX: u64 = 4 << 10;
const PARTS_MAX: usize = 64;
/// The unit of `/proc/diskstats`, whatever the device's own sectors are (Documentation/admin-guide/iostats.rst).
const SECTOR: u64 = 512;
/// File systems in memory (statfs(2)).
const IN_MEMORY: [(u64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];
/// File systems with a cache that is not the page cache of this host: their own, or a server's.
const OWN_CACHE: [&str; 9] = ["zfs", "nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "beegfs", "9p"];
/// File systems that spread over several devices, of which only one is known here.
const MANY_DEVICES: [&str; 3] = ["btrfs", "zfs", "bcachefs"];

/// The file system and device that hold a directory.
#[derive(Debug)]
pub(super) struct BackingDevice {
    pub device: Device,
    /// Number of the block device, if it holds all bytes of the file system.
    counted: Option<(u32, u32)>,
    /// Why a result is not that of a disk, in words.
    pub in_memory: Option<String>,
    /// Why read bytes may not come from a disk, in words.
    pub other_cache: Option<String>,
}

/// Bytes that a device has read and written since the host started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    read_bytes: u64,
    written_bytes: u64,
}

/// A line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Debug, Default, PartialEq, Eq)]
struct Mount {
    number: (u32, u32),
    point: String,
    options: String,
    file_system: String,
    source: String,
}

fn read(path: impl AsRef<Path>, most: u64) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn pair(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Replaces octal escapes: `\040` is a blank, and so on.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|digits| *first == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match octal {
            Some(digits) => {
                let value = digits.iter().fold(0u32, |value, digit| 8 * value + u32::from(digit - b'0'));
                out.push(value as u8);
                rest = &after[3..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The mount with an id.
fn mount_of(table: &str, id: &str) -> Option<Mount> {
    let line = table.lines().find(|line| line.split(' ').next() == Some(id))?;
    let (front, back) = line.split_once(" - ")?;
    let front: Vec<&str> = front.split(' ').collect();
    let mut back = back.split(' ');
    let (file_system, source) = (back.next()?, back.next()?);
    // Options of the mount, then those of the file system; some are in both.
    let mut options: Vec<&str> = front.get(5)?.split(',').collect();
    for option in back.next().unwrap_or_default().split(',').filter(|option| !option.is_empty()) {
        if !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount {
        number: pair(front.get(2)?)?,
        point: unescaped(front.get(4)?),
        options: unescaped(&options.join(",")),
        file_system: file_system.into(),
        source: unescaped(source),
    })
}

/// The mount that a directory is in, as this thread sees it.
fn mount(directory: &File) -> Option<Mount> {
    let info = read(format!("/proc/thread-self/fdinfo/{}", directory.as_raw_fd()), ATTRIBUTE_BYTES_MAX)?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    mount_of(&read("/proc/thread-self/mountinfo", TABLE_BYTES_MAX)?, id.trim())
}

/// The counters of a device in `/proc/diskstats`.
fn counters_of(table: &str, number: (u32, u32)) -> Option<Counters> {
    let is_device = |fields: &Vec<&str>| {
        let found = (fields.first().and_then(|f| f.parse().ok()), fields.get(1).and_then(|f| f.parse().ok()));
        found == (Some(number.0), Some(number.1))
    };
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<&str>>()).find(is_device)?;
    let sectors = |at: usize| fields.get(at)?.parse::<u64>().ok()?.checked_mul(SECTOR);
    Some(Counters { read_bytes: sectors(5)?, written_bytes: sectors(9)? })
}

/// The scheduler in force: the one in brackets, or the only one.
fn scheduler_of(text: &str) -> Option<String> {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name);
    let name = chosen.unwrap_or(text).trim();
    (!name.is_empty()).then(|| name.to_string())
}

impl BackingDevice {
    /// Describes the file system and the device of a directory.
    pub(super) fn of(directory: &File, room: FreeSpace) -> BackingDevice {
        let mount = mount(directory).unwrap_or_default();
        let mut device = Device {
            file_system: mount.file_system.clone(),
            mounted_at: mount.point.clone(),
            mount_options: mount.options.clone(),
            source: mount.source.clone(),
            total_bytes: room.total_bytes,
            free_bytes: room.free_bytes,
            ..Device::default()
        };
        let mut counted = block_device(directory, &mount);
        if let Some((major, minor)) = counted {
            device.number = Some(format!("{major}:{minor}"));
            let counts = describe(&mut device, Path::new(&format!("/sys/dev/block/{major}:{minor}")));
            counted = counted.filter(|_| counts && !MANY_DEVICES.contains(&mount.file_system.as_str()));
        }
        let kind = rustix::fs::fstatfs(directory).map(|stat| stat.f_type as u64).unwrap_or_default();
        let in_memory = IN_MEMORY
            .iter()
            .find(|(magic, _)| *magic == kind)
            .map(|(_, name)| format!("{name} keeps files in memory: these are not the rates of a disk"));
        let other_cache = OWN_CACHE
            .iter()
            .find(|name| **name == mount.file_system)
            .map(|name| format!("{name} has a cache of its own, here or at a server, which a test cannot empty"));
        BackingDevice { device, counted, in_memory, other_cache }
    }

    /// The device's counters; none where no single device holds all bytes.
    pub(super) fn counters(&self) -> Option<Counters> {
        counters_of(&read("/proc/diskstats", TABLE_BYTES_MAX)?, self.counted?)
    }
}

impl Counters {
    /// Traffic since `before`, and the part of it beyond the test's own bytes.
    pub(super) fn since(self, before: Counters, own_read: u64, own_written: u64) -> Traffic {
        // The kernel's counters wrap on some hosts; then the traffic is 0 instead of an enormous number.
        let read_bytes = self.read_bytes.saturating_sub(before.read_bytes);
        let written_bytes = self.written_bytes.saturating_sub(before.written_bytes);
        Traffic {
            read_bytes,
            written_bytes,
            others_read_bytes: read_bytes.saturating_sub(own_read),
            others_written_bytes: written_bytes.saturating_sub(own_written),
        }
    }
}

/// The block device of a directory: its own number or, where the file system invents one, the number of the mounted device.
fn block_device(directory: &File, mount: &Mount) -> Option<(u32, u32)> {
    let device = directory.metadata().ok()?.dev();
    let own = (rustix::fs::major(device), rustix::fs::minor(device));
    // 0 is no device's major number.
    if own.0 != 0 {
        return Some(own);
    }
    if !mount.source.starts_with("/dev/") {
        return None;
    }
    let metadata = std::fs::metadata(&mount.source).ok()?;
    let number = metadata.rdev();
    (number != 0).then(|| (rustix::fs::major(number), rustix::fs::minor(number)))
}

fn attribute(path: PathBuf) -> Option<String> {
    let text = read(path, ATTRIBUTE_BYTES_MAX)?.trim().to_string();
    (!text.is_empty()).then_some(text)
}

/// Describes a block device, or the disk of a partition, from `/sys`; returns whether the kernel counts its traffic.
fn describe(device: &mut Device, link: &Path) -> bool {
    let Ok(path) = std::fs::canonicalize(link) else { return false };
    device.name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    // A partition's queue is its disk's.
    let is_part = path.join("partition").exists();
    let disk = path.parent().filter(|_| is_part).unwrap_or(&path);
    device.model = attribute(disk.join("device/model"));
    device.scheduler = attribute(disk.join("queue/scheduler")).as_deref().and_then(scheduler_of);
    device.rotational = attribute(disk.join("queue/rotational")).map(|text| text == "1");
    device.write_cache = attribute(disk.join("queue/write_cache"));
    let ahead = attribute(disk.join("queue/read_ahead_kb")).and_then(|text| text.parse::<u64>().ok());
    device.read_ahead_bytes = ahead.and_then(|kib| kib.checked_mul(1024));
    let parts = std::fs::read_dir(disk.join("slaves")).into_iter().flatten().filter_map(Result::ok).take(PARTS_MAX);
    device.parts = parts.map(|part| part.file_name().to_string_lossy().into_owned()).collect();
    device.parts.sort();
    attribute(disk.join("queue/iostats")).is_some_and(|text| text != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mounts_of_the_manual_page_are_read() {
        let table = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
            36 35 98:0 /mnt1 /mnt2/a\\040b rw,noatime master:1 shared:3 - ext3 /dev/root rw,errors=continue\n\
            40 1 9:127 / /data rw,noatime - xfs /dev/md127 rw,largeio,swalloc\n";
        let mount = mount_of(table, "36").unwrap();
        assert_eq!(mount.number, (98, 0));
        assert_eq!((mount.point.as_str(), mount.options.as_str()), ("/mnt2/a b", "rw,noatime,errors=continue"));
        assert_eq!((mount.file_system.as_str(), mount.source.as_str()), ("ext3", "/dev/root"));
        assert_eq!(mount_of(table, "40").unwrap().options, "rw,noatime,largeio,swalloc");
        assert_eq!(mount_of(table, "3"), None);
        assert_eq!(mount_of("36 35 98:0", "36"), None);
        assert_eq!(unescaped("a\\134b\\04\\"), "a\\b\\04\\");
    }

    #[test]
    fn the_counters_of_the_kernels_guide_are_read() {
        let table =
            "   8       0 sda 100 0 200 5 300 0 400 7 0 0 0\n   8       1 sda1 4 0 32 1 3 0 16 2 0 1 3 0 0 0 0 1 1\n";
        let one = counters_of(table, (8, 1)).unwrap();
        assert_eq!(one, Counters { read_bytes: 32 * 512, written_bytes: 16 * 512 });
        assert_eq!(counters_of(table, (8, 2)), None);
        assert_eq!(counters_of("8 1 sda1 4\n8 x\n", (8, 1)), None);
        let later = Counters { read_bytes: one.read_bytes + 5_000, written_bytes: one.written_bytes + 7_000 };
        let traffic = later.since(one, 6_000, 6_000);
        let expected =
            Traffic { read_bytes: 5_000, written_bytes: 7_000, others_read_bytes: 0, others_written_bytes: 1_000 };
        assert_eq!(traffic, expected);
    }

    #[test]
    fn the_scheduler_in_force_is_read() {
        assert_eq!(scheduler_of("none [mq-deadline] kyber bfq").as_deref(), Some("mq-deadline"));
        assert_eq!(scheduler_of("none").as_deref(), Some("none"));
        assert_eq!(scheduler_of(""), None);
    }

    #[test]
    fn the_device_of_this_host_is_described() {
        let directory = tempfile::tempdir().unwrap();
        let handle = File::open(directory.path()).unwrap();
        let backing = BackingDevice::of(&handle, FreeSpace { total_bytes: 2, free_bytes: 1, free_files: None });
        let device = &backing.device;
        assert!(!device.file_system.is_empty() && !device.mount_options.is_empty(), "{device:?}");
        assert!(directory.path().starts_with(&device.mounted_at), "{device:?}");
        assert_eq!((device.total_bytes, device.free_bytes), (2, 1));
        assert_eq!(backing.in_memory.is_some(), ["tmpfs", "ramfs"].contains(&device.file_system.as_str()));
        if device.number.is_some() {
            assert!(device.name.is_some(), "{device:?}");
        }
    }
}
