//! A real sshd, for one test: its own port, keys and configuration, and a home that is not the user's.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::node::LONGHAUL;
use crate::wait::{LONG, skipped, until};

/// It must be called by its full path.
const SSHD: &str = "/usr/sbin/sshd";

/// A running sshd, and the files that go with it.
pub struct Sshd {
    child: Child,
    pub port: u16,
    host: String,
    dir: TempDir,
}

/// How to start an sshd.
pub struct Setup {
    /// The address to listen on.
    pub host: &'static str,
    /// The words before its command, such as `nsenter` and its options; empty for none.
    pub wrapper: Vec<String>,
    /// Whether commands on the remote host find longhaul.
    pub has_longhaul: bool,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { host: "127.0.0.1", wrapper: Vec::new(), has_longhaul: true }
    }
}

fn keygen(path: &Path) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Sshd {
    /// The usual set-up.
    pub fn start(test: &str) -> Option<Sshd> {
        Sshd::start_as(test, &Setup::default())
    }

    /// Starts an sshd; none where it cannot run, which is reported.
    pub fn start_as(test: &str, setup: &Setup) -> Option<Sshd> {
        if !Path::new(SSHD).exists() || output("ssh", &["-V"]).is_none() {
            skipped(test, "no sshd or ssh (packages openssh-server and openssh-client)");
            return None;
        }
        if rustix::process::geteuid().is_root() {
            // Where the directory is missing, sshd has never been started; it stays empty.
            let _ = fs::create_dir_all("/run/sshd");
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for key in ["host", "user", "stranger"] {
            keygen(&at(key));
        }
        fs::copy(at("user.pub"), at("authorized")).unwrap();
        fs::create_dir(at("home")).unwrap();
        // The port is free; another process may take it meanwhile, and then sshd reports that.
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        fs::write(at("config"), config(dir.path(), setup, port)).unwrap();
        let mut words: Vec<String> = setup.wrapper.clone();
        words.extend([SSHD, "-D", "-e", "-f"].map(str::to_owned));
        let log = fs::File::create(at("log")).unwrap();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(at("config")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().unwrap();
        let mut sshd = Sshd { child, port, host: setup.host.to_owned(), dir };
        until("sshd listens or ends", LONG, || {
            TcpStream::connect((setup.host, port)).is_ok() || sshd.child.try_wait().unwrap().is_some()
        });
        if sshd.child.try_wait().unwrap().is_some() {
            skipped(test, &format!("sshd does not run: {}", sshd.log().trim()));
            return None;
        }
        Some(sshd)
    }

    /// The output of sshd and of the commands below it.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.path().join("log")).unwrap_or_default()).into_owned()
    }

    /// The directory in which commands start there, and which is `~`.
    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    /// `USER@HOST`.
    pub fn login(&self) -> String {
        format!("{}@{}", output("id", &["-un"]).unwrap(), self.host)
    }

    /// A locator of a path on the remote host, as a user types it.
    pub fn at(&self, path: &str) -> String {
        format!("{}:{path}", self.login())
    }

    /// A URL of a path below `~`.
    pub fn sftp(&self, path: &str) -> String {
        let (user, host) = (output("id", &["-un"]).unwrap(), &self.host);
        format!("sftp://{user}@{host}:{}/{path}", self.port)
    }

    /// What `--ssh` takes.
    pub fn command(&self) -> String {
        self.command_with("user", "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR")
    }

    /// The same, with this key and these options.
    pub fn command_with(&self, key: &str, options: &str) -> String {
        let key = self.dir.path().join(key);
        let key = key.display();
        format!("ssh -F /dev/null -p {} -i {key} -o IdentitiesOnly=yes -o BatchMode=yes {options}", self.port)
    }

    /// A list of known hosts in which this host has the key of another one.
    pub fn known_hosts_with_another_key(&self) -> PathBuf {
        let other = fs::read_to_string(self.dir.path().join("stranger.pub")).unwrap();
        let path = self.dir.path().join("known");
        fs::write(&path, format!("[{}]:{} {other}", self.host, self.port)).unwrap();
        path
    }

    /// The processes that are remote ends of copies.
    pub fn remote_ends(&self) -> Vec<String> {
        let state = format!("LONGHAUL_STATE={}", self.dir.path().join("state").display());
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let is_one = |path: &PathBuf| {
            let read =
                |name: &str| String::from_utf8_lossy(&fs::read(path.join(name)).unwrap_or_default()).into_owned();
            let word = |text: &str, wanted: &str| text.split('\0').any(|word| word == wanted);
            word(&read("cmdline"), "far-end") && word(&read("environ"), &state)
        };
        processes.filter(is_one).map(|path| path.display().to_string()).collect()
    }
}

fn config(dir: &Path, setup: &Setup, port: u16) -> String {
    let at = |name: &str| dir.join(name).display().to_string();
    let own = Path::new(LONGHAUL).parent().unwrap().display().to_string();
    let path = if setup.has_longhaul { format!("{own}:/usr/bin:/bin") } else { "/usr/bin:/bin".into() };
    let (home, host, state) = (at("home"), setup.host, at("state"));
    let (host_key, authorized) = (at("host"), at("authorized"));
    // Tests must not write to the home directory of their user.
    let command = format!("cd {home} && eval \"$SSH_ORIGINAL_COMMAND\"");
    format!(
        "ListenAddress {host}:{port}\nHostKey {host_key}\nAuthorizedKeysFile {authorized}\nPidFile none\nUsePAM no\n\
         StrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         SetEnv PATH={path} LONGHAUL_STATE={state} HOME={home}\nForceCommand {command}\nSubsystem sftp /usr/lib/openssh/sftp-server\n"
    )
}

impl Drop for Sshd {
    #[allow(clippy::print_stdout, reason = "the log of sshd belongs to the failed test's own output")]
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("sshd's log:\n{}", self.log());
        }
    }
}
