//! Changes on a tree of files: recorded, made, refused, restored byte for byte.

use super::*;
use crate::host::Recorded;

struct Tree(tempfile::TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        tree.write("etc/machine-id", "0123456789abcdef\n");
        for (name, text) in files {
            tree.write(name, text);
        }
        fs::create_dir_all(tree.0.path().join("etc/sysctl.d")).unwrap();
        tree
    }

    fn write(&self, name: &str, text: &str) {
        let at = self.0.path().join(name);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap()
    }

    fn host(&self) -> Recorded {
        Recorded::new(self.0.path())
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state/tune")
    }
}

fn change(id: &str, place: SettingLocation, before: &str, after: &str) -> Change {
    let (before, after) = (before.to_owned(), after.to_owned());
    Change {
        ids: vec![id.into()],
        place,
        before,
        after,
        command: "true".into(),
        persist: Persist::SysctlD,
        follows: false,
    }
}

fn rmem() -> Change {
    change("T01", SettingLocation::Sysctl("net.core.rmem_max".into()), "212992", "67108864")
}

fn scheduler(before: &str) -> Change {
    let place = SettingLocation::File("/sys/block/sda/queue/scheduler".into());
    Change { persist: Persist::Udev, ..change("D01", place, before, "none") }
}

#[test]
fn undo_restores_everything_byte_for_byte() {
    let tree = Tree::new(&[
        ("proc/sys/net/core/rmem_max", "212992"),
        ("sys/block/sda/queue/scheduler", "mq-deadline"),
        ("etc/sysctl.d/90-longhaul.conf", "net.core.wmem_max=5\n# odd   blanks\n"),
    ]);
    let host = tree.host();
    let before = tree.text("etc/sysctl.d/90-longhaul.conf");
    let path = apply(&host, &[rmem(), scheduler("mq-deadline")], &tree.state(), "2026-01-01 00:00", true).unwrap();
    assert_eq!(
        (tree.text("proc/sys/net/core/rmem_max"), tree.text("sys/block/sda/queue/scheduler")),
        ("67108864".into(), "none".into())
    );
    let own = tree.text("etc/sysctl.d/90-longhaul.conf");
    assert!(own.contains("net.core.rmem_max = 67108864\n") && own.contains("net.core.wmem_max = 5\n"), "{own}");
    assert!(
        tree.text("etc/udev/rules.d/90-longhaul.rules").contains("KERNEL==\"sda\", ATTR{queue/scheduler}=\"none\"")
    );
    let snapshot = read(&host, &path).unwrap();
    undo(&host, &snapshot).unwrap();
    assert_eq!(
        (tree.text("proc/sys/net/core/rmem_max"), tree.text("sys/block/sda/queue/scheduler")),
        ("212992".into(), "mq-deadline".into())
    );
    assert_eq!(tree.text("etc/sysctl.d/90-longhaul.conf"), before);
    assert!(!tree.0.path().join("etc/udev/rules.d/90-longhaul.rules").exists(), "it did not exist before");
}

#[test]
fn a_refused_change_takes_back_those_before_it() {
    let tree = Tree::new(&[("proc/sys/net/core/rmem_max", "212992")]);
    // This file does not exist, so it cannot be written.
    let error = apply(&tree.host(), &[rmem(), scheduler("mq-deadline")], &tree.state(), "now", false).unwrap_err();
    assert!(error.to_string().contains("as it was") || error.to_string().contains("taken back"), "{error}");
    assert_eq!(tree.text("proc/sys/net/core/rmem_max"), "212992");
}

#[test]
fn nothing_is_changed_if_the_snapshot_cannot_be_written() {
    let tree = Tree::new(&[("proc/sys/net/core/rmem_max", "212992")]);
    tree.write("state", "a file where the directory should be");
    let error = apply(&tree.host(), &[rmem()], &tree.state(), "now", false).unwrap_err();
    assert!(error.to_string().contains("nothing was changed"), "{error}");
    assert_eq!(tree.text("proc/sys/net/core/rmem_max"), "212992");
}

#[test]
fn snapshots_of_other_hosts_are_refused() {
    let tree = Tree::new(&[("proc/sys/net/core/rmem_max", "212992")]);
    let other = Tree::new(&[]);
    let path = apply(&tree.host(), &[rmem()], &tree.state(), "now", false).unwrap();
    other.write("etc/machine-id", "fedcba9876543210\n");
    assert!(matches!(read(&other.host(), &path), Err(ApplyError::OtherHost { .. })));
    fs::write(&path, "{}").unwrap();
    assert!(matches!(read(&tree.host(), &path), Err(ApplyError::NoSnapshot { .. })));
}

