//! The client's end: a test against an iperf3 server.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use model::v1::probe::Direction;
use model::v1::probe::tcp::{Directions, End, Flow, Interval, Order, Report, Total};

use super::control::{Control, Cookie, MESSAGE_TIMEOUT, RESULTS_MAX, State, busy};
use super::datagrams::{self, HELLO, Pace, WELCOME};
use super::message::{Params, Results, StreamResult};
use super::stream_id;
use crate::error::{Error, Result};
use crate::host::HostUsage;
use crate::stop::Stop;
use crate::tcp::intervals::IntervalRecorder;
use crate::tcp::stream::{StreamPool, StreamSettings, TestStream};
use crate::tcp::{check, directions};

/// Time between samples of the streams.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// The result of a UDP test: the counters of each stream at both ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Datagrams {
    /// The client's streams: whether each sent, and its counters.
    pub near: Vec<(bool, StreamResult)>,
    /// The server's streams.
    pub far: Vec<StreamResult>,
    /// How long the test ran, seconds.
    pub seconds: f64,
}

/// A running test, by its control connection.
struct Session {
    control: Control,
    cookie: Cookie,
    to: SocketAddr,
}

impl Session {
    /// Connects, and sends the parameters of the test.
    fn begin(to: SocketAddr, params: &Params, stop: &Stop) -> Result<Session> {
        let socket = TcpStream::connect_timeout(&to, MESSAGE_TIMEOUT);
        let socket = socket.map_err(|source| Error::Connect { to: to.to_string(), source })?;
        let mut session = Session { control: Control::new(socket, stop)?, cookie: Cookie::random(), to };
        // A busy server closes without reading, and the reset may overtake its message.
        let accepted = session
            .control
            .send(session.cookie.as_bytes())
            .and_then(|()| session.control.expect_state(State::ParamExchange));
        accepted.map_err(|error| match error {
            Error::Broken { peer, .. } => busy(&peer),
            other => other,
        })?;
        session.control.send_text(&params.encode())?;
        session.control.expect_state(State::CreateStreams)?;
        Ok(session)
    }

    fn start(&mut self) -> Result<()> {
        self.control.expect_state(State::TestStart)?;
        self.control.expect_state(State::TestRunning)
    }

    /// Exchanges results, and ends the session.
    fn exchange(&mut self, ours: &Results) -> Result<Results> {
        self.control.send_text(&ours.encode())?;
        let text = self.control.read_text(RESULTS_MAX)?;
        let theirs = Results::parse(&text).map_err(|what| self.control.wrong(what))?;
        self.control.expect_state(State::DisplayResults)?;
        self.control.send_state(State::Done)?;
        Ok(theirs)
    }

    /// Checks that the server has not ended the test.
    fn check(&mut self) -> Result<()> {
        match self.control.poll_state()? {
            None => Ok(()),
            Some(state) => Err(self.control.unexpected(state, State::TestRunning)),
        }
    }
}

/// Each stream of a test in the order in which it is opened: its number, and whether the client sends.
fn roles(direction: Directions, streams: u32) -> Vec<(u32, bool)> {
    let sends = |at: u32| match direction {
        Directions::Forward => true,
        Directions::Reverse => false,
        Directions::Both => at < streams,
    };
    let count = if direction == Directions::Both { streams * 2 } else { streams };
    (0..count).map(|at| (stream_id(at), sends(at))).collect()
}

fn params(order: &Order) -> Params {
    Params {
        omit_s: order.omit_s.round() as u32,
        time_s: order.seconds.ceil() as u32,
        bytes: order.bytes,
        parallel: order.streams,
        // Stock servers take no larger blocks.
        block_bytes: order.block_bytes.min(1 << 20),
        reverse: order.direction == Directions::Reverse,
        both: order.direction == Directions::Both,
        window_bytes: order.window_bytes,
        mss_bytes: order.mss_bytes,
        congestion: order.congestion.clone(),
        tos: u32::from(order.dscp) << 2,
        pacing_bit_s: order.pace_bit_s / u64::from(order.streams.max(1)),
        ..Params::default()
    }
}

