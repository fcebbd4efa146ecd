//! XML documents of unknown clients, and listings of large directories.

use std::fs;
use std::sync::Barrier;
use std::thread;

use super::raw::{Raw, ask, get, open, plain};
use crate::node::Node;
use crate::tree::set_time;

fn propfind_status(node: &Node, body: &str) -> u16 {
    ask(node, "PROPFIND", "/data/", &[("Depth", "1"), ("Content-Type", "application/xml")], body.as_bytes()).status
}

/// The peak memory of the node's process, kB.
fn peak_kb(node: &Node) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", node.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn exploding_xml_documents_are_refused() {
    let node = open();
    let laughs: String =
        (1..10).map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10))).collect();
    let deep = format!("{}{}", "<a>".repeat(10_000), "</a>".repeat(10_000));
    let attributes: String = (0..5000).map(|n| format!(" a{n}=\"x\"")).collect();
    for (what, body) in [
        ("a billion laughs", format!("<?xml version=\"1.0\"?><!DOCTYPE p [<!ENTITY l0 \"lol\">{laughs}]><p>&l9;</p>")),
        ("a file as an entity", "<!DOCTYPE p [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><p>&e;</p>".into()),
        ("a DTD elsewhere", "<!DOCTYPE p SYSTEM \"http://127.0.0.1:1/d.dtd\"><p/>".into()),
        ("an undeclared entity", "<D:propfind xmlns:D=\"DAV:\"><D:prop>&e;</D:prop></D:propfind>".into()),
        ("ten thousand levels", deep),
        ("attributes without end", format!("<D:propfind xmlns:D=\"DAV:\"{attributes}/>")),
        ("no end", "<D:propfind xmlns:D=\"DAV:\"><D:prop>".into()),
        ("an unknown prefix", "<D:propfind><D:allprop/></D:propfind>".into()),
        ("no document", "what is this".into()),
    ] {
        let status = propfind_status(&node, &body);
        assert!(matches!(status, 400 | 413 | 422), "{what}: {status}");
    }
    assert_eq!(propfind_status(&node, &format!("<!--{}--><p/>", "x".repeat(1 << 20))), 413);
    assert_eq!(propfind_status(&node, "<D:propfind xmlns:D=\"DAV:\"><D:allprop/></D:propfind>"), 207);
    assert!(peak_kb(&node) < 100_000, "{} kB", peak_kb(&node));
}

#[test]
fn a_listing_is_streamed() {
    let node = open();
    let entries = 12_000;
    for at in 0..entries {
        fs::File::create(node.data(&format!("{at:05}-{}", "n".repeat(200)))).unwrap();
    }
    let before = peak_kb(&node);
    let answer = ask(&node, "PROPFIND", "/data/", &[("Depth", "1")], &[]).expect(207);
    assert!(answer.whole);
    let text = answer.text();
    assert_eq!(text.matches("<D:response>").count().max(text.matches("<d:response>").count()), entries + 1);
    assert!(answer.body.len() > 4 << 20);
    let grown = peak_kb(&node) - before;
    assert!(grown < 4 << 10, "{grown} kB more for {} bytes", answer.body.len());
    // An infinite depth is refused at once, as RFC 4918 permits.
    assert_eq!(ask(&node, "PROPFIND", "/data/", &[("Depth", "infinity")], &[]).status, 403);
    assert_eq!(ask(&node, "PROPFIND", "/data/", &[("Depth", "2")], &[]).status, 400);
}

