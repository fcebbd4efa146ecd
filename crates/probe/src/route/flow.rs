//! One flow: a connected socket with fixed addresses and ports, its probes by number, and their events.
//!
//! This module does not know which probes to send, and when.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::v1::probe::route::RouterReply;
use rustix::io::Errno;
use socket2::SockRef;
use sys::errqueue::{self, Arrival, Origin, Report};

use super::echo::{self, ECHO_BYTES, Token};
use super::icmp;
use crate::{Error, Result};

/// Attempts to send one probe: each may return the ICMP error of an earlier one.
const ATTEMPTS: usize = 16;
/// Messages taken from one socket before the next socket's turn.
const BURST: usize = 256;
/// The largest probe, in bytes of IP: the largest UDP datagram.
pub const PROBE_BYTES_MAX: u32 = 65_507 + 28;

/// A probe to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSpec {
    /// TTL, or hop limit.
    pub ttl: u8,
    /// Its size in bytes of IP. A smaller size than that of the smallest probe is raised to it.
    pub bytes: u32,
}

/// An event of a probe. Probes of a flow are numbered from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum ProbeEvent {
    /// The far end answered.
    Answer {
        /// Number of the probe.
        probe: usize,
        /// Round trip.
        rtt: Duration,
        /// Hops in forward direction, the far end included; none if it did not see the probe's TTL.
        hops: Option<u8>,
        /// Hops in reverse, this end included; none if the kernel did not report the answer's TTL.
        hops_reverse: Option<u8>,
        /// TTL of the answer on arrival.
        ttl_reverse: Option<u8>,
        /// Probes of this flow that the far end has counted so far.
        count: u32,
    },
    /// A router or host sent an ICMP error.
    Icmp {
        /// Number of the probe, if enough of it is quoted.
        probe: Option<usize>,
        /// Round trip, if the probe is known.
        rtt: Option<Duration>,
        /// Its sender.
        from: IpAddr,
        /// Its meaning.
        reply: RouterReply,
        /// Type and code.
        icmp: [u8; 2],
        /// For a packet too big: the size that would fit, in bytes of IP; else 0.
        mtu: u32,
        /// Its TTL on arrival.
        ttl_reverse: Option<u8>,
    },
    /// This host could not send the probe: its size exceeds the MTU of the interface.
    TooBigHere {
        /// Number of the probe.
        probe: usize,
        /// The interface's MTU in bytes of IP, if known.
        mtu: Option<u32>,
    },
}

struct SentProbe {
    ttl: u8,
    at: Instant,
    /// The clock that the kernel stamps arrivals with.
    real: SystemTime,
}

/// A flow of probes.
pub struct ProbeFlow<'a> {
    socket: &'a UdpSocket,
    token: Token,
    near: SocketAddr,
    far: SocketAddr,
    /// The upper half of all numbers, which distinguishes the probes of this run from earlier ones with the same ports.
    run: u32,
    sent: Vec<SentProbe>,
    ttl: u32,
    ttl_before: u32,
    datagram: Vec<u8>,
    /// Events that have not been passed on yet.
    waiting: Vec<ProbeEvent>,
}

