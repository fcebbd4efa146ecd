//! One file of a directory store, being read or written.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use model::name::{Name, RelPath};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;

use super::{Posix, attributes, cache_choice, conflict, error, facts, notes, times};
use crate::{Extent, Finish, Result, Sink, Source, Stat};

/// A file under a temporary name, open, and the name that it will get in its directory.
pub(super) struct UnfinishedFile {
    pub(super) dir: OwnedFd,
    pub(super) name: Name,
    pub(super) fd: OwnedFd,
}

/// An open file.
#[derive(Debug)]
pub(super) struct PosixFile {
    fd: Arc<OwnedFd>,
    path: RelPath,
}

impl PosixFile {
    pub(super) fn new(fd: OwnedFd, path: RelPath) -> PosixFile {
        PosixFile { fd: Arc::new(fd), path }
    }
}

impl Source for PosixFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match rustix::io::pread(&self.fd, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(got) => filled += got,
                Err(Errno::INTR) => {}
                Err(e) => return Err(error("read", &self.path, e)),
            }
        }
        Ok(filled)
    }

    fn stat(&self) -> Result<Stat> {
        Ok(facts(&rustix::fs::fstat(&self.fd).map_err(|e| error("examine", &self.path, e))?))
    }

    fn extent(&self, offset: u64, size: u64) -> Result<Extent> {
        match rustix::fs::seek(&self.fd, SeekFrom::Data(offset)) {
            Ok(data) if data > offset => return Ok(Extent::Hole(data.min(size))),
            Ok(_) => {}
            // No data from here on: a hole at the end, or the file became shorter than the caller believes. The range that
            // was cut off counts as data, so that its reader gets too few bytes and reports it.
            Err(Errno::NXIO) => {
                let now = self.stat()?.meta.size;
                return Ok(if offset < now { Extent::Hole(now.min(size)) } else { Extent::Data(size) });
            }
            // The file system does not report holes.
            Err(_) => return Ok(Extent::Data(size)),
        }
        match rustix::fs::seek(&self.fd, SeekFrom::Hole(offset)) {
            Ok(hole) if hole > offset => Ok(Extent::Data(hole.min(size))),
            _ => Ok(Extent::Data(size)),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }

    fn note(&self, name: &str) -> Option<Vec<u8>> {
        let mut note = vec![0; NOTE_BYTES_MAX];
        let got = rustix::fs::fgetxattr(&self.fd, notes::attribute(name), &mut note[..]).ok()?;
        note.truncate(got);
        Some(note)
    }

    fn set_note(&self, name: &str, note: &[u8]) -> bool {
        let fits = note.len() <= NOTE_BYTES_MAX;
        fits && rustix::fs::fsetxattr(&self.fd, notes::attribute(name), note, XattrFlags::empty()).is_ok()
    }
}

/// The most bytes of a note on a file: older file systems keep all attributes of a file in one block.
const NOTE_BYTES_MAX: usize = 1024;

/// A file under a temporary name.
#[derive(Debug)]
pub(super) struct PosixSink {
    file: PosixFile,
    dir: OwnedFd,
    temporary: Vec<u8>,
    name: Name,
    mode_mask: u32,
    written_end: AtomicU64,
    /// The end of the bytes that were written; the file may be longer, because space is reserved.
    data_end: AtomicU64,
    /// The file was committed or kept, or another process finishes it: `discard` removes nothing.
    settled: AtomicBool,
    /// An earlier attempt began it: it is removed only by an explicit `discard`.
    resumed: bool,
    /// See [`Sink::guard`].
    guarded: AtomicBool,
    /// Set for large files: the descriptor for direct writes, if they are used.
    direct: OnceLock<Option<OwnedFd>>,
    /// Held while a block is written through the cache.
    cached_write: Mutex<()>,
    direct_failed: AtomicBool,
}

