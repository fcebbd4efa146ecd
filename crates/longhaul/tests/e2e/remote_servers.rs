//! Copies from and to remote servers. A Longhaul node plays the WebDAV server: over HTTP it is one like any other.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::Value;

use crate::client::{Client, unfinished, words};
use crate::https;
use crate::node::{Node, Setup, signal};
use crate::s3::{KEY, S3Server};
use crate::tree::set_time;
use crate::wait::{LONG, until};
use crate::web::peers::{self, Peer};
use crate::web::raw::{ask, get};

/// A node that anonymous clients may read and write, over HTTP in clear.
fn server() -> Node {
    Setup::new().data_export("rw").arg("--anonymous").arg("rw").arg("--plain").anonymous_may_copy().start()
}

fn url(node: &Node, below: &str) -> String {
    format!("http://127.0.0.1:{}/data/{below}", node.port)
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ (at >> 16) as u8).collect()
}

/// Writes files as servers have them: no links, no modes; empty directories, odd names, empty and large files.
fn tree(client: &Client, at: &str) {
    for (name, len) in [("empty", 0), ("small", 5), ("sub/deep/large", (20 << 20) + 3), ("sub/ä b%41+&", 70_000)] {
        client.write(&format!("{at}/{name}"), content(len));
    }
    (0..40).for_each(|n| drop(client.write(&format!("{at}/many/f{n:02}"), content(n * 100))));
    fs::create_dir(client.path(&format!("{at}/nothing"))).unwrap();
}

