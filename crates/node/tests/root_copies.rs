//! Third-party copies by XRootD's protocol, message by message: keys that are used twice, are too old or are for another file, and copies
//! that do not end well.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[allow(dead_code, reason = "each test program uses its part")]
#[path = "support/open_node.rs"]
mod open_node;
#[allow(dead_code, reason = "each test program uses its part")]
#[path = "support/root_client.rs"]
mod root_client;

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use open_node::OpenNode;
use root_client::{RootClient, RootMessage, path};
use xroot::codes::open_options;
use xroot::head::FileHandle;
use xroot::{ErrorCode, QueryKind, RootAnswer, RootRequest};

const NEW_FILE: u16 = open_options::NEW | open_options::UPDATE | open_options::MAKE_PATH;

fn open(name: &str, options: u16) -> RootRequest {
    RootRequest::Open { place: path(name), mode: 0o644, options }
}

/// The target and its file, open and synced once.
fn target(node: &OpenNode, source: &OpenNode, more: &str) -> (RootClient, FileHandle) {
    let mut client = RootClient::log_in(node);
    let name = format!("/data/g?tpc.key=k&tpc.src={}&tpc.lfn=/data/f&tpc.stage=copy{more}", source.address);
    let file = client.open(&name, NEW_FILE);
    client.done(&RootRequest::Sync(file));
    (client, file)
}

/// Announces the copy at the source.
fn announce(source: &OpenNode) -> (RootClient, FileHandle) {
    let mut client = RootClient::log_in(source);
    let file = client.open("/data/f?tpc.key=k&tpc.dst=127.0.0.1&tpc.stage=copy", open_options::READ);
    (client, file)
}

/// Begins the copy, and waits for its end.
fn copy(client: &mut RootClient, file: FileHandle) -> RootAnswer {
    assert!(matches!(client.ask(&RootRequest::Sync(file)), RootAnswer::WaitForAnswer(_)));
    match client.receive() {
        Some(RootMessage::Answer(RootAnswer::Async { answer, .. })) => *answer,
        other => panic!("{other:?}"),
    }
}

