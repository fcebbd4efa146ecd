//! A network namespace of this program, so that all contestants have the same congestion control and the host's settings do not
//! change.
//!
//! The program runs itself again below unshare(1), with the loopback interface up. A namespace's default can only be an
//! algorithm that the host allows; a route can have any that the host has (`congctl`, ip-route(8)). Therefore the loopback
//! routes get the algorithm. A connection is then made to check that it is in force.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Runs this program again in a namespace of its own, with `--inside`. Returns only if that fails.
pub fn enter() -> anyhow::Error {
    let Some(flags) = unshare_flags().into_iter().find(|flags| can_unshare(flags)) else {
        return anyhow::anyhow!("no network namespace can be made (unshare --net needs root or user namespaces)");
    };
    let this_program = match std::env::current_exe() {
        Ok(path) => path,
        Err(error) => return error.into(),
    };
    let mut command = Command::new("unshare");
    command.args(flags).args(["--", "sh", "-c", "ip link set lo up && exec \"$0\" --inside \"$@\""]);
    command.arg(this_program).args(std::env::args_os().skip(1));
    anyhow::Error::from(command.exec()).context("cannot run unshare")
}

fn unshare_flags() -> [&'static [&'static str]; 2] {
    [&["--net"], &["--map-root-user", "--net"]]
}

fn can_unshare(flags: &[&str]) -> bool {
    let mut command = Command::new("unshare");
    command.args(flags).args(["--", "ip", "link", "set", "lo", "up"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Whether a namespace can be made on this machine.
pub fn is_possible() -> bool {
    unshare_flags().into_iter().any(can_unshare)
}

/// Sets the congestion control of all connections over loopback; only in a namespace of this program.
///
/// # Errors
/// The kernel lacks the algorithm, it cannot be set, or connections do not get it.
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
            let settings = ["scope", "host", "src", "127.0.0.1", "congctl", name];
            let status = Command::new("ip").args(words).args(settings).status().context("cannot run ip (iproute2)")?;
            ensure!(status.success(), "ip cannot give the route to {route} a congestion control");
        }
    }
    let (client_end, server_end) = congestion()?;
    if client_end != name || server_end != name {
        bail!("connections have congestion control {client_end} and {server_end}, not {name}");
    }
    Ok(())
}

/// The congestion control of both ends of a connection over loopback.
///
/// # Errors
/// No connection over loopback can be made.
pub fn congestion() -> Result<(String, String)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    Ok((name_of(&client)?, name_of(&server)?))
}

fn name_of(stream: &TcpStream) -> Result<String> {
    let name = socket2::SockRef::from(stream).tcp_congestion()?;
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}
