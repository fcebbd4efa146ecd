//! Files of one size, and mixes of sizes: 60 % of 1 MB and 40 % of 1 GB.
//!
//! What it does not know: which mix is typical of what.

use super::{DataFile, scaled};

/// Files of one directory: few enough for any file system to list quickly.
const FILES_PER_DIRECTORY: u64 = 1_000;

/// Sizes of files, and how often each occurs.
#[derive(Clone, Debug, PartialEq)]
pub struct FileMix {
    parts: Vec<MixPart>,
}

/// One size of a mix.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MixPart {
    /// The part of the files that have this size; all parts together are 1.
    share: f64,
    bytes: u64,
}

/// Why a mix is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MixError {
    /// It has no sizes.
    #[error("the mix has no sizes; give at least one share and size")]
    Empty,
    /// A share is not a positive number.
    #[error(
        "the share {share} of the files of {bytes} bytes is not a positive number; shares are relative: 3 and 1 are three quarters and one"
    )]
    Share {
        /// The share.
        share: f64,
        /// The size that it belongs to.
        bytes: u64,
    },
}

impl FileMix {
    /// A mix of (share of the files, bytes of each). Shares are relative to their sum.
    ///
    /// # Errors
    /// There are no shares, or one is not a positive number.
    pub fn new(shares: impl IntoIterator<Item = (f64, u64)>) -> Result<FileMix, MixError> {
        let mut parts = Vec::new();
        for (share, bytes) in shares {
            if !(share.is_finite() && share > 0.0) {
                return Err(MixError::Share { share, bytes });
            }
            parts.push(MixPart { share, bytes });
        }
        let sum: f64 = parts.iter().map(|part| part.share).sum();
        if parts.is_empty() {
            return Err(MixError::Empty);
        }
        parts.iter_mut().for_each(|part| part.share /= sum);
        Ok(FileMix { parts })
    }

    /// Files of these sizes in an order drawn by `seed`, with sizes times `scale`. How many have each size does not depend on the seed:
    /// it is the share of `count`, rounded so that the sum is right. So two runs move the same bytes.
    pub fn files(&self, count: u64, scale: f64, seed: u64) -> impl Iterator<Item = DataFile> + use<> {
        let mut left = self.counts(count);
        let sizes: Vec<u64> = self.parts.iter().map(|part| scaled(part.bytes, scale)).collect();
        let mut random = fastrand::Rng::with_seed(seed);
        (0..count).map(move |at| {
            // A draw without replacement.
            let mut draw = random.u64(0..count - at);
            let mut drawn = 0;
            while draw >= left[drawn] {
                draw -= left[drawn];
                drawn += 1;
            }
            left[drawn] -= 1;
            DataFile { path: numbered_path("mix", at), bytes: sizes[drawn] }
        })
    }

    /// The number of files of each size: whole parts of the shares, and one more for those with the largest remainders.
    fn counts(&self, count: u64) -> Vec<u64> {
        let exact: Vec<f64> = self.parts.iter().map(|part| part.share * count as f64).collect();
        let mut counts: Vec<u64> = exact.iter().map(|exact| *exact as u64).collect();
        let mut by_remainder: Vec<usize> = (0..counts.len()).collect();
        by_remainder.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
        let missing = count.saturating_sub(counts.iter().sum());
        by_remainder.iter().cycle().take(missing as usize).for_each(|part| counts[*part] += 1);
        counts
    }
}

/// A number of files of one size, with sizes times `scale`.
pub fn equal_files(count: u64, bytes: u64, scale: f64) -> impl Iterator<Item = DataFile> {
    (0..count).map(move |at| DataFile { path: numbered_path("equal", at), bytes: scaled(bytes, scale) })
}

