//! The listener of the hub: TLS, and clear text if it is permitted, on one port.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use auth::x509::{AuthoritySource, CertificateCheck};
use authn::tower::Connection;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use crate::{limits, time};

/// How long a client may take for each of: its first byte, its handshake, the head of a request.
const PATIENCE: Duration = Duration::from_secs(20);
/// The first byte of a TLS record with a handshake message (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// The transport settings of the hub.
pub struct Transport {
    /// TLS settings; a reload replaces them.
    pub tls: Arc<ArcSwap<ServerConfig>>,
    /// The authorities with which client certificates are verified, if they are requested.
    pub clients: Option<Arc<AuthoritySource>>,
    /// Whether clear text is permitted.
    pub plain: bool,
}

/// Accepts connections until the hub stops, then waits for the running requests.
pub async fn serve(listener: TcpListener, transport: Arc<Transport>, router: Router, mut stop: watch::Receiver<bool>) {
    let permits = Arc::new(Semaphore::new(limits::CONNECTIONS_OPEN_MAX));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => break,
        };
        while connections.try_join_next().is_some() {}
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Most likely no descriptors are free: some will be closed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            tracing::warn!(%peer, "a connection is refused: {} are open, as many as permitted", limits::CONNECTIONS_OPEN_MAX);
            continue;
        };
        let (transport, router, stop) = (Arc::clone(&transport), router.clone(), stop.clone());
        connections.spawn(async move {
            let _permit = permit;
            if let Err(error) = connection(socket, peer, &transport, router, stop).await {
                tracing::debug!(%peer, %error, "a connection ended");
            }
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    socket: TcpStream,
    peer: SocketAddr,
    transport: &Transport,
    router: Router,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut first = [0];
    let timed_out = |_| io::Error::from(io::ErrorKind::TimedOut);
    if tokio::time::timeout(PATIENCE, socket.peek(&mut first)).await.map_err(timed_out)?? == 0 {
        return Ok(());
    }
    let mut connection = Connection { peer: peer.ip(), is_secure: first[0] == TLS_HANDSHAKE, certificate: None };
    if !connection.is_secure {
        if !transport.plain {
            return refuse_clear_text(socket).await;
        }
        return requests(socket, WithConnection { router, connection, chain: None }, stop).await;
    }
    let acceptor = TlsAcceptor::from(transport.tls.load_full());
    let secured = tokio::time::timeout(PATIENCE, acceptor.accept(socket)).await.map_err(timed_out)??;
    let certificates = secured.get_ref().1.peer_certificates().filter(|all| !all.is_empty());
    let chain = certificates.map(|all| ClientChain(all.iter().map(|one| one.clone().into_owned()).collect()));
    connection.certificate = match (&transport.clients, &chain) {
        (Some(source), Some(chain)) => Some(Arc::new(verify_client(chain, source, peer).await)),
        _ => None,
    };
    requests(secured, WithConnection { router, connection, chain }, stop).await
}

/// Verifies a client's certificates. A refusal does not end the connection: it is reported in the answers to its requests.
async fn verify_client(chain: &ClientChain, source: &Arc<AuthoritySource>, peer: SocketAddr) -> CertificateCheck {
    let (chain, source) = (chain.clone(), Arc::clone(source));
    // The authorities may have to be read again from their files.
    let checked = move || {
        let now = time::now() / 1000;
        CertificateCheck::of(&chain.0, &source.current(now), now)
    };
    let check = tokio::task::spawn_blocking(checked).await;
    let check = check.unwrap_or_else(|error| CertificateCheck::Rejected(error.to_string()));
    match &check {
        CertificateCheck::Verified(identity) => {
            for why in &identity.refused_attributes {
                tracing::info!(target: "access", %peer, name = identity.grid_name, why, "VOMS attributes are ignored");
            }
        }
        CertificateCheck::Rejected(why) => {
            tracing::info!(target: "access", %peer, why, "a client certificate is not accepted");
        }
    }
    check
}

/// The certificates that a client sent, its own first. Its requests have them among their extensions.
#[derive(Clone, Debug)]
pub struct ClientChain(pub Arc<[CertificateDer<'static>]>);

/// Answers a clear-text request by naming `https://`.
async fn refuse_clear_text(mut socket: TcpStream) -> io::Result<()> {
    use tokio::io::AsyncWriteExt;
    let text = "this hub speaks TLS: write https://, or start it with --plain\n";
    let answer =
        format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len());
    socket.write_all(answer.as_bytes()).await?;
    socket.shutdown().await
}

async fn requests(
    socket: impl AsyncRead + AsyncWrite + Unpin + 'static,
    service: WithConnection,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::STREAMS_MAX)
        .keep_alive_interval(Some(PATIENCE));
    let connection = builder.serve_connection(TokioIo::new(socket), TowerToHyperService::new(service));
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended.map_err(io::Error::other),
        _ = stop.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let ended = tokio::time::timeout(limits::SHUTDOWN_MAX, connection).await;
    ended.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map_err(io::Error::other)
}

/// A router that adds the facts of a connection to each of its requests.
#[derive(Clone)]
struct WithConnection {
    router: Router,
    connection: Connection,
    chain: Option<ClientChain>,
}

type Incoming = http::Request<hyper::body::Incoming>;

impl Service<Incoming> for WithConnection {
    type Response = <Router as Service<Incoming>>::Response;
    type Error = <Router as Service<Incoming>>::Error;
    type Future = <Router as Service<Incoming>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Incoming>::poll_ready(&mut self.router, context)
    }

    fn call(&mut self, mut request: Incoming) -> Self::Future {
        request.extensions_mut().insert(self.connection.clone());
        if let Some(chain) = &self.chain {
            request.extensions_mut().insert(chain.clone());
        }
        self.router.call(request)
    }
}
