//! Digests of files, for every protocol. Over HTTP a digest is computed once: it is kept in a note on the file itself (an extended
//! attribute), else in the state directory, and is void as soon as the file has changed. A request of the native protocol always reads
//! the bytes.
//!
//! A note states the size, time of change and inode that its digests are valid for. None is written for a file that changed a moment
//! ago, because another change within the same tick of the clock would not show. Simultaneous requests for the same digest of the
//! same file read it once ([`permits`]), and nothing is read for a client that has hung up.

mod permits;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use model::checksum::Digest;
use model::{Algorithm, RelPath, Timestamp};
use parking_lot::Mutex;
use store::Source;

use self::permits::{NoPermit, ReadPermits};

/// The name of the note.
const NOTE: &str = "digests";
/// A file that changed more recently than this may change again without a new time of change.
const SETTLED_AFTER: Duration = Duration::from_millis(50);
/// Rows in the state directory, for files whose file system keeps no notes.
const ROWS_MAX: usize = 100_000;

/// The state of a file that a digest is valid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub size: u64,
    pub mtime: Timestamp,
    pub inode: u64,
}

type Key = (u64, u64);

/// The digests that the node has computed.
pub(crate) struct Digests {
    rows_file: PathBuf,
    /// Notes by device and inode, for files that keep no notes; read from the state directory when first needed.
    rows: Mutex<Option<HashMap<Key, String>>>,
    /// Permits to read files for their digests.
    permits: ReadPermits<(Key, Algorithm)>,
}

/// Why there is no digest.
#[derive(Debug)]
pub(crate) enum NoDigest {
    /// The client has hung up.
    Gone,
    /// Too many digests are being computed.
    Busy,
    /// The file cannot be read.
    Store(store::Error),
}

impl From<store::Error> for NoDigest {
    fn from(error: store::Error) -> NoDigest {
        NoDigest::Store(error)
    }
}

impl From<NoPermit> for NoDigest {
    fn from(why: NoPermit) -> NoDigest {
        match why {
            NoPermit::Gone => NoDigest::Gone,
            NoPermit::Busy => NoDigest::Busy,
        }
    }
}

/// The answer if too many digests are being computed.
pub(crate) const BUSY: &str = "this node computes too many digests at once; try again later";

impl Stamp {
    fn of(source: &dyn Source) -> store::Result<(Stamp, Key)> {
        let stat = source.stat()?;
        let stamp = Stamp { size: stat.meta.size, mtime: stat.meta.mtime, inode: stat.identity.1 };
        Ok((stamp, stat.identity))
    }

    fn head(&self) -> String {
        format!("1 {} {}.{:09} {}", self.size, self.mtime.seconds, self.mtime.nanos, self.inode)
    }
}

/// A note's text: its stamp, then `name=hex` for each digest.
fn write(stamp: &Stamp, digests: &[Digest]) -> String {
    let each = digests.iter().map(|d| format!(" {}={}", d.algorithm().name(), d.hex()));
    format!("{}{}", stamp.head(), each.collect::<String>())
}

/// The digests of a note, if it is of this stamp.
fn read_note(note: &str, stamp: &Stamp) -> Vec<Digest> {
    let Some(rest) = note.strip_prefix(&stamp.head()).filter(|rest| rest.is_empty() || rest.starts_with(' ')) else {
        return Vec::new();
    };
    let one = |pair: &str| {
        let (name, hex) = pair.split_once('=')?;
        let algorithm = Algorithm::ALL.into_iter().find(|a| a.name() == name)?;
        let bytes: Option<Vec<u8>> =
            (0..hex.len() / 2).map(|i| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()).collect();
        Digest::new(algorithm, &bytes?)
    };
    rest.split_ascii_whitespace().filter_map(one).collect()
}

impl Digests {
    /// Digests with rows in this state directory for files that keep no notes.
    pub fn new(state: &std::path::Path) -> Digests {
        Digests { rows_file: state.join("digests"), rows: Mutex::default(), permits: ReadPermits::new() }
    }

    fn note(&self, source: &dyn Source, key: Key) -> Option<String> {
        if let Some(note) = source.note(NOTE) {
            return String::from_utf8(note).ok();
        }
        self.with_rows(|rows| rows.get(&key).cloned())
    }

    fn with_rows<T>(&self, work: impl FnOnce(&mut HashMap<Key, String>) -> T) -> T {
        let mut rows = self.rows.lock();
        let rows = rows.get_or_insert_with(|| {
            let text = fs::read_to_string(&self.rows_file).unwrap_or_default();
            let row = |line: &str| {
                let mut words = line.splitn(3, ' ');
                Some(((words.next()?.parse().ok()?, words.next()?.parse().ok()?), words.next()?.to_owned()))
            };
            text.lines().filter_map(row).collect()
        });
        work(rows)
    }

