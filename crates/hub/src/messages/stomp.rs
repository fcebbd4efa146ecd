//! STOMP 1.2 (<https://stomp.github.io/stomp-specification-1.2.html>), the part that a sender needs: CONNECT, SEND with receipts.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use auth::trust::provider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::Broker;
use crate::limits::FRAME_BYTES_MAX;

/// How long a broker may take to accept a login, and to confirm messages.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub destination: String,
    /// The value of the header `vo`: consumers select messages by it.
    pub vo: String,
    /// The text, without a NUL.
    pub body: String,
}

/// The login of the hub.
pub(super) struct Login<'a> {
    pub user: Option<&'a str>,
    pub password: &'a str,
    pub virtual_host: &'a str,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection to a broker, after the login.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    /// Bytes that have arrived and are not parsed as a frame yet.
    unread: Vec<u8>,
    /// The number of messages that were sent, from which receipt ids are made.
    sent: u64,
}

fn broken(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// Runs an exchange with the broker for [`ANSWER_MAX`] at most.
async fn bounded<T>(exchange: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", ANSWER_MAX.as_secs()));
    timeout(ANSWER_MAX, exchange).await.map_err(late)?
}

impl Connection {
    /// Connects and logs in.
    pub async fn open(broker: &Broker, login: &Login<'_>, roots: &Arc<RootCertStore>) -> io::Result<Connection> {
        bounded(async {
            let socket = TcpStream::connect((broker.host.as_str(), broker.port)).await?;
            socket.set_nodelay(true)?;
            let stream: Box<dyn Stream> = if broker.is_secure {
                Box::new(tls_handshake(socket, &broker.host, roots).await?)
            } else {
                Box::new(socket)
            };
            let mut connection = Connection { stream, unread: Vec::new(), sent: 0 };
            connection.stream.write_all(connect(login).as_bytes()).await?;
            connection.stream.flush().await?;
            let answer = connection.frame().await?;
            match answer.command.as_str() {
                "CONNECTED" => Ok(connection),
                _ => Err(broken(format!("the broker refuses the login: {}", answer.why()))),
            }
        })
        .await
    }

    /// Sends messages in their order, and waits until the broker has confirmed each of them.
    pub async fn send(&mut self, messages: &[Message]) -> io::Result<()> {
        let mut text = String::new();
        let mut awaited = HashSet::new();
        for message in messages {
            self.sent += 1;
            text += &send(message, self.sent);
            awaited.insert(self.sent.to_string());
        }
        bounded(async {
            self.stream.write_all(text.as_bytes()).await?;
            self.stream.flush().await?;
            while !awaited.is_empty() {
                let frame = self.frame().await?;
                match (frame.command.as_str(), frame.header("receipt-id")) {
                    ("RECEIPT", Some(id)) => drop(awaited.remove(id)),
                    _ => return Err(broken(frame.why())),
                }
            }
            Ok(())
        })
        .await
    }

    /// Waits while there is nothing to send; fails as soon as the broker ends the connection.
    pub async fn wait(&mut self, pause: Duration) -> io::Result<()> {
        match timeout(pause, self.frame()).await {
            Err(_) => Ok(()),
            Ok(Ok(frame)) => Err(broken(frame.why())),
            Ok(Err(error)) => Err(error),
        }
    }

    /// The next frame. Cancellation-safe: the bytes that have arrived are kept.
    async fn frame(&mut self) -> io::Result<Frame> {
        loop {
            if let Some((frame, bytes)) = Frame::read(&self.unread).map_err(broken)? {
                self.unread.drain(..bytes);
                return Ok(frame);
            }
            if self.stream.read_buf(&mut self.unread).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended the connection"));
            }
        }
    }
}

async fn tls_handshake(
    socket: TcpStream,
    host: &str,
    roots: &Arc<RootCertStore>,
) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = builder.map_err(io::Error::other)?.with_root_certificates(Arc::clone(roots)).with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, socket).await
}

/// The CONNECT frame. It is the only frame without escapes (STOMP 1.2, "Value Encoding"): characters that would end a line are removed.
fn connect(login: &Login<'_>) -> String {
    let plain = |text: &str| text.replace(['\r', '\n', '\0'], "");
    let mut text = format!("CONNECT\naccept-version:1.2\nheart-beat:0,0\nhost:{}\n", plain(login.virtual_host));
    if let Some(user) = login.user {
        text += &format!("login:{}\npasscode:{}\n", plain(user), plain(login.password));
    }
    text + "\n\0"
}

/// A SEND frame. It has no length: ActiveMQ takes a body with a length as bytes, and its consumers want text.
fn send(message: &Message, receipt: u64) -> String {
    format!(
        "SEND\ndestination:{}\nvo:{}\npersistent:true\ncontent-type:application/json\nreceipt:{receipt}\n\n{}\0",
        escaped(&message.destination),
        escaped(&message.vo),
        message.body.replace('\0', "")
    )
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            ':' => out.push_str("\\c"),
            '\0' => {}
            other => out.push(other),
        }
    }
    out
}

/// A frame from the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Frame {
    command: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Frame {
    /// Parses a frame at the beginning of the bytes. Returns it with its length, or `None` while it is incomplete.
    fn read(bytes: &[u8]) -> Result<Option<(Frame, usize)>, String> {
        let heartbeats = bytes.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        let frame = &bytes[heartbeats..];
        let too_long = || format!("a frame of more than {FRAME_BYTES_MAX} bytes");
        let Some(head_bytes) = end_of_head(frame) else {
            return if frame.len() > FRAME_BYTES_MAX { Err(too_long()) } else { Ok(None) };
        };
        let head = std::str::from_utf8(&frame[..head_bytes]).map_err(|_| "a frame that is not UTF-8")?;
        let mut lines = head.lines();
        let command = lines.next().unwrap_or_default().to_owned();
        let headers =
            lines.filter_map(|line| line.split_once(':')).map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut frame_read = Frame { command, headers: headers.collect(), body: String::new() };
        let declared = frame_read.header("content-length").map(str::parse::<usize>).transpose();
        let length = match declared.map_err(|_| "a content-length that is not a number")? {
            Some(length) if length > FRAME_BYTES_MAX => return Err(too_long()),
            Some(length) => length,
            None => match frame[head_bytes..].iter().position(|byte| *byte == 0) {
                Some(length) => length,
                None if frame.len() > FRAME_BYTES_MAX => return Err(too_long()),
                None => return Ok(None),
            },
        };
        let end = head_bytes + length;
        match frame.get(end) {
            None => Ok(None),
            Some(0) => {
                frame_read.body = String::from_utf8_lossy(&frame[head_bytes..end]).into_owned();
                Ok(Some((frame_read, heartbeats + end + 1)))
            }
            Some(_) => Err("a frame that is longer than its content-length".to_owned()),
        }
    }

    /// The first value of a header (STOMP 1.2, "Repeated Header Entries").
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The text of an unexpected frame, cut short for a log.
    fn why(&self) -> String {
        let message = self.header("message").unwrap_or_default();
        let body: String = self.body.chars().filter(|c| !c.is_control()).take(200).collect();
        format!("{} {message} {body}", self.command)
    }
}

/// The length of the head of a frame, with its empty line.
fn end_of_head(frame: &[u8]) -> Option<usize> {
    let ends = |pattern: &[u8]| frame.windows(pattern.len()).position(|at| at == pattern).map(|at| at + pattern.len());
    match (ends(b"\n\n"), ends(b"\n\r\n")) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
