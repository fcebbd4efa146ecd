//! A small HTTP/1.1 server with files that arrive, wait or hang.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The bytes of most files.
pub const BODY: &[u8] = &[b'x'; 32 << 10];
/// Requests that `/together/…` waits for.
const TOGETHER: usize = 4;
/// How long an answer is held back at most.
const HELD_MAX: Duration = Duration::from_secs(60);

/// A running server. It serves until the process ends.
pub struct SmallServer {
    address: SocketAddr,
    shared: Arc<ServerState>,
}

#[derive(Default)]
struct ServerState {
    counts: Mutex<RequestCounts>,
    changed: Condvar,
}

#[derive(Default)]
struct RequestCounts {
    in_flight: usize,
    in_flight_max: usize,
    goes_on: bool,
    puts: Vec<ReceivedFile>,
}

/// A file that a client has put.
#[derive(Clone)]
pub struct ReceivedFile {
    pub path: String,
    pub authorization: String,
    pub body: Vec<u8>,
}

impl SmallServer {
    pub fn start() -> SmallServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = SmallServer { address: listener.local_addr().unwrap(), shared: Arc::default() };
        let shared = Arc::clone(&server.shared);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A client that was killed breaks its connection.
                std::thread::spawn(move || serve(&connection, &shared).ok());
            }
        });
        server
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// The most requests for `/together/…` at once.
    pub fn in_flight_max(&self) -> usize {
        self.shared.counts.lock().unwrap().in_flight_max
    }

    /// Lets `/half` send its second half.
    pub fn go_on(&self) {
        self.shared.counts.lock().unwrap().goes_on = true;
        self.shared.changed.notify_all();
    }

    pub fn puts(&self) -> Vec<ReceivedFile> {
        self.shared.counts.lock().unwrap().puts.clone()
    }
}

fn serve(connection: &TcpStream, shared: &ServerState) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        head.push(line.trim_end().to_owned());
    }
    let field = |name: &str| {
        let fields = head.iter().filter_map(|line| line.split_once(": "));
        fields.clone().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value).to_owned()
    };
    let mut words = head.first().map(String::as_str).unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut to = connection;
    if method == "PUT" {
        if !field("expect").is_empty() {
            to.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut body = vec![0; field("content-length").parse().unwrap_or(0)];
        reader.read_exact(&mut body)?;
        let received = ReceivedFile { path: path.to_owned(), authorization: field("authorization"), body };
        shared.counts.lock().unwrap().puts.push(received);
        return to.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    }
    let begin = |mut to: &TcpStream, bytes: usize| {
        to.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n").as_bytes())
    };
    match path {
        "/missing" => to.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        // Until the client hangs up.
        "/hang" => reader.read(&mut [0]).map(drop),
        "/half" => {
            begin(to, 2 << 20)?;
            to.write_all(&[b'a'; 1 << 20])?;
            let counts = shared.counts.lock().unwrap();
            drop(shared.changed.wait_timeout_while(counts, HELD_MAX, |counts| !counts.goes_on).unwrap());
            to.write_all(&[b'b'; 1 << 20])
        }
        path => {
            if path.starts_with("/together/") {
                wait_for_others(shared);
            }
            begin(to, BODY.len())?;
            to.write_all(BODY)
        }
    }
}

/// Holds the first requests back until [`TOGETHER`] are there. A request is no longer in flight when its answer begins.
fn wait_for_others(shared: &ServerState) {
    let mut counts = shared.counts.lock().unwrap();
    counts.in_flight += 1;
    counts.in_flight_max = counts.in_flight_max.max(counts.in_flight);
    shared.changed.notify_all();
    let waited = shared.changed.wait_timeout_while(counts, HELD_MAX, |counts| counts.in_flight_max < TOGETHER);
    waited.unwrap().0.in_flight -= 1;
}
