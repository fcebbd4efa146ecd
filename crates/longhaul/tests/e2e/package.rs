//! Packages of the program under test: their content, the effects of their scripts on a system, and whether the program knows
//! their settings.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use flate2::read::GzDecoder;
use xtask::package::{PackageCompression, PackageOptions};

use crate::client::{Client, words};
use crate::https::certificate;
use crate::node::{LONGHAUL, Node, Serving};
use crate::wait::skipped;

const EPOCH: u64 = 1_700_000_000;

fn package_options(out: &Path, version: &str) -> PackageOptions {
    PackageOptions {
        binary: LONGHAUL.into(),
        documented_by: LONGHAUL.into(),
        version: version.into(),
        out: out.to_owned(),
        epoch: EPOCH,
        compression: PackageCompression::None,
    }
}

/// Whether Debian's tools are installed.
fn has_dpkg(test: &str) -> bool {
    let is_there = Command::new("dpkg-deb").arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        skipped(test, "dpkg-deb is not installed: no Debian package can be made");
    }
    is_there
}

/// A package and what is in it, unpacked.
struct Unpacked {
    dir: PathBuf,
    package: PathBuf,
}

/// The stamp of a package: the program's length, and the latest time of all files that go into it.
fn stamp() -> String {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = vec![PathBuf::from(LONGHAUL), std::env::current_exe().unwrap()];
    for dir in ["", "docs", "packaging", "packaging/debian"] {
        let paths = fs::read_dir(ours.join(dir)).unwrap().map(|entry| entry.unwrap().path());
        all.extend(paths.filter(|path| path.is_file()));
    }
    let times = all.iter().filter_map(|path| fs::metadata(path).ok()?.modified().ok());
    let latest = times.max().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    format!("{}-{}", latest.as_nanos(), fs::metadata(LONGHAUL).unwrap().len())
}

/// Removes the packages of earlier programs, which no test uses any more.
fn sweep(all: &Path) {
    for path in fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let age = fs::metadata(&path).unwrap().modified().unwrap().elapsed().unwrap_or_default();
        if age > Duration::from_secs(3600) {
            fs::remove_dir_all(path).unwrap();
        }
    }
}

/// Made once for all tests of a program, each of which runs in a process of its own.
static PACKAGE: LazyLock<Unpacked> = LazyLock::new(|| {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
    fs::create_dir_all(&all).unwrap();
    let lock = File::create(all.join("lock")).unwrap();
    lock.lock().unwrap();
    let dir = all.join(stamp());
    // Written last: where it is missing, the process that made the directory was ended too early.
    let whole = dir.join("whole");
    if !whole.exists() {
        sweep(&all);
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        let package = package_options(&dir, "1.2.3").deb().unwrap();
        let unpacked = Unpacked { dir: dir.clone(), package };
        unpacked.dpkg_deb(&["--raw-extract"], &[&unpacked.root("")]);
        fs::write(&whole, unpacked.package.to_str().unwrap()).unwrap();
    }
    Unpacked { package: fs::read_to_string(whole).unwrap().into(), dir }
});

