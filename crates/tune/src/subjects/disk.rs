//! Finds the disk of a directory.

use std::path::Path;

use crate::host::{Host, HostError, HostResult};

const DISKS: &str = "/sys/block";

/// The disk, by its name in `/sys/block`, that a name, a device or a directory stands for. A directory is looked up among the mounts as
/// written: the caller resolves its links.
///
/// # Errors
/// It is not on a disk of this host; the error names its device.
pub fn disk_of(host: &dyn Host, path: &Path) -> HostResult<String> {
    let text = path.to_str().unwrap_or_default();
    let known = host.list(Path::new(DISKS))?;
    if known.iter().any(|disk| disk == text) {
        return Ok(text.to_owned());
    }
    let device = if path.starts_with("/dev") { text.to_owned() } else { mounted_device(host, path)? };
    let name = Path::new(&device).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let has_device = |disk: &&String| **disk == name || contains(host, disk, name);
    let found = known.iter().find(has_device).cloned();
    found.ok_or_else(|| HostError::Failed(format!("it is on {device:?}, which is not a disk that the kernel lists")))
}

/// Whether a disk has a partition of that name, or is a mapping (LVM, LUKS) of that name.
fn contains(host: &dyn Host, disk: &str, name: &str) -> bool {
    let at = Path::new(DISKS).join(disk);
    let is_part = !name.is_empty() && host.read(&at.join(name).join("partition")).is_ok();
    is_part || host.read(&at.join("dm/name")).is_ok_and(|mapped| mapped == name)
}

/// The device that is mounted at the deepest directory above; of several mounts at one directory the last, which hides the others.
fn mounted_device(host: &dyn Host, path: &Path) -> HostResult<String> {
    let table = host.read(Path::new("/proc/mounts"))?;
    let mount = |line: &str| {
        let mut fields = line.split_whitespace();
        let device = fields.next()?.to_owned();
        let directory = unescaped(fields.next()?);
        path.starts_with(&directory).then_some((Path::new(&directory).components().count(), device))
    };
    let deepest = table.lines().filter_map(mount).max_by_key(|(depth, _)| *depth);
    deepest.map(|(_, device)| device).ok_or(HostError::Absent)
}

/// A blank in a mount's directory is written as `\040` (fstab(5)).
fn unescaped(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Recorded;

    #[test]
    fn a_directory_is_mapped_to_its_disk() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let at = dir.path().join(name);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, text).unwrap();
        };
        write("sys/block/sda/sda1/partition", "1\n");
        write("sys/block/nvme0n1/size", "1\n");
        write("sys/block/dm-0/dm/name", "vg-data\n");
        write(
            "proc/mounts",
            "/dev/sda1 / ext4 rw 0 0\ntmpfs /data xfs rw 0 0\n/dev/nvme0n1 /data xfs rw 0 0\n\
             /dev/mapper/vg-data /my\\040data xfs rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n",
        );
        let host = Recorded::new(dir.path());
        let disk = |path: &str| disk_of(&host, Path::new(path));
        for (path, wanted) in [
            ("/srv/x", "sda"),
            ("/data/run7", "nvme0n1"),
            ("/database", "sda"),
            ("/my data", "dm-0"),
            ("nvme0n1", "nvme0n1"),
            ("/dev/sda1", "sda"),
            ("/dev/mapper/vg-data", "dm-0"),
        ] {
            assert_eq!(disk(path), Ok(wanted.to_owned()), "{path}");
        }
        assert!(matches!(disk("/tmp/x"), Err(HostError::Failed(why)) if why.contains("tmpfs")));
        assert!(disk("/dev/sdz").is_err());
    }
}
