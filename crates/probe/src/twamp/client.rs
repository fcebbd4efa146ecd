//! The tester's end.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use model::v1::node::StreamTest;

use super::message::{self, ACCEPT, Accept, GREETING, Request, SERVER_START, SHORT, UNAUTHENTICATED};
use crate::{Error, Result};

/// The longest wait for each message of the reflector.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Octets of a test packet before its padding.
const HEAD: u32 = 14;

/// A session that has begun.
#[derive(Debug)]
pub struct TwampSession {
    /// The socket for test packets, connected to the reflector's port.
    pub socket: UdpSocket,
    /// The session lasts until this is dropped.
    pub control: Box<dyn std::fmt::Debug + Send>,
}

/// The control connection, which ends the session when dropped.
#[derive(Debug)]
struct Control(TcpStream);

impl Drop for Control {
    fn drop(&mut self) {
        // If this fails, the reflector is gone, and has ended the session.
        let _ = self.0.write_all(&message::stop_sessions(1));
    }
}

/// Begins a session with a server of TWAMP.
///
/// # Errors
/// [`Error::Connect`]: the server cannot be reached. [`Error::Protocol`]: it refuses the session. [`Error::Broken`]: the
/// connection breaks.
pub fn begin(to: SocketAddr, test: &StreamTest) -> Result<TwampSession> {
    let connect = |source| Error::Connect { to: to.to_string(), source };
    let mut control = TcpStream::connect_timeout(&to, MESSAGE_TIMEOUT).map_err(connect)?;
    let broken = |source| Error::Broken { peer: to.to_string(), source };
    control.set_read_timeout(Some(MESSAGE_TIMEOUT)).map_err(broken)?;
    control.set_write_timeout(Some(MESSAGE_TIMEOUT)).map_err(broken)?;
    let wrong = |what: String| Error::Protocol { peer: to.to_string(), protocol: "TWAMP", what };
    let greeting: [u8; GREETING] = read(&mut control).map_err(broken)?;
    if message::modes(&greeting) & UNAUTHENTICATED == 0 {
        return Err(wrong("it offers no session without authentication".into()));
    }
    control.write_all(&message::set_up(UNAUTHENTICATED)).map_err(broken)?;
    let start: [u8; SERVER_START] = read(&mut control).map_err(broken)?;
    accepted(start[15], "this host").map_err(wrong)?;
    let socket = local_socket(to)?;
    let own = control.local_addr().map_err(broken)?;
    let sender_port = socket.local_addr().map_err(broken)?.port();
    let request = Request {
        sender: (own.ip(), sender_port),
        // Testers customarily propose the control port; the reflector may choose another one.
        receiver: (to.ip(), to.port()),
        padding: test.packet_bytes.saturating_sub(HEAD),
        timeout: ((test.timeout_s * 2f64.powi(32)) as u64).max(1 << 32),
    };
    control.write_all(&request.write()).map_err(broken)?;
    let accept: [u8; ACCEPT] = read(&mut control).map_err(broken)?;
    accepted(accept[0], "a session").map_err(wrong)?;
    control.write_all(&message::short(message::START_SESSIONS)).map_err(broken)?;
    let ack: [u8; SHORT] = read(&mut control).map_err(broken)?;
    accepted(ack[0], "the start of a session").map_err(wrong)?;
    socket.connect(SocketAddr::new(to.ip(), message::accepted_port(&accept))).map_err(connect)?;
    Ok(TwampSession { socket, control: Box::new(Control(control)) })
}

fn local_socket(to: SocketAddr) -> Result<UdpSocket> {
    let from: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    UdpSocket::bind(from).map_err(|source| Error::Host { doing: "make a socket for test packets", source })
}

fn read<const N: usize>(control: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut octets = [0; N];
    control.read_exact(&mut octets)?;
    Ok(octets)
}

fn accepted(code: u8, what: &str) -> std::result::Result<(), String> {
    match code {
        0 => Ok(()),
        code => Err(format!("it does not accept {what}: {}", Accept::describe(code))),
    }
}
