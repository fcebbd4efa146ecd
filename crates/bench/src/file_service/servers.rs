//! The servers: a node and an xrootd with the same files. Each serves in clear and in TLS, on one port.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail};

use super::{MeasuredProtocol, ServerKind};
use crate::account::Accounts;
use crate::data::open_to_all;
use crate::pki::Pki;
use crate::process::Server;

/// The inputs for starting servers.
#[derive(Clone, Debug)]
pub struct ServerStarter {
    /// The longhaul binary.
    pub longhaul: PathBuf,
    /// Whether a second xrootd stands in Longhaul's place.
    pub stand_in: bool,
    /// The scratch directory. All servers show its `files/data` as `/data`.
    pub scratch: PathBuf,
    /// Certificates.
    pub pki: Pki,
}

/// The policy of the node: third-party copies with servers on this machine are permitted.
const ACCESS: &str = "[third_party]\nlocal = true\nguests = true\n";

impl ServerStarter {
    /// The directory that all servers show as `/data`.
    pub fn data(&self) -> PathBuf {
        self.scratch.join("files/data")
    }

    /// Starts a server under a name of its own; `core` pins it to one processor.
    ///
    /// # Errors
    /// Its configuration cannot be written, or it does not listen in time.
    pub fn start(&self, kind: ServerKind, name: &str, accounts: &Accounts, core: Option<usize>) -> Result<Server> {
        let port = port_outside_client_range()?;
        let mut words = self.words(kind, &self.scratch.join(name), &format!("127.0.0.1:{port}"), port)?;
        if let Some(core) = core {
            words.splice(0..0, ["taskset".to_owned(), "-c".into(), core.to_string()]);
        }
        let log = self.scratch.join(format!("{name}.log"));
        let server = Server::start(accounts.side(name)?, &words, port, &log);
        server.with_context(|| format!("{name}: {}", words.join(" ")))
    }

    /// The command of a server with its state in a directory, which is made. A node listens at the address `listen`, xrootd at all
    /// addresses.
    ///
    /// # Errors
    /// Its configuration cannot be written.
    pub fn words(&self, kind: ServerKind, state: &Path, listen: &str, port: u16) -> Result<Vec<String>> {
        fs::create_dir_all(state)?;
        match kind {
            ServerKind::Ours if !self.stand_in => self.ours(state, listen),
            _ => self.theirs(state, port),
        }
    }

    fn ours(&self, state: &Path, listen: &str) -> Result<Vec<String>> {
        let access = state.join("access.toml");
        fs::write(&access, ACCESS)?;
        let mut words: Vec<String> = vec![self.longhaul.display().to_string()];
        words.extend(["serve", "--quiet", "--plain", "--anonymous", "rw", "--export"].map(String::from));
        words.push(format!("data={}:rw", self.data().display()));
        words.extend(["--listen", listen].map(String::from));
        for (flag, path) in [
            ("--state", &state.join("node")),
            ("--certificate", &self.pki.certificate),
            ("--certificate-key", &self.pki.key),
            ("--cacert", &self.pki.ca),
            ("--access", &access),
        ] {
            words.extend([flag.into(), path.display().to_string()]);
        }
        Ok(words)
    }

    fn theirs(&self, state: &Path, port: u16) -> Result<Vec<String>> {
        let own = state.join("own");
        let configuration = state.join("xrootd.cfg");
        let key = state.join("host.key");
        fs::create_dir_all(&own)?;
        open_to_all(&own)?;
        let [own, root, ca, certificate] =
            [&own, &self.scratch.join("files"), &self.pki.ca, &self.pki.certificate].map(|p| p.display().to_string());
        let text = format!(
            "xrd.port {port}\nall.export /data\noss.localroot {root}\nall.adminpath {own}\nall.pidpath {own}\n\
             xrd.tls {certificate} {key}\nxrd.tlsca certfile {ca}\nxrootd.chksum max 2 adler32 crc32c md5\n\
             ofs.tpc autorm pgm /usr/bin/xrdcp --server\n\
             xrd.protocol http:{port} libXrdHttp.so\nhttp.exthandler xrdtpc libXrdHttpTPC.so\n\
             http.cafile {ca}\nhttp.cert {certificate}\nhttp.key {key}\n",
            key = key.display()
        );
        fs::write(&configuration, text)?;
        fs::copy(&self.pki.key, &key)?;
        let mut words: Vec<String> = ["xrootd", "-n", "bench", "-c"].map(String::from).into();
        words.push(configuration.display().to_string());
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400))?;
        if rustix::process::geteuid().is_root() {
            // xrootd refuses to serve as root, and must own its key.
            let nobody = 65_534;
            std::os::unix::fs::chown(&key, Some(nobody), Some(nobody))?;
            words.extend(["-R", "nobody"].map(String::from));
        }
        Ok(words)
    }
}

/// A port that is free on every address and outside the range of clients' ports. A client's connection at the same port, also one
/// that was closed less than a minute ago, would keep a server from listening on all addresses.
fn port_outside_client_range() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
    let clients: u16 = range.split_whitespace().next().context("no range of ports")?.parse()?;
    let room = clients.saturating_sub(10_000).max(1);
    let first = 10_000 + (std::process::id() % u32::from(room)) as u16;
    for _ in 0..room {
        let port = first.saturating_add(NEXT.fetch_add(1, Ordering::Relaxed)).min(clients - 1);
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port from {first} to {clients}");
}

/// The URL of a path below `/data`. The certificate is for `localhost`.
pub fn url(server: &Server, protocol: MeasuredProtocol, tls: bool, path: &str) -> String {
    let (base, slash) = match (protocol, tls) {
        (MeasuredProtocol::Http, true) => ("https://localhost", ""),
        (MeasuredProtocol::Http, false) => ("http://127.0.0.1", ""),
        (MeasuredProtocol::Root, true) => ("roots://localhost", "/"),
        (MeasuredProtocol::Root, false) => ("root://127.0.0.1", "/"),
    };
    format!("{base}:{}/{slash}data/{path}", server.port)
}
