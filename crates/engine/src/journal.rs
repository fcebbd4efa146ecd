//! The journal of a large file that is being received, by which a later attempt resumes the file.
//!
//! There is one journal for each unfinished file, in the state directory, named after the file's place: the same command, the same
//! job again, or another job for the same file all find it. It holds the file's length and time as the source had them,
//! and one row for every block that was written. Nothing in it is trusted: before a block is claimed, the bytes in the
//! unfinished file are read and compared with the row, and the sender compares the claim with its own file.
//!
//! A lock on the journal is the right to write the unfinished file, so that two attempts never share one.
//!
//! Layout: a head of text (`longhaul journal 1`, root and path in hex, length, time, the job that writes), then rows of 32 bytes,
//! big-endian: offset u64, length u64, crc32c u32, flags u32 (1: has Adler-32), adler32 u32, crc32c of the row before this field u32. A
//! torn row at the end, as a crash leaves it, ends the journal.

mod sweep;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::checksum::{BlockSum, crc32c};
use model::{RelPath, Timestamp, hex};
use store::Store;

pub use self::sweep::{KEPT_FOR, sweep};

const MAGIC: &str = "longhaul journal 1";
const ROW_BYTES: usize = 32;
const FLAG_ADLER32: u32 = 1;

/// Rows are put together into claims of at most this length, or of more where a file would have too many of them.
const CLAIM_BYTES: u64 = 64 << 20;
/// Claims per file: half of what one verdict holds, because blocks that are missing split them.
const CLAIMS_MAX: u64 = wire::limits::RANGES_MAX as u64 / 2;

/// How long to wait for an earlier attempt that has not released its file yet.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// A range that was written, with its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its offset in the file, bytes.
    pub offset: u64,
    /// Its length, bytes.
    pub len: u64,
    /// Its checksum.
    pub sum: BlockSum,
}

/// The directory of the journals of one job's files.
#[derive(Clone, Debug)]
pub struct Journals {
    dir: PathBuf,
    root: PathBuf,
    /// There were journals when the job began. Where there were none, small files need not look for theirs.
    had_any: bool,
    /// Only attempts of the same holder find each other's journals; empty for all.
    holder: String,
    /// How long an attempt waits for another that still has a file.
    patience: Duration,
}

/// The journal of one file, locked until it is dropped.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    tag: String,
    /// The job that writes it.
    writer: String,
}

/// The length and time of the source's file, which an unfinished file must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceVersion {
    /// Length.
    pub size: u64,
    /// Last change.
    pub mtime: Timestamp,
}

impl Journals {
    /// The journals of a job that writes below `root`, an absolute path.
    pub fn new(state: &Path, root: &Path) -> Journals {
        let dir = state.join("journals");
        let had_any = fs::read_dir(&dir).is_ok_and(|mut list| list.next().is_some());
        Journals { dir, root: root.to_owned(), had_any, holder: String::new(), patience: LOCK_PATIENCE }
    }

    /// Journals that only attempts of this holder find: a client that may not change existing files must not reach the unfinished files
    /// of others, either.
    pub fn of(self, holder: &str) -> Journals {
        Journals { holder: holder.to_owned(), ..self }
    }

    /// The part of the names of a journal and of its unfinished file that identifies the file.
    fn tag(&self, path: &RelPath) -> String {
        let mut whole = self.root.as_os_str().as_bytes().to_vec();
        if !path.is_root() {
            whole.push(b'/');
            whole.extend_from_slice(path.as_bytes());
        }
        if !self.holder.is_empty() {
            whole.push(0);
            whole.extend_from_slice(self.holder.as_bytes());
        }
        hex::encode(&aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &whole).as_ref()[..16])
    }

    /// Whether an earlier attempt left a journal of a file.
    pub fn knows(&self, path: &RelPath) -> bool {
        self.dir.join(self.tag(path)).exists()
    }

    /// Removes the journal and the unfinished file that an earlier attempt left, unless another attempt uses them.
    pub fn give_up(&self, store: &dyn Store, path: &RelPath) {
        let tag = self.tag(path);
        let at = self.dir.join(&tag);
        let Some(file) = self.had_any.then(|| File::open(&at).ok()).flatten() else { return };
        if file.try_lock().is_ok() && is_at_path(&file, &at) && store.forget(path, &tag).is_ok() {
            let _ = fs::remove_file(&at);
        }
    }

    /// Takes the journal of a file whose source has the length and time `subject`, with the merged rows of an earlier attempt at the same
    /// subject; rows about another subject are removed. None where another attempt keeps the journal for too long; until then `waits` is
    /// called repeatedly with that job.
    ///
    /// # Errors
    /// The journal cannot be opened, locked, read or written.
    pub fn take(
        &self,
        path: &RelPath,
        subject: SourceVersion,
        writer: &str,
        waits: &mut dyn FnMut(Option<String>),
    ) -> io::Result<Option<(Journal, Vec<Row>)>> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let tag = self.tag(path);
        let at = self.dir.join(&tag);
        let Some(file) = lock(&at, self.patience, waits)? else { return Ok(None) };
        let mut journal = Journal { file, path: at, tag, writer: writer.to_owned() };
        let rows = journal.read(subject)?;
        if rows.is_empty() {
            journal.begin(&self.root, path, subject)?;
        }
        Ok(Some((journal, rows)))
    }
}

