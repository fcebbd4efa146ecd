//! The server's end: many tests at once, distinguished by their cookies, within [`Bounds`].

mod gather;
mod registry;
mod running;

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use model::units::BitRate;

use super::control::{Control, Cookie, MESSAGE_TIMEOUT, PARAMS_MAX, RESULTS_MAX, State};
use super::datagrams::is_hello;
use super::message::{Params, Results};
use crate::error::{Error, Result};
use crate::stop::Stop;
use gather::gather;
use registry::{StreamHandover, TestRegistry, TestSlot};
use running::{Baseline, Running, TextReport};

/// Bounds on the tests of a server.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The longest test, seconds.
    pub seconds_max: u32,
    /// Tests at once.
    pub tests_max: usize,
    /// Tests of one address at once.
    pub tests_per_address_max: usize,
    /// Streams of all tests at once: each has a thread.
    pub streams_max: usize,
    /// The highest rate of a test's datagrams, over all its streams, in each direction; 0 for no bound.
    pub datagram_bit_s_max: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            seconds_max: 3_600,
            tests_max: 64,
            tests_per_address_max: 32,
            streams_max: 1024,
            datagram_bit_s_max: 0,
        }
    }
}

/// A finished test, for a log.
#[derive(Clone, Debug)]
pub struct TestRecord {
    /// The client's parameters.
    pub params: Params,
    /// The counters of this end.
    pub results: Results,
    /// How long the test ran.
    pub elapsed: Duration,
}

/// Takes the bytes that tests move: the client's address (never IPv4-mapped), and the payload bytes sent and received since the
/// last call. `false` ends the test, or prevents it from beginning.
///
/// It is called with 0 before a test begins, four times a second while the test runs, and with the rest once it is over, however
/// it ended: the sum is all that the test has moved. The thread that serves the test calls it, so it must be quick.
pub type ReportBytes<'a> = &'a dyn Fn(IpAddr, u64) -> bool;

/// A server of iperf3 tests. Clones share the tests in progress.
#[derive(Clone, Default)]
pub struct Server {
    registry: TestRegistry,
    bounds: Bounds,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("tests", &self.registry.len()).field("bounds", &self.bounds).finish()
    }
}

/// Stock's error numbers (iperf_api.h): duration, number of streams, other parameters.
const WRONG_DURATION: i32 = 5;
const WRONG_STREAMS: i32 = 6;
const WRONG_PARAMS: i32 = 114;

/// Time between calls of [`ReportBytes`].
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// The bytes of a test that were passed to [`ReportBytes`].
struct MovedReport<'a> {
    address: IpAddr,
    moved: ReportBytes<'a>,
    /// Bytes reported so far.
    reported: u64,
    /// When they were reported.
    at: Instant,
}

impl MovedReport<'_> {
    /// Reports the bytes beyond those of the last call; `sum` is that of the whole test.
    fn report(&mut self, sum: u64) -> Result<()> {
        let more = sum.saturating_sub(self.reported);
        self.reported = sum;
        self.at = Instant::now();
        if (self.moved)(self.address, more) {
            return Ok(());
        }
        Err(Error::Refused { peer: "this node".into(), why: format!("{} has moved as much as it may", self.address) })
    }

    /// Reports the bytes if the interval is over.
    fn report_if_due(&mut self, sum: u64) -> Result<()> {
        if self.at.elapsed() < REPORT_INTERVAL { Ok(()) } else { self.report(sum) }
    }
}

/// A test that its client has ended.
struct EndedTest {
    output: String,
    /// The start that is left out.
    baseline: Baseline,
    /// When the client ended it, after the start.
    over: Duration,
}

impl Server {
    /// A server with these bounds.
    pub fn new(bounds: Bounds) -> Server {
        Server { bounds, ..Server::default() }
    }

    /// Serves a connection that begins with a cookie, the `accepted`-th of this node. A stream of a test in progress is handed
    /// over (`None`); a new test is run to its end, and its bytes are passed to `moved`.
    ///
    /// # Errors
    /// The peer vanishes, violates the protocol, or asks for more than the bounds or `moved` allow. The peer has been notified.
    /// [`Error::Interrupted`]: stopped.
    pub fn serve(
        &self,
        socket: TcpStream,
        accepted: u64,
        stop: &Stop,
        moved: ReportBytes<'_>,
    ) -> Result<Option<TestRecord>> {
        let cookie = {
            let copy = socket.try_clone().map_err(|source| Error::Host { doing: "copy a socket", source })?;
            let mut control = Control::new(copy, stop)?;
            let mut cookie = [0; super::COOKIE_BYTES];
            control.read(&mut cookie, MESSAGE_TIMEOUT)?;
            Cookie::from_bytes(cookie)
        };
        let address = peer_of(&socket)?.ip().to_canonical();
        let mut socket = match self.registry.assign_stream(&cookie, address, accepted, socket) {
            StreamHandover::New(socket) => socket,
            StreamHandover::Stream => return Ok(None),
            StreamHandover::TooMany => {
                return Err(Error::Refused { peer: address.to_string(), why: "its stream is one too many".into() });
            }
        };
        let mut report = MovedReport { address, moved, reported: 0, at: Instant::now() };
        let slot = report.report(0).and_then(|()| self.registry.admit(cookie, address, &self.bounds));
        let slot = slot.inspect_err(|_| {
            // The answer of a busy stock server.
            let _ = std::io::Write::write_all(&mut socket, &[State::AccessDenied as i8 as u8]);
        })?;
        let mut control = Control::new(socket, stop)?;
        let result = self.run(&mut control, &slot, &mut report, stop);
        if result.is_err() {
            let _ = control.send_state(State::ServerTerminate);
        }
        result.map(Some)
    }

