//! Trees: one of everything that can be copied, and the comparison of a copy with its source.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};

/// Facts of an entry that must be equal at both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    Dir { mode: u32, mtime: (i64, i64) },
    File { mode: u32, mtime: (i64, i64), bytes: Vec<u8> },
    Link { mtime: (i64, i64), target: PathBuf },
    Other,
}

/// A tree's entries, and the groups of names that are one file.
#[derive(Debug, PartialEq, Eq)]
pub struct Facts {
    pub entries: BTreeMap<PathBuf, Fact>,
    pub groups: BTreeSet<BTreeSet<PathBuf>>,
}

/// Reads a tree. The root's own facts are those of the path `.`.
pub fn facts(root: &Path) -> Facts {
    let mut entries = BTreeMap::new();
    let mut inodes: HashMap<u64, BTreeSet<PathBuf>> = HashMap::new();
    let mut todo = vec![PathBuf::from(".")];
    while let Some(below) = todo.pop() {
        let path = root.join(&below);
        let meta = fs::symlink_metadata(&path).unwrap();
        let (mode, mtime) = (meta.mode() & 0o7777, (meta.mtime(), meta.mtime_nsec()));
        let fact = if meta.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| below.join(entry.unwrap().file_name())));
            Fact::Dir { mode, mtime }
        } else if meta.is_symlink() {
            Fact::Link { mtime, target: fs::read_link(&path).unwrap() }
        } else if meta.is_file() {
            if meta.nlink() > 1 {
                inodes.entry(meta.ino()).or_default().insert(below.clone());
            }
            Fact::File { mode, mtime, bytes: fs::read(&path).unwrap() }
        } else {
            Fact::Other
        };
        entries.insert(below, fact);
    }
    Facts { entries, groups: inodes.into_values().filter(|names| names.len() > 1).collect() }
}

/// Asserts that one tree is the copy of the other, except for special files.
#[track_caller]
pub fn assert_copied(source: &Path, target: &Path) {
    compare(facts(source), &facts(target));
}

/// The same, with the set-id bits of files dropped, as nodes do.
#[track_caller]
pub fn assert_copied_without_set_id(source: &Path, target: &Path) {
    let mut source = facts(source);
    for fact in source.entries.values_mut() {
        if let Fact::File { mode, .. } = fact {
            *mode &= 0o1777;
        }
    }
    compare(source, &facts(target));
}

#[track_caller]
fn compare(mut source: Facts, target: &Facts) {
    source.entries.retain(|_, fact| *fact != Fact::Other);
    for (path, fact) in &source.entries {
        let there = target.entries.get(path);
        assert!(there == Some(fact), "{}: {:.300} became {:.300}", path.display(), dbg(fact), dbg(&there));
    }
    let extra: Vec<_> = target.entries.keys().filter(|path| !source.entries.contains_key(*path)).collect();
    assert!(extra.is_empty(), "not in the source: {extra:?}");
    assert_eq!(source.groups, target.groups, "hard links");
}

fn dbg(fact: &impl std::fmt::Debug) -> String {
    format!("{fact:?}")
}

/// Sets modification times, of a link itself too.
pub fn set_time(path: &Path, seconds: i64, nanos: i64) {
    let at = Timespec { tv_sec: seconds, tv_nsec: nanos };
    let times = Timestamps { last_access: at, last_modification: at };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Sets permission bits.
pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Bytes that differ from place to place, so that a misplaced block is noticed. One stretch is computed, the rest repeats it:
/// tests are not optimised. Its pages are told apart by their numbers.
pub fn pattern(len: usize) -> Vec<u8> {
    const STRETCH: usize = 64 << 10;
    const PAGE: usize = 4096;
    let mut state = len as u64 | 1;
    let mut stretch = Vec::with_capacity(STRETCH + 8);
    while stretch.len() < STRETCH.min(len) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        stretch.extend_from_slice(&(state >> 8).to_be_bytes()[1..]);
    }
    stretch.truncate(STRETCH);
    let mut out = Vec::with_capacity(len + STRETCH);
    while out.len() < len {
        out.extend_from_slice(&stretch);
    }
    out.truncate(len);
    for (at, page) in out.chunks_mut(PAGE).enumerate() {
        let number = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        page.iter_mut().zip(number).for_each(|(byte, part)| *byte ^= part);
    }
    out
}

