//! Proxies made by the grid's programs, `openssl` and `voms-proxy-fake`. Reported as skipped where these are missing.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use auth::x509::{Authorities, ChainError, Identity, VomsServers, verify};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;

const ANN: &str = "/DC=org/O=Grid/CN=Ann Example";
const VOMS: &str = "/DC=org/O=Grid/CN=voms.example.org";

/// An authority, a person and a VOMS server, in a directory.
struct Grid(TempDir);

fn has(test: &str, programs: &[&str]) -> bool {
    let found = |name: &&str| Command::new(name).arg("-help").output().is_ok();
    match programs.iter().find(|name| !found(name)) {
        None => true,
        Some(missing) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {missing} is not installed");
            false
        }
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

impl Grid {
    fn new() -> Grid {
        let grid = Grid(tempfile::tempdir().unwrap());
        grid.openssl(
            "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj",
            &["/DC=org/O=Grid/CN=CA"],
        );
        let of_people = "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature,keyEncipherment\n\
                         extendedKeyUsage=clientAuth,serverAuth\n";
        grid.write("person.ext", of_people);
        grid.certificate("ann", ANN, "ca", "person.ext");
        grid.certificate("voms", VOMS, "ca", "person.ext");
        grid
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn run(&self, mut command: Command) {
        let output = command.current_dir(self.path()).env("HOME", self.path()).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn openssl(&self, line: &str, rest: &[&str]) {
        let mut command = Command::new("openssl");
        command.args(line.split(' ')).args(rest);
        self.run(command);
    }

    fn certificate(&self, name: &str, subject: &str, signer: &str, extensions: &str) {
        self.openssl(&format!("req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj"), &[subject]);
        let line = format!(
            "x509 -req -in {name}.csr -CA {signer}.pem -CAkey {signer}.key -set_serial 4711 -days 1 -extfile {extensions}"
        );
        self.openssl(&line, &["-out", &format!("{name}.pem")]);
    }

    /// Makes a proxy by openssl, with the given policy language.
    fn openssl_proxy(&self, name: &str, signer: &str, subject: &str, info: &str) {
        let text = format!(
            "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nproxyCertInfo=critical,{info}\n"
        );
        self.write(&format!("{name}.ext"), &text);
        self.certificate(name, subject, signer, &format!("{name}.ext"));
    }

    fn voms_proxy(&self, arguments: &[&str]) {
        self.voms_proxy_of("4", arguments);
    }

    /// A proxy of Globus 2, of Globus 3, or (4) of RFC 3820.
    fn voms_proxy_of(&self, version: &str, arguments: &[&str]) {
        let mut command = Command::new("voms-proxy-fake");
        command.args("-cert ann.pem -key ann.key -hostcert voms.pem -hostkey voms.key -voms astro -hours 5".split(' '));
        command.args("-uri voms.example.org:15000 -certdir . -newformat -out proxy.pem".split(' '));
        self.run({
            command.args(["-proxyver", version]).args(arguments);
            command
        });
    }

    /// The certificates of all files, one after the other.
    fn chain(&self, files: &[&str]) -> Vec<CertificateDer<'static>> {
        let all = files.iter().map(|file| CertificateDer::pem_file_iter(self.path().join(file)).unwrap());
        all.flatten().map(Result::unwrap).collect()
    }

    fn verify(&self, files: &[&str]) -> Result<Identity, ChainError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.chain(&["ca.pem"]).remove(0)).unwrap();
        let mut voms = VomsServers::default();
        voms.add("astro", &format!("{VOMS}\n/DC=org/O=Grid/CN=CA\n")).unwrap();
        verify(&self.chain(files), &Authorities { voms, ..Authorities::new(Arc::new(roots)) }, now())
    }
}

