//! Helpers of the store's integration tests: paths, files, and the report of a skipped test.

use std::io::Write;
use std::sync::Arc;

use model::name::RelPath;
use model::{Meta, Timestamp};
use store::{Finish, Result, Source, Store};

/// A path below the root.
pub fn path(bytes: impl AsRef<[u8]>) -> RelPath {
    RelPath::parse(bytes.as_ref()).unwrap()
}

/// The usual [`Finish`] for a file of this size.
pub fn finish(size: u64) -> Finish {
    let mtime = Timestamp { seconds: 1_700_000_000, nanos: 123_456_789 };
    Finish { size, mode: 0o644, mtime, durable: false, replace: true, attributes: None }
}

/// Writes a whole file and gives it its name.
pub fn write(store: &dyn Store, at: &RelPath, bytes: &[u8]) -> Result<()> {
    let sink = store.create(at, "test")?;
    sink.write_at(bytes, 0)?;
    sink.commit(&finish(bytes.len() as u64))
}

/// Reads a whole file.
pub fn read(store: &dyn Store, at: &RelPath) -> Result<Vec<u8>> {
    let source: Arc<dyn Source> = store.open(at)?;
    let mut bytes = vec![0; source.stat()?.meta.size as usize + 1];
    let got = source.read_at(&mut bytes, 0)?;
    bytes.truncate(got);
    Ok(bytes)
}

/// The metadata of an entry.
pub fn meta(store: &dyn Store, at: &RelPath) -> Meta {
    store.stat(at).unwrap().meta
}

/// The names in a directory, sorted.
pub fn names(store: &dyn Store, at: &RelPath) -> Vec<Vec<u8>> {
    let entries = store.list(at).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().0.as_bytes().to_vec()).collect();
    names.sort();
    names
}

/// Bytes that differ from block to block, so that a block in the wrong place shows.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 ^ (at >> 12) as u8).collect()
}

/// Reports that a test could not run on this machine. Writes to standard error directly, because the test harness hides what a
/// passing test prints with `eprintln`.
pub fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}
