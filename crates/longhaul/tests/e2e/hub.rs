//! The hub, as its users and operators see it: the commands, the requests of a browser, the nodes that move what it orders, and
//! jobs that survive when the hub is killed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Client, Outcome, Running, words};
use crate::node::{LONGHAUL, Node};
use crate::tree::pattern;
use crate::wait::{LONG, until, until_some};

/// A running hub.
pub struct Hub {
    dir: TempDir,
    child: Child,
    pub url: String,
    args: Vec<&'static str>,
    environment: Vec<(&'static str, String)>,
}

impl Hub {
    pub fn start(args: &[&'static str]) -> Hub {
        Hub::start_in(&std::env::temp_dir(), args, &[])
    }

    /// Starts a hub with its state in a directory below `parent`, and these variables in its environment.
    pub fn start_in(parent: &Path, args: &[&'static str], environment: &[(&'static str, String)]) -> Hub {
        let dir = tempfile::tempdir_in(parent).unwrap();
        let (child, url) = Hub::spawn(&dir, "127.0.0.1:0", args, environment);
        Hub { dir, child, url, args: args.to_vec(), environment: environment.to_vec() }
    }

    /// Starts a hub whose state is `state` in a directory.
    pub fn on(dir: TempDir) -> Hub {
        let (child, url) = Hub::spawn(&dir, "127.0.0.1:0", &[], &[]);
        Hub { dir, child, url, args: Vec::new(), environment: Vec::new() }
    }

    /// Its state directory.
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn spawn(dir: &TempDir, listen: &str, args: &[&str], environment: &[(&str, String)]) -> (Child, String) {
        let log = File::options().append(true).create(true).open(dir.path().join("log")).unwrap();
        let mut command = Command::new(LONGHAUL);
        command.args(["hub", "serve", "--listen", listen]).args(args).arg("--state").arg(dir.path().join("state"));
        command
            .env_remove("LONGHAUL_KEY")
            .env_remove("LONGHAUL_HUB")
            .env_remove("LONGHAUL_STATE")
            .envs(environment.iter().cloned())
            .current_dir(dir.path());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        let url = line.trim_end().strip_prefix("listening on ").map(str::to_owned);
        let log = || fs::read_to_string(dir.path().join("log")).unwrap_or_default();
        (child, url.unwrap_or_else(|| panic!("the hub printed {line:?}; its log: {}", log())))
    }

    /// Makes a key with these options.
    pub fn grant(&self, options: &[&str]) -> String {
        let mut command = Command::new(LONGHAUL);
        command.args(["hub", "grant"]).args(options).arg("--state").arg(self.state());
        if let Some(at) = self.args.iter().position(|arg| *arg == "--db") {
            command.args(&self.args[at..at + 2]);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().last().unwrap().to_owned()
    }

    /// A member with a new key of a role.
    pub fn member(&self, role: &str, name: &str, community: &str) -> Member<'_> {
        let key = self.grant(&["--role", role, "--name", name, "--community", community]);
        self.with_key(&key)
    }

    /// A member with an existing key.
    pub fn with_key(&self, key: &str) -> Member<'_> {
        Member { hub: self, client: Client::with_key(key) }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Kills it, and starts it again where it was.
    pub fn restart(&mut self) {
        self.kill();
        let (child, url) =
            Hub::spawn(&self.dir, self.url.trim_start_matches("https://"), &self.args, &self.environment);
        assert_eq!(url, self.url);
        self.child = child;
    }
}

impl Drop for Hub {
    #[allow(clippy::print_stdout, reason = "the hub's log belongs to the failed test's own output")]
    fn drop(&mut self) {
        self.kill();
        let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        if !std::thread::panicking() {
            assert!(!log.contains("panicked"), "the hub's log:\n{log}");
        } else {
            println!("the hub's log:\n{log}");
        }
    }
}

/// A member: a client with a key to a hub.
pub struct Member<'a> {
    hub: &'a Hub,
    client: Client,
}

