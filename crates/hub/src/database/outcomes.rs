//! Stores the outcomes of the files of a transfer, and what follows from them: another attempt, another source, the next hop, the end of a
//! job.

use std::collections::BTreeMap;

use serde_json::json;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use super::claims::ClaimedFile;
use super::events::{NewEvent, append};
use super::pauses::keep_paused;
use super::{Database, Result};
use crate::states::{FileState, JobKind};

/// The outcome of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is at its target, and verified.
    Done {
        /// Its size, bytes.
        bytes: i64,
    },
    /// This attempt failed; the file is tried again, not before a time.
    Retry {
        /// The time, milliseconds since 1970.
        not_before: i64,
        /// Whose fault it was, in the word that receipts use (`peer`, `path`, …).
        fault: String,
        /// The reason, one sentence.
        reason: String,
    },
    /// It failed, and will not be tried again from this source.
    Failed {
        /// Whose fault it was, in the word that receipts use (`peer`, `path`, …).
        fault: String,
        /// The reason, one sentence.
        reason: String,
    },
    /// Its transfer ended before the file had arrived: the file was cancelled, the transfer was cancelled at its node, or the hub cancelled
    /// it because another source is expected to be faster.
    Stopped,
    /// The attempt was not begun: the file goes back to its queue, and the attempt does not count.
    Returned,
}

/// The outcome of a transfer, or of some of its files.
#[derive(Clone, Debug)]
pub struct TransferOutcome {
    /// Its number.
    pub transfer: i64,
    /// The time of the outcome, milliseconds since 1970.
    pub now: i64,
    /// Its files, by the numbers of their rows. Files that are not named stay with the transfer.
    pub files: Vec<(i64, Outcome)>,
    /// Whether the transfer is over: all of its files are named, now or before.
    pub is_over: bool,
}

/// The reason of a file that was stopped without having been cancelled.
const STOPPED: &str = "its transfer was cancelled before the file had arrived: at its node, or by the hub, because another source is \
                       expected to be much faster";
/// How long such a file waits if it has no other source, milliseconds.
const STOPPED_PAUSE_MS: i64 = 10_000;

/// A change of the counters of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct JobCounts {
    pub queued: i64,
    running: i64,
    done: i64,
    failed: i64,
    pub cancelled: i64,
    moved: i64,
}

/// A file of a running transfer, or a file that waits and fails, before its outcome is stored.
struct EndingFile {
    id: i64,
    job: i64,
    at: i64,
    queue: i64,
    bytes: i64,
    attempt: i64,
    kind: JobKind,
    /// Whether the file or its job has been cancelled.
    is_ending: bool,
}

/// A change of the counters of a queue: files and bytes that wait, files and bytes that run.
#[derive(Default)]
pub(super) struct QueueChange {
    pub queued: i64,
    pub queued_bytes: i64,
    pub running: i64,
    pub running_bytes: i64,
}

/// Changes of counters that a transaction has collected, by the numbers of jobs and queues.
#[derive(Default)]
pub(super) struct CountChanges {
    pub jobs: BTreeMap<i64, JobCounts>,
    pub queues: BTreeMap<i64, QueueChange>,
}

/// The next source of a file, and the size of its job.
#[derive(Clone, Debug, PartialEq)]
pub struct NextSource {
    /// The source endpoint and the target endpoint.
    pub pair: (String, String),
    /// Bytes of the whole job.
    pub job_bytes: i64,
}

impl Database {
    /// The source that a file would be read from if the present one failed; `None` if there is no other.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn next_source(&self, file: &ClaimedFile) -> Result<Option<NextSource>> {
        let sql = "SELECT q.source, q.target, j.bytes FROM jobs j JOIN files f ON f.id >= j.first_file \
                   AND f.id < j.first_file + j.file_rows JOIN queues q ON q.id = f.queue \
                   WHERE j.number = $1 AND j.kind = $2 AND f.at = $3 AND f.state = $4 ORDER BY f.id LIMIT 1";
        let query = sqlx::query(sql).bind(file.job).bind(JobKind::MultiSource.code()).bind(file.at);
        let row = query.bind(FileState::Standby.code()).fetch_optional(&self.pool).await?;
        row.map(|row| Ok(NextSource { pair: (row.try_get(0)?, row.try_get(1)?), job_bytes: row.try_get(2)? }))
            .transpose()
    }

    /// Stores the outcomes of files.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn store_outcomes(&self, outcome: TransferOutcome) -> Result<()> {
        self.writer.change(move |connection| Box::pin(store_outcomes(connection, outcome))).await
    }

    /// Fails files that have waited for longer than their jobs allow; returns their number.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn expire_files(&self, now: i64) -> Result<usize> {
        self.writer.change(move |connection| Box::pin(expire(connection, now))).await
    }
}

