//! Writes requests.

use crate::codes::RequestCode;
use crate::head::{RequestHead, StreamId};
use crate::place::FileOrPath;
use crate::request::{FileRange, Purpose, RootRequest, VectorPart};

/// The fields of a head that are being filled.
#[derive(Default)]
struct HeadFields {
    bytes: [u8; 16],
    at: usize,
}

impl HeadFields {
    fn put(mut self, bytes: &[u8]) -> HeadFields {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    fn skip(mut self, bytes: usize) -> HeadFields {
        self.at += bytes;
        self
    }

    fn range(self, range: &FileRange) -> HeadFields {
        self.put(&range.file.0).put(&range.offset.to_be_bytes())
    }
}

/// The fields and the payload of a request.
struct Written {
    code: RequestCode,
    fields: HeadFields,
    payload: Vec<u8>,
    /// Bytes of data that follow.
    data_bytes: u32,
}

fn written(code: RequestCode, fields: HeadFields, payload: Vec<u8>) -> Written {
    Written { code, fields, payload, data_bytes: 0 }
}

impl RootRequest {
    /// Writes the request. Data of a write follow it.
    pub fn to_bytes(&self, stream: StreamId) -> Vec<u8> {
        let Written { code, fields, payload, data_bytes } = self.written();
        let payload_bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX).saturating_add(data_bytes);
        let head = RequestHead { stream, code: code.number(), fields: fields.bytes, payload_bytes };
        [&head.to_bytes()[..], &payload].concat()
    }

    fn written(&self) -> Written {
        let none = HeadFields::default;
        match self {
            RootRequest::Protocol { version, flags, purpose } => {
                let fields = none().put(&version.to_be_bytes()).put(&[*flags, purpose_number(*purpose)]);
                written(RequestCode::Protocol, fields, Vec::new())
            }
            RootRequest::Login { process, user, is_able_tls, takes_async, about } => {
                let mut name = [0; 8];
                let bytes = user.len().min(8);
                name[..bytes].copy_from_slice(&user.as_bytes()[..bytes]);
                let version = if *is_able_tls { 5 } else { 3 } | if *takes_async { 0x80 } else { 0 };
                let fields = none().put(&process.to_be_bytes()).put(&name).skip(2).put(&[version]);
                // A list of names and values without the path.
                let about = about.to_bytes().split_off(1);
                written(RequestCode::Login, fields, about)
            }
            RootRequest::Authenticate { kind, credential } => {
                written(RequestCode::Auth, none().skip(12).put(&kind.0), credential.clone())
            }
            RootRequest::Bind(session) => written(RequestCode::Bind, none().put(&session.0), Vec::new()),
            RootRequest::EndSession(session) => written(RequestCode::EndSession, none().put(&session.0), Vec::new()),
            RootRequest::Ping => written(RequestCode::Ping, none(), Vec::new()),
            RootRequest::Open { place, mode, options } => {
                let fields = none().put(&mode.to_be_bytes()).put(&options.to_be_bytes());
                written(RequestCode::Open, fields, place.to_bytes())
            }
            RootRequest::Close(file) => written(RequestCode::Close, none().put(&file.0), Vec::new()),
            RootRequest::Sync(file) => written(RequestCode::Sync, none().put(&file.0), Vec::new()),
            RootRequest::Read(_)
            | RootRequest::PageRead { .. }
            | RootRequest::ReadVector { .. }
            | RootRequest::Write(_)
            | RootRequest::PageWrite { .. }
            | RootRequest::WriteVector { .. } => self.written_ranges(),
            RootRequest::Truncate { of, bytes } => {
                let (fields, payload) = file_or_place(none(), of);
                written(RequestCode::Truncate, fields.put(&bytes.to_be_bytes()), payload)
            }
            RootRequest::Stat { of, of_file_system } => {
                let (fields, payload) = file_or_place(none().put(&[u8::from(*of_file_system)]).skip(11), of);
                written(RequestCode::Stat, fields, payload)
            }
            RootRequest::List { .. }
            | RootRequest::MakeDirectory { .. }
            | RootRequest::Move { .. }
            | RootRequest::Remove(_)
            | RootRequest::RemoveDirectory(_)
            | RootRequest::ChangeMode { .. } => self.written_changes(),
            RootRequest::Query { kind, file, text } => {
                written(RequestCode::Query, none().put(&kind.to_be_bytes()).skip(2).put(&file.0), text.clone())
            }
            RootRequest::Locate(place) => written(RequestCode::Locate, none(), place.to_bytes()),
            RootRequest::Prepare { options, more_options, lines } => {
                let fields = none().put(&[*options]).skip(3).put(&more_options.to_be_bytes());
                written(RequestCode::Prepare, fields, lines.join(&b'\n'))
            }
            RootRequest::Attributes(attributes) => {
                let (fields, payload) = attributes.to_parts();
                written(RequestCode::Attributes, none().put(&fields), payload)
            }
            RootRequest::Set => written(RequestCode::Set, none(), Vec::new()),
            RootRequest::Other(code) => written(*code, none(), Vec::new()),
        }
    }