fn file(path: PathBuf, bytes: &[u8], mode: u32, seconds: i64, nanos: i64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    set_mode(&path, mode);
    set_time(&path, seconds, nanos);
}

/// One of everything: nested and empty directories, odd names, links, modes, times, sizes, holes.
pub fn build(root: &Path) {
    let root_user = rustix::process::geteuid().is_root();
    fs::create_dir_all(root.join("empty/deeper/still")).unwrap();
    for (n, size) in [0, 1, 4095, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 5 << 20].into_iter().enumerate() {
        file(root.join(format!("sizes/{size}")), &pattern(size), 0o640, 1_600_000_000 + n as i64, 123_456_789);
    }
    // The same base name with different bytes, which some copy programs lose.
    for dir in ["a", "b", "b/c"] {
        file(root.join(dir).join("same"), dir.as_bytes(), 0o644, 1_000, 1);
    }
    let every_byte: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
    for (n, name) in every_byte.chunks(100).enumerate() {
        file(root.join("names").join(OsStr::from_bytes(name)), name, 0o600, n as i64, 0);
    }
    let long = "n".repeat(255);
    for name in ["-r", "*", " ", "\n", "...", ".hidden", "%2e%2e", "a:b", "ünï", &long] {
        file(root.join("names").join(name), name.as_bytes(), 0o604, 77, 7);
    }
    for seconds in [-1, -86_400 * 365 * 60, 0, 1, 4_000_000_000] {
        file(root.join(format!("times/{seconds}")), b"t", 0o644, seconds, 999_999_999);
    }
    let modes: &[u32] = if root_user { &[0o000, 0o111, 0o444, 0o777, 0o4755, 0o2755, 0o1644] } else { &[0o444, 0o777] };
    for mode in modes {
        file(root.join(format!("modes/{mode:o}")), b"m", *mode, 5, 5);
    }
    links(root);
    holes(&root.join("holes"));
    fs::create_dir_all(root.join("closed/inner")).unwrap();
    file(root.join("closed/inner/file"), b"inside", 0o444, 9, 9);
    // Directories last: what is put into them changes their times.
    for (dir, mode) in [("closed/inner", 0o555), ("closed", 0o500), ("empty/deeper/still", 0o1777), ("names", 0o711)] {
        set_mode(&root.join(dir), mode);
    }
    for dir in ["closed/inner", "closed", "empty/deeper/still", "empty/deeper", "empty", "names", "links", "a", "b", ""]
    {
        set_time(&root.join(dir), 1_234_567_890 - dir.len() as i64, 42);
    }
}

fn links(root: &Path) {
    let links = root.join("links");
    fs::create_dir_all(&links).unwrap();
    for (name, to) in [("dangling", "nowhere"), ("absolute", "/etc/passwd"), ("up", "../../.."), ("file", "../a/same")]
    {
        symlink(to, links.join(name)).unwrap();
        set_time(&links.join(name), 1_111, 222);
    }
    symlink(OsStr::from_bytes(b"\xff\xfe"), links.join("bytes")).unwrap();
    symlink("x".repeat(4000), links.join("long")).unwrap();
    set_time(&links.join("bytes"), -5, 5);
    set_time(&links.join("long"), -5, 5);
    // One file of three names in two directories; one small, one of several blocks.
    for (name, size) in [("small", 10), ("large", 3 << 20)] {
        file(root.join("hard").join(name), &pattern(size), 0o644, 31, 31);
        fs::hard_link(root.join("hard").join(name), root.join("hard").join(format!("{name}-again"))).unwrap();
        fs::hard_link(root.join("hard").join(name), root.join("a").join(name)).unwrap();
    }
}

/// Data, a hole, data; a hole, data; data, a hole.
fn holes(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    for (name, size, data) in
        [("middle", 8 << 20, &[0, (8 << 20) - 4096][..]), ("start", 6 << 20, &[5 << 20]), ("end", 4 << 20, &[0])]
    {
        let path = dir.join(name);
        let file = fs::File::create(&path).unwrap();
        file.set_len(size).unwrap();
        data.iter().for_each(|at| file.write_all_at(&pattern(4096), *at).unwrap());
        drop(file);
        set_time(&path, 64, 64);
    }
}
