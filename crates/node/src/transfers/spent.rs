//! Ids of ended transfers that are not remembered otherwise: within [`SPENT_FOR`] of its end no id runs a second time, so that a client
//! that missed the end of an order can repeat the order without harm.
//!
//! In memory, and in `STATE/transfers-spent` for the next start: rows of 32 bytes, id, when it may be used again (seconds since
//! 1970), and a hash of the holder, all big-endian. A torn row at the end is left out.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::holder_bound::HolderBound;
use model::id::Uuid;
use sha2::{Digest, Sha256};

/// How long after its end an id is spent.
pub(crate) const SPENT_FOR: Duration = Duration::from_secs(24 * 3600);
/// Ids of one holder, and of all, that are spent or will be: beyond that no order is accepted, because its id could not be kept.
/// They take at most 67 MiB of memory (2^21 entries of 33 bytes) and 31 MiB of disk.
pub(crate) const SPENT_MAX: HolderBound = HolderBound { each: 250_000, all: 1_000_000 };

const ROW_BYTES: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    until_s: u64,
    holder: u64,
}

/// The spent ids of a node.
#[derive(Debug, Default)]
pub(super) struct SpentIds {
    rows: HashMap<Uuid, Row>,
    /// The number of ids of each holder, by the holder's hash.
    each: HashMap<u64, usize>,
    /// Rows of the file, expired ones included.
    written: usize,
    /// The file; none on a node that exists for one copy.
    path: Option<PathBuf>,
    /// When expired ids were last removed, seconds since 1970.
    swept_s: u64,
}