/// Runs a TCP test with a server.
///
/// # Errors
/// The server cannot be reached, is busy, violates the protocol, or ends the test.
pub fn test(to: SocketAddr, order: &Order, stop: &Stop, note: &mut dyn FnMut(&Interval)) -> Result<Report> {
    check(order)?;
    let watch = HostUsage::begin();
    let params = params(order);
    let mut session = Session::begin(to, &params, stop)?;
    let mut flows = Vec::new();
    for (id, sends) in roles(order.direction, order.streams) {
        let mut socket = crate::dial(to, order)?;
        let written = std::io::Write::write_all(&mut socket, session.cookie.as_bytes());
        written.map_err(|source| Error::Broken { peer: to.to_string(), source })?;
        flows.push(TestStream { id, is_forward: sends, sends, socket, quota: params.quota() });
    }
    let mut remarks = Vec::new();
    crate::tcp::apply_settings(&flows, order, &mut remarks);
    session.start()?;
    let span = Duration::from_secs_f64;
    let mut recorder = IntervalRecorder::new(span(order.interval_s), span(order.omit_s));
    let mut intervals = Vec::new();
    let settings = StreamSettings {
        block_bytes: order.block_bytes as usize,
        cores: &order.near_cores,
        lasts: crate::tcp::LASTS_MAX,
        shuts: false,
    };
    let pool = StreamPool::start(flows, settings)?;
    let followed = follow(&mut session, &pool, order, &mut recorder, stop, &mut |interval| {
        note(&interval);
        intervals.push(interval);
    });
    let elapsed = pool.started().elapsed().as_secs_f64();
    // Streams are read until the server acknowledges the end, so that its data in flight is received.
    let ended = followed
        .and_then(|()| session.control.send_state(State::TestEnd))
        .and_then(|()| session.control.expect_state(State::ExchangeResults));
    pool.abandon();
    let totals: Vec<Total> = pool.finish().iter().map(|ended| recorder.total(ended)).collect();
    ended?;
    let near = End { totals, host: watch.read(), remarks };
    let theirs = session.exchange(&client_results(&near, elapsed))?;
    let far = server_end(&near, &theirs, elapsed);
    let directions = directions(order, &near, &far);
    Ok(Report { order: order.clone(), directions, intervals, far_intervals: Vec::new(), near, far })
}

fn follow(
    session: &mut Session,
    pool: &StreamPool,
    order: &Order,
    recorder: &mut IntervalRecorder,
    stop: &Stop,
    note: &mut dyn FnMut(Interval),
) -> Result<()> {
    let end = (order.seconds > 0.0).then(|| Duration::from_secs_f64(order.seconds + order.omit_s));
    let mut moved_at = Instant::now();
    let mut bytes = 0;
    loop {
        let now = pool.started().elapsed();
        let samples = pool.sample();
        let sum: u64 = samples.iter().map(|sample| sample.bytes).sum();
        if sum != bytes {
            moved_at = Instant::now();
            bytes = sum;
        } else if moved_at.elapsed() > MESSAGE_TIMEOUT {
            return Err(Error::Silent { peer: session.control.peer().to_owned(), seconds: MESSAGE_TIMEOUT.as_secs() });
        }
        // The client also ends a test of bytes: once it has sent, or received, all of them.
        let is_complete = order.bytes > 0 && sum >= order.bytes && pool.has_sent();
        let over = end.is_some_and(|end| now >= end) || is_complete;
        if stop.is_stopped() {
            let _ = session.control.send_state(State::ClientTerminate);
            return Err(Error::Interrupted);
        }
        if over {
            pool.stop_sending();
            note(recorder.close(now, samples));
            return Ok(());
        }
        if let Some(interval) = recorder.record(now, samples) {
            note(interval);
        }
        session.check()?;
        std::thread::sleep(SAMPLE_INTERVAL.min(recorder.due().saturating_sub(pool.started().elapsed())));
    }
}

/// The client's results, for the server.
fn client_results(near: &End, elapsed: f64) -> Results {
    let cpu = near.totals.iter().map(|total| total.cpu_s).sum::<f64>() / elapsed.max(1e-9) * 100.0;
    let stream = |total: &Total| StreamResult {
        id: total.flow.stream,
        bytes: total.counted_bytes,
        retransmits: total.flow.kernel.map(|kernel| kernel.retransmits),
        span_s: (0.0, total.counted_s),
        ..StreamResult::default()
    };
    Results {
        cpu_percent: (cpu, 0.0, cpu),
        has_retransmits: if near.totals.iter().any(|total| total.flow.kernel.is_some()) { 1 } else { -1 },
        congestion: near.totals.first().map(|total| total.congestion.clone()),
        streams: near.totals.iter().map(stream).collect(),
        output: None,
    }
}

