//! The order of the entries of a page. Links ask for another order, because no script runs on a page.

use model::{Kind, Timestamp};
use web::target::{Target, pairs};

/// An entry of a directory, as a page or JSON lists it.
#[derive(Clone, Debug)]
pub(super) struct ListingRow {
    pub name: Vec<u8>,
    pub kind: Kind,
    pub size: Option<u64>,
    pub modified: Option<Timestamp>,
}

impl ListingRow {
    /// Whether the entry is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Dir
    }
}

/// The key by which entries are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SortKey {
    #[default]
    Name,
    Size,
    Time,
}

impl SortKey {
    /// All keys, with their words in addresses and on the page.
    pub const ALL: [(SortKey, &'static str, &'static str); 3] =
        [(SortKey::Name, "name", "Name"), (SortKey::Size, "size", "Size"), (SortKey::Time, "time", "Changed")];
}

/// The sort order of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SortOrder {
    pub key: SortKey,
    pub is_descending: bool,
}

impl SortOrder {
    /// The order that an address asks for.
    pub fn of(target: &Target) -> SortOrder {
        let query = target.query.as_deref().unwrap_or_default();
        let value = |wanted: &str| pairs(query).find(|(name, _)| name == wanted).map(|(_, value)| value);
        let sort = value("sort").unwrap_or_default();
        let key = SortKey::ALL.iter().find(|(_, word, _)| *word == sort).map(|(key, ..)| *key).unwrap_or_default();
        SortOrder { key, is_descending: value("order").as_deref() == Some("desc") }
    }

    /// Sorts entries: directories first, and entries with equal keys by name.
    pub fn sort(self, lines: &mut [ListingRow]) {
        lines.sort_by(|a, b| {
            let by_key = match self.key {
                SortKey::Name => a.name.cmp(&b.name),
                SortKey::Size => a.size.cmp(&b.size),
                SortKey::Time => a.modified.cmp(&b.modified),
            };
            let by_key = if self.is_descending { by_key.reverse() } else { by_key };
            b.is_dir().cmp(&a.is_dir()).then(by_key).then_with(|| a.name.cmp(&b.name))
        });
    }

    /// The query of the link in a column's head: the reverse order if the page is sorted by that column.
    pub fn link(self, key: SortKey, word: &str) -> String {
        let is_descending = self.key == key && !self.is_descending;
        format!("?sort={word}&amp;order={}", if is_descending { "desc" } else { "asc" })
    }

    /// The query of the link to another part of the directory.
    pub fn part_link(self, part: usize) -> String {
        let (_, word, _) = SortKey::ALL.iter().find(|(key, ..)| *key == self.key).unwrap_or(&SortKey::ALL[0]);
        format!("?page={part}&amp;sort={word}&amp;order={}", if self.is_descending { "desc" } else { "asc" })
    }

    /// The arrow in a column's head.
    pub fn arrow(self, key: SortKey) -> &'static str {
        match (self.key == key, self.is_descending) {
            (false, _) => "",
            (true, false) => " ↑",
            (true, true) => " ↓",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_in_the_requested_order() {
        let line = |name: &str, is_dir, size: u64, seconds| ListingRow {
            name: name.into(),
            kind: if is_dir { Kind::Dir } else { Kind::File },
            size: (!is_dir).then_some(size),
            modified: Some(Timestamp { seconds, nanos: 0 }),
        };
        let lines =
            [line("b", false, 5, 30), line("z", true, 0, 10), line("a", false, 50, 20), line("c", false, 5, 10)];
        let sorted = |query: &str| {
            let target = web::target::parse(&format!("/d/{query}")).unwrap();
            let mut lines = lines.to_vec();
            SortOrder::of(&target).sort(&mut lines);
            lines.iter().map(|line| String::from_utf8_lossy(&line.name).into_owned()).collect::<String>()
        };
        assert_eq!(sorted(""), "zabc");
        assert_eq!(sorted("?sort=name&order=desc"), "zcba");
        assert_eq!(sorted("?sort=size"), "zbca");
        assert_eq!(sorted("?sort=size&order=desc"), "zabc");
        assert_eq!(sorted("?sort=time"), "zcab");
        assert_eq!(sorted("?sort=nonsense&order=up"), "zabc");
    }

    #[test]
    fn the_link_of_the_sorted_column_reverses_the_order() {
        let order = SortOrder { key: SortKey::Size, is_descending: false };
        assert_eq!(order.link(SortKey::Size, "size"), "?sort=size&amp;order=desc");
        assert_eq!(order.link(SortKey::Name, "name"), "?sort=name&amp;order=asc");
        assert_eq!((order.arrow(SortKey::Size), order.arrow(SortKey::Name)), (" ↑", ""));
    }
}
