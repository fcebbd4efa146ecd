//! A TCP relay with rules: delay, cuts, flipped bits, silence. It knows data streams by their first bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// What the path does.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Delay of each direction; a new connection costs a round trip before its first byte.
    pub one_way: Duration,
    /// Data streams are cut after so many bytes …
    pub cut_streams_after: Option<u64>,
    /// … but only so many of them.
    pub streams_to_cut: usize,
    /// One bit of data streams is flipped every so many bytes.
    pub flip_stream_bit_every: Option<u64>,
    /// All connections are cut once so many bytes have passed.
    pub cut_everything_after: Option<u64>,
    /// Nothing passes any more, and nobody is told, once so many bytes have passed.
    pub mute_after: Option<u64>,
}

struct Inner {
    rules: Rules,
    node: SocketAddr,
    connections: AtomicUsize,
    cut: AtomicUsize,
    flipped: AtomicUsize,
    bytes: AtomicU64,
    stream_bytes: AtomicU64,
}

/// A relay, until the test ends.
pub struct Relay {
    address: SocketAddr,
    inner: Arc<Inner>,
}

impl Relay {
    pub fn start(node: SocketAddr, rules: Rules) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let inner = Arc::new(Inner {
            rules,
            node,
            connections: AtomicUsize::new(0),
            cut: AtomicUsize::new(0),
            flipped: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            stream_bytes: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&inner);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                accepting.connections.fetch_add(1, Ordering::SeqCst);
                let inner = Arc::clone(&accepting);
                std::thread::spawn(move || inner.carry(client));
            }
        });
        Relay { address, inner }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn connections(&self) -> usize {
        self.inner.connections.load(Ordering::SeqCst)
    }

    pub fn cut(&self) -> usize {
        self.inner.cut.load(Ordering::SeqCst)
    }

    pub fn flipped(&self) -> usize {
        self.inner.flipped.load(Ordering::SeqCst)
    }
}

impl Inner {
    fn carry(self: Arc<Inner>, client: TcpStream) {
        // SYN and SYN-ACK: the client's connect returned at once, so the round trip is paid here.
        std::thread::sleep(self.rules.one_way * 2);
        let Ok(node) = TcpStream::connect(self.node) else { return };
        client.set_nodelay(true).unwrap();
        node.set_nodelay(true).unwrap();
        let mut first = [0; 4];
        let is_stream = client.peek(&mut first).is_ok_and(|n| n > 0) && first[0] == b'L';
        let back = Arc::clone(&self);
        let (from, to) = (node.try_clone().unwrap(), client.try_clone().unwrap());
        let answer = std::thread::spawn(move || back.pass(from, to, is_stream));
        self.pass(client, node, is_stream);
        let _ = answer.join();
    }

    /// One direction, delayed without slowing it down: a reader stamps, a writer waits.
    fn pass(&self, from: TcpStream, to: TcpStream, is_stream: bool) {
        let (stamped, due) = channel::<(Instant, Vec<u8>)>();
        let writer = {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            std::thread::spawn(move || {
                for (at, bytes) in due {
                    std::thread::sleep(at.saturating_duration_since(Instant::now()));
                    if (&to).write_all(&bytes).is_err() {
                        let _ = from.shutdown(Shutdown::Both);
                        return;
                    }
                }
                let _ = to.shutdown(Shutdown::Write);
            })
        };
        let mut carried = 0u64;
        let mut buffer = vec![0; 64 << 10];
        while let Ok(got @ 1..) = (&from).read(&mut buffer) {
            carried += got as u64;
            let all = self.bytes.fetch_add(got as u64, Ordering::SeqCst) + got as u64;
            if self.rules.mute_after.is_some_and(|limit| all > limit) {
                std::thread::sleep(Duration::from_secs(60));
                return;
            }
            let over = self.rules.cut_everything_after.is_some_and(|limit| all > limit);
            if over || is_stream && self.cuts(carried) {
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                break;
            }
            if is_stream {
                self.flip(&mut buffer[..got]);
            }
            if stamped.send((Instant::now() + self.rules.one_way, buffer[..got].to_vec())).is_err() {
                break;
            }
        }
        drop(stamped);
        let _ = writer.join();
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
