//! The receiving side of a delegated session: receives records, writes their blocks where the coordinator says, and reports them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use model::Algorithm;
use model::Progress;
use model::name::RelPath;
use model::spec::LiveSettings;
use parking_lot::{Mutex, MutexGuard, RwLock};
use store::{Sink, Store};
use sys::waker::Waker;
use wire::limits::PACK_BYTES;
use wire::mover::{Answer, FileLocation, MoverMessage, StreamQuery};
use wire::record::Part;
use wire::{Frame, WireError};

use super::channel::{CoordinatorChannel, StreamChannel};
use crate::error::{Error, Result};
use crate::meter::Stage;
use crate::movers::LEASE;
use crate::receive;
use crate::side::{Side, StreamEnd};
use crate::stream::{DataStream, RecordBuffer};

/// The receiving side at a mover.
pub(crate) struct Writer {
    coordinator: CoordinatorChannel,
    store: Arc<dyn Store>,
    /// The job's target.
    target: RelPath,
    checksums: Vec<Algorithm>,
    /// Blocks of a file reach stable storage before it is closed.
    durable: bool,
    files: Mutex<Files>,
    /// Files that are being closed.
    closing: AtomicUsize,
}

/// The files that are open, and those whose location streams are asking for.
#[derive(Default)]
struct Files {
    open: HashMap<u64, Arc<JoinedFile>>,
    lookups: HashMap<u64, Lookup>,
}

/// The streams that ask for the location of a file now.
#[derive(Default)]
struct Lookup {
    streams: u32,
    /// The coordinator has closed the file meanwhile.
    closed: bool,
}

impl Files {
    /// Notes that a stream has its answer. Returns whether the file may be opened.
    fn end_lookup(&mut self, id: u64) -> bool {
        let Some(lookup) = self.lookups.get_mut(&id) else { return true };
        let may_open = !lookup.closed;
        lookup.streams -= 1;
        if lookup.streams == 0 {
            self.lookups.remove(&id);
        }
        may_open
    }
}

/// A file that is being written to.
struct JoinedFile {
    size: u64,
    fills_holes: bool,
    /// Locked shared while a block is written, exclusively to close the file.
    sink: RwLock<Option<Arc<dyn Sink>>>,
}

/// The result of writing a block at a mover.
enum WriteOutcome {
    Written,
    /// The file is no longer wanted.
    Unwanted,
    /// This mover can do nothing more for the job.
    Over,
}

impl Writer {
    /// The side for a job into this target.
    pub fn new(store: Arc<dyn Store>, target: RelPath, options: &model::spec::Options, waker: Waker) -> Arc<Writer> {
        Arc::new(Writer {
            coordinator: CoordinatorChannel::new(waker),
            store,
            target,
            checksums: options.checksums.clone(),
            durable: options.durable,
            files: Mutex::default(),
            closing: AtomicUsize::new(0),
        })
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock()
    }

    /// Closes all files. Returns whether no write is still under way.
    pub fn close_all(&self) -> bool {
        let deadline = Instant::now() + LEASE;
        while self.closing.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let open = std::mem::take(&mut self.files().open);
        let closed = open.values().all(|file| file.sink.try_write().is_some_and(|mut sink| sink.take().is_some()));
        closed && self.closing.load(Ordering::Acquire) == 0
    }

    fn receive_loop(&self, stream: &mut DataStream) -> Result<()> {
        let handle = stream.handle().map_err(|source| Error::Host { doing: "copy a socket", source })?;
        let is_lost = || sys::tcp::is_closed_by_peer(&handle);
        let channel = self.coordinator.stream_channel(stream.id(), &is_lost);
        let mut buffer = RecordBuffer::default();
        loop {
            let Some(parts) = stream.receive(&mut buffer)? else { return Ok(()) };
            let bytes = buffer.payload().len() as u64;
            if parts.is_empty() {
                return Ok(());
            }
            // Small files are not worth a query each.
            let continues = if bytes <= PACK_BYTES && parts.iter().all(|part| part.whole) {
                channel.query(StreamQuery::Pass(buffer.to_inline(&parts))) == Some(Answer::Noted)
            } else {
                self.take_record(&channel, &parts, stream, &buffer)?
            };
            if !continues {
                return Ok(());
            }
            self.coordinator.note_moved(bytes);
        }
    }

