//! Subscriptions, and the queue of names that wait to be compared with them.

use std::collections::BTreeMap;

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::names::DataRow;
use crate::database::numbers::take_numbers;
use crate::database::{Database, DatabaseError, Result};

/// The pause before the hub tries again to make rules that could not be made, milliseconds.
const RETRY_MS: i64 = 10 * 60_000;
/// The pause before a name is compared again with a suspended subscription, milliseconds.
const SUSPENDED_MS: i64 = 24 * 3_600_000;

/// A subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionRow {
    /// Its number; 0 for a new subscription.
    pub number: i64,
    /// Its name.
    pub name: String,
    /// The account that it belongs to.
    pub account: String,
    /// The community of its rules.
    pub community: String,
    /// The filter of the names that get its rules, JSON.
    pub filter: String,
    /// The rules, JSON.
    pub rules: String,
    /// A comment for people.
    pub comment: Option<String>,
    /// When it was made, milliseconds since 1970.
    pub created: i64,
    /// When it ends, milliseconds since 1970.
    pub expires: Option<i64>,
    /// Whether it is suspended: no name gets its rules.
    pub suspended: bool,
    /// Why the last rules could not be made.
    pub error: Option<String>,
    /// The number of names that have its rules.
    pub names: i64,
    /// The number of names whose rules could not be made yet.
    pub waiting: i64,
}

/// A new name, or a name with new metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct UncomparedName {
    /// Its number in the queue.
    pub number: i64,
    /// The name.
    pub data: DataRow,
    /// The keys of its metadata, with their values in JSON.
    pub metadata: BTreeMap<String, String>,
    /// The subscription that it is compared with; 0 for all.
    pub subscription: i64,
    /// The number of rules of this subscription that it has already.
    pub rules_made: usize,
}

const ROW: &str = "SELECT number, name, account, community, filter, rules, comment, created, expires, suspended, error, \
                   (SELECT COUNT(*) FROM subscribed s WHERE s.subscription = subscriptions.number), \
                   (SELECT COUNT(*) FROM news n WHERE n.subscription = subscriptions.number) FROM subscriptions";

fn read(row: &AnyRow) -> Result<SubscriptionRow> {
    Ok(SubscriptionRow {
        number: row.try_get(0)?,
        name: row.try_get(1)?,
        account: row.try_get(2)?,
        community: row.try_get(3)?,
        filter: row.try_get(4)?,
        rules: row.try_get(5)?,
        comment: row.try_get(6)?,
        created: row.try_get(7)?,
        expires: row.try_get(8)?,
        suspended: row.try_get::<i64, _>(9)? != 0,
        error: row.try_get(10)?,
        names: row.try_get(11)?,
        waiting: row.try_get(12)?,
    })
}

impl Database {
    /// All subscriptions, by name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn subscriptions(&self) -> Result<Vec<SubscriptionRow>> {
        let sql = AssertSqlSafe(format!("{ROW} ORDER BY name"));
        sqlx::query(sql).fetch_all(&self.pool).await?.iter().map(read).collect()
    }

    /// A subscription by its name.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn subscription(&self, name: &str) -> Result<Option<SubscriptionRow>> {
        let sql = AssertSqlSafe(format!("{ROW} WHERE name = $1"));
        sqlx::query(sql).bind(name).fetch_optional(&self.pool).await?.as_ref().map(read).transpose()
    }

    /// Makes a subscription, or replaces the one of this name; with `existing` it is compared with all names of the catalogue.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn set_subscription(&self, row: SubscriptionRow, existing: bool) -> Result<()> {
        self.writer.change(move |connection| Box::pin(set(connection, row, existing))).await
    }

    /// Removes a subscription; the rules that it has made stay.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn remove_subscription(&self, number: i64) -> Result<()> {
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    for sql in [
                        "DELETE FROM news WHERE subscription = $1",
                        "DELETE FROM subscribed WHERE subscription = $1",
                        "DELETE FROM subscriptions WHERE number = $1",
                    ] {
                        sqlx::query(sql).bind(number).execute(&mut *connection).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Names that are to be compared with subscriptions now.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn uncompared_names(&self, limit: i64, now: i64) -> Result<Vec<UncomparedName>> {
        let sql =
            "SELECT number, name, subscription, rules_made FROM news WHERE not_before <= $1 ORDER BY number LIMIT $2";
        let rows = sqlx::query(sql).bind(now).bind(limit).fetch_all(&self.pool).await?;
        let ids = rows.iter().map(|row| Ok(row.try_get(1)?)).collect::<Result<Vec<i64>>>()?;
        let names = self.data_of(&ids).await?;
        let mut found = Vec::new();
        let mut without_name = Vec::new();
        for (row, id) in rows.iter().zip(ids) {
            let number = row.try_get(0)?;
            let Some(data) = names.get(&id).cloned() else {
                without_name.push(number);
                continue;
            };
            let metadata = self.metadata(id).await?;
            let rules_made = usize::try_from(row.try_get::<i64, _>(3)?).unwrap_or(0);
            found.push(UncomparedName { number, data, metadata, subscription: row.try_get(2)?, rules_made });
        }
        self.remove_compared(without_name).await?;
        Ok(found)
    }

    /// Removes names from the queue: they have been compared with the subscriptions.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn remove_compared(&self, numbers: Vec<i64>) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        self.writer
            .change(move |connection| {
                Box::pin(async move {
                    let sql =
                        format!("DELETE FROM news WHERE number IN {}", database::rows::id_list(numbers.into_iter()));
                    sqlx::query(AssertSqlSafe(sql)).execute(connection).await?;
                    Ok(())
                })
            })
            .await
    }

    /// Whether a name has the rules of a subscription.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn is_subscribed(&self, subscription: i64, name: i64) -> Result<bool> {
        let sql = "SELECT name FROM subscribed WHERE subscription = $1 AND name = $2";
        Ok(sqlx::query(sql).bind(subscription).bind(name).fetch_optional(&self.pool).await?.is_some())
    }

    /// Records that a name has the rules of a subscription.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn mark_subscribed(&self, subscription: i64, name: i64, now: i64) -> Result<()> {
        self.writer.change(move |connection| Box::pin(note(connection, subscription, name, now))).await
    }

    /// Records that a name does not have all rules of a subscription yet; the hub tries the others again later.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn mark_not_subscribed(
        &self,
        subscription: i64,
        name: i64,
        missing: MissingRules,
        now: i64,
    ) -> Result<()> {
        self.writer.change(move |connection| Box::pin(postpone(connection, subscription, name, missing, now))).await
    }
}

