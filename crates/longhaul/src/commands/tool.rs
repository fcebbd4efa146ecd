//! The output of other programs, bounded in time and size. A missing program is reported in the text.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time that a program may run.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest output that is kept, bytes.
const BYTES_MAX: u64 = 4 << 20;

/// The command line of a program with its output, or with the reason why there is none.
pub fn output_with_command(program: &str, words: &[&str]) -> String {
    let text = output(program, words).unwrap_or_else(|why| format!("({why})\n"));
    format!("$ {program} {}\n{text}\n", words.join(" "))
}

/// The output of a program.
///
/// # Errors
/// The program cannot be run, or fails without any output.
pub fn output(program: &str, words: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).env("LC_ALL", "C.UTF-8");
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let out = child.stdout.take().ok_or("no output")?;
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // The pipe is closed for a program that writes more.
        let _ = out.take(BYTES_MAX).read_to_end(&mut bytes);
        bytes
    });
    let deadline = Instant::now() + TIMEOUT;
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() >= deadline => {
                let _ = child.kill();
                break child.wait().map_err(|error| error.to_string())?;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let text = reader.join().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    if status.success() || !text.is_empty() { Ok(text) } else { Err(format!("{program} ended with {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_reported_and_output_is_bounded() {
        assert!(output_with_command("longhaul-no-such-program", &["x"]).contains("No such file"));
        assert_eq!(output("echo", &["a", "b"]).as_deref(), Ok("a b\n"));
        assert!(output("false", &[]).is_err());
        assert_eq!(output("sh", &["-c", "head -c 9000000 /dev/zero"]).unwrap().len() as u64, BYTES_MAX);
    }
}
