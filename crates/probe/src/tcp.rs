//! TCP tests: streams in either direction, counted at both ends, and the cause that limits them.
//!
//! The near end is the host of the command. It connects all streams, whatever their direction, and asks the far end to run its
//! half. Both halves are the same code ([`run_half`]).

mod expect;
pub(crate) mod intervals;
mod order;
pub mod scan;
pub(crate) mod stream;

use std::net::TcpStream;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use model::fault::Blame;
use model::v1::probe::Failure;
use model::v1::probe::tcp::{Directions, End, Interval, Order, Report, TcpSampleLine};
use socket2::SockRef;

pub use expect::directions;
pub use order::check;
pub use stream::TestStream;

use crate::error::{Error, Result};
use crate::host::HostUsage;
use crate::stop::Stop;
use intervals::IntervalRecorder;
use stream::{StreamPool, StreamSample, StreamSettings};

/// Time between samples of the streams.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);
/// A test whose streams move nothing for longer than this fails.
const STALL_MAX: Duration = Duration::from_secs(15);
/// How long the far end waits for all streams.
const GATHER_TIMEOUT: Duration = Duration::from_secs(20);
/// Most unsent bytes in a socket, so that the end of a test does not wait until megabytes have been sent.
const UNSENT_BYTES: u32 = 4 << 20;

/// The longest test where nothing else bounds it.
pub(crate) const LASTS_MAX: Duration = Duration::from_secs(86_400);

/// Bounds that an end sets for a test, in addition to those of the order.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    /// The longest that a stream may run.
    pub lasts: Duration,
    /// Called with the bytes moved since the last call, while the test runs and once after its end, however it ended;
    /// `false` ends the test.
    pub moved: &'a (dyn Fn(u64) -> bool + Sync),
}

impl Bounds<'_> {
    /// The bounds of the end that orders the test: a day, and any number of bytes.
    pub const OWN: Bounds<'static> = Bounds { lasts: LASTS_MAX, moved: &|_| true };
}

/// The other end of a test, as its near end sees it.
pub trait Peer {
    /// Dials the streams with these numbers, with the settings that a socket must have before it is connected.
    ///
    /// # Errors
    /// A stream cannot be connected, or the host refuses a setting.
    fn dial(&mut self, ids: &[u32], order: &Order) -> Result<Vec<(u32, TcpStream)>>;
    /// Has the far end run its half, and passes each of its lines to `hear` until the test is over.
    ///
    /// # Errors
    /// The far end refuses the test, or the session to it breaks.
    fn ask(&mut self, order: &Order, hear: &mut dyn FnMut(TcpSampleLine)) -> Result<()>;
    /// The peer's name in messages.
    fn name(&self) -> &str;
}

/// A stream of a test before it is connected.
struct PlannedStream {
    /// Its number, from 1.
    id: u32,
    /// Data goes forward: from the near end to the far end.
    is_forward: bool,
    /// Most bytes that it carries; `u64::MAX` for no bound.
    quota_bytes: u64,
}

/// The streams that an order asks for.
fn planned(order: &Order) -> Vec<PlannedStream> {
    let directions: &[bool] = match order.direction {
        Directions::Forward => &[true],
        Directions::Reverse => &[false],
        Directions::Both => &[true, false],
    };
    let share = |at: u32| match order.bytes {
        0 => u64::MAX,
        bytes => bytes / u64::from(order.streams) + u64::from(u64::from(at) < bytes % u64::from(order.streams)),
    };
    let streams = |(at, is_forward): (usize, &bool)| {
        let is_forward = *is_forward;
        let first = at as u32 * order.streams;
        (0..order.streams).map(move |at| PlannedStream { id: first + at + 1, is_forward, quota_bytes: share(at) })
    };
    directions.iter().enumerate().flat_map(streams).collect()
}