impl Member<'_> {
    /// Writes a file for a command to read; returns its path.
    pub fn write(&self, name: &str, text: &str) -> String {
        self.client.write(name, text).display().to_string()
    }

    /// The same, of any bytes.
    pub fn write_bytes(&self, name: &str, bytes: &[u8]) -> String {
        self.client.write(name, bytes).display().to_string()
    }

    pub fn run(&self, words: &[&str]) -> Outcome {
        let mut command = self.client.command(words.iter().map(Into::into).collect());
        command.env("LONGHAUL_HUB", &self.hub.url);
        self.client.start(command).finish()
    }

    /// Starts a command.
    pub fn begin(&self, words: &[&str]) -> Running {
        let mut command = self.client.command(words.iter().map(Into::into).collect());
        command.env("LONGHAUL_HUB", &self.hub.url);
        self.client.start(command)
    }

    /// Runs a command that must succeed; returns the lines of JSON that it prints.
    pub fn json(&self, words: &[&str]) -> Vec<Value> {
        let mut all = words.to_vec();
        all.push("--json");
        let text = self.run(&all).expect(0).text();
        text.lines().filter(|line| line.starts_with('{')).map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn submit(&self, words: &[&str]) -> String {
        let mut all = vec!["submit"];
        all.extend(words);
        self.run(&all).expect(0).text().lines().last().unwrap().to_owned()
    }

    pub fn job(&self, id: &str) -> Value {
        self.json(&["queue", "show", id]).remove(0)
    }

    pub fn files(&self, id: &str) -> Vec<Value> {
        self.json(&["queue", "show", id]).split_off(1)
    }

    #[track_caller]
    pub fn ended(&self, id: &str) -> Value {
        until_some("the job has ended", LONG, || Some(self.job(id)).filter(|job| job["ended"].is_string()))
    }
}

/// Two nodes that a hub knows, at two sites.
pub struct Pair {
    pub a: Node,
    pub b: Node,
}

pub fn pair(admin: &Member<'_>) -> Pair {
    let (a, b) = (Node::closed(), Node::closed());
    for (site, name, node) in [("alpha", "na", &a), ("beta", "nb", &b)] {
        let key = admin.client.write(&format!("{name}.key"), node.grant(&["--export", "data", "--write"]));
        admin.run(&["hub", "site", "add", site]).expect(0);
        let (url, key) = (node.at(""), key.display().to_string());
        admin
            .run(&["hub", "endpoint", "add", name, "--site", site, "--url", &url, "--endpoint-key-file", &key])
            .expect(0);
    }
    Pair { a, b }
}

#[test]
fn a_job_goes_through_the_hub_from_node_to_node() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let Pair { a, b } = pair(&admin);
    let user = hub.member("user", "ann", "astro");
    fs::write(a.data("run7"), pattern(3 << 20)).unwrap();

    user.run(&["submit", &a.at("data/run7"), &b.at("data/in/"), "--wait"]).expect(0);
    assert_eq!(fs::read(b.data("in/run7")).unwrap(), pattern(3 << 20));

    let jobs = user.json(&["queue", "list", "--all"]);
    let text_of = |key: &str| jobs[0][key].as_str().unwrap().to_owned();
    assert_eq!(
        (text_of("state"), text_of("owner"), text_of("community")),
        ("done".into(), "ann".into(), "astro".into())
    );
    assert_eq!(jobs[0]["done_bytes"], 3 << 20);
    assert_eq!(user.json(&["queue", "list"]).len(), 0, "none is left");
}

#[test]
fn a_missing_file_fails_with_its_cause_and_the_others_arrive() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let Pair { a, b } = pair(&admin);
    let list: String =
        ["one", "two", "missing"].map(|name| format!("{} {}\n", a.at(&format!("data/{name}")), b.at("data/"))).concat();
    let list = admin.client.write("list", list).display().to_string();
    ["one", "two"].into_iter().for_each(|name| fs::write(a.data(name), name).unwrap());

    let outcome = admin.run(&["submit", "--files-from", &list, "--wait"]);
    assert_eq!(outcome.code, 3, "partial: {}", outcome.err);
    assert!(outcome.err.contains("No such file"), "{}", outcome.err);
    let id = outcome.text().lines().last().unwrap().to_owned();
    let states: Vec<String> = admin.files(&id).iter().map(|file| file["state"].as_str().unwrap().to_owned()).collect();
    assert_eq!(states, ["done", "done", "failed"]);
    assert_eq!(admin.files(&id)[2]["fault"], "missing");
    assert_eq!(fs::read(b.data("two")).unwrap(), b"two");
}

