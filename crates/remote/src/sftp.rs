//! Servers of SFTP (version 3, draft-ietf-secsh-filexfer-02) as archives. `ssh` makes the connection: keys, agents, known hosts, jump hosts
//! and the names in the user's configuration are its business. The requests are by `russh-sftp`.
//!
//! A session has many requests under way. `ssh` lets 2 MiB of one session be on their way: far servers are read by several sessions.

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::Timestamp;
use model::fault::Fault;
use model::name::Name;
use russh_sftp::client::RawSftpSession;
use russh_sftp::client::error::Error;
use russh_sftp::client::rawsession::Limits;
use russh_sftp::protocol::{FileAttributes, OpenFlags, Packet, StatusCode};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::archive::{Archive, ArchiveLogin, ArchiveResult, ArchiveSession};
use crate::archive_address::ArchiveAddress;
use crate::facts_cache::{Entry, Facts};
use crate::request_error::RequestError;

/// Bytes of one request, unless the server states how many it takes.
const REQUEST_BYTES: u64 = 32 << 10;
/// The fewest bytes of one request, whatever the server states.
const REQUEST_BYTES_MIN: u64 = 4 << 10;
/// The most bytes of one request: a packet has 256 KiB.
const REQUEST_BYTES_MAX: u64 = 255 << 10;
/// Writes whose answers are awaited.
const WRITES_MAX: usize = 64;
/// The most bytes of an explanation of ssh.
const EXPLANATION_BYTES: u64 = 4 << 10;
/// How long ssh may take to explain its end.
const EXPLANATION_WITHIN: Duration = Duration::from_secs(2);

/// How to reach a server of SFTP.
#[derive(Clone, Debug)]
pub struct SftpSettings {
    /// The ssh client with its options.
    pub command: Vec<String>,
    /// The time for which one request is tried again.
    pub patience: Duration,
    /// The longest wait for an answer.
    pub silence: Duration,
}

/// The server at an address. Makes no connection.
pub fn open(settings: SftpSettings, address: &ArchiveAddress) -> Archive {
    Archive::new(Box::new(SftpLogin { settings, host: address.authority(), address: address.clone() }))
}

/// The runtime of all sessions.
fn runtime() -> ArchiveResult<&'static Runtime> {
    static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
    let make = || Builder::new_multi_thread().worker_threads(1).thread_name("sftp").enable_all().build().ok();
    let missing = || RequestError::config_error("the threads for SFTP cannot be started");
    RUNTIME.get_or_init(make).as_ref().ok_or_else(missing)
}

struct SftpLogin {
    settings: SftpSettings,
    /// For messages.
    host: String,
    address: ArchiveAddress,
}

impl SftpLogin {
    fn command(&self) -> ArchiveResult<Command> {
        let SftpSettings { command, .. } = &self.settings;
        let (program, options) = command.split_first().ok_or_else(|| RequestError::config_error("no ssh is named"))?;
        let mut ssh = Command::new(program);
        ssh.args(options).args(["-x", "-a", "-oPermitLocalCommand=no", "-oClearAllForwardings=yes"]);
        if let Some(port) = self.address.port {
            ssh.args(["-p", &port.to_string()]);
        }
        if let Some(user) = &self.address.user {
            ssh.args(["-l", user]);
        }
        ssh.args(["-s", "--", &self.address.host, "sftp"]);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        Ok(ssh)
    }

    async fn begin(&self) -> ArchiveResult<SftpSession> {
        let cannot = |why: String| RequestError::config_error(format!("ssh cannot be started: {why}"));
        let mut ssh = self.command()?.spawn().map_err(|error| cannot(error.to_string()))?;
        let (Some(input), Some(output)) = (ssh.stdin.take(), ssh.stdout.take()) else {
            return Err(cannot("it has no input".to_owned()));
        };
        let mut raw = RawSftpSession::new(tokio::io::join(output, input));
        raw.set_timeout(self.settings.silence.as_secs());
        let version = match raw.init().await {
            Ok(version) => version,
            Err(error) => return Err(self.refused(ssh, &error).await),
        };
        let mut request_bytes = REQUEST_BYTES;
        if version.extensions.contains_key("limits@openssh.com")
            && let Ok(stated) = raw.limits().await
        {
            let limits = Limits::from(stated);
            let both = limits.read_len.zip(limits.write_len).map(|(read, write)| read.min(write));
            request_bytes = both.unwrap_or(REQUEST_BYTES).clamp(REQUEST_BYTES_MIN, REQUEST_BYTES_MAX);
            raw.set_limits(limits);
        }
        Ok(SftpSession {
            host: self.host.clone(),
            raw: Arc::new(raw),
            request_bytes,
            can_sync: version.extensions.contains_key("fsync@openssh.com"),
            open: None,
            upload: None,
            _ssh: ssh,
        })
    }

