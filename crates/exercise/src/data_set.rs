//! Names and sizes of the files of an exercise: the data sets of ESnet and EPOC ([`DataSet`]), mixes of sizes ([`FileMix`]), and files of one
//! size ([`equal_files`]).
//!
//! A scale multiplies sizes; names and counts stay, so that a small host makes the same directories and the same number of files.
//!
//! What it does not know: the bytes of files. A node makes them from a seed and the path.

mod epoc;
mod esnet;
mod mix;

pub use mix::{FileMix, MixError, equal_files};

/// A file of an exercise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataFile {
    /// Its path below the directory of the exercise, with slashes.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// Files that others measure with as well, so that rates can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSet {
    name: &'static str,
    description: &'static str,
    layout: Layout,
    basis: Basis,
}

/// How the files of a set are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// ESnet's directories: a to y in each of a to y, and in each of those the same three files.
    Leaves(&'static [NamedSize; esnet::FILES_PER_LEAF as usize]),
    /// Files without a directory.
    Single(&'static [NamedSize]),
    /// Files of one size.
    Equal { count: u64, bytes: u64 },
}

/// The part of a file's name that says its size, and the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NamedSize {
    label: &'static str,
    bytes: u64,
}

/// Where counts and sizes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    /// The owner of the set has published them.
    Published,
    /// Only the total is known; the number of files is our choice.
    TotalOnly,
}

impl DataSet {
    /// All shipped sets: ESnet's five, and EPOC's eight.
    pub const ALL: [DataSet; 13] = [
        esnet::TINY,
        esnet::SMALL,
        esnet::MEDIUM,
        esnet::LARGE,
        esnet::SINGLE,
        epoc::DS01,
        epoc::DS04,
        epoc::DS06,
        epoc::DS08,
        epoc::DS10,
        epoc::DS12,
        epoc::DS14,
        epoc::DS16,
    ];

    /// The set of a name; none if there is no such set.
    pub fn of_name(name: &str) -> Option<DataSet> {
        DataSet::ALL.into_iter().find(|set| set.name == name)
    }

    /// Its name: `5GB-in-small-files`, `ds10`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its files in words.
    pub fn describe(&self) -> &'static str {
        self.description
    }

    /// Whether counts and sizes of its files are published. If not, only the total is that of the original, and rates for small files
    /// must not be compared with those of others.
    pub fn is_published(&self) -> bool {
        self.basis == Basis::Published
    }

    /// The number of its files.
    pub fn count(&self) -> u64 {
        match self.layout {
            Layout::Leaves(_) => esnet::LEAVES * esnet::FILES_PER_LEAF,
            Layout::Single(files) => files.len() as u64,
            Layout::Equal { count, .. } => count,
        }
    }

    /// Its files, with sizes times `scale`.
    pub fn files(&self, scale: f64) -> impl Iterator<Item = DataFile> + use<> {
        let set = *self;
        (0..set.count()).map(move |at| {
            let file = set.file(at);
            DataFile { bytes: scaled(file.bytes, scale), ..file }
        })
    }

    /// The sum of the sizes of [`DataSet::files`].
    pub fn bytes(&self, scale: f64) -> u64 {
        self.files(scale).map(|file| file.bytes).sum()
    }

    /// One of its files, by its number from 0.
    fn file(&self, at: u64) -> DataFile {
        match self.layout {
            Layout::Leaves(files) => esnet::leaf_file(self.name, files, at),
            Layout::Single(files) => {
                let NamedSize { label, bytes } = files[at as usize];
                DataFile { path: format!("{label}.dat"), bytes }
            }
            Layout::Equal { bytes, .. } => DataFile { path: mix::numbered_path(self.name, at), bytes },
        }
    }
}