    /// Writes and reports the parts of a record. Returns whether the stream goes on.
    fn take_record(
        &self,
        channel: &StreamChannel<'_>,
        parts: &[Part],
        stream: &DataStream,
        buffer: &RecordBuffer,
    ) -> Result<bool> {
        let meter = stream.meter();
        let payload = buffer.payload();
        let mut taken = Vec::with_capacity(parts.len());
        let mut at = 0;
        for part in parts {
            let len = if part.hole { 0 } else { part.len as usize };
            let bytes = &payload[at..at + len];
            at += len;
            meter.enter(Stage::Compute);
            let sum = receive::check(&self.checksums, part, bytes);
            if sum.is_some() {
                meter.enter(Stage::Storage);
                match self.write_part(channel, part, bytes)? {
                    WriteOutcome::Written => {}
                    WriteOutcome::Unwanted => continue,
                    WriteOutcome::Over => return Ok(false),
                }
            }
            taken.push((*part, sum));
        }
        channel.report(StreamQuery::Took(taken));
        Ok(true)
    }

    fn write_part(&self, channel: &StreamChannel<'_>, part: &Part, bytes: &[u8]) -> Result<WriteOutcome> {
        loop {
            let Some(file) = self.open_file(channel, part.file) else {
                return Ok(if self.coordinator.is_closed() { WriteOutcome::Over } else { WriteOutcome::Unwanted });
            };
            let sink = file.sink.read();
            // Closed meanwhile: the coordinator says whether the file is still wanted.
            let Some(open) = &*sink else { continue };
            if part.offset.checked_add(part.len).is_none_or(|end| end > file.size) {
                // The coordinator checks the part, and fails the job.
                return Ok(WriteOutcome::Written);
            }
            if !self.coordinator.may_write() {
                return Ok(WriteOutcome::Over);
            }
            let written = if part.hole && file.fills_holes {
                open.clear(part.offset, part.len)
            } else if part.hole || bytes.is_empty() {
                Ok(())
            } else {
                open.write_at(bytes, part.offset)
            };
            if let Err(error) = written {
                self.coordinator.fail(error.into());
                return Ok(WriteOutcome::Over);
            }
            return Ok(WriteOutcome::Written);
        }
    }

    /// The file, opened for its first block; none where it is not wanted.
    fn open_file(&self, channel: &StreamChannel<'_>, id: u64) -> Option<Arc<JoinedFile>> {
        {
            let mut files = self.files();
            if let Some(file) = files.open.get(&id) {
                return Some(Arc::clone(file));
            }
            files.lookups.entry(id).or_default().streams += 1;
        }
        let joined = match channel.query(StreamQuery::Where(id)) {
            Some(Answer::Here(location)) => self.join_file(&location).map(Some),
            _ => Ok(None),
        };
        let mut files = self.files();
        // If the file was closed during the lookup, the coordinator no longer waits for this mover.
        let may_open = files.end_lookup(id);
        match joined {
            Ok(opened) => {
                let opened = opened.filter(|_| may_open)?;
                Some(Arc::clone(files.open.entry(id).or_insert_with(|| Arc::new(opened))))
            }
            Err(_) if !may_open => None,
            Err(error) => {
                self.coordinator.fail(error);
                self.coordinator.close();
                None
            }
        }
    }

    /// Opens the unfinished file that the coordinator has made.
    fn join_file(&self, location: &FileLocation) -> Result<JoinedFile> {
        let path = self.target.join_path(&location.path);
        match self.store.join(&path, &location.tag, location.size) {
            Ok(Some(sink)) => {
                Ok(JoinedFile { size: location.size, fills_holes: location.fills_holes, sink: RwLock::new(Some(sink)) })
            }
            Ok(None) => Err(Error::UnseenFile { path: path.to_string() }),
            Err(error) => Err(error.into()),
        }
    }

