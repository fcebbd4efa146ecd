//! A server whose responses the test decides, over real sockets, in clear text or with TLS.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use remote::ServerSettings;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, Connection, RootCertStore, ServerConfig, ServerConnection};
use web::conn::Body;
use web::{Conn, Headers, HttpUrl, Request, Response, body};

use crate::servers;

/// A request, with its body where that was read.
pub struct ScriptedRequest {
    request: Request,
    body: Vec<u8>,
}

impl ScriptedRequest {
    pub fn method(&self) -> &str {
        self.request.method.name()
    }

    pub fn target(&self) -> &str {
        &self.request.target
    }

    pub fn headers(&self) -> &Headers {
        &self.request.headers
    }

    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The first and the last byte of the requested range.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (from, to) = self.headers().get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((from.parse().ok()?, to.parse().ok()?))
    }
}

/// A response, and how it is sent.
pub struct Reply {
    response: Option<Response>,
    body: Vec<u8>,
    /// The connection is cut after this number of bytes of the body.
    cut: Option<usize>,
    /// It is sent without waiting for the body of the request.
    early: bool,
}

impl Reply {
    /// The right response to HEAD, GET and ranged GET of a file; 405 for other methods.
    pub fn honest(request: &ScriptedRequest, bytes: &[u8]) -> Reply {
        let headers = Headers::new().with("ETag", "\"one\"").with("Accept-Ranges", "bytes");
        match (request.method(), request.range()) {
            ("HEAD", _) => Reply::head(200, headers.with("Content-Length", bytes.len().to_string())),
            ("GET", None) => Reply::new(200, headers, bytes),
            ("GET", Some((from, to))) => {
                let range = format!("bytes {from}-{to}/{}", bytes.len());
                Reply::new(206, headers.with("Content-Range", range), &bytes[from..=to])
            }
            _ => Reply::new(405, Headers::new(), b""),
        }
    }

    /// A response with its length.
    pub fn new(status: u16, headers: Headers, body: &[u8]) -> Reply {
        let headers = headers.with("Content-Length", body.len().to_string());
        Reply { body: body.to_vec(), ..Reply::head(status, headers) }
    }

    /// A response with exactly these fields.
    pub fn head(status: u16, headers: Headers) -> Reply {
        let response = Some(Response { status, minor: 1, headers });
        Reply { response, body: Vec::new(), cut: None, early: false }
    }

    /// A response to the head, instead of `100 Continue`.
    pub fn early(mut response: Response) -> Reply {
        response.headers.add("Content-Length", "0");
        Reply { response: Some(response), body: Vec::new(), cut: None, early: true }
    }

    /// No response: the connection is closed.
    pub fn hang_up() -> Reply {
        Reply { response: None, body: Vec::new(), cut: None, early: false }
    }

    /// The same, cut after some bytes of the body.
    pub fn cut(self, after: usize) -> Reply {
        Reply { cut: Some(after), ..self }
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.response.iter_mut().for_each(|response| response.headers.set(name, value));
    }
}

type AnswerFn = dyn Fn(&ScriptedRequest) -> Reply + Send + Sync;

/// A certificate for loopback, and its key.
struct Identity {
    certificate: CertificateDer<'static>,
    server: Arc<ServerConfig>,
}

impl Identity {
    fn new() -> Identity {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let builder = ServerConfig::builder_with_provider(engine::identity::provider());
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let server = builder.with_single_cert(vec![certificate.clone()], key).unwrap();
        Identity { certificate, server: Arc::new(server) }
    }
}

pub struct Script {
    address: SocketAddr,
    identity: Option<Arc<Identity>>,
    stopped: Arc<AtomicBool>,
}

impl Script {
    pub fn new(answer: impl Fn(&ScriptedRequest) -> Reply + Send + Sync + 'static) -> Script {
        Script::start(None, Arc::new(answer))
    }

    pub fn secure(answer: impl Fn(&ScriptedRequest) -> Reply + Send + Sync + 'static) -> Script {
        Script::start(Some(Arc::new(Identity::new())), Arc::new(answer))
    }

    /// A server with the certificate of another one, so that a client that trusts one trusts both.
    pub fn secure_as(other: &Script, answer: impl Fn(&ScriptedRequest) -> Reply + Send + Sync + 'static) -> Script {
        Script::start(other.identity.clone(), Arc::new(answer))
    }

    fn start(identity: Option<Arc<Identity>>, answer: Arc<AnswerFn>) -> Script {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (address, stopped) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let (ended, tls) = (Arc::clone(&stopped), identity.clone());
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                if ended.load(Ordering::Acquire) {
                    return;
                }
                let (answer, tls) = (Arc::clone(&answer), tls.as_ref().map(|identity| Arc::clone(&identity.server)));
                // A client may close its connection at any time.
                std::thread::spawn(move || serve(socket, tls, &*answer));
            }
        });
        Script { address, identity, stopped }
    }

    pub fn url(&self) -> HttpUrl {
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        HttpUrl::parse(&format!("{scheme}://{}/", self.address)).unwrap()
    }

    /// Settings that trust this server.
    pub fn settings(&self) -> ServerSettings {
        let mut roots = RootCertStore::empty();
        self.identity.iter().for_each(|identity| roots.add(identity.certificate.clone()).unwrap());
        let builder = ClientConfig::builder_with_provider(engine::identity::provider());
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let mut settings = servers::settings();
        settings.dialer.tls = Arc::new(builder.with_no_client_auth());
        settings.patience = Duration::from_secs(2);
        settings
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        // The listener ends with its next connection.
        drop(TcpStream::connect(self.address));
    }
}

fn serve(socket: TcpStream, tls: Option<Arc<ServerConfig>>, answer: &AnswerFn) -> Option<()> {
    let within = Duration::from_secs(20);
    let tls = tls.map(|config| Connection::Server(ServerConnection::new(config).unwrap()));
    let mut conn = Conn::new(socket, tls).ok()?;
    conn.handshake(Instant::now() + within).ok()?;
    while let Ok(Some(request)) = conn.read_request(Instant::now() + within) {
        conn.set_read_within(within).ok()?;
        let framing = body::of_request(&request).ok()?;
        let mut request = ScriptedRequest { request, body: Vec::new() };
        let expects = request.headers().get("expect").is_some();
        // The script is called twice where it may answer early: the first response decides.
        let first = if expects { Some(answer(&request)).filter(|reply| reply.early) } else { None };
        let reply = match first {
            Some(reply) => reply,
            None => {
                if expects {
                    conn.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
                }
                request.body = conn.read_all(&mut Body::new(framing), 64 << 20).ok()?;
                answer(&request)
            }
        };
        let response = reply.response?;
        conn.write_all(&response.to_bytes()).ok()?;
        let is_head = request.method() == "HEAD";
        let most = if is_head { 0 } else { reply.cut.unwrap_or(usize::MAX).min(reply.body.len()) };
        conn.write_all(&reply.body[..most]).ok()?;
        if reply.cut.is_some() || reply.early {
            break;
        }
    }
    conn.close();
    Some(())
}
