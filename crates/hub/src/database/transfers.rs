//! The transfers of a job.

use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use super::jobs::StoredJob;
use super::{Database, Result};
use database::rows::id_list;

/// A transfer that carries files of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferRow {
    /// Its id at the node.
    pub id: String,
    /// The endpoint that carries it.
    pub carrier: String,
    /// The number of its files, of this job and of others.
    pub files: i64,
    /// The bytes of its files, as far as they are known.
    pub bytes: i64,
    /// When it was claimed, milliseconds since 1970.
    pub created: i64,
    /// The rate that its hub published last, bytes per second.
    pub rate: i64,
}

fn read(row: &AnyRow) -> Result<TransferRow> {
    Ok(TransferRow {
        id: row.try_get(0)?,
        carrier: row.try_get(1)?,
        files: row.try_get(2)?,
        bytes: row.try_get(3)?,
        created: row.try_get(4)?,
        rate: row.try_get(5)?,
    })
}

impl Database {
    /// The transfers that carry files of a job now, the newest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn job_transfers(&self, job: &StoredJob, limit: i64) -> Result<Vec<TransferRow>> {
        let sql = "SELECT id, carrier, files, bytes, created, rate FROM transfers WHERE ended IS NULL AND number IN \
                   (SELECT transfer FROM files WHERE id >= $1 AND id < $2 AND state = 1) ORDER BY number DESC LIMIT $3";
        let query = sqlx::query(sql).bind(job.first_file).bind(job.first_file + job.file_rows).bind(limit);
        query.fetch_all(&self.pool).await?.iter().map(read).collect()
    }

    /// Records what limited a transfer, at the jobs of its files.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn set_limited_by(&self, files: Vec<i64>, by: String) -> Result<()> {
        let ids = id_list(files.into_iter());
        let sql = format!("UPDATE jobs SET limited_by = $1 WHERE number IN (SELECT job FROM files WHERE id IN {ids})");
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    sqlx::query(AssertSqlSafe(sql)).persistent(false).bind(by).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }
}
