//! Path traversals out of an export, in every spelling: nothing outside is read, made, changed or removed, and the names of
//! unfinished files are reserved.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::raw::{Raw, ask, get, plain, put};
use crate::node::Node;

const SECRET: &[u8] = b"secret of the host";

/// A node whose export lies beside a directory that is not exported.
fn node_beside_a_secret() -> (Node, tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), SECRET).unwrap();
    let node = plain().export("x", &inside, "rw").start();
    fs::write(inside.join("f"), b"fine").unwrap();
    (node, dir, outside)
}

fn assert_untouched(outside: &Path) {
    let names: Vec<_> = fs::read_dir(outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["secret"]);
    assert_eq!(fs::read(outside.join("secret")).unwrap(), SECRET);
}

/// Everything that a request could do to a target.
fn try_all(node: &Node, target: &str) {
    let holds = |body: &[u8]| body.windows(SECRET.len()).any(|window| window == SECRET);
    for (method, fields) in [
        ("GET", vec![]),
        ("HEAD", vec![("Want-Digest", "adler32")]),
        ("PROPFIND", vec![("Depth", "1")]),
        ("PUT", vec![]),
        ("MKCOL", vec![]),
        ("DELETE", vec![("Depth", "infinity")]),
        ("COPY", vec![("Destination", "/x/got")]),
        ("MOVE", vec![("Destination", "/x/got")]),
    ] {
        let body: &[u8] = if method == "PUT" { b"evil" } else { b"" };
        let mut raw = Raw::to(node);
        raw.request(method, target, &fields, body);
        let answer = if method == "HEAD" { raw.receive_head() } else { raw.receive() };
        let answer = answer.unwrap_or_else(|| panic!("{method} {target}: no answer"));
        assert!(answer.status < 500 && !holds(&answer.body), "{method} {target}: {answer:?}");
    }
    for method in ["COPY", "MOVE"] {
        fs::write(node_inside(node).join("g"), b"evil").unwrap();
        let answer = ask(node, method, "/x/g", &[("Destination", target)], &[]);
        assert!(answer.status < 500 || answer.status == 502, "{method} to {target}: {answer:?}");
    }
}

/// The directory of the export x of [`node_beside_a_secret`].
fn node_inside(node: &Node) -> PathBuf {
    INSIDE.lock().unwrap().get(&node.port).cloned().unwrap()
}

static INSIDE: std::sync::Mutex<std::collections::BTreeMap<u16, PathBuf>> =
    std::sync::Mutex::new(std::collections::BTreeMap::new());

#[test]
fn no_path_spelling_leads_out_of_an_export() {
    let (node, dir, outside) = node_beside_a_secret();
    INSIDE.lock().unwrap().insert(node.port, dir.path().join("in"));
    for up in [
        "..",
        "%2e%2e",
        "%2E%2e",
        ".%2e",
        "%2e.",
        "..%2f",
        "..%5c",
        "..\\",
        "%252e%252e",
        "%c0%ae%c0%ae",
        "%e0%80%ae.",
        "..%00",
        "..;",
        "....//",
        ".%00.",
        "%uff0e%uff0e",
        "%ef%bc%8e%ef%bc%8e",
        "..%c0%af",
        "..%252f",
    ] {
        for target in [
            format!("/x/{up}/out/secret"),
            format!("/x/f/{up}/{up}/out/secret"),
            format!("/x/{up}/{up}/{up}/{up}{}", outside.join("secret").display()),
            format!("/{up}/out/secret"),
            format!("/x//{up}//out/secret"),
            format!("http://127.0.0.1/x/{up}/out/secret"),
        ] {
            try_all(&node, &target);
        }
    }
    let absolute = outside.join("secret");
    let absolute = absolute.display();
    for target in [format!("/x/{absolute}"), format!("/x/%2f{absolute}"), format!("//{absolute}"), "/x/\\".to_owned()] {
        try_all(&node, &target);
    }
    assert_untouched(&outside);
}

