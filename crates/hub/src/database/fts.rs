//! State for the FTS API besides the queue: cancelled files, banned users, tokens of files, changes of its configuration.

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::numbers::take_numbers;
use super::outcomes::{CountChanges, apply_counts, set_state};
use super::{Database, Result};
use crate::states::FileState;
use crate::tokens::FileTokens;
use database::rows::insert;

/// A file of a job that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnendedFile {
    /// The number of its row.
    pub id: i64,
    /// The id of its job.
    pub job: String,
}

/// A user who is banned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BannedUser {
    /// The distinguished name.
    pub dn: String,
    /// The reason, which the user sees.
    pub reason: String,
}

/// A change of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// When it was made, milliseconds since 1970.
    pub at: i64,
    /// The distinguished name of the user who made it.
    pub dn: String,
    /// The method and the path.
    pub action: String,
    /// The body of the request.
    pub config: String,
}

/// The most files of one state that a search for the files of an endpoint returns.
const UNENDED_MAX: i64 = 10_000;
/// The most files whose tokens one statement removes.
const TOKENS_MAX: i64 = 10_000;
/// The most changes of the configuration that are returned.
const AUDIT_MAX: i64 = 1000;

impl Database {
    /// Cancels files of a job whose files are independent. Returns the state of each file: its state now, or the one that it will have when
    /// its transfer has stopped.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn cancel_files(&self, files: Vec<i64>, now: i64) -> Result<Vec<Option<FileState>>> {
        self.writer.change(move |connection| Box::pin(cancel_files(connection, files, now))).await
    }

    /// Files that have not ended and whose source or target is an endpoint.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn unended_files(&self, endpoint: &str) -> Result<Vec<UnendedFile>> {
        // Each condition has an index of its own.
        const WAITING: &str = "f.state = 0";
        const MOVING: &str = "f.state = 1 AND f.transfer IN (SELECT number FROM transfers WHERE ended IS NULL)";
        let mut found = Vec::new();
        for which in [WAITING, MOVING] {
            let sql = format!(
                "SELECT f.id, j.id FROM files f JOIN queues q ON q.id = f.queue JOIN jobs j ON j.number = f.job \
                 WHERE {which} AND (q.source = $1 OR q.target = $1) AND f.ending = 0 AND j.ending = 0 ORDER BY f.id LIMIT $2"
            );
            let rows = sqlx::query(AssertSqlSafe(sql)).bind(endpoint).bind(UNENDED_MAX).fetch_all(&self.pool).await?;
            for row in &rows {
                found.push(UnendedFile { id: row.try_get(0)?, job: row.try_get(1)? });
            }
        }
        Ok(found)
    }

    /// The banned users.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn banned_users(&self) -> Result<Vec<BannedUser>> {
        let rows = sqlx::query("SELECT dn, reason FROM banned_users ORDER BY dn").fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok(BannedUser { dn: row.try_get(0)?, reason: row.try_get(1)? })).collect()
    }

    /// Bans a user, or changes the reason.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn ban_user(&self, user: BannedUser, by: String, now: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "INSERT INTO banned_users (dn, reason, at, banned_by) VALUES ($1, $2, $3, $4) \
                               ON CONFLICT (dn) DO UPDATE SET reason = $2, at = $3, banned_by = $4";
                    let query = sqlx::query(sql).bind(user.dn).bind(user.reason).bind(now).bind(by);
                    query.execute(&mut *connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Lifts the ban of a user; returns whether there was one.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn unban_user(&self, dn: String) -> Result<bool> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let query = sqlx::query("DELETE FROM banned_users WHERE dn = $1").bind(dn);
                    Ok(query.execute(&mut *connection).await?.rows_affected() > 0)
                })
            })
            .await
    }

    /// Removes the tokens of files that have ended.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn remove_ended_tokens(&self) -> Result<()> {
        // Most hubs have no tokens: this read spares them a write.
        let sql = "SELECT 1 FROM file_tokens t JOIN files f ON f.id = t.file WHERE f.state IN (3, 4, 5) LIMIT 1";
        if sqlx::query(sql).fetch_optional(&self.pool).await?.is_none() {
            return Ok(());
        }
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "DELETE FROM file_tokens WHERE file IN (SELECT t.file FROM file_tokens t JOIN files f ON f.id = t.file \
                               WHERE f.state IN (3, 4, 5) LIMIT $1)";
                    sqlx::query(sql).bind(TOKENS_MAX).execute(&mut *connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Stores a change of the configuration.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn add_config_change(&self, change: ConfigChange) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let number = take_numbers(connection, "config_audit", 1).await?;
                    let sql = "INSERT INTO config_audit (number, at, dn, action, config) VALUES ($1, $2, $3, $4, $5)";
                    let query = sqlx::query(sql).bind(number).bind(change.at).bind(change.dn);
                    query.bind(change.action).bind(change.config).execute(&mut *connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// The changes of the configuration, newest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn config_changes(&self) -> Result<Vec<ConfigChange>> {
        let sql = "SELECT at, dn, action, config FROM config_audit ORDER BY number DESC LIMIT $1";
        let read = |row: &sqlx::any::AnyRow| {
            Ok(ConfigChange {
                at: row.try_get(0)?,
                dn: row.try_get(1)?,
                action: row.try_get(2)?,
                config: row.try_get(3)?,
            })
        };
        sqlx::query(sql).bind(AUDIT_MAX).fetch_all(&self.pool).await?.iter().map(read).collect()
    }
}

async fn cancel_files(connection: &mut AnyConnection, files: Vec<i64>, now: i64) -> Result<Vec<Option<FileState>>> {
    let mut changes = CountChanges::default();
    let mut states = Vec::with_capacity(files.len());
    for id in files {
        let sql = "SELECT job, queue, state, bytes FROM files WHERE id = $1";
        let Some(row) = sqlx::query(sql).bind(id).fetch_optional(&mut *connection).await? else {
            states.push(None);
            continue;
        };
        let (job, queue, bytes): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(3)?);
        let state = FileState::of_code(row.try_get(2)?);
        match state {
            Some(FileState::Queued) => {
                set_state(connection, id, FileState::Cancelled, now, None).await?;
                let queue = changes.queues.entry(queue).or_default();
                queue.queued -= 1;
                queue.queued_bytes -= bytes;
                let job = changes.jobs.entry(job).or_default();
                job.queued -= 1;
                job.cancelled += 1;
            }
            Some(FileState::Running) => {
                sqlx::query("UPDATE files SET ending = 1 WHERE id = $1").bind(id).execute(&mut *connection).await?;
            }
            _ => {}
        }
        let will_be = matches!(state, Some(FileState::Queued | FileState::Running));
        states.push(if will_be { Some(FileState::Cancelled) } else { state });
    }
    apply_counts(connection, changes, now).await?;
    Ok(states)
}

/// Stores the tokens of new files, by the numbers of their rows.
pub(super) async fn insert_tokens(connection: &mut AnyConnection, tokens: &[(i64, &FileTokens)]) -> Result<()> {
    Ok(insert(connection, "file_tokens (file, source, target)", 3, tokens, |query, (file, tokens)| {
        query.bind(*file).bind(tokens.source.as_str()).bind(tokens.target.as_str())
    })
    .await?)
}