    /// Keeps digests of a file that cannot have changed since they were computed.
    pub fn keep(&self, source: &dyn Source, key: Key, stamp: Stamp, digests: &[Digest]) {
        let note = write(&stamp, digests);
        if source.set_note(NOTE, note.as_bytes()) {
            return;
        }
        self.with_rows(|rows| {
            if rows.len() >= ROWS_MAX {
                rows.clear();
            }
            rows.insert(key, note.clone());
            let lines: String =
                rows.iter().map(|((device, inode), note)| format!("{device} {inode} {note}\n")).collect();
            let temporary = self.rows_file.with_extension("new");
            // If rows are lost, files are read once more.
            let _ = fs::write(&temporary, lines).and_then(|()| fs::rename(&temporary, &self.rows_file));
        });
    }

    /// Digests of a file that are known without reading it.
    ///
    /// # Errors
    /// The store cannot read the file's size, time or inode.
    pub fn known(&self, source: &dyn Source) -> store::Result<Vec<Digest>> {
        let (stamp, key) = Stamp::of(source)?;
        Ok(self.note(source, key).map(|note| read_note(&note, &stamp)).unwrap_or_default())
    }

    /// One digest of a file, computed if it is not known.
    ///
    /// # Errors
    /// Too many digests are being computed, or the file cannot be read.
    pub fn compute(&self, source: &dyn Source, path: &RelPath, algorithm: Algorithm) -> Result<Digest, NoDigest> {
        self.compute_for(source, path, algorithm, &|| false)
    }

    /// Digests of a file's bytes as they are now, for a client that may hang up meanwhile.
    ///
    /// # Errors
    /// Too many digests are being computed, the client has hung up, or the file cannot be read.
    pub fn read(
        &self,
        source: &dyn Source,
        path: &RelPath,
        algorithms: &[Algorithm],
        is_gone: &dyn Fn() -> bool,
    ) -> Result<Vec<Digest>, NoDigest> {
        let (_, key) = Stamp::of(source)?;
        let Some(first) = algorithms.first() else { return Ok(Vec::new()) };
        let _permit = self.permits.take(&(key, *first), is_gone)?;
        store::digest::of_file_while(source, path, algorithms, &|| !is_gone())?.ok_or(NoDigest::Gone)
    }

    /// The same as [`Digests::compute`], for a client that may hang up meanwhile.
    ///
    /// # Errors
    /// Those of [`Digests::compute`], and that the client has hung up.
    pub fn compute_for(
        &self,
        source: &dyn Source,
        path: &RelPath,
        algorithm: Algorithm,
        is_gone: &dyn Fn() -> bool,
    ) -> Result<Digest, NoDigest> {
        let is_wanted = |digest: &Digest| digest.algorithm() == algorithm;
        if let Some(known) = self.known(source)?.into_iter().find(is_wanted) {
            return Ok(known);
        }
        let (_, key) = Stamp::of(source)?;
        let _permit = self.permits.take(&(key, algorithm), is_gone)?;
        let mut known = self.known(source)?;
        if let Some(at) = known.iter().position(is_wanted) {
            return Ok(known.swap_remove(at));
        }
        let before = Stamp::of(source)?.0;
        let began = SystemTime::now();
        // The two cheap digests are computed together: a client that asks for one often asks for the other later.
        let wanted = match algorithm {
            Algorithm::Crc32c | Algorithm::Adler32 => vec![Algorithm::Adler32, Algorithm::Crc32c],
            serial => vec![serial],
        };
        let made = store::digest::of_file_while(source, path, &wanted, &|| !is_gone())?.ok_or(NoDigest::Gone)?;
        let after = Stamp::of(source)?.0;
        if before == after && settled(&before, began) {
            known.extend(made.iter().cloned());
            self.keep(source, key, before, &known);
        }
        let found = made.into_iter().find(is_wanted);
        found.ok_or_else(|| store::Error::Unsupported { what: "that digest", store: "this node" }.into())
    }
}

