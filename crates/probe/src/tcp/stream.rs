//! The streams of one end: a thread each, which writes or reads and counts, and does nothing else.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::tcp::TcpInfo;
use sys::files::Aligned;

use crate::error::{Error, Result};

/// How long a write or read waits before its thread looks whether it should go home.
const PATIENCE: Duration = Duration::from_millis(100);

/// One connected stream of a test.
#[derive(Debug)]
pub struct Flow {
    /// Its number, from 1.
    pub id: u32,
    /// Data goes from where the command runs to the other end.
    pub up: bool,
    /// This end sends.
    pub sends: bool,
    /// The connection.
    pub socket: TcpStream,
    /// How much it is to send; no end where it is not bounded by that.
    pub quota: u64,
}

/// What a stream's thread counts.
#[derive(Debug, Default)]
struct Count {
    bytes: AtomicU64,
    /// Nanoseconds after the start at which the first and the last of them went or came.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    cpu_ns: AtomicU64,
    over: AtomicBool,
}

/// A stream as it looks at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Its number.
    pub id: u32,
    /// Data goes to the other end.
    pub up: bool,
    /// This end sends.
    pub sends: bool,
    /// Bytes so far.
    pub bytes: u64,
    /// When the first of them went or came, after the start.
    pub first: Duration,
    /// When the last of them did.
    pub last: Duration,
    /// The kernel's counts since the start.
    pub tcp: TcpInfo,
}

/// How the threads of a team work.
#[derive(Clone, Copy, Debug)]
pub struct Manner<'a> {
    /// Bytes of one write, or of the buffer of one read.
    pub block_bytes: usize,
    /// Processors for the threads, in turn; all of them where there is none.
    pub cores: &'a [u32],
    /// No thread works longer than this, whatever anybody says or does not say.
    pub lasts: Duration,
    /// A stream that has sent its part says so by closing its direction. Other people's servers take that for trouble.
    pub shuts: bool,
}

/// How a stream ended.
#[derive(Debug)]
pub struct Ended {
    /// The stream, as it was then.
    pub look: Look,
    /// Processor time of its thread.
    pub cpu: Duration,
    /// Its congestion control.
    pub congestion: String,
    /// How it failed, if it did.
    pub error: Option<io::Error>,
}

#[derive(Debug)]
struct Member {
    id: u32,
    up: bool,
    sends: bool,
    socket: TcpStream,
    base: TcpInfo,
    count: Arc<Count>,
    thread: JoinHandle<io::Result<()>>,
}

/// The streams of one end, running.
#[derive(Debug)]
pub struct Team {
    members: Vec<Member>,
    /// Nothing more is sent.
    hush: Arc<AtomicBool>,
    /// Nothing more is waited for.
    abandon: Arc<AtomicBool>,
    started: Instant,
}

/// What a thread needs.
struct Work {
    socket: TcpStream,
    count: Arc<Count>,
    hush: Arc<AtomicBool>,
    abandon: Arc<AtomicBool>,
    started: Instant,
    lasts: Duration,
    shuts: bool,
}

