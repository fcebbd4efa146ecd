//! Scratch places of nodes on loopback: ordered over the API, filled by the node, used by their keys over HTTP and in transfers, and gone
//! when their lifetime is over.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[allow(dead_code, reason = "each test program uses its part")]
#[path = "support/open_node.rs"]
mod open_node;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use auth::{AccessKey, Grant, Rights};
use client::StateDir;
use model::RelPath;
use model::id::Uuid;
use model::seeded_bytes;
use model::v1::Stage;
use model::v1::node::{
    Credentials, Options, Order, ProbeOrder, ScratchChange, ScratchFile, ScratchFiles, ScratchOrder, ScratchPlace,
};
use node::{ExerciseConfig, Export, Node, NodeConfig};
use nodeapi::{Api, Error};
use open_node::OpenNode;
use web::{Client, Dialer, Headers, HttpUrl, Method};

/// How long something may take that takes seconds at most.
const PATIENCE: Duration = Duration::from_secs(60);
const SEED: u64 = 7;

/// A node with scratch places, and a key that may order them.
struct ExerciseNode {
    open_node: OpenNode,
    key: String,
}

/// Adds a grant to a configuration, and returns its key.
fn add_key(config: &mut NodeConfig, export: &str, path: &str, rights: Rights) -> String {
    static KEYS: AtomicU64 = AtomicU64::new(1);
    config.state.identity().unwrap();
    let (id, secret) = (KEYS.fetch_add(1, Ordering::Relaxed).to_be_bytes(), [9; 32]);
    let prefix = RelPath::parse(path.as_bytes()).unwrap();
    config.grants.list.push(Grant::new(id, &secret, export.into(), &prefix, rights, 0));
    AccessKey::new(id, secret, config.state.fingerprint().unwrap()).expose_text()
}

/// The directory of scratch places of a configuration, beside its state directory.
fn exercise_dir(config: &NodeConfig) -> PathBuf {
    config.state.path().with_file_name("exercise")
}

