//! The bytes that the files of a scratch place take: finished, being written, and kept for a later attempt. Pure.

use std::collections::BTreeMap;

use model::name::RelPath;

/// Bytes of memory that a known file takes besides its path.
pub(super) const FILE_BYTES: usize = 64;

/// The bytes of the files of a place. Paths are below the place.
#[derive(Debug, Default)]
pub(super) struct PlaceUsage {
    /// The size of each finished file.
    finished: BTreeMap<RelPath, u64>,
    /// The bytes of each unfinished file that is kept, by its path and tag.
    kept: BTreeMap<(RelPath, String), u64>,
    finished_bytes: u64,
    kept_bytes: u64,
    /// Bytes of the files that are being written.
    unfinished_bytes: u64,
    /// Memory that the paths take.
    path_bytes: usize,
}

impl PlaceUsage {
    /// All bytes of the place.
    pub fn bytes(&self) -> u64 {
        self.finished_bytes + self.kept_bytes + self.unfinished_bytes
    }

    /// The memory that the paths of its files take, bytes.
    pub fn path_bytes(&self) -> usize {
        self.path_bytes
    }

    /// The size of a finished file.
    pub fn size_of(&self, path: &RelPath) -> Option<u64> {
        self.finished.get(path).copied()
    }

    /// A file that is being written takes so many more bytes.
    pub fn grow(&mut self, bytes: u64) {
        self.unfinished_bytes += bytes;
    }

    /// Files that were being written take so many bytes less.
    pub fn shrink(&mut self, bytes: u64) {
        self.unfinished_bytes = self.unfinished_bytes.saturating_sub(bytes);
    }

    /// A file that had grown to `grown` bytes is finished with this size. It replaces a file of that path.
    pub fn finish(&mut self, path: &RelPath, grown: u64, size: u64) {
        self.shrink(grown);
        self.insert(path.clone(), size);
    }

    fn insert(&mut self, path: RelPath, size: u64) {
        self.finished_bytes += size;
        let bytes = memory_of(&path);
        match self.finished.insert(path, size) {
            Some(before) => self.finished_bytes -= before,
            None => self.path_bytes += bytes,
        }
    }

    fn take(&mut self, path: &RelPath) -> Option<u64> {
        let size = self.finished.remove(path)?;
        self.finished_bytes -= size;
        self.path_bytes -= memory_of(path);
        Some(size)
    }

    /// An entry was removed.
    pub fn remove(&mut self, path: &RelPath) {
        self.take(path);
    }

    /// An entry was renamed, with everything below it.
    pub fn rename(&mut self, from: &RelPath, to: &RelPath) {
        if let Some(size) = self.take(from) {
            return self.insert(to.clone(), size);
        }
        // Paths below a directory follow it in the order of paths, with names like `dir-x` among them.
        let after = self.finished.range(from.clone()..).map(|(path, _)| path);
        let moved: Vec<RelPath> = after
            .take_while(|path| path.as_bytes().starts_with(from.as_bytes()))
            .filter(|path| path.starts_with(from))
            .cloned()
            .collect();
        for path in moved {
            if let (Some(size), Some(below)) = (self.take(&path), path.below(from)) {
                self.insert(to.join_path(&below), size);
            }
        }
    }

    /// A file that had grown to `grown` bytes is not finished; `written` of them are kept for a later attempt.
    pub fn keep(&mut self, path: &RelPath, tag: &str, grown: u64, written: u64) {
        self.shrink(grown);
        self.forget(path, tag);
        self.kept_bytes += written;
        self.path_bytes += memory_of(path);
        self.kept.insert((path.clone(), tag.to_owned()), written);
    }

    /// A kept file is written again. Returns its bytes, which count as those of a file that is being written; none if it is not known.
    pub fn resume(&mut self, path: &RelPath, tag: &str) -> Option<u64> {
        let bytes = self.forget(path, tag)?;
        self.grow(bytes);
        Some(bytes)
    }

    /// A kept file was removed. Returns its bytes.
    pub fn forget(&mut self, path: &RelPath, tag: &str) -> Option<u64> {
        let bytes = self.kept.remove(&(path.clone(), tag.to_owned()))?;
        self.kept_bytes -= bytes;
        self.path_bytes -= memory_of(path);
        Some(bytes)
    }

    /// All kept files of a directory were removed.
    pub fn forget_in(&mut self, dir: &RelPath) {
        let gone: Vec<(RelPath, String)> =
            self.kept.keys().filter(|(path, _)| path.parent() == *dir).cloned().collect();
        for (path, tag) in gone {
            self.forget(&path, &tag);
        }
    }
}

/// The memory that a path takes.
pub(super) fn memory_of(path: &RelPath) -> usize {
    FILE_BYTES + path.as_bytes().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelPath {
        RelPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_file_counts_while_it_is_written_and_when_it_is_finished() {
        let mut usage = PlaceUsage::default();
        usage.grow(100);
        usage.grow(50);
        assert_eq!(usage.bytes(), 150);
        usage.finish(&path("a"), 150, 120);
        assert_eq!((usage.bytes(), usage.size_of(&path("a"))), (120, Some(120)));
        usage.grow(30);
        usage.finish(&path("a"), 30, 30);
        assert_eq!(usage.bytes(), 30, "a replaced file does not count");
        usage.grow(9);
        usage.shrink(9);
        usage.remove(&path("a"));
        usage.remove(&path("none"));
        assert_eq!((usage.bytes(), usage.path_bytes()), (0, 0));
    }

    #[test]
    fn the_files_below_a_directory_are_renamed_with_it() {
        let mut usage = PlaceUsage::default();
        for name in ["d/a", "d/b/c", "d-e", "d"] {
            usage.finish(&path(name), 0, 10);
        }
        usage.remove(&path("d"));
        usage.rename(&path("d"), &path("x/y"));
        assert_eq!(usage.size_of(&path("x/y/a")).zip(usage.size_of(&path("x/y/b/c"))), Some((10, 10)));
        assert_eq!((usage.size_of(&path("d-e")), usage.size_of(&path("d/a"))), (Some(10), None));
        usage.rename(&path("d-e"), &path("x/y/a"));
        assert_eq!(usage.bytes(), 20, "a file that a rename replaces does not count");
    }

    #[test]
    fn a_kept_file_counts_until_it_is_resumed_or_removed() {
        let mut usage = PlaceUsage::default();
        usage.grow(100);
        usage.keep(&path("d/a"), "t", 100, 60);
        assert_eq!(usage.bytes(), 60);
        assert_eq!((usage.resume(&path("d/a"), "other"), usage.resume(&path("d/a"), "t")), (None, Some(60)));
        assert_eq!(usage.bytes(), 60);
        usage.keep(&path("d/a"), "t", 60, 60);
        usage.keep(&path("e"), "t", 0, 5);
        usage.forget_in(&path("d"));
        assert_eq!(usage.bytes(), 5);
        assert_eq!(usage.forget(&path("e"), "t"), Some(5));
        assert_eq!((usage.bytes(), usage.path_bytes()), (0, 0));
    }
}