impl Work {
    fn counted(&self, bytes: usize) {
        let now = self.started.elapsed().as_nanos() as u64;
        if self.count.bytes.fetch_add(bytes as u64, Ordering::Relaxed) == 0 {
            self.count.first_ns.store(now, Ordering::Relaxed);
        }
        self.count.last_ns.store(now, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.abandon.load(Ordering::Relaxed) || self.started.elapsed() >= self.lasts
    }

    /// Writes until told to stop, or for as much as there is to send.
    fn send(&self, block: &[u8], mut left: u64) -> io::Result<()> {
        while left > 0 && !self.is_over() && !self.hush.load(Ordering::Relaxed) {
            let next = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match (&self.socket).write(&block[..next]) {
                Ok(0) => break,
                Ok(wrote) => {
                    self.counted(wrote);
                    left -= wrote as u64;
                }
                Err(error) if waits(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if self.shuts { self.socket.shutdown(Shutdown::Write) } else { Ok(()) }
    }

    /// Reads to the end.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<()> {
        while !self.is_over() {
            match (&self.socket).read(buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => self.counted(read),
                Err(error) if waits(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

pub(crate) fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl Team {
    /// Sets all streams going.
    pub fn start(flows: Vec<Flow>, manner: Manner<'_>) -> Result<Team> {
        let Manner { block_bytes, cores, .. } = manner;
        if let Some(core) = cores.iter().find(|core| !sys::schedule::may_run_on(**core)) {
            return Err(Error::Order(format!("processor {core} is none that this program may use here")));
        }
        // What compresses, or is all zeros, is not what a path carries.
        let mut block = Aligned::zeroed(block_bytes);
        fastrand::Rng::with_seed(block_bytes as u64).fill(&mut block);
        let block = Arc::new(block);
        let mut team =
            Team { members: Vec::new(), hush: Arc::default(), abandon: Arc::default(), started: Instant::now() };
        for (at, flow) in flows.into_iter().enumerate() {
            let core = cores.get(at % cores.len().max(1)).copied();
            let started = team.member(flow, &block, core, manner);
            match started {
                Ok(member) => team.members.push(member),
                Err(error) => {
                    team.abandon();
                    team.finish();
                    return Err(error);
                }
            }
        }
        Ok(team)
    }

    fn member(&self, flow: Flow, block: &Arc<Aligned>, core: Option<u32>, manner: Manner<'_>) -> Result<Member> {
        let host = |doing| move |source| Error::Host { doing, source };
        let Flow { id, up, sends, socket, quota } = flow;
        socket.set_write_timeout(Some(PATIENCE)).map_err(host("set up a socket"))?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(host("set up a socket"))?;
        let handle = socket.try_clone().map_err(host("copy a socket"))?;
        let base = sys::tcp::info(&handle).map_err(host("read the kernel's facts about a connection"))?;
        let count = Arc::<Count>::default();
        let work = Work {
            socket,
            count: Arc::clone(&count),
            hush: Arc::clone(&self.hush),
            abandon: Arc::clone(&self.abandon),
            started: self.started,
            lasts: manner.lasts,
            shuts: manner.shuts,
        };
        let block = Arc::clone(block);
        let run = move || {
            let pinned = core.map_or(Ok(()), sys::schedule::run_on);
            let result = pinned.and_then(|()| match sends {
                true => work.send(&block, quota),
                // The kernel's copy into memory off the bounds of pages costs twice the time on some processors.
                false => work.receive(&mut Aligned::zeroed(block.len())),
            });
            work.count.cpu_ns.store(sys::clock::thread_cpu().as_nanos() as u64, Ordering::Relaxed);
            work.count.over.store(true, Ordering::Release);
            result
        };
        let thread = std::thread::Builder::new().name(format!("probe-{id}")).spawn(run);
        let thread = thread.map_err(host("start a thread"))?;
        Ok(Member { id, up, sends, socket: handle, base, count, thread })
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// All streams now.
    pub fn look(&self) -> Vec<Look> {
        self.members.iter().map(Member::look).collect()
    }

    /// Nothing more is sent.
    pub fn hush(&self) {
        self.hush.store(true, Ordering::Relaxed);
    }

    /// Nothing more is sent or waited for.
    pub fn abandon(&self) {
        self.abandon.store(true, Ordering::Relaxed);
    }

    /// Whether all streams have come to their end.
    pub fn is_over(&self) -> bool {
        self.members.iter().all(|member| member.count.over.load(Ordering::Acquire))
    }

    /// Whether all that send have sent what they were to.
    pub fn has_sent(&self) -> bool {
        self.members.iter().all(|member| !member.sends || member.count.over.load(Ordering::Acquire))
    }

    /// Waits for all threads.
    pub fn finish(mut self) -> Vec<Ended> {
        std::mem::take(&mut self.members).into_iter().map(Member::finish).collect()
    }
}

/// A test that ends badly leaves nobody behind who goes on sending. Every write and read has an end of its own, so that
/// no thread is waited for longer than that.
impl Drop for Team {
    fn drop(&mut self) {
        self.hush();
        self.abandon();
        for member in std::mem::take(&mut self.members) {
            let _ = member.thread.join();
        }
    }
}

impl Member {
    fn look(&self) -> Look {
        let tcp = sys::tcp::info(&self.socket).unwrap_or_default().since(&self.base);
        Look {
            id: self.id,
            up: self.up,
            sends: self.sends,
            bytes: self.count.bytes.load(Ordering::Relaxed),
            first: Duration::from_nanos(self.count.first_ns.load(Ordering::Relaxed)),
            last: Duration::from_nanos(self.count.last_ns.load(Ordering::Relaxed)),
            tcp,
        }
    }

    fn finish(self) -> Ended {
        let congestion = sys::tcp::congestion(&self.socket);
        let count = Arc::clone(&self.count);
        let before = self.look();
        let error = match self.thread.join() {
            Ok(result) => result.err(),
            Err(_) => Some(io::Error::other("its thread failed")),
        };
        let bytes = count.bytes.load(Ordering::Relaxed);
        let last = Duration::from_nanos(count.last_ns.load(Ordering::Relaxed));
        let cpu = Duration::from_nanos(count.cpu_ns.load(Ordering::Relaxed));
        Ended { look: Look { bytes, last, ..before }, cpu, congestion, error }
    }
}
