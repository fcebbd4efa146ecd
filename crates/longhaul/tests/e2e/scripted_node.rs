//! A scripted node, which answers a client as a test orders.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use auth::AccessKey;
use engine::link::Link;
use engine::seal::{self, Secret};
use engine::stream::DataStream;
use engine::{Error, Timeouts};
use rustls::{Connection, ServerConnection};
use tempfile::TempDir;
use wire::Frame;
use wire::frame::{DelegationOrder, Direction, Request, Suite};
use wire::join::{JOIN_BYTES, Join, SessionId};

use crate::client::{Client, Outcome, words};
use crate::raw_client::stream_terms;
use crate::wait::until_some;

/// The longest that a client may take for any step.
const PATIENCE: Duration = Duration::from_secs(30);

/// A port to which clients connect.
pub struct ScriptedNode {
    listener: TcpListener,
    identity: TempDir,
}

/// A client's session.
pub struct ClientSession<'a> {
    pub link: Link,
    listener: &'a TcpListener,
    session: SessionId,
    secret: Secret,
}

fn accept(listener: &TcpListener) -> TcpStream {
    let socket = until_some("the client connects", PATIENCE, || listener.accept().ok()).0;
    socket.set_nonblocking(false).unwrap();
    socket
}

impl ScriptedNode {
    /// Listening on a free port.
    pub fn new() -> ScriptedNode {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        ScriptedNode { listener, identity: tempfile::tempdir().unwrap() }
    }

    /// A locator on it.
    pub fn at(&self, path: &str) -> String {
        format!("lh://{}/{path}", self.listener.local_addr().unwrap())
    }

    /// A key to it, as its operator would grant it.
    pub fn key(&self) -> AccessKey {
        let node = client::StateDir::open(self.identity.path()).unwrap().fingerprint().unwrap();
        AccessKey::new([7; 8], [8; 32], node)
    }

    /// Admits the next client, reads its order of a delegated transfer and accepts it. Returns the order, and all other frames of
    /// the client.
    pub fn accept_delegated(&self) -> (DelegationOrder, Vec<Frame>) {
        let (mut link, login) = self.admit();
        let request = receive(&mut link).unwrap();
        let Frame::Request(number, Request::Carry(delegation)) = &request else {
            panic!("no delegation but {request:?}")
        };
        let _ = link.send(&Frame::Told(*number, String::new(), false));
        link.drain(Duration::from_secs(5));
        let delegation = (**delegation).clone();
        (delegation, vec![login, request])
    }

    /// Admits the next client, and reads its order to pull.
    pub fn accept_pull(&self) -> ClientSession<'_> {
        let (mut link, login) = self.admit();
        let Frame::Login { session, .. } = login else { panic!("no login") };
        assert!(matches!(receive(&mut link).unwrap(), Frame::Open(order) if order.direction == Direction::Pull));
        let secret = link.secret().unwrap();
        ClientSession { link, listener: &self.listener, session, secret }
    }

    /// Admits the next client, and answers its test with text without end, until the client hangs up.
    pub fn answer_without_end(&self) {
        let (mut link, _) = self.admit();
        let request = receive(&mut link).unwrap();
        let Frame::Request(number, Request::Probe(_)) = request else { panic!("no test but {request:?}") };
        let words = Frame::Told(number, "7".repeat(16 << 10), true);
        let deadline = Instant::now() + 2 * PATIENCE;
        let is_connected =
            |link: &mut Link| link.exchange(Duration::from_millis(1)).is_ok() && link.next_frame().is_ok();
        while link.send(&words).is_ok() && is_connected(&mut link) {
            link.drain(Duration::from_secs(1));
            assert!(Instant::now() < deadline, "the client receives an endless answer");
        }
    }

    fn admit(&self) -> (Link, Frame) {
        let socket = accept(&self.listener);
        let identity = client::StateDir::open(self.identity.path()).unwrap().identity().unwrap();
        let tls = ServerConnection::new(engine::identity::server_config(&identity).unwrap()).unwrap();
        let mut link = Link::new(socket, Connection::Server(tls), "the client".into(), Timeouts::default()).unwrap();
        link.handshake().unwrap();
        let login = receive(&mut link).unwrap();
        link.send(&Frame::Welcome { software: "a test".into(), suite: Suite::Aes128Gcm, plain: false }).unwrap();
        (link, login)
    }
}

fn receive(link: &mut Link) -> Result<Frame, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(frame) = link.next_frame()? {
            return Ok(frame);
        }
        assert!(Instant::now() < deadline, "the client sends nothing and keeps the connection open");
        link.exchange(Duration::from_millis(200))?;
    }
}

impl ClientSession<'_> {
    /// Sends a frame.
    pub fn send(&mut self, frame: &Frame) {
        self.send_raw(&crate::raw_client::encoded(frame));
    }

    /// Sends bytes in place of frames.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        let _ = self.link.send_raw(bytes);
        self.link.drain(Duration::from_secs(5));
    }

    /// Reads until a frame that matches.
    pub fn receive_until(&mut self, what: &str, matches: impl Fn(&Frame) -> bool) -> Frame {
        loop {
            let frame = receive(&mut self.link).unwrap_or_else(|error| panic!("{what}: {error}"));
            if matches(&frame) {
                return frame;
            }
        }
    }

    /// Reads until the client has disconnected.
    pub fn until_disconnected(mut self) {
        while receive(&mut self.link).is_ok() {}
    }

    /// Reads and sends all that is ready; `false` when the client has disconnected.
    pub fn is_connected(&mut self) -> bool {
        self.link.exchange(Duration::from_millis(5)).is_ok() && self.link.next_frame().is_ok()
    }

    /// The next data stream that the client opens.
    pub fn stream(&self) -> DataStream {
        self.joined(accept(self.listener))
    }

    /// A data stream, if the client has opened one.
    pub fn stream_if_any(&self) -> Option<DataStream> {
        let (socket, _) = self.listener.accept().ok()?;
        socket.set_nonblocking(false).unwrap();
        Some(self.joined(socket))
    }

    fn joined(&self, mut socket: TcpStream) -> DataStream {
        let mut bytes = [0; JOIN_BYTES];
        socket.read_exact(&mut bytes).unwrap();
        let join = Join::decode(&bytes).unwrap();
        assert!(join.session == self.session && self.secret.verify_join(&join));
        let terms = stream_terms(self.session, &self.secret, seal::SealingEnd::Node, Some(Suite::Aes128Gcm));
        terms.stream(socket, join.stream, "the client")
    }
}

/// Runs `cp -r` from a scripted node into `target/t` of the client's files while the script plays the node.
pub fn pulled(client: &Client, script: impl FnOnce(ClientSession<'_>)) -> Outcome {
    let node = ScriptedNode::new();
    std::fs::create_dir_all(client.path("target")).unwrap();
    let target = client.path("target/t");
    let options = words!["--retry-for", "0s", "--streams", "1", "--json"];
    let running = client.begin([words!["cp", "-r", node.at("data/t"), target], options].concat());
    script(node.accept_pull());
    running.finish()
}
