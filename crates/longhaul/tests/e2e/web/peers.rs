//! Scripted servers: sources that give false answers, destinations that refuse.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request that a peer has received.
#[derive(Clone, Debug)]
pub struct PeerRequest {
    pub method: String,
    pub target: String,
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
}

impl PeerRequest {
    /// A field's value.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// First byte and the one behind the last of `Range`.
    pub fn range(&self, size: usize) -> Option<(usize, usize)> {
        let (first, last) = self.field("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse::<usize>().map_or(size, |last| last + 1).min(size)))
    }
}

/// Answers a request; returns whether the connection continues.
type Script = dyn Fn(&PeerRequest, &mut TcpStream) -> bool + Send + Sync;

/// A server on a port of its own. The thread of a connection ends with it, and the thread that listens with the process.
pub struct Peer {
    pub port: u16,
    requests: Arc<Mutex<Vec<PeerRequest>>>,
}

impl Peer {
    /// Starts it.
    pub fn new(script: impl Fn(&PeerRequest, &mut TcpStream) -> bool + Send + Sync + 'static) -> Peer {
        Peer::at("127.0.0.1", script)
    }

    /// Starts it on another address of this host.
    pub fn at(address: &str, script: impl Fn(&PeerRequest, &mut TcpStream) -> bool + Send + Sync + 'static) -> Peer {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<PeerRequest>>> = Arc::default();
        let (all, script): (_, Arc<Script>) = (Arc::clone(&requests), Arc::new(script));
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (all, script) = (Arc::clone(&all), Arc::clone(&script));
                thread::spawn(move || serve(socket, &all, &*script));
            }
        });
        Peer { port, requests }
    }

    /// A URL of it.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<PeerRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// All requests of one method so far.
    pub fn requests_of(&self, method: &str) -> Vec<PeerRequest> {
        self.requests().into_iter().filter(|request| request.method == method).collect()
    }
}

fn head(socket: &mut TcpStream) -> Option<String> {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"\r\n\r\n") {
        if socket.read(&mut byte).ok()? == 0 {
            return None;
        }
        text.push(byte[0]);
    }
    String::from_utf8(text).ok()
}

fn serve(mut socket: TcpStream, all: &Mutex<Vec<PeerRequest>>, script: &Script) {
    socket.set_nodelay(true).unwrap();
    while let Some(text) = head(&mut socket) {
        let mut lines = text.lines();
        let mut words = lines.next().unwrap().split(' ').map(str::to_owned);
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect();
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let request = {
            let mut all = all.lock().unwrap();
            all.push(PeerRequest { method, target, fields });
            all.last().unwrap().clone()
        };
        if !script(&request, &mut socket) {
            break;
        }
    }
    let _ = socket.shutdown(Shutdown::Both);
}

/// Sends an answer with its length.
pub fn answer(socket: &mut TcpStream, status: u16, fields: &str, body: &[u8]) -> bool {
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{fields}\r\n", body.len());
    socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(body)).is_ok()
}

/// Sends only the head of an answer: to HEAD, or before a body that the script sends by itself.
pub fn begin(socket: &mut TcpStream, status: u16, length: usize, fields: &str) -> bool {
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{fields}\r\n");
    socket.write_all(head.as_bytes()).is_ok()
}

/// A correct source of these bytes: HEAD, GET, ranges, a tag, and these fields besides.
pub fn honest(request: &PeerRequest, socket: &mut TcpStream, data: &[u8], fields: &str) -> bool {
    let fields = format!("Accept-Ranges: bytes\r\nETag: \"one\"\r\n{fields}");
    match (request.method.as_str(), request.range(data.len())) {
        ("HEAD", _) => begin(socket, 200, data.len(), &fields),
        ("GET", Some((from, to))) => {
            let fields = format!("{fields}Content-Range: bytes {from}-{}/{}\r\n", to - 1, data.len());
            answer(socket, 206, &fields, &data[from..to])
        }
        ("GET", None) => answer(socket, 200, &fields, data),
        _ => answer(socket, 405, "", b""),
    }
}

/// Reads a body of this length, as a destination does.
pub fn take(socket: &mut TcpStream, request: &PeerRequest) -> Vec<u8> {
    let length = request.field("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    let _ = socket.read_exact(&mut body);
    body
}
