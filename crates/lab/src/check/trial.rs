//! Measures one direction of a path: the time that packets take, their rate, and the number that is lost.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_send_buffer_size};
use socket2::{Domain, Socket, Type};

use crate::error::Error;
use crate::site::Site;

/// The receive buffer, bytes. With a small one the receiver itself would lose datagrams.
const RECEIVE_BUFFER: usize = 256 << 20;
/// IP and UDP headers.
const HEADERS_V4: u64 = 28;
const HEADERS_V6: u64 = 48;
/// How early a datagram may leave.
const EARLY: Duration = Duration::from_micros(200);
/// The most bytes that are passed to the kernel at once.
const BATCH_BYTES_MAX: u64 = 60_000;

/// A direction to be measured.
pub struct Trial<'a> {
    pub from: (&'a Site, IpAddr),
    pub to: (&'a Site, IpAddr),
    /// The largest packet that the path carries, bytes.
    pub mtu: u16,
    /// The delays of both directions, and the time that its queues may add.
    pub delay_max: Duration,
}

/// Datagrams offered at a rate.
#[derive(Clone, Copy, Debug)]
pub struct OfferedLoad {
    pub rate_bit_s: f64,
    pub lasts: Duration,
}

/// The result of an offered load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// The rate at the receiver, from the first to the last datagrams that arrived, counting IP bytes.
    pub rate_bit_s: f64,
    /// The time from the first to the last arrival.
    pub lasted: Duration,
    /// Datagrams that the receiver's kernel dropped for a wrong checksum.
    pub checksum_errors: u64,
    /// Datagrams that the receiver's kernel dropped for want of room: this machine's fault.
    pub no_room: u64,
}

fn bind(site: &Site, address: IpAddr) -> Result<UdpSocket, Error> {
    let bound = site.within(|| UdpSocket::bind(SocketAddr::new(address, 0)))?;
    bound.map_err(|source| Error::site(&site.name, "bind a socket there", source))
}

impl Trial<'_> {
    fn io<T>(&self, result: io::Result<T>) -> Result<T, Error> {
        result.map_err(|source| Error::site(&self.from.0.name, "measure from there", source))
    }

    /// Round trips of the first packets of connections, sorted. The kernel at the far end answers them by itself, so that only this end has to
    /// wake a program. Lost packets are left out.
    ///
    /// # Errors
    /// A site cannot be entered, or a socket cannot be made.
    pub fn round_trips(&self, count: u32) -> Result<Vec<Duration>, Error> {
        let from = SocketAddr::new(self.from.1, 0);
        let to = SocketAddr::new(self.to.1, 0);
        let listener = self.io(self.to.0.within(|| TcpListener::bind(to))?)?;
        let target = self.io(listener.local_addr())?.into();
        // The kernel sends a lost packet again after a second: that is no round trip.
        let timeout = self.delay_max + Duration::from_millis(100);
        let connect = || -> io::Result<Option<Duration>> {
            let domain = if from.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
            let socket = Socket::new(domain, Type::STREAM, None)?;
            socket.bind(&from.into())?;
            let started = Instant::now();
            match socket.connect_timeout(&target, timeout) {
                Ok(()) => Ok(Some(started.elapsed())),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(None),
                Err(error) => Err(error),
            }
        };
        let trips = self.from.0.within(|| (0..count).map(|_| connect()).collect::<io::Result<Vec<_>>>())?;
        let mut trips: Vec<Duration> = self.io(trips)?.into_iter().flatten().collect();
        trips.sort_unstable();
        Ok(trips)
    }

    /// The payload of a datagram that fills a packet.
    fn payload(&self) -> u64 {
        u64::from(self.mtu) - self.headers()
    }

    fn headers(&self) -> u64 {
        if self.to.1.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 }
    }

    /// Offers datagrams and counts those that arrive.
    ///
    /// # Errors
    /// A site cannot be entered, or a socket fails.
    pub fn offer(&self, offer: OfferedLoad) -> Result<Outcome, Error> {
        let near = bind(self.from.0, self.from.1)?;
        let far = bind(self.to.0, self.to.1)?;
        let near_address = self.io(near.local_addr())?;
        let far_address = self.io(far.local_addr())?;
        self.io(set_socket_recv_buffer_size_force(&far, RECEIVE_BUFFER).map_err(io::Error::from))?;
        self.io(set_socket_send_buffer_size(&near, 4 << 20).map_err(io::Error::from))?;
        self.io(sys::udp::set_datagram_bytes(&near, self.payload() as u16))?;
        self.io(sys::datagrams::join_arrivals(&far, true))?;
        // The receiver sends first, so that a firewall in front of it knows the flow.
        for _ in 0..3 {
            self.io(far.send_to(&[0], near_address))?;
        }
        self.io(near.set_read_timeout(Some(self.delay_max + Duration::from_secs(1))))?;
        let _ = near.recv_from(&mut [0; 16]);
        let before = self.receiver_counts()?;
        self.io(far.set_read_timeout(Some(self.delay_max + Duration::from_millis(500))))?;
        let payload = self.payload();
        let headers = self.headers();
        let receiver = std::thread::spawn(move || receive(&far, payload, headers));
        // The sender runs before ordinary threads, like the lab itself: a pause of 3 ms empties the queue of a LAN.
        let sender = move || {
            let _ = sys::schedule::set_realtime();
            send(&near, far_address, payload, headers, offer)
        };
        let bug = |_| Err(io::Error::other("the thread that sends failed"));
        let sent = self.io(std::thread::spawn(sender).join().unwrap_or_else(bug))?;
        let (received, rate_bit_s, lasted) = receiver.join().unwrap_or_default();
        let after = self.receiver_counts()?;
        let [checksum_errors, no_room] = [0, 1].map(|number| after[number] - before[number]);
        Ok(Outcome { sent, received, rate_bit_s, lasted, checksum_errors, no_room })
    }

    /// Datagrams with wrong checksums and datagrams without room, by the receiver's kernel.
    fn receiver_counts(&self) -> Result<[u64; 2], Error> {
        let read = || {
            let snmp = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
            let snmp6 = std::fs::read_to_string("/proc/thread-self/net/snmp6").unwrap_or_default();
            (snmp, snmp6)
        };
        let (snmp, snmp6) = self.to.0.within(read)?;
        Ok(match self.to.1 {
            IpAddr::V4(_) => ["InCsumErrors", "RcvbufErrors"].map(|name| udp_count(&snmp, name)),
            IpAddr::V6(_) => ["Udp6InCsumErrors", "Udp6RcvbufErrors"].map(|name| {
                let line = snmp6.lines().find(|line| line.split_whitespace().next() == Some(name));
                line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
            }),
        })
    }
}

