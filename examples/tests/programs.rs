//! The programs of this directory do what their first lines say.

#![allow(clippy::unwrap_used, reason = "a test panics if it cannot go on")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A process that is killed when it is dropped.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_tree_is_copied_to_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir_all(path("run7/raw")).unwrap();
    fs::create_dir(path("data")).unwrap();
    fs::write(path("run7/raw/events"), vec![7; 3 << 20]).unwrap();

    let mut command = Command::new(env!("CARGO_BIN_EXE_node"));
    let child = command.args([path("data"), path("state")]).stdout(Stdio::piped()).spawn().unwrap();
    let mut node = ChildGuard(child);
    let mut lines = BufReader::new(node.0.stdout.take().unwrap()).lines();
    let locator = lines.next().unwrap().unwrap();

    let copy =
        Command::new(env!("CARGO_BIN_EXE_copy")).arg(path("run7")).arg(format!("{locator}/run7")).output().unwrap();
    assert!(copy.status.success(), "{}", String::from_utf8_lossy(&copy.stderr));
    assert_eq!(fs::read(path("data/run7/raw/events")).unwrap(), vec![7; 3 << 20]);
    assert_eq!(String::from_utf8_lossy(&copy.stdout), "1 files, 3145728 bytes, 0 not copied\n");
}

#[test]
fn a_source_that_does_not_exist_is_named() {
    let copy =
        Command::new(env!("CARGO_BIN_EXE_copy")).args(["/nowhere/x", "lh://127.0.0.1:1/data/x"]).output().unwrap();
    assert!(!copy.status.success());
    assert!(String::from_utf8_lossy(&copy.stderr).contains("/nowhere/x"));
}

#[test]
fn a_file_is_served() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("events"), vec![7; 300_000]).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_files")).arg(dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut server = ChildGuard(child);
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let address = lines.next().unwrap().unwrap();
    let address = address.trim_start_matches("http://").trim_end_matches('/');
    let get = |name: &str| {
        let mut socket = TcpStream::connect(address).unwrap();
        write!(socket, "GET /{name} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = Vec::new();
        socket.read_to_end(&mut response).unwrap();
        response
    };
    let response = get("events");
    assert!(response.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&response[..100]));
    assert!(response.ends_with(&vec![7; 300_000]));
    assert!(get("nothing").starts_with(b"HTTP/1.1 404 "));
}