fn names(node: &OpenNode) -> Vec<String> {
    let entries = std::fs::read_dir(node.path("data")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A file of several requests, the last of them with a part of a page.
fn write_source(node: &OpenNode) -> Vec<u8> {
    let bytes: Vec<u8> = (0..40_000_001_u32).map(|at| (at / 9) as u8).collect();
    std::fs::write(node.path("data/f"), &bytes).unwrap();
    bytes
}

#[test]
fn a_node_gets_a_file_from_another_by_the_native_engine() {
    let (from, to) = (OpenNode::start("data"), OpenNode::start("data"));
    let bytes = write_source(&from);
    let (mut client, file) = target(&to, &from, "&oss.asize=40000001");
    let _announced = announce(&from);
    assert_eq!(copy(&mut client, file), RootAnswer::Ok(Vec::new()));
    assert!(to.path("data/g").exists(), "the native engine gives it its name before the client closes it");
    client.done(&RootRequest::Close(file));
    assert!(std::fs::read(to.path("data/g")).unwrap() == bytes);
    assert_eq!(names(&to), ["g"], "nothing else stays");
}

/// Copies a file natively to a node that may connect to these addresses alone, from one that also takes streams at 127.0.0.2; the number of
/// connections that the other address has seen.
fn connections_to_further_address(allowed: &str) -> usize {
    let further = TcpListener::bind("127.0.0.2:0").unwrap();
    let address = further.local_addr().unwrap();
    let from = OpenNode::start_with("data", |config| config.advertise = vec![address]);
    let to = OpenNode::start_with("data", |config| {
        config.serves_one_copy = false;
        let policy = format!("[third_party]\nguests = true\nallow = [\"{allowed}\"]\n");
        std::fs::write(config.state.path().join("access.toml"), policy).unwrap();
    });
    let bytes = write_source(&from);
    let (mut client, file) = target(&to, &from, "&oss.asize=40000001");
    let _announced = announce(&from);
    assert_eq!(copy(&mut client, file), RootAnswer::Ok(Vec::new()));
    assert!(std::fs::read(to.path("data/g")).unwrap() == bytes);
    further.set_nonblocking(true).unwrap();
    std::iter::from_fn(|| further.accept().ok()).count()
}

#[test]
fn a_target_dials_no_address_that_it_must_not_though_the_source_advertises_it() {
    assert_eq!(connections_to_further_address("127.0.0.1/32"), 0);
    assert!(connections_to_further_address("127.0.0.0/8") > 0, "it is dialled where the policy allows it");
}

#[test]
fn a_node_reads_a_file_from_another_where_the_client_states_a_checksum() {
    let (from, to) = (OpenNode::start("data"), OpenNode::start("data"));
    let bytes = write_source(&from);
    let stated = model::Digest::crc32c(model::checksum::BlockSum::of(&bytes, false).crc32c);
    let (mut client, file) = target(&to, &from, &format!("&oss.asize=40000001&tpc.cks={stated}"));
    let _announced = announce(&from);
    assert_eq!(copy(&mut client, file), RootAnswer::Ok(Vec::new()));
    assert!(!to.path("data/g").exists(), "it was read, and has its name once it is closed");
    client.done(&RootRequest::Close(file));
    assert!(std::fs::read(to.path("data/g")).unwrap() == bytes);
}

#[test]
fn a_key_for_the_native_engine_goes_to_the_target_of_a_copy_only() {
    let node = OpenNode::start("data");
    std::fs::write(node.path("data/f"), "abc").unwrap();
    let (mut client, announced) = announce(&node);
    let mut reader = RootClient::log_in(&node);
    let question =
        |file| RootRequest::Query { kind: QueryKind::OpaqueOfFile.number(), file, text: b"longhaul.copy key".to_vec() };
    let plain = reader.open("/data/f", open_options::READ);
    assert_eq!(reader.refused(&question(plain)), ErrorCode::NotAuthorized, "the file is open for the client itself");
    assert_eq!(
        client.refused(&question(announced)),
        ErrorCode::NotAuthorized,
        "this client announces, and gets nothing"
    );
    let fetched = reader.open("/data/f?tpc.key=k&tpc.org=ann.7@localhost", open_options::READ);
    let RootAnswer::Ok(reply) = reader.ask(&question(fetched)) else { panic!("no key") };
    let reply: serde_json::Value = serde_json::from_slice(&reply).unwrap();
    assert_eq!((reply["v"].as_u64(), reply["export"].as_str()), (Some(1), Some("data")), "{reply}");
    assert!(reply["key"].as_str().unwrap().starts_with("lhk1_"), "{reply}");
    assert_eq!(reader.refused(&question(fetched)), ErrorCode::NotAuthorized, "each open gives one key");
}

#[test]
fn a_key_opens_one_file_once() {
    let node = OpenNode::start("data");
    std::fs::write(node.path("data/f"), "abc").unwrap();
    std::fs::write(node.path("data/other"), "abc").unwrap();
    let mut target = RootClient::log_in(&node);
    let fetch = |name: &str| open(&format!("/data/{name}?tpc.key=k&tpc.org=ann.7@localhost"), open_options::READ);
    assert_eq!(target.refused(&fetch("f")), ErrorCode::NotAuthorized, "nobody has announced it");
    let _announced = announce(&node);
    assert!(matches!(target.ask(&fetch("f")), RootAnswer::Ok(_)));
    assert_eq!(target.refused(&fetch("f")), ErrorCode::NotAuthorized, "a key is used once");
    let _announced = announce(&node);
    assert_eq!(target.refused(&fetch("other")), ErrorCode::NotAuthorized, "it is for another file");
    let mut client = RootClient::log_in(&node);
    client.open("/data/f?tpc.key=k2&tpc.dst=192.0.2.1", open_options::READ);
    let fetch = open("/data/f?tpc.key=k2&tpc.org=ann.7@localhost", open_options::READ);
    assert_eq!(target.refused(&fetch), ErrorCode::NotAuthorized, "the target is another host");
}

#[test]
fn a_copy_that_does_not_end_well_leaves_no_file() {
    let (from, to) = (OpenNode::start("data"), OpenNode::start("data"));
    std::fs::write(from.path("data/f"), "abc").unwrap();
    for (more, code) in [
        ("&oss.asize=4", ErrorCode::Conflict),
        ("&tpc.cks=adler32:00000001", ErrorCode::Checksum),
        ("", ErrorCode::NotAuthorized),
    ] {
        let (mut client, file) = target(&to, &from, more);
        // Without an announcement, the source knows no key.
        let _announced = (code != ErrorCode::NotAuthorized).then(|| announce(&from));
        let RootAnswer::Error { code: found, text } = copy(&mut client, file) else { panic!("{more}: it was copied") };
        assert_eq!(ErrorCode::from_number(found), Some(code), "{more}: {text}");
        assert!(matches!(client.ask(&RootRequest::Close(file)), RootAnswer::Error { .. }));
        assert!(names(&to).is_empty(), "{more}: {:?}", names(&to));
    }
}

#[test]
fn a_copy_is_cancelled_and_its_file_takes_no_bytes_of_the_client() {
    let (from, to) = (OpenNode::start("data"), OpenNode::start("data"));
    let (mut client, file) = target(&to, &from, "");
    let write = RootRequest::Write(root_client::range(file, 0, 3));
    assert!(matches!(client.ask_with(&write, b"abc"), RootAnswer::Error { .. }));
    let query = |text: &[u8]| RootRequest::Query { kind: QueryKind::OpaqueOfFile.number(), file, text: text.to_vec() };
    assert_eq!(client.refused(&query(b"ofs.other")), ErrorCode::Unsupported);
    client.done(&query(b"ofs.tpc cancel"));
    assert_eq!(client.refused(&RootRequest::Close(file)), ErrorCode::Cancelled);
    assert!(names(&to).is_empty());
}

/// A line to a node that carries this many bytes of it, and then is silent.
fn silent_line(to: &OpenNode, bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, node) = (listener.local_addr().unwrap(), to.address);
    std::thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(node).unwrap();
        let (mut near_in, mut far_out) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut near_in, &mut far_out));
        let _ = std::io::copy(&mut (&far).take(bytes as u64), &mut &near);
        // Both connections stay open.
        std::thread::sleep(root_client::PATIENCE * 2);
    });
    address
}

