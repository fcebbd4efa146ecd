//! Responders for standard test protocols, which are answered without a key, from everywhere or from some networks.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;

use arc_swap::ArcSwap;
use ipnet::IpNet;
use model::units::{BitRate, Bytes};
use probe::Stop;
use probe::flow::Flows;
use probe::iperf3::{Bounds, Server};
use probe::stamp::{HostClock, Reflector, Responder, Trust};
use rustix::event::{PollFd, PollFlags, poll};
use sys::waker::Waker;

use crate::networks::network;
use crate::pscheduler::{Participant, ServedTest};
use crate::test_service::{LIMITS, TestService};
use crate::twamp::{TwampPort, TwampSenders};

/// The protocols that are answered, and for which networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Responders {
    iperf3: AllowedNetworks,
    stamp: AllowedNetworks,
    twamp: AllowedNetworks,
    pscheduler: AllowedNetworks,
}

/// The networks that are answered: none, or those of a list; an empty list means all addresses.
type AllowedNetworks = Option<Vec<IpNet>>;

fn answers(allowed: &AllowedNetworks, from: IpAddr) -> bool {
    let from = from.to_canonical();
    allowed.as_ref().is_some_and(|networks| networks.is_empty() || networks.iter().any(|net| net.contains(&from)))
}

impl Responders {
    /// Reads words like `iperf3`, `iperf3@192.0.2.0/24`, `iperf3@2001:db8::7`.
    ///
    /// # Errors
    /// A word names an unknown protocol, or its network is invalid; the text names the word.
    pub fn parse<T: AsRef<str>>(words: &[T]) -> Result<Responders, String> {
        let mut responders = Responders::default();
        for word in words.iter().map(AsRef::as_ref) {
            let (protocol, prefix) = word.split_once('@').map_or((word, None), |(name, prefix)| (name, Some(prefix)));
            let allowed = match protocol {
                "iperf3" => &mut responders.iperf3,
                "stamp" => &mut responders.stamp,
                "twamp" => &mut responders.twamp,
                "pscheduler" => &mut responders.pscheduler,
                _ => {
                    return Err(format!(
                        "--responders {word}: no responder is called {protocol}; there are: iperf3, stamp, twamp, pscheduler"
                    ));
                }
            };
            let is_for_all = matches!(allowed, Some(networks) if networks.is_empty());
            let networks = allowed.get_or_insert_default();
            match prefix {
                None => networks.clear(),
                // All addresses include this network.
                Some(_) if is_for_all => {}
                Some(prefix) => networks.push(network(prefix).ok_or_else(|| {
                    format!(
                        "--responders {word}: {prefix} is not a network; write it like 192.0.2.0/24 or 2001:db8::/32"
                    )
                })?),
            }
        }
        Ok(responders)
    }

    /// Whether iperf3 from this address is answered.
    pub(crate) fn answers_iperf3(&self, from: IpAddr) -> bool {
        answers(&self.iperf3, from)
    }

    /// Whether a pScheduler at this address may lead tests with this node.
    pub(crate) fn answers_pscheduler(&self, from: IpAddr) -> bool {
        answers(&self.pscheduler, from)
    }

    /// Whether TWAMP-Control from this address is answered.
    fn answers_twamp(&self, from: IpAddr) -> bool {
        answers(&self.twamp, from)
    }

    /// The trust in STAMP packets from this address. An address without a session may be forged: a reply is never larger than the
    /// packet.
    fn trusts(&self, from: SocketAddr) -> Trust {
        if answers(&self.stamp, from.ip()) { Trust::Symmetric } else { Trust::None }
    }
}

fn now_s() -> f64 {
    crate::clock::now().seconds as f64
}

/// The responders of a running node.
#[derive(Debug)]
pub(crate) struct TestResponders {
    allowed: ArcSwap<Responders>,
    iperf3: Server,
    stop: Stop,
    /// The socket for datagrams that belong to no flow yet; none where another process holds the UDP port.
    datagrams: Option<UdpSocket>,
    flows: Flows,
    participant: Arc<Participant>,
    twamp_senders: TwampSenders,
    twamp_port: Option<TwampPort>,
}

