//! Path traversals in generated spellings, over HTTP and in native frames.

use std::fs;
use std::path::PathBuf;

use engine::Error;
use wire::Frame;
use wire::frame::{Direction, Request};

use super::measures::{contents, holds};
use super::requests::Requests;
use super::session::{order_at, place};
use crate::node::{Node, Setup};
use crate::raw_client::{RawClient, forged};

const SECRET: &[u8] = b"outside of every export";

/// A node with an export `x`, at a depth at which `..` could lead beside it.
fn node_in_deep_dir() -> (Node, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("in");
    fs::create_dir_all(inside.join("d/e")).unwrap();
    fs::create_dir(dir.path().join("out")).unwrap();
    fs::write(dir.path().join("out/secret"), SECRET).unwrap();
    fs::write(inside.join("d/f"), b"fine").unwrap();
    let setup = Setup::new().export("x", &inside, "rw").arg("--anonymous").arg("rw").arg("--plain");
    (setup.start(), dir)
}

fn outside(dir: &tempfile::TempDir) -> Vec<(PathBuf, Vec<u8>)> {
    contents(&dir.path().join("out"))
}

/// Spellings of "up", of separators, and of their repetitions.
fn spellings() -> Vec<String> {
    let ups = [
        "..",
        "%2e%2e",
        "%2E.",
        ".%2e",
        "%252e%252e",
        "%c0%ae%c0%ae",
        "%e0%80%ae%e0%80%ae",
        "%uff0e%uff0e",
        "..%00",
        "..%20",
        "%09..",
        "..;a=b",
        "...",
        "%ef%bc%8e%ef%bc%8e",
        "..%23",
        "..%3f",
        ".%0d.",
        "..%0a",
    ];
    let separators = ["/", "%2f", "%5c", "\\", "//", "/./", "%252f", "/%2e/"];
    let mut spelt = Vec::new();
    for up in ups {
        for separator in separators {
            for times in [1, 3] {
                let climb = format!("{up}{separator}").repeat(times);
                spelt.push(format!("d/{climb}out{separator}secret"));
            }
        }
    }
    spelt
}

#[test]
fn no_generated_spelling_leads_out_over_http() {
    let (node, dir) = node_in_deep_dir();
    let before = outside(&dir);
    let spellings = spellings();
    assert!(spellings.len() >= 200, "{}", spellings.len());
    let mut requests = Requests::new(&node, None);
    for path in spellings {
        let target = format!("/x/{path}");
        for (method, fields, body) in
            [("GET", &[][..], &b""[..]), ("PUT", &[], b"evil"), ("DELETE", &[("Depth", "infinity")], b"")]
        {
            let answer = requests.ask(method, &target, fields, body);
            assert!(answer.status < 500 && !holds(&answer.body, SECRET), "{method} {target}: {answer:?}");
        }
        let to = [("Destination", target.as_str())];
        let status = requests.status("COPY", "/x/d/f", &to, b"");
        assert!(status < 500 || status == 502, "COPY to {target}: {status}");
        assert!(outside(&dir) == before, "{target}: something outside was changed");
    }
}

/// Sends these bytes; returns all that comes back until the session ends or has answered.
fn exchange(raw_client: &mut RawClient, bytes: &[u8]) -> Vec<u8> {
    raw_client.send_raw(bytes);
    let mut answer = Vec::new();
    loop {
        match raw_client.receive() {
            Ok(frame) => {
                answer.extend(format!("{frame:?}").into_bytes());
                if let Frame::Inline(record) = &frame {
                    answer.extend(record);
                }
                if matches!(
                    frame,
                    Frame::Denied(..) | Frame::Reply(_, _, false) | Frame::Finished(_) | Frame::ScanEnd(_)
                ) {
                    return answer;
                }
            }
            Err(Error::Refused { refusal, .. }) => {
                answer.extend(refusal.reason.into_bytes());
                return answer;
            }
            Err(_) => return answer,
        }
    }
}

/// Tries one verb on a path that no correct encoder produces: a frame that does not decode ends the session, and the next client is served.
fn try_path(node: &Node, at: usize, path: &str) {
    let honest = place("x", &"Z".repeat(path.len()));
    let frame = match at % 4 {
        0 => Frame::Request(1, Request::Digest(honest, vec![model::Algorithm::Crc32c])),
        1 => Frame::Request(1, Request::Remove(honest, true)),
        2 => Frame::Request(1, Request::Rename(place("x", "d/f"), honest)),
        _ => Frame::Open(order_at(Direction::Pull, honest)),
    };
    let from = "Z".repeat(path.len());
    let answer = exchange(&mut RawClient::logged_in(node), &forged(&frame, from.as_bytes(), path.as_bytes()));
    assert!(!holds(&answer, SECRET), "{path:?}: {frame:?}");
}

#[test]
fn no_generated_path_leads_out_natively() {
    let (node, dir) = node_in_deep_dir();
    let (absolute, before) = (dir.path().join("out/secret").display().to_string(), outside(&dir));
    let mut paths: Vec<String> = Vec::new();
    for up in ["..", "../.", "./..", "..//", "../", "/..", "..\0", "%2e%2e", "..\\"] {
        for times in 1..4 {
            for start in ["", "d/", "d/f/", "/", "//", "./", "d//"] {
                paths.push(format!("{start}{}/out/secret", vec![up; times].join("/")));
            }
        }
    }
    paths.extend(["", "/", "d/"].map(|start| format!("{start}{absolute}")));
    assert!(paths.len() >= 190, "{}", paths.len());
    let (node, half) = (&node, paths.len().div_ceil(2));
    std::thread::scope(|scope| {
        for paths in paths.chunks(half) {
            scope.spawn(move || paths.iter().enumerate().for_each(|(at, path)| try_path(node, at, path)));
        }
    });
    assert!(outside(&dir) == before, "something outside was changed");
    assert!(dir.path().join("in/d/e").is_dir());
}
