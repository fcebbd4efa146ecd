//! A relay in front of a node: it counts the bytes that a client sends and gets, and limits their rate.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// A port that forwards to a node. The thread of a connection ends with it, and the thread that listens with the process.
pub struct Relay {
    port: u16,
    counted: Arc<AtomicU64>,
}

/// Bytes per second to and from a client: a path on which the payload of no test would arrive in time.
const FAR_BYTES_S: u64 = 512 << 10;

impl Relay {
    /// To a port of this host. The connections of the process `exempt` are neither counted nor slowed.
    pub fn new(to: u16, exempt: u32) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let counted = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&counted);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                let is_exempt = is_of(exempt, near.peer_addr().map_or(0, |at| at.port()), port);
                let count = (!is_exempt).then(|| Arc::clone(&count));
                pump(&near, &far, count.clone());
                pump(&far, &near, count);
            }
        });
        Relay { port, counted }
    }

    /// A locator of a path behind the relay.
    pub fn at(&self, path: &str) -> String {
        format!("lh://127.0.0.1:{}/{path}", self.port)
    }

    /// Bytes of clients so far, in both directions, with all overhead but that of TCP itself.
    pub fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }
}

fn pump(from: &TcpStream, to: &TcpStream, count: Option<Arc<AtomicU64>>) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    thread::spawn(move || {
        let mut buffer = vec![0; 256 << 10];
        while let Ok(len) = from.read(&mut buffer)
            && len > 0
            && to.write_all(&buffer[..len]).is_ok()
        {
            if let Some(count) = &count {
                count.fetch_add(len as u64, Ordering::Relaxed);
                thread::sleep(Duration::from_secs_f64(len as f64 / FAR_BYTES_S as f64));
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}

/// Whether a connection from one port to another is a process's.
fn is_of(process: u32, from: u16, to: u16) -> bool {
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let (from, to) = (format!(":{from:04X}"), format!(":{to:04X}"));
    // Columns: number, local address, remote address, …; the tenth is the socket's inode.
    let inode = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find_map(|words| {
        (words.len() > 9 && words[1].ends_with(&from) && words[2].ends_with(&to)).then(|| words[9].to_owned())
    });
    let Some(inode) = inode else { return false };
    let socket = format!("socket:[{inode}]");
    let fds = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    fds.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|link| link.as_os_str() == socket.as_str())
}
