//! Credentials of other kinds, and links that change during a check: one-file macaroons and the keys delegated for them, keys for
//! one job, and a concurrent writer that swaps links in as fast as it can.

use model::Refusal;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use model::id::Uuid;
use serde_json::Value;
use wire::Frame;
use wire::frame::{Direction, Request};

use super::links::{CANARY, CredentialFixture, setup};
use super::measures::holds;
use super::requests::Requests;
use super::session::{Session, link, order_at, place, proof};
use crate::node::Node;
use crate::raw_client::{RawClient, dir, file};
use crate::web::raw::ask;

const SESSION: &str = "application/vnd.longhaul.session+json";

/// A macaroon for one file.
fn macaroon(node: &Node, key: &str, target: &str, activities: &str) -> String {
    let bearer = format!("Bearer {key}");
    let fields = [("Content-Type", "application/macaroon-request"), ("Authorization", bearer.as_str())];
    let body = format!("{{\"caveats\":[\"activity:{activities}\"],\"validity\":\"PT10M\"}}");
    let made = ask(node, "POST", target, &fields, body.as_bytes()).expect(200);
    serde_json::from_slice::<Value>(&made.body).unwrap()["macaroon"].as_str().unwrap().to_owned()
}

/// The native key that is delegated for a file, and its job.
fn delegated_key(node: &Node, bearer: &str, target: &str, write: bool) -> Option<(String, [u8; 16])> {
    let job = Uuid::now_v7();
    let body = format!("{{\"v\":1,\"write\":{write},\"job\":\"{job}\"}}");
    let answer = Requests::new(node, Some(bearer)).ask("POST", target, &[("Content-Type", SESSION)], body.as_bytes());
    let issued: Value = serde_json::from_slice(&answer.body).ok().filter(|_| answer.status == 200)?;
    Some((issued["key"].as_str()?.to_owned(), *job.as_bytes()))
}

/// Runs a job that is cut off when it has put a link at its path, and runs it again with a tree for the same path.
fn return_with_tree(node: &Node, key: &str, job: [u8; 16], path: &str, target: &str) -> Result<(), Refusal> {
    let order = || wire::frame::Open { job, ..order_at(Direction::Push, place("data", path)) };
    let mut first = RawClient::with_key(node, Some(&proof(key))).unwrap();
    first.send(&Frame::Open(order()));
    first.send(&Frame::Entries(vec![link(1, 0, "t", target)]));
    // Until it has reported the outcome of the link.
    while first.receive().is_ok_and(|frame| !matches!(frame, Frame::Outcomes(_) | Frame::Finished(_))) {}
    drop(first);
    let tree = vec![dir(1, 0, "t"), file(2, 1, "evil", 4), wire::frame::Entry::Leave(1)];
    Session::open(node, Some(key)).and_then(|mut session| session.push(order(), tree, &[(2, b"evil")]))
}

#[track_caller]
fn assert_no_evil(node: &Node, what: &str) {
    let evil = ["evil", "b/evil", "../outside/evil", "a/evil", "../evil"].map(|path| node.data(path).exists());
    assert_eq!(evil, [false; 5], "{what}");
}