    /// Takes a datagram that belongs to no flow yet; returns whether it was a test's hello. The test itself answers it.
    pub fn datagram(&self, from: SocketAddr, datagram: &[u8]) -> bool {
        is_hello(datagram) && self.registry.assign_hello(from)
    }

    fn run(
        &self,
        control: &mut Control,
        slot: &TestSlot,
        report: &mut MovedReport<'_>,
        stop: &Stop,
    ) -> Result<TestRecord> {
        control.send_state(State::ParamExchange)?;
        let params = self.read_params(control, slot)?;
        let running = gather(control, &params, slot, stop)?;
        let followed = self.follow(control, &params, &running, report, stop);
        let over = followed.as_ref().map_or_else(|_| running.elapsed(), |followed| followed.over);
        let mut results = running.finish(over);
        slot.release_addresses();
        // The test is over already, so the result does not matter.
        let _ = report.report(results.streams.iter().map(|stream| stream.bytes).sum());
        let EndedTest { output, baseline, over } = followed?;
        baseline.subtract_from(&mut results);
        results.output = params.wants_output.then_some(output);
        control.send_state(State::ExchangeResults)?;
        let theirs = control.read_text(RESULTS_MAX)?;
        Results::parse(&theirs).map_err(|what| control.wrong(what))?;
        control.send_text(&results.encode())?;
        control.send_state(State::DisplayResults)?;
        // Some clients close without sending the last message.
        let _ = control.read_state(MESSAGE_TIMEOUT);
        Ok(TestRecord { params, results, elapsed: over })
    }

    /// Reads the client's parameters, and refuses those out of bounds.
    fn read_params(&self, control: &mut Control, slot: &TestSlot) -> Result<Params> {
        let text = control.read_text(PARAMS_MAX)?;
        let params = Params::parse(&text).and_then(|params| self.check_bounds(&params, slot).map(|()| params));
        match params {
            Ok(params) => Ok(params),
            Err(why) => {
                let number = match why {
                    _ if why.contains("second") => WRONG_DURATION,
                    _ if why.contains("parallel") => WRONG_STREAMS,
                    _ => WRONG_PARAMS,
                };
                control.send_state(State::ServerError)?;
                control.send(&[number.to_be_bytes(), 0i32.to_be_bytes()].concat())?;
                Err(control.wrong(why))
            }
        }
    }

    /// Checks the parameters against the bounds, and reserves the streams.
    fn check_bounds(&self, params: &Params, slot: &TestSlot) -> std::result::Result<(), String> {
        if params.time_s > self.bounds.seconds_max {
            return Err(format!(
                "{} seconds; this node's tests last {} at most",
                params.time_s, self.bounds.seconds_max
            ));
        }
        let most = self.bounds.datagram_bit_s_max;
        let requested_bit_s = params.rate_bit_s.saturating_mul(params.parallel.into());
        if params.udp && most > 0 && (requested_bit_s > most || params.rate_bit_s == 0) {
            return Err(format!("datagrams at {}; {} is the most here", BitRate(requested_bit_s), BitRate(most)));
        }
        let streams = params.parallel as usize * if params.both { 2 } else { 1 };
        if !slot.reserve_streams(streams, self.bounds.streams_max) {
            return Err(format!("{streams} parallel streams; all tests here have {} at most", self.bounds.streams_max));
        }
        Ok(())
    }

    /// Follows the test until the client ends it.
    fn follow(
        &self,
        control: &mut Control,
        params: &Params,
        running: &Running,
        report: &mut MovedReport<'_>,
        stop: &Stop,
    ) -> Result<EndedTest> {
        control.send_state(State::TestStart)?;
        control.send_state(State::TestRunning)?;
        let bound = u64::from(self.bounds.seconds_max) + u64::from(params.omit_s) + MESSAGE_TIMEOUT.as_secs();
        let mut text = TextReport::new(running.bytes(), if params.wants_output { RESULTS_MAX / 4 } else { 0 });
        let mut moved_at = Instant::now();
        let mut last_sum = 0;
        let omit = Duration::from_secs(params.omit_s.into());
        let mut baseline = omit.is_zero().then(Baseline::default);
        loop {
            match control.poll_state()? {
                Some(State::TestEnd) => break,
                Some(state) => return Err(control.unexpected(state, State::TestEnd)),
                None if stop.is_stopped() => return Err(Error::Interrupted),
                None => {}
            }
            let now = running.elapsed();
            if now.as_secs() >= bound {
                return Err(control.wrong(format!("a test that is not over after {bound} s")));
            }
            if baseline.is_none() && now >= omit {
                baseline = Some(running.baseline(now));
            }
            let bytes = running.bytes();
            let sum: u64 = bytes.iter().map(|(_, bytes)| bytes).sum();
            report.report_if_due(sum)?;
            if sum != last_sum {
                moved_at = Instant::now();
                last_sum = sum;
            } else if moved_at.elapsed() > MESSAGE_TIMEOUT * 2 {
                return Err(Error::Silent { peer: control.peer().to_owned(), seconds: MESSAGE_TIMEOUT.as_secs() * 2 });
            }
            text.record(now, bytes);
        }
        // The test ends here: the time in which data in flight still arrives is no part of it.
        let over = running.elapsed();
        if baseline.is_none() && over >= omit {
            // The client ended the test as soon as counting began.
            baseline = Some(running.baseline(over));
        }
        running.wait_for_data_in_flight();
        Ok(EndedTest { output: text.close(over, &running.bytes()), baseline: baseline.unwrap_or_default(), over })
    }
}

fn peer_of(socket: &TcpStream) -> Result<SocketAddr> {
    socket.peer_addr().map_err(|source| Error::Broken { peer: "a client".into(), source })
}
