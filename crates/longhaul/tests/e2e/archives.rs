//! Copies from and to archives by FTP, with and without TLS, and by SFTP, with real servers.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::client::{Client, Outcome, words};
use crate::https;
use crate::node::Setup;
use crate::sshd::Sshd;
use crate::tree::pattern;
use crate::wait::skipped;

/// Debian's Python, which has the package pyftpdlib.
const PYTHON: &str = "/usr/bin/python3";

/// An FTP server with a directory.
struct FtpServer {
    child: Child,
    port: u16,
    dir: TempDir,
}

impl Drop for FtpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl FtpServer {
    /// Starts a server; none where it is not installed, which is reported.
    fn start(test: &str, certificate: Option<&Path>, is_old: bool) -> Option<FtpServer> {
        let dir = tempfile::tempdir().unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/ftp_server.py");
        let mode = certificate.map_or("plain".into(), Path::to_owned);
        let mut command = Command::new(PYTHON);
        command.arg(script).arg(dir.path()).arg(mode).stdout(Stdio::piped()).stderr(Stdio::null());
        if is_old {
            command.env("OLD", "1");
        }
        let Ok(mut child) = command.spawn() else {
            skipped(test, "no Python (scripts/setup.sh installs it)");
            return None;
        };
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Ok(port) = line.trim().parse() else {
            let _ = child.wait();
            skipped(test, "no pyftpdlib (package python3-pyftpdlib, and python3-openssl for TLS)");
            return None;
        };
        Some(FtpServer { child, port, dir })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn at(&self, scheme: &str, path: &str) -> String {
        format!("{scheme}://ann@localhost:{}/{path}", self.port)
    }
}

/// A client that knows the password of ann.
struct ArchiveClient {
    client: Client,
    netrc: PathBuf,
    ssh: String,
}

impl ArchiveClient {
    fn new() -> ArchiveClient {
        let client = Client::new();
        let netrc = client.write("netrc", "machine localhost login ann password secret\n");
        fs::set_permissions(&netrc, fs::Permissions::from_mode(0o600)).unwrap();
        ArchiveClient { client, netrc, ssh: "ssh".to_owned() }
    }

    fn run(&self, words: Vec<std::ffi::OsString>) -> Outcome {
        let mut command = self.client.command(words);
        command.env("NETRC", &self.netrc).env("LONGHAUL_SSH", &self.ssh);
        self.client.start(command).finish()
    }
}

/// Copies a file and a tree to a server and back, and does everything else that commands do there. `dir` is what the server shows.
fn commands_work(client: &ArchiveClient, dir: &Path, at: &dyn Fn(&str) -> String) {
    let bytes = pattern(20_000_001);
    let local = client.client.write("f", &bytes);
    client.run(words!["cp", local, at("up")]).expect(0);
    assert!(fs::read(dir.join("up")).unwrap() == bytes);
    client.run(words!["cp", at("up"), "back"]).expect(0);
    assert!(fs::read(client.client.path("back")).unwrap() == bytes);
    assert!(client.run(words!["cp", at("up"), "-", "--quiet"]).expect(0).out == bytes);

    // A file is replaced, and an unfinished one is not left behind.
    let other = client.client.write("g", b"other");
    client.run(words!["cp", "--sync", "none", other, at("up")]).expect(0);
    assert_eq!(fs::read(dir.join("up")).unwrap(), b"other");

    for (name, text) in [("t/a", "a"), ("t/b c", "bc"), ("t/d/e", ""), ("t/d/ü", "u")] {
        client.client.write(name, text);
    }
    client.run(words!["cp", "-r", client.client.path("t"), at("t")]).expect(0);
    assert_eq!(fs::read(dir.join("t/b c")).unwrap(), b"bc");
    let again = client.run(words!["cp", "-r", client.client.path("t"), at("t"), "--json"]).expect(0).json();
    assert_eq!((again["files"].as_u64(), again["skipped"].as_u64()), (Some(0), Some(4)), "{again}");
    client.run(words!["cp", "-r", at("t"), "t2"]).expect(0);
    assert_eq!(fs::read(client.client.path("t2/d/ü")).unwrap(), b"u");

    let listed = client.run(words!["ls", at("t")]).expect(0).text();
    let mut names: Vec<&str> = listed.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b c", "d/"]);
    client.run(words!["mkdir", at("new")]).expect(0);
    client.run(words!["mv", at("t/a"), at("new/a")]).expect(0);
    assert!(client.run(words!["stat", at("new/a")]).expect(0).text().contains('1'));
    let digest = client.run(words!["digest", "--checksum", "adler32", at("new/a")]).expect(0).text();
    assert!(digest.contains("00620062"), "{digest}");
    client.run(words!["rm", "-r", at("new")]).expect(0);
    assert!(!dir.join("new").exists());
    let missing = client.run(words!["cp", at("none"), "x"]).expect(1);
    assert!(missing.err.contains("none"), "{}", missing.err);
    let names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains(".upload")), "{names:?}");
}

