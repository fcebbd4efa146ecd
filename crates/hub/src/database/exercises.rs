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
    /// Stores a report of a run, unless the run belongs to another owner. Removes runs whose last report came before `kept_since`, and of the
    /// owner's runs all but the `most` with the latest reports.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn report_exercise(&self, row: ExerciseRow, kept_since: i64, most: i64) -> Result<()> {
        let store = "INSERT INTO exercises (id, owner, reported, body) VALUES ($1, $2, $3, $4) \
                     ON CONFLICT (id) DO UPDATE SET reported = excluded.reported, body = excluded.body \
                     WHERE exercises.owner = excluded.owner";
        let forget = "DELETE FROM exercises WHERE reported < $1 OR (owner = $2 AND id NOT IN \
                      (SELECT id FROM exercises WHERE owner = $3 ORDER BY reported DESC LIMIT $4))";
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let owner = row.owner;
                    let query = sqlx::query(store).bind(row.id).bind(owner.clone()).bind(row.reported).bind(row.body);
                    query.execute(&mut *connection).await?;
                    let query = sqlx::query(forget).bind(kept_since).bind(owner.clone()).bind(owner).bind(most);
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

    /// The runs that were reported since a time, those with the latest reports first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn exercises(&self, since: i64, limit: i64) -> Result<Vec<ExerciseRow>> {
        let sql = "SELECT id, owner, reported, stopped_by, body FROM exercises WHERE reported >= $1 \
                   ORDER BY reported DESC LIMIT $2";
        sqlx::query(sql).bind(since).bind(limit).fetch_all(&self.pool).await?.iter().map(read).collect()
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
