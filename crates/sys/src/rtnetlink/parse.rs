//! Messages of netlink, read and written: plain functions of bytes that never read beyond them.
//!
//! All numbers are in host byte order; messages and attributes begin at multiples of four.

/// Bytes before the body of a message: length, kind, flags, sequence number, destination.
pub(super) const HEAD_BYTES: usize = 16;
/// Bytes before the value of an attribute: length and kind.
const ATTRIBUTE_HEAD_BYTES: usize = 4;
/// The bits of an attribute's kind that are its number; the others mean "nested" and "in network byte order".
const KIND_MASK: u16 = 0x3fff;

fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    pub body: &'a [u8],
}

/// The messages in these bytes, up to the first that is incomplete, or whose length is shorter than its head.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let whole = bytes.get(..length).filter(|whole| whole.len() >= HEAD_BYTES)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        let (kind, flags, sequence) = (u16_at(whole, 4)?, u16_at(whole, 6)?, u32_at(whole, 8)?);
        Some(Message { kind, flags, sequence, body: whole.get(HEAD_BYTES..)? })
    })
}

/// The attributes in these bytes, as number and value; they end like [`messages`].
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let whole = bytes.get(..length).filter(|whole| whole.len() >= ATTRIBUTE_HEAD_BYTES)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some((u16_at(whole, 2)? & KIND_MASK, whole.get(ATTRIBUTE_HEAD_BYTES..)?))
    })
}

/// The value of the attribute with this number.
pub(super) fn attribute(bytes: &[u8], number: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == number).map(|(_, value)| value)
}

/// Text up to its first zero.
pub(super) fn text(value: &[u8]) -> String {
    let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// A request: head, fixed part, attributes.
pub(super) fn request(kind: u16, flags: u16, sequence: u32, fixed: &[u8], with: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES];
    bytes.extend_from_slice(fixed);
    for (number, value) in with {
        bytes.resize(aligned(bytes.len()), 0);
        // All values here are a few bytes long: names and numbers.
        let length = u16::try_from(ATTRIBUTE_HEAD_BYTES + value.len()).unwrap_or(u16::MAX);
        bytes.extend_from_slice(&length.to_ne_bytes());
        bytes.extend_from_slice(&number.to_ne_bytes());
        bytes.extend_from_slice(value);
    }
    bytes.resize(aligned(bytes.len()), 0);
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let head = [length.to_ne_bytes(), join(kind, flags), sequence.to_ne_bytes(), [0; 4]].concat();
    bytes.splice(..HEAD_BYTES, head);
    bytes
}

fn join(kind: u16, flags: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (kind.to_ne_bytes(), flags.to_ne_bytes());
    [a, b, c, d]
}