#[test]
fn no_link_leads_out_of_an_export() {
    let (node, dir, outside) = node_beside_a_secret();
    INSIDE.lock().unwrap().insert(node.port, dir.path().join("in"));
    let inside = dir.path().join("in");
    let make_links = || {
        let _ = fs::remove_file(inside.join("abs"));
        let _ = fs::remove_file(inside.join("rel"));
        let _ = fs::remove_file(inside.join("dir"));
        let _ = fs::remove_file(inside.join("new"));
        symlink(outside.join("secret"), inside.join("abs")).unwrap();
        symlink("../out/secret", inside.join("rel")).unwrap();
        symlink(&outside, inside.join("dir")).unwrap();
        symlink(outside.join("new"), inside.join("new")).unwrap();
    };
    for target in ["/x/abs", "/x/rel", "/x/dir", "/x/dir/", "/x/dir/secret", "/x/dir/made", "/x/new", "/x/dir/sub/made"]
    {
        make_links();
        try_all(&node, target);
        assert_untouched(&outside);
    }
    // The listing of a link contains nothing of its target.
    make_links();
    let answer = ask(&node, "PROPFIND", "/x/", &[("Depth", "1")], &[]).expect(207);
    let length = format!("getcontentlength>{}<", SECRET.len());
    assert!(!answer.text().contains(&length), "{}", answer.text());
    // A tree with such links in it is copied without their targets.
    fs::create_dir(inside.join("tree")).unwrap();
    symlink(&outside, inside.join("tree/dir")).unwrap();
    symlink(outside.join("secret"), inside.join("tree/abs")).unwrap();
    ask(&node, "COPY", "/x/tree", &[("Destination", "/x/twin")], &[]).expect(201);
    assert!(!inside.join("twin/abs").symlink_metadata().unwrap().is_file());
    ask(&node, "DELETE", "/x/twin", &[("Depth", "infinity")], &[]).expect(204);
    ask(&node, "DELETE", "/x/tree", &[("Depth", "infinity")], &[]).expect(204);
    assert_untouched(&outside);
}

#[test]
fn a_link_swapped_in_during_a_request_leads_nowhere() {
    let (node, dir, outside) = node_beside_a_secret();
    let inside = dir.path().join("in");
    fs::create_dir(inside.join("d")).unwrap();
    fs::create_dir(inside.join("aside")).unwrap();
    fs::write(inside.join("aside/secret"), b"a decoy, fine to read").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // Now a directory, now a link out of the export.
                let _ = fs::rename(inside.join("d"), inside.join("away"));
                let _ = symlink(&outside, inside.join("d"));
                let _ = fs::remove_file(inside.join("d"));
                let _ = fs::rename(inside.join("away"), inside.join("d"));
            }
        });
        let mut raw = Raw::to(&node);
        for at in 0..400 {
            let (method, target, fields): (_, _, &[(&str, &str)]) = match at % 5 {
                0 => ("PUT", "/x/d/made", &[]),
                1 => ("COPY", "/x/f", &[("Destination", "/x/d/copied")]),
                2 => ("GET", "/x/d/secret", &[]),
                3 => ("MKCOL", "/x/d/dir", &[]),
                _ => ("DELETE", "/x/d/secret", &[]),
            };
            raw.request(method, target, fields, if at % 5 == 0 { b"evil" } else { b"" });
            let answer = raw.receive().unwrap();
            assert!(answer.status < 500, "{method}: {answer:?}");
            assert_ne!(answer.body, SECRET);
            if answer.field("connection") == Some("close") {
                raw = Raw::to(&node);
            }
        }
        // And while the body of one PUT arrives.
        let mut slow = Raw::to(&node);
        slow.send("PUT /x/d/slow HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc");
        std::thread::sleep(std::time::Duration::from_millis(50));
        slow.send("def");
        assert!(slow.receive().unwrap().status < 500);
        stop.store(true, Ordering::Relaxed);
    });
    assert_untouched(&outside);
}

