//! The listener of the hub: TLS, and clear text where it is permitted, on one port.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use auth::x509::Authorities;
use authn::ClientCertificate;
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

/// How long a client may take for its first byte, its handshake, the head of a request.
const PATIENCE: Duration = Duration::from_secs(20);
/// The first byte of a TLS record that holds a handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// The transport settings of the hub.
pub struct Transport {
    /// TLS settings; a reload replaces them.
    pub tls: Arc<ArcSwap<ServerConfig>>,
    /// The authorities that client certificates are verified with, where any are asked for.
    pub clients: Option<Authorities>,
    /// Clear text is permitted.
    pub plain: bool,
}

/// Accepts connections until the hub stops, and then waits for the running requests.
pub async fn serve(listener: TcpListener, transport: Arc<Transport>, router: Router, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(limits::CONNECTIONS_OPEN_MAX));
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
                // Most likely there are no descriptors: some will be closed.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(%peer, "all {} connections are taken: refused", limits::CONNECTIONS_OPEN_MAX);
            continue;
        };
        let (transport, router, stop) = (Arc::clone(&transport), router.clone(), stop.clone());
        connections.spawn(async move {
            let _place = place;
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
    let mut about = Connection { peer: peer.ip(), is_secure: first[0] == TLS_HANDSHAKE, client: None };
    if !about.is_secure {
        if !transport.plain {
            return refuse_clear_text(socket).await;
        }
        return requests(socket, WithConnection { router, about, shown: None }, stop).await;
    }
    let acceptor = TlsAcceptor::from(transport.tls.load_full());
    let secured = tokio::time::timeout(PATIENCE, acceptor.accept(socket)).await.map_err(timed_out)??;
    let shown = secured.get_ref().1.peer_certificates().filter(|shown| !shown.is_empty());
    let shown = shown.map(|shown| ShownChain(shown.iter().map(|one| one.clone().into_owned()).collect()));
    about.client = match (&transport.clients, &shown) {
        (Some(authorities), Some(shown)) => Some(Arc::new(judge(shown, authorities, peer))),
        _ => None,
    };
    requests(secured, WithConnection { router, about, shown }, stop).await
}

/// Verifies a client's certificates. A refusal is reported in the answers to its requests.
fn judge(shown: &ShownChain, authorities: &Authorities, peer: SocketAddr) -> ClientCertificate {
    match auth::x509::verify(&shown.0, authorities, time::now() / 1000) {
        Ok(identity) => {
            for why in &identity.refused_attributes {
                tracing::info!(target: "access", %peer, name = identity.grid_name, why, "VOMS attributes do not count");
            }
            ClientCertificate::Verified(identity)
        }
        Err(error) => {
            tracing::info!(target: "access", %peer, %error, "a certificate does not count");
            ClientCertificate::Rejected(error.to_string())
        }
    }
}

/// The certificates that a client has shown, its own first; among the extensions of its requests.
#[derive(Clone, Debug)]
pub struct ShownChain(pub Arc<[CertificateDer<'static>]>);

/// Answers a clear-text request with the `https://` address.
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

/// A router whose requests know their connection.
#[derive(Clone)]
struct WithConnection {
    router: Router,
    about: Connection,
    shown: Option<ShownChain>,
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
        request.extensions_mut().insert(self.about.clone());
        if let Some(shown) = &self.shown {
            request.extensions_mut().insert(shown.clone());
        }
        self.router.call(request)
    }
}
