//! This host, live.

mod ethtool;
mod netlink;
mod pcie;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::recorded::{names, text};
use super::{FILE_BYTES_MAX, Host, HostError, HostResult};

/// The directories of the kernel's files.
const KERNEL: [&str; 2] = ["/proc", "/sys"];
/// The directories of system programs. The caller's PATH is ignored: this may run as root.
const PROGRAMS: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How long a program may take for its first line, or for its whole output: a service manager that hangs must not block an audit.
const OUTPUT_TIMEOUT: Duration = Duration::from_millis(1_500);
/// The interval between checks whether a program whose output is complete has ended.
const STEP: Duration = Duration::from_millis(5);
/// The most bytes of a line of output.
const LINE_BYTES_MAX: u64 = 4_096;
/// The bit of the capability to change the network (capabilities(7)).
const CAP_NET_ADMIN: u32 = 12;

/// This host, with the network of the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live;

/// The result of a system call, with this crate's error.
fn host_result<T>(result: io::Result<T>) -> HostResult<T> {
    result.map_err(|error| if sys::ethtool::is_absent(&error) { HostError::Absent } else { error.into() })
}

/// The error for a name without a reader: a mistake in the table, which a test rules out.
fn unknown<T>(what: &str) -> HostResult<T> {
    Err(HostError::Failed(format!("this release does not know how to read or change {what}")))
}

/// Parses a whole number.
fn number(value: &str) -> HostResult<u32> {
    value.parse().map_err(|_| HostError::Failed(format!("{value:?} is not a whole number")))
}

impl Host for Live {
    fn read(&self, path: &Path) -> HostResult<String> {
        text(path)
    }

    fn list(&self, path: &Path) -> HostResult<Vec<String>> {
        names(path)
    }

    fn link(&self, path: &Path) -> HostResult<String> {
        Ok(fs::read_link(path)?.to_string_lossy().into_owned())
    }

    fn ethtool(&self, nic: &str, what: &str) -> HostResult<String> {
        match what.strip_prefix("pcie.") {
            Some(what) => pcie::read(Path::new("/sys/class/net"), nic, what),
            None => ethtool::read(nic, what),
        }
    }

    fn netlink(&self, nic: &str, what: &str) -> HostResult<String> {
        netlink::read(nic, what)
    }

    fn clock(&self) -> HostResult<(bool, f64)> {
        let clock = sys::clock_quality::read()?;
        Ok((clock.synchronised, clock.error.as_secs_f64()))
    }

    /// Opens and closes the file, which changes nothing, so that read-only mounts and the restrictions of a container are noticed. The
    /// permission bits are checked as well, since root can open files that nobody may write.
    fn may_write(&self, path: &Path) -> bool {
        let for_anybody = fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o222 != 0);
        for_anybody && OpenOptions::new().write(true).open(path).is_ok()
    }

    fn may_administer(&self) -> bool {
        text(Path::new("/proc/self/status")).is_ok_and(|status| has_capability(&status, CAP_NET_ADMIN))
    }

    fn read_exact(&self, path: &Path) -> HostResult<String> {
        let mut bytes = Vec::new();
        File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        // A part of the file would be written back as if it were the whole.
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(HostError::Failed(format!("it is longer than {FILE_BYTES_MAX} bytes")));
        }
        String::from_utf8(bytes).map_err(|_| HostError::Failed("it is not text".into()))
    }

    fn write(&self, path: &Path, text: &str) -> HostResult<()> {
        if KERNEL.iter().any(|kernel| path.starts_with(kernel)) { write_value(path, text) } else { replace(path, text) }
    }

    fn remove(&self, path: &Path) -> HostResult<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn set_ethtool(&self, nic: &str, what: &str, value: &str) -> HostResult<()> {
        ethtool::write(nic, what, value)
    }

    fn set_netlink(&self, nic: &str, what: &str, value: &str) -> HostResult<()> {
        netlink::write(nic, what, value)
    }

    fn first_output_line(&self, program: &str, words: &[&str]) -> HostResult<String> {
        first_output_line(program, words, OUTPUT_TIMEOUT)
    }

    fn whole_output(&self, program: &str, words: &[&str]) -> HostResult<String> {
        whole_output(program, words, OUTPUT_TIMEOUT)
    }

    fn page_bytes(&self) -> HostResult<u32> {
        let bytes = rustix::param::page_size();
        u32::try_from(bytes).map_err(|_| HostError::Failed(format!("pages of {bytes} bytes")))
    }
}

