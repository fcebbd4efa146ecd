//! The bytes that accounts hold at endpoints, and their quotas.

use std::collections::BTreeMap;

use sqlx::{AnyConnection, Row};

use crate::database::{Database, Result};

const HELD: &str = "SELECT store, bytes FROM held WHERE account = $1";
const QUOTAS: &str = "SELECT expression, bytes FROM quotas WHERE account = $1 ORDER BY expression";

impl Database {
    /// Bytes that the rules of an account hold, by the number of the endpoint.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn held_bytes(&self, account: &str) -> Result<BTreeMap<i64, i64>> {
        let rows = sqlx::query(HELD).bind(account).fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// The quotas of an account: expressions, and the bytes at all endpoints that each matches.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn quotas(&self, account: &str) -> Result<Vec<(String, i64)>> {
        let rows = sqlx::query(QUOTAS).bind(account).fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Replaces the quotas of an account.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn set_quotas(&self, account: String, quotas: Vec<(String, i64)>) -> Result<()> {
        self.writer.change(move |connection| Box::pin(set(connection, account, quotas))).await
    }
}

async fn set(connection: &mut AnyConnection, account: String, quotas: Vec<(String, i64)>) -> Result<()> {
    sqlx::query("DELETE FROM quotas WHERE account = $1").bind(&account).execute(&mut *connection).await?;
    for (expression, bytes) in quotas {
        let sql = "INSERT INTO quotas (account, expression, bytes) VALUES ($1, $2, $3)";
        sqlx::query(sql).bind(&account).bind(expression).bind(bytes).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Bytes that an account holds, by the number of the endpoint.
pub(super) async fn held_bytes(connection: &mut AnyConnection, account: &str) -> Result<BTreeMap<i64, i64>> {
    let rows = sqlx::query(HELD).bind(account).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// The quotas of an account.
pub(super) async fn of(connection: &mut AnyConnection, account: &str) -> Result<Vec<(String, i64)>> {
    let rows = sqlx::query(QUOTAS).bind(account).fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Counts files and bytes that an account holds at an endpoint; negative for those that it no longer holds.
pub(super) async fn count(
    connection: &mut AnyConnection,
    account: &str,
    store: i64,
    files: i64,
    bytes: i64,
) -> Result<()> {
    let sql = "INSERT INTO held (account, store, files, bytes) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (account, store) DO UPDATE SET files = held.files + excluded.files, bytes = held.bytes + excluded.bytes";
    sqlx::query(sql).bind(account).bind(store).bind(files).bind(bytes).execute(connection).await?;
    Ok(())
}
