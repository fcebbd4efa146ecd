//! s3s-fs, an S3 server that verifies signatures, on a free port until it is dropped.

use std::net::SocketAddr;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;

/// The key of the S3 server.
pub const KEY: (&str, &str) = ("AKEXAMPLE", "a secret that signs");

/// An S3 server with one bucket.
pub struct S3Server {
    #[allow(dead_code, reason = "kept alive, and read by some test programs")]
    pub dir: tempfile::TempDir,
    pub address: SocketAddr,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl S3Server {
    pub fn new() -> S3Server {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("bucket")).unwrap();
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(dir.path()).unwrap());
        service.set_auth(SimpleAuth::from_single(KEY.0, KEY.1));
        let service = service.build();
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                loop {
                    let socket = tokio::select! {
                        accepted = listener.accept() => accepted.unwrap().0,
                        _ = &mut stopped => return,
                    };
                    let service = service.clone();
                    // Where a key is a directory on its disk s3s-fs answers 500; S3 has no directories and answers 404.
                    let service = service_fn(move |request: http::Request<Incoming>| {
                        let (is_head, service) = (request.method() == http::Method::HEAD, service.clone());
                        async move {
                            let mut response = service.call(request.map(s3s::Body::from)).await?;
                            if is_head && response.status() == http::StatusCode::INTERNAL_SERVER_ERROR {
                                *response.status_mut() = http::StatusCode::NOT_FOUND;
                            }
                            Ok::<_, s3s::HttpError>(response)
                        }
                    });
                    tokio::spawn(async move {
                        let http = hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
                        let _ = http.serve_connection(TokioIo::new(socket), service).await;
                    });
                }
            });
        });
        S3Server { dir, address, _stop: stop }
    }
}
