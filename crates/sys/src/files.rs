//! Files with direct I/O, memory for it, and the share of a file that the page cache holds.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Advice, OFlags};

/// Alignment of offsets, lengths and memory for direct I/O, bytes: every current disk accepts it.
pub const ALIGNMENT: usize = 4096;

/// Memory that is aligned for direct input and output.
#[derive(Debug)]
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    /// `length` bytes, all zero.
    pub fn zeroed(length: usize) -> Aligned {
        let memory = vec![0; length + ALIGNMENT];
        // The vector never grows, so its bytes stay where they are.
        let start = memory.as_ptr().addr().wrapping_neg() % ALIGNMENT;
        Aligned { memory, start, length }
    }
}

impl std::ops::Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

fn options(direct: bool) -> OpenOptions {
    let flags = if direct { OFlags::NOFOLLOW | OFlags::DIRECT } else { OFlags::NOFOLLOW };
    let mut options = OpenOptions::new();
    options.custom_flags(flags.bits() as i32);
    options
}

/// Creates a file for writing, past the page cache if `direct`.
///
/// # Errors
/// The file exists, or the file system has no direct output (EINVAL), in which case an empty file may remain.
pub fn create(path: &Path, direct: bool) -> io::Result<File> {
    options(direct).write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a file for reading, past the page cache if `direct`.
///
/// # Errors
/// The file does not exist, or the file system has no direct input (EINVAL).
pub fn open(path: &Path, direct: bool) -> io::Result<File> {
    options(direct).read(true).open(path)
}

/// Writes the cached changes of a file to the disk, and asks the kernel to drop the file from the page cache. [`resident`] returns
/// the share that is still there.
///
/// # Errors
/// The file cannot be written to the disk.
pub fn drop_from_cache(file: &File) -> io::Result<()> {
    rustix::fs::fdatasync(file)?;
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

/// A long file is sampled: this many windows at equal distances, each of this length. A sample costs some 50 ns per page.
const WINDOWS: u64 = 128;
const WINDOW_BYTES: u64 = 16 << 20;

/// The share of a file that is in the page cache, from 0 to 1; of a file longer than 2 GiB, by samples. The file must be open for
/// reading.
///
/// # Errors
/// The file cannot be mapped: not a regular file, or a file system without a page cache.
pub fn resident(file: &File) -> io::Result<f64> {
    let length = file.metadata()?.len();
    let windows = length.div_ceil(WINDOW_BYTES);
    let sampled = windows.min(WINDOWS);
    let mut pages = 0;
    let mut cached = 0;
    for n in 0..sampled {
        // This cannot overflow: a window's number times 128 fits.
        let offset = n * windows / sampled * WINDOW_BYTES;
        let span = (length - offset).min(WINDOW_BYTES) as usize;
        let found = pages_of(file, offset, span)?;
        pages += found.len();
        // The other bits are reserved (mincore(2)).
        cached += found.iter().filter(|page| *page & 1 == 1).count();
    }
    Ok(if pages == 0 { 0.0 } else { cached as f64 / pages as f64 })
}

/// A byte for each page of a part of a file: odd where the page cache has the page. The part must not be empty.
fn pages_of(file: &File, offset: u64, span: usize) -> io::Result<Vec<u8>> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut pages = vec![0; span.div_ceil(rustix::param::page_size())];
    let kind = libc::MAP_SHARED;
    let fd = file.as_raw_fd();
    // SAFETY: a new mapping at an address of the kernel's choice; nothing else is replaced, and it is never read.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), span, libc::PROT_READ, kind, fd, offset) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is `span` long, and the vector has a byte for each of its pages.
    let status = unsafe { libc::mincore(address, span, pages.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: the mapping made above, to which no reference exists.
    unsafe { libc::munmap(address, span) };
    if status < 0 { Err(error) } else { Ok(pages) }
}

/// Makes the file system report errors of earlier writes. A remote one (NFS, CIFS, FUSE) accepts writes and may refuse them later, for
/// lack of space or quota, when the file is closed (close(2)). A copy of the descriptor is closed; this one stays open. On a local file
/// system this does nothing.
///
/// # Errors
/// The error that the file system reports.
pub fn check_written(file: &impl AsFd) -> io::Result<()> {
    loop {
        let copy = rustix::io::fcntl_dupfd_cloexec(file, 0)?;
        // SAFETY: the copy is owned here and not used after this: the kernel releases it, whatever `close` returns.
        match unsafe { libc::close(copy.into_raw_fd()) } {
            0 => return Ok(()),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    use super::*;

    /// The name of a file, which is removed at the end.
    struct Name(PathBuf);

    impl Name {
        fn new(what: &str) -> Name {
            Name(std::env::temp_dir().join(format!("sys-files-{what}-{}", std::process::id())))
        }
    }

    impl Drop for Name {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn memory_is_aligned() {
        for length in [0, 1, 4095, 4096, 1 << 20] {
            let mut memory = Aligned::zeroed(length);
            assert_eq!((memory.len(), memory.as_ptr().addr() % ALIGNMENT), (length, 0));
            memory.fill(7);
            let moved = Box::new(memory);
            assert_eq!(moved.as_ptr().addr() % ALIGNMENT, 0);
            assert!(moved.iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn a_written_file_is_in_the_cache_until_it_is_dropped() {
        let name = Name::new("cache");
        let written = create(&name.0, false).unwrap();
        written.write_all_at(&vec![1; 3 << 20], 0).unwrap();
        assert!(create(&name.0, false).is_err(), "an existing file is refused");
        let file = open(&name.0, false).unwrap();
        assert_eq!(resident(&file).unwrap(), 1.0);
        // A file in memory cannot be dropped; a file on a disk is dropped as a whole.
        let in_memory = rustix::fs::fstatfs(&file).unwrap().f_type == 0x0102_1994;
        drop_from_cache(&written).unwrap();
        assert_eq!(resident(&file).unwrap(), if in_memory { 1.0 } else { 0.0 });
    }

    #[test]
    fn an_empty_file_is_not_in_the_cache() {
        let name = Name::new("empty");
        create(&name.0, false).unwrap();
        assert_eq!(resident(&open(&name.0, false).unwrap()).unwrap(), 0.0);
    }

    #[test]
    fn bytes_written_directly_are_read_directly() {
        let name = Name::new("direct");
        let file = match create(&name.0, true) {
            Ok(file) => file,
            Err(error) => {
                let to = std::env::temp_dir();
                // Written past the harness, which hides the output of tests that pass.
                let skipped = format!(
                    "SKIPPED bytes_written_directly_are_read_directly: {} has no direct output: {error}\n",
                    to.display()
                );
                let _ = std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes());
                return;
            }
        };
        let mut memory = Aligned::zeroed(2 * ALIGNMENT);
        memory.fill(9);
        file.write_all_at(&memory, 0).unwrap();
        let mut back = Aligned::zeroed(2 * ALIGNMENT);
        open(&name.0, true).unwrap().read_exact_at(&mut back, 0).unwrap();
        assert_eq!(back[..], memory[..]);
    }
}
