//! The agent of Net-SNMP on a free port of loopback.

use std::ffi::OsStr;
use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// An agent; it ends with its owner.
pub struct Snmpd {
    child: Child,
    /// Its address.
    pub at: String,
    dir: tempfile::TempDir,
    environment: Vec<(String, std::path::PathBuf)>,
}

impl Snmpd {
    /// An agent with a configuration; none where there is no snmpd, which is reported.
    pub fn start(test: &str, config: &str) -> Option<Snmpd> {
        Snmpd::start_with(test, config, &[])
    }

    /// The same with variables of its environment.
    pub fn start_with(test: &str, config: &str, environment: &[(&str, &Path)]) -> Option<Snmpd> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("snmpd.conf"), config).unwrap();
        // Below the ephemeral ports of the kernel: the agent binds it later.
        let is_free = |port: &u16| UdpSocket::bind(("127.0.0.1", *port)).is_ok();
        let port = std::iter::repeat_with(|| fastrand::u16(20_000..32_000)).find(is_free).unwrap();
        let at = format!("127.0.0.1:{port}");
        let environment: Vec<_> =
            environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let Some(child) = spawn(&at, dir.path(), &environment) else {
            skipped(test, "there is no snmpd (scripts/setup.sh installs it)");
            return None;
        };
        Some(Snmpd { child, at, dir, environment })
    }

    /// Ends the agent, and starts it again with the same files.
    #[allow(dead_code, reason = "not all tests restart it")]
    pub fn restart(&mut self) {
        self.end();
        self.child = spawn(&self.at, self.dir.path(), &self.environment).unwrap();
    }

    /// Ends the agent, and removes what it remembers of its identity and its restarts: it has a new identity after the next restart.
    #[allow(dead_code, reason = "not all tests need it")]
    pub fn forget_identity(&mut self) {
        self.end();
        std::fs::remove_dir_all(self.dir.path().join("state")).unwrap();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Snmpd {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(at: &str, dir: &Path, environment: &[(String, std::path::PathBuf)]) -> Option<Child> {
    let program = |program: &&str| Command::new(program).arg("-v").output().is_ok();
    let mut command = Command::new(["/usr/sbin/snmpd", "snmpd"].into_iter().find(program)?);
    command.args(["-f", "-Ln", "-C", "-c"]).arg(dir.join("snmpd.conf")).arg(format!("udp:{at}"));
    command.env("SNMP_PERSISTENT_DIR", dir.join("state"));
    command.envs(environment.iter().map(|(name, value)| (OsStr::new(name), value)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}
