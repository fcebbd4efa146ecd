//! Reports the state of a service to its supervisor by the protocol of sd_notify(3), which systemd and others speak. Without a
//! supervisor nothing is sent, and a failure to send is ignored.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// Whether stderr goes to systemd's journal, which stores the time of every line (systemd.exec(5)). The variable alone does not
/// prove it: a shell may have inherited it.
pub fn journal_keeps_time() -> bool {
    let journal = std::env::var("JOURNAL_STREAM").ok();
    let stderr = rustix::fs::fstat(std::io::stderr()).ok().map(|stat| format!("{}:{}", stat.st_dev, stat.st_ino));
    journal.is_some() && journal == stderr
}

/// The supervisor of this service, if there is one.
pub struct Supervisor(Option<(UnixDatagram, SocketAddr)>);

impl Supervisor {
    /// The supervisor that the environment names.
    pub fn of_environment() -> Supervisor {
        Supervisor(std::env::var_os("NOTIFY_SOCKET").and_then(|name| Supervisor::at(name.as_bytes())))
    }

    /// A socket, and the address of the supervisor: a path, or an abstract name after an @.
    fn at(name: &[u8]) -> Option<(UnixDatagram, SocketAddr)> {
        let address = match name.strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name),
            None if name.starts_with(b"/") => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)),
            None => return None,
        };
        Some((UnixDatagram::unbound().ok()?, address.ok()?))
    }

    fn send(&self, text: &str) {
        if let Supervisor(Some((socket, to))) = self {
            let _ = socket.send_to_addr(text.as_bytes(), to);
        }
    }

    /// Reports that the service is ready, with a status text for the operator.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", status.replace('\n', " ")));
    }

    /// Reports that the service reads its settings again. A call of `ready` reports the end of this.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let us = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={us}"));
    }

    /// Reports that the service is about to end.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=ending sessions in order");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_at_paths_and_at_abstract_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let hidden = format!("@longhaul-test-{}", std::process::id());
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name =
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&hidden.as_bytes()[1..]).unwrap()).unwrap();
        for (name, socket) in [(path.to_str().unwrap(), by_path), (hidden.as_str(), by_name)] {
            let supervisor = Supervisor(Supervisor::at(name.as_bytes()));
            let received = || {
                let mut bytes = [0; 200];
                let got = socket.recv(&mut bytes).unwrap();
                String::from_utf8_lossy(&bytes[..got]).into_owned()
            };
            supervisor.ready("a\nb");
            assert_eq!(received(), "READY=1\nSTATUS=a b");
            supervisor.reloading();
            assert!(received().starts_with("RELOADING=1\nMONOTONIC_USEC="));
        }
        assert!(Supervisor::at(b"relative").is_none());
        Supervisor(None).stopping();
        assert!(!journal_keeps_time(), "nobody but systemd sets JOURNAL_STREAM");
    }
}
