//! Files named one by one, each with the path it is to have at the target (`--files-from`).

use std::collections::HashMap;

use model::fault::Fault;
use model::{Expected, Refusal, RelPath};
use wire::Frame;
use wire::limits::{FILES_BYTES_MAX, FILES_MAX, FRAME_BYTES_AIM};

/// The files of a job, in the order of their paths at the target, the files of one directory together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileList {
    /// Path below the source, path below the target.
    files: Vec<(RelPath, RelPath)>,
    /// The expected sizes and digests of some of them, by their paths below the target. They are not sent: the end that has the list
    /// compares.
    expected: HashMap<RelPath, Expected>,
    bytes: usize,
}

/// The parts of a path. Paths that are compared by parts are in the order of a walk: the entries of a directory lie together, also where
/// a name has bytes that sort below the slash.
fn parts(path: &RelPath) -> impl Iterator<Item = &[u8]> {
    path.as_bytes().split(|b| *b == b'/')
}

impl FileList {
    /// Adds a file.
    ///
    /// # Errors
    /// The list would exceed its bounds, or a path names the source or the target itself.
    pub fn add(&mut self, from: RelPath, to: RelPath) -> Result<(), Refusal> {
        self.bytes += from.as_bytes().len() + to.as_bytes().len() + size_of::<(RelPath, RelPath)>();
        if self.files.len() >= FILES_MAX || self.bytes > FILES_BYTES_MAX {
            let reason = format!("a list of more than {FILES_MAX} files or {FILES_BYTES_MAX} bytes; copy it in parts");
            return Err(Refusal::new(Fault::Config, reason));
        }
        if from.is_root() || to.is_root() {
            return Err(Refusal::new(Fault::Config, "a list of files names the source itself; name what is below it"));
        }
        self.files.push((from, to));
        Ok(())
    }

    /// Sets the expected size and digests of the file that has this path below the target.
    pub fn set_expected(&mut self, to: RelPath, expected: Expected) {
        if expected != Expected::default() {
            self.bytes += to.as_bytes().len() + size_of::<(RelPath, Expected)>();
            self.expected.insert(to, expected);
        }
    }

    /// Takes the expected sizes and digests out of the list, by the files' paths below the target.
    pub fn take_expected(&mut self) -> HashMap<RelPath, Expected> {
        std::mem::take(&mut self.expected)
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sorts the list.
    ///
    /// # Errors
    /// Two files have the same path at the target, or one lies below the other.
    pub fn sorted(mut self) -> Result<FileList, Refusal> {
        self.files.sort_by(|a, b| parts(&a.1).cmp(parts(&b.1)));
        let clash = self.files.windows(2).find(|two| two[1].1.starts_with(&two[0].1));
        match clash {
            None => Ok(self),
            Some(two) => {
                let (a, b) = (&two[0].1, &two[1].1);
                let reason =
                    format!("the list of files gives {a} and {b} the same path at the target, or puts {b} below {a}");
                Err(Refusal::new(Fault::Config, reason))
            }
        }
    }

    /// The files.
    pub fn files(&self) -> &[(RelPath, RelPath)] {
        &self.files
    }

    /// The messages that carry the list.
    pub fn into_frames(self) -> impl Iterator<Item = Frame> {
        let mut rest = self.files.into_iter().peekable();
        let mut done = false;
        std::iter::from_fn(move || {
            if done {
                return None;
            }
            let mut bytes = 0;
            let mut files = Vec::new();
            while bytes < FRAME_BYTES_AIM
                && let Some(file) = rest.next()
            {
                bytes += file.0.as_bytes().len() + file.1.as_bytes().len() + 4;
                files.push(file);
            }
            done = rest.peek().is_none();
            Some(Frame::Files(files, !done))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pairs: &[(&str, &str)]) -> Result<FileList, Refusal> {
        let path = |text: &str| RelPath::parse(text.as_bytes()).unwrap();
        let mut list = FileList::default();
        pairs.iter().try_for_each(|(from, to)| list.add(path(from), path(to)))?;
        list.sorted()
    }

    #[test]
    fn directories_stay_together() {
        let sorted = list(&[("1", "a/x"), ("2", "a-b/y"), ("3", "a/b/z"), ("4", "c")]).unwrap();
        let to: Vec<String> = sorted.files().iter().map(|(_, to)| to.to_string()).collect();
        assert_eq!(to, ["a/b/z", "a/x", "a-b/y", "c"]);
    }

    #[test]
    fn clashing_and_empty_paths_are_refused() {
        assert!(list(&[("1", "a"), ("2", "a")]).is_err());
        assert!(list(&[("1", "a/b"), ("2", "a")]).is_err());
        assert!(list(&[("", "a")]).is_err());
        assert!(list(&[("1", "a"), ("1", "b")]).is_ok());
    }

    #[test]
    fn frames_carry_the_whole_list() {
        let mut long = FileList::default();
        for n in 0..3000 {
            let path = RelPath::parse(format!("{n}/{}", "x".repeat(40)).as_bytes()).unwrap();
            long.add(path.clone(), path).unwrap();
        }
        let frames: Vec<Frame> = long.clone().into_frames().collect();
        assert!(frames.len() > 3);
        let last = frames.len() - 1;
        let mut got = FileList::default();
        for (at, frame) in frames.into_iter().enumerate() {
            let Frame::Files(files, more) = frame else { panic!() };
            assert_eq!(more, at < last);
            files.into_iter().for_each(|(from, to)| got.add(from, to).unwrap());
        }
        assert_eq!(got, long);
        assert_eq!(FileList::default().into_frames().count(), 1);
    }
}
