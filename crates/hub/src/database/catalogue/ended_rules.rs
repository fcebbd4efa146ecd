//! Releases the locks of rules that have ended.

use serde_json::json;
use sqlx::{AnyConnection, Row};

use super::counts::Counts;
use super::{history, locks, rule_rows};
use crate::database::{Database, Result};

/// The most files whose locks one transaction releases.
const FILES_MAX: i64 = 2_000;

impl Database {
    /// Releases some of the locks of a rule that has ended, or removes the rule; returns whether there was one.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn end_rules(&self, now: i64) -> Result<bool> {
        self.writer.change(move |connection| Box::pin(end_rules(connection, now))).await
    }
}

async fn end_rules(connection: &mut AnyConnection, now: i64) -> Result<bool> {
    let sql = "SELECT number FROM rules WHERE expires <= $1 ORDER BY expires, number LIMIT 1";
    let Some(row) = sqlx::query(sql).bind(now).fetch_optional(&mut *connection).await? else { return Ok(false) };
    let Some(rule) = rule_rows::by_number(connection, row.try_get(0)?).await? else { return Ok(false) };
    let sql = "SELECT DISTINCT file FROM locks WHERE rule = $1 ORDER BY file LIMIT $2";
    let rows = sqlx::query(sql).bind(rule.number).bind(FILES_MAX).fetch_all(&mut *connection).await?;
    if !rows.is_empty() {
        let files = rows.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<Vec<i64>>>()?;
        let mut counts = Counts::default();
        locks::release(connection, &rule, &files, &mut counts, now).await?;
        counts.apply(connection, now).await?;
        return Ok(true);
    }
    for sql in [
        "DELETE FROM evaluations WHERE rule = $1",
        "DELETE FROM placements WHERE rule = $1",
        "DELETE FROM rules WHERE number = $1",
    ] {
        sqlx::query(sql).bind(rule.number).execute(&mut *connection).await?;
    }
    history::append(connection, rule.name, "hub", "rule_ended", &json!({"rule": rule.id}), now).await?;
    Ok(true)
}
