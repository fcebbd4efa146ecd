//! A scratch place in a directory of its own, for tests; and the tests of the store with the quotas.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use auth::{Grant, Rights};
use model::id::Uuid;
use model::name::RelPath;
use model::units::Bytes;
use model::v1::node::ScratchOrder;
use model::{Kind, Timestamp};
use store::posix::{Links, Posix};
use store::{Finish, PathRules, Sink, Store};
use tempfile::TempDir;

use super::scratch_store::ScratchStore;
use super::table::ScratchTable;
use super::{Orderer, ScratchState, id_of, place_of, root_of, text_after};

/// A directory with scratch places, and the store that checks their quotas.
pub(super) struct ScratchFixture {
    dir: TempDir,
    pub state: Arc<ScratchState>,
    pub store: Arc<dyn Store>,
    /// The first place.
    pub id: Uuid,
}

impl ScratchFixture {
    /// A place with this quota.
    pub fn new(quota_bytes: u64) -> ScratchFixture {
        let dir = tempfile::tempdir().unwrap();
        let state = ScratchState::new(ScratchTable::new(u64::MAX, &[]));
        let posix = Arc::new(Posix::open(dir.path(), Links::Refuse).unwrap().hiding_unfinished());
        let store = Arc::new(ScratchStore::new(posix, Arc::clone(&state)));
        let fixture = ScratchFixture { dir, state, store, id: Uuid::now_v7() };
        fixture.add(fixture.id, quota_bytes);
        fixture
    }

    /// Adds a place.
    fn add(&self, id: Uuid, quota_bytes: u64) {
        let orderer = Orderer { holder: "me".into(), who: "me".into(), peer: ([127, 0, 0, 1], 1).into() };
        let grant = Grant::new([1; 8], &[2; 32], super::EXPORT.into(), &root_of(&id), Rights::Write, 0);
        let order = ScratchOrder { id, lifetime_s: 60, quota_bytes };
        assert!(self.state.table.lock().order(&order, orderer, grant, Instant::now()).unwrap());
        std::fs::create_dir(self.dir.path().join(id.to_string())).unwrap();
    }

    /// A path of the first place in the file system.
    pub fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(self.id.to_string()).join(below)
    }

    /// A path of the first place in the store.
    fn at(&self, below: &str) -> RelPath {
        root_of(&self.id).join_path(&path(below))
    }

    /// Bytes that the first place uses.
    pub fn used_bytes(&self) -> u64 {
        self.state.table.lock().living_mut(&self.id).unwrap().usage.bytes()
    }

    fn begin(&self, below: &str) -> Arc<dyn Sink> {
        self.store.create(&self.at(below), below).unwrap()
    }

    /// Ends all places.
    fn end(&self) {
        self.state.table.lock().close();
    }
}

fn path(text: &str) -> RelPath {
    RelPath::parse(text.as_bytes()).unwrap()
}

fn finish(size: u64) -> Finish {
    Finish { size, mode: 0o644, mtime: Timestamp::default(), durable: false, replace: true, attributes: None }
}

#[test]
fn every_path_belongs_to_a_place_that_has_not_ended() {
    let fixture = ScratchFixture::new(1000);
    let store = &fixture.store;
    std::fs::create_dir(fixture.dir.path().join("other")).unwrap();
    std::fs::write(fixture.dir.path().join("other/file"), "x").unwrap();
    let other = Uuid::now_v7().to_string();
    for outside in ["f", "other", "other/file", other.as_str(), &format!("{other}/f"), &format!("{{{}}}/f", fixture.id)]
    {
        let at = path(outside);
        assert!(store.create(&at, "t").is_err_and(|error| error.is_not_found()), "{outside}");
        assert!(store.make_dir(&at).is_err() && store.remove(&at).is_err() && store.stat(&at).is_err(), "{outside}");
        assert!(store.confined(&at, PathRules::Strictly { make: true }).is_err(), "{outside}");
        assert!(!fixture.dir.path().join(&other).exists());
    }
    let listed = |at: &RelPath| store.list(at).unwrap().map(|entry| entry.unwrap().0.to_string()).collect::<Vec<_>>();
    assert_eq!(listed(&RelPath::root()), [fixture.id.to_string()]);
    // The place itself stays, whoever asks.
    let place = root_of(&fixture.id);
    store.make_dir(&fixture.at("d")).unwrap();
    assert!(store.remove(&place).is_err() && store.rename(&place, &fixture.at("d/e"), true).is_err());
    assert!(store.finish_dir(&place, 0o755, Timestamp::default()).is_ok());
    fixture.end();
    assert!(store.stat(&place).is_err() && listed(&RelPath::root()).is_empty());
    assert!(
        store.create(&fixture.at("f"), "t").is_err_and(|error| error.to_string().contains(&fixture.id.to_string()))
    );
}

#[test]
fn a_byte_beyond_the_quota_is_not_written() {
    let fixture = ScratchFixture::new(100);
    let first = fixture.begin("a");
    first.write_at(&[1; 60], 0).unwrap();
    let second = fixture.begin("b");
    let error = second.write_at(&[1; 41], 0).unwrap_err();
    assert!(error.is_full() && model::fault::with_causes(&error).contains(&Bytes(60).to_string()), "{error}");
    assert!(second.reserve(41).is_err_and(|error| error.is_full()));
    second.write_at(&[1; 40], 0).unwrap();
    second.write_at(&[2; 40], 0).unwrap();
    assert!(first.commit(&finish(61)).is_err_and(|error| error.is_full()), "a hole at the end counts");
    first.commit(&finish(60)).unwrap();
    drop(first);
    drop(second);
    assert_eq!((fixture.used_bytes(), fixture.path("b").exists()), (60, false));
    // A file that replaces another one counts beside it until it does.
    let again = fixture.begin("a");
    again.reserve(40).unwrap();
    again.commit(&finish(10)).unwrap();
    again.discard();
    assert_eq!(fixture.used_bytes(), 10);
    fixture.store.remove(&fixture.at("a")).unwrap();
    assert_eq!(fixture.used_bytes(), 0);
}