#[test]
fn earlier_persistent_settings_stay() {
    let tree = Tree::new(&[
        ("ethtool/ens1/ring.rx", "1024"),
        ("ethtool/ens1/ring.tx", "1024"),
        ("sys/block/sda/queue/scheduler", "mq-deadline"),
        ("sys/block/sdb/queue/scheduler", "mq-deadline"),
    ]);
    let ring = |what: &str| Change {
        persist: Persist::Unit,
        command: format!("ethtool -G ens1 {what}; echo '$(ls)' 100%"),
        ..change("N03", SettingLocation::Ethtool { nic: "ens1".into(), what: what.into() }, "1024", "8192")
    };
    let of = |disk: &str, after: &str, before: &str| Change {
        place: SettingLocation::File(format!("/sys/block/{disk}/queue/scheduler")),
        after: after.into(),
        ..scheduler(before)
    };
    let call = |changes: &[Change], made: &str| drop(apply(&tree.host(), changes, &tree.state(), made, true).unwrap());
    call(&[ring("ring.rx"), of("sda", "none", "mq-deadline"), of("sdb", "none", "mq-deadline")], "1");
    call(&[ring("ring.tx"), of("sda", "kyber", "none")], "2");
    let unit = tree.text("etc/systemd/system/longhaul-tune.service");
    assert!(unit.contains("ring.rx") && unit.contains("ring.tx") && unit.matches("[Service]").count() == 1, "{unit}");
    assert!(unit.contains(r"; echo \'$$(ls)\' 100%%'"), "quotes, variables and specifiers are escaped: {unit}");
    let udev = tree.text("etc/udev/rules.d/90-longhaul.rules");
    assert_eq!(udev.lines().filter(|line| line.contains("sda")).count(), 1, "the new value alone: {udev}");
    assert!(udev.contains("\"sdb\"") && udev.contains("\"kyber\""), "{udev}");
}

#[test]
fn an_own_file_that_cannot_be_restored_is_not_touched() {
    let tree = Tree::new(&[("proc/sys/net/core/rmem_max", "212992")]);
    fs::write(tree.0.path().join("etc/sysctl.d/90-longhaul.conf"), [0xFF, 0xFE]).unwrap();
    let error = apply(&tree.host(), &[rmem()], &tree.state(), "now", true).unwrap_err();
    assert!(error.to_string().contains("all is as it was"), "{error}");
    assert_eq!(tree.text("proc/sys/net/core/rmem_max"), "212992");
    assert!(!tree.state().exists(), "no snapshot was written");
}

#[test]
fn a_change_that_the_kernel_makes_is_recorded_and_never_written() {
    let tree = Tree::new(&[("proc/sys/vm/dirty_background_bytes", "0"), ("proc/sys/vm/dirty_background_ratio", "10")]);
    let of = |name: &str| SettingLocation::Sysctl(format!("vm.dirty_background_{name}"));
    let bytes = change("D06", of("bytes"), "0", "1073741824");
    let share = Change { follows: true, ..change("D06", of("ratio"), "10", "0") };
    let path = apply(&tree.host(), &[bytes, share], &tree.state(), "now", true).unwrap();
    assert_eq!(tree.text("proc/sys/vm/dirty_background_ratio"), "10", "only the kernel writes it");
    let lasting = tree.text("etc/sysctl.d/90-longhaul.conf");
    assert!(lasting.contains("background_bytes = 1073741824") && !lasting.contains("ratio"), "{lasting}");
    // The kernel would do this.
    fs::write(tree.0.path().join("proc/sys/vm/dirty_background_ratio"), "0").unwrap();
    undo(&tree.host(), &read(&tree.host(), &path).unwrap()).unwrap();
    assert_eq!(tree.text("proc/sys/vm/dirty_background_ratio"), "10");
    assert_eq!(tree.text("proc/sys/vm/dirty_background_bytes"), "0");
}

#[test]
fn hosts_without_an_id_are_distinguished_by_their_boot() {
    let files = |boot| {
        [
            ("proc/sys/kernel/random/boot_id", boot),
            ("etc/machine-id", "uninitialized\n"),
            ("proc/sys/net/core/rmem_max", "212992"),
        ]
    };
    let tree = Tree::new(&files("1f"));
    let other = Tree::new(&files("2f"));
    let path = apply(&tree.host(), &[rmem()], &tree.state(), "now", false).unwrap();
    assert!(read(&tree.host(), &path).is_ok());
    assert!(matches!(read(&other.host(), &path), Err(ApplyError::OtherHost { .. })));
}