fn holder_hash(holder: &str) -> u64 {
    let digest = Sha256::digest(holder);
    digest[..8].iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

impl SpentIds {
    /// Reads the file of an earlier run.
    pub fn open(path: &Path, now_s: u64) -> SpentIds {
        let mut spent = SpentIds { path: Some(path.to_owned()), swept_s: now_s, ..SpentIds::default() };
        let bytes = fs::read(path).unwrap_or_default();
        for row in bytes.chunks_exact(ROW_BYTES) {
            let Some((id, rest)) = row.split_first_chunk::<16>() else { continue };
            let number = |at: usize| rest[at..at + 8].iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
            let row = Row { until_s: number(0), holder: number(8) };
            if row.until_s > now_s && spent.rows.len() < SPENT_MAX.all {
                spent.insert(Uuid::from_bytes(*id), row);
            }
        }
        // A truncated row would shift all rows after it.
        if spent.rows.len() * ROW_BYTES != bytes.len() {
            if let Err(error) = spent.rewrite() {
                tracing::warn!(path = %path.display(), %error, "the ids of ended transfers cannot be written");
            }
        } else {
            spent.written = spent.rows.len();
        }
        spent
    }

    fn insert(&mut self, id: Uuid, row: Row) {
        if self.rows.insert(id, row).is_none() {
            *self.each.entry(row.holder).or_default() += 1;
        }
    }

    /// Whether an id may not be used again yet.
    pub fn has(&self, id: &Uuid, now_s: u64) -> bool {
        self.rows.get(id).is_some_and(|row| row.until_s > now_s)
    }

    /// Whether the ids of open transfers fit: `own` of this holder, and `all` of all holders.
    pub fn has_room(&mut self, holder: &str, (own, all): (usize, usize), now_s: u64) -> bool {
        self.sweep(now_s);
        let spent = self.each.get(&holder_hash(holder)).copied().unwrap_or(0);
        spent + own < SPENT_MAX.each && self.rows.len() + all < SPENT_MAX.all
    }

    /// Adds an id, which is spent from now on.
    ///
    /// # Errors
    /// The id cannot be written: a restart would forget it.
    pub fn add(&mut self, id: Uuid, holder: &str, now_s: u64) -> io::Result<()> {
        let row = Row { until_s: now_s + SPENT_FOR.as_secs(), holder: holder_hash(holder) };
        self.insert(id, row);
        let Some(path) = &self.path else { return Ok(()) };
        if self.written > 2 * self.rows.len() + 1024 {
            return self.rewrite();
        }
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        file.write_all(&encode(&id, row))?;
        self.written += 1;
        Ok(())
    }

    /// Forgets expired ids, at most once a minute.
    fn sweep(&mut self, now_s: u64) {
        if now_s.abs_diff(self.swept_s) < 60 {
            return;
        }
        self.swept_s = now_s;
        let each = &mut self.each;
        self.rows.retain(|_, row| {
            let stays = row.until_s > now_s;
            if !stays && let Some(own) = each.get_mut(&row.holder) {
                *own -= 1;
            }
            stays
        });
        each.retain(|_, own| *own > 0);
    }

    /// Writes the file anew, without expired rows.
    fn rewrite(&mut self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let unfinished = path.with_extension("new");
        let _ = fs::remove_file(&unfinished);
        let mut bytes = Vec::with_capacity(self.rows.len() * ROW_BYTES);
        self.rows.iter().for_each(|(id, row)| bytes.extend_from_slice(&encode(id, *row)));
        let written =
            OpenOptions::new().create_new(true).write(true).mode(0o600).open(&unfinished).and_then(|mut file: File| {
                file.write_all(&bytes)?;
                file.sync_all()?;
                fs::rename(&unfinished, path)
            });
        written.inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
        self.written = self.rows.len();
        Ok(())
    }
}

fn encode(id: &Uuid, row: Row) -> [u8; ROW_BYTES] {
    let mut bytes = [0; ROW_BYTES];
    bytes[..16].copy_from_slice(id.as_bytes());
    bytes[16..24].copy_from_slice(&row.until_s.to_be_bytes());
    bytes[24..].copy_from_slice(&row.holder.to_be_bytes());
    bytes
}

const _: () = assert!(SPENT_MAX.all * ROW_BYTES <= 32 << 20);

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;

    fn id(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    #[test]
    fn an_id_is_spent_for_a_day_also_over_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spent");
        let mut spent = SpentIds::open(&path, 1000);
        spent.add(id(1), "me", 1000).unwrap();
        spent.add(id(2), "me", 2000).unwrap();
        assert!(spent.has(&id(1), 1000 + DAY - 1) && !spent.has(&id(1), 1000 + DAY) && !spent.has(&id(3), 1000));
        // A power failure has truncated the last row.
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(&[7; 5]);
        fs::write(&path, bytes).unwrap();
        let mut later = SpentIds::open(&path, 1000 + DAY);
        assert!(later.has(&id(2), 1000 + DAY) && !later.has(&id(1), 1000 + DAY));
        later.add(id(4), "you", 1000 + DAY).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len() as usize, 2 * ROW_BYTES);
        assert!(SpentIds::open(&path, 1000 + DAY).has(&id(4), 1000 + DAY));
    }

    #[test]
    fn each_holder_has_room_of_its_own() {
        let mut spent = SpentIds::default();
        (0..10).for_each(|n| spent.add(id(n), "me", 0).unwrap());
        assert!(
            spent.has_room("me", (SPENT_MAX.each - 11, 0), 0) && !spent.has_room("me", (SPENT_MAX.each - 10, 0), 0)
        );
        assert!(spent.has_room("you", (SPENT_MAX.each - 1, 0), 0));
        assert!(!spent.has_room("you", (0, SPENT_MAX.all - 10), 0));
        assert!(spent.has_room("me", (SPENT_MAX.each - 1, 0), DAY), "their time is over");
        assert!(spent.each.is_empty() && spent.rows.is_empty());
    }

    #[test]
    fn the_file_of_spent_ids_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spent");
        let mut spent = SpentIds::open(&path, 0);
        for n in 0..4000u64 {
            spent.has_room("me", (0, 0), n * 60);
            spent.add(id(n.into()), "me", n * 60).unwrap();
        }
        let day = (DAY / 60) as usize;
        assert_eq!(spent.rows.len(), day);
        assert!(fs::metadata(&path).unwrap().len() as usize <= (3 * day + 1024) * ROW_BYTES);
    }
}
