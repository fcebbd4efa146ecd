//! Numbers of rows. They are taken in blocks from counters in the database, so that several hubs on one database never use the same number.

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::Result;
use database::rows::{Query, is_sqlite, placeholders};

/// Takes blocks of numbers from several sequences at once; returns the first number of each block.
pub(super) async fn take_all<const N: usize>(
    connection: &mut AnyConnection,
    wanted: [(&'static str, usize); N],
) -> Result<[i64; N]> {
    // `excluded` is the row that the statement would insert for a new counter.
    let sql = format!(
        "INSERT INTO counters (name, next) VALUES {} \
         ON CONFLICT (name) DO UPDATE SET next = counters.next + excluded.next - 1 RETURNING name, next",
        placeholders(is_sqlite(connection), N, 2)
    );
    let bind = |query: Query<'static>, (name, count): &(&'static str, usize)| query.bind(*name).bind(*count as i64 + 1);
    let taken = wanted.iter().fold(sqlx::query(AssertSqlSafe(sql)), bind).fetch_all(&mut *connection).await?;
    let mut first = [0; N];
    for row in &taken {
        let name: String = row.try_get(0)?;
        if let Some(at) = wanted.iter().position(|(wanted, _)| *wanted == name) {
            first[at] = row.try_get::<i64, _>(1)? - wanted[at].1 as i64;
        }
    }
    Ok(first)
}

/// Takes a block of numbers from a sequence; returns the first.
pub(super) async fn take_numbers(connection: &mut AnyConnection, name: &'static str, count: usize) -> Result<i64> {
    let sql = "INSERT INTO counters (name, next) VALUES ($1, $2 + 1) \
               ON CONFLICT (name) DO UPDATE SET next = counters.next + $2 RETURNING next";
    let row = sqlx::query(sql).bind(name).bind(count as i64).fetch_one(&mut *connection).await?;
    Ok(row.try_get::<i64, _>(0)? - count as i64)
}
