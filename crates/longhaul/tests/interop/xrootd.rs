//! A stock xrootd: its native protocol, HTTP, WebDAV and third-party copy on one port, in clear and in TLS; or a server before another
//! one, to which it redirects clients, or of whose files it keeps copies.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::pki::Pki;
use crate::tokens::{AUDIENCE, ISSUER, Tokens};
use crate::wait::{LONG, until};

/// What a server does.
#[derive(Clone, Copy)]
pub enum XrootdRole<'a> {
    /// It has files, for anonymous clients or for those with tokens.
    Storage(Option<&'a Tokens>),
    /// It redirects clients to the server at this port.
    Redirector(u16),
    /// It reads files from the server at this port, and keeps copies of them.
    Cache(u16),
}

/// A running server.
pub struct Xrootd {
    dir: TempDir,
    child: Child,
    pub port: u16,
}

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A path for configurations, which have no quotes.
fn plain(path: &Path) -> String {
    let text = path.display().to_string();
    assert!(!text.contains(char::is_whitespace), "{text:?} has blanks in it");
    text
}

impl Xrootd {
    /// Starts a server.
    pub fn start(pki: &Pki, role: XrootdRole<'_>) -> Xrootd {
        let dir = tempfile::Builder::new().prefix("interop-xrootd-").tempdir().unwrap();
        let own = |name: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(&path).unwrap();
            path
        };
        for name in ["files/data", "files/pub", "own", "cache"] {
            own(name);
        }
        // It has a copy of the key of its own: it does not run as the user who made the certificates.
        let key = dir.path().join("host.key");
        fs::copy(&pki.host.key, &key).unwrap();
        if let XrootdRole::Storage(Some(tokens)) = role {
            tokens.seed_scitokens(&dir.path().join("cache"));
        }
        let port = free_port();
        let spawn = |dir: &Path, port| spawn_xrootd(dir, pki, &key, port, role);
        let mut server = Xrootd { child: spawn(dir.path(), port), dir, port };
        // Another process may take a port before it does: then it ends at once.
        for _ in 0..4 {
            if server.listens() {
                return server;
            }
            server.port = free_port();
            server.child = spawn(server.dir.path(), server.port);
        }
        assert!(server.listens(), "xrootd ended at once: {}", server.log());
        server
    }

    /// Waits until it listens; `false` where it ends instead.
    fn listens(&mut self) -> bool {
        let mut has_ended = false;
        until("xrootd listens", LONG, || {
            has_ended = self.child.try_wait().unwrap().is_some();
            has_ended || std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        !has_ended
    }

    /// The directory that it shows as `/`.
    pub fn files(&self) -> PathBuf {
        self.dir.path().join("files")
    }

    /// Its log.
    pub fn log(&self) -> String {
        let at = self.dir.path().join("own");
        let named = [at.join("interop/log"), at.join("log")].into_iter().find_map(|path| fs::read(path).ok());
        String::from_utf8_lossy(&named.unwrap_or_default()).into_owned()
    }
}

impl Drop for Xrootd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn_xrootd(dir: &Path, pki: &Pki, key: &Path, port: u16, role: XrootdRole<'_>) -> Child {
    let text = match role {
        XrootdRole::Storage(tokens) => storage_config(dir, pki, key, port, tokens.is_some()),
        XrootdRole::Redirector(to) => {
            front_config(dir, port)
                + &format!("xrootd.redirect 127.0.0.1:{to} all\nxrootd.redirect 127.0.0.1:{to} /data\n")
        }
        XrootdRole::Cache(of) => {
            front_config(dir, port)
                + &format!(
                    "ofs.osslib libXrdPss.so\npss.origin 127.0.0.1:{of}\npss.cachelib libXrdPfc.so\npfc.ram 1g\n"
                )
        }
    };
    fs::write(dir.join("xrootd.cfg"), text).unwrap();
    if geteuid().is_root() {
        let chown = Command::new("chown").args(["-R", "nobody"]).arg(dir).status().unwrap();
        assert!(chown.success());
    }
    command(dir, pki).spawn().unwrap()
}

/// The command of xrootd, which refuses to serve as root; if the tests are killed, the kernel kills it as well.
fn command(dir: &Path, pki: &Pki) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if geteuid().is_root() {
        command.args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]);
    }
    command.args(["xrootd", "-n", "interop", "-c"]).arg(dir.join("xrootd.cfg"));
    command.arg("-l").arg(dir.join("own/log"));
    command
        .current_dir(dir)
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .env("X509_CERT_DIR", &pki.directory)
        .env("HOME", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// The configuration of a server before another one.
fn front_config(dir: &Path, port: u16) -> String {
    let dir = plain(dir);
    format!(
        "xrd.port {port}\nall.export /data\noss.localroot {dir}/files\nall.adminpath {dir}/own\nall.pidpath {dir}/own\n"
    )
}

fn storage_config(dir: &Path, pki: &Pki, key: &Path, port: u16, asks_for_tokens: bool) -> String {
    let (certificate, key, authorities) = (plain(&pki.host.certificate), plain(key), plain(&pki.directory));
    let dir = plain(dir);
    let mut text = format!(
        "xrd.port {port}\nall.export /data\nall.export /pub r/o\noss.localroot {dir}/files\n\
         all.adminpath {dir}/own\nall.pidpath {dir}/own\n\
         xrd.tls {certificate} {key}\nxrd.tlsca certdir {authorities}\n\
         xrootd.chksum max 2 adler32 crc32c md5\n\
         ofs.tpc autorm ttl 15 60 pgm /usr/bin/xrdcp --server\n\
         xrd.protocol http:{port} libXrdHttp.so\nhttp.exthandler xrdtpc libXrdHttpTPC.so\n\
         http.cadir {authorities}\nhttp.cert {certificate}\nhttp.key {key}\n"
    );
    if asks_for_tokens {
        text += &format!(
            "http.header2cgi Authorization authz\nofs.authorize\nofs.authlib libXrdAccSciTokens.so config={dir}/scitokens.cfg\n"
        );
        let policy = format!("[Global]\naudience = {AUDIENCE}\n[Issuer test]\nissuer = {ISSUER}\nbase_path = /data\n");
        fs::write(format!("{dir}/scitokens.cfg"), policy).unwrap();
    }
    text
}
