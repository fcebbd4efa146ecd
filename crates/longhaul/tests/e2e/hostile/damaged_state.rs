//! Damaged files of the state directory: the node starts or reports why not, it never panics, and no revoked key opens anything
//! again.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::session::grant_id;
use crate::client::{Client, words};
use crate::node::{LONGHAUL, Node, Setup, listening};

/// A kind of damage: its name, and the function that changes the bytes.
type Damage = (&'static str, fn(&[u8]) -> Option<Vec<u8>>);

/// Nodes that run at the same time.
const WORKERS: usize = 4;

const DAMAGES: &[Damage] = &[
    ("cut in half", |bytes| Some(bytes[..bytes.len() / 2].to_vec())),
    ("without its last byte", |bytes| Some(bytes[..bytes.len().saturating_sub(1)].to_vec())),
    ("empty", |_| Some(Vec::new())),
    ("of zeros", |bytes| Some(vec![0; bytes.len().max(64)])),
    ("of random bytes", |bytes| Some((0..bytes.len().max(64)).map(|at| (at * 167 + 13) as u8).collect())),
    ("of another type", |_| Some(b"[[grant]]\nid = 7\nexport = [1, 2]\n".to_vec())),
    ("written twice", |bytes| Some([bytes, bytes].concat())),
    ("a directory", |_| None),
];

fn damage(path: &Path, whole: &[u8], how: fn(&[u8]) -> Option<Vec<u8>>) {
    let _ = fs::remove_file(path);
    match how(whole) {
        Some(bytes) => fs::write(path, bytes).unwrap(),
        None => fs::create_dir(path).unwrap(),
    }
}

/// A state directory that a node has used, with a valid key and a revoked one.
fn used_state() -> (Node, String, String) {
    let setup = Setup::new().data_export("rw").arg("--plain");
    fs::create_dir(setup.state()).unwrap();
    fs::write(setup.state().join("access.toml"), "[macaroons]\n").unwrap();
    let mut node = setup.start();
    fs::write(node.data("f"), b"x").unwrap();
    let (good, revoked) = (node.grant(&["--export", "data", "--write"]), node.grant(&["--export", "data", "--write"]));
    let far = Node::closed();
    let there = far.grant(&["--export", "data", "--write"]);
    Client::with_key(&format!("{good},{there}")).run(words!["cp", node.at("data/f"), far.at("data/f")]).expect(0);
    assert!(node.grant_command(&["revoke", &grant_id(&revoked)]).status.success());
    node.stop();
    (node, good, revoked)
}

/// Files of the state directory, and of one level below it.
fn files(state: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            found.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_file()));
        } else if path.is_file() && path.file_name().unwrap() != "lock" {
            found.push(path);
        }
    }
    found.retain(|path| path.extension().is_none_or(|ending| ending != "jsonl"));
    found.sort();
    found
}

/// Copies a state directory, or one below it.
fn copy_state(from: &Path, to: &Path) {
    for path in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let there = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&there).unwrap();
            fs::set_permissions(&there, fs::metadata(&path).unwrap().permissions()).unwrap();
            copy_state(&path, &there);
        } else if path.is_file() {
            fs::copy(&path, &there).unwrap();
        }
    }
}

/// Starts a node on the state, and sends a request with a key where it started. Returns the faults of its behaviour, in words.
fn start(node: &Node, state: &Path, revoked: &str) -> Option<String> {
    let export = format!("data={}:rw", node.data("").display());
    let mut child = Command::new(LONGHAUL)
        .args(["serve", "--listen", "127.0.0.1:0", "--plain", "--export", &export, "--state"])
        .arg(state)
        .env_remove("LONGHAUL_KEY")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let address = listening(&mut child);
    let mut wrong = None;
    if let Ok(address) = &address {
        let opened = Client::with_key(revoked).run(words!["ls", format!("lh://{address}/data")]);
        if opened.code == 0 {
            wrong = Some("a revoked key opens the node again".to_owned());
        }
        let _ = child.kill();
    }
    let status = child.wait().unwrap();
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    if error.contains("panicked") {
        return Some(format!("it panicked: {error}"));
    }
    if address.is_err() && (status.success() || error.trim().is_empty()) {
        return Some(format!("it ended without a message: {status}"));
    }
    wrong
}

#[test]
fn damaged_state_is_reported_or_survived() {
    let (node, _, revoked) = used_state();
    let tried = AtomicUsize::new(0);
    // Each worker has a state of its own, and takes every fourth damage. Most of its time it waits for nodes that start.
    let work = |first: usize| {
        let state = tempfile::tempdir().unwrap();
        copy_state(&node.state(), state.path());
        let files = files(state.path());
        assert!(files.iter().any(|path| path.ends_with("grants.toml")), "{files:?}");
        let whole: Vec<(std::path::PathBuf, Vec<u8>)> =
            files.into_iter().map(|path| (path.clone(), fs::read(&path).unwrap())).collect();
        let all = whole.iter().flat_map(|file| DAMAGES.iter().map(move |damage| (file, damage)));
        let mut wrong = Vec::new();
        for ((path, bytes), (what, how)) in all.skip(first).step_by(WORKERS) {
            damage(path, bytes, *how);
            tried.fetch_add(1, Ordering::Relaxed);
            if let Some(trouble) = start(&node, state.path(), &revoked) {
                wrong.push(format!("{} {what}: {trouble}", path.file_name().unwrap().display()));
            }
            // Everything is restored: repairs of one start must not affect the next.
            let _ = fs::remove_dir(path);
            whole.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|first| scope.spawn(move || work(first))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let tried = tried.into_inner();
    assert!(tried >= 40, "only {tried} were tried");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}
