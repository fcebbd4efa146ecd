//! The streams of one end: each has a thread that writes or reads, and counts.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::tcp::TcpInfo;
use sys::files::Aligned;

use crate::error::{Error, Result};

/// The longest write or read before its thread checks whether to end.
const IO_TIMEOUT: Duration = Duration::from_millis(100);

/// One connected stream of a test.
#[derive(Debug)]
pub struct TestStream {
    /// Its number, from 1.
    pub id: u32,
    /// Data goes forward: from the near end to the far end.
    pub is_forward: bool,
    /// This end sends.
    pub sends: bool,
    /// The connection.
    pub socket: TcpStream,
    /// Most bytes to send; `u64::MAX` for no bound.
    pub quota: u64,
}

/// Counters of a stream's thread.
#[derive(Debug, Default)]
struct StreamCounters {
    bytes: AtomicU64,
    /// When the first and the last byte was sent or received, nanoseconds after the start.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    cpu_ns: AtomicU64,
    over: AtomicBool,
}

/// The state of a stream at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamSample {
    /// Its number.
    pub id: u32,
    /// Data goes forward: from the near end to the far end.
    pub is_forward: bool,
    /// This end sends.
    pub sends: bool,
    /// Bytes so far.
    pub bytes: u64,
    /// When the first byte was sent or received, after the start.
    pub first: Duration,
    /// When the last byte was sent or received, after the start.
    pub last: Duration,
    /// The kernel's counts since the start.
    pub tcp: TcpInfo,
}

/// Settings of the threads of a pool.
#[derive(Clone, Copy, Debug)]
pub struct StreamSettings<'a> {
    /// Bytes of one write, or of the buffer of one read.
    pub block_bytes: usize,
    /// Processors for the threads, in turn; if empty, threads run anywhere.
    pub cores: &'a [u32],
    /// The longest that a thread runs.
    pub lasts: Duration,
    /// A stream that has sent its quota shuts its sending direction down. A stock iperf3 server would treat that as an error.
    pub shuts: bool,
}

/// A stream after its thread has ended.
#[derive(Debug)]
pub struct FinishedStream {
    /// The last sample.
    pub sample: StreamSample,
    /// Processor time of its thread.
    pub cpu: Duration,
    /// Its congestion control.
    pub congestion: String,
    /// The error that ended the stream, if one did.
    pub error: Option<io::Error>,
}

#[derive(Debug)]
struct StreamThread {
    id: u32,
    is_forward: bool,
    sends: bool,
    socket: TcpStream,
    info_at_start: TcpInfo,
    counters: Arc<StreamCounters>,
    thread: JoinHandle<io::Result<()>>,
}

/// The streams of one end, running.
#[derive(Debug)]
pub struct StreamPool {
    members: Vec<StreamThread>,
    /// Threads stop sending.
    stop_sending: Arc<AtomicBool>,
    /// Threads stop sending and receiving.
    abandon: Arc<AtomicBool>,
    started: Instant,
}

/// The state of a stream's thread.
struct StreamWorker {
    socket: TcpStream,
    counters: Arc<StreamCounters>,
    stop_sending: Arc<AtomicBool>,
    abandon: Arc<AtomicBool>,
    started: Instant,
    lasts: Duration,
    shuts: bool,
}

