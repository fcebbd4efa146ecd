//! Parses requests.

use crate::Malformed;
use crate::attributes::AttributesRequest;
use crate::bytes::{Fields, before_nul};
use crate::codes::{RequestCode, prepare_options};
use crate::credentials::CredentialKind;
use crate::head::{FileHandle, RequestHead, SessionId};
use crate::limits::{VECTOR_PARTS_MAX, WRITE_BYTES_MAX};
use crate::place::{FileOrPath, RootPath, pairs};
use crate::request::{FileRange, Purpose, RootRequest, VectorPart};

/// Bytes of an element of a vector.
const PART_BYTES: usize = 16;

impl RootRequest {
    /// Parses a request. The payload is empty where it is data ([`RequestHead::data_bytes`]).
    ///
    /// # Errors
    /// The code is not known, or a field is missing or not valid.
    pub fn parse(head: &RequestHead, payload: &[u8]) -> Result<RootRequest, Malformed> {
        let mut fields = Fields(&head.fields);
        let fields = &mut fields;
        let place = || RootPath::parse(payload);
        Ok(match head.kind()? {
            RequestCode::Protocol => protocol(fields)?,
            RequestCode::Login => login(fields, payload)?,
            RequestCode::Auth => {
                fields.take(12, "the reserved bytes")?;
                let kind = CredentialKind(fields.array("the kind of the credential")?);
                RootRequest::Authenticate { kind, credential: payload.to_vec() }
            }
            RequestCode::Bind => RootRequest::Bind(SessionId(fields.array("the session")?)),
            RequestCode::EndSession => RootRequest::EndSession(SessionId(fields.array("the session")?)),
            RequestCode::Ping => RootRequest::Ping,
            RequestCode::Open => {
                let (mode, options) = (fields.u16("the mode")?, fields.u16("the options")?);
                RootRequest::Open { place: place()?, mode, options }
            }
            RequestCode::Close => RootRequest::Close(handle(fields)?),
            RequestCode::Read
            | RequestCode::PageRead
            | RequestCode::ReadVector
            | RequestCode::Write
            | RequestCode::PageWrite
            | RequestCode::WriteVector => of_ranges(head, fields, payload)?,
            RequestCode::Sync => RootRequest::Sync(handle(fields)?),
            RequestCode::Truncate => {
                let file = handle(fields)?;
                let bytes = fields.offset("the length")?;
                RootRequest::Truncate { of: file_or_place(file, payload)?, bytes }
            }
            RequestCode::Stat => {
                let of_file_system = fields.u8("the options")? & 1 != 0;
                fields.take(11, "the reserved bytes")?;
                RootRequest::Stat { of: file_or_place(handle(fields)?, payload)?, of_file_system }
            }
            RequestCode::List => RootRequest::List { place: place()?, options: head.fields[15] },
            RequestCode::MakeDirectory => {
                RootRequest::MakeDirectory { place: place()?, with_parents: fields.u8("the options")? & 1 != 0 }
            }
            RequestCode::Move => both_places(fields, payload)?,
            RequestCode::Remove => RootRequest::Remove(place()?),
            RequestCode::RemoveDirectory => RootRequest::RemoveDirectory(place()?),
            RequestCode::ChangeMode => {
                fields.take(14, "the reserved bytes")?;
                RootRequest::ChangeMode { place: place()?, mode: fields.u16("the mode")? }
            }
            RequestCode::Query => {
                let kind = fields.u16("the kind of the query")?;
                fields.take(2, "the reserved bytes")?;
                RootRequest::Query { kind, file: handle(fields)?, text: before_nul(payload).to_vec() }
            }
            RequestCode::Locate => RootRequest::Locate(place()?),
            RequestCode::Prepare => prepare(fields, payload)?,
            RequestCode::Attributes => RootRequest::Attributes(AttributesRequest::parse(fields, payload)?),
            RequestCode::Set => RootRequest::Set,
            other => RootRequest::Other(other),
        })
    }
}

/// Requests about ranges of files.
fn of_ranges(head: &RequestHead, fields: &mut Fields<'_>, payload: &[u8]) -> Result<RootRequest, Malformed> {
    Ok(match head.kind()? {
        RequestCode::Read => RootRequest::Read(read_range(fields, payload)?),
        RequestCode::PageRead => {
            let range = read_range(fields, payload)?;
            RootRequest::PageRead { range, is_repeated: payload.get(1).is_some_and(|flags| flags & 1 != 0) }
        }
        RequestCode::ReadVector => {
            fields.take(15, "the reserved bytes")?;
            RootRequest::ReadVector { parts: parts(payload)?, path_id: fields.u8("the stream")? }
        }
        RequestCode::Write => RootRequest::Write(written_range(fields, head)?),
        RequestCode::PageWrite => {
            let range = written_range(fields, head)?;
            RootRequest::PageWrite { range, is_repeated: fields.u8("the flags")? & 1 != 0 }
        }
        RequestCode::WriteVector => {
            RootRequest::WriteVector { parts: parts(payload)?, is_synced: fields.u8("the options")? & 1 != 0 }
        }
        other => RootRequest::Other(other),
    })
}

