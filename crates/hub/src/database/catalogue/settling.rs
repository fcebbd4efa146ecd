//! Settles the jobs that make replicas: sets the states of the replicas by the outcomes of their files.

use std::collections::BTreeMap;
use std::sync::Arc;

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use super::counts::Counts;
use super::replicas::arrived;
use super::states::{LockState, ReplicaState};
use super::{locks, suspicions};
use crate::database::{Database, Result};
use crate::states::FileState;
use crate::topology::Topology;

/// Jobs that one transaction settles.
const JOBS_MAX: i64 = 20;
/// A job that the queue does not know after this time was never submitted.
const LOST_MS: i64 = 60_000;
/// The pause after the first failure of a copy, and the longest.
const AGAIN_MS: i64 = 2 * 60_000;
const AGAIN_MAX_MS: i64 = 6 * 3_600_000;

/// A job that makes replicas.
struct CopyJob {
    number: i64,
    store: i64,
    /// Its rows in the queue: the number of the first, and their count. None where the queue does not know the job.
    rows: Option<(i64, i64)>,
    /// Its files that have ended.
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
    /// Records the outcomes of jobs; returns how many jobs had new ones.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn settle_copies(&self, topology: Arc<Topology>, now: i64) -> Result<usize> {
        self.writer.change(move |connection| Box::pin(settle_all(connection, topology, now))).await
    }

    /// Returns the replicas of a job that the queue has refused to the wanted state.
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
                    give_back(connection, &job, Some(&why), now).await
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
            None => give_back(connection, &job, None, now).await?,
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
    let CopyJobOutcome { fates, suspects } = fates(connection, rows, job.is_over).await?;
    for Suspect { at, source, why } in suspects {
        if let (Some(file), Some(endpoint)) = (unsettled.get(&at), topology.endpoint(&source)) {
            suspicions::note(connection, *file, &endpoint, &why, now).await?;
        }
    }
    let mut counts = Counts::default();
    for (at, file) in unsettled {
        match fates.get(&at) {
            Some(CopyOutcome::Pending) => continue,
            Some(CopyOutcome::Done) => arrived(connection, file, job.store, None, &mut counts, now).await?,
            Some(CopyOutcome::Failed(why)) => failed(connection, file, job.store, why, &mut counts, now).await?,
            None => failed(connection, file, job.store, "its job has lost it", &mut counts, now).await?,
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
    /// By the files' positions in the job.
    fates: BTreeMap<i64, CopyOutcome>,
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
async fn fates(connection: &mut AnyConnection, (first, count): (i64, i64), is_over: bool) -> Result<CopyJobOutcome> {
    let sql = "SELECT f.at, f.state, x.reason, x.fault, x.source FROM files f JOIN file_facts x ON x.id = f.id \
               WHERE f.id >= $1 AND f.id < $2 ORDER BY f.id";
    let rows = sqlx::query(sql).bind(first).bind(first + count).fetch_all(connection).await?;
    let mut all = CopyJobOutcome { fates: BTreeMap::new(), suspects: Vec::new() };
    for row in &rows {
        let at: i64 = row.try_get(0)?;
        let state = FileState::of_code(row.try_get(1)?);
        let reason: Option<String> = row.try_get(2)?;
        let reason = reason.unwrap_or_else(|| "its job was ended by somebody".to_owned());
        let fault: Option<String> = row.try_get(3)?;
        if state == Some(FileState::Failed) && fault.is_some_and(|fault| suspicions::blames_source(&fault)) {
            all.suspects.push(Suspect { at, source: row.try_get(4)?, why: reason.clone() });
        }
        let fate = match state {
            Some(FileState::Done) => CopyOutcome::Done,
            Some(FileState::Failed | FileState::Cancelled) => CopyOutcome::Failed(reason),
            Some(FileState::Standby) => continue,
            _ if is_over => CopyOutcome::Failed(reason),
            _ => CopyOutcome::Pending,
        };
        match (all.fates.get(&at), &fate) {
            (Some(CopyOutcome::Done), _) | (Some(CopyOutcome::Pending), CopyOutcome::Failed(_)) => {}
            _ => drop(all.fates.insert(at, fate)),
        }
    }
    Ok(all)
}

/// Records that a copy could not be made. The replica is removed if no rule wants it any more.
async fn failed(
    connection: &mut AnyConnection,
    file: i64,
    store: i64,
    why: &str,
    counts: &mut Counts,
    now: i64,
) -> Result<()> {
    // A replica that has become available meanwhile stays.
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
    let wait = (AGAIN_MS << attempts.clamp(0, 20)).min(AGAIN_MAX_MS);
    let sql =
        "UPDATE replicas SET state = $1, attempts = $2, error = $3, not_before = $4 WHERE file = $5 AND store = $6";
    let query = sqlx::query(sql).bind(ReplicaState::Wanted.code()).bind(attempts + 1).bind(why).bind(now + wait);
    query.bind(file).bind(store).execute(&mut *connection).await?;
    locks::set(connection, file, store, LockState::Stuck, counts).await
}

/// Returns a copy that was not tried to the wanted state. The replica is removed if no rule wants it any more.
async fn untried(connection: &mut AnyConnection, file: i64, store: i64, counts: &mut Counts) -> Result<()> {
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

/// Returns the replicas of a job that was never submitted; `refused` is the reason of the queue, and none where a hub was killed before it could submit.
async fn give_back(connection: &mut AnyConnection, job: &CopyJob, refused: Option<&str>, now: i64) -> Result<()> {
    let mut counts = Counts::default();
    for file in unsettled(connection, job).await?.into_values() {
        match refused {
            Some(why) => failed(connection, file, job.store, why, &mut counts, now).await?,
            None => untried(connection, file, job.store, &mut counts).await?,
        }
    }
    counts.apply(connection, now).await?;
    sqlx::query("DELETE FROM copies WHERE job = $1").bind(job.number).execute(&mut *connection).await?;
    sqlx::query("DELETE FROM copy_jobs WHERE number = $1").bind(job.number).execute(connection).await?;
    Ok(())
}