/// The server's results, as an end of the test. The server does not count the start that the client leaves out; only the client's
/// counters hold the bytes of that start.
pub(super) fn server_end(near: &End, theirs: &Results, elapsed: f64) -> End {
    let cpu_s = theirs.cpu_percent.0 / 100.0 * elapsed / theirs.streams.len().max(1) as f64;
    let total = |result: &StreamResult| {
        let ours = near.totals.iter().find(|total| total.flow.stream == result.id);
        let direction = Direction::of(ours.is_some_and(|total| total.flow.direction.is_forward()));
        let left_out = ours.map_or(0, |total| total.flow.bytes.saturating_sub(total.counted_bytes));
        let seconds = if result.span_s.1 > result.span_s.0 { result.span_s.1 - result.span_s.0 } else { elapsed };
        // The seconds are the peer's, and rates are summed later: the bound keeps the sum from overflowing.
        let rate_bit_s = (result.bytes as f64 * 8.0 / seconds.max(1e-9)).min(1e16) as u64;
        Total {
            flow: Flow {
                stream: result.id,
                direction,
                bytes: result.bytes.saturating_add(left_out),
                rate_bit_s,
                kernel: None,
            },
            counted_bytes: result.bytes,
            counted_s: seconds,
            congestion: theirs.congestion.clone().unwrap_or_default(),
            cpu_s,
        }
    };
    End { totals: theirs.streams.iter().map(total).collect(), ..End::default() }
}

/// An order for a UDP test.
#[derive(Clone, Copy, Debug)]
pub struct DatagramOrder {
    /// Streams in each direction.
    pub streams: u32,
    /// Direction of the data.
    pub direction: Directions,
    /// Length of the test, seconds.
    pub seconds: f64,
    /// Bytes of a datagram's payload.
    pub bytes: u32,
    /// Rate of each stream.
    pub rate_bit_s: u64,
}

/// Runs a UDP test with a server.
///
/// # Errors
/// As [`test`]; [`Error::Connect`]: the server does not answer the first datagrams.
pub fn test_datagrams(to: SocketAddr, order: &DatagramOrder, stop: &Stop) -> Result<Datagrams> {
    let params = Params {
        udp: true,
        time_s: order.seconds.ceil() as u32,
        parallel: order.streams,
        block_bytes: order.bytes,
        rate_bit_s: order.rate_bit_s,
        reverse: order.direction == Directions::Reverse,
        both: order.direction == Directions::Both,
        wide_numbers: true,
        ..Params::default()
    };
    let mut session = Session::begin(to, &params, stop)?;
    let mut streams = Vec::new();
    for (id, sends) in roles(order.direction, order.streams) {
        streams.push(datagrams::Stream { id, sends, socket: greet(session.to)? });
    }
    session.start()?;
    let bytes = (order.bytes as usize).max(datagrams::HEADER_MAX);
    let pool = datagrams::DatagramPool::start(streams, Pace { bytes, rate_bit_s: order.rate_bit_s, wide: true })?;
    let end = Duration::from_secs_f64(order.seconds);
    while pool.started().elapsed() < end {
        if stop.is_stopped() {
            let _ = session.control.send_state(State::ClientTerminate);
            return Err(Error::Interrupted);
        }
        session.check()?;
    }
    pool.stop_sending();
    // Read before the server waits for data in flight, which is no part of the test.
    let over = pool.started().elapsed();
    session.control.send_state(State::TestEnd)?;
    session.control.expect_state(State::ExchangeResults)?;
    let near = pool.finish(over);
    let streams = near.iter().map(|(_, result)| result.clone()).collect();
    let far = session.exchange(&Results { has_retransmits: -1, streams, ..Results::default() })?.streams;
    Ok(Datagrams { near, far, seconds: over.as_secs_f64() })
}

/// Opens a UDP stream: sends hellos until one is answered.
fn greet(to: SocketAddr) -> Result<UdpSocket> {
    let host = |doing| move |source| Error::Host { doing, source };
    let local: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(local).and_then(|socket| socket.connect(to).map(|()| socket));
    let socket = socket.map_err(host("make a socket for datagrams"))?;
    socket.set_read_timeout(Some(Duration::from_millis(500))).map_err(host("set up a socket"))?;
    for _ in 0..10 {
        socket.send(&HELLO).map_err(host("send a datagram"))?;
        let mut answer = [0; 64];
        // In reverse direction the first data may overtake the answer.
        if socket.recv(&mut answer).is_ok_and(|got| answer[..got] == WELCOME || got >= datagrams::HEADER_MAX) {
            return Ok(socket);
        }
    }
    let why = "its UDP port does not answer: do firewalls permit UDP on the same port number as TCP?";
    Err(Error::Connect { to: to.to_string(), source: std::io::Error::new(std::io::ErrorKind::TimedOut, why) })
}
