//! A credential for a path opens nothing else, whatever links its holder or others make at that path or below it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use model::{Algorithm, Refusal};
use wire::frame::{Direction, Entry, Offered, Open, Request};

use super::measures::{contents, holds};
use super::requests::Requests;
use super::session::{Session, link, order_at, place};
use crate::node::{Node, Setup};
use crate::raw_client::{dir, entry, file};

pub const CANARY: &[u8] = b"nobody with this key may read it";

/// A node, and a client with a credential for one path of it.
#[derive(Clone)]
pub struct CredentialFixture {
    pub what: &'static str,
    pub node: Arc<Node>,
    /// The path below `data` that the credential is for.
    pub path: &'static str,
    pub native: Option<String>,
    pub bearer: Option<String>,
    /// The job that a native order must name, where the credential is for one job.
    pub job: Option<[u8; 16]>,
}

/// The tree of the node: `canary` and `b/canary` are forbidden to all, `a` holds the credential's path.
pub fn setup(policy: &str) -> Setup {
    let setup = Setup::new().data_export("rw").arg("--plain");
    for path in ["canary", "b/canary", "a/canary", "../outside/canary"] {
        let path = setup.data().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, CANARY).unwrap();
    }
    fs::create_dir(setup.state()).unwrap();
    fs::write(setup.state().join("access.toml"), policy).unwrap();
    setup
}

impl CredentialFixture {
    /// A key for a path; `there` makes the entry at the path before the key is granted.
    pub fn of_key(what: &'static str, path: &'static str, there: fn(PathBuf)) -> CredentialFixture {
        let node = setup("").start();
        there(node.data(path));
        let key = node.grant(&["--export", "data", "--path", path, "--write"]);
        let node = Arc::new(node);
        CredentialFixture { what, node, path, native: Some(key.clone()), bearer: Some(key), job: None }
    }

    /// A rule that lets all clients write at a path that does not exist yet.
    fn of_rule() -> CredentialFixture {
        let rule = "[[allow]]\nanyone = true\nexport = \"data\"\npath = \"a/inbox\"\nrights = [\"read\", \"write\"]\n";
        let node = Arc::new(setup(rule).start());
        CredentialFixture {
            what: "a rule for a missing inbox",
            node,
            path: "a/inbox",
            native: None,
            bearer: None,
            job: None,
        }
    }

    pub fn session(&self) -> Result<Session, Refusal> {
        Session::open(&self.node, self.native.as_deref())
    }

    pub fn order(&self, below: &str) -> Open {
        let mut order = order_at(Direction::Push, place("data", &format!("{}{below}", self.path)));
        order.job = self.job.unwrap_or(order.job);
        order
    }

    /// All entries that the credential does not cover. A client that may create the entry at its path may create the directories
    /// above it.
    pub fn others(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let own = self.node.data(self.path);
        let all = contents(&self.node.data("..").canonicalize().unwrap().join("outside"));
        let data = contents(&self.node.data(""))
            .into_iter()
            .filter(|(path, _)| !path.starts_with(&own) && !own.starts_with(path));
        all.into_iter().chain(data).collect()
    }

    /// Tries every verb on the path and through it, by both protocols. Returns all answers.
    pub fn try_everything(&self) -> Vec<u8> {
        let mut answers = Vec::new();
        for below in ["", "/canary", "/evil", "/l/canary"] {
            self.natively(below, &mut answers);
            self.by_http(below, &mut answers);
        }
        answers
    }

    fn natively(&self, below: &str, answers: &mut Vec<u8>) {
        let at = || place("data", &format!("{}{below}", self.path));
        let listed = |lines: Vec<wire::frame::Listed>| format!("{lines:?}").into_bytes();
        let native_requests = [
            Request::Stat(at()),
            Request::List(at()),
            Request::Digest(at(), vec![Algorithm::Sha256]),
            Request::Mkdir(place("data", &format!("{}{below}/made", self.path))),
            Request::Rename(at(), place("data", &format!("{}/stolen", self.path))),
            Request::Remove(at(), true),
        ];
        let Ok(mut session) = self.session() else { return };
        for request in native_requests {
            answers.extend(session.query(request).map(listed).unwrap_or_default());
        }
        answers.extend(session.get(at()).unwrap_or_default());
        if let Ok(mut session) = self.session() {
            let put = vec![file(1, 0, "f", 4)];
            let _ = session.push(self.order(below), put, &[(1, b"evil")]);
        }
    }

    fn by_http(&self, below: &str, answers: &mut Vec<u8>) {
        let target = format!("/data/{}{below}", self.path);
        let mut requests = Requests::new(&self.node, self.bearer.as_deref());
        let stolen = format!("/data/{}/stolen", self.path);
        for (method, fields, body) in [
            ("GET", &[][..], &b""[..]),
            ("PROPFIND", &[("Depth", "1")], b""),
            ("COPY", &[("Destination", stolen.as_str())], b""),
            ("MOVE", &[("Destination", stolen.as_str())], b""),
            ("PUT", &[], b"evil"),
            ("DELETE", &[("Depth", "infinity")], b""),
            ("MKCOL", &[], b""),
        ] {
            answers.extend(requests.ask(method, &target, fields, body).body);
        }
    }
}

