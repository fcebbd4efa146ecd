//! The archive of measurements, for years: rows of numbers, packed by day, and rolled up to minutes and hours. A gap stays a gap.
//!
//! The rows of the last hours are rows of the database. Once an hour is over, its rows are added to the blobs of their day ([`chunk`],
//! [`pack`]): one for each level. [`store`] is the database; [`columns`] says what the numbers are and how they are rolled up.

pub mod chunk;
pub mod columns;
pub mod pack;
pub mod store;

/// A row: when it began, and its numbers in the order of its table's columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Milliseconds since 1970.
    pub at: i64,
    /// None where it is not known.
    pub values: Vec<Option<i64>>,
}

/// The resolution of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// As measured.
    Raw,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
}

impl Level {
    /// All levels, the finest first.
    pub const ALL: [Level; 3] = [Level::Raw, Level::Minutes, Level::Hours];

    /// Its number in the database.
    pub fn number(self) -> i64 {
        self as i64
    }

    /// The time that a row covers, milliseconds; none for rows as measured.
    pub fn step(self) -> Option<i64> {
        match self {
            Level::Raw => None,
            Level::Minutes => Some(60_000),
            Level::Hours => Some(3_600_000),
        }
    }
}

/// Milliseconds of a day.
pub const DAY: i64 = 86_400_000;

/// The day of a time, counted from 1970.
pub fn day_of(at: i64) -> i64 {
    at.div_euclid(DAY)
}
