//! Jobs and files as types of the API, and the changes that clients make to jobs.

use model::v1::Stage;
use model::v1::hub::{File, Job, JobChange};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::events::{NewEvent, append};
use super::pauses::{pause, resume, set_priority};
use super::queue_moves::JobFiles;
use super::rate_limits::set_limit;
use super::submissions::NewJob;
use super::{Database, Result};
use crate::states::{FileState, JobKind};
use crate::time::show;

/// A job, with the facts that only the hub needs.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredJob {
    /// Its number: newer jobs have larger ones.
    pub number: i64,
    /// How its files belong together.
    pub kind: JobKind,
    /// The number of its first file.
    pub first_file: i64,
    /// The number of rows of its files.
    pub file_rows: i64,
    /// Its options, JSON.
    pub options: String,
    /// The facts that only the FTS API uses, JSON.
    pub fts: Option<String>,
    /// The job as the type of the API.
    pub job: Job,
}

/// A failed attempt to move a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its number, from 1.
    pub attempt: i64,
    /// When it ended, milliseconds since 1970.
    pub ended: i64,
    /// Whose fault it was.
    pub fault: String,
    /// One sentence.
    pub reason: String,
}

/// The jobs that a page lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Their owner; empty for all.
    pub owner: String,
    /// Their community; empty for all.
    pub community: String,
    /// Only jobs that have not ended.
    pub unended: bool,
    /// Only jobs with smaller numbers.
    pub before: Option<i64>,
    /// The most jobs of a page.
    pub limit: i64,
}

pub(super) const JOB: &str = "SELECT number, id, owner, community, activity, priority, kind, first_file, file_rows, files, queued, running, done, \
                   failed, cancelled, bytes, moved, submitted, started, ended, deadline, options, metadata, fts, paused, limited_by, limit_bit_s FROM jobs";
pub(super) const FILE: &str = "SELECT f.id, f.at, f.state, f.attempt, f.not_before, f.bytes, x.source, x.target, x.checksum, x.metadata, x.reason, \
                    x.fault, x.started, x.ended, t.id, x.moved FROM files f JOIN file_facts x ON x.id = f.id \
                    LEFT JOIN transfers t ON t.number = f.transfer";

