//! Deletions: files and folders that have been put aside, and can be taken back until they expire.

use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use super::{Database, Result};

/// A file or folder that has been put aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeletionRow {
    /// Its id.
    pub id: String,
    /// The member who deleted it.
    pub owner: String,
    /// The endpoint that it is at.
    pub endpoint: String,
    /// Its URL before the deletion.
    pub target: String,
    /// Its URL until it expires.
    pub kept_at: String,
    /// When it was deleted, milliseconds since 1970.
    pub deleted: i64,
    /// When it expires and cannot be taken back any more, milliseconds since 1970.
    pub expires: i64,
}

const ROW: &str = "SELECT id, owner, endpoint, target, kept_at, deleted, expires FROM deletions";

fn read(row: &AnyRow) -> Result<DeletionRow> {
    Ok(DeletionRow {
        id: row.try_get(0)?,
        owner: row.try_get(1)?,
        endpoint: row.try_get(2)?,
        target: row.try_get(3)?,
        kept_at: row.try_get(4)?,
        deleted: row.try_get(5)?,
        expires: row.try_get(6)?,
    })
}

impl Database {
    /// Stores a deletion. The caller stores it before the file is renamed: a file that is put aside without a row would never be deleted.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn add_deletion(&self, row: DeletionRow) -> Result<()> {
        let sql = "INSERT INTO deletions (id, owner, endpoint, target, kept_at, deleted, expires) VALUES ($1, $2, $3, $4, $5, $6, $7)";
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let query = sqlx::query(sql).bind(row.id).bind(row.owner).bind(row.endpoint).bind(row.target);
                    query.bind(row.kept_at).bind(row.deleted).bind(row.expires).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Deletions, the latest first; those of one owner, unless `owner` is empty.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn deletions(&self, owner: &str, limit: i64) -> Result<Vec<DeletionRow>> {
        let of_owner = if owner.is_empty() { "$1 = $1" } else { "owner = $1" };
        let sql = AssertSqlSafe(format!("{ROW} WHERE {of_owner} ORDER BY deleted DESC LIMIT $2"));
        sqlx::query(sql).bind(owner).bind(limit).fetch_all(&self.pool).await?.iter().map(read).collect()
    }

    /// A deletion by its id.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn deletion(&self, id: &str) -> Result<Option<DeletionRow>> {
        let sql = AssertSqlSafe(format!("{ROW} WHERE id = $1"));
        sqlx::query(sql).bind(id).fetch_optional(&self.pool).await?.as_ref().map(read).transpose()
    }

    /// Leases a deletion that has expired.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn take_expired_deletion(&self, now: i64, lease_ms: i64) -> Result<Option<DeletionRow>> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = AssertSqlSafe(format!("{ROW} WHERE expires <= $1 ORDER BY expires LIMIT 1"));
                    let row = sqlx::query(sql).bind(now).fetch_optional(&mut *connection).await?;
                    let Some(row) = row.as_ref().map(read).transpose()? else { return Ok(None) };
                    let sql = "UPDATE deletions SET expires = $1 WHERE id = $2";
                    sqlx::query(sql).bind(now + lease_ms).bind(&row.id).execute(connection).await?;
                    Ok(Some(row))
                })
            })
            .await
    }

    /// Removes a deletion that was taken back or carried out.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn remove_deletion(&self, id: String) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    sqlx::query("DELETE FROM deletions WHERE id = $1").bind(id).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }
}