/// Paths and content of all files below a directory.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
        } else {
            found.push((name, fs::read(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}

#[track_caller]
fn assert_same(one: &Path, other: &Path) {
    let (one, other) = (files(one), files(other));
    assert_eq!(one.iter().map(|f| &f.0).collect::<Vec<_>>(), other.iter().map(|f| &f.0).collect::<Vec<_>>());
    assert!(one == other, "the same names, and other bytes");
}

fn counts(receipt: &Value) -> (u64, u64, u64) {
    let count = |key: &str| receipt[key].as_u64().unwrap();
    (count("files"), count("skipped"), count("failed"))
}

#[test]
fn a_tree_goes_to_a_webdav_server_and_comes_back() {
    let (node, client) = (server(), Client::new());
    tree(&client, "t");
    let there = url(&node, "copy");
    assert_eq!(counts(&client.cp(0, words!["-r", "t", there])), (44, 0, 0));
    assert_same(&client.path("t"), &node.data("copy"));
    assert!(node.data("copy/nothing").is_dir());
    assert!(unfinished(&node.data("")).is_empty());
    assert_eq!(counts(&client.cp(0, words!["-r", "t", there])), (0, 44, 0), "what is there is not sent again");
    assert_eq!(counts(&client.cp(0, words!["-r", there, "back"])), (44, 0, 0));
    assert_same(&client.path("t"), &client.path("back"));
    assert!(client.path("back/nothing").is_dir());
    assert_eq!(counts(&client.cp(0, words!["-r", there, "back"])), (0, 44, 0));
    // A changed file is copied again, a missing one is removed on request.
    client.write("t/small", b"later");
    set_time(&client.path("t/small"), 4_000_000_000, 0);
    fs::remove_file(client.path("t/many/f07")).unwrap();
    let receipt = client.cp(0, words!["-r", "--delete", "t", there]);
    assert_eq!((counts(&receipt), receipt["deleted"].as_u64()), ((1, 42, 0), Some(1)));
    assert_same(&client.path("t"), &node.data("copy"));
}

#[test]
fn a_tree_goes_to_a_bucket_and_comes_back() {
    let (server, client) = (S3Server::new(), Client::new());
    tree(&client, "t");
    let cp = |code: i32, words: Vec<std::ffi::OsString>| {
        let mut command = client.command([words!["cp", "--json"], words].concat());
        with_s3(&mut command, &server);
        client.start(command).finish().expect(code)
    };
    assert_eq!(counts(&cp(0, words!["-r", "t", "s3://bucket/a/copy"]).json()), (44, 0, 0));
    assert_eq!(counts(&cp(0, words!["-r", "t", "s3://bucket/a/copy"]).json()), (0, 44, 0));
    assert_eq!(counts(&cp(0, words!["-r", "s3://bucket/a/copy", "back"]).json()), (44, 0, 0));
    assert_same(&client.path("t"), &client.path("back"));
    let mut wrong = client.command(words!["ls", "s3://bucket/"]);
    with_s3(&mut wrong, &server);
    wrong.env("AWS_SECRET_ACCESS_KEY", "not it");
    client.start(wrong).finish().refused(4, &["403", "ignature"]);
    let mut mkdir = client.command(words!["mkdir", "s3://bucket/a/new"]);
    with_s3(&mut mkdir, &server);
    client.start(mkdir).finish().refused(2, &["a bucket has no directories"]);
    let mut list = client.command(words!["ls", "s3://bucket/a/copy"]);
    with_s3(&mut list, &server);
    let listed = client.start(list).finish().expect(0).text();
    let mut names: Vec<_> = listed.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["empty", "many/", "small", "sub/"]);
}

fn with_s3(command: &mut std::process::Command, server: &S3Server) {
    command
        .env("AWS_ACCESS_KEY_ID", KEY.0)
        .env("AWS_SECRET_ACCESS_KEY", KEY.1)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT_URL_S3", format!("http://{}", server.address));
}

#[test]
fn a_remote_server_answers_queries_and_takes_changes() {
    let (node, client) = (server(), Client::new());
    fs::write(node.data("f"), b"hello").unwrap();
    fs::create_dir(node.data("d")).unwrap();
    fs::write(node.data("d/g"), b"x").unwrap();
    let ask = |words| client.run(words).expect(0).text();
    let lines = |words| {
        let mut lines: Vec<String> = ask(words).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(words!["ls", url(&node, "")]), ["d/", "f"]);
    assert!(ask(words!["stat", url(&node, "f")]).contains("size   5 bytes"));
    assert!(ask(words!["digest", "--checksum", "adler32", url(&node, "f")]).starts_with("adler32:062c0215  http://"));
    ask(words!["mkdir", url(&node, "new/dir")]);
    assert!(node.data("new/dir").is_dir());
    ask(words!["mv", url(&node, "f"), url(&node, "new/dir")]);
    assert_eq!(fs::read(node.data("new/dir/f")).unwrap(), b"hello");
    client.run(words!["rm", url(&node, "d")]).expect(6);
    ask(words!["rm", "-r", url(&node, "d")]);
    assert!(!node.data("d").exists());
    client.run(words!["stat", url(&node, "d")]).refused(1, &["cannot examine", "404"]);
    client.run(words!["mv", url(&node, "new"), "s3://b/c"]).refused(2, &["one node or server"]);
}

#[test]
fn an_xrootd_server_is_served_as_an_export() {
    let (far, client) = (server(), Client::new());
    tree(&client, "t");
    let export = format!("far=root://127.0.0.1:{}//data/:rw", far.port);
    let near = Setup::new().arg("--export").arg(export).arg("--anonymous").arg("rw").arg("--plain").start();
    assert_eq!(counts(&client.cp(0, words!["-r", "t", near.at("far/copy")])), (44, 0, 0));
    assert_same(&client.path("t"), &far.data("copy"));
    assert_eq!(counts(&client.cp(0, words!["-r", near.at("far/copy"), "back"])), (44, 0, 0));
    assert_same(&client.path("t"), &client.path("back"));
    ask(&near, "PUT", "/far/put", &[], b"by http").expect(201);
    assert_eq!(fs::read(far.data("put")).unwrap(), b"by http");
    ask(&near, "MOVE", "/far/put", &[("Destination", "/far/moved")], b"").expect(201);
    ask(&near, "DELETE", "/far/moved", &[], b"").expect(204);
    assert!(!far.data("moved").exists());
}

#[test]
fn a_remote_server_is_served_as_an_export() {
    let (far, client) = (server(), Client::new());
    tree(&client, "t");
    let near = Setup::new()
        .arg("--export")
        .arg(format!("far={}:rw", url(&far, "")))
        .arg("--anonymous")
        .arg("rw")
        .arg("--plain")
        .start();
    assert_eq!(counts(&client.cp(0, words!["-r", "t", near.at("far/copy")])), (44, 0, 0));
    assert_same(&client.path("t"), &far.data("copy"));
    assert_eq!(counts(&client.cp(0, words!["-r", near.at("far/copy"), "back"])), (44, 0, 0));
    assert_same(&client.path("t"), &client.path("back"));
    let listed = client.run(words!["ls", near.at("far/copy")]).expect(0).text();
    assert!(listed.contains("many/") && listed.contains("small"), "{listed}");
    // By HTTP as well.
    let put = ask(&near, "PUT", "/far/put", &[], b"by http").expect(201);
    assert!(put.field("etag").is_some());
    assert_eq!(fs::read(far.data("put")).unwrap(), b"by http");
    assert_eq!(get(&near, "/far/put").expect(200).body, b"by http");
    ask(&near, "MKCOL", "/far/new", &[], b"").expect(201);
    ask(&near, "MOVE", "/far/put", &[("Destination", "/far/new/moved")], b"").expect(201);
    ask(&near, "COPY", "/far/new/moved", &[("Destination", "/far/new/again")], b"").expect(201);
    ask(&near, "DELETE", "/far/new/moved", &[], b"").expect(204);
    assert_eq!(files(&far.data("new")), [("again".to_owned(), b"by http".to_vec())]);
    // A disk test requires a disk.
    client.run(words!["probe", "disk", near.at("far")]).expect(2);
    // A key for a part of it opens that part alone.
    let key = near.grant(&["--export", "far", "--path", "copy/sub", "--write"]);
    let holder = Client::with_key(&key);
    holder.cp(0, words![near.at("far/copy/sub/deep/large"), "large"]);
    assert_eq!(holder.cp(4, words![near.at("far/copy/small"), "small"])["state"], "failed");
    // A missing target of an export is detected when the node starts.
    let mut missing = client.command(words!["serve", "--listen", "127.0.0.1:0", "--export"]);
    missing.arg(format!("x={}", url(&far, "no/such")));
    client.start(missing).finish().refused(1, &["cannot serve", "no/such"]);
}

#[test]
fn two_servers_copy_between_themselves() {
    let (from, to, client) = (server(), server(), Client::new());
    tree(&client, "t");
    client.cp(0, words!["-r", "t", url(&from, "t")]);
    let receipt = client.cp(0, words!["-r", url(&from, "t"), url(&to, "copy")]);
    assert_eq!(counts(&receipt), (44, 0, 0));
    assert!(receipt["limited_by"]["evidence"].as_str().unwrap().contains("between themselves"), "{receipt}");
    assert_same(&from.data("t"), &to.data("copy"));
    assert_eq!(counts(&client.cp(0, words!["-r", url(&from, "t"), url(&to, "copy")])), (0, 44, 0));
    // Options that only this program has make the copy go through the client.
    let receipt = client.cp(0, words!["-r", "--exclude", "many/", url(&from, "t"), url(&to, "less")]);
    assert_eq!(counts(&receipt), (4, 0, 0));
    assert!(!to.data("less/many").exists());
    // A server that does not copy: reported, and copied through the client.
    let closed = Setup::new().data_export("rw").arg("--plain").arg("--anonymous").arg("ro").start();
    fs::write(closed.data("f"), b"from").unwrap();
    client.cp(0, words![url(&closed, "f"), url(&to, "f")]);
    assert_eq!(fs::read(to.data("f")).unwrap(), b"from");
    client.cp(4, words![url(&to, "f"), url(&closed, "g")]);
}

#[test]
fn a_file_of_a_server_is_copied_to_standard_output_and_from_standard_input() {
    let (node, client) = (server(), Client::new());
    let bytes = content(9 << 20);
    fs::write(node.data("f"), &bytes).unwrap();
    assert!(client.run(words!["cp", url(&node, "f"), "-", "--quiet"]).expect(0).out == bytes);
    let mut command = client.command(words!["cp", "-", url(&node, "piped"), "--quiet"]);
    command.stdin(fs::File::open(client.write("in", &bytes)).unwrap());
    client.start(command).finish().expect(0);
    assert!(fs::read(node.data("piped")).unwrap() == bytes);
}

#[test]
fn an_impossible_copy_is_refused_in_one_sentence() {
    let (node, client) = (server(), Client::new());
    fs::write(node.data("f"), b"x").unwrap();
    let cp = |from: &str, to: &str| client.run(words!["cp", "--quiet", from, to]);
    cp("gsiftp://h//f", "f").refused(2, &["gsiftp://", "this version"]);
    cp("https://user:secret@h/f", "f").refused(2, &["BEARER_TOKEN"]);
    cp("s3:///f", "f").refused(2, &["names no bucket"]);
    cp(&url(&node, "missing"), "f").refused(1, &["cannot examine", "missing"]);
    cp("http://127.0.0.1:1/f", "f").refused(5, &["127.0.0.1:1"]);
    cp(&format!("https://127.0.0.1:{}/data/f", node.port), "f").refused(4, &["no TLS", "certificate"]);
    client.write("g", b"y");
    cp("g", "http://127.0.0.1:1/f").refused(5, &["127.0.0.1:1"]);
    // A read-only server is named in the refusal.
    let closed = Setup::new().data_export("ro").arg("--plain").arg("--anonymous").arg("rw").start();
    cp("g", &url(&closed, "g")).refused(4, &["403", "read-only"]);
    assert!(!client.path("f").exists());
}

#[test]
fn symbolic_links_fail_by_name_and_hard_links_become_copies() {
    let (node, client) = (server(), Client::new());
    client.write("t/f", b"bytes");
    fs::hard_link(client.path("t/f"), client.path("t/g")).unwrap();
    std::os::unix::fs::symlink("f", client.path("t/l")).unwrap();
    let receipt = client.cp(3, words!["-r", "t", url(&node, "t")]);
    let failures = receipt["failures"].as_array().unwrap();
    assert_eq!((failures.len(), failures[0]["path"].as_str()), (1, Some("t/l")));
    assert_eq!(
        (fs::read(node.data("t/f")).unwrap(), fs::read(node.data("t/g")).unwrap()),
        (b"bytes".into(), b"bytes".into())
    );
}

#[test]
fn many_streams_write_to_a_server_that_takes_files_in_order() {
    let (node, client) = (server(), Client::new());
    (0..3).for_each(|n| drop(client.write(&format!("t/f{n}"), content((30 << 20) + n))));
    client.cp(0, words!["-r", "--streams", "8", "--checksum", "crc32c,md5", "t", url(&node, "t")]);
    assert_same(&client.path("t"), &node.data("t"));
}

#[test]
fn an_interrupted_copy_leaves_nothing_and_is_resumed() {
    let (node, client) = (server(), Client::new());
    client.write("t/a", content(1000));
    client.write("t/large", content(40 << 20));
    let running = client.begin(words!["cp", "-r", "--limit", "20MB/s", "t", url(&node, "t")]);
    until("the small file is there", LONG, || node.data("t/a").exists());
    signal(&running.child, Signal::INT);
    running.finish().expect(130);
    assert!(!node.data("t/large").exists(), "no part of a file has its name");
    until("what was sent of it is removed", LONG, || fs::read_dir(node.data("t")).unwrap().count() == 1);
    assert_eq!(counts(&client.cp(0, words!["-r", "t", url(&node, "t")])), (1, 1, 0));
    assert_same(&client.path("t"), &node.data("t"));
}

#[test]
fn credentials_are_found_in_the_documented_order() {
    let node = https::setup("").start();
    let (client, ca) = (Client::new(), node.data("../ca.pem"));
    let key = node.grant(&["--export", "data", "--write"]);
    client.write("f", b"mine");
    let target = format!("https://127.0.0.1:{}/data/f", node.port);
    let cp = |set: &dyn Fn(&mut std::process::Command)| {
        let mut command = client.command(words!["cp", "--quiet", "--sync", "none", "--cacert", ca, "f", target]);
        command.env_remove("BEARER_TOKEN").env_remove("BEARER_TOKEN_FILE").env("XDG_RUNTIME_DIR", client.path("run"));
        set(&mut command);
        client.start(command).finish()
    };
    cp(&|_| {}).refused(4, &["401", "BEARER_TOKEN"]);
    cp(&|command| {
        command.env("BEARER_TOKEN", &key);
    })
    .expect(0);
    assert_eq!(fs::read(node.data("f")).unwrap(), b"mine");
    let file = client.write("token", format!("{key}\n"));
    cp(&|command| {
        command.env("BEARER_TOKEN_FILE", &file);
    })
    .expect(0);
    let uid = rustix::process::geteuid().as_raw();
    let kept = client.write(&format!("run/bt_u{uid}"), format!(" {key} \n"));
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o600)).unwrap();
    cp(&|_| {}).expect(0);
    // The first that is there decides, right or wrong.
    cp(&|command| {
        command.env("BEARER_TOKEN", "no token at all");
    })
    .refused(2, &["BEARER_TOKEN", "no token"]);
    let empty = client.write("empty", "");
    cp(&|command| {
        command.env("BEARER_TOKEN_FILE", &empty);
    })
    .refused(2, &["BEARER_TOKEN_FILE"]);
}