impl Database {
    /// The job with an id.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn job(&self, id: &str) -> Result<Option<StoredJob>> {
        let row =
            sqlx::query(AssertSqlSafe(format!("{JOB} WHERE id = $1"))).bind(id).fetch_optional(&self.pool).await?;
        row.as_ref().map(read_job).transpose()
    }

    /// Jobs, newest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn jobs(&self, filter: &JobFilter) -> Result<Vec<StoredJob>> {
        let mut conditions = vec!["number < $1"];
        conditions.extend((!filter.owner.is_empty()).then_some("owner = $2"));
        conditions.extend((!filter.community.is_empty()).then_some("community = $3"));
        conditions.extend(filter.unended.then_some("ended IS NULL"));
        // The statement uses every parameter, so that their numbers do not depend on the conditions that it has.
        let all = "($2 = $2 AND $3 = $3)";
        let sql = format!("{JOB} WHERE {all} AND {} ORDER BY number DESC LIMIT $4", conditions.join(" AND "));
        let query = sqlx::query(AssertSqlSafe(sql)).bind(filter.before.unwrap_or(i64::MAX)).bind(filter.owner.as_str());
        let rows = query.bind(filter.community.as_str()).bind(filter.limit).fetch_all(&self.pool).await?;
        rows.iter().map(read_job).collect()
    }

    /// Files of a job in its order, after the row with the number `after`.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn files(&self, job: &StoredJob, after: i64, limit: i64) -> Result<Vec<File>> {
        let sql = format!("{FILE} WHERE f.id >= $1 AND f.id < $2 AND f.id > $3 ORDER BY f.id LIMIT $4");
        let query = sqlx::query(AssertSqlSafe(sql)).bind(job.first_file).bind(job.first_file + job.file_rows);
        query.bind(after).bind(limit).fetch_all(&self.pool).await?.iter().map(read_file).collect()
    }

    /// The failed attempts to move a file, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn attempts(&self, file: i64) -> Result<Vec<Attempt>> {
        let sql = "SELECT attempt, ended, fault, reason FROM attempts WHERE file = $1 ORDER BY attempt";
        let rows = sqlx::query(sql).bind(file).fetch_all(&self.pool).await?;
        let attempt = |row: &AnyRow| {
            Ok(Attempt {
                attempt: row.try_get(0)?,
                ended: row.try_get(1)?,
                fault: row.try_get(2)?,
                reason: row.try_get(3)?,
            })
        };
        rows.iter().map(attempt).collect()
    }

    /// Changes a job; returns false if it has ended already.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn change_job(&self, job: StoredJob, change: JobChange, by: String, now: i64) -> Result<bool> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let ended = sqlx::query("SELECT ended FROM jobs WHERE number = $1").bind(job.number);
                    let ended: Option<i64> = ended.fetch_one(&mut *connection).await?.try_get(0)?;
                    if ended.is_some() {
                        return Ok(false);
                    }
                    if let Some(priority) = change.priority {
                        set_priority(connection, &files_of(&job), i64::from(priority)).await?;
                    }
                    if let Some(limit) = change.limit_bit_s {
                        set_limit(connection, &files_of(&job), i64::try_from(limit).unwrap_or(i64::MAX)).await?;
                    }
                    match change.paused {
                        Some(true) => pause(connection, &files_of(&job)).await?,
                        Some(false) => resume(connection, &files_of(&job)).await?,
                        None => {}
                    }
                    if change.cancel {
                        cancel(connection, &job, now).await?;
                    }
                    let facts = serde_json::json!({"by": by, "priority": change.priority, "cancel": change.cancel, "paused": change.paused,
                                                   "limit_bit_s": change.limit_bit_s});
                    let (id, owner) = (job.job.id.to_string(), job.job.owner.clone());
                    append(
                        connection,
                        &[NewEvent { at: now, job: id, owner, kind: "changed", body: facts.to_string() }],
                    )
                    .await?;
                    Ok(true)
                })
            })
            .await
    }

    /// The ids of the transfers that carry files of a job: they are stopped when the job is cancelled.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn transfers_of(&self, job: &StoredJob) -> Result<Vec<String>> {
        let sql = "SELECT DISTINCT t.id FROM files f JOIN transfers t ON t.number = f.transfer \
                   WHERE f.id >= $1 AND f.id < $2 AND f.state = 1";
        let query = sqlx::query(sql).bind(job.first_file).bind(job.first_file + job.file_rows);
        let rows = query.fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }
}

pub(super) fn read_job(row: &AnyRow) -> Result<StoredJob> {
    let count = |column: usize| -> Result<u64> { Ok(row.try_get::<i64, _>(column)?.max(0) as u64) };
    let at = |column: usize| -> Result<Option<String>> { Ok(row.try_get::<Option<i64>, _>(column)?.map(show)) };
    let paused = count(24)? as u8;
    let kind = JobKind::of_code(row.try_get(6)?).unwrap_or(JobKind::Independent);
    let mut job = Job {
        id: row.try_get::<String, _>(1)?.parse().unwrap_or_default(),
        state: Stage::Queued,
        owner: row.try_get(2)?,
        community: row.try_get(3)?,
        activity: row.try_get(4)?,
        priority: if paused > 0 { paused } else { count(5)? as u8 },
        paused: paused > 0,
        submitted: show(row.try_get(17)?),
        started: at(18)?,
        ended: at(19)?,
        deadline: at(20)?,
        files: count(9)?,
        queued: count(10)?,
        running: count(11)?,
        done: count(12)?,
        failed: count(13)?,
        cancelled: count(14)?,
        bytes: count(15)?,
        done_bytes: count(16)?,
        metadata: serde_json::from_str(&row.try_get::<String, _>(22)?).unwrap_or_default(),
        limited_by: serde_json::from_str(&row.try_get::<String, _>(25)?).ok(),
        limit_bit_s: Some(count(26)?).filter(|limit| *limit > 0),
    };
    job.state = stage(&job);
    Ok(StoredJob {
        number: row.try_get(0)?,
        kind,
        first_file: row.try_get(7)?,
        file_rows: row.try_get(8)?,
        options: row.try_get(21)?,
        fts: row.try_get(23)?,
        job,
    })
}

