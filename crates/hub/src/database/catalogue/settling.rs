//! Settles the jobs that make replicas: sets the states of the replicas by the outcomes of the jobs' files.

use std::collections::BTreeMap;
use std::sync::Arc;

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use super::counts::Counts;
use super::replicas::record_arrived;
use super::states::{LockState, ReplicaState};
use super::{locks, suspicions};
use crate::database::{Database, Result};
use crate::states::FileState;
use crate::topology::Topology;

/// The most jobs that one transaction settles.
const JOBS_MAX: i64 = 20;
/// A job that the queue does not know after this time was never submitted, milliseconds.
const LOST_MS: i64 = 60_000;
/// The pause after the first failure of a copy, and the longest pause, milliseconds. The pause doubles with each failure.
const RETRY_MS: i64 = 2 * 60_000;
const RETRY_MAX_MS: i64 = 6 * 3_600_000;

/// A job that makes replicas.
struct CopyJob {
    number: i64,
    store: i64,
    /// Its rows in the queue: the number of the first, and their count. `None` if the queue does not know the job.
    rows: Option<(i64, i64)>,
    /// The number of its files that have ended.
    ended_files: i64,
    is_over: bool,
}

/// The outcome of a file of a job.
enum CopyOutcome {
    Pending,
    Done,
    Failed(String),
}

impl Database {
    /// Records the outcomes of jobs; returns the number of jobs that had new outcomes.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn settle_copies(&self, topology: Arc<Topology>, now: i64) -> Result<usize> {
        self.writer.change(move |connection| Box::pin(settle_all(connection, topology, now))).await
    }

    /// Sets the replicas of a job that the queue has refused back to the wanted state.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn return_copies(&self, id: String, why: String, now: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "SELECT number, store FROM copy_jobs WHERE id = $1";
                    let Some(row) = sqlx::query(sql).bind(&id).fetch_optional(&mut *connection).await? else {
                        return Ok(());
                    };
                    let (number, store) = (row.try_get(0)?, row.try_get(1)?);
                    let job = CopyJob { number, store, rows: None, ended_files: 0, is_over: true };
                    return_job(connection, &job, Some(&why), now).await
                })
            })
            .await
    }
}

async fn settle_all(connection: &mut AnyConnection, topology: Arc<Topology>, now: i64) -> Result<usize> {
    let sql = "SELECT c.number, c.store, j.first_file, j.file_rows, j.done + j.failed + j.cancelled, j.ended FROM copy_jobs c \
               LEFT JOIN jobs j ON j.id = c.id WHERE j.number IS NULL AND c.created < $1 \
               OR j.done + j.failed + j.cancelled > c.settled OR j.ended IS NOT NULL ORDER BY c.number LIMIT $2";
    let rows = sqlx::query(sql).bind(now - LOST_MS).bind(JOBS_MAX).fetch_all(&mut *connection).await?;
    for row in &rows {
        let job = read(row)?;
        match job.rows {
            None => return_job(connection, &job, None, now).await?,
            Some(rows) => settle(connection, &job, rows, &topology, now).await?,
        }
    }
    Ok(rows.len())
}

fn read(row: &AnyRow) -> Result<CopyJob> {
    let (first, count): (Option<i64>, Option<i64>) = (row.try_get(2)?, row.try_get(3)?);
    Ok(CopyJob {
        number: row.try_get(0)?,
        store: row.try_get(1)?,
        rows: first.zip(count),
        ended_files: row.try_get::<Option<i64>, _>(4)?.unwrap_or(0),
        is_over: row.try_get::<Option<i64>, _>(5)?.is_some(),
    })
}