impl Unpacked {
    fn root(&self, below: &str) -> PathBuf {
        self.dir.join("root").join(below)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn dpkg_deb(&self, options: &[&str], more: &[&Path]) -> String {
        let output = Command::new("dpkg-deb").args(options).arg(&self.package).args(more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn a_package_has_the_expected_files() {
    if !has_dpkg("package::a_package_has_the_expected_files") {
        return;
    }
    let listing = PACKAGE.dpkg_deb(&["--contents"], &[]);
    let rows: BTreeMap<&str, (&str, &str)> = listing
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[5].trim_start_matches("./"), (words[0], words[1]))
        })
        .collect();
    for (path, mode) in [
        ("usr/bin/longhaul", "-rwxr-xr-x"),
        ("usr/share/man/man1/longhaul.1.gz", "-rw-r--r--"),
        ("usr/share/man/man1/longhaul-serve.1.gz", "-rw-r--r--"),
        ("usr/share/man/man1/longhaul-support.1.gz", "-rw-r--r--"),
        ("usr/share/bash-completion/completions/longhaul", "-rw-r--r--"),
        ("usr/share/zsh/vendor-completions/_longhaul", "-rw-r--r--"),
        ("usr/share/fish/vendor_completions.d/longhaul.fish", "-rw-r--r--"),
        ("usr/lib/systemd/system/longhaul.service", "-rw-r--r--"),
        ("usr/lib/systemd/system/longhaul@.service", "-rw-r--r--"),
        ("usr/lib/systemd/system/longhaul-hub.service", "-rw-r--r--"),
        ("usr/lib/systemd/system/longhaul-watch.service", "-rw-r--r--"),
        ("usr/lib/systemd/system/longhaul-netns@.service", "-rw-r--r--"),
        ("usr/lib/longhaul/longhaul-netns", "-rwxr-xr-x"),
        ("usr/lib/sysusers.d/longhaul.conf", "-rw-r--r--"),
        ("usr/lib/tmpfiles.d/longhaul.conf", "-rw-r--r--"),
        ("etc/longhaul/longhaul.toml", "-rw-r--r--"),
        ("etc/longhaul/", "drwxr-xr-x"),
        ("usr/share/longhaul/grafana-dashboard.json", "-rw-r--r--"),
        ("usr/share/doc/longhaul/copyright", "-rw-r--r--"),
        ("usr/share/doc/longhaul/changelog.gz", "-rw-r--r--"),
        ("usr/share/doc/longhaul/install.md", "-rw-r--r--"),
    ] {
        assert_eq!(rows.get(path).map(|row| row.0), Some(mode), "{path} in\n{listing}");
    }
    assert!(rows.values().all(|(_, owner)| *owner == "root/root"), "{listing}");
    let control = PACKAGE.dpkg_deb(&["--field"], &[]);
    for line in ["Package: longhaul", "Version: 1.2.3", "Priority: optional", "Section: net"] {
        assert!(control.lines().any(|had| had == line), "{line} in\n{control}");
    }
    let depends = control.lines().find_map(|line| line.strip_prefix("Depends: ")).unwrap();
    let packages: Vec<&str> = depends.split(", ").map(|part| part.split(' ').next().unwrap()).collect();
    assert!(packages.contains(&"libc6") && packages.contains(&"passwd"), "{depends}");
    assert!(packages.iter().all(|name| ["libc6", "libgcc-s1", "passwd"].contains(name)), "{depends}");
    let conffiles: String = ["hub", "longhaul", "watch"].map(|name| format!("/etc/longhaul/{name}.toml\n")).concat();
    assert_eq!(PACKAGE.text("DEBIAN/conffiles"), conffiles);
    for script in ["postinst", "prerm", "postrm"] {
        let checked = Command::new("sh").arg("-n").arg(PACKAGE.root("DEBIAN").join(script)).status().unwrap();
        assert!(checked.success(), "{script}");
    }
    let sums = Command::new("md5sum")
        .args(["--check", "--strict", "--quiet", "DEBIAN/md5sums"])
        .current_dir(PACKAGE.root(""))
        .output();
    assert!(sums.unwrap().status.success());
    let mut changes = String::new();
    let packed = File::open(PACKAGE.root("usr/share/doc/longhaul/changelog.gz")).unwrap();
    std::io::Read::read_to_string(&mut GzDecoder::new(packed), &mut changes).unwrap();
    assert!(changes.starts_with("longhaul (1.2.3) unstable; urgency=medium\n"), "{changes}");
    assert!(changes.contains("Tue, 14 Nov 2023 22:13:20 +0000"), "{changes}");
}

#[test]
fn the_same_program_makes_the_same_bytes() {
    if !has_dpkg("package::the_same_program_makes_the_same_bytes") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let again = package_options(dir.path(), "1.2.3").deb().unwrap();
    assert!(fs::read(again).unwrap() == fs::read(&PACKAGE.package).unwrap(), "two packages differ");
    let archives = ["a", "b"].map(|name| {
        let out = dir.path().join(name);
        let archive = package_options(&out, "1.2.3").dist().unwrap();
        let checked = Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&out).output();
        let checked = String::from_utf8(checked.unwrap().stdout).unwrap();
        assert_eq!(checked, format!("{}: OK\n", archive.file_name().unwrap().to_str().unwrap()));
        archive
    });
    assert!(fs::read(&archives[0]).unwrap() == fs::read(&archives[1]).unwrap(), "two archives differ");
    let mut found = BTreeMap::new();
    for entry in tar::Archive::new(GzDecoder::new(File::open(&archives[0]).unwrap())).entries().unwrap() {
        let entry = entry.unwrap();
        let header = entry.header();
        assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()), (0, 0, EPOCH));
        let path = entry.path().unwrap().display().to_string();
        found.insert(path.split_once('/').unwrap().1.to_owned(), header.mode().unwrap());
    }
    for (path, mode) in [
        ("bin/longhaul", 0o755),
        ("share/man/man1/longhaul-serve.1", 0o644),
        ("share/bash-completion/completions/longhaul", 0o644),
        ("lib/systemd/system/longhaul.service", 0o644),
        ("lib/systemd/system/longhaul@.service", 0o644),
        ("lib/longhaul/longhaul-netns", 0o755),
        ("etc/longhaul/longhaul.toml", 0o644),
        ("share/doc/longhaul/README.md", 0o644),
        ("share/doc/longhaul/LICENSE", 0o644),
        ("INSTALL.md", 0o644),
    ] {
        assert_eq!(found.get(path), Some(&mode), "{path} in {found:?}");
    }
}

