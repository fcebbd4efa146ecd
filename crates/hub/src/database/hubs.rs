//! The hubs that share a database: the hubs that are alive, the transfers of each, and the rates that each publishes.
//!
//! All times are those of the database: the clocks of the hubs' hosts may differ, and step.

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::numbers::take_numbers;
use super::{Database, Kind, Result};
use crate::limits::HUB_SILENT_MAX;

/// A transfer that has not ended, as all hubs see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnendedTransfer {
    /// Its number.
    pub number: i64,
    /// Its queue.
    pub queue: i64,
    /// The hub that follows it.
    pub hub: String,
    /// The rate that this hub published last, bytes per second.
    pub rate: i64,
    /// Bytes of its files.
    pub bytes: i64,
}

/// The name of the counter that grows with every change of the description.
const DESCRIPTIONS: &str = "descriptions";

impl Database {
    /// Records that a hub is alive, and removes hubs that have been silent for [`HUB_SILENT_MAX`]. Returns the names of the hubs that are
    /// alive, in order.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn record_heartbeat(&self, hub: &str) -> Result<Vec<String>> {
        let (hub, now) = (hub.to_owned(), now_sql(self.kind()));
        self.writer.change(move |connection| Box::pin(record_heartbeat(connection, hub, now))).await
    }

    /// Records that a hub stops, so that the others take over its transfers at once.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn remove_hub(&self, hub: &str) -> Result<()> {
        let hub = hub.to_owned();
        self.writer.change(move |connection| Box::pin(remove_hub(connection, hub))).await
    }

    /// All transfers that have not ended, of all hubs.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn unended_transfers(&self) -> Result<Vec<UnendedTransfer>> {
        let sql = "SELECT number, queue, hub, rate, bytes FROM transfers WHERE ended IS NULL ORDER BY number";
        let rows = sqlx::query(sql).fetch_all(&self.pool).await?;
        let read = |row: &sqlx::any::AnyRow| {
            Ok(UnendedTransfer {
                number: row.try_get(0)?,
                queue: row.try_get(1)?,
                hub: row.try_get(2)?,
                rate: row.try_get(3)?,
                bytes: row.try_get(4)?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// Gives a transfer to another hub; returns false if it belongs to a different hub by now.
    ///
    /// # Errors
    /// The database cannot be written: nothing has changed.
    pub async fn take_over_transfer(&self, transfer: &UnendedTransfer, hub: &str) -> Result<bool> {
        let (number, from, to) = (transfer.number, transfer.hub.clone(), hub.to_owned());
        self.writer.change(move |connection| Box::pin(take_over_transfer(connection, number, from, to))).await
    }

    /// Publishes the rates of transfers for the other hubs: pairs of a transfer's number and its rate, bytes per second.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn publish_rates(&self, rates: Vec<(i64, i64)>) -> Result<()> {
        self.writer.change(move |connection| Box::pin(publish_rates(connection, rates))).await
    }

    /// The version of the description: the number of its changes.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn description_version(&self) -> Result<i64> {
        let row = sqlx::query("SELECT next FROM counters WHERE name = $1").bind(DESCRIPTIONS);
        row.fetch_optional(&self.pool).await?.map_or(Ok(0), |row| Ok(row.try_get(0)?))
    }
}

/// Counts a change of the description.
pub(super) async fn count_description_change(connection: &mut AnyConnection) -> Result<()> {
    take_numbers(connection, DESCRIPTIONS, 1).await.map(drop)
}

/// Milliseconds since 1970 by the database's own clock.
fn now_sql(kind: Kind) -> &'static str {
    match kind {
        Kind::Sqlite => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
        Kind::Postgres => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
    }
}

async fn record_heartbeat(connection: &mut AnyConnection, hub: String, now: &'static str) -> Result<Vec<String>> {
    let sql =
        format!("INSERT INTO hubs (id, beat) VALUES ($1, {now}) ON CONFLICT (id) DO UPDATE SET beat = excluded.beat");
    sqlx::query(AssertSqlSafe(sql)).bind(hub).execute(&mut *connection).await?;
    let sql = format!("DELETE FROM hubs WHERE beat < {now} - $1");
    sqlx::query(AssertSqlSafe(sql)).bind(HUB_SILENT_MAX.as_millis() as i64).execute(&mut *connection).await?;
    let rows = sqlx::query("SELECT id FROM hubs ORDER BY id").fetch_all(&mut *connection).await?;
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

async fn remove_hub(connection: &mut AnyConnection, hub: String) -> Result<()> {
    sqlx::query("DELETE FROM hubs WHERE id = $1").bind(hub).execute(connection).await?;
    Ok(())
}

async fn take_over_transfer(connection: &mut AnyConnection, transfer: i64, from: String, to: String) -> Result<bool> {
    let sql = "UPDATE transfers SET hub = $1 WHERE number = $2 AND hub = $3 AND ended IS NULL";
    let query = sqlx::query(sql).bind(to).bind(transfer).bind(from);
    Ok(query.execute(connection).await?.rows_affected() == 1)
}

async fn publish_rates(connection: &mut AnyConnection, rates: Vec<(i64, i64)>) -> Result<()> {
    for (number, rate) in rates {
        let query = sqlx::query("UPDATE transfers SET rate = $1 WHERE number = $2").bind(rate).bind(number);
        query.execute(&mut *connection).await?;
    }
    Ok(())
}
