//! HTTP as a client: connecting, verifying the server, and exchanging a request for its response.
//!
//! A client could use a node that fetches on its behalf to reach networks that it cannot reach itself. So a guard checks every address
//! before it is dialled. The name is not resolved again after the check, so that a second answer of the DNS cannot replace the address.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection};
use socket2::{Domain, Protocol, Socket, Type};

use crate::body::{self, FramingError};
use crate::conn::{Body, Conn, ReadError};
use crate::head::{Request, Response};
use crate::headers::Headers;
use crate::method::Method;
use crate::url::HttpUrl;

/// The most redirects that are followed.
pub const REDIRECTS_MAX: usize = 10;

/// The most interim responses before the final one: a server whose work takes long sends one every few seconds.
const INTERIM_MAX: usize = 100;

/// Checks an address before it is dialled. The error is a sentence with the reason.
pub type Guard = dyn Fn(&SocketAddr) -> Result<(), String> + Send + Sync;
/// Prepares a socket before it connects.
pub type Prepare = dyn Fn(&Socket, &mut SocketAddr) + Send + Sync;

/// Makes connections.
#[derive(Clone)]
pub struct Dialer {
    /// The trusted authorities, and the client's certificate.
    pub tls: Arc<ClientConfig>,
    /// Checks each address before it is dialled.
    pub guard: Arc<Guard>,
    /// Prepares each socket before it connects.
    pub prepare: Option<Arc<Prepare>>,
    /// The longest time to connect, the TLS handshake included.
    pub connect: Duration,
    /// The longest wait for a byte of a response.
    pub silence: Duration,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Not a URL that HTTP can fetch.
    #[error("{0} is not a URL that HTTP can reach")]
    Url(String),
    /// The name does not resolve.
    #[error("the host {host} cannot be found")]
    Resolve {
        /// The name.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// The guard refused the address.
    #[error("{host} may not be reached from here: {why}")]
    Forbidden {
        /// The name.
        host: String,
        /// Why.
        why: String,
    },
    /// The connection cannot be made.
    #[error("cannot connect to {host}")]
    Connect {
        /// Where.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// The TLS handshake failed, or the certificate is not trusted.
    #[error("no TLS with {host}")]
    Tls {
        /// Where.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the connection to {host} broke")]
    Broken {
        /// Where.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// The server does not speak HTTP.
    #[error("the answer of {host} is not valid HTTP: {why}")]
    Protocol {
        /// Where.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// More than [`REDIRECTS_MAX`] redirects.
    #[error("{host} was the last of more than {REDIRECTS_MAX} redirects")]
    Redirects {
        /// The last host.
        host: String,
    },
}

fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, ClientError> {
    let resolve = |source| ClientError::Resolve { host: host.to_owned(), source };
    let found: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(resolve)?.collect();
    if found.is_empty() { Err(resolve(io::ErrorKind::NotFound.into())) } else { Ok(found) }
}

impl Dialer {
    /// Connects to the server of a URL, the TLS handshake included.
    ///
    /// # Errors
    /// The name does not resolve, the guard refuses one of its addresses, or the connection or the handshake fails.
    pub fn dial(&self, url: &HttpUrl) -> Result<Conn, ClientError> {
        let deadline = Instant::now() + self.connect;
        let socket = self.connect_to(url.authority(), url.host(), url.port(), deadline)?;
        let tls = url.is_secure().then(|| self.begin_tls(url.host(), url.authority())).transpose()?;
        self.conn(socket, tls, url.authority(), deadline)
    }

    /// Connects to a host in clear text, for a protocol that begins TLS itself.
    ///
    /// # Errors
    /// The name does not resolve, the guard refuses one of its addresses, or the connection fails.
    pub fn dial_clear(&self, host: &str, port: u16) -> Result<Conn, ClientError> {
        let deadline = Instant::now() + self.connect;
        let authority = format!("{host}:{port}");
        let socket = self.connect_to(&authority, host, port, deadline)?;
        self.conn(socket, None, &authority, deadline)
    }

    /// Makes the TLS handshake on a connection in clear text to this host.
    ///
    /// # Errors
    /// The handshake fails, or bytes in clear text have come that belong to no answer.
    pub fn start_tls(&self, conn: Conn, host: &str) -> Result<Conn, ClientError> {
        let failed = |source| ClientError::Tls { host: host.to_owned(), source };
        if conn.has_unread() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "bytes in clear text came before TLS")));
        }
        let tls = self.begin_tls(host, host)?;
        self.conn(conn.into_parts().socket, Some(tls), host, Instant::now() + self.connect)
    }

    /// A socket that is connected to one of a host's addresses.
    fn connect_to(&self, authority: &str, host: &str, port: u16, deadline: Instant) -> Result<TcpStream, ClientError> {
        let found = addresses(host, port)?;
        for address in &found {
            (self.guard)(address).map_err(|why| ClientError::Forbidden { host: authority.to_owned(), why })?;
        }
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let socket = found.iter().find_map(|address| {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.connect(*address, left).map_err(|e| last = e).ok()
        });
        socket.ok_or_else(|| ClientError::Connect { host: authority.to_owned(), source: last })
    }

    /// A connection over a connected socket, the TLS handshake included.
    fn conn(
        &self,
        socket: TcpStream,
        tls: Option<Connection>,
        host: &str,
        deadline: Instant,
    ) -> Result<Conn, ClientError> {
        let broken = |source| ClientError::Broken { host: host.to_owned(), source };
        let mut conn = Conn::new(socket, tls).map_err(broken)?;
        conn.set_write_within(self.silence).map_err(broken)?;
        conn.handshake(deadline).map_err(|source| ClientError::Tls { host: host.to_owned(), source })?;
        conn.set_read_within(self.silence).map_err(broken)?;
        Ok(conn)
    }

    fn begin_tls(&self, name: &str, host: &str) -> Result<Connection, ClientError> {
        // The host may be a name or an address: certificates may contain either.
        let name = ServerName::try_from(name.to_owned()).map_err(|_| ClientError::Url(host.to_owned()))?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), name);
        let failed = |e| ClientError::Tls { host: host.to_owned(), source: io::Error::other(e) };
        Ok(Connection::Client(tls.map_err(failed)?))
    }

    fn connect(&self, mut address: SocketAddr, within: Duration) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        if let Some(prepare) = &self.prepare {
            prepare(&socket, &mut address);
        }
        socket.connect_timeout(&address.into(), within)?;
        let socket = TcpStream::from(socket);
        sys::tcp::set_common(&socket, self.silence)?;
        Ok(socket)
    }
}

