//! A source that never ends: it announces the length of a file, sends a part of it, and then nothing more.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The length of the file that it announces, bytes.
const ANNOUNCED_BYTES: u64 = 100 << 20;
/// The bytes that it sends.
const SENT_BYTES: usize = 1 << 20;

/// A server of one endless file under every name.
pub struct EndlessServer {
    pub address: SocketAddr,
    gets: Arc<AtomicUsize>,
}

impl EndlessServer {
    /// Answers until the process ends.
    pub fn start() -> EndlessServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, gets) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let counts = gets.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counts = counts.clone();
                std::thread::spawn(move || answer(stream, &counts));
            }
        });
        EndlessServer { address, gets }
    }

    /// The number of GET requests.
    pub fn get_count(&self) -> usize {
        self.gets.load(Ordering::Relaxed)
    }
}

fn answer(mut stream: TcpStream, gets: &AtomicUsize) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    loop {
        let request = lines.next()?.ok()?;
        while !lines.next()?.ok()?.is_empty() {}
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {ANNOUNCED_BYTES}\r\nAccept-Ranges: none\r\n\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        if request.starts_with("GET") {
            stream.write_all(&vec![b'x'; SENT_BYTES]).ok()?;
            gets.fetch_add(1, Ordering::Relaxed);
            // Until the other side closes the connection.
            while lines.next()?.is_ok() {}
            return None;
        }
    }
}
