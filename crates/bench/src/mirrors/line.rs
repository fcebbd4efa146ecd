//! A line to a server: a relay on loopback that carries so many bytes per second on all its connections together. It can become
//! slow, fall silent or break its connections.

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
    Rate(u64),
    /// It carries nothing, and its connections stay open.
    Silent,
    /// It breaks its connections, and refuses new ones.
    Dead,
}

/// The `rate` of a silent line.
const SILENT: u64 = u64::MAX;

#[derive(Debug)]
struct State {
    /// Bytes per second; 0 for a dead line, [`SILENT`] for a silent one.
    rate: AtomicU64,
    carried_bytes: AtomicU64,
    /// When the line is free again, in microseconds since it was made.
    free_at_us: AtomicU64,
    is_ended: AtomicBool,
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
    ///
    /// # Errors
    /// No port is free on loopback.
    pub fn open(port: u16, rate: u64) -> Result<ThrottledLine> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let own_port = listener.local_addr()?.port();
        let state = Arc::new(State {
            rate: AtomicU64::new(rate),
            carried_bytes: AtomicU64::new(0),
            free_at_us: AtomicU64::new(0),
            is_ended: AtomicBool::new(false),
        });
        let line = ThrottledLine { port: own_port, state: Arc::clone(&state) };
        let began = Instant::now();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if state.is_ended.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let (Ok(client_writer), Ok(server_writer)) = (client.try_clone(), server.try_clone()) else { continue };
                if state.rate.load(Ordering::Relaxed) == 0 {
                    continue;
                }
                let state = Arc::clone(&state);
                thread::spawn(move || pump(client, server_writer, |_| true));
                thread::spawn(move || pump(server, client_writer, |bytes| state.carry(bytes, began)));
            }
        });
        Ok(line)
    }

    /// Bytes that it has carried to clients.
    pub fn carried_bytes(&self) -> u64 {
        self.state.carried_bytes.load(Ordering::Relaxed)
    }

    /// Changes the condition of the line.
    pub fn set_condition(&self, condition: LineCondition) {
        let rate = match condition {
            LineCondition::Rate(rate) => rate,
            LineCondition::Silent => SILENT,
            LineCondition::Dead => 0,
        };
        self.state.rate.store(rate, Ordering::Relaxed);
    }
}

impl Drop for ThrottledLine {
    fn drop(&mut self) {
        self.state.is_ended.store(true, Ordering::Relaxed);
        // A connection wakes the listener, which then sees the end.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl State {
    /// Waits until the line has carried more bytes; whether it has, or was ended first.
    fn carry(&self, bytes: u64, began: Instant) -> bool {
        while self.rate.load(Ordering::Relaxed) == SILENT && !self.is_ended.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
        let now_us = began.elapsed().as_micros() as u64;
        let Some(takes_us) = (bytes * 1_000_000).checked_div(self.rate.load(Ordering::Relaxed)) else { return false };
        let mut free_at_us = 0;
        let _ = self.free_at_us.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free_us| {
            free_at_us = free_us.max(now_us) + takes_us;
            Some(free_at_us)
        });
        thread::sleep(Duration::from_micros(free_at_us.saturating_sub(now_us)));
        self.carried_bytes.fetch_add(bytes, Ordering::Relaxed);
        !self.is_ended.load(Ordering::Relaxed)
    }
}

/// Copies bytes from one socket to another while `carries` permits it.
fn pump(mut from: TcpStream, mut to: TcpStream, carries: impl Fn(u64) -> bool) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(len) = from.read(&mut buffer) {
        if len == 0 || !carries(len as u64) || to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    // Both directions are shut: on a half-open connection, a client would wait for the end without limit.
    let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
}
