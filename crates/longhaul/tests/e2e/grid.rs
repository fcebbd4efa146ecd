//! Certificates as the grid makes them: an authority, people and proxies by `openssl`, attributes by `voms-proxy-fake`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

pub const ANN: &str = "/DC=org/O=Grid/CN=Ann Example";
pub const BOB: &str = "/DC=org/O=Grid/CN=Bob";
pub const VOMS: &str = "/DC=org/O=Grid/CN=voms.example.org";
const PROXY: &str = "proxyCertInfo=critical,language:id-ppl-inheritAll\nkeyUsage=critical,digitalSignature\n";

/// A directory with an authority, Ann, Bob, a VOMS server, and a list of such servers.
pub struct Grid(TempDir);

/// Whether a program is installed; a test that needs it reports that it is skipped.
pub fn is_installed(test: &str, program: &str) -> bool {
    let is_installed = Command::new(program).arg("-help").output().is_ok();
    if !is_installed {
        let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {program} is not installed");
    }
    is_installed
}

impl Grid {
    pub fn new() -> Grid {
        let grid = Grid(tempfile::tempdir().unwrap());
        grid.openssl(
            "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj",
            &["/DC=org/O=Grid/CN=CA"],
        );
        let of_people = "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature,keyEncipherment\n\
                         extendedKeyUsage=clientAuth,serverAuth\n";
        fs::write(grid.path("person.ext"), of_people).unwrap();
        fs::write(grid.path("proxy.ext"), PROXY).unwrap();
        for (name, subject) in [("ann", ANN), ("bob", BOB), ("voms", VOMS)] {
            grid.key(name);
            grid.sign(name, subject, "ca", "person.ext", 1);
            grid.bundle(name, &[name]);
        }
        fs::create_dir_all(grid.path("vomsdir/astro.example")).unwrap();
        let list = format!("{VOMS}\n/DC=org/O=Grid/CN=CA\n");
        fs::write(grid.path("vomsdir/astro.example/voms.example.org.lsc"), list).unwrap();
        grid
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A path as an argument of a hub, with a static lifetime.
    pub fn argument(&self, name: &str) -> &'static str {
        Box::leak(self.path(name).display().to_string().into_boxed_str())
    }

    fn run(&self, command: &mut Command) -> Output {
        let output = command.current_dir(self.0.path()).env("HOME", self.0.path()).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    }

    fn openssl(&self, line: &str, rest: &[&str]) {
        self.run(Command::new("openssl").args(line.split(' ')).args(rest));
    }

    fn key(&self, name: &str) {
        self.openssl(&format!("genrsa -out {name}.key 2048"), &[]);
        self.openssl(&format!("rsa -in {name}.key -pubout -out {name}.pub"), &[]);
    }

    /// Signs a certificate for the key `NAME.pub`; with 0 days it expires at once.
    fn sign(&self, name: &str, subject: &str, signer: &str, extensions: &str, days: u32) {
        let serial: u32 = 4711 + name.bytes().map(u32::from).sum::<u32>();
        let line = format!(
            "x509 -new -force_pubkey {name}.pub -CA {signer}.pem -CAkey {signer}.key -set_serial {serial} -days {days} \
             -extfile {extensions} -out {name}.pem -subj"
        );
        self.openssl(&line.replace("             ", ""), &[subject]);
    }

    /// Writes the certificates of a chain to `NAME.chain`, and to `NAME.all` with the key `NAME.key` after them, as curl takes them and as
    /// proxies are kept in `/tmp`.
    fn bundle(&self, name: &str, chain: &[&str]) {
        let read = |file: String| fs::read_to_string(self.path(&file)).unwrap();
        let mut all = String::new();
        chain.iter().for_each(|one| all += &read(format!("{one}.pem")));
        fs::write(self.path(&format!("{name}.chain")), &all).unwrap();
        fs::write(self.path(&format!("{name}.all")), all + &read(format!("{name}.key"))).unwrap();
    }

    /// A proxy of a person; with 0 days it expires at once.
    pub fn proxy(&self, name: &str, person: &str, subject: &str, days: u32) {
        self.key(name);
        self.sign(name, &format!("{subject}/CN=1"), person, "proxy.ext", days);
        self.bundle(name, &[name, person]);
    }

