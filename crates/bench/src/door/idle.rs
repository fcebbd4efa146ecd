//! Idle connections: how much memory a server keeps for ten thousand of them.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use socket2::{Domain, Socket, Type};

use crate::process::Server;

/// Connections of one source address: fewer than there are ports.
const PER_ADDRESS: usize = 5_000;
/// How long connections are idle before the memory is read.
const SILENCE: Duration = Duration::from_secs(3);

/// The figures of one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Idle {
    /// Connections that were open.
    pub connections: usize,
    /// Resident memory before the connections, in bytes.
    pub before: u64,
    /// Resident memory with all connections, in bytes.
    pub with: u64,
    /// Time to answer one request meanwhile, in seconds.
    pub answer_s: f64,
    /// Threads with all connections.
    pub threads: u64,
}

/// Raises the limit of descriptors of this process and of the processes that it starts from now on.
pub fn raise_descriptors(wanted: u64) -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|now| now >= wanted) {
        return Ok(());
    }
    limit.current = Some(wanted);
    limit.maximum = limit.maximum.map(|most| most.max(wanted));
    setrlimit(Resource::Nofile, limit).with_context(|| format!("cannot have {wanted} descriptors (ulimit -n)"))
}

enum Connection {
    Clear(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// Opens connections, sends one request on each so that the server knows the protocol, and leaves them idle.
pub fn measure(server: &Server, tls: Option<&std::path::Path>, count: usize, path: &str) -> Result<Idle> {
    let config = tls.map(client_config).transpose()?;
    let pids = server.side.pids();
    let before = resident(&pids)?;
    let mut lines = Vec::with_capacity(count);
    for at in 0..count {
        let line = open(server.port, at / PER_ADDRESS, config.as_ref(), path);
        lines.push(line.with_context(|| format!("after {at} connections"))?);
    }
    std::thread::sleep(SILENCE);
    let (with, threads) = (resident(&pids)?, threads(&pids));
    let started = Instant::now();
    drop(open(server.port, 0, config.as_ref(), path).context("beside idle connections")?);
    let answer_s = started.elapsed().as_secs_f64();
    let gone = lines.iter().filter(|line| is_gone(line)).count();
    ensure!(gone == 0, "the server closed {gone} of {count} idle connections within {SILENCE:?}");
    Ok(Idle { connections: count, before, with, answer_s, threads })
}

fn client_config(ca: &std::path::Path) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca)?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    // Sessions kept for resumption must not count.
    config.resumption = rustls::client::Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Opens a connection from the source address of its block, and waits for the answer to one request.
fn open(port: u16, block: usize, tls: Option<&Arc<ClientConfig>>, path: &str) -> Result<Connection> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    let from: SocketAddr = format!("127.0.0.{}:0", 2 + block).parse()?;
    socket.bind(&from.into())?;
    let to: SocketAddr = format!("127.0.0.1:{port}").parse()?;
    socket.connect(&to.into())?;
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.set_nodelay(true)?;
    let question = format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
    let Some(config) = tls else {
        let mut stream = stream;
        ask(&mut stream, &question)?;
        return Ok(Connection::Clear(stream));
    };
    let session = ClientConnection::new(config.clone(), ServerName::try_from("localhost")?)?;
    let mut stream = StreamOwned::new(session, stream);
    ask(&mut stream, &question)?;
    Ok(Connection::Tls(Box::new(stream)))
}

fn ask(stream: &mut (impl Read + Write), question: &str) -> Result<()> {
    stream.write_all(question.as_bytes())?;
    stream.flush()?;
    let (mut head, mut piece) = (Vec::new(), [0; 512]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece)? {
            0 => bail!("closed after {:?}", String::from_utf8_lossy(&head)),
            bytes => head.extend_from_slice(&piece[..bytes]),
        }
    }
    ensure!(head.starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&head));
    Ok(())
}

/// Whether the other side has closed it.
fn is_gone(line: &Connection) -> bool {
    let stream = match line {
        Connection::Clear(stream) => stream,
        Connection::Tls(stream) => &stream.sock,
    };
    let _ = stream.set_nonblocking(true);
    // Unread TLS tickets may lie there; only the end of the stream counts.
    match stream.peek(&mut [0; 1]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

fn field(pid: u32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().trim_end_matches(" kB").parse().ok()
}

/// Resident memory of processes, in bytes (`VmRSS`, proc_pid_status(5)).
fn resident(pids: &[u32]) -> Result<u64> {
    let kib: u64 = pids.iter().filter_map(|pid| field(*pid, "VmRSS:")).sum();
    ensure!(kib > 0, "the server's memory cannot be read");
    Ok(kib << 10)
}

fn threads(pids: &[u32]) -> u64 {
    pids.iter().filter_map(|pid| field(*pid, "Threads:")).sum()
}
