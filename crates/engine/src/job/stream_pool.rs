//! A job's streams and their threads: starts them, takes samples of them, and keeps them for the next job or hangs up.

use std::collections::HashMap;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use model::account::Spent;
use model::tcp::TcpInfo;
use parking_lot::{Mutex, MutexGuard};
use pilot::Sample;
use pilot::path_set::Path;
use sys::waker::Waker;
use wire::join::{Join, SessionId};

use super::{Driven, StreamTerms, TICK};
use crate::dial::Dial;
use crate::error::{Error, Result};
use crate::link::Link;
use crate::meter::Meter;
use crate::seal::SealingEnd;
use crate::side::{Side, StreamEnd};
use crate::stream::{DataStream, Joined};
use crate::timeouts::Timeouts;

/// How long streams that stay are waited for: the sender's word that its records end is a round trip away.
const PARTING: Duration = Duration::from_secs(5);
/// Round trips for which a stream that stayed is held to its share of the path: as long as BBR takes to see that there
/// is no more to be had.
const HELD_ROUNDS: u32 = 4;
/// How soon a receiver gives up a path that is cut, where there are several paths.
const SILENT: Duration = Duration::from_secs(4);
/// The delay of a queue that counts as one.
const QUEUE_MIN: Duration = Duration::from_millis(3);

/// A running stream, seen from outside its thread.
struct PooledStream {
    socket: TcpStream,
    path: Option<Path>,
    meter: Arc<Meter>,
    /// What the kernel had counted before this job.
    base: TcpInfo,
    share: Arc<AtomicU64>,
    /// Until when the stream is held to its share.
    held: Option<Instant>,
}

impl PooledStream {
    fn of(stream: &DataStream, socket: TcpStream, role: SealingEnd) -> PooledStream {
        let (base, share) = (*stream.base(), Arc::clone(stream.share()));
        let path = path(role, &socket);
        let mut stream = PooledStream { socket, path, meter: Arc::clone(stream.meter()), base, share, held: None };
        stream.hold();
        stream
    }

    /// A stream that stayed is held to its share for its first round trips: its congestion control may have been left
    /// while it still looked for the rate, at some three times what the path gives, and would go on like that.
    fn hold(&mut self) {
        let share = self.share.load(Ordering::Relaxed);
        if share > 0 && sys::tcp::set_pacing(&self.socket, share).is_ok() {
            self.held = Some(Instant::now() + self.base.min_rtt * HELD_ROUNDS);
        }
    }

    /// Notes what the stream is given while a queue stands.
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

/// What stream threads share.
struct Common {
    terms: StreamTerms,
    side: Arc<dyn Side>,
    streams: Mutex<HashMap<u32, PooledStream>>,
    timeouts: Timeouts,
    /// The job has ended: a stream that joins now is too late.
    over: AtomicBool,
    /// It ended in peace, and its streams stay.
    keep: AtomicBool,
    /// Streams whose connection is not answered yet: the end of the job does not wait for them.
    dialling: AtomicUsize,
    /// There are several paths: a cut one must be noticed soon.
    watches: AtomicBool,
}

/// A connection on its way, counted however it ends.
struct Dialling(Arc<Common>);

impl Dialling {
    fn begin(common: &Arc<Common>) -> Dialling {
        common.dialling.fetch_add(1, Ordering::AcqRel);
        Dialling(Arc::clone(common))
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
    common: Arc<Common>,
    ended: Sender<StreamEnd>,
    waker: Waker,
}

impl Common {
    fn streams(&self) -> MutexGuard<'_, HashMap<u32, PooledStream>> {
        self.streams.lock()
    }

    /// Turns on keepalive probes at a receiver: it only reads, and would not notice a cut path otherwise.
    fn watch(&self, stream: u32) {
        if let Some(stream) = self.streams().get(&stream).filter(|_| !self.side.sends()) {
            let _ = sys::tcp::set_probes(&stream.socket, SILENT);
        }
    }

