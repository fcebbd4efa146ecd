//! One connection to a server: the login, and requests with their answers.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use web::{Conn, Dialer};
use xroot::answer::{ANSWER_HEAD_BYTES, AnswerHead, CheckedAnswer};
use xroot::head::FileHandle;
use xroot::limits::ANSWER_BYTES_MAX;
use xroot::login::{ClientLogin, ClientSettings, ClientStep, LoginError, TlsWish};
use xroot::{ErrorCode, Malformed, RootAnswer, RootPath, RootRequest, Status, StreamId};

use crate::request_error::RequestError;
use crate::root::RootSettings;

/// The longest that a server may ask a client to wait within one request.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// The longest wait for an answer that follows later, such as the checksum of a large file.
const LATE_ANSWER_MAX: Duration = Duration::from_secs(1800);
/// Bytes of a listing, all parts together: two million files.
const LISTING_BYTES_MAX: usize = 256 << 20;
/// Files that a connection keeps open to read them again.
pub(super) const FILES_MAX: usize = 8;

/// What a request to a server brings, or why it failed.
pub(super) type RootResult<T> = Result<T, RequestError>;

/// A server that another one names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RootTarget {
    pub host: String,
    pub port: u16,
    /// It is to be reached by TLS only.
    pub is_secure: bool,
    /// Parameters that go with the path.
    pub parameters: String,
}

impl RootTarget {
    /// `HOST:PORT`.
    pub fn authority(&self) -> String {
        xroot::url::authority(&self.host, self.port)
    }

    /// Whether its parameters have a credential.
    fn has_credential(&self) -> bool {
        self.parameters.split('&').any(|pair| pair.starts_with("authz="))
    }

    /// A path with the parameters that go with it.
    pub fn add_parameters(&self, place: RootPath) -> RootPath {
        let pairs = self.parameters.split('&').filter_map(|pair| pair.split_once('='));
        pairs.fold(place, |place, (name, value)| place.set(name, value))
    }
}

/// The answer to a request.
#[derive(Debug)]
pub(super) enum RootReply {
    /// The whole body.
    Done(Vec<u8>),
    /// Another server has it.
    Elsewhere(RootTarget),
}

/// A connection that has logged in.
pub(super) struct RootConnection {
    pub conn: Conn,
    /// `HOST:PORT`.
    pub authority: String,
    /// Whether it speaks TLS.
    pub is_secure: bool,
    /// The version of the server.
    pub version: u32,
    /// Files that are open for reading, by the number of [`super::reading::RootFile`].
    pub files: HashMap<u64, FileHandle>,
    silence: Duration,
    last: u16,
}

/// A part of an answer.
pub(super) enum AnswerPart {
    /// Its head and its body, without checksums.
    Body { head: AnswerHead, bytes: Vec<u8> },
    /// Data with checksums.
    Pages { answer: CheckedAnswer, encoded: Vec<u8> },
}

impl RootConnection {
    /// Connects and logs in.
    ///
    /// # Errors
    /// The server cannot be reached, is not trusted, or refuses.
    pub fn open(
        settings: &RootSettings,
        dialer: &Dialer,
        to: &RootTarget,
        is_secure: bool,
    ) -> Result<RootConnection, RequestError> {
        let RootTarget { host, port, .. } = to;
        let authority = to.authority();
        let mut conn = dialer.dial_clear(host, *port)?;
        // A server to which a redirect leads with a credential of its own needs no other one, and might reject it.
        let token = if to.has_credential() { None } else { (settings.token)().map_err(RequestError::config_error)? };
        let client = ClientSettings {
            tls: if is_secure { TlsWish::Always } else { TlsWish::IfServerWants },
            user: user_name(),
            process: std::process::id(),
            token,
            program: concat!("longhaul-", env!("CARGO_PKG_VERSION")).to_owned(),
            session: None,
        };
        let silence = dialer.silence;
        let broken = |error: io::Error| broken(&authority, &error);
        let (mut login, mut bytes) = ClientLogin::begin(client, false);
        let mut awaits_hello = true;
        let version = loop {
            conn.write_all(&bytes).map_err(broken)?;
            if std::mem::take(&mut awaits_hello) {
                // The answer to the first bytes of a connection says less than the next one.
                read_body(&mut conn, silence).map_err(broken)?;
            }
            let (head, body) = read_body(&mut conn, silence).map_err(broken)?;
            let answer = RootAnswer::parse(&head, &body).map_err(|error| wrong(&authority, &error))?;
            match login.answered(&answer).map_err(|error| refused_login(&authority, &error))? {
                ClientStep::Send(next) => bytes = next,
                ClientStep::StartTls(next) => {
                    conn = dialer.start_tls(conn, host)?;
                    bytes = next;
                }
                ClientStep::Ready { version, .. } => break version,
            }
        };
        let is_secure = conn.tls().is_some();
        Ok(RootConnection { conn, authority, is_secure, version, files: HashMap::new(), silence, last: 0 })
    }

