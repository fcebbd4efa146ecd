//! The cells: sets of files, and paths by round-trip time and loss.
//!
//! Does not know: which tools move the files.

use std::fmt;

use anyhow::{Result, ensure};

/// Round trips, µs.
pub const RTTS_US: [u32; 5] = [0, 7_500, 56_000, 142_000, 303_000];
/// Segments lost on the wire, in millionths.
pub const LOSSES_PPM: [u32; 3] = [0, 46, 3_000];
/// The round-trip time that most targets are set for, µs.
pub const LONGEST_US: u32 = 303_000;
/// The number of processes in the comparison of one job with many processes.
pub const PROCESSES: u32 = 16;

const GB: u64 = 1_000_000_000;

/// A set of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Set {
    /// One file.
    Large,
    /// A thousand files of 1 MB.
    Medium,
    /// Twenty thousand files of 50 kB.
    Small,
    /// A large file and thousands of small ones.
    Mixed,
    /// One file with the bytes of the mixed set.
    Whole,
    /// One file for each process in the comparison with many processes.
    Split,
}

/// A file of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFile {
    /// The name below the set's directory; empty where the set is one file.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

impl Set {
    /// The four sets of the matrix.
    pub const MATRIX: [Set; 4] = [Set::Large, Set::Medium, Set::Small, Set::Mixed];

    /// Its short name.
    pub fn name(self) -> &'static str {
        match self {
            Set::Large => "large",
            Set::Medium => "medium",
            Set::Small => "small",
            Set::Mixed => "mixed",
            Set::Whole => "whole",
            Set::Split => "split",
        }
    }

    /// The title for the report; it describes the full-size set.
    pub fn title(self) -> &'static str {
        match self {
            Set::Large => "one file of 1 GB",
            Set::Medium => "1,000 files of 1 MB",
            Set::Small => "20,000 files of 50 kB",
            Set::Mixed => "one file of 500 MB and 5,000 of 80 to 250 kB",
            Set::Whole => "one file with the bytes of the mixed set",
            Set::Split => "16 files of 62.5 MB",
        }
    }

    /// Whether it is a directory.
    pub fn is_tree(self) -> bool {
        !matches!(self, Set::Large | Set::Whole)
    }

    /// Its files; `divide` is the divisor of its size.
    pub fn files(self, divide: u64) -> Vec<SetFile> {
        let one = |bytes: u64| vec![SetFile { name: String::new(), bytes }];
        let many = |files: u64, bytes: u64| {
            (0..files).map(|at| SetFile { name: format!("{:02}/{at:05}.dat", at / 1_000), bytes }).collect()
        };
        match self {
            Set::Large => one(GB / divide),
            Set::Medium => many(1_000 / divide, 1_000_000),
            Set::Small => many(20_000 / divide, 50_000),
            Set::Split => many(PROCESSES.into(), GB / u64::from(PROCESSES) / divide),
            Set::Whole => one(Set::Mixed.bytes(divide)),
            Set::Mixed => {
                let mut files: Vec<SetFile> = many(5_000 / divide, 0);
                for (at, file) in (0u64..).zip(&mut files) {
                    // A step that shares no divisor with the range: sizes spread evenly over it.
                    file.bytes = 80_000 + at * 104_729 % 170_001;
                }
                files.push(SetFile { name: "large.dat".into(), bytes: GB / 2 / divide });
                files
            }
        }
    }

    /// The bytes of all its files.
    pub fn bytes(self, divide: u64) -> u64 {
        self.files(divide).iter().map(|file| file.bytes).sum()
    }
}

/// A set over a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The set.
    pub set: Set,
    /// Segments lost, in millionths.
    pub loss_ppm: u32,
    /// Round trip, µs.
    pub rtt_us: u32,
}

impl Cell {
    /// Makes a cell.
    pub fn new(set: Set, rtt_us: u32, loss_ppm: u32) -> Cell {
        Cell { set, loss_ppm, rtt_us }
    }