impl<'a> ProbeFlow<'a> {
    /// The flow of a connected socket.
    ///
    /// # Errors
    /// [`Error::Host`]: the socket is not connected, or the kernel lacks an option that probes need.
    pub fn new(socket: &'a UdpSocket, token: Token) -> Result<ProbeFlow<'a>> {
        let failed = |source| Error::Host { doing: "prepare a socket for probes", source };
        let prepare = || {
            errqueue::queue_reports(socket)?;
            errqueue::enable_arrival_info(socket)?;
            errqueue::never_fragment(socket)?;
            errqueue::clear_flow_label(socket)?;
            Ok((socket.local_addr()?, socket.peer_addr()?))
        };
        let (near, far) = prepare().map_err(failed)?;
        let socket_ref = SockRef::from(socket);
        let ttl = if near.is_ipv4() { socket_ref.ttl_v4() } else { socket_ref.unicast_hops_v6() };
        let ttl = ttl.map_err(failed)?;
        Ok(ProbeFlow {
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

    /// The smallest probe, in bytes of IP.
    pub fn bytes_min(far: SocketAddr) -> u32 {
        ProbeFlow::header_bytes(far) + ECHO_BYTES as u32
    }

    /// Sends the next probe. A probe that is too large for the interface makes an event.
    ///
    /// # Errors
    /// [`Error::Host`]: there is no route, or the socket fails.
    pub fn send(&mut self, spec: ProbeSpec) -> Result<()> {
        let failed = |source| Error::Host { doing: "send a probe (is there a route?)", source };
        self.set_ttl(spec.ttl).map_err(failed)?;
        let number = self.sent.len();
        let payload = spec.bytes.min(PROBE_BYTES_MAX).saturating_sub(ProbeFlow::header_bytes(self.far)) as usize;
        self.datagram.resize(payload.max(ECHO_BYTES), 0);
        echo::write_question(&mut self.datagram, (u64::from(self.run) << 32) | number as u64, &self.token);
        let mut last = io::Error::from(io::ErrorKind::WouldBlock);
        for _ in 0..ATTEMPTS {
            let sent = SentProbe { ttl: spec.ttl, at: Instant::now(), real: SystemTime::now() };
            let Err(error) = self.socket.send(&self.datagram) else {
                self.sent.push(sent);
                return Ok(());
            };
            if let Some(mtu) = self.drain_reports().map_err(failed)? {
                self.sent.push(sent);
                self.waiting.push(ProbeEvent::TooBigHere { probe: number, mtu: Some(mtu) });
                return Ok(());
            }
            match is_pending(&error) {
                // The kernel has no buffer at the moment.
                None => std::thread::sleep(Duration::from_millis(1)),
                Some(true) => {}
                Some(false) => return Err(failed(error)),
            }
            last = error;
        }
        if Errno::from_io_error(&last) == Some(Errno::MSGSIZE) {
            self.sent.push(SentProbe { ttl: spec.ttl, at: Instant::now(), real: SystemTime::now() });
            self.waiting.push(ProbeEvent::TooBigHere { probe: number, mtu: None });
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

    /// Takes all reports; returns the interface's MTU if a probe exceeded it.
    fn drain_reports(&mut self) -> io::Result<Option<u32>> {
        let mut interface_mtu = None;
        for _ in 0..BURST {
            let mut quote = [0; ECHO_BYTES];
            match errqueue::receive_report(self.socket, &mut quote) {
                Ok(arrival) => interface_mtu = self.take_report(&arrival, &quote).or(interface_mtu),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_pending(&error) == Some(true) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(interface_mtu)
    }

    /// Makes an event of a report; returns the interface's MTU if a probe exceeded it.
    fn take_report(&mut self, arrival: &Arrival, quote: &[u8]) -> Option<u32> {
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
        let reply = icmp::meaning(is_v4, kind, code);
        let quote = &quote[..arrival.bytes.min(quote.len())];
        let (probe, rtt) = match echo::quoted_number(quote, &self.token) {
            Some(number) => {
                let probe = self.probe(number)?;
                (Some(probe), Some(self.rtt(probe, arrival)))
            }
            // The quote is long enough to hold a number, so it is of another program's packet with the same ports. A shorter quote
            // stays unattributed.
            None if quote.len() >= 12 => return None,
            None => (None, None),
        };
        let mtu = if reply == RouterReply::TooBig { info } else { 0 };
        let icmp = [kind, code];
        self.waiting.push(ProbeEvent::Icmp { probe, rtt, from, reply, icmp, mtu, ttl_reverse: arrival.ttl });
        None
    }

    /// The probe with a number; none if the number is not of this run.
    fn probe(&self, number: u64) -> Option<usize> {
        let probe = (number & u64::from(u32::MAX)) as usize;
        (number >> 32 == u64::from(self.run) && probe < self.sent.len()).then_some(probe)
    }

    /// The round trip by the kernel's time of arrival, which excludes the delay of waking this thread. If the clock was set
    /// meanwhile, the kernel's time and the monotonic clock disagree, and the monotonic clock is used.
    fn rtt(&self, probe: usize, arrival: &Arrival) -> Duration {
        let sent = &self.sent[probe];
        let most = sent.at.elapsed();
        let by_kernel = arrival.at.and_then(|at| (UNIX_EPOCH + at).duration_since(sent.real).ok());
        // More than a second between arrival and wake-up means that the clock was set.
        by_kernel.filter(|rtt| *rtt <= most && most - *rtt < Duration::from_secs(1)).unwrap_or(most)
    }

    /// Passes all new events to `take`.
    ///
    /// # Errors
    /// [`Error::Host`]: the socket fails.
    pub fn drain_events(&mut self, mut take: impl FnMut(&ProbeEvent)) -> Result<()> {
        let failed = |source| Error::Host { doing: "receive the answers to probes", source };
        self.drain_reports().map_err(failed)?;
        let mut buffer = [0; ECHO_BYTES + 1];
        for _ in 0..BURST {
            match errqueue::receive(self.socket, &mut buffer) {
                Ok(arrival) => self.take_answer(&arrival, &buffer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if is_pending(&error) == Some(true) => self.drain_reports().map(drop).map_err(failed)?,
                Err(error) => return Err(failed(error)),
            }
        }
        self.waiting.drain(..).for_each(|event| take(&event));
        Ok(())
    }

    fn take_answer(&mut self, arrival: &Arrival, buffer: &[u8]) {
        let Some(answer) = echo::read(&buffer[..arrival.bytes.min(buffer.len())], &self.token) else { return };
        let Some(probe) = self.probe(answer.number) else { return };
        let rtt = self.rtt(probe, arrival);
        // Sent with TTL 3 and received with 1: two routers, and then the far end.
        let hops = |sent: u8, received: u8| sent.checked_sub(received).map(|routers| routers.saturating_add(1));
        let hops_forward = answer.ttl.and_then(|ttl| hops(self.sent[probe].ttl, ttl));
        let hops_reverse = arrival.ttl.and_then(|ttl| hops(answer.own_ttl, ttl));
        self.waiting.push(ProbeEvent::Answer {
            probe,
            rtt,
            hops: hops_forward,
            hops_reverse,
            ttl_reverse: arrival.ttl,
            count: answer.count,
        });
    }

    /// The socket, for a caller that waits for events.
    pub fn socket(&self) -> &'a UdpSocket {
        self.socket
    }
}

impl Drop for ProbeFlow<'_> {
    fn drop(&mut self) {
        // The owner of the socket gets its TTL back.
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

/// Whether an error may be the ICMP error of an earlier probe; none if the kernel had no buffer.
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

    fn events(flow: &mut ProbeFlow) -> Vec<ProbeEvent> {
        let mut all = Vec::new();
        for _ in 0..200 {
            flow.drain_events(|event| all.push(event.clone())).unwrap();
            if !all.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        all
    }

    #[test]
    fn an_answer_is_attributed_to_its_probe() {
        for host in ["127.0.0.1", "::1"] {
            let far = UdpSocket::bind((host, 0)).unwrap();
            let near = UdpSocket::bind((host, 0)).unwrap();
            near.connect(far.local_addr().unwrap()).unwrap();
            let mut flow = ProbeFlow::new(&near, TOKEN).unwrap();
            for ttl in [7, 9] {
                flow.send(ProbeSpec { ttl, bytes: 0 }).unwrap();
            }
            let mut buffer = [0; 100];
            let lengths = [(); 2].map(|()| far.recv_from(&mut buffer).unwrap().0);
            assert_eq!(lengths, [ECHO_BYTES; 2]);
            // The second probe is answered; a forged answer of another run does not count.
            let mut forged = buffer;
            forged[4] ^= 1;
            for question in [forged, buffer] {
                let answer = echo::answer(&question[..32], Some(8), 64, 5, |_| true).unwrap();
                far.send_to(&answer, near.local_addr().unwrap()).unwrap();
            }
            let found = events(&mut flow);
            let [ProbeEvent::Answer { probe: 1, rtt, hops, hops_reverse, ttl_reverse, count }] = found[..] else {
                panic!("{found:?}");
            };
            assert_eq!((hops, hops_reverse, ttl_reverse, count), (Some(2), Some(1), Some(64), 5));
            assert!(rtt < Duration::from_secs(2));
            drop(flow);
            assert_eq!(near.ttl().unwrap(), 64, "the TTL is restored");
        }
    }

    #[test]
    fn a_closed_port_is_reported_and_does_not_stop_the_next_probe() {
        for (host, icmp) in [("127.0.0.1", [3, 3]), ("::1", [1, 4])] {
            let gone = UdpSocket::bind((host, 0)).unwrap().local_addr().unwrap();
            let near = UdpSocket::bind((host, 0)).unwrap();
            near.connect(gone).unwrap();
            let mut flow = ProbeFlow::new(&near, TOKEN).unwrap();
            for number in 0..3 {
                flow.send(ProbeSpec { ttl: 64, bytes: 200 }).unwrap();
                let found = events(&mut flow);
                let [ProbeEvent::Icmp { probe, reply: RouterReply::PortUnreachable, icmp: seen, from, .. }] = found[..]
                else {
                    panic!("{found:?}");
                };
                assert_eq!((probe, seen, from), (Some(number), icmp, gone.ip()));
            }
        }
    }
}
