//! The endpoints that store replicas, each with its number and the bytes that it stores.

use std::collections::BTreeMap;

use sqlx::{AnyConnection, Row};

use crate::database::numbers::take_numbers;
use crate::database::{Database, Result};

/// The replicas that the catalogue has at an endpoint: existing ones, and those that rules want.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUse {
    /// The number of the endpoint.
    pub id: i64,
    /// Files.
    pub files: i64,
    /// Their bytes.
    pub bytes: i64,
    /// Bytes of replicas without locks: they are deleted when rules need the space.
    pub spare: i64,
}

const ALL: &str = "SELECT endpoint, id, files, bytes, spare FROM stores";

fn read(rows: &[sqlx::any::AnyRow]) -> Result<BTreeMap<String, StoreUse>> {
    let one = |row: &sqlx::any::AnyRow| {
        let (id, files, bytes, spare) = (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
        Ok((row.try_get(0)?, StoreUse { id, files, bytes, spare }))
    };
    rows.iter().map(one).collect()
}

impl Database {
    /// The endpoints that store replicas, by name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn stores(&self) -> Result<BTreeMap<String, StoreUse>> {
        read(&sqlx::query(ALL).fetch_all(&self.pool).await?)
    }
}

/// The endpoints that store replicas, by name.
pub(super) async fn all(connection: &mut AnyConnection) -> Result<BTreeMap<String, StoreUse>> {
    read(&sqlx::query(ALL).fetch_all(connection).await?)
}

/// The number of an endpoint; a new one if it has none.
pub(super) async fn id_or_new(connection: &mut AnyConnection, endpoint: &str) -> Result<i64> {
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

/// A change of the counters of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StoreChange {
    /// Files that exist, or that rules want.
    pub files: i64,
    /// Their bytes.
    pub bytes: i64,
    /// Bytes that no rule holds.
    pub spare: i64,
}

/// Changes the counters of an endpoint.
pub(super) async fn count(connection: &mut AnyConnection, store: i64, change: StoreChange) -> Result<()> {
    let sql = "UPDATE stores SET files = files + $1, bytes = bytes + $2, spare = spare + $3 WHERE id = $4";
    let query = sqlx::query(sql).bind(change.files).bind(change.bytes).bind(change.spare);
    query.bind(store).execute(connection).await?;
    Ok(())
}