/// The streams of one end of a test.
fn test_streams(order: &Order, sockets: Vec<(u32, TcpStream)>, near: bool) -> Vec<TestStream> {
    let planned = planned(order);
    let flow = |(id, socket)| {
        let PlannedStream { is_forward, quota_bytes: quota, .. } = *planned.iter().find(|stream| stream.id == id)?;
        Some(TestStream { id, is_forward, sends: is_forward == near, socket, quota })
    };
    sockets.into_iter().filter_map(flow).collect()
}

/// Gives connected streams the settings of the order, and adds a remark for each setting that the host refuses.
pub(crate) fn apply_settings(flows: &[TestStream], order: &Order, remarks: &mut Vec<String>) {
    let mut remark = |text: String| {
        if !remarks.contains(&text) {
            remarks.push(text);
        }
    };
    for flow in flows {
        let socket = SockRef::from(&flow.socket);
        let _ = socket.set_tcp_nodelay(true);
        let _ = sys::tcp::set_unsent_limit(&flow.socket, UNSENT_BYTES);
        if order.dscp > 0 {
            let class = u32::from(order.dscp) << 2;
            // An IPv6 socket of a node may carry IPv4 traffic.
            let set = if flow.socket.peer_addr().is_ok_and(|address| address.ip().to_canonical().is_ipv4()) {
                socket.set_tos_v4(class)
            } else {
                socket.set_tclass_v6(class)
            };
            if let Err(error) = set {
                remark(format!("DSCP {} was not taken: {error}", order.dscp));
            }
        }
        if order.window_bytes > 0 {
            let bytes = usize::try_from(order.window_bytes).unwrap_or(usize::MAX);
            let _ = socket.set_recv_buffer_size(bytes).and_then(|()| socket.set_send_buffer_size(bytes));
            // The kernel doubles what it grants, for its own structures (socket(7)).
            let sizes = [(socket.send_buffer_size(), "wmem_max"), (socket.recv_buffer_size(), "rmem_max")];
            for (got, setting) in sizes.map(|(got, setting)| (got.unwrap_or(0) / 2, setting)) {
                if got < bytes {
                    remark(format!(
                        "buffers of {bytes} bytes were asked for, and {got} given: raise net.core.{setting}"
                    ));
                }
            }
        }
        if let Some(name) = order.congestion.as_ref().filter(|_| flow.sends)
            && let Err(error) = sys::tcp::set_congestion(&flow.socket, name)
        {
            remark(format!("congestion control {name} was not taken ({error}): the host's own is in force"));
        }
        if order.pace_bit_s > 0 && flow.sends {
            let each = (order.pace_bit_s / 8 / u64::from(order.streams)).max(1);
            if let Err(error) = sys::tcp::set_pacing(&flow.socket, each) {
                remark(format!("pacing was not taken: {error}"));
            }
        }
    }
}

/// Runs one end of a test over its streams. `note` is called with each interval, and ends the test by returning `false`.
///
/// # Errors
/// [`Error::Broken`]: a stream broke. [`Error::Silent`]: no stream moved for 15 s. [`Error::Interrupted`]: ended by `stop`,
/// `bounds` or `note`.
pub fn run_half(
    flows: Vec<TestStream>,
    order: &Order,
    cores: &[u32],
    bounds: Bounds<'_>,
    stop: &Stop,
    note: &mut dyn FnMut(&Interval) -> bool,
) -> Result<End> {
    let peer = flows.first().and_then(|flow| flow.socket.peer_addr().ok());
    let peer = peer.map_or_else(|| "the other end".to_owned(), |address| address.to_string());
    let watch = HostUsage::begin();
    let mut remarks = Vec::new();
    apply_settings(&flows, order, &mut remarks);
    let seconds = |span: f64| Duration::from_secs_f64(span);
    let mut recorder = IntervalRecorder::new(seconds(order.interval_s), seconds(order.omit_s));
    let pool = StreamPool::start(
        flows,
        StreamSettings { block_bytes: order.block_bytes as usize, cores, lasts: bounds.lasts, shuts: true },
    )?;
    let mut counted = 0;
    let mut moved = |sum: u64| {
        let more = sum.saturating_sub(counted);
        counted += more;
        (bounds.moved)(more)
    };
    let mut sinks = Sinks { interval: note, bytes: &mut moved };
    let result = follow(&pool, order, &mut recorder, stop, &mut sinks, &peer);
    if result.is_err() {
        pool.abandon();
    }
    let ended = pool.finish();
    moved(ended.iter().map(|ended| ended.sample.bytes).sum());
    let host = watch.read();
    result?;
    if let Some(source) = ended.iter().find_map(|ended| ended.error.as_ref()) {
        return Err(Error::Broken { peer, source: std::io::Error::new(source.kind(), source.to_string()) });
    }
    Ok(End { totals: ended.iter().map(|ended| recorder.total(ended)).collect(), host, remarks })
}

