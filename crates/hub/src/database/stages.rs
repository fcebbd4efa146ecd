//! Staging: the files that are still to be requested from tape, those that have been, and those that may be released.

use std::collections::BTreeMap;

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::{Database, Result, outcomes};
use database::rows::numbers;

/// Files of one request.
const FILES_MAX: i64 = 1_000;
/// Requests that are taken at once.
const REQUESTS_MAX: usize = 100;
/// How long the lease of a hub on files lasts.
const LEASE_MS: i64 = 2 * 60_000;
/// Attempts to stage a file, and the pause after the first; it grows by as much with each further one.
const ATTEMPTS_MAX: i64 = 3;
const AGAIN_MS: i64 = 60_000;
/// How long staging may take: a library with a long queue takes days.
const STAGE_MAX_MS: i64 = 3 * 24 * 3_600_000;
/// The shortest and the longest pause before the progress of a request is polled, milliseconds.
const POLL_MS: (i64, i64) = (2_000, 60_000);

/// A file that is on tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnTape {
    /// The row of the queue.
    pub file: i64,
    /// The URL that is read.
    pub source: String,
}

/// Files of one request to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRequest {
    /// The endpoint.
    pub endpoint: String,
    /// The server's id of the request; empty where none was made.
    pub id: String,
    /// When it was made, milliseconds since 1970.
    pub asked: i64,
    /// Its files.
    pub files: Vec<OnTape>,
}

/// The state of a file that was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageOutcome {
    /// It is still being staged.
    Pending,
    /// It is on disk.
    OnDisk,
    /// It could not be staged; the reason of the server.
    Failed(String),
}

impl Database {
    /// Leases files of one endpoint that are to be requested together.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn take_stages(&self, now: i64) -> Result<Option<StageRequest>> {
        self.take_requests("s.state = 0 AND f.state = 0", 1, now).await.map(|all| all.into_iter().next())
    }

    /// Leases requests whose progress is to be polled.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn open_requests(&self, now: i64) -> Result<Vec<StageRequest>> {
        self.take_requests("s.state = 1 AND f.state = 0", REQUESTS_MAX, now).await
    }

    /// Leases files that may be released: they have been read, or will not be.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn releases(&self, now: i64) -> Result<Vec<StageRequest>> {
        self.take_requests("(f.state IN (3, 4, 5) OR j.ended IS NOT NULL)", REQUESTS_MAX, now).await
    }

    async fn take_requests(&self, which: &'static str, requests_max: usize, now: i64) -> Result<Vec<StageRequest>> {
        let sql = format!(
            "SELECT s.endpoint, s.request, s.asked, s.file, x.source FROM stages s JOIN files f ON f.id = s.file \
             JOIN jobs j ON j.number = f.job JOIN file_facts x ON x.id = s.file \
             WHERE {which} AND s.not_before <= $1 ORDER BY s.endpoint, s.request, s.file LIMIT $2"
        );
        // Most hubs have no tape, and need not write.
        let any = sqlx::query("SELECT file FROM stages LIMIT 1").fetch_optional(&self.pool).await?;
        if any.is_none() {
            return Ok(Vec::new());
        }
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let query = sqlx::query(AssertSqlSafe(sql)).bind(now).bind(FILES_MAX);
                    let mut requests = grouped(&query.fetch_all(&mut *connection).await?)?;
                    requests.truncate(requests_max);
                    let files = requests.iter().flat_map(|request| &request.files).map(|file| file.file);
                    set(connection, files.collect(), "not_before = $1", now + LEASE_MS).await?;
                    Ok(requests)
                })
            })
            .await
    }

    /// Records that files have been requested.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn asked_for(&self, files: Vec<i64>, request: String, now: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let files = numbers(files.into_iter());
                    let sql = format!(
                        "UPDATE stages SET state = 1, request = $1, asked = $2, not_before = $3, error = NULL WHERE file IN {files}"
                    );
                    let query = sqlx::query(AssertSqlSafe(sql)).bind(request).bind(now).bind(now + POLL_MS.0);
                    query.execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Records the states of requested files. A file that fails too often fails in the queue.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn staged(&self, request: StageRequest, outcomes: BTreeMap<i64, StageOutcome>, now: i64) -> Result<()> {
        self.writer.change(move |connection| Box::pin(staged(connection, request, outcomes, now))).await
    }

    /// Postpones files whose server does not answer.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn not_asked(&self, request: StageRequest, why: String, now: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let files: Vec<i64> = request.files.iter().map(|file| file.file).collect();
                    let sql = format!(
                        "UPDATE stages SET error = $1, not_before = $2, asked = COALESCE(asked, $3) WHERE file IN {} RETURNING file, asked",
                        numbers(files.iter().copied())
                    );
                    // A silent server is given as much time as one that stages nothing.
                    let query = sqlx::query(AssertSqlSafe(sql)).bind(&why).bind(now + AGAIN_MS).bind(now);
                    let mut late: Vec<i64> = Vec::new();
                    for row in query.fetch_all(&mut *connection).await? {
                        if now - row.try_get::<i64, _>(1)? > STAGE_MAX_MS {
                            late.push(row.try_get(0)?);
                        }
                    }
                    outcomes::fail_queued(connection, &late, "peer", &why, now).await
                })
            })
            .await
    }

    /// Removes files that have been released.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn released(&self, files: Vec<i64>) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = format!("DELETE FROM stages WHERE file IN {}", numbers(files.into_iter()));
                    sqlx::query(AssertSqlSafe(sql)).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }
}

