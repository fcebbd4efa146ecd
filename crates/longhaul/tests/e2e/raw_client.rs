//! A raw client of the native protocol, which follows the protocol as far as a test needs.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use engine::job::{StreamHelpers, StreamTerms};
use engine::link::Link;
use engine::seal::{self, Secret};
use engine::stream::{DataStream, RecordBuffer};
use engine::{Error, Timeouts, Trust};
use model::checksum::crc32c;
use model::locator::NodePlace;
use model::name::{Name, RelPath};
use model::spec::Options;
use model::{Algorithm, Timestamp};
use rustls::{ClientConnection, Connection};
use wire::Frame;
use wire::frame::{Direction, Entry, KeyProof, Offered, Open, Suite};
use wire::join::{Join, SessionId};
use wire::record::Part;
use wire::version::SPOKEN;

use crate::node::Node;

/// The longest that a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

static SESSIONS: AtomicU32 = AtomicU32::new(1);

/// A session with a node.
pub struct RawClient {
    pub link: Link,
    pub session: SessionId,
    secret: Secret,
    port: u16,
}

/// A directory entry.
pub fn dir(id: u64, parent: u64, name: &str) -> Entry {
    entry(id, parent, name, Offered::Dir { mode: 0o755, mtime: Timestamp::default() })
}

/// A file's entry.
pub fn file(id: u64, parent: u64, name: &str, size: u64) -> Entry {
    entry(id, parent, name, Offered::File { mode: 0o644, mtime: Timestamp::default(), size })
}

/// Any entry.
pub fn entry(id: u64, parent: u64, name: &str, what: Offered) -> Entry {
    Entry::New { id, parent, name: Name::new(name.as_bytes()).unwrap(), what, attributes: None }
}

/// A frame's bytes.
pub fn encoded(frame: &Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::frame::encode(frame, &mut bytes);
    bytes
}

/// A frame with every `from` replaced by `to`, which no correct encoder produces.
pub fn forged(frame: &Frame, from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = encoded(frame);
    let places: Vec<usize> = (0..=bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty() && from.len() == to.len());
    places.iter().for_each(|at| bytes[*at..at + to.len()].copy_from_slice(to));
    bytes
}

/// One part of a file, with its right checksum.
pub fn part(file: u64, offset: u64, bytes: &[u8]) -> Part {
    Part { file, offset, len: bytes.len() as u64, crc32c: crc32c(bytes), hole: false, whole: false }
}

/// A buffer that holds these bytes as payload.
pub fn payload(bytes: &[u8]) -> RecordBuffer {
    let mut buffer = RecordBuffer::default();
    buffer.free()[..bytes.len()].copy_from_slice(bytes);
    buffer.take(bytes.len());
    buffer
}

/// A record for the control connection.
pub fn inline(part: Part, bytes: &[u8]) -> Frame {
    Frame::Inline(payload(bytes).to_inline(&[part]))
}

/// An order to push to `data/t`, or to pull from it.
pub fn order(direction: Direction) -> Open {
    let path = RelPath::parse(b"t").unwrap();
    let options = Options { recursive: true, checksums: vec![Algorithm::Crc32c], ..Options::default() };
    let job = model::id::JobId::random();
    Open {
        job: *job.0.as_bytes(),
        direction,
        places: vec![NodePlace::Path { export: "data".into(), path }],
        options,
        congestion: None,
        steer: Default::default(),
        listed: false,
    }
}

impl RawClient {
    /// Connects and does the handshake, but does not log in.
    pub fn connect(node: &Node) -> RawClient {
        RawClient::over(node, TcpStream::connect(("127.0.0.1", node.port)).unwrap()).unwrap()
    }

