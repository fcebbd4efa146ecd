//! A network namespace of our own, so that one congestion control holds for everybody and the host's settings stay as
//! they are.
//!
//! The program runs itself again below unshare(1), with the loopback interface up. Only algorithms that the host allows
//! can be a namespace's default; any that it has can be a route's (`congctl`, ip-route(8)), so the loopback routes get
//! it, and a connection is made to see whether it holds.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Runs this program again in a namespace of its own, with `--inside`. Comes back only if that cannot be.
pub fn enter() -> anyhow::Error {
    let Some(flags) = ways().into_iter().find(|flags| works(flags)) else {
        return anyhow::anyhow!("no network namespace can be made (unshare --net needs root or user namespaces)");
    };
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return error.into(),
    };
    let mut command = Command::new("unshare");
    command.args(flags).args(["--", "sh", "-c", "ip link set lo up && exec \"$0\" --inside \"$@\""]);
    command.arg(own).args(std::env::args_os().skip(1));
    anyhow::Error::from(command.exec()).context("cannot run unshare")
}

fn ways() -> [&'static [&'static str]; 2] {
    [&["--net"], &["--map-root-user", "--net"]]
}

fn works(flags: &[&str]) -> bool {
    let mut command = Command::new("unshare");
    command.args(flags).args(["--", "ip", "link", "set", "lo", "up"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Whether a namespace can be made here.
pub fn is_possible() -> bool {
    ways().into_iter().any(works)
}

/// Gives all connections over loopback this congestion control; only in a namespace of our own.
pub fn set_congestion(name: &str) -> Result<()> {
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    ensure!(
        available.split_whitespace().any(|known| known == name),
        "this kernel has no congestion control {name}, only {}",
        available.trim()
    );
    if fs::write(Path::new("/proc/sys/net/ipv4/tcp_congestion_control"), name).is_err() {
        for route in ["127.0.0.0/8", "127.0.0.1"] {
            let words = ["route", "replace", "local", route, "dev", "lo", "table", "local", "proto", "kernel"];
            let rest = ["scope", "host", "src", "127.0.0.1", "congctl", name];
            let status = Command::new("ip").args(words).args(rest).status().context("cannot run ip (iproute2)")?;
            ensure!(status.success(), "ip cannot give the route to {route} a congestion control");
        }
    }
    let (here, there) = congestion()?;
    if here != name || there != name {
        bail!("connections have congestion control {here} and {there}, not {name}");
    }
    Ok(())
}

/// The congestion control of both ends of a connection over loopback.
pub fn congestion() -> Result<(String, String)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let caller = TcpStream::connect(listener.local_addr()?)?;
    let (called, _) = listener.accept()?;
    Ok((name_of(&caller)?, name_of(&called)?))
}

fn name_of(stream: &TcpStream) -> Result<String> {
    let name = socket2::SockRef::from(stream).tcp_congestion()?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}
