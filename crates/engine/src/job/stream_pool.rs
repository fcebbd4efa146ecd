//! A job's streams and their threads: starts them, takes samples of them, and keeps them for the next job or hangs up.

use std::collections::HashMap;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use model::account::StageTimes;
use model::tcp::TcpInfo;
use parking_lot::{Mutex, MutexGuard};
use pilot::Sample;
use pilot::path_set::Path;
use sys::waker::Waker;
use wire::join::{Join, SessionId};

use super::{JobFacts, StreamTerms, TICK};
use crate::dial::Dial;
use crate::error::{Error, Result};
use crate::link::Link;
use crate::meter::Meter;
use crate::seal::SealingEnd;
use crate::side::{Side, StreamEnd};
use crate::stream::{DataStream, Joined};
use crate::timeouts::Timeouts;

/// How long to wait for streams that are kept: the sender's mark that its records end takes a round trip.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// Round trips for which a kept stream is paced to its share of the path: as many as BBR takes to see that the path gives no more.
const PACED_ROUNDS: u32 = 4;
/// How soon a receiver gives up a path that is cut, where there are several paths.
const CUT_AFTER: Duration = Duration::from_secs(4);
/// The least queueing delay that counts as a queue.
const QUEUE_MIN: Duration = Duration::from_millis(3);

/// A running stream, seen from outside its thread.
struct PooledStream {
    socket: TcpStream,
    path: Option<Path>,
    meter: Arc<Meter>,
    /// The kernel's counters when this job began.
    base: TcpInfo,
    /// Its share of the path, bytes per second; 0 while no queue was seen.
    share: Arc<AtomicU64>,
    /// The stream is paced to its share until then.
    paced_until: Option<Instant>,
}

impl PooledStream {
    fn of(stream: &DataStream, socket: TcpStream, role: SealingEnd) -> PooledStream {
        let base = *stream.base();
        let share = Arc::clone(stream.share());
        let path = path(role, &socket);
        let mut stream =
            PooledStream { socket, path, meter: Arc::clone(stream.meter()), base, share, paced_until: None };
        stream.pace_to_share();
        stream
    }

    /// Paces a kept stream to its share for its first round trips: its last job may have ended while its congestion control still searched
    /// for the rate, at about three times the path's, and it would continue at that rate.
    fn pace_to_share(&mut self) {
        let share = self.share.load(Ordering::Relaxed);
        if share > 0 && sys::tcp::set_pacing(&self.socket, share).is_ok() {
            self.paced_until = Some(Instant::now() + self.base.min_rtt * PACED_ROUNDS);
        }
    }

    /// Notes the stream's rate while a queue stands on its path.
    fn note_share(&self, tcp: &TcpInfo) {
        if tcp.rtt > tcp.min_rtt + (tcp.min_rtt / 8).max(QUEUE_MIN) {
            self.share.fetch_max(tcp.delivery_rate_bytes_s, Ordering::Relaxed);
        }
    }
}

/// The path of a socket; none where the socket is no longer connected.
pub(super) fn path(role: SealingEnd, socket: &TcpStream) -> Option<Path> {
    let plain = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
    let (local, peer) = (plain(socket.local_addr().ok()?), plain(socket.peer_addr().ok()?));
    Some(match role {
        SealingEnd::Client => Path { client: local.ip(), node: peer },
        SealingEnd::Node => Path { client: peer.ip(), node: local },
    })
}

/// The state that stream threads share.
struct PoolState {
    terms: StreamTerms,
    side: Arc<dyn Side>,
    streams: Mutex<HashMap<u32, PooledStream>>,
    timeouts: Timeouts,
    /// The job has ended: a stream that joins now is too late.
    over: AtomicBool,
    /// The job has succeeded, and its streams are kept.
    keep: AtomicBool,
    /// The number of streams whose connection is not answered yet: the end of the job does not wait for them.
    dialling: AtomicUsize,
    /// There are several paths: a cut one must be noticed soon.
    probes_paths: AtomicBool,
}

/// Counts a connection that is being dialled, until it is dropped.
struct Dialling(Arc<PoolState>);

