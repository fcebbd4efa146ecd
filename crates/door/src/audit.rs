//! The audit trail: a line of JSON for every decision, in the state directory, apart from the log that people read.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

/// Bytes of a trail before it is put aside; one older trail is kept.
const TRAIL_BYTES_MAX: u64 = 256 << 20;

/// A decision.
#[derive(Debug, Serialize)]
pub(crate) struct Decision<'a> {
    /// When, RFC 3339.
    pub time: String,
    /// Whom it is about.
    pub peer: SocketAddr,
    /// By the name that the node has for them.
    pub who: &'a str,
    /// How they came: "https", "http", "native".
    pub by: &'a str,
    /// What they wanted: a method, or a word of the native protocol.
    pub action: &'a str,
    /// Of what, without secrets.
    pub target: &'a str,
    /// "allowed", "denied", "failed".
    pub outcome: &'a str,
    /// The answer's status; of the native protocol none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// Bytes of the body.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Where decisions are written.
pub(crate) struct Trail {
    /// None where nothing is written down.
    path: Option<PathBuf>,
    open: Mutex<Option<(File, u64)>>,
}

impl Trail {
    /// In this state directory.
    pub fn new(state: &Path) -> Trail {
        let path = state.join("audit.jsonl");
        // At once, so that a node holds as many descriptors before its first guest as after.
        let open = Mutex::new(reopen(&path).ok());
        Trail { path: Some(path), open }
    }

    /// Nowhere.
    pub fn none() -> Trail {
        Trail { path: None, open: Mutex::default() }
    }

    /// Adds a line. One that cannot be written is said in the log: a node that stopped for it would serve nobody.
    pub fn add(&self, decision: &Decision<'_>) {
        let Some(path) = &self.path else { return };
        let Ok(mut line) = serde_json::to_vec(decision) else { return };
        line.push(b'\n');
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.as_ref().is_some_and(|(_, bytes)| *bytes >= TRAIL_BYTES_MAX) {
            *open = None;
            let _ = fs::rename(path, path.with_extension("jsonl.1"));
        }
        let mut write = || -> std::io::Result<()> {
            if open.is_none() {
                *open = Some(reopen(path)?);
            }
            if let Some((file, bytes)) = open.as_mut() {
                // One call: lines of several nodes that share a state stay whole.
                file.write_all(&line)?;
                *bytes += line.len() as u64;
            }
            Ok(())
        };
        if let Err(error) = write() {
            tracing::error!(path = %path.display(), %error, "a decision could not be written to the audit trail");
        }
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

    #[test]
    fn a_line_for_each() {
        let state = tempfile::tempdir().unwrap();
        let trail = Trail::new(state.path());
        let decision = Decision {
            time: "2026-01-01T00:00:00Z".into(),
            peer: "127.0.0.1:1".parse().unwrap(),
            who: "a\nb",
            by: "https",
            action: "GET",
            target: "/d/f",
            outcome: "denied",
            status: Some(403),
            reason: None,
            bytes: 0,
            seconds: 0.5,
        };
        trail.add(&decision);
        trail.add(&decision);
        let text = fs::read_to_string(state.path().join("audit.jsonl")).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines.len(), &lines[0]["who"]), (2, &serde_json::json!("a\nb")));
    }
}
