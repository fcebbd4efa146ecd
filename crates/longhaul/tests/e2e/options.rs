//! What the options of `cp` change.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::time::Instant;

use serde_json::Value;

use crate::client::{Client, words};
use crate::control::{connections, lift_limit};
use crate::node::{Node, Setup};
use crate::tree::{assert_copied, pattern, set_mode, set_time};
use crate::wait::{LONG, until};

fn data_streams(receipt: &Value) -> Vec<&Value> {
    receipt["streams"].as_array().unwrap().iter().filter(|stream| stream["id"] != 0).collect()
}

#[test]
fn sync_levels_decide_about_existing_files() {
    let (node, client) = (Node::open(), Client::new());
    let file = client.write("f", b"12345");
    set_time(&file, 1000, 0);
    // What is there (bytes, time), and the levels that take it for the same.
    let cases: [(&[u8], i64, &[&str]); 4] = [
        (b"12345", 1000, &["exists", "size", "mtime", "digest"]),
        (b"12345", 2000, &["exists", "size", "digest"]),
        (b"abcde", 1000, &["exists", "size", "mtime"]),
        (b"another size", 1000, &["exists"]),
    ];
    for (bytes, time, same) in cases {
        for level in ["none", "exists", "size", "mtime", "digest"] {
            fs::write(node.data("f"), bytes).unwrap();
            set_time(&node.data("f"), time, 0);
            let receipt = client.cp(0, words![file, node.at("data/f"), "--sync", level]);
            let (skips, there) = (u64::from(same.contains(&level)), fs::read(node.data("f")).unwrap());
            assert_eq!((&receipt["skipped"], &receipt["files"]), (&skips.into(), &(1 - skips).into()), "{level}");
            assert_eq!(there, if skips == 1 { bytes } else { b"12345" }, "{level}");
        }
    }
    // Pulled, and larger than what is sent on the control connection.
    client.write("large", pattern(3 << 20));
    client.cp(0, words![client.path("large"), node.at("data/large")]);
    for (level, skipped) in [("digest", 1), ("mtime", 1), ("none", 0)] {
        let receipt = client.cp(0, words![node.at("data/large"), client.path("large"), "--sync", level]);
        assert_eq!(receipt["skipped"], skipped, "{level}");
    }
    let receipt =
        client.cp(0, words![node.at("data/large"), client.path("large"), "--sync", "digest", "--streams", "1"]);
    assert_eq!(receipt["skipped"], 1);
}

#[test]
fn no_overwrite_keeps_what_differs() {
    let (node, client) = (Node::open(), Client::new());
    client.write("s/same", b"s");
    client.write("s/new", b"n");
    client.cp(0, words!["-r", client.path("s"), node.at("data/t")]);
    fs::remove_file(node.data("t/new")).unwrap();
    client.write("s/differs", b"theirs");
    fs::write(node.data("t/differs"), b"mine").unwrap();
    let receipt = client.cp(3, words!["-r", client.path("s"), node.at("data/t"), "--no-overwrite"]);
    assert_eq!((&receipt["files"], &receipt["skipped"], &receipt["failed"]), (&1.into(), &1.into(), &1.into()));
    assert_eq!(receipt["failures"][0]["path"], "s/differs");
    assert_eq!(fs::read(node.data("t/differs")).unwrap(), b"mine");
    let lone = client.run(words!["cp", client.path("s/differs"), node.at("data/t/differs"), "--no-overwrite"]);
    assert!(lone.err.contains("--no-overwrite"), "{}", lone.err);
    assert_ne!(lone.code, 0);
    assert_eq!(fs::read(node.data("t/differs")).unwrap(), b"mine");
}

