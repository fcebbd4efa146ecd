//! The node's API, `/api/v1`, driven as an orchestrator drives it: by its typed client, by curl, and by clients that break the rules.

mod files;
mod probes;
mod refusals;
mod schedules;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::id::Uuid;
use model::v1::node::{Credentials, Order, Problem, S3};
use model::v1::{Change, Stage, State, Transfer};
use nodeapi::{Api, Error, PageQuery};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};
use web::{Dialer, HttpUrl};

use crate::client::unfinished;
use crate::https;
use crate::node::{Node, Setup};
use crate::s3::{KEY, S3Server};
use crate::tree::pattern;
use crate::unfinished_state::written;
use crate::wait::{LONG, until, until_some};
use crate::web::raw::ask;

/// Takes some ten seconds at [`LIMIT`].
const LARGE: usize = 48 << 20;
const LIMIT: u64 = 40_000_000;

/// A node that serves HTTP without TLS as well, for clients with a key.
fn plain() -> Setup {
    Setup::new().data_export("rw").arg("--plain")
}

fn api_at(origin: &str, key: Option<&str>) -> Api {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(https::authority().as_bytes()).unwrap()).unwrap();
    let tls = ClientConfig::builder_with_provider(engine::identity::provider());
    let tls = tls.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
    let (connect, silence) = (Duration::from_secs(30), Duration::from_secs(60));
    let dialer = Dialer { tls: Arc::new(tls), guard: Arc::new(|_| Ok(())), prepare: None, connect, silence };
    let bearer = key.map(|key| format!("Bearer {key}"));
    Api::new(dialer, HttpUrl::parse(origin).unwrap(), bearer.as_deref())
}

/// The API of a node that serves HTTP without TLS.
fn api(node: &Node, key: &str) -> Api {
    api_at(&format!("http://127.0.0.1:{}/", node.port), Some(key))
}

fn full_key(node: &Node) -> String {
    node.grant(&["--export", "data", "--write"])
}

fn with_key(key: &str) -> Option<Credentials> {
    Some(Credentials { key: Some(key.to_owned()), ..Credentials::default() })
}

/// Two nodes: the driven one with a client of its API, and the other with a key to it.
struct Pair {
    here: Node,
    api: Api,
    there: Node,
    key: String,
}

fn pair() -> Pair {
    pair_of(plain().start())
}

fn pair_of(here: Node) -> Pair {
    let there = Node::closed();
    let (own, key) = (full_key(&here), full_key(&there));
    Pair { api: api(&here, &own), here, there, key }
}

impl Pair {
    /// An order from the driven node to the other.
    fn push(&self, from: &str, to: &str) -> Order {
        Order { credentials: with_key(&self.key), ..Order::new(Uuid::now_v7(), from, self.there.at(to)) }
    }

    /// An order from the other node to the driven one.
    fn pull(&self, from: &str, to: &str) -> Order {
        Order { credentials: with_key(&self.key), ..Order::new(Uuid::now_v7(), self.there.at(from), to) }
    }

    /// An order for a large file that moves to the other node slowly.
    fn slow(&self) -> Order {
        fs::write(self.here.data("large"), pattern(LARGE)).unwrap();
        Order { limit_bit_s: LIMIT, ..self.push("/data/large", "data/large") }
    }

    fn wait_until_a_third_is_written(&self) {
        until("a third of the file is there", LONG, || {
            unfinished(&self.there.data("")).iter().any(|path| written(path) > LARGE as u64 / 3)
        });
    }
}

#[track_caller]
fn ended(api: &Api, id: Uuid) -> Transfer {
    until_some("the transfer has ended", LONG, || api.transfer(id).ok().filter(|transfer| transfer.state.is_last()))
}

#[track_caller]
fn done(api: &Api, order: &Order) -> Transfer {
    let (transfer, is_new) = api.create_transfer(order).unwrap();
    assert!(is_new && transfer.id == order.id);
    let transfer = ended(api, order.id);
    assert_eq!((transfer.state, &transfer.error), (Stage::Done, &None), "{transfer:?}");
    transfer
}

