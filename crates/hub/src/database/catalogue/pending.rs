//! Which names have still to be looked through, for which rules.

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use crate::database::Result;
use crate::database::numbers::take_numbers;
use database::rows::numbers;

/// Has files of a name looked at, behind a file's number, for all rules of the names above it.
pub(super) async fn add(connection: &mut AnyConnection, above: &[i64], name: i64, after: i64, now: i64) -> Result<()> {
    for rule in rules_of(connection, above, now).await? {
        let sql = "UPDATE evaluations SET file = CASE WHEN dataset = $1 AND file > $2 THEN $2 ELSE file END \
                   WHERE rule = $3 AND name = $1 AND released = 0 AND (dataset = $1 OR dataset = 0)";
        let query = sqlx::query(sql).bind(name).bind(after).bind(rule);
        if query.execute(&mut *connection).await?.rows_affected() == 0 {
            let dataset = if after == 0 { 0 } else { name };
            insert(connection, rule, name, false, (dataset, after)).await?;
        }
    }
    Ok(())
}

/// Has the files of a name that is no longer below other names released by the rules of those.
pub(super) async fn add_released(connection: &mut AnyConnection, above: &[i64], name: i64, now: i64) -> Result<()> {
    for rule in rules_of(connection, above, now).await? {
        insert(connection, rule, name, true, (0, 0)).await?;
    }
    Ok(())
}

/// Has all files of a rule looked at.
pub(super) async fn begin(connection: &mut AnyConnection, rule: i64, name: i64) -> Result<()> {
    insert(connection, rule, name, false, (0, 0)).await
}

async fn insert(
    connection: &mut AnyConnection,
    rule: i64,
    name: i64,
    is_released: bool,
    (dataset, file): (i64, i64),
) -> Result<()> {
    let number = take_numbers(connection, "evaluations", 1).await?;
    let sql = "INSERT INTO evaluations (number, rule, name, released, dataset, file) VALUES ($1, $2, $3, $4, $5, $6)";
    let query = sqlx::query(sql).bind(number).bind(rule).bind(name).bind(i64::from(is_released));
    query.bind(dataset).bind(file).execute(connection).await?;
    Ok(())
}

async fn rules_of(connection: &mut AnyConnection, names: &[i64], now: i64) -> Result<Vec<i64>> {
    let names = numbers(names.iter().copied());
    let sql =
        format!("SELECT number FROM rules WHERE name IN {names} AND (expires IS NULL OR expires > $1) ORDER BY number");
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(now).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
