//! Disks that data lie on: their file systems, and what they are made of.

use std::path::Path;

use super::{unknown, yes};
use crate::host::{Host, Known, Unread};

/// A mount of a disk, or of a part of it.
struct Mount {
    kind: String,
    options: String,
}

/// A fact of a disk.
pub(super) fn fact(of: &dyn Host, name: &str, disk: &str) -> Known<String> {
    match name {
        "filesystem_type" => mount(of, disk).map(|mount| mount.kind),
        "mount_options" => mount(of, disk).map(|mount| mount.options),
        "disk_stripe_matches" => stripe_matches(of, disk).and_then(yes),
        "disk_raid_layout" => raid(of, disk),
        _ => unknown(name),
    }
}

/// Whether a disk is or has something; without a disk, nothing is known.
pub(super) fn has(of: &dyn Host, what: &str, disk: Option<&str>) -> Known<bool> {
    let disk = disk.ok_or(Unread::Absent)?;
    let rotates = || of.read(&Path::new("/sys/block").join(disk).join("queue/rotational")).map(|text| text == "1");
    match what {
        "nvme" => Ok(disk.starts_with("nvme")),
        "hdd" => rotates(),
        "ssd" => Ok(!disk.starts_with("nvme") && !rotates()?),
        "md_raid" => Ok(disk.starts_with("md")),
        "xfs" => mount(of, disk).map(|mount| mount.kind == "xfs"),
        _ => unknown(what),
    }
}

/// Where a disk, or a partition of it, is mounted first.
fn mount(of: &dyn Host, disk: &str) -> Known<Mount> {
    let table = of.read(Path::new("/proc/mounts"))?;
    let is_part = |device: &str| {
        let rest = device.strip_prefix("/dev/").and_then(|name| name.strip_prefix(disk));
        // sda1, nvme0n1p1, md0p1; not sdaa.
        rest.is_some_and(|rest| rest.trim_start_matches('p').bytes().all(|b| b.is_ascii_digit()))
    };
    let find = |line: &str| {
        let mut fields = line.split_whitespace();
        let (device, _, kind, options) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        is_part(device).then(|| Mount { kind: kind.to_owned(), options: options.to_owned() })
    };
    table.lines().find_map(find).ok_or(Unread::Absent)
}

/// A number of an array of disks.
fn array(of: &dyn Host, disk: &str, what: &str) -> Known<u64> {
    let text = of.read(&Path::new("/sys/block").join(disk).join("md").join(what))?;
    text.parse().map_err(|_| Unread::Failed(format!("an array's {what} of {text:?}")))
}

/// Whether the file system's stripes are the array's: sunit is the chunk, swidth all data disks, in units of 512 bytes
/// (xfs(5)).
fn stripe_matches(of: &dyn Host, disk: &str) -> Known<bool> {
    let options = mount(of, disk)?.options;
    let option = |name: &str| {
        options.split(',').find_map(|option| option.strip_prefix(name)?.strip_prefix('=')).and_then(|value| value.parse::<u64>().ok())
    };
    let chunk = array(of, disk, "chunk_size")? / 512;
    let data = array(of, disk, "raid_disks")? - parity(&of.read(&Path::new("/sys/block").join(disk).join("md/level"))?);
    Ok(option("sunit") == Some(chunk) && option("swidth") == Some(chunk * data))
}

/// Disks that hold no data.
fn parity(level: &str) -> u64 {
    match level {
        "raid5" => 1,
        "raid6" => 2,
        _ => 0,
    }
}

/// An array in words: `raid0 of 6, chunk 512 KiB`.
fn raid(of: &dyn Host, disk: &str) -> Known<String> {
    let level = of.read(&Path::new("/sys/block").join(disk).join("md/level"))?;
    let (disks, chunk) = (array(of, disk, "raid_disks")?, array(of, disk, "chunk_size")?);
    Ok(format!("{level} of {disks}, chunk {} KiB", chunk / 1_024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_and_its_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let at = dir.path().join(name);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, text).unwrap();
        };
        write("proc/mounts", "/dev/sdaa1 / ext4 rw 0 0\n/dev/md0 /data xfs rw,noatime,largeio,sunit=1024,swidth=6144 0 0\n");
        for (what, text) in [("level", "raid0"), ("raid_disks", "6"), ("chunk_size", "524288")] {
            write(&format!("sys/block/md0/md/{what}"), text);
        }
        write("sys/block/sda/queue/rotational", "1\n");
        let host = crate::host::Recorded::new(dir.path());
        let says = |name: &str| fact(&host, name, "md0");
        assert_eq!((says("filesystem_type"), says("disk_stripe_matches")), (Ok("xfs".into()), Ok("yes".into())));
        assert_eq!(says("disk_raid_layout"), Ok("raid0 of 6, chunk 512 KiB".into()));
        assert!(says("mount_options").unwrap().contains("largeio"));
        assert_eq!(fact(&host, "filesystem_type", "sda"), Err(Unread::Absent), "sdaa is another disk");
        let has = |what: &str, disk| has(&host, what, Some(disk)).unwrap();
        assert!(has("xfs", "md0") && has("md_raid", "md0") && has("hdd", "sda") && !has("ssd", "sda") && has("nvme", "nvme0n1"));
    }
}
