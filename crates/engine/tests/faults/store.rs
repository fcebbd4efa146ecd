//! A store that fails as a plan says: on read, write, open or commit.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::{RelPath, Timestamp};
use store::{
    AttributeSelection, Capabilities, Entries, Error, Extent, Finish, Result, Sink, Source, Space, Stat, Store,
};

use crate::rng::Rng;

/// Numbers of errno(3).
const ENOENT: i32 = 2;
const EINTR: i32 = 4;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Eio,
    Eintr,
    /// The store is full for this time.
    Full(Duration),
    /// The file ends early.
    Short,
    /// The file has grown.
    Grown,
    Vanished,
}

/// Which operations fail, and how.
#[derive(Debug, Default)]
pub struct Plan {
    faults: Mutex<HashMap<u64, Fault>>,
    operations: AtomicU64,
    fault_count: AtomicU64,
    full_until: Mutex<Option<Instant>>,
}

impl Plan {
    /// Some faults among the first operations.
    pub fn new(rng: &mut Rng) -> Arc<Plan> {
        let mut faults = HashMap::new();
        for _ in 0..rng.below(4) {
            let fault = match rng.below(6) {
                0 => Fault::Eio,
                1 => Fault::Eintr,
                2 => Fault::Full(Duration::from_millis(rng.below(400))),
                3 => Fault::Short,
                4 => Fault::Grown,
                _ => Fault::Vanished,
            };
            faults.insert(rng.below(150), fault);
        }
        Arc::new(Plan { faults: Mutex::new(faults), ..Plan::default() })
    }

    pub fn fault_count(&self) -> u64 {
        self.fault_count.load(Ordering::SeqCst)
    }

    fn take_fault(&self, fits: impl Fn(Fault) -> bool) -> Option<Fault> {
        let at = self.operations.fetch_add(1, Ordering::SeqCst);
        let mut faults = self.faults.lock().unwrap();
        // The fault of the earliest planned operation that is due and fits this one.
        let due =
            faults.iter().filter(|(planned, fault)| **planned <= at && fits(**fault)).map(|(planned, _)| *planned);
        let fault = due.min().and_then(|planned| faults.remove(&planned));
        self.fault_count.fetch_add(u64::from(fault.is_some()), Ordering::SeqCst);
        fault
    }

    fn error(doing: &'static str, path: &RelPath, errno: i32) -> Error {
        Error::io(doing, path, io::Error::from_raw_os_error(errno))
    }

    /// Fails as planned for a read. Returns whether the read is short.
    fn fault_of_read(&self, path: &RelPath) -> Result<bool> {
        match self.take_fault(|fault| matches!(fault, Fault::Eio | Fault::Eintr | Fault::Short)) {
            Some(Fault::Eio) => Err(Plan::error("read", path, EIO)),
            Some(Fault::Eintr) => Err(Plan::error("read", path, EINTR)),
            Some(_) => Ok(true),
            None => Ok(false),
        }
    }

    fn fault_of_write(&self, doing: &'static str, path: &RelPath) -> Result<()> {
        let mut full = self.full_until.lock().unwrap();
        if full.is_some_and(|until| Instant::now() < until) {
            return Err(Plan::error(doing, path, ENOSPC));
        }
        match self.take_fault(|fault| matches!(fault, Fault::Eio | Fault::Eintr | Fault::Full(_))) {
            Some(Fault::Eio) => Err(Plan::error(doing, path, EIO)),
            Some(Fault::Eintr) => Err(Plan::error(doing, path, EINTR)),
            Some(Fault::Full(span)) => {
                *full = Some(Instant::now() + span);
                Err(Plan::error(doing, path, ENOSPC))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
pub struct FaultyStore {
    pub inner: Arc<dyn Store>,
    pub plan: Arc<Plan>,
}

#[derive(Debug)]
struct FaultySource {
    inner: Arc<dyn Source>,
    plan: Arc<Plan>,
    path: RelPath,
}

#[derive(Debug)]
struct FaultySink {
    inner: Arc<dyn Sink>,
    plan: Arc<Plan>,
    path: RelPath,
}

impl FaultyStore {
    fn sink(&self, inner: Arc<dyn Sink>, path: &RelPath) -> Arc<dyn Sink> {
        Arc::new(FaultySink { inner, plan: Arc::clone(&self.plan), path: path.clone() })
    }
}

impl Store for FaultyStore {
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
        if self.plan.take_fault(|fault| matches!(fault, Fault::Vanished)).is_some() {
            return Err(Plan::error("open", path, ENOENT));
        }
        let inner = self.inner.open(path)?;
        Ok(Arc::new(FaultySource { inner, plan: Arc::clone(&self.plan), path: path.clone() }))
    }
    fn create(&self, path: &RelPath, tag: &str) -> Result<Arc<dyn Sink>> {
        self.plan.fault_of_write("create", path)?;
        Ok(self.sink(self.inner.create(path, tag)?, path))
    }
    fn resume(&self, path: &RelPath, tag: &str) -> Result<Option<Arc<dyn Sink>>> {
        Ok(self.inner.resume(path, tag)?.map(|inner| self.sink(inner, path)))
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
        self.plan.fault_of_write("make", path)?;
        self.inner.make_dir(path)
    }
    fn make_symlink(&self, path: &RelPath, target: &[u8], mtime: Timestamp, replace: bool, tag: &str) -> Result<()> {
        self.plan.fault_of_write("make", path)?;
        self.inner.make_symlink(path, target, mtime, replace, tag)
    }
    fn make_hard_link(&self, path: &RelPath, to: &RelPath, replace: bool, tag: &str) -> Result<()> {
        self.plan.fault_of_write("make", path)?;
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

impl Source for FaultySource {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let short = self.plan.fault_of_read(&self.path)?;
        let got = self.inner.read_at(buffer, offset)?;
        Ok(if short { got / 2 } else { got })
    }
    fn stat(&self) -> Result<Stat> {
        let mut stat = self.inner.stat()?;
        if self.plan.take_fault(|fault| matches!(fault, Fault::Grown)).is_some() {
            stat.meta.size += 1;
        }
        Ok(stat)
    }
    fn extent(&self, offset: u64, size: u64) -> Result<Extent> {
        self.inner.extent(offset, size)
    }
}

impl Sink for FaultySink {
    fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        if let Err(error) = self.plan.fault_of_write("write", &self.path) {
            // A full or failing device takes a part of a block before it fails.
            self.inner.write_at(&buffer[..buffer.len() / 3], offset)?;
            return Err(error);
        }
        self.inner.write_at(buffer, offset)
    }
    fn clear(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.clear(offset, len)
    }
    fn reserve(&self, size: u64) -> Result<bool> {
        self.plan.fault_of_write("reserve room for", &self.path)?;
        self.inner.reserve(size)
    }
    fn flush(&self) -> Result<()> {
        self.plan.fault_of_write("flush", &self.path)?;
        self.inner.flush()
    }
    fn keep(&self) {
        self.inner.keep();
    }
    fn as_source(&self) -> Result<Arc<dyn Source>> {
        let inner = self.inner.as_source()?;
        Ok(Arc::new(FaultySource { inner, plan: Arc::clone(&self.plan), path: self.path.clone() }))
    }
    fn commit(&self, finish: &Finish) -> Result<()> {
        self.plan.fault_of_write("put in place", &self.path)?;
        self.inner.commit(finish)
    }
    fn discard(&self) {
        self.inner.discard();
    }
}
