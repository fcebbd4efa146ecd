//! The datagrams of iperf3: their header, a thread for each stream, loss and jitter by iperf3's rules.
//!
//! By these rules loss is the sum of forward gaps, less the datagrams that arrive late; jitter is the filter of RFC 1889. Both ends
//! must use them to report the same. `probe::udp` counts exactly.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};

use super::message::StreamResult;
use crate::error::{Error, Result};

/// The first datagram of a stream, in the bytes of stock on a little-endian host.
pub(super) const HELLO: [u8; 4] = *b"9876";
/// The hello of releases before 3.1.
const HELLO_OLD: [u8; 4] = 123_456_789u32.to_le_bytes();
/// The answer to a hello.
pub(super) const WELCOME: [u8; 4] = *b"6789";
/// Bytes of the header with a wide number.
pub(super) const HEADER_MAX: usize = 16;
/// The longest read before its thread checks whether to end.
const IO_TIMEOUT: Duration = Duration::from_millis(50);
/// The delay that a late sender makes up for at once. Stock makes up for all of it, in a burst.
const CATCH_UP_MAX: Duration = Duration::from_millis(1);
/// A shorter wait is spent spinning.
const SPIN: Duration = Duration::from_micros(80);

/// Whether a datagram asks for a stream.
pub(super) fn is_hello(datagram: &[u8]) -> bool {
    datagram == HELLO || datagram == HELLO_OLD
}

fn now() -> (u32, u32) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_secs() as u32, now.subsec_micros())
}

fn write_header(into: &mut [u8], number: u64, wide: bool) {
    let (seconds, micros) = now();
    into[..4].copy_from_slice(&seconds.to_be_bytes());
    into[4..8].copy_from_slice(&micros.to_be_bytes());
    if wide {
        into[8..16].copy_from_slice(&number.to_be_bytes());
    } else {
        into[8..12].copy_from_slice(&(number as u32).to_be_bytes());
    }
}

/// The sending time, seconds since 1970, and the number of a datagram; none if it is too short.
pub(super) fn read_header(datagram: &[u8], wide: bool) -> Option<(f64, u64)> {
    let word = |at: usize| Some(u32::from_be_bytes(datagram.get(at..at + 4)?.try_into().ok()?));
    let sent = f64::from(word(0)?) + f64::from(word(4)?) / 1e6;
    let number = if wide { u64::from_be_bytes(datagram.get(8..16)?.try_into().ok()?) } else { word(8)?.into() };
    Some((sent, number))
}

/// Counters of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct DatagramCounts {
    /// Payload bytes.
    pub bytes: u64,
    /// Datagrams sent; at a receiver the highest number received.
    pub packets: u64,
    /// The sum of forward gaps, less the datagrams that arrived late.
    pub lost: i64,
    /// Datagrams that arrived after one with a higher number.
    pub late: u64,
    /// When the last datagram arrived, after the start.
    last: Duration,
    jitter_s: f64,
    transit_s: Option<f64>,
}

impl DatagramCounts {
    /// Counts a received datagram; `sent` and `arrived` are seconds since 1970.
    pub(super) fn record(&mut self, bytes: usize, number: u64, sent: f64, arrived: f64) {
        self.bytes += bytes as u64;
        if number > self.packets {
            // The peer chooses the numbers: the sum of two wide gaps must not overflow.
            self.lost = self.lost.saturating_add_unsigned(number - self.packets - 1);
            self.packets = number;
        } else {
            self.late += 1;
            self.lost = self.lost.saturating_sub(1);
        }
        // RFC 1889, section 6.3.1.
        let transit = arrived - sent;
        if let Some(before) = self.transit_s.replace(transit) {
            self.jitter_s += ((transit - before).abs() - self.jitter_s) / 16.0;
        }
    }

    pub(super) fn result(&self, id: u32, span: Duration) -> StreamResult {
        StreamResult {
            id,
            bytes: self.bytes,
            retransmits: None,
            jitter_s: self.jitter_s,
            lost: self.lost,
            packets: self.packets,
            omitted: Some((0, 0)),
            span_s: (0.0, span.as_secs_f64()),
        }
    }
}

/// One UDP stream of a test.
#[derive(Debug)]
pub(super) struct Stream {
    pub id: u32,
    pub sends: bool,
    pub socket: UdpSocket,
}

/// Size and rate of the datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Bytes of a datagram's payload.
    pub bytes: usize,
    /// Rate of each stream; 0 for as fast as it goes.
    pub rate_bit_s: u64,
    /// Numbers have 64 bits; else 32.
    pub wide: bool,
}

#[derive(Debug)]
struct DatagramThread {
    id: u32,
    sends: bool,
    tally: Arc<Mutex<DatagramCounts>>,
    thread: JoinHandle<io::Result<()>>,
}

