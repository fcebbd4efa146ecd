//! Files past the page cache, memory for them, and how much of a file the page cache holds.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{Advice, OFlags};

/// What direct input and output want offsets, lengths and memory to be multiples of, on every disk of today: bytes.
pub const ALIGNMENT: usize = 4096;

/// Memory that begins where direct input and output want it.
#[derive(Debug)]
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    /// So many bytes, all zero.
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

/// A new file for writing, past the page cache if so wished.
///
/// # Errors
/// It is there already; the file system takes no direct output (EINVAL), in which case an empty file may be left.
pub fn create(path: &Path, direct: bool) -> io::Result<File> {
    options(direct).write(true).create_new(true).mode(0o600).open(path)
}

/// A file for reading, past the page cache if so wished.
///
/// # Errors
/// It is not there, or the file system takes no direct input (EINVAL).
pub fn open(path: &Path, direct: bool) -> io::Result<File> {
    options(direct).read(true).open(path)
}

/// Writes to the disk what the page cache holds of a file, and asks the kernel to keep none of it. Whether it did, tells
/// [`resident`].
pub fn forget(file: &File) -> io::Result<()> {
    rustix::fs::fdatasync(file)?;
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

/// What is looked at of a long file: so many windows at even distances, each so long. Looking costs some 50 ns a page.
const WINDOWS: u64 = 128;
const WINDOW_BYTES: u64 = 16 << 20;

/// The share of a file that is in the page cache, from 0 to 1; of a file longer than 2 GiB, by samples. The file is open
/// for reading.
///
/// # Errors
/// It cannot be mapped: not a file, or a file system without a page cache.
pub fn resident(file: &File) -> io::Result<f64> {
    let length = file.metadata()?.len();
    let windows = length.div_ceil(WINDOW_BYTES);
    let looked = windows.min(WINDOWS);
    let (mut pages, mut cached) = (0, 0);
    for n in 0..looked {
        // Without overflow: a window's number times 128 fits.
        let offset = n * windows / looked * WINDOW_BYTES;
        let span = (length - offset).min(WINDOW_BYTES) as usize;
        let found = pages_of(file, offset, span)?;
        pages += found.len();
        // The other bits are reserved (mincore(2)).
        cached += found.iter().filter(|page| *page & 1 == 1).count();
    }
    Ok(if pages == 0 { 0.0 } else { cached as f64 / pages as f64 })
}

/// A byte for each page of a part of a file: odd where the page cache has it. A part is not empty.
fn pages_of(file: &File, offset: u64, span: usize) -> io::Result<Vec<u8>> {
    let offset = libc::off_t::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut pages = vec![0; span.div_ceil(rustix::param::page_size())];
    let (kind, fd) = (libc::MAP_SHARED, file.as_raw_fd());
    // SAFETY: a new mapping at an address of the kernel's choice; nothing else is replaced, and it is never read.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), span, libc::PROT_READ, kind, fd, offset) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is `span` long, and the vector has a byte for each of its pages.
    let status = unsafe { libc::mincore(address, span, pages.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: the mapping of above, which nothing refers to.
    unsafe { libc::munmap(address, span) };
    if status < 0 { Err(error) } else { Ok(pages) }
}

/// Has what was written brought to the file system, and says what that has against it: one of another host (NFS, CIFS, FUSE) takes
/// writes and may refuse them later, for want of space or quota, to who closes the file (close(2)). A copy of the descriptor is closed;
/// this one stays open. On a file system of this host's own there is nothing to do.
///
/// # Errors
/// What the file system says.
pub fn check_written(file: &impl AsFd) -> io::Result<()> {
    loop {
        let copy = rustix::io::fcntl_dupfd_cloexec(file, 0)?;
        // SAFETY: the copy is ours, and nobody's any more after this, whatever is said: the kernel lets go of it in any case.
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

    /// A name for a file, removed at the end.
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
    fn what_was_written_is_in_the_cache() {
        let name = Name::new("cache");
        let written = create(&name.0, false).unwrap();
        written.write_all_at(&vec![1; 3 << 20], 0).unwrap();
        assert!(create(&name.0, false).is_err(), "a file that is there is not taken");
        let file = open(&name.0, false).unwrap();
        assert_eq!(resident(&file).unwrap(), 1.0);
        // In memory nothing can be forgotten; on a disk all of it is.
        let in_memory = rustix::fs::fstatfs(&file).unwrap().f_type == 0x0102_1994;
        forget(&written).unwrap();
        assert_eq!(resident(&file).unwrap(), if in_memory { 1.0 } else { 0.0 });
    }

    #[test]
    fn an_empty_file_is_nowhere() {
        let name = Name::new("empty");
        create(&name.0, false).unwrap();
        assert_eq!(resident(&open(&name.0, false).unwrap()).unwrap(), 0.0);
    }

    #[test]
    fn direct_bytes_come_back() {
        let name = Name::new("direct");
        let file = match create(&name.0, true) {
            Ok(file) => file,
            Err(error) => {
                let to = std::env::temp_dir();
                // Past the harness, which shows nothing of tests that pass.
                let skipped =
                    format!("SKIPPED direct_bytes_come_back: {} takes no direct output: {error}\n", to.display());
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
