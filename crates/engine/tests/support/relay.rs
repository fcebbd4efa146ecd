//! A TCP relay that applies rules: delay, cuts, resets, flipped bits, silence, stalls. It tells data streams from control connections
//! by their first byte.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The faults of the path.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Delay of each direction; a new connection costs a round trip before its first byte.
    pub one_way: Duration,
    /// Data streams are cut after this number of bytes.
    pub cut_streams_after: Option<u64>,
    /// The most data streams that are cut.
    pub streams_to_cut: usize,
    /// One bit of data streams is flipped after each run of this many bytes.
    pub flip_stream_bit_every: Option<u64>,
    /// All connections are cut once this many bytes have been passed on. Bytes that wait in the relay do not count.
    pub cut_everything_after: Option<u64>,
    /// Once this many bytes have passed, nothing passes any more, and no connection is closed.
    pub mute_after: Option<u64>,
    /// All connections are reset once this many bytes have passed.
    pub reset_after: Option<u64>,
    /// Half-open: one direction (true: towards the node) is swallowed once this many bytes have passed.
    pub swallow_after: Option<(u64, bool)>,
    /// Each connection stops for this time, once in each direction, when this many bytes have passed.
    pub stall_after: Option<(u64, Duration)>,
}

struct RelayState {
    rules: Rules,
    node: SocketAddr,
    connections: AtomicUsize,
    cut: AtomicUsize,
    flipped: AtomicUsize,
    bytes: AtomicU64,
    passed_on: AtomicU64,
    stream_bytes: AtomicU64,
    stop: AtomicBool,
    /// Another rule than a cut stream or a flipped bit was applied.
    other_fault: AtomicBool,
}

/// A relay, until the test ends.
pub struct Relay {
    address: SocketAddr,
    state: Arc<RelayState>,
}

impl Relay {
    pub fn start(node: SocketAddr, rules: Rules) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(RelayState {
            rules,
            node,
            connections: AtomicUsize::new(0),
            cut: AtomicUsize::new(0),
            flipped: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            passed_on: AtomicU64::new(0),
            stream_bytes: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            other_fault: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.stop.load(Ordering::SeqCst) {
                    return;
                }
                accepting.connections.fetch_add(1, Ordering::SeqCst);
                let state = Arc::clone(&accepting);
                std::thread::spawn(move || state.relay(client));
            }
        });
        Relay { address, state }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    pub fn cut(&self) -> usize {
        self.state.cut.load(Ordering::SeqCst)
    }

    pub fn flipped(&self) -> usize {
        self.state.flipped.load(Ordering::SeqCst)
    }

    /// Faults that happened.
    pub fn faults(&self) -> usize {
        self.cut() + self.flipped() + usize::from(self.state.other_fault.load(Ordering::SeqCst))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        // Wakes the thread that waits in the listener.
        let _ = TcpStream::connect(self.address);
    }
}

/// What is done with a chunk that was read.
enum ChunkFate {
    Pass,
    Swallow,
    End,
}

impl RelayState {
    fn relay(self: Arc<RelayState>, client: TcpStream) {
        // The round trip of SYN and SYN-ACK: the client's connect returned at once, as the relay is on the same host.
        std::thread::sleep(self.rules.one_way * 2);
        let Ok(node) = TcpStream::connect(self.node) else { return };
        client.set_nodelay(true).unwrap();
        node.set_nodelay(true).unwrap();
        let mut first = [0; 4];
        let is_stream = client.peek(&mut first).is_ok_and(|n| n > 0) && first[0] == b'L';
        let back = Arc::clone(&self);
        let (from, to) = (node.try_clone().unwrap(), client.try_clone().unwrap());
        let answer = std::thread::spawn(move || back.pass(from, to, is_stream, false));
        self.pass(client, node, is_stream, true);
        let _ = answer.join();
    }