/// Runs rpm(8), which must succeed; what it printed.
fn rpm(words: &[&str], root: Option<&Path>, package: Option<&Path>) -> String {
    let mut command = Command::new("rpm");
    if let Some(root) = root {
        command.arg("--root").arg(root);
    }
    let output = command.args(words).args(package).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_rpm_is_installed_upgraded_and_removed_in_a_root_of_its_own() {
    let test = "package::an_rpm_is_installed_upgraded_and_removed_in_a_root_of_its_own";
    if !Command::new("rpm").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return skipped(test, "rpm is not installed");
    }
    if !rustix::process::geteuid().is_root() {
        return skipped(test, "a root of its own needs root");
    }
    let dir = tempfile::tempdir().unwrap();
    let [old, new] = ["1.2.3", "1.2.4"].map(|version| package_options(dir.path(), version).rpm().unwrap());
    assert!(rpm(&["--checksig", "--nosignature"], None, Some(&old)).contains("digests OK"));
    let listing = rpm(&["--query", "--list", "--verbose", "--package"], None, Some(&old));
    for (path, mode) in [
        ("/usr/bin/longhaul", "-rwxr-xr-x"),
        ("/usr/lib/longhaul/longhaul-netns", "-rwxr-xr-x"),
        ("/usr/lib/systemd/system/longhaul.service", "-rw-r--r--"),
        ("/usr/share/man/man1/longhaul-doctor.1.gz", "-rw-r--r--"),
        ("/usr/share/zsh/site-functions/_longhaul", "-rw-r--r--"),
        ("/usr/share/licenses/longhaul/LICENSE", "-rw-r--r--"),
        ("/etc/longhaul", "drwxr-xr-x"),
    ] {
        assert!(listing.lines().any(|line| line.starts_with(mode) && line.ends_with(path)), "{path} in\n{listing}");
    }
    assert!(listing.lines().all(|line| line.contains(" root ")), "{listing}");
    let needs = rpm(&["--query", "--requires", "--package"], None, Some(&old));
    assert!(needs.contains("libc.so.6(GLIBC_") && needs.contains("systemd"), "{needs}");
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    rpm(&["--initdb"], Some(&root), None);
    // The root has neither a shell nor other packages.
    rpm(&["--install", "--nodeps", "--noscripts"], Some(&root), Some(&old));
    let settings = root.join("etc/longhaul/longhaul.toml");
    fs::write(&settings, "audit = true\n").unwrap();
    rpm(&["--upgrade", "--nodeps", "--noscripts"], Some(&root), Some(&new));
    assert_eq!(fs::read_to_string(&settings).unwrap(), "audit = true\n", "settings stay");
    assert_eq!(
        rpm(&["--query", "longhaul"], Some(&root), None).trim(),
        "longhaul-1.2.4-1.x86_64".replace("x86_64", std::env::consts::ARCH)
    );
    let version = Command::new(root.join("usr/bin/longhaul")).arg("--version").output().unwrap();
    assert!(version.status.success());
    rpm(&["--erase", "--nodeps", "--noscripts", "longhaul"], Some(&root), None);
    assert!(!root.join("usr/bin/longhaul").exists());
    let saved = fs::read_to_string(settings.with_extension("toml.rpmsave")).unwrap();
    assert_eq!(saved, "audit = true\n", "changed settings are kept under another name");
    assert!(
        fs::read(&old).unwrap() == fs::read(package_options(&dir.path().join("b"), "1.2.3").rpm().unwrap()).unwrap()
    );
    for script in ["post", "preun", "postun"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/rpm").join(script);
        assert!(Command::new("sh").arg("-n").arg(path).status().unwrap().success(), "{script}");
    }
}

/// Starts a node with only a settings file and these arguments, and ends it.
fn assert_starts(settings: &Path, more: &[&str]) {
    let mut command = Command::new(LONGHAUL);
    command.args(["serve", "--config"]).arg(settings).args(more).env_remove("LONGHAUL_STATE");
    assert!(Serving::start(&mut command).address.ip().is_loopback());
}

/// Settings that come with a package.
fn packaged_settings(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name);
    fs::read_to_string(path).unwrap()
}