fn handle(fields: &mut Fields<'_>) -> Result<FileHandle, Malformed> {
    Ok(FileHandle(fields.array("the file handle")?))
}

/// A path, or an open file where there is no path.
fn file_or_place(file: FileHandle, payload: &[u8]) -> Result<FileOrPath, Malformed> {
    Ok(if payload.is_empty() { FileOrPath::File(file) } else { FileOrPath::Path(RootPath::parse(payload)?) })
}

fn protocol(fields: &mut Fields<'_>) -> Result<RootRequest, Malformed> {
    let (version, flags) = (fields.u32("the version")?, fields.u8("the flags")?);
    let purpose = match fields.u8("the purpose")? & 0x0f {
        0 => Purpose::Unknown,
        1 => Purpose::Bind,
        3 => Purpose::Login,
        4 => Purpose::Copy,
        other => Purpose::Other(other),
    };
    Ok(RootRequest::Protocol { version, flags, purpose })
}

fn login(fields: &mut Fields<'_>, payload: &[u8]) -> Result<RootRequest, Malformed> {
    let process = fields.u32("the process")?;
    let user: [u8; 8] = fields.array("the user")?;
    fields.take(2, "the abilities")?;
    let version = fields.u8("the version")?;
    let text = String::from_utf8_lossy(before_nul(payload)).into_owned();
    let about = pairs(text.trim_start_matches('?'));
    let about = about.into_iter().fold(RootPath::default(), |about, (name, value)| about.with(&name, value));
    Ok(RootRequest::Login {
        process,
        user: String::from_utf8_lossy(before_nul(&user)).trim().to_owned(),
        is_able_tls: version & 0x3f >= 5,
        takes_async: version & 0x80 != 0,
        about,
    })
}

/// The range of a read. The stream for the answer may be in the payload.
fn read_range(fields: &mut Fields<'_>, payload: &[u8]) -> Result<FileRange, Malformed> {
    let file = handle(fields)?;
    let (offset, bytes) = (fields.offset("the offset")?, fields.length("the length")?);
    Ok(FileRange { file, offset, bytes, path_id: payload.first().copied().unwrap_or(0) })
}

/// The range of a write, of which the head has the length.
fn written_range(fields: &mut Fields<'_>, head: &RequestHead) -> Result<FileRange, Malformed> {
    let file = handle(fields)?;
    let (offset, path_id) = (fields.offset("the offset")?, fields.u8("the stream")?);
    let bytes = head.payload_bytes;
    if bytes > WRITE_BYTES_MAX {
        return Err(Malformed::TooLong { bytes: bytes.into(), limit: WRITE_BYTES_MAX.into() });
    }
    Ok(FileRange { file, offset, bytes, path_id })
}

fn parts(payload: &[u8]) -> Result<Vec<VectorPart>, Malformed> {
    if payload.is_empty() || !payload.len().is_multiple_of(PART_BYTES) {
        return Err(Malformed::Field("an element of the list"));
    }
    if payload.len() / PART_BYTES > VECTOR_PARTS_MAX {
        let limit = (VECTOR_PARTS_MAX * PART_BYTES) as u64;
        return Err(Malformed::TooLong { bytes: payload.len() as u64, limit });
    }
    let part = |bytes: &[u8]| {
        let mut fields = Fields(bytes);
        let (file, bytes) = (handle(&mut fields)?, fields.length("the length of an element")?);
        Ok(VectorPart { file, bytes, offset: fields.offset("the offset of an element")? })
    };
    payload.chunks_exact(PART_BYTES).map(part).collect()
}

/// Both names of a rename: their lengths are given, or a blank is between them.
fn both_places(fields: &mut Fields<'_>, payload: &[u8]) -> Result<RootRequest, Malformed> {
    const WHAT: Malformed = Malformed::Field("the new name");
    fields.take(14, "the reserved bytes")?;
    let first = usize::from(fields.u16("the length of the name")?);
    let payload = before_nul(payload);
    let at = if first > 0 { first } else { payload.iter().position(|byte| *byte == b' ').ok_or(WHAT)? };
    let (from, to) = payload.split_at_checked(at).ok_or(WHAT)?;
    let to = to.strip_prefix(b" ").filter(|to| !to.is_empty()).ok_or(WHAT)?;
    Ok(RootRequest::Move { from: RootPath::parse(from)?, to: RootPath::parse(to)? })
}

fn prepare(fields: &mut Fields<'_>, payload: &[u8]) -> Result<RootRequest, Malformed> {
    let options = fields.u8("the options")?;
    fields.take(3, "the priority")?;
    let more_options = fields.u16("the options")?;
    let lines = before_nul(payload).split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines: Vec<Vec<u8>> = lines.map(<[u8]>::to_vec).collect();
    if lines.is_empty() && options & prepare_options::CANCEL == 0 {
        return Err(Malformed::Field("the list of files"));
    }
    Ok(RootRequest::Prepare { options, more_options, lines })
}