    /// Closes a file on a separate thread, since storage may be slow. Nothing is written to the file after this.
    fn close_file(self: &Arc<Writer>, id: u64) {
        let file = {
            let mut files = self.files();
            if let Some(lookup) = files.lookups.get_mut(&id) {
                lookup.closed = true;
            }
            files.open.remove(&id)
        };
        self.closing.fetch_add(1, Ordering::AcqRel);
        let writer = Arc::clone(self);
        let close = move || {
            let closed = file.and_then(|file| file.sink.write().take());
            let published = closed.map_or(Ok(()), |sink| if writer.durable { sink.flush() } else { sink.publish() });
            writer.closing.fetch_sub(1, Ordering::AcqRel);
            match published {
                Ok(()) => writer.coordinator.send(MoverMessage::Closed(id)),
                Err(error) => writer.coordinator.fail(error.into()),
            }
        };
        if let Err(source) = std::thread::Builder::new().name("close".into()).spawn(close) {
            self.closing.fetch_sub(1, Ordering::AcqRel);
            self.coordinator.fail(Error::Host { doing: "start a thread that closes a file", source });
        }
    }
}

/// The writer as a [`Side`]: closing a file takes a reference-counted writer.
pub(crate) struct WriterSide(pub Arc<Writer>);

impl Side for WriterSide {
    fn handle(&self, frame: Frame) -> std::result::Result<(), WireError> {
        if let Some(MoverMessage::Close(id)) = self.0.coordinator.handle(frame)? {
            self.0.close_file(id);
        }
        Ok(())
    }

    fn poll_frame(&self) -> Option<Frame> {
        self.0.coordinator.poll()
    }

    fn pump(&self) -> Result<()> {
        Ok(())
    }

    fn tick(&self) {
        self.0.coordinator.tick();
    }

    fn steer(&self, _to: &LiveSettings) {}

    fn sends(&self) -> bool {
        false
    }

    fn retire(&self, _streams: &BTreeSet<u32>) {}

    fn watches_progress(&self) -> bool {
        false
    }

    fn wants_streams(&self) -> bool {
        true
    }

    fn is_finished(&self) -> bool {
        self.0.coordinator.is_finished()
    }

    fn progress(&self) -> Progress {
        self.0.coordinator.progress()
    }

    fn take_failure(&self) -> Option<Error> {
        self.0.coordinator.take_failure()
    }

    fn close(&self) {
        self.0.coordinator.close();
    }

    fn run_stream(&self, mut stream: DataStream) -> StreamEnd {
        let result = self.0.receive_loop(&mut stream);
        StreamEnd::of(stream, result.map(|()| false))
    }
}

#[cfg(test)]
mod tests {
    use model::spec::Options;
    use store::posix::{Links, Posix};

    use super::*;
    use crate::movers::LEASE_REQUEST_EVERY;

    const PART: Part = Part { file: 7, offset: 2, len: 3, crc32c: 0, hole: false, whole: false };

    struct Fixture {
        dir: tempfile::TempDir,
        writing: WriterSide,
        /// The coordinator's handle of the file.
        _made: Arc<dyn Sink>,
    }

    impl Fixture {
        /// With a lease that lasts as long as any test.
        fn new() -> Fixture {
            Fixture::leased(Duration::from_secs(60))
        }

        fn leased(lease_length: Duration) -> Fixture {
            let dir = tempfile::tempdir().unwrap();
            let store = Posix::open(dir.path(), Links::Inside).unwrap();
            let made = store.create(&RelPath::parse(b"f").unwrap(), "tag").unwrap();
            let store = Arc::new(store);
            let options = Options::default();
            let mut writer = Writer::new(store, RelPath::root(), &options, Waker::new().unwrap());
            Arc::get_mut(&mut writer).unwrap().coordinator.lease_length = lease_length;
            Fixture { dir, writing: WriterSide(writer), _made: made }
        }