/// Fails files that wait. If a file has another source, that one is tried.
pub(super) async fn fail_queued(
    connection: &mut AnyConnection,
    files: &[i64],
    fault: &str,
    reason: &str,
    now: i64,
) -> Result<()> {
    let mut changes = CountChanges::default();
    for id in files {
        let sql = "SELECT f.id, f.job, f.at, f.queue, f.bytes, f.attempt, j.kind, j.ending FROM files f \
                   JOIN jobs j ON j.number = f.job WHERE f.id = $1 AND f.state = 0";
        let Some(row) = sqlx::query(sql).bind(*id).fetch_optional(&mut *connection).await? else { continue };
        let file = read_ending(&row)?;
        let queue = changes.queues.entry(file.queue).or_default();
        queue.queued -= 1;
        queue.queued_bytes -= file.bytes;
        changes.jobs.entry(file.job).or_default().queued -= 1;
        add_attempt(connection, &file, now, fault, reason).await?;
        set_state(connection, file.id, FileState::Failed, now, Some((&fault.to_owned(), &reason.to_owned()))).await?;
        if file.kind != JobKind::MultiSource || !promote(connection, &file, &mut changes).await? {
            changes.jobs.entry(file.job).or_default().failed += 1;
        }
    }
    apply_counts(connection, changes, now).await
}

/// The most files that one transaction expires.
const EXPIRE_MAX: i64 = 1000;

async fn expire(connection: &mut AnyConnection, now: i64) -> Result<usize> {
    let sql = "SELECT f.id, f.job, f.at, f.queue, f.bytes, f.attempt, j.kind, j.ending FROM files f JOIN jobs j ON j.number = f.job \
               WHERE f.state = 0 AND f.expires IS NOT NULL AND f.expires <= $1 ORDER BY f.id LIMIT $2";
    let rows = sqlx::query(sql).bind(now).bind(EXPIRE_MAX).fetch_all(&mut *connection).await?;
    let mut changes = CountChanges::default();
    let fault = "config".to_owned();
    let reason = "it waited for longer than its job allows (queue_for_s)".to_owned();
    for row in &rows {
        let file = read_ending(row)?;
        let queue = changes.queues.entry(file.queue).or_default();
        queue.queued -= 1;
        queue.queued_bytes -= file.bytes;
        let job = changes.jobs.entry(file.job).or_default();
        job.queued -= 1;
        job.failed += 1;
        set_state(connection, file.id, FileState::Failed, now, Some((&fault, &reason))).await?;
    }
    apply_counts(connection, changes, now).await?;
    Ok(rows.len())
}

async fn store_outcomes(connection: &mut AnyConnection, outcome: TransferOutcome) -> Result<()> {
    let mut changes = CountChanges::default();
    for (id, file_outcome) in &outcome.files {
        // A file that was cancelled in the meantime, or that is reported a second time, does not belong to this transfer any more.
        if let Some(file) = ending_file(connection, *id, outcome.transfer).await? {
            apply(connection, &file, file_outcome, outcome.now, &mut changes).await?;
        }
    }
    let waiting: Vec<i64> = changes.jobs.iter().filter(|(_, job)| job.queued > 0).map(|(job, _)| *job).collect();
    apply_counts(connection, changes, outcome.now).await?;
    keep_paused(connection, waiting.into_iter()).await?;
    if outcome.is_over {
        let sql = "UPDATE transfers SET ended = $1 WHERE number = $2";
        sqlx::query(sql).bind(outcome.now).bind(outcome.transfer).execute(&mut *connection).await?;
    }
    Ok(())
}

async fn ending_file(connection: &mut AnyConnection, id: i64, transfer: i64) -> Result<Option<EndingFile>> {
    let sql = "SELECT f.id, f.job, f.at, f.queue, f.bytes, f.attempt, j.kind, j.ending + f.ending FROM files f \
               JOIN jobs j ON j.number = f.job WHERE f.id = $1 AND f.transfer = $2 AND f.state = 1";
    let row = sqlx::query(sql).bind(id).bind(transfer).fetch_optional(&mut *connection).await?;
    row.as_ref().map(read_ending).transpose()
}

