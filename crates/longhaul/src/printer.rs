//! The only owner of the terminal: results on stdout, messages for people on stderr.

use std::io::{IsTerminal, Write};

use model::name::{show_bytes, show_text};
use model::v1;
use serde::Serialize;

use crate::failure::Failure;

/// The writer of log lines. Text from clients that a line quotes cannot begin a new line or send control sequences to the
/// terminal.
pub struct LogLines {
    /// Lines of JSON are already escaped.
    is_json: bool,
}

impl LogLines {
    /// A factory of writers: for lines of JSON, or for lines that people read.
    pub fn writer(is_json: bool) -> impl Fn() -> LogLines {
        move || LogLines { is_json }
    }
}

impl Write for LogLines {
    /// Writes a whole line at once.
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

/// Prints the output of a command.
pub struct Printer {
    json: bool,
    quiet: bool,
}

impl Printer {
    /// A printer of JSON or of text for people, quiet or not.
    pub fn new(json: bool, quiet: bool) -> Printer {
        Printer { json, quiet }
    }

    /// Whether stdout carries JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Whether progress and receipts are printed as text: neither `--quiet` nor `--json`.
    pub fn is_chatty(&self) -> bool {
        !self.quiet && !self.json
    }

    /// Prints a result line. A closed pipe is not an error.
    pub fn line(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        // A script gets the bytes as they are. A terminal gets no control characters: the text may come from a peer.
        let _ = if out.is_terminal() { writeln!(out, "{}", show_text(text)) } else { writeln!(out, "{text}") };
    }

    /// Prints a page, the whole output of a command. A closed pipe is not an error.
    ///
    /// # Errors
    /// Standard output cannot be written, as on a full disk.
    pub fn page(&self, text: &str) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    /// Prints a JSON object on a line of its own.
    pub fn object(&self, object: &impl Serialize) {
        if let Ok(text) = serde_json::to_string(object) {
            self.line(&text);
        }
    }

    /// Prints a message on stderr, after the program's name.
    pub fn note(text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "longhaul: {}", show_text(text));
    }

    /// Prints a line on stderr, without the program's name.
    pub fn stderr_line(text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{}", show_text(text));
    }

    /// Prints the failure of a command.
    pub fn failure(&self, failure: &Failure) {
        Self::note(&failure.message);
        self.failure_object(failure);
    }

    /// Prints the failure of a command as JSON, if the output is JSON.
    pub fn failure_object(&self, failure: &Failure) {
        if self.json {
            let exit = failure.exit as u8;
            let fault = failure.fault.word().into();
            let message = failure.message.clone();
            self.object(&v1::Failure { v: 1, event: "error", exit, fault, message });
        }
    }

    /// Whether progress is shown on a terminal.
    pub fn is_watched(&self) -> bool {
        self.is_chatty() && std::io::stderr().is_terminal()
    }
}