#[test]
fn a_macaroon_for_a_file_and_its_delegated_keys_open_only_that_file() {
    for (there, target) in [(true, ".."), (false, ".."), (true, "../b"), (false, "."), (true, "../../outside")] {
        let what = format!("a link to {target:?}, a file there before: {there}");
        let node = Arc::new(setup("[macaroons]\n").start());
        if there {
            fs::write(node.data("a/f"), b"mine").unwrap();
        }
        let own = node.grant(&["--export", "data", "--write"]);
        let bearer = macaroon(&node, &own, "/data/a/f", "DOWNLOAD,UPLOAD,LIST,DELETE,MANAGE");
        let (read_key, _) = delegated_key(&node, &bearer, "/data/a/f", false).expect(&what);
        let (key, job) = delegated_key(&node, &bearer, "/data/a/f", true).expect(&what);
        let path = "a/f";
        let fixture =
            CredentialFixture { what: "", node: Arc::clone(&node), path, native: None, bearer: None, job: Some(job) };
        let fixture = CredentialFixture { native: Some(key.clone()), bearer: Some(bearer), ..fixture };
        let before = fixture.others();
        let again = return_with_tree(&node, &key, job, path, target);
        assert_no_evil(&node, &format!("{what}: {again:?}"));
        assert!(!holds(&fixture.try_everything(), CANARY), "{what}: another user's file was read");
        // Now another user puts the link there: the delegated read key reads nothing else.
        let _ = fs::remove_file(node.data(path));
        let _ = symlink(target, node.data(path));
        for below in ["a/f/canary", "a/f/b/canary", "a/f"] {
            let got = Session::open(&node, Some(&read_key)).and_then(|mut session| session.get(place("data", below)));
            assert!(!got.is_ok_and(|bytes| holds(&bytes, CANARY)), "{what}: {below} was read with a delegated key");
        }
        assert!(fixture.others() == before, "{what}: something else was changed");
    }
}

#[test]
fn a_returning_key_for_one_job_stays_in_its_path() {
    for (own, targets) in [(&["--write"][..], ["..", ".", "../b"]), (&["--write", "--path", "a"], [".", "..", "../.."])]
    {
        let node = setup("").start();
        let own = node.grant(&[&["--export", "data"], own].concat());
        for target in targets {
            let _ = fs::remove_file(node.data("a/t")).or_else(|_| fs::remove_dir_all(node.data("a/t")));
            let job = *model::id::JobId::random().0.as_bytes();
            let request = Request::KeyFor { job, place: place("data", "a/t"), delete: false };
            let key = Session::open(&node, Some(&own)).unwrap().ask_text(request).unwrap();
            let again = return_with_tree(&node, &key, job, "a/t", target);
            assert_no_evil(&node, &format!("a link to {target:?}: {again:?}"));
        }
    }
}

/// Swaps the entry at a path between the one that this function makes and a link, until it is stopped.
fn swap(node: &Node, path: &str, target: &str, stop: &AtomicBool, swaps: &AtomicUsize) {
    let (at, aside) = (node.data(path), node.data(&format!("{path}.aside")));
    while !stop.load(Ordering::Relaxed) {
        let _ = fs::rename(&at, &aside);
        let _ = symlink(target, &at);
        let _ = fs::remove_file(&at);
        let _ = fs::rename(&aside, &at);
        swaps.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn swapped_links_lead_no_request_out() {
    type Case = (&'static str, fn(std::path::PathBuf), &'static str);
    let cases: [Case; 2] = [
        ("a/f", |path| fs::write(path, b"mine").unwrap(), "../canary"),
        ("a/d", |path| fs::create_dir(path).unwrap(), "../b"),
    ];
    for (path, there, target) in cases {
        let fixture = CredentialFixture::of_key("a path whose link is made and removed", path, there);
        let canaries = ["canary", "b/canary", "a/canary", "../outside/canary"];
        let (stop, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
        let answers = std::thread::scope(|scope| {
            scope.spawn(|| swap(&fixture.node, path, target, &stop, &swaps));
            let mut answers = Vec::new();
            let deadline = Instant::now() + Duration::from_secs(60);
            for _ in 0..6 {
                assert!(Instant::now() < deadline);
                answers.extend(fixture.try_everything());
            }
            stop.store(true, Ordering::Relaxed);
            answers
        });
        assert!(swaps.load(Ordering::Relaxed) > 100, "the links were hardly swapped");
        assert!(!holds(&answers, CANARY), "{path}: another user's file was read");
        for canary in canaries {
            assert!(
                fs::read(fixture.node.data(canary)).is_ok_and(|bytes| bytes == CANARY),
                "{path}: {canary} was changed"
            );
        }
        let names: Vec<_> = fs::read_dir(fixture.node.data("b")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["canary"], "{path}: something was made outside");
    }
}