fn read_ending(row: &AnyRow) -> Result<EndingFile> {
    Ok(EndingFile {
        id: row.try_get(0)?,
        job: row.try_get(1)?,
        at: row.try_get(2)?,
        queue: row.try_get(3)?,
        bytes: row.try_get(4)?,
        attempt: row.try_get(5)?,
        kind: JobKind::of_code(row.try_get(6)?).unwrap_or(JobKind::Independent),
        is_ending: row.try_get::<i64, _>(7)? != 0,
    })
}

async fn apply(
    connection: &mut AnyConnection,
    file: &EndingFile,
    outcome: &Outcome,
    now: i64,
    changes: &mut CountChanges,
) -> Result<()> {
    let queue = changes.queues.entry(file.queue).or_default();
    queue.running -= 1;
    queue.running_bytes -= file.bytes;
    changes.jobs.entry(file.job).or_default().running -= 1;
    match outcome {
        // A file of a cancelled job is not tried again.
        Outcome::Retry { .. } | Outcome::Returned | Outcome::Stopped if file.is_ending => {
            set_state(connection, file.id, FileState::Cancelled, now, None).await?;
            changes.jobs.entry(file.job).or_default().cancelled += 1;
        }
        Outcome::Done { bytes } => {
            set_state(connection, file.id, FileState::Done, now, None).await?;
            let sql = "UPDATE file_facts SET moved = $1 WHERE id = $2";
            sqlx::query(sql).bind(*bytes).bind(file.id).execute(&mut *connection).await?;
            if file.kind == JobKind::MultiHop && promote(connection, file, changes).await? {
                return Ok(());
            }
            let job = changes.jobs.entry(file.job).or_default();
            job.done += 1;
            job.moved += bytes;
        }
        Outcome::Retry { not_before, fault, reason } => {
            add_attempt(connection, file, now, fault, reason).await?;
            requeue(connection, file, *not_before, 0, changes).await?;
        }
        Outcome::Returned => requeue(connection, file, 0, 1, changes).await?,
        Outcome::Failed { fault, reason } => {
            add_attempt(connection, file, now, fault, reason).await?;
            set_state(connection, file.id, FileState::Failed, now, Some((fault, reason))).await?;
            if file.kind != JobKind::MultiSource || !promote(connection, file, changes).await? {
                changes.jobs.entry(file.job).or_default().failed += 1;
            }
        }
        Outcome::Stopped => {
            let fault = "peer".to_owned();
            let reason = STOPPED.to_owned();
            add_attempt(connection, file, now, &fault, &reason).await?;
            if file.kind == JobKind::MultiSource && promote(connection, file, changes).await? {
                set_state(connection, file.id, FileState::Failed, now, Some((&fault, &reason))).await?;
            } else {
                requeue(connection, file, now + STOPPED_PAUSE_MS, 0, changes).await?;
            }
        }
    }
    Ok(())
}

pub(super) async fn set_state(
    connection: &mut AnyConnection,
    id: i64,
    state: FileState,
    now: i64,
    why: Option<(&String, &String)>,
) -> Result<()> {
    let sql = "UPDATE files SET state = $1, transfer = NULL WHERE id = $2";
    sqlx::query(sql).bind(state.code()).bind(id).execute(&mut *connection).await?;
    let sql = "UPDATE file_facts SET ended = $1, fault = $2, reason = $3 WHERE id = $4";
    let (fault, reason) = why.unzip();
    let query = sqlx::query(sql).bind(now).bind(fault.map(String::as_str)).bind(reason.map(String::as_str));
    query.bind(id).execute(&mut *connection).await?;
    Ok(())
}

async fn add_attempt(
    connection: &mut AnyConnection,
    file: &EndingFile,
    now: i64,
    fault: &str,
    reason: &str,
) -> Result<()> {
    let sql =
        "INSERT INTO attempts (file, attempt, ended, fault, reason) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
    let query = sqlx::query(sql).bind(file.id).bind(file.attempt).bind(now).bind(fault).bind(reason);
    query.execute(&mut *connection).await?;
    let sql = "UPDATE file_facts SET fault = $1, reason = $2 WHERE id = $3";
    sqlx::query(sql).bind(fault).bind(reason).bind(file.id).execute(&mut *connection).await?;
    Ok(())
}