impl Dialling {
    fn begin(shared: &Arc<PoolState>) -> Dialling {
        shared.dialling.fetch_add(1, Ordering::AcqRel);
        Dialling(Arc::clone(shared))
    }
}

impl Drop for Dialling {
    fn drop(&mut self) {
        self.0.dialling.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The streams of a job.
pub(super) struct StreamPool {
    pub side: Arc<dyn Side>,
    pub terms: StreamTerms,
    pub ends: Receiver<StreamEnd>,
    pub peer: String,
    pub timeouts: Timeouts,
    pub running: usize,
    shared: Arc<PoolState>,
    end_sender: Sender<StreamEnd>,
    waker: Waker,
}

impl PoolState {
    fn streams(&self) -> MutexGuard<'_, HashMap<u32, PooledStream>> {
        self.streams.lock()
    }

    /// Turns on keepalive probes at a receiver: it only reads, and would not notice a cut path otherwise.
    fn probe_path(&self, stream: u32) {
        if let Some(stream) = self.streams().get(&stream).filter(|_| !self.side.sends()) {
            let _ = sys::tcp::set_probes(&stream.socket, CUT_AFTER);
        }
    }

    /// Runs a stream for this job, on the stream's own thread.
    fn carry(&self, stream: DataStream) -> Result<StreamEnd> {
        let socket = stream.handle().map_err(|source| Error::Host { doing: "copy a socket", source })?;
        let _ = sys::tcp::set_user_timeout(&socket, self.timeouts.stall.max(self.terms.patience));
        let id = stream.id();
        self.streams().insert(id, PooledStream::of(&stream, socket, self.terms.role));
        if self.probes_paths.load(Ordering::Acquire) {
            self.probe_path(id);
        }
        // A stream whose thread begins when the job is over has carried nothing; it can be kept for the next job like the others.
        if self.over.load(Ordering::Acquire) && !self.keep.load(Ordering::Acquire) {
            return Err(Error::Interrupted);
        }
        let marker = self.terms.marker.as_ref().zip(stream.handle().ok());
        let marked = marker.map(|(marker, socket)| marker.begin(&socket, self.side.sends()));
        let mut end = self.side.run_stream(stream);
        drop(marked);
        end.stream = end.stream.and_then(|stream| self.keep_or_end(stream));
        let stream = self.streams().remove(&id);
        // A stream that failed at this end must fail at the other as well: the peer may be waiting for this end to read.
        if let (Err(_), Some(stream)) = (&end.result, stream) {
            let _ = stream.socket.shutdown(Shutdown::Both);
        }
        Ok(end)
    }

    /// Ends a stream, or keeps it for the next job where both ends can. The sender marks the end of the records on a stream that is kept.
    fn keep_or_end(&self, mut stream: DataStream) -> Option<DataStream> {
        let may_keep = self.keep.load(Ordering::Acquire) && stream.may_stay();
        let marked = may_keep && (!self.side.sends() || stream.mark().is_ok());
        if !marked {
            stream.finish();
        }
        marked.then_some(stream)
    }
}

impl StreamPool {
    pub(super) fn new(link: &Link, side: &Arc<dyn Side>, terms: StreamTerms) -> StreamPool {
        let (end_sender, ends) = channel();
        let peer = link.peer().to_owned();
        let timeouts = *link.timeouts();
        let shared = PoolState {
            terms: terms.clone(),
            side: Arc::clone(side),
            streams: Mutex::default(),
            timeouts,
            over: AtomicBool::new(false),
            keep: AtomicBool::new(false),
            dialling: AtomicUsize::new(0),
            probes_paths: AtomicBool::new(false),
        };
        let shared = Arc::new(shared);
        let waker = link.waker();
        StreamPool { side: Arc::clone(side), terms, ends, peer, timeouts, running: 0, shared, end_sender, waker }
    }