#[test]
fn every_checksum_is_verified_in_both_directions() {
    let (node, client) = (Node::open(), Client::new());
    client.write("s/large", pattern(5 << 20));
    client.write("s/small", b"small");
    client.write("s/empty", b"");
    let holes = fs::File::create(client.path("s/holes")).unwrap();
    holes.set_len(3 << 20).unwrap();
    let lists = ["crc32c", "adler32", "md5", "sha256", "blake3", "crc32c,adler32,md5,sha256,blake3"];
    for (n, list) in lists.into_iter().enumerate() {
        let pushed = client.cp(0, words!["-r", client.path("s"), node.at(&format!("data/{n}")), "--checksum", list]);
        assert_copied(&client.path("s"), &node.data(&n.to_string()));
        let (from, to) = (node.at(&format!("data/{n}")), client.path(&n.to_string()));
        let pulled = client.cp(0, words!["-r", from, to, "--checksum", list]);
        assert_copied(&client.path("s"), &to);
        for receipt in [pushed, pulled] {
            let named: Vec<&str> =
                receipt["digests"].as_array().unwrap().iter().map(|d| d["algorithm"].as_str().unwrap()).collect();
            assert!(list.split(',').all(|name| named.contains(&name)), "{list}: {named:?}");
        }
    }
    client.run(words!["cp", client.path("s/small"), node.at("data/x"), "--checksum", "rot13"]).expect(2);
    let kept = words!["cp", client.path("s/small"), node.at("data/x"), "--checksum", "none"];
    client.run(kept).refused(2, &["none"]);
    client.run(words!["cp", client.path("s/small"), client.path("x"), "--checksum", "none"]).refused(2, &["none"]);
    for words in [
        words![client.path("s/large"), node.at("null:"), "--checksum", "none"],
        words!["zero:5MiB", node.at("null:"), "--checksum", "none"],
        words![node.at("zero:5MiB"), client.path("zeros"), "--checksum", "none"],
    ] {
        let receipt = client.cp(0, words);
        assert_eq!((&receipt["bytes"], receipt["digests"].as_array().unwrap().len()), (&(5 << 20).into(), 0));
    }
    assert!(fs::read(client.path("zeros")).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn the_requested_number_of_streams_is_used() {
    let (node, client) = (Node::open(), Client::new());
    client.write("f", pattern(48 << 20));
    for (count, to) in [("1", "data/one"), ("8", "data/eight")] {
        // All streams are open before the limit is lifted: the job could end before the last one opens.
        let copy = |from: OsString, to: OsString| {
            let limit = words!["--limit", "40Mbit/s", "--sync", "none", "--json"];
            let running = client.begin([words!["cp", from, to, "--streams", count], limit].concat());
            // One more is the control connection.
            let all = count.parse::<usize>().unwrap() + 1;
            until("as many connections are there", LONG, || connections(&node) == all);
            lift_limit(&client);
            running.finish().expect(0).json()
        };
        let receipt = copy(client.path("f").into(), node.at(to).into());
        let streams = data_streams(&receipt);
        assert_eq!(streams.len().to_string(), count);
        let bytes: u64 = streams.iter().map(|stream| stream["bytes"].as_u64().unwrap()).sum();
        assert_eq!(bytes, 48 << 20);
        let back = copy(node.at(to).into(), client.path("back").into());
        assert_eq!(data_streams(&back).len().to_string(), count);
        assert_eq!(fs::read(client.path("back")).unwrap(), pattern(48 << 20));
    }
    client.run(words!["cp", client.path("f"), node.at("data/x"), "--streams", "0"]).expect(2);
    client.run(words!["cp", client.path("f"), node.at("data/x"), "--streams", "1025"]).expect(2);
}

#[test]
fn payload_is_plain_only_where_the_node_allows_it() {
    let client = Client::new();
    client.write("f", pattern(3 << 20));
    for (allowed, expected) in [(true, "plain"), (false, "sealed")] {
        let mut setup = Setup::new().data_export("rw").arg("--anonymous").arg("rw");
        if allowed {
            setup = setup.arg("--plain");
        }
        let node = setup.start();
        let payload = |receipt: &Value| data_streams(receipt)[0]["payload"].as_str().unwrap().to_owned();
        let pushed = client.cp(0, words![client.path("f"), node.at("data/f"), "--plain"]);
        let pulled = client.cp(0, words![node.at("data/f"), client.path(expected), "--plain"]);
        assert_eq!((payload(&pushed).as_str(), payload(&pulled).as_str()), (expected, expected));
        assert_eq!(fs::read(client.path(expected)).unwrap(), pattern(3 << 20));
        // A node that allows it does not force it.
        let sealed = client.cp(0, words![client.path("f"), node.at("data/g")]);
        assert_eq!(payload(&sealed), "sealed");
    }
}

#[test]
fn durable_copies_arrive() {
    let (node, client) = (Node::open(), Client::new());
    client.write("s/a", b"a");
    client.write("s/d/b", pattern(2 << 20));
    client.cp(0, words!["-r", client.path("s"), node.at("data/t"), "--durable"]);
    client.cp(0, words!["-r", node.at("data/t"), client.path("back"), "--durable"]);
    assert_copied(&client.path("s"), &node.data("t"));
    assert_copied(&client.path("s"), &client.path("back"));
}

#[test]
fn pipes_carry_one_file() {
    let (node, client) = (Node::open(), Client::new());
    for size in [0, 10, 5 << 20] {
        let mut command = client.command(words!["cp", "-", node.at("data/piped"), "--json"]);
        command.stdin(Stdio::piped());
        let mut running = client.start(command);
        running.child.stdin.take().unwrap().write_all(&pattern(size)).unwrap();
        let receipt = running.finish().expect(0).json();
        assert_eq!(fs::read(node.data("piped")).unwrap(), pattern(size), "{size}");
        assert_eq!(receipt["files"], 1);
        assert_eq!(receipt["bytes"], size);
        let out = client.run(words!["cp", node.at("data/piped"), "-"]).expect(0);
        assert!(out.out == pattern(size), "{size}: {} bytes were written", out.out.len());
    }
    // Holes come out as zeros.
    fs::File::create(node.data("holes")).unwrap().set_len(3 << 20).unwrap();
    assert!(client.run(words!["cp", node.at("data/holes"), "-"]).expect(0).out == vec![0; 3 << 20]);
    client.run(words!["cp", "-", client.path("x"), node.at("data/")]).expect(2);
    client.run(words!["cp", node.at("data/piped"), node.at("data/holes"), "-"]).expect(2);
}

#[test]
fn zeros_are_a_source_and_null_is_a_target() {
    let (node, client) = (Node::open(), Client::new());
    let file = client.write("f", pattern(2 << 20));
    for (words, bytes) in [
        (words![file, node.at("null:")], 2 << 20),
        (words!["zero:3MiB", node.at("null:")], 3 << 20),
        (words!["zero:3MiB", node.at("data/zeros")], 3 << 20),
        (words![node.at("zero:4MiB"), "null:"], 4 << 20),
        (words![node.at("zero:0"), "null:"], 0),
        (words![node.at("data/zeros"), "null:"], 3 << 20),
    ] {
        let receipt = client.cp(0, words);
        assert_eq!((&receipt["bytes"], &receipt["files"]), (&bytes.into(), &1.into()));
    }
    assert_eq!(fs::read(node.data("zeros")).unwrap(), vec![0; 3 << 20]);
    client.run(words!["cp", "null:", node.at("data/x")]).expect(2);
    client.run(words!["cp", file, node.at("zero:3")]).expect(2);
    client.run(words!["cp", "zero:many", node.at("null:")]).expect(2);
}

#[test]
fn a_limit_is_roughly_kept() {
    let (node, client) = (Node::open(), Client::new());
    client.write("f", pattern(6 << 20));
    std::thread::scope(|scope| {
        for streams in ["1", "4"] {
            let (node, client) = (&node, &client);
            scope.spawn(move || {
                let (up, back) = (node.at(&format!("data/{streams}")), client.path(streams));
                for words in [words![client.path("f"), up], words![up, back]] {
                    let started = Instant::now();
                    let options = words!["--limit", "3MB/s", "--streams", streams];
                    client.cp(0, [words, options].concat());
                    // 6 MiB at 3 MB/s take 2.1 s; the first bursts are not paced.
                    let took = started.elapsed().as_secs_f64();
                    assert!((1.0..20.0).contains(&took), "{took} s over {streams} streams");
                }
            });
        }
    });
    client.run(words!["cp", client.path("f"), node.at("data/x"), "--limit", "200"]).expect(2);
}

#[test]
fn receipts_keep_their_shape() {
    let (node, client) = (Node::open(), Client::new());
    client.write("s/f", pattern(2 << 20));
    let file = client.path("receipt.json");
    let receipt = client.cp(0, words!["-r", client.path("s"), node.at("data/t"), "--receipt", file]);
    let keys = "v event transfer state exit source target bytes files directories links skipped skipped_bytes special failed \
                failures resent_bytes seconds rate_bit_s phases digests streams limited_by versions";
    for key in keys.split_whitespace() {
        assert!(receipt.get(key).is_some(), "{key} is missing in {receipt}");
    }
    assert_eq!((&receipt["v"], &receipt["event"], &receipt["state"]), (&1.into(), &"receipt".into(), &"done".into()));
    assert_eq!((&receipt["bytes"], &receipt["files"], &receipt["exit"]), (&(2 << 20).into(), &1.into(), &0.into()));
    assert_eq!(receipt["target"], node.at("data/t"));
    assert_eq!(receipt["source"][0], client.path("s").display().to_string());
    assert!(receipt["limited_by"]["part"].is_string() && receipt["limited_by"]["evidence"].is_string());
    assert!(receipt["versions"]["node"].as_str().unwrap().starts_with("longhaul/"), "{}", receipt["versions"]);
    assert!(receipt["seconds"].as_f64().unwrap() > 0.0 && receipt["phases"]["connect"].as_f64().unwrap() > 0.0);
    assert!(data_streams(&receipt).iter().all(|stream| stream["mss_bytes"].as_u64().unwrap() > 0));
    let written: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(written, receipt);
    let outcome = client.run(words!["cp", "-r", client.path("s"), node.at("data/t"), "--json"]);
    for line in outcome.text().lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        assert!(object["v"] == 1 && object["event"].is_string(), "{line}");
    }
}

#[test]
fn quiet_prints_nothing_unless_it_fails() {
    let (node, client) = (Node::open(), Client::new());
    client.write("f", b"x");
    client.run(words!["cp", client.path("f"), node.at("data/first")]).expect(0);
    for words in [
        words!["cp", client.path("f"), node.at("data/f"), "-q"],
        words!["cp", node.at("data/f"), client.path("g"), "--quiet"],
        words!["cp", client.path("f"), client.path("h"), "--quiet"],
    ] {
        let outcome = client.run(words).expect(0);
        assert_eq!((outcome.text(), outcome.err.as_str()), (String::new(), ""));
    }
    client.run(words!["cp", client.path("none"), node.at("data/f"), "-q"]).refused(1, &["none"]);
}

#[test]
fn read_only_directories_are_filled_and_closed_again() {
    let (node, client) = (Node::open(), Client::new());
    client.write("s/d/f", b"1");
    set_mode(&client.path("s/d"), 0o555);
    client.cp(0, words!["-r", client.path("s"), node.at("data/t")]);
    assert_eq!(fs::metadata(node.data("t/d")).unwrap().mode() & 0o7777, 0o555);
    set_mode(&client.path("s/d"), 0o755);
    client.write("s/d/g", b"2");
    set_mode(&client.path("s/d"), 0o555);
    client.cp(0, words!["-r", client.path("s"), node.at("data/t")]);
    assert_copied(&client.path("s"), &node.data("t"));
}

#[test]
fn the_congestion_control_in_force_is_named() {
    let (node, client) = (Node::open(), Client::new());
    client.write("f", pattern(2 << 20));
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    for name in ["no-such-control", "reno"] {
        let receipt = client.cp(0, words![client.path("f"), node.at(&format!("data/{name}")), "--congestion", name]);
        let used = data_streams(&receipt)[0]["congestion"].as_str().unwrap().to_owned();
        assert!(available.split_whitespace().any(|known| known == used), "{used} is none of {available}");
        if available.split_whitespace().any(|known| known == name) {
            assert_eq!(used, name);
        }
    }
}

#[test]
fn the_receipt_of_one_file_has_its_digests() {
    let (node, client) = (Node::open(), Client::new());
    let all = "crc32c,adler32,md5,sha256,blake3";
    // Inline, one block, and several blocks: each completes its digest in another way.
    for (name, len) in [("tiny", 10), ("block", 300_000), ("blocks", 3_500_000)] {
        let file = client.write(name, pattern(len));
        for list in ["crc32c", all] {
            let output = client.run(words!["digest", "--checksum", list, file]).expect(0).text();
            let onto = node.at(&format!("data/{name}-{}", list.len()));
            let pushed = client.cp(0, words!["--checksum", list, file, onto]);
            let pulled = client.cp(0, words!["--checksum", list, onto, client.path(&format!("{name}-{}", list.len()))]);
            for line in output.lines() {
                let (algorithm, value) = line.split_once(' ').unwrap().0.split_once(':').unwrap();
                for receipt in [&pushed, &pulled] {
                    let digests = receipt["digests"].as_array().unwrap();
                    let there = digests.iter().find(|digest| digest["algorithm"] == algorithm).unwrap();
                    assert_eq!(there["value"], value, "{name} {algorithm}");
                }
            }
        }
    }
    // For several files no single digest is reported.
    let several = client.cp(0, words![client.path("tiny"), client.path("block"), node.at("data/d/")]);
    assert!(several["digests"][0].get("value").is_none());
}
