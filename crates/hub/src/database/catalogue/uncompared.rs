//! The queue of new names, and of names with new metadata, that wait to be compared with the subscriptions.

use sqlx::AnyConnection;

use crate::database::Result;
use crate::database::numbers::take_numbers;

/// Queues a name to be compared with all subscriptions.
pub(super) async fn queue(connection: &mut AnyConnection, name: i64) -> Result<()> {
    let number = take_numbers(connection, "news", 1).await?;
    let sql = "INSERT INTO news (number, name) VALUES ($1, $2)";
    sqlx::query(sql).bind(number).bind(name).execute(connection).await?;
    Ok(())
}