/// From this length on a file is large: [`cache_choice`] decides how it is written.
const LARGE_BYTES: u64 = 8 << 20;
/// Bytes of one write through the cache. File systems with large folios take as much memory in one piece, which is dear where memory is in
/// pieces: on ext4 4 GiB cost 0.34 CPU s in writes of 256 KiB, 0.37 of 64 KiB, and 0.5 to 1.2 of 1 MiB.
const CACHED_WRITE_BYTES: usize = 256 << 10;
/// The type of a file system in memory (statfs(2)).
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// Offsets, lengths and memory of direct writes are multiples of this.
const DIRECT_ALIGNMENT: usize = 4096;

impl PosixSink {
    pub(super) fn new(begun: UnfinishedFile, path: RelPath, temporary: Vec<u8>, mode_mask: u32) -> PosixSink {
        PosixSink {
            file: PosixFile::new(begun.fd, path),
            dir: begun.dir,
            temporary,
            name: begun.name,
            mode_mask,
            written_end: AtomicU64::new(0),
            data_end: AtomicU64::new(0),
            settled: AtomicBool::new(false),
            resumed: false,
            guarded: AtomicBool::new(false),
            direct: OnceLock::new(),
            cached_write: Mutex::new(()),
            direct_failed: AtomicBool::new(false),
        }
    }

    /// Whether the temporary name is still this file's.
    fn is_ours(&self) -> bool {
        if !self.guarded.load(Ordering::Acquire) {
            return true;
        }
        let named = rustix::fs::statat(&self.dir, &self.temporary[..], AtFlags::SYMLINK_NOFOLLOW);
        match (named, rustix::fs::fstat(&self.file.fd)) {
            (Ok(named), Ok(open)) => (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino),
            _ => false,
        }
    }

