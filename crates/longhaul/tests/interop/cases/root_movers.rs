//! Clients of a coordinator, which sends those that read large files over TLS to its movers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tempfile::TempDir;

use super::{NINE, pattern};
use crate::case::Case;
use crate::clients::ClientOutput;
use crate::context::CaseContext;
use crate::node::{LONGHAUL, Node, Setup};

const CLIENT: &str = "movers-root";
/// More bytes than a file must have before clients are sent to movers.
const LARGE: usize = 70 << 20;

pub const CASES: &[Case] = &[
    Case::new(
        CLIENT,
        "xrdcp",
        "xrdcp of a large file from a coordinator by roots://",
        "the file, from its mover",
        xrdcp,
    ),
    Case::new(CLIENT, "xrdcp-token", "the same with BEARER_TOKEN", "the file, from its mover", xrdcp_token),
    Case::new(CLIENT, "ours", "cp of a large file from a coordinator by roots://", "the file, from its mover", ours),
    Case::new(
        CLIENT,
        "ours-token",
        "the same with a credential that the mover does not know",
        "the file, from its mover",
        ours_token,
    ),
    Case::new(CLIENT, "small", "xrdcp of a small file", "the file, from the coordinator", small),
    Case::new(CLIENT, "clear", "xrdcp of a large file in clear text", "the file, from the coordinator", clear),
    Case::new(CLIENT, "gone", "xrdcp and cp where the mover has gone", "the file, from the coordinator", gone),
    Case::new(
        CLIENT,
        "untrusted",
        "xrdcp and cp where the mover's certificate is not for its name",
        "the file, from the coordinator",
        untrusted,
    ),
    Case::new(
        CLIENT,
        "other",
        "xrdcp and cp where the mover serves another directory",
        "the file, from the coordinator",
        other_directory,
    ),
    Case::new(CLIENT, "marked", "xrdcp of a file that was redirected before", "the file, from the coordinator", marked),
    Case::new(
        CLIENT,
        "third-party",
        "xrdcp --tpc only of a large file to another node",
        "the file, from the coordinator",
        third_party,
    ),
];

/// A coordinator and its mover, on one directory.
struct MoverSite {
    shared: TempDir,
    coordinator: Node,
    mover: Node,
}

/// A node of this host, with its certificate, that anybody may read.
fn node(context: &CaseContext, dir: &TempDir, more: impl FnOnce(Setup) -> Setup) -> Node {
    let pki = &context.test_bed.pki;
    let setup = Setup::new().export("data", dir.path(), "rw").arg("--plain").arg("--anonymous").arg("ro");
    let certified = setup.arg("--certificate").arg(&pki.host.certificate).arg("--certificate-key").arg(&pki.host.key);
    more(certified.arg("--cacert").arg(&pki.ca)).start()
}

impl MoverSite {
    /// A site whose coordinator tells clients this address of the mover.
    fn new(context: &CaseContext, address: impl FnOnce(&Node) -> String) -> MoverSite {
        let shared = tempfile::tempdir().unwrap();
        let mover = node(context, &shared, |setup| setup.on_all_addresses().with_macaroons());
        MoverSite::with(context, shared, mover, address)
    }

    /// The same with this mover.
    fn with(context: &CaseContext, shared: TempDir, mover: Node, address: impl FnOnce(&Node) -> String) -> MoverSite {
        let key = mover.grant(&["--export", "data", "--write"]);
        let coordinator = node(context, &shared, |setup| {
            let keys = setup.state().with_file_name("keys");
            fs::write(&keys, key).unwrap();
            fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
            setup.arg("--root-movers").arg(address(&mover)).arg("--key-file").arg(keys)
        });
        MoverSite { shared, coordinator, mover }
    }

    fn put(&self, bytes: &[u8]) {
        fs::write(self.shared.path().join("f"), bytes).unwrap();
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}//data/f", self.coordinator.port)
    }

    /// Checks whether the mover has served the file, or the coordinator.
    #[track_caller]
    fn assert_read_from(&self, by_mover: bool) {
        let log = self.mover.log();
        let opened = log.lines().any(|line| line.contains("by=\"roots\" event=\"open\"") && line.contains("allowed"));
        assert_eq!(opened, by_mover, "the mover has served it; the coordinator's log: {}", self.coordinator.log());
    }
}

fn by_name(mover: &Node) -> String {
    format!("localhost:{}", mover.port)
}

fn xrdcp_with(context: &CaseContext, more: &[(&str, &str)], url: &str, name: &str) -> (ClientOutput, PathBuf) {
    let path = context.path(name);
    let words = ["xrdcp", "--nopbar", "-s", "-f", url, path.to_str().unwrap()];
    (context.run_with(more, &words), path)
}

