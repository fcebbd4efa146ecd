//! The entries of a directory, and the number of unfinished files that are left out.
//!
//! The files of an interrupted copy are not data yet: listings do not show them, and copies leave them out.

use model::name::Name;

use crate::posix::is_temporary_name;
use crate::{Result, Stat};

/// A directory's entries, in no order. An entry that cannot be examined comes with its error.
pub struct Entries {
    entries: Box<dyn Iterator<Item = Result<(Name, Result<Stat>)>> + Send>,
    is_hidden: fn(&[u8]) -> bool,
    left_out: u64,
}

/// Whether a name is that of an unfinished file, in a directory of a store or on a remote server.
pub fn is_unfinished_name(name: &[u8]) -> bool {
    is_temporary_name(name) || name.starts_with(b".longhaul-") && name.ends_with(b".upload")
}

impl Entries {
    /// All of these entries.
    pub fn new(entries: impl Iterator<Item = Result<(Name, Result<Stat>)>> + Send + 'static) -> Entries {
        Entries { entries: Box::new(entries), is_hidden: |_| false, left_out: 0 }
    }

    /// The same without unfinished files of any kind.
    #[must_use]
    pub fn finished(self) -> Entries {
        self.hiding(is_unfinished_name)
    }

    /// The same without entries of such names, which are counted.
    #[must_use]
    pub fn hiding(self, is_hidden: fn(&[u8]) -> bool) -> Entries {
        Entries { is_hidden, ..self }
    }

    /// The same, where the store itself has already left out this number of unfinished files.
    #[must_use]
    pub fn without(self, left_out: u64) -> Entries {
        Entries { left_out, ..self }
    }

    /// The same, with a call of `look` for every entry that can be examined.
    #[must_use]
    pub fn inspected(self, mut look: impl FnMut(&Name, &Stat) + Send + 'static) -> Entries {
        let entries = self.entries.inspect(move |entry| {
            if let Ok((name, Ok(stat))) = entry {
                look(name, stat);
            }
        });
        Entries { entries: Box::new(entries), ..self }
    }

    /// The same, with the facts of each entry replaced by `change`.
    #[must_use]
    pub fn changed(self, mut change: impl FnMut(&Name, Result<Stat>) -> Result<Stat> + Send + 'static) -> Entries {
        let entries = self.entries.map(move |entry| {
            entry.map(|(name, stat)| {
                let stat = change(&name, stat);
                (name, stat)
            })
        });
        Entries { entries: Box::new(entries), ..self }
    }

    /// Unfinished files left out so far.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl Iterator for Entries {
    type Item = Result<(Name, Result<Stat>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.entries.next()? {
                Ok((name, _)) if (self.is_hidden)(name.as_bytes()) => self.left_out += 1,
                entry => return Some(entry),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn entries(names: &'static [&'static str]) -> Entries {
        let entry = |name: &&str| {
            let name = Name::new(name.as_bytes()).unwrap();
            Ok((name, Err(Error::Escapes(String::new()))))
        };
        Entries::new(names.iter().map(entry))
    }

    #[test]
    fn unfinished_files_are_counted_and_not_listed() {
        let names = &[".longhaul-a.part", "f", ".longhaul-1f-a.upload", ".longhaul-x", "a.part"];
        let mut finished = entries(names).without(3).finished();
        let shown: Vec<String> = finished.by_ref().map(|entry| entry.unwrap().0.to_string()).collect();
        assert_eq!((shown, finished.left_out()), (vec!["f".into(), ".longhaul-x".into(), "a.part".into()], 5));
        let mut all = entries(names);
        assert_eq!((all.by_ref().count(), all.left_out()), (5, 0));
    }
}
