//! Jobs that wait in other queues than they began in: of another priority, or of none while they are paused.

use sqlx::{AnyConnection, Row};

use super::Result;
use super::queue_keys::{QueueKey, queue_id};
use crate::states::PAUSED;

/// The rows of a job's files.
pub(super) struct JobFiles {
    /// The number of the job.
    pub job: i64,
    /// The number of its first file.
    pub first: i64,
    /// The number behind its last one.
    pub end: i64,
}

/// Gives a job another priority; one that is paused has it when it goes on.
pub(super) async fn set_priority(connection: &mut AnyConnection, job: &JobFiles, priority: i64) -> Result<()> {
    let sql = "UPDATE jobs SET paused = $1 WHERE number = $2 AND paused > 0";
    let paused = sqlx::query(sql).bind(priority).bind(job.job).execute(&mut *connection).await?;
    if paused.rows_affected() > 0 {
        return Ok(());
    }
    move_waiting(connection, job.first, job.end, priority).await?;
    let sql = "UPDATE jobs SET priority = $1 WHERE number = $2";
    sqlx::query(sql).bind(priority).bind(job.job).execute(&mut *connection).await?;
    Ok(())
}

/// Begins nothing more of a job: what waits goes to queues that nothing is taken of. What moves arrives.
pub(super) async fn pause(connection: &mut AnyConnection, job: &JobFiles) -> Result<()> {
    let sql = "UPDATE jobs SET paused = priority WHERE number = $1 AND paused = 0";
    sqlx::query(sql).bind(job.job).execute(&mut *connection).await?;
    move_waiting(connection, job.first, job.end, PAUSED).await
}

/// Goes on with a job that was paused.
pub(super) async fn resume(connection: &mut AnyConnection, job: &JobFiles) -> Result<()> {
    let sql = "UPDATE jobs SET priority = paused, paused = 0 WHERE number = $1 AND paused > 0 RETURNING priority";
    let row = sqlx::query(sql).bind(job.job).fetch_optional(&mut *connection).await?;
    let Some(row) = row else { return Ok(()) };
    move_waiting(connection, job.first, job.end, row.try_get(0)?).await
}

/// Puts aside again what waits anew of jobs that are paused.
pub(super) async fn keep_paused(connection: &mut AnyConnection, jobs: impl Iterator<Item = i64>) -> Result<()> {
    for job in jobs {
        let sql = "SELECT first_file, file_rows FROM jobs WHERE number = $1 AND paused > 0";
        let Some(row) = sqlx::query(sql).bind(job).fetch_optional(&mut *connection).await? else { continue };
        let (first, rows): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        move_waiting(connection, first, first + rows, PAUSED).await?;
    }
    Ok(())
}

/// Moves those files of a range that wait to the queues of another priority.
async fn move_waiting(connection: &mut AnyConnection, first: i64, end: i64, priority: i64) -> Result<()> {
    let sql = "SELECT DISTINCT q.id, q.source, q.target, q.community, q.activity, q.owner, q.deadline \
               FROM files f JOIN queues q ON q.id = f.queue WHERE f.id >= $1 AND f.id < $2 AND f.state IN (0, 2)";
    for row in sqlx::query(sql).bind(first).bind(end).fetch_all(&mut *connection).await? {
        let key = QueueKey {
            source: row.try_get(1)?,
            target: row.try_get(2)?,
            community: row.try_get(3)?,
            activity: row.try_get(4)?,
            owner: row.try_get(5)?,
            priority,
            deadline: row.try_get(6)?,
        };
        let (from, to): (i64, i64) = (row.try_get(0)?, queue_id(connection, &key).await?);
        if from == to {
            continue;
        }
        let sql = "SELECT COUNT(*), COALESCE(CAST(SUM(bytes) AS BIGINT), 0) FROM files WHERE id >= $1 AND id < $2 AND queue = $3 AND state = 0";
        let waiting = sqlx::query(sql).bind(first).bind(end).bind(from).fetch_one(&mut *connection).await?;
        let (files, bytes): (i64, i64) = (waiting.try_get(0)?, waiting.try_get(1)?);
        let sql = "UPDATE files SET queue = $1 WHERE id >= $2 AND id < $3 AND queue = $4 AND state IN (0, 2)";
        sqlx::query(sql).bind(to).bind(first).bind(end).bind(from).execute(&mut *connection).await?;
        for (queue, sign) in [(from, -1), (to, 1)] {
            let sql = "UPDATE queues SET queued = queued + $1, queued_bytes = queued_bytes + $2 WHERE id = $3";
            sqlx::query(sql).bind(sign * files).bind(sign * bytes).bind(queue).execute(&mut *connection).await?;
        }
    }
    Ok(())
}
