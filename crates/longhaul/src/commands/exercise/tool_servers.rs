//! Servers of other tools in a lab: in a comparison the old tool speaks to the server that it always spoke to, and both serve the same files.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::Path;

use crate::emulated::{Launcher, Process};
use crate::failure::Failure;

const RSYNC: &str = "rsync";
const XRDCP: &str = "xrdcp";
const RSYNC_PORT: u16 = 873;
const XROOTD_PORT: u16 = 1094;
/// The name of rsync's module.
const MODULE: &str = "exercise";
/// The user and the group `nobody`: xrootd does not serve as root.
const NOBODY: u32 = 65_534;

/// A server at a site.
pub struct ToolServer {
    /// The URL of the directory of all scratch places.
    pub url: String,
    _process: Process,
}

/// The tool, if it needs a server of its own; the others fetch from the node.
pub fn with_server(tool: &str) -> Option<&'static str> {
    [RSYNC, XRDCP].into_iter().find(|known| *known == tool)
}

/// Starts the server of a tool at a site, which serves a directory.
///
/// # Errors
/// Its program is not installed, or does not listen.
pub fn start(tool: &'static str, launcher: &Launcher<'_>, site: &str, directory: &Path) -> Result<ToolServer, Failure> {
    let name = format!("{tool}-{site}");
    let own = launcher.dir.join(&name);
    fs::create_dir_all(&own).map_err(|error| cannot("make a directory", &error))?;
    let port = if tool == RSYNC { RSYNC_PORT } else { XROOTD_PORT };
    let listen = launcher.network.listen(site, port)?;
    let listen: SocketAddr = listen.parse().map_err(|error| Failure::local(format!("{listen}: {error}")))?;
    let (words, url) = match tool {
        RSYNC => (rsync_daemon(&own, directory, listen)?, format!("rsync://{listen}/{MODULE}")),
        _ => (xrootd(&own, directory, listen)?, format!("root://{listen}/{}", directory.display())),
    };
    let process = launcher.serve_by(site, &name, &words, listen)?;
    Ok(ToolServer { url, _process: process })
}

/// The command of rsync's daemon.
fn rsync_daemon(own: &Path, directory: &Path, listen: SocketAddr) -> Result<Vec<String>, Failure> {
    let configuration = own.join("rsyncd.conf");
    let text = format!(
        "use chroot = no\nuid = root\ngid = root\nreverse lookup = no\n[{MODULE}]\npath = {}\nread only = yes\n",
        directory.display()
    );
    fs::write(&configuration, text).map_err(|error| cannot("write a configuration", &error))?;
    let words = [RSYNC, "--daemon", "--no-detach", "--config"].map(str::to_owned).into_iter();
    let address = [format!("--address={}", listen.ip()), format!("--port={}", listen.port())];
    Ok(words.chain([configuration.display().to_string()]).chain(address).collect())
}

/// The command of xrootd. It runs as nobody, and may read the files of this user.
fn xrootd(own: &Path, directory: &Path, listen: SocketAddr) -> Result<Vec<String>, Failure> {
    let configuration = own.join("xrootd.cfg");
    let text = format!(
        "all.export {} r/o\nxrd.port {}\nxrd.network nodnr\nall.adminpath {own}\nall.pidpath {own}\n",
        directory.display(),
        listen.port(),
        own = own.display()
    );
    fs::write(&configuration, text).map_err(|error| cannot("write a configuration", &error))?;
    chown(own, Some(NOBODY), Some(NOBODY)).map_err(|error| cannot("give a directory to nobody", &error))?;
    let user = NOBODY.to_string();
    let words = [
        "setpriv",
        "--reuid",
        &user,
        "--pdeathsig",
        "KILL",
        "--regid",
        &user,
        "--clear-groups",
        "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search",
        "xrootd",
        "-I",
        "v4",
        "-n",
        "exercise",
        "-l",
    ];
    let files = [own.join("log").display().to_string(), "-c".to_owned(), configuration.display().to_string()];
    Ok(words.map(str::to_owned).into_iter().chain(files).collect())
}

fn cannot(what: &str, error: &std::io::Error) -> Failure {
    Failure::local(format!("cannot {what}: {error}"))
}
