//! The control connection: single bytes of state, and JSON after its length. Every wait and every length has a bound.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::stop::Stop;
use crate::tcp::stream::is_timeout;

/// Length of a cookie with its zero.
pub const COOKIE_BYTES: usize = 37;

/// Letters of a cookie.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Identifies a test: 36 letters and a zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cookie([u8; COOKIE_BYTES]);

impl std::fmt::Debug for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Whoever has a cookie can add streams to its test, so logs show only a part of it.
        write!(f, "Cookie({}…)", String::from_utf8_lossy(&self.0[..6]))
    }
}

impl Cookie {
    /// A new random cookie.
    pub fn random() -> Cookie {
        let mut bytes = [0; COOKIE_BYTES];
        let mut random = fastrand::Rng::new();
        bytes[..COOKIE_BYTES - 1].iter_mut().for_each(|byte| *byte = LETTERS[random.usize(..LETTERS.len())]);
        Cookie(bytes)
    }

    /// The cookie in the first bytes of a connection. Any bytes are valid, as with stock.
    pub fn from_bytes(bytes: [u8; COOKIE_BYTES]) -> Cookie {
        Cookie(bytes)
    }

    /// The bytes of the wire form.
    pub fn as_bytes(&self) -> &[u8; COOKIE_BYTES] {
        &self.0
    }

    /// Whether the first bytes of a connection look like a cookie; none while they are too few to decide.
    pub fn begins(first: &[u8]) -> Option<bool> {
        if first.iter().take(8).any(|byte| !LETTERS.contains(byte)) {
            return Some(false);
        }
        (first.len() >= 8).then_some(true)
    }
}

/// The states of a test, as bytes of the control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(super) enum State {
    TestStart = 1,
    TestRunning = 2,
    TestEnd = 4,
    ParamExchange = 9,
    CreateStreams = 10,
    ServerTerminate = 11,
    ClientTerminate = 12,
    ExchangeResults = 13,
    DisplayResults = 14,
    Done = 16,
    AccessDenied = -1,
    ServerError = -2,
}

const STATES: [State; 12] = [
    State::TestStart,
    State::TestRunning,
    State::TestEnd,
    State::ParamExchange,
    State::CreateStreams,
    State::ServerTerminate,
    State::ClientTerminate,
    State::ExchangeResults,
    State::DisplayResults,
    State::Done,
    State::AccessDenied,
    State::ServerError,
];

impl State {
    fn of(byte: u8) -> Option<State> {
        STATES.into_iter().find(|state| *state as i8 as u8 == byte)
    }
}

/// The longest that a peer may take for a message that is due.
pub(super) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time between checks whether a wait should end.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Most bytes of parameters: stock's bound.
pub(super) const PARAMS_MAX: usize = 8 << 10;
/// Most bytes of results: enough for 256 streams and a server's output.
pub(super) const RESULTS_MAX: usize = 4 << 20;

/// A control connection.
#[derive(Debug)]
pub(super) struct Control {
    socket: TcpStream,
    peer: String,
    stop: Stop,
}

impl Control {
    pub(super) fn new(socket: TcpStream, stop: &Stop) -> Result<Control> {
        let host = |source| Error::Host { doing: "set up a socket", source };
        let peer = socket.peer_addr().map_err(host)?.to_string();
        socket.set_nodelay(true).map_err(host)?;
        socket.set_read_timeout(Some(CHECK_INTERVAL)).map_err(host)?;
        socket.set_write_timeout(Some(MESSAGE_TIMEOUT)).map_err(host)?;
        Ok(Control { socket, peer, stop: stop.clone() })
    }

