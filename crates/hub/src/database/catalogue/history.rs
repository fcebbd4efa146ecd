//! The history of names: events in their order. Events are appended and never changed.

use serde_json::Value;
use sqlx::{AnyConnection, Row};

use crate::database::numbers::take_numbers;
use crate::database::{Database, Result};

/// An event of a name.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEvent {
    /// Its number: later events have larger ones.
    pub number: i64,
    /// When it happened, milliseconds since 1970.
    pub at: i64,
    /// The account that caused it.
    pub account: String,
    /// The kind: `created`, `attached`, …
    pub kind: String,
    /// The facts, JSON.
    pub facts: String,
}

impl Database {
    /// Events with numbers above `after`, oldest first, of one name or of all names; each with its name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn history_after(
        &self,
        name: Option<i64>,
        after: i64,
        limit: i64,
    ) -> Result<Vec<(HistoryEvent, String)>> {
        let sql = "SELECT h.number, h.at, h.account, h.kind, h.facts, n.scope || ':' || n.name, g.facts FROM history h \
                   LEFT JOIN names n ON n.id = h.name LEFT JOIN history g ON g.name = h.name AND g.kind = 'removed' \
                   WHERE h.number > $1 AND ($2 = 0 OR h.name = $2) ORDER BY h.number LIMIT $3";
        let rows = sqlx::query(sql).bind(after).bind(name.unwrap_or(0)).bind(limit).fetch_all(&self.pool).await?;
        rows.iter().map(|row| Ok((read(row)?, name_of(row)?))).collect()
    }

    /// The number of the last event of the history.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn last_of_history(&self) -> Result<i64> {
        let row = sqlx::query("SELECT COALESCE(MAX(number), 0) FROM history").fetch_one(&self.pool).await?;
        Ok(row.try_get(0)?)
    }
}

/// The name of an event. A name that has been removed is read from the event of its removal.
fn name_of(row: &sqlx::any::AnyRow) -> Result<String> {
    let (name, removal): (Option<String>, Option<String>) = (row.try_get(5)?, row.try_get(6)?);
    let of_removal = |facts: String| serde_json::from_str::<Value>(&facts).ok()?["name"].as_str().map(str::to_owned);
    Ok(name.or_else(|| removal.and_then(of_removal)).unwrap_or_default())
}

fn read(row: &sqlx::any::AnyRow) -> Result<HistoryEvent> {
    Ok(HistoryEvent {
        number: row.try_get(0)?,
        at: row.try_get(1)?,
        account: row.try_get(2)?,
        kind: row.try_get(3)?,
        facts: row.try_get(4)?,
    })
}

/// Appends an event of a name.
pub(super) async fn append(
    connection: &mut AnyConnection,
    name: i64,
    account: &str,
    kind: &str,
    facts: &Value,
    now: i64,
) -> Result<()> {
    let number = take_numbers(connection, "history", 1).await?;
    let sql = "INSERT INTO history (number, at, name, account, kind, facts) VALUES ($1, $2, $3, $4, $5, $6)";
    let query = sqlx::query(sql).bind(number).bind(now).bind(name).bind(account).bind(kind).bind(facts.to_string());
    query.execute(connection).await?;
    Ok(())
}

impl Database {
    /// The events of a name with numbers above `after`, oldest first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn history(&self, name: i64, after: i64, limit: i64) -> Result<Vec<HistoryEvent>> {
        let sql = "SELECT number, at, account, kind, facts FROM history WHERE name = $1 AND number > $2 ORDER BY number LIMIT $3";
        let rows = sqlx::query(sql).bind(name).bind(after).bind(limit).fetch_all(&self.pool).await?;
        rows.iter().map(read).collect()
    }
}
