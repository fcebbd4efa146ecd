//! Makes the files that were ordered in a scratch place, one after the other, in a thread of the place.

use std::sync::Arc;

use model::fault::with_causes;
use model::id::Uuid;
use model::seeded_bytes;
use store::{Error, Finish, Store};

use super::file_queue::FileToMake;
use super::{ScratchState, root_of};
use crate::clock::now;

/// Bytes that are written at once.
const PIECE_BYTES: usize = 1 << 20;
/// The alignment with which a file system takes pieces past its cache. Files that are longer than the cache are written so: what is sent
/// later comes from the disk.
const ALIGNMENT: usize = 4096;
/// From this length on the room for a file is reserved before its first byte.
const RESERVED_FROM: u64 = 1 << 20;

/// Starts the thread that makes the waiting files of a place.
pub(super) fn start(state: &Arc<ScratchState>, store: &Arc<dyn Store>, id: Uuid) {
    let maker = FileMaker { state: Arc::clone(state), store: Arc::clone(store), id };
    if let Err(error) = std::thread::Builder::new().name("scratch-files".into()).spawn(move || maker.run()) {
        let why = format!("the node has no thread for it: {error}");
        if let Some(place) = state.table.lock().living_mut(&id) {
            place.files.fail_to_start(why);
        }
    }
}

/// A place whose files are made.
struct FileMaker {
    state: Arc<ScratchState>,
    store: Arc<dyn Store>,
    id: Uuid,
}

impl FileMaker {
    /// Makes files until none waits, or the place has ended.
    fn run(&self) {
        let mut memory = vec![0; PIECE_BYTES + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        let piece = &mut memory[start..start + PIECE_BYTES];
        loop {
            let next = self.state.table.lock().living_mut(&self.id).and_then(|place| place.files.take_next());
            let Some(file) = next else { return };
            let made = self.make(&file, piece);
            let mut table = self.state.table.lock();
            let Some(place) = table.living_mut(&self.id) else { return };
            match made {
                Ok(()) => place.files.made += 1,
                Err(error) => place.files.fail(with_causes(&error)),
            }
        }
    }

    fn make(&self, file: &FileToMake, piece: &mut [u8]) -> store::Result<()> {
        let path = root_of(&self.id).join_path(&file.path);
        let no_random = |_| Error::io("create", &path, std::io::Error::other("the system gives no random numbers"));
        let tag = engine::identity::random_tag().map_err(no_random)?;
        store::make_dirs(&*self.store, &path.parent())?;
        let sink = self.store.create(&path, &tag)?;
        if file.bytes >= RESERVED_FROM {
            sink.reserve(file.bytes)?;
        }
        let mut offset = 0;
        while offset < file.bytes {
            let count = (file.bytes - offset).min(PIECE_BYTES as u64);
            let bytes = &mut piece[..count as usize];
            seeded_bytes::fill(file.seed, &file.text, offset, bytes);
            sink.write_at(bytes, offset)?;
            offset += count;
            if let Some(place) = self.state.table.lock().living_mut(&self.id) {
                place.files.bytes_made += count;
            }
        }
        sink.commit(&Finish {
            size: file.bytes,
            mode: 0o644,
            mtime: now(),
            durable: false,
            replace: true,
            attributes: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use model::v1::node::{ScratchFile, ScratchFiles};

    use super::super::file_queue::FileOrder;
    use super::super::tests::ScratchFixture;
    use super::*;

    /// Makes these files, and waits until that has succeeded or failed. Returns the error.
    fn make(fixture: &ScratchFixture, files: &[(&str, u64)]) -> Option<String> {
        let file = |(path, bytes): &(&str, u64)| ScratchFile { path: (*path).to_owned(), bytes: *bytes };
        let order = FileOrder::read(&ScratchFiles { seed: 5, files: files.iter().map(file).collect() }).unwrap();
        let must_start = fixture.state.table.lock().order_files("me", &fixture.id, order, Instant::now()).unwrap();
        assert!(must_start);
        start(&fixture.state, &fixture.store, fixture.id);
        let begun = Instant::now();
        loop {
            let (is_over, error) = {
                let mut table = fixture.state.table.lock();
                let files = &table.living_mut(&fixture.id).unwrap().files;
                (files.made == files.ordered || files.error.is_some(), files.error.clone())
            };
            if is_over {
                return error;
            }
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn files_have_the_bytes_of_their_seed_and_path() {
        let fixture = ScratchFixture::new(1 << 30);
        let files = [("a/b/long", (3 << 20) + 17), ("a/short", 9), ("empty", 0)];
        assert_eq!(make(&fixture, &files), None);
        for (path, bytes) in files {
            let mut expected = vec![0; bytes as usize];
            seeded_bytes::fill(5, path, 0, &mut expected);
            assert!(std::fs::read(fixture.path(path)).unwrap() == expected, "{path}");
        }
        let total: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(fixture.used_bytes(), total);
        let mut table = fixture.state.table.lock();
        let place = table.living_mut(&fixture.id).unwrap();
        assert_eq!((place.files.bytes_made, place.files.made), (total, 3));
    }

    #[test]
    fn a_file_that_cannot_be_made_ends_the_order_with_its_reason() {
        let fixture = ScratchFixture::new(5 << 20);
        let error = make(&fixture, &[("a", 4 << 20), ("a/b", 1), ("c", 1)]).unwrap();
        assert!(error.contains(&format!("{}/a", fixture.id)), "{error}");
        let entries = std::fs::read_dir(fixture.path("")).unwrap();
        let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a"], "a file has the name of a directory, and none is begun after it");
        assert_eq!(fixture.used_bytes(), 4 << 20);
    }
}
