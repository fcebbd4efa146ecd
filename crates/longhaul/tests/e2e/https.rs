//! HTTPS for tests: a certificate authority, a small client, and a small server that plays an issuer of tokens.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, io};

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use serde_json::{Value, json};
use web::client::{Client, Dialer};
use web::url::HttpUrl;
use web::{Conn, Headers, Method};

use crate::node::{Node, Setup};

const WITHIN: Duration = Duration::from_secs(30);

/// The authority that all parties of the tests trust.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    Authority { pem, issuer: Issuer::new(params, key) }
});

/// The authority's own certificate, PEM.
pub fn authority() -> &'static str {
    &AUTHORITY.pem
}

/// A certificate and its key in PEM: for these hosts, with a distinguished name from the root down.
pub fn certificate(hosts: &[&str], names: &[(DnType, &str)]) -> String {
    let mut params = CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    names.iter().for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), *value));
    let key = KeyPair::generate().unwrap();
    params.signed_by(&key, &AUTHORITY.issuer).unwrap().pem() + &key.serialize_pem()
}

fn parts(pem: &str) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect();
    (chain, PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap())
}

/// A node with `data` and `public`, a certificate of the authority, and a policy in its state.
pub fn setup(policy: &str) -> Setup {
    let setup = Setup::new().data_export("rw");
    let (state, dir) = (setup.state(), setup.data().parent().unwrap().to_owned());
    fs::create_dir(&state).unwrap();
    fs::create_dir(dir.join("public")).unwrap();
    fs::write(dir.join("public/f"), b"open").unwrap();
    fs::write(dir.join("ca.pem"), &AUTHORITY.pem).unwrap();
    fs::write(dir.join("node.pem"), certificate(&["127.0.0.1"], &[])).unwrap();
    fs::write(state.join("access.toml"), policy).unwrap();
    fs::write(state.join("keys.json"), jwks("k1")).unwrap();
    setup
        .export("public", &dir.join("public"), "ro")
        .arg("--certificate")
        .arg(dir.join("node.pem"))
        .arg("--client-ca")
        .arg(dir.join("ca.pem"))
        .arg("--cacert")
        .arg(dir.join("ca.pem"))
}

/// Writes a file below a directory, with its parents.
pub fn file(dir: &Path, below: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(below);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Headers,
    pub body: String,
}

