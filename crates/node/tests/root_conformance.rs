//! What a server of XRootD's protocol must answer, request by request, after the areas of the project's own tests: files, vectors, the tree,
//! attributes, queries. Each table has what a request is about, and the answer: an error's number, or none.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[allow(dead_code, reason = "each test program uses its part")]
#[path = "support/open_node.rs"]
mod open_node;
#[allow(dead_code, reason = "each test program uses its part")]
#[path = "support/root_client.rs"]
mod root_client;

use open_node::OpenNode;
use root_client::{RootClient, path, range};
use xroot::answer::OpenAnswer;
use xroot::attributes::{AttributesAction, AttributesRequest};
use xroot::codes::{list_options, open_options};
use xroot::entry::{EntryFacts, entry_flags, parse_listing};
use xroot::head::FileHandle;
use xroot::place::FileOrPath;
use xroot::request::VectorPart;
use xroot::{ErrorCode, QueryKind, RootAnswer, RootRequest};

use ErrorCode::{
    ArgInvalid, Exists, FileNotOpen, InvalidRequest, IsDirectory, NotAuthorized, NotFile, NotFound, Unsupported,
};

/// A node with `/data/f` of nine bytes, `/data/d` with `g` in it, and `/data/empty`.
fn node() -> OpenNode {
    let node = OpenNode::start("data");
    std::fs::write(node.path("data/f"), "123456789").unwrap();
    std::fs::create_dir(node.path("data/d")).unwrap();
    std::fs::write(node.path("data/d/g"), "g").unwrap();
    std::fs::create_dir(node.path("data/empty")).unwrap();
    node
}

/// The error with which a request is refused; none if it is done.
fn outcome(client: &mut RootClient, request: &RootRequest) -> Option<ErrorCode> {
    match client.ask(request) {
        RootAnswer::Ok(_) => None,
        RootAnswer::Error { code, .. } => Some(ErrorCode::from_number(code).unwrap()),
        other => panic!("{request:?} was answered by {other:?}"),
    }
}

/// Makes each request, and compares its outcome.
fn check(client: &mut RootClient, table: &[(RootRequest, Option<ErrorCode>)]) {
    for (request, expected) in table {
        assert_eq!(outcome(client, request), *expected, "{request:?}");
    }
}

fn facts(client: &mut RootClient, name: &str) -> EntryFacts {
    let body = client.done(&RootRequest::Stat { of: FileOrPath::Path(path(name)), of_file_system: false });
    EntryFacts::parse(String::from_utf8(body).unwrap().trim_end_matches('\0')).unwrap()
}

#[test]
fn files_are_opened_by_what_is_there_and_what_is_asked() {
    use open_options::{DELETE, MAKE_PATH, NEW, READ, UPDATE};
    for (name, options, expected) in [
        ("/data/f", READ, None),
        ("/data/f", UPDATE, None),
        ("/data/f", NEW | UPDATE, Some(Exists)),
        ("/data/f", DELETE | UPDATE, None),
        ("/data/none", READ, Some(NotFound)),
        ("/data/none", UPDATE, Some(NotFound)),
        ("/data/none", NEW | UPDATE, None),
        ("/data/none", DELETE | UPDATE, None),
        ("/data/no/dir", NEW | UPDATE, Some(NotFound)),
        ("/data/no/dir", NEW | UPDATE | MAKE_PATH, None),
        ("/data/f/below", READ, Some(NotFile)),
        ("/data/d", READ, Some(IsDirectory)),
        ("/data/d", DELETE | UPDATE, Some(IsDirectory)),
        ("/data", READ, Some(IsDirectory)),
        ("/", READ, Some(NotFile)),
        ("/other/f", READ, Some(NotFound)),
    ] {
        let node = node();
        let mut client = RootClient::log_in(&node);
        let request = RootRequest::Open { place: path(name), mode: 0o644, options };
        assert_eq!(outcome(&mut client, &request), expected, "{name} {options:#x}");
    }
}

#[test]
fn an_open_returns_the_facts_that_a_stat_has() {
    let node = node();
    let mut client = RootClient::log_in(&node);
    let options = open_options::READ | open_options::RETURN_STAT;
    let body = client.done(&RootRequest::Open { place: path("/data/f"), mode: 0, options });
    let open = OpenAnswer::parse(&body).unwrap();
    let stated = facts(&mut client, "/data/f");
    let opened = open.facts.unwrap();
    assert_eq!((opened.size, opened.mtime, opened.flags), (9, stated.mtime, stated.flags));
}

