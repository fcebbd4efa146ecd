//! The heaviest of very many keys, in bounded memory: Space-Saving (Metwally, Agrawal and El Abbadi, "Efficient Computation of
//! Frequent and Top-k Elements in Data Streams", ICDT 2005), with weights.
//!
//! There are at most `most` rows. A new key replaces the lightest row, and inherits that row's weight as the bytes of
//! the key that may have been missed. So, of N bytes in all:
//!
//! - the count of a row is never too high, and at most `missed` too low;
//! - `missed` is never more than N / `most`, because the lightest of `most` rows is not heavier than their mean;
//! - a key that moved more than N / `most` bytes has a row.

use std::collections::HashMap;
use std::hash::Hash;

use model::v1::flows::Volume;

/// The count of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// What the key has moved since it got this row.
    pub volume: Volume,
    /// Bytes that the key may have moved before.
    pub missed: u64,
}

impl Row {
    fn weight(&self) -> u64 {
        self.volume.bytes().saturating_add(self.missed)
    }
}

/// The table of the heaviest keys.
#[derive(Debug)]
pub(crate) struct Sketch<K> {
    most: usize,
    rows: HashMap<K, Row>,
}

impl<K: Hash + Eq + Clone> Sketch<K> {
    /// A table of at most `most` rows.
    pub fn new(most: usize) -> Sketch<K> {
        Sketch { most, rows: HashMap::new() }
    }

    /// Adds bytes that a key moved.
    pub fn add(&mut self, key: &K, volume: &Volume) {
        if let Some(row) = self.rows.get_mut(key) {
            return row.volume.add(volume);
        }
        let mut missed = 0;
        if self.rows.len() >= self.most {
            // A key that moved nothing displaces no row.
            if volume.bytes() == 0 {
                return;
            }
            let lightest = self.rows.iter().min_by_key(|(_, row)| row.weight()).map(|(key, row)| (key.clone(), *row));
            if let Some((key, row)) = lightest {
                missed = row.weight();
                self.rows.remove(&key);
            }
        }
        self.rows.insert(key.clone(), Row { volume: *volume, missed });
    }

    /// The most bytes that a key without a row can have moved.
    fn unseen(&self) -> u64 {
        if self.rows.len() < self.most { 0 } else { self.rows.values().map(Row::weight).min().unwrap_or(0) }
    }
}

/// Merges several tables of one kind; the bounds add up.
pub(crate) fn merged<'a, K: Hash + Eq + Clone + 'a>(all: impl Iterator<Item = &'a Sketch<K>>) -> HashMap<K, Row> {
    let mut sum: HashMap<K, (Row, u64)> = HashMap::new();
    let mut unseen = 0;
    for sketch in all {
        let least = sketch.unseen();
        unseen += least;
        for (key, row) in &sketch.rows {
            let (of_key, seen) = sum.entry(key.clone()).or_default();
            of_key.volume.add(&row.volume);
            of_key.missed += row.missed;
            *seen += least;
        }
    }
    // In a sketch without a row for a key, the key may have moved as much as the lightest row.
    sum.into_iter().map(|(key, (row, seen))| (key, Row { missed: row.missed + (unseen - seen), ..row })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn volume(bytes: u64) -> Volume {
        Volume { bytes_in: bytes / 3, bytes_out: bytes - bytes / 3, requests: 1, ..Volume::default() }
    }

    proptest! {
        /// Against exact counting, for one sketch and for several as one.
        #[test]
        fn the_bounds_of_the_sketch_hold(
            most in 1_usize..12,
            parts in prop::collection::vec(prop::collection::vec((0_u8..40, 0_u64..1000), 0..200), 1..5),
        ) {
            let mut exact: HashMap<u8, u64> = HashMap::new();
            let mut sketches = Vec::new();
            for part in &parts {
                let mut sketch = Sketch::new(most);
                for (key, bytes) in part {
                    sketch.add(key, &volume(*bytes));
                    *exact.entry(*key).or_default() += bytes;
                    prop_assert!(sketch.rows.len() <= most);
                }
                sketches.push(sketch);
            }
            let all: u64 = exact.values().sum();
            let found = merged(sketches.iter());
            for (key, bytes) in &exact {
                match found.get(key) {
                    Some(row) => {
                        prop_assert!(row.volume.bytes() <= *bytes, "too much of {key}");
                        prop_assert!(*bytes <= row.volume.bytes() + row.missed, "too little of {key}");
                        prop_assert!(row.missed <= all / most as u64, "{} is more than a part of {all}", row.missed);
                    }
                    None => prop_assert!(*bytes <= all / most as u64, "{key} moved {bytes} of {all}"),
                }
            }
        }
    }

    #[test]
    fn a_key_without_bytes_displaces_no_row() {
        let mut sketch = Sketch::new(2);
        sketch.add(&1, &volume(10));
        sketch.add(&2, &volume(20));
        sketch.add(&3, &volume(0));
        assert_eq!(sketch.rows.len(), 2);
        sketch.add(&3, &volume(5));
        assert_eq!(sketch.rows[&3], Row { volume: volume(5), missed: 10 }, "in the place of the lightest");
        assert!(!sketch.rows.contains_key(&1));
    }
}
