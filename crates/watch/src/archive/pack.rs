//! Adds the rows of an hour to the blobs of their day: as measured where that is finer than a minute, as minutes, and as hours.

use super::chunk::{ChunkError, pack, unpack};
use super::columns::{Column, roll_up};
use super::{Level, Row};

/// Adds rows to the blob of a day at a level. A row whose time is in the blob already is skipped, so that packing twice is harmless.
///
/// # Errors
/// The existing blob is damaged.
pub fn add(columns: &[Column], level: Level, blob: Option<&[u8]>, rows: &[Row]) -> Result<Vec<u8>, ChunkError> {
    let mut known = blob.map_or(Ok(Vec::new()), |blob| unpack(columns, blob))?;
    let rows = match level.step() {
        None => rows.to_vec(),
        Some(step) => roll_up(columns, rows, step),
    };
    for row in rows {
        match known.binary_search_by_key(&row.at, |known| known.at) {
            Ok(_) => {}
            Err(at) => known.insert(at, row),
        }
    }
    Ok(pack(columns, &known))
}

/// The levels at which rows are kept, by the time from one row to the next: rows of a minute or more are kept as minutes and hours only.
pub fn levels(interval_ms: i64) -> &'static [Level] {
    if interval_ms >= 60_000 { &[Level::Minutes, Level::Hours] } else { &Level::ALL }
}

#[cfg(test)]
mod tests {
    use super::super::columns::PATH;
    use super::*;

    #[test]
    fn hours_can_be_packed_in_any_order_and_twice() {
        let row = |minute: i64| Row { at: minute * 60_000, values: vec![Some(minute); PATH.len()] };
        let first: Vec<Row> = (0..60).map(row).collect();
        let second: Vec<Row> = (60..120).map(row).collect();
        let blob = add(PATH, Level::Minutes, None, &second).unwrap();
        let blob = add(PATH, Level::Minutes, Some(&blob), &first).unwrap();
        let blob = add(PATH, Level::Minutes, Some(&blob), &second).unwrap();
        let all = unpack(PATH, &blob).unwrap();
        assert!(all.len() == 120 && all.is_sorted_by_key(|row| row.at));
        let hours = unpack(PATH, &add(PATH, Level::Hours, None, &all).unwrap()).unwrap();
        assert_eq!(hours.iter().map(|row| row.at).collect::<Vec<_>>(), [0, 3_600_000]);
        assert_eq!((levels(60_000).len(), levels(10_000).len()), (2, 3));
        assert!(add(PATH, Level::Hours, Some(b"x"), &all).is_err(), "a damaged blob is not overwritten");
    }
}