    /// Writes a block of a large file.
    fn write_large(&self, direct: Option<&OwnedFd>, buffer: &[u8], offset: u64) -> rustix::io::Result<()> {
        let aligned = buffer.as_ptr().align_offset(DIRECT_ALIGNMENT) == 0
            && buffer.len().is_multiple_of(DIRECT_ALIGNMENT)
            && offset.is_multiple_of(DIRECT_ALIGNMENT as u64);
        let direct = direct.filter(|_| aligned && !self.direct_failed.load(Ordering::Relaxed));
        let Some(direct) = direct else { return self.write_cached(buffer, offset) };
        match write_all(direct, buffer, offset) {
            // The file system opened the file for direct writes and refuses them.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                self.direct_failed.store(true, Ordering::Relaxed);
                self.write_cached(buffer, offset)
            }
            written => written,
        }
    }

    /// Writes through the cache, one stream at a time: the kernel locks the file for every such write, and threads that wait for
    /// this lock spin, each taking as much processor time as the writer.
    fn write_cached(&self, buffer: &[u8], offset: u64) -> rustix::io::Result<()> {
        let _guard = self.cached_write.lock();
        let mut pieces = (offset..).step_by(CACHED_WRITE_BYTES).zip(buffer.chunks(CACHED_WRITE_BYTES));
        pieces.try_for_each(|(at, piece)| write_all(&self.file.fd, piece, at))
    }

    /// Opens the file for direct writes, if they are the better choice. A resumed file was just read through the cache, and is
    /// written through it.
    fn open_direct(&self, size: u64) -> Option<OwnedFd> {
        if self.free_tmpfs_bytes().is_some() || self.resumed || !cache_choice::past_the_cache(size) {
            return None;
        }
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, &self.temporary[..], flags, Mode::empty()).ok()?;
        let identity = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|s| (s.st_dev, s.st_ino)).ok();
        (identity(&fd) == identity(&self.file.fd)).then_some(fd)
    }

    /// Free bytes of a file system in memory; none where the file is on a disk.
    fn free_tmpfs_bytes(&self) -> Option<u64> {
        let fs = rustix::fs::fstatfs(&self.file.fd).ok()?;
        let free_bytes = || match fs.f_blocks {
            // Mounted without a bound.
            0 => u64::MAX,
            _ => (fs.f_bavail as u64).saturating_mul(fs.f_bsize as u64),
        };
        (fs.f_type as u64 == TMPFS_MAGIC).then(free_bytes)
    }

    /// A file of an earlier attempt, which holds `size` bytes.
    pub(super) fn with_existing_bytes(mut self, size: u64) -> PosixSink {
        self.written_end.store(size, Ordering::Release);
        self.data_end.store(size, Ordering::Release);
        self.resumed = true;
        self.guarded.store(true, Ordering::Release);
        self
    }

    /// A file that another process finishes; this one only writes to it.
    pub(super) fn joined(self, size: u64) -> PosixSink {
        self.written_end.store(size, Ordering::Release);
        self.settled.store(true, Ordering::Release);
        if size >= LARGE_BYTES {
            self.direct.get_or_init(|| self.open_direct(size));
        }
        self
    }

    /// Writes zeros, for file systems that cannot make holes.
    fn zero(&self, from: u64, to: u64) -> Result<()> {
        let zeros = [0; 1 << 16];
        let mut at = from;
        while at < to {
            let step = (to - at).min(zeros.len() as u64);
            self.write_at(&zeros[..step as usize], at)?;
            at += step;
        }
        Ok(())
    }

    fn finish(&self, finish: &Finish) -> Result<()> {
        let path = &self.file.path;
        let fd = &self.file.fd;
        if self.written_end.load(Ordering::Acquire) != finish.size {
            rustix::fs::ftruncate(fd, finish.size).map_err(|e| error("set the length of", path, e))?;
        }
        let mode = Mode::from_raw_mode(finish.mode & self.mode_mask);
        // The mode last: a change of owner clears set-id bits, and a read-only file takes no attributes. The group's bits
        // of a mode are the mask of an ACL where there is one (acl(5)), so this order keeps the ACL as well.
        if let Some(attributes) = &finish.attributes {
            attributes::set_on_file(fd, path, attributes)?;
        }
        rustix::fs::fchmod(fd, mode).map_err(|e| error("set the mode of", path, e))?;
        rustix::fs::futimens(fd, &times(finish.mtime)).map_err(|e| error("set the time of", path, e))?;
        if finish.durable {
            rustix::fs::fsync(fd).map_err(|e| crate::Error::late(path, e))?;
        } else {
            // A network file system may report an error of earlier writes only now.
            self.publish()?;
        }
        if !self.is_ours() {
            let taken = std::io::Error::other("another job has put its own unfinished file in the place of this one");
            return Err(crate::Error::io("put in place", path, taken));
        }
        Posix::put(&self.dir, &self.temporary, &self.name, finish.replace)
            .map_err(|e| conflict(&self.dir, path, &self.name, e))?;
        if finish.durable {
            // The name is durable only when its directory is. A descriptor opened with O_PATH cannot be flushed.
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
            let dir = match rustix::fs::openat(&self.dir, c".", flags, Mode::empty()) {
                // The directory may be written but not listed: only flushing the whole file system remains.
                Err(Errno::ACCESS) => rustix::fs::syncfs(fd),
                dir => dir.and_then(rustix::fs::fsync),
            };
            dir.map_err(|e| error("flush the directory of", path, e))?;
        }
        Ok(())
    }
}

