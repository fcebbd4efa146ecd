//! The runs of exercises on the board.

use sqlx::Row;
use sqlx::any::AnyRow;

use super::{Database, Result};

/// A run on the board.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExerciseRow {
    /// Its id.
    pub id: String,
    /// The member whose controller reports it.
    pub owner: String,
    /// When the last report came, milliseconds since 1970.
    pub reported: i64,
    /// The member that stopped it; empty if nobody did.
    pub stopped_by: String,
    /// The last report, JSON.
    pub body: String,
}

fn read(row: &AnyRow) -> Result<ExerciseRow> {
    Ok(ExerciseRow {
        id: row.try_get(0)?,
        owner: row.try_get(1)?,
        reported: row.try_get(2)?,
        stopped_by: row.try_get(3)?,
        body: row.try_get(4)?,
    })
}

impl Database {
    /// Stores a report of a run, unless the run belongs to another owner; removes runs whose last report came before `kept_since`.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn report_exercise(&self, row: ExerciseRow, kept_since: i64) -> Result<()> {
        let sql = "INSERT INTO exercises (id, owner, reported, body) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (id) DO UPDATE SET reported = excluded.reported, body = excluded.body \
                   WHERE exercises.owner = excluded.owner";
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let forget = sqlx::query("DELETE FROM exercises WHERE reported < $1").bind(kept_since);
                    forget.execute(&mut *connection).await?;
                    let query = sqlx::query(sql).bind(row.id).bind(row.owner).bind(row.reported).bind(row.body);
                    query.execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// A run by its id.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn exercise(&self, id: &str) -> Result<Option<ExerciseRow>> {
        let sql = "SELECT id, owner, reported, stopped_by, body FROM exercises WHERE id = $1";
        sqlx::query(sql).bind(id).fetch_optional(&self.pool).await?.as_ref().map(read).transpose()
    }

    /// The runs on the board, those with the latest reports first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn exercises(&self, limit: i64) -> Result<Vec<ExerciseRow>> {
        let sql = "SELECT id, owner, reported, stopped_by, body FROM exercises ORDER BY reported DESC LIMIT $1";
        sqlx::query(sql).bind(limit).fetch_all(&self.pool).await?.iter().map(read).collect()
    }

    /// The number of runs of an owner whose last report came after `since`.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn exercises_of(&self, owner: &str, since: i64) -> Result<i64> {
        let sql = "SELECT COUNT(*) FROM exercises WHERE owner = $1 AND reported > $2";
        Ok(sqlx::query(sql).bind(owner).bind(since).fetch_one(&self.pool).await?.try_get(0)?)
    }

    /// Notes that a member stops a run. The first one to do so is kept.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn stop_exercise(&self, id: String, by: String) -> Result<()> {
        let sql = "UPDATE exercises SET stopped_by = $1 WHERE id = $2 AND stopped_by = ''";
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    sqlx::query(sql).bind(by).bind(id).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }
}
