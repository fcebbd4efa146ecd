//! A client of XRootD's protocol that repeats one request over one connection.

use std::io::{Read, Write};
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use rustls::ClientConfig;
use xroot::answer::{ANSWER_HEAD_BYTES, AnswerHead, OpenAnswer};
use xroot::codes::open_options;
use xroot::head::FileHandle;
use xroot::login::{ClientLogin, ClientSettings, ClientStep, TlsWish};
use xroot::place::FileOrPath;
use xroot::request::VectorPart;
use xroot::{RootAnswer, RootPath, RootRequest, Status, StreamId};

use super::connection::ClientStream;

/// Parts of a vector read, and the bytes of each.
pub const VECTOR_PARTS: u64 = 1_000;
/// Bytes of a part.
pub const VECTOR_PART_BYTES: u32 = 16 << 10;

/// A connection that has logged in.
#[derive(Debug)]
pub struct RootClient {
    stream: ClientStream,
    body: Vec<u8>,
}

impl RootClient {
    /// Logs in on a connection; with TLS settings, over TLS.
    ///
    /// # Errors
    /// The connection breaks, or the server refuses.
    pub fn log_in(mut stream: ClientStream, tls: Option<&Arc<ClientConfig>>) -> Result<RootClient> {
        let settings = ClientSettings {
            tls: if tls.is_some() { TlsWish::Always } else { TlsWish::IfServerWants },
            user: "bench".into(),
            process: std::process::id(),
            token: None,
            program: "bench".into(),
            session: None,
        };
        let (mut login, mut bytes) = ClientLogin::begin(settings, false);
        let mut awaits_hello = true;
        loop {
            stream.write_all(&bytes)?;
            stream.flush()?;
            let mut client = RootClient { stream, body: Vec::new() };
            if std::mem::take(&mut awaits_hello) {
                client.receive()?;
            }
            let head = client.receive()?;
            let answer = RootAnswer::parse(&head, &client.body)?;
            stream = client.stream;
            match login.answered(&answer)? {
                ClientStep::Send(next) => bytes = next,
                ClientStep::StartTls(next) => {
                    let Some(config) = tls else { bail!("the server wants TLS, and clear text is measured") };
                    stream = stream.start_tls(config)?;
                    bytes = next;
                }
                ClientStep::Ready { .. } => return Ok(RootClient { stream, body: Vec::new() }),
            }
        }
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&self) -> bool {
        self.stream.is_closed()
    }

    /// Reads an answer, or a part of one, into `body`.
    fn receive(&mut self) -> Result<AnswerHead> {
        let mut head = [0; ANSWER_HEAD_BYTES];
        self.stream.read_exact(&mut head)?;
        let head = AnswerHead::parse(&head)?;
        self.body.resize(head.bytes as usize, 0);
        self.stream.read_exact(&mut self.body)?;
        Ok(head)
    }

    /// Sends a request, and waits for its whole answer. Returns the number of its bytes.
    fn ask(&mut self, request: &RootRequest) -> Result<u64> {
        self.stream.write_all(&request.to_bytes(StreamId::default()))?;
        self.stream.flush()?;
        let mut bytes = 0;
        loop {
            let head = self.receive()?;
            bytes += self.body.len() as u64;
            match head.status {
                Status::Ok => return Ok(bytes),
                Status::Partial => {}
                _ => bail!("{request:?} was answered by {:?}", RootAnswer::parse(&head, &self.body)),
            }
        }
    }

    /// Asks for the facts of a file.
    ///
    /// # Errors
    /// The server does not answer, or refuses.
    pub fn stat(&mut self, place: &RootPath) -> Result<()> {
        let of = FileOrPath::Path(place.clone());
        self.ask(&RootRequest::Stat { of, of_file_system: false }).map(drop)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// The server does not answer, or refuses.
    pub fn open(&mut self, place: &RootPath) -> Result<FileHandle> {
        self.ask(&RootRequest::Open { place: place.clone(), mode: 0, options: open_options::READ })?;
        Ok(OpenAnswer::parse(&self.body)?.file)
    }

    /// Closes a file.
    ///
    /// # Errors
    /// The server does not answer, or refuses.
    pub fn close(&mut self, file: FileHandle) -> Result<()> {
        self.ask(&RootRequest::Close(file)).map(drop)
    }

    /// Reads [`VECTOR_PARTS`] ranges of a file of so many bytes at once.
    ///
    /// # Errors
    /// The server does not answer, refuses, or sends another number of bytes.
    pub fn read_vector(&mut self, file: FileHandle, file_bytes: u64, random: &mut fastrand::Rng) -> Result<()> {
        let last = file_bytes.saturating_sub(VECTOR_PART_BYTES.into()).max(1);
        let part = |_| VectorPart { file, bytes: VECTOR_PART_BYTES, offset: random.u64(0..last) };
        let parts: Vec<VectorPart> = (0..VECTOR_PARTS).map(part).collect();
        let bytes = self.ask(&RootRequest::ReadVector { parts, path_id: 0 })?;
        // Each part has its head before it.
        let expected = VECTOR_PARTS * (16 + u64::from(VECTOR_PART_BYTES));
        ensure!(bytes == expected, "a vector read brought {bytes} bytes instead of {expected}");
        Ok(())
    }
}