fn assert_copied(context: &CaseContext, site: &MoverSite, bytes: &[u8], scheme: &str, name: &str) {
    let (output, path) = xrdcp_with(context, &[], &site.url(scheme), name);
    output.expect_success();
    assert!(fs::read(path).unwrap() == bytes);
}

fn copy_ours(context: &CaseContext, site: &MoverSite, bytes: &[u8]) {
    copy_ours_with(context, &[], site, bytes);
}

fn copy_ours_with(context: &CaseContext, more: &[(&str, &str)], site: &MoverSite, bytes: &[u8]) {
    let (state, path) = (context.path("state").display().to_string(), context.path("ours"));
    let ca = context.test_bed.pki.ca.display().to_string();
    let words = [LONGHAUL, "--state", &state, "--cacert", &ca, "cp", &site.url("roots"), path.to_str().unwrap()];
    context.run_with(more, &words).expect_success();
    assert!(fs::read(path).unwrap() == bytes);
}

fn xrdcp(context: &CaseContext) {
    let (site, bytes) = (MoverSite::new(context, by_name), pattern(LARGE));
    site.put(&bytes);
    assert_copied(context, &site, &bytes, "roots", "g");
    site.assert_read_from(true);
}

fn xrdcp_token(context: &CaseContext) {
    let (site, bytes) = (MoverSite::new(context, by_name), pattern(LARGE));
    site.put(&bytes);
    let token = context.token(&["read"]);
    let (output, path) = xrdcp_with(context, &[("BEARER_TOKEN", &token)], &site.url("roots"), "g");
    output.expect_success();
    assert!(fs::read(path).unwrap() == bytes);
    site.assert_read_from(true);
}

fn ours(context: &CaseContext) {
    let (site, bytes) = (MoverSite::new(context, by_name), pattern(LARGE));
    site.put(&bytes);
    copy_ours(context, &site, &bytes);
    site.assert_read_from(true);
}

fn ours_token(context: &CaseContext) {
    let (site, bytes) = (MoverSite::new(context, by_name), pattern(LARGE));
    site.put(&bytes);
    // The coordinator knows this credential, and the mover does not: the macaroon is enough there.
    let key = site.coordinator.grant(&["--export", "data"]);
    copy_ours_with(context, &[("BEARER_TOKEN", &key)], &site, &bytes);
    site.assert_read_from(true);
}

fn small(context: &CaseContext) {
    let site = MoverSite::new(context, by_name);
    site.put(NINE);
    assert_copied(context, &site, NINE, "roots", "g");
    site.assert_read_from(false);
}

fn clear(context: &CaseContext) {
    let (site, bytes) = (MoverSite::new(context, by_name), pattern(LARGE));
    site.put(&bytes);
    assert_copied(context, &site, &bytes, "root", "g");
    site.assert_read_from(false);
}

fn gone(context: &CaseContext) {
    let (mut site, bytes) = (MoverSite::new(context, by_name), pattern(LARGE));
    site.put(&bytes);
    site.mover.stop();
    assert_copied(context, &site, &bytes, "roots", "g");
    copy_ours(context, &site, &bytes);
    site.assert_read_from(false);
}

fn untrusted(context: &CaseContext) {
    // The mover's certificate is not for this address, so clients would not trust it there.
    let (site, bytes) = (MoverSite::new(context, |mover| format!("127.0.0.2:{}", mover.port)), pattern(LARGE));
    site.put(&bytes);
    assert_copied(context, &site, &bytes, "roots", "g");
    copy_ours(context, &site, &bytes);
    site.assert_read_from(false);
}

fn other_directory(context: &CaseContext) {
    let (shared, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mover = node(context, &other, |setup| setup.on_all_addresses().with_macaroons());
    let (site, bytes) = (MoverSite::with(context, shared, mover, by_name), pattern(LARGE));
    site.put(&bytes);
    assert_copied(context, &site, &bytes, "roots", "g");
    fs::write(other.path().join("f"), &bytes[..LARGE - 1]).unwrap();
    copy_ours(context, &site, &bytes);
    site.assert_read_from(false);
}

fn marked(context: &CaseContext) {
    let (site, bytes) = (MoverSite::new(context, by_name), pattern(LARGE));
    site.put(&bytes);
    let url = format!("{}?longhaul.redirected=1", site.url("roots"));
    let (output, path) = xrdcp_with(context, &[], &url, "g");
    output.expect_success();
    assert!(fs::read(path).unwrap() == bytes);
    site.assert_read_from(false);
}

fn third_party(context: &CaseContext) {
    let (site, bytes) = (MoverSite::new(context, by_name), pattern(LARGE));
    site.put(&bytes);
    let target = context.open();
    context.run(&["xrdcp", "--nopbar", "-s", "--tpc", "only", &site.url("roots"), &target.roots("g")]).expect_success();
    assert!(target.get("g") == bytes);
    site.assert_read_from(false);
}
