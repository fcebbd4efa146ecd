//! How often names are fetched, by day, and when each copy was last read: where space is needed, the copies that were read longest ago go
//! first.

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::closure::datasets_below;
use super::names::{self, DataRow, by_id};
use super::replicas::files_of;
use super::stores;
use crate::database::{Database, Result};

/// A day, milliseconds.
const DAY_MS: i64 = 24 * 3_600_000;
/// A read of a copy is not recorded within this time of the last one, milliseconds: many clients may fetch a dataset of many files.
const RECORD_EVERY_MS: i64 = 3_600_000;

/// Counts of the accesses to a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessCounts {
    /// The accesses.
    pub count: i64,
    /// The files that were fetched.
    pub files: i64,
    /// The bytes of these files.
    pub bytes: i64,
}

impl Database {
    /// Records that files of a name were fetched from an endpoint.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn note_access(&self, name: i64, endpoint: String, files: i64, bytes: i64, now: i64) -> Result<()> {
        self.writer.change(move |connection| Box::pin(note(connection, name, endpoint, files, bytes, now))).await
    }

    /// The accesses to a name by day, the newest first; each with the beginning of its day, milliseconds since 1970.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn accesses(&self, name: i64, limit: i64) -> Result<Vec<(i64, AccessCounts)>> {
        let sql = "SELECT day, count, files, bytes FROM accesses WHERE name = $1 ORDER BY day DESC LIMIT $2";
        let rows = sqlx::query(sql).bind(name).bind(limit).fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok((row.try_get::<i64, _>(0)? * DAY_MS, read(row)?))).collect()
    }

    /// The names of a scope that were fetched most often since a time.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn popular(&self, scope: &str, since: i64, limit: i64) -> Result<Vec<(DataRow, AccessCounts)>> {
        let sql = "SELECT a.name, CAST(SUM(a.count) AS BIGINT), CAST(SUM(a.files) AS BIGINT), CAST(SUM(a.bytes) AS BIGINT) \
                   FROM accesses a JOIN names n ON n.id = a.name WHERE a.day >= $1 AND n.scope = $2 \
                   GROUP BY a.name ORDER BY 2 DESC, 4 DESC, a.name LIMIT $3";
        let rows =
            sqlx::query(sql).bind(since.div_euclid(DAY_MS)).bind(scope).bind(limit).fetch_all(&self.pool).await?;
        let ids = rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<Vec<i64>>>()?;
        let mut names = self.data_of(&ids).await?;
        let mut popular = Vec::with_capacity(rows.len());
        for (row, id) in rows.iter().zip(ids) {
            if let Some(name) = names.remove(&id) {
                popular.push((name, read(row)?));
            }
        }
        Ok(popular)
    }
}

fn read(row: &sqlx::any::AnyRow) -> Result<AccessCounts> {
    Ok(AccessCounts { count: row.try_get(1)?, files: row.try_get(2)?, bytes: row.try_get(3)? })
}

async fn note(
    connection: &mut AnyConnection,
    name: i64,
    endpoint: String,
    files: i64,
    bytes: i64,
    now: i64,
) -> Result<()> {
    let sql = "INSERT INTO accesses (name, day, count, files, bytes) VALUES ($1, $2, 1, $3, $4) ON CONFLICT (name, day) DO UPDATE \
               SET count = accesses.count + 1, files = accesses.files + excluded.files, bytes = accesses.bytes + excluded.bytes";
    sqlx::query(sql).bind(name).bind(now.div_euclid(DAY_MS)).bind(files).bind(bytes).execute(&mut *connection).await?;
    let row: names::DataRow = by_id(connection, name).await?;
    let below = files_of(&row, &datasets_below(connection, name).await?);
    let store = stores::id_or_new(connection, &endpoint).await?;
    let sql = format!("UPDATE replicas SET accessed = $1 WHERE store = $2 AND accessed < $3 AND file IN ({below})");
    let query = sqlx::query(AssertSqlSafe(sql)).bind(now).bind(store).bind(now - RECORD_EVERY_MS);
    query.execute(connection).await?;
    Ok(())
}
