//! The server's end: many tests at once, told apart by their cookies, within bounds that are stated.

mod gather;
mod running;
mod seats;

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use model::units::BitRate;

use super::control::{Control, Cookie, PARAMS_MAX, PATIENCE, RESULTS_MAX, State};
use super::datagrams::is_hello;
use super::message::{Params, Results};
use crate::error::{Error, Result};
use crate::stop::Stop;
use gather::gather;
use running::{Mark, Running, Words};
use seats::{Came, Seated, Seats};

/// What a server lets people do.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Seconds of a test.
    pub seconds_max: u32,
    /// Tests at once.
    pub tests_max: usize,
    /// Of one address.
    pub tests_per_address_max: usize,
    /// Streams of all tests at once: each has a thread.
    pub streams_max: usize,
    /// What a test's datagrams may come to, over all its streams, each way; 0 for no bound.
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

/// What a test was, for a log.
#[derive(Clone, Debug)]
pub struct Done {
    /// What was asked.
    pub params: Params,
    /// What this end counted.
    pub results: Results,
    /// How long it ran.
    pub elapsed: Duration,
}

/// Hears what tests move: whose test it is (an address of IPv4 as such), and how many bytes of payload it has sent and
/// received since this was called last; `false` ends the test, or does not let it begin.
///
/// It is called with 0 before a test begins, some times a second while it runs, and with the rest once it is over, however
/// it ended: the sum is what the test has moved. It is called from the thread that serves the test, and should be quick.
pub type Moved<'a> = &'a dyn Fn(IpAddr, u64) -> bool;

/// Tests in progress.
#[derive(Clone, Default)]
pub struct Server {
    seats: Seats,
    bounds: Bounds,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("tests", &self.seats.len()).field("bounds", &self.bounds).finish()
    }
}

/// Stock's numbers for what is wrong (iperf_api.h): how long, how many, what size; parameters in general.
const WRONG_DURATION: i32 = 5;
const WRONG_STREAMS: i32 = 6;
const WRONG_PARAMS: i32 = 114;

/// How often it is told what has moved.
const TELL: Duration = Duration::from_millis(250);

/// What was told of a test's bytes.
struct Ledger<'a> {
    address: IpAddr,
    moved: Moved<'a>,
    told: u64,
    at: Instant,
}

impl Ledger<'_> {
    /// So many in all.
    fn tell(&mut self, sum: u64) -> Result<()> {
        let more = sum.saturating_sub(self.told);
        (self.told, self.at) = (sum, Instant::now());
        if (self.moved)(self.address, more) {
            return Ok(());
        }
        Err(Error::Refused { peer: "this node".into(), why: format!("{} has moved as much as it may", self.address) })
    }

    fn saw(&mut self, sum: u64) -> Result<()> {
        if self.at.elapsed() < TELL { Ok(()) } else { self.tell(sum) }
    }
}

/// A test that its client has ended.
struct Followed {
    output: String,
    /// What counting began with.
    mark: Mark,
    /// When it ended, after the start.
    over: Duration,
}

impl Server {
    /// A server with these bounds.
    pub fn new(bounds: Bounds) -> Server {
        Server { bounds, ..Server::default() }
    }

    /// A connection that begins with a cookie, the `accepted`-th of this node: a stream of a test in progress, which is
    /// handed over (`None`); or a new test, which is run to its end. `moved` hears of its bytes.
    ///
    /// # Errors
    /// A peer that vanishes, says what nobody asked for, or wants more than the bounds or `moved` let it have; it has been
    /// told. [`Error::Interrupted`] where `stop` says so.
    pub fn serve(&self, socket: TcpStream, accepted: u64, stop: &Stop, moved: Moved<'_>) -> Result<Option<Done>> {
        let cookie = {
            let copy = socket.try_clone().map_err(|source| Error::Host { doing: "copy a socket", source })?;
            let mut control = Control::new(copy, stop)?;
            let mut cookie = [0; super::COOKIE_BYTES];
            control.read(&mut cookie, PATIENCE)?;
            Cookie::from_bytes(cookie)
        };
        let address = peer_of(&socket)?.ip().to_canonical();
        let mut socket = match self.seats.stream(&cookie, address, accepted, socket) {
            Came::New(socket) => socket,
            Came::Stream => return Ok(None),
            Came::TooMany => {
                return Err(Error::Refused { peer: address.to_string(), why: "its stream is one too many".into() });
            }
        };
        let mut ledger = Ledger { address, moved, told: 0, at: Instant::now() };
        let seated = ledger.tell(0).and_then(|()| self.seats.sit(cookie, address, &self.bounds));
        let seated = seated.inspect_err(|_| {
            // As stock does when it is busy.
            let _ = std::io::Write::write_all(&mut socket, &[State::AccessDenied as i8 as u8]);
        })?;
        let mut control = Control::new(socket, stop)?;
        let result = self.run(&mut control, &seated, &mut ledger, stop);
        if result.is_err() {
            let _ = control.say(State::ServerTerminate);
        }
        result.map(Some)
    }

