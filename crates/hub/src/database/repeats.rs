//! Orders that are submitted every day or week.

use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use super::{Database, Result};

/// An order that is repeated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepeatRow {
    /// Its id.
    pub id: String,
    /// The member that it belongs to.
    pub owner: String,
    /// The community of the owner; empty for any.
    pub community: String,
    /// The order, JSON.
    pub order: String,
    /// `day` or `week`.
    pub every: String,
    /// The time of the day, milliseconds after midnight, UTC.
    pub at: i64,
    /// When it is due next, milliseconds since 1970.
    pub next_run: i64,
    /// When it was made, milliseconds since 1970.
    pub created: i64,
    /// The id of the job that was submitted last; empty if there is none.
    pub last_job: String,
    /// Why the last submission failed; empty if it did not.
    pub error: String,
}

const ROW: &str = "SELECT id, owner, community, body, every, at, next_run, created, last_job, error FROM repeats";

fn read(row: &AnyRow) -> Result<RepeatRow> {
    Ok(RepeatRow {
        id: row.try_get(0)?,
        owner: row.try_get(1)?,
        community: row.try_get(2)?,
        order: row.try_get(3)?,
        every: row.try_get(4)?,
        at: row.try_get(5)?,
        next_run: row.try_get(6)?,
        created: row.try_get(7)?,
        last_job: row.try_get(8)?,
        error: row.try_get(9)?,
    })
}

impl Database {
    /// Stores a repeat.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn add_repeat(&self, row: RepeatRow) -> Result<()> {
        let sql = "INSERT INTO repeats (id, owner, community, body, every, at, next_run, created) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let query = sqlx::query(sql).bind(row.id).bind(row.owner).bind(row.community).bind(row.order);
                    let query = query.bind(row.every).bind(row.at).bind(row.next_run).bind(row.created);
                    query.execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Repeats, the latest first; those of one owner, unless `owner` is empty.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn repeats(&self, owner: &str) -> Result<Vec<RepeatRow>> {
        let of_owner = if owner.is_empty() { "$1 = $1" } else { "owner = $1" };
        let sql = AssertSqlSafe(format!("{ROW} WHERE {of_owner} ORDER BY created DESC"));
        sqlx::query(sql).bind(owner).fetch_all(&self.pool).await?.iter().map(read).collect()
    }

    /// A repeat by its id.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn repeat(&self, id: &str) -> Result<Option<RepeatRow>> {
        let sql = AssertSqlSafe(format!("{ROW} WHERE id = $1"));
        sqlx::query(sql).bind(id).fetch_optional(&self.pool).await?.as_ref().map(read).transpose()
    }

    /// The repeat that has been due longest.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn due_repeat(&self, now: i64) -> Result<Option<RepeatRow>> {
        let sql = AssertSqlSafe(format!("{ROW} WHERE next_run <= $1 ORDER BY next_run LIMIT 1"));
        sqlx::query(sql).bind(now).fetch_optional(&self.pool).await?.as_ref().map(read).transpose()
    }

    /// Records the result of a repeat, and when it is due next.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn record_repeat(&self, id: String, next_run: i64, job: String, error: String) -> Result<()> {
        let sql = "UPDATE repeats SET next_run = $1, last_job = $2, error = $3 WHERE id = $4";
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    sqlx::query(sql).bind(next_run).bind(job).bind(error).bind(id).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Ends a repeat.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn remove_repeat(&self, id: String) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    sqlx::query("DELETE FROM repeats WHERE id = $1").bind(id).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }
}
