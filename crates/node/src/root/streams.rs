//! Further connections of a session. They carry answers to reads, so that a client fills a long path with several connections.
//!
//! The control connection hands over the reads of a stream. A thread sends their data as long as there are any; an idle stream has none.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use web::Conn;

use super::data::ReadOrder;

/// Threads of streams on this node; further reads are answered by the thread of their control connection.
const THREADS_MAX: usize = 1024;
/// Reads that wait for one stream; clients have a few dozen under way.
const WAITING_MAX: usize = 256;

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// A bound connection.
pub(super) struct BoundStream {
    pub path_id: u8,
    conn: Mutex<Conn>,
    /// Another handle of its socket, with which it is ended while a thread writes.
    socket: TcpStream,
    orders: Mutex<Orders>,
}

#[derive(Default)]
struct Orders {
    waiting: VecDeque<ReadOrder>,
    /// A thread works on them.
    has_thread: bool,
}

impl BoundStream {
    pub fn new(path_id: u8, conn: Conn, socket: TcpStream) -> BoundStream {
        BoundStream { path_id, conn: Mutex::new(conn), socket, orders: Mutex::default() }
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The connection broke.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.conn.lock().write_all(bytes)
    }

    /// Whether the client has sent data or closed the connection. Messages of TLS itself are taken, and do not count.
    ///
    /// # Errors
    /// The connection broke.
    pub fn has_input(&self) -> io::Result<bool> {
        self.conn.lock().has_input()
    }

    /// The socket, to watch it.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Ends the connection.
    pub fn end(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Answers a read on this connection: in a thread of the stream, or here if there are too many threads or reads.
    pub fn submit(self: Arc<Self>, order: ReadOrder) {
        {
            let mut orders = self.orders.lock();
            if orders.has_thread && orders.waiting.len() < WAITING_MAX {
                return orders.waiting.push_back(order);
            }
            if !orders.has_thread && THREADS.fetch_add(1, Ordering::Relaxed) < THREADS_MAX {
                orders.has_thread = true;
                orders.waiting.push_back(order);
                drop(orders);
                let stream = Arc::clone(&self);
                let begun = std::thread::Builder::new().name("root-stream".into()).spawn(move || {
                    stream.work();
                    THREADS.fetch_sub(1, Ordering::Relaxed);
                });
                if begun.is_err() {
                    THREADS.fetch_sub(1, Ordering::Relaxed);
                    self.work();
                }
                return;
            }
            if !orders.has_thread {
                THREADS.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.answer(&order);
    }

    /// Answers all reads that wait.
    fn work(&self) {
        loop {
            let order = {
                let mut orders = self.orders.lock();
                let next = orders.waiting.pop_front();
                orders.has_thread = next.is_some();
                next
            };
            match order {
                Some(order) => self.answer(&order),
                None => return,
            }
        }
    }

    fn answer(&self, order: &ReadOrder) {
        let sent = order.answer(&mut self.conn.lock());
        if sent.is_err() {
            self.end();
        }
    }
}
