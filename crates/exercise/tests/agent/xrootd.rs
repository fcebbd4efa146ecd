//! A server of XRootD with one directory.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A running server, which ends when it is dropped.
pub struct XrootdFixture {
    process: Child,
    directory: TempDir,
    port: u16,
}

impl XrootdFixture {
    /// A server with a file `f`; none if server or client are not installed.
    pub fn start(content: &[u8]) -> Option<XrootdFixture> {
        Command::new("xrdcp").arg("--version").stderr(Stdio::null()).status().ok()?;
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let path = directory.path().display();
        let config =
            format!("xrd.port {port}\nall.export {path}/data\nall.adminpath {path}/admin\nall.pidpath {path}/admin\n");
        // The server refuses to run as root, so another user must be able to write here.
        for name in ["", "data", "admin"] {
            let below = directory.path().join(name);
            fs::create_dir_all(&below).unwrap();
            fs::set_permissions(&below, fs::Permissions::from_mode(0o777)).unwrap();
        }
        fs::write(directory.path().join("config"), config).unwrap();
        fs::write(directory.path().join("data/f"), content).unwrap();
        let mut command = Command::new("xrootd");
        if rustix::process::geteuid().is_root() {
            command.args(["-R", "nobody"]);
        }
        command.arg("-c").arg(directory.path().join("config")).arg("-l").arg(directory.path().join("admin/log"));
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
        let server = XrootdFixture { process, directory, port };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "xrootd does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(server)
    }

    pub fn url(&self, name: &str) -> String {
        format!("root://127.0.0.1:{}/{}/data/{name}", self.port, self.directory.path().display())
    }

    pub fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.directory.path().join("data").join(name)).unwrap()
    }
}

impl Drop for XrootdFixture {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
