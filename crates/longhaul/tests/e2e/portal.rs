//! The portal in a browser: Chromium, driven by Playwright, against a hub and two nodes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::https;
use crate::hub::Hub;
use crate::node::{Node, Setup};
use crate::tree::pattern;
use crate::wait::skipped;

/// The programs that the tests of the pages need.
const BROWSER: &str = "/usr/bin/chromium";
/// More than one part of an upload: 64 MiB.
const LARGE_BYTES: usize = 70_000_000;

/// The directory of the portal; none where its tests cannot run, which is reported.
pub fn portal(test: &str) -> Option<PathBuf> {
    let portal = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hub/portal");
    if Path::new(BROWSER).exists() && portal.join("node_modules/playwright-core").exists() {
        return Some(portal);
    }
    skipped(test, "no Chromium (package chromium), or the portal was not built (make portal)");
    None
}

/// Runs a test of the pages; if it fails, the last calls of the browser's driver say where.
#[allow(clippy::print_stdout, reason = "the calls belong to the failed test's own output")]
pub fn run(portal: &Path, script: &str, environment: &[(&str, &str)]) {
    let calls = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new("node");
    command.arg(script).current_dir(portal).env("CHROMIUM", BROWSER).envs(environment.iter().copied());
    let status = command.env("DEBUG", "pw:api").stderr(calls.reopen().unwrap()).status().unwrap();
    if !status.success() {
        let calls = fs::read_to_string(calls.path()).unwrap();
        calls.lines().skip(calls.lines().count().saturating_sub(60)).for_each(|line| println!("{line}"));
        panic!("{script} ended with {status}");
    }
}

