//! A line to a server: a relay on loopback with a rate in bytes per second for all its connections together, which can crawl,
//! fall silent or die.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

/// The condition of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LineCondition {
    /// It carries this many bytes per second.
    At(u64),
    /// It carries nothing, and its connections stay open.
    Silent,
    /// Its connections break, and so do new ones.
    Dead,
}

const SILENT: u64 = u64::MAX;

#[derive(Debug)]
struct State {
    rate: AtomicU64,
    carried: AtomicU64,
    /// When the line is free again, in microseconds since it was made.
    free: AtomicU64,
    ended: AtomicBool,
}

/// A line to a server. Its threads end when it is dropped.
#[derive(Debug)]
pub struct ThrottledLine {
    /// The port that clients connect to.
    pub port: u16,
    state: Arc<State>,
}

impl ThrottledLine {
    /// Opens a line to a port of this host, with a rate in bytes per second.
    pub fn to(port: u16, rate: u64) -> Result<ThrottledLine> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let own = listener.local_addr()?.port();
        let (free, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        let state = Arc::new(State { rate: AtomicU64::new(rate), carried: AtomicU64::new(0), free, ended });
        let (line, began) = (ThrottledLine { port: own, state: Arc::clone(&state) }, Instant::now());
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if state.ended.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let (Ok(back), Ok(there)) = (near.try_clone(), far.try_clone()) else { continue };
                if state.rate.load(Ordering::Relaxed) == 0 {
                    continue;
                }
                let state = Arc::clone(&state);
                thread::spawn(move || pump(near, there, |_| true));
                thread::spawn(move || pump(far, back, |bytes| state.carry(bytes, began)));
            }
        });
        Ok(line)
    }

    /// Bytes that it has carried to clients.
    pub fn carried(&self) -> u64 {
        self.state.carried.load(Ordering::Relaxed)
    }

    /// Changes the condition of the line.
    pub fn becomes(&self, is: LineCondition) {
        let rate = match is {
            LineCondition::At(rate) => rate,
            LineCondition::Silent => SILENT,
            LineCondition::Dead => 0,
        };
        self.state.rate.store(rate, Ordering::Relaxed);
    }
}

impl Drop for ThrottledLine {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        // A connection wakes the listener, which then sees the end.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl State {
    /// Waits until the line has carried so many bytes more. Whether it has.
    fn carry(&self, bytes: u64, began: Instant) -> bool {
        while self.rate.load(Ordering::Relaxed) == SILENT && !self.ended.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
        let now = began.elapsed().as_micros() as u64;
        let Some(takes) = (bytes * 1_000_000).checked_div(self.rate.load(Ordering::Relaxed)) else { return false };
        let mut at = 0;
        let _ = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
            at = free.max(now) + takes;
            Some(at)
        });
        thread::sleep(Duration::from_micros(at.saturating_sub(now)));
        self.carried.fetch_add(bytes, Ordering::Relaxed);
        !self.ended.load(Ordering::Relaxed)
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, carries: impl Fn(u64) -> bool) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(len) = from.read(&mut buffer) {
        if len == 0 || !carries(len as u64) || to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    // Both directions are shut: a half-open line would hold a client that waits for the end.
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}
