//! Compares the files of an endpoint with its replicas in the catalogue: missing files, files of another size, unknown files.
//!
//! Files come and go while the listing is made. So a copy that was made after the listing began does not count as missing, and a file
//! younger than a day does not count as unknown. The caller verifies a missing copy by asking the endpoint for it.

use std::collections::HashMap;

/// The least age of an unknown file that is reported, milliseconds before the listing began. A younger file may be an upload, which is
/// entered into the catalogue only when it is whole.
pub const YOUNG_MS: i64 = 24 * 3_600_000;

/// A file of a listing of the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedFile {
    /// Its size, if the endpoint reports it.
    pub bytes: Option<u64>,
    /// When its content last changed, milliseconds since 1970, if the endpoint reports it.
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
    listed: HashMap<String, ListedFile>,
    /// Paths that begin with this were listed.
    below: String,
    /// When the listing began, milliseconds since 1970.
    begun: i64,
}

impl Audit {
    /// Takes a listing of everything below a directory of the endpoint; an empty directory means the whole endpoint.
    pub fn new(mut listed: HashMap<String, ListedFile>, below: &str, begun: i64) -> Audit {
        let below = below.trim_matches('/');
        let below = if below.is_empty() { String::new() } else { format!("{below}/") };
        // The listing may hold files outside of the directory; these are not compared.
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
            Some(ListedFile { bytes: Some(bytes), .. }) if bytes != copy.bytes => {
                copy.is_available.then_some(Difference::Size)
            }
            Some(_) => None,
        }
    }

    /// The unknown files, by path: those that are left when all copies have been compared.
    pub fn dark(self) -> Vec<(String, ListedFile)> {
        let oldest = self.begun - YOUNG_MS;
        let is_old = |listed: &ListedFile| listed.changed.is_none_or(|changed| changed < oldest);
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

    fn listing(paths: &[(&str, u64)]) -> HashMap<String, ListedFile> {
        let old = |bytes: u64| ListedFile { bytes: Some(bytes), changed: Some(0) };
        paths.iter().map(|(path, bytes)| ((*path).to_owned(), old(*bytes))).collect()
    }

    fn known(path: &str) -> KnownCopy<'_> {
        KnownCopy { path, bytes: 1, is_available: true, created: 0 }
    }

    #[test]
    fn an_audit_distinguishes_missing_files_unknown_files_and_other_sizes() {
        let mut audit = Audit::new(listing(&[("s/a", 1), ("s/b", 2), ("s/forgotten", 9)]), "", NOW);
        assert_eq!(audit.compare(known("s/a")), None);
        assert_eq!(audit.compare(known("s/b")), Some(Difference::Size));
        assert_eq!(audit.compare(known("s/c")), Some(Difference::Missing));
        let dark: Vec<String> = audit.dark().into_iter().map(|(path, _)| path).collect();
        assert_eq!(dark, ["s/forgotten"]);
    }

    #[test]
    fn a_file_that_changes_during_the_listing_is_not_reported() {
        let mut listed = listing(&[("s/coming", 7)]);
        listed.insert("s/young".into(), ListedFile { bytes: None, changed: Some(NOW - 1) });
        let mut audit = Audit::new(listed, "", NOW);
        assert_eq!(audit.compare(KnownCopy { created: NOW, ..known("s/made since") }), None);
        assert_eq!(audit.compare(KnownCopy { is_available: false, ..known("s/coming") }), None);
        assert_eq!(audit.compare(KnownCopy { is_available: false, ..known("s/wanted") }), None);
        assert!(audit.dark().is_empty());
    }

    #[test]
    fn an_audit_of_a_directory_compares_nothing_outside_of_it() {
        let mut audit = Audit::new(listing(&[("s/a", 1), ("t/b", 1)]), "/s/", NOW);
        assert_eq!(audit.compare(known("t/a")), None);
        assert_eq!(audit.compare(known("sa")), None);
        assert_eq!(audit.compare(known("s/b")), Some(Difference::Missing));
        assert_eq!(audit.dark().len(), 1);
    }

    proptest! {
        /// A path on one side is reported once, as missing or as dark; a path on both sides is not reported.
        #[test]
        fn every_path_is_reported_once(here in proptest::collection::btree_set("[a-e]", 0..5), there in proptest::collection::btree_set("[a-e]", 0..5)) {
            let listed = there.iter().map(|path| (path.clone(), ListedFile { bytes: Some(1), changed: Some(0) })).collect();
            let mut audit = Audit::new(listed, "", NOW);
            let missing: BTreeSet<&String> = here.iter().filter(|path| audit.compare(known(path)).is_some()).collect();
            let dark: BTreeSet<String> = audit.dark().into_iter().map(|(path, _)| path).collect();
            prop_assert_eq!(missing, here.difference(&there).collect::<BTreeSet<_>>());
            prop_assert_eq!(dark, there.difference(&here).cloned().collect::<BTreeSet<_>>());
        }
    }
}