#[test]
fn a_copy_from_a_silent_source_is_cancelled_at_once() {
    let (from, to) = (OpenNode::start("data"), OpenNode::start("data"));
    std::fs::write(from.path("data/f"), vec![7; 40_000_000]).unwrap();
    let _announced = announce(&from);
    let line = silent_line(&from, 1_000_000);
    let mut client = RootClient::log_in(&to);
    // The line carries one connection: with a stated checksum the target makes no other.
    let name = format!("/data/g?tpc.key=k&tpc.src={line}&tpc.lfn=/data/f&tpc.stage=copy&tpc.cks=adler32:00000001");
    let file = client.open(&name, NEW_FILE);
    client.done(&RootRequest::Sync(file));
    assert!(matches!(client.ask(&RootRequest::Sync(file)), RootAnswer::WaitForAnswer(_)));
    // Long enough for the line to fall silent; sooner, the copy is cancelled all the same.
    std::thread::sleep(Duration::from_millis(500));
    let text = b"ofs.tpc cancel".to_vec();
    client.send(&RootRequest::Query { kind: QueryKind::OpaqueOfFile.number(), file, text }, &[]);
    let mut answers: Vec<RootAnswer> = Vec::new();
    for _ in 0..2 {
        let Some(RootMessage::Answer(answer)) = client.receive() else { panic!("{answers:?}") };
        answers.push(answer);
    }
    let cancelled = |answer: &RootAnswer| match answer {
        RootAnswer::Async { answer, .. } => {
            matches!(&**answer, RootAnswer::Error { code, .. } if *code == ErrorCode::Cancelled.number())
        }
        _ => false,
    };
    assert!(answers.iter().any(cancelled) && answers.contains(&RootAnswer::Ok(Vec::new())), "{answers:?}");
    assert_eq!(client.refused(&RootRequest::Close(file)), ErrorCode::Cancelled);
    assert!(names(&to).is_empty());
}

#[test]
fn credentials_are_not_delegated_and_roles_are_not_mixed() {
    let node = OpenNode::start("data");
    let mut client = RootClient::log_in(&node);
    let delegated = open("/data/g?tpc.src=a:1&tpc.dlg=a:1&tpc.dlgon=1&tpc.lfn=/f", NEW_FILE);
    assert_eq!(client.refused(&delegated), ErrorCode::FileSystem, "clients copy by themselves then");
    for (name, options) in
        [("/data/g?tpc.key=k&tpc.dst=a", NEW_FILE), ("/data/g?tpc.key=k&tpc.src=a:1", open_options::READ)]
    {
        assert_eq!(client.refused(&open(name, options)), ErrorCode::ArgInvalid, "{name}");
    }
    assert!(names(&node).is_empty());
}