/// Fills the first node: a folder to move, a folder with names that are hard to show, a drop box, and headers of scientific formats.
fn fill(one: &Node) {
    let write = |path: &str, bytes: &[u8]| {
        let path = one.data(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    write("catalogue/s/f0", &pattern(100_000));
    (0..5).for_each(|file| write(&format!("run/f{file}"), &pattern(100_000)));
    // A name with markup, and one with a change of the writing direction.
    write("run/<img src=x onerror=window.broken=1>", b"markup");
    write("run/invoice\u{202e}fdp.exe", b"turned");
    let cards = ["SIMPLE  =                    T", "TELESCOP= 'TEST    '", "END"];
    let head: String = cards.iter().map(|card| format!("{card:80}")).collect();
    write("science/image.fits", format!("{head:2880}").as_bytes());
    write("science/cube.h5", &hdf5());
    fs::create_dir_all(one.data("inbox")).unwrap();
}

/// Adds a folder of 100,000 files.
fn fill_with_many_files(one: &Node) {
    fs::create_dir(one.data("many")).unwrap();
    (0..100_000).for_each(|file| drop(fs::File::create(one.data(&format!("many/n{file:05}"))).unwrap()));
}

/// The beginning of an HDF5 file: a superblock of version 0, with offsets and lengths of 8 bytes.
fn hdf5() -> Vec<u8> {
    let mut bytes = b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0\x04\0\x10\0\0\0\0\0".to_vec();
    for address in [0, u64::MAX, 2048, u64::MAX] {
        bytes.extend(address.to_le_bytes());
    }
    bytes.extend(b"temperature\0");
    bytes.resize(2048, 0);
    bytes
}

/// A hub with two nodes as endpoints, and an upload of more than one part.
struct PortalSetup {
    portal: PathBuf,
    hub: Hub,
    one: Node,
    two: Node,
    operator: String,
    dir: TempDir,
}

impl PortalSetup {
    /// Starts all; none where tests of the pages cannot run, which is reported.
    fn start(test: &str) -> Option<PortalSetup> {
        let portal = portal(&format!("portal::{test}"))?;
        let hub = Hub::start(&[]);
        // In memory: some file systems need minutes to make 100,000 files beside the other tests.
        let node = || {
            let setup = Setup::in_memory().data_export("rw").with_macaroons();
            setup.arg("--allow-origin").arg(hub.url.clone()).start()
        };
        let (one, two) = (node(), node());
        let admin = hub.member("admin", "root", "");
        for (name, node) in [("one", &one), ("two", &two)] {
            admin.run(&["hub", "site", "add", name, "--location", "46.2,6.1"]).expect(0);
            let key = admin.write(&format!("{name}.key"), &node.grant(&["--export", "data", "--write"]));
            let (url, storage) = (node.at(""), node.at("data/catalogue"));
            let words =
                ["hub", "endpoint", "add", name, "--url", &url, "--endpoint-key-file", &key, "--storage", &storage];
            admin.run(&[&words[..], &["--site", name]].concat()).expect(0);
        }
        admin.run(&["hub", "link", "add", "wan", "--capacity", "1Gbit/s", "--between", "one,two"]).expect(0);
        fill(&one);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("large.dat"), pattern(LARGE_BYTES)).unwrap();
        let operator = hub.grant(&["--role", "operator", "--name", "ann", "--community", ""]);
        Some(PortalSetup { portal, hub, one, two, operator, dir })
    }

    /// Runs a test of the pages; `more` are further environment variables.
    fn run(&self, script: &str, more: &[(&str, &str)]) {
        let (source, target) = (self.one.at("data/run"), self.two.at("data/run"));
        let large = self.dir.path().join("large.dat");
        let environment = [
            ("HUB", self.hub.url.as_str()),
            ("KEY", &self.operator),
            ("SOURCE", &source),
            ("TARGET", &target),
            ("LARGE", large.to_str().unwrap()),
        ];
        run(&self.portal, script, &[&environment[..], more].concat());
    }

    /// Runs some of the scenes in which people use the portal.
    fn scenes(&self, names: &str) {
        self.run("tests/portal.mjs", &[("SCENES", names)]);
    }
}

#[test]
fn people_move_data_by_the_portal() {
    let Some(all) = PortalSetup::start("people_move_data_by_the_portal") else { return };
    all.scenes("firstTransfer");
    assert_eq!(fs::read(all.two.data("run/f4")).unwrap(), pattern(100_000));
    assert_eq!(fs::read(all.two.data("run/invoice\u{202e}fdp.exe")).unwrap(), b"turned");
}

#[test]
fn people_move_files_from_pane_to_pane_of_the_portal() {
    let Some(all) = PortalSetup::start("people_move_files_from_pane_to_pane_of_the_portal") else { return };
    fill_with_many_files(&all.one);
    all.scenes("twoPanes");
    assert_eq!(fs::read(all.two.data("f3")).unwrap(), pattern(100_000));
}

#[test]
fn people_change_files_by_the_portal() {
    let Some(all) = PortalSetup::start("people_change_files_by_the_portal") else { return };
    all.scenes("filesChanged");
    assert!(fs::read(all.one.data("new <b>folder/large.dat")).unwrap() == pattern(LARGE_BYTES));
    assert_eq!(fs::read(all.one.data("new <b>folder/renamed.txt")).unwrap(), b"few words");
}

#[test]
fn people_share_data_by_the_portal() {
    let Some(all) = PortalSetup::start("people_share_data_by_the_portal") else { return };
    all.scenes("sharing");
    assert_eq!(fs::read(all.one.data("inbox/result.txt")).unwrap(), b"first", "a drop box replaces nothing");
}

#[test]
fn operators_run_a_collaboration_by_the_portal() {
    let Some(mut all) = PortalSetup::start("operators_run_a_collaboration_by_the_portal") else { return };
    all.scenes("datasets,operation,planning,exercises,errors");
    let gone = all.two.at("data/");
    all.two.kill();
    all.run("tests/node_down.mjs", &[("GONE", &gone)]);
}

#[test]
fn pages_of_other_sites_cannot_use_a_session_of_the_portal() {
    let Some(all) = PortalSetup::start("pages_of_other_sites_cannot_use_a_session_of_the_portal") else { return };
    all.scenes("strangers");
    assert!(!all.two.data("run-stolen").exists(), "a page of another site moved something");
}

/// A provider that ends with its guard.
struct Provider {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    url: String,
}

impl Provider {
    fn start(portal: &Path, certificate: &Path) -> Provider {
        let mut command = Command::new("node");
        command.arg("tests/provider.mjs").current_dir(portal).env("CERTIFICATE", certificate);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening on ").unwrap().to_owned();
        Provider { child, output, url }
    }

    /// Registers the hub.
    fn register(&mut self, redirect: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{redirect}").unwrap();
        let mut line = String::new();
        while line.trim_end() != "ready" {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the provider has ended");
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn people_sign_in_at_a_provider_with_the_identity_that_it_states() {
    const TEST: &str = "portal::people_sign_in_at_a_provider_with_the_identity_that_it_states";
    let Some(portal) = portal(TEST) else { return };
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let certificate = write("provider.pem", &https::certificate(&["127.0.0.1"], &[]));
    let authority = write("authority.pem", https::authority());
    let secret = write("secret", "a secret: with marks\n");
    let mut provider = Provider::start(&portal, &certificate);
    let config = write(
        "hub.toml",
        &format!(
            "[[sign-in]]\nid = \"institute\"\ntitle = \"Institute\"\nissuer = {:?}\nclient-id = \"hub\"\nclient-secret-file = {secret:?}\n\
             scopes = [\"profile\"]\nname = \"preferred_username\"\n[[sign-in.member]]\nclaim = \"groups\"\nvalue = \"ops\"\nrole = \"operator\"\n",
            provider.url
        ),
    );
    let words = ["--config", config.to_str().unwrap(), "--cacert", authority.to_str().unwrap()];
    let hub = Hub::start(&words.map(|word| &*String::leak(word.to_owned())));
    provider.register(&format!("{}/api/v1/sign-in/institute/answer", hub.url));
    run(&portal, "tests/sign_in.mjs", &[("HUB", &hub.url), ("PROVIDER", &provider.url)]);
}
