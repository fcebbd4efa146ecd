//! What became of the jobs by which replicas are made, as the replicas say it.

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

/// Jobs that are looked at in one transaction.
const JOBS_MAX: i64 = 20;
/// How old a job is of which the queue does not know: it was never submitted.
const LOST_MS: i64 = 60_000;
/// How long a copy that failed waits, the first time and at most.
const AGAIN_MS: i64 = 2 * 60_000;
const AGAIN_MAX_MS: i64 = 6 * 3_600_000;

/// A job of copies.
struct CopyJob {
    number: i64,
    store: i64,
    /// Its rows in the queue: the first, and how many. None where the queue does not know of it.
    rows: Option<(i64, i64)>,
    /// Its files that have ended.
    ended_files: i64,
    is_over: bool,
}

/// What became of a file of a job.
enum Fate {
    Pending,
    Done,
    Failed(String),
}

impl Database {
    /// Takes note of what jobs have done; how many jobs had news.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn settle_copies(&self, topology: Arc<Topology>, now: i64) -> Result<usize> {
        self.writer.change(move |connection| Box::pin(settle_all(connection, topology, now))).await
    }

    /// Gives the replicas of a job back that the queue has refused.
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

/// The copies of a job that have not been settled: files by their places in the job.
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
    let Fates { fates, suspects } = fates(connection, rows, job.is_over).await?;
    for Suspect { at, source, why } in suspects {
        if let (Some(file), Some(endpoint)) = (unsettled.get(&at), topology.endpoint(&source)) {
            suspicions::note(connection, *file, &endpoint, &why, now).await?;
        }
    }
    let mut counts = Counts::default();
    for (at, file) in unsettled {
        match fates.get(&at) {
            Some(Fate::Pending) => continue,
            Some(Fate::Done) => arrived(connection, file, job.store, None, &mut counts, now).await?,
            Some(Fate::Failed(why)) => failed(connection, file, job.store, why, &mut counts, now).await?,
            None => failed(connection, file, job.store, "its job has lost it", &mut counts, now).await?,
        }
        let sql = "DELETE FROM copies WHERE job = $1 AND at = $2";
        sqlx::query(sql).bind(job.number).bind(at).execute(&mut *connection).await?;
    }
    counts.apply(connection, now).await?;
    let sql = match job.is_over {
        true => "DELETE FROM copy_jobs WHERE number = $1 AND $2 = $2",
        false => "UPDATE copy_jobs SET settled = $2 WHERE number = $1",
    };
    sqlx::query(sql).bind(job.number).bind(job.ended_files).execute(connection).await?;
    Ok(())
}

/// What became of the files of a job.
struct Fates {
    /// By their places in it.
    fates: BTreeMap<i64, Fate>,
    suspects: Vec<Suspect>,
}

/// A source that had not what it should have.
struct Suspect {
    /// The place of the file in its job.
    at: i64,
    /// The URL that was read.
    source: String,
    why: String,
}

/// Reads what became of the files of a job. A file has a row for each of its sources.
async fn fates(connection: &mut AnyConnection, (first, count): (i64, i64), is_over: bool) -> Result<Fates> {
    let sql = "SELECT f.at, f.state, x.reason, x.fault, x.source FROM files f JOIN file_facts x ON x.id = f.id \
               WHERE f.id >= $1 AND f.id < $2 ORDER BY f.id";
    let rows = sqlx::query(sql).bind(first).bind(first + count).fetch_all(connection).await?;
    let mut all = Fates { fates: BTreeMap::new(), suspects: Vec::new() };
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
            Some(FileState::Done) => Fate::Done,
            Some(FileState::Failed | FileState::Cancelled) => Fate::Failed(reason),
            Some(FileState::Standby) => continue,
            _ if is_over => Fate::Failed(reason),
            _ => Fate::Pending,
        };
        match (all.fates.get(&at), &fate) {
            (Some(Fate::Done), _) | (Some(Fate::Pending), Fate::Failed(_)) => {}
            _ => drop(all.fates.insert(at, fate)),
        }
    }
    Ok(all)
}

/// A copy could not be made. One that no rule asks for any more is forgotten.
async fn failed(
    connection: &mut AnyConnection,
    file: i64,
    store: i64,
    why: &str,
    counts: &mut Counts,
    now: i64,
) -> Result<()> {
    // One that somebody has put there meanwhile stays.
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

/// A copy that nobody has tried to make is wanted as before. One that no rule asks for any more is forgotten.
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

/// The replicas of a job that never came to be; `refused` is why the queue did not want it, and none where a hub was killed before it could ask.
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
