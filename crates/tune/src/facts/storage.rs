//! Disks with data: their file systems, and the devices that they consist of.

use std::collections::BTreeSet;
use std::path::Path;

use super::{switch, unknown, yes_or_no};
use crate::host::{Host, HostError, HostResult};

/// The most layers of arrays, encryption and volumes.
const LAYERS_MAX: u32 = 8;

/// A mount of a disk, or of a partition.
struct DiskMount {
    directory: String,
    kind: String,
    options: String,
}

/// A fact of a disk.
pub(super) fn fact(host: &dyn Host, name: &str, disk: &str) -> HostResult<String> {
    match name {
        "filesystem_type" => of_mounts(host, disk, |mount| mount.kind.clone()),
        "mount_options" => of_mounts(host, disk, |mount| mount.options.clone()),
        "disk_stripe_matches" => stripe_matches(host, disk).and_then(yes_or_no),
        "disk_raid_layout" => raid(host, disk),
        _ => unknown(name),
    }
}

/// Whether a disk is of a kind or has a feature; unknown without a disk.
pub(super) fn has(host: &dyn Host, what: &str, disk: Option<&str>) -> HostResult<bool> {
    let disk = disk.ok_or(HostError::Absent)?;
    let rotates = || switch(&host.read(&Path::new("/sys/block").join(disk).join("queue/rotational"))?);
    // Arrays and volumes report whether their members rotate, and have no scheduler of their own.
    let is_drive = !["md", "dm-"].iter().any(|kind| disk.starts_with(kind));
    match what {
        "nvme" => Ok(disk.starts_with("nvme")),
        "hdd" => Ok(is_drive && rotates()?),
        "ssd" => Ok(is_drive && !disk.starts_with("nvme") && !rotates()?),
        "md_raid" => Ok(disk.starts_with("md")),
        "xfs" => of_mounts(host, disk, |mount| mount.kind == "xfs"),
        _ => unknown(what),
    }
}

/// Whether the host has any NVMe drive.
pub(super) fn any_nvme(host: &dyn Host) -> HostResult<bool> {
    match host.list(Path::new("/sys/class/nvme")) {
        Ok(drives) => Ok(!drives.is_empty()),
        Err(HostError::Absent) => Ok(false),
        Err(why) => Err(why),
    }
}

/// The names in `/dev/mapper` of the volumes (LVM or encrypted) that are a disk or are on it.
fn volumes(host: &dyn Host, disk: &str) -> Vec<String> {
    let base = Path::new("/sys/block");
    let above = host.list(&base.join(disk).join("holders")).unwrap_or_default();
    let all = above.into_iter().filter(|name| name.starts_with("dm-")).chain([disk.to_owned()]);
    all.filter_map(|name| host.read(&base.join(name).join("dm/name")).ok()).collect()
}

/// The mounts of a disk, of its partitions, or of volumes on it.
fn mounts(host: &dyn Host, disk: &str) -> HostResult<Vec<DiskMount>> {
    let table = host.read(Path::new("/proc/mounts"))?;
    let volumes = volumes(host, disk);
    let is_on_disk = |device: &str| match device.strip_prefix("/dev/mapper/") {
        Some(name) => volumes.iter().any(|volume| volume == name),
        None => device.strip_prefix("/dev/").is_some_and(|name| name == disk || is_part(name, disk)),
    };
    let mount = |line: &str| {
        let mut fields = line.split_whitespace();
        let device = fields.next()?;
        let directory = fields.next()?.to_owned();
        let kind = fields.next()?.to_owned();
        let options = fields.next()?.to_owned();
        is_on_disk(device).then_some(DiskMount { directory, kind, options })
    };
    Ok(table.lines().filter_map(mount).collect())
}

