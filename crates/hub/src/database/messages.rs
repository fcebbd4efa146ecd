//! Changes of files that wait to be sent to a broker. Triggers of the database (`migrations/*/0021_messages.sql`) write them in the
//! transaction of the change. They are removed when the broker has confirmed them.

use std::collections::HashMap;
use std::sync::Arc;

use model::v1::hub::File;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use super::jobs::{FILE, JOB, StoredJob, read_file, read_job};
use super::{Database, Result};
use crate::states::FileState;

/// A change of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileChange {
    /// Its number: later changes have larger ones.
    pub number: i64,
    /// When it was made, milliseconds since 1970.
    pub at: i64,
    /// The state of the file before the change; `None` for a new file.
    pub before: Option<FileState>,
    /// The state of the file after the change.
    pub state: FileState,
    /// Whether the change ended an attempt.
    pub ends_attempt: bool,
    /// The file at the time of reading.
    pub file: File,
    /// Its job at the time of reading.
    pub job: Arc<StoredJob>,
}

/// A row of a change, without the facts of its file.
struct StoredChange {
    number: i64,
    at: i64,
    file: i64,
    before: Option<FileState>,
    state: Option<FileState>,
    was_returned: bool,
}

fn read(row: &AnyRow) -> Result<StoredChange> {
    let before: Option<i64> = row.try_get(3)?;
    let (attempt_before, attempt): (Option<i64>, i64) = (row.try_get(5)?, row.try_get(6)?);
    Ok(StoredChange {
        number: row.try_get(0)?,
        at: row.try_get(1)?,
        file: row.try_get(2)?,
        before: before.and_then(FileState::of_code),
        state: FileState::of_code(row.try_get(4)?),
        was_returned: attempt_before.is_some_and(|before| attempt < before),
    })
}

/// The oldest changes, and the number up to which they were read. Changes of files that do not exist any more, and changes to states that
/// only a newer hub knows, are skipped.
#[derive(Debug, Default)]
pub struct FileChanges {
    /// The changes, oldest first.
    pub changes: Vec<FileChange>,
    /// The number of the last one that was read.
    pub last: Option<i64>,
}

impl Database {
    /// Turns the recording of changes on or off. Turning it off also removes the recorded changes.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn record_changes(&self, is_on: bool) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let set = sqlx::query("UPDATE message_settings SET is_on = $1").bind(i64::from(is_on));
                    set.execute(&mut *connection).await?;
                    if !is_on {
                        sqlx::query("DELETE FROM messages").execute(&mut *connection).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Whether a hub is the one that sends messages: the first, by name, of the hubs that are alive.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn sends_messages(&self, hub: &str) -> Result<bool> {
        let row = sqlx::query("SELECT MIN(id) FROM hubs").fetch_one(&self.pool).await?;
        let first: Option<String> = row.try_get(0)?;
        Ok(first.is_none_or(|first| first == hub))
    }

    /// The oldest changes that have not been sent.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn changes(&self, limit: i64) -> Result<FileChanges> {
        let sql = "SELECT number, at, file, state_before, state, attempt_before, attempt FROM messages ORDER BY number LIMIT $1";
        let rows = sqlx::query(sql).bind(limit).fetch_all(&self.pool).await?;
        let mut all = FileChanges::default();
        let mut jobs: HashMap<i64, Arc<StoredJob>> = HashMap::new();
        for row in &rows {
            let row = read(row)?;
            all.last = Some(row.number);
            let Some(state) = row.state else { continue };
            let Some((job, file)) = self.file_of_change(row.file, &mut jobs).await? else { continue };
            let ends_attempt = row.before == Some(FileState::Running) && !row.was_returned;
            let (number, at, before) = (row.number, row.at, row.before);
            all.changes.push(FileChange { number, at, before, state, ends_attempt, file, job });
        }
        Ok(all)
    }

    async fn file_of_change(
        &self,
        number: i64,
        jobs: &mut HashMap<i64, Arc<StoredJob>>,
    ) -> Result<Option<(Arc<StoredJob>, File)>> {
        let row = sqlx::query(AssertSqlSafe(format!("{FILE} WHERE f.id = $1"))).bind(number).fetch_optional(&self.pool);
        let Some(row) = row.await? else { return Ok(None) };
        let file = read_file(&row)?;
        let job = sqlx::query("SELECT job FROM files WHERE id = $1").bind(number).fetch_one(&self.pool).await?;
        let job: i64 = job.try_get(0)?;
        if let Some(known) = jobs.get(&job) {
            return Ok(Some((Arc::clone(known), file)));
        }
        let sql = AssertSqlSafe(format!("{JOB} WHERE number = $1"));
        let row = sqlx::query(sql).bind(job).fetch_one(&self.pool).await?;
        let stored = Arc::new(read_job(&row)?);
        jobs.insert(job, Arc::clone(&stored));
        Ok(Some((stored, file)))
    }

    /// Removes changes up to a number: they have been sent. Returns how many were removed.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn remove_changes(&self, last: i64) -> Result<u64> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "DELETE FROM messages WHERE number <= $1";
                    Ok(sqlx::query(sql).bind(last).execute(&mut *connection).await?.rows_affected())
                })
            })
            .await
    }

    /// Removes all but the newest `most` changes; returns how many were removed.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn trim_changes(&self, most: i64) -> Result<u64> {
        let sql = "SELECT COALESCE(MAX(number), 0) FROM messages";
        let last: i64 = sqlx::query(sql).fetch_one(&self.pool).await?.try_get(0)?;
        self.remove_changes(last - most).await
    }
}