        fn written(&self) -> Vec<u8> {
            std::fs::read(self.dir.path().join(".longhaul-tag.part")).unwrap()
        }

        fn handle(&self, message: MoverMessage) {
            self.writing.handle(Frame::Word(message)).unwrap();
        }

        /// The mover's next message that is not a request for the lease.
        fn next_message(&self) -> MoverMessage {
            let deadline = Instant::now() + Duration::from_secs(20);
            loop {
                match self.writing.poll_frame() {
                    Some(Frame::Word(MoverMessage::Beat(_))) => {}
                    Some(Frame::Word(message)) => return message,
                    other => assert!(other.is_none() && Instant::now() < deadline, "{other:?}"),
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }

        /// Writes a block by a stream. `coordinator` runs after the stream has asked for the file's location, and before the answer.
        fn write_block(&self, coordinator: impl FnOnce()) -> WriteOutcome {
            let here =
                FileLocation { path: RelPath::parse(b"f").unwrap(), tag: "tag".into(), size: 100, fills_holes: false };
            std::thread::scope(|scope| {
                let stream = scope.spawn(|| {
                    let channel = self.writing.0.coordinator.stream_channel(3, &|| false);
                    self.writing.0.write_part(&channel, &PART, b"abc").unwrap()
                });
                assert_eq!(self.next_message(), MoverMessage::Ask(3, StreamQuery::Where(7)));
                coordinator();
                self.handle(MoverMessage::Answer(3, Answer::Here(here)));
                stream.join().unwrap()
            })
        }
    }

    #[test]
    fn a_block_is_written_where_the_coordinator_says() {
        let fixture = Fixture::new();
        fixture.handle(MoverMessage::Beat(0));
        assert!(matches!(fixture.write_block(|| {}), WriteOutcome::Written));
        assert_eq!(fixture.written(), b"\0\0abc");
        fixture.handle(MoverMessage::Close(7));
        let messages = [fixture.next_message(), fixture.next_message()];
        assert!(
            messages.contains(&MoverMessage::Closed(7)) && messages.contains(&MoverMessage::Gone(3)),
            "{messages:?}"
        );
        assert!(fixture.writing.0.close_all());
    }

    /// The coordinator closed a file during the lookup of its location: it no longer waits for this mover.
    #[test]
    fn a_file_that_is_closed_during_its_lookup_is_not_written() {
        let fixture = Fixture::new();
        fixture.handle(MoverMessage::Beat(0));
        assert!(matches!(fixture.write_block(|| fixture.handle(MoverMessage::Close(7))), WriteOutcome::Unwanted));
        assert_eq!(fixture.written(), b"");
        assert!(fixture.writing.0.files().lookups.is_empty(), "the file is forgotten");
    }

    #[test]
    fn nothing_is_written_without_a_lease() {
        let lease_length = Duration::from_millis(200);
        let fixture = Fixture::leased(lease_length);
        let began = Instant::now();
        assert!(matches!(fixture.write_block(|| {}), WriteOutcome::Over));
        assert!(began.elapsed() >= lease_length && LEASE_REQUEST_EVERY < LEASE, "the mover waited for its lease");
        assert_eq!(fixture.written(), b"");
    }

    #[test]
    fn a_block_beyond_the_end_of_the_file_is_not_written() {
        let fixture = Fixture::new();
        fixture.handle(MoverMessage::Beat(0));
        assert!(matches!(fixture.write_block(|| {}), WriteOutcome::Written));
        let channel = fixture.writing.0.coordinator.stream_channel(4, &|| false);
        let beyond = Part { offset: 98, ..PART };
        // The coordinator gets the report, and fails the job: its machine knows the length of the file.
        assert!(matches!(fixture.writing.0.write_part(&channel, &beyond, b"xyz").unwrap(), WriteOutcome::Written));
        assert_eq!(fixture.written(), b"\0\0abc");
    }
}
