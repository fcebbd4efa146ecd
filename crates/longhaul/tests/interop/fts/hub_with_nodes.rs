//! A hub and nodes that it knows, of one case.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::clients::ClientOutput;
use crate::context::{CaseContext, skip};
use crate::node::{LONGHAUL, Node};
use crate::wait::{LONG, until_some};

/// A hub with nodes, of which each has a site and an endpoint of its own.
pub struct HubWithNodes<'a> {
    context: &'a CaseContext<'a>,
    pub nodes: Vec<Node>,
    child: Child,
    /// `https://127.0.0.1:PORT`.
    pub url: String,
    /// The key of an admin, and the key of a user who submits for `astro`.
    pub admin: String,
    pub user: String,
}

/// The directory into which set-up installs an environment of Python; the case is skipped where it is missing.
pub fn environment(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools").join(name);
    if !path.join("bin/python").exists() {
        skip(&format!("no {name} in target/tools (scripts/setup.sh makes it, where the registry is in reach)"));
    }
    path
}

impl<'a> HubWithNodes<'a> {
    /// Starts `count` nodes, and a hub with these options.
    pub fn start(context: &'a CaseContext<'a>, count: usize, options: &[&str]) -> HubWithNodes<'a> {
        HubWithNodes::with_nodes(context, (0..count).map(|_| Node::closed()).collect(), options)
    }

    /// Starts a hub with these nodes, in which the catalogue may store files below `data/c`.
    pub fn with_nodes(context: &'a CaseContext<'a>, nodes: Vec<Node>, options: &[&str]) -> HubWithNodes<'a> {
        let settings = context.write("hub.toml", hub_config(&nodes).as_bytes());
        let log = File::create(context.path("hub.log")).unwrap();
        let pki = &context.test_bed.pki;
        let mut command = Command::new(LONGHAUL);
        command.args(["hub", "serve", "--listen", "127.0.0.1:0", "--plain", "--config", &settings]);
        for (flag, path) in [
            ("--certificate", &pki.host.certificate),
            ("--certificate-key", &pki.host.key),
            ("--client-ca", &pki.ca),
            ("--cacert", &pki.ca),
        ] {
            command.arg(flag).arg(path);
        }
        command.args(options).arg("--state").arg(context.path("hub"));
        command.env_remove("LONGHAUL_KEY").env_remove("LONGHAUL_HUB").env_remove("LONGHAUL_STATE");
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let log = || fs::read_to_string(context.path("hub.log")).unwrap_or_default();
        let url = line.trim_end().strip_prefix("listening on ");
        let url = url.unwrap_or_else(|| panic!("the hub printed {line:?}; its log: {}", log())).to_owned();
        let mut hub = HubWithNodes { context, nodes, child, url, admin: String::new(), user: String::new() };
        hub.admin = hub.grant(&["--role", "admin", "--name", "root"]);
        hub.user = hub.grant(&["--role", "user", "--name", "ann", "--community", "astro"]);
        hub
    }

    fn grant(&self, options: &[&str]) -> String {
        let mut command = Command::new(LONGHAUL);
        command.args(["hub", "grant"]).args(options).arg("--state").arg(self.context.path("hub"));
        let output = command.env_remove("LONGHAUL_STATE").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().last().unwrap().to_owned()
    }

    /// The endpoint for clients of FTS.
    pub fn endpoint(&self) -> String {
        format!("{}/fts3", self.url)
    }

    /// Writes a file below a node's `data`; returns its URL.
    pub fn put(&self, node: usize, name: &str, bytes: &[u8]) -> String {
        let path = self.nodes[node].data(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self.at(node, name)
    }

    /// The URL of a file below a node's `data`.
    pub fn at(&self, node: usize, name: &str) -> String {
        self.nodes[node].at(&format!("data/{name}"))
    }

    /// The name of a node's storage in FTS.
    pub fn storage(&self, node: usize) -> String {
        self.nodes[node].at("").trim_end_matches('/').to_owned()
    }

    /// The bytes of a file below a node's `data`.
    #[track_caller]
    pub fn get(&self, node: usize, name: &str) -> Vec<u8> {
        fs::read(self.nodes[node].data(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Whether it is there.
    pub fn has(&self, node: usize, name: &str) -> bool {
        self.nodes[node].data(name).exists()
    }

    /// Runs one of FTS's commands with a key.
    pub fn fts_as(&self, key: &str, command: &str, words: &[&str]) -> ClientOutput {
        let program = environment("fts3").join("bin").join(format!("fts-rest-{command}")).display().to_string();
        let endpoint = self.endpoint();
        let mut all = vec![program.as_str(), "-s", &endpoint, "--fts-access-token", key];
        all.extend(words);
        self.context.run(&all)
    }

    /// Runs one of FTS's commands with the certificate of the robot.
    pub fn fts_by_certificate(&self, command: &str, words: &[&str]) -> ClientOutput {
        let program = environment("fts3").join("bin").join(format!("fts-rest-{command}")).display().to_string();
        let robot = &self.context.test_bed.pki.robot;
        let [certificate, key] = [&robot.certificate, &robot.key].map(|path| path.display().to_string());
        let endpoint = self.endpoint();
        let mut all = vec![program.as_str(), "-s", &endpoint, "--cert", &certificate, "--key", &key];
        all.extend(words);
        self.context.run(&all)
    }

    /// Runs one of FTS's commands as the user who submits for `astro`.
    pub fn fts(&self, command: &str, words: &[&str]) -> ClientOutput {
        self.fts_as(&self.user, command, words)
    }

    /// Submits a job; returns its id.
    #[track_caller]
    pub fn submit(&self, words: &[&str]) -> String {
        let tokens = ["--json", "--src-access-token", "", "--dst-access-token", ""];
        let seen = self.fts("transfer-submit", &[&tokens, words].concat()).expect_success();
        serde_json::from_str(seen.out.trim()).unwrap_or_else(|error| panic!("{error}: {seen:#?}"))
    }

    /// Submits the files and parameters of a document.
    #[track_caller]
    pub fn submit_document(&self, document: &Value, words: &[&str]) -> String {
        let file = self.context.write("job.json", document.to_string().as_bytes());
        self.submit(&[&["-f", &file], words].concat())
    }

    /// A job with its files, as the client shows it.
    #[track_caller]
    pub fn job(&self, id: &str) -> Value {
        let seen = self.fts("transfer-status", &["--json", id]).expect_success();
        serde_json::from_str(&seen.out).unwrap_or_else(|error| panic!("{error}: {seen:#?}"))
    }

    /// Waits until a job has ended; returns it.
    #[track_caller]
    pub fn ended(&self, id: &str) -> Value {
        until_some("the job has ended", LONG, || {
            let job = self.job(id);
            let is_last = ["FINISHED", "FINISHEDDIRTY", "FAILED", "CANCELED"].contains(&job["job_state"].as_str()?);
            is_last.then_some(job)
        })
    }
}

impl Drop for HubWithNodes<'_> {
    #[allow(clippy::print_stdout, reason = "the hub's log belongs to the failed test's own output")]
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let log = fs::read_to_string(self.context.path("hub.log")).unwrap_or_default();
        if std::thread::panicking() {
            println!("the hub's log:\n{log}");
        } else {
            assert!(!log.contains("panicked"), "the hub's log:\n{log}");
        }
    }
}

/// The hub's configuration: an endpoint for each node, with its native URL and its WebDAV URL.
fn hub_config(nodes: &[Node]) -> String {
    let endpoint = |(at, node): (usize, &Node)| {
        let key = node.grant(&["--export", "data", "--write"]);
        let (native, dav) = (node.at(""), format!("davs://{}/", node.address()));
        let storage = node.at("data/c");
        format!(
            "[site.s{at}]\n[endpoint.n{at}]\nsite = \"s{at}\"\nurls = [\"{native}\", \"{dav}\"]\nkey = \"{key}\"\n\
             [endpoint.n{at}.storage]\nurl = \"{storage}\"\nattributes = {{ region = \"eu\", number = {at} }}\n"
        )
    };
    nodes.iter().enumerate().map(endpoint).collect()
}