#[test]
fn handles_are_valid_from_open_to_close() {
    let node = node();
    let mut client = RootClient::log_in(&node);
    let handles: Vec<FileHandle> = (0..300).map(|_| client.open("/data/f", open_options::READ)).collect();
    let mut sorted: Vec<[u8; 4]> = handles.iter().map(|handle| handle.0).collect();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), handles.len(), "each open has a handle of its own");
    for handle in &handles {
        assert_eq!(client.done(&RootRequest::Read(range(*handle, 0, 3))), b"123");
        client.done(&RootRequest::Close(*handle));
    }
    check(
        &mut client,
        &[
            (RootRequest::Read(range(handles[0], 0, 3)), Some(FileNotOpen)),
            (RootRequest::Sync(handles[0]), Some(FileNotOpen)),
            (RootRequest::Close(handles[0]), Some(FileNotOpen)),
            (RootRequest::Stat { of: FileOrPath::File(handles[0]), of_file_system: false }, Some(FileNotOpen)),
            (RootRequest::Truncate { of: FileOrPath::File(handles[0]), bytes: 1 }, Some(FileNotOpen)),
        ],
    );
}

#[test]
fn reads_end_at_the_end_of_the_file() {
    let node = node();
    let mut client = RootClient::log_in(&node);
    let file = client.open("/data/f", open_options::READ);
    for (offset, bytes, expected) in
        [(0, 9, "123456789"), (0, 100, "123456789"), (8, 1, "9"), (8, 2, "9"), (9, 1, ""), (100, 5, ""), (3, 0, "")]
    {
        assert_eq!(client.done(&RootRequest::Read(range(file, offset, bytes))), expected.as_bytes(), "{offset}");
    }
    assert!(outcome(&mut client, &RootRequest::Truncate { of: FileOrPath::File(file), bytes: 1 }).is_some());
    assert!(matches!(client.write(file, 0, b"x"), RootAnswer::Error { .. }), "it was opened for reading");
    assert_eq!(std::fs::read(node.path("data/f")).unwrap(), b"123456789");
}

#[test]
fn vectors_are_read_in_their_order_within_the_files() {
    let node = node();
    let mut client = RootClient::log_in(&node);
    let (one, other) = (client.open("/data/f", open_options::READ), client.open("/data/d/g", open_options::READ));
    let part = |file, offset, bytes| VectorPart { file, bytes, offset };
    let read = |parts: &[VectorPart]| RootRequest::ReadVector { parts: parts.to_vec(), path_id: 0 };
    // Each part comes behind its own description of 16 bytes.
    let body = client.done(&read(&[part(one, 7, 2), part(other, 0, 1), part(one, 0, 3)]));
    assert_eq!((&body[16..18], &body[34..35], &body[51..54]), (&b"89"[..], &b"g"[..], &b"123"[..]));
    assert_eq!(body.len(), 3 * 16 + 6);
    let many: Vec<VectorPart> = (0..1024).map(|at| part(one, at % 9, 1)).collect();
    assert_eq!(client.done(&read(&many)).len(), 1024 * 17);
    check(
        &mut client,
        &[
            (read(&[part(one, 0, 3), part(one, 8, 2)]), Some(ArgInvalid)),
            (read(&[part(one, 1 << 62, 1)]), Some(ArgInvalid)),
            (read(&[part(FileHandle([9; 4]), 0, 1)]), Some(FileNotOpen)),
        ],
    );
    client.done(&RootRequest::Ping);
}