#[track_caller]
fn problem<T: std::fmt::Debug>(result: Result<T, Error>) -> Problem {
    match result {
        Err(Error::Refused { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_go_to_another_node_and_come_from_it() {
    let pair = pair();
    fs::create_dir(pair.here.data("run")).unwrap();
    for (name, bytes) in [("a", pattern(3 << 20)), ("b c", pattern(10)), ("e", Vec::new())] {
        fs::write(pair.here.data("run").join(name), bytes).unwrap();
    }
    let mut order = pair.push("/data/run", "data/in/");
    order.options.recursive = true;
    let transfer = done(&pair.api, &order);
    assert_eq!((transfer.bytes, transfer.files, transfer.exit), ((3 << 20) + 10, 3, Some(0)));
    assert_eq!(transfer.source, ["/data/run"]);
    assert_eq!(fs::read(pair.there.data("in/run/b c")).unwrap(), pattern(10));
    let receipt = pair.api.receipt(order.id).unwrap();
    assert_eq!((receipt.state, receipt.files, &receipt.transfer), (State::Done, 3, &order.id.to_string()));
    assert!(receipt.digests.iter().any(|digest| digest.algorithm == "crc32c" && digest.files == 3), "{receipt:?}");
    // And back, by a name that needs escapes.
    done(&pair.api, &pair.pull("data/in/run/b%20c", "/data/back"));
    assert_eq!(fs::read(pair.here.data("back")).unwrap(), pattern(10));
    done(&pair.api, &pair.pull("data/in/run/a", "/data/new/"));
    assert_eq!(fs::read(pair.here.data("new/a")).unwrap(), pattern(3 << 20));
    // A missing source ends as a failure that names it.
    let missing = pair.pull("data/nothing", "/data/x");
    pair.api.create_transfer(&missing).unwrap();
    let transfer = ended(&pair.api, missing.id);
    assert!(transfer.state == Stage::Failed && transfer.error.unwrap().contains("nothing"), "{:?}", transfer.exit);
    let listed = pair.api.list_transfers(PageQuery::default()).unwrap();
    assert_eq!((listed.transfers.len(), listed.next), (4, None));
    assert_eq!(listed.transfers[0].id, order.id);
}

#[test]
fn files_go_to_a_server_and_come_from_it() {
    let far = https::setup("").start();
    let here = plain().arg("--cacert").arg(far.data("").with_file_name("ca.pem")).start();
    let (own, token) = (full_key(&here), full_key(&far));
    let api = api(&here, &own);
    let credentials = || Some(Credentials { token: Some(token.clone()), ..Credentials::default() });
    let order = |from: String, to: String| Order { credentials: credentials(), ..Order::new(Uuid::now_v7(), from, to) };
    let at = |path: &str| format!("https://127.0.0.1:{}/data/{path}", far.port);
    fs::create_dir_all(here.data("t/sub")).unwrap();
    fs::write(here.data("t/large"), pattern(20 << 20)).unwrap();
    fs::write(here.data("t/sub/ä b%"), b"odd").unwrap();
    let mut there = order("/data/t".into(), at("copy"));
    there.options.recursive = true;
    assert_eq!(done(&api, &there).files, 2);
    assert_eq!(fs::read(far.data("copy/sub/ä b%")).unwrap(), b"odd");
    assert_eq!(fs::read(far.data("copy/large")).unwrap(), pattern(20 << 20));
    let receipt = api.receipt(there.id).unwrap();
    assert_eq!((receipt.files, receipt.failed), (2, 0));
    done(&api, &order(at("copy/large"), "/data/back".into()));
    assert_eq!(fs::read(here.data("back")).unwrap(), pattern(20 << 20));
    // With another credential the server refuses, and the transfer states that.
    let refused = Order { credentials: None, ..order(at("copy/large"), "/data/no".into()) };
    api.create_transfer(&refused).unwrap();
    let transfer = ended(&api, refused.id);
    assert_eq!((transfer.state, here.data("no").exists()), (Stage::Failed, false), "{transfer:?}");
    // A request to this node itself counts for this one transfer: no valid key is left.
    assert!(!fs::read_to_string(here.state().join("grants.toml")).unwrap().contains("one copy"));
}

#[test]
fn files_go_to_a_bucket_and_come_from_it() {
    let (server, here) = (S3Server::new(), plain().start());
    let api = api(&here, &full_key(&here));
    let s3 = S3 {
        endpoint: Some(format!("http://{}", server.address)),
        access_key_id: Some(KEY.0.into()),
        secret_access_key: Some(KEY.1.into()),
        ..S3::default()
    };
    let credentials = Some(Credentials { s3: Some(s3), ..Credentials::default() });
    fs::write(here.data("f"), pattern(9 << 20)).unwrap();
    let order =
        |from: &str, to: &str| Order { credentials: credentials.clone(), ..Order::new(Uuid::now_v7(), from, to) };
    done(&api, &order("/data/f", "s3://bucket/a/f"));
    done(&api, &order("s3://bucket/a/f", "/data/g"));
    assert_eq!(fs::read(here.data("g")).unwrap(), pattern(9 << 20));
}

#[test]
fn a_transfer_ordered_twice_runs_once() {
    let pair = pair();
    fs::write(pair.here.data("f"), b"once").unwrap();
    let order = pair.push("/data/f", "data/f");
    let first = done(&pair.api, &order);
    // With another credential it is the same order: tokens are renewed.
    let again = Order { credentials: with_key(&full_key(&pair.there)), ..order.clone() };
    assert_eq!(pair.api.create_transfer(&again).unwrap(), (first.clone(), false));
    let other = Order { target: pair.there.at("data/other"), ..order.clone() };
    let no = problem(pair.api.create_transfer(&other));
    assert_eq!((no.status, no.fault.as_str()), (409, "config"), "{no:?}");
    // Another client cannot see it, not even whether it is the same.
    let others = api(&pair.here, &full_key(&pair.here));
    assert_eq!(problem(others.create_transfer(&order)).reason, no.reason);
    assert_eq!(problem(others.create_transfer(&other)).reason, no.reason);
    assert!(!pair.there.data("other").exists());
    assert_eq!(pair.api.list_transfers(PageQuery::default()).unwrap().transfers, [first]);
}

#[test]
fn clients_see_only_their_own_transfers() {
    let pair = pair();
    fs::write(pair.here.data("f"), b"mine").unwrap();
    let order = pair.push("/data/f", "data/f");
    done(&pair.api, &order);
    let others = api(&pair.here, &full_key(&pair.here));
    assert!(others.list_transfers(PageQuery::default()).unwrap().transfers.is_empty());
    let unknown = problem(others.transfer(order.id));
    assert_eq!((unknown.status, unknown.fault.as_str()), (404, "missing"));
    assert_eq!(unknown.reason.replace(&order.id.to_string(), ""), {
        let never = Uuid::now_v7();
        problem(others.transfer(never)).reason.replace(&never.to_string(), "")
    });
    for status in [
        problem(others.change_transfer(order.id, &Change::default())).status,
        problem(others.cancel_transfer(order.id)).status,
        problem(others.receipt(order.id)).status,
        problem(others.events(Some(order.id), None).map(|_| ())).status,
        problem(others.list_transfers(PageQuery { after: Some(order.id), ..PageQuery::default() })).status,
    ] {
        assert_eq!(status, 404);
    }
    // A client without a credential sees whether the node works, and no more.
    let anonymous = api_at(&format!("http://127.0.0.1:{}/", pair.here.port), None);
    assert_eq!(anonymous.health().unwrap().status, "ok");
    assert_eq!(problem(anonymous.list_transfers(PageQuery::default())).status, 401);
    assert_eq!(problem(anonymous.create_transfer(&order)).status, 401);
    assert!(anonymous.capabilities().unwrap().exports.is_empty());
    // A read key cannot order a copy to this node, and a key for one path cannot order a copy from or to another path.
    let reader = api(&pair.here, &pair.here.grant(&["--export", "data"]));
    assert_eq!(problem(reader.create_transfer(&pair.pull("data/f", "/data/new"))).fault, "auth");
    let part = api(&pair.here, &pair.here.grant(&["--export", "data", "--path", "sub", "--write"]));
    assert_eq!(problem(part.create_transfer(&pair.push("/data/f", "data/stolen"))).status, 403);
    assert_eq!(problem(part.create_transfer(&pair.pull("data/f", "/data/f2"))).status, 403);
    assert!(!pair.there.data("stolen").exists() && !pair.here.data("new").exists());
}

#[test]
fn a_node_describes_its_capabilities() {
    let pair = pair();
    let capabilities = pair.api.capabilities().unwrap();
    assert_eq!(capabilities.addresses, [pair.here.address()]);
    assert_eq!(
        capabilities.exports.iter().map(|e| (e.name.as_str(), e.writable)).collect::<Vec<_>>(),
        [("data", true)]
    );
    assert!(
        pair.key.len() > 20 && capabilities.node.len() > 20 && capabilities.limits.page_max == 10_000,
        "{capabilities:?}"
    );
    assert!(capabilities.schemes.iter().any(|scheme| scheme == "s3"));
    let document = ask(&pair.here, "GET", "/api/v1/openapi.json", &[], &[]).expect(200);
    let read: serde_json::Value = serde_json::from_slice(&document.body).unwrap();
    assert!(read["paths"]["/api/v1/transfers/{id}"]["patch"].is_object());
    let index = ask(&pair.here, "GET", "/api/v1", &[], &[]).expect(200);
    assert!(index.text().contains("/api/v1/capabilities"));
}

#[test]
fn host_settings_are_shown_only_where_the_operator_permits_it() {
    let (unaudited, audited) = (plain().start(), plain().arg("--audit").start());
    let audit = |node: &Node, query: &str| {
        let bearer = format!("Bearer {}", full_key(node));
        let answer = ask(node, "GET", &format!("/api/v1/host{query}"), &[("Authorization", &bearer)], &[]);
        (answer.status, serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap())
    };
    let (status, no) = audit(&unaudited, "");
    assert_eq!((status, &no["fault"]), (403, &"auth".into()), "{no}");
    let (status, host) = audit(&audited, "?rate_bit_s=10000000000&rtt_s=0.2");
    assert_eq!(status, 200, "{host}");
    let findings = host["findings"].as_array().unwrap();
    assert!(host["host"].is_object() && findings.len() > 5 && findings.iter().all(|f| f["id"].is_string()), "{host}");
    assert_eq!(
        (audit(&audited, "?rtt_s=-1").0, audit(&audited, "?role=toaster").0, audit(&audited, "?x=1").0),
        (400, 400, 400)
    );
    assert_eq!(ask(&audited, "GET", "/api/v1/host", &[], &[]).status, 401);
}

/// Whether a file below a directory contains a text.
fn any_file_contains(dir: &Path, text: &str) -> bool {
    fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
        if entry.file_type().unwrap().is_dir() {
            any_file_contains(&entry.path(), text)
        } else {
            String::from_utf8_lossy(&fs::read(entry.path()).unwrap_or_default()).contains(text)
        }
    })
}

#[test]
fn credentials_are_never_returned() {
    let pair = pair();
    let mut order = pair.slow();
    order.paused = true;
    let secret = pair.key[pair.key.len() - 24..].to_owned();
    let mut answers = serde_json::to_string(&pair.api.create_transfer(&order).unwrap().0).unwrap();
    let state_file = pair.here.state().join("transfers").join(order.id.to_string());
    assert!(fs::read_to_string(&state_file).unwrap().contains(&secret), "it is needed after a restart");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&state_file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    answers += &serde_json::to_string(
        &pair.api.change_transfer(order.id, &Change { paused: Some(false), ..Change::default() }).unwrap(),
    )
    .unwrap();
    answers += &serde_json::to_string(&pair.api.list_transfers(PageQuery::default()).unwrap()).unwrap();
    answers += &serde_json::to_string(&pair.api.cancel_transfer(order.id).unwrap()).unwrap();
    answers += &serde_json::to_string(&ended(&pair.api, order.id)).unwrap();
    answers += &serde_json::to_string(&pair.api.receipt(order.id).unwrap()).unwrap();
    assert!(!answers.contains(&secret), "{answers}");
    until("no file of the node contains the secret", LONG, || !any_file_contains(&pair.here.state(), &secret));
    assert!(fs::read_to_string(&state_file).unwrap().contains("cancelled"), "the receipt is kept instead");
    // The refusal of an order that cannot be parsed does not repeat it either.
    let own = full_key(&pair.here);
    let body = format!(
        "{{\"id\":\"{}\",\"source\":[\"/data/f\"],\"target\":\"lh://h/x\",\"credentials\":\"{}\"}}",
        order.id, pair.key
    );
    let bearer = format!("Bearer {own}");
    let fields = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let answer = ask(&pair.here, "POST", "/api/v1/transfers", &fields, body.as_bytes()).expect(400);
    assert!(!answer.text().contains(&secret), "{}", answer.text());
    https::assert_not_written(&pair.here, &[pair.key.clone(), own]);
}

#[test]
fn a_limit_lapses_unless_it_is_renewed() {
    let pair = pair();
    // At this limit the copy would take almost seven minutes; the limit lapses after two seconds.
    let order = Order { limit_bit_s: 1_000_000, limit_for_s: Some(2), ..pair.slow() };
    pair.api.create_transfer(&order).unwrap();
    until("it has its limit", LONG, || {
        pair.api.transfer(order.id).is_ok_and(|transfer| transfer.limit_bit_s == 1_000_000)
    });
    let transfer = ended(&pair.api, order.id);
    assert_eq!((transfer.state, transfer.limit_bit_s), (Stage::Done, 0), "{transfer:?}");
    assert!(transfer.seconds > 1.5 && transfer.seconds < 20.0, "{transfer:?}");
}

#[test]
fn a_killed_node_resumes_its_transfers() {
    let mut pair = pair();
    let order = pair.slow();
    pair.api.create_transfer(&order).unwrap();
    let first = done(&pair.api, &{
        fs::write(pair.here.data("small"), b"small").unwrap();
        pair.push("/data/small", "data/small")
    });
    pair.wait_until_a_third_is_written();
    // The change outlasts the restart, and the rest takes minutes until the limit is lifted.
    let limit_change = |limit: u64| Change { limit_bit_s: Some(limit), ..Change::default() };
    pair.api.change_transfer(order.id, &limit_change(1_000_001)).unwrap();
    pair.here.restart();
    let transfer = until_some("it answers again", LONG, || pair.api.transfer(order.id).ok());
    assert!(!transfer.state.is_last() && transfer.limit_bit_s == 1_000_001, "{transfer:?}");
    assert!(!pair.api.create_transfer(&order).unwrap().1, "the same order is still the same");
    pair.api.change_transfer(order.id, &limit_change(0)).unwrap();
    let transfer = ended(&pair.api, order.id);
    assert_eq!((transfer.state, transfer.bytes), (Stage::Done, LARGE as u64), "{transfer:?}");
    assert_eq!(fs::read(pair.there.data("large")).unwrap(), pattern(LARGE));
    let receipt = pair.api.receipt(order.id).unwrap();
    assert!(receipt.bytes < LARGE as u64 || receipt.resumed_bytes > 0, "it did not begin anew: {receipt:?}");
    // Transfers that had ended are still listed, in their order.
    let listed = pair.api.list_transfers(PageQuery::default()).unwrap().transfers;
    assert_eq!(listed.iter().map(|t| t.id).collect::<Vec<_>>(), [order.id, first.id]);
    assert_eq!((&listed[1], pair.api.receipt(first.id).unwrap().files), (&first, 1));
    // A transfer that was cancelled stays cancelled.
    let gone = Order { paused: true, ..pair.push("/data/large", "data/again") };
    pair.api.create_transfer(&gone).unwrap();
    pair.api.cancel_transfer(gone.id).unwrap();
    assert_eq!(ended(&pair.api, gone.id).state, Stage::Cancelled);
    pair.here.restart();
    until("it answers again", LONG, || pair.api.transfer(gone.id).is_ok_and(|t| t.state == Stage::Cancelled));
}

#[test]
fn a_revoked_key_gets_no_service_after_a_restart() {
    let mut pair = pair_of(plain().start());
    let own = full_key(&pair.here);
    let api = api(&pair.here, &own);
    let order = Order { paused: true, ..pair.slow() };
    api.create_transfer(&order).unwrap();
    let list = String::from_utf8(pair.here.grant_command(&["list"]).stdout).unwrap();
    let ids: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    ids.iter().for_each(|id| drop(pair.here.grant_command(&["revoke", id])));
    pair.here.restart();
    let file = pair.here.state().join("transfers").join(order.id.to_string());
    until("it has ended", LONG, || fs::read_to_string(&file).unwrap().contains("\"failed\""));
    assert!(!pair.there.data("large").exists());
    assert!(!any_file_contains(&pair.here.state().join("transfers"), &pair.key[pair.key.len() - 24..]));
}

#[test]
fn a_transfer_is_paused_changed_and_ended() {
    let pair = pair();
    let order = Order { paused: true, ..pair.slow() };
    pair.api.create_transfer(&order).unwrap();
    let state = |wanted: Stage| {
        until("the transfer is in this state", LONG, || pair.api.transfer(order.id).unwrap().state == wanted)
    };
    state(Stage::Paused);
    assert_eq!(problem(pair.api.receipt(order.id)).status, 409);
    let go = Change { paused: Some(false), ..Change::default() };
    pair.api.change_transfer(order.id, &go).unwrap();
    until("bytes move", LONG, || pair.api.transfer(order.id).unwrap().bytes > 1 << 20);
    pair.api.change_transfer(order.id, &Change { paused: Some(true), ..Change::default() }).unwrap();
    state(Stage::Paused);
    let change = Change { limit_bit_s: Some(0), streams: Some(2), paused: Some(false), ..Change::default() };
    assert_eq!(pair.api.change_transfer(order.id, &change).unwrap().limit_bit_s, 0);
    assert_eq!(ended(&pair.api, order.id).state, Stage::Done);
    assert_eq!(problem(pair.api.change_transfer(order.id, &change)).status, 409);
    assert_eq!(pair.api.cancel_transfer(order.id).unwrap().state, Stage::Done, "it stays as it ended");
    // A transfer that is cancelled halfway puts no file in place.
    let second = Order { limit_bit_s: LIMIT, ..pair.push("/data/large", "data/second") };
    pair.api.create_transfer(&second).unwrap();
    until("bytes move", LONG, || pair.api.transfer(second.id).unwrap().bytes > 1 << 20);
    pair.api.cancel_transfer(second.id).unwrap();
    let transfer = ended(&pair.api, second.id);
    assert_eq!(
        (transfer.state, transfer.exit, pair.there.data("second").exists()),
        (Stage::Cancelled, Some(130), false)
    );
    // A change may cancel a transfer as well.
    let third = Order { limit_bit_s: LIMIT, ..pair.push("/data/large", "data/third") };
    pair.api.create_transfer(&third).unwrap();
    let both = Change { cancel: true, streams: Some(2), ..Change::default() };
    assert_eq!(problem(pair.api.change_transfer(third.id, &both)).status, 400);
    pair.api.change_transfer(third.id, &Change { cancel: true, ..Change::default() }).unwrap();
    assert_eq!(ended(&pair.api, third.id).state, Stage::Cancelled);
    let page = pair.api.list_transfers(PageQuery { state: Some(Stage::Cancelled), ..PageQuery::default() }).unwrap();
    assert_eq!(page.transfers.iter().map(|t| t.id).collect::<Vec<_>>(), [second.id, third.id]);
}

#[test]
fn events_come_in_order_and_resume_after_a_reconnect() {
    let pair = pair();
    let order = Order { paused: true, ..pair.slow() };
    pair.api.create_transfer(&order).unwrap();
    let (mut one, mut all) = (pair.api.events(Some(order.id), None).unwrap(), pair.api.events(None, None).unwrap());
    pair.api.change_transfer(order.id, &Change { paused: Some(false), ..Change::default() }).unwrap();
    let (mut events, mut is_unlimited) = (Vec::new(), false);
    while let Some(event) = one.next_event().unwrap() {
        assert_eq!(event.transfer.id, order.id);
        let moves = event.transfer.bytes > 1 << 20;
        events.push((event.id.parse::<u64>().unwrap(), event.transfer));
        if events.len() >= 3 && moves && !is_unlimited {
            is_unlimited = true;
            let _ = pair.api.change_transfer(order.id, &Change { limit_bit_s: Some(0), ..Change::default() });
        }
    }
    assert!(events.len() >= 3, "the last state, and progress before it: {}", events.len());
    assert!(events.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1.bytes <= pair[1].1.bytes));
    assert_eq!(events.last().unwrap().1.state, Stage::Done);
    assert!(events.iter().rev().skip(1).all(|(_, transfer)| !transfer.state.is_last()));
    // Clients that follow all transfers get the same end, and then the next events.
    let of_end = until_some("the event of the end is sent", LONG, || {
        let event = all.next_event().unwrap().unwrap();
        Some(event).filter(|event| event.transfer.state.is_last())
    });
    assert_eq!(of_end.id, events.last().unwrap().0.to_string());
    fs::write(pair.here.data("small"), b"small").unwrap();
    let next = pair.push("/data/small", "data/small");
    pair.api.create_transfer(&next).unwrap();
    assert_eq!(all.next_event().unwrap().unwrap().transfer.id, next.id);
    ended(&pair.api, next.id);
    // A client that reconnects gets the missed events, and nothing twice.
    let mut back = pair.api.events(None, Some(&of_end.id)).unwrap();
    let event = back.next_event().unwrap().unwrap();
    assert_eq!((event.transfer.id, event.transfer.state), (next.id, Stage::Done));
    let mut over = pair.api.events(Some(order.id), Some(&of_end.id)).unwrap();
    assert_eq!(over.next_event().unwrap(), None, "its end was received");
    assert_eq!(problem(pair.api.events(None, Some("x")).map(|_| ())).status, 400);
}
