//! Jobs that may use no more than a rate: their files are in queues of their own, which the scheduler gives that rate to all together.

use sqlx::AnyConnection;

use super::Result;
use super::queue_keys::QueueKey;
use super::queue_moves::{JobFiles, Moved, move_files};

/// Limits what a job may use, bit/s; 0 ends its limit. What moves already is limited too, unless files of other jobs move in the same transfer.
pub(super) async fn set_limit(connection: &mut AnyConnection, job: &JobFiles, limit_bit_s: i64) -> Result<()> {
    let sql = "UPDATE jobs SET limit_bit_s = $1 WHERE number = $2";
    sqlx::query(sql).bind(limit_bit_s).bind(job.job).execute(&mut *connection).await?;
    let limited = if limit_bit_s > 0 { job.job } else { 0 };
    move_files(connection, job, Moved::Unended, |key| QueueKey { limited, ..key }).await
}
