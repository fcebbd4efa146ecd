//! `STATE/schedules/ID`: one schedule each, readable by the node's user alone, since it may hold a key.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use model::id::Uuid;

use super::Kept;

/// How the name of a file ends that is being written.
const BESIDE: &str = "new";

/// The directory; none of a node that keeps nothing.
pub(super) struct Shelf(Option<PathBuf>);

impl Shelf {
    pub fn new(dir: Option<PathBuf>) -> Shelf {
        Shelf(dir)
    }

    /// Writes one down, whole or not at all.
    pub fn write(&self, kept: &Kept) -> io::Result<()> {
        let Some(dir) = &self.0 else { return Ok(()) };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let path = dir.join(kept.schedule.id.to_string());
        let beside = path.with_extension(BESIDE);
        let _ = fs::remove_file(&beside);
        let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&beside)?;
        let mut write = || {
            file.write_all(&serde_json::to_vec(kept)?)?;
            file.sync_all()?;
            fs::rename(&beside, &path)?;
            fs::File::open(dir)?.sync_all()
        };
        write().inspect_err(|_| drop(fs::remove_file(&beside)))
    }

    pub fn remove(&self, id: &Uuid) {
        if let Some(dir) = &self.0
            && let Err(error) = fs::remove_file(dir.join(id.to_string()))
        {
            tracing::warn!(schedule = %id, %error, "a schedule that was removed is still written down");
        }
    }

    /// All of them. What does not read is left alone, and told.
    pub fn all(&self) -> Vec<Kept> {
        let entries = self.0.as_ref().and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
        let is_whole = |path: &PathBuf| path.extension().is_none();
        let read = |path: PathBuf| {
            let text = fs::read(&path).ok()?;
            serde_json::from_slice(&text)
                .inspect_err(|error| tracing::warn!(file = %path.display(), %error, "a schedule does not read"))
                .ok()
        };
        entries.map(|entry| entry.path()).filter(is_whole).filter_map(read).collect()
    }
}