    /// Runs a stream for this job, on the stream's own thread.
    fn carry(&self, stream: DataStream) -> Result<StreamEnd> {
        let socket = stream.handle().map_err(|source| Error::Host { doing: "copy a socket", source })?;
        let _ = sys::tcp::set_patience(&socket, self.timeouts.stall.max(self.terms.patience));
        let id = stream.id();
        self.streams().insert(id, PooledStream::of(&stream, socket, self.terms.role));
        if self.watches.load(Ordering::Acquire) {
            self.watch(id);
        }
        // One whose thread begins when the job is over has carried nothing, and is as good for the next job as the others.
        if self.over.load(Ordering::Acquire) && !self.keep.load(Ordering::Acquire) {
            return Err(Error::Interrupted);
        }
        let mut end = self.side.run_stream(stream);
        end.stream = end.stream.and_then(|stream| self.part(stream));
        let stream = self.streams().remove(&id);
        // A stream that failed at this end must fail at the other as well: its peer may be waiting for us to read.
        if let (Err(_), Some(stream)) = (&end.result, stream) {
            let _ = stream.socket.shutdown(Shutdown::Both);
        }
        Ok(end)
    }

    /// Ends a stream that could stay for the next job. If it stays, the sender marks the end of its records.
    fn part(&self, mut stream: DataStream) -> Option<DataStream> {
        let stays = self.keep.load(Ordering::Acquire) && stream.may_stay();
        let marked = stays && (!self.side.sends() || stream.mark().is_ok());
        if !marked {
            stream.finish();
        }
        marked.then_some(stream)
    }
}

impl StreamPool {
    pub(super) fn new(link: &Link, side: &Arc<dyn Side>, terms: StreamTerms) -> StreamPool {
        let (ended, ends) = channel();
        let (peer, timeouts) = (link.peer().to_owned(), *link.timeouts());
        let common = Common {
            terms: terms.clone(),
            side: Arc::clone(side),
            streams: Mutex::default(),
            timeouts,
            over: AtomicBool::new(false),
            keep: AtomicBool::new(false),
            dialling: AtomicUsize::new(0),
            watches: AtomicBool::new(false),
        };
        let (common, waker) = (Arc::new(common), link.waker());
        StreamPool { side: Arc::clone(side), terms, ends, peer, timeouts, running: 0, common, ended, waker }
    }

    /// Runs a stream that `open` brings, on a thread of its own.
    pub(super) fn start(&mut self, open: impl FnOnce(&StreamTerms) -> Result<DataStream> + Send + 'static, id: u32) {
        let (common, ended, waker) = (Arc::clone(&self.common), self.ended.clone(), self.waker.clone());
        self.running += 1;
        let run = move || {
            let end = open(&common.terms).and_then(|stream| common.carry(stream));
            let _ = ended.send(end.unwrap_or_else(|error| StreamEnd::failed(id, error)));
            waker.wake();
        };
        if let Err(source) = std::thread::Builder::new().name(format!("stream-{id}")).spawn(run) {
            // Whoever receives this end counts down.
            let _ = self.ended.send(StreamEnd::failed(id, Error::Host { doing: "start a thread", source }));
        }
    }

    /// A stream that has joined.
    pub(super) fn join(&mut self, joined: Joined) {
        let (peer, id) = (self.peer.clone(), joined.id);
        self.start(move |terms| Ok(terms.stream(joined.socket, id, &peer).holding(joined.place)), id);
    }

    /// A stream that stayed of the session's last job.
    pub(super) fn resume(&mut self, mut stream: DataStream) {
        let id = stream.id();
        stream.begin();
        self.start(move |_| Ok(stream), id);
    }

