//! Listens, and hands requests on: TLS, and clear text where it is permitted, on one port.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arc_swap::ArcSwap;
use authn::tower::Connection;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use crate::limits;

/// How long a client may take for its first byte, its handshake, the head of a request.
const PATIENCE: Duration = Duration::from_secs(20);
/// The first byte of a TLS record that holds a handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// How the hub speaks.
pub struct Transport {
    /// Settings of TLS; a reload replaces them.
    pub tls: Arc<ArcSwap<ServerConfig>>,
    /// Reads the subject's name from the chain of a client's certificate, which the settings have verified.
    pub client_name: fn(&[rustls::pki_types::CertificateDer<'_>]) -> Option<String>,
    /// Clear text is permitted.
    pub plain: bool,
}

/// Accepts connections until told to stop, and waits for the requests that run.
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
                // No descriptors, most likely: others will be closed.
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
    let mut about = Connection { peer: peer.ip(), is_secure: first[0] == TLS_HANDSHAKE, client_name: None };
    if !about.is_secure {
        if !transport.plain {
            return refuse_clear_text(socket).await;
        }
        return requests(socket, about, router, stop).await;
    }
    let acceptor = TlsAcceptor::from(transport.tls.load_full());
    let secured = tokio::time::timeout(PATIENCE, acceptor.accept(socket)).await.map_err(timed_out)??;
    about.client_name = secured.get_ref().1.peer_certificates().and_then(transport.client_name);
    requests(secured, about, router, stop).await
}

/// People who type `http://` are told what to type.
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
    about: Connection,
    router: Router,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let service = WithConnection { router, about };
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
        self.router.call(request)
    }
}
