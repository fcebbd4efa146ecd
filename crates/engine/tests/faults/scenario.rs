//! A job's files under faults: sources change between attempts, unfinished files and journals are damaged. Also the assertions about
//! the target.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use model::checksum::crc32c;
use rustix::fs::FallocateFlags;

use crate::rng::Rng;
use crate::support::fixture::NodeFixture;

/// By a file's path below the root: its length and checksum in every attempt so far.
type Versions = HashMap<PathBuf, Vec<(usize, u32)>>;

/// The files of a job, with the versions that each has had.
pub struct FaultScenario {
    pub fixture: NodeFixture,
    pub pull: bool,
    versions: Versions,
}

fn random_time(rng: &mut Rng) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(1_500_000_000_000_000_000 + rng.below(1 << 57))
}

/// Writes a file with a hole in it, and sets its time.
fn write(path: &Path, rng: &mut Rng, len: u64, sparse: bool, time: SystemTime) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::create(path).unwrap();
    file.set_len(len).unwrap();
    let (from, to) = if sparse {
        let from = rng.below(len.max(1));
        (from, from + rng.below(len - from + 1))
    } else {
        (len, len)
    };
    file.write_all_at(&rng.bytes(from), 0).unwrap();
    file.write_all_at(&rng.bytes(len - to), to).unwrap();
    file.set_modified(time).unwrap();
}

/// Changes a part of a file, or makes it a hole. The file keeps its length and time.
fn rewrite(path: &Path, rng: &mut Rng, len: u64, time: SystemTime) {
    let file = File::options().write(true).open(path).unwrap();
    let from = rng.below(len + 1);
    let part = rng.below(len - from + 1);
    if rng.chance(50) && part > 0 {
        rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, part).unwrap();
    } else {
        file.write_all_at(&rng.bytes(part), from).unwrap();
    }
    file.set_modified(time).unwrap();
}

impl FaultScenario {
    pub fn new(fixture: NodeFixture, pull: bool, rng: &mut Rng) -> FaultScenario {
        let scenario = FaultScenario { fixture, pull, versions: HashMap::new() };
        let root = scenario.source();
        for at in 0..1 + rng.below(3) {
            let len = (4 << 20) + rng.below(20 << 20);
            let sparse = rng.chance(40);
            let time = random_time(rng);
            write(&root.join(format!("large/{at}")), rng, len, sparse, time);
        }
        for at in 0..rng.below(60) {
            let len = rng.below(40_000);
            let time = random_time(rng);
            write(&root.join(format!("small/{}/{at}", at % 5)), rng, len, false, time);
        }
        fs::hard_link(root.join("large/0"), root.join("hard")).unwrap();
        std::os::unix::fs::symlink("large/0", root.join("link")).unwrap();
        scenario
    }

    pub fn source(&self) -> PathBuf {
        self.fixture.path(if self.pull { "far/tree" } else { "near/tree" })
    }

    pub fn target(&self) -> PathBuf {
        self.fixture.path(if self.pull { "near/tree" } else { "far/tree" })
    }

    /// The state directory of the end that receives.
    fn state(&self) -> PathBuf {
        self.fixture.path(if self.pull { "near-state" } else { "state" })
    }

    fn files(&self, root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut out = BTreeMap::new();
        if root.exists() {
            self.fixture.walk(root, &mut out, root);
        }
        out
    }

    /// Notes the source's files before an attempt: the target may hold these versions.
    pub fn remember_source(&mut self) {
        for (path, bytes) in self.files(&self.source()) {
            self.versions.entry(path).or_default().push((bytes.len(), crc32c(&bytes)));
        }
    }

    /// Every file with its final name at the target is a whole file of the source, as it was in some attempt.
    pub fn assert_whole(&self) {
        for (path, bytes) in self.files(&self.target()) {
            if path.to_string_lossy().contains(".longhaul-") {
                continue;
            }
            let known = self.versions.get(&path).unwrap_or_else(|| panic!("{} was never sent", path.display()));
            assert!(known.contains(&(bytes.len(), crc32c(&bytes))), "{} is a mixture", path.display());
        }
    }

    /// The target has the source's files, with their contents, times and links.
    pub fn assert_done(&self) {
        let source = self.source();
        let target = self.target();
        let target_files = self.files(&target);
        for (path, bytes) in &self.files(&source) {
            assert!(target_files.get(path) == Some(bytes), "{} differs in the end", path.display());
            let time = |root: &Path| fs::metadata(root.join(path)).map(|m| (m.mtime(), m.mtime_nsec())).unwrap();
            assert_eq!(time(&source), time(&target), "the time of {}", path.display());
        }
        let inode = |name: &str| fs::metadata(target.join(name)).unwrap().ino();
        assert_eq!(inode("large/0"), inode("hard"), "two names of one file");
        assert_eq!(fs::read_link(target.join("link")).unwrap(), Path::new("large/0"));
    }

    /// Unfinished files at the target, and journals.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        let mut left: Vec<PathBuf> = self.files(&self.target()).into_keys().collect();
        left.retain(|path| path.to_string_lossy().contains(".longhaul-"));
        left.extend(self.journals());
        left
    }

    fn journals(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state().join("journals")).into_iter().flatten().flatten();
        let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        all.sort();
        all
    }

    /// Damages journals and unfinished files, except those that an attempt still writes. Returns the number of faults.
    pub fn damage(&self, rng: &mut Rng) -> u64 {
        let mut faults = 0;
        for journal in self.journals() {
            let Ok(file) = File::options().read(true).write(true).open(&journal) else { continue };
            if file.try_lock().is_err() || !rng.chance(40) {
                continue;
            }
            let tag = journal.file_name().unwrap().to_string_lossy().into_owned();
            let unfinished = self.target().join("large").join(format!(".longhaul-{tag}.part"));
            faults += 1;
            match rng.below(6) {
                0 => flip_a_bit(&file, rng),
                1 => file.set_len(rng.below(file.metadata().unwrap().len() + 1)).unwrap(),
                2 => drop(fs::remove_file(&unfinished)),
                3 => drop(fs::remove_file(&journal)),
                4 => {
                    if let Ok(unfinished) = File::options().read(true).write(true).open(&unfinished) {
                        unfinished.set_len(rng.below(unfinished.metadata().unwrap().len() + 1)).unwrap();
                    }
                }
                _ => {
                    if let Ok(unfinished) = File::options().read(true).write(true).open(&unfinished) {
                        (0..1 + rng.below(3)).for_each(|_| flip_a_bit(&unfinished, rng));
                    }
                }
            }
        }
        faults
    }

    /// Rewrites some files of the source, most of them with their length and time kept. Returns their number.
    pub fn change(&self, rng: &mut Rng) -> u64 {
        let mut faults = 0;
        for path in self.files(&self.source()).into_keys() {
            if !rng.chance(8) || path.ends_with("hard") || path.ends_with("link") {
                continue;
            }
            let path = self.source().join(path);
            let meta = fs::metadata(&path).unwrap();
            faults += 1;
            if rng.chance(75) {
                rewrite(&path, rng, meta.len(), meta.modified().unwrap());
                continue;
            }
            let len = rng.below(3 << 20);
            let time = random_time(rng);
            let sparse = rng.chance(50);
            write(&path, rng, len, sparse, time);
        }
        faults
    }
}

fn flip_a_bit(file: &File, rng: &mut Rng) {
    let len = file.metadata().unwrap().len();
    if len > 0 {
        let at = rng.below(len);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        byte[0] ^= 1 << rng.below(8);
        file.write_all_at(&byte, at).unwrap();
    }
}
