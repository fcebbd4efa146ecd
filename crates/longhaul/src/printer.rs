//! The one owner of the terminal: results on stdout, words for people on stderr.

use std::io::{IsTerminal, Write};

use model::v1;
use serde::Serialize;

use crate::failure::Failure;

/// Prints what a command has to say.
pub struct Printer {
    json: bool,
    quiet: bool,
}

impl Printer {
    /// For JSON or people, quiet or not.
    pub fn new(json: bool, quiet: bool) -> Printer {
        Printer { json, quiet }
    }

    /// Whether stdout carries JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Whether people want progress and receipts.
    pub fn is_chatty(&self) -> bool {
        !self.quiet && !self.json
    }

    /// A result line. A reader that has gone away is not an error.
    pub fn line(&self, text: &str) {
        let _ = writeln!(std::io::stdout().lock(), "{text}");
    }

    /// A page, which is all of a command's output. A reader that has gone away is not an error; a full disk is.
    pub fn page(&self, text: &str) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    /// A JSON object on a line of its own.
    pub fn object(&self, object: &impl Serialize) {
        if let Ok(text) = serde_json::to_string(object) {
            self.line(&text);
        }
    }

    /// A word for people.
    pub fn note(text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "longhaul: {text}");
    }

    /// A line for people in a form of its own.
    pub fn say(text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// A failed command.
    pub fn failure(&self, failure: &Failure) {
        Self::note(&failure.message);
        self.failure_object(failure);
    }

    /// A failed command, for scripts only.
    pub fn failure_object(&self, failure: &Failure) {
        if self.json {
            let (exit, fault, message) = (failure.exit as u8, failure.fault.word().into(), failure.message.clone());
            self.object(&v1::Failure { v: 1, event: "error", exit, fault, message });
        }
    }

    /// Whether a person watches stderr.
    pub fn is_watched(&self) -> bool {
        self.is_chatty() && std::io::stderr().is_terminal()
    }
}