    /// A datagram that belongs to no flow yet: whether it was a test's hello. The answer comes from the test itself.
    pub fn datagram(&self, from: SocketAddr, datagram: &[u8]) -> bool {
        is_hello(datagram) && self.seats.hello(from)
    }

    fn run(&self, control: &mut Control, seated: &Seated, ledger: &mut Ledger<'_>, stop: &Stop) -> Result<Done> {
        control.say(State::ParamExchange)?;
        let params = self.agree(control, seated)?;
        let running = gather(control, &params, seated, stop)?;
        let followed = self.follow(control, &params, &running, ledger, stop);
        let over = followed.as_ref().map_or_else(|_| running.elapsed(), |followed| followed.over);
        let mut results = running.finish(over);
        seated.has_ended();
        // It is over, and need not be ended.
        let _ = ledger.tell(results.streams.iter().map(|stream| stream.bytes).sum());
        let Followed { output, mark, over } = followed?;
        mark.take_off(&mut results);
        results.output = params.wants_output.then_some(output);
        control.say(State::ExchangeResults)?;
        let theirs = control.hear_text(RESULTS_MAX)?;
        Results::parse(&theirs).map_err(|what| control.wrong(what))?;
        control.send_text(&results.encode())?;
        control.say(State::DisplayResults)?;
        // Some clients close at once.
        let _ = control.hear(PATIENCE);
        Ok(Done { params, results, elapsed: over })
    }

    /// What the client asks for, if it may have it.
    fn agree(&self, control: &mut Control, seated: &Seated) -> Result<Params> {
        let text = control.hear_text(PARAMS_MAX)?;
        let params = Params::parse(&text).and_then(|params| self.allowed(&params, seated).map(|()| params));
        match params {
            Ok(params) => Ok(params),
            Err(why) => {
                let number = match why {
                    _ if why.contains("second") => WRONG_DURATION,
                    _ if why.contains("parallel") => WRONG_STREAMS,
                    _ => WRONG_PARAMS,
                };
                control.say(State::ServerError)?;
                control.send(&[number.to_be_bytes(), 0i32.to_be_bytes()].concat())?;
                Err(control.wrong(why))
            }
        }
    }

    fn allowed(&self, params: &Params, seated: &Seated) -> std::result::Result<(), String> {
        if params.time_s > self.bounds.seconds_max {
            return Err(format!(
                "{} seconds; this node's tests last {} at most",
                params.time_s, self.bounds.seconds_max
            ));
        }
        let most = self.bounds.datagram_bit_s_max;
        let asked = params.rate_bit_s.saturating_mul(params.parallel.into());
        if params.udp && most > 0 && (asked > most || params.rate_bit_s == 0) {
            return Err(format!("datagrams at {}; {} is the most here", BitRate(asked), BitRate(most)));
        }
        let streams = params.parallel as usize * if params.both { 2 } else { 1 };
        if !seated.take_streams(streams, self.bounds.streams_max) {
            return Err(format!("{streams} parallel streams; all tests here have {} at most", self.bounds.streams_max));
        }
        Ok(())
    }

    /// Until the client says that it is over.
    fn follow(
        &self,
        control: &mut Control,
        params: &Params,
        running: &Running,
        ledger: &mut Ledger<'_>,
        stop: &Stop,
    ) -> Result<Followed> {
        control.say(State::TestStart)?;
        control.say(State::TestRunning)?;
        let bound = u64::from(self.bounds.seconds_max) + u64::from(params.omit_s) + PATIENCE.as_secs();
        let mut words = Words::new(running.bytes(), if params.wants_output { RESULTS_MAX / 4 } else { 0 });
        let mut moved = (Instant::now(), 0);
        let omit = Duration::from_secs(params.omit_s.into());
        let mut mark = omit.is_zero().then(Mark::default);
        loop {
            match control.heard()? {
                Some(State::TestEnd) => break,
                Some(state) => return Err(control.unwanted(state, State::TestEnd)),
                None if stop.is_stopped() => return Err(Error::Interrupted),
                None => {}
            }
            let now = running.elapsed();
            if now.as_secs() >= bound {
                return Err(control.wrong(format!("a test that is not over after {bound} s")));
            }
            if mark.is_none() && now >= omit {
                mark = Some(running.mark(now));
            }
            let bytes = running.bytes();
            let sum: u64 = bytes.iter().map(|(_, bytes)| bytes).sum();
            ledger.saw(sum)?;
            if sum != moved.1 {
                moved = (Instant::now(), sum);
            } else if moved.0.elapsed() > PATIENCE * 2 {
                return Err(Error::Silent { peer: control.peer().to_owned(), seconds: PATIENCE.as_secs() * 2 });
            }
            words.saw(now, bytes);
        }
        // The client's end of it: what settles now is no part of the time.
        let over = running.elapsed();
        if mark.is_none() && over >= omit {
            // Its client ended it as soon as counting began.
            mark = Some(running.mark(over));
        }
        running.settle();
        Ok(Followed { output: words.close(over, &running.bytes()), mark: mark.unwrap_or_default(), over })
    }
}

fn peer_of(socket: &TcpStream) -> Result<SocketAddr> {
    socket.peer_addr().map_err(|source| Error::Broken { peer: "a client".into(), source })
}
