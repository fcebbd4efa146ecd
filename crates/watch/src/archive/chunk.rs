//! A day of a series as one blob: column by column, differences as variable-length integers, deflated.
//!
//! ```text
//! 0 version · then, deflated where the version says so: rows · columns · times (differences of differences) · each column (differences; 0 is unknown)
//! ```
//! Numbers are divided by their column's step first: a reader multiplies.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::Row;
use super::columns::Column;

/// The versions of the format: of a packed day, and of rows that are still to be packed, which are not deflated.
const DEFLATED: u8 = 1;
const PLAIN: u8 = 2;
/// Rows of a blob: a day has 86,400 measurements of a second each.
const ROWS_MAX: usize = 100_000;
/// Columns of a blob: a newer version may have more than this one.
const COLUMNS_MAX: usize = 256;
/// Bytes of a blob before it is deflated.
const BYTES_MAX: u64 = 64 << 20;

/// A blob that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("a day of the archive cannot be read: {0}")]
pub struct ChunkError(&'static str);

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Seven bits in each byte, lowest first; the highest bit says that more bytes follow. The value has up to 65 bits: every 64-bit number, and
/// one more value for "unknown".
fn put(bytes: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Result<u128, ChunkError> {
        let (mut value, mut shift) = (0u128, 0);
        loop {
            let (byte, rest) = self.0.split_first().ok_or(ChunkError("it is truncated"))?;
            self.0 = rest;
            if shift > 70 {
                return Err(ChunkError("a number is too long"));
            }
            value |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    fn difference(&mut self) -> Result<i64, ChunkError> {
        u64::try_from(self.number()?).map(unzigzag).map_err(|_| ChunkError("a number is too large"))
    }

    fn count(&mut self, most: usize) -> Result<usize, ChunkError> {
        usize::try_from(self.number()?)
            .ok()
            .filter(|count| *count <= most)
            .ok_or(ChunkError("it has too many rows or columns"))
    }
}

/// Packs rows, which are in the order of their times.
pub fn pack(columns: &[Column], rows: &[Row]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(rows.len() * 8);
    write(columns, rows, &mut plain);
    let mut encoder = DeflateEncoder::new(vec![DEFLATED], Compression::new(7));
    // A write into memory does not fail.
    let _ = encoder.write_all(&plain);
    encoder.finish().unwrap_or_default()
}

/// Packs one row without deflating it: deflating a single row costs more than it saves.
pub fn pack_row(columns: &[Column], row: &Row) -> Vec<u8> {
    let mut plain = vec![PLAIN];
    write(columns, std::slice::from_ref(row), &mut plain);
    plain
}

fn write(columns: &[Column], rows: &[Row], plain: &mut Vec<u8>) {
    put(plain, rows.len() as u128);
    put(plain, columns.len() as u128);
    let (mut last, mut last_step) = (0i64, 0i64);
    for row in rows {
        let step = row.at.wrapping_sub(last);
        put(plain, zigzag(step.wrapping_sub(last_step)).into());
        (last, last_step) = (row.at, step);
    }
    for (index, column) in columns.iter().enumerate() {
        let mut last = 0i64;
        for row in rows {
            match row.values.get(index).copied().flatten() {
                None => put(plain, 0),
                Some(value) => {
                    let value = rounded(value, column.step);
                    put(plain, u128::from(zigzag(value.wrapping_sub(last))) + 1);
                    last = value;
                }
            }
        }
    }
}

/// A number divided by its step, rounded to the nearest.
fn rounded(value: i64, step: i64) -> i64 {
    if step <= 1 {
        return value;
    }
    let half = if value < 0 { -step / 2 } else { step / 2 };
    value.saturating_add(half) / step
}

/// Unpacks rows. Columns of a newer version are left out; columns that are missing are unknown.
///
/// # Errors
/// The blob is damaged.
pub fn unpack(columns: &[Column], blob: &[u8]) -> Result<Vec<Row>, ChunkError> {
    let (version, packed) = blob.split_first().ok_or(ChunkError("it is empty"))?;
    let mut plain = Vec::new();
    let plain = match *version {
        PLAIN => packed,
        DEFLATED => {
            let read = DeflateDecoder::new(packed).take(BYTES_MAX).read_to_end(&mut plain);
            read.map_err(|_| ChunkError("it cannot be inflated"))?;
            &plain
        }
        _ => return Err(ChunkError("its version is unknown")),
    };
    let mut reader = Reader(plain);
    let (count, stored) = (reader.count(ROWS_MAX)?, reader.count(COLUMNS_MAX)?);
    let mut rows = Vec::with_capacity(count);
    let (mut at, mut step) = (0i64, 0i64);
    for _ in 0..count {
        step = step.wrapping_add(reader.difference()?);
        at = at.wrapping_add(step);
        rows.push(Row { at, values: vec![None; columns.len()] });
    }
    for index in 0..stored {
        let mut last = 0i64;
        for row in &mut rows {
            let number = reader.number()?;
            let Some(difference) = number.checked_sub(1) else { continue };
            let difference = u64::try_from(difference).map_err(|_| ChunkError("a number is too large"))?;
            last = last.wrapping_add(unzigzag(difference));
            if let (Some(value), Some(column)) = (row.values.get_mut(index), columns.get(index)) {
                *value = Some(last.saturating_mul(column.step.max(1)));
            }
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::columns::{LATENCY, Rollup};
    use super::*;

    const EXACT: &[Column] = &[
        Column { name: "a", rollup: Rollup::Sum, step: 1 },
        Column { name: "b", rollup: Rollup::Sum, step: 1 },
        Column { name: "c", rollup: Rollup::Sum, step: 1 },
    ];

    fn row() -> impl Strategy<Value = Row> {
        let value = prop_oneof![Just(None), (-5i64..5).prop_map(Some), any::<i64>().prop_map(Some)];
        (any::<i64>(), prop::collection::vec(value, 3)).prop_map(|(at, values)| Row { at, values })
    }

    proptest! {
        #[test]
        fn unpacking_returns_the_packed_rows(rows in prop::collection::vec(row(), 0..200)) {
            prop_assert_eq!(&unpack(EXACT, &pack(EXACT, &rows)).unwrap(), &rows);
            for row in &rows {
                prop_assert_eq!(&unpack(EXACT, &pack_row(EXACT, row)).unwrap()[0], row);
            }
        }

        #[test]
        fn damage_is_an_error_or_other_numbers_and_never_a_panic(
            rows in prop::collection::vec(row(), 1..50),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut blob = pack(EXACT, &rows);
            let at = at.index(blob.len());
            blob[at] = byte;
            let _ = unpack(EXACT, &blob);
            let _ = unpack(EXACT, &blob[..at]);
        }
    }

    #[test]
    fn numbers_are_rounded_to_the_step_of_their_column() {
        let mut values = vec![None; LATENCY.len()];
        (values[8], values[11], values[1]) = (Some(150_123), Some(-149), Some(601));
        let back = unpack(LATENCY, &pack(LATENCY, &[Row { at: 7, values }])).unwrap();
        assert_eq!((back[0].values[8], back[0].values[11], back[0].values[1]), (Some(150_120), Some(-100), Some(601)));
    }

    #[test]
    fn a_newer_column_is_left_out_and_an_older_blob_has_none() {
        let row = Row { at: 1, values: vec![Some(1), Some(2), Some(3)] };
        let blob = pack(EXACT, std::slice::from_ref(&row));
        assert_eq!(unpack(&EXACT[..2], &blob).unwrap()[0].values, [Some(1), Some(2)]);
        let blob = pack(&EXACT[..2], &[row]);
        assert_eq!(unpack(EXACT, &blob).unwrap()[0].values, [Some(1), Some(2), None]);
    }

    /// A day of a quiet path: minutes of 600 packets, delays with the noise of a path.
    #[test]
    fn a_quiet_day_takes_less_than_four_bytes_a_minute() {
        let mut random = fastrand::Rng::with_seed(3);
        let rows: Vec<Row> = (0..1_440i64).map(|minute| quiet(minute, &mut random)).collect();
        let bytes = pack(LATENCY, &rows).len();
        assert!(bytes < 1_440 * 38 / 10, "{bytes} bytes of 1,440 minutes");
    }

    fn quiet(minute: i64, random: &mut fastrand::Rng) -> Row {
        let jitter = |random: &mut fastrand::Rng, most: i64| random.i64(0..most).min(random.i64(0..most));
        let least = 151_200 + jitter(random, 15);
        let mut values = vec![Some(0); LATENCY.len()];
        values[0] = Some(60_000);
        values[1] = Some(600 + random.i64(-6..7));
        values[8] = Some(least);
        values[9] = Some(least + 20 + jitter(random, 20));
        values[10] = Some(least + 60 + jitter(random, 60));
        values[11] = Some(least + 200 + jitter(random, 800));
        values[12] = Some(30 + jitter(random, 40));
        values[13] = Some(30 + jitter(random, 40));
        values[14] = Some(12);
        values[15] = Some(12);
        Row { at: minute * 60_000, values }
    }
}
