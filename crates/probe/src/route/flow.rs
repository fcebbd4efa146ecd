//! One flow: a connected socket whose addresses and ports stay, probes by number, and what is heard of them.
//!
//! Does not know: what to send when.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::v1::probe::route::Said;
use rustix::io::Errno;
use socket2::SockRef;
use sys::errqueue::{self, Arrival, Origin, Report};

use super::echo::{self, ECHO_BYTES, Token};
use super::icmp;
use crate::{Error, Result};

/// Attempts to send one probe: each may fail because of what the network said about an earlier one.
const ATTEMPTS: usize = 16;
/// Messages taken from one socket before others have their turn.
const BURST: usize = 256;
/// What a probe may be at most, in bytes of IP: the largest UDP datagram.
pub const PROBE_BYTES_MAX: u32 = 65_507 + 28;

/// A probe to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shot {
    /// TTL, or hop limit.
    pub ttl: u8,
    /// Its size in bytes of IP; less than the least probe counts as that.
    pub bytes: u32,
}

/// What was heard of probes. They are counted from 0, by flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// The far end answered.
    Answer {
        /// Which probe.
        shot: usize,
        /// Round trip.
        rtt: Duration,
        /// Hops there, the far end included, where it saw the probe's TTL.
        hops: Option<u8>,
        /// Hops back, this end included, where the kernel told the answer's TTL.
        hops_reverse: Option<u8>,
        /// The answer's TTL as received.
        ttl_reverse: Option<u8>,
        /// Probes of this flow that the far end has counted so far.
        count: u32,
    },
    /// Somebody sent ICMP.
    Icmp {
        /// Which probe, where enough of it is quoted.
        shot: Option<usize>,
        /// Round trip, where the probe is known.
        rtt: Option<Duration>,
        /// Who.
        from: IpAddr,
        /// What it means.
        said: Said,
        /// Type and code.
        icmp: [u8; 2],
        /// Of what was too big: what would fit, in bytes of IP.
        mtu: u32,
        /// Its TTL as received.
        ttl_reverse: Option<u8>,
    },
    /// This host could not send it: its interface carries no more than so many bytes of IP, where it says so.
    TooBigHere {
        /// Which probe.
        shot: usize,
        /// The interface's MTU.
        mtu: Option<u32>,
    },
}

struct Sent {
    ttl: u8,
    at: Instant,
    /// The clock that the kernel stamps arrivals with.
    real: SystemTime,
}

/// A flow.
pub struct Flow<'a> {
    socket: &'a UdpSocket,
    token: Token,
    near: SocketAddr,
    far: SocketAddr,
    /// The upper half of all numbers: what was sent earlier with the same ports is told apart.
    run: u32,
    sent: Vec<Sent>,
    ttl: u32,
    ttl_before: u32,
    datagram: Vec<u8>,
    /// Heard while sending.
    waiting: Vec<Heard>,
}

