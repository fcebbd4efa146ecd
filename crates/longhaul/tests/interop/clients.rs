//! Runs a client to its end, or to a time limit, and returns its output.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The longest that any client of the cases may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// Whether a program can be run.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// The output of a client, and how it ended.
#[derive(Debug)]
pub struct ClientOutput {
    words: String,
    /// The exit code; 128 and the signal's number where one ended it.
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Runs a command; its output goes to files of this name.
pub fn run(command: Command, files: &Path) -> ClientOutput {
    run_for(PATIENCE, command, files)
}

/// Runs a command with a time limit of its own.
pub fn run_for(patience: Duration, mut command: Command, files: &Path) -> ClientOutput {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words = words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    let (out, err) = (files.with_extension("out"), files.with_extension("err"));
    command.stdin(Stdio::null()).stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{words}: {error}"));
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > patience {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{words}: not over after {patience:?}; it printed {}", text(&err));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
    ClientOutput { words, code, out: text(&out), err: text(&err) }
}

fn text(path: &PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

impl ClientOutput {
    /// Asserts that it ended with success.
    #[track_caller]
    pub fn expect_success(self) -> ClientOutput {
        self.expect_code(0)
    }

    /// Asserts that it ended with this code.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> ClientOutput {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// Asserts that it failed.
    #[track_caller]
    pub fn expect_failure(self) -> ClientOutput {
        assert_ne!(self.code, 0, "{self:#?}");
        self
    }

    /// Asserts that it printed this on stdout or stderr, in any case of letters.
    #[track_caller]
    pub fn expect_text(self, what: &str) -> ClientOutput {
        let printed = format!("{}\n{}", self.out, self.err).to_lowercase();
        assert!(printed.contains(&what.to_lowercase()), "{what:?} is not printed: {self:#?}");
        self
    }

    /// Asserts that it did not print this.
    #[track_caller]
    pub fn expect_without(self, what: &str) -> ClientOutput {
        let printed = format!("{}\n{}", self.out, self.err).to_lowercase();
        assert!(!printed.contains(&what.to_lowercase()), "{what:?} is printed: {self:#?}");
        self
    }

    /// The lines of stdout.
    pub fn lines(&self) -> Vec<&str> {
        self.out.lines().map(str::trim).collect()
    }
}

/// An answer, as curl wrote it to files: the last one where there were several.
pub struct Reply {
    words: String,
    pub status: u16,
    pub version: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub verbose: String,
}

impl fmt::Debug for Reply {
    /// All but the middle of a long body.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beginning = String::from_utf8_lossy(&self.body[..self.body.len().min(1000)]);
        f.debug_struct("Reply")
            .field("words", &self.words)
            .field("status", &self.status)
            .field("version", &self.version)
            .field("headers", &self.headers)
            .field("body_bytes", &self.body.len())
            .field("body", &beginning)
            .field("verbose", &self.verbose)
            .finish()
    }
}

impl Reply {
    /// Reads what `curl -D HEAD -o BODY` left.
    pub fn read(seen: ClientOutput, head: &Path, body: &Path) -> Reply {
        let text = String::from_utf8_lossy(&fs::read(head).unwrap_or_default()).replace("\r\n", "\n");
        let last = text.split("\n\n").filter(|block| block.starts_with("HTTP/")).last();
        let last = last.unwrap_or_else(|| panic!("no answer: {seen:#?}"));
        let mut lines = last.lines();
        let mut first = lines.next().unwrap().split_whitespace();
        let (version, status) = (first.next().unwrap().to_owned(), first.next().unwrap().parse().unwrap());
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect();
        let body = fs::read(body).unwrap_or_default();
        Reply { words: seen.words, status, version, headers, body, verbose: seen.err }
    }

    /// Asserts that it has this status.
    #[track_caller]
    pub fn expect_status(self, status: u16) -> Reply {
        self.expect_one_of(&[status])
    }

    /// Asserts that it has one of these statuses.
    #[track_caller]
    pub fn expect_one_of(self, statuses: &[u16]) -> Reply {
        assert!(statuses.contains(&self.status), "not {statuses:?}: {self:#?}");
        self
    }

    /// A header's value; values where it is there several times, joined by commas.
    pub fn header(&self, name: &str) -> Option<String> {
        let values: Vec<&str> = self.headers.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// Asserts that a header contains this, in any case of letters.
    #[track_caller]
    pub fn expect_header_part(self, name: &str, part: &str) -> Reply {
        let value = self.header(name).unwrap_or_default();
        assert!(value.to_lowercase().contains(&part.to_lowercase()), "{name} without {part:?}: {self:#?}");
        self
    }

    /// Asserts that a header is exactly this.
    #[track_caller]
    pub fn expect_header(self, name: &str, value: &str) -> Reply {
        assert_eq!(self.header(name).as_deref(), Some(value), "{name}: {self:#?}");
        self
    }

    /// Asserts that the body is exactly this.
    #[track_caller]
    pub fn expect_body(self, body: &[u8]) -> Reply {
        assert!(self.body == body, "another body: {self:#?}");
        self
    }

    /// Asserts that the body does not contain this.
    #[track_caller]
    pub fn expect_without(self, what: &str) -> Reply {
        assert!(!self.text().contains(what), "{what:?} is printed: {self:#?}");
        self
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}