/// The callbacks of [`follow`]; each ends the test by returning `false`.
struct Sinks<'n, 'b> {
    /// Takes each interval.
    interval: &'n mut dyn FnMut(&Interval) -> bool,
    /// Takes the bytes of all streams since the start.
    bytes: &'b mut dyn FnMut(u64) -> bool,
}

/// Samples the streams until all have ended.
fn follow(
    pool: &StreamPool,
    order: &Order,
    recorder: &mut IntervalRecorder,
    stop: &Stop,
    sinks: &mut Sinks<'_, '_>,
    peer: &str,
) -> Result<()> {
    let end = (order.seconds > 0.0).then(|| Duration::from_secs_f64(order.seconds + order.omit_s));
    let mut moved = Instant::now();
    let mut bytes = 0;
    loop {
        let now = pool.started().elapsed();
        if end.is_some_and(|end| now >= end) {
            pool.stop_sending();
        }
        let over = pool.is_over();
        let samples = pool.sample();
        if stop.is_stopped() || !(sinks.bytes)(samples.iter().map(|sample| sample.bytes).sum()) {
            return Err(Error::Interrupted);
        }
        let sum: u64 = samples.iter().map(progress).sum();
        if sum != bytes {
            moved = Instant::now();
            bytes = sum;
        } else if moved.elapsed() > STALL_MAX {
            return Err(Error::Silent { peer: peer.to_owned(), seconds: STALL_MAX.as_secs() });
        }
        // The rest after the last interval is reported if it is long enough for a rate.
        let interval = if over {
            (recorder.since_last(now) > SAMPLE_INTERVAL * 5).then(|| recorder.close(now, samples))
        } else {
            recorder.record(now, samples)
        };
        if interval.is_some_and(|interval| !(sinks.interval)(&interval)) {
            return Err(Error::Interrupted);
        }
        if over {
            return Ok(());
        }
        let until = recorder.due().saturating_sub(pool.started().elapsed()).min(SAMPLE_INTERVAL);
        std::thread::sleep(until.max(Duration::from_millis(1)));
    }
}

/// Progress of a stream: bytes moved here, and bytes acknowledged by the peer.
fn progress(sample: &StreamSample) -> u64 {
    sample.bytes + sample.tcp.bytes_acked
}

/// Waits up to a given time for the far end's next stream; returns it with its number.
pub type NextStream<'a> = &'a mut dyn FnMut(Duration) -> std::result::Result<(TcpStream, u32), RecvTimeoutError>;

/// Runs the far end's half: gathers the streams, runs [`run_half`] over them, and reports by `report_line`.
///
/// # Errors
/// As [`run_half`]; [`Error::Silent`]: streams are missing after 20 s. The failure has been reported to the near end.
pub fn answer(
    order: &Order,
    next: NextStream<'_>,
    stop: &Stop,
    bounds: Bounds<'_>,
    report_line: &mut dyn FnMut(&TcpSampleLine) -> bool,
) -> Result<()> {
    let result = gather(order, next, stop).and_then(|sockets| {
        if !report_line(&TcpSampleLine::Ready) {
            return Err(Error::Interrupted);
        }
        let mut note = |interval: &Interval| report_line(&TcpSampleLine::Interval(interval.clone()));
        run_half(test_streams(order, sockets, false), order, &order.far_cores, bounds, stop, &mut note)
    });
    match result {
        Ok(end) => {
            report_line(&TcpSampleLine::End(Box::new(end)));
            Ok(())
        }
        Err(error) => {
            report_line(&TcpSampleLine::Failed(Failure { fault: error.fault(), why: error.to_string() }));
            Err(error)
        }
    }
}