/// Puts a file back into its queue; `attempts_back` is 1 if the attempt does not count.
async fn requeue(
    connection: &mut AnyConnection,
    file: &EndingFile,
    not_before: i64,
    attempts_back: i64,
    changes: &mut CountChanges,
) -> Result<()> {
    let sql = "UPDATE files SET state = 0, transfer = NULL, not_before = $1, attempt = attempt - $2 WHERE id = $3";
    sqlx::query(sql).bind(not_before).bind(attempts_back).bind(file.id).execute(&mut *connection).await?;
    // A file on tape may have been released in the meantime: it is staged again.
    let sql = "UPDATE stages SET state = 0, not_before = 0 WHERE file = $1";
    sqlx::query(sql).bind(file.id).execute(&mut *connection).await?;
    let queue = changes.queues.entry(file.queue).or_default();
    queue.queued += 1;
    queue.queued_bytes += file.bytes;
    changes.jobs.entry(file.job).or_default().queued += 1;
    Ok(())
}

/// Queues the next source of a file, or the next hop, which stands by; returns whether there is one.
async fn promote(connection: &mut AnyConnection, file: &EndingFile, changes: &mut CountChanges) -> Result<bool> {
    let standby = FileState::Standby.code();
    // The rows of a job are in the order in which its sources and hops were named.
    let sql = match file.kind {
        JobKind::MultiHop => {
            "SELECT id, queue, bytes FROM files WHERE id >= $1 AND id < $5 AND id > $2 AND state = $3 AND at > $4 ORDER BY id LIMIT 1"
        }
        _ => {
            "SELECT id, queue, bytes FROM files WHERE id >= $1 AND id < $5 AND id > $2 AND state = $3 AND at = $4 ORDER BY id LIMIT 1"
        }
    };
    let first = sqlx::query("SELECT first_file, file_rows FROM jobs WHERE number = $1").bind(file.job);
    let row = first.fetch_one(&mut *connection).await?;
    let (first, rows): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let after = if file.kind == JobKind::MultiHop { file.id } else { first - 1 };
    let query = sqlx::query(sql).bind(first).bind(after).bind(standby).bind(file.at).bind(first + rows);
    let Some(row) = query.fetch_optional(&mut *connection).await? else { return Ok(false) };
    let (id, queue, bytes): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    sqlx::query("UPDATE files SET state = 0 WHERE id = $1").bind(id).execute(&mut *connection).await?;
    let queue = changes.queues.entry(queue).or_default();
    queue.queued += 1;
    queue.queued_bytes += bytes;
    changes.jobs.entry(file.job).or_default().queued += 1;
    Ok(true)
}

/// Adds the changes to the counters. A job without files that wait or run has ended.
pub(super) async fn apply_counts(connection: &mut AnyConnection, changes: CountChanges, now: i64) -> Result<()> {
    for (queue, change) in changes.queues {
        let QueueChange { queued, queued_bytes, running, running_bytes } = change;
        let sql = "UPDATE queues SET queued = queued + $1, queued_bytes = queued_bytes + $2, running = running + $3, \
                   running_bytes = running_bytes + $4 WHERE id = $5";
        let query = sqlx::query(sql).bind(queued).bind(queued_bytes).bind(running).bind(running_bytes).bind(queue);
        query.execute(&mut *connection).await?;
    }
    let mut events = Vec::new();
    for (job, change) in changes.jobs {
        let sql = "UPDATE jobs SET queued = queued + $1, running = running + $2, done = done + $3, failed = failed + $4, \
                   cancelled = cancelled + $5, moved = moved + $6, \
                   ended = CASE WHEN queued + running + $1 + $2 = 0 THEN $7 ELSE NULL END \
                   WHERE number = $8 RETURNING id, owner, ended, done, failed, cancelled";
        let query = sqlx::query(sql).bind(change.queued).bind(change.running).bind(change.done).bind(change.failed);
        let query = query.bind(change.cancelled).bind(change.moved).bind(now).bind(job);
        let row = query.fetch_one(&mut *connection).await?;
        let ended: Option<i64> = row.try_get(2)?;
        let (done, failed, cancelled): (i64, i64, i64) = (row.try_get(3)?, row.try_get(4)?, row.try_get(5)?);
        events.push(NewEvent {
            at: now,
            job: row.try_get(0)?,
            owner: row.try_get(1)?,
            kind: if ended.is_some() { "ended" } else { "progress" },
            body: json!({"done": done, "failed": failed, "cancelled": cancelled}).to_string(),
        });
    }
    append(connection, &events).await
}
