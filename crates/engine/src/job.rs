//! Driving a job: one thread carries messages between the control connection and a side's machine, opens or accepts
//! streams, replaces lost ones, and notices when nothing moves any more.

mod gauge;
mod reins;
mod supply;

use std::collections::HashMap;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use model::account::{Account, Spent};
use model::spec::Steer;
use model::v1;
use sys::waker::Waker;
use wire::frame::{Plan, Suite};
use wire::join::{Join, SessionId};
use wire::sender::Progress;
use wire::{Frame, WireError};

pub use gauge::permitted;

use gauge::Gauge;
use reins::Reins;
use supply::Supply;

use crate::commons::Commons;
use crate::control::Control;
use crate::dial::Dial;
use crate::error::{Error, Result};
use crate::link::Link;
use crate::meter::Meter;
use crate::pilot::{self, Past, Permitted, Sight};
use crate::seal::{self, Sealer, Secret};
use crate::series::Series;
use crate::stream::DataStream;
use crate::timeouts::Timeouts;

/// How a stream ended.
#[derive(Debug)]
pub struct StreamEnd {
    /// The kernel's facts about it.
    pub facts: v1::Stream,
    /// Where its thread's time went.
    pub spent: Spent,
    /// Whether it ended in peace.
    pub result: Result<()>,
}

/// One side of a job: a machine and the threads around it.
pub trait Side: Send + Sync + 'static {
    /// A message from the other side.
    fn handle(&self, frame: Frame) -> std::result::Result<(), WireError>;
    /// The next message for the other side.
    fn poll_frame(&self) -> Option<Frame>;
    /// Does what the control thread owes the machine.
    fn pump(&self) -> Result<()>;
    /// Some time has passed.
    fn tick(&self);
    /// The limit, streams and pause are now these.
    fn steer(&self, to: &Steer);
    /// Whether this side sends.
    fn sends(&self) -> bool;
    /// Streams beyond so many are to end once all that they carried has arrived.
    fn keep_streams(&self, most: u32);
    /// Why nothing moves for a while; empty when it does.
    fn busy(&self) -> String {
        String::new()
    }
    /// Steps of a dry run, for the client, that nobody has been told of.
    fn take_plans(&self) -> Vec<Plan> {
        Vec::new()
    }
    /// Whether streams are worth opening.
    fn wants_streams(&self) -> bool;
    /// Whether the job is done.
    fn is_finished(&self) -> bool;
    /// Numbers for progress.
    fn progress(&self) -> Progress;
    /// Why the job cannot go on, if so.
    fn take_failure(&self) -> Option<Error>;
    /// Sends all waiting threads home.
    fn close(&self);
    /// A stream's thread, from its join to its end.
    fn run_stream(&self, stream: DataStream) -> StreamEnd;
}

/// How streams are protected and paced, agreed for the session and the job.
#[derive(Clone, Debug)]
pub struct StreamTerms {
    /// The session.
    pub session: SessionId,
    /// Its secret.
    pub secret: Secret,
    /// Who we are in it.
    pub role: seal::From,
    /// How records are sealed, none for plain: once that is agreed.
    pub suite: Arc<OnceLock<Option<Suite>>>,
    /// Payload in clear was asked for.
    pub plain: bool,
    /// Congestion controls that this host permits, and the one asked for.
    pub permitted: Permitted,
    /// What an earlier job found on this path.
    pub past: Option<Past>,
    /// Where the job's course is written down.
    pub series: Option<Series>,
    /// The other jobs of this node, and the address of this one's other end.
    pub commons: Option<(Commons, IpAddr)>,
    /// How long a stream may stand still: a receiver that waits for space shuts its window.
    pub patience: Duration,
}

impl StreamTerms {
    /// The congestion control that a new stream should have, if not the one it has.
    fn congestion(&self, socket: &TcpStream) -> Option<String> {
        if let Some(name) = &self.permitted.forced {
            return Some(name.clone());
        }
        let rtt = sys::tcp::info(socket).ok()?.rtt;
        let loss = self.past.map_or(0.0, |past| past.loss);
        pilot::wanted(rtt, loss, &sys::tcp::congestion(socket)).and_then(|kind| pilot::choose(kind, &self.permitted))
    }

    /// Whether streams are sealed. Before the other end has said what holds, they are: else it was waited for.
    fn is_sealed(&self) -> bool {
        self.suite.get().is_none_or(Option::is_some)
    }

