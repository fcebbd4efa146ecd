//! Drives a job: one thread carries messages between the control connection and a side's machine, opens or accepts
//! streams, replaces lost ones, and notices when nothing moves any more.

mod mover_coordination;
mod paths;
mod sampler;
mod stall;
mod steering;
mod stream_pool;
mod stream_supervisor;

use std::net::{IpAddr, TcpStream};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use model::account::{Account, StageTimes, TargetWaits};
use model::name::RelPath;
use model::spec::LiveSettings;
use model::{Progress, v1};
use pilot::{Evidence, Known, PathHistory, Permitted};
use wire::frame::{Counts, Open, Plan, Removal, Suite};
use wire::join::SessionId;
use wire::{Frame, SettledFile};

pub use sampler::permitted;

use mover_coordination::MoverCoordination;
use sampler::Sampler;
use stall::{Silence, Stall};
use steering::Steering;
use stream_pool::StreamPool;
use stream_supervisor::StreamSupervisor;

use crate::control::Control;
use crate::dial::{Dial, Guard};
use crate::error::{Error, Result};
use crate::history::History;
use crate::link::Link;
use crate::movers::ConfiguredMovers;
use crate::path_shares::PathShares;
use crate::seal::{self, Sealer, Secret};
use crate::series::Series;
use crate::side::{Side, StreamEnd};
use crate::stream::{DataStream, Joined, StreamMarker};

/// Which other processes carry streams of a job.
#[derive(Clone, Debug, Default)]
pub enum StreamHelpers {
    /// None.
    #[default]
    None,
    /// Movers of this node, which are given the job's order.
    Movers(Arc<ConfiguredMovers>, Arc<Open>),
    /// This process is the mover: the session is delegated by another node, and carries some of that node's streams.
    Delegated,
}

/// How streams are protected and paced, agreed for the session and the job.
#[derive(Clone, Debug)]
pub struct StreamTerms {
    /// The session.
    pub session: SessionId,
    /// Its secret.
    pub secret: Secret,
    /// The end of the session that this is.
    pub role: seal::SealingEnd,
    /// How records are sealed, once that is agreed; none for payload in clear.
    pub suite: Arc<OnceLock<Option<Suite>>>,
    /// Payload in clear was asked for.
    pub plain: bool,
    /// Congestion controls that this host permits, and the one asked for.
    pub permitted: Permitted,
    /// What an earlier job found on the path of the control connection.
    pub past: Option<PathHistory>,
    /// The history of other paths.
    pub history: Option<History>,
    /// Where the job's numbers over time are written.
    pub series: Option<Series>,
    /// The shares of paths among this node's jobs, and the address of this job's other end.
    pub path_shares: Option<(PathShares, IpAddr)>,
    /// The limit, streams and pause of the job's order, which the other end applies until they are changed.
    pub ordered: LiveSettings,
    /// How long a stream may be unable to send: a receiver that waits for space closes its window.
    pub patience: Duration,
    /// Streams are kept for the session's next job, where the other end agrees and this job succeeds.
    pub keep: bool,
    /// Which other processes carry streams of the job.
    pub help: StreamHelpers,
    /// Is told of each stream of the job.
    pub marker: Option<Arc<dyn StreamMarker>>,
}

impl StreamTerms {
    /// The facts that the pilot has before the first byte.
    pub(crate) fn known(&self) -> Known {
        Known {
            permitted: self.permitted.clone(),
            processors: sys::limits::processors() as u32,
            send_buffer_bytes: sys::tcp::buffers_max().1,
            past: self.past,
        }
    }

    /// The congestion control that a new stream should have, if not the one it has.
    fn congestion(&self, socket: &TcpStream) -> Option<String> {
        if let Some(name) = &self.permitted.forced {
            return Some(name.clone());
        }
        let tcp = sys::tcp::info(socket).ok()?;
        let past = self.past.unwrap_or_default();
        let each_bytes_s = past.capacity_bytes_s as f64 / f64::from(past.streams.max(1));
        let path = Evidence { rtt: tcp.rtt, loss: past.loss, each_bytes_s, mss_bytes: tcp.mss_bytes };
        pilot::wanted(&path, &sys::tcp::congestion(socket)).and_then(|kind| pilot::choose(kind, &self.permitted))
    }

    /// The terms of streams that join a session delegated by this one.
    fn delegated(&self, session: SessionId) -> StreamTerms {
        StreamTerms { session, secret: self.secret.delegated(&session), ..self.clone() }
    }

    /// Whether streams are sealed. They are until the other end has answered; a client that wants payload in clear waits for the answer.
    fn is_sealed(&self) -> bool {
        self.suite.get().is_none_or(Option::is_some)
    }

    /// A stream over a joined socket. Waits until it is agreed how streams are sealed.
    pub fn stream(&self, socket: TcpStream, id: u32, peer: &str) -> DataStream {
        if let Some(name) = self.congestion(&socket) {
            // Where this host lacks or forbids the congestion control, the receipt names the one in force.
            let _ = sys::tcp::set_congestion(&socket, &name);
        }
        let sealers = self.suite.wait().map(|suite| {
            let sealer = |from| Sealer::new(self.secret.clone(), suite, id, from);
            (sealer(self.role), sealer(self.role.other()))
        });
        DataStream::new(socket, id, peer.to_owned(), sealers)
    }
}