/// The UDP streams of one end, running.
#[derive(Debug)]
pub(super) struct DatagramPool {
    members: Vec<DatagramThread>,
    stop_sending: Arc<AtomicBool>,
    abandon: Arc<AtomicBool>,
    started: Instant,
}

fn lock(tally: &Mutex<DatagramCounts>) -> MutexGuard<'_, DatagramCounts> {
    tally.lock()
}

fn send(socket: &UdpSocket, pace: Pace, tally: &Mutex<DatagramCounts>, stop_sending: &AtomicBool) -> io::Result<()> {
    let mut datagram = vec![0; pace.bytes];
    fastrand::Rng::with_seed(pace.bytes as u64).fill(&mut datagram);
    let gap = match pace.rate_bit_s {
        0 => Duration::ZERO,
        rate => Duration::from_secs_f64(pace.bytes as f64 * 8.0 / rate as f64),
    };
    let mut due = Instant::now();
    let mut number = 0;
    while !stop_sending.load(Ordering::Relaxed) {
        let now = Instant::now();
        let wait = due.saturating_duration_since(now);
        if wait > SPIN {
            // Bounded, so that the end of the test is noticed.
            std::thread::sleep((wait - SPIN / 2).min(IO_TIMEOUT));
            continue;
        }
        if !wait.is_zero() {
            std::hint::spin_loop();
            continue;
        }
        write_header(&mut datagram, number + 1, pace.wide);
        match socket.send(&datagram) {
            Ok(sent) => {
                number += 1;
                let mut tally = lock(tally);
                tally.bytes += sent as u64;
                tally.packets = number;
            }
            // A full interface queue (ENOBUFS) or a closed port of the peer does not end the test: the datagram is not counted.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
        due = (due + gap).max(now.checked_sub(CATCH_UP_MAX).unwrap_or(now));
    }
    Ok(())
}

fn receive(
    socket: &UdpSocket,
    wide: bool,
    tally: &Mutex<DatagramCounts>,
    abandon: &AtomicBool,
    started: Instant,
) -> io::Result<()> {
    let mut datagram = vec![0; 1 << 16];
    while !abandon.load(Ordering::Relaxed) {
        match socket.recv(&mut datagram) {
            Ok(got) => {
                let (seconds, micros) = now();
                let arrived = f64::from(seconds) + f64::from(micros) / 1e6;
                if let Some((sent, number)) = read_header(&datagram[..got], wide) {
                    let mut tally = lock(tally);
                    tally.record(got, number, sent, arrived);
                    tally.last = started.elapsed();
                }
            }
            Err(error) if crate::tcp::stream::is_timeout(&error) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl DatagramPool {
    /// Starts a thread for each stream.
    pub(super) fn start(streams: Vec<Stream>, pace: Pace) -> Result<DatagramPool> {
        let mut pool = DatagramPool {
            members: Vec::new(),
            stop_sending: Arc::default(),
            abandon: Arc::default(),
            started: Instant::now(),
        };
        for stream in streams {
            // If one cannot be started, dropping the pool ends those before it.
            let member = pool.member(stream, pace)?;
            pool.members.push(member);
        }
        Ok(pool)
    }

    fn member(&self, stream: Stream, pace: Pace) -> Result<DatagramThread> {
        let host = |doing| move |source| Error::Host { doing, source };
        let Stream { id, sends, socket } = stream;
        let timeouts =
            socket.set_read_timeout(Some(IO_TIMEOUT)).and_then(|()| socket.set_write_timeout(Some(IO_TIMEOUT)));
        timeouts.map_err(host("set up a socket"))?;
        let tally = Arc::<Mutex<DatagramCounts>>::default();
        let started = self.started;
        let shared = Arc::clone(&tally);
        let stop_sending = Arc::clone(&self.stop_sending);
        let abandon = Arc::clone(&self.abandon);
        let run = move || {
            if sends {
                send(&socket, pace, &shared, &stop_sending)
            } else {
                receive(&socket, pace.wide, &shared, &abandon, started)
            }
        };
        let thread = std::thread::Builder::new().name(format!("probe-{id}")).spawn(run);
        Ok(DatagramThread { id, sends, tally, thread: thread.map_err(host("start a thread"))? })
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    pub(super) fn stop_sending(&self) {
        self.stop_sending.store(true, Ordering::Relaxed);
    }

    pub(super) fn abandon(&self) {
        self.stop_sending();
        self.abandon.store(true, Ordering::Relaxed);
    }

    /// Each stream's number, whether it sends, and what was counted so far.
    pub(super) fn sample(&self) -> Vec<(u32, bool, DatagramCounts)> {
        self.members.iter().map(|member| (member.id, member.sends, lock(&member.tally).clone())).collect()
    }

    /// Waits for all threads. The test lasted `over`; the span of a receiving stream ends with its last datagram, which may have
    /// arrived later.
    pub(super) fn finish(mut self, over: Duration) -> Vec<(bool, StreamResult)> {
        self.abandon();
        let end = |member: DatagramThread| {
            // The counters of a failed stream remain valid.
            let _ = member.thread.join();
            let tally = lock(&member.tally);
            let span = if member.sends { over } else { over.max(tally.last) };
            (member.sends, tally.result(member.id, span))
        };
        std::mem::take(&mut self.members).into_iter().map(end).collect()
    }
}

/// A failed test must leave no thread behind that goes on sending: unlike TCP, a sender of datagrams needs no receiver.
impl Drop for DatagramPool {
    fn drop(&mut self) {
        self.abandon();
        for member in std::mem::take(&mut self.members) {
            let _ = member.thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_and_order_are_counted_by_stocks_rules() {
        let mut tally = DatagramCounts::default();
        for (number, sent, arrived) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (5, 4.0, 5.016), (4, 3.0, 5.02), (6, 5.0, 6.0)] {
            tally.record(100, number, sent, arrived);
        }
        // 3 is lost; 4 arrived late, and had counted as lost before.
        assert_eq!((tally.packets, tally.lost, tally.late, tally.bytes), (6, 1, 1, 500));
        assert!(tally.jitter_s > 0.05 && tally.jitter_s < 0.2, "{tally:?}");
    }

    #[test]
    fn headers_of_both_widths_are_read() {
        let mut datagram = [0; 20];
        write_header(&mut datagram, u64::from(u32::MAX) + 7, true);
        assert_eq!(read_header(&datagram, true).unwrap().1, u64::from(u32::MAX) + 7);
        write_header(&mut datagram, 7, false);
        assert_eq!(read_header(&datagram[..12], false).unwrap().1, 7);
        assert_eq!((read_header(&datagram[..11], false), read_header(&datagram[..15], true)), (None, None));
        assert!(is_hello(b"9876") && is_hello(&HELLO_OLD) && !is_hello(b"98765") && !is_hello(b""));
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let mut tally = DatagramCounts::default();
        tally.record(1, 1 << 63, 0.0, 0.0);
        tally.record(1, u64::MAX, 0.0, 0.0);
        assert_eq!((tally.lost, tally.packets), (i64::MAX, u64::MAX));
        for number in [u64::MAX, 0] {
            tally.record(1, number, f64::from(u32::MAX), 0.0);
        }
        assert_eq!((tally.lost, tally.late), (i64::MAX - 2, 2));
    }

    fn pair() -> (UdpSocket, UdpSocket) {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        far.connect(near.local_addr().unwrap()).unwrap();
        (near, far)
    }

    #[test]
    fn a_pace_is_kept_without_bursts() {
        let (near, far) = pair();
        let streams = vec![Stream { id: 1, sends: true, socket: near }, Stream { id: 1, sends: false, socket: far }];
        // Datagrams of 1,000 bytes at 8 Mbit/s: one a millisecond.
        let pool = DatagramPool::start(streams, Pace { bytes: 1000, rate_bit_s: 8_000_000, wide: true }).unwrap();
        while pool.sample()[0].2.packets < 200 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(pool.started().elapsed() >= Duration::from_millis(195));
        pool.stop_sending();
        let over = pool.started().elapsed();
        // What was sent before sending stopped has arrived.
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            std::thread::sleep(Duration::from_millis(100));
            let now = pool.sample();
            if now[0].2.packets == now[1].2.packets || Instant::now() > deadline {
                break;
            }
        }
        let ended = pool.started().elapsed();
        let ends = pool.finish(over);
        let (sent, received) = (&ends[0].1, &ends[1].1);
        assert_eq!((received.bytes, received.packets, received.lost), (sent.bytes, sent.packets, 0));
        assert!(sent.packets >= 200 && received.span_s.1 <= ended.as_secs_f64());
    }

    #[test]
    fn a_pool_that_is_dropped_sends_no_more() {
        let (near, far) = pair();
        let pace = Pace { bytes: 100, rate_bit_s: 1_000_000, wide: true };
        let pool = DatagramPool::start(vec![Stream { id: 1, sends: true, socket: near }], pace).unwrap();
        far.recv(&mut [0; 200]).unwrap();
        drop(pool);
        far.set_nonblocking(true).unwrap();
        while far.recv(&mut [0; 200]).is_ok() {}
        std::thread::sleep(Duration::from_millis(50));
        assert!(far.recv(&mut [0; 200]).is_err());
    }
}
