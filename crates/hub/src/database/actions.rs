//! The audit trail: requests that changed something, or were refused.

use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use super::numbers::take_numbers;
use super::{Database, Result};

/// How long an action is kept.
const KEPT_MS: i64 = 400 * 86_400_000;

/// A request that changed something, or was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionRow {
    /// Its number: later actions have larger ones.
    pub number: i64,
    /// When, milliseconds since 1970.
    pub at: i64,
    /// The owner of the credential.
    pub owner: String,
    /// The address of the client.
    pub address: String,
    /// The name of the route.
    pub what: String,
    /// The path of the request.
    pub path: String,
    /// The status of the answer.
    pub status: i64,
}

fn read(row: &AnyRow) -> Result<ActionRow> {
    Ok(ActionRow {
        number: row.try_get(0)?,
        at: row.try_get(1)?,
        owner: row.try_get(2)?,
        address: row.try_get(3)?,
        what: row.try_get(4)?,
        path: row.try_get(5)?,
        status: row.try_get(6)?,
    })
}

impl Database {
    /// Stores actions in their order, and removes those that are too old.
    ///
    /// # Errors
    /// The database cannot be written: none of them is stored.
    pub async fn keep_actions(&self, rows: Vec<ActionRow>) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let Some(last) = rows.last().map(|row| row.at) else { return Ok(()) };
                    let sql = "DELETE FROM actions WHERE at < $1";
                    sqlx::query(sql).bind(last - KEPT_MS).execute(&mut *connection).await?;
                    let first = take_numbers(connection, "actions", rows.len()).await?;
                    for (number, row) in (first..).zip(rows) {
                        let sql = "INSERT INTO actions (number, at, owner, address, what, path, status) \
                                   VALUES ($1, $2, $3, $4, $5, $6, $7)";
                        let query = sqlx::query(sql).bind(number).bind(row.at).bind(row.owner).bind(row.address);
                        query.bind(row.what).bind(row.path).bind(row.status).execute(&mut *connection).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Actions with numbers below `before`, the latest first; those of one owner, unless `owner` is empty.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn actions(&self, owner: &str, before: i64, limit: i64) -> Result<Vec<ActionRow>> {
        let of_owner = if owner.is_empty() { "$2 = $2" } else { "owner = $2" };
        let sql = format!(
            "SELECT number, at, owner, address, what, path, status FROM actions WHERE number < $1 AND {of_owner} \
             ORDER BY number DESC LIMIT $3"
        );
        let query = sqlx::query(AssertSqlSafe(sql)).bind(before).bind(owner).bind(limit);
        query.fetch_all(&self.pool).await?.iter().map(read).collect()
    }
}