    /// Why there is no session, in the words of ssh.
    async fn refused(&self, mut ssh: Child, error: &Error) -> RequestError {
        let mut text = Vec::new();
        if let Some(stderr) = ssh.stderr.take() {
            let mut stderr = stderr.take(EXPLANATION_BYTES);
            let _ = tokio::time::timeout(EXPLANATION_WITHIN, stderr.read_to_end(&mut text)).await;
        }
        let text = String::from_utf8_lossy(&text);
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        let why =
            last.map_or_else(|| error.to_string(), |line| line.chars().filter(|c| !c.is_control()).take(200).collect());
        let why = format!("no SFTP with {}: {why}", self.host);
        if why.contains("Permission denied") || why.contains("verification failed") {
            return RequestError { fault: Fault::Auth, affects_all_files: true, ..RequestError::protocol_error(why) };
        }
        RequestError::connection_error(why)
    }
}

impl ArchiveLogin for SftpLogin {
    fn kind(&self) -> &'static str {
        "an SFTP server"
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn is_encrypted(&self) -> bool {
        true
    }

    fn patience(&self) -> Duration {
        self.settings.patience
    }

    fn path(&self, path: &str) -> String {
        match (self.address.is_absolute, path) {
            (true, path) => format!("/{path}"),
            (false, "") => ".".to_owned(),
            (false, path) => path.to_owned(),
        }
    }

    fn reads_at_random(&self) -> bool {
        true
    }

    fn connect(&self) -> ArchiveResult<Box<dyn ArchiveSession>> {
        let session = runtime()?.block_on(self.begin())?;
        Ok(Box::new(session))
    }
}

/// A file that is being written.
struct SftpUpload {
    handle: String,
    at: u64,
    unanswered: JoinSet<Result<(), Error>>,
}

struct SftpSession {
    host: String,
    raw: Arc<RawSftpSession>,
    /// Bytes of one request.
    request_bytes: u64,
    /// The server flushes a file to its disk when it is asked to.
    can_sync: bool,
    /// The file that was read last, with its handle.
    open: Option<(String, String)>,
    upload: Option<SftpUpload>,
    /// Ends with the session.
    _ssh: Child,
}

impl SftpSession {
    fn failed(&self, error: &Error) -> RequestError {
        failure(&self.host, error)
    }

    /// Makes a request, and waits for its answer.
    fn ask<T>(&self, request: impl Future<Output = Result<T, Error>>) -> ArchiveResult<T> {
        runtime()?.block_on(request).map_err(|error| self.failed(&error))
    }

    /// The handle of a file that is read.
    fn handle(&mut self, path: &str) -> ArchiveResult<String> {
        if let Some((open, handle)) = &self.open
            && open == path
        {
            return Ok(handle.clone());
        }
        if let Some((_, handle)) = self.open.take() {
            self.ask(self.raw.close(handle))?;
        }
        let handle = self.ask(self.raw.open(path, OpenFlags::READ, FileAttributes::empty()))?.handle;
        self.open = Some((path.to_owned(), handle.clone()));
        Ok(handle)
    }

    /// The entries of an open directory.
    async fn listed(&self, handle: &str) -> Result<Vec<(String, FileAttributes)>, Error> {
        let mut all = Vec::new();
        loop {
            match self.raw.readdir(handle).await {
                Ok(some) => all.extend(some.files.into_iter().map(|file| (file.filename, file.attrs))),
                Err(error) if is(&error, StatusCode::Eof) => return Ok(all),
                Err(error) => return Err(error),
            }
        }
    }
}

fn is(error: &Error, code: StatusCode) -> bool {
    matches!(error, Error::Status(status) if status.status_code == code)
}