    /// Dials a stream after a pause. It joins the delegated session `lent`, or this one where there is none.
    pub(super) fn dial(&mut self, to: &Arc<dyn Dial>, lent: Option<SessionId>, id: u32, after: Duration) {
        let to = Arc::clone(to);
        let (timeouts, peer, common) = (self.timeouts, self.peer.clone(), Arc::clone(&self.common));
        let dialling = Dialling::begin(&common);
        let open = move |terms: &StreamTerms| {
            let other = lent.map(|session| terms.lent(session));
            let terms = other.as_ref().unwrap_or(terms);
            std::thread::sleep(after);
            let dialled = to.dial(&timeouts);
            drop(dialling);
            let socket = dialled.map_err(|source| Error::Connect { to: peer.clone(), source })?;
            // A join for a job that is over might be taken for the next one's.
            if common.over.load(Ordering::Acquire) {
                return Err(Error::Interrupted);
            }
            let mut join = Join { session: terms.session, stream: id, sealed: terms.is_sealed(), code: [0; 32] };
            terms.secret.sign_join(&mut join);
            let sent = (&socket).write_all(&join.encode());
            sent.map_err(|source| Error::Broken { peer: peer.clone(), source })?;
            let mut stream = terms.stream(socket, id, &peer);
            if lent.is_some() {
                stream.is_for_one_job();
            }
            Ok(stream)
        };
        self.start(open, id);
    }

    /// The job ended in peace, and its streams stay. Said before its side is closed: that is what ends them.
    pub(super) fn keep(&self) {
        self.common.keep.store(true, Ordering::Release);
    }

    /// Ends all streams and waits for their threads, within bounds.
    pub(super) fn disband(&mut self, driven: &mut Driven, stays: bool) {
        self.common.over.store(true, Ordering::Release);
        // Everything has arrived, or nothing more will: no stream is waited for, least of all one that was dialled to
        // replace another and finds the job over.
        if !stays {
            self.hang_up();
        }
        // A stream that waits to hear how it is sealed finds the job over.
        let _ = self.terms.suite.set(None);
        let patience = if stays { PARTING } else { self.timeouts.handshake };
        let deadline = Instant::now() + patience;
        while self.running > self.common.dialling.load(Ordering::Acquire) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.hang_up();
            }
            let Ok(mut end) = self.ends.recv_timeout(left.max(TICK)) else {
                // A thread that hangs in a file system is left to it.
                if deadline.elapsed() > self.timeouts.handshake {
                    break;
                }
                continue;
            };
            self.running -= 1;
            driven.kept.extend(end.stream.take());
            // The job is over: how a stream ended no longer matters.
            let _ = driven.note(end, &mut Spent::default());
        }
        driven.kept.sort_by_key(DataStream::id);
    }

    /// Watches all streams for cut paths, now that there are several.
    pub(super) fn watch_paths(&self) {
        if !self.common.watches.swap(true, Ordering::AcqRel) {
            let streams: Vec<u32> = self.streams().keys().copied().collect();
            streams.into_iter().for_each(|stream| self.common.watch(stream));
        }
    }

    /// Ends a stream whose path no longer carries anything.
    pub(super) fn give_up(&self, stream: u32) {
        if let Some(stream) = self.streams().get(&stream) {
            let _ = stream.socket.shutdown(Shutdown::Both);
        }
    }

    /// The paths of the running streams.
    pub(super) fn paths(&self) -> HashMap<u32, Path> {
        self.streams().iter().filter_map(|(id, stream)| Some((*id, stream.path?))).collect()
    }

    /// Whether something arrived by a running stream. A connection alone does not prove that the node is at its other end.
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
        self.common.streams()
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

    /// Lets go of streams that were held to their share for long enough.
    pub(super) fn release(&self) {
        let now = Instant::now();
        for stream in self.streams().values_mut().filter(|stream| stream.held.is_some_and(|until| until <= now)) {
            stream.held = None;
            let _ = sys::tcp::set_pacing(&stream.socket, u64::MAX);
        }
    }

    /// Caps the rate at which the kernel sends on a stream; none for no cap.
    pub(super) fn pace(&self, stream: u32, bytes_s: Option<u64>) {
        if let Some(stream) = self.streams().get_mut(&stream) {
            stream.held = None;
            // A kernel that cannot pace sends in bursts, at the same rate.
            let _ = sys::tcp::set_pacing(&stream.socket, bytes_s.unwrap_or(u64::MAX));
        }
    }

    /// Bounds what waits unsent in a stream's socket.
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