#[test]
fn one_failed_file_does_not_stop_the_others() {
    let (from, to, client) = (server(), server(), Client::new());
    tree(&client, "t");
    client.cp(0, words!["-r", "t", url(&from, "t")]);
    fs::create_dir_all(to.data("copy/small/in the way")).unwrap();
    fs::write(to.data("copy/nothing"), b"a file where a directory should be").unwrap();
    let receipt = client.cp(3, words!["-r", url(&from, "t"), url(&to, "copy")]);
    assert_eq!(counts(&receipt), (43, 0, 2), "{receipt}");
    assert!(receipt["limited_by"]["evidence"].as_str().unwrap().contains("between themselves"), "{receipt}");
    let mut missed: Vec<_> = receipt["failures"].as_array().unwrap().iter().map(|miss| miss["path"].clone()).collect();
    missed.sort_by_key(ToString::to_string);
    assert_eq!(missed, ["data/t/nothing", "data/t/small"]);
    assert!(to.data("copy/small/in the way").is_dir() && to.data("copy/sub/deep/large").is_file());
}

/// Answers as a WebDAV server of one file: with its size, or with 404 while it is missing.
fn answer_for_one_file(request: &peers::PeerRequest, socket: &mut std::net::TcpStream, size: Option<usize>) -> bool {
    peers::take(socket, request);
    let Some(size) = size else { return peers::answer(socket, 404, "", b"") };
    let body = format!(
        "<?xml version='1.0'?><d:multistatus xmlns:d='DAV:'><d:response><d:href>{}</d:href><d:propstat><d:prop><d:resourcetype/>\
         <d:getcontentlength>{size}</d:getcontentlength></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>\
         </d:multistatus>",
        request.target
    );
    match request.method.as_str() {
        "PROPFIND" => peers::answer(socket, 207, "Content-Type: application/xml\r\n", body.as_bytes()),
        "HEAD" => peers::begin(socket, 200, size, ""),
        _ => peers::answer(socket, 405, "", b""),
    }
}

