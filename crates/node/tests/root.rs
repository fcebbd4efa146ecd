//! XRootD's protocol at a node, message by message: what stock clients never send, and what they send when their connection broke.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[allow(dead_code, reason = "each test program uses its part")]
#[path = "support/open_node.rs"]
mod open_node;
#[allow(dead_code, reason = "each test program uses its part")]
#[path = "support/root_client.rs"]
mod root_client;

use std::io::Write;
use std::time::{Duration, Instant};

use open_node::OpenNode;
use root_client::{PATIENCE, RootClient, RootMessage, path, range};
use xroot::answer::OpenAnswer;
use xroot::codes::open_options;
use xroot::head::{FileHandle, SessionId};
use xroot::login::HELLO;
use xroot::place::FileOrPath;
use xroot::request::{FileRange, Purpose, VectorPart};
use xroot::{ErrorCode, Malformed, RootAnswer, RootPath, RootRequest, StreamId};

const NEW_FILE: u16 = open_options::NEW | open_options::UPDATE | open_options::MAKE_PATH;
const REPLACE: u16 = open_options::DELETE | open_options::UPDATE;

fn files(node: &OpenNode) -> Vec<String> {
    let entries = std::fs::read_dir(node.path("data")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Threads of this process that serve connections.
fn connection_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.map(name).filter(|name| name.trim() == "connection").count()
}

#[test]
fn a_file_has_its_name_once_it_is_closed() {
    let node = OpenNode::start("data");
    let mut client = RootClient::log_in(&node);
    let file = client.open("/data/a/f", NEW_FILE);
    assert_eq!(client.write(file, 0, b"hello "), RootAnswer::Ok(Vec::new()));
    assert_eq!(client.write(file, 6, b"world"), RootAnswer::Ok(Vec::new()));
    assert!(!node.path("data/a/f").exists());
    let facts = client.done(&RootRequest::Stat { of: FileOrPath::File(file), of_file_system: false });
    assert!(String::from_utf8(facts).unwrap().starts_with("0 11 "), "the size so far");
    assert_eq!(client.done(&RootRequest::Read(range(file, 6, 100))), b"world", "what was written is read back");
    client.done(&RootRequest::Close(file));
    assert_eq!(std::fs::read(node.path("data/a/f")).unwrap(), b"hello world");
    assert_eq!(client.refused(&RootRequest::Close(file)), ErrorCode::FileNotOpen);
}

#[test]
fn an_update_that_breaks_off_leaves_the_file_as_it_was() {
    let node = OpenNode::start("data");
    std::fs::write(node.path("data/f"), "0123456789").unwrap();
    let mut client = RootClient::log_in(&node);
    let file = client.open("/data/f", open_options::UPDATE);
    client.write(file, 3, b"abc");
    drop(client);
    assert_eq!(std::fs::read(node.path("data/f")).unwrap(), b"0123456789");
    // The client comes back, and goes on with what it has written.
    let mut client = RootClient::log_in(&node);
    let mut file = FileHandle::default();
    wait_until("the file is free again", || {
        let open = RootRequest::Open { place: path("/data/f"), mode: 0o644, options: open_options::UPDATE };
        match client.ask(&open) {
            RootAnswer::Ok(body) => {
                file = OpenAnswer::parse(&body).unwrap().file;
                true
            }
            _ => false,
        }
    });
    client.write(file, 9, b"Z!");
    client.done(&RootRequest::Close(file));
    assert_eq!(std::fs::read(node.path("data/f")).unwrap(), b"012abc678Z!");
    assert_eq!(files(&node), ["f"], "nothing is left");
}

#[test]
fn one_client_at_a_time_writes_a_file_unless_another_insists() {
    let node = OpenNode::start("data");
    let (mut one, mut other) = (RootClient::log_in(&node), RootClient::log_in(&node));
    let file = one.open("/data/f", NEW_FILE);
    let again = |options| RootRequest::Open { place: path("/data/f"), mode: 0o644, options };
    assert_eq!(other.refused(&again(NEW_FILE)), ErrorCode::FileLocked);
    let forced = other.open("/data/f", NEW_FILE | open_options::FORCE);
    other.write(forced, 0, b"other");
    other.done(&RootRequest::Close(forced));
    one.write(file, 0, b"one");
    // It was opened as a new file, and meanwhile there is one.
    assert_eq!(one.refused(&RootRequest::Close(file)), ErrorCode::Exists);
    assert_eq!(std::fs::read(node.path("data/f")).unwrap(), b"other");
    assert_eq!(one.refused(&again(NEW_FILE)), ErrorCode::Exists);
    let file = one.open("/data/f", REPLACE);
    one.write(file, 0, b"one");
    one.done(&RootRequest::Close(file));
    assert_eq!(std::fs::read(node.path("data/f")).unwrap(), b"one");
}

#[test]
fn damaged_pages_are_sent_again_or_the_file_is_refused() {
    let node = OpenNode::start("data");
    let mut client = RootClient::log_in(&node);
    let data: Vec<u8> = (0..20_000_u32).map(|at| (at / 7) as u8).collect();
    for repairs in [true, false] {
        let file = client.open("/data/f", NEW_FILE);
        let mut encoded = Vec::new();
        xroot::pages::encode(0, &data, &mut encoded);
        encoded[5000] ^= 1;
        let (_, list) = client.write_pages(file, 0, &encoded);
        assert_eq!(list.len(), 4 + 4 + 8, "one page is named");
        assert_eq!(list[8..], 4096_u64.to_be_bytes());
        if !repairs {
            assert_eq!(client.refused(&RootRequest::Close(file)), ErrorCode::Checksum);
            continue;
        }
        let mut page = Vec::new();
        xroot::pages::encode(4096, &data[4096..8192], &mut page);
        assert!(client.write_pages(file, 4096, &page).1.is_empty());
        client.done(&RootRequest::Close(file));
        assert_eq!(std::fs::read(node.path("data/f")).unwrap(), data);
        std::fs::remove_file(node.path("data/f")).unwrap();
    }
    assert!(files(&node).is_empty(), "a file with damaged pages is not kept");
}

#[test]
fn pages_are_read_with_their_checksums() {
    let node = OpenNode::start("data");
    let data: Vec<u8> = (0..1_000_000_u32).map(|at| (at / 11) as u8).collect();
    std::fs::write(node.path("data/f"), &data).unwrap();
    let mut client = RootClient::log_in(&node);
    let file = client.open("/data/f", open_options::READ);
    client.send(&RootRequest::PageRead { range: range(file, 1000, 900_000), is_repeated: false }, &[]);
    let mut read = Vec::new();
    loop {
        let Some(RootMessage::Pages(answer, mut encoded)) = client.receive() else { panic!("no pages") };
        assert_eq!(answer.offset, 1000 + read.len() as u64);
        let decoded = xroot::pages::decode(answer.offset, &mut encoded).unwrap();
        assert!(decoded.damaged.is_empty());
        read.extend_from_slice(&encoded[..decoded.bytes]);
        if answer.is_last {
            break;
        }
    }
    assert!(read == data[1000..901_000]);
}

#[test]
fn several_ranges_are_read_and_written_at_once() {
    let node = OpenNode::start("data");
    let mut client = RootClient::log_in(&node);
    let file = client.open("/data/f", NEW_FILE);
    let part = |offset, bytes| VectorPart { file, bytes, offset };
    let request = RootRequest::WriteVector { parts: vec![part(0, 3), part(6, 2), part(3, 3)], is_synced: true };
    assert_eq!(client.ask_with(&request, b"abcghdef"), RootAnswer::Ok(Vec::new()));
    let body = client.done(&RootRequest::ReadVector { parts: vec![part(6, 2), part(1, 4)], path_id: 0 });
    assert_eq!((&body[16..18], &body[34..]), (&b"gh"[..], &b"bcde"[..]));
    let beyond = RootRequest::ReadVector { parts: vec![part(6, 3)], path_id: 0 };
    assert_eq!(client.refused(&beyond), ErrorCode::ArgInvalid);
    client.done(&RootRequest::Truncate { of: FileOrPath::File(file), bytes: 4 });
    client.done(&RootRequest::Close(file));
    assert_eq!(std::fs::read(node.path("data/f")).unwrap(), b"abcd");
}

#[test]
fn answers_come_on_bound_connections() {
    let node = OpenNode::start("data");
    let data: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 5) as u8).collect();
    std::fs::write(node.path("data/f"), &data).unwrap();
    let mut client = RootClient::log_in(&node);
    let mut bound = RootClient::connect(&node);
    bound.ask(&RootRequest::Protocol { version: 0x511, flags: 0, purpose: Purpose::Bind });
    let body = bound.done(&RootRequest::Bind(client.session));
    let path_id = body[0];
    let file = client.open("/data/f", open_options::READ);
    for offset in [0, 1_000_000, 2_000_000] {
        let range = FileRange { path_id, ..range(file, offset, 1_000_000) };
        client.send(&RootRequest::Read(range), &[]);
        let Some(RootMessage::Answer(RootAnswer::Ok(read))) = bound.receive() else { panic!("no answer") };
        assert!(read == data[offset as usize..][..1_000_000]);
    }
    let nowhere = FileRange { path_id: path_id + 1, ..range(file, 0, 1) };
    assert_eq!(client.refused(&RootRequest::Read(nowhere)), ErrorCode::ArgInvalid);
    // The session's end is the end of its connections.
    drop(client);
    assert!(bound.receive().is_none());
}