/// Why a name does not have all rules of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingRules {
    /// The number of rules that it has.
    pub made: usize,
    /// Why the next one could not be made; `None` if the subscription is suspended.
    pub error: Option<String>,
}

async fn set(connection: &mut AnyConnection, row: SubscriptionRow, existing: bool) -> Result<()> {
    let new_number = take_numbers(connection, "subscriptions", 1).await?;
    let sql = "INSERT INTO subscriptions (number, name, account, community, filter, rules, comment, created, expires, suspended) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (name) DO UPDATE SET \
               community = excluded.community, filter = excluded.filter, rules = excluded.rules, comment = excluded.comment, \
               expires = excluded.expires, suspended = excluded.suspended, error = NULL \
               WHERE subscriptions.account = excluded.account RETURNING number";
    let query = sqlx::query(sql).bind(new_number).bind(&row.name).bind(&row.account).bind(&row.community);
    let query = query.bind(&row.filter).bind(&row.rules).bind(row.comment.as_deref()).bind(row.created);
    let stored = query.bind(row.expires).bind(i64::from(row.suspended)).fetch_optional(&mut *connection).await?;
    let Some(stored) = stored else {
        return Err(DatabaseError::Refused(format!("another account has just made a subscription {}", row.name)));
    };
    let number: i64 = stored.try_get(0)?;
    // Names that wait for this subscription are compared with its new filter and rules.
    let sql = "UPDATE news SET not_before = 0, rules_made = 0 WHERE subscription = $1";
    sqlx::query(sql).bind(number).execute(&mut *connection).await?;
    if !existing {
        return Ok(());
    }
    let not_queued =
        "names n WHERE n.kind > 0 AND NOT EXISTS (SELECT 1 FROM news o WHERE o.subscription = $1 AND o.name = n.id)";
    let sql = AssertSqlSafe(format!("SELECT COUNT(*) FROM {not_queued}"));
    let count: i64 = sqlx::query(sql).bind(number).fetch_one(&mut *connection).await?.try_get(0)?;
    let first = take_numbers(connection, "news", usize::try_from(count).unwrap_or(0)).await?;
    let sql = AssertSqlSafe(format!(
        "INSERT INTO news (number, name, subscription) SELECT $2 - 1 + ROW_NUMBER() OVER (ORDER BY n.id), n.id, $1 FROM {not_queued}"
    ));
    sqlx::query(sql).bind(number).bind(first).execute(connection).await?;
    Ok(())
}

async fn note(connection: &mut AnyConnection, subscription: i64, name: i64, now: i64) -> Result<()> {
    let sql = "INSERT INTO subscribed (subscription, name, at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    sqlx::query(sql).bind(subscription).bind(name).bind(now).execute(&mut *connection).await?;
    let sql = "DELETE FROM news WHERE subscription = $1 AND name = $2";
    sqlx::query(sql).bind(subscription).bind(name).execute(&mut *connection).await?;
    set_error(connection, subscription, None).await
}

/// Queues a name to be compared with a subscription later. A name is queued once for a subscription, whichever hubs have compared the two.
async fn postpone(
    connection: &mut AnyConnection,
    subscription: i64,
    name: i64,
    missing: MissingRules,
    now: i64,
) -> Result<()> {
    let made = missing.made as i64;
    // A change of a suspended subscription makes its names due at once.
    let again = now + if missing.error.is_some() { RETRY_MS } else { SUSPENDED_MS };
    let sql = "UPDATE news SET not_before = $1, rules_made = CASE WHEN rules_made > $2 THEN rules_made ELSE $2 END WHERE subscription = $3 AND name = $4";
    let query = sqlx::query(sql).bind(again).bind(made).bind(subscription).bind(name);
    if query.execute(&mut *connection).await?.rows_affected() == 0 {
        let number = take_numbers(connection, "news", 1).await?;
        let sql = "INSERT INTO news (number, name, subscription, not_before, rules_made) VALUES ($1, $2, $3, $4, $5)";
        let query = sqlx::query(sql).bind(number).bind(name).bind(subscription).bind(again).bind(made);
        query.execute(&mut *connection).await?;
    }
    match missing.error {
        Some(error) => set_error(connection, subscription, Some(&error)).await,
        None => Ok(()),
    }
}

async fn set_error(connection: &mut AnyConnection, subscription: i64, error: Option<&str>) -> Result<()> {
    let sql = "UPDATE subscriptions SET error = $1 WHERE number = $2";
    sqlx::query(sql).bind(error).bind(subscription).execute(connection).await?;
    Ok(())
}