    /// The same, over an open connection.
    pub fn over(node: &Node, socket: TcpStream) -> Result<RawClient, Error> {
        let (config, _) = engine::identity::client_config(&Trust::Fingerprints(Vec::new()), SPOKEN).unwrap();
        let tls = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
        // What a test sends piece by piece is not held back for the other end's acknowledgement.
        socket.set_nodelay(true).unwrap();
        let mut link = Link::new(socket, Connection::Client(tls), node.address(), Timeouts::default()).unwrap();
        link.handshake()?;
        let secret = link.secret()?;
        let mut session = [0; 16];
        session[..4].copy_from_slice(&SESSIONS.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        Ok(RawClient { link, session, secret, port: node.port })
    }

    /// Its login.
    pub fn login(&self) -> Frame {
        let software = "a test".into();
        Frame::Login { session: self.session, software, key: None, suites: seal::suites().to_vec(), plain: false }
    }

    /// Connects and logs in.
    pub fn logged_in(node: &Node) -> RawClient {
        RawClient::with_key(node, None).unwrap()
    }

    /// Connects and logs in, with a key or without one.
    pub fn with_key(node: &Node, proof: Option<&KeyProof>) -> Result<RawClient, Error> {
        let mut raw_client = RawClient::connect(node);
        raw_client.log_in(proof)?;
        Ok(raw_client)
    }

    /// Logs in with a key or without one, and waits until it is admitted.
    pub fn log_in(&mut self, proof: Option<&KeyProof>) -> Result<(), Error> {
        let mut login = self.login();
        if let Frame::Login { key, .. } = &mut login {
            *key = proof.cloned();
        }
        self.send(&login);
        while self.link.welcome().is_none() {
            self.link.exchange(PATIENCE)?;
            let _ = self.link.next_frame()?;
        }
        Ok(())
    }

    /// Connects, logs in and starts a job.
    pub fn with_job(node: &Node, direction: Direction) -> RawClient {
        let mut raw_client = RawClient::logged_in(node);
        raw_client.send(&Frame::Open(order(direction)));
        raw_client
    }

    /// Sends a frame.
    pub fn send(&mut self, frame: &Frame) {
        self.send_raw(&encoded(frame));
    }

    /// Sends bytes in place of frames, without waiting until the node takes them.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.link.send_raw(bytes);
        self.link.drain(Duration::from_secs(1));
    }

    /// The next frame, or how the session ended.
    pub fn receive(&mut self) -> Result<Frame, Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(frame) = self.link.next_frame()? {
                return Ok(frame);
            }
            assert!(Instant::now() < deadline, "the node sends nothing and keeps the connection open");
            self.link.exchange(Duration::from_millis(200))?;
        }
    }

    /// Reads until the node ends the session; returns the error that ended it.
    pub fn end(mut self) -> Error {
        loop {
            if let Err(error) = self.receive() {
                return error;
            }
        }
    }

    /// Reads until a frame that matches.
    pub fn receive_until(&mut self, what: &str, matches: impl Fn(&Frame) -> bool) -> Frame {
        loop {
            let frame = self.receive().unwrap_or_else(|error| panic!("{what}: {error}"));
            if matches(&frame) {
                return frame;
            }
        }
    }

    /// A join for a stream of this session.
    pub fn join(&self, stream: u32) -> Join {
        let mut join = Join { session: self.session, stream, sealed: true, code: [0; 32] };
        self.secret.sign_join(&mut join);
        join
    }

    /// Opens a data stream.
    pub fn stream(&self, stream: u32) -> DataStream {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.write_all(&self.join(stream).encode()).unwrap();
        let suite = self.link.welcome().and_then(|welcome| welcome.suite);
        stream_terms(self.session, &self.secret, seal::SealingEnd::Client, suite).stream(socket, stream, "the node")
    }
}

/// The terms of a stream of which a test plays one end, in a session with default settings.
pub fn stream_terms(session: SessionId, secret: &Secret, role: seal::SealingEnd, suite: Option<Suite>) -> StreamTerms {
    StreamTerms {
        plain: true,
        session,
        secret: secret.clone(),
        role,
        suite: Arc::new(OnceLock::from(suite)),
        ordered: model::spec::LiveSettings::default(),
        patience: std::time::Duration::ZERO,
        keep: false,
        help: StreamHelpers::None,
        marker: None,
        permitted: pilot::Permitted::default(),
        past: None,
        history: None,
        series: None,
        path_shares: None,
    }
}