    /// Opens a stream with `open` and runs it, on a new thread.
    pub(super) fn start(&mut self, open: impl FnOnce(&StreamTerms) -> Result<DataStream> + Send + 'static, id: u32) {
        let shared = Arc::clone(&self.shared);
        let end_sender = self.end_sender.clone();
        let waker = self.waker.clone();
        self.running += 1;
        let run = move || {
            let end = open(&shared.terms).and_then(|stream| shared.carry(stream));
            let _ = end_sender.send(end.unwrap_or_else(|error| StreamEnd::failed(id, error)));
            waker.wake();
        };
        if let Err(source) = std::thread::Builder::new().name(format!("stream-{id}")).spawn(run) {
            // The receiver of this end counts the stream as ended.
            let _ = self.end_sender.send(StreamEnd::failed(id, Error::Host { doing: "start a thread", source }));
        }
    }

    /// Runs a stream that has joined.
    pub(super) fn join(&mut self, joined: Joined) {
        let peer = self.peer.clone();
        let id = joined.id;
        self.start(move |terms| Ok(terms.stream(joined.socket, id, &peer).with_permit(joined.permit)), id);
    }

    /// Runs a stream that was kept from the session's last job.
    pub(super) fn resume(&mut self, mut stream: DataStream) {
        let id = stream.id();
        stream.begin();
        self.start(move |_| Ok(stream), id);
    }

    /// Dials a stream after a pause. It joins `delegated_session`, or this session where that is none.
    pub(super) fn dial(&mut self, to: &Arc<dyn Dial>, delegated_session: Option<SessionId>, id: u32, after: Duration) {
        let to = Arc::clone(to);
        let timeouts = self.timeouts;
        let peer = self.peer.clone();
        let shared = Arc::clone(&self.shared);
        let dialling = Dialling::begin(&shared);
        let open = move |terms: &StreamTerms| {
            let other = delegated_session.map(|session| terms.delegated(session));
            let terms = other.as_ref().unwrap_or(terms);
            std::thread::sleep(after);
            let dialled = to.dial(&timeouts);
            drop(dialling);
            let socket = dialled.map_err(|source| Error::Connect { to: peer.clone(), source })?;
            // A join for a job that is over might be taken for the next one's.
            if shared.over.load(Ordering::Acquire) {
                return Err(Error::Interrupted);
            }
            let mut join = Join { session: terms.session, stream: id, sealed: terms.is_sealed(), code: [0; 32] };
            terms.secret.sign_join(&mut join);
            let sent = (&socket).write_all(&join.encode());
            sent.map_err(|source| Error::Broken { peer: peer.clone(), source })?;
            let mut stream = terms.stream(socket, id, &peer);
            if delegated_session.is_some() {
                stream.limit_to_one_job();
            }
            Ok(stream)
        };
        self.start(open, id);
    }

    /// Keeps the streams of a job that has succeeded. Must be called before the job's side is closed, which ends the streams.
    pub(super) fn keep(&self) {
        self.shared.keep.store(true, Ordering::Release);
    }

