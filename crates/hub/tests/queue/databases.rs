//! Empty databases on one PostgreSQL server, which the tests of a process share. The server and its files are removed with the last test
//! that uses it.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};

use crate::postgres::{MISSING, Postgres};

/// A database, with its server, which runs as long as a test uses one of its databases.
pub struct OwnDatabase {
    pub url: String,
    _server: Arc<SharedServer>,
}

/// A server, and the thread that started it: the server ends when that thread does.
struct SharedServer {
    postgres: Postgres,
    _thread: mpsc::Sender<()>,
}

/// A new, empty database; `None` if this host has no PostgreSQL, which is then written to standard error.
pub fn new() -> Option<OwnDatabase> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let Some(server) = shared() else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: hub/queue on PostgreSQL: {MISSING}");
        return None;
    };
    let url = server.postgres.database(&format!("queue{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
    Some(OwnDatabase { url, _server: server })
}

/// The server that other tests use now, or a new one.
fn shared() -> Option<Arc<SharedServer>> {
    static SERVER: Mutex<Weak<SharedServer>> = Mutex::new(Weak::new());
    let mut current = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = current.upgrade() {
        return Some(server);
    }
    let server = Arc::new(start()?);
    *current = Arc::downgrade(&server);
    Some(server)
}

/// Starts a server from its own thread, since it ends with the thread that started it: the thread of one test may end before the other
/// tests.
fn start() -> Option<SharedServer> {
    let (sender, started) = mpsc::channel();
    let (thread, ended) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        let _ = sender.send(Postgres::start());
        let _ = ended.recv();
    });
    Some(SharedServer { postgres: started.recv().unwrap()?, _thread: thread })
}
