//! The queues, each with the number and bytes of its files that wait and run.

use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use super::queue_keys::{QueueKey, read_key};
use super::{Database, Result};

/// A queue with files.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Its number.
    pub id: i64,
    /// Its key.
    pub key: QueueKey,
    /// Files that wait.
    pub queued: i64,
    /// Files that wait and are still being staged from tape.
    pub staging: i64,
    /// Bytes of the files that wait.
    pub queued_bytes: i64,
    /// Files that run.
    pub running: i64,
    /// Bytes of the files that run.
    pub running_bytes: i64,
    /// The limit of its job on all its paths together, bytes per second; `None` without a limit.
    pub limit: Option<f64>,
}

/// The file of a queue that has waited longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OldestFile {
    /// When its job was submitted, milliseconds since 1970.
    pub submitted: i64,
}

const QUEUE: &str = "SELECT q.id, q.source, q.target, q.community, q.activity, q.owner, q.priority, q.deadline, q.limited, q.queued, q.queued_bytes, \
                     q.running, q.running_bytes, (SELECT COUNT(*) FROM stages s JOIN files w ON w.id = s.file \
                     WHERE s.queue = q.id AND s.state < 2 AND w.state = 0), \
                     (SELECT limit_bit_s FROM jobs l WHERE l.number = q.limited) FROM queues q";

fn read(row: &AnyRow) -> Result<Queue> {
    Ok(Queue {
        id: row.try_get(0)?,
        key: read_key(row)?,
        queued: row.try_get(9)?,
        queued_bytes: row.try_get(10)?,
        running: row.try_get(11)?,
        running_bytes: row.try_get(12)?,
        staging: row.try_get(13)?,
        limit: row.try_get::<Option<i64>, _>(14)?.filter(|bits| *bits > 0).map(|bits| bits as f64 / 8.0),
    })
}

impl Queue {
    /// Files that wait and are not being staged.
    pub fn ready(&self) -> i64 {
        (self.queued - self.staging).max(0)
    }
}

impl Database {
    /// The queues with files that wait or run.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn queues(&self) -> Result<Vec<Queue>> {
        let sql = format!("{QUEUE} WHERE queued > 0 OR running > 0 ORDER BY q.id");
        sqlx::query(AssertSqlSafe(sql)).fetch_all(&self.pool).await?.iter().map(read).collect()
    }

    /// When the job of the oldest file that waits in a queue was submitted.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn oldest(&self, queue: i64) -> Result<Option<OldestFile>> {
        let sql = "SELECT j.submitted FROM files f JOIN jobs j ON j.number = f.job WHERE f.queue = $1 AND f.state = 0 \
                   ORDER BY f.id LIMIT 1";
        let row = sqlx::query(sql).bind(queue).fetch_optional(&self.pool).await?;
        row.map(|row| Ok(OldestFile { submitted: row.try_get(0)? })).transpose()
    }

    /// The number of files that wait before a file in its queue.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn position(&self, queue: i64, file: i64) -> Result<i64> {
        let sql = "SELECT COUNT(*) FROM files WHERE queue = $1 AND state = 0 AND id < $2";
        Ok(sqlx::query(sql).bind(queue).bind(file).fetch_one(&self.pool).await?.try_get(0)?)
    }

    /// The queue of a file.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn queue_of(&self, file: i64) -> Result<Option<Queue>> {
        let sql = format!("{QUEUE} JOIN files f ON f.queue = q.id WHERE f.id = $1");
        let row = sqlx::query(AssertSqlSafe(sql)).bind(file).fetch_optional(&self.pool).await?;
        row.as_ref().map(read).transpose()
    }

    /// The bytes of the files that wait before a file in its queue.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn bytes_before(&self, queue: i64, file: i64) -> Result<i64> {
        let sql =
            "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM files WHERE queue = $1 AND state = 0 AND id < $2";
        Ok(sqlx::query(sql).bind(queue).bind(file).fetch_one(&self.pool).await?.try_get(0)?)
    }
}
