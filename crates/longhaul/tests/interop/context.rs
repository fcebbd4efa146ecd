//! The context of one case: directories of its own on every server and for the client, and the client's environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use crate::case::Case;
use crate::clients::{ClientOutput, Reply, run, run_for};
use crate::pki::Identity;
use crate::test_bed::{Server, TestBed, open_to_all};

/// The context of a case.
pub struct CaseContext<'a> {
    pub test_bed: &'a TestBed,
    name: String,
    dir: TempDir,
    runs: AtomicU32,
}

/// The panic payload of a case that cannot run on this machine.
pub struct Skip(pub String);

/// Ends a case that cannot run on this machine.
pub fn skip(why: &str) -> ! {
    std::panic::panic_any(Skip(why.to_owned()))
}

/// The directory of one case on a server.
pub struct ServerDir<'a> {
    server: &'a Server,
    name: String,
}

impl<'a> CaseContext<'a> {
    /// Makes the context of a case.
    pub fn new(case: &Case, test_bed: &'a TestBed) -> CaseContext<'a> {
        let dir = tempfile::Builder::new().prefix("interop-case-").tempdir().unwrap();
        CaseContext { test_bed, name: case.id().replace('/', "-"), dir, runs: AtomicU32::new(0) }
    }

    fn server_dir(&self, server: &'a Server) -> ServerDir<'a> {
        if !server.is_there() {
            skip("no xrootd (scripts/setup.sh installs it)");
        }
        let dir = ServerDir { server, name: self.name.clone() };
        if !dir.disk("").exists() {
            fs::create_dir(dir.disk("")).unwrap();
            open_to_all(&dir.disk(""));
        }
        dir
    }

    /// The case's directory on the tested server that admits anonymous clients.
    pub fn open(&self) -> ServerDir<'a> {
        self.server_dir(&self.test_bed.open)
    }

    /// The case's directory on the tested server that demands credentials.
    pub fn closed(&self) -> ServerDir<'a> {
        self.server_dir(&self.test_bed.closed)
    }

