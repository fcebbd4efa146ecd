//! ESnet's data sets, as its data transfer nodes offer them (fasterdata.es.net, "Running tests to ESnet Data Transfer Nodes"): directories
//! a to y in each of a to y, with three files in each of the 625 leaves; and nine single files.
//!
//! Sizes are decimal. The page writes the name of a leaf's file once as `a-a-1M.dat`; listings have `a-a-1KB.dat` (the tests of kbase/dts)
//! and `a-y-500MB.dat` (the manual of s3up), so the files here end in KB and MB. The single files are `1M.dat` to `500G.dat` in both.

use super::{Basis, DataFile, DataSet, Layout, NamedSize};

/// The directories of each level: a to y.
const DIRECTORIES: u64 = 25;
/// The directories that hold files.
pub(super) const LEAVES: u64 = DIRECTORIES * DIRECTORIES;
/// The files of each of them.
pub(super) const FILES_PER_LEAF: u64 = 3;

const KB: u64 = 1_000;
const MB: u64 = 1_000 * KB;
const GB: u64 = 1_000 * MB;

pub(super) const TINY: DataSet = DataSet {
    name: "5MB-in-tiny-files",
    description: "1,875 files of 1, 2 and 5 kB in 625 directories: 5 MB (ESnet); it measures names, not bytes",
    layout: Layout::Leaves(&[size("1KB", KB), size("2KB", 2 * KB), size("5KB", 5 * KB)]),
    basis: Basis::Published,
};

pub(super) const SMALL: DataSet = DataSet {
    name: "5GB-in-small-files",
    description: "1,875 files of 1, 2 and 5 MB in 625 directories: 5 GB (ESnet)",
    layout: Layout::Leaves(&[size("1MB", MB), size("2MB", 2 * MB), size("5MB", 5 * MB)]),
    basis: Basis::Published,
};

pub(super) const MEDIUM: DataSet = DataSet {
    name: "50GB-in-medium-files",
    description: "1,875 files of 10, 20 and 50 MB in 625 directories: 50 GB (ESnet)",
    layout: Layout::Leaves(&[size("10MB", 10 * MB), size("20MB", 20 * MB), size("50MB", 50 * MB)]),
    basis: Basis::Published,
};

pub(super) const LARGE: DataSet = DataSet {
    name: "500GB-in-large-files",
    description: "1,875 files of 100, 200 and 500 MB in 625 directories: 500 GB (ESnet)",
    layout: Layout::Leaves(&[size("100MB", 100 * MB), size("200MB", 200 * MB), size("500MB", 500 * MB)]),
    basis: Basis::Published,
};

pub(super) const SINGLE: DataSet = DataSet {
    name: "single-files",
    description: "nine files of 1 MB to 500 GB: 661 GB (ESnet)",
    layout: Layout::Single(&[
        size("1M", MB),
        size("10M", 10 * MB),
        size("50M", 50 * MB),
        size("100M", 100 * MB),
        size("1G", GB),
        size("10G", 10 * GB),
        size("50G", 50 * GB),
        size("100G", 100 * GB),
        size("500G", 500 * GB),
    ]),
    basis: Basis::Published,
};

const fn size(label: &'static str, bytes: u64) -> NamedSize {
    NamedSize { label, bytes }
}

/// A file of a leaf, by its number in the set: leaf after leaf, three of each.
pub(super) fn leaf_file(set: &str, files: &[NamedSize; FILES_PER_LEAF as usize], at: u64) -> DataFile {
    let leaf = at / FILES_PER_LEAF;
    let NamedSize { label, bytes } = files[(at % FILES_PER_LEAF) as usize];
    let outer = letter(leaf / DIRECTORIES);
    let inner = letter(leaf % DIRECTORIES);
    DataFile { path: format!("{set}/{outer}/{inner}/{outer}-{inner}-{label}.dat"), bytes }
}

/// The name of a directory by its number: `a` for 0.
fn letter(number: u64) -> char {
    char::from(b'a' + (number % DIRECTORIES) as u8)
}