#[test]
fn the_tree_is_changed_by_the_rules_of_its_entries() {
    let mv = |from: &str, to: &str| RootRequest::Move { from: path(from), to: path(to) };
    let mkdir = |name: &str, with_parents: bool| RootRequest::MakeDirectory { place: path(name), with_parents };
    let remove = |name: &str| RootRequest::Remove(path(name));
    let remove_dir = |name: &str| RootRequest::RemoveDirectory(path(name));
    for (request, expected) in [
        (mkdir("/data/new", false), None),
        (mkdir("/data/d", false), Some(Exists)),
        (mkdir("/data/d", true), None),
        (mkdir("/data/f", true), Some(Exists)),
        (mkdir("/data/a/b/c", false), Some(NotFound)),
        (mkdir("/data/a/b/c", true), None),
        (remove("/data/f"), None),
        (remove("/data/none"), Some(NotFound)),
        (remove("/data/d"), Some(IsDirectory)),
        (remove("/data"), Some(NotAuthorized)),
        (remove_dir("/data/empty"), None),
        (remove_dir("/data/d"), Some(Exists)),
        (remove_dir("/data/f"), Some(NotFile)),
        (remove_dir("/data/none"), Some(NotFound)),
        (mv("/data/f", "/data/h"), None),
        (mv("/data/f", "/data/d/g"), None),
        (mv("/data/d", "/data/e"), None),
        (mv("/data/d", "/data/d/e"), Some(ArgInvalid)),
        (mv("/data/none", "/data/h"), Some(NotFound)),
        (mv("/data/f", "/data/no/h"), Some(NotFound)),
        (mv("/data", "/data/d"), Some(NotAuthorized)),
        (mv("/data/f", "/other/f"), Some(NotFound)),
        (RootRequest::ChangeMode { place: path("/data/f"), mode: 0o600 }, None),
        (RootRequest::ChangeMode { place: path("/data/none"), mode: 0o600 }, Some(NotFound)),
        (RootRequest::Truncate { of: FileOrPath::Path(path("/data/f")), bytes: 4 }, None),
        (RootRequest::Truncate { of: FileOrPath::Path(path("/data/none")), bytes: 4 }, Some(NotFound)),
    ] {
        let node = node();
        let mut client = RootClient::log_in(&node);
        assert_eq!(outcome(&mut client, &request), expected, "{request:?}");
        // A refusal changes nothing, and ends nothing.
        client.done(&RootRequest::Ping);
        if expected.is_some() {
            assert_eq!(std::fs::read(node.path("data/f")).unwrap(), b"123456789", "{request:?}");
            assert_eq!(std::fs::read(node.path("data/d/g")).unwrap(), b"g", "{request:?}");
        }
    }
}

#[test]
fn facts_say_what_an_entry_is() {
    let node = node();
    let mut client = RootClient::log_in(&node);
    let (file, dir, root) = (facts(&mut client, "/data/f"), facts(&mut client, "/data/d"), facts(&mut client, "/"));
    assert_eq!((file.size, file.flags & entry_flags::DIRECTORY), (9, 0));
    assert!(dir.is_dir() && root.is_dir() && !file.is_dir());
    assert!(file.flags & entry_flags::READABLE != 0);
    check(
        &mut client,
        &[
            (RootRequest::Stat { of: FileOrPath::Path(path("/data/none")), of_file_system: false }, Some(NotFound)),
            (RootRequest::Stat { of: FileOrPath::Path(path("/data/f/x")), of_file_system: false }, Some(NotFile)),
            (RootRequest::Stat { of: FileOrPath::Path(path("/data")), of_file_system: true }, None),
        ],
    );
}

#[test]
fn directories_are_listed_with_and_without_facts() {
    let node = node();
    let mut client = RootClient::log_in(&node);
    let mut listed = |name: &str, options: u8| {
        let body = client.done(&RootRequest::List { place: path(name), options });
        let mut entries = parse_listing(&body, options & list_options::STAT != 0).unwrap();
        entries.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        entries
    };
    let names =
        |entries: &[xroot::entry::ListedEntry]| entries.iter().map(|one| one.name.to_string()).collect::<Vec<_>>();
    let (plain, with_facts) = (listed("/data", 0), listed("/data", list_options::STAT));
    assert_eq!(names(&plain), ["d", "empty", "f"]);
    assert_eq!(names(&with_facts), ["d", "empty", "f"]);
    assert_eq!(with_facts[2].facts.as_ref().unwrap().size, 9);
    assert!(with_facts[0].facts.as_ref().unwrap().is_dir());
    assert!(listed("/data/empty", 0).is_empty() && listed("/data/empty", list_options::STAT).is_empty());
    assert_eq!(names(&listed("/", 0)), ["data"]);
    check(
        &mut client,
        &[
            (RootRequest::List { place: path("/data/f"), options: 0 }, Some(NotFile)),
            (RootRequest::List { place: path("/data/none"), options: 0 }, Some(NotFound)),
        ],
    );
}

