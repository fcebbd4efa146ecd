//! The records of transfers, `STATE/transfers/ID`: a line of JSON with the order, and, once the transfer has ended, a second line with
//! its receipt. Only the node's user may read them.
//!
//! A record is written before the transfer is accepted. The file is locked while the transfer is under way, so that no other node
//! with the same state directory runs it as well.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::id::Uuid;
use model::v1::node::Order;
use model::v1::{Change, Transfer};
use serde::{Deserialize, Serialize};

/// The suffix of a file that is being written.
const UNFINISHED_SUFFIX: &str = "new";

/// The record of a transfer, apart from its receipt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TransferRecord {
    /// The version of the format.
    pub v: u32,
    /// The holder who ordered it.
    pub holder: String,
    /// The time of the order.
    pub created: String,
    /// The number of its last change, which is the id of its event.
    pub revision: u64,
    /// The order; without secrets and details once the transfer has ended.
    pub order: Order,
    /// A digest of the original order, by which a repeated order is recognised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_digest: Option<String>,
    /// The length of its receipt, bytes.
    #[serde(default)]
    pub receipt_bytes: usize,
    /// The changes since the order.
    pub changes: Change,
    /// The transfer was cancelled. Only earlier versions wrote this; now `changes` holds it.
    #[serde(default, skip_serializing)]
    pub cancelled: bool,
    /// The transfer as it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Transfer>,
}

/// Whether this node may begin a transfer.
pub(crate) enum ClaimOutcome {
    /// The transfer is this node's for as long as the file is open.
    Ours(File),
    /// Another node with this state directory has ended the transfer.
    Ended(Box<TransferRecord>),
    /// Another node with this state directory runs the transfer, or there is no record.
    NotOurs,
}

/// The directory of records.
#[derive(Clone, Debug)]
pub(crate) struct TransferRecords(PathBuf);

impl TransferRecords {
    pub fn new(dir: PathBuf) -> TransferRecords {
        TransferRecords(dir)
    }

    fn path(&self, id: &Uuid) -> PathBuf {
        self.0.join(id.to_string())
    }

    /// Writes a record as a whole or not at all. The returned file holds the lock if `lock` is set.
    ///
    /// # Errors
    /// The directory or the file cannot be written.
    pub fn write(&self, record: &TransferRecord, receipt: Option<&str>, lock: bool) -> io::Result<File> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let path = self.path(&record.order.id);
        let unfinished = path.with_extension(UNFINISHED_SUFFIX);
        let mut bytes = serde_json::to_vec(record)?;
        bytes.push(b'\n');
        if let Some(receipt) = receipt {
            bytes.extend_from_slice(receipt.as_bytes());
            bytes.push(b'\n');
        }
        let _ = fs::remove_file(&unfinished);
        let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&unfinished)?;
        let mut write = || {
            if lock {
                file.lock()?;
            }
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            // The directory is synced as well, so that an accepted order survives a power cut.
            File::open(&self.0)?.sync_all()
        };
        // An order that is not accepted leaves no file with its secrets.
        write().inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
        Ok(file)
    }

    /// Removes incomplete files, which a killed node may have left with secrets in them.
    pub fn sweep(&self) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        for path in entries.filter(|path| path.extension().is_some_and(|ending| ending == UNFINISHED_SUFFIX)) {
            if File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Claims a transfer that is about to begin.
    ///
    /// # Errors
    /// The record cannot be opened.
    pub fn claim(&self, id: &Uuid) -> io::Result<ClaimOutcome> {
        let path = self.path(id);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ClaimOutcome::NotOurs),
            Err(error) => return Err(error),
        };
        if !lock_soon(&file) {
            return Ok(ClaimOutcome::NotOurs);
        }
        // The locked file may have been replaced meanwhile: the node that did that has the transfer.
        let is_same = fs::metadata(&path).is_ok_and(|now| file.metadata().is_ok_and(|of| of.ino() == now.ino()));
        if !is_same {
            return Ok(read(&path)
                .filter(|record| record.ended.is_some())
                .map_or(ClaimOutcome::NotOurs, |record| ClaimOutcome::Ended(record.into())));
        }
        match read(&path) {
            Some(record) if record.ended.is_some() => Ok(ClaimOutcome::Ended(record.into())),
            Some(_) => Ok(ClaimOutcome::Ours(file)),
            None => Ok(ClaimOutcome::NotOurs),
        }
    }

    /// All records, oldest first, without those of transfers that another node with this state directory runs now.
    pub fn all(&self) -> Vec<TransferRecord> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Vec::new() };
        let mut all: Vec<TransferRecord> = entries.flatten().filter_map(|entry| self.known(&entry.path())).collect();
        all.sort_by(|a, b| (&a.created, a.order.id).cmp(&(&b.created, b.order.id)));
        all
    }

    fn known(&self, path: &Path) -> Option<TransferRecord> {
        let id: Uuid = path.file_name()?.to_str()?.parse().ok()?;
        let file = File::open(path).ok()?;
        if file.try_lock_shared().is_err() {
            return None;
        }
        let record = read(path).filter(|record| record.order.id == id);
        if record.is_none() {
            tracing::warn!(path = %path.display(), "the record of a transfer cannot be read, and is left alone");
        }
        record
    }

    /// The receipt of an ended transfer, as it was written.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn receipt(&self, id: &Uuid) -> io::Result<String> {
        let mut lines = BufReader::new(File::open(self.path(id))?);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        line.clear();
        lines.read_line(&mut line)?;
        Ok(line)
    }

    /// Removes a record.
    pub fn remove(&self, id: &Uuid) {
        let _ = fs::remove_file(self.path(id));
    }
}