/// A size times a scale, rounded, and at least one byte: also for a scale that is no positive number.
pub fn scaled(bytes: u64, scale: f64) -> u64 {
    ((bytes as f64 * scale).round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn set(name: &str) -> DataSet {
        DataSet::of_name(name).unwrap()
    }

    #[test]
    fn the_sets_of_esnet_have_the_published_counts_and_totals() {
        let published = [
            ("5MB-in-tiny-files", 1_875, 5_000_000),
            ("5GB-in-small-files", 1_875, 5_000_000_000),
            ("50GB-in-medium-files", 1_875, 50_000_000_000),
            ("500GB-in-large-files", 1_875, 500_000_000_000),
            ("single-files", 9, 661_161_000_000),
        ];
        for (name, count, bytes) in published {
            assert_eq!((set(name).count(), set(name).bytes(1.0)), (count, bytes), "{name}");
            assert_eq!(set(name).files(1.0).count() as u64, count, "{name}");
            assert!(set(name).is_published(), "{name}");
        }
    }

    #[test]
    fn files_of_esnet_are_named_by_their_path() {
        let small: Vec<DataFile> = set("5GB-in-small-files").files(1.0).collect();
        let file = |path: &str, bytes| DataFile { path: path.into(), bytes };
        assert_eq!(small[0], file("5GB-in-small-files/a/a/a-a-1MB.dat", 1_000_000));
        assert_eq!(small[5], file("5GB-in-small-files/a/b/a-b-5MB.dat", 5_000_000));
        assert_eq!(small[1_874], file("5GB-in-small-files/y/y/y-y-5MB.dat", 5_000_000));
        let tiny: BTreeSet<DataFile> = set("5MB-in-tiny-files").files(1.0).collect();
        // Two names that programs of others ask ESnet's nodes for.
        assert!(tiny.contains(&file("5MB-in-tiny-files/c/c/c-c-1KB.dat", 1_000)));
        let large: BTreeSet<DataFile> = set("500GB-in-large-files").files(1.0).collect();
        assert!(large.contains(&file("500GB-in-large-files/a/y/a-y-500MB.dat", 500_000_000)));
        let single: Vec<DataFile> = set("single-files").files(1.0).collect();
        assert_eq!((&single[0], &single[8]), (&file("1M.dat", 1_000_000), &file("500G.dat", 500_000_000_000)));
    }

    #[test]
    fn a_leaf_of_each_set_has_three_sizes_and_there_are_625_leaves() {
        let leaves = |set: DataSet| {
            let paths = set.files(1.0).map(|file| file.path.rsplit_once('/').unwrap().0.to_owned());
            paths.collect::<BTreeSet<String>>().len()
        };
        for name in ["5MB-in-tiny-files", "5GB-in-small-files", "50GB-in-medium-files", "500GB-in-large-files"] {
            assert_eq!(leaves(set(name)), 625, "{name}");
            let leaf: u64 = set(name).files(1.0).take(3).map(|file| file.bytes).sum();
            assert_eq!(625 * leaf, set(name).bytes(1.0), "{name}");
        }
        assert_eq!(set("5MB-in-tiny-files").files(1.0).take(3).map(|file| file.bytes).sum::<u64>(), 8_000);
    }

    #[test]
    fn the_sets_of_epoc_have_the_known_totals_and_say_that_their_counts_are_ours() {
        const GB: u64 = 1_000_000_000;
        let totals = [
            ("ds01", GB / 10),
            ("ds04", 10 * GB),
            ("ds06", 100 * GB),
            ("ds08", 1_000 * GB),
            ("ds10", 1_000 * GB),
            ("ds12", 100 * GB),
            ("ds14", 5_000 * GB),
            ("ds16", 1_000 * GB),
        ];
        for (name, bytes) in totals {
            assert_eq!(set(name).bytes(1.0), bytes, "{name}");
            assert!(!set(name).is_published(), "{name}");
            assert!(set(name).describe().contains("our choice"), "{name}");
        }
    }

    /// The log of these sets (see `epoc`) has a low rate for ds04, ds06 and ds12 in the direction that was slow with files, and the
    /// others near the rate of the disks. Sizes of files that were chosen must be able to explain that.
    #[test]
    fn sets_of_epoc_that_were_slow_have_the_smaller_files() {
        let size = |name: &str| set(name).bytes(1.0) / set(name).count();
        assert_eq!(size("ds04"), size("ds06"), "they ran at the same rate");
        let by_rate = ["ds01", "ds06", "ds12", "ds08", "ds10"].map(size);
        assert!(by_rate.is_sorted_by(|a, b| a < b), "{by_rate:?}");
    }

    #[test]
    fn names_are_unique_and_plain() {
        for set in DataSet::ALL {
            let paths: BTreeSet<String> = set.files(1.0).map(|file| file.path).collect();
            assert_eq!(paths.len() as u64, set.count(), "{}", set.name());
            let plain = |path: &String| {
                path.chars().all(|c| c.is_ascii_alphanumeric() || "-./".contains(c))
                    && !path.starts_with('/')
                    && !path.contains("..")
            };
            assert!(paths.iter().all(plain), "{}", set.name());
            assert_eq!(DataSet::of_name(set.name()), Some(set));
            assert!(!set.describe().is_empty());
        }
        let names: BTreeSet<&str> = DataSet::ALL.iter().map(DataSet::name).collect();
        assert_eq!(names.len(), DataSet::ALL.len());
        assert_eq!(DataSet::of_name("ds02"), None);
    }

    #[test]
    fn a_scale_changes_sizes_and_nothing_else() {
        for set in DataSet::ALL {
            let all: Vec<DataFile> = set.files(1.0).collect();
            let small: Vec<DataFile> = set.files(0.001).collect();
            assert_eq!(all.len(), small.len());
            for (whole, part) in all.iter().zip(&small) {
                assert_eq!((&whole.path, (whole.bytes / 1_000).max(1)), (&part.path, part.bytes));
            }
        }
        // A thousandth of the small set is the tiny set.
        assert_eq!(set("5GB-in-small-files").bytes(0.001), set("5MB-in-tiny-files").bytes(1.0));
        assert_eq!(set("5MB-in-tiny-files").bytes(1e-9), 1_875, "each file has at least one byte");
        for odd in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(set("single-files").bytes(odd), 9, "{odd}");
        }
    }
}
