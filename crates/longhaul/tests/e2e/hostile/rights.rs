//! The table of rights, tried by both protocols: both grant and refuse the same, and a refused request changes nothing.

use std::fs;
use std::path::PathBuf;

use super::measures::contents;
use super::requests::Requests;
use super::rights_table::{Credential, TABLE, VERBS, native_differs};
use super::session::grant_id;
use super::verbs::{VerbOutcome, by_http, by_native};
use crate::node::{Node, Setup};
use crate::web::raw::ask;

/// Three nodes with the same files, which differ in the rights of anonymous clients.
struct RightsNodes {
    dir: tempfile::TempDir,
    closed: Node,
    reading: Node,
    writing: Node,
    keys: Keys,
}

/// The keys to the closed node.
struct Keys {
    read_all: String,
    create_all: String,
    write_all: String,
    read_dir: String,
    create_dir: String,
    write_dir: String,
    write_file: String,
    two_dirs: String,
    fixed: String,
    expired: String,
    revoked: String,
    macaroon: String,
}

const TREE: [&str; 8] = ["f", "sub/x", "a/f", "a/sub/x", "a/other", "b/f", "b/sub/x", "b/other"];

fn build_tree(root: &std::path::Path) {
    // The directory itself stays: a node that serves it has it open.
    fs::create_dir_all(root).unwrap();
    for entry in fs::read_dir(root).unwrap().flatten() {
        let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
    }
    for path in TREE {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"as it was").unwrap();
    }
}

impl RightsNodes {
    fn new() -> RightsNodes {
        let dir = tempfile::tempdir().unwrap();
        for name in ["data", "other", "fixed"] {
            build_tree(&dir.path().join(name));
        }
        let setup = || {
            let mut setup = Setup::new().arg("--plain");
            for (name, mode) in [("data", "rw"), ("other", "rw"), ("fixed", "ro")] {
                setup = setup.export(name, &dir.path().join(name), mode);
            }
            fs::create_dir(setup.state()).unwrap();
            setup
        };
        let closed = setup();
        fs::write(closed.state().join("access.toml"), "[macaroons]\n").unwrap();
        let closed = closed.start();
        let reading = setup().arg("--anonymous").arg("ro").start();
        let writing = setup().arg("--anonymous").arg("rw").start();
        let keys = Keys::new(&closed);
        RightsNodes { dir, closed, reading, writing, keys }
    }

    fn node(&self, credential: Credential) -> &Node {
        match credential {
            Credential::AnonymousReads => &self.reading,
            Credential::AnonymousWrites => &self.writing,
            _ => &self.closed,
        }
    }

    fn root(&self, export: &str) -> PathBuf {
        self.dir.path().join(export)
    }

    fn all(&self) -> Vec<(PathBuf, Vec<u8>)> {
        contents(self.dir.path())
    }
}

impl Keys {
    fn new(node: &Node) -> Keys {
        let data = |more: &[&str]| node.grant(&[&["--export", "data"], more].concat());
        let two_dirs = data(&["--path", "a", "--write"]);
        let (expired, revoked) = (data(&["--write", "--for", "7d"]), data(&["--write"]));
        let write_dir = data(&["--path", "a", "--write"]);
        let policy = format!(
            "[macaroons]\n[[allow]]\nkey = \"{}\"\nexport = \"data\"\npath = \"b\"\nrights = [\"read\", \"write\"]\n",
            grant_id(&two_dirs)
        );
        fs::write(node.state().join("access.toml"), policy).unwrap();
        let grants = node.state().join("grants.toml");
        let text = fs::read_to_string(&grants).unwrap();
        let ended = text.lines().map(|line| if line.starts_with("expires") { "expires = 1000" } else { line });
        let ended = ended.collect::<Vec<_>>().join("\n");
        fs::write(&grants, ended).unwrap();
        assert!(node.grant_command(&["revoke", &grant_id(&revoked)]).status.success());
        let kind = ("Content-Type", "application/macaroon-request");
        let bearer = format!("Bearer {write_dir}");
        let body = br#"{"caveats":["activity:DOWNLOAD,LIST"],"validity":"PT10M"}"#;
        let made = ask(node, "POST", "/data/a", &[kind, ("Authorization", &bearer)], body).expect(200);
        let made: serde_json::Value = serde_json::from_slice(&made.body).unwrap();
        Keys {
            read_all: data(&[]),
            create_all: data(&["--create"]),
            write_all: data(&["--write"]),
            read_dir: data(&["--path", "a"]),
            create_dir: data(&["--path", "a", "--create"]),
            write_file: data(&["--path", "a/f", "--write"]),
            fixed: node.grant(&["--export", "fixed", "--write"]),
            macaroon: made["macaroon"].as_str().unwrap().to_owned(),
            write_dir,
            two_dirs,
            expired,
            revoked,
        }
    }