    /// The error of a broken connection.
    pub fn broken(&self, error: &io::Error) -> RequestError {
        broken(&self.authority, error)
    }

    /// Whether pages with checksums are worth their cost: TLS protects the bytes already.
    pub fn has_pages(&self) -> bool {
        self.version >= 0x511 && !self.is_secure
    }

    /// Sends a request; its data, if it has some, follow by [`Conn::write_all`].
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&mut self, request: &RootRequest) -> Result<StreamId, RequestError> {
        self.last = self.last.wrapping_add(1);
        let stream = StreamId(self.last.to_be_bytes());
        let bytes = request.to_bytes(stream);
        self.conn.write_all(&bytes).map_err(|error| self.broken(&error))?;
        Ok(stream)
    }

    /// Reads the next part of an answer, of whatever request.
    ///
    /// # Errors
    /// The connection broke, the server was silent for too long, or it does not follow the protocol.
    pub fn receive(&mut self, within: Duration) -> Result<AnswerPart, RequestError> {
        let (head, bytes) = read_body(&mut self.conn, within).map_err(|error| self.broken(&error))?;
        if head.status != Status::Checked {
            return Ok(AnswerPart::Body { head, bytes });
        }
        let answer = CheckedAnswer::parse(&bytes).map_err(|error| wrong(&self.authority, &error))?;
        if answer.data_bytes > ANSWER_BYTES_MAX {
            return Err(wrong(&self.authority, &Malformed::Field("the length of the data")));
        }
        let mut encoded = vec![0; answer.data_bytes as usize];
        read_exact(&mut self.conn, &mut encoded, within).map_err(|error| self.broken(&error))?;
        Ok(AnswerPart::Pages { answer, encoded })
    }

    /// Sends a request and reads its whole answer. A server that asks for a pause is asked again after it.
    ///
    /// # Errors
    /// The connection broke, or the server refuses.
    pub fn ask(&mut self, request: &RootRequest) -> Result<RootReply, RequestError> {
        let until = Instant::now() + LATE_ANSWER_MAX;
        let mut stream = self.send(request)?;
        let mut body = Vec::new();
        let mut within = self.silence;
        loop {
            let AnswerPart::Body { head, bytes } = self.receive(within)? else {
                return Err(wrong(&self.authority, &Malformed::Order("checksums where none were asked for")));
            };
            let answer = RootAnswer::parse(&head, &bytes).map_err(|error| wrong(&self.authority, &error))?;
            let answer = match answer {
                RootAnswer::Async { stream: of, answer } if of == stream => *answer,
                _ if head.stream != stream => continue,
                answer => answer,
            };
            match answer {
                RootAnswer::Ok(rest) => {
                    body.extend_from_slice(&rest);
                    return Ok(RootReply::Done(body));
                }
                RootAnswer::Partial(part) if body.len() + part.len() <= LISTING_BYTES_MAX => {
                    body.extend_from_slice(&part);
                }
                RootAnswer::Partial(_) => {
                    return Err(wrong(&self.authority, &Malformed::Field("the length of the answer")));
                }
                RootAnswer::Error { code, text } => return Err(refusal(&self.authority, code, &text)),
                RootAnswer::Redirect { port, host } => return Ok(RootReply::Elsewhere(target(&host, port))),
                RootAnswer::Wait { seconds, .. } => {
                    let pause = Duration::from_secs(seconds.into());
                    if pause > WAIT_MAX {
                        let why = format!("{} asks for a pause of {seconds} s", self.authority);
                        let failed = RequestError::with_status(503, why);
                        return Err(RequestError { pause: Some(pause), ..failed });
                    }
                    std::thread::sleep(pause);
                    stream = self.send(request)?;
                }
                RootAnswer::WaitForAnswer(seconds) => {
                    let promised = Duration::from_secs(seconds.into());
                    within = promised.max(self.silence).min(until.saturating_duration_since(Instant::now()));
                }
                _ => return Err(wrong(&self.authority, &Malformed::Order("an answer that no such request has"))),
            }
        }
    }

    /// How long the server may be silent.
    pub fn silence(&self) -> Duration {
        self.silence
    }
}