fn dialer() -> Dialer {
    let tls = auth::client_certificate::http_client_config(Arc::new(rustls::RootCertStore::empty()), None).unwrap();
    Dialer { tls, guard: Arc::new(|_| Ok(())), prepare: None, connect: PATIENCE, silence: PATIENCE }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The status and the reason of a refusal.
fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> (u16, String) {
    match result {
        Err(Error::Refused { problem, .. }) => (problem.status, problem.reason),
        other => panic!("{other:?}"),
    }
}

fn content(path: &str, bytes: u64) -> Vec<u8> {
    let mut content = vec![0; bytes as usize];
    seeded_bytes::fill(SEED, path, 0, &mut content);
    content
}

fn files(files: &[(&str, u64)]) -> ScratchFiles {
    let file = |(path, bytes): &(&str, u64)| ScratchFile { path: (*path).to_owned(), bytes: *bytes };
    ScratchFiles { seed: SEED, files: files.iter().map(file).collect() }
}

impl ExerciseNode {
    /// Starts a node with this policy and this quota of all scratch places.
    fn start(policy: &str, quota_bytes: Option<u64>, change: impl FnOnce(&mut NodeConfig)) -> ExerciseNode {
        let mut key = String::new();
        let open_node = OpenNode::start_with("data", |config| {
            config.serves_one_copy = false;
            config.anonymous = None;
            let dir = exercise_dir(config);
            fs::create_dir_all(&dir).unwrap();
            config.exercise = Some(ExerciseConfig { dir, quota_bytes });
            fs::write(config.state.path().join("access.toml"), policy).unwrap();
            key = add_key(config, "exercise", "", Rights::Write);
            change(config);
        });
        ExerciseNode { open_node, key }
    }

    fn url(&self, path: &str) -> HttpUrl {
        HttpUrl::parse(&format!("http://{}{path}", self.open_node.address)).unwrap()
    }

    /// The API for the holder of a key.
    fn api_with(&self, key: &str) -> Api {
        Api::new(dialer(), self.url("/"), Some(&format!("Bearer {key}")))
    }

    /// The API for who may order scratch places.
    fn api(&self) -> Api {
        self.api_with(&self.key)
    }

    /// Sends a request for a path with a body; returns the status and the body of the answer.
    fn send(&self, method: &str, path: &str, key: Option<&str>, body: &[u8]) -> (u16, Vec<u8>) {
        let method = Method::parse(method);
        let mut client = Client::new(&dialer(), &self.url(path)).unwrap();
        let mut headers = Headers::new().with("Content-Length", body.len().to_string());
        if let Some(key) = key {
            headers.add("Authorization", format!("Bearer {key}"));
        }
        client.send(&method, path, &headers).unwrap();
        client.write(body).unwrap();
        let (response, mut answer) = client.final_response(&method).unwrap();
        (response.status, client.read_all(&mut answer, 64 << 20).unwrap())
    }

    /// Orders a scratch place for a minute.
    fn order(&self, quota_bytes: u64) -> ScratchPlace {
        let order = ScratchOrder { id: Uuid::now_v7(), lifetime_s: 60, quota_bytes };
        let (place, is_new) = self.api().create_scratch(&order).unwrap();
        assert!(is_new && place.key.is_some() && place.place == format!("/exercise/{}", order.id));
        // The same order again is the same place, and does not tell the key.
        let (again, is_new) = self.api().create_scratch(&order).unwrap();
        assert!(!is_new && again.key.is_none());
        place
    }

    /// Has files made, and waits for them.
    fn make(&self, place: &ScratchPlace, wanted: &[(&str, u64)]) {
        let ordered = self.api().make_scratch_files(place.id, &files(wanted)).unwrap().files_ordered;
        wait_until("all files are made", || {
            let now = self.api().scratch(place.id).unwrap();
            assert_eq!(now.error, None);
            now.files_made == ordered
        });
    }

    /// The directory of a place.
    fn dir_of(&self, place: &ScratchPlace) -> PathBuf {
        self.open_node.path("exercise").join(place.id.to_string())
    }

    fn key_of(place: &ScratchPlace) -> &str {
        place.key.as_deref().unwrap()
    }
}

/// An order for a transfer of a file or directory of a place into a place of another node.
fn transfer(from: &ScratchPlace, name: &str, to: &ExerciseNode, into: &ScratchPlace) -> Order {
    let target = format!("lh://{}{}/in/", to.open_node.address, into.place);
    let mut order = Order::new(Uuid::now_v7(), format!("{}/{name}", from.place), target);
    order.options = Options { recursive: true, ..Options::default() };
    order.plain = true;
    order.credentials = Some(Credentials { key: into.key.clone(), ..Credentials::default() });
    order
}

#[test]
fn files_are_made_fetched_and_sent_with_the_keys_of_places() {
    // On one of the nodes a rule gives every client some right, so that a key becomes a ticket of the policy there.
    let policy = "[[allow]]\nanyone = true\nexport = \"data\"\nrights = [\"read\"]\n";
    let near = ExerciseNode::start(policy, None, |_| {});
    let far = ExerciseNode::start("", None, |_| {});
    let (source, target) = (near.order(64 << 20), far.order(64 << 20));
    let set = [("set/a", (3 << 20) + 5), ("set/deep/b", 100), ("set/empty", 0)];
    near.make(&source, &set);
    let path_of = |name: &str| format!("{}/{name}", source.place);
    for (name, bytes) in set {
        let (status, found) = near.send("GET", &path_of(name), source.key.as_deref(), b"");
        assert!(status == 200 && found == content(name, bytes), "{name}: {status}");
    }
    assert_eq!(near.send("GET", &path_of("set/a"), None, b"").0, 401);
    assert_eq!(near.send("PUT", &path_of("put"), source.key.as_deref(), b"by a client").0, 201);
    let total = set.iter().map(|(_, bytes)| bytes).sum::<u64>() + b"by a client".len() as u64;
    assert_eq!(near.api().scratch(source.id).unwrap().used_bytes, total);
    let by_place = near.api_with(ExerciseNode::key_of(&source));
    let order = transfer(&source, "set", &far, &target);
    by_place.create_transfer(&order).unwrap();
    wait_until("the transfer ends", || by_place.transfer(order.id).unwrap().state.is_last());
    let ended = by_place.transfer(order.id).unwrap();
    assert_eq!((ended.state, ended.error), (Stage::Done, None));
    for (name, bytes) in set {
        assert!(fs::read(far.dir_of(&target).join("in").join(name)).unwrap() == content(name, bytes), "{name}");
    }
    // The key is for the place alone, and what would outlive the place is not ordered with it.
    let by_target = far.api_with(ExerciseNode::key_of(&target));
    assert_eq!(far.send("PUT", "/data/f", target.key.as_deref(), b"x").0, 404);
    assert_eq!(far.send("PUT", "/exercise/f", target.key.as_deref(), b"x").0, 403);
    assert_eq!(
        refusal(by_target.create_scratch(&ScratchOrder { id: target.id, lifetime_s: 9, quota_bytes: 0 })).0,
        403
    );
    let probe = ProbeOrder::new(Uuid::now_v7(), format!("lh://{}", near.open_node.address));
    let (status, reason) = refusal(by_target.create_probe(&probe));
    assert!(status == 403 && reason.contains("the key that ordered the place"), "{status} {reason}");
}

#[test]
fn the_end_of_a_lifetime_ends_the_key_the_transfers_and_the_directory() {
    let policy = "[[allow]]\nanyone = true\nexport = \"data\"\nrights = [\"read\"]\n";
    for policy in ["", policy] {
        let near = ExerciseNode::start(policy, None, |_| {});
        let far = ExerciseNode::start("", None, |_| {});
        let (source, target) = (near.order(64 << 20), far.order(64 << 20));
        near.make(&source, &[("long", 8 << 20)]);
        let by_place = near.api_with(ExerciseNode::key_of(&source));
        let mut order = transfer(&source, "long", &far, &target);
        // It would take more than a minute.
        order.limit_bit_s = 1_000_000;
        by_place.create_transfer(&order).unwrap();
        let renewed = near.api().renew_scratch(source.id, ScratchChange { lifetime_s: 6 }).unwrap();
        assert!(renewed.expires < near.order(0).expires);
        wait_until("the transfer runs", || {
            let state = by_place.transfer(order.id).unwrap().state;
            assert!(!state.is_last(), "{state:?}");
            state == Stage::Running
        });
        let state = || near.open_node.node.jobs().list(Some(order.id.as_bytes())).first().map(|job| job.state);
        wait_until("the directory is gone", || !near.dir_of(&source).exists());
        wait_until("the transfer ends", || state().is_some_and(Stage::is_last));
        assert_eq!(state(), Some(Stage::Cancelled));
        assert_eq!(refusal(by_place.transfer(order.id)).0, 401);
        assert_eq!(refusal(near.api().scratch(source.id)).0, 404);
        assert_eq!(near.send("GET", &format!("{}/long", source.place), source.key.as_deref(), b"").0, 401);
        let audit = fs::read_to_string(near.open_node.path("state/audit.jsonl")).unwrap();
        let is_end = |line: &&str| line.contains("\"action\":\"expired\"") && line.contains(&source.place);
        assert_eq!(audit.lines().filter(is_end).count(), 1, "{audit}");
        assert!(audit.contains("\"target\":\"/api/v1/scratches\"") && !audit.contains(ExerciseNode::key_of(&source)));
        // Removed, a place ends at once.
        far.api().remove_scratch(target.id).unwrap();
        assert_eq!(refusal(far.api_with(ExerciseNode::key_of(&target)).capabilities()).0, 401);
        wait_until("the directory is gone", || !far.dir_of(&target).exists());
    }
}

#[test]
fn places_end_with_their_node() {
    let node = ExerciseNode::start("", None, |_| {});
    let place = node.order(1 << 20);
    node.make(&place, &[("a/b", 1000)]);
    node.open_node.node.stopper().stop();
    wait_until("the directory is gone", || !node.dir_of(&place).exists());
}

#[test]
fn a_principal_without_the_right_gets_the_remedy() {
    let mut keys = Vec::new();
    let node = ExerciseNode::start("", None, |config| {
        keys.push(add_key(config, "exercise", "", Rights::Read));
        keys.push(add_key(config, "exercise", "", Rights::Create));
        keys.push(add_key(config, "exercise", "part", Rights::Write));
        keys.push(add_key(config, "data", "", Rights::Write));
    });
    let order = ScratchOrder { id: Uuid::now_v7(), lifetime_s: 60, quota_bytes: 1 };
    for key in &keys {
        let (status, reason) = refusal(node.api_with(key).create_scratch(&order));
        assert!(status == 403 && reason.contains("longhaul grant --export exercise --write"), "{status} {reason}");
    }
    assert_eq!(refusal(Api::new(dialer(), node.url("/"), None).create_scratch(&order)).0, 401);
    assert_eq!(refusal(node.api().create_scratch(&ScratchOrder { lifetime_s: 61, ..order })).0, 400);
    let without = ExerciseNode::start("", None, |config| config.exercise = None);
    let (status, reason) = refusal(without.api().create_scratch(&order));
    assert!(status == 404 && reason.contains("serve --exercise DIR"), "{status} {reason}");
    // Another holder of the right neither sees nor changes the place.
    let mut other = String::new();
    let node = ExerciseNode::start("", None, |config| other = add_key(config, "exercise", "", Rights::Write));
    let place = node.order(10);
    let by_other = node.api_with(&other);
    assert_eq!(refusal(by_other.scratch(place.id)).0, 404);
    assert_eq!(refusal(by_other.renew_scratch(place.id, ScratchChange { lifetime_s: 60 })).0, 404);
    assert_eq!(refusal(by_other.remove_scratch(place.id)).0, 404);
    assert_eq!(refusal(by_other.make_scratch_files(place.id, &files(&[("a", 1)]))).0, 404);
    let taken = ScratchOrder { id: place.id, lifetime_s: 60, quota_bytes: 10 };
    assert_eq!(refusal(by_other.create_scratch(&taken)).0, 409);
}

#[test]
fn quotas_of_the_node_and_of_a_place_are_held() {
    let node = ExerciseNode::start("", Some(1000), |_| {});
    let place = node.order(600);
    let order = ScratchOrder { id: Uuid::now_v7(), lifetime_s: 60, quota_bytes: 401 };
    let (status, reason) = refusal(node.api().create_scratch(&order));
    assert!(status == 507 && reason.contains("quota=SIZE"), "{status} {reason}");
    node.order(400);
    assert_eq!(refusal(node.api().make_scratch_files(place.id, &files(&[("a", 400), ("b", 201)]))).0, 507);
    node.make(&place, &[("a", 400), ("b", 100)]);
    let put = |name: &str, bytes: usize| {
        node.send("PUT", &format!("{}/{name}", place.place), place.key.as_deref(), &vec![1; bytes])
    };
    let (status, answer) = put("c", 101);
    assert!(status == 507 && String::from_utf8_lossy(&answer).contains("quota"), "{status}");
    assert_eq!(put("c", 100).0, 201);
    assert_eq!((put("d", 1).0, put("d", 0).0), (507, 201));
    let (status, _) = node.send("DELETE", &format!("{}/a", place.place), place.key.as_deref(), b"");
    assert_eq!((status, put("d", 400).0), (204, 204));
    assert_eq!(node.api().scratch(place.id).unwrap().used_bytes, 600);
    // Who may write to the whole export writes to places, and nowhere else.
    assert_eq!(node.send("PUT", "/exercise/f", Some(&node.key), b"x").0, 404);
    assert_eq!(node.send("PUT", &format!("/exercise/{}/f", order.id), Some(&node.key), b"x").0, 404);
    assert_eq!(node.send("PUT", &format!("{}/d", place.place), Some(&node.key), b"").0, 204);
    // The place itself ends by the API alone: its files go, the directory stays.
    assert_eq!(node.send("DELETE", &place.place, Some(&node.key), b"").0, 207);
    assert_eq!((node.api().scratch(place.id).unwrap().used_bytes, node.dir_of(&place).exists()), (0, true));
}

#[test]
fn what_an_earlier_process_left_behind_is_removed() {
    let id = Uuid::now_v7();
    let upper = Uuid::from_u128(0xabcdef).to_string().to_uppercase();
    let mut dir = PathBuf::new();
    let node = ExerciseNode::start("", None, |config| {
        dir = exercise_dir(config);
        for name in [id.to_string(), upper.clone(), "other".into()] {
            fs::create_dir_all(dir.join(&name).join("deep")).unwrap();
            fs::write(dir.join(&name).join("deep/file"), "x").unwrap();
        }
    });
    wait_until("it is gone", || !dir.join(id.to_string()).exists());
    assert!(dir.join(&upper).join("deep/file").exists() && dir.join("other/deep/file").exists());
    // What is not a scratch place is not there for clients.
    assert_eq!(node.send("GET", "/exercise/other/deep/file", Some(&node.key), b"").0, 404);
    let order = ScratchOrder { id, lifetime_s: 60, quota_bytes: 1 };
    wait_until("the id can be used", || node.api().create_scratch(&order).is_ok());
    // The directory belongs to this node alone.
    let config = |export: Option<Export>| NodeConfig {
        exports: export.into_iter().collect(),
        exercise: Some(ExerciseConfig { dir: node.open_node.path("exercise"), quota_bytes: None }),
        ..NodeConfig::new(([127, 0, 0, 1], 0).into(), StateDir::open(&node.open_node.path("state-of-another")).unwrap())
    };
    let error = |config: NodeConfig| Node::bind(config).err().unwrap().to_string();
    assert!(error(config(None)).contains("another node"), "{}", error(config(None)));
    let mut both = config(Some(Export::here("exercise", node.open_node.path("data"), true)));
    both.exercise = Some(ExerciseConfig { dir: node.open_node.path("data"), quota_bytes: None });
    let error = error(both);
    assert!(error.contains("the export exercise holds the scratch places"), "{error}");
}
