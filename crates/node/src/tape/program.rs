//! A site's program for tape: its input and its output.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::json;

/// Bytes of a line that a program answers.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Bytes of a program's standard error that are reported.
const STDERR_BYTES_MAX: u64 = 1_000;

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapeProgram(Vec<String>);

/// The verb that the program is run with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Recall,
    Archive,
    Release,
    Locality,
}

/// The program's reply for one file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct FileReply {
    pub path: String,
    #[serde(default)]
    pub locality: Option<String>,
    #[serde(default)]
    pub error: Option<String>,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Verb::Recall => "recall",
            Verb::Archive => "archive",
            Verb::Release => "release",
            Verb::Locality => "locality",
        }
    }
}

impl TapeProgram {
    /// Reads a command line, with spaces between its words.
    ///
    /// # Errors
    /// The text has no word.
    pub fn parse(text: &str) -> Result<TapeProgram, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() { Err("tape= names no program".to_owned()) } else { Ok(TapeProgram(words)) }
    }

    /// Runs the program for some files of an export in its directory `dir`, and passes each reply to `each`. The time is bounded by
    /// `within`, if given.
    ///
    /// # Errors
    /// The program cannot be started, takes too long, answers with malformed lines, or ends with an error.
    pub(crate) fn run(
        &self,
        verb: Verb,
        export: &str,
        dir: &Path,
        paths: &[String],
        within: Option<Duration>,
        mut each: impl FnMut(FileReply),
    ) -> Result<(), String> {
        let failed = |why: String| format!("{} {}: {why}", self.0[0], verb.word());
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]).arg(verb.word()).current_dir(dir).env("LONGHAUL_EXPORT", export);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| failed(format!("cannot be started: {error}")))?;
        feed(&mut child, paths);
        let errors = read_stderr(&mut child);
        let read = read_replies(&mut child, within, &mut each);
        if read.is_err() {
            // Its child processes may hold its output open, so the whole process group is killed.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        }
        let ended = child.wait().map_err(|error| failed(error.to_string()))?;
        let errors = errors.join().unwrap_or_default();
        read.map_err(&failed)?;
        if ended.success() {
            return Ok(());
        }
        Err(failed(if errors.is_empty() { format!("ended with {ended}") } else { errors }))
    }
}

/// Writes the paths to a program's input. A program that closes its input early is no error.
fn feed(child: &mut Child, paths: &[String]) {
    let Some(mut to) = child.stdin.take() else { return };
    let mut text = String::new();
    paths.iter().for_each(|path| text.push_str(&format!("{}\n", json!({"path": path}))));
    std::thread::spawn(move || {
        let _ = to.write_all(text.as_bytes());
    });
}

/// Reads the beginning of a program's standard error.
fn read_stderr(child: &mut Child) -> std::thread::JoinHandle<String> {
    let from = child.stderr.take();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut from) = from {
            let _ = (&mut from).take(STDERR_BYTES_MAX).read_to_end(&mut text);
            // The rest is read as well, so that the program does not block.
            let _ = std::io::copy(&mut from, &mut std::io::sink());
        }
        String::from_utf8_lossy(&text).trim().to_owned()
    })
}

/// Reads a program's replies until it closes its output.
fn read_replies(child: &mut Child, within: Option<Duration>, each: &mut impl FnMut(FileReply)) -> Result<(), String> {
    let Some(from) = child.stdout.take() else { return Ok(()) };
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        loop {
            let mut line = Vec::new();
            let read = (&mut from).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) || sender.send(line).is_err() {
                return;
            }
        }
    });
    let deadline = within.map(|within| Instant::now() + within);
    loop {
        let line = match deadline {
            None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => lines.recv_timeout(deadline.saturating_duration_since(Instant::now())),
        };
        match line {
            Ok(line) if line.iter().all(u8::is_ascii_whitespace) => {}
            Ok(line) => each(serde_json::from_slice(&line).map_err(|error| {
                let line = String::from_utf8_lossy(&line).chars().take(80).collect::<String>();
                format!("answers {line:?}, which is not a line of JSON with a path: {error}")
            })?),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => return Err("takes too long".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, within: Option<Duration>) -> Result<Vec<FileReply>, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tape.sh");
        std::fs::write(&file, script).unwrap();
        let program = TapeProgram::parse(&format!("sh {}", file.display())).unwrap();
        let paths = ["a".to_owned(), "b c".to_owned()];
        let mut replies = Vec::new();
        program.run(Verb::Locality, "x", dir.path(), &paths, within, |reply| replies.push(reply))?;
        Ok(replies)
    }

    #[test]
    fn a_program_reads_paths_and_answers_lines() {
        let replies =
            run("cat; echo; echo '{\"path\": \"'$1-$LONGHAUL_EXPORT'\", \"locality\": \"TAPE\"}'", None).unwrap();
        assert_eq!(replies.iter().map(|reply| reply.path.as_str()).collect::<Vec<_>>(), ["a", "b c", "locality-x"]);
        assert_eq!(replies[2].locality.as_deref(), Some("TAPE"));
    }

    #[test]
    fn failures_quote_the_programs_own_words() {
        let wrong = |script: &str| run(script, Some(Duration::from_secs(20))).unwrap_err();
        assert!(wrong("echo no drive >&2; exit 3").contains("locality: no drive"));
        assert!(wrong("exit 3").contains("ended with"));
        assert!(wrong("echo what").contains("not a line of JSON"));
        let began = Instant::now();
        let error = run("sleep 60; true", Some(Duration::from_millis(50))).unwrap_err();
        assert!(error.contains("takes too long"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(30), "the processes that it started are killed too");
        let none = TapeProgram::parse("/nowhere/program").unwrap();
        let error = none.run(Verb::Recall, "x", Path::new("/"), &[], None, |_| ()).unwrap_err();
        assert!(error.contains("cannot be started"), "{error}");
        assert!(TapeProgram::parse(" ").is_err());
    }
}