    /// Ends all streams and waits for their threads, within bounds.
    pub(super) fn shut_down(&mut self, job_facts: &mut JobFacts, keeps_streams: bool) {
        self.shared.over.store(true, Ordering::Release);
        // Everything has arrived, or nothing more will: no stream is waited for.
        if !keeps_streams {
            self.hang_up();
        }
        // Releases streams that wait until it is agreed how they are sealed; they find the job over.
        let _ = self.terms.suite.set(None);
        let patience = if keeps_streams { END_PATIENCE } else { self.timeouts.handshake };
        let deadline = Instant::now() + patience;
        while self.running > self.shared.dialling.load(Ordering::Acquire) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.hang_up();
            }
            let Ok(mut end) = self.ends.recv_timeout(left.max(TICK)) else {
                // A thread that is stuck in a file system is not waited for.
                if deadline.elapsed() > self.timeouts.handshake {
                    break;
                }
                continue;
            };
            self.running -= 1;
            job_facts.kept.extend(end.stream.take());
            // The job is over: how a stream ended no longer matters.
            let _ = job_facts.note_stream_end(end, &mut StageTimes::default());
        }
        job_facts.kept.sort_by_key(DataStream::id);
    }

    /// Turns on keepalive probes on all streams, now that there are several paths.
    pub(super) fn probe_paths(&self) {
        if !self.shared.probes_paths.swap(true, Ordering::AcqRel) {
            let streams: Vec<u32> = self.streams().keys().copied().collect();
            streams.into_iter().for_each(|stream| self.shared.probe_path(stream));
        }
    }

    /// Ends a stream whose path no longer carries data.
    pub(super) fn give_up(&self, stream: u32) {
        if let Some(stream) = self.streams().get(&stream) {
            let _ = stream.socket.shutdown(Shutdown::Both);
        }
    }

    /// The paths of the running streams.
    pub(super) fn paths(&self) -> HashMap<u32, Path> {
        self.streams().iter().filter_map(|(id, stream)| Some((*id, stream.path?))).collect()
    }

    /// Whether data has arrived on a running stream. A connection alone does not prove that the node is at its other end.
    pub(super) fn has_carried(&self, stream: u32) -> bool {
        if self.side.sends() {
            return self.side.has_carried(stream);
        }
        self.streams().get(&stream).is_some_and(|stream| {
            sys::tcp::info(&stream.socket).is_ok_and(|tcp| tcp.since(&stream.base).bytes_received > 0)
        })
    }

    fn hang_up(&self) {
        for stream in self.streams().values() {
            let _ = stream.socket.shutdown(Shutdown::Both);
        }
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<u32, PooledStream>> {
        self.shared.streams()
    }

    /// Samples of the running streams, in the order of their numbers.
    pub(super) fn samples(&self) -> Vec<Sample> {
        let sample = |(id, stream): (&u32, &PooledStream)| {
            let tcp = sys::tcp::info(&stream.socket).unwrap_or_default();
            stream.note_share(&tcp);
            Sample {
                stream: *id,
                tcp: tcp.since(&stream.base),
                congestion: sys::tcp::congestion(&stream.socket),
                spent: stream.meter.read(),
                unread_bytes: sys::tcp::unread_bytes(&stream.socket),
            }
        };
        let mut samples: Vec<Sample> = self.streams().iter().map(sample).collect();
        samples.sort_by_key(|sample| sample.stream);
        samples
    }

    /// Stops pacing the streams that have been paced to their share for long enough.
    pub(super) fn stop_pacing(&self) {
        let now = Instant::now();
        for stream in self.streams().values_mut().filter(|stream| stream.paced_until.is_some_and(|until| until <= now))
        {
            stream.paced_until = None;
            let _ = sys::tcp::set_pacing(&stream.socket, u64::MAX);
        }
    }

    /// Caps the rate at which the kernel sends on a stream; none for no cap.
    pub(super) fn pace(&self, stream: u32, bytes_s: Option<u64>) {
        if let Some(stream) = self.streams().get_mut(&stream) {
            stream.paced_until = None;
            // A kernel that cannot pace sends in bursts, at the same rate.
            let _ = sys::tcp::set_pacing(&stream.socket, bytes_s.unwrap_or(u64::MAX));
        }
    }

    /// Bounds the unsent bytes in a stream's socket.
    pub(super) fn bound_unsent(&self, stream: u32, bytes: u32) {
        if let Some(stream) = self.streams().get(&stream) {
            let _ = sys::tcp::set_unsent_limit(&stream.socket, bytes);
        }
    }

    /// Restarts a stream's congestion control: the kernel does so when the algorithm is changed, and changed back.
    pub(super) fn refresh(&self, stream: u32) {
        if let Some(PooledStream { socket, .. }) = self.streams().get(&stream) {
            let name = sys::tcp::congestion(socket);
            // Every kernel has Reno, and allows it.
            if sys::tcp::set_congestion(socket, "reno").is_ok() {
                let _ = sys::tcp::set_congestion(socket, &name);
            }
        }
    }

    /// Sets a stream's congestion control. Returns whether the host permits it.
    pub(super) fn set_congestion(&self, stream: u32, name: &str) -> bool {
        self.streams().get(&stream).is_none_or(|stream| sys::tcp::set_congestion(&stream.socket, name).is_ok())
    }
}
