//! The files of sources and targets: makes them, reads them into the page cache, empties and compares them; touches memory.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::job::Data;

/// How many files of a tree share a directory.
pub const FILES_PER_DIRECTORY: u64 = 1_000;

/// The name of a tree's file, with its directory.
pub fn file_name(at: u64) -> String {
    format!("{:04}/{:06}.dat", at / FILES_PER_DIRECTORY, at)
}

/// Fills a file quickly with bytes that neither compress nor repeat (splitmix64).
///
/// # Errors
/// The file cannot be written.
pub fn fill(path: &Path, bytes: u64, seed: u64) -> Result<()> {
    let mut file = File::create(path)?;
    let mut state = seed << 40;
    let mut buffer = vec![0u8; bytes.min(1 << 20).next_multiple_of(8) as usize];
    let mut left = bytes;
    while left > 0 {
        for word in buffer.chunks_exact_mut(8) {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word.copy_from_slice(&(z ^ (z >> 31)).to_le_bytes());
        }
        let step = left.min(buffer.len() as u64);
        file.write_all(&buffer[..step as usize])?;
        left -= step;
    }
    Ok(())
}

/// Makes a source.
///
/// # Errors
/// A file or directory cannot be made.
pub fn make(data: Data, source: &Path) -> Result<()> {
    match data {
        Data::Zeros { .. } => Ok(()),
        Data::File { bytes } => fill(source, bytes, 1),
        Data::Tree { files, bytes_each } => {
            for at in 0..files {
                let file = source.join(file_name(at));
                if at % FILES_PER_DIRECTORY == 0 {
                    fs::create_dir_all(file.parent().context("a file of a tree has a directory")?)?;
                }
                fill(&file, bytes_each, at)?;
            }
            Ok(())
        }
    }
}

/// Calls `visit` with every file at or below a path; links are not followed.
fn walk(path: &Path, visit: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    let kind = fs::symlink_metadata(path).with_context(|| format!("cannot see {}", path.display()))?.file_type();
    if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            walk(&entry?.path(), visit)?;
        }
    } else if kind.is_file() {
        visit(path)?;
    }
    Ok(())
}

/// Reads everything once, so that it is hot in the page cache.
///
/// # Errors
/// A file cannot be read.
pub fn heat(source: &Path) -> Result<()> {
    let mut buffer = vec![0u8; 1 << 20];
    walk(source, &mut |path| {
        let mut file = File::open(path)?;
        while file.read(&mut buffer)? > 0 {}
        Ok(())
    })
}

/// Empties every file but does not remove it: pages and blocks are free again, and no inode was recently deleted.
///
/// # Errors
/// A file cannot be opened or emptied.
pub fn empty(target: &Path) -> Result<()> {
    walk(target, &mut |path| Ok(OpenOptions::new().write(true).open(path)?.set_len(0)?))
}

/// Writes `bytes` to a file and removes it: the next files on that medium then get memory that has been touched before.
///
/// # Errors
/// The file cannot be written or removed.
pub fn touch_memory(directory: &Path, bytes: u64) -> Result<()> {
    let path = directory.join("touch");
    let mut file = File::create(&path)?;
    let buffer = vec![0u8; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let step = left.min(buffer.len() as u64);
        file.write_all(&buffer[..step as usize])?;
        left -= step;
    }
    drop(file);
    Ok(fs::remove_file(&path)?)
}

/// Lets servers that run as another user write to a directory.
///
/// # Errors
/// The permissions cannot be changed.
pub fn open_to_all(directory: &Path) -> Result<()> {
    Ok(fs::set_permissions(directory, Permissions::from_mode(0o777))?)
}

/// Checks with diff(1) that a copy has the names and contents of its source.
///
/// # Errors
/// The copy differs from the source, or diff(1) cannot be run.
pub fn compare(source: &Path, copy: &Path) -> Result<()> {
    let output = Command::new("diff").args(["-rq", "--no-dereference"]).arg(source).arg(copy).output();
    let output = output.context("cannot run diff (diffutils)")?;
    if output.status.success() {
        return Ok(());
    }
    let diff_output = String::from_utf8_lossy(if output.stdout.is_empty() { &output.stderr } else { &output.stdout });
    bail!("the copy differs from the source: {}", diff_output.lines().next().unwrap_or("diff printed nothing"))
}

/// Waits until all data written so far are on the disk.
///
/// # Errors
/// sync(1) cannot be run, or fails.
pub fn sync() -> Result<()> {
    ensure!(Command::new("sync").status().context("cannot run sync")?.success(), "sync failed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_with_other_bytes_is_found_and_an_emptied_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let data = Data::Tree { files: 3, bytes_each: 1_000 };
        make(data, &a).unwrap();
        make(data, &b).unwrap();
        compare(&a, &b).unwrap();
        heat(&a).unwrap();
        let first = b.join(file_name(0));
        assert_eq!(fs::metadata(&first).unwrap().len(), 1_000);
        let (one, two) = (fs::read(&first).unwrap(), fs::read(b.join(file_name(1))).unwrap());
        assert_ne!(one, two, "files differ");
        fs::write(&first, vec![0; 1_000]).unwrap();
        assert!(compare(&a, &b).is_err(), "the same size, other bytes");
        empty(&b).unwrap();
        assert_eq!(fs::metadata(&first).unwrap().len(), 0, "empty, and still there");
        assert!(compare(&a, &dir.path().join("absent")).is_err());
    }
}
