//! Which ended transfers, tests and jobs are forgotten first, because not all can be remembered. Pure.
//!
//! The holder with the most entries loses its oldest one: no holder's history is displaced by another holder's orders.

use std::collections::{BTreeMap, HashMap};

/// The ended orders that are remembered, by holder.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    /// The entries of each holder.
    each: HashMap<String, Holder>,
    count: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Holder {
    entries: BTreeMap<u64, usize>,
    bytes: usize,
}

impl Retention {
    /// The number of entries.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.count
    }

    /// The number of entries of a holder.
    pub fn of(&self, holder: &str) -> usize {
        self.each.get(holder).map_or(0, |own| own.entries.len())
    }

    /// Adds an entry of `bytes`; a known number gets the new size.
    pub fn add(&mut self, holder: &str, number: u64, bytes: usize) {
        let own = self.each.entry(holder.to_owned()).or_default();
        own.bytes += bytes;
        let before = own.entries.insert(number, bytes);
        own.bytes -= before.unwrap_or(0);
        self.bytes = self.bytes + bytes - before.unwrap_or(0);
        self.count += usize::from(before.is_none());
    }

    /// Removes the entry to forget, if there are more than `count` entries or `bytes` bytes. Returns its number.
    pub fn take_beyond(&mut self, count: usize, bytes: usize) -> Option<u64> {
        let largest = if self.bytes > bytes {
            self.each.iter().max_by_key(|(_, own)| own.bytes)
        } else if self.count > count {
            self.each.iter().max_by_key(|(_, own)| own.entries.len())
        } else {
            None
        };
        let holder = largest.map(|(holder, _)| holder.clone())?;
        let own = self.each.get_mut(&holder)?;
        let (number, taken) = own.entries.pop_first()?;
        own.bytes -= taken;
        if own.entries.is_empty() {
            self.each.remove(&holder);
        }
        self.bytes -= taken;
        self.count -= 1;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_with_most_entries_loses_its_oldest() {
        let mut kept = Retention::default();
        kept.add("quiet", 1, 10);
        (2..=6).for_each(|number| kept.add("loud", number, 10));
        kept.add("loud", 2, 12);
        assert_eq!((kept.len(), kept.of("loud"), kept.of("nobody")), (6, 5, 0));
        assert_eq!(kept.take_beyond(6, 1000), None);
        assert_eq!(kept.take_beyond(5, 1000), Some(2));
        // By bytes: a single large one counts for more than many small ones.
        kept.add("large", 7, 100);
        assert_eq!(kept.take_beyond(100, 149), Some(7));
        assert_eq!(kept.take_beyond(100, 50), None);
        assert_eq!(kept.take_beyond(0, 0), Some(3));
        while kept.take_beyond(0, 0).is_some() {}
        assert_eq!((kept.len(), kept.bytes, kept.each.len()), (0, 0, 0));
    }
}
