//! In which order a page shows entries: asked for by links, since nothing runs on it.

use model::{Kind, Timestamp};
use web::target::{Target, pairs};

/// A line of a page.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub name: Vec<u8>,
    pub kind: Kind,
    pub size: Option<u64>,
    pub modified: Option<Timestamp>,
}

impl Line {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Dir
    }
}

/// By what entries are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Key {
    #[default]
    Name,
    Size,
    Time,
}

impl Key {
    /// All of them, with their words in addresses and on the page.
    pub const ALL: [(Key, &'static str, &'static str); 3] =
        [(Key::Name, "name", "Name"), (Key::Size, "size", "Size"), (Key::Time, "time", "Changed")];
}

/// The order of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    pub key: Key,
    pub is_downwards: bool,
}

impl Order {
    /// What an address asks for.
    pub fn of(target: &Target) -> Order {
        let query = target.query.as_deref().unwrap_or_default();
        let value = |wanted: &str| pairs(query).find(|(name, _)| name == wanted).map(|(_, value)| value);
        let sort = value("sort").unwrap_or_default();
        let key = Key::ALL.iter().find(|(_, word, _)| *word == sort).map(|(key, ..)| *key).unwrap_or_default();
        Order { key, is_downwards: value("order").as_deref() == Some("desc") }
    }

    /// Sorts lines: directories first, and by name where nothing else decides.
    pub fn sort(self, lines: &mut [Line]) {
        lines.sort_by(|a, b| {
            let by_key = match self.key {
                Key::Name => a.name.cmp(&b.name),
                Key::Size => a.size.cmp(&b.size),
                Key::Time => a.modified.cmp(&b.modified),
            };
            let by_key = if self.is_downwards { by_key.reverse() } else { by_key };
            b.is_dir().cmp(&a.is_dir()).then(by_key).then_with(|| a.name.cmp(&b.name))
        });
    }

    /// The query of the link in a column's head: the other way round where the page is sorted by it.
    pub fn link(self, key: Key, word: &str) -> String {
        let downwards = self.key == key && !self.is_downwards;
        format!("?sort={word}&amp;order={}", if downwards { "desc" } else { "asc" })
    }

    /// The query of the link to another part of the directory.
    pub fn part_link(self, part: usize) -> String {
        let (_, word, _) = Key::ALL.iter().find(|(key, ..)| *key == self.key).unwrap_or(&Key::ALL[0]);
        format!("?page={part}&amp;sort={word}&amp;order={}", if self.is_downwards { "desc" } else { "asc" })
    }

    /// The arrow in a column's head.
    pub fn arrow(self, key: Key) -> &'static str {
        match (self.key == key, self.is_downwards) {
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
    fn any_order_can_be_asked_for() {
        let line = |name: &str, is_dir, size: u64, seconds| Line {
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
            Order::of(&target).sort(&mut lines);
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
    fn a_column_that_sorts_is_turned_round() {
        let order = Order { key: Key::Size, is_downwards: false };
        assert_eq!(order.link(Key::Size, "size"), "?sort=size&amp;order=desc");
        assert_eq!(order.link(Key::Name, "name"), "?sort=name&amp;order=asc");
        assert_eq!((order.arrow(Key::Size), order.arrow(Key::Name)), (" ↑", ""));
    }
}
