//! Endpoints that have stored something, by number, and how much.

use std::collections::BTreeMap;

use sqlx::{AnyConnection, Row};

use crate::database::numbers::take_numbers;
use crate::database::{Database, Result};

/// How much the catalogue has at an endpoint: what is there, and what is promised to rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUse {
    /// Its number.
    pub id: i64,
    /// Files.
    pub files: i64,
    /// Their bytes.
    pub bytes: i64,
}

const ALL: &str = "SELECT endpoint, id, files, bytes FROM stores";

fn read(rows: &[sqlx::any::AnyRow]) -> Result<BTreeMap<String, StoreUse>> {
    let one = |row: &sqlx::any::AnyRow| {
        Ok((row.try_get(0)?, StoreUse { id: row.try_get(1)?, files: row.try_get(2)?, bytes: row.try_get(3)? }))
    };
    rows.iter().map(one).collect()
}

impl Database {
    /// The endpoints that have stored something, by name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn stores(&self) -> Result<BTreeMap<String, StoreUse>> {
        read(&sqlx::query(ALL).fetch_all(&self.pool).await?)
    }
}

/// The endpoints that have stored something, by name.
pub(super) async fn all(connection: &mut AnyConnection) -> Result<BTreeMap<String, StoreUse>> {
    read(&sqlx::query(ALL).fetch_all(connection).await?)
}

/// The number of an endpoint, which it is given if it has none.
pub(super) async fn id(connection: &mut AnyConnection, endpoint: &str) -> Result<i64> {
    let row = sqlx::query("SELECT id FROM stores WHERE endpoint = $1").bind(endpoint).fetch_optional(&mut *connection);
    if let Some(row) = row.await? {
        return Ok(row.try_get(0)?);
    }
    let id = take_numbers(connection, "stores", 1).await?;
    sqlx::query("INSERT INTO stores (id, endpoint) VALUES ($1, $2)")
        .bind(id)
        .bind(endpoint)
        .execute(connection)
        .await?;
    Ok(id)
}

/// Counts files that are there, or promised to be; fewer than 0 for those that are no longer.
pub(super) async fn count(connection: &mut AnyConnection, store: i64, files: i64, bytes: i64) -> Result<()> {
    let sql = "UPDATE stores SET files = files + $1, bytes = bytes + $2 WHERE id = $3";
    sqlx::query(sql).bind(files).bind(bytes).bind(store).execute(connection).await?;
    Ok(())
}