    /// Passes on one direction. It is delayed, but its rate is not limited: a reader adds the time at which each chunk is due, and a
    /// writer waits for it.
    fn pass(self: &Arc<RelayState>, from: TcpStream, to: TcpStream, is_stream: bool, to_node: bool) {
        let (to_writer, due) = channel::<(Instant, Vec<u8>)>();
        let writer = {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let state = Arc::clone(self);
            std::thread::spawn(move || {
                for (at, bytes) in due {
                    std::thread::sleep(at.saturating_duration_since(Instant::now()));
                    if (&to).write_all(&bytes).is_err() {
                        let _ = from.shutdown(Shutdown::Both);
                        return;
                    }
                    if state.cuts_everything(bytes.len()) {
                        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                        return;
                    }
                }
                if !state.is_reset() {
                    let _ = to.shutdown(Shutdown::Write);
                }
            })
        };
        let mut carried = 0u64;
        let mut stalled = false;
        let mut buffer = vec![0; 64 << 10];
        while let Ok(got @ 1..) = (&from).read(&mut buffer) {
            carried += got as u64;
            let all = self.bytes.fetch_add(got as u64, Ordering::SeqCst) + got as u64;
            match self.fate(all, &from, &to, to_node, &mut stalled) {
                ChunkFate::Pass => {}
                ChunkFate::Swallow => continue,
                ChunkFate::End => break,
            }
            if is_stream && self.cuts(carried) {
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                break;
            }
            if is_stream {
                self.flip(&mut buffer[..got]);
            }
            if to_writer.send((Instant::now() + self.rules.one_way, buffer[..got].to_vec())).is_err() {
                break;
            }
        }
        drop(to_writer);
        let _ = writer.join();
    }

    fn is_reset(&self) -> bool {
        self.rules.reset_after.is_some_and(|limit| self.bytes.load(Ordering::SeqCst) > limit)
    }

    fn fate(&self, all: u64, from: &TcpStream, to: &TcpStream, to_node: bool, stalled: &mut bool) -> ChunkFate {
        let rules = &self.rules;
        let note_fault = || self.other_fault.store(true, Ordering::SeqCst);
        if rules.mute_after.is_some_and(|limit| all > limit) {
            note_fault();
            let until = Instant::now() + Duration::from_secs(60);
            while Instant::now() < until && !self.stop.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
            return ChunkFate::End;
        }
        if let Some((limit, span)) = rules.stall_after
            && all > limit
            && !std::mem::replace(stalled, true)
        {
            note_fault();
            std::thread::sleep(span);
        }
        if rules.swallow_after.is_some_and(|(limit, which)| all > limit && which == to_node) {
            note_fault();
            return ChunkFate::Swallow;
        }
        if self.is_reset() {
            note_fault();
            for socket in [from, to] {
                // With no time to linger, the kernel sends a reset when the last handle is closed. The shutdown ends the relay's
                // own readers.
                let _ = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
                let _ = socket.shutdown(Shutdown::Read);
            }
            return ChunkFate::End;
        }
        ChunkFate::Pass
    }

    fn cuts_everything(&self, now: usize) -> bool {
        let all = self.passed_on.fetch_add(now as u64, Ordering::SeqCst) + now as u64;
        let over = self.rules.cut_everything_after.is_some_and(|limit| all > limit);
        self.other_fault.fetch_or(over, Ordering::SeqCst);
        over
    }

    fn cuts(&self, carried: u64) -> bool {
        let due = self.rules.cut_streams_after.is_some_and(|limit| carried > limit);
        due && self
            .cut
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n < self.rules.streams_to_cut).then_some(n + 1))
            .is_ok()
    }

    fn flip(&self, bytes: &mut [u8]) {
        let Some(every) = self.rules.flip_stream_bit_every else { return };
        let before = self.stream_bytes.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        if before / every != (before + bytes.len() as u64) / every {
            let at = bytes.len() / 2;
            bytes[at] ^= 0x10;
            self.flipped.fetch_add(1, Ordering::SeqCst);
        }
    }
}
