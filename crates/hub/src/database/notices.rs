//! Notices that jobs have ended, which wait to be posted.

use sqlx::{AssertSqlSafe, Row};

use super::{Database, Result};

/// A notice that a job has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The number of the job.
    pub job: i64,
    /// Its id.
    pub id: String,
    /// The URL that it is posted to.
    pub url: String,
    /// The number of attempts to post it, this one included.
    pub tries: i64,
}

const DUE: &str = "notify <> '' AND ended IS NOT NULL AND notify_after <= $1";

impl Database {
    /// Leases a notice that is due.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn take_notice(&self, now: i64, lease_ms: i64) -> Result<Option<Notice>> {
        // Most hubs have no notices: this read spares them a write.
        let any = AssertSqlSafe(format!("SELECT 1 FROM jobs WHERE {DUE} LIMIT 1"));
        if sqlx::query(any).bind(now).fetch_optional(&self.pool).await?.is_none() {
            return Ok(None);
        }
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = format!(
                        "SELECT number, id, notify, notify_tries FROM jobs WHERE {DUE} ORDER BY notify_after LIMIT 1"
                    );
                    let row = sqlx::query(AssertSqlSafe(sql)).bind(now).fetch_optional(&mut *connection).await?;
                    let Some(row) = row else { return Ok(None) };
                    let (job, tries): (i64, i64) = (row.try_get(0)?, row.try_get::<i64, _>(3)? + 1);
                    let notice = Notice { job, id: row.try_get(1)?, url: row.try_get(2)?, tries };
                    let sql = "UPDATE jobs SET notify_tries = $1, notify_after = $2 WHERE number = $3";
                    sqlx::query(sql).bind(tries).bind(now + lease_ms).bind(job).execute(connection).await?;
                    Ok(Some(notice))
                })
            })
            .await
    }

    /// Records the outcome of a post: the notice is removed, because it was posted or is given up, or it is posted again at the time
    /// `again`.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn settle_notice(&self, job: i64, again: Option<i64>) -> Result<()> {
        let sql = match again {
            Some(_) => "UPDATE jobs SET notify_after = $1 WHERE number = $2",
            None => "UPDATE jobs SET notify = '', notify_after = $1 WHERE number = $2",
        };
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    sqlx::query(sql).bind(again.unwrap_or(0)).bind(job).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }
}
