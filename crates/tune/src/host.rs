//! The one seam through which a host is looked at and changed: files below a root, and what ethtool and rtnetlink say.
//!
//! [`Live`] is this host. [`Recorded`] is a tree of files in its shape, with the answers of ethtool and rtnetlink beside
//! it (`ethtool/NIC/WHAT`, `netlink/NIC/WHAT`, `pagesize`): so hosts that are not here are tried as well.

mod live;
mod recorded;

use std::fmt;
use std::path::Path;

pub use live::Live;
pub use recorded::Recorded;

/// Why a value is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// This host has no such thing.
    Absent,
    /// It may not be read by this user.
    Denied,
    /// It says something that makes no sense, or fails; in words.
    Failed(String),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Absent => f.write_str("this host has no such thing"),
            Unread::Denied => f.write_str("this user may not: try as root"),
            Unread::Failed(why) => f.write_str(why),
        }
    }
}

/// What reading gives.
pub type Known<T> = Result<T, Unread>;

impl From<std::io::Error> for Unread {
    fn from(error: std::io::Error) -> Unread {
        match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Unread::Absent,
            std::io::ErrorKind::PermissionDenied => Unread::Denied,
            _ => Unread::Failed(error.to_string()),
        }
    }
}

/// Bytes of a file of the kernel that are read at most: none that is asked for is longer. The list of all modules is the
/// longest, at about 1 MiB.
pub const FILE_BYTES_MAX: u64 = 1 << 22;

/// A host.
pub trait Host {
    /// The text of a file, without the blanks around it.
    fn read(&self, path: &Path) -> Known<String>;
    /// Names in a directory, sorted.
    fn list(&self, path: &Path) -> Known<Vec<String>>;
    /// Where a link points to, as it is written.
    fn link(&self, path: &Path) -> Known<String>;
    /// What ethtool knows of a NIC.
    fn ethtool(&self, nic: &str, what: &str) -> Known<String>;
    /// What rtnetlink knows of a NIC.
    fn netlink(&self, nic: &str, what: &str) -> Known<String>;
    /// Whether the clock is held to UTC by something outside, and by how much it may be off, in seconds (adjtimex(2)).
    fn clock(&self) -> Known<(bool, f64)>;
    /// Whether this user may write to a file of the kernel.
    fn may_write(&self, path: &Path) -> bool;
    /// Whether this user may change NICs.
    fn may_administer(&self) -> bool;
    /// A file's bytes as they are, blanks and all.
    fn read_exact(&self, path: &Path) -> Known<String>;
    /// Writes a file; of the kernel in one write, of ours as a whole.
    fn write(&self, path: &Path, text: &str) -> Known<()>;
    /// Removes a file of ours; that it is not there is no failure.
    fn remove(&self, path: &Path) -> Known<()>;
    /// Changes what ethtool changes.
    fn set_ethtool(&self, nic: &str, what: &str, value: &str) -> Known<()>;
    /// Changes what rtnetlink changes.
    fn set_netlink(&self, nic: &str, what: &str, value: &str) -> Known<()>;
    /// What a program that belongs to the system says (`systemctl`, `tuned-adm`), its first line.
    fn say(&self, program: &str, words: &[&str]) -> Known<String>;
    /// All that such a program says, which may be nothing; a failure where it did not end well.
    fn say_all(&self, program: &str, words: &[&str]) -> Known<String>;
    /// Bytes of a page of memory: what the kernel counts in pages is many times as much where they are large.
    fn page_bytes(&self) -> Known<u32>;
}

/// The file of a sysctl. Dots between names are slashes; a slash in a name (of a VLAN's interface) stands for a dot.
pub fn sysctl_path(name: &str) -> String {
    let swap = |c: char| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    format!("/proc/sys/{}", name.chars().map(swap).collect::<String>())
}

/// A sysctl's text, or one field of it.
pub fn sysctl(host: &dyn Host, name: &str, field: Option<usize>) -> Known<String> {
    let text = host.read(Path::new(&sysctl_path(name)))?;
    match field {
        None => Ok(text.split_whitespace().collect::<Vec<_>>().join(" ")),
        Some(field) => {
            let found = text.split_whitespace().nth(field).map(str::to_owned);
            found.ok_or_else(|| Unread::Failed(format!("{text:?} has no field {field}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_files() {
        assert_eq!(sysctl_path("net.ipv4.tcp_rmem"), "/proc/sys/net/ipv4/tcp_rmem");
        assert_eq!(sysctl_path("net.ipv4.conf.eth0/7.rp_filter"), "/proc/sys/net/ipv4/conf/eth0.7/rp_filter");
    }
}