impl NewJob {
    /// The new job as the type of the API, without reading it from the database.
    pub fn to_api(&self) -> Job {
        let (files, bytes) = self.queued();
        let (files, bytes) = (files.max(0) as u64, bytes.max(0) as u64);
        Job {
            id: self.id.parse().unwrap_or_default(),
            state: Stage::Queued,
            owner: self.owner.clone(),
            community: self.community.clone(),
            activity: self.activity.clone(),
            priority: self.priority as u8,
            limit_bit_s: u64::try_from(self.limit_bit_s).ok().filter(|limit| *limit > 0),
            submitted: show(self.submitted),
            deadline: self.deadline.map(show),
            files,
            queued: files,
            bytes,
            metadata: serde_json::from_str(&self.metadata).unwrap_or_default(),
            ..Job::default()
        }
    }
}

/// The stage of a job, by the states of its files.
fn stage(job: &Job) -> Stage {
    match (job.ended.is_some(), job.done, job.failed, job.cancelled) {
        (false, ..) if job.running > 0 => Stage::Running,
        (false, ..) if job.paused => Stage::Paused,
        (false, 0, 0, 0) => Stage::Queued,
        (false, ..) => Stage::Waiting,
        (true, _, 0, 0) => Stage::Done,
        (true, 0, 0, _) => Stage::Cancelled,
        (true, 0, ..) => Stage::Failed,
        (true, ..) => Stage::Partial,
    }
}

pub(super) fn read_file(row: &AnyRow) -> Result<File> {
    let at = |column: usize| -> Result<Option<String>> { Ok(row.try_get::<Option<i64>, _>(column)?.map(show)) };
    let state = FileState::of_code(row.try_get(2)?);
    let not_before: i64 = row.try_get(4)?;
    let metadata: Option<String> = row.try_get(9)?;
    Ok(File {
        number: row.try_get(0)?,
        index: row.try_get(1)?,
        state: state.map_or("unknown", FileState::word).to_owned(),
        source: row.try_get(6)?,
        target: row.try_get(7)?,
        // If the order did not give a size, it is known once the file has arrived.
        bytes: row.try_get::<i64, _>(5)?.max(row.try_get(15)?).max(0) as u64,
        checksum: row.try_get(8)?,
        attempts: row.try_get::<i64, _>(3)?.max(0) as u64,
        started: at(12)?,
        ended: if state.is_some_and(FileState::is_last) { at(13)? } else { None },
        not_before: (not_before > 0 && state == Some(FileState::Queued)).then(|| show(not_before)),
        fault: row.try_get(11)?,
        error: row.try_get(10)?,
        transfer: row.try_get(14)?,
        metadata: metadata.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
    })
}

/// Cancels the files of a job that wait or stand by. The transfers of files that run are cancelled later, and report the files then.
async fn cancel(connection: &mut AnyConnection, job: &StoredJob, now: i64) -> Result<()> {
    let (first, end) = (job.first_file, job.first_file + job.file_rows);
    let sql = "SELECT queue, COUNT(*), CAST(SUM(bytes) AS BIGINT) FROM files WHERE id >= $1 AND id < $2 AND state = 0 GROUP BY queue";
    let waiting = sqlx::query(sql).bind(first).bind(end).fetch_all(&mut *connection).await?;
    let mut files = 0i64;
    for row in waiting {
        let (queue, count, bytes): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        files += count;
        let sql = "UPDATE queues SET queued = queued - $1, queued_bytes = queued_bytes - $2 WHERE id = $3";
        sqlx::query(sql).bind(count).bind(bytes).bind(queue).execute(&mut *connection).await?;
    }
    let sql = "UPDATE file_facts SET ended = $1 WHERE id IN (SELECT id FROM files WHERE id >= $2 AND id < $3 AND state IN (0, 2))";
    sqlx::query(sql).bind(now).bind(first).bind(end).execute(&mut *connection).await?;
    let sql = "UPDATE files SET state = $1 WHERE id >= $2 AND id < $3 AND state IN (0, 2)";
    sqlx::query(sql).bind(FileState::Cancelled.code()).bind(first).bind(end).execute(&mut *connection).await?;
    let sql = "UPDATE jobs SET ending = 1, queued = 0, cancelled = cancelled + $1, ended = CASE WHEN running = 0 THEN $2 ELSE NULL END \
               WHERE number = $3";
    sqlx::query(sql).bind(files).bind(now).bind(job.number).execute(&mut *connection).await?;
    Ok(())
}

fn files_of(job: &StoredJob) -> JobFiles {
    JobFiles { job: job.number, first: job.first_file, end: job.first_file + job.file_rows }
}
