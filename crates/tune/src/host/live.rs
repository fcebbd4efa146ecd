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
/// How long a program may take for its first line, or for its whole output: a service manager that hangs must not hold up an audit.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// The interval between checks whether a program has ended, after all of its output.
const STEP: Duration = Duration::from_millis(5);
/// The most bytes of a line of output.
const LINE_BYTES_MAX: u64 = 4_096;
/// The bit of the capability to change the network (capabilities(7)).
const CAP_NET_ADMIN: u32 = 12;

/// This host, with the network of the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live;

/// The result of a system call, with this crate's error.
fn known<T>(result: io::Result<T>) -> HostResult<T> {
    result.map_err(|error| if sys::ethtool::is_absent(&error) { HostError::Absent } else { error.into() })
}

/// The error for a name without a reader: a mistake in the table, which a test rules out.
fn unknown<T>(what: &str) -> HostResult<T> {
    Err(HostError::Failed(format!("this release does not know how to read or change {what}")))
}

/// Parses a whole number.
fn number(value: &str) -> HostResult<u32> {
    value.parse().map_err(|_| HostError::Failed(format!("{value:?} is no number")))
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

    /// Opens and closes the file, which changes nothing: so read-only mounts and the rules of containers count, not only the permission
    /// bits. These count too: root can open files that nobody can write.
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
        String::from_utf8(bytes).map_err(|_| HostError::Failed("it is no text".into()))
    }

    fn write(&self, path: &Path, text: &str) -> HostResult<()> {
        if KERNEL.iter().any(|kernel| path.starts_with(kernel)) { tell(path, text) } else { replace(path, text) }
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

    fn say(&self, program: &str, words: &[&str]) -> HostResult<String> {
        say(program, words, PATIENCE)
    }

    fn say_all(&self, program: &str, words: &[&str]) -> HostResult<String> {
        say_all(program, words, PATIENCE)
    }

    fn page_bytes(&self) -> HostResult<u32> {
        let bytes = rustix::param::page_size();
        u32::try_from(bytes).map_err(|_| HostError::Failed(format!("pages of {bytes} bytes")))
    }
}

/// Writes a file of the kernel, which takes each write as a whole value.
fn tell(path: &Path, text: &str) -> HostResult<()> {
    let written = OpenOptions::new().write(true).open(path)?.write(text.as_bytes())?;
    if written == text.len() {
        Ok(())
    } else {
        Err(HostError::Failed(format!("the kernel took {written} of {} bytes", text.len())))
    }
}

/// Writes a file of this program so that a crash leaves the old or the new one, and never a part. Its temporary name is one that sysctl,
/// systemd and udev do not read.
fn replace(path: &Path, text: &str) -> HostResult<()> {
    let no_file = || HostError::Failed(format!("{} is the name of no file", path.display()));
    let directory = path.parent().ok_or_else(no_file)?;
    let name = path.file_name().ok_or_else(no_file)?;
    fs::create_dir_all(directory)?;
    let on_the_way = directory.join(format!(".{}.new", name.to_string_lossy()));
    let written = || -> io::Result<()> {
        let mut file = File::create(&on_the_way)?;
        // All users may read the settings, whatever the caller's umask is.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&on_the_way, path)?;
        File::open(directory)?.sync_all()
    };
    written().map_err(|error| {
        // The rest of the file is of no use; the error matters.
        let _ = fs::remove_file(&on_the_way);
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
    told: Receiver<io::Result<Vec<u8>>>,
}

/// Starts a program, whose output `hear` reads.
fn started(
    program: &str,
    words: &[&str],
    hear: impl FnOnce(ChildStdout) -> io::Result<Vec<u8>> + Send + 'static,
) -> HostResult<RunningProgram> {
    let mut command = Command::new(program);
    command.args(words).env("PATH", PROGRAMS).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let (tell, told) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        // It has its own thread, since a process that the program left running may keep the output open for ever. If the receiver no longer
        // waits, the result is dropped.
        std::thread::spawn(move || drop(tell.send(hear(out))));
    }
    Ok(RunningProgram { child, told })
}

/// Ends a program whose output is complete, or that takes too long. It may have ended by itself.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn too_slow(program: &str, patience: Duration) -> HostError {
    HostError::Failed(format!("{program} says nothing for {} ms", patience.as_millis()))
}

/// The first line of a program's output. Its exit status is ignored: `systemctl is-active` fails if a service is not active.
fn say(program: &str, words: &[&str], patience: Duration) -> HostResult<String> {
    let first = |out: ChildStdout| {
        let mut line = Vec::new();
        BufReader::new(out.take(LINE_BYTES_MAX)).read_until(b'\n', &mut line).map(|_| line)
    };
    let mut started = started(program, words, first)?;
    let line = started.told.recv_timeout(patience);
    end(&mut started.child);
    let line = line.map_err(|_| too_slow(program, patience))??;
    match String::from_utf8_lossy(&line).trim() {
        "" => Err(HostError::Failed(format!("{program} says nothing"))),
        line => Ok(line.to_owned()),
    }
}

/// The whole output of a program that succeeded; the output of one that failed may be incomplete.
fn say_all(program: &str, words: &[&str], patience: Duration) -> HostResult<String> {
    let began = Instant::now();
    let all = |out: ChildStdout| {
        let mut text = Vec::new();
        out.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map(|_| text)
    };
    let mut started = started(program, words, all)?;
    let text = started.told.recv_timeout(patience);
    let status = text.is_ok().then(|| ended(&mut started.child, began, patience)).flatten();
    end(&mut started.child);
    let text = text.map_err(|_| too_slow(program, patience))??;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(HostError::Failed(format!("{program} says more than {FILE_BYTES_MAX} bytes")));
    }
    match status {
        Some(status) if status.success() => Ok(String::from_utf8_lossy(&text).trim().to_owned()),
        Some(status) => Err(HostError::Failed(format!("{program} fails: {status}"))),
        None => Err(HostError::Failed(format!("{program} does not end within {} ms", patience.as_millis()))),
    }
}

/// The exit status of a program; none if it takes too long.
fn ended(child: &mut Child, began: Instant, patience: Duration) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if began.elapsed() < patience => std::thread::sleep(STEP),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests;