/// Whether a partition is one of a disk: sda1, nvme0n1p1, md0p1; not sdaa, and not nvme0n12, which is a disk of its own.
fn is_part(name: &str, disk: &str) -> bool {
    let rest = name.strip_prefix(disk);
    let number =
        if disk.ends_with(|c: char| c.is_ascii_digit()) { rest.and_then(|rest| rest.strip_prefix('p')) } else { rest };
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// A property that all mounts of a disk share. If they differ, it is not known which of them has the data.
fn of_mounts<T: PartialEq>(host: &dyn Host, disk: &str, what: impl Fn(&DiskMount) -> T) -> HostResult<T> {
    let all = mounts(host, disk)?;
    let first = what(all.first().ok_or(HostError::Absent)?);
    if all.iter().all(|mount| what(mount) == first) {
        return Ok(first);
    }
    let directories: Vec<&str> = all.iter().map(|mount| mount.directory.as_str()).collect();
    Err(HostError::Failed(format!("{disk} is mounted at {}, which differ in this", directories.join(", "))))
}

/// The NVMe controllers of the disks, or of the members of arrays and volumes.
pub(super) fn nvme_under(host: &dyn Host, disks: &[String]) -> HostResult<Vec<String>> {
    let mut found = BTreeSet::new();
    for disk in disks {
        collect_nvme(host, disk, LAYERS_MAX, &mut found)?;
    }
    Ok(found.into_iter().collect())
}

fn collect_nvme(host: &dyn Host, disk: &str, layers: u32, found: &mut BTreeSet<String>) -> HostResult<()> {
    if let Some(rest) = disk.strip_prefix("nvme") {
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        found.insert(format!("nvme{number}"));
        return Ok(());
    }
    let parts = match host.list(&Path::new("/sys/block").join(disk).join("slaves")) {
        Ok(parts) => parts,
        // A disk of another kind, or a partition of one.
        Err(HostError::Absent) => return Ok(()),
        Err(why) => return Err(why),
    };
    match layers.checked_sub(1) {
        Some(layers) => parts.iter().try_for_each(|part| collect_nvme(host, part, layers, found)),
        None => Err(HostError::Failed(format!("there are more than {LAYERS_MAX} layers of devices above {disk}"))),
    }
}

/// A number of an array of disks.
fn array(host: &dyn Host, disk: &str, what: &str) -> HostResult<u64> {
    let text = host.read(&Path::new("/sys/block").join(disk).join("md").join(what))?;
    text.parse().map_err(|_| HostError::Failed(format!("an array's {what} of {text:?}")))
}

/// Whether the file system's stripes are those of the array: sunit is the chunk, swidth all data disks, in units of 512 bytes (xfs(5)).
fn stripe_matches(host: &dyn Host, disk: &str) -> HostResult<bool> {
    let options = of_mounts(host, disk, |mount| mount.options.clone())?;
    let option = |name: &str| {
        options
            .split(',')
            .find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
            .and_then(|value| value.parse::<u64>().ok())
    };
    let chunk = array(host, disk, "chunk_size")? / 512;
    let data = data_disks(host, disk)?;
    Ok(option("sunit") == Some(chunk) && option("swidth").is_some_and(|width| Some(width) == chunk.checked_mul(data)))
}

/// The number of disks in one stripe of an array that hold data, not parity or copies.
fn data_disks(host: &dyn Host, disk: &str) -> HostResult<u64> {
    let level = host.read(&Path::new("/sys/block").join(disk).join("md/level"))?;
    let all = array(host, disk, "raid_disks")?;
    let data = match level.as_str() {
        "raid0" => Some(all),
        "raid4" | "raid5" => all.checked_sub(1),
        "raid6" => all.checked_sub(2),
        // The lowest two bytes of its layout are the numbers of near and far copies (md(4)).
        "raid10" => {
            array(host, disk, "layout").map(|layout| all.checked_div((layout & 0xFF) * (layout >> 8 & 0xFF)))?
        }
        _ => None,
    };
    data.filter(|data| *data > 0)
        .ok_or_else(|| HostError::Failed(format!("the stripes of {level} of {all} disks are not known")))
}

/// An array in words: `raid0 of 6, chunk 512 KiB`.
fn raid(host: &dyn Host, disk: &str) -> HostResult<String> {
    let level = host.read(&Path::new("/sys/block").join(disk).join("md/level"))?;
    let (disks, chunk) = (array(host, disk, "raid_disks")?, array(host, disk, "chunk_size")?);
    Ok(format!("{level} of {disks}, chunk {} KiB", chunk / 1_024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_of_an_array_are_compared_with_its_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let at = dir.path().join(name);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, text).unwrap();
        };
        write(
            "proc/mounts",
            "/dev/sdaa1 / ext4 rw 0 0\n/dev/md0 /data xfs rw,noatime,largeio,sunit=1024,swidth=6144 0 0\n",
        );
        for (what, text) in [("level", "raid0"), ("raid_disks", "6"), ("chunk_size", "524288")] {
            write(&format!("sys/block/md0/md/{what}"), text);
        }
        write("sys/block/sda/queue/rotational", "1\n");
        let host = crate::host::Recorded::new(dir.path());
        let says = |name: &str| fact(&host, name, "md0");
        assert_eq!((says("filesystem_type"), says("disk_stripe_matches")), (Ok("xfs".into()), Ok("yes".into())));
        assert_eq!(says("disk_raid_layout"), Ok("raid0 of 6, chunk 512 KiB".into()));
        assert!(says("mount_options").unwrap().contains("largeio"));
        for (level, disks, wanted) in
            [("raid5", "7", "yes"), ("raid6", "8", "yes"), ("raid5", "6", "no"), ("raid10", "12", "yes")]
        {
            write("sys/block/md0/md/level", level);
            write("sys/block/md0/md/raid_disks", disks);
            write("sys/block/md0/md/layout", "258");
            assert_eq!(says("disk_stripe_matches"), Ok(wanted.into()), "{level} of {disks}");
        }
        for (level, disks) in [("raid6", "1"), ("raid5", "0"), ("raid1", "2")] {
            write("sys/block/md0/md/level", level);
            write("sys/block/md0/md/raid_disks", disks);
            assert!(matches!(says("disk_stripe_matches"), Err(HostError::Failed(_))), "{level} of {disks}");
        }
        assert_eq!(fact(&host, "filesystem_type", "sda"), Err(HostError::Absent), "sdaa is another disk");
        let has = |what: &str, disk| has(&host, what, Some(disk)).unwrap();
        assert!(
            has("xfs", "md0")
                && has("md_raid", "md0")
                && has("hdd", "sda")
                && !has("ssd", "sda")
                && has("nvme", "nvme0n1")
        );
    }

    #[test]
    fn a_partition_belongs_to_one_disk() {
        for (name, disk) in [("sda1", "sda"), ("nvme0n1p1", "nvme0n1"), ("md1p3", "md1"), ("sda12", "sda")] {
            assert!(is_part(name, disk), "{name} {disk}");
        }
        for (name, disk) in
            [("nvme0n12", "nvme0n1"), ("md127", "md1"), ("dm-12", "dm-1"), ("sdaa1", "sda"), ("sdap1", "sda")]
        {
            assert!(!is_part(name, disk), "{name} {disk}");
        }
    }

    #[test]
    fn mounts_that_differ_are_named_in_the_error() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc")).unwrap();
        let host = crate::host::Recorded::new(dir.path());
        let says = |table: &str, name: &str| {
            std::fs::write(dir.path().join("proc/mounts"), table).unwrap();
            fact(&host, name, "nvme0n1")
        };
        let two = "/dev/nvme0n1p1 /boot xfs rw,relatime 0 0\n/dev/nvme0n1p2 /data xfs rw,noatime 0 0\n";
        assert_eq!(says(two, "filesystem_type"), Ok("xfs".into()));
        let unknown = says(two, "mount_options");
        assert!(
            matches!(&unknown, Err(HostError::Failed(why)) if why.contains("/boot") && why.contains("/data")),
            "{unknown:?}"
        );
        let other = "/dev/nvme0n12 /boot ext4 rw 0 0\n/dev/nvme0n1 /data xfs rw,noatime 0 0\n";
        assert_eq!(
            (says(other, "filesystem_type"), says(other, "mount_options")),
            (Ok("xfs".into()), Ok("rw,noatime".into()))
        );
    }
}
