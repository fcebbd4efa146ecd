//! This host, as it is.

mod ethtool;
mod netlink;
mod pcie;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::recorded::{names, text};
use super::{FILE_BYTES_MAX, Host, Known, Unread};

/// Where files are the kernel's.
const KERNEL: [&str; 2] = ["/proc", "/sys"];
/// Where programs of the system are. What the caller's PATH says is not asked: this may run as root.
const PROGRAMS: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How long a program may take to say its first line: a service manager that hangs must not hold up an audit.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Bytes of a line that a program says, at most.
const LINE_BYTES_MAX: u64 = 4_096;
/// The bit of a process that may change the network (capabilities(7)).
const CAP_NET_ADMIN: u32 = 12;

/// This host; its network is the one of the thread that asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live;

/// What a system call gives, with the errors in this crate's words.
fn known<T>(result: io::Result<T>) -> Known<T> {
    result.map_err(|error| if sys::ethtool::is_absent(&error) { Unread::Absent } else { error.into() })
}

/// No reader has this name: a mistake in the table, which a test rules out.
fn unknown<T>(what: &str) -> Known<T> {
    Err(Unread::Failed(format!("this release does not know how to read or change {what}")))
}

/// A whole number.
fn number(value: &str) -> Known<u32> {
    value.parse().map_err(|_| Unread::Failed(format!("{value:?} is no number")))
}

impl Host for Live {
    fn read(&self, path: &Path) -> Known<String> {
        text(path)
    }

    fn list(&self, path: &Path) -> Known<Vec<String>> {
        names(path)
    }

    fn link(&self, path: &Path) -> Known<String> {
        Ok(fs::read_link(path)?.to_string_lossy().into_owned())
    }

    fn ethtool(&self, nic: &str, what: &str) -> Known<String> {
        match what.strip_prefix("pcie.") {
            Some(what) => pcie::read(Path::new("/sys/class/net"), nic, what),
            None => ethtool::read(nic, what),
        }
    }

    fn netlink(&self, nic: &str, what: &str) -> Known<String> {
        netlink::read(nic, what)
    }

    fn clock(&self) -> Known<(bool, f64)> {
        let clock = sys::clock_quality::read()?;
        Ok((clock.synchronised, clock.error.as_secs_f64()))
    }

    /// Opened and closed again, which changes nothing: so file systems that are mounted read-only and the rules of
    /// containers count as well, not only the bits of the file. Those count too: root opens what nobody can write.
    fn may_write(&self, path: &Path) -> bool {
        let for_anybody = fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o222 != 0);
        for_anybody && OpenOptions::new().write(true).open(path).is_ok()
    }

    fn may_administer(&self) -> bool {
        text(Path::new("/proc/self/status")).is_ok_and(|status| has_capability(&status, CAP_NET_ADMIN))
    }

    fn read_exact(&self, path: &Path) -> Known<String> {
        let mut bytes = Vec::new();
        File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        // A part of it would be written back as if it were all.
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(Unread::Failed(format!("it is longer than {FILE_BYTES_MAX} bytes")));
        }
        String::from_utf8(bytes).map_err(|_| Unread::Failed("it is no text".into()))
    }

    fn write(&self, path: &Path, text: &str) -> Known<()> {
        if KERNEL.iter().any(|kernel| path.starts_with(kernel)) { tell(path, text) } else { replace(path, text) }
    }

    fn remove(&self, path: &Path) -> Known<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn set_ethtool(&self, nic: &str, what: &str, value: &str) -> Known<()> {
        ethtool::write(nic, what, value)
    }

    fn set_netlink(&self, nic: &str, what: &str, value: &str) -> Known<()> {
        netlink::write(nic, what, value)
    }

    fn say(&self, program: &str, words: &[&str]) -> Known<String> {
        say(program, words)
    }
}

/// Writes a file of the kernel, which takes each write as a whole value.
fn tell(path: &Path, text: &str) -> Known<()> {
    let written = OpenOptions::new().write(true).open(path)?.write(text.as_bytes())?;
    match written == text.len() {
        true => Ok(()),
        false => Err(Unread::Failed(format!("the kernel took {written} of {} bytes", text.len()))),
    }
}

/// Writes a file of ours so that a crash leaves the old one or the new one, and no part of either. The name it has on
/// the way is none that sysctl, systemd or udev read.
fn replace(path: &Path, text: &str) -> Known<()> {
    let no_file = || Unread::Failed(format!("{} is the name of no file", path.display()));
    let directory = path.parent().ok_or_else(no_file)?;
    let name = path.file_name().ok_or_else(no_file)?;
    fs::create_dir_all(directory)?;
    let on_the_way = directory.join(format!(".{}.new", name.to_string_lossy()));
    let written = || -> io::Result<()> {
        let mut file = File::create(&on_the_way)?;
        // Others read what is set, whatever the caller's umask is.
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&on_the_way, path)?;
        File::open(directory)?.sync_all()
    };
    written().map_err(|error| {
        // What is left of it is of no use; why it failed is what counts.
        let _ = fs::remove_file(&on_the_way);
        error.into()
    })
}

/// Whether a process may do something, by its `/proc/PID/status`.
fn has_capability(status: &str, bit: u32) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits >> bit & 1 == 1)
}

/// The first line of a program. How it ends does not count: `systemctl is-active` fails where a service is not active.
fn say(program: &str, words: &[&str]) -> Known<String> {
    let mut command = Command::new(program);
    command.args(words).env("PATH", PROGRAMS).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let (tell, told) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        // A thread of its own, since what the program left running may keep its output open for ever.
        std::thread::spawn(move || {
            let mut line = Vec::new();
            let read = BufReader::new(out.take(LINE_BYTES_MAX)).read_until(b'\n', &mut line);
            // Nobody waits any longer: then nobody wants to know.
            let _ = tell.send(read.map(|_| line));
        });
    }
    let line = told.recv_timeout(PATIENCE);
    // It has said what it had to say, or took too long; that it may have ended by itself is no failure.
    let _ = child.kill();
    let _ = child.wait();
    let line =
        line.map_err(|_| Unread::Failed(format!("{program} says nothing for {} ms", PATIENCE.as_millis())))??;
    match String::from_utf8_lossy(&line).trim() {
        "" => Err(Unread::Failed(format!("{program} says nothing"))),
        line => Ok(line.to_owned()),
    }
}

#[cfg(test)]
mod tests;
