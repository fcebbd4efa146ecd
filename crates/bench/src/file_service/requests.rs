//! Requests per second: small clients that repeat one request over one connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};
use xroot::RootPath;

use super::MeasuredProtocol;
use super::connection::ClientStream;
use super::root_client::RootClient;

/// The request that is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// PROPFIND of a file, Depth 0.
    Propfind,
    /// HEAD of a file with Want-Digest.
    Digest,
    /// GET of a small file.
    Get,
    /// XRootD's stat of a file.
    Stat,
    /// XRootD's open and close of a file.
    Open,
    /// XRootD's read of many ranges.
    ReadVector,
}

/// The files of the requests, as they are below `/data`.
#[derive(Clone, Debug)]
pub struct RequestedFiles {
    /// A small file.
    pub small: String,
    /// The large file, and its size in bytes.
    pub large: (String, u64),
}

/// Makes one request and waits for its answer.
pub type Caller = Box<dyn FnMut() -> Result<()>>;

impl RequestKind {
    /// The requests of a protocol.
    pub fn all(protocol: MeasuredProtocol) -> &'static [RequestKind] {
        match protocol {
            MeasuredProtocol::Http => &[RequestKind::Propfind, RequestKind::Digest],
            MeasuredProtocol::Root => &[RequestKind::Stat, RequestKind::Open, RequestKind::ReadVector],
        }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            RequestKind::Propfind => "PROPFIND, Depth 0",
            RequestKind::Digest => "HEAD, Want-Digest: adler32",
            RequestKind::Get => "GET",
            RequestKind::Stat => "stat",
            RequestKind::Open => "open and close",
            RequestKind::ReadVector => "readv of 1,000 × 16 KiB",
        }
    }

    fn text(self, path: &str) -> String {
        let (verb, more) = match self {
            RequestKind::Digest => ("HEAD", "Want-Digest: adler32\r\n"),
            RequestKind::Get => ("GET", ""),
            _ => ("PROPFIND", "Depth: 0\r\nContent-Length: 0\r\n"),
        };
        format!("{verb} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n{more}\r\n")
    }

    /// Opens a connection that makes this request.
    ///
    /// # Errors
    /// The server cannot be reached, or does not admit the client.
    pub fn caller(self, port: u16, files: &RequestedFiles) -> Result<Caller> {
        let root = || RootClient::log_in(ClientStream::open(port, [127, 0, 0, 1])?, None);
        let place = |path: &str| RootPath::parse(path.as_bytes()).context("not a path");
        Ok(match self {
            RequestKind::Propfind | RequestKind::Digest | RequestKind::Get => {
                let (mut connection, text) = (Connection::open(port)?, self.text(&files.small));
                Box::new(move || connection.request(&text, self))
            }
            RequestKind::Stat => {
                let (mut client, small) = (root()?, place(&files.small)?);
                Box::new(move || client.stat(&small))
            }
            RequestKind::Open => {
                let (mut client, small) = (root()?, place(&files.small)?);
                Box::new(move || {
                    let file = client.open(&small)?;
                    client.close(file)
                })
            }
            RequestKind::ReadVector => {
                let (mut client, (large, bytes)) = (root()?, files.large.clone());
                let (file, mut random) = (client.open(&place(&large)?)?, fastrand::Rng::with_seed(1));
                Box::new(move || client.read_vector(file, bytes, &mut random))
            }
        })
    }
}

/// Repeats a request for a time; returns the answers per second. The thread that sends the requests is pinned to one processor.
///
/// # Errors
/// The server cannot be reached, or its answer is not the expected one.
pub fn rate(port: u16, files: &RequestedFiles, kind: RequestKind, time: Duration, core: usize) -> Result<f64> {
    let client = || {
        let mut cores = CpuSet::new();
        cores.set(core);
        sched_setaffinity(None, &cores).context("cannot pin the client to a processor")?;
        let mut call = kind.caller(port, files)?;
        // For the first answer, the server may have to read the file.
        call()?;
        let started = Instant::now();
        let mut count = 0_u32;
        while started.elapsed() < time {
            call()?;
            count += 1;
        }
        Ok(f64::from(count) / started.elapsed().as_secs_f64())
    };
    let joined = std::thread::scope(|scope| scope.spawn(client).join());
    joined.unwrap_or_else(|_| Err(anyhow::anyhow!("the client panicked")))
}

/// A connection to the server, with the answer that was read last.
struct Connection {
    stream: BufReader<TcpStream>,
    head: String,
    body: Vec<u8>,
}

impl Connection {
    fn open(port: u16) -> Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Connection { stream: BufReader::new(stream), head: String::new(), body: Vec::new() })
    }

    fn request(&mut self, text: &str, kind: RequestKind) -> Result<()> {
        self.stream.get_mut().write_all(text.as_bytes())?;
        self.head.clear();
        while !self.head.ends_with("\r\n\r\n") {
            ensure!(self.stream.read_line(&mut self.head)? > 0, "the server closed after {:?}", self.head);
        }
        match kind {
            RequestKind::Digest => {
                ensure!(self.head.contains(" 200 ") && self.has("digest: adler32="), "no digest: {}", self.head);
            }
            RequestKind::Get => {
                ensure!(self.head.contains(" 200 "), "not a 200: {}", self.head);
                self.read_body()?;
            }
            _ => {
                ensure!(self.head.contains(" 207 "), "not a 207: {}", self.head);
                self.read_body()?;
            }
        }
        Ok(())
    }

    fn has(&self, field: &str) -> bool {
        self.head.to_ascii_lowercase().contains(field)
    }

    fn read_body(&mut self) -> Result<()> {
        if let Some(length) = header(&self.head, "content-length") {
            self.body.resize(length.parse().context("no length")?, 0);
            return Ok(self.stream.read_exact(&mut self.body)?);
        }
        ensure!(self.has("transfer-encoding: chunked"), "a body of unknown length: {}", self.head);
        loop {
            let mut size = String::new();
            self.stream.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).context("no chunk size")?;
            self.body.resize(size + 2, 0);
            self.stream.read_exact(&mut self.body)?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}

/// A header's value.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.filter(|(n, _)| n.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let mut line = String::new();
            while stream.read_line(&mut line).unwrap_or(0) > 0 {
                if line.ends_with("\r\n\r\n") {
                    let answer = "HTTP/1.1 207 Multi-Status\r\nContent-Length: 3\r\n\r\n:-)";
                    stream.get_mut().write_all(answer.as_bytes()).unwrap();
                    line.clear();
                }
            }
        });
        let files = RequestedFiles { small: "/f".into(), large: ("/l".into(), 0) };
        let rate = rate(port, &files, RequestKind::Propfind, Duration::from_millis(50), 0).unwrap();
        assert!(rate > 10.0, "{rate}");
        assert_eq!(header("HTTP/1.1 200 OK\r\nA: b\r\ncontent-Length: 7\r\n\r\n", "Content-Length"), Some("7"));
    }
}