#[test]
fn a_copy_between_servers_is_tried_again() {
    let (from, client) = (server(), Client::new());
    fs::write(from.data("f"), content(1000)).unwrap();
    let copies = AtomicUsize::new(0);
    let to = Peer::new(move |request, socket| match request.method.as_str() {
        // The first answer ends before it states the result of the copy.
        "COPY" => match copies.fetch_add(1, Ordering::SeqCst) {
            0 => peers::answer(socket, 202, "", b""),
            _ => peers::answer(socket, 201, "", b""),
        },
        _ => answer_for_one_file(request, socket, (copies.load(Ordering::SeqCst) > 1).then_some(1000)),
    });
    let done = client.run(words!["cp", "--json", url(&from, "f"), to.url("/f")]).expect(0);
    assert_eq!(counts(&done.json()), (1, 0, 0));
    assert!(done.err.contains("trying again in 1 s"), "{}", done.err);
    assert_eq!(to.requests_of("COPY").len(), 2);
    // Without retries the failure is reported at once.
    let never = Peer::new(|request, socket| match request.method.as_str() {
        "COPY" => peers::answer(socket, 202, "", b""),
        _ => answer_for_one_file(request, socket, None),
    });
    let done = client.run(words!["cp", "--retry-for", "0s", url(&from, "f"), never.url("/f")]).expect(5);
    assert!(!done.err.contains("trying again"), "{}", done.err);
    assert_eq!(never.requests_of("COPY").len(), 1);
}