/// The files of a job that have not been settled, by their positions in the job.
async fn unsettled(connection: &mut AnyConnection, job: &CopyJob) -> Result<BTreeMap<i64, i64>> {
    let rows = sqlx::query("SELECT at, file FROM copies WHERE job = $1").bind(job.number).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

async fn settle(
    connection: &mut AnyConnection,
    job: &CopyJob,
    rows: (i64, i64),
    topology: &Topology,
    now: i64,
) -> Result<()> {
    let unsettled = unsettled(connection, job).await?;
    let CopyJobOutcome { outcomes, suspects } = job_outcome(connection, rows, job.is_over).await?;
    for Suspect { at, source, why } in suspects {
        if let (Some(file), Some(endpoint)) = (unsettled.get(&at), topology.endpoint(&source)) {
            suspicions::note(connection, *file, &endpoint, &why, now).await?;
        }
    }
    let mut counts = Counts::default();
    for (at, file) in unsettled {
        match outcomes.get(&at) {
            Some(CopyOutcome::Pending) => continue,
            Some(CopyOutcome::Done) => record_arrived(connection, file, job.store, None, &mut counts, now).await?,
            Some(CopyOutcome::Failed(why)) => record_failed(connection, file, job.store, why, &mut counts, now).await?,
            None => {
                record_failed(connection, file, job.store, "the file is missing in its job", &mut counts, now).await?
            }
        }
        let sql = "DELETE FROM copies WHERE job = $1 AND at = $2";
        sqlx::query(sql).bind(job.number).bind(at).execute(&mut *connection).await?;
    }
    counts.apply(connection, now).await?;
    let sql = if job.is_over {
        "DELETE FROM copy_jobs WHERE number = $1 AND $2 = $2"
    } else {
        "UPDATE copy_jobs SET settled = $2 WHERE number = $1"
    };
    sqlx::query(sql).bind(job.number).bind(job.ended_files).execute(connection).await?;
    Ok(())
}

/// The outcomes of the files of a job.
struct CopyJobOutcome {
    /// The outcome of each file, by its position in the job.
    outcomes: BTreeMap<i64, CopyOutcome>,
    suspects: Vec<Suspect>,
}

/// A source whose file was missing or damaged.
struct Suspect {
    /// The position of the file in its job.
    at: i64,
    /// The URL that was read.
    source: String,
    why: String,
}

/// Reads the outcomes of the files of a job. A file has a row for each of its sources.
async fn job_outcome(
    connection: &mut AnyConnection,
    (first, count): (i64, i64),
    is_over: bool,
) -> Result<CopyJobOutcome> {
    let sql = "SELECT f.at, f.state, x.reason, x.fault, x.source FROM files f JOIN file_facts x ON x.id = f.id \
               WHERE f.id >= $1 AND f.id < $2 ORDER BY f.id";
    let rows = sqlx::query(sql).bind(first).bind(first + count).fetch_all(connection).await?;
    let mut all = CopyJobOutcome { outcomes: BTreeMap::new(), suspects: Vec::new() };
    for row in &rows {
        let at: i64 = row.try_get(0)?;
        let state = FileState::of_code(row.try_get(1)?);
        let reason: Option<String> = row.try_get(2)?;
        let reason = reason.unwrap_or_else(|| "its job was cancelled".to_owned());
        let fault: Option<String> = row.try_get(3)?;
        if state == Some(FileState::Failed) && fault.is_some_and(|fault| suspicions::blames_source(&fault)) {
            all.suspects.push(Suspect { at, source: row.try_get(4)?, why: reason.clone() });
        }
        let outcome = match state {
            Some(FileState::Done) => CopyOutcome::Done,
            Some(FileState::Failed | FileState::Cancelled) => CopyOutcome::Failed(reason),
            Some(FileState::Standby) => continue,
            _ if is_over => CopyOutcome::Failed(reason),
            _ => CopyOutcome::Pending,
        };
        match (all.outcomes.get(&at), &outcome) {
            (Some(CopyOutcome::Done), _) | (Some(CopyOutcome::Pending), CopyOutcome::Failed(_)) => {}
            _ => drop(all.outcomes.insert(at, outcome)),
        }
    }
    Ok(all)
}

/// Records that a copy could not be made. The replica is removed if no rule wants it any more.
async fn record_failed(
    connection: &mut AnyConnection,
    file: i64,
    store: i64,
    why: &str,
    counts: &mut Counts,
    now: i64,
) -> Result<()> {
    // A replica that has become available in the meantime is kept.
    let sql = "DELETE FROM replicas WHERE file = $1 AND store = $2 AND state = 2 AND locks = 0 RETURNING bytes";
    if let Some(row) = sqlx::query(sql).bind(file).bind(store).fetch_optional(&mut *connection).await? {
        counts.store(store, -1, -row.try_get::<i64, _>(0)?);
        return Ok(());
    }
    let sql = "SELECT attempts FROM replicas WHERE file = $1 AND store = $2 AND state = 2";
    let Some(row) = sqlx::query(sql).bind(file).bind(store).fetch_optional(&mut *connection).await? else {
        return Ok(());
    };
    let attempts: i64 = row.try_get(0)?;
    let wait = (RETRY_MS << attempts.clamp(0, 20)).min(RETRY_MAX_MS);
    let sql =
        "UPDATE replicas SET state = $1, attempts = $2, error = $3, not_before = $4 WHERE file = $5 AND store = $6";
    let query = sqlx::query(sql).bind(ReplicaState::Wanted.code()).bind(attempts + 1).bind(why).bind(now + wait);
    query.bind(file).bind(store).execute(&mut *connection).await?;
    locks::set(connection, file, store, LockState::Stuck, counts).await
}

/// Sets a copy that was not tried back to the wanted state. The replica is removed if no rule wants it any more.
async fn return_untried(connection: &mut AnyConnection, file: i64, store: i64, counts: &mut Counts) -> Result<()> {
    let sql = "DELETE FROM replicas WHERE file = $1 AND store = $2 AND state = 2 AND locks = 0 RETURNING bytes";
    if let Some(row) = sqlx::query(sql).bind(file).bind(store).fetch_optional(&mut *connection).await? {
        counts.store(store, -1, -row.try_get::<i64, _>(0)?);
        return Ok(());
    }
    let sql = "UPDATE replicas SET state = $1, not_before = 0 WHERE file = $2 AND store = $3 AND state = 2";
    let query = sqlx::query(sql).bind(ReplicaState::Wanted.code()).bind(file).bind(store);
    query.execute(&mut *connection).await?;
    Ok(())
}

/// Sets the replicas of a job that was never submitted back to the wanted state. `refused` is the reason of the queue; it is `None` if a
/// hub was killed before it could submit the job.
async fn return_job(connection: &mut AnyConnection, job: &CopyJob, refused: Option<&str>, now: i64) -> Result<()> {
    let mut counts = Counts::default();
    for file in unsettled(connection, job).await?.into_values() {
        match refused {
            Some(why) => record_failed(connection, file, job.store, why, &mut counts, now).await?,
            None => return_untried(connection, file, job.store, &mut counts).await?,
        }
    }
    counts.apply(connection, now).await?;
    sqlx::query("DELETE FROM copies WHERE job = $1").bind(job.number).execute(&mut *connection).await?;
    sqlx::query("DELETE FROM copy_jobs WHERE number = $1").bind(job.number).execute(connection).await?;
    Ok(())
}
