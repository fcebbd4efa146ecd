//! Compares the files of an endpoint with its replicas in the catalogue: missing files, files of another size, unknown files.
//!
//! A listing takes time, and meanwhile files come and go: a copy that was made since the listing began is not missed, and a file younger than a day is not taken
//! for an unknown one. A copy that is found missing is still to be verified, by asking the endpoint for it.

use std::collections::HashMap;

/// How old a file has to be, at the beginning of the listing, to be taken for one that nobody knows of: an upload is entered once it is whole.
pub const YOUNG_MS: i64 = 24 * 3_600_000;

/// A file that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its size, where it was told.
    pub bytes: Option<u64>,
    /// When its content changed last, milliseconds since 1970, where it was told.
    pub changed: Option<i64>,
}

/// A copy that the catalogue knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownCopy<'a> {
    /// Its path below the directory of the endpoint.
    pub path: &'a str,
    /// Its size.
    pub bytes: u64,
    /// Whether it should exist; other copies are wanted, being made, bad or being deleted.
    pub is_available: bool,
    /// When it was made, milliseconds since 1970.
    pub created: i64,
}

/// A difference between the catalogue and the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Difference {
    /// The catalogue has the file, and the endpoint does not.
    Missing,
    /// It has another size.
    Size,
    /// The endpoint has the file, and the catalogue does not know it.
    Dark,
}

impl Difference {
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Difference::Missing => "missing",
            Difference::Size => "size",
            Difference::Dark => "dark",
        }
    }
}

/// A listing that is compared.
#[derive(Clone, Debug)]
pub struct Audit {
    /// By path below the directory of the endpoint.
    listed: HashMap<String, Listed>,
    /// Paths that begin with this were listed.
    below: String,
    /// When the listing began, milliseconds since 1970.
    begun: i64,
}

impl Audit {
    /// Of a listing of all that is below a directory of the endpoint; empty for all of it.
    pub fn new(mut listed: HashMap<String, Listed>, below: &str, begun: i64) -> Audit {
        let below = below.trim_matches('/');
        let below = if below.is_empty() { String::new() } else { format!("{below}/") };
        // A listing of more than was asked for says nothing of the rest: copies there are not compared.
        listed.retain(|path, _| path.starts_with(&below));
        Audit { listed, below, begun }
    }

    /// Compares a copy of the catalogue with the listing, each copy once; returns the difference.
    pub fn compare(&mut self, copy: KnownCopy<'_>) -> Option<Difference> {
        if !copy.path.starts_with(&self.below) {
            return None;
        }
        match self.listed.remove(copy.path) {
            None => (copy.is_available && copy.created < self.begun).then_some(Difference::Missing),
            Some(Listed { bytes: Some(bytes), .. }) if bytes != copy.bytes => {
                copy.is_available.then_some(Difference::Size)
            }
            Some(_) => None,
        }
    }

    /// The unknown files, by path: those that are left when all copies have been compared.
    pub fn dark(self) -> Vec<(String, Listed)> {
        let oldest = self.begun - YOUNG_MS;
        let is_old = |listed: &Listed| listed.changed.is_none_or(|changed| changed < oldest);
        let mut dark: Vec<_> = self.listed.into_iter().filter(|(_, listed)| is_old(listed)).collect();
        dark.sort();
        dark
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_000_000_000_000;

    fn listing(paths: &[(&str, u64)]) -> HashMap<String, Listed> {
        let old = |bytes: u64| Listed { bytes: Some(bytes), changed: Some(0) };
        paths.iter().map(|(path, bytes)| ((*path).to_owned(), old(*bytes))).collect()
    }

    fn known(path: &str) -> KnownCopy<'_> {
        KnownCopy { path, bytes: 1, is_available: true, created: 0 }
    }

    #[test]
    fn what_is_missing_dark_or_of_another_size_is_told_apart() {
        let mut audit = Audit::new(listing(&[("s/a", 1), ("s/b", 2), ("s/forgotten", 9)]), "", NOW);
        assert_eq!(audit.compare(known("s/a")), None);
        assert_eq!(audit.compare(known("s/b")), Some(Difference::Size));
        assert_eq!(audit.compare(known("s/c")), Some(Difference::Missing));
        let dark: Vec<String> = audit.dark().into_iter().map(|(path, _)| path).collect();
        assert_eq!(dark, ["s/forgotten"]);
    }

    #[test]
    fn what_changes_while_it_is_listed_is_left_alone() {
        let mut listed = listing(&[("s/coming", 7)]);
        listed.insert("s/young".into(), Listed { bytes: None, changed: Some(NOW - 1) });
        let mut audit = Audit::new(listed, "", NOW);
        assert_eq!(audit.compare(KnownCopy { created: NOW, ..known("s/made since") }), None);
        assert_eq!(audit.compare(KnownCopy { is_available: false, ..known("s/coming") }), None);
        assert_eq!(audit.compare(KnownCopy { is_available: false, ..known("s/wanted") }), None);
        assert!(audit.dark().is_empty());
    }

    #[test]
    fn a_part_of_an_endpoint_says_nothing_of_the_rest() {
        let mut audit = Audit::new(listing(&[("s/a", 1), ("t/b", 1)]), "/s/", NOW);
        assert_eq!(audit.compare(known("t/a")), None);
        assert_eq!(audit.compare(known("sa")), None);
        assert_eq!(audit.compare(known("s/b")), Some(Difference::Missing));
        assert_eq!(audit.dark().len(), 1);
    }

    proptest! {
        /// Of what is old and known by its size, each path is told of once: as missing, as dark, or not at all where it is on both sides.
        #[test]
        fn every_path_is_told_of_once(here in proptest::collection::btree_set("[a-e]", 0..5), there in proptest::collection::btree_set("[a-e]", 0..5)) {
            let listed = there.iter().map(|path| (path.clone(), Listed { bytes: Some(1), changed: Some(0) })).collect();
            let mut audit = Audit::new(listed, "", NOW);
            let missing: BTreeSet<&String> = here.iter().filter(|path| audit.compare(known(path)).is_some()).collect();
            let dark: BTreeSet<String> = audit.dark().into_iter().map(|(path, _)| path).collect();
            prop_assert_eq!(missing, here.difference(&there).collect::<BTreeSet<_>>());
            prop_assert_eq!(dark, there.difference(&here).cloned().collect::<BTreeSet<_>>());
        }
    }
}
