//! What is written down of a transfer, `STATE/transfers/ID`: one line of JSON with its order, and, once it has ended, a second one
//! with its receipt. Readable by the node's user alone.
//!
//! A transfer is written down before it is accepted. The file is locked while the transfer is under way, so that no other node with
//! the same state directory takes it on as well.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::id::Uuid;
use model::v1::node::Order;
use model::v1::{Change, Transfer};
use serde::{Deserialize, Serialize};

/// How the name of a file ends that is being written.
const BESIDE: &str = "new";

/// What is kept of a transfer, apart from its receipt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The form's version.
    pub v: u32,
    /// Whose it is.
    pub holder: String,
    /// When it was ordered.
    pub created: String,
    /// When it changed last, as events count.
    pub revision: u64,
    /// What was ordered; once it has ended without secrets, and without what nobody asks for any more.
    pub order: Order,
    /// A digest of the order as it was given, by which the same order is known again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_digest: Option<String>,
    /// How long its receipt is.
    #[serde(default)]
    pub receipt_bytes: usize,
    /// What was changed since.
    pub changes: Change,
    /// It was cancelled: where earlier versions wrote that down. `changes` says it now.
    #[serde(default, skip_serializing)]
    pub cancelled: bool,
    /// What became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Transfer>,
}

/// Whether a transfer may be begun here.
pub(crate) enum Claim {
    /// It is ours for as long as this is open.
    Ours(File),
    /// Another node with this state directory has ended it.
    Ended(Box<Kept>),
    /// Another node with this state directory carries it, or nothing is known of it any more.
    Elsewhere,
}

/// The directory of them.
#[derive(Clone, Debug)]
pub(crate) struct Shelf(PathBuf);

impl Shelf {
    pub fn new(dir: PathBuf) -> Shelf {
        Shelf(dir)
    }

    fn path(&self, id: &Uuid) -> PathBuf {
        self.0.join(id.to_string())
    }

    /// Writes it down, whole or not at all; what comes back holds the lock where `lock` asks for one.
    pub fn write(&self, kept: &Kept, receipt: Option<&str>, lock: bool) -> io::Result<File> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let path = self.path(&kept.order.id);
        let beside = path.with_extension(BESIDE);
        let mut bytes = serde_json::to_vec(kept)?;
        bytes.push(b'\n');
        if let Some(receipt) = receipt {
            bytes.extend_from_slice(receipt.as_bytes());
            bytes.push(b'\n');
        }
        let _ = fs::remove_file(&beside);
        let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&beside)?;
        let mut write = || {
            if lock {
                file.lock()?;
            }
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&beside, &path)?;
            // The name as well: what was answered to is there after a power cut.
            File::open(&self.0)?.sync_all()
        };
        // An order that was not taken on leaves nothing, least of all its secrets.
        write().inspect_err(|_| drop(fs::remove_file(&beside)))?;
        Ok(file)
    }

    /// Removes what a node that was killed while it wrote has left: half of an order, with its secrets.
    pub fn sweep(&self) {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        for path in entries.filter(|path| path.extension().is_some_and(|ending| ending == BESIDE)) {
            if File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Takes a transfer on that is about to begin.
    pub fn claim(&self, id: &Uuid) -> io::Result<Claim> {
        let path = self.path(id);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Claim::Elsewhere),
            Err(error) => return Err(error),
        };
        if !lock_soon(&file) {
            return Ok(Claim::Elsewhere);
        }
        // What was locked may have been replaced by then: who did that has it.
        let is_same = fs::metadata(&path).is_ok_and(|now| file.metadata().is_ok_and(|of| of.ino() == now.ino()));
        if !is_same {
            return Ok(read(&path)
                .filter(|kept| kept.ended.is_some())
                .map_or(Claim::Elsewhere, |k| Claim::Ended(k.into())));
        }
        match read(&path) {
            Some(kept) if kept.ended.is_some() => Ok(Claim::Ended(kept.into())),
            Some(_) => Ok(Claim::Ours(file)),
            None => Ok(Claim::Elsewhere),
        }
    }

    /// All that is known, oldest first; without what another node with this state directory carries just now.
    pub fn all(&self) -> Vec<Kept> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Vec::new() };
        let mut all: Vec<Kept> = entries.flatten().filter_map(|entry| self.known(&entry.path())).collect();
        all.sort_by(|a, b| (&a.created, a.order.id).cmp(&(&b.created, b.order.id)));
        all
    }

    fn known(&self, path: &Path) -> Option<Kept> {
        let id: Uuid = path.file_name()?.to_str()?.parse().ok()?;
        let file = File::open(path).ok()?;
        if file.try_lock_shared().is_err() {
            return None;
        }
        let kept = read(path).filter(|kept| kept.order.id == id);
        if kept.is_none() {
            tracing::warn!(path = %path.display(), "what is kept of a transfer does not read, and is left alone");
        }
        kept
    }

    /// The receipt of one that has ended, as it was written.
    pub fn receipt(&self, id: &Uuid) -> io::Result<String> {
        let mut lines = BufReader::new(File::open(self.path(id))?);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        line.clear();
        lines.read_line(&mut line)?;
        Ok(line)
    }

    /// Forgets one.
    pub fn remove(&self, id: &Uuid) {
        let _ = fs::remove_file(self.path(id));
    }
}