fn a_file(path: PathBuf) {
    fs::write(path, b"mine").unwrap();
}

fn a_dir(path: PathBuf) {
    fs::create_dir(path).unwrap();
}

/// Trees that a holder might push to the path of a credential.
fn pushes() -> Vec<(&'static str, Vec<Entry>)> {
    let offered = |target: &str| Offered::Symlink { mtime: Default::default(), target: target.into() };
    let mut pushes: Vec<(&str, Vec<Entry>)> = Vec::new();
    for target in ["..", "../../outside"] {
        pushes.push(("a link in the place itself", vec![link(1, 0, "f", target)]));
        let tree = vec![dir(1, 0, "t"), entry(2, 1, "l", offered(target)), entry(3, 1, "t", offered(target))];
        pushes.push(("a tree of links", [tree, vec![Entry::Leave(1)]].concat()));
    }
    pushes
}

#[test]
fn no_link_that_a_holder_makes_widens_a_key() {
    let fixtures: [fn() -> CredentialFixture; 5] = [
        || CredentialFixture::of_key("a file", "a/f", a_file),
        || CredentialFixture::of_key("a missing file", "a/f", |_| ()),
        || CredentialFixture::of_key("a directory", "a/d", a_dir),
        || CredentialFixture::of_key("a directory two levels away", "a/new/d", |_| ()),
        CredentialFixture::of_rule,
    ];
    let mut wrong = Vec::new();
    for fixture in fixtures {
        let fixture = fixture();
        let before = fixture.others();
        for (what, entries) in pushes() {
            let pushed = fixture.session().and_then(|mut session| session.push(fixture.order(""), entries, &[]));
            let answers = fixture.try_everything();
            let verdict = if pushed.is_ok() { "was taken" } else { "was refused" };
            if holds(&answers, CANARY) {
                wrong.push(format!("{}: {what} {verdict}, and then another user's file was read", fixture.what));
            }
            if fixture.others() != before {
                wrong.push(format!("{}: {what} {verdict}, and then something else was changed", fixture.what));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_path_of_a_credential_is_never_a_link() {
    for target in ["..", "../canary", "../b", "d"] {
        let fixture = CredentialFixture::of_key("a link", "a/f", |path| symlink("d", path).unwrap());
        fs::create_dir(fixture.node.data("a/d")).unwrap();
        fs::write(fixture.node.data("a/d/canary"), CANARY).unwrap();
        fs::remove_file(fixture.node.data("a/f")).unwrap();
        symlink(target, fixture.node.data("a/f")).unwrap();
        let before = fixture.others();
        let mut session = fixture.session().unwrap();
        let at = |below: &str| place("data", &format!("a/f{below}"));
        for below in ["", "/canary"] {
            for request in [
                Request::Stat(at(below)),
                Request::List(at(below)),
                Request::Digest(at(below), vec![Algorithm::Adler32]),
                Request::Mkdir(at(&format!("{below}/made"))),
            ] {
                let what = format!("{target:?}: {request:?}");
                let refusal = session.query(request).expect_err(&what);
                assert_eq!(refusal.fault, model::fault::Fault::Auth, "{what}: {refusal:?}");
            }
            let mut requests = Requests::new(&fixture.node, fixture.bearer.as_deref());
            for (method, body) in [("GET", &b""[..]), ("PUT", b"evil"), ("HEAD", b""), ("PROPFIND", b"")] {
                let target = format!("/data/a/f{below}");
                assert_eq!(requests.status(method, &target, &[("Depth", "0")], body), 403, "{method} {target}");
            }
        }
        assert!(fixture.others() == before, "{target:?}");
    }
}

#[test]
fn a_link_above_a_grants_path_may_only_lead_deeper() {
    let node = setup("").start();
    fs::create_dir_all(node.data("a/real/d")).unwrap();
    fs::write(node.data("a/real/d/f"), b"mine").unwrap();
    symlink("real", node.data("a/deeper")).unwrap();
    symlink("../a/real", node.data("b/up")).unwrap();
    for (path, status) in [("a/deeper/d", 200), ("b/up/d", 403)] {
        let key = node.grant(&["--export", "data", "--path", path, "--write"]);
        let target = format!("/data/{path}/f");
        assert_eq!(Requests::new(&node, Some(&key)).status("GET", &target, &[], b""), status, "{target}");
        let got = Session::open(&node, Some(&key)).unwrap().get(place("data", &format!("{path}/f")));
        let fault = got.map(|bytes| holds(&bytes, b"mine")).map_err(|refusal| refusal.fault);
        let expected = if status == 200 { Ok(true) } else { Err(model::fault::Fault::Auth) };
        assert_eq!(fault, expected, "{path} natively");
    }
}