    pub(super) fn peer(&self) -> &str {
        &self.peer
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(super) fn wrong(&self, what: impl Into<String>) -> Error {
        Error::Protocol { peer: self.peer.clone(), protocol: "iperf3", what: what.into() }
    }

    fn broken(&self, source: std::io::Error) -> Error {
        Error::Broken { peer: self.peer.clone(), source }
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.write_all(bytes).map_err(|source| self.broken(source))
    }

    pub(super) fn send_state(&mut self, state: State) -> Result<()> {
        self.send(&[state as i8 as u8])
    }

    /// Sends JSON, preceded by its length.
    pub(super) fn send_text(&mut self, text: &[u8]) -> Result<()> {
        let length = u32::try_from(text.len()).map_err(|_| self.wrong("a text beyond 4 GiB"))?;
        self.send(&[&length.to_be_bytes()[..], text].concat())
    }

    /// Fills `into` within `timeout`.
    pub(super) fn read(&mut self, into: &mut [u8], timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        let mut at = 0;
        while at < into.len() {
            match self.socket.read(&mut into[at..]) {
                Ok(0) => return Err(self.broken(ErrorKind::UnexpectedEof.into())),
                Ok(read) => at += read,
                Err(error) if is_timeout(&error) => {}
                Err(source) => return Err(self.broken(source)),
            }
            if self.stop.is_stopped() {
                return Err(Error::Interrupted);
            }
            if at < into.len() && Instant::now() >= deadline {
                return Err(Error::Silent { peer: self.peer.clone(), seconds: timeout.as_secs() });
            }
        }
        Ok(())
    }

    /// Reads the next state, within `timeout`.
    pub(super) fn read_state(&mut self, timeout: Duration) -> Result<State> {
        let mut byte = [0];
        self.read(&mut byte, timeout)?;
        self.state(byte[0])
    }

    fn state(&self, byte: u8) -> Result<State> {
        State::of(byte).ok_or_else(|| self.wrong(format!("state {}", byte as i8)))
    }

    /// Reads the next state if one has arrived; waits for at most 50 ms.
    pub(super) fn poll_state(&mut self) -> Result<Option<State>> {
        let mut byte = [0];
        match self.socket.read(&mut byte) {
            Ok(0) => Err(self.broken(ErrorKind::UnexpectedEof.into())),
            Ok(_) => self.state(byte[0]).map(Some),
            Err(error) if is_timeout(&error) => Ok(None),
            Err(source) => Err(self.broken(source)),
        }
    }

    /// Reads the next state; any other than `wanted` is an error.
    pub(super) fn expect_state(&mut self, wanted: State) -> Result<()> {
        let state = self.read_state(MESSAGE_TIMEOUT)?;
        if state == wanted { Ok(()) } else { Err(self.unexpected(state, wanted)) }
    }

    /// The error for a state that arrived where another was due.
    pub(super) fn unexpected(&mut self, state: State, wanted: State) -> Error {
        let peer = self.peer.clone();
        match state {
            State::ServerError => {
                let mut numbers = [0; 8];
                if let Err(error) = self.read(&mut numbers, MESSAGE_TIMEOUT) {
                    return error;
                }
                let [a, b, c, d, e, f, g, h] = numbers;
                let why = match (i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h])) {
                    (own, 0) => format!("its error {own} (iperf_api.h)"),
                    (own, errno) => format!("its error {own}: {}", std::io::Error::from_raw_os_error(errno)),
                };
                Error::Refused { peer, why }
            }
            State::AccessDenied => busy(&peer),
            State::ServerTerminate | State::ClientTerminate => Error::Refused { peer, why: "it ended the test".into() },
            other => self.wrong(format!("{other:?} where {wanted:?} was due")),
        }
    }

    /// Reads JSON after its length, of at most `most` bytes.
    pub(super) fn read_text(&mut self, most: usize) -> Result<Vec<u8>> {
        let mut length = [0; 4];
        self.read(&mut length, MESSAGE_TIMEOUT)?;
        let length = u32::from_be_bytes(length) as usize;
        if length == 0 || length > most {
            return Err(self.wrong(format!("a text of {length} bytes; it has from 1 to {most}")));
        }
        let mut text = vec![0; length];
        self.read(&mut text, MESSAGE_TIMEOUT)?;
        Ok(text)
    }
}

/// The error of a busy stock server. It runs one test at a time, and closes without reading, so its refusal may be lost by a reset.
pub(super) fn busy(peer: &str) -> Error {
    let why = "it is busy with another test (stock iperf3 runs one at a time), or denies access; try again later";
    Error::Refused { peer: peer.to_owned(), why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_random_recognised_and_hidden_in_logs() {
        let cookie = Cookie::random();
        assert_ne!(cookie, Cookie::random());
        assert_eq!(Cookie::begins(cookie.as_bytes()), Some(true));
        let begins = [&b"abc"[..], b"LHS1", b"\x16\x03"].map(Cookie::begins);
        assert_eq!(begins, [None, Some(false), Some(false)]);
        assert_eq!(cookie.as_bytes()[36], 0);
        assert!(!format!("{cookie:?}").contains(std::str::from_utf8(&cookie.as_bytes()[..36]).unwrap()));
    }

    #[test]
    fn a_state_is_its_byte() {
        for byte in 0..=u8::MAX {
            assert!(State::of(byte).is_none_or(|state| state as i8 as u8 == byte));
        }
        assert_eq!([9, 255, 3].map(State::of), [Some(State::ParamExchange), Some(State::AccessDenied), None]);
    }
}