/// Reads an answer's head and what follows it.
fn read_body(conn: &mut Conn, within: Duration) -> io::Result<(AnswerHead, Vec<u8>)> {
    let mut head = [0; ANSWER_HEAD_BYTES];
    read_exact(conn, &mut head, within)?;
    let head = AnswerHead::parse(&head).map_err(io::Error::other)?;
    // The data of a read may be as long as its request; its reader takes them piece by piece.
    if head.bytes > ANSWER_BYTES_MAX {
        let why = format!("an answer of {} bytes is longer than any that was asked for", head.bytes);
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let mut body = vec![0; head.bytes as usize];
    read_exact(conn, &mut body, within)?;
    Ok((head, body))
}

fn read_exact(conn: &mut Conn, into: &mut [u8], within: Duration) -> io::Result<()> {
    if into.is_empty() || conn.read_exact(into, within)? {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server has closed the connection"))
}

fn broken(authority: &str, error: &io::Error) -> RequestError {
    RequestError::connection_error(format!("the connection to {authority} broke: {error}"))
}

/// The failure of a server that does not follow the protocol.
pub(super) fn wrong(authority: &str, error: &Malformed) -> RequestError {
    RequestError::protocol_error(format!("{authority} does not follow XRootD's protocol: {error}"))
}

fn refused_login(authority: &str, error: &LoginError) -> RequestError {
    match error {
        LoginError::Refused { code, text } => refusal(authority, *code, text),
        LoginError::NoCredential(kinds) => RequestError::with_status(
            401,
            format!("{authority} wants one of these credentials: {kinds}; tokens go over TLS (roots://)"),
        ),
        LoginError::NoTls => RequestError::config_error(format!("{authority}: {error}")),
        other => RequestError::protocol_error(format!("{authority}: {other}")),
    }
}

/// The failure of a request that a server refuses.
pub(super) fn refusal(authority: &str, code: u32, text: &str) -> RequestError {
    let known = ErrorCode::from_number(code);
    let status = match known {
        Some(ErrorCode::NotFound) => 404,
        Some(ErrorCode::NotAuthorized | ErrorCode::ReadOnly) => 403,
        Some(ErrorCode::AuthFailed | ErrorCode::TlsRequired) => 401,
        Some(ErrorCode::Exists | ErrorCode::IsDirectory | ErrorCode::NotFile | ErrorCode::Conflict) => 409,
        Some(ErrorCode::FileLocked | ErrorCode::InProgress) => 423,
        Some(ErrorCode::NoSpace | ErrorCode::OverQuota) => 507,
        Some(ErrorCode::Overloaded | ErrorCode::NoMemory) => 503,
        Some(ErrorCode::NoServer | ErrorCode::TimedOut | ErrorCode::TimerExpired) => 504,
        Some(ErrorCode::Unsupported | ErrorCode::InvalidRequest) => 501,
        Some(ErrorCode::FileSystem | ErrorCode::Io | ErrorCode::Server) => 500,
        _ => 400,
    };
    let name = known.map_or_else(|| code.to_string(), |known| format!("{known:?}"));
    let text: String = model::name::to_plain_line(text).chars().take(200).collect();
    RequestError::with_status(status, format!("{authority} answered {name}: {}", text.trim()))
}

/// The place that a redirect names: `HOST?name=value`, with the scheme in front of the host or without.
fn target(host: &str, port: u16) -> RootTarget {
    let (host, parameters) = host.split_once('?').unwrap_or((host, ""));
    let (scheme, host) = host.split_once("://").unwrap_or(("root", host));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_secure = matches!(scheme, "roots" | "xroots");
    RootTarget { host: host.to_owned(), port, is_secure, parameters: parameters.to_owned() }
}

/// The name of this process's user, which servers write to their logs.
fn user_name() -> String {
    format!("u{}", rustix::process::getuid().as_raw())
}
