//! The queue of names whose files wait to be evaluated, each with the rule that they are evaluated for.

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use crate::database::Result;
use crate::database::numbers::take_numbers;
use database::rows::id_list;

/// Queues the files of a name with ids above `after`, to be evaluated for all rules of the names above it.
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

/// Queues the files of a name to be released: by the rules of the names `above`, which no longer contain it, and by rules that still have
/// to release one of these names.
pub(super) async fn add_released(connection: &mut AnyConnection, above: &[i64], name: i64, now: i64) -> Result<()> {
    let mut rules = rules_of(connection, above, now).await?;
    let above = id_list(above.iter().copied());
    let sql = format!("SELECT DISTINCT rule FROM evaluations WHERE released = 1 AND name IN {above} ORDER BY rule");
    for row in sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut *connection).await? {
        let rule = row.try_get(0)?;
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    for rule in rules {
        insert(connection, rule, name, true, (0, 0)).await?;
    }
    Ok(())
}

/// Queues all files of a rule to be evaluated.
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

/// Whether rules of names that contained a name still have to release its files.
pub(super) async fn is_releasing(connection: &mut AnyConnection, name: i64) -> Result<bool> {
    let sql = "SELECT number FROM evaluations WHERE name = $1 AND released = 1 LIMIT 1";
    Ok(sqlx::query(sql).bind(name).fetch_optional(connection).await?.is_some())
}

async fn rules_of(connection: &mut AnyConnection, names: &[i64], now: i64) -> Result<Vec<i64>> {
    let names = id_list(names.iter().copied());
    let sql =
        format!("SELECT number FROM rules WHERE name IN {names} AND (expires IS NULL OR expires > $1) ORDER BY number");
    let rows = sqlx::query(AssertSqlSafe(sql)).bind(now).fetch_all(connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}
