//! The audit log: a line of JSON for every decision, in the state directory, apart from the log that people read.
//!
//! Decisions about clients without a valid credential have a file of their own: such clients can cause any number of lines, which
//! must not displace the decisions about principals. For the same reason texts of clients are cut.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::Serialize;

/// Bytes of a file of the audit log before it is rotated; one older file is kept.
const PRINCIPALS_BYTES_MAX: u64 = 256 << 20;
/// Bytes of the file about clients without a credential before it is rotated.
const NOBODY_BYTES_MAX: u64 = 64 << 20;
/// Bytes that are kept of a client's text: most paths in full, and enough of others to recognise them.
const TEXT_BYTES_MAX: usize = 512;

/// A decision.
#[derive(Debug, Serialize)]
pub(crate) struct Decision<'a> {
    /// When, RFC 3339.
    pub time: String,
    /// The client has shown no valid credential: the line goes into the file about anonymous clients.
    #[serde(skip)]
    pub is_anonymous: bool,
    /// The client's address.
    pub peer: SocketAddr,
    /// The node's name for the principal.
    pub who: &'a str,
    /// The protocol: "https", "http", "native".
    pub by: &'a str,
    /// The action: a method of HTTP, or a word of the native protocol.
    pub action: &'a str,
    /// The target of the action, without secrets.
    pub target: &'a str,
    /// The other end of a copy or a move, without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<&'a str>,
    /// "allowed", "denied", "failed".
    pub outcome: &'a str,
    /// The status of the HTTP answer; none for the native protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The reason of a refusal or failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// Bytes of the body.
    pub bytes: u64,
    /// Duration, seconds.
    pub seconds: f64,
}

/// The files of the audit log, about principals and about clients without a credential; none if no log is kept.
pub(crate) struct AuditLog(Option<(LogFile, LogFile)>);

/// One file of the audit log.
struct LogFile {
    path: PathBuf,
    bytes_max: u64,
    open: Mutex<Option<(File, u64)>>,
}

/// A client's text, cut to [`TEXT_BYTES_MAX`] bytes.
pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    Cow::Owned(format!("{}…", &text[..end]))
}

impl Decision<'_> {
    fn line(&self) -> serde_json::Result<Vec<u8>> {
        let (who, action, target) = (cut(self.who), cut(self.action), cut(self.target));
        let (other, reason) = (self.other.map(cut), self.reason.map(cut));
        let kept = Decision {
            time: self.time.clone(),
            who: &who,
            action: &action,
            target: &target,
            other: other.as_deref(),
            reason: reason.as_deref(),
            ..*self
        };
        let mut line = serde_json::to_vec(&kept)?;
        line.push(b'\n');
        Ok(line)
    }
}

impl AuditLog {
    /// The audit log in this state directory.
    pub fn new(state: &Path) -> AuditLog {
        let about = |name: &str, bytes_max| LogFile::new(state.join(name), bytes_max);
        AuditLog(Some((about("audit.jsonl", PRINCIPALS_BYTES_MAX), about("audit-nobody.jsonl", NOBODY_BYTES_MAX))))
    }

    /// No audit log.
    pub fn none() -> AuditLog {
        AuditLog(None)
    }

    /// Adds a line. A failure to write is logged and does not stop the node.
    pub fn add(&self, decision: &Decision<'_>) {
        let Some((about_principals, about_anonymous)) = &self.0 else { return };
        let Ok(line) = decision.line() else { return };
        let log_file = if decision.is_anonymous { about_anonymous } else { about_principals };
        if let Err(error) = log_file.add(&line) {
            let path = log_file.path.display();
            tracing::error!(%path, %error, "a decision could not be written to the audit log");
        }
    }
}

impl LogFile {
    fn new(path: PathBuf, bytes_max: u64) -> LogFile {
        // Opened now, so that the first client does not change the number of open descriptors.
        let open = Mutex::new(reopen(&path).ok());
        LogFile { path, bytes_max, open }
    }

    fn add(&self, line: &[u8]) -> std::io::Result<()> {
        let mut open = self.open.lock();
        if open.as_ref().is_some_and(|(_, bytes)| *bytes >= self.bytes_max) {
            *open = None;
            let _ = fs::rename(&self.path, self.path.with_extension("jsonl.1"));
        }
        if open.is_none() {
            *open = Some(reopen(&self.path)?);
        }
        if let Some((file, bytes)) = open.as_mut() {
            // One call, so that lines of several nodes with one state directory stay whole.
            file.write_all(line)?;
            *bytes += line.len() as u64;
        }
        Ok(())
    }
}

fn reopen(path: &Path) -> std::io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision<'a>(who: &'a str, target: &'a str) -> Decision<'a> {
        Decision {
            time: "2026-01-01T00:00:00Z".into(),
            is_anonymous: who == "nobody",
            peer: "127.0.0.1:1".parse().unwrap(),
            who,
            by: "https",
            action: "GET",
            target,
            other: None,
            outcome: "denied",
            status: Some(403),
            reason: None,
            bytes: 0,
            seconds: 0.5,
        }
    }

    fn lines(path: &Path) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn each_decision_is_one_line_of_json() {
        let state = tempfile::tempdir().unwrap();
        let log = AuditLog::new(state.path());
        log.add(&decision("a\nb", "/d/f"));
        log.add(&Decision { other: Some("https://h/f"), ..decision("a\nb", "/d/f") });
        let lines = lines(&state.path().join("audit.jsonl"));
        assert_eq!((lines.len(), &lines[0]["who"]), (2, &serde_json::json!("a\nb")));
        assert_eq!((lines[0].get("other"), &lines[1]["other"]), (None, &serde_json::json!("https://h/f")));
        assert_eq!(lines[0].get("is_anonymous"), None);
    }

    #[test]
    fn lines_about_anonymous_clients_displace_only_each_other() {
        let state = tempfile::tempdir().unwrap();
        let log = AuditLog(Some((
            LogFile::new(state.path().join("audit.jsonl"), 4000),
            LogFile::new(state.path().join("audit-nobody.jsonl"), 4000),
        )));
        log.add(&decision("alice", "/d/f"));
        (0..1000).for_each(|_| log.add(&decision("nobody", "/d/f")));
        assert_eq!(lines(&state.path().join("audit.jsonl")).len(), 1);
        assert!(!state.path().join("audit.jsonl.1").exists());
        for name in ["audit-nobody.jsonl", "audit-nobody.jsonl.1"] {
            let bytes = fs::metadata(state.path().join(name)).unwrap().len();
            assert!((1..5000).contains(&bytes), "{name}: {bytes}");
        }
    }

    #[test]
    fn long_texts_of_clients_are_cut() {
        let (long, two) = ("x".repeat(8000), "é".repeat(4000));
        for text in [&long, &two] {
            let long_decision =
                Decision { reason: Some(text), action: text, other: Some(text), ..decision(text, text) };
            let line = long_decision.line().unwrap();
            assert!(line.len() < 6 * TEXT_BYTES_MAX, "{}", line.len());
            let read: serde_json::Value = serde_json::from_slice(&line).unwrap();
            assert!(read["target"].as_str().unwrap().ends_with('…'));
        }
        let short = "/d/".to_owned() + &"x".repeat(TEXT_BYTES_MAX - 3);
        assert_eq!(cut(&short), short);
    }
}
