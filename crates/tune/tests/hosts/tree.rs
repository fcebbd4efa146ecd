//! Recorded hosts as trees of files, each from one text file in `tests/hosts` that was written by hand; and a kernel over such a tree that
//! accepts and keeps values as Linux does.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tune::host::{Host, HostError, HostResult, Recorded};

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    File(Vec<u8>),
    Link(String),
}

/// A host, unpacked.
pub struct Tree {
    dir: TempDir,
}

impl Tree {
    /// Unpacks a host of `tests/hosts`.
    pub fn unpack(name: &str) -> Tree {
        let dir = tempfile::tempdir().unwrap();
        for (path, item) in items(name) {
            let at = dir.path().join(path);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            match item {
                Item::File(bytes) => fs::write(at, bytes).unwrap(),
                Item::Link(target) => std::os::unix::fs::symlink(target, at).unwrap(),
            }
        }
        Tree { dir }
    }

    /// The directory of the tree.
    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// The host over the tree.
    pub fn host(&self) -> Kernel {
        Kernel { root: self.root().to_owned(), files: Recorded::new(self.root()), refused: RefCell::default() }
    }

    /// Every file and link of the tree, for comparison.
    pub fn all(&self) -> BTreeMap<String, Item> {
        let mut found = BTreeMap::new();
        walk(self.root(), self.root(), &mut found);
        found
    }
}

fn walk(root: &Path, at: &Path, found: &mut BTreeMap<String, Item>) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if kind.is_symlink() {
            found.insert(name, Item::Link(fs::read_link(&path).unwrap().to_str().unwrap().to_owned()));
        } else if kind.is_dir() {
            walk(root, &path, found);
        } else {
            found.insert(name, Item::File(fs::read(&path).unwrap()));
        }
    }
}

/// Applies a file of `tests/hosts`, on top of its base.
fn items(name: &str) -> BTreeMap<String, Item> {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts").join(name).with_extension("host");
    let text = fs::read_to_string(&at).unwrap_or_else(|error| panic!("{}: {error}", at.display()));
    let mut items = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(base) = line.strip_prefix("base: ") {
            items = self::items(base);
        }
        let Some(head) = line.strip_prefix("== ") else { continue };
        if let Some((path, target)) = head.split_once(" -> ") {
            items.insert(path.to_owned(), Item::Link(target.to_owned()));
            continue;
        }
        let (path, value) = head.split_once(" ==").unwrap_or_else(|| panic!("{name}: {line:?} has no second =="));
        let mut content: Vec<&str> = Some(value.trim()).filter(|value| !value.is_empty()).into_iter().collect();
        if content.is_empty() {
            while let Some(line) = lines.next_if(|line| !line.is_empty() && !line.starts_with("== ")) {
                content.push(line);
            }
        }
        for path in expand(path) {
            match content[..] {
                ["(absent)"] => drop(items.remove(&path)),
                _ => drop(items.insert(path, Item::File(content.iter().flat_map(|line| bytes(line)).collect()))),
            }
        }
    }
    items
}

/// `a{0..2}b` is a0b, a1b, a2b.
fn expand(path: &str) -> Vec<String> {
    let range = path.split_once('{').and_then(|(before, rest)| {
        let (range, after) = rest.split_once('}')?;
        let (from, to) = range.split_once("..")?;
        Some((before, from.parse::<u32>().ok()?, to.parse::<u32>().ok()?, after))
    });
    match range {
        Some((before, from, to, after)) => (from..=to).flat_map(|n| expand(&format!("{before}{n}{after}"))).collect(),
        None => vec![path.to_owned()],
    }
}