    /// A stream over a joined socket. Waits until it is agreed how streams are sealed.
    pub fn stream(&self, socket: TcpStream, id: u32, peer: &str) -> DataStream {
        if let Some(name) = self.congestion(&socket) {
            // A name that this host does not have or allow is named in the receipt by the one in force.
            let _ = sys::tcp::set_congestion(&socket, &name);
        }
        let sealers = self.suite.wait().map(|suite| {
            let sealer = |from| Sealer::new(self.secret.clone(), suite, id, from);
            (sealer(self.role), sealer(self.role.other()))
        });
        DataStream::new(socket, id, peer.to_owned(), sealers)
    }
}

/// Where a job's streams come from.
pub enum Streams<'a> {
    /// We dial them.
    Dial {
        /// The node.
        to: Arc<dyn Dial>,
        /// How many to begin with, where the job's settings do not say.
        count: u32,
        /// Streams opened in this session so far: numbers are never used twice.
        opened: &'a mut u32,
    },
    /// They come to us.
    Accept(&'a Receiver<(TcpStream, u32)>),
}

/// How a job went, for the receipt.
#[derive(Debug, Default)]
pub struct Driven {
    /// Facts about each stream of this end.
    pub streams: Vec<v1::Stream>,
    /// This end in numbers, at the end.
    pub account: Account,
    /// The other end as it described itself last.
    pub peer: Option<Account>,
    /// What the next job on this path should know.
    pub past: Option<Past>,
    /// Messages that came after the job's own.
    pub facts: Vec<v1::Stream>,
    /// When the tree was known in full.
    pub scanned_after: Option<Duration>,
    /// When the last byte had arrived.
    pub arrived_after: Option<Duration>,
}

