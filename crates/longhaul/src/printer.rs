//! The one owner of the terminal: results on stdout, words for people on stderr.

use std::io::{IsTerminal, Write};

use model::name::{show_bytes, show_text};
use model::v1;
use serde::Serialize;

use crate::failure::Failure;

/// Where log lines go: what they quote of strangers begins no line of its own and steers no terminal.
pub struct LogLines {
    /// JSON has an escape of its own for what stands in a text.
    is_json: bool,
}

impl LogLines {
    /// Makes them: in JSON, or for people.
    pub fn writer(is_json: bool) -> impl Fn() -> LogLines {
        move || LogLines { is_json }
    }
}

impl Write for LogLines {
    /// A line is written whole.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if self.is_json {
            return std::io::stderr().write(line);
        }
        let (text, end) = line.strip_suffix(b"\n").map_or((line, ""), |text| (text, "\n"));
        std::io::stderr().lock().write_all((show_bytes(text) + end).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

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
        let mut out = std::io::stdout().lock();
        // A script gets what there is; a terminal must not be steered by what a stranger says.
        let _ = match out.is_terminal() {
            true => writeln!(out, "{}", show_text(text)),
            false => writeln!(out, "{text}"),
        };
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
        let _ = writeln!(std::io::stderr().lock(), "longhaul: {}", show_text(text));
    }

    /// A line for people in a form of its own.
    pub fn say(text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{}", show_text(text));
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