/// Opens and locks a journal. If the attempt that had it removed it in between, it is made anew.
fn lock(at: &Path, patience: Duration, waits: &mut dyn FnMut(Option<String>)) -> io::Result<Option<File>> {
    let deadline = Instant::now() + patience;
    loop {
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(at)?;
        match file.try_lock() {
            Ok(()) if is_at_path(&file, at) => return Ok(Some(file)),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                waits(read_head(&mut BufReader::new(&file)).and_then(|head| head.job));
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Whether the path still names this open file.
fn is_at_path(file: &File, at: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match (file.metadata(), fs::metadata(at)) {
        (Ok(open), Ok(named)) => identity(open) == identity(named),
        _ => false,
    }
}

/// The parsed head of a journal.
struct Head {
    root: Vec<u8>,
    path: Vec<u8>,
    subject: SourceVersion,
    /// The job that wrote it, if the head names one.
    job: Option<String>,
}

fn head_text(root: &Path, path: &RelPath, subject: SourceVersion, writer: &str) -> String {
    let SourceVersion { size, mtime } = subject;
    let (root, path) = (hex::encode(root.as_os_str().as_bytes()), hex::encode(path.as_bytes()));
    format!("{MAGIC}\n{root}\n{path}\n{size} {} {} {writer}\n", mtime.seconds, mtime.nanos)
}

fn read_head(reader: &mut impl BufRead) -> Option<Head> {
    let mut line = || {
        let mut text = String::new();
        reader.read_line(&mut text).ok().filter(|_| text.ends_with('\n')).map(|_| text.trim_end().to_owned())
    };
    if line()? != MAGIC {
        return None;
    }
    let (root, path) = (hex::decode(&line()?)?, hex::decode(&line()?)?);
    let facts = line()?;
    let mut facts = facts.split(' ');
    let size = facts.next()?.parse().ok()?;
    let mtime = Timestamp { seconds: facts.next()?.parse().ok()?, nanos: facts.next()?.parse().ok()? };
    let job = facts.next().filter(|job| !job.is_empty()).map(str::to_owned);
    Some(Head { root, path, subject: SourceVersion { size, mtime }, job })
}

fn encode(row: &Row) -> [u8; ROW_BYTES] {
    let mut out = [0; ROW_BYTES];
    let flags = if row.sum.adler32.is_some() { FLAG_ADLER32 } else { 0 };
    out[..8].copy_from_slice(&row.offset.to_be_bytes());
    out[8..16].copy_from_slice(&row.len.to_be_bytes());
    out[16..20].copy_from_slice(&row.sum.crc32c.to_be_bytes());
    out[20..24].copy_from_slice(&flags.to_be_bytes());
    out[24..28].copy_from_slice(&row.sum.adler32.unwrap_or(0).to_be_bytes());
    let check = crc32c(&out[..28]);
    out[28..].copy_from_slice(&check.to_be_bytes());
    out
}

fn decode(bytes: &[u8; ROW_BYTES]) -> Option<Row> {
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
    let adler32 = (word(20) & FLAG_ADLER32 != 0).then(|| word(24));
    let row = Row { offset: long(0), len: long(8), sum: BlockSum { crc32c: word(16), adler32 } };
    let fits = row.len > 0 && row.offset.checked_add(row.len).is_some();
    (crc32c(&bytes[..28]) == word(28) && fits).then_some(row)
}

impl Journal {
    /// The tag of the journal's unfinished file.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    fn begin(&mut self, root: &Path, path: &RelPath, subject: SourceVersion) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all(head_text(root, path, subject, &self.writer).as_bytes())
    }

    /// The rows about this subject, merged.
    fn read(&mut self, subject: SourceVersion) -> io::Result<Vec<Row>> {
        let mut reader = BufReader::with_capacity(1 << 16, File::open(&self.path)?);
        match read_head(&mut reader) {
            Some(head) if head.subject == subject => {}
            _ => return Ok(Vec::new()),
        }
        let mut merged = Merged::new(subject.size);
        let mut row = [0; ROW_BYTES];
        while reader.read_exact(&mut row).is_ok() {
            let Some(row) = decode(&row) else { break };
            merged.add(row);
        }
        Ok(merged.rows())
    }

    /// Appends rows: these ranges are in the unfinished file.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn write(&mut self, rows: &[Row]) -> io::Result<()> {
        let bytes: Vec<u8> = rows.iter().flat_map(encode).collect();
        self.file.write_all(&bytes)
    }

    /// Flushes the journal to stable storage.
    ///
    /// # Errors
    /// The flush failed.
    pub fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Replaces all rows by these, which have been verified.
    ///
    /// # Errors
    /// The new journal cannot be written, locked or renamed. The old one stays.
    pub fn restart(&mut self, root: &Journals, path: &RelPath, subject: SourceVersion, rows: &[Row]) -> io::Result<()> {
        let temporary = self.path.with_extension("new");
        let _ = fs::remove_file(&temporary);
        let mut file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&temporary)?;
        file.lock()?;
        file.write_all(head_text(&root.root, path, subject, &self.writer).as_bytes())?;
        rows.iter().try_for_each(|row| file.write_all(&encode(row)))?;
        fs::rename(&temporary, &self.path)?;
        self.file = file;
        Ok(())
    }

    /// Removes the journal: the file is in place, or given up.
    pub fn remove(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Rows merged where they touch, within windows: a damaged block costs at most one window, and the merged rows of a file fit a verdict.
struct Merged {
    window: u64,
    size: u64,
    spans: BTreeMap<u64, (u64, BlockSum)>,
}

impl Merged {
    fn new(size: u64) -> Merged {
        let window = CLAIM_BYTES.max(size.div_ceil(CLAIMS_MAX).next_multiple_of(1 << 20));
        Merged { window, size, spans: BTreeMap::new() }
    }

    /// Adds a row. It replaces earlier rows that it overlaps: its bytes were written over theirs.
    fn add(&mut self, Row { mut offset, mut len, mut sum }: Row) {
        let end = offset + len;
        if end > self.size {
            return;
        }
        while let Some((&before, _)) = self.spans.range(..end).next_back().filter(|(at, (len, _))| *at + len > offset) {
            self.spans.remove(&before);
        }
        let together = |a: u64, b_end: u64| a / self.window == (b_end - 1) / self.window;
        if let Some((&at, &(before, first))) = self.spans.range(..offset).next_back()
            && at + before == offset
            && together(at, end)
        {
            self.spans.remove(&at);
            (offset, sum, len) = (at, first.then(sum, len), before + len);
        }
        if let Some(&(after, second)) = self.spans.get(&end)
            && together(offset, end + after)
        {
            self.spans.remove(&end);
            (sum, len) = (sum.then(second, after), len + after);
        }
        self.spans.insert(offset, (len, sum));
    }

    fn rows(self) -> Vec<Row> {
        self.spans.into_iter().map(|(offset, (len, sum))| Row { offset, len, sum }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn rel(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    pub(super) const SUBJECT: SourceVersion =
        SourceVersion { size: 1 << 30, mtime: Timestamp { seconds: 7, nanos: 9 } };

    pub(super) fn row(offset: u64, len: u64) -> Row {
        Row { offset, len, sum: BlockSum::of(&vec![offset as u8; len as usize], false) }
    }

    #[test]
    fn the_next_attempt_finds_the_rows_that_were_written() {
        let state = tempfile::tempdir().unwrap();
        let journals = Journals::new(state.path(), Path::new("/data"));
        assert!(!journals.knows(&rel("a/b")));
        let (mut journal, there) = journals.take(&rel("a/b"), SUBJECT, "j", &mut |_| {}).unwrap().unwrap();
        assert!(there.is_empty());
        journal.write(&[row(100, 50), row(0, 10)]).unwrap();
        journal.write(&[row(10, 5)]).unwrap();
        let tag = journal.tag().to_owned();
        drop(journal);
        // A crash in the middle of a row.
        let at = state.path().join("journals").join(&tag);
        OpenOptions::new().append(true).open(&at).unwrap().write_all(&[1; 20]).unwrap();
        assert!(journals.knows(&rel("a/b")));
        // The same file by another locator: its root is a directory further down.
        let below = Journals::new(state.path(), Path::new("/data/a"));
        let (journal, there) = below.take(&rel("b"), SUBJECT, "j", &mut |_| {}).unwrap().unwrap();
        assert_eq!(there.iter().map(|r| (r.offset, r.len)).collect::<Vec<_>>(), [(0, 15), (100, 50)]);
        let merged = row(0, 10).sum.then(row(10, 5).sum, 5);
        assert_eq!(there[0].sum, merged);
        journal.remove();
        assert!(!journals.knows(&rel("a/b")));
    }

    #[test]
    fn a_source_that_changed_is_another_subject() {
        let state = tempfile::tempdir().unwrap();
        let journals = Journals::new(state.path(), Path::new("/data"));
        let (mut journal, _) = journals.take(&rel("f"), SUBJECT, "j", &mut |_| {}).unwrap().unwrap();
        journal.write(&[row(0, 10)]).unwrap();
        drop(journal);
        for other in [SourceVersion { size: 5, ..SUBJECT }, SourceVersion { mtime: Timestamp::default(), ..SUBJECT }] {
            let (_, there) = journals.take(&rel("f"), other, "j", &mut |_| {}).unwrap().unwrap();
            assert!(there.is_empty());
        }
        let (_, there) = journals.take(&rel("f"), SUBJECT, "j", &mut |_| {}).unwrap().unwrap();
        assert!(there.is_empty(), "forgotten when the other subject came");
    }

    #[test]
    fn only_one_attempt_has_the_journal_of_a_file() {
        let state = tempfile::tempdir().unwrap();
        let journals = Journals::new(state.path(), Path::new("/data"));
        let journals = Journals { patience: Duration::from_millis(50), ..journals };
        let (journal, _) = journals.take(&rel("f"), SUBJECT, "j", &mut |_| {}).unwrap().unwrap();
        assert!(journals.take(&rel("f"), SUBJECT, "j", &mut |_| {}).unwrap().is_none());
        drop(journal);
        let (mut journal, _) = journals.take(&rel("f"), SUBJECT, "j", &mut |_| {}).unwrap().unwrap();
        journal.restart(&journals, &rel("f"), SUBJECT, &[row(3, 4)]).unwrap();
        assert!(
            journals.take(&rel("f"), SUBJECT, "j", &mut |_| {}).unwrap().is_none(),
            "the new journal is locked, too"
        );
        journal.write(&[row(7, 1)]).unwrap();
        drop(journal);
        let (_, there) = journals.take(&rel("f"), SUBJECT, "j", &mut |_| {}).unwrap().unwrap();
        assert_eq!(there.iter().map(|r| (r.offset, r.len)).collect::<Vec<_>>(), [(3, 5)]);
    }

    #[test]
    fn claims_stay_within_windows_and_bounds() {
        let mut merged = Merged::new(1 << 40);
        assert!(merged.window >= 128 << 20);
        let zeros = BlockSum::of_zeros(1 << 20, false);
        for at in (0..1 << 20).rev() {
            merged.add(Row { offset: at << 20, len: 1 << 20, sum: zeros });
        }
        let rows = merged.rows();
        assert!(rows.len() as u64 <= CLAIMS_MAX, "{}", rows.len());
        assert_eq!(rows.iter().map(|r| r.len).sum::<u64>(), 1 << 40);
        let mut overlapping = Merged::new(100);
        for (at, len) in [(0, 10), (20, 10), (5, 10), (15, 5), (95, 10)] {
            overlapping.add(Row { offset: at, len, sum: BlockSum::of_zeros(len, false) });
        }
        assert_eq!(overlapping.rows().iter().map(|r| (r.offset, r.len)).collect::<Vec<_>>(), [(5, 25)]);
    }
}