impl TestResponders {
    /// Opens the responders. Datagrams of tests that `flows` knows come to the same socket. TWAMP-Control gets a port of its own, if
    /// one is configured.
    ///
    /// # Errors
    /// The UDP port cannot be bound although responders are configured, or the port for TWAMP-Control cannot.
    pub fn open(
        allowed: Responders,
        datagrams: io::Result<UdpSocket>,
        twamp: Option<SocketAddr>,
        flows: Flows,
        stop: Stop,
        participant: Arc<Participant>,
    ) -> io::Result<TestResponders> {
        let datagrams = match datagrams {
            Ok(socket) => Some(socket),
            // A node without responders starts anyway: it can serve copies.
            Err(error) if allowed == Responders::default() => {
                tracing::warn!(%error, "the UDP port is not available: no tests with datagrams");
                None
            }
            Err(error) => return Err(error),
        };
        datagrams.iter().try_for_each(|socket| socket.set_nonblocking(true))?;
        // Clients of these protocols have no key.
        let bounds = Bounds {
            seconds_max: LIMITS.seconds as u32,
            datagram_bit_s_max: LIMITS.anonymous_udp_bit_s,
            ..Bounds::default()
        };
        let twamp_senders = TwampSenders::default();
        let open = |at| {
            let opened = TwampPort::open(at, twamp_senders.clone(), stop.clone());
            opened.map_err(|error| io::Error::new(error.kind(), format!("--twamp-listen {at}: {error}")))
        };
        let twamp_port = twamp.map(open).transpose()?;
        if let Some(port) = &twamp_port {
            tracing::info!(at = %port.address()?, "TWAMP-Control is answered");
        }
        let allowed = ArcSwap::from_pointee(allowed);
        Ok(TestResponders {
            allowed,
            iperf3: Server::new(bounds),
            stop,
            datagrams,
            flows,
            participant,
            twamp_senders,
            twamp_port,
        })
    }

    /// Checks that the node can serve these responders.
    ///
    /// # Errors
    /// Another process holds the UDP port.
    pub fn check_available(&self, allowed: &Responders) -> io::Result<()> {
        if self.datagrams.is_none() && *allowed != Responders::default() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        Ok(())
    }

    /// Replaces the protocols and networks that are answered.
    pub fn replace(&self, allowed: Responders) {
        self.allowed.store(Arc::new(allowed));
    }

    /// Ends all tests.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Whether this peer's iperf3 is answered.
    pub fn answers_iperf3(&self, peer: SocketAddr) -> bool {
        self.allowed.load().answers_iperf3(peer.ip()) || self.participant.is_expected(peer.ip().to_canonical(), now_s())
    }

    /// Serves a connection that begins with a cookie of iperf3. Its bytes count like those of other tests. Stock clients expect their
    /// connections to be numbered in the order in which they were opened, which `accepted` gives.
    pub fn iperf3(&self, socket: TcpStream, peer: SocketAddr, accepted: u64, tests: &TestService) {
        match self.iperf3.serve(socket, accepted, &self.stop, &|address, bytes| tests.count(address, bytes)) {
            // A stream of a running test: the control connection reports the test.
            Ok(None) => {}
            Ok(Some(done)) => {
                tests.counts.count_begun("iperf3");
                let bytes: u64 = done.results.streams.iter().map(|stream| stream.bytes).sum();
                let seconds = done.elapsed.as_secs_f64();
                self.report_to_participant(peer, ServedTest { bytes, seconds, error: None });
                let rate = BitRate::mean(Bytes(bytes), seconds).to_string();
                let what = if done.params.udp { "iperf3 UDP" } else { "iperf3 TCP" };
                let streams = done.results.streams.len();
                tracing::info!(target: "access", %peer, event = "test", what, outcome = "done", streams, bytes, seconds, rate);
            }
            Err(error) => {
                self.report_to_participant(peer, ServedTest { bytes: 0, seconds: 0.0, error: Some(error.to_string()) });
                tracing::info!(target: "access", %peer, event = "test", what = "iperf3", outcome = "failed", error = %error);
            }
        }
    }

