//! The machines of a document: each a network, mounts and a name of its own, joined by a router that is the test itself.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::Machine;
use crate::https::{authority, certificate};
use crate::node::LONGHAUL;

const ETC: &str = "/etc";
/// The directory of the programs that replace others.
const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/docs/bin");

/// All machines of a document.
pub struct Machines {
    machines: Vec<(&'static str, Child)>,
    dir: TempDir,
}

/// How a script ended.
pub struct ScriptOutput {
    pub code: Option<i32>,
    /// Its output on stdout and stderr, in this order.
    pub out: String,
    pub err: String,
}

fn run(program: &str, words: &[&str]) {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Machines {
    /// Makes the machines, and prepares each. The caller is in a network and mount namespace of its own.
    pub fn new(machines: &[Machine]) -> Machines {
        let dir = tempfile::Builder::new().prefix("docs").tempdir().unwrap();
        let mut started = Machines { machines: Vec::new(), dir };
        // Nodes run as different users, and write keys to files.
        for below in ["", "keys", "shared"] {
            fs::create_dir_all(started.path(below)).unwrap();
            run("chmod", &["777", started.path(below).to_str().unwrap()]);
        }
        started.set_up_etc(machines);
        fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        for machine in machines {
            started.add(machine);
        }
        for machine in machines {
            let ended = started.run(machine.name, machine.prepare);
            assert!(ended.code == Some(0), "preparing {}: {}{}", machine.name, ended.out, ended.err);
        }
        started
    }

    /// A path in the directory of all machines.
    pub fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    /// A path in the home of a machine.
    pub fn home(&self, machine: &str) -> PathBuf {
        self.path(machine).join("home")
    }

    /// Sets up names, users and authorities, which all machines share.
    fn set_up_etc(&self, machines: &[Machine]) {
        let etc = self.path("etc");
        run("cp", &["-a", ETC, etc.to_str().unwrap()]);
        run("mount", &["--bind", etc.to_str().unwrap(), ETC]);
        let addresses = machines.iter().enumerate().map(|(at, machine)| (address(at), machine.name));
        let hosts: String = addresses.map(|(address, name)| format!("{address} {name}\n")).collect();
        fs::write("/etc/hosts", format!("127.0.0.1 localhost host\n::1 localhost\n{hosts}")).unwrap();
        append("/etc/passwd", "data:x:7411:7411::/srv:/bin/sh\n");
        append("/etc/group", "data:x:7411:\n");
        fs::create_dir_all("/etc/ssl/certs").unwrap();
        append("/etc/ssl/certs/ca-certificates.crt", authority());
        let names: Vec<&str> = machines.iter().map(|machine| machine.name).collect();
        let certificate = certificate(&names, &[]);
        fs::create_dir_all("/etc/longhaul").unwrap();
        for name in ["host.pem", "host.key"] {
            fs::write(Path::new("/etc/longhaul").join(name), &certificate).unwrap();
        }
        fs::write("/etc/longhaul/site-ca.pem", authority()).unwrap();
    }

    fn add(&mut self, machine: &Machine) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/docs/machine.sh");
        let mut child = Command::new("unshare")
            .args(["--net", "--mount", "--uts", "--propagation", "private", "sh", script])
            .args([&self.path(machine.name), Path::new(machine.name), &self.path("shared")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{}", machine.name);
        let (at, pid) = (self.machines.len(), child.id().to_string());
        self.machines.push((machine.name, child));
        let (near, there) = (format!("m{at}"), address(at));
        let router = format!("10.7.{at}.1");
        run("ip", &["link", "add", &near, "type", "veth", "peer", "name", "eth0", "netns", &pid]);
        run("ip", &["address", "add", &format!("{router}/24"), "dev", &near]);
        run("ip", &["link", "set", &near, "up"]);
        let inside = |words: &[&str]| run("nsenter", &[&["--target", &pid, "--net", "ip"], words].concat());
        inside(&["address", "add", &format!("{there}/24"), "dev", "eth0"]);
        inside(&["link", "set", "eth0", "up"]);
        inside(&["route", "add", "default", "via", &router]);
        for more in machine.addresses {
            inside(&["address", "add", &format!("{more}/32"), "dev", "eth0"]);
            run("ip", &["route", "add", more, "via", &there]);
        }
        for name in ["host.pem", "host.key", "site-ca.pem"] {
            fs::copy(Path::new("/etc/longhaul").join(name), self.home(machine.name).join(name)).unwrap();
        }
    }

    /// Runs a script in the home of a machine. A prompt for input gets the last key that was granted.
    pub fn run(&self, machine: &str, script: &str) -> ScriptOutput {
        let found = self.machines.iter().find(|(name, _)| *name == machine);
        let pid = found.unwrap_or_else(|| panic!("no machine is called {machine}")).1.id().to_string();
        let name = |kind: &str| self.path(&format!("{machine}.{kind}"));
        let whole = [include_str!("prelude.sh"), script, include_str!("epilogue.sh")].concat();
        fs::write(name("script"), whole).unwrap();
        let (out, err) = (name("out"), name("err"));
        let pasted = File::open(self.path("keys/last")).map_or_else(|_| Stdio::null(), Stdio::from);
        let status = Command::new("nsenter")
            .args(["--target", &pid, "--net", "--mount", "--uts"])
            .arg(format!("--wd={}", self.home(machine).display()))
            .arg("bash")
            .arg(name("script"))
            .env_clear()
            .env("PATH", format!("{PROGRAMS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"))
            .env("HOME", self.home(machine))
            .env("LANG", "C.UTF-8")
            .env("WORLD", self.dir.path())
            .env("MACHINE", machine)
            .env("LONGHAUL_PROGRAM", LONGHAUL)
            .stdin(pasted)
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap())
            .status()
            .unwrap();
        let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        ScriptOutput { code: status.code(), out: read(out), err: read(err) }
    }
}

fn address(at: usize) -> String {
    format!("10.7.{at}.2")
}

fn append(path: &str, text: &str) {
    let had = fs::read_to_string(path).unwrap_or_default();
    fs::write(path, had + text).unwrap();
}

impl Drop for Machines {
    fn drop(&mut self) {
        for file in fs::read_dir(self.dir.path()).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if file.extension().is_some_and(|ending| ending == "node") {
                let pid = fs::read_to_string(file).unwrap_or_default();
                let _ = Command::new("kill").arg(pid.trim()).output();
            }
        }
        for (_, child) in &mut self.machines {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
