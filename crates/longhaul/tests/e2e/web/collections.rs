//! Directories with their contents: removed, replaced, copied, by clients with the rights.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Instant;

use super::locks::lock;
use super::raw::{ask, open, plain};
use crate::node::Setup;

#[test]
fn a_directory_is_removed_with_its_contents() {
    let node = open();
    fs::create_dir_all(node.data("d/e")).unwrap();
    fs::write(node.data("d/e/f"), b"x").unwrap();
    fs::write(node.data("outside"), b"x").unwrap();
    symlink(node.data("outside"), node.data("d/link")).unwrap();
    for depth in ["0", "1", "perhaps"] {
        assert_eq!(ask(&node, "DELETE", "/data/d", &[("Depth", depth)], &[]).status, 400, "{depth}");
    }
    assert_eq!(ask(&node, "DELETE", "/data/d/", &[], &[]).status, 204);
    assert!(!node.data("d").exists() && node.data("outside").exists());
    for top in ["/data", "/data/", "/"] {
        assert_eq!(ask(&node, "DELETE", top, &[("Depth", "infinity")], &[]).status, 403, "{top}");
    }
}

#[test]
fn entries_that_cannot_be_removed_are_reported() {
    let node = open();
    fs::create_dir_all(node.data("d/kept")).unwrap();
    fs::create_dir_all(node.data("d/gone")).unwrap();
    fs::write(node.data("d/kept/f"), b"x").unwrap();
    fs::write(node.data("d/gone/g"), b"x").unwrap();
    // A lock also prevents the removal by the superuser.
    let lock = lock(&node, "/data/d/kept/f", &[("Depth", "0")]).expect(200);
    let answer = ask(&node, "DELETE", "/data/d", &[], &[]).expect(207);
    assert!(answer.text().contains("/data/d/kept/f</D:href><D:status>HTTP/1.1 423 Locked"), "{}", answer.text());
    assert_eq!(answer.text().matches("<D:response>").count(), 1, "nothing of the directories above: {}", answer.text());
    assert!(node.data("d/kept/f").exists() && !node.data("d/gone").exists());
    let token = lock.field("lock-token").unwrap();
    // A single failure is reported by the status.
    assert_eq!(ask(&node, "DELETE", "/data/d/kept/f", &[], &[]).status, 423);
    let condition = format!("</data/d/kept/f> ({token})");
    assert_eq!(ask(&node, "DELETE", "/data/d", &[("If", &condition)], &[]).status, 204);
    assert!(!node.data("d").exists());
}

#[test]
fn a_copy_or_move_onto_a_directory_replaces_all_of_it() {
    let node = open();
    let fill = || {
        for (dir, file) in [("from/a", "new"), ("to/b", "old")] {
            fs::create_dir_all(node.data(dir)).unwrap();
            fs::write(node.data(dir).join(file), file).unwrap();
        }
    };
    fill();
    let to = ("Destination", "/data/to");
    assert_eq!(ask(&node, "COPY", "/data/from", &[to, ("Overwrite", "F")], &[]).status, 412);
    assert_eq!(ask(&node, "COPY", "/data/from", &[to], &[]).status, 204);
    assert!(node.data("to/a/new").exists() && !node.data("to/b").exists());
    fill();
    assert_eq!(ask(&node, "MOVE", "/data/from", &[to, ("Overwrite", "F")], &[]).status, 412);
    assert_eq!(ask(&node, "MOVE", "/data/from", &[to], &[]).status, 204);
    assert!(node.data("to/a/new").exists() && !node.data("to/b").exists() && !node.data("from").exists());
    fill();
    fs::write(node.data("file"), b"file").unwrap();
    assert_eq!(ask(&node, "COPY", "/data/file", &[to], &[]).status, 204);
    assert_eq!(fs::read(node.data("to")).unwrap(), b"file");
    // Neither may contain the other: by name, or by another name of the same directory.
    symlink("from", node.data("alias")).unwrap();
    for (verb, from, to) in [
        ("COPY", "/data/alias", "/data/from"),
        ("MOVE", "/data/alias", "/data/from"),
        ("COPY", "/data/from/a", "/data/alias/a"),
        ("MOVE", "/data/from", "/data/from/a/in"),
        ("MOVE", "/data/from/a", "/data/from"),
        ("COPY", "/data/from/a", "/data/from"),
        ("COPY", "/data/from", "/data/alias/in"),
        ("MOVE", "/data/from/a", "/data/alias"),
    ] {
        assert_eq!(ask(&node, verb, from, &[("Destination", to)], &[]).status, 403, "{verb} {from} {to}");
    }
    assert!(node.data("from/a/new").exists());
}

#[test]
fn an_export_may_refuse_to_remove_full_directories() {
    let setup = Setup::new();
    let config = setup.data().with_file_name("node.toml");
    let export = format!("export = [{{ at = \"data={}:rw\", recursive_delete = false }}]\n", setup.data().display());
    fs::write(&config, export).unwrap();
    let node = setup.arg("--config").arg(&config).arg("--anonymous").arg("rw").arg("--plain").start();
    fs::create_dir_all(node.data("d/e")).unwrap();
    fs::create_dir(node.data("g")).unwrap();
    let answer = ask(&node, "DELETE", "/data/d", &[], &[]).expect(409);
    assert!(answer.text().contains("recursive_delete = false"), "{}", answer.text());
    assert_eq!(ask(&node, "DELETE", "/data/d", &[("Depth", "infinity")], &[]).status, 409);
    assert_eq!(ask(&node, "MOVE", "/data/g", &[("Destination", "/data/d")], &[]).status, 409);
    assert_eq!(ask(&node, "COPY", "/data/g", &[("Destination", "/data/d")], &[]).status, 409);
    assert!(node.data("d/e").exists() && node.data("g").exists());
    assert_eq!(ask(&node, "MOVE", "/data/g", &[("Destination", "/data/d/e")], &[]).status, 204);
    assert_eq!(ask(&node, "DELETE", "/data/d/e", &[], &[]).status, 204);
}