#[test]
fn nobody_binds_to_a_session_that_is_not_its_own() {
    let node = OpenNode::start("data");
    let client = RootClient::log_in(&node);
    let mut guess = client.session.0;
    guess[15] ^= 1;
    for id in [SessionId([0; 16]), SessionId(guess)] {
        let mut bound = RootClient::connect(&node);
        assert_eq!(bound.refused(&RootRequest::Bind(id)), ErrorCode::NotFound);
        assert!(bound.receive().is_none(), "the connection is closed after a guess");
    }
    // From another address of the same host.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&node.address.into()).unwrap();
    let mut bound = RootClient { socket: socket.into(), session: client.session };
    bound.socket.write_all(&HELLO).unwrap();
    assert!(bound.receive().is_some());
    assert_eq!(bound.refused(&RootRequest::Bind(client.session)), ErrorCode::NotFound);
}

#[test]
fn a_further_port_answers_as_the_first_one_does() {
    let node = OpenNode::start_with("data", |config| config.root_listen = Some(([127, 0, 0, 1], 0).into()));
    let further = node.node.root_address().unwrap().unwrap();
    assert_ne!(further, node.address);
    let mut client = RootClient::connect_to(further);
    client.ask(&RootRequest::Protocol { version: 0x511, flags: 0, purpose: Purpose::Login });
    assert_eq!(client.refused(&RootRequest::Ping), ErrorCode::InvalidRequest, "it waits for a login");
    drop(client);
    wait_until("the connection is closed", || node.node.connections() == 0);
}

