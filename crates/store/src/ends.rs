//! The stores without a disk: `null:` accepts everything and keeps nothing, `zero:SIZE` gives zero bytes. With them a
//! measurement does not depend on a disk.

use std::sync::Arc;

use model::name::{Name, RelPath};
use model::{Kind, Meta, Timestamp};

use crate::{Capabilities, Entries, Error, Extent, Finish, Result, Sink, Source, Stat, Store, Writes};

/// `null:`, or `zero:`, which has one file of zeros at its root.
#[derive(Clone, Copy, Debug)]
pub enum DisklessStore {
    /// Accepts everything and keeps nothing.
    Null,
    /// A file with this number of zero bytes.
    Zero(u64),
}

impl DisklessStore {
    fn word(self) -> &'static str {
        match self {
            DisklessStore::Null => "null:",
            DisklessStore::Zero(_) => "zero:",
        }
    }

    fn only_null<T>(self, what: &'static str, value: T) -> Result<T> {
        match self {
            DisklessStore::Null => Ok(value),
            DisklessStore::Zero(_) => Err(Error::Unsupported { what, store: self.word() }),
        }
    }

    fn facts(self) -> Stat {
        let size = match self {
            DisklessStore::Null => 0,
            DisklessStore::Zero(size) => size,
        };
        let meta = Meta { kind: Kind::File, mode: 0o644, size, mtime: Timestamp::default() };
        Stat { meta, identity: (0, 0), names: 1, allocated: size, changed: None }
    }
}

impl Store for DisklessStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writes: Writes::Anywhere,
            any_name: true,
            sized: true,
            times: true,
            posix: false,
            sparse: false,
            keeps: false,
            lists: true,
        }
    }

    fn stat(&self, path: &RelPath) -> Result<Stat> {
        match self {
            DisklessStore::Zero(_) if path.is_root() => Ok(self.facts()),
            _ => Err(Error::io("examine", path, std::io::Error::from(std::io::ErrorKind::NotFound))),
        }
    }

    fn is_dir(&self, _path: &RelPath) -> bool {
        matches!(self, DisklessStore::Null)
    }

    fn list(&self, _path: &RelPath) -> Result<Entries> {
        Ok(Entries::new(std::iter::empty()))
    }

    fn read_link(&self, _path: &RelPath) -> Result<Vec<u8>> {
        Err(Error::Unsupported { what: "a symbolic link", store: self.word() })
    }

    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>> {
        Store::stat(self, path)?;
        Ok(Arc::new(*self))
    }

    fn create(&self, _path: &RelPath, _tag: &str) -> Result<Arc<dyn Sink>> {
        self.only_null("writing", Arc::new(*self) as Arc<dyn Sink>)
    }

    fn join(&self, _path: &RelPath, _tag: &str, _size: u64) -> Result<Option<Arc<dyn Sink>>> {
        Ok(matches!(self, DisklessStore::Null).then(|| Arc::new(*self) as Arc<dyn Sink>))
    }

    fn make_dir(&self, _path: &RelPath) -> Result<()> {
        self.only_null("making a directory", ())
    }

    fn make_symlink(&self, _: &RelPath, _: &[u8], _: Timestamp, _: bool, _: &str) -> Result<()> {
        self.only_null("a symbolic link", ())
    }

    fn make_hard_link(&self, _: &RelPath, _: &RelPath, _: bool, _: &str) -> Result<()> {
        self.only_null("a hard link", ())
    }

    fn finish_dir(&self, _: &RelPath, _: u32, _: Timestamp) -> Result<()> {
        self.only_null("making a directory", ())
    }

    fn remove(&self, _path: &RelPath) -> Result<()> {
        Err(Error::Unsupported { what: "removing", store: self.word() })
    }

    fn rename(&self, _from: &RelPath, _to: &RelPath, _replace: bool) -> Result<()> {
        Err(Error::Unsupported { what: "renaming", store: self.word() })
    }
}

impl Source for DisklessStore {
    fn zeros_at(&self, offset: u64, len: usize) -> Option<usize> {
        Some(self.facts().meta.size.saturating_sub(offset).min(len as u64) as usize)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let left = self.facts().meta.size.saturating_sub(offset);
        let len = left.min(buffer.len() as u64) as usize;
        buffer[..len].fill(0);
        Ok(len)
    }

    fn stat(&self) -> Result<Stat> {
        Ok(self.facts())
    }

    fn extent(&self, _offset: u64, size: u64) -> Result<Extent> {
        Ok(Extent::Data(size))
    }
}

impl Sink for DisklessStore {
    fn write_at(&self, _buffer: &[u8], _offset: u64) -> Result<()> {
        Ok(())
    }

    fn as_source(&self) -> Result<Arc<dyn Source>> {
        Err(Error::Unsupported { what: "reading back", store: self.word() })
    }

    fn commit(&self, _finish: &Finish) -> Result<()> {
        Ok(())
    }

    fn discard(&self) {}
}

/// The name that a file of zeros has in a transfer.
pub fn zero_name() -> Name {
    #[allow(clippy::unwrap_used, reason = "a literal that is a legal name")]
    Name::new(b"zero").unwrap()
}
