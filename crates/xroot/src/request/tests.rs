//! Requests as bytes, and back.

use super::*;
use crate::attributes::AttributesAction;
use crate::codes::open_options;
use crate::head::{RequestHead, StreamId};
use crate::{Malformed, QueryKind};

fn place(text: &str) -> RootPath {
    RootPath::parse(text.as_bytes()).unwrap()
}

fn parse(bytes: &[u8]) -> Result<RootRequest, Malformed> {
    let (head, payload) = bytes.split_first_chunk().unwrap();
    let head = RequestHead::parse(head)?;
    assert_eq!(payload.len() as u32, head.payload_bytes - head.data_bytes());
    RootRequest::parse(&head, payload)
}

const FILE: FileHandle = FileHandle([0, 0, 0, 7]);

fn range(path_id: u8) -> FileRange {
    FileRange { file: FILE, offset: 1 << 40, bytes: 8 << 20, path_id }
}

#[test]
fn requests_are_parsed_as_they_are_written() {
    let part = VectorPart { file: FILE, bytes: 5, offset: 9 };
    let about = RootPath::default().with("xrd.appname", "cp");
    for request in [
        RootRequest::Protocol { version: 0x511, flags: 3, purpose: Purpose::Login },
        RootRequest::Login { process: 7, user: "ann".into(), is_able_tls: true, takes_async: true, about },
        RootRequest::Authenticate { kind: CredentialKind::TOKEN, credential: b"ztn\0x".to_vec() },
        RootRequest::Bind(SessionId([4; 16])),
        RootRequest::EndSession(SessionId([5; 16])),
        RootRequest::Ping,
        RootRequest::Open { place: place("/data/f?oss.asize=3"), mode: 0o644, options: open_options::NEW },
        RootRequest::Close(FILE),
        RootRequest::Read(range(0)),
        RootRequest::Read(range(3)),
        RootRequest::PageRead { range: range(2), is_repeated: true },
        RootRequest::ReadVector { parts: vec![part, VectorPart { offset: 0, ..part }], path_id: 1 },
        RootRequest::Write(range(0)),
        RootRequest::PageWrite { range: range(0), is_repeated: true },
        RootRequest::WriteVector { parts: vec![part], is_synced: true },
        RootRequest::Sync(FILE),
        RootRequest::Truncate { of: FileOrPath::File(FILE), bytes: 12 },
        RootRequest::Truncate { of: FileOrPath::Path(place("/data/f")), bytes: 12 },
        RootRequest::Stat { of: FileOrPath::File(FILE), of_file_system: false },
        RootRequest::Stat { of: FileOrPath::Path(place("/data")), of_file_system: true },
        RootRequest::List { place: place("/data"), options: 2 },
        RootRequest::MakeDirectory { place: place("/data/d"), with_parents: true },
        RootRequest::Move { from: place("/data/a b"), to: place("/data/c d") },
        RootRequest::Remove(place("/data/f")),
        RootRequest::RemoveDirectory(place("/data/d")),
        RootRequest::ChangeMode { place: place("/data/f"), mode: 0o600 },
        RootRequest::Query {
            kind: QueryKind::Checksum.number(),
            file: FileHandle::default(),
            text: b"/data/f".to_vec(),
        },
        RootRequest::Locate(place("/data/f")),
        RootRequest::Prepare { options: 8, more_options: 1, lines: vec![b"/data/f".to_vec(), b"/data/g".to_vec()] },
        RootRequest::Set,
    ] {
        assert_eq!(parse(&request.to_bytes(StreamId([0, 1]))), Ok(request));
    }
}

#[test]
fn requests_about_attributes_are_parsed_as_they_are_written() {
    let names = vec![b"a".to_vec(), b"b".to_vec()];
    for action in [
        AttributesAction::Remove(names.clone()),
        AttributesAction::Get(names),
        AttributesAction::List { with_values: true },
        AttributesAction::Set {
            values: vec![(b"a".to_vec(), vec![0, 1]), (b"b".to_vec(), Vec::new())],
            only_new: true,
        },
    ] {
        for of in [FileOrPath::File(FILE), FileOrPath::Path(place("/data/f"))] {
            let request = RootRequest::Attributes(AttributesRequest { of, action: action.clone() });
            assert_eq!(parse(&request.to_bytes(StreamId::default())), Ok(request));
        }
    }
}

#[test]
fn an_open_has_the_bytes_of_the_specification() {
    let request = RootRequest::Open { place: place("/data/f"), mode: 0o644, options: open_options::READ };
    let bytes = request.to_bytes(StreamId([0, 1]));
    assert_eq!(bytes[..8], [0, 1, 0x0b, 0xc2, 0x01, 0xa4, 0, 0x10]);
    assert_eq!(bytes[20..], [&[0, 0, 0, 7][..], b"/data/f"].concat());
}

#[test]
fn a_rename_without_a_length_is_split_at_its_blank() {
    let mut bytes = RootRequest::Move { from: place("/a"), to: place("/b") }.to_bytes(StreamId::default());
    bytes[18..20].copy_from_slice(&[0, 0]);
    assert_eq!(parse(&bytes), Ok(RootRequest::Move { from: place("/a"), to: place("/b") }));
}

#[test]
fn impossible_fields_are_refused() {
    let bytes = |request: RootRequest| request.to_bytes(StreamId::default());
    let mut negative = bytes(RootRequest::Read(range(0)));
    negative[8] = 0x80;
    assert_eq!(parse(&negative), Err(Malformed::Field("the offset")));
    let mut length = bytes(RootRequest::Ping);
    length[20] = 0xff;
    assert_eq!(parse(&length), Err(Malformed::Length));
    let mut code = bytes(RootRequest::Ping);
    code[3] = 0;
    assert!(matches!(parse(&code), Err(Malformed::Code(_))));
    let part = VectorPart { file: FILE, bytes: 1, offset: 0 };
    let too_many = RootRequest::ReadVector { parts: vec![part; 1025], path_id: 0 };
    assert!(matches!(parse(&bytes(too_many)), Err(Malformed::TooLong { .. })));
    let nowhere = RootRequest::Move { from: place("/a"), to: place("/b") };
    let mut nowhere = bytes(nowhere);
    nowhere[18..20].copy_from_slice(&[0, 200]);
    assert!(parse(&nowhere).is_err());
}