/// What a job tells its caller while it runs.
pub enum News<'a> {
    /// Its numbers, about ten times a second.
    Progress(&'a Progress),
    /// A step of a dry run.
    Plan(&'a Plan),
}

/// Hears of it.
pub type Watch<'a> = &'a mut dyn FnMut(News<'_>);

const TICK: Duration = Duration::from_millis(100);

/// A running stream, seen from outside its thread.
struct Carrier {
    socket: TcpStream,
    meter: Arc<Meter>,
}

struct Crew {
    side: Arc<dyn Side>,
    terms: Arc<StreamTerms>,
    ended: Sender<StreamEnd>,
    ends: Receiver<StreamEnd>,
    carriers: Arc<Mutex<HashMap<u32, Carrier>>>,
    waker: Waker,
    peer: String,
    timeouts: Timeouts,
    running: usize,
    /// The job has ended: a stream that comes now comes too late.
    over: Arc<AtomicBool>,
}

impl Crew {
    fn start(&mut self, open: impl FnOnce(&StreamTerms) -> Result<(TcpStream, u32)> + Send + 'static, id: u32) {
        let (side, terms, ended) = (Arc::clone(&self.side), Arc::clone(&self.terms), self.ended.clone());
        let (carriers, waker, peer) = (Arc::clone(&self.carriers), self.waker.clone(), self.peer.clone());
        let (timeouts, over) = (self.timeouts, Arc::clone(&self.over));
        self.running += 1;
        let run = move || {
            let end = open(&terms).and_then(|(socket, id)| {
                let _ = sys::tcp::set_patience(&socket, timeouts.stall.max(terms.patience));
                let stream = terms.stream(socket, id, &peer);
                let socket = stream.handle().map_err(|source| Error::Host { doing: "copy a socket", source })?;
                let carrier = Carrier { socket, meter: Arc::clone(stream.meter()) };
                carriers.lock().unwrap_or_else(PoisonError::into_inner).insert(id, carrier);
                if over.load(Ordering::Acquire) {
                    return Err(Error::Interrupted);
                }
                let end = side.run_stream(stream);
                let carrier = carriers.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
                // A stream that failed here must fail there as well: its peer may be waiting for us to read.
                if let (Err(_), Some(carrier)) = (&end.result, carrier) {
                    let _ = carrier.socket.shutdown(Shutdown::Both);
                }
                Ok(end)
            });
            let failed = |error| StreamEnd {
                facts: v1::Stream { id, ..v1::Stream::default() },
                spent: Spent::default(),
                result: Err(error),
            };
            let _ = ended.send(end.unwrap_or_else(failed));
            waker.wake();
        };
        if let Err(source) = std::thread::Builder::new().name(format!("stream-{id}")).spawn(run) {
            // Counted down where its end is heard.
            let result = Err(Error::Host { doing: "start a thread", source });
            let facts = v1::Stream { id, ..v1::Stream::default() };
            let _ = self.ended.send(StreamEnd { facts, spent: Spent::default(), result });
        }
    }

    fn dial(&mut self, to: &Arc<dyn Dial>, id: u32, after: Duration) {
        let to = Arc::clone(to);
        let (timeouts, peer) = (self.timeouts, self.peer.clone());
        let open = move |terms: &StreamTerms| {
            std::thread::sleep(after);
            let connect = |source| Error::Connect { to: peer.clone(), source };
            let socket = to.dial(&timeouts).map_err(connect)?;
            let mut join = Join { session: terms.session, stream: id, sealed: terms.is_sealed(), code: [0; 32] };
            terms.secret.sign_join(&mut join);
            let sent = std::io::Write::write_all(&mut &socket, &join.encode());
            sent.map_err(|source| Error::Broken { peer: peer.clone(), source })?;
            Ok((socket, id))
        };
        self.start(open, id);
    }

    fn hang_up(&self) {
        self.over.store(true, Ordering::Release);
        for carrier in self.carriers().values() {
            let _ = carrier.socket.shutdown(Shutdown::Both);
        }
    }

    fn carriers(&self) -> MutexGuard<'_, HashMap<u32, Carrier>> {
        self.carriers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be seen of the running streams, in the order of their numbers.
    fn sights(&self) -> Vec<Sight> {
        let sight = |(id, carrier): (&u32, &Carrier)| Sight {
            stream: *id,
            tcp: sys::tcp::info(&carrier.socket).unwrap_or_default(),
            congestion: sys::tcp::congestion(&carrier.socket),
            spent: carrier.meter.read(),
            unread_bytes: sys::tcp::unread_bytes(&carrier.socket),
        };
        let mut sights: Vec<Sight> = self.carriers().iter().map(sight).collect();
        sights.sort_by_key(|sight| sight.stream);
        sights
    }

    /// Caps the rate at which the kernel sends on a stream; none for no cap.
    fn pace(&self, stream: u32, bytes_s: Option<u64>) {
        if let Some(carrier) = self.carriers().get(&stream) {
            // A kernel that cannot pace sends in bursts, at the same rate.
            let _ = sys::tcp::set_pacing(&carrier.socket, bytes_s.unwrap_or(u64::MAX));
        }
    }

    /// Bounds what waits unsent in a stream's socket.
    fn bound_unsent(&self, stream: u32, bytes: u32) {
        if let Some(carrier) = self.carriers().get(&stream) {
            let _ = sys::tcp::set_unsent_limit(&carrier.socket, bytes);
        }
    }

    /// Makes a stream's congestion control begin anew: the kernel does so when it is changed, and changed back.
    fn refresh(&self, stream: u32) {
        if let Some(Carrier { socket, .. }) = self.carriers().get(&stream) {
            let name = sys::tcp::congestion(socket);
            // Reno is there, and allowed, on every kernel.
            if sys::tcp::set_congestion(socket, "reno").is_ok() {
                let _ = sys::tcp::set_congestion(socket, &name);
            }
        }
    }

    /// Whether the host let a stream have this congestion control.
    fn set_congestion(&self, stream: u32, name: &str) -> bool {
        self.carriers().get(&stream).is_none_or(|carrier| sys::tcp::set_congestion(&carrier.socket, name).is_ok())
    }
}

/// Carries one job to its end, good or bad, and says how far it got. The side's threads are gone when this returns.
pub fn drive(
    link: &mut Link,
    side: &Arc<dyn Side>,
    terms: StreamTerms,
    mut streams: Streams<'_>,
    control: &Control,
    watch: Watch<'_>,
) -> (Driven, Result<()>) {
    let (ended, ends) = channel();
    let mut crew = Crew {
        side: Arc::clone(side),
        terms: Arc::new(terms),
        ended,
        ends,
        carriers: Arc::default(),
        waker: link.waker(),
        peer: link.peer().to_owned(),
        timeouts: *link.timeouts(),
        running: 0,
        over: Arc::default(),
    };
    let mut driven = Driven::default();
    control.attach(link.waker());
    let mut gauge = Gauge::new(&crew.terms, &**side);
    let result = run(link, &mut crew, &mut streams, control, watch, &mut driven, &mut gauge);
    driven.account = gauge.account(&crew.sights());
    driven.past = gauge.past();
    driven.peer = gauge.peer.take().map(|peer| *peer);
    control.saw(&side.progress(), crew.running as u32);
    side.close();
    if result.is_ok() {
        // The last message is what sends the other side's threads home.
        link.drain(crew.timeouts.handshake);
    }
    // Everything has arrived, or nothing more will: no stream is waited for, least of all one that was dialled to
    // replace another and finds the job over.
    crew.hang_up();
    // A stream that waits to hear how it is sealed finds the job over.
    let _ = crew.terms.suite.set(None);
    let deadline = Instant::now() + crew.timeouts.handshake;
    while crew.running > 0 {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            crew.hang_up();
        }
        let Ok(end) = crew.ends.recv_timeout(left.max(TICK)) else {
            // A thread that hangs in a file system is left to it.
            if deadline.elapsed() > crew.timeouts.handshake {
                break;
            }
            continue;
        };
        crew.running -= 1;
        // The job is over: how a stream ended no longer matters.
        let _ = driven.note(end, &mut Spent::default());
    }
    driven.streams.sort_by_key(|s| s.id);
    (driven, result)
}

impl Driven {
    fn note(&mut self, end: StreamEnd, ended: &mut Spent) -> Result<()> {
        if end.facts.bytes > 0 || end.result.is_ok() {
            self.streams.push(end.facts);
        }
        ended.add(&end.spent);
        end.result
    }
}

fn run(
    link: &mut Link,
    crew: &mut Crew,
    streams: &mut Streams<'_>,
    control: &Control,
    watch: Watch<'_>,
    driven: &mut Driven,
    gauge: &mut Gauge,
) -> Result<()> {
    let side = Arc::clone(&crew.side);
    let started = Instant::now();
    let mut ticked = started;
    let mut supply = Supply::default();
    let mut reins = Reins::new(control);
    let mut stall = Stall::new(started);
    loop {
        if control.is_cancelled() {
            return Err(Error::Interrupted);
        }
        reins.tend(link, &*side)?;
        side.pump()?;
        while link.has_room() {
            let Some(frame) = side.poll_frame() else { break };
            if matches!(frame, Frame::Finished(_)) {
                // Nothing is heard after this.
                link.send(&Frame::Account(Box::new(gauge.account(&crew.sights()))))?;
            }
            link.send(&frame)?;
        }
        side.take_plans().iter().for_each(|plan| watch(News::Plan(plan)));
        if let Some(error) = side.take_failure() {
            return Err(error);
        }
        if side.is_finished() {
            return Ok(());
        }
        supply.tend(link, crew, streams, (reins.applied.streams, gauge), driven)?;
        if ticked.elapsed() >= TICK {
            ticked = Instant::now();
            side.tick();
            let progress = side.progress();
            watch(News::Progress(&progress));
            control.saw(&progress, crew.running as u32);
            driven.note_progress(&progress, started.elapsed());
            let waits = reins.say_busy(link, &*side)?;
            stall.check(&progress, waits, link)?;
            gauge.tick(link, crew, &reins)?;
        }
        link.exchange(TICK.saturating_sub(ticked.elapsed()))?;
        while let Some(frame) = link.next_frame()? {
            match frame {
                Frame::Steer(to) => control.adopt(to),
                Frame::Account(of) => gauge.peer = Some(of),
                Frame::Busy(why) => reins.peer_busy = Some((why, Instant::now())),
                frame => {
                    let handled = side.handle(frame);
                    handled.map_err(|source| Error::Protocol { peer: link.peer().to_owned(), source })?;
                }
            }
        }
    }
}

impl Driven {
    fn note_progress(&mut self, progress: &Progress, elapsed: Duration) {
        if progress.scanned && self.scanned_after.is_none() {
            self.scanned_after = Some(elapsed);
        }
        if progress.scanned && progress.bytes_arrived >= progress.bytes_offered && self.arrived_after.is_none() {
            self.arrived_after = Some(elapsed);
        }
    }
}

/// Notices that nothing moves though everybody is still there.
struct Stall {
    last: Progress,
    since: Instant,
}

impl Stall {
    fn new(now: Instant) -> Stall {
        Stall { last: Progress::default(), since: now }
    }

    fn check(&mut self, progress: &Progress, waits: bool, link: &Link) -> Result<()> {
        if waits || *progress != self.last {
            self.last = *progress;
            self.since = Instant::now();
        } else if self.since.elapsed() > link.timeouts().stall {
            return Err(Error::Stalled { peer: link.peer().to_owned(), seconds: link.timeouts().stall.as_secs() });
        }
        Ok(())
    }
}