    /// The case's directory on the tested server that connects to no local address.
    pub fn cautious(&self) -> ServerDir<'a> {
        self.server_dir(&self.test_bed.cautious)
    }

    /// The case's directory on the stock server that admits anonymous clients.
    pub fn stock(&self) -> ServerDir<'a> {
        self.server_dir(&self.test_bed.stock)
    }

    /// The case's directory on the stock server that demands tokens.
    pub fn guarded(&self) -> ServerDir<'a> {
        self.server_dir(&self.test_bed.guarded)
    }

    /// A token for this case's directories, with these rights: `read`, `create`, `modify`, …
    pub fn token(&self, rights: &[&str]) -> String {
        let scopes: Vec<String> = rights.iter().map(|right| format!("storage.{right}:/{}", self.name)).collect();
        self.test_bed.tokens.wlcg(&scopes.join(" "))
    }

    /// The scope of a right on this case's directories.
    pub fn scope(&self, right: &str) -> String {
        format!("storage.{right}:/{}", self.name)
    }

    /// A path where the client's own files are.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file there.
    pub fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }

    /// A client's command with nothing of the tester's own environment but `PATH`.
    fn command(&self, words: &[&str], more: &[(&str, &str)]) -> Command {
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC")
            .env("X509_CERT_DIR", &self.test_bed.pki.directory)
            .env("GFAL_PYTHONBIN", "/usr/bin/python3")
            .env("RCLONE_CONFIG", "/dev/null")
            .env("XRD_PLUGINCONFDIR", "/etc/xrootd/client.plugins.d")
            .env("XRD_CONNECTIONRETRY", "1")
            .env("XRD_REQUESTTIMEOUT", "30")
            .envs(more.iter().copied());
        command
    }

    fn files(&self) -> PathBuf {
        self.dir.path().join(format!("run-{}", self.runs.fetch_add(1, Ordering::Relaxed)))
    }

    /// Runs a client.
    pub fn run(&self, words: &[&str]) -> ClientOutput {
        self.run_with(&[], words)
    }

    /// Runs a client with more in its environment.
    pub fn run_with(&self, more: &[(&str, &str)], words: &[&str]) -> ClientOutput {
        run(self.command(words, more), &self.files())
    }

    /// Runs a client with a time limit of its own.
    pub fn run_for(&self, patience: Duration, words: &[&str]) -> ClientOutput {
        run_for(patience, self.command(words, &[]), &self.files())
    }

    /// Starts a client that the case ends.
    pub fn begin(&self, words: &[&str]) -> RunningClient {
        let mut command = self.command(words, &[]);
        RunningClient(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Runs curl, which must get some answer.
    pub fn curl(&self, words: &[&str]) -> Reply {
        self.curl_ending(0, words)
    }

    /// Runs curl, which must end with this code.
    pub fn curl_ending(&self, code: i32, words: &[&str]) -> Reply {
        let files = self.files();
        let (head, body) = (files.with_extension("head"), files.with_extension("body"));
        let (head_text, body_text) = (head.display().to_string(), body.display().to_string());
        let ca = self.test_bed.pki.ca.display().to_string();
        let mut all = vec!["curl", "-sS", "--cacert", &ca, "-D", &head_text, "-o", &body_text];
        all.extend(words);
        let seen = run(self.command(&all, &[]), &files).expect_code(code);
        Reply::read(seen, &head, &body)
    }

    /// Curl's options for a certificate.
    pub fn identity(&self, who: &'a Identity) -> [String; 4] {
        let text = |path: &Path| path.display().to_string();
        ["--cert".into(), text(&who.certificate), "--key".into(), text(&who.key)]
    }
}

/// A client that runs until it is dropped.
pub struct RunningClient(Child);

impl Drop for RunningClient {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl ServerDir<'_> {
    fn url(&self, scheme: &str, host: &str, path: &str) -> String {
        format!("{scheme}://{host}:{}/data/{}/{path}", self.server.port, self.name)
    }

    /// The URL of a path in clear.
    pub fn http(&self, path: &str) -> String {
        self.url("http", "127.0.0.1", path)
    }

    /// The URL of a path in TLS.
    pub fn https(&self, path: &str) -> String {
        self.url("https", "localhost", path)
    }

    /// The URL of a path in TLS, with an address in brackets.
    pub fn bracketed(&self, path: &str) -> String {
        self.url("https", "[::1]", path)
    }

    /// The URL of a path in xrootd's own protocol, where the server speaks it.
    pub fn root(&self, path: &str) -> String {
        self.url("root", "127.0.0.1", path).replace("/data/", "//data/")
    }

    /// The URL of a path over TLS. The host's certificate is for this name.
    pub fn roots(&self, path: &str) -> String {
        self.root(path).replace("root://127.0.0.1", "roots://localhost")
    }

    /// Its path on the server: `/data/CASE/…`.
    pub fn target(&self, path: &str) -> String {
        format!("/data/{}/{path}", self.name)
    }

    /// The path on the disk.
    pub fn disk(&self, path: &str) -> PathBuf {
        let dir = self.server.files.join("data").join(&self.name);
        if path.is_empty() { dir } else { dir.join(path) }
    }

    /// Writes a file there without the server.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let file = self.disk(path);
        let parent = file.parent().unwrap();
        if !parent.exists() {
            self.make_dir(Path::new(path).parent().unwrap().to_str().unwrap());
        }
        fs::write(&file, bytes).unwrap();
        open_to_all(&file);
    }

    /// Makes a directory there.
    pub fn make_dir(&self, path: &str) {
        fs::create_dir_all(self.disk(path)).unwrap();
        open_to_all(&self.disk(path));
    }

    /// The bytes of a file there.
    #[track_caller]
    pub fn get(&self, path: &str) -> Vec<u8> {
        fs::read(self.disk(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Whether something is there.
    pub fn has(&self, path: &str) -> bool {
        self.disk(path).exists()
    }

    /// The names of all entries of the directory, with unfinished files.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.disk("")).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The server's host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.server.port)
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.server.port
    }

    /// The server.
    pub fn server(&self) -> &Server {
        self.server
    }
}