/// A counter of /proc/net/snmp: a line of names, then a line of values.
fn udp_count(table: &str, name: &str) -> u64 {
    let mut lines = table.lines().filter(|line| line.starts_with("Udp:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.into_iter().find(|(column, _)| *column == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

/// Sends datagrams at the offered rate; returns how many.
fn send(socket: &UdpSocket, to: SocketAddr, payload: u64, headers: u64, offer: OfferedLoad) -> io::Result<u64> {
    let packet_bits = (payload + headers) as f64 * 8.0;
    // A batch is at most 5 ms of the rate, and no more than the kernel takes at once.
    let datagrams = (offer.rate_bit_s * 0.005 / packet_bits) as u64;
    let datagrams = datagrams.clamp(1, (BATCH_BYTES_MAX / payload).clamp(1, 64));
    let batch = vec![0x5a; (datagrams * payload) as usize];
    let interval = Duration::from_secs_f64(datagrams as f64 * packet_bits / offer.rate_bit_s);
    let started = Instant::now();
    let mut sent = 0;
    for number in 0u32.. {
        let at = interval * number;
        if at >= offer.lasts {
            break;
        }
        let wait = at.saturating_sub(started.elapsed());
        // A sleep takes longer than a short wait: several datagrams leave a little early, at once.
        if wait > EARLY {
            sys::schedule::nap(wait);
        }
        socket.send_to(&batch, to)?;
        sent += datagrams;
    }
    Ok(sent)
}

/// Receives datagrams: their number, the rate from the first to the last arrival, and the time between these.
fn receive(socket: &UdpSocket, payload: u64, headers: u64) -> (u64, f64, Duration) {
    let mut piece = vec![0; 1 << 16];
    let (mut received, mut after_first) = (0, 0);
    let (mut first, mut last) = (None, None);
    while let Ok(length) = socket.recv(&mut piece) {
        let now = Instant::now();
        let datagrams = (length as u64).div_ceil(payload);
        received += datagrams;
        if first.is_some() {
            after_first += length as u64 + datagrams * headers;
        }
        first.get_or_insert(now);
        last = Some(now);
    }
    let lasted = match (first, last) {
        (Some(first), Some(last)) => last - first,
        _ => Duration::ZERO,
    };
    let seconds = lasted.as_secs_f64();
    (received, if seconds > 0.0 { after_first as f64 * 8.0 / seconds } else { 0.0 }, lasted)
}