/// The path of a file by its number: `ds08/0003/ds08-0003141.dat`.
pub(super) fn numbered_path(set: &str, at: u64) -> String {
    format!("{set}/{:04}/{set}-{at:07}.dat", at / FILES_PER_DIRECTORY)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn counts(files: impl Iterator<Item = DataFile>) -> BTreeMap<u64, usize> {
        let mut counts = BTreeMap::new();
        files.for_each(|file| *counts.entry(file.bytes).or_default() += 1);
        counts
    }

    #[test]
    fn a_mix_has_its_shares_whatever_the_seed() {
        let mix = FileMix::new([(0.6, 1_000_000), (0.3, 100_000_000), (0.1, 1_000_000_000)]).unwrap();
        for seed in 0..5 {
            let drawn = counts(mix.files(1_000, 1.0, seed));
            assert_eq!(drawn, BTreeMap::from([(1_000_000, 600), (100_000_000, 300), (1_000_000_000, 100)]));
        }
        let order = |seed| mix.files(100, 1.0, seed).map(|file| file.bytes).collect::<Vec<u64>>();
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
    }

    #[test]
    fn large_and_small_files_come_in_turns() {
        let mix = FileMix::new([(1.0, 1), (1.0, 2)]).unwrap();
        let first: usize = mix.files(1_000, 1.0, 3).take(500).filter(|file| file.bytes == 1).count();
        // A draw of 500 of 1,000 has a standard deviation of 7.9.
        assert!((200..300).contains(&first), "{first} of the first 500 are small");
    }

    #[test]
    fn a_mix_without_shares_or_with_odd_ones_is_refused() {
        assert_eq!(FileMix::new([]), Err(MixError::Empty));
        for share in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = FileMix::new([(1.0, 5), (share, 7)]).unwrap_err();
            assert!(matches!(error, MixError::Share { bytes: 7, .. }), "{error}");
        }
        // Shares are relative.
        assert_eq!(FileMix::new([(3.0, 5), (1.0, 7)]), FileMix::new([(0.75, 5), (0.25, 7)]));
    }

    #[test]
    fn files_of_one_size_have_names_in_directories_of_a_thousand() {
        let files: Vec<DataFile> = equal_files(2_500, 1_000, 0.5).collect();
        assert_eq!(files.len(), 2_500);
        assert!(files.iter().all(|file| file.bytes == 500));
        assert_eq!(files[2_499].path, "equal/0002/equal-0002499.dat");
        let mut directories: BTreeMap<&str, usize> = BTreeMap::new();
        files.iter().for_each(|file| *directories.entry(file.path.rsplit_once('/').unwrap().0).or_default() += 1);
        assert_eq!(directories.into_values().collect::<Vec<usize>>(), [1_000, 1_000, 500]);
    }

    proptest! {
        #[test]
        fn a_mix_has_as_many_files_as_were_asked_for(
            shares in prop::collection::vec((1e-3..1e3f64, 1u64..1_000_000), 1..6),
            count in 0u64..500,
            seed: u64,
        ) {
            let mix = FileMix::new(shares.iter().copied()).unwrap();
            let files: Vec<DataFile> = mix.files(count, 1.0, seed).collect();
            prop_assert_eq!(files.len() as u64, count);
            let paths: BTreeSet<&String> = files.iter().map(|file| &file.path).collect();
            prop_assert_eq!(paths.len(), files.len());
            // No size is further from its share than one file, sizes that occur twice counted together.
            let sum: f64 = shares.iter().map(|(share, _)| share).sum();
            let drawn = counts(files.into_iter());
            for bytes in shares.iter().map(|(_, bytes)| *bytes) {
                let same: Vec<f64> =
                    shares.iter().filter(|(_, other)| *other == bytes).map(|(share, _)| share / sum).collect();
                let wanted = same.iter().sum::<f64>() * count as f64;
                let found = drawn.get(&bytes).copied().unwrap_or_default() as f64;
                prop_assert!((found - wanted).abs() <= same.len() as f64 + 1e-6, "{found} of {bytes}, not {wanted}");
            }
        }
    }
}