/// Bytes of a file from an offset on; fewer than asked for at its end.
async fn read_piece(raw: Arc<RawSftpSession>, handle: String, at: u64, bytes: u64) -> Result<Vec<u8>, Error> {
    let mut piece = Vec::new();
    while (piece.len() as u64) < bytes {
        let left = u32::try_from(bytes - piece.len() as u64).unwrap_or(u32::MAX);
        match raw.read(&*handle, at + piece.len() as u64, left).await {
            Ok(answer) if answer.data.is_empty() => break,
            Ok(answer) => piece.extend_from_slice(&answer.data),
            Err(error) if is(&error, StatusCode::Eof) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(piece)
}

/// All bytes of a range, with all requests under way at once.
async fn read_range(
    raw: &Arc<RawSftpSession>,
    handle: &str,
    span: Range<u64>,
    request_bytes: u64,
) -> Result<Vec<u8>, Error> {
    let mut reads = JoinSet::new();
    let mut at = span.start;
    while at < span.end {
        let bytes = (span.end - at).min(request_bytes);
        let read = read_piece(Arc::clone(raw), handle.to_owned(), at, bytes);
        reads.spawn(async move { (at, read.await) });
        at += bytes;
    }
    let mut pieces = BTreeMap::new();
    while let Some(read) = reads.join_next().await {
        let (at, piece) = read.map_err(|error| Error::IO(error.to_string()))?;
        pieces.insert(at, piece?);
    }
    let mut all = Vec::with_capacity((span.end - span.start) as usize);
    for (at, piece) in pieces {
        // What follows a short piece is beyond the end of the file.
        if at != span.start + all.len() as u64 {
            break;
        }
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

/// Takes the answer to a write.
async fn take_answer(unanswered: &mut JoinSet<Result<(), Error>>) -> Result<(), Error> {
    match unanswered.join_next().await {
        None => Ok(()),
        Some(answer) => answer.map_err(|error| Error::IO(error.to_string()))?,
    }
}

impl ArchiveSession for SftpSession {
    fn facts(&mut self, path: &str) -> ArchiveResult<Facts> {
        Ok(facts(&self.ask(self.raw.stat(path))?.attrs))
    }

    fn entries(&mut self, path: &str) -> ArchiveResult<Vec<Entry>> {
        let handle = self.ask(self.raw.opendir(path))?.handle;
        let listed = self.ask(self.listed(&handle));
        self.ask(self.raw.close(&*handle))?;
        let mut entries = Vec::new();
        for (name, attributes) in listed? {
            let Ok(entry) = Name::new(name.as_bytes()) else { continue };
            // The facts of a symbolic link are those of its target.
            let known = if attributes.is_symlink() {
                self.facts(&format!("{}/{name}", path.trim_end_matches('/')))
            } else {
                Ok(facts(&attributes))
            };
            entries.push((entry, known));
        }
        Ok(entries)
    }

    fn read(&mut self, path: &str, span: Range<u64>) -> ArchiveResult<Vec<u8>> {
        let handle = self.handle(path)?;
        self.ask(read_range(&self.raw, &handle, span, self.request_bytes))
    }

    fn begin_write(&mut self, path: &str) -> ArchiveResult<()> {
        let flags = OpenFlags::CREATE | OpenFlags::WRITE | OpenFlags::TRUNCATE;
        let handle = self.ask(self.raw.open(path, flags, FileAttributes::empty()))?.handle;
        self.upload = Some(SftpUpload { handle, at: 0, unanswered: JoinSet::new() });
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> ArchiveResult<()> {
        let (raw, request_bytes) = (Arc::clone(&self.raw), self.request_bytes as usize);
        let Some(upload) = &mut self.upload else {
            return Err(RequestError::protocol_error("no file is being written"));
        };
        let written = async {
            for piece in bytes.chunks(request_bytes) {
                while upload.unanswered.len() >= WRITES_MAX {
                    take_answer(&mut upload.unanswered).await?;
                }
                let (raw, handle, at, piece) = (Arc::clone(&raw), upload.handle.clone(), upload.at, piece.to_vec());
                upload.at += piece.len() as u64;
                upload.unanswered.spawn(async move { raw.write(handle, at, piece).await.map(drop) });
            }
            Ok(())
        };
        let written = runtime()?.block_on(written);
        written.map_err(|error| failure(&self.host, &error))
    }

    fn end_write(&mut self) -> ArchiveResult<()> {
        let Some(SftpUpload { handle, mut unanswered, .. }) = self.upload.take() else { return Ok(()) };
        let (raw, can_sync) = (Arc::clone(&self.raw), self.can_sync);
        self.ask(async move {
            while !unanswered.is_empty() {
                take_answer(&mut unanswered).await?;
            }
            if can_sync {
                raw.fsync(&*handle).await?;
            }
            raw.close(handle).await.map(drop)
        })
    }

    fn make_dir(&mut self, path: &str) -> ArchiveResult<()> {
        self.ask(self.raw.mkdir(path, FileAttributes::empty())).map(drop)
    }

    fn remove_file(&mut self, path: &str) -> ArchiveResult<()> {
        self.ask(self.raw.remove(path)).map(drop)
    }

    fn remove_dir(&mut self, path: &str) -> ArchiveResult<()> {
        self.ask(self.raw.rmdir(path)).map(drop)
    }

    fn rename(&mut self, from: &str, to: &str) -> ArchiveResult<()> {
        let text = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
        let both = [text(from), text(to)].concat();
        match self.ask(self.raw.extended("posix-rename@openssh.com", both)) {
            Ok(Packet::Status(status)) if status.status_code == StatusCode::Ok => Ok(()),
            Ok(Packet::Status(status)) if status.status_code != StatusCode::OpUnsupported => {
                Err(self.failed(&Error::Status(status)))
            }
            // A server without this extension renames to free names only.
            Ok(_) => self.ask(self.raw.rename(from, to)).map(drop),
            Err(failed) if failed.is(&[501]) => self.ask(self.raw.rename(from, to)).map(drop),
            Err(failed) => Err(failed),
        }
    }
}

fn facts(attributes: &FileAttributes) -> Facts {
    if attributes.is_dir() {
        return Facts::dir();
    }
    let mtime = attributes.mtime.filter(|at| *at > 0).map(|at| Timestamp { seconds: i64::from(at), nanos: 0 });
    let executable = attributes.permissions.is_some_and(|mode| mode & 0o100 != 0);
    Facts { mtime, executable, ..Facts::file(attributes.size.unwrap_or(0)) }
}

/// A failure, in the terms of HTTP.
fn failure(host: &str, error: &Error) -> RequestError {
    let Error::Status(status) = error else {
        return match error {
            Error::Limited(_) | Error::UnexpectedPacket => {
                RequestError::protocol_error(format!("{host} does not follow SFTP: {error}"))
            }
            _ => RequestError::connection_error(format!("the connection to {host} broke: {error}")),
        };
    };
    let words: String = status.error_message.chars().filter(|c| !c.is_control()).take(200).collect();
    let why = if words.is_empty() {
        format!("{host} answered {}", status.status_code)
    } else {
        format!("{host} answered: {words}")
    };
    match status.status_code {
        StatusCode::NoSuchFile => RequestError::with_status(404, why),
        StatusCode::PermissionDenied => RequestError::with_status(403, why),
        StatusCode::OpUnsupported => RequestError::with_status(501, why),
        StatusCode::NoConnection | StatusCode::ConnectionLost => RequestError::connection_error(why),
        StatusCode::BadMessage => RequestError::protocol_error(why),
        // Whatever else is wrong with the entry: it exists, the directory is not empty, the device is full.
        StatusCode::Ok | StatusCode::Eof | StatusCode::Failure => RequestError::with_status(409, why),
    }
}

#[cfg(test)]
mod tests {
    use russh_sftp::protocol::Status;

    use super::*;

    #[test]
    fn a_status_has_a_meaning_and_its_words() {
        let error = |status_code, words: &str| {
            let status = Status { id: 1, status_code, error_message: words.to_owned(), language_tag: String::new() };
            failure("h", &Error::Status(status))
        };
        let missing = error(StatusCode::NoSuchFile, "No such file\u{1b}");
        assert_eq!((missing.status, missing.why.as_str()), (Some(404), "h answered: No such file"));
        assert_eq!(
            error(StatusCode::PermissionDenied, "").why,
            "h answered Permission denied (the token or key does not allow this)"
        );
        assert_eq!(error(StatusCode::Failure, "x").status, Some(409));
        assert!(failure("h", &Error::Timeout).may_retry);
    }

    #[test]
    fn attributes_are_facts() {
        let attributes = |mode: u32| FileAttributes {
            permissions: Some(mode),
            size: Some(7),
            mtime: Some(5),
            ..FileAttributes::empty()
        };
        let file = facts(&attributes(0o100_755));
        assert_eq!((file.size, file.executable, file.mtime.unwrap().seconds), (7, true, 5));
        assert_eq!(facts(&attributes(0o040_755)).kind, model::Kind::Dir);
    }
}
