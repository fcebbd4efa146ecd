//! New settings in a running node: the changes, the clients that are not disturbed, and the limits of a reload.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rcgen::DnType;
use rustix::process::Signal;

use crate::client::{Client, unfinished, words};
use crate::control::lift_limit;
use crate::https::{self, HttpsClient, certificate};
use crate::node::{LONGHAUL, Node, Serving, Setup, signal};
use crate::tree::pattern;
use crate::unfinished_state::written;
use crate::wait::{LONG, until};
use crate::web::raw::Raw;

/// A node with a settings file, and two directories that it may export: `data` and `other`.
struct ConfiguredNode {
    node: Node,
    file: PathBuf,
}

const ACCEPTED: &str = "are in force";
const REFUSED: &str = "the new settings are refused";

impl ConfiguredNode {
    /// Starts with these settings, in which DATA and OTHER stand for the directories.
    fn new(settings: &str) -> ConfiguredNode {
        ConfiguredNode::of(Setup::new(), settings)
    }

    fn of(setup: Setup, settings: &str) -> ConfiguredNode {
        let file = setup.data().with_file_name("serve.toml");
        fs::create_dir(setup.data().with_file_name("other")).unwrap();
        fs::write(setup.data().with_file_name("node.pem"), certificate(&["127.0.0.1"], &[])).unwrap();
        fs::write(&file, filled(&setup.data(), settings)).unwrap();
        ConfiguredNode { node: setup.arg("--config").arg(&file).start(), file }
    }

    fn other(&self, below: &str) -> PathBuf {
        self.node.data("").with_file_name("other").join(below)
    }

    fn log_count(&self, what: &str) -> usize {
        self.node.log().matches(what).count()
    }

    /// Writes other settings and has them read, with this result.
    fn reload_until(&self, settings: &str, to: &str) {
        fs::write(&self.file, filled(&self.node.data(""), settings)).unwrap();
        let before = self.log_count(to);
        self.node.signal(Signal::HUP);
        until(to, LONG, || self.log_count(to) > before);
    }

    fn reload(&self, settings: &str) {
        self.reload_until(settings, ACCEPTED);
    }

    /// The exports that a client sees.
    fn listed(&self, client: &Client) -> String {
        client.run(words!["ls", self.node.at("")]).expect(0).text()
    }
}

fn filled(data: &std::path::Path, settings: &str) -> String {
    let other = data.with_file_name("other");
    settings.replace("DATA", &data.display().to_string()).replace("OTHER", &other.display().to_string())
}

const OPEN: &str = "export = [\"data=DATA:rw\"]\nanonymous = \"rw\"\nplain = true\n";
const LARGE: usize = 24 << 20;

#[test]
fn transfers_continue_while_all_settings_change() {
    let configured = ConfiguredNode::new(OPEN);
    let node = &configured.node;
    let key = node.grant(&["--export", "other"]);
    let (client, keyed) = (Client::new(), Client::with_key(&key));
    client.write("up", pattern(LARGE));
    fs::write(node.data("down"), pattern(LARGE)).unwrap();
    fs::write(configured.other("g"), b"g").unwrap();
    // Not tried again: what was dropped would be lost.
    let copy = |from: std::ffi::OsString, to: std::ffi::OsString| {
        client.begin(words!["cp", from, to, "--limit", "8Mbit/s", "--streams", "2", "--retry-for", "0s", "--json"])
    };
    let up = copy(client.path("up").into(), node.at("data/up").into());
    let down = copy(node.at("data/down").into(), client.path("down").into());
    // An answer that is not read for now: it does not fit into the socket's buffers.
    let mut reader = Raw::to(node);
    reader.request("GET", "/data/down", &[], &[]);
    until("both are under way", LONG, || {
        let there = |dir: PathBuf| unfinished(&dir).iter().any(|path| written(path) > LARGE as u64 / 8);
        there(node.data("")) && there(client.path(""))
    });
    configured.reload("export = [\"other=OTHER\"]\n");
    assert!(!node.data("up").exists() && !client.path("down").exists(), "they were over before");
    let log = node.log();
    assert!(log.contains("other is new") && log.contains("data is gone"), "{log}");
    // New sessions have the new settings.
    client.run(words!["ls", node.at("")]).refused(4, &["without a key"]);
    assert_eq!(configured.listed(&keyed), "other/\n");
    keyed.run(words!["cp", node.at("other/g"), keyed.path("g")]).expect(0);
    keyed.run(words!["cp", keyed.path("g"), node.at("other/h")]).expect(4);
    let refused = Raw::to(node).ask("GET", "/data/down", &[], &[]);
    assert!(refused.status == 403 && refused.text().contains("TLS"), "{refused:?}");
    // Sessions that were open before continue to their end.
    assert_eq!(lift_limit(&client), 2);
    for running in [up, down] {
        let receipt = running.finish().expect(0).json();
        assert_eq!((receipt["state"].as_str(), receipt["resent_bytes"].as_u64()), (Some("done"), Some(0)), "{receipt}");
    }
    assert_eq!(fs::read(node.data("up")).unwrap(), pattern(LARGE));
    assert_eq!(fs::read(client.path("down")).unwrap(), pattern(LARGE));
    let answer = reader.receive().unwrap();
    assert!(answer.status == 200 && answer.whole && answer.body == pattern(LARGE));
    // On the same connection the next request is a new one.
    assert_eq!(reader.ask("GET", "/data/down", &[], &[]).status, 401);
}

