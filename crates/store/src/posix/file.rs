//! One file of a directory store, being read or written.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use model::name::{Name, RelPath};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::way::{Way, Ways};
use super::{Posix, attributes, error, facts, in_the_way, times};
use crate::{Extent, Finish, Result, Sink, Source, Stat};

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
            // No data from here on: a hole at the end, or the file became shorter than the caller believes. What was
            // cut off is no hole: as data, its reader comes up short and notices.
            Err(Errno::NXIO) => {
                let now = self.stat()?.meta.size;
                return Ok(if offset < now { Extent::Hole(now.min(size)) } else { Extent::Data(size) });
            }
            // The file system does not tell.
            Err(_) => return Ok(Extent::Data(size)),
        }
        match rustix::fs::seek(&self.fd, SeekFrom::Hole(offset)) {
            Ok(hole) if hole > offset => Ok(Extent::Data(hole.min(size))),
            _ => Ok(Extent::Data(size)),
        }
    }
}

/// A file under a temporary name.
#[derive(Debug)]
pub(super) struct PosixSink {
    file: PosixFile,
    dir: OwnedFd,
    temporary: Vec<u8>,
    name: Name,
    mode_mask: u32,
    written_end: AtomicU64,
    /// Where the last byte is that was really written; the file may be longer, reserved.
    data_end: AtomicU64,
    settled: AtomicBool,
    /// Set for large files: the same file past the page cache; none where the file system does not have that.
    direct: OnceLock<Option<OwnedFd>>,
    /// Whoever writes through the cache has it.
    turn: Mutex<()>,
    direct_failed: AtomicBool,
    ways: Arc<Ways>,
}

/// From this length on a file may be written past the page cache: see [`super::way`].
const DIRECT_BYTES: u64 = 8 << 20;
/// The type of a file system in memory (statfs(2)).
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// What direct input and output want offsets, lengths and memory to be multiples of.
const DIRECT_ALIGNMENT: usize = 4096;

impl PosixSink {
    pub(super) fn new(
        file: PosixFile,
        dir: OwnedFd,
        temporary: Vec<u8>,
        name: Name,
        mode_mask: u32,
        ways: Arc<Ways>,
    ) -> PosixSink {
        let (written_end, data_end, settled) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let (direct, direct_failed) = (OnceLock::new(), AtomicBool::new(false));
        PosixSink {
            file,
            dir,
            temporary,
            name,
            mode_mask,
            written_end,
            data_end,
            settled,
            direct,
            turn: Mutex::new(()),
            direct_failed,
            ways,
        }
    }

