//! A client: the real binary with a state directory of its own, and the outcome of its commands.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::node::LONGHAUL;
use crate::wait::until_some;

/// The longest that any command of the tests may take.
const DEADLINE: Duration = Duration::from_secs(150);

/// Words of a command line, from texts and paths alike.
macro_rules! words {
    ($($word:expr),* $(,)?) => { vec![$(std::ffi::OsString::from(&$word)),*] };
}
pub(crate) use words;

/// A client that runs commands: a state directory, keys, and a directory for files.
pub struct Client {
    program: PathBuf,
    dir: TempDir,
    key: Option<String>,
    runs: AtomicU32,
}

/// A command that is running.
pub struct Running {
    pub child: Child,
    out: PathBuf,
    err: PathBuf,
}

/// How a command ended.
#[derive(Debug)]
pub struct Outcome {
    /// The exit code; 128 and the signal's number where one ended it.
    pub code: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl Client {
    /// A client without a key.
    pub fn new() -> Client {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("files")).unwrap();
        Client { program: PathBuf::from(LONGHAUL), dir, key: None, runs: AtomicU32::new(0) }
    }

    /// A client with keys in the environment.
    pub fn with_key(key: &str) -> Client {
        Client { key: Some(key.into()), ..Client::new() }
    }

    /// Runs a program of another version.
    pub fn with_program(mut self, program: &Path) -> Client {
        self.program = program.to_owned();
        self
    }

    /// The state directory.
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// A path in the directory of its files.
    pub fn path(&self, below: &str) -> PathBuf {
        if below.is_empty() { self.dir.path().join("files") } else { self.dir.path().join("files").join(below) }
    }

    /// Writes a file in the directory of its files, with its parents.
    pub fn write(&self, below: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The command with these arguments, which runs in the directory of its files.
    pub fn command(&self, words: Vec<OsString>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env("LONGHAUL_STATE", self.state()).env_remove("LONGHAUL_KEY").current_dir(self.path(""));
        command.env("XDG_CONFIG_HOME", self.dir.path().join("config"));
        if let Some(key) = &self.key {
            command.env("LONGHAUL_KEY", key);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Starts a command.
    pub fn start(&self, command: Command) -> Running {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let file = |kind: &str| self.dir.path().join(format!("{run}.{kind}"));
        start(command, file("out"), file("err"))
    }

    /// Starts the command with these arguments.
    pub fn begin(&self, words: Vec<OsString>) -> Running {
        self.start(self.command(words))
    }

    /// Runs the command with these arguments to its end.
    pub fn run(&self, words: Vec<OsString>) -> Outcome {
        self.begin(words).finish()
    }

    /// Runs `longhaul cp` with these arguments and `--json`, which must end with this code. Returns the receipt.
    pub fn cp(&self, code: i32, mut words: Vec<OsString>) -> Value {
        words.insert(0, "cp".into());
        words.push("--json".into());
        let outcome = self.run(words).expect(code);
        outcome.json()
    }
}

fn start(mut command: Command, out: PathBuf, err: PathBuf) -> Running {
    let (to_out, to_err) = (File::create(&out).unwrap(), File::create(&err).unwrap());
    let child = command.stdout(to_out).stderr(to_err).spawn().unwrap();
    Running { child, out, err }
}

impl Running {
    /// The whole lines that it has printed on stdout so far.
    pub fn out(&self) -> String {
        let text = String::from_utf8_lossy(&fs::read(&self.out).unwrap()).into_owned();
        text.rfind('\n').map(|end| text[..end].to_owned()).unwrap_or_default()
    }

    /// The text that it has printed on stderr so far.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.err).unwrap()).into_owned()
    }

    /// Waits until the command ends.
    pub fn finish(self) -> Outcome {
        self.finish_within(DEADLINE)
    }

    /// Waits until a slow command ends.
    pub fn finish_within(mut self, within: Duration) -> Outcome {
        let status = until_some("the command ends", within, || self.child.try_wait().unwrap());
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
        let outcome = Outcome { code, out: fs::read(&self.out).unwrap(), err: self.err() };
        assert!(!outcome.err.contains("panicked"), "{outcome:?}");
        outcome
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Outcome {
    /// Stdout as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// Asserts that the command ended with this code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Outcome {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.text(), self.err);
        self
    }

    /// The last object on stdout.
    #[track_caller]
    pub fn json(&self) -> Value {
        let text = self.text();
        let last = text.lines().last().unwrap_or_else(|| panic!("nothing on stdout; stderr: {}", self.err));
        serde_json::from_str(last).unwrap_or_else(|e| panic!("{e} in {last:?}"))
    }

    /// Asserts that the command failed with this code and one sentence that contains all of these words.
    #[track_caller]
    pub fn refused(self, code: i32, saying: &[&str]) -> Outcome {
        let outcome = self.expect(code);
        let sentences = outcome.err.lines().filter(|line| !is_introduction(line)).collect::<Vec<_>>();
        assert_eq!(sentences.len(), 1, "one sentence, not {sentences:#?}");
        saying.iter().for_each(|word| assert!(sentences[0].contains(word), "{word:?} is not in {:?}", sentences[0]));
        outcome
    }
}

/// Whether a line is the note about a node to which the client connects for the first time.
fn is_introduction(line: &str) -> bool {
    line.ends_with("remembered)")
}

/// Names of unfinished files below a directory.
pub fn unfinished(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(unfinished(&entry.path()));
        } else if entry.file_name().as_encoded_bytes().starts_with(b".longhaul-") {
            found.push(entry.path());
        }
    }
    found
}