#[test]
fn proxies_that_openssl_makes_are_verified() {
    if !has("proxies_that_openssl_makes_are_verified", &["openssl"]) {
        return;
    }
    let grid = Grid::new();
    grid.openssl_proxy("p1", "ann", &format!("{ANN}/CN=1"), "language:id-ppl-inheritAll,pathlen:1");
    grid.openssl_proxy("p2", "p1", &format!("{ANN}/CN=1/CN=2"), "language:1.3.6.1.4.1.3536.1.1.1.9");
    grid.openssl_proxy("p3", "p2", &format!("{ANN}/CN=1/CN=2/CN=3"), "language:id-ppl-inheritAll");
    grid.openssl_proxy("mute", "ann", &format!("{ANN}/CN=4"), "language:id-ppl-independent");

    let alone = grid.verify(&["ann.pem"]).unwrap();
    assert_eq!((alone.grid_name.as_str(), alone.proxies), (ANN, 0));
    let one = grid.verify(&["p1.pem", "ann.pem"]).unwrap();
    assert_eq!((one.grid_name.as_str(), one.proxies, one.is_limited), (ANN, 1, false));
    let two = grid.verify(&["p2.pem", "p1.pem", "ann.pem", "ca.pem"]).unwrap();
    assert_eq!((two.grid_name.as_str(), two.proxies, two.is_limited), (ANN, 2, true));
    assert!(matches!(grid.verify(&["p3.pem", "p2.pem", "p1.pem", "ann.pem"]), Err(ChainError::Depth(_))));
    assert!(matches!(grid.verify(&["mute.pem", "ann.pem"]), Err(ChainError::Language(_))));
    assert!(matches!(grid.verify(&["p2.pem", "ann.pem"]), Err(ChainError::Incomplete(_))));
}

#[test]
fn attributes_that_voms_proxy_fake_makes_are_verified() {
    if !has("attributes_that_voms_proxy_fake_makes_are_verified", &["openssl", "voms-proxy-fake"]) {
        return;
    }
    let grid = Grid::new();
    grid.voms_proxy(&["-fqan", "/astro/Role=production", "-fqan", "/astro"]);
    let identity = grid.verify(&["proxy.pem"]).unwrap();
    assert_eq!((identity.grid_name.as_str(), identity.proxies), (ANN, 1));
    assert_eq!(identity.refused_attributes, [""; 0]);
    assert_eq!(identity.fqans().collect::<Vec<_>>(), ["/astro/Role=production", "/astro"]);
    assert_eq!((identity.attributes[0].vo.as_str(), identity.attributes[0].server.as_str()), ("astro", VOMS));
    assert!(identity.attributes[0].expires > now() + 4 * 3600);

    let refused = |arguments: &[&str]| {
        grid.voms_proxy(arguments);
        let identity = grid.verify(&["proxy.pem"]).unwrap();
        assert!(identity.attributes.is_empty(), "{identity:?}");
        identity.refused_attributes.join("; ")
    };
    assert!(refused(&["-fqan", "/other"]).contains("which is not its own"));
    assert!(refused(&["-fqan", "/astro", "-target", "elsewhere.example.org"]).contains("for certain hosts only"));
    assert!(refused(&["-fqan", "/astro", "-pastac", "20:00", "-vomslife", "1"]).contains("expired at"));
    assert!(
        refused(&["-fqan", "/astro", "-hostcert", "ann.pem", "-hostkey", "ann.key"])
            .contains("is no VOMS server of astro")
    );
}

#[test]
fn older_proxies_are_refused_with_their_kind() {
    if !has("older_proxies_are_refused_with_their_kind", &["openssl", "voms-proxy-fake"]) {
        return;
    }
    let grid = Grid::new();
    grid.voms_proxy(&["-fqan", "/astro", "-limited"]);
    assert!(grid.verify(&["proxy.pem"]).unwrap().is_limited);
    grid.voms_proxy_of("2", &["-fqan", "/astro"]);
    assert!(matches!(grid.verify(&["proxy.pem"]), Err(ChainError::Legacy(_))));
    grid.voms_proxy_of("3", &["-fqan", "/astro"]);
    assert!(matches!(grid.verify(&["proxy.pem"]), Err(ChainError::Draft(_))));
    grid.voms_proxy(&["-fqan", "/astro", "-pastproxy", "20:00", "-hours", "1"]);
    let error = grid.verify(&["proxy.pem"]).unwrap_err();
    assert!(error.to_string().contains("expired at"), "{error}");
}