#[test]
fn an_export_becomes_read_only_and_back_and_moves() {
    let configured = ConfiguredNode::new(OPEN);
    let (node, client) = (&configured.node, Client::new());
    client.write("f", b"f");
    let put = |name: &str, code: i32| drop(client.run(words!["cp", client.path("f"), node.at(name)]).expect(code));
    put("data/a", 0);
    configured.reload(&OPEN.replace(":rw", ""));
    put("data/b", 4);
    configured.reload(OPEN);
    put("data/b", 0);
    configured.reload(&OPEN.replace("DATA", "OTHER"));
    put("data/c", 0);
    assert!(node.data("a").exists() && node.data("b").exists() && !node.data("c").exists());
    assert_eq!(fs::read(configured.other("c")).unwrap(), b"f");
    let log = node.log();
    assert!(["data is ro", "data is rw", "data is elsewhere"].iter().all(|text| log.contains(text)), "{log}");
}

#[test]
fn invalid_settings_are_refused_as_a_whole() {
    let configured = ConfiguredNode::new(OPEN);
    let (node, client) = (&configured.node, Client::new());
    client.write("f", b"f");
    let good = "export = [\"data=DATA:rw\", \"other=OTHER\"]\n";
    fs::write(configured.other("half.toml"), "[[allow]]\nanyone = true\n").unwrap();
    for (bad, why) in [
        ("anonymous = \"rw\"\nexpert = [", "line 3"),
        ("expert = true", "expert"),
        ("anonymous = \"all\"", "all"),
        ("certificate = \"OTHER/none.pem\"", "none.pem"),
        ("certificate-key = \"OTHER/none.pem\"", "certificate"),
        ("client-ca = \"OTHER/none.pem\"", "none.pem"),
        ("cacert = \"OTHER/none.pem\"", "none.pem"),
        ("access = \"OTHER/none.toml\"", "none.toml"),
        ("access = \"OTHER/half.toml\"", "half.toml"),
        ("fireflies = [\"\"]", "fireflies"),
        ("responders = [\"owamp\"]", "owamp"),
    ] {
        configured.reload_until(&format!("{good}{bad}\n"), REFUSED);
        let log = node.log();
        let last = log.lines().rfind(|line| line.contains(REFUSED)).unwrap();
        assert!(last.contains(why), "{bad}: {last}");
    }
    for bad in ["export = [\"data=DATA:rw\", \"none=OTHER/none\"]", "export = [\"data=DATA\", \"data=OTHER\"]"] {
        configured.reload_until(bad, REFUSED);
    }
    fs::remove_file(&configured.file).unwrap();
    node.signal(Signal::HUP);
    until("a missing file is refused", LONG, || configured.log_count(REFUSED) == 14);
    assert_eq!(configured.log_count(ACCEPTED), 0);
    // As it was: one export, all clients may write, and without TLS.
    assert_eq!(configured.listed(&client), "data/\n");
    client.run(words!["cp", client.path("f"), node.at("data/f"), "--plain"]).expect(0);
    configured.reload(&format!("{good}anonymous = \"ro\"\n"));
    assert_eq!(configured.listed(&client), "data/\nother/\n");
}