#[test]
fn a_link_is_not_used_above_its_mark_and_the_queue_reports_that() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let Pair { a, b } = pair(&admin);
    admin
        .run(&["hub", "link", "add", "wan", "--capacity", "64Mbit/s", "--mark", "0.5", "--between", "alpha,beta"])
        .expect(0);
    (0..6).for_each(|at| fs::write(a.data(&format!("f{at}")), pattern(3 << 20)).unwrap());
    let list: String =
        (0..6).map(|at| format!("{} {} {}\n", a.at(&format!("data/f{at}")), b.at("data/"), 3 << 20)).collect();
    let list = admin.client.write("list", list).display().to_string();

    let began = Instant::now();
    let id = admin.submit(&["--files-from", &list]);
    let queue = until_some("the link is named", LONG, || {
        let lines = admin.json(&["queue", "show"]);
        lines.into_iter().find(|line| line["constraint"]["kind"] == "link")
    });
    // Half of the link, and of that the 95 % that are payload.
    assert_eq!((&queue["constraint"]["name"], &queue["allocated_bit_s"]), (&json!("link wan"), &json!(30_400_000)));
    assert!(queue["constraint"]["text"].as_str().unwrap().contains("30.4 Mbit/s"), "{queue}");
    assert_eq!(admin.ended(&id)["state"], "done");
    // 18 MiB at 30.4 Mbit/s take 5.0 s; a node may send a burst at the beginning of a transfer.
    assert!(began.elapsed() > Duration::from_secs(3), "{:?}", began.elapsed());
}

#[test]
fn a_changed_link_capacity_applies_at_once() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let Pair { a, b } = pair(&admin);
    admin.run(&["hub", "link", "add", "wan", "--capacity", "8Mbit/s", "--between", "alpha,beta"]).expect(0);
    fs::write(a.data("f"), pattern(40 << 20)).unwrap();
    let id = admin.submit(&[&a.at("data/f"), &b.at("data/f")]);
    until("it moves", LONG, || admin.job(&id)["state"] == "running");
    admin.run(&["hub", "link", "set", "wan", "--capacity", "8Gbit/s"]).expect(0);
    let changed = Instant::now();
    assert_eq!(admin.ended(&id)["state"], "done");
    // At 8 Mbit/s it would have taken 44 s.
    assert!(changed.elapsed() < Duration::from_secs(20), "{:?}", changed.elapsed());
}

#[test]
fn a_killed_hub_resumes_its_jobs() {
    let mut hub = Hub::start(&[]);
    let admin_key = hub.grant(&["--role", "admin", "--name", "root"]);
    let client = Client::with_key(&admin_key);
    let (a, b, id) = {
        let admin = Member { hub: &hub, client: Client::with_key(&admin_key) };
        let Pair { a, b } = pair(&admin);
        admin.run(&["hub", "link", "add", "wan", "--capacity", "40Mbit/s", "--between", "alpha,beta"]).expect(0);
        fs::write(a.data("large"), pattern(10 << 20)).unwrap();
        let id = admin.submit(&[&a.at("data/large"), &b.at("data/large")]);
        until("it moves", LONG, || admin.job(&id)["state"] == "running");
        (a, b, id)
    };
    hub.restart();
    let admin = Member { hub: &hub, client };
    let job = admin.ended(&id);
    assert_eq!((job["state"].as_str(), job["done"].as_u64()), (Some("done"), Some(1)));
    assert_eq!(admin.files(&id)[0]["attempts"], 1, "it is the same attempt");
    assert_eq!(fs::read(b.data("large")).unwrap(), pattern(10 << 20));
    drop(a);
}

