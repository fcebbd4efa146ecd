//! The files `STATE/schedules/ID`, each with one schedule. Only the node's user may read them, because they may hold keys.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use model::id::Uuid;

use super::ScheduleRecord;

/// The suffix of a file that is being written.
const UNFINISHED_SUFFIX: &str = "new";

/// The directory of schedules; none for a node that stores nothing.
pub(super) struct ScheduleRecords(Option<PathBuf>);

impl ScheduleRecords {
    pub fn new(dir: Option<PathBuf>) -> ScheduleRecords {
        ScheduleRecords(dir)
    }

    /// Writes a schedule, whole or not at all.
    ///
    /// # Errors
    /// The directory or the file cannot be written.
    pub fn write(&self, record: &ScheduleRecord) -> io::Result<()> {
        let Some(dir) = &self.0 else { return Ok(()) };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let path = dir.join(record.schedule.id.to_string());
        let unfinished = path.with_extension(UNFINISHED_SUFFIX);
        let _ = fs::remove_file(&unfinished);
        let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&unfinished)?;
        let mut write = || {
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            fs::File::open(dir)?.sync_all()
        };
        write().inspect_err(|_| drop(fs::remove_file(&unfinished)))
    }

    pub fn remove(&self, id: &Uuid) {
        if let Some(dir) = &self.0
            && let Err(error) = fs::remove_file(dir.join(id.to_string()))
        {
            tracing::warn!(schedule = %id, %error, "the file of a removed schedule cannot be removed");
        }
    }

    /// All schedules. A file that cannot be read is logged and stays as it is.
    pub fn all(&self) -> Vec<ScheduleRecord> {
        let entries = self.0.as_ref().and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
        let is_whole = |path: &PathBuf| path.extension().is_none();
        let read = |path: PathBuf| {
            let text = fs::read(&path).ok()?;
            serde_json::from_slice(&text)
                .inspect_err(|error| tracing::warn!(file = %path.display(), %error, "a schedule cannot be read"))
                .ok()
        };
        entries.map(|entry| entry.path()).filter(is_whole).filter_map(read).collect()
    }
}