/// The settings in a packaged file, each a comment without a space behind the number sign: `key = value`, in order.
fn commented_settings(text: &str) -> Vec<(&str, &str)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix('#')?.split_once(" = "));
    lines.filter(|(key, _)| !key.starts_with(' ') && !key.contains(' ')).collect()
}

#[test]
fn the_packaged_settings_start_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("longhaul.toml");
    fs::write(&file, packaged_settings("longhaul.toml")).unwrap();
    let state = dir.path().join("state").display().to_string();
    assert_starts(&file, &["--listen", "127.0.0.1:0", "--state", &state]);
}

#[test]
fn every_setting_is_in_the_example_and_counts() {
    let client = Client::new();
    // The expected keys are those that the program names.
    client.write("bad.toml", "no-such-key = 1\n");
    let error = client.run(words!["serve", "--config", client.path("bad.toml")]).expect(2).err;
    let keys: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
    assert!(keys.len() >= 13 && keys.contains(&"client-ca"), "{error}");
    let example = packaged_settings("longhaul.toml");
    let lines = commented_settings(&example);
    let there: Vec<&str> = lines.iter().map(|(key, _)| *key).collect();
    let (mut sorted, mut expected) = (there.clone(), keys.clone());
    sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sorted, expected, "each key once");
    // Every example is uncommented, with paths of this test.
    let at = |name: &str| client.path(name).display().to_string();
    for dir in ["data", "inbox", "exercise"] {
        fs::create_dir(client.path(dir)).unwrap();
    }
    let pem = certificate(&["127.0.0.1"], &[]);
    for name in ["host.pem", "host.key", "client-ca.pem", "ca.pem"] {
        client.write(name, &pem);
    }
    client.write("access.toml", "");
    fs::create_dir_all(client.path("vomsdir/vo.example")).unwrap();
    client.write("vomsdir/vo.example/voms.example.lsc", "/DC=example/CN=voms.example\n/DC=example/CN=CA\n");
    client.write("movers.keys", Node::closed().grant(&["--export", "data", "--write"]));
    let settings: String = lines.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let settings = settings
        .replace("/srv", &at(""))
        .replace("/etc/longhaul", &at(""))
        .replace("[::]:7411", "127.0.0.1:0")
        .replace("[::]:862", "127.0.0.1:0")
        .replace("collector.example", "127.0.0.1")
        .replace("/var/lib/longhaul", &at("state"));
    client.write("longhaul.toml", &settings);
    assert_starts(&client.path("longhaul.toml"), &[]);
    assert!(client.path("state/identity.key.der").exists(), "{settings}");
}

/// Starts a hub or a watch with a packaged settings file, as its unit does; what it reports to the supervisor.
fn report_of_service(words: &[&str], settings: &str) -> String {
    let client = Client::new();
    client.write("settings.toml", packaged_settings(settings));
    let notify = client.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&notify).unwrap();
    let mut command = Command::new(LONGHAUL);
    command.args(words).arg("--config").arg(client.path("settings.toml")).args(["--listen", "127.0.0.1:0"]);
    command.arg("--state").arg(client.path("state")).env("NOTIFY_SOCKET", &notify);
    socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut service = command.stdout(Stdio::null()).spawn().unwrap();
    let mut bytes = [0; 200];
    let length = socket.recv(&mut bytes);
    service.kill().unwrap();
    service.wait().unwrap();
    String::from_utf8_lossy(&bytes[..length.unwrap()]).into_owned()
}

#[test]
fn the_packaged_settings_start_a_hub_and_a_watch() {
    for (words, settings) in [(["hub", "serve"], "hub.toml"), (["watch", "serve"], "watch.toml")] {
        let report = report_of_service(&words, settings);
        assert!(report.starts_with("READY=1\nSTATUS=listening on https://127.0.0.1:"), "{settings}: {report}");
    }
}

/// The settings of the systemd unit, by section and key; a key may occur more than once.
fn unit() -> BTreeMap<(String, String), Vec<String>> {
    let text = PACKAGE.text("usr/lib/systemd/system/longhaul.service");
    let (mut found, mut section) = (BTreeMap::<_, Vec<String>>::new(), String::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(name) => section = name.to_owned(),
            None => {
                let (key, value) = line.split_once('=').unwrap();
                found.entry((section.clone(), key.to_owned())).or_default().push(value.to_owned());
            }
        }
    }
    found
}