/// Writes a file of the kernel, which takes each write as a whole value.
fn write_value(path: &Path, text: &str) -> HostResult<()> {
    let written = OpenOptions::new().write(true).open(path)?.write(text.as_bytes())?;
    if written == text.len() {
        Ok(())
    } else {
        Err(HostError::Failed(format!("the kernel took {written} of {} bytes", text.len())))
    }
}

/// Writes a file of this program so that a crash leaves the old file or the new one, never a part. Sysctl, systemd and udev ignore its
/// temporary name.
fn replace(path: &Path, text: &str) -> HostResult<()> {
    let no_file = || HostError::Failed(format!("{} is not the name of a file", path.display()));
    let directory = path.parent().ok_or_else(no_file)?;
    let name = path.file_name().ok_or_else(no_file)?;
    fs::create_dir_all(directory)?;
    let temporary = directory.join(format!(".{}.new", name.to_string_lossy()));
    let written = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        // All users may read the settings, whatever the caller's umask is.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(directory)?.sync_all()
    };
    written().map_err(|error| {
        // The rest of the file is of no use; the error matters.
        let _ = fs::remove_file(&temporary);
        error.into()
    })
}

/// Whether a process has a capability, by its `/proc/PID/status`.
fn has_capability(status: &str, bit: u32) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits >> bit & 1 == 1)
}

/// A running program, and the channel on which its output arrives.
struct RunningProgram {
    child: Child,
    output: Receiver<io::Result<Vec<u8>>>,
}

/// Starts a program, whose output `read_output` reads.
fn start(
    program: &str,
    words: &[&str],
    read_output: impl FnOnce(ChildStdout) -> io::Result<Vec<u8>> + Send + 'static,
) -> HostResult<RunningProgram> {
    let mut command = Command::new(program);
    command.args(words).env("PATH", PROGRAMS).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let (sender, output) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        // Reading has its own thread, since a process that the program left running may keep the output open for ever. If the receiver no
        // longer waits, the result is dropped.
        std::thread::spawn(move || drop(sender.send(read_output(out))));
    }
    Ok(RunningProgram { child, output })
}

/// Ends a program, which may have ended by itself.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn too_slow(program: &str, timeout: Duration) -> HostError {
    HostError::Failed(format!("{program} prints nothing for {} ms", timeout.as_millis()))
}

/// The first line of a program's output. Its exit status is ignored: `systemctl is-active` fails if a service is not active.
fn first_output_line(program: &str, words: &[&str], timeout: Duration) -> HostResult<String> {
    let first = |out: ChildStdout| {
        let mut line = Vec::new();
        BufReader::new(out.take(LINE_BYTES_MAX)).read_until(b'\n', &mut line).map(|_| line)
    };
    let mut running = start(program, words, first)?;
    let line = running.output.recv_timeout(timeout);
    end(&mut running.child);
    let line = line.map_err(|_| too_slow(program, timeout))??;
    match String::from_utf8_lossy(&line).trim() {
        "" => Err(HostError::Failed(format!("{program} prints nothing"))),
        line => Ok(line.to_owned()),
    }
}

/// The whole output of a program that succeeded. The output of one that failed may be incomplete, and is an error.
fn whole_output(program: &str, words: &[&str], timeout: Duration) -> HostResult<String> {
    let began = Instant::now();
    let all = |out: ChildStdout| {
        let mut text = Vec::new();
        out.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map(|_| text)
    };
    let mut running = start(program, words, all)?;
    let text = running.output.recv_timeout(timeout);
    let status = text.is_ok().then(|| wait_for_end(&mut running.child, began, timeout)).flatten();
    end(&mut running.child);
    let text = text.map_err(|_| too_slow(program, timeout))??;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(HostError::Failed(format!("{program} prints more than {FILE_BYTES_MAX} bytes")));
    }
    match status {
        Some(status) if status.success() => Ok(String::from_utf8_lossy(&text).trim().to_owned()),
        Some(status) => Err(HostError::Failed(format!("{program} fails: {status}"))),
        None => Err(HostError::Failed(format!("{program} does not end within {} ms", timeout.as_millis()))),
    }
}

/// The exit status of a program; none if it takes too long.
fn wait_for_end(child: &mut Child, began: Instant, timeout: Duration) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if began.elapsed() < timeout => std::thread::sleep(STEP),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests;
