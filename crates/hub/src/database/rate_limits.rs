//! Rate limits of jobs: a limited job has queues of its own, which share the limit.

use sqlx::AnyConnection;

use super::Result;
use super::queue_keys::QueueKey;
use super::queue_moves::{JobFiles, MoveSelection, move_files};

/// Sets the limit of a job, bit/s; 0 removes it. Running transfers are limited too, unless they also carry files of other jobs.
pub(super) async fn set_limit(connection: &mut AnyConnection, job: &JobFiles, limit_bit_s: i64) -> Result<()> {
    let sql = "UPDATE jobs SET limit_bit_s = $1 WHERE number = $2";
    sqlx::query(sql).bind(limit_bit_s).bind(job.job).execute(&mut *connection).await?;
    let limited_job = if limit_bit_s > 0 { job.job } else { 0 };
    move_files(connection, job, MoveSelection::Unended, |key| QueueKey { limited_job, ..key }).await
}