#[test]
fn a_redirect_of_an_exports_server_to_an_internal_address_is_refused() {
    let redirecting = Peer::new(|request, socket| {
        peers::take(socket, request);
        let root = "<?xml version='1.0'?><d:multistatus xmlns:d='DAV:'><d:response><d:href>/</d:href><d:propstat><d:prop>\
                    <d:resourcetype><d:collection/></d:resourcetype></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat>\
                    </d:response></d:multistatus>";
        match request.target.as_str() {
            "/" => peers::answer(socket, 207, "", root.as_bytes()),
            _ => peers::answer(socket, 307, "Location: http://169.254.169.254/latest/meta-data\r\n", b""),
        }
    });
    let export = format!("x={}:rw", redirecting.url("/"));
    let near = Setup::new().arg("--export").arg(export).arg("--anonymous").arg("rw").arg("--plain").start();
    let client = Client::new();
    client.run(words!["stat", near.at("x/f")]).refused(4, &["redirects to 169.254.169.254"]);
    client.write("f", b"bytes");
    assert_eq!(client.cp(4, words!["f", near.at("x/f")])["state"], "failed");
    ask(&near, "GET", "/x/d/f", &[], b"").expect(502);
}

/// A server of HTTP alone, with one directory of one file, as Python's `http.server` and Apache show them.
fn pages() -> Peer {
    Peer::new(|request, socket| {
        let page = b"<!DOCTYPE HTML>\n<html><head><title>Directory listing for /d/</title></head></html>";
        match (request.method.as_str(), request.target.as_str()) {
            ("PROPFIND", _) => {
                peers::take(socket, request);
                peers::answer(socket, 501, "", b"")
            }
            (_, "/d") => peers::answer(socket, 301, "Location: /d/\r\n", b""),
            (_, "/d/" | "/") => peers::honest(request, socket, page, "Content-Type: text/html; charset=utf-8\r\n"),
            (_, "/d/f") => peers::honest(request, socket, b"hello", ""),
            _ => peers::answer(socket, 404, "", b""),
        }
    })
}

