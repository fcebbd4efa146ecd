//! A client of XRootD's protocol, message by message, for tests of a node. A test program includes this file beside `open_node`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use xroot::answer::{AnswerHead, CheckedAnswer, LoginAnswer, OpenAnswer};
use xroot::credentials::{CredentialKind, write_name};
use xroot::head::{FileHandle, SessionId};
use xroot::login::HELLO;
use xroot::request::{FileRange, Purpose};
use xroot::{ErrorCode, RootAnswer, RootPath, RootRequest, Status, StreamId};

use crate::open_node::OpenNode;

/// How long something may take that takes a moment.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A connection of a client.
pub struct RootClient {
    pub socket: TcpStream,
    pub session: SessionId,
}

/// What a server sent.
#[derive(Debug)]
pub enum RootMessage {
    Answer(RootAnswer),
    Pages(CheckedAnswer, Vec<u8>),
}

pub fn path(text: &str) -> RootPath {
    RootPath::parse(text.as_bytes()).unwrap()
}

pub fn range(file: FileHandle, offset: u64, bytes: usize) -> FileRange {
    FileRange { file, offset, bytes: bytes as u32, path_id: 0 }
}

impl RootClient {
    /// A connection that has said hello.
    pub fn connect(node: &OpenNode) -> RootClient {
        RootClient::connect_to(node.address)
    }

    /// The same at another port.
    pub fn connect_to(address: SocketAddr) -> RootClient {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(&HELLO).unwrap();
        let mut client = RootClient { socket, session: SessionId([0; 16]) };
        assert!(matches!(client.receive(), Some(RootMessage::Answer(RootAnswer::Ok(_)))));
        client
    }

    /// A connection that has logged in.
    pub fn log_in(node: &OpenNode) -> RootClient {
        let mut client = RootClient::connect(node);
        client.ask(&RootRequest::Protocol { version: 0x511, flags: 0, purpose: Purpose::Login });
        let login = RootRequest::Login {
            process: 7,
            user: "ann".into(),
            is_able_tls: true,
            takes_async: true,
            about: RootPath::default(),
        };
        let RootAnswer::Ok(body) = client.ask(&login) else { panic!("no login") };
        client.session = LoginAnswer::parse(&body).unwrap().session;
        let credential = write_name("ann", "users");
        client.done(&RootRequest::Authenticate { kind: CredentialKind::NAME, credential });
        client
    }

    pub fn send(&mut self, request: &RootRequest, data: &[u8]) {
        self.socket.write_all(&[&request.to_bytes(StreamId([0, 1]))[..], data].concat()).unwrap();
    }

    /// The next message; none at the end of the connection.
    pub fn receive(&mut self) -> Option<RootMessage> {
        let mut head = [0; 8];
        self.socket.read_exact(&mut head).ok()?;
        let head = AnswerHead::parse(&head).unwrap();
        let mut body = vec![0; head.bytes as usize];
        self.socket.read_exact(&mut body).ok()?;
        if head.status != Status::Checked {
            return Some(RootMessage::Answer(RootAnswer::parse(&head, &body).unwrap()));
        }
        let answer = CheckedAnswer::parse(&body).unwrap();
        let mut data = vec![0; answer.data_bytes as usize];
        self.socket.read_exact(&mut data).ok()?;
        Some(RootMessage::Pages(answer, data))
    }

    pub fn ask(&mut self, request: &RootRequest) -> RootAnswer {
        self.ask_with(request, &[])
    }

    pub fn ask_with(&mut self, request: &RootRequest, data: &[u8]) -> RootAnswer {
        self.send(request, data);
        match self.receive() {
            Some(RootMessage::Answer(answer)) => answer,
            other => panic!("{request:?} was answered by {other:?}"),
        }
    }

    /// Asks for something that is done.
    #[track_caller]
    pub fn done(&mut self, request: &RootRequest) -> Vec<u8> {
        match self.ask(request) {
            RootAnswer::Ok(body) => body,
            other => panic!("{request:?} was answered by {other:?}"),
        }
    }

    /// The number of the error with which a request is refused.
    #[track_caller]
    pub fn refused(&mut self, request: &RootRequest) -> ErrorCode {
        match self.ask(request) {
            RootAnswer::Error { code, .. } => ErrorCode::from_number(code).unwrap(),
            other => panic!("{request:?} was answered by {other:?}"),
        }
    }

    #[track_caller]
    pub fn open(&mut self, name: &str, options: u16) -> FileHandle {
        let body = self.done(&RootRequest::Open { place: path(name), mode: 0o644, options });
        OpenAnswer::parse(&body).unwrap().file
    }

    pub fn write(&mut self, file: FileHandle, offset: u64, data: &[u8]) -> RootAnswer {
        self.ask_with(&RootRequest::Write(range(file, offset, data.len())), data)
    }

    pub fn write_pages(&mut self, file: FileHandle, offset: u64, encoded: &[u8]) -> (CheckedAnswer, Vec<u8>) {
        let request = RootRequest::PageWrite { range: range(file, offset, encoded.len()), is_repeated: false };
        self.send(&request, encoded);
        match self.receive() {
            Some(RootMessage::Pages(answer, data)) => (answer, data),
            other => panic!("{other:?}"),
        }
    }
}
