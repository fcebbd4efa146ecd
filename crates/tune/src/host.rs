//! The one interface through which a host is read and changed: files below a root, ethtool and rtnetlink.
//!
//! [`Live`] is this host. [`Recorded`] is a tree of the same files, with the answers of ethtool and rtnetlink beside them
//! (`ethtool/NIC/WHAT`, `netlink/NIC/WHAT`, `pagesize`): tests and reports audit other hosts with it.

mod live;
mod recorded;

use std::fmt;
use std::path::Path;

pub use live::Live;
pub use recorded::Recorded;

/// Why a setting of a host cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostError {
    /// This host has no such file, setting or program.
    Absent,
    /// This user may not read or write it.
    Denied,
    /// The read or write failed, or the value is invalid; in words.
    Failed(String),
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::Absent => f.write_str("this host has no such thing"),
            HostError::Denied => f.write_str("this user may not: try as root"),
            HostError::Failed(why) => f.write_str(why),
        }
    }
}

/// The result of reading or writing a setting of a host.
pub type HostResult<T> = Result<T, HostError>;

impl From<std::io::Error> for HostError {
    fn from(error: std::io::Error) -> HostError {
        match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => HostError::Absent,
            std::io::ErrorKind::PermissionDenied => HostError::Denied,
            _ => HostError::Failed(error.to_string()),
        }
    }
}

/// The most bytes that are read of a file of the kernel. The longest file, the list of all modules, has about 1 MiB.
pub const FILE_BYTES_MAX: u64 = 1 << 22;

/// A host.
///
/// # Errors
/// Every method that returns a [`HostResult`] fails with [`HostError`]: absent, denied, or failed.
pub trait Host {
    /// The text of a file, without the blanks around it.
    fn read(&self, path: &Path) -> HostResult<String>;
    /// Names in a directory, sorted.
    fn list(&self, path: &Path) -> HostResult<Vec<String>>;
    /// The target of a symbolic link, as written.
    fn link(&self, path: &Path) -> HostResult<String>;
    /// A setting of a NIC by ethtool.
    fn ethtool(&self, nic: &str, what: &str) -> HostResult<String>;
    /// A setting of a NIC by rtnetlink.
    fn netlink(&self, nic: &str, what: &str) -> HostResult<String>;
    /// Whether the clock is synchronised to UTC, and its largest possible error, in seconds (adjtimex(2)).
    fn clock(&self) -> HostResult<(bool, f64)>;
    /// Whether this user may write to a file of the kernel.
    fn may_write(&self, path: &Path) -> bool;
    /// Whether this user may change NICs.
    fn may_administer(&self) -> bool;
    /// The text of a file, unchanged.
    fn read_exact(&self, path: &Path) -> HostResult<String>;
    /// Writes a file: one of the kernel with a single write, one of this program atomically.
    fn write(&self, path: &Path, text: &str) -> HostResult<()>;
    /// Removes a file of this program, if it exists.
    fn remove(&self, path: &Path) -> HostResult<()>;
    /// Changes a setting of a NIC by ethtool.
    fn set_ethtool(&self, nic: &str, what: &str, value: &str) -> HostResult<()>;
    /// Changes a setting of a NIC by rtnetlink.
    fn set_netlink(&self, nic: &str, what: &str, value: &str) -> HostResult<()>;
    /// The first line of the output of a system program (`systemctl`, `tuned-adm`).
    fn first_output_line(&self, program: &str, words: &[&str]) -> HostResult<String>;
    /// The whole output of a system program, which may be empty; an error if the program failed.
    fn whole_output(&self, program: &str, words: &[&str]) -> HostResult<String>;
    /// The size of a page of memory, bytes: the kernel counts many limits in pages.
    fn page_bytes(&self) -> HostResult<u32>;
}

/// The file of a sysctl. Dots between names become slashes; a slash in a name (of a VLAN's interface) stands for a dot.
pub fn sysctl_path(name: &str) -> String {
    let swap = |c: char| match c {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    format!("/proc/sys/{}", name.chars().map(swap).collect::<String>())
}

/// The text of a sysctl, or one field of it.
///
/// # Errors
/// It cannot be read, or has no such field.
pub fn sysctl(host: &dyn Host, name: &str, field: Option<usize>) -> HostResult<String> {
    let text = host.read(Path::new(&sysctl_path(name)))?;
    match field {
        None => Ok(text.split_whitespace().collect::<Vec<_>>().join(" ")),
        Some(field) => {
            let found = text.split_whitespace().nth(field).map(str::to_owned);
            found.ok_or_else(|| HostError::Failed(format!("{text:?} has no field {field}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctl_names_become_paths() {
        assert_eq!(sysctl_path("net.ipv4.tcp_rmem"), "/proc/sys/net/ipv4/tcp_rmem");
        assert_eq!(sysctl_path("net.ipv4.conf.eth0/7.rp_filter"), "/proc/sys/net/ipv4/conf/eth0.7/rp_filter");
    }
}
