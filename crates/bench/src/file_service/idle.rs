//! Idle connections: the memory that a server keeps for ten thousand of them.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustls::ClientConfig;
use xroot::RootPath;

use super::MeasuredProtocol;
use super::connection::{ClientStream, client_config};
use super::root_client::RootClient;
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

/// An idle connection.
enum Connection {
    Http(ClientStream),
    Root(RootClient),
}

impl Connection {
    fn is_closed(&self) -> bool {
        match self {
            Connection::Http(stream) => stream.is_closed(),
            Connection::Root(client) => client.is_closed(),
        }
    }
}

/// What is opened.
#[derive(Clone, Copy, Debug)]
pub struct IdleClients<'a> {
    /// The protocol: with XRootD's, a connection logs in and asks for the facts of the file.
    pub protocol: MeasuredProtocol,
    /// The authority to trust, if connections speak TLS.
    pub ca: Option<&'a Path>,
    /// How many.
    pub count: usize,
    /// The file that each asks for.
    pub path: &'a str,
}

/// Opens connections, sends one request on each so that the server knows the protocol, and leaves them idle.
///
/// # Errors
/// A connection cannot be opened, its request is not answered, the server closes some of the connections, or its memory cannot be read.
pub fn measure(server: &Server, clients: &IdleClients<'_>) -> Result<Idle> {
    let alpn: &[&[u8]] = if clients.protocol == MeasuredProtocol::Http { &[b"http/1.1"] } else { &[] };
    let config = clients.ca.map(|ca| client_config(ca, alpn)).transpose()?;
    let pids = server.side.pids();
    let before_bytes = resident(&pids)?;
    let count = clients.count;
    let mut connections = Vec::with_capacity(count);
    for at in 0..count {
        let connection = open(server.port, at / PER_ADDRESS, clients, config.as_ref());
        connections.push(connection.with_context(|| format!("after {at} connections"))?);
    }
    std::thread::sleep(SILENCE);
    let with_bytes = resident(&pids)?;
    let threads = threads(&pids);
    let started = Instant::now();
    drop(open(server.port, 0, clients, config.as_ref()).context("beside idle connections")?);
    let answer_s = started.elapsed().as_secs_f64();
    let closed = connections.iter().filter(|connection| connection.is_closed()).count();
    ensure!(closed == 0, "the server closed {closed} of {count} idle connections within {SILENCE:?}");
    Ok(Idle { connections: count, before_bytes, with_bytes, answer_s, threads })
}

/// Opens a connection from the source address of its block, and waits for the answer to one request.
fn open(port: u16, block: usize, clients: &IdleClients<'_>, tls: Option<&Arc<ClientConfig>>) -> Result<Connection> {
    let stream = ClientStream::open(port, [127, 0, 0, 2 + block as u8])?;
    if clients.protocol == MeasuredProtocol::Root {
        let mut client = RootClient::log_in(stream, tls)?;
        client.stat(&RootPath::parse(clients.path.as_bytes())?)?;
        return Ok(Connection::Root(client));
    }
    let mut stream = match tls {
        Some(config) => stream.start_tls(config)?,
        None => stream,
    };
    let head = format!("HEAD {} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n", clients.path);
    request(&mut stream, &head)?;
    Ok(Connection::Http(stream))
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