    /// Listings, and changes of the tree.
    fn written_changes(&self) -> Written {
        let none = HeadFields::default;
        match self {
            RootRequest::List { place, options } => {
                written(RequestCode::List, none().skip(15).put(&[*options]), place.to_bytes())
            }
            RootRequest::MakeDirectory { place, with_parents } => {
                let fields = none().put(&[u8::from(*with_parents)]).skip(13).put(&0o755_u16.to_be_bytes());
                written(RequestCode::MakeDirectory, fields, place.to_bytes())
            }
            RootRequest::Move { from, to } => {
                let (from, to) = (from.to_bytes(), to.to_bytes());
                let length = u16::try_from(from.len()).unwrap_or(0);
                let fields = none().skip(14).put(&length.to_be_bytes());
                written(RequestCode::Move, fields, [&from[..], b" ", &to].concat())
            }
            RootRequest::Remove(place) => written(RequestCode::Remove, none(), place.to_bytes()),
            RootRequest::RemoveDirectory(place) => written(RequestCode::RemoveDirectory, none(), place.to_bytes()),
            RootRequest::ChangeMode { place, mode } => {
                written(RequestCode::ChangeMode, none().skip(14).put(&mode.to_be_bytes()), place.to_bytes())
            }
            other => other.written(),
        }
    }

    /// Requests about ranges of files.
    fn written_ranges(&self) -> Written {
        let none = HeadFields::default;
        match self {
            RootRequest::Read(range) => {
                let fields = none().range(range).put(&range.bytes.to_be_bytes());
                let payload = if range.path_id == 0 { Vec::new() } else { vec![range.path_id, 0, 0, 0, 0, 0, 0, 0] };
                written(RequestCode::Read, fields, payload)
            }
            RootRequest::PageRead { range, is_repeated } => {
                let fields = none().range(range).put(&range.bytes.to_be_bytes());
                written(RequestCode::PageRead, fields, vec![range.path_id, u8::from(*is_repeated)])
            }
            RootRequest::ReadVector { parts, path_id } => {
                written(RequestCode::ReadVector, none().skip(15).put(&[*path_id]), list(parts))
            }
            RootRequest::Write(range) => {
                let fields = none().range(range).put(&[range.path_id]);
                Written { data_bytes: range.bytes, ..written(RequestCode::Write, fields, Vec::new()) }
            }
            RootRequest::PageWrite { range, is_repeated } => {
                let fields = none().range(range).put(&[range.path_id, u8::from(*is_repeated)]);
                Written { data_bytes: range.bytes, ..written(RequestCode::PageWrite, fields, Vec::new()) }
            }
            RootRequest::WriteVector { parts, is_synced } => {
                written(RequestCode::WriteVector, none().put(&[u8::from(*is_synced)]), list(parts))
            }
            other => other.written(),
        }
    }
}

fn purpose_number(purpose: Purpose) -> u8 {
    match purpose {
        Purpose::Unknown => 0,
        Purpose::Bind => 1,
        Purpose::Login => 3,
        Purpose::Copy => 4,
        Purpose::Other(number) => number,
    }
}

fn file_or_place(fields: HeadFields, of: &FileOrPath) -> (HeadFields, Vec<u8>) {
    match of {
        FileOrPath::File(file) => (fields.put(&file.0), Vec::new()),
        FileOrPath::Path(place) => (fields.skip(4), place.to_bytes()),
    }
}

fn list(parts: &[VectorPart]) -> Vec<u8> {
    let part = |part: &VectorPart| [&part.file.0[..], &part.bytes.to_be_bytes(), &part.offset.to_be_bytes()].concat();
    parts.iter().flat_map(part).collect()
}
