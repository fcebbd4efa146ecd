//! The encoding of every type of message, as one file each under `testdata/`.
//!
//! A change of these files is a change of the protocol and needs a new version number: two releases must understand each
//! other. `LONGHAUL_BLESS=1 cargo test -p wire --test golden` writes the files anew.

// Tests may unwrap; clippy.toml allows it in test functions only, not in the functions that they call.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "golden/movers.rs"]
mod movers;
#[path = "golden/samples.rs"]
mod samples;

use std::collections::BTreeSet;
use std::path::PathBuf;

use wire::Frame;
use wire::frame::{self, FrameBuffer};
use wire::join::Join;
use wire::record::{self, Head};
use wire::version::{SPOKEN, Version};

/// CRC-32C over all golden files, by version. A new line belongs to a new version; a line of a release never changes.
const PINNED: &[(Version, u32)] = &[(Version(2), 0x3b33_1498)];

/// Frames added since the newest version. A peer that does not know them ignores them, so they need no new version.
const IGNORABLE_SINCE: &[&str] = &[
    "frame-counts.hex",
    "frame-doubted.hex",
    "frame-lineage.hex",
    "frame-missed.hex",
    "frame-removing.hex",
    "frame-waited.hex",
];

fn testdata() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// 32 bytes to the line.
fn hex(bytes: &[u8]) -> String {
    let line = |chunk: &[u8]| chunk.iter().map(|b| format!("{b:02x}")).collect::<String>() + "\n";
    bytes.chunks(32).map(line).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// A message of every type.
fn frames() -> Vec<(&'static str, Vec<Frame>)> {
    samples::frames().into_iter().chain(movers::frames(samples::push_order())).collect()
}

/// Every golden file's name and expected bytes, in order.
fn expected() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, frames) in frames() {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame::encode(frame, &mut bytes));
        all.push((format!("frame-{name}.hex"), bytes));
    }
    all.push(("record.hex".into(), samples::record().concat()));
    all.push(("join.hex".into(), samples::join().encode().to_vec()));
    all.sort();
    all
}

#[test]
fn encodings_equal_the_golden_files() {
    if std::env::var_os("LONGHAUL_BLESS").is_some() {
        std::fs::create_dir_all(testdata()).unwrap();
        for (name, bytes) in expected() {
            std::fs::write(testdata().join(name), hex(&bytes)).unwrap();
        }
    }
    for (name, bytes) in expected() {
        let golden = std::fs::read_to_string(testdata().join(&name)).unwrap_or_default();
        assert_eq!(hex(&bytes), golden, "{name}: {}", ADVICE);
    }
    let found: BTreeSet<String> =
        std::fs::read_dir(testdata()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    let names: BTreeSet<String> = expected().into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, names, "files under testdata/ and samples");
}

const ADVICE: &str = "the encoding differs from the golden file. If that is intended, it is a new protocol version: \
                      add it to wire::version::SPOKEN, run with LONGHAUL_BLESS=1, and add the new checksum to PINNED";

#[test]
fn golden_files_have_the_checksum_of_the_newest_version() {
    let mut all = Vec::new();
    for (name, _) in expected().into_iter().filter(|(name, _)| !IGNORABLE_SINCE.contains(&&name[..])) {
        all.extend_from_slice(name.as_bytes());
        all.extend_from_slice(&std::fs::read(testdata().join(name)).unwrap());
    }
    let crc = model::checksum::crc32c(&all);
    let newest = PINNED.last().unwrap();
    assert_eq!(SPOKEN[0], newest.0, "every version has its line in PINNED");
    assert_eq!(crc, newest.1, "the golden files are {crc:#010x}, not those of version {}: {ADVICE}", newest.0.0);
}

#[test]
fn golden_files_decode_to_the_samples() {
    for (name, frames) in frames() {
        let text = std::fs::read_to_string(testdata().join(format!("frame-{name}.hex"))).unwrap();
        let mut buffer = FrameBuffer::default();
        buffer.push(&unhex(&text));
        for frame in frames {
            assert_eq!(buffer.next_frame(), Ok(Some(frame)), "{name}");
        }
        assert_eq!(buffer.next_frame(), Ok(None), "{name}");
    }
    let bytes = unhex(&std::fs::read_to_string(testdata().join("record.hex")).unwrap());
    let head = Head::decode(bytes.first_chunk().unwrap()).unwrap();
    let (parts, payload) = samples::parts();
    assert_eq!(record::decode_table(&head, &bytes[record::HEAD_BYTES..]), Ok(parts));
    assert_eq!(&bytes[record::HEAD_BYTES + head.table_len()..], payload);
    let bytes = unhex(&std::fs::read_to_string(testdata().join("join.hex")).unwrap());
    assert_eq!(Join::decode(&bytes), Ok(samples::join()));
}

#[test]
fn every_type_has_a_golden_file() {
    let types: BTreeSet<u8> = expected().iter().filter(|(n, _)| n.starts_with("frame-")).map(|(_, b)| b[4]).collect();
    let known: BTreeSet<u8> =
        (0..=255).filter(|t| !matches!(frame::decode(*t, &[]), Err(wire::WireError::Unknown(_)))).collect();
    assert_eq!(types, known);
}