#[test]
fn commands_work_on_an_ftp_server() {
    let Some(server) = FtpServer::start("archives::commands_work_on_an_ftp_server", None, false) else { return };
    commands_work(&ArchiveClient::new(), server.dir.path(), &|path| server.at("ftp", path));
}

#[test]
fn commands_work_on_an_ftp_server_from_before_rfc_3659() {
    let test = "archives::commands_work_on_an_ftp_server_from_before_rfc_3659";
    let Some(server) = FtpServer::start(test, None, true) else { return };
    commands_work(&ArchiveClient::new(), server.dir.path(), &|path| server.at("ftp", path));
}

#[test]
fn commands_work_on_an_ftp_server_with_tls() {
    let test = "archives::commands_work_on_an_ftp_server_with_tls";
    let client = ArchiveClient::new();
    let certificate = client.client.write("server.pem", https::certificate(&["localhost"], &[]));
    let Some(server) = FtpServer::start(test, Some(&certificate), false) else { return };
    fs::write(server.path("f"), b"data").unwrap();
    let ca = client.client.write("ca.pem", https::authority());
    // A certificate that is not trusted, and a server that wants TLS.
    let untrusted = client.run(words!["cp", server.at("ftps", "f"), "x"]);
    assert!(untrusted.code == 4 && untrusted.err.contains("no TLS"), "{} {}", untrusted.code, untrusted.err);
    assert_ne!(client.run(words!["cp", server.at("ftp", "f"), "x"]).code, 0);
    client.run(words!["--cacert", ca.clone(), "cp", server.at("ftps", "f"), "x"]).expect(0);
    assert_eq!(fs::read(client.client.path("x")).unwrap(), b"data");
    let up = client.client.write("up", pattern(5_000_000));
    client.run(words!["--cacert", ca, "cp", up, server.at("ftps", "up")]).expect(0);
    assert!(fs::read(server.path("up")).unwrap() == pattern(5_000_000));
}

#[test]
fn an_ftp_server_that_refuses_says_why() {
    let test = "archives::an_ftp_server_that_refuses_says_why";
    let Some(server) = FtpServer::start(test, None, false) else { return };
    let client = ArchiveClient::new();
    fs::write(server.path("f"), b"data").unwrap();
    let anonymous = format!("ftp://127.0.0.1:{}/f", server.port);
    client.run(words!["cp", anonymous.clone(), "x"]).expect(0);
    let local = client.client.write("g", b"g");
    let refused = client.run(words!["cp", local, anonymous]);
    assert!(refused.code == 4 && refused.err.contains("550"), "{} {}", refused.code, refused.err);
    let unknown = client.run(words!["cp", format!("ftp://bob@localhost:{}/f", server.port), "y"]).expect(2);
    assert!(unknown.err.contains(".netrc"), "{}", unknown.err);
    let with_password = client.run(words!["cp", "ftp://ann:secret@localhost/f", "y"]).expect(2);
    assert!(with_password.err.contains(".netrc") && !with_password.err.contains("secret"), "{}", with_password.err);
    fs::set_permissions(&client.netrc, fs::Permissions::from_mode(0o644)).unwrap();
    let open = client.run(words!["cp", server.at("ftp", "f"), "y"]).expect(2);
    assert!(open.err.contains("chmod 600"), "{}", open.err);
}

#[test]
fn commands_work_on_an_sftp_server() {
    let Some(sshd) = Sshd::start("archives::commands_work_on_an_sftp_server") else { return };
    let mut client = ArchiveClient::new();
    client.ssh = sshd.command();
    commands_work(&client, &sshd.home(), &|path| sshd.sftp(path));
    // A key that the server does not know.
    client.ssh =
        sshd.command_with("stranger", "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR");
    let refused = client.run(words!["cp", sshd.sftp("up"), "x"]);
    assert!(refused.code == 4 && refused.err.contains("Permission denied"), "{} {}", refused.code, refused.err);
}

#[test]
fn an_archive_is_an_export_and_a_mirror() {
    let Some(server) = FtpServer::start("archives::an_archive_is_an_export_and_a_mirror", None, false) else { return };
    let client = ArchiveClient::new();
    let bytes = pattern(20_000_000);
    fs::create_dir(server.path("d")).unwrap();
    fs::write(server.path("d/f"), &bytes).unwrap();
    let address = format!("ftp://localhost:{}/d", server.port);
    let node = Setup::new().arg("--export").arg(format!("old={address}")).arg("--anonymous").arg("ro").start();
    client.run(words!["cp", node.at("old/f"), "x"]).expect(0);
    assert!(fs::read(client.client.path("x")).unwrap() == bytes);
    let local = client.client.write("here/f", &bytes);
    client.run(words!["cp", local, "y", "--mirror", format!("{address}/f")]).expect(0);
    assert!(fs::read(client.client.path("y")).unwrap() == bytes);
}