fn settled(stamp: &Stamp, began: SystemTime) -> bool {
    let seconds = u64::try_from(stamp.mtime.seconds).unwrap_or(0);
    let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, stamp.mtime.nanos);
    began.duration_since(changed).is_ok_and(|age| age >= SETTLED_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use model::Name;
    use store::Store;
    use store::posix::{Links, Posix};

    fn file(dir: &std::path::Path, name: &str) -> Arc<dyn Source> {
        let path = RelPath::root().join(&Name::new(name.as_bytes()).unwrap());
        Posix::open(dir, Links::Inside).unwrap().open(&path).unwrap()
    }

    #[test]
    fn a_digest_is_computed_once_and_void_when_the_file_changes() {
        let (data, state) = (tempfile::tempdir_in("/var/tmp").unwrap(), tempfile::tempdir().unwrap());
        let digests = Digests::new(state.path());
        std::fs::write(data.path().join("f"), "abc").unwrap();
        std::thread::sleep(SETTLED_AFTER * 2);
        let source = file(data.path(), "f");
        let made = digests.compute(&*source, &RelPath::root(), Algorithm::Adler32).unwrap();
        assert_eq!(made.hex(), "024d0127");
        let known = digests.known(&*source).unwrap();
        assert_eq!(known.len(), 2, "CRC-32C came with it: {known:?}");
        // The same size, another content, another time.
        std::fs::write(data.path().join("f"), "abd").unwrap();
        assert_eq!(digests.known(&*file(data.path(), "f")).unwrap(), []);
        let other = digests.compute(&*file(data.path(), "f"), &RelPath::root(), Algorithm::Adler32).unwrap();
        assert_ne!(other, made);
    }

    #[test]
    fn no_digest_is_kept_of_a_file_that_changed_a_moment_ago() {
        let (data, state) = (tempfile::tempdir_in("/var/tmp").unwrap(), tempfile::tempdir().unwrap());
        let digests = Digests::new(state.path());
        std::fs::write(data.path().join("f"), "abc").unwrap();
        let ahead = SystemTime::now() + Duration::from_secs(60);
        std::fs::File::options().write(true).open(data.path().join("f")).unwrap().set_modified(ahead).unwrap();
        let source = file(data.path(), "f");
        digests.compute(&*source, &RelPath::root(), Algorithm::Md5).unwrap();
        assert_eq!(digests.known(&*source).unwrap(), []);
    }

    #[test]
    fn nothing_is_read_for_a_client_that_is_gone() {
        let (data, state) = (tempfile::tempdir_in("/var/tmp").unwrap(), tempfile::tempdir().unwrap());
        let digests = Digests::new(state.path());
        let (len, polls) = (64 << 20, std::cell::Cell::new(0));
        for is_hole in [false, true] {
            let made = std::fs::File::create(data.path().join("f")).unwrap();
            if is_hole {
                made.set_len(100 * len).unwrap()
            } else {
                std::fs::write(data.path().join("f"), vec![7; 4 << 20]).unwrap()
            }
            let source = file(data.path(), "f");
            polls.set(0);
            let gone = || {
                polls.set(polls.get() + 1);
                polls.get() >= 2
            };
            let result = digests.compute_for(&*source, &RelPath::root(), Algorithm::Md5, &gone);
            assert!(matches!(result, Err(NoDigest::Gone)), "{result:?}");
            assert_eq!(polls.get(), 2);
            assert_eq!(digests.known(&*source).unwrap(), []);
        }
    }

    #[test]
    fn digests_are_kept_in_rows_where_a_file_keeps_no_note() {
        let state = tempfile::tempdir().unwrap();
        let memory = store::memory::Memory::default();
        let path = RelPath::parse(b"f").unwrap();
        let sink = memory.create(&path, "t").unwrap();
        sink.write_at(b"abc", 0).unwrap();
        let mtime = Timestamp { seconds: 5, nanos: 7 };
        let finish = store::Finish { size: 3, mode: 0o644, mtime, durable: false, replace: true, attributes: None };
        sink.commit(&finish).unwrap();
        let source = memory.open(&path).unwrap();
        let made = Digests::new(state.path()).compute(&*source, &path, Algorithm::Md5).unwrap();
        assert_eq!(Digests::new(state.path()).known(&*source).unwrap(), [made], "another node of the same state");
    }

    #[test]
    fn a_note_reads_back_for_its_stamp_alone() {
        let stamp = Stamp { size: 3, mtime: Timestamp { seconds: 1, nanos: 2 }, inode: 12 };
        let digests = vec![Digest::crc32c(0x364b_3fb7)];
        let note = write(&stamp, &digests);
        assert_eq!(read_note(&note, &stamp), digests);
        assert_eq!(read_note(&note, &Stamp { inode: 1, ..stamp }), []);
        assert_eq!(read_note(&note, &Stamp { size: 4, ..stamp }), []);
        assert_eq!(read_note("1 3 1.000000002 12 crc32c=zz md5=00 x", &stamp), []);
    }
}