#[test]
fn a_kept_file_counts_and_is_resumed() {
    let fixture = ScratchFixture::new(100);
    let sink = fixture.begin("d");
    sink.reserve(90).unwrap();
    sink.write_at(&[1; 50], 0).unwrap();
    sink.keep();
    drop(sink);
    assert_eq!(fixture.used_bytes(), 50);
    assert!(fixture.store.resume(&fixture.at("d"), "other").unwrap().is_none());
    let resumed = fixture.store.resume(&fixture.at("d"), "d").unwrap().unwrap();
    assert_eq!(fixture.used_bytes(), 50);
    resumed.write_at(&[2; 50], 50).unwrap();
    // A resumed file stays when its sink is dropped.
    drop(resumed);
    assert_eq!(fixture.used_bytes(), 100);
    let resumed = fixture.store.resume(&fixture.at("d"), "d").unwrap().unwrap();
    resumed.commit(&finish(100)).unwrap();
    drop(resumed);
    assert_eq!((fixture.used_bytes(), std::fs::read(fixture.path("d")).unwrap().len()), (100, 100));
    let kept = fixture.store.create(&fixture.at("e"), "next").unwrap();
    kept.keep();
    drop(kept);
    fixture.store.forget(&fixture.at("e"), "next").unwrap();
    assert_eq!(fixture.used_bytes(), 100);
}

#[test]
fn nothing_is_written_to_a_place_that_has_ended() {
    let fixture = ScratchFixture::new(100);
    let sink = fixture.begin("a");
    sink.write_at(&[1; 10], 0).unwrap();
    fixture.end();
    assert!(sink.write_at(&[1; 10], 0).is_err_and(|error| error.is_not_found()));
    assert!(sink.reserve(10).is_err() && sink.commit(&finish(10)).is_err());
    drop(sink);
    assert_eq!(std::fs::read_dir(fixture.path("")).unwrap().count(), 0);
}

#[test]
fn names_of_one_file_count_like_files_and_places_exchange_none() {
    let fixture = ScratchFixture::new(100);
    let store = &fixture.store;
    let sink = fixture.begin("a");
    sink.write_at(&[1; 40], 0).unwrap();
    sink.commit(&finish(40)).unwrap();
    store.make_hard_link(&fixture.at("b"), &fixture.at("a"), false, "t").unwrap();
    assert!(store.make_hard_link(&fixture.at("c"), &fixture.at("a"), false, "t").is_err_and(|error| error.is_full()));
    store.remove(&fixture.at("a")).unwrap();
    assert_eq!(fixture.used_bytes(), 40, "the bytes are still there");
    store.make_symlink(&fixture.at("l"), b"b", Timestamp::default(), false, "t").unwrap();
    assert_eq!(store.stat(&fixture.at("l")).unwrap().meta.kind, Kind::Symlink);
    assert!(store.open(&fixture.at("l")).is_err(), "links are not followed");
    store.make_dir(&fixture.at("d")).unwrap();
    store.rename(&fixture.at("b"), &fixture.at("d/b"), false).unwrap();
    let other = Uuid::now_v7();
    fixture.add(other, 100);
    let elsewhere = root_of(&other).join_path(&path("b"));
    assert!(store.rename(&fixture.at("d/b"), &elsewhere, false).is_err());
    assert!(store.make_hard_link(&elsewhere, &fixture.at("d/b"), false, "t").is_ok(), "which counts there");
    assert_eq!(fixture.state.table.lock().living_mut(&other).unwrap().usage.bytes(), 40);
}

#[test]
fn the_store_of_a_key_counts_in_its_place() {
    let fixture = ScratchFixture::new(100);
    let rules = PathRules::Strictly { make: true };
    let confined = fixture.store.confined(&root_of(&fixture.id), rules).unwrap().unwrap();
    confined.make_dir(&path("d")).unwrap();
    let sink = confined.create(&path("d/a"), "t").unwrap();
    sink.write_at(&[1; 30], 0).unwrap();
    sink.commit(&finish(30)).unwrap();
    assert_eq!((fixture.used_bytes(), fixture.path("d/a").exists()), (30, true));
    assert!(confined.remove(&RelPath::root()).is_err(), "the place itself");
    fixture.end();
    assert!(confined.create(&path("b"), "t").is_err() && confined.open(&path("d/a")).is_err());
}

#[test]
fn only_the_canonical_form_of_an_id_names_a_place() {
    let id = Uuid::from_u128(0x0190_b5c8_0000_7000_8000_0000_0000_00ab);
    assert_eq!(id_of(id.to_string().as_bytes()), Some(id));
    assert_eq!((root_of(&id).to_string(), place_of(&id)), (id.to_string(), format!("/exercise/{id}")));
    for other in [id.simple().to_string(), id.to_string().to_uppercase(), format!("{{{id}}}"), "data".into()] {
        assert_eq!(id_of(other.as_bytes()), None, "{other}");
    }
}

#[test]
fn the_time_of_expiry_is_shown_as_text() {
    let later = web::date::parse_rfc3339(&text_after(std::time::Duration::from_millis(59_900))).unwrap();
    let left = later.seconds - crate::clock::unix_seconds();
    assert!((59..=60).contains(&left), "{left}");
}
