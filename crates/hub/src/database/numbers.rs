//! Numbers of rows. They are taken in blocks, so that several hubs on one database never give out the same.

use sqlx::{AnyConnection, Row};

use super::Result;

/// Takes so many numbers that nobody else has; the first of them.
pub(super) async fn take_numbers(connection: &mut AnyConnection, name: &'static str, count: usize) -> Result<i64> {
    let sql = "INSERT INTO counters (name, next) VALUES ($1, $2 + 1) \
               ON CONFLICT (name) DO UPDATE SET next = counters.next + $2 RETURNING next";
    let row = sqlx::query(sql).bind(name).bind(count as i64).fetch_one(&mut *connection).await?;
    Ok(row.try_get::<i64, _>(0)? - count as i64)
}