fn write_all(fd: &OwnedFd, buffer: &[u8], offset: u64) -> rustix::io::Result<()> {
    let mut written = 0;
    while written < buffer.len() {
        match rustix::io::pwrite(fd, &buffer[written..], offset + written as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => written += count,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

impl Sink for PosixSink {
    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        let written = match self.direct.get() {
            Some(direct) => self.write_large(direct.as_ref(), buffer, offset),
            None => self.write_cached(buffer, offset),
        };
        written.map_err(|e| error("write", &self.file.path, e))?;
        self.written_end.fetch_max(offset + buffer.len() as u64, Ordering::AcqRel);
        self.data_end.fetch_max(offset + buffer.len() as u64, Ordering::AcqRel);
        Ok(())
    }

    fn clear(&self, offset: u64, len: u64) -> Result<()> {
        // Beyond the last byte ever written the file reads as zeros anyway.
        let end = (offset + len).min(self.written_end.load(Ordering::Acquire));
        if offset >= end {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file.fd, flags, offset, end - offset) {
            Ok(()) => Ok(()),
            Err(Errno::INTR) => self.clear(offset, len),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => self.zero(offset, end),
            Err(e) => Err(error("make a hole in", &self.file.path, e)),
        }
    }

    fn guard(&self) {
        // The lock is held as long as the file is open. On a file system without locks only the journal's lock protects it.
        let _ = rustix::fs::flock(&self.file.fd, FlockOperation::NonBlockingLockExclusive);
        self.guarded.store(true, Ordering::Release);
    }

    fn reserve(&self, size: u64) -> Result<bool> {
        if let Some(free_bytes) = self.free_tmpfs_bytes() {
            // Reserving memory allocates it page by page while all streams wait: 0.4 s for 1 GB. It would not improve the
            // layout, as on a disk, so the file is only checked to fit.
            let allocated = rustix::fs::fstat(&self.file.fd).map_or(0, |stat| stat.st_blocks as u64 * 512);
            let fits = size.saturating_sub(allocated) <= free_bytes;
            return if fits { Ok(false) } else { Err(error("reserve room for", &self.file.path, Errno::NOSPC)) };
        }
        let large = size >= LARGE_BYTES;
        let direct = large && self.direct.get_or_init(|| self.open_direct(size)).is_some();
        // With its full length set, several streams may write the file directly at the same time; a write that extends a file
        // excludes all others.
        let flags = if direct { FallocateFlags::empty() } else { FallocateFlags::KEEP_SIZE };
        match rustix::fs::fallocate(&self.file.fd, flags, 0, size) {
            Ok(()) if direct => {
                self.written_end.fetch_max(size, Ordering::AcqRel);
                Ok(true)
            }
            Ok(()) => Ok(true),
            // Not every file system can; a later write reports a full device.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
            Err(Errno::INTR) => self.reserve(size),
            Err(e) => Err(error("reserve room for", &self.file.path, e)),
        }
    }

    fn note_written_to(&self, end: u64) {
        self.written_end.fetch_max(end, Ordering::AcqRel);
        self.data_end.fetch_max(end, Ordering::AcqRel);
    }

    fn publish(&self) -> Result<()> {
        sys::files::check_written(&self.file.fd).map_err(|e| crate::Error::late(&self.file.path, e))
    }

    fn flush(&self) -> Result<()> {
        rustix::fs::fdatasync(&self.file.fd).map_err(|e| crate::Error::late(&self.file.path, e))
    }

    fn drop_cache(&self) {
        // Pages that could not be written are still in memory, and clean (fsync(2)).
        let _ = rustix::fs::fadvise(&self.file.fd, 0, None, rustix::fs::Advice::DontNeed);
    }

    fn keep(&self) {
        // Frees the space reserved beyond the written bytes; a later attempt reserves it again. Where that attempt has begun
        // already, it holds the lock, and its bytes must not be cut off.
        if rustix::fs::flock(&self.file.fd, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK) {
            let _ = rustix::fs::ftruncate(&self.file.fd, self.data_end.load(Ordering::Acquire));
        }
        self.settled.store(true, Ordering::Release);
    }

    fn as_source(&self) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(PosixFile { fd: Arc::clone(&self.file.fd), path: self.file.path.clone() }))
    }

    fn commit(&self, finish: &Finish) -> Result<()> {
        let result = self.finish(finish);
        match &result {
            Ok(()) => self.settled.store(true, Ordering::Release),
            // The caller tries again, or keeps it for later.
            Err(error) if error.keeps_file() => {}
            Err(_) => self.discard(),
        }
        result
    }

    fn discard(&self) {
        if !self.settled.swap(true, Ordering::AcqRel) && self.is_ours() {
            let _ = rustix::fs::unlinkat(&self.dir, &self.temporary[..], AtFlags::empty());
        }
    }
}

impl Drop for PosixSink {
    fn drop(&mut self) {
        // A resumed file may hold days of work: only an explicit `discard` removes it.
        if !self.resumed {
            self.discard();
        }
    }
}