#[test]
fn attributes_are_kept_with_their_entry() {
    let node = node();
    let mut client = RootClient::log_in(&node);
    let ask =
        |name: &str, action| RootRequest::Attributes(AttributesRequest { of: FileOrPath::Path(path(name)), action });
    let set = |only_new| AttributesAction::Set { values: vec![(b"U.colour".to_vec(), b"red".to_vec())], only_new };
    let get = || AttributesAction::Get(vec![b"U.colour".to_vec()]);
    if let RootAnswer::Error { text, .. } = client.ask(&ask("/data/f", set(false))) {
        assert!(text.contains("not supported"), "a file system without attributes says so: {text}");
        return;
    }
    let has = |body: &[u8], text: &[u8]| body.windows(text.len()).any(|part| part == text);
    assert!(has(&client.done(&ask("/data/f", get())), b"red"));
    client.done(&RootRequest::Move { from: path("/data/f"), to: path("/data/h") });
    assert!(has(&client.done(&ask("/data/h", get())), b"red"), "a rename keeps them");
    assert!(has(&client.done(&ask("/data/h", AttributesAction::List { with_values: true })), b"U.colour\0"));
    client.done(&ask("/data/h", AttributesAction::Remove(vec![b"U.colour".to_vec()])));
    assert!(!has(&client.done(&ask("/data/h", get())), b"red"));
    assert_eq!(outcome(&mut client, &ask("/data/none", get())), Some(NotFound));
}

#[test]
fn queries_are_answered_or_refused_by_their_kind() {
    let node = node();
    let mut client = RootClient::log_in(&node);
    let query = |kind: QueryKind, text: &str| RootRequest::Query {
        kind: kind.number(),
        file: FileHandle::default(),
        text: text.as_bytes().to_vec(),
    };
    let text = |body: Vec<u8>| String::from_utf8(body).unwrap().trim_end_matches('\0').to_owned();
    let sum = |name: &str| query(QueryKind::Checksum, &format!("/data/f?cks.type={name}"));
    assert_eq!(text(client.done(&sum("adler32"))), "adler32 091e01de");
    assert_eq!(text(client.done(&sum("crc32c"))), "crc32c e3069283");
    assert_eq!(text(client.done(&sum("md5"))), "md5 25f9e794323b453885f5181f1b624d0b");
    assert!(text(client.done(&query(QueryKind::Space, "/data"))).contains("oss.free="));
    assert_eq!(text(client.done(&query(QueryKind::Configuration, "role nothing"))), "server\nnothing\n");
    check(
        &mut client,
        &[
            (query(QueryKind::Checksum, "/data/none"), Some(NotFound)),
            (query(QueryKind::Attributes, "/data/f"), None),
            (query(QueryKind::Attributes, "/data/none"), Some(NotFound)),
            (query(QueryKind::FileInfo, "/data/f"), Some(Unsupported)),
            (query(QueryKind::OpaqueOfFile, "ofs.tpc cancel"), Some(FileNotOpen)),
        ],
    );
}

#[test]
fn a_locate_names_this_server() {
    let node = node();
    let mut client = RootClient::log_in(&node);
    for name in ["/data/f", "/data/d", "/", "*/data/f"] {
        let body = String::from_utf8(client.done(&RootRequest::Locate(path(name)))).unwrap();
        let expected = format!("Sw127.0.0.1:{}", node.address.port());
        assert_eq!(body.trim_end_matches('\0'), expected, "{name}");
    }
    assert_eq!(outcome(&mut client, &RootRequest::Locate(path("/data/none"))), Some(NotFound));
}

#[test]
fn requests_that_no_client_needs_are_refused_in_step() {
    use xroot::RequestCode::{CopyFile, StatMany};
    let node = node();
    let mut client = RootClient::log_in(&node);
    for code in [CopyFile, StatMany] {
        let refused = outcome(&mut client, &RootRequest::Other(code)).unwrap();
        assert!(matches!(refused, Unsupported | InvalidRequest), "{code:?} {refused:?}");
        client.done(&RootRequest::Ping);
    }
}