#[test]
fn a_stopped_queue_waits_and_continues() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let Pair { a, b } = pair(&admin);
    fs::write(a.data("f"), "f").unwrap();
    admin.run(&["hub", "stop", "site:beta", "--reason", "power works"]).expect(0);
    let id = admin.submit(&[&a.at("data/f"), &b.at("data/f")]);
    let why = until_some("why is known", LONG, || {
        let why = admin.json(&["queue", "why", &id]);
        why.first().map(|why| why["constraint"].clone()).filter(|constraint| constraint["kind"] == "stopped")
    });
    assert_eq!(why["text"], "site beta is stopped: power works");
    assert!(b.is_empty());
    admin.run(&["hub", "start", "site:beta"]).expect(0);
    assert_eq!(admin.ended(&id)["state"], "done");
}

#[test]
fn users_see_their_own_jobs_and_change_nothing_else() {
    let hub = Hub::start(&[]);
    let (ann, bob) = (hub.member("user", "ann", "astro"), hub.member("user", "bob", "astro"));
    let operator = hub.member("operator", "op", "");
    let id = ann.submit(&["lh://192.0.2.1/data/f", "lh://192.0.2.2/data/f"]);
    assert_eq!(bob.json(&["queue", "list"]).len(), 0);
    bob.run(&["queue", "show", &id]).refused(1, &["there is no job", "that you may know of"]);
    bob.run(&["queue", "cancel", &id]).refused(1, &["there is no job"]);
    bob.run(&["hub", "site", "add", "x"]).refused(4, &["needs the role admin", "bob has the role user"]);
    operator.run(&["hub", "site", "add", "x"]).refused(4, &["op has the role operator"]);
    assert_eq!(operator.json(&["queue", "list"]).len(), 1);
    operator.run(&["queue", "set", &id, "--priority", "5"]).expect(0);
    assert_eq!(ann.job(&id)["priority"], 5);
    ann.run(&["queue", "cancel", &id]).expect(0);
    assert_eq!(ann.ended(&id)["state"], "cancelled");
}

#[test]
fn bad_orders_are_refused_in_one_sentence_and_leave_nothing() {
    let hub = Hub::start(&["--plain"]);
    let user = hub.member("user", "ann", "astro");
    user.run(&["submit", "gsiftp://h/f", "lh://b/f"])
        .refused(2, &["file 0: gsiftp://h/f is no URL that the hub knows"]);
    user.run(&["submit", "lh://a/f", "lh://b/f", "--community", "other"])
        .refused(4, &["ann submits for the community astro"]);
    user.run(&["submit", "lh://a/f", "lh://b/f", "--deadline", "soon"]).refused(2, &["is not a valid time"]);
    assert_eq!(user.json(&["queue", "list", "--all"]).len(), 0);
    let stranger = Client::new();
    stranger.run(words!["queue", "list", "--hub", hub.url]).refused(4, &["say who you are"]);
    stranger.run(words!["queue", "list"]).refused(2, &["LONGHAUL_HUB"]);
    let plain = hub.url.replace("https://", "http://");
    let key = hub.grant(&["--role", "user"]);
    let mut curl = Command::new("curl");
    curl.args(["-s", "-d", "{\"files\": 7}", "-H", "Content-Type: application/json", "--oauth2-bearer", &key]);
    let answer = curl.arg(format!("{plain}/api/v1/jobs")).output().unwrap();
    let problem: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!((problem["status"].as_u64(), problem["fault"].as_str()), (Some(400), Some("config")));
    assert!(
        problem["reason"].as_str().unwrap().starts_with("a job cannot be read: files has the wrong type"),
        "{problem}"
    );
}

#[test]
fn an_order_sent_twice_is_one_job() {
    let hub = Hub::start(&[]);
    let user = hub.member("user", "ann", "astro");
    let id = "0197f2a0-0000-7000-8000-000000000001";
    let submit = ["submit", "lh://192.0.2.1/data/f", "lh://192.0.2.2/data/f", "--id", id];
    user.run(&submit).expect(0);
    user.run(&submit).expect(0);
    assert_eq!(user.json(&["queue", "list", "--all"]).len(), 1);
    user.run(&["submit", "lh://192.0.2.1/data/g", "lh://192.0.2.2/data/g", "--id", id])
        .refused(2, &["is the id of another job"]);
}

