//! Bounds on what a peer may send.

/// The most elements of a vector read or a vector write.
pub const VECTOR_PARTS_MAX: usize = 1024;
/// The most bytes of one element of a vector read: 2 MiB less the head of its answer.
pub const VECTOR_PART_BYTES_MAX: u32 = (2 << 20) - 16;
/// The most bytes of a path with its parameters.
pub const PLACE_BYTES_MAX: usize = 32 << 10;
/// The most bytes of a payload that is read into memory as a whole: two paths, a list of files to prepare, credentials, attributes.
pub const PAYLOAD_BYTES_MAX: u32 = 2 << 20;
/// The most bytes of a credential.
pub const CREDENTIAL_BYTES_MAX: usize = 64 << 10;
/// The most bytes of one write; clients send 8 MiB.
pub const WRITE_BYTES_MAX: u32 = 1 << 30;
/// The most attributes in one request.
pub const ATTRIBUTES_MAX: usize = 16;
/// The longest name of an attribute, bytes.
pub const ATTRIBUTE_NAME_BYTES_MAX: usize = 248;
/// The longest value of an attribute, bytes.
pub const ATTRIBUTE_VALUE_BYTES_MAX: usize = 64 << 10;
/// Data streams of a session besides its control stream.
pub const STREAMS_MAX: usize = 15;
/// The most bytes of data in one part of an answer with page checksums.
pub const PAGES_ANSWER_BYTES_MAX: usize = 511 * crate::pages::PAGE_BYTES;
/// The longest answer that a client reads into memory, bytes: parts of a directory, an error, a list of checksums.
pub const ANSWER_BYTES_MAX: u32 = 16 << 20;

const _: () =
    assert!(ATTRIBUTES_MAX * (ATTRIBUTE_VALUE_BYTES_MAX + ATTRIBUTE_NAME_BYTES_MAX) < PAYLOAD_BYTES_MAX as usize);
const _: () = assert!(VECTOR_PARTS_MAX * 16 < PAYLOAD_BYTES_MAX as usize);
