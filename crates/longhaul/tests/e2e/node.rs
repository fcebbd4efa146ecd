//! A node: the real binary, serving directories of its own on a free port until it is dropped.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::wait::{LONG, until};

/// The program under test.
pub const LONGHAUL: &str = env!("CARGO_BIN_EXE_longhaul");

/// Sends a signal to a child that has not been waited for.
pub fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits until a started node prints the address on which it listens; returns the line as an error where it prints something else.
pub fn listening(child: &mut Child) -> Result<SocketAddr, String> {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.trim_end().strip_prefix("listening on ").and_then(|address| address.parse().ok()).ok_or(line)
}

/// A node that a test starts by a command line of its own; it ends when it is dropped.
pub struct Serving {
    pub child: Child,
    pub address: SocketAddr,
}

impl Serving {
    /// Starts `longhaul serve`, or a program that executes it.
    #[track_caller]
    pub fn start(command: &mut Command) -> Serving {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let address = listening(&mut child).unwrap_or_else(|line| panic!("the node printed {line:?}"));
        Serving { child, address }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // An error means that it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node before its start: its directory, with `state` and `data` below it, and its options.
pub struct Setup {
    program: PathBuf,
    dir: TempDir,
    state: PathBuf,
    host: &'static str,
    args: Vec<OsString>,
    descriptors: Option<u32>,
}

impl Setup {
    /// A node without exports that admits no client.
    pub fn new() -> Setup {
        Setup::in_dir(tempfile::tempdir().unwrap())
    }

    /// Such a node with its directory in memory.
    pub fn in_memory() -> Setup {
        Setup::in_dir(tempfile::tempdir_in("/dev/shm").unwrap())
    }

    fn in_dir(dir: TempDir) -> Setup {
        fs::create_dir(dir.path().join("data")).unwrap();
        let (program, state) = (PathBuf::from(LONGHAUL), dir.path().join("state"));
        Setup { program, state, dir, host: "127.0.0.1", args: Vec::new(), descriptors: None }
    }

    /// The directory that the export `data` serves.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// The state directory.
    pub fn state(&self) -> PathBuf {
        self.state.clone()
    }

    /// Runs a program of another version.
    pub fn with_program(mut self, program: &Path) -> Setup {
        self.program = program.to_owned();
        self
    }

    /// Uses another node's state.
    pub fn with_state(mut self, state: &Path) -> Setup {
        self.state = state.to_owned();
        self
    }

    /// Listens on all IPv4 addresses, as public nodes do.
    pub fn on_all_addresses(mut self) -> Setup {
        self.host = "0.0.0.0";
        self
    }

    /// Listens on all addresses of IPv4 and IPv6.
    pub fn on_both_families(mut self) -> Setup {
        self.host = "[::]";
        self
    }

    /// Exports a directory.
    pub fn export(self, name: &str, dir: &Path, mode: &str) -> Setup {
        self.arg("--export").arg(format!("{name}={}:{mode}", dir.display()))
    }

    /// Exports `data`.
    pub fn data_export(self, mode: &str) -> Setup {
        let data = self.data();
        self.export("data", &data, mode)
    }

    /// Limits the number of its descriptors, which it cannot raise.
    pub fn descriptors(mut self, most: u32) -> Setup {
        self.descriptors = Some(most);
        self
    }

    /// Adds an argument to its command line.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Setup {
        self.args.push(arg.into());
        self
    }

    /// Permits anonymous clients to order copies to and from other hosts.
    pub fn anonymous_may_copy(self) -> Setup {
        fs::create_dir_all(&self.state).unwrap();
        fs::write(self.state.join("access.toml"), "[third_party]\nguests = true\n").unwrap();
        self
    }

    /// Permits macaroons and signed links.
    pub fn with_macaroons(self) -> Setup {
        fs::create_dir_all(&self.state).unwrap();
        fs::write(self.state.join("access.toml"), "[macaroons]\n").unwrap();
        self
    }

    /// Starts the node.
    pub fn start(self) -> Node {
        let (child, port) = self.spawn(0);
        Node { child, port, setup: self }
    }

    fn program(&self) -> Command {
        let Some(most) = self.descriptors else { return Command::new(&self.program) };
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("ulimit -n {most} && exec \"$0\" \"$@\"")).arg(&self.program);
        shell
    }

