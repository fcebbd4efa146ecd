//! Webhooks, and the last event of the history that each of them has been posted.

use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};

use crate::database::numbers::take_numbers;
use crate::database::{Database, Result};

/// How long the lease of a hub on a webhook lasts, milliseconds: longer than an answer may take.
const LEASE_MS: i64 = 2 * 60_000;
/// The pause after the first failure of a webhook, and the longest pause, milliseconds. The pause doubles with each failure.
const RETRY_MS: i64 = 10_000;
const RETRY_MAX_MS: i64 = 3_600_000;

/// A webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookRow {
    /// Its number.
    pub number: i64,
    /// Its name.
    pub name: String,
    /// The URL that events are posted to.
    pub url: String,
    /// Kinds of events, JSON.
    pub kinds: String,
    /// Patterns of names, JSON.
    pub names: String,
    /// The secret that requests are signed with.
    pub secret: String,
    /// The account that made it.
    pub account: String,
    /// When it was made, milliseconds since 1970.
    pub created: i64,
    /// The number of the last event that was delivered, or did not match.
    pub last_event: i64,
    /// The number of events that were delivered.
    pub delivered: i64,
    /// The number of failures since the last success.
    pub failures: i64,
    /// Nothing is posted before this time, milliseconds since 1970.
    pub not_before: i64,
    /// Why the last events were not delivered.
    pub error: Option<String>,
}

const ROW: &str = "SELECT number, name, url, kinds, names, secret, account, created, heard, told, failures, not_before, error FROM webhooks";

fn read(row: &AnyRow) -> Result<WebhookRow> {
    Ok(WebhookRow {
        number: row.try_get(0)?,
        name: row.try_get(1)?,
        url: row.try_get(2)?,
        kinds: row.try_get(3)?,
        names: row.try_get(4)?,
        secret: row.try_get(5)?,
        account: row.try_get(6)?,
        created: row.try_get(7)?,
        last_event: row.try_get(8)?,
        delivered: row.try_get(9)?,
        failures: row.try_get(10)?,
        not_before: row.try_get(11)?,
        error: row.try_get(12)?,
    })
}

/// When a webhook with this number of failures is tried again, milliseconds since 1970.
fn retry_at(failures: i64, now: i64) -> i64 {
    let doubled = RETRY_MS.saturating_mul(1 << failures.clamp(1, 20).saturating_sub(1));
    now + doubled.min(RETRY_MAX_MS)
}

impl Database {
    /// All webhooks, by name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn webhooks(&self) -> Result<Vec<WebhookRow>> {
        let sql = AssertSqlSafe(format!("{ROW} ORDER BY name"));
        sqlx::query(sql).fetch_all(&self.pool).await?.iter().map(read).collect()
    }

    /// A webhook by its name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn webhook(&self, name: &str) -> Result<Option<WebhookRow>> {
        let sql = AssertSqlSafe(format!("{ROW} WHERE name = $1"));
        sqlx::query(sql).bind(name).fetch_optional(&self.pool).await?.as_ref().map(read).transpose()
    }

    /// Makes a webhook, or replaces the one of this name. A replaced webhook goes on after the last event that was delivered.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn set_webhook(&self, row: WebhookRow) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let number = take_numbers(connection, "webhooks", 1).await?;
                    let sql = "INSERT INTO webhooks (number, name, url, kinds, names, secret, account, created, heard) \
                               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, (SELECT COALESCE(MAX(number), 0) FROM history)) \
                               ON CONFLICT (name) DO UPDATE SET url = excluded.url, kinds = excluded.kinds, names = excluded.names, \
                               secret = excluded.secret, failures = 0, not_before = 0, error = NULL";
                    let query = sqlx::query(sql).bind(number).bind(row.name).bind(row.url).bind(row.kinds).bind(row.names);
                    query.bind(row.secret).bind(row.account).bind(row.created).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Removes a webhook.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn remove_webhook(&self, number: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    sqlx::query("DELETE FROM webhooks WHERE number = $1").bind(number).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Leases a webhook that has events to be posted.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn take_webhook(&self, now: i64) -> Result<Option<WebhookRow>> {
        let due = "SELECT number FROM webhooks WHERE not_before <= $1 AND heard < (SELECT COALESCE(MAX(number), 0) FROM history) LIMIT 1";
        if sqlx::query(due).bind(now).fetch_optional(&self.pool).await?.is_none() {
            return Ok(None);
        }
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = AssertSqlSafe(format!(
                        "{ROW} WHERE not_before <= $1 AND heard < (SELECT COALESCE(MAX(number), 0) FROM history) ORDER BY not_before, number LIMIT 1"
                    ));
                    let row = sqlx::query(sql).bind(now).fetch_optional(&mut *connection).await?;
                    let Some(row) = row.as_ref().map(read).transpose()? else { return Ok(None) };
                    let sql = "UPDATE webhooks SET not_before = $1 WHERE number = $2";
                    sqlx::query(sql).bind(now + LEASE_MS).bind(row.number).execute(connection).await?;
                    Ok(Some(row))
                })
            })
            .await
    }

    /// Records the outcome of a post: the number of the last event of the history and the count of events that matched, or why they were
    /// not delivered.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn record_posted(
        &self,
        row: WebhookRow,
        outcome: std::result::Result<(i64, i64), String>,
        now: i64,
    ) -> Result<()> {
        let (last_event, delivered, failures, not_before, error) = match outcome {
            Ok((last_event, delivered)) => (last_event, delivered, 0, 0, None),
            Err(why) => (row.last_event, 0, row.failures + 1, retry_at(row.failures + 1, now), Some(why)),
        };
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql = "UPDATE webhooks SET heard = $1, told = told + $2, failures = $3, not_before = $4, error = $5 WHERE number = $6 AND heard = $7";
                    let query = sqlx::query(sql).bind(last_event).bind(delivered).bind(failures);
                    let query = query.bind(not_before).bind(error);
                    // If the answer took longer than the lease, another hub may have delivered more: its row is not changed.
                    query.bind(row.number).bind(row.last_event).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_with_each_failure() {
        assert_eq!((retry_at(1, 5), retry_at(2, 5), retry_at(9, 5)), (10_005, 20_005, 2_560_005));
        assert_eq!((retry_at(10, 0), retry_at(1_000, 0)), (RETRY_MAX_MS, RETRY_MAX_MS));
    }
}
