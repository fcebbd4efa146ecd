//! Servers of FTP (RFC 959, 3659), in clear text or with TLS (RFC 4217), as archives. By `suppaftp`.
//!
//! Data connections go to the address of the control connection, whatever address the server names: a server must not choose whom this
//! host connects to.

use std::io::{ErrorKind, Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use model::Timestamp;
use model::fault::Fault;
use model::name::Name;
use suppaftp::list::{File, ListParser};
use suppaftp::types::{FileType, Response};
use suppaftp::{FtpError, Mode, RustlsConnector, RustlsFtpStream, Status, TlsConnector, TransferStream};
use web::Dialer;

use crate::archive::{Archive, ArchiveLogin, ArchiveResult, ArchiveSession};
use crate::archive_address::ArchiveAddress;
use crate::facts_cache::{Entry, Facts};
use crate::request_error::RequestError;

/// The port of FTP.
const PORT: u16 = 21;
/// The user without a name, and what it gives as a password.
const ANONYMOUS: (&str, &str) = ("anonymous", "longhaul@");

/// A data connection.
type FtpTransfer = TransferStream<<RustlsConnector as TlsConnector>::Stream>;

/// A user's name and password.
#[derive(Clone)]
pub struct FtpUser {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
}

/// How to reach a server of FTP.
#[derive(Clone)]
pub struct FtpSettings {
    /// Makes connections, and holds the authorities that are trusted.
    pub dialer: Dialer,
    /// Whether control and data connections use TLS (`ftps://`).
    pub is_secure: bool,
    /// The user; anonymous without one.
    pub user: Option<FtpUser>,
    /// The time for which one request is tried again.
    pub patience: Duration,
}

/// The server at an address. Makes no connection.
pub fn open(settings: FtpSettings, address: &ArchiveAddress) -> Archive {
    let host = address.authority();
    let port = address.port.unwrap_or(PORT);
    let login = FtpLogin { settings, host, name: address.host.clone(), port, is_absolute: address.is_absolute };
    Archive::new(Box::new(login))
}

struct FtpLogin {
    settings: FtpSettings,
    /// For messages.
    host: String,
    name: String,
    port: u16,
    is_absolute: bool,
}

impl FtpLogin {
    fn failed(&self, error: FtpError) -> RequestError {
        failure(&self.host, error)
    }
}

impl ArchiveLogin for FtpLogin {
    fn kind(&self) -> &'static str {
        "an FTP server"
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn is_encrypted(&self) -> bool {
        self.settings.is_secure
    }

    fn patience(&self) -> Duration {
        self.settings.patience
    }

    fn path(&self, path: &str) -> String {
        match (self.is_absolute, path) {
            (true, path) => format!("/{path}"),
            (false, "") => ".".to_owned(),
            (false, path) => path.to_owned(),
        }
    }

    /// Each range needs a connection of its own, which begins slowly.
    fn reads_at_random(&self) -> bool {
        false
    }

    fn connect(&self) -> ArchiveResult<Box<dyn ArchiveSession>> {
        let FtpSettings { dialer, is_secure, user, .. } = &self.settings;
        let socket = dialer.dial_clear(&self.name, self.port)?.into_parts().socket;
        let is_v6 = socket.peer_addr().is_ok_and(|peer| peer.is_ipv6());
        let failed = |error| self.failed(error);
        let (connect, silence) = (dialer.connect, dialer.silence);
        let mut client =
            RustlsFtpStream::connect_with_stream(socket).map_err(failed)?.passive_stream_builder(move |address| {
                let data = std::net::TcpStream::connect_timeout(&address, connect);
                let data = data.and_then(|data| sys::tcp::set_common(&data, silence).map(|()| data));
                data.and_then(|data| {
                    data.set_read_timeout(Some(silence))?;
                    data.set_write_timeout(Some(silence))?;
                    Ok(data)
                })
                .map_err(FtpError::ConnectionError)
            });
        client.set_passive_nat_workaround(true);
        client.set_mode(if is_v6 { Mode::ExtendedPassive } else { Mode::Passive });
        if *is_secure {
            let mut tls = rustls::ClientConfig::clone(&dialer.tls);
            tls.alpn_protocols.clear();
            client = client.into_secure(RustlsConnector::from(Arc::new(tls)), &self.name).map_err(failed)?;
        }
        let (name, password) = user.as_ref().map_or(ANONYMOUS, |user| (user.name.as_str(), user.password.as_str()));
        client.login(name, password).map_err(failed)?;
        client.transfer_type(FileType::Binary).map_err(failed)?;
        Ok(Box::new(FtpSession { host: self.host.clone(), client, has_facts: true, download: None, upload: None }))
    }
}

/// A file that is being read.
struct FtpDownload {
    path: String,
    at: u64,
    stream: FtpTransfer,
}

struct FtpSession {
    host: String,
    // Before the client, so that a transfer ends before its control connection does.
    download: Option<FtpDownload>,
    upload: Option<FtpTransfer>,
    client: RustlsFtpStream,
    /// The server may know MLST and MLSD (RFC 3659).
    has_facts: bool,
}

impl FtpSession {
    fn failed(&self, error: FtpError) -> RequestError {
        failure(&self.host, error)
    }

    /// Ends a download that is not read any more.
    fn end_download(&mut self) -> ArchiveResult<()> {
        let Some(mut download) = self.download.take() else { return Ok(()) };
        // ABOR has one answer or two, which depends on whether the server has noticed the end of the file. So a file that was read to its
        // end is not aborted: this waits for the next byte, or for the end.
        let is_at_end = matches!(download.stream.read(&mut [0]), Ok(0));
        let ended = if is_at_end { download.stream.finish() } else { self.client.abort(download.stream) };
        // A server may report the end of the file that it has sent, or that it was interrupted: the session is the same afterwards.
        match ended {
            Ok(()) | Err(FtpError::UnexpectedResponse(_)) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Makes a request that has no data connection.
    fn ask<T>(&mut self, ask: impl FnOnce(&mut RustlsFtpStream) -> Result<T, FtpError>) -> ArchiveResult<T> {
        self.end_download()?;
        ask(&mut self.client).map_err(|error| self.failed(error))
    }

    /// The facts by MLST; none where the server does not know it.
    fn stated_facts(&mut self, path: &str) -> ArchiveResult<Option<Facts>> {
        if !self.has_facts {
            return Ok(None);
        }
        match self.ask(|client| client.mlst(Some(path))) {
            Ok(line) => {
                Ok(ListParser::parse_mlst(&line).ok().filter(|file| !file.is_symlink()).map(|file| facts(&file, true)))
            }
            Err(failed) if failed.is(&[501]) => {
                self.has_facts = false;
                Ok(None)
            }
            Err(failed) => Err(failed),
        }
    }

    /// The facts of an old server's file: its size and time; what has no size, and can be entered, is a directory.
    fn found_facts(&mut self, path: &str) -> ArchiveResult<Facts> {
        match self.ask(|client| client.size(path)) {
            Ok(size) => {
                let changed = self.ask(|client| client.mdtm(path)).ok();
                let mtime = changed.map(|at| Timestamp { seconds: at.and_utc().timestamp(), nanos: 0 });
                Ok(Facts { mtime, ..Facts::file(size as u64) })
            }
            Err(failed) if failed.status.is_none() => Err(failed),
            Err(failed) => {
                let home = self.ask(RustlsFtpStream::pwd)?;
                match self.ask(|client| client.cwd(path)) {
                    Ok(()) => self.ask(|client| client.cwd(&home)).map(|()| Facts::dir()),
                    Err(other) if other.status.is_none() => Err(other),
                    Err(_) => Err(failed),
                }
            }
        }
    }

    /// The entries by MLSD; none where the server does not know it.
    fn stated_entries(&mut self, path: &str) -> ArchiveResult<Option<Vec<Entry>>> {
        if !self.has_facts {
            return Ok(None);
        }
        let lines = match self.ask(|client| client.mlsd(Some(path))) {
            Ok(lines) => lines,
            Err(failed) if failed.is(&[501]) => {
                self.has_facts = false;
                return Ok(None);
            }
            Err(failed) => return Err(failed),
        };
        let mut entries = Vec::new();
        for line in lines.iter().filter(|line| !is_of_directory_itself(line)) {
            let Some((_, name)) = line.split_once("; ") else { continue };
            let file = ListParser::parse_mlsd(line).ok().filter(|file| !file.is_symlink());
            entries.extend(self.entry(path, name, file.map(|file| facts(&file, true))));
        }
        Ok(Some(entries))
    }

    /// The entries by LIST, which was written for people: its times are not exact.
    fn listed_entries(&mut self, path: &str) -> ArchiveResult<Vec<Entry>> {
        let lines = self.ask(|client| client.list(Some(path)))?;
        let mut entries = Vec::new();
        for line in lines {
            let parsed = ListParser::parse_posix(&line).or_else(|_| ListParser::parse_dos(&line));
            let Ok(file) = parsed else { continue };
            let known = (!file.is_symlink()).then(|| facts(&file, false));
            let name = file.name().to_owned();
            entries.extend(self.entry(path, &name, known));
        }
        Ok(entries)
    }

    /// An entry of a directory. The facts of a symbolic link are those of its target.
    fn entry(&mut self, dir: &str, name: &str, known: Option<Facts>) -> Option<Entry> {
        if matches!(name, "." | "..") {
            return None;
        }
        let entry = Name::new(name.as_bytes()).ok()?;
        let below = format!("{}/{name}", dir.trim_end_matches('/'));
        Some((entry, known.map_or_else(|| self.facts(&below), Ok)))
    }

    /// Begins to read a file at an offset.
    fn begin_read(&mut self, path: &str, at: u64) -> ArchiveResult<FtpDownload> {
        let offset =
            usize::try_from(at).map_err(|_| RequestError::config_error("the file is too large for this host"))?;
        let stream = self.ask(|client| {
            client.resume_transfer(offset)?;
            client.retr_as_stream(path)
        })?;
        Ok(FtpDownload { path: path.to_owned(), at, stream })
    }
}

impl ArchiveSession for FtpSession {
    fn facts(&mut self, path: &str) -> ArchiveResult<Facts> {
        match self.stated_facts(path)? {
            Some(facts) => Ok(facts),
            None => self.found_facts(path),
        }
    }

    fn entries(&mut self, path: &str) -> ArchiveResult<Vec<Entry>> {
        match self.stated_entries(path)? {
            Some(entries) => Ok(entries),
            None => self.listed_entries(path),
        }
    }

    fn read(&mut self, path: &str, span: Range<u64>) -> ArchiveResult<Vec<u8>> {
        let mut download = match self.download.take() {
            Some(download) if download.path == path && download.at == span.start => download,
            other => {
                self.download = other;
                self.begin_read(path, span.start)?
            }
        };
        let mut bytes = vec![0; (span.end - span.start) as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            match download.stream.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(FtpError::ConnectionError(error))),
            }
        }
        bytes.truncate(filled);
        download.at += filled as u64;
        if filled as u64 == span.end - span.start {
            self.download = Some(download);
        } else {
            // The file ended: the server's words say whether something went wrong.
            download.stream.finish().map_err(|error| self.failed(error))?;
        }
        Ok(bytes)
    }

    fn begin_write(&mut self, path: &str) -> ArchiveResult<()> {
        self.upload = Some(self.ask(|client| client.put_with_stream(path))?);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> ArchiveResult<()> {
        let Some(upload) = &mut self.upload else {
            return Err(RequestError::protocol_error("no file is being written"));
        };
        let Err(error) = upload.write_all(bytes) else { return Ok(()) };
        // A server that is full breaks the data connection, and says why on the other one.
        let said = self.upload.take().map_or(Ok(()), TransferStream::finish);
        match said {
            Err(said @ FtpError::UnexpectedResponse(_)) => Err(self.failed(said)),
            _ => Err(self.failed(FtpError::ConnectionError(error))),
        }
    }

    fn end_write(&mut self) -> ArchiveResult<()> {
        self.upload.take().map_or(Ok(()), TransferStream::finish).map_err(|error| self.failed(error))
    }

    fn make_dir(&mut self, path: &str) -> ArchiveResult<()> {
        self.ask(|client| client.mkdir(path))
    }

    fn remove_file(&mut self, path: &str) -> ArchiveResult<()> {
        self.ask(|client| client.rm(path))
    }

    fn remove_dir(&mut self, path: &str) -> ArchiveResult<()> {
        self.ask(|client| client.rmdir(path))
    }

    fn rename(&mut self, from: &str, to: &str) -> ArchiveResult<()> {
        self.ask(|client| client.rename(from, to))
    }
}

/// Whether a line of MLSD is about the directory itself, or the one above.
fn is_of_directory_itself(line: &str) -> bool {
    let facts = line.split_once("; ").map_or(line, |(facts, _)| facts).to_ascii_lowercase();
    facts.split(';').any(|fact| matches!(fact, "type=cdir" | "type=pdir"))
}

fn facts(file: &File, has_exact_time: bool) -> Facts {
    if file.is_directory() {
        return Facts::dir();
    }
    let since = file.modified().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(0);
    let mtime = (has_exact_time && seconds > 0).then_some(Timestamp { seconds, nanos: 0 });
    Facts { mtime, ..Facts::file(file.size() as u64) }
}

/// A failure, in the terms of HTTP.
fn failure(host: &str, error: FtpError) -> RequestError {
    match error {
        FtpError::UnexpectedResponse(response) => {
            let words = words(&response);
            let code = response.status.code();
            let why = format!("{host} answered {code}: {words}");
            match status(response.status, &words) {
                Some(status) => RequestError::with_status(status, why),
                None => RequestError::connection_error(why),
            }
        }
        FtpError::ConnectionError(error) if error.kind() == ErrorKind::InvalidData => {
            let why = format!("no TLS with {host}: {error}");
            RequestError { fault: Fault::Auth, affects_all_files: true, ..RequestError::protocol_error(why) }
        }
        FtpError::ConnectionError(error) => {
            RequestError::connection_error(format!("the connection to {host} broke: {error}"))
        }
        FtpError::SecureError(why) => {
            let why = format!("no TLS with {host}: {why}");
            RequestError { fault: Fault::Auth, affects_all_files: true, ..RequestError::protocol_error(why) }
        }
        other => RequestError::protocol_error(format!("{host} does not follow FTP: {other}")),
    }
}

/// The words of a response without its code, in one line.
fn words(response: &Response) -> String {
    let text = String::from_utf8_lossy(&response.body);
    let line = text.lines().last().unwrap_or_default().trim();
    let words = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches([' ', '-']);
    words.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// The status of HTTP that means the same as a response; none where the connection is meant.
fn status(status: Status, words: &str) -> Option<u16> {
    let words = words.to_ascii_lowercase();
    let has = |some: &[&str]| some.iter().any(|one| words.contains(one));
    Some(match status.code() {
        // A success where another answer was awaited belongs to an earlier request: the session is out of step.
        ..=399 | 425 | 426 => return None,
        421 => 503,
        430 | 530 | 532 => 401,
        450 => 423,
        451 => 500,
        452 | 552 => 507,
        500 | 501 | 502 | 504 => 501,
        550 | 553 if has(&["denied", "permission", "privilege", "not allowed", "forbidden", "read-only"]) => 403,
        550 if has(&["exist"]) && !has(&["not exist", "n't exist", "no such"]) => 409,
        550 => 404,
        534..=536 | 553 => 403,
        _ => 500,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: Status, words: &str) -> RequestError {
        failure(
            "h",
            FtpError::UnexpectedResponse(Response::new(code, format!("{} {words}\r\n", code.code()).into_bytes())),
        )
    }

    #[test]
    fn a_response_has_a_meaning_and_its_words() {
        let missing = answered(Status::FileUnavailable, "f: No such file or directory");
        assert_eq!((missing.status, missing.why.as_str()), (Some(404), "h answered 550: f: No such file or directory"));
        assert_eq!(answered(Status::FileUnavailable, "Permission denied.").status, Some(403));
        assert_eq!(answered(Status::FileUnavailable, "Create directory failed: File exists").status, Some(409));
        assert_eq!(answered(Status::NotLoggedIn, "Login incorrect.").fault, Fault::Auth);
        assert_eq!(answered(Status::ExceededStorage, "quota").status, Some(507));
        let broken = answered(Status::TransferAborted, "aborted");
        assert!(broken.status.is_none() && broken.may_retry);
        let of_earlier_request = answered(Status::PassiveMode, "Entering passive mode");
        assert!(of_earlier_request.status.is_none() && of_earlier_request.may_retry, "the session is not used again");
    }

    #[test]
    fn the_directory_itself_is_no_entry() {
        assert!(is_of_directory_itself("Type=cdir;Modify=20260101000000; /pub"));
        assert!(is_of_directory_itself("modify=20260101000000;type=pdir; .."));
        assert!(!is_of_directory_itself("type=file;size=1; type=cdir"));
        let file = ListParser::parse_mlsd("type=file;size=7;modify=20260102030405; a; b").unwrap();
        assert_eq!((file.name(), facts(&file, true).size), ("a; b", 7));
        assert_eq!(facts(&file, true).mtime.unwrap().seconds, 1_767_323_045);
        assert_eq!(facts(&file, false).mtime, None);
    }
}
