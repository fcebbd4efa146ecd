//! Names and messages of the other end do not control the terminal of a reader, nor forge lines of a log.

use model::Refusal;
use std::fs;

use model::fault::Fault;
use wire::Frame;
use wire::frame::{Direction, Entry, Outcome};

use super::requests::Requests;
use super::session::{order_at, place};
use crate::client::{Client, Outcome as CommandOutcome};
use crate::node::{Node, Setup};
use crate::raw_client::{RawClient, dir, entry, file, forged};
use crate::scripted_node::{ClientSession, pulled};
use crate::wait::{LONG, until};
use crate::web::peers::{Peer, answer};

/// A window title, a cleared screen, a bell, a line of its own; the same by single C1 characters; and a mark that reverses the
/// direction of text.
const HOSTILE_TEXT: &str =
    "\u{1b}]0;owned\u{7}\u{1b}[2J\r\nforged line\u{8}\u{9b}31m\u{9d}0;owned\u{9c}\u{202e}gnp.exe\u{7f}";

/// The characters of a text that control a terminal.
fn control_characters(text: &str) -> Vec<char> {
    let controls_terminal = |c: &char| {
        (c.is_control() && *c != '\n' && *c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().filter(controls_terminal).collect()
}

#[track_caller]
fn assert_tame(what: &str, text: &str) {
    let found = control_characters(text);
    assert!(found.is_empty(), "{what}: {found:?} in {text:?}");
    assert!(!text.lines().any(|line| line.starts_with("forged line")), "{what}: a forged line in {text:?}");
}

type Script = fn(&mut ClientSession<'_>);

/// The placeholder for the hostile text in a frame until it is encoded: the encoder would escape the text itself.
fn stand_in() -> String {
    "E".repeat(HOSTILE_TEXT.len())
}

fn refusal() -> Refusal {
    Refusal { fault: Fault::Storage, reason: stand_in() }
}

/// The frame with the hostile text, as an attacker sends it unescaped.
fn hostile_frame(frame: &Frame) -> Vec<u8> {
    forged(frame, stand_in().as_bytes(), HOSTILE_TEXT.as_bytes())
}

#[test]
fn a_hostile_node_s_words_do_not_reach_the_terminal_raw() {
    let scripts: &[(&str, Script)] = &[
        ("a refusal", |s| s.send_raw(&hostile_frame(&Frame::Abort(refusal())))),
        ("a name that cannot be read", |s| {
            let failed = entry(2, 1, HOSTILE_TEXT, wire::frame::Offered::Failed(refusal()));
            s.send_raw(&hostile_frame(&Frame::Entries(vec![dir(1, 0, "t"), failed, Entry::Leave(1)])));
            s.send(&Frame::ScanEnd(2));
        }),
        ("a file that does not come", |s| {
            s.send(&Frame::Entries(vec![dir(1, 0, "t"), file(2, 1, HOSTILE_TEXT, 1 << 20)]));
            s.receive_until("a verdict", |frame| matches!(frame, Frame::Verdicts(_)));
            s.send_raw(&hostile_frame(&Frame::Drops(vec![(2, refusal())])));
            s.send(&Frame::Entries(vec![Entry::Leave(1)]));
            s.send(&Frame::ScanEnd(2));
        }),
        ("why it waits", |s| {
            s.send_raw(&hostile_frame(&Frame::Busy(stand_in())));
            s.send_raw(&hostile_frame(&Frame::Abort(refusal())));
        }),
    ];
    std::thread::scope(|scope| {
        for (what, script) in scripts {
            scope.spawn(move || {
                let client = Client::new();
                let outcome: CommandOutcome = pulled(&client, |mut session| {
                    script(&mut session);
                    session.until_disconnected();
                });
                assert_ne!(outcome.code, 0, "{what}: {outcome:?}");
                assert_tame(what, &outcome.err);
                assert_tame(what, &outcome.text());
            });
        }
    });
}

fn node() -> Node {
    Setup::new().data_export("rw").arg("--anonymous").arg("rw").arg("--plain").start()
}

#[test]
fn a_hostile_client_s_words_do_not_reach_the_log_raw() {
    let node = node();
    fs::write(node.data("f"), b"x").unwrap();
    let mut raw_client = RawClient::connect(&node);
    let mut login = raw_client.login();
    if let Frame::Login { software, .. } = &mut login {
        *software = stand_in();
    }
    raw_client.send_raw(&hostile_frame(&login));
    // Each breaks the protocol, so each has a session of its own.
    for last in [Frame::Outcomes(vec![(1, Outcome::Failed(refusal()))]), Frame::Abort(refusal())] {
        let mut raw_client = RawClient::logged_in(&node);
        raw_client.send(&Frame::Open(order_at(Direction::Pull, place("data", "f"))));
        raw_client.receive_until("the offer", |frame| matches!(frame, Frame::Entries(_)));
        raw_client.send_raw(&hostile_frame(&last));
    }
    let mut named = RawClient::logged_in(&node);
    let name = HOSTILE_TEXT.replace('/', "");
    named.send(&Frame::Request(1, wire::frame::Request::Stat(place("data", &name))));
    named.receive_until("an answer", |frame| matches!(frame, Frame::Denied(..)));
    let mut requests = Requests::new(&node, None);
    let spelt: String = HOSTILE_TEXT.bytes().map(|byte| format!("%{byte:02x}")).collect();
    for method in ["GET", "DELETE", "MKCOL", "DELETE"] {
        requests.ask(method, &format!("/data/{spelt}"), &[("User-Agent", "x\u{9b}31m")], b"");
        requests.ask(method, &format!("/{spelt}/x?a={spelt}"), &[], b"");
    }
    until("the last request is in the log", LONG, || node.log().contains("MKCOL"));
    let audit = ["audit.jsonl", "audit-nobody.jsonl"].map(|name| node.state().join(name));
    let audit: String = audit.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
    assert_tame("the log", &node.log());
    assert_tame("the audit", &audit);
}

#[test]
fn a_hostile_server_s_words_do_not_reach_the_log_or_a_copy_s_client_raw() {
    let node = node();
    let key = node.grant(&["--export", "data", "--write"]);
    let evil = HOSTILE_TEXT.replace(['\r', '\n'], "");
    let peer = Peer::new(move |_, socket| answer(socket, 403, "Content-Type: text/plain\r\n", evil.as_bytes()));
    let url = peer.url("/f");
    let mut requests = Requests::new(&node, Some(&key));
    fs::write(node.data("f"), b"x").unwrap();
    for (field, target) in [("Source", "/data/new"), ("Destination", "/data/f")] {
        let answer = requests.ask("COPY", target, &[(field, url.as_str())], b"");
        assert!(!peer.requests().is_empty(), "{}", answer.text());
        let controls: Vec<char> = answer.text().chars().filter(|c| c.is_control() && *c != '\n').collect();
        assert!(controls.is_empty(), "{controls:?} in {:?}", answer.text());
    }
    until("it is in the log", LONG, || node.log().contains("COPY"));
    assert_tame("the log", &node.log());
}
