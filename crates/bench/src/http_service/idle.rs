//! Idle connections: the memory that a server keeps for ten thousand of them.

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

/// Connections from one source address: fewer than an address has ports.
const PER_ADDRESS: usize = 5_000;
/// The time that connections are idle before the memory is read.
const SILENCE: Duration = Duration::from_secs(3);

/// The figures of one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Idle {
    /// Connections that were open.
    pub connections: usize,
    /// Resident memory before the connections, bytes.
    pub before_bytes: u64,
    /// Resident memory with all connections, bytes.
    pub with_bytes: u64,
    /// Time to answer one request beside the idle connections, seconds.
    pub answer_s: f64,
    /// Threads with all connections.
    pub threads: u64,
}

/// Raises the limit of descriptors of this process and of the processes that it starts from now on.
///
/// # Errors
/// The limit cannot be raised that far.
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
///
/// # Errors
/// A connection cannot be opened, its request is not answered, the server closes some of the connections, or its memory cannot be read.
pub fn measure(server: &Server, tls: Option<&std::path::Path>, count: usize, path: &str) -> Result<Idle> {
    let config = tls.map(client_config).transpose()?;
    let pids = server.side.pids();
    let before_bytes = resident(&pids)?;
    let mut connections = Vec::with_capacity(count);
    for at in 0..count {
        let connection = open(server.port, at / PER_ADDRESS, config.as_ref(), path);
        connections.push(connection.with_context(|| format!("after {at} connections"))?);
    }
    std::thread::sleep(SILENCE);
    let with_bytes = resident(&pids)?;
    let threads = threads(&pids);
    let started = Instant::now();
    drop(open(server.port, 0, config.as_ref(), path).context("beside idle connections")?);
    let answer_s = started.elapsed().as_secs_f64();
    let closed = connections.iter().filter(|connection| is_closed(connection)).count();
    ensure!(closed == 0, "the server closed {closed} of {count} idle connections within {SILENCE:?}");
    Ok(Idle { connections: count, before_bytes, with_bytes, answer_s, threads })
}

fn client_config(ca: &std::path::Path) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca)?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    // Memory of sessions that are kept for resumption must not count.
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
    let head = format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
    let Some(config) = tls else {
        let mut stream = stream;
        request(&mut stream, &head)?;
        return Ok(Connection::Clear(stream));
    };
    let session = ClientConnection::new(config.clone(), ServerName::try_from("localhost")?)?;
    let mut stream = StreamOwned::new(session, stream);
    request(&mut stream, &head)?;
    Ok(Connection::Tls(Box::new(stream)))
}

/// Sends the head of a request, and reads the head of its answer.
fn request(stream: &mut (impl Read + Write), head: &str) -> Result<()> {
    stream.write_all(head.as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    let mut buffer = [0; 512];
    while !answer.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => bail!("closed after {:?}", String::from_utf8_lossy(&answer)),
            bytes => answer.extend_from_slice(&buffer[..bytes]),
        }
    }
    ensure!(answer.starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&answer));
    Ok(())
}

/// Whether the server has closed a connection.
fn is_closed(connection: &Connection) -> bool {
    let stream = match connection {
        Connection::Clear(stream) => stream,
        Connection::Tls(stream) => &stream.sock,
    };
    let _ = stream.set_nonblocking(true);
    // Unread TLS tickets may have arrived: only the end of the stream counts.
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