/// A connection to a server.
pub struct Client {
    conn: Conn,
    host: String,
    silence: Duration,
}

impl Client {
    /// Connects to the server of a URL.
    ///
    /// # Errors
    /// As [`Dialer::dial`].
    pub fn new(dialer: &Dialer, url: &HttpUrl) -> Result<Client, ClientError> {
        Ok(Client { conn: dialer.dial(url)?, host: url.authority().to_owned(), silence: dialer.silence })
    }

    /// The connection.
    pub fn conn(&self) -> &Conn {
        &self.conn
    }

    fn broken(&self, source: io::Error) -> ClientError {
        ClientError::Broken { host: self.host.clone(), source }
    }

    /// Sends the head of a request; adds `Host`.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&mut self, method: &Method, target: &str, headers: &Headers) -> Result<(), ClientError> {
        let mut all = Headers::new().with("Host", self.host.clone());
        headers.iter().for_each(|(name, value)| all.add(name, value));
        let bytes = Request::new(method.clone(), target, all).to_bytes();
        self.conn.write_all(&bytes).map_err(|e| self.broken(e))
    }

    /// Sends bytes of the request's body.
    ///
    /// # Errors
    /// The connection broke.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.conn.write_all(bytes).map_err(|e| self.broken(e))
    }

    /// The connection, to send a file over.
    pub fn conn_mut(&mut self) -> &mut Conn {
        &mut self.conn
    }

    /// Reads the next head that the server sends, interim ones included. Returns it with its unread body.
    ///
    /// # Errors
    /// The connection broke, the server was silent for too long, or it does not speak HTTP.
    pub fn receive(&mut self, method: &Method) -> Result<(Response, Body), ClientError> {
        self.receive_within(method, self.silence)
    }

    /// As [`Client::receive`], where the head must come within a time.
    ///
    /// # Errors
    /// As [`Client::receive`].
    pub fn receive_within(&mut self, method: &Method, within: Duration) -> Result<(Response, Body), ClientError> {
        let response = match self.conn.read_response(Instant::now() + within) {
            Ok(response) => response,
            Err(ReadError::Io(e)) => return Err(self.broken(e)),
            Err(ReadError::Head(e)) => {
                return Err(ClientError::Protocol { host: self.host.clone(), why: e.to_string() });
            }
        };
        self.conn.set_read_within(self.silence).map_err(|e| self.broken(e))?;
        let wrong = |e: FramingError| ClientError::Protocol { host: self.host.clone(), why: e.to_string() };
        let framing = body::of_response(&response, method).map_err(wrong)?;
        Ok((response, Body::new(framing)))
    }

    /// Reads the final response, past interim ones.
    ///
    /// # Errors
    /// As [`Client::receive`]; or there were too many interim responses.
    pub fn final_response(&mut self, method: &Method) -> Result<(Response, Body), ClientError> {
        self.final_response_within(method, self.silence)
    }

    /// As [`Client::final_response`], where each head must come within a time.
    ///
    /// # Errors
    /// As [`Client::final_response`].
    pub fn final_response_within(
        &mut self,
        method: &Method,
        within: Duration,
    ) -> Result<(Response, Body), ClientError> {
        for _ in 0..=INTERIM_MAX {
            let (response, body) = self.receive_within(method, within)?;
            if response.status >= 200 {
                return Ok((response, body));
            }
        }
        let why = format!("more than {INTERIM_MAX} interim responses without a final one");
        Err(ClientError::Protocol { host: self.host.clone(), why })
    }

    /// Reads bytes of a response's body; returns 0 at its end.
    ///
    /// # Errors
    /// The connection broke, or the body is malformed.
    pub fn read(&mut self, body: &mut Body, buffer: &mut [u8]) -> Result<usize, ClientError> {
        self.conn.read_body(body, buffer).map_err(|e| self.broken(e))
    }

    /// Reads a whole body of at most `most` bytes.
    ///
    /// # Errors
    /// The connection broke, or the body is malformed or longer.
    pub fn read_all(&mut self, body: &mut Body, most: usize) -> Result<Vec<u8>, ClientError> {
        self.conn.read_all(body, most).map_err(|e| self.broken(e))
    }
}