#[test]
fn extreme_times_are_shown_as_dates() {
    let node = open();
    for (name, seconds) in [("before", -86_400 * 365 * 60), ("after", 253_402_300_799), ("epoch", 0), ("eve", -1)] {
        let path = node.data(name);
        fs::write(&path, b"x").unwrap();
        set_time(&path, seconds, 5);
        let target = format!("/data/{name}");
        let answer = get(&node, &target).expect(200);
        let (tag, modified) = (answer.field("etag").unwrap(), answer.field("last-modified").unwrap());
        assert!(modified.ends_with(" GMT") && modified.len() == 29, "{name}: {modified}");
        assert!(tag.starts_with('"') && tag.ends_with('"'), "{name}: {tag}");
        assert_eq!(ask(&node, "GET", &target, &[("If-None-Match", tag)], &[]).status, 304, "{name}");
        assert_eq!(ask(&node, "GET", &target, &[("If-Modified-Since", modified)], &[]).status, 304, "{name}");
        assert_eq!(ask(&node, "GET", &target, &[("If-Unmodified-Since", modified)], &[]).status, 200, "{name}");
        assert_eq!(ask(&node, "GET", &target, &[("If-Match", tag)], &[]).status, 200, "{name}");
        assert_eq!(ask(&node, "GET", &target, &[("Range", "bytes=0-0"), ("If-Range", tag)], &[]).status, 206);
        assert_eq!(ask(&node, "PROPFIND", &target, &[("Depth", "0")], &[]).status, 207, "{name}");
        assert_eq!(ask(&node, "HEAD", &target, &[("Want-Digest", "adler32")], &[]).status, 200, "{name}");
    }
    get(&node, "/data/").expect(200);
    fs::write(node.data("now"), b"x").unwrap();
    // A future date may be compared or ignored (RFC 9110, section 13.1.3).
    let ahead = "Fri, 31 Dec 2100 23:59:59 GMT";
    let status = ask(&node, "GET", "/data/now", &[("If-Modified-Since", ahead)], &[]).status;
    assert!(matches!(status, 200 | 304), "{status}");
    for nonsense in ["yesterday", "Fri, 99 Foo 2100 23:59:59 GMT", "", "0"] {
        assert_eq!(ask(&node, "GET", "/data/now", &[("If-Modified-Since", nonsense)], &[]).status, 200, "{nonsense}");
    }
}

#[test]
fn a_file_with_an_extreme_time_is_served() {
    let node = open();
    for seconds in ["-5000000000", "253402300799", "9223372036854775807", "-9223372036854775808", "nonsense"] {
        let put = ask(&node, "PUT", "/data/t", &[("X-OC-Mtime", seconds)], b"x");
        assert!(matches!(put.status, 201 | 204 | 400), "{seconds}: {put:?}");
        let answer = get(&node, "/data/t").expect(200);
        assert!(answer.field("last-modified").unwrap().ends_with("GMT"), "{seconds}");
        ask(&node, "PROPFIND", "/data/", &[("Depth", "1")], &[]).expect(207);
    }
}

#[test]
fn a_refused_copy_or_move_changes_nothing() {
    let node = plain().start();
    fs::create_dir_all(node.data("d/e")).unwrap();
    fs::write(node.data("d/e/f"), b"x").unwrap();
    fs::create_dir(node.data("g")).unwrap();
    fs::write(node.data("keep"), b"keep").unwrap();
    assert_eq!(ask(&node, "COPY", "/data/d", &[("Destination", "/data/keep"), ("Depth", "1")], &[]).status, 400);
    assert_eq!(fs::read(node.data("keep")).unwrap(), b"keep");
    assert_eq!(ask(&node, "MOVE", "/data/keep", &[("Destination", "/data/none/keep")], &[]).status, 409);
    assert_eq!(ask(&node, "MOVE", "/data/keep", &[("Destination", "/data/g"), ("Overwrite", "F")], &[]).status, 412);
    assert_eq!(ask(&node, "MOVE", "/data/keep", &[("Destination", "/data/g"), ("Overwrite", "X")], &[]).status, 400);
    assert_eq!(fs::read(node.data("keep")).unwrap(), b"keep");
}

#[test]
fn one_of_two_moves_to_one_name_is_refused() {
    let node = open();
    for round in 0..60 {
        let (to, start) = (format!("/data/to{round}"), Barrier::new(2));
        let names = ["a", "b"];
        names.iter().for_each(|name| fs::write(node.data(name), name).unwrap());
        let statuses = thread::scope(|scope| {
            let moves = names.map(|name| {
                let (node, to, start) = (&node, &to, &start);
                scope.spawn(move || {
                    let mut raw = Raw::to(node);
                    start.wait();
                    let fields = [("Destination", to.as_str()), ("Overwrite", "F")];
                    raw.ask("MOVE", &format!("/data/{name}"), &fields, &[]).status
                })
            });
            moves.map(|one| one.join().unwrap())
        });
        assert!(matches!(statuses, [201, 412] | [412, 201]), "{round}: {statuses:?}");
        // The source of the refused move is still there.
        let (first, late) = if statuses[0] == 201 { ("a", "b") } else { ("b", "a") };
        assert_eq!(fs::read(node.data(&format!("to{round}"))).unwrap(), first.as_bytes());
        assert_eq!(fs::read(node.data(late)).unwrap(), late.as_bytes());
    }
}
