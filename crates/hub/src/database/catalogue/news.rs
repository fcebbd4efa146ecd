//! Names that are new, or of which something new is said: subscriptions have still to be compared with them.

use sqlx::AnyConnection;

use crate::database::Result;
use crate::database::numbers::take_numbers;

/// Has all subscriptions compared with a name.
pub(super) async fn tell(connection: &mut AnyConnection, name: i64) -> Result<()> {
    let number = take_numbers(connection, "news", 1).await?;
    let sql = "INSERT INTO news (number, name) VALUES ($1, $2)";
    sqlx::query(sql).bind(number).bind(name).execute(connection).await?;
    Ok(())
}
