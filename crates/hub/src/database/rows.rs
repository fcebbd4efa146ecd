//! Statements of many rows: how many fit, and their placeholders.

use std::fmt::Write;

/// Parameters of a statement: SQLite takes 32,766, PostgreSQL 65,535; more rows than some hundred win nothing.
const PARAMETERS_MAX: usize = 4000;

/// Rows of a statement whose rows have so many columns.
pub(super) fn rows_max(columns: usize) -> usize {
    PARAMETERS_MAX / columns
}

/// `(…), (…)` with numbered placeholders.
pub(super) fn values(rows: usize, columns: usize) -> String {
    let mut text = String::with_capacity(rows * columns * 6);
    for row in 0..rows {
        text.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..columns {
            let comma = if column == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}${}", row * columns + column + 1);
        }
        text.push(')');
    }
    text
}

/// `($1, $2, …)`.
pub(super) fn list(count: usize) -> String {
    values(1, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_numbered_through() {
        assert_eq!(values(2, 3), "($1, $2, $3), ($4, $5, $6)");
        assert_eq!(list(2), "($1, $2)");
        assert_eq!(rows_max(10), 400);
    }
}