impl<'a> Flow<'a> {
    /// Of a connected socket.
    ///
    /// # Errors
    /// It is not connected, or the kernel lacks what probes need.
    pub fn new(socket: &'a UdpSocket, token: Token) -> Result<Flow<'a>> {
        let failed = |source| Error::Host { doing: "prepare a socket for probes", source };
        let prepare = || {
            errqueue::queue_reports(socket)?;
            errqueue::tell_arrivals(socket)?;
            errqueue::never_fragment(socket)?;
            errqueue::clear_flow_label(socket)?;
            Ok((socket.local_addr()?, socket.peer_addr()?))
        };
        let (near, far) = prepare().map_err(failed)?;
        let socket_ref = SockRef::from(socket);
        let ttl = if near.is_ipv4() { socket_ref.ttl_v4() } else { socket_ref.unicast_hops_v6() };
        let ttl = ttl.map_err(failed)?;
        Ok(Flow {
            socket,
            token,
            near,
            far,
            run: fastrand::u32(..),
            sent: Vec::new(),
            ttl,
            ttl_before: ttl,
            datagram: Vec::new(),
            waiting: Vec::new(),
        })
    }

    /// This end.
    pub fn near(&self) -> SocketAddr {
        self.near
    }

    /// The far end.
    pub fn far(&self) -> SocketAddr {
        self.far
    }

    /// Bytes of IP around a probe's payload.
    pub fn header_bytes(far: SocketAddr) -> u32 {
        // An IPv6 socket may be connected to an IPv4 address.
        if far.ip().to_canonical().is_ipv4() { 20 + 8 } else { 40 + 8 }
    }

    /// The least probe, in bytes of IP.
    pub fn bytes_min(far: SocketAddr) -> u32 {
        Flow::header_bytes(far) + ECHO_BYTES as u32
    }

    /// Sends the next probe. That the interface cannot carry it is heard like everything else.
    ///
    /// # Errors
    /// Nothing leads there (any more), or the socket fails.
    pub fn send(&mut self, shot: Shot) -> Result<()> {
        let failed = |source| Error::Host { doing: "send a probe (is there a route?)", source };
        self.set_ttl(shot.ttl).map_err(failed)?;
        let number = self.sent.len();
        let payload = shot.bytes.min(PROBE_BYTES_MAX).saturating_sub(Flow::header_bytes(self.far)) as usize;
        self.datagram.resize(payload.max(ECHO_BYTES), 0);
        echo::ask(&mut self.datagram, (u64::from(self.run) << 32) | number as u64, &self.token);
        let mut last = io::Error::from(io::ErrorKind::WouldBlock);
        for _ in 0..ATTEMPTS {
            let sent = Sent { ttl: shot.ttl, at: Instant::now(), real: SystemTime::now() };
            let Err(error) = self.socket.send(&self.datagram) else {
                self.sent.push(sent);
                return Ok(());
            };
            let here = self.drain_reports().map_err(failed)?;
            if let Some(mtu) = here {
                self.sent.push(sent);
                self.waiting.push(Heard::TooBigHere { shot: number, mtu: Some(mtu) });
                return Ok(());
            }
            match is_pending(&error) {
                // The kernel has no room now.
                None => std::thread::sleep(Duration::from_millis(1)),
                Some(true) => {}
                Some(false) => return Err(failed(error)),
            }
            last = error;
        }
        if Errno::from_io_error(&last) == Some(Errno::MSGSIZE) {
            self.sent.push(Sent { ttl: shot.ttl, at: Instant::now(), real: SystemTime::now() });
            self.waiting.push(Heard::TooBigHere { shot: number, mtu: None });
            return Ok(());
        }
        Err(failed(last))
    }

    fn set_ttl(&mut self, ttl: u8) -> io::Result<()> {
        let ttl = u32::from(ttl);
        if ttl != self.ttl {
            set_ttl(self.socket, self.near, ttl)?;
            self.ttl = ttl;
        }
        Ok(())
    }

    /// Takes all reports; returns the interface's MTU if one says that a probe exceeded it.
    fn drain_reports(&mut self) -> io::Result<Option<u32>> {
        let mut here = None;
        for _ in 0..BURST {
            let mut quote = [0; ECHO_BYTES];
            match errqueue::receive_report(self.socket, &mut quote) {
                Ok(arrival) => here = self.note(&arrival, &quote).or(here),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_pending(&error) == Some(true) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(here)
    }

    /// Notes what a report says; returns the interface's MTU if that is what it is about.
    fn note(&mut self, arrival: &Arrival, quote: &[u8]) -> Option<u32> {
        let report = arrival.report?;
        let Report { origin, kind, code, info, offender, .. } = report;
        let is_v4 = match origin {
            Origin::Local => {
                return (Errno::from_raw_os_error(report.errno) == Errno::MSGSIZE && info > 0).then_some(info);
            }
            Origin::Icmp4 => true,
            Origin::Icmp6 => false,
            Origin::Other(_) => return None,
        };
        let from = offender?.to_canonical();
        let said = icmp::meaning(is_v4, kind, code);
        let quote = &quote[..arrival.bytes.min(quote.len())];
        let (shot, rtt) = match echo::quoted(quote, &self.token) {
            Some(number) => {
                let shot = self.shot(number)?;
                (Some(shot), Some(self.rtt(shot, arrival)))
            }
            // Another program's, sent earlier with the same ports; or too little to tell.
            None if quote.len() >= 12 => return None,
            None => (None, None),
        };
        let mtu = if said == Said::TooBig { info } else { 0 };
        let icmp = [kind, code];
        self.waiting.push(Heard::Icmp { shot, rtt, from, said, icmp, mtu, ttl_reverse: arrival.ttl });
        None
    }

    /// Which probe a number is of; none if not of this run.
    fn shot(&self, number: u64) -> Option<usize> {
        let shot = (number & u64::from(u32::MAX)) as usize;
        (number >> 32 == u64::from(self.run) && shot < self.sent.len()).then_some(shot)
    }

    /// By the kernel's time of arrival, which does not count how late this thread was woken; unless somebody set the
    /// clock meanwhile: then the two disagree, and the monotonic one is right.
    fn rtt(&self, shot: usize, arrival: &Arrival) -> Duration {
        let sent = &self.sent[shot];
        let most = sent.at.elapsed();
        let by_kernel = arrival.at.and_then(|at| (UNIX_EPOCH + at).duration_since(sent.real).ok());
        // Longer than a second between arrival and wake-up is not lateness.
        by_kernel.filter(|rtt| *rtt <= most && most - *rtt < Duration::from_secs(1)).unwrap_or(most)
    }

    /// Hands over what was heard since the last time.
    ///
    /// # Errors
    /// The socket fails.
    pub fn hear(&mut self, mut take: impl FnMut(&Heard)) -> Result<()> {
        let failed = |source| Error::Host { doing: "hear what became of probes", source };
        self.drain_reports().map_err(failed)?;
        let mut buffer = [0; ECHO_BYTES + 1];
        for _ in 0..BURST {
            match errqueue::receive(self.socket, &mut buffer) {
                Ok(arrival) => self.note_answer(&arrival, &buffer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_pending(&error) == Some(true) => self.drain_reports().map(drop).map_err(failed)?,
                Err(error) => return Err(failed(error)),
            }
        }
        self.waiting.drain(..).for_each(|heard| take(&heard));
        Ok(())
    }

    fn note_answer(&mut self, arrival: &Arrival, buffer: &[u8]) {
        let Some(answer) = echo::read(&buffer[..arrival.bytes.min(buffer.len())], &self.token) else { return };
        let Some(shot) = self.shot(answer.number) else { return };
        let rtt = self.rtt(shot, arrival);
        // Sent with 3 and received with 1: two routers, and then the far end.
        let hops = |sent: u8, received: u8| sent.checked_sub(received).map(|routers| routers.saturating_add(1));
        let there = answer.ttl.and_then(|ttl| hops(self.sent[shot].ttl, ttl));
        let back = arrival.ttl.and_then(|ttl| hops(answer.own_ttl, ttl));
        self.waiting.push(Heard::Answer {
            shot,
            rtt,
            hops: there,
            hops_reverse: back,
            ttl_reverse: arrival.ttl,
            count: answer.count,
        });
    }

    /// The socket, to wait for.
    pub fn socket(&self) -> &'a UdpSocket {
        self.socket
    }
}

impl Drop for Flow<'_> {
    fn drop(&mut self) {
        // The socket is its owner's, who may want to send over more than a few hops.
        let _ = set_ttl(self.socket, self.near, self.ttl_before);
    }
}

fn set_ttl(socket: &UdpSocket, near: SocketAddr, ttl: u32) -> io::Result<()> {
    match near {
        SocketAddr::V4(_) => SockRef::from(socket).set_ttl_v4(ttl),
        SocketAddr::V6(_) => {
            // For IPv4 destinations.
            let _ = SockRef::from(socket).set_ttl_v4(ttl);
            SockRef::from(socket).set_unicast_hops_v6(ttl)
        }
    }
}

/// Whether an error may be what the network said about an earlier probe; none if the kernel had no room.
fn is_pending(error: &io::Error) -> Option<bool> {
    match Errno::from_io_error(error)? {
        Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR => None,
        Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::MSGSIZE => Some(true),
        Errno::PROTO | Errno::NOPROTOOPT | Errno::ACCESS | Errno::HOSTDOWN | Errno::NONET => Some(true),
        Errno::OPNOTSUPP => Some(true),
        _ => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: Token = [9; 16];

    fn hear(flow: &mut Flow) -> Vec<Heard> {
        let mut all = Vec::new();
        for _ in 0..200 {
            flow.hear(|heard| all.push(heard.clone())).unwrap();
            if !all.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        all
    }

    #[test]
    fn probes_are_known_by_their_number() {
        for host in ["127.0.0.1", "::1"] {
            let far = UdpSocket::bind((host, 0)).unwrap();
            let near = UdpSocket::bind((host, 0)).unwrap();
            near.connect(far.local_addr().unwrap()).unwrap();
            let mut flow = Flow::new(&near, TOKEN).unwrap();
            for ttl in [7, 9] {
                flow.send(Shot { ttl, bytes: 0 }).unwrap();
            }
            let mut buffer = [0; 100];
            let lengths = [(); 2].map(|()| far.recv_from(&mut buffer).unwrap().0);
            assert_eq!(lengths, [ECHO_BYTES; 2]);
            // The second one comes back; a forged one of another run does not count.
            let mut forged = buffer;
            forged[4] ^= 1;
            for question in [forged, buffer] {
                let said = echo::answer(&question[..32], (Some(8), 64), 5, |_| true).unwrap();
                far.send_to(&said, near.local_addr().unwrap()).unwrap();
            }
            let heard = hear(&mut flow);
            let [Heard::Answer { shot: 1, rtt, hops: Some(2), hops_reverse: Some(1), ttl_reverse: Some(64), count: 5 }] =
                heard[..]
            else {
                panic!("{heard:?}");
            };
            assert!(rtt < Duration::from_secs(2));
            drop(flow);
            assert_eq!(near.ttl().unwrap(), 64, "as it was");
        }
    }

    #[test]
    fn a_closed_port_is_heard_and_does_not_stop_the_next_probe() {
        for (host, icmp) in [("127.0.0.1", [3, 3]), ("::1", [1, 4])] {
            let gone = UdpSocket::bind((host, 0)).unwrap().local_addr().unwrap();
            let near = UdpSocket::bind((host, 0)).unwrap();
            near.connect(gone).unwrap();
            let mut flow = Flow::new(&near, TOKEN).unwrap();
            for number in 0..3 {
                flow.send(Shot { ttl: 64, bytes: 200 }).unwrap();
                let heard = hear(&mut flow);
                let [Heard::Icmp { shot, said: Said::PortUnreachable, icmp: seen, from, .. }] = heard[..] else {
                    panic!("{heard:?}");
                };
                assert_eq!((shot, seen, from), (Some(number), icmp, gone.ip()));
            }
        }
    }
}
