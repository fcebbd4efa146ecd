//! Changes on a tree of files: kept, made, refused half-way, taken back byte for byte.

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

fn change(id: &str, place: Place, before: &str, after: &str) -> Change {
    let (before, after) = (before.to_owned(), after.to_owned());
    Change { ids: vec![id.into()], place, before, after, command: "true".into(), persist: Persist::SysctlD }
}

fn rmem() -> Change {
    change("T01", Place::Sysctl("net.core.rmem_max".into()), "212992", "67108864")
}

fn scheduler(before: &str) -> Change {
    let place = Place::File("/sys/block/sda/queue/scheduler".into());
    Change { persist: Persist::Udev, ..change("D01", place, before, "none") }
}

#[test]
fn what_was_there_comes_back_byte_for_byte() {
    let tree = Tree::new(&[
        ("proc/sys/net/core/rmem_max", "212992"),
        ("sys/block/sda/queue/scheduler", "mq-deadline"),
        ("etc/sysctl.d/90-longhaul.conf", "net.core.wmem_max=5\n# odd   blanks\n"),
    ]);
    let host = tree.host();
    let before = tree.text("etc/sysctl.d/90-longhaul.conf");
    let path = apply(&host, &[rmem(), scheduler("mq-deadline")], &tree.state(), "2026-01-01 00:00", true).unwrap();
    assert_eq!((tree.text("proc/sys/net/core/rmem_max"), tree.text("sys/block/sda/queue/scheduler")), ("67108864".into(), "none".into()));
    let own = tree.text("etc/sysctl.d/90-longhaul.conf");
    assert!(own.contains("net.core.rmem_max = 67108864\n") && own.contains("net.core.wmem_max = 5\n"), "{own}");
    assert!(tree.text("etc/udev/rules.d/90-longhaul.rules").contains("KERNEL==\"sda\", ATTR{queue/scheduler}=\"none\""));
    let snapshot = read(&host, &path).unwrap();
    undo(&host, &snapshot).unwrap();
    assert_eq!((tree.text("proc/sys/net/core/rmem_max"), tree.text("sys/block/sda/queue/scheduler")), ("212992".into(), "mq-deadline".into()));
    assert_eq!(tree.text("etc/sysctl.d/90-longhaul.conf"), before);
    assert!(!tree.0.path().join("etc/udev/rules.d/90-longhaul.rules").exists(), "it was not there before");
}

#[test]
fn a_refusal_half_way_takes_back_what_was_done() {
    let tree = Tree::new(&[("proc/sys/net/core/rmem_max", "212992")]);
    // There is no such file: it cannot be written.
    let error = apply(&tree.host(), &[rmem(), scheduler("mq-deadline")], &tree.state(), "now", false).unwrap_err();
    assert!(error.to_string().contains("as it was") || error.to_string().contains("taken back"), "{error}");
    assert_eq!(tree.text("proc/sys/net/core/rmem_max"), "212992");
}

#[test]
fn nothing_is_changed_where_nothing_can_be_kept() {
    let tree = Tree::new(&[("proc/sys/net/core/rmem_max", "212992")]);
    tree.write("state", "a file where the directory should be");
    let error = apply(&tree.host(), &[rmem()], &tree.state(), "now", false).unwrap_err();
    assert!(error.to_string().contains("nothing was changed"), "{error}");
    assert_eq!(tree.text("proc/sys/net/core/rmem_max"), "212992");
}

#[test]
fn snapshots_of_others_are_refused() {
    let (tree, other) = (Tree::new(&[("proc/sys/net/core/rmem_max", "212992")]), Tree::new(&[]));
    let path = apply(&tree.host(), &[rmem()], &tree.state(), "now", false).unwrap();
    other.write("etc/machine-id", "fedcba9876543210\n");
    assert!(matches!(read(&other.host(), &path), Err(ApplyError::OtherHost { .. })));
    fs::write(&path, "{}").unwrap();
    assert!(matches!(read(&tree.host(), &path), Err(ApplyError::NoSnapshot { .. })));
}

#[test]
fn what_was_made_to_last_before_still_does() {
    let tree = Tree::new(&[
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
        ("sys/devices/system/cpu/smt/control", "on"),
        ("sys/block/sda/queue/scheduler", "mq-deadline"),
        ("sys/block/sdb/queue/scheduler", "mq-deadline"),
    ]);
    let unit = |path: &str, before: &str, after: &str| {
        let command = format!("echo {after} > {path}");
        Change { persist: Persist::Unit, command, ..change("D08", Place::File(path.into()), before, after) }
    };
    let huge = unit("/sys/kernel/mm/transparent_hugepage/enabled", "madvise", "never");
    let threads = unit("/sys/devices/system/cpu/smt/control", "on", "off");
    let other = Change { place: Place::File("/sys/block/sdb/queue/scheduler".into()), ..scheduler("mq-deadline") };
    apply(&tree.host(), &[huge, scheduler("mq-deadline")], &tree.state(), "1", true).unwrap();
    let first = (tree.text("etc/systemd/system/longhaul-tune.service"), tree.text("etc/udev/rules.d/90-longhaul.rules"));
    let path = apply(&tree.host(), &[threads, other], &tree.state(), "2", true).unwrap();
    let text = tree.text("etc/systemd/system/longhaul-tune.service");
    assert!(text.contains("transparent_hugepage") && text.contains("smt/control") && text.contains("[Install]"), "{text}");
    let text = tree.text("etc/udev/rules.d/90-longhaul.rules");
    assert!(text.contains("\"sda\"") && text.contains("\"sdb\"") && text.lines().count() == 3, "{text}");
    undo(&tree.host(), &read(&tree.host(), &path).unwrap()).unwrap();
    let left = (tree.text("etc/systemd/system/longhaul-tune.service"), tree.text("etc/udev/rules.d/90-longhaul.rules"));
    assert_eq!(left, first);
}

#[test]
fn commands_of_the_shell_survive_systemd() {
    let command = "for q in $(ls | sed 's/.*tx-//'); do printf %x \"$((q + 1))\"; done";
    let line = r#"ExecStart=-/bin/sh -c "for q in $$(ls | sed 's/.*tx-//'); do printf %%x \"$$((q + 1))\"; done""#;
    assert_eq!(unit_line(command), line);
}