/// Locks a file, unless it is locked for longer than somebody needs who only reads it.
fn lock_soon(file: &File) -> bool {
    (0..10).any(|at| {
        std::thread::sleep(Duration::from_millis(at));
        file.try_lock().is_ok()
    })
}

/// The first line of a file.
fn read(path: &Path) -> Option<Kept> {
    let mut line = String::new();
    BufReader::new(File::open(path).ok()?).read_line(&mut line).ok()?;
    serde_json::from_str::<Kept>(&line).ok().filter(|kept| kept.v == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(id: u128) -> Kept {
        Kept {
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
    fn what_is_carried_belongs_to_one() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("transfers"));
        let (first, second) = (kept(1), kept(2));
        for one in [&second, &first] {
            drop(shelf.write(one, None, false).unwrap());
        }
        assert_eq!(shelf.all().iter().map(|kept| kept.order.id.as_u128()).collect::<Vec<_>>(), [1, 2]);
        let Claim::Ours(held) = shelf.claim(&first.order.id).unwrap() else { panic!("it is free") };
        assert!(matches!(shelf.claim(&first.order.id).unwrap(), Claim::Elsewhere));
        assert_eq!(shelf.all().len(), 1, "the other's is left alone");
        drop(held);
        let ended = Kept { ended: Some(Transfer::default()), ..first.clone() };
        drop(shelf.write(&ended, None, false).unwrap());
        assert!(matches!(shelf.claim(&first.order.id).unwrap(), Claim::Ended(_)));
        shelf.remove(&first.order.id);
        assert!(matches!(shelf.claim(&first.order.id).unwrap(), Claim::Elsewhere));
        let mode = fs::metadata(shelf.path(&second.order.id)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn half_of_an_order_does_not_stay() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().into());
        drop(shelf.write(&kept(4), None, false).unwrap());
        fs::write(shelf.path(&Uuid::from_u128(5)).with_extension(BESIDE), "{\"secret").unwrap();
        shelf.sweep();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // Where a directory stands in its place it cannot be written: nothing stays beside it.
        fs::create_dir(shelf.path(&Uuid::from_u128(6))).unwrap();
        assert!(shelf.write(&kept(6), None, false).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_does_not_read_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().into());
        fs::write(shelf.path(&Uuid::from_u128(3)), "not JSON").unwrap();
        fs::write(dir.path().join("other"), "not an id").unwrap();
        assert!(shelf.all().is_empty());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