/// Locks a file, unless another process holds the lock for longer than a reader needs.
fn lock_soon(file: &File) -> bool {
    (0..10).any(|at| {
        std::thread::sleep(Duration::from_millis(at));
        file.try_lock().is_ok()
    })
}

/// The first line of a file.
fn read(path: &Path) -> Option<TransferRecord> {
    let mut line = String::new();
    BufReader::new(File::open(path).ok()?).read_line(&mut line).ok()?;
    serde_json::from_str::<TransferRecord>(&line).ok().filter(|record| record.v == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u128) -> TransferRecord {
        TransferRecord {
            v: 1,
            holder: "me".into(),
            created: format!("2026-01-01T00:00:0{id}Z"),
            revision: 7,
            order: Order::new(Uuid::from_u128(id), "/d/a", "lh://h/e/x"),
            order_digest: None,
            receipt_bytes: 0,
            changes: Change::default(),
            cancelled: false,
            ended: None,
        }
    }

    #[test]
    fn a_transfer_is_claimed_by_one_node() {
        let dir = tempfile::tempdir().unwrap();
        let records = TransferRecords::new(dir.path().join("transfers"));
        let (first, second) = (record(1), record(2));
        for one in [&second, &first] {
            drop(records.write(one, None, false).unwrap());
        }
        assert_eq!(records.all().iter().map(|record| record.order.id.as_u128()).collect::<Vec<_>>(), [1, 2]);
        let ClaimOutcome::Ours(held) = records.claim(&first.order.id).unwrap() else {
            panic!("the record is not locked")
        };
        assert!(matches!(records.claim(&first.order.id).unwrap(), ClaimOutcome::NotOurs));
        assert_eq!(records.all().len(), 1, "a record that another node has locked is left alone");
        drop(held);
        let ended = TransferRecord { ended: Some(Transfer::default()), ..first.clone() };
        drop(records.write(&ended, None, false).unwrap());
        assert!(matches!(records.claim(&first.order.id).unwrap(), ClaimOutcome::Ended(_)));
        records.remove(&first.order.id);
        assert!(matches!(records.claim(&first.order.id).unwrap(), ClaimOutcome::NotOurs));
        let mode = fs::metadata(records.path(&second.order.id)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn an_incomplete_record_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let records = TransferRecords::new(dir.path().into());
        drop(records.write(&record(4), None, false).unwrap());
        fs::write(records.path(&Uuid::from_u128(5)).with_extension(UNFINISHED_SUFFIX), "{\"secret").unwrap();
        records.sweep();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // A directory with the record's name prevents the write: no incomplete file stays.
        fs::create_dir(records.path(&Uuid::from_u128(6))).unwrap();
        assert!(records.write(&record(6), None, false).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_unreadable_record_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let records = TransferRecords::new(dir.path().into());
        fs::write(records.path(&Uuid::from_u128(3)), "not JSON").unwrap();
        fs::write(dir.path().join("other"), "not an id").unwrap();
        assert!(records.all().is_empty());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