fn gather(order: &Order, next: NextStream<'_>, stop: &Stop) -> Result<Vec<(u32, TcpStream)>> {
    check(order)?;
    let mut missing = planned(order);
    let mut sockets = Vec::new();
    let deadline = Instant::now() + GATHER_TIMEOUT;
    while !missing.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        match next(left.min(Duration::from_millis(200))) {
            Ok((socket, id)) => {
                let wanted = missing.len();
                missing.retain(|stream| stream.id != id);
                // Any other number belongs to a late stream of an earlier test.
                if missing.len() < wanted {
                    sockets.push((id, socket));
                }
            }
            Err(RecvTimeoutError::Timeout) if left.is_zero() || stop.is_stopped() => {
                return Err(Error::Silent { peer: "the near end".into(), seconds: GATHER_TIMEOUT.as_secs() });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Error::Interrupted),
        }
    }
    Ok(sockets)
}

/// The lines of the far end so far.
#[derive(Default)]
struct FarReport {
    intervals: Vec<Interval>,
    end: Option<End>,
    failed: Option<Failure>,
}

/// Runs a test from its near end. `note` is called with the near end's intervals while the test runs.
///
/// # Errors
/// [`Error::Order`]: the order is out of bounds. Otherwise what [`Peer`] and [`run_half`] return, or the far end's failure.
pub fn test(
    order: &Order,
    peer: &mut dyn Peer,
    stop: &Stop,
    note: &mut (dyn FnMut(&Interval) + Send),
) -> Result<Report> {
    check(order)?;
    let ids: Vec<u32> = planned(order).iter().map(|stream| stream.id).collect();
    let flows = test_streams(order, peer.dial(&ids, order)?, true);
    let mut intervals = Vec::new();
    let mut report = FarReport::default();
    let (ready, ready_lines) = channel();
    let (near, session) = std::thread::scope(|scope| {
        let intervals = &mut intervals;
        let near = scope.spawn(move || {
            // A far end that refuses never reports that it is ready.
            if ready_lines.recv().is_err() {
                return Err(Error::Interrupted);
            }
            let mut take = |interval: &Interval| {
                note(interval);
                intervals.push(interval.clone());
                true
            };
            run_half(flows, order, &order.near_cores, Bounds::OWN, stop, &mut take)
        });
        let session = peer.ask(order, &mut |line| match line {
            TcpSampleLine::Ready => drop(ready.send(())),
            TcpSampleLine::Interval(interval) => report.intervals.push(interval),
            TcpSampleLine::End(end) => report.end = Some(*end),
            TcpSampleLine::Failed(why) => report.failed = Some(why),
        });
        drop(ready);
        (near.join().unwrap_or(Err(Error::Interrupted)), session)
    });
    if stop.is_stopped() {
        return Err(Error::Interrupted);
    }
    session?;
    if let Some(Failure { fault, why }) = report.failed {
        // Where both ends fail, the near end's error is closer to the cause, unless the near end never began or only saw the
        // connection break.
        let far = Error::Far { peer: peer.name().to_owned(), fault, why };
        return Err(near
            .err()
            .filter(|error| !matches!(error, Error::Interrupted | Error::Broken { .. }))
            .unwrap_or(far));
    }
    let near = near?;
    let silent = || Error::Silent { peer: peer.name().to_owned(), seconds: STALL_MAX.as_secs() };
    let far = report.end.ok_or_else(silent)?;
    let directions = directions(order, &near, &far);
    Ok(Report { order: order.clone(), directions, intervals, far_intervals: report.intervals, near, far })
}

#[cfg(test)]
mod tests;