fn grouped(rows: &[AnyRow]) -> Result<Vec<StageRequest>> {
    let mut requests: Vec<StageRequest> = Vec::new();
    for row in rows {
        let (endpoint, id): (String, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        let (id, asked) = (id.unwrap_or_default(), row.try_get::<Option<i64>, _>(2)?.unwrap_or(0));
        let file = OnTape { file: row.try_get(3)?, source: row.try_get(4)? };
        match requests.last_mut() {
            Some(last) if last.endpoint == endpoint && last.id == id => last.files.push(file),
            _ => requests.push(StageRequest { endpoint, id, asked, files: vec![file] }),
        }
    }
    Ok(requests)
}

async fn set(connection: &mut AnyConnection, files: Vec<i64>, what: &str, value: i64) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let sql = format!("UPDATE stages SET {what} WHERE file IN {}", numbers(files.into_iter()));
    sqlx::query(AssertSqlSafe(sql)).bind(value).execute(connection).await?;
    Ok(())
}

async fn staged(
    connection: &mut AnyConnection,
    request: StageRequest,
    outcomes: BTreeMap<i64, StageOutcome>,
    now: i64,
) -> Result<()> {
    let mut on_disk = Vec::new();
    let mut pending = Vec::new();
    let mut given_up = Vec::new();
    let mut why = String::new();
    for OnTape { file, .. } in &request.files {
        match outcomes.get(file) {
            Some(StageOutcome::OnDisk) => on_disk.push(*file),
            Some(StageOutcome::Failed(reason)) => {
                why.clone_from(reason);
                let sql = "UPDATE stages SET state = 0, request = NULL, asked = NULL, attempts = attempts + 1, error = $1, \
                           not_before = $2 + $3 * (attempts + 1) WHERE file = $4 RETURNING attempts";
                let query = sqlx::query(sql).bind(reason).bind(now).bind(AGAIN_MS).bind(*file);
                if query.fetch_one(&mut *connection).await?.try_get::<i64, _>(0)? >= ATTEMPTS_MAX {
                    given_up.push(*file);
                }
            }
            Some(StageOutcome::Pending) | None if now - request.asked > STAGE_MAX_MS => {
                why = format!("it has not come from tape for {} h", STAGE_MAX_MS / 3_600_000);
                given_up.push(*file);
            }
            Some(StageOutcome::Pending) | None => pending.push(*file),
        }
    }
    set(connection, on_disk, "state = 2, not_before = $1", 0).await?;
    let wait = ((now - request.asked) / 10).clamp(POLL_MS.0, POLL_MS.1);
    set(connection, pending, "not_before = $1", now + wait).await?;
    outcomes::fail_queued(connection, &given_up, "missing", &why, now).await
}

impl Database {
    /// The number of files of a queue that are still being staged, and why one of them has failed so far, if any has.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn staging(&self, queue: i64) -> Result<(i64, Option<String>)> {
        let sql = "SELECT COUNT(*), MAX(s.error) FROM stages s JOIN files f ON f.id = s.file \
                   WHERE s.queue = $1 AND s.state < 2 AND f.state = 0";
        let row = sqlx::query(sql).bind(queue).fetch_one(&self.pool).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }
}