impl Answer {
    /// The challenges of the answer, joined.
    pub fn challenge(&self) -> String {
        self.headers.all("www-authenticate").collect::<Vec<_>>().join(" | ")
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

/// A client of HTTPS.
#[derive(Clone, Default)]
pub struct HttpsClient {
    /// The headers of every request.
    pub headers: Headers,
    /// A certificate with its key.
    pub certificate: Option<String>,
}

impl HttpsClient {
    /// A client with a token, key or macaroon.
    pub fn bearer(text: &str) -> HttpsClient {
        HttpsClient { headers: Headers::new().with("Authorization", format!("Bearer {text}")), certificate: None }
    }

    pub fn with(mut self, name: &str, value: &str) -> HttpsClient {
        self.headers.add(name, value);
        self
    }

    /// Sends a request to a node, on a connection of its own.
    pub fn ask(&self, node: &Node, method: &str, target: &str, body: &[u8]) -> Answer {
        let config = ClientConfig::builder_with_provider(engine::identity::provider());
        let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(authorities());
        let mut tls = match self.certificate.as_deref().map(parts) {
            Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
            None => config.with_no_client_auth(),
        };
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let guard = Arc::new(|_: &_| Ok(()));
        let dialer = Dialer { tls: Arc::new(tls), guard, prepare: None, connect: WITHIN, silence: WITHIN };
        let url = HttpUrl::parse(&format!("https://127.0.0.1:{}/", node.port)).unwrap();
        let mut client = Client::new(&dialer, &url).unwrap();
        let (method, headers) = (Method::parse(method), self.headers.clone());
        client.send(&method, target, &headers.with("Content-Length", body.len().to_string())).unwrap();
        client.write(body).unwrap();
        let (response, mut body) = client.final_response(&method).unwrap();
        let body = String::from_utf8_lossy(&client.read_all(&mut body, 1 << 20).unwrap()).into_owned();
        Answer { status: response.status, headers: response.headers, body }
    }

    pub fn get(&self, node: &Node, target: &str) -> Answer {
        self.ask(node, "GET", target, b"")
    }
}

static KEY: LazyLock<EcdsaKeyPair> =
    LazyLock::new(|| EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap());

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The issuer's key set.
pub fn jwks(kid: &str) -> String {
    let (x, y) = KEY.public_key().as_ref()[1..].split_at(32);
    json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig", "x": b64(x), "y": b64(y)}]}).to_string()
}

/// A token with this header and these claims.
pub fn token(header: &Value, claims: &Value) -> String {
    let message = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
    let signature = match header["alg"].as_str() {
        Some("none") => Vec::new(),
        // A known attack: the public key used as a shared secret.
        Some("HS256") => {
            let key = hmac::Key::new(hmac::HMAC_SHA256, KEY.public_key().as_ref());
            hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
        }
        _ => KEY.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec(),
    };
    format!("{message}.{}", b64(signature))
}

/// An issuer's server: metadata and keys over HTTPS, until it is dropped.
pub struct IssuerServer {
    pub iss: String,
    pub key_requests: Arc<AtomicUsize>,
    port: u16,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl IssuerServer {
    pub fn start() -> IssuerServer {
        let (chain, key) = parts(&certificate(&["127.0.0.1"], &[]));
        let config = ServerConfig::builder_with_provider(engine::identity::provider());
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = Arc::new(config.with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let iss = format!("https://127.0.0.1:{port}/realms/vo");
        let (key_requests, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (own_iss, own_key_requests, own_over) = (iss.clone(), Arc::clone(&key_requests), Arc::clone(&is_over));
        let serve = move || {
            for socket in listener.incoming() {
                if own_over.load(Ordering::Acquire) {
                    return;
                }
                let _ = answer(socket.unwrap(), &config, &own_iss, port, &own_key_requests);
            }
        };
        let thread = Some(std::thread::spawn(serve));
        IssuerServer { iss, key_requests, port, is_over, thread }
    }
}

fn answer(
    socket: TcpStream,
    config: &Arc<ServerConfig>,
    iss: &str,
    port: u16,
    key_requests: &AtomicUsize,
) -> std::io::Result<()> {
    let deadline = Instant::now() + WITHIN;
    let tls = ServerConnection::new(Arc::clone(config)).map_err(std::io::Error::other)?;
    let mut conn = Conn::new(socket, Some(rustls::Connection::Server(tls)))?;
    conn.handshake(deadline)?;
    let Ok(Some(request)) = conn.read_request(deadline) else { return Ok(()) };
    // The metadata is behind the issuer's path, as at most servers; the path of RFC 8414, which clients try first, is not found.
    let body = match request.target.as_str() {
        "/realms/vo/.well-known/openid-configuration" => {
            Some(json!({"issuer": iss, "jwks_uri": format!("https://127.0.0.1:{port}/keys")}).to_string())
        }
        "/keys" => {
            key_requests.fetch_add(1, Ordering::AcqRel);
            Some(jwks("k1"))
        }
        _ => None,
    };
    let (status, body) = body.map_or(("404 Not Found", String::new()), |body| ("200 OK", body));
    conn.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
    conn.close();
    Ok(())
}

impl Drop for IssuerServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        let _ = self.thread.take().unwrap().join();
    }
}

/// Asserts that neither the log nor the state of a node contains one of these secrets.
pub fn assert_not_written(node: &Node, secrets: &[String]) {
    let mut written = node.log();
    for name in ["audit.jsonl", "audit-nobody.jsonl", "grants.toml", "address"] {
        written += &fs::read_to_string(node.state().join(name)).unwrap_or_default();
    }
    for secret in secrets {
        // The end: of a token its signature, of a key its secret. Its start is not secret.
        let end = &secret[secret.len().saturating_sub(24)..];
        assert!(!written.contains(end), "{end} is in what the node wrote");
    }
}

/// The certificate that a node shows to clients of HTTP, which the authority must have signed.
pub fn shown_certificate(node: &Node) -> Vec<u8> {
    let tls = handshake(node, engine::identity::provider()).unwrap();
    tls.peer_certificates().unwrap()[0].to_vec()
}

/// A connection to a node by the suites and key exchanges of this provider.
pub fn handshake(node: &Node, provider: Arc<CryptoProvider>) -> io::Result<ClientConnection> {
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(authorities()).with_no_client_auth();
    let mut tls = ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().unwrap()).unwrap();
    let mut socket = TcpStream::connect(("127.0.0.1", node.port))?;
    while tls.is_handshaking() {
        tls.complete_io(&mut socket)?;
    }
    Ok(tls)
}

fn authorities() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(AUTHORITY.pem.as_bytes()).unwrap()).unwrap();
    roots
}