    fn report_to_participant(&self, peer: SocketAddr, served: ServedTest) {
        self.participant.served(peer.ip().to_canonical(), &served, now_s());
    }

    /// Serves TWAMP-Control, if it has a port, until the node stops.
    pub fn serve_twamp(&self, stop: &Waker) {
        let port = self.datagrams.as_ref().and_then(|socket| socket.local_addr().ok()).map(|at| at.port());
        if let (Some(twamp), Some(port)) = (&self.twamp_port, port) {
            twamp.run(port, &|peer| self.allowed.load().answers_twamp(peer.ip()), stop);
        }
    }

    fn trusts(&self, from: SocketAddr) -> Trust {
        if self.twamp_senders.contain(from) { Trust::Twamp } else { self.allowed.load().trusts(from) }
    }

    /// Serves the datagrams that belong to no flow yet, until the node stops.
    pub fn serve_datagrams(&self, stop: &Waker) {
        let Some(socket) = &self.datagrams else { return };
        let mut reflector = Reflector::default();
        let trust = |from| self.trusts(from);
        let stamp = Responder::new(socket, &HostClock, &mut reflector, &trust);
        let mut stamp = match stamp {
            Ok(stamp) => stamp,
            Err(error) => {
                tracing::warn!(%error, "datagrams are not served: tests over UDP will not work");
                return;
            }
        };
        let mut buffer = vec![0; 1 << 16];
        loop {
            let mut fds = [PollFd::new(socket, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            if poll(&mut fds, None).is_err_and(|error| error != rustix::io::Errno::INTR) || !fds[1].revents().is_empty()
            {
                return;
            }
            stamp.departures();
            let Ok(Some(arrival)) = sys::stamps::receive(socket, &mut buffer) else { continue };
            let datagram = &buffer[..arrival.bytes];
            // A datagram that no test expects is dropped without an answer.
            if self.flows.datagram(arrival.from, datagram) {
                continue;
            }
            if self.allowed.load().answers_iperf3(arrival.from.ip()) && self.iperf3.datagram(arrival.from, datagram) {
                continue;
            }
            stamp.take(&buffer, &arrival);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamp_replies_are_no_longer_than_requests() {
        let trusts = |words: &[&str], from: &str| Responders::parse(words).unwrap().trusts(from.parse().unwrap());
        assert_eq!(trusts(&["iperf3"], "192.0.2.1:7"), Trust::None);
        assert_eq!(trusts(&["stamp@192.0.2.0/24"], "192.0.2.1:7"), Trust::Symmetric);
        assert_eq!(trusts(&["stamp@192.0.2.0/24"], "198.51.100.1:7"), Trust::None);
    }

    #[test]
    fn allowed_networks_are_answered() {
        let answers =
            |words: &[&str], from: &str| Responders::parse(words).unwrap().answers_iperf3(from.parse().unwrap());
        assert!(!answers(&[], "192.0.2.1"));
        assert!(answers(&["iperf3"], "192.0.2.1") && answers(&["iperf3@192.0.2.0/24", "iperf3"], "198.51.100.1"));
        assert!(answers(&["iperf3", "iperf3@192.0.2.0/24"], "198.51.100.1"));
        let some = ["iperf3@192.0.2.0/24", "iperf3@2001:db8::7"];
        assert!(answers(&some, "192.0.2.200") && answers(&some, "::ffff:192.0.2.200") && answers(&some, "2001:db8::7"));
        assert!(!answers(&some, "192.0.3.1") && !answers(&some, "2001:db8::8"));
        assert!(Responders::parse(&["owamp"]).unwrap_err().contains("there are: iperf3, stamp, twamp, pscheduler"));
        assert!(Responders::parse(&["iperf3@everybody"]).unwrap_err().contains("192.0.2.0/24"));
    }
}
