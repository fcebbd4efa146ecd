//! A raw HTTP client that sends exactly the given bytes, and parses answers.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use crate::node::Node;

/// The longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(40);

/// A parsed answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Trailer fields, after the last chunk.
    pub trailers: Vec<(String, String)>,
    /// Whether the body is complete.
    pub whole: bool,
}

impl Answer {
    /// A field's value; names in lower case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The last line of a copy.
    pub fn last_line(&self) -> String {
        self.text().lines().last().unwrap_or_default().to_owned()
    }

    /// Asserts that the answer has this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{:?} {}", self.fields, self.text());
        self
    }
}

/// A byte stream in clear or in TLS.
pub trait ByteStream: Read + Write + Send {}
impl<T: Read + Write + Send> ByteStream for T {}

/// A connection to a node.
pub struct Raw {
    pub socket: TcpStream,
    stream: Box<dyn ByteStream>,
    inbox: Vec<u8>,
}

impl Raw {
    /// Connects in clear.
    pub fn to(node: &Node) -> Raw {
        Raw::to_port(node.port)
    }

    /// Connects in clear to a port of this host.
    pub fn to_port(port: u16) -> Raw {
        Raw::over(TcpStream::connect(("127.0.0.1", port)).unwrap())
    }

    /// Uses an open connection in clear.
    pub fn over(socket: TcpStream) -> Raw {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Raw { stream: Box::new(socket.try_clone().unwrap()), socket, inbox: Vec::new() }
    }

    /// Connects in TLS, and accepts any certificate.
    pub fn sealed(node: &Node) -> Raw {
        Raw::sealed_over(TcpStream::connect(("127.0.0.1", node.port)).unwrap())
    }

    /// The same, over an open connection.
    pub fn sealed_over(socket: TcpStream) -> Raw {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let tls = ClientConnection::new(Arc::new(accept_any_certificate()), ServerName::try_from("localhost").unwrap())
            .unwrap();
        let stream = StreamOwned::new(tls, socket.try_clone().unwrap());
        Raw { stream: Box::new(stream), socket, inbox: Vec::new() }
    }

    /// Sends bytes; returns whether that succeeded.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).and_then(|()| self.stream.flush()).is_ok()
    }

    /// Sends bytes, which must succeed.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        assert!(self.try_send(bytes), "the node does not take these bytes");
    }

    fn more(&mut self) -> usize {
        let mut piece = vec![0; 64 << 10];
        let got = self.stream.read(&mut piece).unwrap_or(0);
        self.inbox.extend_from_slice(&piece[..got]);
        got
    }

    fn take(&mut self, bytes: usize) -> Option<Vec<u8>> {
        while self.inbox.len() < bytes {
            if self.more() == 0 {
                return None;
            }
        }
        Some(self.inbox.drain(..bytes).collect())
    }

    /// A line without its end.
    pub fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.inbox.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.inbox.drain(..=at).collect();
                return Some(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            if self.more() == 0 {
                return None;
            }
        }
    }

    fn fields(&mut self) -> Option<Vec<(String, String)>> {
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Some(fields);
            }
            let (name, value) = line.split_once(':')?;
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// The head of the next answer; none where the connection ends before.
    pub fn head(&mut self) -> Option<Answer> {
        let line = self.line()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        Some(Answer { status, fields: self.fields()?, ..Answer::default() })
    }

    /// A chunk of a body; empty at its end.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line()?, 16).ok()?;
        let chunk = if size > 0 { self.take(size)? } else { return Some(Vec::new()) };
        self.line()?;
        Some(chunk)
    }

    fn body(&mut self, answer: &mut Answer) -> Option<()> {
        if answer.field("transfer-encoding") == Some("chunked") {
            loop {
                let chunk = self.chunk()?;
                if chunk.is_empty() {
                    answer.trailers = self.fields()?;
                    return Some(());
                }
                answer.body.extend(chunk);
            }
        }
        match answer.field("content-length").map(|text| text.parse::<usize>().unwrap()) {
            Some(length) => {
                while self.inbox.len() < length && self.more() > 0 {}
                let there = self.inbox.len().min(length);
                answer.body = self.inbox.drain(..there).collect();
                (there == length).then_some(())
            }
            None if matches!(answer.status, 204 | 304) => Some(()),
            None => {
                while self.more() > 0 {}
                answer.body = std::mem::take(&mut self.inbox);
                Some(())
            }
        }
    }

    /// The next final answer; none where the connection ends before its head.
    pub fn receive(&mut self) -> Option<Answer> {
        let mut answer = self.head()?;
        while answer.status < 200 {
            answer = self.head()?;
        }
        answer.whole = self.body(&mut answer).is_some();
        Some(answer)
    }

    /// The next final answer, to HEAD.
    pub fn receive_head(&mut self) -> Option<Answer> {
        self.head()
    }

    /// Whether the node has ended the connection, and sent nothing more before.
    pub fn is_closed(&mut self) -> bool {
        self.inbox.is_empty() && self.more() == 0
    }

    /// Sends a request.
    pub fn request(&mut self, method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
        for (name, value) in fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || method == "PUT" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        // A node that refuses may stop reading.
        let _ = self.try_send([head.as_bytes(), body].concat());
    }

    /// Sends a request and reads its answer.
    #[track_caller]
    pub fn ask(&mut self, method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Answer {
        self.request(method, target, fields, body);
        let answer = if method == "HEAD" { self.receive_head() } else { self.receive() };
        answer.unwrap_or_else(|| panic!("{method} {target}: the connection ended without an answer"))
    }

    /// Shuts the sending side of the connection.
    pub fn shut(&self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }
}

/// One request over a connection of its own.
#[track_caller]
pub fn ask(node: &Node, method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) -> Answer {
    Raw::to(node).ask(method, target, fields, body)
}

/// The answer to these bytes; none where the node just hangs up.
pub fn exchange(node: &Node, bytes: impl AsRef<[u8]>) -> Option<Answer> {
    let mut raw = Raw::to(node);
    raw.try_send(bytes);
    raw.receive()
}

/// Puts a file.
#[track_caller]
pub fn put(node: &Node, target: &str, body: &[u8]) -> Answer {
    ask(node, "PUT", target, &[], body)
}

/// The answer to a GET.
#[track_caller]
pub fn get(node: &Node, target: &str) -> Answer {
    ask(node, "GET", target, &[], &[])
}

/// A node that anonymous clients may read and write, in clear too.
pub fn open() -> Node {
    plain().start()
}

/// The same, not started yet.
pub fn plain() -> crate::node::Setup {
    crate::node::Setup::new().data_export("rw").arg("--anonymous").arg("rw").arg("--plain").anonymous_may_copy()
}

/// Asserts that no unfinished file is left.
pub fn assert_swept(node: &Node) {
    crate::wait::until("nothing unfinished is left", crate::wait::LONG, || {
        crate::client::unfinished(&node.data("")).is_empty()
    });
}

#[derive(Debug)]
struct AcceptAnyCertificate;

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        engine::identity::provider().signature_verification_algorithms.supported_schemes()
    }
}

fn accept_any_certificate() -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(engine::identity::provider());
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let verifier = Arc::new(AcceptAnyCertificate);
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}