#[test]
fn a_key_that_is_revoked_opens_nothing() {
    let hub = Hub::start(&[]);
    let user = hub.member("user", "ann", "astro");
    user.run(&["queue", "list"]).expect(0);
    let mut list = Command::new(LONGHAUL);
    let listed = list.args(["hub", "grant", "list", "--json", "--state"]).arg(hub.state()).output().unwrap();
    let grant: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!((grant["role"].as_str(), grant["name"].as_str()), (Some("user"), Some("ann")));
    let mut revoke = Command::new(LONGHAUL);
    let revoked =
        revoke.args(["hub", "grant", "revoke", grant["id"].as_str().unwrap(), "--state"]).arg(hub.state()).status();
    assert!(revoked.unwrap().success());
    user.run(&["queue", "list"]).refused(4, &["there is no such key at this hub"]);
}

#[test]
fn the_description_of_the_collaboration_is_reloaded() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("hub.toml");
    fs::write(&file, "plain = true\n[site.alpha]\n[community.astro]\nshare = 3.0\n").unwrap();
    let path: &'static str = Box::leak(file.display().to_string().into_boxed_str());
    let hub = Hub::start(&["--config", path]);
    let admin = hub.member("admin", "root", "");
    assert_eq!(admin.json(&["hub", "show"])[0]["community"]["astro"]["share"], 3.0);
    fs::write(&file, "plain = true\n[site.alpha]\n[site.beta]\n").unwrap();
    crate::node::signal(&hub.child, rustix::process::Signal::HUP);
    until("beta is known", LONG, || admin.json(&["hub", "show"])[0]["site"]["beta"].is_object());
    fs::write(&file, "[endpoint.x]\nsite = \"nowhere\"\n").unwrap();
    crate::node::signal(&hub.child, rustix::process::Signal::HUP);
    let log = || fs::read_to_string(hub.dir.path().join("log")).unwrap();
    until("it is refused", LONG, || log().contains("the former ones stay in force"));
    assert!(admin.json(&["hub", "show"])[0]["site"]["beta"].is_object());
}

#[test]
fn many_files_go_in_few_transfers() {
    const FILES: usize = 1200;
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let Pair { a, b } = pair(&admin);
    (0..FILES).for_each(|at| fs::write(a.data(&format!("f{at}")), format!("{at}")).unwrap());
    let line = |at: usize| {
        format!(
            "{} {} {}\n",
            a.at(&format!("data/f{at}")),
            b.at(&format!("data/{:02x}/g{at}", at % 7)),
            at.to_string().len()
        )
    };
    let list = admin.client.write("list", (0..FILES).map(line).collect::<String>()).display().to_string();
    let id = admin.submit(&["--files-from", &list]);
    let job = admin.ended(&id);
    assert_eq!((job["state"].as_str(), job["done"].as_u64()), (Some("done"), Some(FILES as u64)));
    for at in [0, 7, FILES - 1] {
        assert_eq!(fs::read(b.data(&format!("{:02x}/g{at}", at % 7))).unwrap(), format!("{at}").as_bytes());
    }
    let orders = a.log().matches("event=\"carry\"").count();
    assert!((1..10).contains(&orders), "{orders} transfers");
}

#[test]
fn a_job_that_is_cancelled_ends_at_the_node() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let Pair { a, b } = pair(&admin);
    admin.run(&["hub", "link", "add", "wan", "--capacity", "8Mbit/s", "--between", "alpha,beta"]).expect(0);
    fs::write(a.data("large"), pattern(30 << 20)).unwrap();
    let id = admin.submit(&[&a.at("data/large"), &b.at("data/large")]);
    until("it moves", LONG, || admin.job(&id)["state"] == "running");
    admin.run(&["queue", "cancel", &id]).expect(0);
    assert_eq!(admin.ended(&id)["state"], "cancelled");
    until("the node has ended it", LONG, || {
        a.log().contains("outcome=\"interrupted\"") || a.log().contains("outcome=\"cancelled\"")
    });
    assert!(!b.data("large").exists());
}