impl StreamWorker {
    fn count(&self, bytes: usize) {
        let now = self.started.elapsed().as_nanos() as u64;
        if self.counters.bytes.fetch_add(bytes as u64, Ordering::Relaxed) == 0 {
            self.counters.first_ns.store(now, Ordering::Relaxed);
        }
        self.counters.last_ns.store(now, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.abandon.load(Ordering::Relaxed) || self.started.elapsed() >= self.lasts
    }

    /// Writes `left` bytes; ends earlier at a stop.
    fn send(&self, block: &[u8], mut left: u64) -> io::Result<()> {
        while left > 0 && !self.is_over() && !self.stop_sending.load(Ordering::Relaxed) {
            let next = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match (&self.socket).write(&block[..next]) {
                Ok(0) => break,
                Ok(wrote) => {
                    self.count(wrote);
                    left -= wrote as u64;
                }
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if self.shuts { self.socket.shutdown(Shutdown::Write) } else { Ok(()) }
    }

    /// Reads until the peer closes; ends earlier at a stop.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<()> {
        while !self.is_over() {
            match (&self.socket).read(buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => self.count(read),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether a read or write timed out or was interrupted.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl StreamPool {
    /// Starts a thread for each stream.
    ///
    /// # Errors
    /// [`Error::Order`]: this program may not run on one of the processors. [`Error::Host`]: a socket cannot be set up, or
    /// there is no thread left.
    pub fn start(streams: Vec<TestStream>, settings: StreamSettings<'_>) -> Result<StreamPool> {
        let StreamSettings { block_bytes, cores, .. } = settings;
        if let Some(core) = cores.iter().find(|core| !sys::schedule::may_run_on(**core)) {
            return Err(Error::Order(format!("this program may not use processor {core} here")));
        }
        // Random bytes: a link that compresses would transfer zeros faster than real data.
        let mut block = Aligned::zeroed(block_bytes);
        fastrand::Rng::with_seed(block_bytes as u64).fill(&mut block);
        let block = Arc::new(block);
        let mut pool = StreamPool {
            members: Vec::new(),
            stop_sending: Arc::default(),
            abandon: Arc::default(),
            started: Instant::now(),
        };
        for (at, stream) in streams.into_iter().enumerate() {
            let core = cores.get(at % cores.len().max(1)).copied();
            let started = pool.member(stream, &block, core, settings);
            match started {
                Ok(member) => pool.members.push(member),
                Err(error) => {
                    pool.abandon();
                    pool.finish();
                    return Err(error);
                }
            }
        }
        Ok(pool)
    }

    fn member(
        &self,
        stream: TestStream,
        block: &Arc<Aligned>,
        core: Option<u32>,
        settings: StreamSettings<'_>,
    ) -> Result<StreamThread> {
        let host = |doing| move |source| Error::Host { doing, source };
        let TestStream { id, is_forward, sends, socket, quota } = stream;
        socket.set_write_timeout(Some(IO_TIMEOUT)).map_err(host("set up a socket"))?;
        socket.set_read_timeout(Some(IO_TIMEOUT)).map_err(host("set up a socket"))?;
        let handle = socket.try_clone().map_err(host("copy a socket"))?;
        let info_at_start = sys::tcp::info(&handle).map_err(host("read the kernel's facts about a connection"))?;
        let counters = Arc::<StreamCounters>::default();
        let work = StreamWorker {
            socket,
            counters: Arc::clone(&counters),
            stop_sending: Arc::clone(&self.stop_sending),
            abandon: Arc::clone(&self.abandon),
            started: self.started,
            lasts: settings.lasts,
            shuts: settings.shuts,
        };
        let block = Arc::clone(block);
        let run = move || {
            let pinned = core.map_or(Ok(()), sys::schedule::run_on);
            let result = pinned.and_then(|()| {
                if sends {
                    work.send(&block, quota)
                } else {
                    // On some processors the kernel takes twice the time to copy into memory that is not aligned to pages.
                    work.receive(&mut Aligned::zeroed(block.len()))
                }
            });
            work.counters.cpu_ns.store(sys::clock::thread_cpu().as_nanos() as u64, Ordering::Relaxed);
            work.counters.over.store(true, Ordering::Release);
            result
        };
        let thread = std::thread::Builder::new().name(format!("probe-{id}")).spawn(run);
        let thread = thread.map_err(host("start a thread"))?;
        Ok(StreamThread { id, is_forward, sends, socket: handle, info_at_start, counters, thread })
    }

    /// When the pool was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// A sample of each stream, now.
    pub fn sample(&self) -> Vec<StreamSample> {
        self.members.iter().map(StreamThread::sample).collect()
    }

    /// Stops sending.
    pub fn stop_sending(&self) {
        self.stop_sending.store(true, Ordering::Relaxed);
    }

    /// Stops sending and receiving.
    pub fn abandon(&self) {
        self.abandon.store(true, Ordering::Relaxed);
    }

    /// Whether all threads have finished.
    pub fn is_over(&self) -> bool {
        self.members.iter().all(|member| member.counters.over.load(Ordering::Acquire))
    }

    /// Whether all sending streams have finished.
    pub fn has_sent(&self) -> bool {
        self.members.iter().all(|member| !member.sends || member.counters.over.load(Ordering::Acquire))
    }

    /// Waits for all threads.
    pub fn finish(mut self) -> Vec<FinishedStream> {
        std::mem::take(&mut self.members).into_iter().map(StreamThread::finish).collect()
    }
}

/// A failed test must leave no thread behind that goes on sending. The timeout of each write and read bounds the wait here.
impl Drop for StreamPool {
    fn drop(&mut self) {
        self.stop_sending();
        self.abandon();
        for member in std::mem::take(&mut self.members) {
            let _ = member.thread.join();
        }
    }
}

impl StreamThread {
    fn sample(&self) -> StreamSample {
        let tcp = sys::tcp::info(&self.socket).unwrap_or_default().since(&self.info_at_start);
        StreamSample {
            id: self.id,
            is_forward: self.is_forward,
            sends: self.sends,
            bytes: self.counters.bytes.load(Ordering::Relaxed),
            first: Duration::from_nanos(self.counters.first_ns.load(Ordering::Relaxed)),
            last: Duration::from_nanos(self.counters.last_ns.load(Ordering::Relaxed)),
            tcp,
        }
    }

    fn finish(self) -> FinishedStream {
        let congestion = sys::tcp::congestion(&self.socket);
        let counters = Arc::clone(&self.counters);
        let before = self.sample();
        let error = match self.thread.join() {
            Ok(result) => result.err(),
            Err(_) => Some(io::Error::other("its thread failed")),
        };
        let bytes = counters.bytes.load(Ordering::Relaxed);
        let last = Duration::from_nanos(counters.last_ns.load(Ordering::Relaxed));
        let cpu = Duration::from_nanos(counters.cpu_ns.load(Ordering::Relaxed));
        FinishedStream { sample: StreamSample { bytes, last, ..before }, cpu, congestion, error }
    }
}