#[test]
fn settings_that_need_a_restart_are_named_and_the_others_apply() {
    let configured = ConfiguredNode::new("state = \"/nonexistent\"\n");
    let other_settings = "listen = \"127.0.0.1:1\"\nexport = [\"other=OTHER\"]\nanonymous = \"ro\"\n";
    // The command line has precedence, as at the start: the address has not changed.
    configured.reload(other_settings);
    assert_eq!(configured.listed(&Client::new()), "other/\n");
    assert!(!configured.node.log().contains("restart it"), "{}", configured.node.log());

    let dir = tempfile::tempdir().unwrap();
    let (file, state) = (dir.path().join("serve.toml"), dir.path().join("state"));
    let settings = |port: u16, state: &str| format!("listen = \"127.0.0.1:{port}\"\nstate = \"{state}\"\n");
    fs::write(&file, settings(0, &state.display().to_string())).unwrap();
    let log = fs::File::create(dir.path().join("log")).unwrap();
    let mut serving = Serving::start(Command::new(LONGHAUL).args(["serve", "--config"]).arg(&file).stderr(log));
    fs::write(&file, settings(1, "/nonexistent/state")).unwrap();
    signal(&serving.child, Signal::HUP);
    let log = || fs::read_to_string(dir.path().join("log")).unwrap();
    until("both are named", LONG, || log().matches("restart it").count() == 2);
    assert!(log().contains("listen") && log().contains("state") && log().contains(ACCEPTED), "{}", log());
    assert!(TcpStream::connect(serving.address).is_ok(), "it listens where it did");
    signal(&serving.child, Signal::TERM);
    assert!(serving.child.wait().unwrap().success());
}

#[test]
fn settings_of_the_command_line_outlast_a_reload() {
    let setup = Setup::new();
    let data = setup.data();
    let setup = setup.export("typed", &data, "rw").arg("--anonymous").arg("rw").arg("--plain");
    let configured = ConfiguredNode::of(setup, "export = [\"other=OTHER\"]\nanonymous = \"ro\"\n");
    let client = Client::new();
    client.write("f", b"f");
    configured.reload("export = [\"other=OTHER:rw\"]\nanonymous = \"ro\"\nplain = false\n");
    assert_eq!(configured.listed(&client), "typed/\n");
    client.run(words!["cp", client.path("f"), configured.node.at("typed/f")]).expect(0);
    assert_eq!(Raw::to(&configured.node).ask("GET", "/typed/f", &[], &[]).body, b"f");
}

#[test]
fn a_renewed_certificate_is_shown_without_a_settings_file() {
    let node = https::setup("").start();
    let before = https::shown_certificate(&node);
    let answer = HttpsClient::default().ask(&node, "GET", "/public/f", b"");
    assert_eq!(answer.status, 401);
    fs::write(node.data("").with_file_name("node.pem"), certificate(&["127.0.0.1"], &[])).unwrap();
    assert_eq!(https::shown_certificate(&node), before);
    let mut sealed = Raw::sealed(&node);
    assert_eq!(sealed.ask("GET", "/public/f", &[], &[]).status, 401);
    node.signal(Signal::HUP);
    until("the certificate is read", LONG, || node.log().contains(ACCEPTED));
    assert_ne!(https::shown_certificate(&node), before);
    assert_eq!(sealed.ask("GET", "/public/f", &[], &[]).status, 401, "a connection that was open stays open");
    // The native protocol knows the node by its own key, which is the same.
    let key = node.grant(&["--export", "data"]);
    Client::with_key(&key).run(words!["ls", node.at("")]).expect(0);
}

#[test]
fn a_reload_changes_the_trusted_authorities() {
    // A node that others copy from over HTTPS, with a certificate of the authority.
    let far = https::setup("[[allow]]\nanyone = true\nexport = \"public\"\nrights = [\"read\"]\n").start();
    let source = format!("https://127.0.0.1:{}/public/f", far.port);
    let setup = Setup::new();
    fs::create_dir(setup.state()).unwrap();
    let rule =
        "[[allow]]\ndn = \"/O=Example/CN=Robot\"\nexport = \"data\"\nrights = [\"read\", \"create\", \"modify\"]\n";
    fs::write(setup.state().join("access.toml"), rule).unwrap();
    let configured = ConfiguredNode::of(setup, "export = [\"data=DATA:rw\"]\ncertificate = \"OTHER/../node.pem\"\n");
    let node = &configured.node;
    fs::write(configured.other("ca.pem"), https::authority()).unwrap();
    let names = [(DnType::OrganizationName, "Example"), (DnType::CommonName, "Robot")];
    let robot = HttpsClient { certificate: Some(certificate(&[], &names)), ..HttpsClient::default() };
    let copy = |name: &str| robot.clone().with("Source", &source).ask(node, "COPY", &format!("/data/{name}"), b"");
    fs::write(node.data("f"), b"f").unwrap();
    assert_eq!(robot.ask(node, "GET", "/data/f", b"").status, 401, "no authority is trusted for client certificates");
    let settings = "export = [\"data=DATA:rw\"]\ncertificate = \"OTHER/../node.pem\"\nclient-ca = \"OTHER/ca.pem\"\n";
    configured.reload(settings);
    assert_eq!(robot.ask(node, "GET", "/data/f", b"").body, "f");
    let refused = copy("a");
    assert!(!refused.body.contains("success") && !node.data("a").exists(), "{refused:?}");
    configured.reload(&format!("{settings}cacert = \"OTHER/ca.pem\"\n"));
    let copied = copy("b");
    assert!(copied.status == 202 && copied.body.contains("success"), "{copied:?}");
    assert_eq!(fs::read(node.data("b")).unwrap(), b"open");
    configured.reload("export = [\"data=DATA:rw\"]\ncertificate = \"OTHER/../node.pem\"\n");
    assert_eq!(robot.ask(node, "GET", "/data/f", b"").status, 401);
}

