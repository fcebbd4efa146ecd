//! The files: sources are made once, targets are made for each run and checked after it.

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
    pub fn shown(&self) -> PathBuf {
        self.root.join("target")
    }

    /// Makes a set's files where they do not exist.
    pub fn make(&self, set: Set) -> Result<()> {
        let source = self.source(set);
        if source.exists() {
            return Ok(());
        }
        fs::create_dir_all(self.root.join("source"))?;
        for (seed, piece) in (1..).zip(self.pieces(set)) {
            let path = at(&source, &piece);
            fs::create_dir_all(path.parent().context("a file has a directory")?)?;
            data::fill(&path, piece.bytes, seed)?;
        }
        Ok(())
    }

    /// Removes a set's files: memory is short.
    pub fn remove(&self, set: Set) -> Result<()> {
        let source = self.source(set);
        match (source.exists(), set.is_tree()) {
            (false, _) => Ok(()),
            (true, true) => Ok(fs::remove_dir_all(source)?),
            (true, false) => Ok(fs::remove_file(source)?),
        }
    }

    /// A set's files.
    pub fn pieces(&self, set: Set) -> Vec<SetFile> {
        set.pieces(self.divide)
    }

    /// Makes an empty target in place of the earlier one.
    pub fn target(&self) -> Result<PathBuf> {
        let shown = self.shown();
        if shown.exists() {
            fs::remove_dir_all(&shown)?;
        }
        let target = shown.join("run");
        fs::create_dir_all(&target)?;
        // Some servers refuse to run as root.
        [&shown, &target].into_iter().try_for_each(|directory| data::open_to_all(directory))?;
        Ok(target)
    }

    /// Checks that all files of a set are at a target with their sizes, and one of them with its bytes.
    pub fn verify(&self, set: Set, copy: &Path, sample: usize) -> Result<()> {
        let pieces = self.pieces(set);
        let mut found = BTreeMap::new();
        walk(copy, &mut |path, its| {
            found.insert(path.to_owned(), its.len());
        })?;
        let source = self.source(set);
        for piece in &pieces {
            let path = at(copy, piece);
            let bytes = found.remove(&path).with_context(|| format!("{} did not arrive", shown(piece)))?;
            ensure!(bytes == piece.bytes, "{} has {bytes} of {} bytes", shown(piece), piece.bytes);
        }
        ensure!(found.is_empty(), "{} files arrived that nobody sent", found.len());
        let piece = &pieces[sample % pieces.len()];
        ensure!(same(&at(&source, piece), &at(copy, piece))?, "{} arrived with other bytes", shown(piece));
        Ok(())
    }

    /// The bytes that a file system holds below a path: the part of a broken-off copy that arrived. Holes are not counted.
    pub fn held(copy: &Path) -> u64 {
        let mut bytes = 0;
        // Files that cannot be read count as not arrived.
        let _ = walk(copy, &mut |_, its| bytes += its.len().min(its.blocks() * BLOCK));
        bytes
    }
}

/// The path of a file of a set below a source or a copy.
pub fn at(base: &Path, piece: &SetFile) -> PathBuf {
    if piece.name.is_empty() { base.to_owned() } else { base.join(&piece.name) }
}

fn shown(piece: &SetFile) -> &str {
    if piece.name.is_empty() { "the file" } else { &piece.name }
}

fn walk(path: &Path, visit: &mut dyn FnMut(&Path, &fs::Metadata)) -> Result<()> {
    let its = fs::symlink_metadata(path).with_context(|| "nothing arrived".to_owned())?;
    if its.is_dir() {
        for entry in fs::read_dir(path)? {
            walk(&entry?.path(), visit)?;
        }
    } else {
        visit(path, &its);
    }
    Ok(())
}

/// Whether two files have the same bytes: as good as digests, and no algorithm has to be chosen.
fn same(one: &Path, other: &Path) -> Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (mut left, mut right) = (vec![0u8; 1 << 20], vec![0u8; 1 << 20]);
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
    fn copies_are_verified() {
        let dir = tempfile::tempdir().unwrap();
        let stage = Stage { root: dir.path().to_owned(), divide: 1_000 };
        stage.make(Set::Small).unwrap();
        let source = stage.source(Set::Small);
        let copy = stage.target().unwrap().join("copy");
        assert!(stage.verify(Set::Small, &copy, 0).unwrap_err().to_string().contains("nothing arrived"));
        fs::create_dir_all(copy.join("00")).unwrap();
        for piece in stage.pieces(Set::Small) {
            fs::copy(at(&source, &piece), at(&copy, &piece)).unwrap();
        }
        stage.verify(Set::Small, &copy, 3).unwrap();
        assert_eq!(Stage::held(&copy), Set::Small.bytes(1_000));
        let first = at(&copy, &stage.pieces(Set::Small)[0]);
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