    /// A proxy with attributes, as `NAME.all`.
    pub fn voms_proxy(&self, name: &str, fqans: &[&str]) {
        let mut command = Command::new("voms-proxy-fake");
        command.args("-rfc -cert ann.pem -key ann.key -hostcert voms.pem -hostkey voms.key -hours 5".split(' '));
        command.args("-voms astro.example -uri voms.example.org:15000 -certdir . -newformat -out".split(' '));
        command.arg(format!("{name}.all"));
        for fqan in fqans {
            command.args(["-fqan", fqan]);
        }
        self.run(&mut command);
    }

    /// Makes `certificates`, a directory as `/etc/grid-security/certificates`: the authority, its signing policy for names below
    /// `/DC=org/O=Grid`, and its list of revoked certificates, which has those of `revoked`.
    pub fn authority_directory(&self, revoked: &[&str]) -> PathBuf {
        let dir = self.path("certificates");
        fs::create_dir_all(&dir).unwrap();
        fs::copy(self.path("ca.pem"), dir.join("grid.0")).unwrap();
        let policy = "access_id_CA X509 '/DC=org/O=Grid/CN=CA'\npos_rights globus CA:sign\ncond_subjects globus '\"/DC=org/O=Grid/*\"'\n";
        fs::write(dir.join("grid.signing_policy"), policy).unwrap();
        let config = "[ca]\ndefault_ca = grid\n[grid]\ndatabase = index.txt\ncrlnumber = crlnumber\ndefault_md = sha256\ndefault_crl_days = 1\n";
        fs::write(self.path("ca.cnf"), config).unwrap();
        fs::write(self.path("index.txt"), "").unwrap();
        fs::write(self.path("crlnumber"), "01\n").unwrap();
        let words = "ca -config ca.cnf -keyfile ca.key -cert ca.pem";
        revoked.iter().for_each(|name| self.openssl(&format!("{words} -revoke {name}.pem"), &[]));
        self.openssl(&format!("{words} -gencrl -out certificates/grid.r0"), &[]);
        dir
    }

    /// Signs a request with a proxy, as a delegating client does; `NAME.chain` is sent.
    pub fn delegate(&self, name: &str, request: &str, signer: &str, above: &[&str], subject: &str, days: u32) {
        fs::write(self.path("request.pem"), request).unwrap();
        let public = self.run(Command::new("openssl").args(["req", "-in", "request.pem", "-noout", "-pubkey"]));
        fs::write(self.path(&format!("{name}.pub")), public.stdout).unwrap();
        self.sign(name, subject, signer, "proxy.ext", days);
        let mut chain = fs::read_to_string(self.path(&format!("{name}.pem"))).unwrap();
        [&[signer], above].concat().iter().for_each(|one| {
            chain += &fs::read_to_string(self.path(&format!("{one}.pem"))).unwrap();
        });
        fs::write(self.path(&format!("{name}.chain")), chain).unwrap();
    }
}

/// A client that sends requests to a hub by curl, with or without a certificate.
pub struct GridClient<'a> {
    pub url: String,
    pub certificate: Option<PathBuf>,
    pub grid: &'a Grid,
}

/// An answer: its status and its text.
pub struct Answer(pub u64, pub String);

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.1).unwrap_or_else(|_| panic!("{} {}", self.0, self.1))
    }
}

impl GridClient<'_> {
    pub fn ask(&self, method: &str, path: &str, body: Option<&Path>) -> Answer {
        self.ask_url(method, &format!("{}/fts3{path}", self.url), body)
    }

    /// Sends a request to any URL.
    pub fn ask_url(&self, method: &str, url: &str, body: Option<&Path>) -> Answer {
        let mut curl = Command::new("curl");
        curl.args(["-sk", "-X", method, "-w", "\n%{http_code}", url]);
        if let Some(certificate) = &self.certificate {
            curl.arg("--cert").arg(certificate).arg("--key").arg(certificate);
        }
        if let Some(body) = body {
            curl.arg("--data-binary").arg(format!("@{}", body.display()));
        }
        let output = self.grid.run(&mut curl);
        let answer = String::from_utf8(output.stdout).unwrap();
        let (text, status) = answer.rsplit_once('\n').unwrap();
        Answer(status.parse().unwrap(), text.to_owned())
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None)
    }
}
