//! Staging from tape: files that wait to be requested, files that have been requested, and files that may be released.

use std::collections::BTreeMap;

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::{Database, Result, outcomes};
use database::rows::id_list;

/// The most files of one request.
const FILES_MAX: i64 = 1_000;
/// The most requests that are leased at once.
const REQUESTS_MAX: usize = 100;
/// How long the lease of a hub on files lasts, milliseconds.
const LEASE_MS: i64 = 2 * 60_000;
/// The most attempts to stage a file.
const ATTEMPTS_MAX: i64 = 3;
/// The pause after the first failed attempt, milliseconds; it grows by as much with each further one.
const RETRY_MS: i64 = 60_000;
/// How long staging may take, milliseconds: a library with a long queue takes days.
const STAGE_MAX_MS: i64 = 3 * 24 * 3_600_000;
/// The shortest and the longest pause before the progress of a request is polled, milliseconds.
const POLL_MS: (i64, i64) = (2_000, 60_000);

/// A file that is on tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapeFile {
    /// The number of its row in the queue.
    pub file: i64,
    /// The URL that is read.
    pub source: String,
}

/// Files of one request to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRequest {
    /// The endpoint.
    pub endpoint: String,
    /// The server's id of the request; empty before the request is made.
    pub id: String,
    /// When it was made, milliseconds since 1970.
    pub requested: i64,
    /// Its files.
    pub files: Vec<TapeFile>,
}

/// The state of a file that was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageOutcome {
    /// It is still being staged.
    Pending,
    /// It is on disk.
    OnDisk,
    /// It could not be staged, with the reason of the server.
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
    pub async fn take_open_requests(&self, now: i64) -> Result<Vec<StageRequest>> {
        self.take_requests("s.state = 1 AND f.state = 0", REQUESTS_MAX, now).await
    }

    /// Leases files that may be released: they have been read, or will not be read.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn take_releases(&self, now: i64) -> Result<Vec<StageRequest>> {
        self.take_requests("(f.state IN (3, 4, 5) OR j.ended IS NOT NULL)", REQUESTS_MAX, now).await
    }

    async fn take_requests(&self, condition: &'static str, requests_max: usize, now: i64) -> Result<Vec<StageRequest>> {
        let sql = format!(
            "SELECT s.endpoint, s.request, s.asked, s.file, x.source FROM stages s JOIN files f ON f.id = s.file \
             JOIN jobs j ON j.number = f.job JOIN file_facts x ON x.id = s.file \
             WHERE {condition} AND s.not_before <= $1 ORDER BY s.endpoint, s.request, s.file LIMIT $2"
        );
        // Most hubs have no tape: this read spares them a write.
        let any = sqlx::query("SELECT file FROM stages LIMIT 1").fetch_optional(&self.pool).await?;
        if any.is_none() {
            return Ok(Vec::new());
        }
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let query = sqlx::query(AssertSqlSafe(sql)).bind(now).bind(FILES_MAX);
                    let mut requests = group_requests(&query.fetch_all(&mut *connection).await?)?;
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
    pub async fn record_requested(&self, files: Vec<i64>, request: String, now: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let files = id_list(files.into_iter());
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
    pub async fn record_staged(
        &self,
        request: StageRequest,
        outcomes: BTreeMap<i64, StageOutcome>,
        now: i64,
    ) -> Result<()> {
        self.writer.change(move |connection| Box::pin(record_staged(connection, request, outcomes, now))).await
    }

    /// Postpones files whose server does not answer.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn postpone_request(&self, request: StageRequest, why: String, now: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let files: Vec<i64> = request.files.iter().map(|file| file.file).collect();
                    let sql = format!(
                        "UPDATE stages SET error = $1, not_before = $2, asked = COALESCE(asked, $3) WHERE file IN {} RETURNING file, asked",
                        id_list(files.iter().copied())
                    );
                    // A server that does not answer has as much time as one that stages nothing.
                    let query = sqlx::query(AssertSqlSafe(sql)).bind(&why).bind(now + RETRY_MS).bind(now);
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
    pub async fn record_released(&self, files: Vec<i64>) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = format!("DELETE FROM stages WHERE file IN {}", id_list(files.into_iter()));
                    sqlx::query(AssertSqlSafe(sql)).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }
}

/// Groups rows by endpoint and request.
fn group_requests(rows: &[AnyRow]) -> Result<Vec<StageRequest>> {
    let mut requests: Vec<StageRequest> = Vec::new();
    for row in rows {
        let (endpoint, id): (String, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        let id = id.unwrap_or_default();
        let requested = row.try_get::<Option<i64>, _>(2)?.unwrap_or(0);
        let file = TapeFile { file: row.try_get(3)?, source: row.try_get(4)? };
        match requests.last_mut() {
            Some(last) if last.endpoint == endpoint && last.id == id => last.files.push(file),
            _ => requests.push(StageRequest { endpoint, id, requested, files: vec![file] }),
        }
    }
    Ok(requests)
}

/// Changes the rows of files; `assignments` is the `SET` part of the statement, with `value` as `$1`.
async fn set(connection: &mut AnyConnection, files: Vec<i64>, assignments: &str, value: i64) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let sql = format!("UPDATE stages SET {assignments} WHERE file IN {}", id_list(files.into_iter()));
    sqlx::query(AssertSqlSafe(sql)).bind(value).execute(connection).await?;
    Ok(())
}

async fn record_staged(
    connection: &mut AnyConnection,
    request: StageRequest,
    outcomes: BTreeMap<i64, StageOutcome>,
    now: i64,
) -> Result<()> {
    let mut on_disk = Vec::new();
    let mut pending = Vec::new();
    let mut failed = Vec::new();
    let mut why = String::new();
    for TapeFile { file, .. } in &request.files {
        match outcomes.get(file) {
            Some(StageOutcome::OnDisk) => on_disk.push(*file),
            Some(StageOutcome::Failed(reason)) => {
                why.clone_from(reason);
                let sql = "UPDATE stages SET state = 0, request = NULL, asked = NULL, attempts = attempts + 1, error = $1, \
                           not_before = $2 + $3 * (attempts + 1) WHERE file = $4 RETURNING attempts";
                let query = sqlx::query(sql).bind(reason).bind(now).bind(RETRY_MS).bind(*file);
                if query.fetch_one(&mut *connection).await?.try_get::<i64, _>(0)? >= ATTEMPTS_MAX {
                    failed.push(*file);
                }
            }
            Some(StageOutcome::Pending) | None if now - request.requested > STAGE_MAX_MS => {
                why = format!("it has not been staged from tape within {} h", STAGE_MAX_MS / 3_600_000);
                failed.push(*file);
            }
            Some(StageOutcome::Pending) | None => pending.push(*file),
        }
    }
    set(connection, on_disk, "state = 2, not_before = $1", 0).await?;
    let wait = ((now - request.requested) / 10).clamp(POLL_MS.0, POLL_MS.1);
    set(connection, pending, "not_before = $1", now + wait).await?;
    outcomes::fail_queued(connection, &failed, "missing", &why, now).await
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