    fn spawn(&self, port: u16) -> (Child, u16) {
        let log = File::options().append(true).create(true).open(self.dir.path().join("log")).unwrap();
        let mut child = self
            .program()
            .args(["serve", "--listen", &format!("{}:{port}", self.host), "--state"])
            .arg(&self.state)
            .args(&self.args)
            .env_remove("LONGHAUL_KEY")
            .env_remove("LONGHAUL_STATE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let log = || fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        let address =
            listening(&mut child).unwrap_or_else(|line| panic!("the node printed {line:?}; its log: {}", log()));
        assert!(address.to_string().starts_with(self.host), "{address} is not on {}", self.host);
        (child, address.port())
    }
}

/// A running node. Its `data` directory is exported under that name where the set-up orders that.
pub struct Node {
    child: Child,
    pub port: u16,
    setup: Setup,
}

impl Node {
    /// A node whose anonymous clients may read and write `data`, and copy to and from other hosts.
    pub fn open() -> Node {
        Setup::new().data_export("rw").arg("--anonymous").arg("rw").anonymous_may_copy().start()
    }

    /// A node that admits only clients with a key.
    pub fn closed() -> Node {
        Setup::new().data_export("rw").start()
    }

    /// A path below the directory of `data`.
    pub fn data(&self, below: &str) -> PathBuf {
        if below.is_empty() { self.setup.data() } else { self.setup.data().join(below) }
    }

    /// The state directory.
    pub fn state(&self) -> PathBuf {
        self.setup.state()
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A locator of a path on this node.
    pub fn at(&self, path: &str) -> String {
        format!("lh://127.0.0.1:{}/{path}", self.port)
    }

    /// The text that it wrote to stderr so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.setup.dir.path().join("log")).unwrap_or_default()).into_owned()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Open descriptors of its process.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Kills its process.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to stop and returns its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        signal(&self.child, Signal::TERM);
        let mut status = None;
        until("the node has stopped", LONG, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }

    /// Sends it a signal.
    pub fn signal(&self, which: Signal) {
        signal(&self.child, which);
    }

    /// Stops its process without closing its connections.
    pub fn freeze(&self) {
        signal(&self.child, Signal::STOP);
    }

    /// Continues its stopped process.
    pub fn thaw(&self) {
        signal(&self.child, Signal::CONT);
    }

    /// Starts it again on its old port.
    pub fn restart(&mut self) {
        self.kill();
        let (child, port) = self.setup.spawn(self.port);
        assert_eq!(port, self.port);
        self.child = child;
    }

    /// Starts it again on its old port, as a program of another version.
    pub fn restart_as(&mut self, program: &Path) {
        self.setup.program = program.to_owned();
        self.restart();
    }

    /// Makes a key by `longhaul grant` with these options.
    pub fn grant(&self, options: &[&str]) -> String {
        let output = self.grant_command(options);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().last().unwrap().to_owned()
    }

    /// Runs `longhaul grant` with these arguments on this node's state.
    pub fn grant_command(&self, words: &[&str]) -> std::process::Output {
        let mut command = Command::new(&self.setup.program);
        command.arg("grant").args(words).arg("--state").arg(self.state()).env_remove("LONGHAUL_KEY").output().unwrap()
    }

    /// Whether nothing at all is below `data`.
    pub fn is_empty(&self) -> bool {
        fs::read_dir(self.data("")).unwrap().next().is_none()
    }
}

impl Drop for Node {
    #[allow(clippy::print_stdout, reason = "the node's log belongs to the failed test's own output")]
    fn drop(&mut self) {
        self.kill();
        let log = self.log();
        if !std::thread::panicking() {
            assert!(!log.contains("panicked"), "the node's log:\n{log}");
        } else {
            println!("the node's log:\n{log}");
        }
    }
}