#[test]
fn a_hundred_thousand_members_are_removed_by_one_request() {
    let node = open();
    for dir in 0..100 {
        let dir = node.data(&format!("d/{dir}"));
        fs::create_dir_all(&dir).unwrap();
        (0..1000).for_each(|file| drop(fs::File::create(dir.join(file.to_string())).unwrap()));
    }
    let began = Instant::now();
    ask(&node, "DELETE", "/data/d", &[], &[]).expect(204);
    assert!(!node.data("d").exists());
    // Some seconds on a slow disk; a round trip for each would be minutes.
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}

#[test]
fn a_copy_of_a_tree_reports_what_was_not_copied() {
    let node = plain().start();
    fs::create_dir_all(node.data("d")).unwrap();
    fs::write(node.data("d/f"), b"x").unwrap();
    let body = b"<propertyupdate xmlns='DAV:'><set><prop><x xmlns='urn:z'>1</x></prop></set></propertyupdate>";
    ask(&node, "PROPPATCH", "/data/d/f", &[], body).expect(207);
    fs::set_permissions(node.data("d/f"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(ask(&node, "COPY", "/data/d", &[("Destination", "/data/e")], &[]).status, 201);
    assert_eq!(fs::metadata(node.data("e/f")).unwrap().permissions().mode() & 0o777, 0o640);
    let found = ask(&node, "PROPFIND", "/data/e/f", &[("Depth", "0")], &[]).expect(207);
    assert!(found.text().contains("<x:x xmlns:x=\"urn:z\">1</x:x>"), "{}", found.text());
    // A path that is too long: it is reported, and its neighbours are copied.
    let long = "n".repeat(240);
    let deep = vec![long.as_str(); 16].join("/");
    fs::create_dir_all(node.data("d").join(&deep)).unwrap();
    fs::write(node.data("d").join(&deep).join("x"), b"x").unwrap();
    let top = format!("/data/{long}");
    let answer = ask(&node, "COPY", "/data/d", &[("Destination", &top)], &[]).expect(207);
    assert!(answer.text().contains("414") && answer.text().matches("<D:response>").count() == 1, "{}", answer.text());
    assert!(node.data(&long).join("f").exists());
}

#[test]
fn a_failed_copy_or_move_keeps_its_target() {
    let node = open();
    fs::create_dir_all(node.data("from")).unwrap();
    fs::create_dir_all(node.data("to")).unwrap();
    fs::write(node.data("to/old"), b"old").unwrap();
    assert!(std::process::Command::new("mkfifo").arg(node.data("fifo")).status().unwrap().success());
    let lock = |target: &str| lock(&node, target, &[("Depth", "0")]).expect(200);
    let lock_token = lock("/data/from").field("lock-token").unwrap().to_owned();
    let to = ("Destination", "/data/to");
    assert_eq!(ask(&node, "MOVE", "/data/from", &[to], &[]).status, 423, "what is locked stays");
    assert_eq!(ask(&node, "COPY", "/data/fifo", &[to], &[]).status, 409);
    assert_eq!(ask(&node, "COPY", "/data/none", &[to], &[]).status, 404);
    assert_eq!(fs::read(node.data("to/old")).unwrap(), b"old");
    assert_eq!(ask(&node, "UNLOCK", "/data/from", &[("Lock-Token", &lock_token)], &[]).status, 204);
    // A locked directory keeps its names and what is below them.
    fs::create_dir(node.data("kept")).unwrap();
    fs::rename(node.data("to"), node.data("kept/to")).unwrap();
    lock("/data/kept");
    assert_eq!(ask(&node, "DELETE", "/data/kept/to", &[], &[]).status, 423);
    assert_eq!(ask(&node, "MOVE", "/data/from", &[("Destination", "/data/kept/to")], &[]).status, 423);
    assert_eq!(fs::read(node.data("kept/to/old")).unwrap(), b"old");
}

#[test]
fn a_link_in_place_of_a_directory_leads_nowhere() {
    let node = open();
    fs::create_dir_all(node.data("others")).unwrap();
    fs::write(node.data("others/f"), b"x").unwrap();
    for at in 0..200 {
        fs::create_dir_all(node.data(&format!("d/{at}"))).unwrap();
    }
    // Another writer replaces its directories by links during the removal.
    std::thread::scope(|scope| {
        let swaps = scope.spawn(|| {
            for at in (0..200).rev() {
                let dir = node.data(&format!("d/{at}"));
                let _ = fs::remove_dir(&dir).and_then(|()| symlink("../others", &dir));
            }
        });
        let answer = ask(&node, "DELETE", "/data/d", &[], &[]);
        assert!(matches!(answer.status, 204 | 207 | 409), "{answer:?}");
        swaps.join().unwrap();
    });
    assert!(node.data("others/f").exists());
}