#[test]
fn destinations_lie_on_this_node() {
    let (node, dir, outside) = node_beside_a_secret();
    let inside = dir.path().join("in");
    for destination in
        ["http://elsewhere.example/x/g", "https://127.0.0.2/x/g", "//elsewhere/x/g", "ftp://127.0.0.1/x/g"]
    {
        let answer = ask(&node, "MOVE", "/x/f", &[("Destination", destination)], &[]);
        assert!(matches!(answer.status, 400..=404 | 502), "{destination}: {answer:?}");
        assert!(inside.join("f").exists() && !inside.join("g").exists(), "{destination}");
    }
    assert_eq!(ask(&node, "MOVE", "/x/f", &[], &[]).status, 400);
    assert_eq!(ask(&node, "COPY", "/x/f", &[], &[]).status, 400);
    // By the host of the request.
    let own = "http://127.0.0.1/x/g";
    ask(&node, "MOVE", "/x/f", &[("Destination", own)], &[]).expect(201);
    ask(&node, "COPY", "/x/g", &[("Destination", own.replace("/g", "/f").as_str())], &[]).expect(201);
    // With the default port.
    let spelt = "http://127.0.0.1:80/x/h";
    ask(&node, "MOVE", "/x/g", &[("Destination", spelt)], &[]).expect(201);
    assert_eq!(fs::read(inside.join("h")).unwrap(), b"fine");
    assert_untouched(&outside);
}

#[test]
fn names_of_unfinished_files_are_reserved() {
    let (node, dir, outside) = node_beside_a_secret();
    let inside = dir.path().join("in");
    let name = ".longhaul-0123-1.part";
    let half = inside.join(name);
    fs::write(&half, b"half").unwrap();
    let target = format!("/x/{name}");
    assert_eq!(get(&node, &target).status, 404);
    assert_eq!(Raw::to(&node).ask("HEAD", &target, &[], &[]).status, 404);
    assert_eq!(ask(&node, "PROPFIND", &target, &[("Depth", "0")], &[]).status, 404);
    for listed in [get(&node, "/x/").expect(200), ask(&node, "PROPFIND", "/x/", &[("Depth", "1")], &[]).expect(207)] {
        assert!(!listed.text().contains("longhaul-0123"), "{}", listed.text());
    }
    let there = [("Destination", target.as_str())];
    let to_got = [("Destination", "/x/got")];
    for (method, target, fields) in [
        ("PUT", target.as_str(), &[][..]),
        ("DELETE", target.as_str(), &[]),
        ("MKCOL", "/x/.longhaul-9.part", &[]),
        ("MOVE", target.as_str(), &to_got),
        ("COPY", target.as_str(), &to_got),
        ("MOVE", "/x/f", &there),
        ("COPY", "/x/f", &there),
        ("PUT", "/x/.longhaul-9.part/below", &[]),
        ("MKCOL", "/x/.longhaul-9.part/below", &[]),
    ] {
        let answer = ask(&node, method, target, fields, if method == "PUT" { b"evil" } else { b"" });
        assert!(matches!(answer.status, 403 | 404 | 409), "{method} {target}: {answer:?}");
    }
    let pulled = ask(&node, "COPY", &target, &[("Source", "http://127.0.0.1:1/x")], &[]);
    assert!(matches!(pulled.status, 403 | 404), "{pulled:?}");
    assert_eq!(fs::read(&half).unwrap(), b"half");
    let mut names: Vec<_> = fs::read_dir(&inside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [name, "f"]);
    assert_untouched(&outside);
}

#[test]
fn a_special_file_is_not_waited_for() {
    let (node, dir, _) = node_beside_a_secret();
    let fifo = dir.path().join("in/fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    if !made.is_ok_and(|status| status.success()) {
        return crate::wait::skipped("web::escapes::a_special_file_is_not_waited_for", "no mkfifo");
    }
    for (method, fields) in [
        ("GET", &[][..]),
        ("HEAD", &[]),
        ("PUT", &[]),
        ("COPY", &[("Destination", "/x/g")]),
        ("PROPFIND", &[("Depth", "0")]),
    ] {
        let mut raw = Raw::to(&node);
        raw.request(method, "/x/fifo", fields, if method == "PUT" { b"x" } else { b"" });
        let answer = if method == "HEAD" { raw.receive_head() } else { raw.receive() }.unwrap();
        assert!(answer.status == 207 || (400..500).contains(&answer.status), "{method}: {answer:?}");
    }
    assert_eq!(put(&node, "/x/g", b"x").status, 201);
}
