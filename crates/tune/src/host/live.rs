//! This host, as it is.

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
use super::{FILE_BYTES_MAX, Host, Known, Unread};

/// Where files are the kernel's.
const KERNEL: [&str; 2] = ["/proc", "/sys"];
/// Where programs of the system are. What the caller's PATH says is not asked: this may run as root.
const PROGRAMS: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How long a program may take to say its first line, or all of it: a service manager that hangs must not hold up an audit.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// How often a program is asked whether it has ended, after it has said all.
const STEP: Duration = Duration::from_millis(5);
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
        say(program, words, PATIENCE)
    }

    fn say_all(&self, program: &str, words: &[&str]) -> Known<String> {
        say_all(program, words, PATIENCE)
    }

    fn page_bytes(&self) -> Known<u32> {
        let bytes = rustix::param::page_size();
        u32::try_from(bytes).map_err(|_| Unread::Failed(format!("pages of {bytes} bytes")))
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

/// A program that runs, and what comes of reading what it says.
struct Started {
    child: Child,
    told: Receiver<io::Result<Vec<u8>>>,
}

/// Starts a program, whose output `hear` reads.
fn started(
    program: &str,
    words: &[&str],
    hear: impl FnOnce(ChildStdout) -> io::Result<Vec<u8>> + Send + 'static,
) -> Known<Started> {
    let mut command = Command::new(program);
    command.args(words).env("PATH", PROGRAMS).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let (tell, told) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        // A thread of its own, since what the program left running may keep its output open for ever. Where nobody waits
        // any longer, nobody wants to know.
        std::thread::spawn(move || drop(tell.send(hear(out))));
    }
    Ok(Started { child, told })
}

/// Ends a program that has said what it had to say, or takes too long; that it may have ended by itself is no failure.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn too_slow(program: &str, patience: Duration) -> Unread {
    Unread::Failed(format!("{program} says nothing for {} ms", patience.as_millis()))
}

/// The first line of a program. How it ends does not count: `systemctl is-active` fails where a service is not active.
fn say(program: &str, words: &[&str], patience: Duration) -> Known<String> {
    let first = |out: ChildStdout| {
        let mut line = Vec::new();
        BufReader::new(out.take(LINE_BYTES_MAX)).read_until(b'\n', &mut line).map(|_| line)
    };
    let mut started = started(program, words, first)?;
    let line = started.told.recv_timeout(patience);
    end(&mut started.child);
    let line = line.map_err(|_| too_slow(program, patience))??;
    match String::from_utf8_lossy(&line).trim() {
        "" => Err(Unread::Failed(format!("{program} says nothing"))),
        line => Ok(line.to_owned()),
    }
}

/// All that a program says. What one that failed has said may be a part of it.
fn say_all(program: &str, words: &[&str], patience: Duration) -> Known<String> {
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
        return Err(Unread::Failed(format!("{program} says more than {FILE_BYTES_MAX} bytes")));
    }
    match status {
        Some(status) if status.success() => Ok(String::from_utf8_lossy(&text).trim().to_owned()),
        Some(status) => Err(Unread::Failed(format!("{program} fails: {status}"))),
        None => Err(Unread::Failed(format!("{program} does not end within {} ms", patience.as_millis()))),
    }
}

/// How a program ended; none where it takes too long.
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
