//! Connections of the benchmark's own clients, in clear text or over TLS.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use socket2::{Domain, Socket, Type};

/// The longest wait for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A connection to a server.
#[derive(Debug)]
pub enum ClientStream {
    /// In clear text.
    Clear(TcpStream),
    /// Over TLS.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl ClientStream {
    /// Connects to a port of this host, from one of its loopback addresses.
    ///
    /// # Errors
    /// The server does not listen, or the address has no port left.
    pub fn open(port: u16, from: [u8; 4]) -> Result<ClientStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((from, 0)).into())?;
        socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into())?;
        let stream: TcpStream = socket.into();
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_nodelay(true)?;
        Ok(ClientStream::Clear(stream))
    }

    /// The same connection over TLS, from here on.
    ///
    /// # Errors
    /// There is no such session.
    pub fn start_tls(self, config: &Arc<ClientConfig>) -> Result<ClientStream> {
        let ClientStream::Clear(stream) = self else { return Ok(self) };
        let session = ClientConnection::new(Arc::clone(config), ServerName::try_from("localhost")?)?;
        Ok(ClientStream::Tls(Box::new(StreamOwned::new(session, stream))))
    }

    /// Whether the server has closed it.
    pub fn is_closed(&self) -> bool {
        let stream = match self {
            ClientStream::Clear(stream) => stream,
            ClientStream::Tls(stream) => &stream.sock,
        };
        let _ = stream.set_nonblocking(true);
        // Unread TLS tickets may have arrived: only the end of the stream counts.
        match stream.peek(&mut [0; 1]) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

impl Read for ClientStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            ClientStream::Clear(stream) => stream.read(buffer),
            ClientStream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for ClientStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ClientStream::Clear(stream) => stream.write(bytes),
            ClientStream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            ClientStream::Clear(stream) => stream.flush(),
            ClientStream::Tls(stream) => stream.flush(),
        }
    }
}

/// TLS settings that trust an authority.
///
/// # Errors
/// Its certificate cannot be read.
pub fn client_config(ca: &Path, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca)?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    // Memory of sessions that are kept for resumption must not count.
    config.resumption = rustls::client::Resumption::disabled();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}