#[test]
fn requests_out_of_order_are_refused() {
    let node = OpenNode::start("data");
    let mut client = RootClient::connect(&node);
    let open = RootRequest::Open { place: path("/data/f"), mode: 0o644, options: NEW_FILE };
    assert_eq!(client.refused(&RootRequest::Ping), ErrorCode::InvalidRequest);
    assert_eq!(client.refused(&open), ErrorCode::InvalidRequest);
    // The data of a write are skipped, and the connection stays in step.
    let write = RootRequest::Write(range(FileHandle::default(), 0, 3));
    assert!(matches!(client.ask_with(&write, b"abc"), RootAnswer::Error { .. }));
    assert_eq!(client.refused(&RootRequest::Ping), ErrorCode::InvalidRequest);
    let mut client = RootClient::log_in(&node);
    client.done(&RootRequest::Ping);
    assert!(matches!(client.ask_with(&write, b"abc"), RootAnswer::Error { code: 3004, .. }));
    client.done(&RootRequest::Ping);
}

#[test]
fn impossible_lengths_end_the_connection() {
    let node = OpenNode::start("data");
    for length in [i32::MAX, -1, 3 << 20] {
        let mut client = RootClient::log_in(&node);
        let mut bytes = RootRequest::Ping.to_bytes(StreamId([0, 1]));
        bytes[20..24].copy_from_slice(&length.to_be_bytes());
        client.socket.write_all(&bytes).unwrap();
        while let Some(message) = client.receive() {
            let RootMessage::Answer(RootAnswer::Error { code, .. }) = message else { panic!("{message:?}") };
            assert_eq!(ErrorCode::from_number(code), Some(ErrorCode::ArgTooLong));
        }
    }
    // A read of two gigabytes of a file of three bytes.
    std::fs::write(node.path("data/f"), "abc").unwrap();
    let mut client = RootClient::log_in(&node);
    let file = client.open("/data/f", open_options::READ);
    let far = FileRange { bytes: i32::MAX as u32, ..range(file, 1, 0) };
    assert_eq!(client.done(&RootRequest::Read(far)), b"bc");
    let beyond = FileRange { bytes: i32::MAX as u32, ..range(file, 1 << 62, 0) };
    assert_eq!(client.done(&RootRequest::Read(beyond)), b"");
}

#[test]
fn no_path_leads_out_of_an_export() {
    let node = OpenNode::start("data");
    std::fs::write(node.path("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../secret", node.path("data/link")).unwrap();
    let mut client = RootClient::log_in(&node);
    assert_eq!(RootPath::parse(b"/data/../secret"), Err(Malformed::Field("the path")));
    let mut bytes = RootRequest::Open { place: path("/data/xx/secret"), mode: 0, options: open_options::READ }
        .to_bytes(StreamId([0, 1]));
    let at = bytes.len() - "xx/secret".len();
    bytes[at..at + 2].copy_from_slice(b"..");
    client.socket.write_all(&bytes).unwrap();
    assert!(matches!(client.receive(), Some(RootMessage::Answer(RootAnswer::Error { code: 3000, .. }))));
    let open = |name: &str, options| RootRequest::Open { place: path(name), mode: 0o644, options };
    assert_eq!(client.refused(&open("/data/link", open_options::READ)), ErrorCode::NotAuthorized);
    assert_eq!(client.refused(&open("/secret", open_options::READ)), ErrorCode::NotFound);
    assert_eq!(client.refused(&open("/data", open_options::READ)), ErrorCode::IsDirectory);
    assert_eq!(client.refused(&open("/", NEW_FILE)), ErrorCode::NotFile);
}

#[test]
fn idle_sessions_hold_no_thread() {
    let node = OpenNode::start("data");
    let mut clients: Vec<RootClient> = (0..100).map(|_| RootClient::log_in(&node)).collect();
    wait_until("no connection has a thread", || connection_threads() == 0);
    for client in &mut clients {
        client.done(&RootRequest::Ping);
    }
    wait_until("no connection has a thread again", || connection_threads() == 0);
    drop(clients);
    wait_until("all connections are closed", || node.node.connections() == 0);
}
