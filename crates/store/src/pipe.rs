//! Standard input and output as the ends of a transfer: one file of unknown length, in order.
//!
//! A pipe cannot seek: reads and writes out of order are refused, so the engine keeps such a file on one stream.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use model::name::RelPath;
use model::{Kind, Meta, Timestamp};
use parking_lot::{Mutex, MutexGuard};

use crate::{Capabilities, Entries, Error, Extent, Finish, Result, Sink, Source, Stat, Store, Writes};

/// A pipe, to read from or to write to.
#[derive(Clone, Debug)]
pub struct Pipe(Arc<Mutex<OpenPipe>>);

#[derive(Debug)]
struct OpenPipe {
    file: File,
    /// The offset of the next byte.
    position: u64,
}

impl Pipe {
    /// The pipe behind a descriptor.
    pub fn new(descriptor: OwnedFd) -> Pipe {
        Pipe(Arc::new(Mutex::new(OpenPipe { file: File::from(descriptor), position: 0 })))
    }

    fn inner(&self) -> MutexGuard<'_, OpenPipe> {
        self.0.lock()
    }
}

fn unsupported<T>(what: &'static str) -> Result<T> {
    Err(Error::Unsupported { what, store: "a pipe" })
}

fn out_of_order(doing: &'static str) -> Error {
    let error = io::Error::new(io::ErrorKind::NotSeekable, "a pipe takes and gives bytes in order only");
    Error::io(doing, &RelPath::root(), error)
}

impl Store for Pipe {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writes: Writes::InOrder,
            any_name: true,
            sized: false,
            times: false,
            posix: false,
            sparse: false,
            keeps: true,
            lists: true,
        }
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        if path.is_root() { Source::stat(self) } else { unsupported("a path below the root") }
    }

    fn is_dir(&self, _path: &RelPath) -> bool {
        false
    }

    fn list(&self, _path: &RelPath) -> Result<Entries> {
        unsupported("listing")
    }

    fn read_link(&self, _path: &RelPath) -> Result<Vec<u8>> {
        unsupported("a symbolic link")
    }

    fn open(&self, _path: &RelPath) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(self.clone()))
    }

    fn create(&self, path: &RelPath, _tag: &str) -> Result<Arc<dyn Sink>> {
        if path.is_root() { Ok(Arc::new(self.clone())) } else { unsupported("more than one file") }
    }

    fn make_dir(&self, _path: &RelPath) -> Result<()> {
        unsupported("making a directory")
    }

    fn make_symlink(&self, _: &RelPath, _: &[u8], _: Timestamp, _: bool, _: &str) -> Result<()> {
        unsupported("a symbolic link")
    }

    fn make_hard_link(&self, _: &RelPath, _: &RelPath, _: bool, _: &str) -> Result<()> {
        unsupported("a hard link")
    }

    fn finish_dir(&self, _: &RelPath, _: u32, _: Timestamp) -> Result<()> {
        unsupported("making a directory")
    }

    fn remove(&self, _path: &RelPath) -> Result<()> {
        unsupported("removing")
    }

    fn rename(&self, _from: &RelPath, _to: &RelPath, _replace: bool) -> Result<()> {
        unsupported("renaming")
    }
}

impl Source for Pipe {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut inner = self.inner();
        if offset != inner.position {
            return Err(out_of_order("read"));
        }
        let mut filled = 0;
        while filled < buffer.len() {
            match inner.file.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(got) => filled += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io("read", &RelPath::root(), error)),
            }
        }
        inner.position += filled as u64;
        Ok(filled)
    }

    fn stat(&self) -> Result<Stat> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let mtime = Timestamp { seconds: now.as_secs() as i64, nanos: now.subsec_nanos() };
        let meta = Meta { kind: Kind::File, mode: 0o644, size: 0, mtime };
        Ok(Stat { meta, identity: (0, 0), names: 1, allocated: 0, changed: None })
    }

    fn extent(&self, _offset: u64, size: u64) -> Result<Extent> {
        Ok(Extent::Data(size))
    }
}

impl Sink for Pipe {
    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        let mut inner = self.inner();
        if offset != inner.position {
            return Err(out_of_order("write"));
        }
        inner.file.write_all(buffer).map_err(|e| Error::io("write", &RelPath::root(), e))?;
        inner.position += buffer.len() as u64;
        Ok(())
    }

    fn as_source(&self) -> Result<Arc<dyn Source>> {
        unsupported("reading back")
    }

    fn commit(&self, finish: &Finish) -> Result<()> {
        // A hole at the end is written as zeros.
        let at = self.inner().position;
        let mut left = finish.size.saturating_sub(at);
        let zeros = [0u8; 1 << 16];
        while left > 0 {
            let step = left.min(zeros.len() as u64);
            self.write_at(&zeros[..step as usize], finish.size - left)?;
            left -= step;
        }
        Ok(())
    }

    fn discard(&self) {}
}