#[test]
fn the_unit_takes_away_what_a_node_does_not_need() {
    if !has_dpkg("package::the_unit_takes_away_what_a_node_does_not_need") {
        return;
    }
    let unit = unit();
    let setting = |key: &str| unit.get(&("Service".to_owned(), key.to_owned())).map_or("", |all| all[0].as_str());
    for key in [
        "NoNewPrivileges",
        "PrivateTmp",
        "PrivateDevices",
        "ProtectHome",
        "ProtectControlGroups",
        "ProtectHostname",
        "ProtectKernelLogs",
        "ProtectKernelModules",
        "ProtectKernelTunables",
        "RestrictNamespaces",
        "RestrictRealtime",
        "LockPersonality",
        "MemoryDenyWriteExecute",
        "RemoveIPC",
    ] {
        assert_eq!(setting(key), "yes", "{key}");
    }
    for (key, value) in [
        ("Type", "notify"),
        ("User", "longhaul"),
        ("Group", "longhaul"),
        ("StateDirectory", "longhaul"),
        ("ProtectSystem", "strict"),
        ("CapabilityBoundingSet", ""),
        ("SystemCallFilter", "@system-service"),
        ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX AF_NETLINK"),
        ("Restart", "on-failure"),
        ("ExecStart", "/usr/bin/longhaul serve --config /etc/longhaul/longhaul.toml"),
    ] {
        assert!(unit.contains_key(&("Service".to_owned(), key.to_owned())), "{key}");
        assert_eq!(setting(key), value, "{key}");
    }
    assert!(setting("ExecReload").contains("kill -HUP") && setting("LimitNOFILE").parse::<u32>().unwrap() >= 65_536);
    assert!(PACKAGE.text("usr/lib/sysusers.d/longhaul.conf").contains("u longhaul "));
    // The example shows how to write exports all the same.
    assert!(PACKAGE.text("etc/longhaul/longhaul.toml").contains("ReadWritePaths="));
}

#[test]
fn systemd_finds_no_fault_with_the_unit() {
    let test = "package::systemd_finds_no_fault_with_the_unit";
    if !has_dpkg(test) {
        return;
    }
    let root = PACKAGE.root("").display().to_string();
    let analyze = |words: &[&str]| Command::new("systemd-analyze").args(words).env("SYSTEMD_COLORS", "0").output();
    match analyze(&["--version"]) {
        Ok(output) if output.status.success() => {}
        _ => return skipped(test, "systemd-analyze is not installed"),
    }
    for name in ["longhaul", "longhaul-hub", "longhaul-watch"] {
        assert_no_fault(&root, &format!("{name}.service"));
    }
}

fn assert_no_fault(root: &str, name: &str) {
    let analyze = |words: &[&str]| Command::new("systemd-analyze").args(words).env("SYSTEMD_COLORS", "0").output();
    let unit = PACKAGE.root("usr/lib/systemd/system").join(name);
    // The program is where the package will have put it: it is not looked for here.
    let text = fs::read_to_string(&unit).unwrap().replace("/usr/bin/longhaul ", "/bin/true ");
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join(name);
    fs::write(&copy, text).unwrap();
    let verified = analyze(&["verify", "--man=no", &copy.display().to_string()]).unwrap();
    let complaints = String::from_utf8_lossy(&verified.stderr).into_owned();
    let ours: Vec<&str> = complaints.lines().filter(|line| line.contains("longhaul")).collect();
    assert!(verified.status.success() && ours.is_empty(), "{complaints}");
    let judged = analyze(&["security", "--offline=true", "--no-pager", &format!("--root={root}"), name]).unwrap();
    let report = String::from_utf8_lossy(&judged.stdout).into_owned();
    let figure = report.lines().last().and_then(|line| line.split(": ").nth(1)?.split(' ').next()?.parse::<f64>().ok());
    // From 0 to 10; of a service that runs, 0.2 less than of a file. Later versions weigh a little differently; a lost setting weighs more
    // than that.
    assert!(figure.is_some_and(|figure| figure <= 2.2), "{name}: {report}{}", String::from_utf8_lossy(&judged.stderr));
}

/// The package on a copy of this system, in memory and gone afterwards: installed, used, upgraded, removed, purged, by
/// Debian's own tools. No systemd runs there; `cargo xtask try-deb` is the same, and more, with one.
#[test]
fn the_scripts_leave_a_system_as_they_found_it() {
    let test = "package::the_scripts_leave_a_system_as_they_found_it";
    if !has_dpkg(test) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return skipped(test, "mounts and users need root");
    }
    let overlay = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !overlay.contains("overlay") {
        return skipped(test, "this kernel has no overlay");
    }
    let dir = tempfile::tempdir().unwrap();
    let later = package_options(dir.path(), "1.2.4").deb().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/try.sh");
    let output = Command::new("sh").arg(script).arg("--scripts").arg(&PACKAGE.package).arg(later).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("PASSED"), "{out}\n{err}");
}