/// Whether streams may go to further addresses of the node than the control connection's.
#[derive(Clone)]
pub enum ExtraPaths {
    /// All streams take the path of the control connection.
    None,
    /// Streams may go to the addresses that the guard permits, or to all without a guard.
    Allowed(Option<Arc<Guard>>),
}

/// The origin of a job's streams.
pub enum Streams<'a> {
    /// This end dials them.
    Dial {
        /// The node.
        to: Arc<dyn Dial>,
        /// Whether streams may go to the node's further addresses.
        extra_paths: ExtraPaths,
        /// The number of streams to begin with on each path, where the job's settings do not set one.
        count: u32,
        /// The bound on the number of streams; 0 for none.
        streams_max: u32,
        /// Streams opened in this session so far: numbers are never used twice.
        opened: &'a mut u32,
        /// Streams that were kept from the last job.
        kept: Vec<DataStream>,
    },
    /// The other end dials them.
    Accept {
        /// Receives the streams that join.
        joined: &'a Receiver<Joined>,
        /// Streams that were kept from the last job.
        kept: Vec<DataStream>,
        /// Numbers up to this one belong to earlier jobs: a stream with such a number is too late.
        last_old_stream: u32,
    },
}

/// The facts about a job that has ended, for its receipt.
#[derive(Default)]
pub struct JobFacts {
    /// Facts about each stream of this end.
    pub streams: Vec<v1::Stream>,
    /// This end in numbers, at the end.
    pub account: Account,
    /// The other end's last account.
    pub peer: Option<Account>,
    /// The other end's counts.
    pub peer_counts: Counts,
    /// How long the receiver waited for its target.
    pub waited: TargetWaits,
    /// How long the other end was silent, beyond the time after which it is pinged.
    pub silent: Duration,
    /// The history of the paths, for the next job, by the address of the other end.
    pub past: Vec<(IpAddr, PathHistory)>,
    /// Streams that are kept for the session's next job.
    pub kept: Vec<DataStream>,
    /// The node's facts about the streams that it sent on; they arrive after the job's last message.
    pub sender_streams: Vec<v1::Stream>,
    /// When the tree was known in full.
    pub scanned_after: Option<Duration>,
    /// When the last byte had arrived.
    pub arrived_after: Option<Duration>,
}

