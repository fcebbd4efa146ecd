//! A relay between two ends that loses, copies, swaps and delays packets by a plan, and clocks that can be set.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use probe::Stop;
use probe::stamp::clock::{Reading, RealNs};
use probe::stamp::reflect::ReflectorCounts;
use probe::stamp::{Clock, HostClock, Reflector, Trust, serve};
use sys::clock_quality::ClockQuality;

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFate {
    Lost,
    Twice,
    /// Sent after the next one.
    Overtaken,
}

/// One direction: the fates of packets by the sender's number, and the delay of all.
#[derive(Clone, Debug, Default)]
pub struct RelayPlan {
    pub fates: HashMap<u32, PacketFate>,
    pub delay: Duration,
}

impl RelayPlan {
    pub fn of(fates: &[(u32, PacketFate)]) -> RelayPlan {
        RelayPlan { fates: fates.iter().copied().collect(), delay: Duration::ZERO }
    }

    pub fn delayed(ms: u64) -> RelayPlan {
        RelayPlan { fates: HashMap::new(), delay: Duration::from_millis(ms) }
    }
}

struct RelayQueue {
    plan: RelayPlan,
    /// A packet that waits for the next one to overtake it.
    overtaken: Option<Vec<u8>>,
    queue: VecDeque<(Instant, Vec<u8>)>,
}

impl RelayQueue {
    fn take(&mut self, packet: &[u8], number: u32) {
        let due = Instant::now() + self.plan.delay;
        let fate = self.plan.fates.get(&number);
        match fate {
            Some(PacketFate::Lost) => return,
            Some(PacketFate::Overtaken) if self.overtaken.is_none() => {
                self.overtaken = Some(packet.to_vec());
                return;
            }
            _ => self.queue.push_back((due, packet.to_vec())),
        }
        if fate == Some(&PacketFate::Twice) {
            self.queue.push_back((due, packet.to_vec()));
        }
        self.queue.extend(self.overtaken.take().map(|packet| (due, packet)));
    }

    fn due(&mut self) -> Option<Vec<u8>> {
        self.queue.front().filter(|(due, _)| *due <= Instant::now())?;
        self.queue.pop_front().map(|(_, packet)| packet)
    }
}

/// A thread that ends with its owner.
pub struct Running<T> {
    pub address: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Running<T> {
    pub fn start(socket: UdpSocket, work: impl FnOnce(UdpSocket, Stop) -> T + Send + 'static) -> Running<T> {
        let address = socket.local_addr().unwrap();
        let stop = Stop::default();
        let for_thread = stop.clone();
        Running { address, stop, thread: Some(std::thread::spawn(move || work(socket, for_thread))) }
    }

    pub fn end(mut self) -> T {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

pub fn loopback() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

pub fn connected(to: SocketAddr) -> UdpSocket {
    let any = if to.is_ipv6() { "[::1]:0" } else { "127.0.0.1:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(to).unwrap();
    socket
}

/// A reflector of this crate.
pub fn reflector(trust: Trust, clock: impl Clock + Send + 'static) -> Running<ReflectorCounts> {
    Running::start(loopback(), move |socket, stop| {
        let _ = sys::schedule::set_realtime();
        serve(&socket, &stop, &clock, &mut Reflector::default(), &|_| trust).unwrap()
    })
}

/// A relay between a sender and `target`.
pub fn relay(target: SocketAddr, forward: RelayPlan, reverse: RelayPlan) -> Running<()> {
    Running::start(loopback(), move |near, stop| {
        let _ = sys::schedule::set_realtime();
        let far = connected(target);
        near.set_nonblocking(true).unwrap();
        far.set_nonblocking(true).unwrap();
        let queue = |plan| RelayQueue { plan, overtaken: None, queue: VecDeque::new() };
        let mut forward = queue(forward);
        let mut reverse = queue(reverse);
        let mut sender = None;
        let mut buffer = [0u8; 2048];
        let number = |packet: &[u8], at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
        while !stop.is_stopped() {
            let mut idle = true;
            while let Ok((length, from)) = near.recv_from(&mut buffer) {
                sender = Some(from);
                forward.take(&buffer[..length], number(&buffer, 0));
                idle = false;
            }
            while let Ok(length) = far.recv(&mut buffer) {
                reverse.take(&buffer[..length], number(&buffer, 24));
                idle = false;
            }
            while let Some(packet) = forward.due() {
                let _ = far.send(&packet);
            }
            while let (Some(to), Some(packet)) = (sender, reverse.due()) {
                let _ = near.send_to(&packet, to);
            }
            if idle {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    })
}

/// The host's clocks, with a real-time clock that can be set and a quality that is given.
pub struct TestClock {
    pub shift_ns: &'static AtomicI64,
    pub synchronised: bool,
    pub error: Duration,
}

impl TestClock {
    /// Synchronised within a microsecond.
    pub fn good() -> TestClock {
        let shift_ns = Box::leak(Box::new(AtomicI64::new(0)));
        TestClock { shift_ns, synchronised: true, error: Duration::from_micros(1) }
    }
}

impl Clock for TestClock {
    fn read(&self) -> Reading {
        let reading = HostClock.read();
        Reading { real_ns: reading.real_ns + self.shift_ns.load(Ordering::Relaxed), ..reading }
    }

    fn quality(&self) -> Option<ClockQuality> {
        Some(ClockQuality { synchronised: self.synchronised, error: self.error, ..ClockQuality::default() })
    }

    fn of_kernel(&self, stamp: Duration) -> Option<RealNs> {
        Some(HostClock.of_kernel(stamp)? + self.shift_ns.load(Ordering::Relaxed))
    }
}

/// Sets the clock after a while.
pub fn set_later(shift_ns: &'static AtomicI64, after: Duration, by: Duration) -> JoinHandle<()> {
    std::thread::spawn(move || {
        std::thread::sleep(after);
        shift_ns.store(by.as_nanos() as i64, Ordering::Relaxed);
    })
}
