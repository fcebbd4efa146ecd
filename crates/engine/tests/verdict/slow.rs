//! A store on a device of a given rate, in bytes per second, which all its users share.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::{RelPath, Timestamp};
use store::{AttributeSelection, Capabilities, Entries, Extent, Finish, Result, Sink, Source, Space, Stat, Store};

/// A device that does one operation at a time.
#[derive(Debug)]
struct Device {
    bytes_s: u64,
    free_at: Mutex<Instant>,
}

impl Device {
    fn wait_for(&self, bytes: usize) {
        let until = {
            let mut free_at = self.free_at.lock().unwrap();
            *free_at = (*free_at).max(Instant::now()) + Duration::from_secs_f64(bytes as f64 / self.bytes_s as f64);
            *free_at
        };
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

#[derive(Debug)]
pub struct SlowStore {
    inner: Arc<dyn Store>,
    device: Arc<Device>,
}

#[derive(Debug)]
struct SlowSource {
    inner: Arc<dyn Source>,
    device: Arc<Device>,
}

#[derive(Debug)]
struct SlowSink {
    inner: Arc<dyn Sink>,
    device: Arc<Device>,
}

impl SlowStore {
    pub fn new(inner: Arc<dyn Store>, bytes_s: u64) -> SlowStore {
        SlowStore { inner, device: Arc::new(Device { bytes_s, free_at: Mutex::new(Instant::now()) }) }
    }

    fn sink(&self, inner: Arc<dyn Sink>) -> Arc<dyn Sink> {
        Arc::new(SlowSink { inner, device: Arc::clone(&self.device) })
    }
}

impl Store for SlowStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    fn stat(&self, path: &RelPath) -> Result<Stat> {
        self.inner.stat(path)
    }
    fn is_dir(&self, path: &RelPath) -> bool {
        self.inner.is_dir(path)
    }
    fn list(&self, path: &RelPath) -> Result<Entries> {
        self.inner.list(path)
    }
    fn read_link(&self, path: &RelPath) -> Result<Vec<u8>> {
        self.inner.read_link(path)
    }
    fn open(&self, path: &RelPath) -> Result<Arc<dyn Source>> {
        let inner = self.inner.open(path)?;
        Ok(Arc::new(SlowSource { inner, device: Arc::clone(&self.device) }))
    }
    fn create(&self, path: &RelPath, tag: &str) -> Result<Arc<dyn Sink>> {
        Ok(self.sink(self.inner.create(path, tag)?))
    }
    fn resume(&self, path: &RelPath, tag: &str) -> Result<Option<Arc<dyn Sink>>> {
        Ok(self.inner.resume(path, tag)?.map(|inner| self.sink(inner)))
    }
    fn forget(&self, path: &RelPath, tag: &str) -> Result<()> {
        self.inner.forget(path, tag)
    }
    fn attributes(&self, path: &RelPath, asked: AttributeSelection) -> Result<model::entry::Attributes> {
        self.inner.attributes(path, asked)
    }
    fn differs(&self, path: &RelPath, from: &store::WantedMetadata<'_>) -> Result<bool> {
        self.inner.differs(path, from)
    }

    fn refresh(&self, path: &RelPath, to: &store::WantedMetadata<'_>) -> Result<bool> {
        self.inner.refresh(path, to)
    }
    fn space(&self, path: &RelPath) -> Result<Option<Space>> {
        self.inner.space(path)
    }
    fn make_dir(&self, path: &RelPath) -> Result<()> {
        self.inner.make_dir(path)
    }
    fn make_symlink(&self, path: &RelPath, target: &[u8], mtime: Timestamp, replace: bool, tag: &str) -> Result<()> {
        self.inner.make_symlink(path, target, mtime, replace, tag)
    }
    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, tag: &str) -> Result<()> {
        self.inner.make_hard_link(path, to, replace, tag)
    }
    fn finish_dir(&self, path: &RelPath, mode: u32, mtime: Timestamp) -> Result<()> {
        self.inner.finish_dir(path, mode, mtime)
    }
    fn remove(&self, path: &RelPath) -> Result<()> {
        self.inner.remove(path)
    }
    fn rename(&self, from: &RelPath, to: &RelPath, replace: bool) -> Result<()> {
        self.inner.rename(from, to, replace)
    }
}

impl Source for SlowSource {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.device.wait_for(buffer.len());
        self.inner.read_at(buffer, offset)
    }
    fn stat(&self) -> Result<Stat> {
        self.inner.stat()
    }
    fn extent(&self, offset: u64, size: u64) -> Result<Extent> {
        self.inner.extent(offset, size)
    }
}

impl Sink for SlowSink {
    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.device.wait_for(buffer.len());
        self.inner.write_at(buffer, offset)
    }
    fn clear(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.clear(offset, len)
    }
    fn reserve(&self, size: u64) -> Result<bool> {
        self.inner.reserve(size)
    }
    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }
    fn keep(&self) {
        self.inner.keep();
    }
    fn as_source(&self) -> Result<Arc<dyn Source>> {
        let inner = self.inner.as_source()?;
        Ok(Arc::new(SlowSource { inner, device: Arc::clone(&self.device) }))
    }
    fn commit(&self, finish: &Finish) -> Result<()> {
        self.inner.commit(finish)
    }
    fn discard(&self) {
        self.inner.discard();
    }
}