/// An event of a running job, for its caller.
pub enum JobEvent<'a> {
    /// Its numbers, about ten times a second, and the file under way.
    Progress(&'a Progress, Option<RelPath>),
    /// A file is settled; reported after [`Control::report_files`].
    File(SettledFile),
    /// A step of a dry run.
    Plan(&'a Plan),
    /// Entries that the source lacks are about to be removed at the target.
    Removing(Removal),
}

/// Receives the [`JobEvent`] of a running job.
pub type Watch<'a> = &'a mut dyn FnMut(JobEvent<'_>);

const TICK: Duration = Duration::from_millis(100);

/// Drives one job until it succeeds or fails. Returns the facts for its receipt, and the error of a job that failed. The side's threads
/// have ended when this returns.
pub fn drive(
    link: &mut Link,
    side: &Arc<dyn Side>,
    terms: StreamTerms,
    mut streams: Streams<'_>,
    control: &Control,
    watch: Watch<'_>,
) -> (JobFacts, Result<()>) {
    let mut pool = StreamPool::new(link, side, terms);
    let mut job_facts = JobFacts::default();
    link.forget_movers();
    control.set_waker(link.waker());
    if control.reports_files() {
        side.report_files();
    }
    control.begin_attempt(link.socket().peer_addr().ok().map(|peer| peer.ip()));
    let mut observers = Observers { sampler: Sampler::new(&pool.terms, &**side), movers: MoverCoordination::default() };
    let result = run(link, &mut pool, &mut streams, control, watch, &mut job_facts, &mut observers);
    let Observers { mut sampler, movers } = observers;
    job_facts.account = sampler.account(&pool.samples());
    job_facts.past = sampler.past();
    job_facts.peer = sampler.peer.take().map(|peer| *peer);
    if job_facts.waited == TargetWaits::default() {
        job_facts.waited = side.waited();
    }
    control.record_progress(&side.progress(), pool.running as u32);
    let keeps_streams =
        result.is_ok() && pool.terms.keep && (pool.terms.role == seal::SealingEnd::Node || link.kept_for().is_some());
    if keeps_streams {
        pool.keep();
    }
    // The reason is sent before the streams are closed: a peer that only sees its streams end takes that for a failure of the path, and
    // tries again.
    if let Err(error) = &result {
        link.abort_for(error);
    }
    // Gives the job's share of the path back.
    drop(sampler);
    side.close();
    if result.is_ok() {
        // The other side's threads end with the last message.
        link.drain(pool.timeouts.handshake);
    }
    job_facts.streams.extend(movers.end(&**side));
    pool.shut_down(&mut job_facts, keeps_streams);
    control.record_stream_facts(&job_facts.streams);
    job_facts.streams.sort_by_key(|s| s.id);
    (job_facts, result)
}

impl JobFacts {
    /// Notes the end of a stream, and adds the time of its thread to `ended`.
    ///
    /// # Errors
    /// The stream failed.
    fn note_stream_end(&mut self, end: StreamEnd, ended: &mut StageTimes) -> Result<()> {
        if end.facts.bytes > 0 || end.result.is_ok() {
            self.streams.push(end.facts);
        }
        ended.add(&end.spent);
        end.result
    }

    fn note_progress(&mut self, progress: &Progress, elapsed: Duration) {
        if progress.scanned && self.scanned_after.is_none() {
            self.scanned_after = Some(elapsed);
        }
        if progress.scanned && progress.bytes_arrived >= progress.bytes_offered && self.arrived_after.is_none() {
            self.arrived_after = Some(elapsed);
        }
    }
}

/// Sends the side's pending messages. Its counts go before the message that ends its part.
fn send_pending(link: &mut Link, pool: &StreamPool, sampler: &mut Sampler) -> Result<()> {
    while link.has_room() {
        let Some(frame) = pool.side.poll_frame() else { break };
        let counts = pool.side.counts();
        if matches!(frame, Frame::Finished(_) | Frame::ScanEnd(_)) && counts != Counts::default() {
            link.send(&Frame::Counts(counts))?;
        }
        if matches!(frame, Frame::Finished(_)) {
            let waited = pool.side.waited();
            if waited != TargetWaits::default() {
                link.send(&Frame::Waited(waited))?;
            }
            // The other end receives nothing after `Finished`.
            link.send(&Frame::Account(Box::new(sampler.account(&pool.samples()))))?;
        }
        link.send(&frame)?;
    }
    Ok(())
}

/// The parts of a running job that observe its streams: those of this process, and those of movers.
struct Observers {
    sampler: Sampler,
    movers: MoverCoordination,
}

fn run(
    link: &mut Link,
    pool: &mut StreamPool,
    streams: &mut Streams<'_>,
    control: &Control,
    watch: Watch<'_>,
    job_facts: &mut JobFacts,
    observers: &mut Observers,
) -> Result<()> {
    let Observers { sampler, movers } = observers;
    let side = Arc::clone(&pool.side);
    let started = Instant::now();
    let mut last_tick = started;
    let mut supervisor = StreamSupervisor::default();
    let mut steering = Steering::new(control, &pool.terms.ordered);
    let mut stall = Stall::new(started);
    let mut silence = Silence::default();
    loop {
        if control.is_cancelled() {
            return Err(Error::Interrupted);
        }
        // First of all: frames that came with the order are here already, and the socket will not say so.
        while let Some(frame) = link.next_frame()? {
            match frame {
                Frame::Steer(to) => control.adopt_settings(to),
                Frame::Account(of) => movers.take_peer_account(of, sampler),
                Frame::Spread(over) => sampler.spread = over,
                Frame::Counts(of) => job_facts.peer_counts = of,
                Frame::Waited(of) => job_facts.waited = of,
                Frame::Busy(why) => steering.peer_busy = Some((why, Instant::now())),
                frame => {
                    let handled = side.handle(frame);
                    handled.map_err(|source| Error::Protocol { peer: link.peer().to_owned(), source })?;
                }
            }
        }
        steering.apply_changes(link, &*side)?;
        side.pump()?;
        send_pending(link, pool, sampler)?;
        side.take_plans().iter().for_each(|plan| watch(JobEvent::Plan(plan)));
        side.take_files().into_iter().for_each(|file| watch(JobEvent::File(file)));
        side.take_removal().into_iter().for_each(|removal| watch(JobEvent::Removing(removal)));
        if let Some(error) = side.take_failure() {
            return Err(error);
        }
        if side.is_finished() {
            side.take_files().into_iter().for_each(|file| watch(JobEvent::File(file)));
            return Ok(());
        }
        supervisor.step(link, pool, streams, steering.applied.streams, sampler, job_facts)?;
        movers.step(link, pool, &steering.applied)?;
        if sampler.control_is_cut(link) {
            return Err(Error::Silent { peer: link.peer().to_owned(), seconds: link.silence().as_secs() });
        }
        if last_tick.elapsed() >= TICK {
            last_tick = Instant::now();
            side.tick();
            let progress = side.progress();
            watch(JobEvent::Progress(&progress, side.current()));
            control.record_progress(&progress, (pool.running + movers.collect_reports(sampler)) as u32);
            job_facts.note_progress(&progress, started.elapsed());
            job_facts.silent = silence.update(link.silence(), link.timeouts().pace.ping_after * 2);
            let waits = steering.report_wait(link, &*side)?;
            stall.check(&progress, waits || !side.watches_progress(), link)?;
            sampler.tick(link, pool, &steering)?;
            pool.stop_pacing();
        }
        link.exchange(TICK.saturating_sub(last_tick.elapsed()))?;
    }
}