/// A line with its end; `\t` and `\xFF` are bytes.
fn bytes(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        rest = match after.strip_prefix('x') {
            Some(code) => {
                bytes.push(u8::from_str_radix(&code[..2], 16).unwrap());
                &code[2..]
            }
            None => {
                bytes.push(b'\t');
                after.strip_prefix('t').unwrap_or_else(|| panic!("{line:?}: only \\t and \\x"))
            }
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes.push(b'\n');
    bytes
}

/// A tree that accepts writes as Linux does: a choice takes one of its words, numbers are kept with tabs between and a newline at the end,
/// and the limits of dirty memory exclude each other.
#[derive(Debug)]
pub struct Kernel {
    root: PathBuf,
    files: Recorded,
    refused: RefCell<Option<String>>,
}

impl Kernel {
    /// From now on, writes to paths and to names of ethtool fail if these end with `end`.
    pub fn refuse(&self, end: &str) {
        *self.refused.borrow_mut() = Some(end.to_owned());
    }

    fn put(&self, at: &Path, value: &str) -> HostResult<()> {
        if self.refused.borrow().as_ref().is_some_and(|end| at.to_string_lossy().ends_with(end)) {
            return Err(HostError::Failed("Operation not supported".into()));
        }
        let old = fs::read_to_string(at)?;
        let kept = if old.contains('[') {
            let mut words: Vec<String> = old.split_whitespace().map(|word| word.replace(['[', ']'], "")).collect();
            let chosen = words.iter_mut().find(|word| *word == value).ok_or_else(invalid)?;
            *chosen = format!("[{value}]");
            words.join(" ")
        } else if old.contains('\t') {
            value.split_whitespace().collect::<Vec<_>>().join("\t")
        } else {
            value.to_owned()
        };
        self.set_other_limit(at, &old, value)?;
        Ok(fs::write(at, format!("{kept}\n"))?)
    }

    /// Bytes and share of the dirty limits: writing one sets the other to 0, and 0 bytes are no limit
    /// (Documentation/admin-guide/sysctl/vm).
    fn set_other_limit(&self, at: &Path, old: &str, value: &str) -> HostResult<()> {
        let name = at.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let other = match name.rsplit_once('_') {
            Some((limit @ ("dirty" | "dirty_background"), "bytes")) => {
                if value.parse::<u64>().map_err(|_| invalid())? < if limit == "dirty" { 8_192 } else { 1 } {
                    return Err(invalid());
                }
                format!("{limit}_ratio")
            }
            Some((limit @ ("dirty" | "dirty_background"), "ratio")) => format!("{limit}_bytes"),
            _ => return Ok(()),
        };
        // The share of the background sets the bytes to 0 even if it is written unchanged (mm/page-writeback.c).
        let is_unchanged = old.trim() == value && name != "dirty_background_ratio";
        if is_unchanged { Ok(()) } else { Ok(fs::write(at.with_file_name(other), "0\n")?) }
    }
}

fn invalid() -> HostError {
    HostError::Failed("Invalid argument".into())
}

impl Host for Kernel {
    fn read(&self, path: &Path) -> HostResult<String> {
        self.files.read(path)
    }
    fn list(&self, path: &Path) -> HostResult<Vec<String>> {
        self.files.list(path)
    }
    fn link(&self, path: &Path) -> HostResult<String> {
        self.files.link(path)
    }
    fn ethtool(&self, nic: &str, what: &str) -> HostResult<String> {
        self.files.ethtool(nic, what)
    }
    fn netlink(&self, nic: &str, what: &str) -> HostResult<String> {
        self.files.netlink(nic, what)
    }
    fn clock(&self) -> HostResult<(bool, f64)> {
        self.files.clock()
    }
    fn may_write(&self, path: &Path) -> bool {
        self.files.may_write(path)
    }
    fn may_administer(&self) -> bool {
        self.files.may_administer()
    }
    fn read_exact(&self, path: &Path) -> HostResult<String> {
        self.files.read_exact(path)
    }
    fn write(&self, path: &Path, text: &str) -> HostResult<()> {
        let inside = path.strip_prefix("/").unwrap();
        if inside.starts_with("etc") { self.files.write(path, text) } else { self.put(&self.root.join(inside), text) }
    }
    fn remove(&self, path: &Path) -> HostResult<()> {
        self.files.remove(path)
    }
    fn set_ethtool(&self, nic: &str, what: &str, value: &str) -> HostResult<()> {
        self.put(&self.root.join("ethtool").join(nic).join(what), value)
    }
    fn set_netlink(&self, nic: &str, what: &str, value: &str) -> HostResult<()> {
        self.put(&self.root.join("netlink").join(nic).join(what), value)
    }
    fn first_output_line(&self, program: &str, words: &[&str]) -> HostResult<String> {
        self.files.first_output_line(program, words)
    }
    fn whole_output(&self, program: &str, words: &[&str]) -> HostResult<String> {
        self.files.whole_output(program, words)
    }
    fn page_bytes(&self) -> HostResult<u32> {
        self.files.page_bytes()
    }
}