    fn of(&self, credential: Credential) -> Option<&str> {
        Some(match credential {
            Credential::Nothing | Credential::AnonymousReads | Credential::AnonymousWrites => return None,
            Credential::ReadAll => &self.read_all,
            Credential::CreateAll => &self.create_all,
            Credential::WriteAll => &self.write_all,
            Credential::ReadDir => &self.read_dir,
            Credential::CreateDir => &self.create_dir,
            Credential::WriteDir => &self.write_dir,
            Credential::WriteFile => &self.write_file,
            Credential::WriteTwoDirs => &self.two_dirs,
            Credential::WriteFixed => &self.fixed,
            Credential::Macaroon => &self.macaroon,
            Credential::Expired => &self.expired,
            Credential::Revoked => &self.revoked,
        })
    }
}

fn fits(letter: char, outcome: &VerbOutcome) -> bool {
    match letter {
        'y' => *outcome == VerbOutcome::Done,
        '.' => *outcome == VerbOutcome::Refused,
        '-' => *outcome == VerbOutcome::Missing,
        'x' => matches!(outcome, VerbOutcome::Stays | VerbOutcome::Refused),
        _ => false,
    }
}

/// Compares, and builds the tree again where it was changed.
fn judge(
    nodes: &RightsNodes,
    what: &str,
    letter: char,
    outcome: &VerbOutcome,
    before: &[(PathBuf, Vec<u8>)],
    wrong: &mut Vec<String>,
) {
    if !fits(letter, outcome) {
        wrong.push(format!("{what}: expected {letter:?}, was {outcome:?}"));
    }
    if nodes.all() != before {
        if *outcome != VerbOutcome::Done {
            wrong.push(format!("{what}: {outcome:?}, and yet something changed"));
        }
        ["data", "other", "fixed"].iter().for_each(|export| build_tree(&nodes.root(export)));
        assert!(nodes.all() == before, "{what}: the tree cannot be built again");
    }
}

#[test]
fn the_rights_are_the_same_by_both_protocols() {
    let nodes = RightsNodes::new();
    let before = nodes.all();
    let mut wrong = Vec::new();
    for (credential, at, letters) in TABLE {
        let (mut session, mut requests) = (None, Requests::new(nodes.node(*credential), nodes.keys.of(*credential)));
        for (verb, letter) in VERBS.into_iter().zip(letters.chars()) {
            let what = format!("{credential:?} {verb:?} {at:?}");
            if native_differs(*credential).is_none() {
                let outcome = by_native(nodes.node(*credential), nodes.keys.of(*credential), verb, *at, &mut session);
                judge(&nodes, &format!("{what} natively"), letter, &outcome, &before, &mut wrong);
            }
            let outcome = by_http(&mut requests, verb, *at);
            judge(&nodes, &format!("{what} by HTTP"), letter, &outcome, &before, &mut wrong);
            if matches!(credential, Credential::Expired | Credential::Revoked) {
                // Clients of an address with several bad credentials wait, until there is a good one.
                ask(&nodes.closed, "GET", "/data/f", &[("Authorization", &read_all_bearer(&nodes))], b"").expect(200);
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows are not as written:\n{}", wrong.len(), wrong.join("\n"));
}

fn read_all_bearer(nodes: &RightsNodes) -> String {
    format!("Bearer {}", nodes.keys.read_all)
}
