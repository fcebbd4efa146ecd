//! The files of the bench: makes the sources once, and makes and checks the target of each run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::cell::{Set, SetFile};
use crate::data;

/// Bytes of a block in `st_blocks` (stat(2)).
const BLOCK: u64 = 512;

/// The directories of the files.
#[derive(Debug)]
pub struct Stage {
    /// The directory of all files.
    pub root: PathBuf,
    /// The divisor of the sets' sizes.
    pub divide: u64,
}

impl Stage {
    /// The file or directory to be moved.
    pub fn source(&self, set: Set) -> PathBuf {
        self.root.join("source").join(set.name())
    }

    /// The directory that servers show; targets lie below it.
    pub fn server_root(&self) -> PathBuf {
        self.root.join("target")
    }

    /// Makes a set's files if they do not exist.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn make(&self, set: Set) -> Result<()> {
        let source = self.source(set);
        if source.exists() {
            return Ok(());
        }
        fs::create_dir_all(self.root.join("source"))?;
        for (seed, file) in (1..).zip(self.files(set)) {
            let path = at(&source, &file);
            fs::create_dir_all(path.parent().context("a file has a directory")?)?;
            data::fill(&path, file.bytes, seed)?;
        }
        Ok(())
    }

    /// Removes a set's files: they are in memory, which is scarce.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, set: Set) -> Result<()> {
        let source = self.source(set);
        match (source.exists(), set.is_tree()) {
            (false, _) => Ok(()),
            (true, true) => Ok(fs::remove_dir_all(source)?),
            (true, false) => Ok(fs::remove_file(source)?),
        }
    }

    /// A set's files.
    pub fn files(&self, set: Set) -> Vec<SetFile> {
        set.files(self.divide)
    }

    /// Makes an empty target in place of the earlier one.
    ///
    /// # Errors
    /// The earlier target cannot be removed, or the new one cannot be made.
    pub fn fresh_target(&self) -> Result<PathBuf> {
        let server_root = self.server_root();
        if server_root.exists() {
            fs::remove_dir_all(&server_root)?;
        }
        let target = server_root.join("run");
        fs::create_dir_all(&target)?;
        // Some servers refuse to run as root.
        [&server_root, &target].into_iter().try_for_each(|directory| data::open_to_all(directory))?;
        Ok(target)
    }

    /// Checks that a copy has all files of a set with their sizes, and compares the bytes of one of them, chosen by `sample`.
    ///
    /// # Errors
    /// A file is missing, has another size or other bytes, or was not sent.
    pub fn verify(&self, set: Set, copy: &Path, sample: usize) -> Result<()> {
        let files = self.files(set);
        let mut found = BTreeMap::new();
        walk(copy, &mut |path, metadata| {
            found.insert(path.to_owned(), metadata.len());
        })?;
        let source = self.source(set);
        for file in &files {
            let path = at(copy, file);
            let bytes = found.remove(&path).with_context(|| format!("{} did not arrive", display_name(file)))?;
            ensure!(bytes == file.bytes, "{} has {bytes} of {} bytes", display_name(file), file.bytes);
        }
        ensure!(found.is_empty(), "{} files arrived that were not sent", found.len());
        let file = &files[sample % files.len()];
        ensure!(same(&at(&source, file), &at(copy, file))?, "{} arrived with other bytes", display_name(file));
        Ok(())
    }

    /// The bytes of an interrupted copy that have arrived: those that the file system holds below a path. Holes are not counted.
    pub fn bytes_arrived(copy: &Path) -> u64 {
        let mut bytes = 0;
        // Files that cannot be read count as not arrived.
        let _ = walk(copy, &mut |_, metadata| bytes += metadata.len().min(metadata.blocks() * BLOCK));
        bytes
    }
}

/// The path of a file of a set below a source or a copy.
pub fn at(base: &Path, file: &SetFile) -> PathBuf {
    if file.name.is_empty() { base.to_owned() } else { base.join(&file.name) }
}

fn display_name(file: &SetFile) -> &str {
    if file.name.is_empty() { "the file" } else { &file.name }
}

fn walk(path: &Path, visit: &mut dyn FnMut(&Path, &fs::Metadata)) -> Result<()> {
    let metadata = fs::symlink_metadata(path).context("nothing arrived")?;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            walk(&entry?.path(), visit)?;
        }
    } else {
        visit(path, &metadata);
    }
    Ok(())
}

/// Whether two files have the same bytes.
fn same(one: &Path, other: &Path) -> Result<bool> {
    let mut one = File::open(one)?;
    let mut other = File::open(other)?;
    let mut left = vec![0u8; 1 << 20];
    let mut right = vec![0u8; 1 << 20];
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(other.read(&mut right)? == 0);
        }
        if other.read_exact(&mut right[..count]).is_err() || left[..count] != right[..count] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_short_or_wrong_file_of_a_copy_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let stage = Stage { root: dir.path().to_owned(), divide: 1_000 };
        stage.make(Set::Small).unwrap();
        let source = stage.source(Set::Small);
        let copy = stage.fresh_target().unwrap().join("copy");
        assert!(stage.verify(Set::Small, &copy, 0).unwrap_err().to_string().contains("nothing arrived"));
        fs::create_dir_all(copy.join("00")).unwrap();
        for file in stage.files(Set::Small) {
            fs::copy(at(&source, &file), at(&copy, &file)).unwrap();
        }
        stage.verify(Set::Small, &copy, 3).unwrap();
        assert_eq!(Stage::bytes_arrived(&copy), Set::Small.bytes(1_000));
        let first = at(&copy, &stage.files(Set::Small)[0]);
        fs::write(&first, vec![0; 50_000]).unwrap();
        stage.verify(Set::Small, &copy, 3).unwrap();
        assert!(stage.verify(Set::Small, &copy, 20).unwrap_err().to_string().contains("other bytes"));
        fs::write(&first, "short").unwrap();
        assert!(stage.verify(Set::Small, &copy, 0).unwrap_err().to_string().contains("5 of 50000 bytes"));
        fs::remove_file(&first).unwrap();
        assert!(stage.verify(Set::Small, &copy, 0).unwrap_err().to_string().contains("did not arrive"));
        stage.remove(Set::Small).unwrap();
        assert!(!source.exists());
    }
}
