//! Tests that start themselves again under a wrapper program: in a namespace of their own, or as an ordinary user.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::wait::skipped;

/// Set in the process that a test started to run itself in.
const INSIDE: &str = "LONGHAUL_E2E_INSIDE";
const NAMESPACE: &[&str] = &["unshare", "--mount", "--propagation", "private"];
/// Where an ordinary user may be root of a namespace, this suffices to mount a tmpfs in it.
const USER_NAMESPACE: &[&str] = &["unshare", "--map-root-user", "--mount", "--propagation", "private"];
/// A network namespace, which ends with its processes. Mounts too: files below /sys describe the network.
const NETWORK: &[&str] = &["unshare", "--net", "--mount", "--propagation", "private"];
const NOBODY: &[&str] = &["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];

/// Runs the body of the named test in a namespace in which it may mount; the mounts end with it.
pub fn with_mounts(test: &str, body: fn()) {
    let root = rustix::process::geteuid().is_root();
    run_in_wrapper(if root { NAMESPACE } else { USER_NAMESPACE }, test, body);
}

/// Runs the body of the named test in a network of its own.
pub fn with_network(test: &str, body: fn()) {
    run_in_wrapper(NETWORK, test, body);
}

/// Runs the body of the named test as an ordinary user, who may not read everything.
pub fn as_nobody(test: &str, body: fn()) {
    if rustix::process::geteuid().is_root() { run_in_wrapper(NOBODY, test, body) } else { body() }
}

fn run_in_wrapper(wrapper: &[&str], test: &str, body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let this = std::env::current_exe().unwrap();
    let wrapped = |arguments: &[&str]| {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(&this).args(arguments).env(INSIDE, "1").output()
    };
    match wrapped(&["--list"]) {
        Ok(output) if output.status.success() => {}
        Ok(output) => return skipped(test, String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => return skipped(test, &format!("{}: {error}", wrapper[0])),
    }
    let output = wrapped(&["--exact", test, "--nocapture"]).unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for line in err.lines().filter(|line| line.starts_with("SKIPPED: ")) {
        skipped(test, line.trim_start_matches("SKIPPED: "));
    }
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

/// A mount that is unmounted when dropped, so that the directory around it can be removed.
pub struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a process that still has it open keeps it until then.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Mounts a tmpfs; reports why, where that fails.
pub fn mounted(at: &Path, options: &str, test: &str) -> Option<Mount> {
    std::fs::create_dir_all(at).unwrap();
    let output = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).output();
    match output {
        Ok(output) if output.status.success() => return Some(Mount(at.to_owned())),
        Ok(output) => skipped(test, String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => skipped(test, &format!("mount: {error}")),
    }
    None
}

/// Makes a mount read-only.
pub fn make_read_only(at: &Path) {
    assert!(Command::new("mount").args(["-o", "remount,bind,ro"]).arg(at).status().unwrap().success());
}
