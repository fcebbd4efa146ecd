//! The files that were ordered in a scratch place and are made one after the other. Pure.

use std::collections::VecDeque;

use model::name::RelPath;
use model::v1::node::ScratchFiles;
use sha2::{Digest, Sha256};

use super::ScratchRefused;
use super::usage::memory_of;

/// Files of one order.
pub(super) const ORDERED_FILES_MAX: usize = 10_000;

/// A file that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileToMake {
    /// The seed of its content.
    pub seed: u64,
    /// Its path below the place, and the same as text, from which its content follows.
    pub path: RelPath,
    pub text: String,
    pub bytes: u64,
}

/// An order for files that has been read.
#[derive(Debug)]
pub(super) struct FileOrder {
    files: Vec<FileToMake>,
    /// A digest of the order, by which a repeated order is recognised.
    digest: [u8; 32],
    /// Bytes of all files.
    pub bytes: u64,
    /// The memory that their paths take.
    pub path_bytes: usize,
}

impl FileOrder {
    /// Reads an order.
    ///
    /// # Errors
    /// It has too many files or bytes, or a path is not one of a file below the place.
    pub fn read(order: &ScratchFiles) -> Result<FileOrder, ScratchRefused> {
        if order.files.len() > ORDERED_FILES_MAX {
            let count = order.files.len();
            let why = format!("an order has at most {ORDERED_FILES_MAX} files, and not {count}; send several orders");
            return Err(ScratchRefused::Files(why));
        }
        let mut files = Vec::with_capacity(order.files.len());
        let mut bytes = 0u64;
        for file in &order.files {
            let wrong =
                |why: String| ScratchRefused::Files(format!("{:?} cannot be the path of a file: {why}", file.path));
            let path = RelPath::parse(file.path.as_bytes()).map_err(|error| wrong(error.to_string()))?;
            if path.is_root() {
                return Err(wrong("it names no file".into()));
            }
            if path.as_bytes().split(|b| *b == b'/').any(store::posix::is_temporary_name) {
                return Err(wrong("such names are those of unfinished files".into()));
            }
            let too_much = || ScratchRefused::Files("the files have more bytes than can be counted".into());
            bytes = bytes.checked_add(file.bytes).ok_or_else(too_much)?;
            let text = String::from_utf8_lossy(path.as_bytes()).into_owned();
            files.push(FileToMake { seed: order.seed, path, text, bytes: file.bytes });
        }
        let path_bytes = files.iter().map(memory_of_order).sum();
        let digest = Sha256::digest(serde_json::to_vec(order).unwrap_or_default()).into();
        Ok(FileOrder { files, digest, bytes, path_bytes })
    }
}

/// The memory that an ordered file takes: its path is there twice.
fn memory_of_order(file: &FileToMake) -> usize {
    memory_of(&file.path) + file.text.len()
}

/// The files that are to be made in a place, and how many have been made.
#[derive(Debug, Default)]
pub(super) struct FileQueue {
    waiting: VecDeque<FileToMake>,
    waiting_bytes: u64,
    path_bytes: usize,
    /// Files that were ordered.
    pub ordered: u64,
    /// Files that were made.
    pub made: u64,
    /// Bytes that were written.
    pub bytes_made: u64,
    /// Why a file could not be made.
    pub error: Option<String>,
    /// A thread makes files.
    is_served: bool,
    /// The digest of the last order.
    last_order: Option<[u8; 32]>,
}

impl FileQueue {
    /// Bytes of the files that wait.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// The memory that the paths of waiting files take, bytes.
    pub fn path_bytes(&self) -> usize {
        self.path_bytes
    }

    /// Whether an order is the last one, sent again. One that failed is carried out again.
    pub fn repeats(&self, order: &FileOrder) -> bool {
        self.error.is_none() && self.last_order == Some(order.digest)
    }

    /// Adds the files of an order. Returns whether a thread must be started for them.
    pub fn add(&mut self, order: FileOrder) -> bool {
        self.error = None;
        self.last_order = Some(order.digest);
        self.ordered += order.files.len() as u64;
        self.waiting_bytes += order.bytes;
        self.path_bytes += order.path_bytes;
        self.waiting.extend(order.files);
        let must_start = !self.is_served && !self.waiting.is_empty();
        self.is_served |= must_start;
        must_start
    }

    /// The next file for the thread that makes them; with none the thread ends.
    pub fn take_next(&mut self) -> Option<FileToMake> {
        let next = self.waiting.pop_front();
        match &next {
            Some(file) => {
                self.waiting_bytes -= file.bytes;
                self.path_bytes -= memory_of_order(file);
            }
            None => self.is_served = false,
        }
        next
    }

    /// A file could not be made: the files that wait are given up.
    pub fn fail(&mut self, why: String) {
        self.error = Some(why);
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.path_bytes = 0;
    }

    /// No thread could be started.
    pub fn fail_to_start(&mut self, why: String) {
        self.fail(why);
        self.is_served = false;
    }
}

#[cfg(test)]
mod tests {
    use model::v1::node::ScratchFile;

    use super::*;

    fn order(seed: u64, names: &[&str]) -> ScratchFiles {
        let file = |name: &&str| ScratchFile { path: (*name).to_owned(), bytes: 10 };
        ScratchFiles { seed, files: names.iter().map(file).collect() }
    }

    #[test]
    fn an_order_has_paths_of_files_below_the_place() {
        let read = |name: &str| FileOrder::read(&order(1, &[name])).map(|order| order.files[0].text.clone());
        assert_eq!(read("/a//./b").unwrap(), "a/b");
        for bad in ["", "/", "..", "a/../b", "a\0", ".longhaul-x.part"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        let many = ScratchFiles { seed: 1, files: vec![ScratchFile::default(); ORDERED_FILES_MAX + 1] };
        assert!(FileOrder::read(&many).unwrap_err().to_string().contains("10001"));
        let huge = ScratchFile { path: "a".into(), bytes: u64::MAX };
        assert!(FileOrder::read(&ScratchFiles { seed: 1, files: vec![huge.clone(), huge] }).is_err());
    }

    #[test]
    fn an_order_that_is_sent_again_is_carried_out_once_unless_it_failed() {
        let mut queue = FileQueue::default();
        let read = |seed| FileOrder::read(&order(seed, &["a", "b"])).unwrap();
        assert!(!queue.repeats(&read(1)) && queue.add(read(1)));
        assert!(queue.repeats(&read(1)) && !queue.repeats(&read(2)));
        assert!(!queue.add(read(2)), "the thread is there already");
        assert_eq!((queue.ordered, queue.waiting_bytes()), (4, 40));
        assert_eq!(queue.take_next().map(|file| (file.seed, file.text)), Some((1, "a".into())));
        queue.fail("full".into());
        assert_eq!((queue.waiting_bytes(), queue.path_bytes(), queue.take_next()), (0, 0, None));
        assert!(!queue.repeats(&read(2)) && queue.add(read(2)) && queue.error.is_none());
        while queue.take_next().is_some() {}
        assert_eq!((queue.waiting_bytes(), queue.path_bytes(), queue.ordered), (0, 0, 6));
    }
}