    /// Writes a block of a large file the faster way.
    fn write_large(&self, direct: Option<&OwnedFd>, buffer: &[u8], offset: u64) -> rustix::io::Result<()> {
        let aligned = buffer.as_ptr().align_offset(DIRECT_ALIGNMENT) == 0
            && buffer.len().is_multiple_of(DIRECT_ALIGNMENT)
            && offset.is_multiple_of(DIRECT_ALIGNMENT as u64);
        let direct = direct.filter(|_| aligned && !self.direct_failed.load(Ordering::Relaxed));
        let Some(direct) = direct else { return self.write_cached(buffer, offset) };
        let (way, started) = (self.ways.choose(), Instant::now());
        let written = match way {
            Way::Cached => self.write_cached(buffer, offset),
            Way::Direct => write_all(direct, buffer, offset),
        };
        match written {
            Ok(()) => self.ways.took(way, buffer.len(), started.elapsed()),
            // The file system promised more than it keeps.
            Err(Errno::INVAL | Errno::OPNOTSUPP) if way == Way::Direct => {
                self.direct_failed.store(true, Ordering::Relaxed);
                return self.write_cached(buffer, offset);
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// One stream at a time: the kernel locks the file for every such write, and those who wait for it there spin, each
    /// taking as much processor time as the one who writes.
    fn write_cached(&self, buffer: &[u8], offset: u64) -> rustix::io::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        write_all(&self.file.fd, buffer, offset)
    }

    fn open_direct(&self) -> Option<OwnedFd> {
        // In memory there is nothing to go past.
        if rustix::fs::fstatfs(&self.file.fd).is_ok_and(|fs| fs.f_type as u64 == TMPFS_MAGIC) {
            return None;
        }
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, &self.temporary[..], flags, Mode::empty()).ok()?;
        let identity = |fd: &OwnedFd| rustix::fs::fstat(fd).map(|s| (s.st_dev, s.st_ino)).ok();
        (identity(&fd) == identity(&self.file.fd)).then_some(fd)
    }

    /// It holds so many bytes from before.
    pub(super) fn holding(self, size: u64) -> PosixSink {
        self.written_end.store(size, Ordering::Release);
        self.data_end.store(size, Ordering::Release);
        self
    }

    /// For file systems that cannot make holes in what was written.
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
            rustix::fs::fsync(fd).map_err(|e| error("flush", path, e))?;
        }
        Posix::put(&self.dir, &self.temporary, &self.name, finish.replace)
            .map_err(|e| in_the_way(&self.dir, path, &self.name, e))?;
        if finish.durable {
            // The name is durable only when its directory is. A descriptor opened with O_PATH cannot be flushed.
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
            let dir = match rustix::fs::openat(&self.dir, c".", flags, Mode::empty()) {
                // A drop box: one may put files there, not list them. The dear way is the only one left.
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
            None => write_all(&self.file.fd, buffer, offset),
        };
        written.map_err(|e| error("write", &self.file.path, e))?;
        self.written_end.fetch_max(offset + buffer.len() as u64, Ordering::AcqRel);
        self.data_end.fetch_max(offset + buffer.len() as u64, Ordering::AcqRel);
        Ok(())
    }

    fn clear(&self, offset: u64, len: u64) -> Result<()> {
        // What lies behind what was ever written reads as zeros anyway.
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

    fn reserve(&self, size: u64) -> Result<()> {
        // With its length set at once, several streams may write a file past the cache at the same time: a write that
        // makes a file longer is alone.
        let direct = size >= DIRECT_BYTES;
        let flags = if direct { FallocateFlags::empty() } else { FallocateFlags::KEEP_SIZE };
        match rustix::fs::fallocate(&self.file.fd, flags, 0, size) {
            Ok(()) if direct => {
                self.written_end.fetch_max(size, Ordering::AcqRel);
                self.direct.get_or_init(|| self.open_direct());
                Ok(())
            }
            // Not every file system can; the write will say when it is full.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(Errno::INTR) => self.reserve(size),
            Err(e) => Err(error("reserve room for", &self.file.path, e)),
        }
    }

    fn flush(&self) -> Result<()> {
        rustix::fs::fdatasync(&self.file.fd).map_err(|e| error("flush", &self.file.path, e))
    }

    fn keep(&self) {
        // What was reserved behind it others may need; a later attempt reserves it again.
        let _ = rustix::fs::ftruncate(&self.file.fd, self.data_end.load(Ordering::Acquire));
        self.settled.store(true, Ordering::Release);
    }

    fn as_source(&self) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(PosixFile { fd: Arc::clone(&self.file.fd), path: self.file.path.clone() }))
    }

    fn commit(&self, finish: &Finish) -> Result<()> {
        let result = self.finish(finish);
        match &result {
            Ok(()) => self.settled.store(true, Ordering::Release),
            // Room may come: the caller tries again, or keeps it.
            Err(error) if error.is_full() => {}
            Err(_) => self.discard(),
        }
        result
    }

    fn discard(&self) {
        if !self.settled.swap(true, Ordering::AcqRel) {
            let _ = rustix::fs::unlinkat(&self.dir, &self.temporary[..], AtFlags::empty());
        }
    }
}

impl Drop for PosixSink {
    fn drop(&mut self) {
        self.discard();
    }
}