/// Fields that always contain credentials.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// Fields that are still sent when a redirect leads to another server: they describe the request. This is a list of permitted names,
/// because the names of secrets cannot all be listed (`X-Auth-Token`, `Private-Token`, `X-Amz-Security-Token`, …).
const NOT_SECRET: [&str; 19] = [
    "accept",
    "content-length",
    "content-type",
    "depth",
    "digest",
    "expect",
    "if-match",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "longhaul-offer",
    "overwrite",
    "range",
    "repr-digest",
    "scitag",
    "transfer-encoding",
    "user-agent",
    "want-digest",
    "want-repr-digest",
];

/// The target of a redirect; `None` where the response is not a redirect.
pub fn redirect(response: &Response, from: &HttpUrl) -> Option<HttpUrl> {
    let moved = matches!(response.status, 301 | 302 | 303 | 307 | 308);
    let location = response.headers.get("location").filter(|_| moved)?;
    from.join(location).ok()
}

/// The target of a redirect; `None` where the response is not a redirect. If it leads to another server, `headers` keeps only the
/// fields that are known not to be secret.
///
/// # Errors
/// [`ClientError::Forbidden`]: the redirect leads from TLS to clear text.
pub fn follow(response: &Response, from: &HttpUrl, headers: &mut Headers) -> Result<Option<HttpUrl>, ClientError> {
    let Some(to) = redirect(response, from) else { return Ok(None) };
    if from.is_secure() && !to.is_secure() {
        let why = format!("{} redirects there from TLS to clear text", from.authority());
        return Err(ClientError::Forbidden { host: to.authority().to_owned(), why });
    }
    if !from.is_same_origin(&to) {
        *headers = fields_for_other_servers(headers);
    }
    Ok(Some(to))
}

fn is_among(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The fields that may be sent to another server.
pub fn fields_for_other_servers(headers: &Headers) -> Headers {
    headers.iter().filter(|(name, _)| is_among(&NOT_SECRET, name)).collect()
}

/// The fields that are sent to a URL which is itself the credential: all but other credentials. The signature of the URL may
/// cover any of them.
pub fn without_credentials(headers: &Headers) -> Headers {
    headers.iter().filter(|(name, _)| !is_among(&CREDENTIALS, name)).collect()
}

/// A response, with its address and its connection.
pub struct FinalResponse {
    /// The connection.
    pub client: Client,
    /// The head of the response.
    pub response: Response,
    /// Its body, unread.
    pub body: Body,
    /// The address that answered, after redirects.
    pub url: HttpUrl,
    /// The fields that may be sent to that address.
    pub headers: Headers,
}

/// Sends a request without a body, and follows redirects.
///
/// # Errors
/// There is no response, or there are too many redirects, or one from TLS to clear text.
pub fn fetch(dialer: &Dialer, method: &Method, url: &HttpUrl, headers: &Headers) -> Result<FinalResponse, ClientError> {
    let (mut url, mut headers) = (url.clone(), headers.clone());
    for _ in 0..=REDIRECTS_MAX {
        let mut client = Client::new(dialer, &url)?;
        client.send(method, url.path_and_query(), &headers)?;
        let (response, body) = client.final_response(method)?;
        match follow(&response, &url, &mut headers)? {
            Some(to) => url = to,
            None => return Ok(FinalResponse { client, response, body, url, headers }),
        }
    }
    Err(ClientError::Redirects { host: url.authority().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fields_known_not_to_be_secret_are_sent_to_another_server() {
        let all = Headers::new()
            .with("AUTHORIZATION", "Bearer x")
            .with("X-Auth-Token", "x")
            .with("Private-Token", "x")
            .with("X-Amz-Security-Token", "x")
            .with("X-Api-Key", "x")
            .with("Cookie", "x")
            .with("X-Amz-Meta-Run", "7")
            .with("range", "bytes=0-1")
            .with("Want-Digest", "adler32")
            .with("User-Agent", "me");
        let names = |headers: &Headers| headers.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&fields_for_other_servers(&all)), ["range", "Want-Digest", "User-Agent"]);
        let signed = without_credentials(&all);
        assert!(signed.get("x-amz-meta-run").is_some() && signed.get("authorization").is_none());
    }
}