#[test]
fn a_page_that_is_a_listing_is_never_data() {
    let (server, node, client) = (pages(), server(), Client::new());
    let to = [client.path("w/d").into_os_string(), url(&node, "d").into(), node.at("data/d").into()];
    let words = ["lists no directories"];
    for from in ["/d", "/d/", "/"].map(|at| server.url(at)) {
        for to in &to {
            client.run(words!["cp", "-r", "--quiet", from, to]).refused(2, &words);
            client.run(words!["cp", "--quiet", from, to]).refused(2, &words);
        }
        client.run(words!["cp", "--quiet", from, "-"]).refused(2, &words);
        client.run(words!["ls", from]).refused(2, &words);
        client.run(words!["digest", from]).refused(2, &words);
    }
    assert!(!client.path("w").exists() && !node.data("d").exists());
    // It cannot be decided whether it is one file or a page that looks like one.
    client.run(words!["cp", "-r", "--quiet", server.url("/d/f"), "f"]).refused(2, &words);
    // As one of several sources, and as an export.
    let f = client.write("f", b"hello");
    let receipt = client.cp(0, words![f, "g", "--mirror", server.url("/d")]);
    assert_eq!(receipt["bytes"], 5, "{receipt}");
    let export = format!("x={}", server.url("/d/f").trim_end_matches("/d/f"));
    let near = Setup::new().arg("--export").arg(export).arg("--anonymous").arg("ro").start();
    client.run(words!["cp", "-r", "--quiet", near.at("x/d"), "w"]).refused(2, &words);
    client.cp(0, words![near.at("x/d/f"), "w"]);
    assert_eq!(fs::read(client.path("w")).unwrap(), b"hello");
}

#[test]
fn a_bucket_is_emptied_and_has_directories() {
    let (server, client) = (S3Server::new(), Client::new());
    let run = |words: Vec<std::ffi::OsString>| {
        let mut command = client.command(words);
        with_s3(&mut command, &server);
        client.start(command).finish()
    };
    for name in ["t/a", "t/sub/b", "t/tub/c"] {
        client.write(name, b"x");
    }
    run(words!["cp", "-r", "t", "s3://bucket/t"]).expect(0);
    run(words!["rm", "-r", "s3://bucket/t"]).expect(0);
    run(words!["stat", "s3://bucket/t"]).refused(1, &["cannot examine t", "404"]);
    run(words!["rm", "-r", "s3://bucket/t"]).refused(1, &["404"]);
    // An extra directory of the target is removed as a whole.
    run(words!["cp", "-r", "t", "s3://bucket/t"]).expect(0);
    fs::remove_dir_all(client.path("t/sub")).unwrap();
    let receipt = run(words!["cp", "-r", "--delete", "--json", "t", "s3://bucket/t"]).expect(0).json();
    assert_eq!((receipt["failed"].as_u64(), receipt["state"].as_str()), (Some(0), Some("done")), "{receipt}");
}
