//! Statements with many rows: lists of placeholders, inserts, selects by a list of texts.

use std::fmt::Write;

use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe};

/// The result of a statement.
pub type Result<T> = std::result::Result<T, sqlx::Error>;

/// A statement whose values are not all bound yet.
pub type Query<'q> = sqlx::query::Query<'q, sqlx::Any, sqlx::any::AnyArguments>;

/// The most rows in one statement.
const ROWS_MAX: usize = 256;

/// Inserts rows into `into`, a table and its columns, as in `sites (name, json)`; `bind` binds the values of one row.
///
/// # Errors
/// A statement failed.
pub async fn insert<T>(
    connection: &mut AnyConnection,
    into: &str,
    columns: usize,
    rows: &[T],
    bind: impl for<'q> Fn(Query<'q>, &'q T) -> Query<'q>,
) -> Result<()> {
    insert_with(connection, into, columns, rows, bind, "").await
}

/// Inserts rows as [`insert`] does; a row whose key exists already is not changed.
///
/// # Errors
/// A statement failed.
pub async fn insert_new<T>(
    connection: &mut AnyConnection,
    into: &str,
    columns: usize,
    rows: &[T],
    bind: impl for<'q> Fn(Query<'q>, &'q T) -> Query<'q>,
) -> Result<()> {
    insert_with(connection, into, columns, rows, bind, " ON CONFLICT DO NOTHING").await
}

async fn insert_with<T>(
    connection: &mut AnyConnection,
    into: &str,
    columns: usize,
    rows: &[T],
    bind: impl for<'q> Fn(Query<'q>, &'q T) -> Query<'q>,
    suffix: &str,
) -> Result<()> {
    for chunk in chunks(rows) {
        let sql =
            format!("INSERT INTO {into} VALUES {}{suffix}", placeholders(is_sqlite(connection), chunk.len(), columns));
        let query = chunk.iter().fold(sqlx::query(AssertSqlSafe(sql)), &bind);
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

/// Selects the rows whose column is the text of one of `items`; `select` ends with the column and `IN`.
///
/// # Errors
/// A statement failed.
pub async fn select_by_text<T>(
    connection: &mut AnyConnection,
    select: &str,
    items: &[T],
    text: impl Fn(&T) -> &str,
) -> Result<Vec<AnyRow>> {
    let mut rows = Vec::new();
    for chunk in chunks(items) {
        let sql = format!("{select} {}", placeholders(is_sqlite(connection), 1, chunk.len()));
        let query = chunk.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, item| query.bind(text(item)));
        rows.extend(query.fetch_all(&mut *connection).await?);
    }
    Ok(rows)
}

/// Whether a connection is one to SQLite.
pub fn is_sqlite(connection: &AnyConnection) -> bool {
    connection.backend_name() == "SQLite"
}

/// Divides rows into chunks, one for each statement. Their lengths are powers of two: there are few lengths, so a connection prepares few
/// statements.
fn chunks<T>(rows: &[T]) -> impl Iterator<Item = &[T]> {
    let mut left = rows;
    std::iter::from_fn(move || {
        let length = 1 << left.len().min(ROWS_MAX).checked_ilog2()?;
        let (chunk, rest) = left.split_at(length);
        left = rest;
        Some(chunk)
    })
}

/// `(…), (…)` with placeholders: `?` for SQLite, which would search all earlier placeholders for each numbered one; `$1`, `$2`, … for
/// PostgreSQL, which has only numbered ones.
pub fn placeholders(is_sqlite: bool, rows: usize, columns: usize) -> String {
    let mut text = String::with_capacity(rows * columns * 6);
    for row in 0..rows {
        text.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..columns {
            text.push_str(if column == 0 { "" } else { ", " });
            let _ = if is_sqlite { text.write_char('?') } else { write!(text, "${}", row * columns + column + 1) };
        }
        text.push(')');
    }
    text
}

/// `(1, 2, …)`: row numbers, written into the SQL.
pub fn id_list(rows: impl Iterator<Item = i64>) -> String {
    let rows: Vec<String> = rows.map(|row| row.to_string()).collect();
    format!("({})", rows.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_database_gets_its_own_placeholders() {
        assert_eq!(placeholders(false, 2, 3), "($1, $2, $3), ($4, $5, $6)");
        assert_eq!(placeholders(true, 2, 3), "(?, ?, ?), (?, ?, ?)");
        assert_eq!(id_list([3, 4].into_iter()), "(3, 4)");
    }

    #[test]
    fn rows_are_divided_into_few_lengths() {
        let lengths = |rows: usize| chunks(&vec![0u8; rows]).map(<[u8]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(1000), [256, 256, 256, 128, 64, 32, 8]);
        assert_eq!(lengths(1), [1]);
        assert!(lengths(0).is_empty());
    }
}