#[test]
fn a_reload_changes_rules_responders_audit_and_collectors() {
    let configured = ConfiguredNode::new(OPEN);
    let node = &configured.node;
    let (key, client) = (node.grant(&["--export", "data"]), Client::new());
    let rule = "[[allow]]\nanyone = true\nexport = \"other\"\nrights = [\"read\"]\n";
    fs::write(configured.other("rules.toml"), rule).unwrap();
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    collector.set_read_timeout(Some(LONG)).unwrap();
    let at = collector.local_addr().unwrap();
    let answers_iperf3 = || {
        let mut socket = TcpStream::connect(node.address()).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket.write_all(b"abcdefghijklmnopqrstuvwxyz0123456789\0").unwrap();
        // PARAM_EXCHANGE, or the end.
        let mut byte = [0];
        socket.read(&mut byte).is_ok_and(|got| got == 1 && byte[0] == 9)
    };
    let keyed = Client::with_key(&key);
    let audited = || keyed.run(words!["tune", "compare", node.at(""), node.at("")]).code == 0;
    assert!(!answers_iperf3() && !audited());
    configured.reload(&format!(
        "export = [\"data=DATA\", \"other=OTHER\"]\naccess = \"OTHER/rules.toml\"\nplain = true\naudit = true\n\
         responders = [\"iperf3\"]\nfireflies = [\"{at}\"]\n"
    ));
    assert!(answers_iperf3() && audited());
    assert_eq!(configured.listed(&client), "other/\n");
    let marked = Raw::to(node).ask("GET", "/other/rules.toml", &[("SciTag", "66")], &[]);
    assert_eq!((marked.status, marked.body.as_slice()), (200, rule.as_bytes()));
    let mut datagram = [0; 2000];
    let got = collector.recv(&mut datagram).unwrap();
    assert!(String::from_utf8_lossy(&datagram[..got]).contains("firefly"));
    configured.reload(OPEN);
    assert!(!answers_iperf3() && !audited());
    assert_eq!(configured.listed(&client), "data/\n");
}

#[test]
fn an_export_that_cannot_be_written_to_is_named() {
    if rustix::process::geteuid().is_root() {
        return crate::wrappers::as_nobody(
            "reload::an_export_that_cannot_be_written_to_is_named",
            read_only_exports_are_reported,
        );
    }
    read_only_exports_are_reported();
}

fn read_only_exports_are_reported() {
    let configured = ConfiguredNode::new("");
    configured.reload("export = [\"data=DATA:rw\", \"usr=/usr:rw\", \"etc=/etc\"]\n");
    let log = configured.node.log();
    let warned: Vec<&str> = log.lines().filter(|line| line.contains("nothing can be written to it")).collect();
    assert!(warned.len() == 1 && warned[0].contains("usr") && warned[0].contains("Permission denied"), "{log}");
}

#[test]
fn the_service_manager_is_notified_of_each_state() {
    let dir = tempfile::tempdir().unwrap();
    let (file, path) = (dir.path().join("serve.toml"), dir.path().join("notify"));
    fs::write(&file, "plain = true\n").unwrap();
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let next_message = || {
        let mut bytes = [0; 4096];
        let got = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..got]).into_owned()
    };
    let mut child = Command::new(LONGHAUL)
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(&file)
        .arg("--state")
        .arg(dir.path().join("state"))
        .env("NOTIFY_SOCKET", &path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(next_message().starts_with("READY=1\nSTATUS=listening on 127.0.0.1:"));
    fs::write(&file, "plain = 7\n").unwrap();
    signal(&child, Signal::HUP);
    assert!(next_message().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    let again = next_message();
    assert!(again.starts_with("READY=1") && again.contains("refused") && again.contains("line 1"), "{again}");
    signal(&child, Signal::TERM);
    assert!(next_message().starts_with("STOPPING=1"));
    assert!(child.wait().unwrap().success());
}
