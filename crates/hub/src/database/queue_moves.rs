//! Moves files of a job from one queue to another.

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::Result;
use super::queue_keys::{QueueKey, queue_id, read_key};

/// The rows of a job's files.
pub(super) struct JobFiles {
    /// The number of the job.
    pub job: i64,
    /// The number of its first file.
    pub first: i64,
    /// The number after its last file.
    pub end: i64,
}

/// The files of a job that are moved.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveSelection {
    /// Files that wait.
    Waiting,
    /// Files that wait or run.
    Unended,
}

impl MoveSelection {
    /// The states that these files have, for SQL.
    fn states(self) -> &'static str {
        match self {
            MoveSelection::Waiting => "(0, 2)",
            MoveSelection::Unended => "(0, 1, 2)",
        }
    }
}

/// Moves files of a job; `key` makes the key of the new queue from that of the old one.
pub(super) async fn move_files(
    connection: &mut AnyConnection,
    job: &JobFiles,
    selection: MoveSelection,
    key: impl Fn(QueueKey) -> QueueKey,
) -> Result<()> {
    let sql = format!(
        "SELECT DISTINCT q.id, q.source, q.target, q.community, q.activity, q.owner, q.priority, q.deadline, q.limited \
         FROM files f JOIN queues q ON q.id = f.queue WHERE f.id >= $1 AND f.id < $2 AND f.state IN {}",
        selection.states()
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(job.first).bind(job.end).fetch_all(&mut *connection).await?;
    for row in rows {
        let from = row.try_get(0)?;
        let to = queue_id(connection, &key(read_key(&row)?)).await?;
        if from != to {
            move_between(connection, job, selection, from, to).await?;
        }
    }
    Ok(())
}

/// Moves the files of a job from one queue to another, with the counters of both, and the transfers that carry only these files.
async fn move_between(
    connection: &mut AnyConnection,
    job: &JobFiles,
    selection: MoveSelection,
    from: i64,
    to: i64,
) -> Result<()> {
    move_count(connection, job, 0, ["queued", "queued_bytes"], [from, to]).await?;
    if selection == MoveSelection::Unended {
        move_count(connection, job, 1, ["running", "running_bytes"], [from, to]).await?;
        let sql = "UPDATE transfers SET queue = $1 WHERE queue = $2 AND ended IS NULL \
                   AND number IN (SELECT transfer FROM files WHERE id >= $3 AND id < $4 AND state = 1) \
                   AND NOT EXISTS (SELECT 1 FROM files o WHERE o.transfer = transfers.number AND o.state = 1 AND (o.id < $3 OR o.id >= $4))";
        sqlx::query(sql).bind(to).bind(from).bind(job.first).bind(job.end).execute(&mut *connection).await?;
    }
    let sql = format!(
        "UPDATE files SET queue = $1 WHERE id >= $2 AND id < $3 AND queue = $4 AND state IN {}",
        selection.states()
    );
    let query = sqlx::query(AssertSqlSafe(sql)).bind(to).bind(job.first).bind(job.end).bind(from);
    query.execute(&mut *connection).await?;
    Ok(())
}

/// Subtracts the files of a job in one state, and their bytes, from the counters of one queue, and adds them to those of another.
async fn move_count(
    connection: &mut AnyConnection,
    job: &JobFiles,
    state: i64,
    [files_column, bytes_column]: [&str; 2],
    [from, to]: [i64; 2],
) -> Result<()> {
    let sql = "SELECT COUNT(*), COALESCE(CAST(SUM(bytes) AS BIGINT), 0) FROM files WHERE id >= $1 AND id < $2 AND queue = $3 AND state = $4";
    let counted = sqlx::query(sql).bind(job.first).bind(job.end).bind(from).bind(state);
    let counted = counted.fetch_one(&mut *connection).await?;
    let (files, bytes): (i64, i64) = (counted.try_get(0)?, counted.try_get(1)?);
    let sql = format!(
        "UPDATE queues SET {files_column} = {files_column} + $1, {bytes_column} = {bytes_column} + $2 WHERE id = $3"
    );
    for (queue, sign) in [(from, -1), (to, 1)] {
        let query = sqlx::query(AssertSqlSafe(sql.clone())).bind(sign * files).bind(sign * bytes).bind(queue);
        query.execute(&mut *connection).await?;
    }
    Ok(())
}