    /// Round trip, s.
    pub fn rtt_s(self) -> f64 {
        f64::from(self.rtt_us) / 1e6
    }

    /// Round-trip time in ms, as text.
    pub fn rtt_ms(self) -> String {
        (f64::from(self.rtt_us) / 1e3).to_string()
    }

    /// Loss in %, as text.
    pub fn loss_percent(self) -> String {
        (f64::from(self.loss_ppm) / 1e4).to_string()
    }

    /// Whether it has the longest round trip.
    pub fn is_longest(self) -> bool {
        self.rtt_us == LONGEST_US
    }
}

impl fmt::Display for Cell {
    /// Writes the cell as `--cells` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.set.name(), self.rtt_ms(), self.loss_percent())
    }
}

/// Every cell: the matrix, and further cells that a comparison needs.
pub fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    for set in Set::MATRIX {
        for loss_ppm in LOSSES_PPM {
            cells.extend(RTTS_US.map(|rtt_us| Cell::new(set, rtt_us, loss_ppm)));
        }
    }
    cells.push(Cell::new(Set::Whole, LONGEST_US, 0));
    cells.extend([0, 46].map(|loss_ppm| Cell::new(Set::Split, LONGEST_US, loss_ppm)));
    cells
}

/// The cells that match a pattern like `large/303/*`.
///
/// # Errors
/// The pattern has more than three parts, or matches no cell.
pub fn matching(pattern: &str) -> Result<Vec<Cell>> {
    let words: Vec<&str> = pattern.split('/').collect();
    ensure!(words.len() <= 3, "{pattern}: cells are SET/RTT/LOSS, like large/303/0.0046 or small/*/0");
    let matches = |cell: &Cell| {
        let name = cell.to_string();
        name.split('/').zip(&words).all(|(part, word)| *word == "*" || *word == part)
    };
    let cells: Vec<Cell> = all().into_iter().filter(matches).collect();
    ensure!(
        !cells.is_empty(),
        "no cell matches {pattern}: SET is large, medium, small, mixed, whole or split; RTT 0, 7.5, 56, 142 or 303 (ms); \
         LOSS 0, 0.0046 or 0.3 (%); * stands for any; whole and split exist only at 303 ms"
    );
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_bytes_and_files_of_its_title() {
        assert_eq!(Set::Large.bytes(1), GB);
        assert_eq!((Set::Medium.bytes(1), Set::Medium.files(1).len()), (GB, 1_000));
        assert_eq!((Set::Small.bytes(1), Set::Small.files(1).len()), (GB, 20_000));
        assert_eq!((Set::Split.bytes(1), Set::Split.files(1).len()), (GB, 16));
        let mixed = Set::Mixed.files(1);
        assert_eq!(mixed.len(), 5_001);
        assert!(mixed[..5_000].iter().all(|file| (80_000..=250_000).contains(&file.bytes)));
        let mean = mixed[..5_000].iter().map(|file| file.bytes).sum::<u64>() / 5_000;
        assert!((160_000..170_000).contains(&mean), "{mean}");
        assert_eq!(Set::Whole.bytes(1), Set::Mixed.bytes(1));
        assert_eq!((Set::Small.bytes(10), Set::Large.bytes(10)), (GB / 10, GB / 10));
    }

    #[test]
    fn a_cell_is_found_by_its_name_or_a_pattern() {
        assert_eq!(all().len(), 4 * 5 * 3 + 3);
        assert_eq!(Cell::new(Set::Large, 7_500, 46).to_string(), "large/7.5/0.0046");
        assert_eq!(matching("large/303/*").unwrap().len(), 3);
        assert_eq!(matching("small").unwrap().len(), 15);
        assert_eq!(matching("*/0/0.3").unwrap().len(), 4);
        assert_eq!(matching("split/303/0.0046").unwrap(), [Cell::new(Set::Split, 303_000, 46)]);
        assert!(matching("large/100/0").is_err());
        assert!(matching("large/303/0/1").is_err());
    }
}
