//! Requests per second: a small HTTP/1.1 client that repeats one request over one connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

/// The request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// PROPFIND of a file, Depth 0.
    Propfind,
    /// HEAD of a file with Want-Digest.
    Digest,
}

impl Question {
    /// Both requests.
    pub const ALL: [Question; 2] = [Question::Propfind, Question::Digest];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Question::Propfind => "PROPFIND, Depth 0",
            Question::Digest => "HEAD, Want-Digest: adler32",
        }
    }

    fn text(self, path: &str) -> String {
        let (verb, more) = match self {
            Question::Propfind => ("PROPFIND", "Depth: 0\r\nContent-Length: 0\r\n"),
            Question::Digest => ("HEAD", "Want-Digest: adler32\r\n"),
        };
        format!("{verb} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n{more}\r\n")
    }
}

/// Answers by the second, asked for so long on one processor. The thread that asks is held to that processor.
pub fn rate(port: u16, path: &str, question: Question, time: Duration, core: usize) -> Result<f64> {
    let asks = || {
        let mut cores = CpuSet::new();
        cores.set(core);
        sched_setaffinity(None, &cores).context("cannot hold the client to a processor")?;
        let mut line = Connection::open(port)?;
        let text = question.text(path);
        // The first answer may have to read the file.
        line.ask(&text, question)?;
        let (started, mut count) = (Instant::now(), 0_u32);
        while started.elapsed() < time {
            line.ask(&text, question)?;
            count += 1;
        }
        Ok(f64::from(count) / started.elapsed().as_secs_f64())
    };
    let joined = std::thread::scope(|scope| scope.spawn(asks).join());
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

    fn ask(&mut self, text: &str, question: Question) -> Result<()> {
        self.stream.get_mut().write_all(text.as_bytes())?;
        self.head.clear();
        while !self.head.ends_with("\r\n\r\n") {
            ensure!(self.stream.read_line(&mut self.head)? > 0, "the server closed after {:?}", self.head);
        }
        match question {
            Question::Digest => {
                ensure!(self.head.contains(" 200 ") && self.says("digest: adler32="), "no digest: {}", self.head);
            }
            Question::Propfind => {
                ensure!(self.head.contains(" 207 "), "not a 207: {}", self.head);
                self.read_body()?;
            }
        }
        Ok(())
    }

    fn says(&self, what: &str) -> bool {
        self.head.to_ascii_lowercase().contains(what)
    }

    fn read_body(&mut self) -> Result<()> {
        if let Some(length) = header(&self.head, "content-length") {
            self.body.resize(length.parse().context("no length")?, 0);
            return Ok(self.stream.read_exact(&mut self.body)?);
        }
        ensure!(self.says("transfer-encoding: chunked"), "a body of no known length: {}", self.head);
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
        let rate = rate(port, "/f", Question::Propfind, Duration::from_millis(50), 0).unwrap();
        assert!(rate > 10.0, "{rate}");
        assert_eq!(header("HTTP/1.1 200 OK\r\nA: b\r\ncontent-Length: 7\r\n\r\n", "Content-Length"), Some("7"));
    }
}
