//! Priorities and pauses of jobs: files move to the queues of another priority, or, while the job is paused, to queues that nothing is
//! taken from.

use sqlx::{AnyConnection, Row};

use super::Result;
use super::queue_keys::QueueKey;
use super::queue_moves::{JobFiles, MoveSelection, move_files};
use crate::states::PAUSED;

/// Gives a job another priority. A paused job gets it when it is resumed.
pub(super) async fn set_priority(connection: &mut AnyConnection, job: &JobFiles, priority: i64) -> Result<()> {
    let sql = "UPDATE jobs SET paused = $1 WHERE number = $2 AND paused > 0";
    let paused = sqlx::query(sql).bind(priority).bind(job.job).execute(&mut *connection).await?;
    if paused.rows_affected() > 0 {
        return Ok(());
    }
    move_waiting(connection, job, priority).await?;
    let sql = "UPDATE jobs SET priority = $1 WHERE number = $2";
    sqlx::query(sql).bind(priority).bind(job.job).execute(&mut *connection).await?;
    Ok(())
}

/// Pauses a job: its waiting files move to queues that nothing is taken from. Files that run go on.
pub(super) async fn pause(connection: &mut AnyConnection, job: &JobFiles) -> Result<()> {
    let sql = "UPDATE jobs SET paused = priority WHERE number = $1 AND paused = 0";
    sqlx::query(sql).bind(job.job).execute(&mut *connection).await?;
    move_waiting(connection, job, PAUSED).await
}

/// Resumes a job that was paused.
pub(super) async fn resume(connection: &mut AnyConnection, job: &JobFiles) -> Result<()> {
    let sql = "UPDATE jobs SET priority = paused, paused = 0 WHERE number = $1 AND paused > 0 RETURNING priority";
    let row = sqlx::query(sql).bind(job.job).fetch_optional(&mut *connection).await?;
    let Some(row) = row else { return Ok(()) };
    move_waiting(connection, job, row.try_get(0)?).await
}

/// Moves files of paused jobs that wait again to the paused queues.
pub(super) async fn keep_paused(connection: &mut AnyConnection, jobs: impl Iterator<Item = i64>) -> Result<()> {
    for job in jobs {
        let sql = "SELECT first_file, file_rows FROM jobs WHERE number = $1 AND paused > 0";
        let Some(row) = sqlx::query(sql).bind(job).fetch_optional(&mut *connection).await? else { continue };
        let (first, rows): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        move_waiting(connection, &JobFiles { job, first, end: first + rows }, PAUSED).await?;
    }
    Ok(())
}

/// Moves the waiting files of a job to the queues of another priority.
async fn move_waiting(connection: &mut AnyConnection, job: &JobFiles, priority: i64) -> Result<()> {
    move_files(connection, job, MoveSelection::Waiting, |key| QueueKey { priority, ..key }).await
}
