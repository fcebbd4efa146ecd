//! Empty databases on one PostgreSQL server, which is there for all tests of this program.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};

use crate::postgres::{MISSING, Postgres};

/// The URL of a new, empty database; none where the machine has no server, which is said.
pub fn new() -> Option<String> {
    static SERVER: OnceLock<Option<Postgres>> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let Some(server) = SERVER.get_or_init(start) else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: hub/queue on PostgreSQL: {MISSING}");
        return None;
    };
    Some(server.database(&format!("queue{}", NUMBER.fetch_add(1, Ordering::Relaxed))))
}

/// Starts the server from a thread that never ends: with the thread of a test it would be gone for the others.
fn start() -> Option<Postgres> {
    let (sender, started) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = sender.send(Postgres::start());
        loop {
            std::thread::park();
        }
    });
    started.recv().unwrap()
}
