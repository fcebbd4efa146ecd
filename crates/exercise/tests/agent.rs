//! An agent with real clients: curl against a small server, iperf3 against its own, and a program that stands for `longhaul`.

#![allow(clippy::unwrap_used, missing_docs, reason = "a failure here is a failed test")]

#[path = "agent/fixture.rs"]
mod fixture;
#[path = "agent/small_server.rs"]
mod small_server;
#[path = "agent/xrootd.rs"]
mod xrootd;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use auth::Fingerprint;
use exercise::agent::{ToolRunCredentials, ToolRunDirection, ToolRunFile, ToolRunOrder, ToolRunState, ToolRunStatus};
use model::id::Uuid;
use web::api_client::ApiError;

use self::fixture::{AgentFixture, identity};
use self::small_server::{BODY, SmallServer};
use self::xrootd::XrootdFixture;

/// A bound far above what anything here takes.
const LONG: Duration = Duration::from_secs(60);

fn order(tool: &str, files: Vec<ToolRunFile>) -> ToolRunOrder {
    ToolRunOrder {
        id: Uuid::now_v7(),
        tool: tool.to_owned(),
        direction: ToolRunDirection::Get,
        files,
        files_each: 1,
        credentials: ToolRunCredentials::default(),
        streams: None,
        window_bytes: None,
        limit_bit_s: None,
        clients: 1,
        seconds: None,
        scitag: None,
        lifetime_s: 60,
    }
}

fn file(source: impl Into<String>, target: impl Into<String>, bytes: u64) -> ToolRunFile {
    ToolRunFile { source: source.into(), target: target.into(), bytes }
}

/// Waits until a fact holds, for at most [`LONG`].
fn until<T>(what: &str, mut fact: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(found) = fact() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {} s", LONG.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ended(agent: &AgentFixture, id: Uuid) -> ToolRunStatus {
    until("the run ends", || Some(agent.api.run(id).unwrap()).filter(|status| status.state.is_last()))
}

/// Starts a run and waits for its end.
fn run(agent: &AgentFixture, order: &ToolRunOrder) -> ToolRunStatus {
    let (status, is_new) = agent.api.start(order).unwrap();
    assert!(is_new && status.id == order.id, "{status:?}");
    ended(agent, order.id)
}

/// The arguments of all processes that have this text in them.
fn processes_with(text: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let arguments = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let shown = arguments.map(|words| String::from_utf8_lossy(&words).replace('\0', " "));
    shown.filter(|words| words.contains(text)).collect()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, ApiError>, status: u16, why: &str) {
    match result {
        Err(ApiError::Refused { problem, .. }) => {
            assert!(problem.status == status && problem.reason.contains(why), "{problem:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn four_clients_get_twenty_files() {
    let (server, agent) = (SmallServer::start(), AgentFixture::start());
    let files = (0..20).map(|n| file(server.url(&format!("together/{n}")), format!("in/{n}"), BODY.len() as u64));
    let order = ToolRunOrder { clients: 4, ..order("curl", files.collect()) };
    let status = run(&agent, &order);
    assert_eq!((status.state, status.files_done, status.files_failed), (ToolRunState::Done, 20, 0), "{status:?}");
    assert_eq!((status.bytes_done, status.processes), (20 * BODY.len() as u64, 0));
    assert!(status.cpu_s > 0.0 && status.ended.is_some() && status.errors.is_empty(), "{status:?}");
    for n in 0..20 {
        assert_eq!(fs::read(agent.path(&format!("in/{n}"))).unwrap(), BODY);
    }
    // The server held the first answers back until four requests were there.
    assert_eq!(server.in_flight_max(), 4);
}

#[test]
fn a_put_sends_a_file_and_its_bearer() {
    let (server, agent) = (SmallServer::start(), AgentFixture::start());
    fs::write(agent.path("f"), BODY).unwrap();
    let credentials = ToolRunCredentials { bearer: Some("s3cret.token".into()), fingerprint: None };
    let put = ToolRunOrder {
        direction: ToolRunDirection::Put,
        credentials,
        ..order("curl", vec![file("f", server.url("new/f"), BODY.len() as u64)])
    };
    let status = run(&agent, &put);
    assert_eq!((status.state, status.bytes_done), (ToolRunState::Done, BODY.len() as u64), "{status:?}");
    let received = server.puts().pop().unwrap();
    assert_eq!((received.path.as_str(), received.authorization.as_str()), ("/new/f", "Bearer s3cret.token"));
    assert_eq!(received.body, BODY);
    let missing = ToolRunOrder { id: Uuid::now_v7(), files: vec![file("none", server.url("n"), 1)], ..put };
    let status = run(&agent, &missing);
    assert!(status.state == ToolRunState::Failed && status.errors[0].contains("cannot send"), "{status:?}");
}

#[test]
fn an_error_says_which_file_and_what_the_tool_said() {
    let (server, agent) = (SmallServer::start(), AgentFixture::start());
    let missing = server.url("missing");
    let whole = BODY.len() as u64;
    let files = vec![file(&missing, "a", 1), file(server.url("f"), "b", 7), file(server.url("f"), "c", whole)];
    let status = run(&agent, &order("curl", files));
    assert_eq!((status.state, status.files_done, status.files_failed), (ToolRunState::Failed, 1, 2));
    let [not_found, short] = status.errors.as_slice() else { panic!("{status:?}") };
    let begin = format!("{missing} -> a: curl ended with exit status: 22: curl: (22)");
    assert!(not_found.starts_with(&begin) && not_found.contains("404"), "{not_found}");
    assert!(short.ends_with(&format!("curl copied {whole} bytes, and the order says 7")), "{short}");
}

#[test]
fn bytes_in_flight_can_be_seen_also_where_they_are_discarded() {
    let (server, agent) = (SmallServer::start(), AgentFixture::start());
    let bytes = 2 << 20;
    let halves = order("curl", vec![file(server.url("half"), "null:", bytes)]);
    agent.api.start(&halves).unwrap();
    let half = until("half of the bytes are seen", || {
        // curl may hold a piece back before it writes it.
        Some(agent.api.run(halves.id).unwrap()).filter(|status| status.bytes_done >= (1 << 20) - (16 << 10))
    });
    assert!(half.state == ToolRunState::Running && half.processes == 1 && half.bytes_done < bytes, "{half:?}");
    server.go_on();
    let status = ended(&agent, halves.id);
    assert_eq!((status.state, status.bytes_done), (ToolRunState::Done, bytes), "{status:?}");
    assert_eq!(fs::read_dir(agent.path("")).unwrap().count(), 0, "nothing is left of what was discarded");
}

#[test]
fn a_run_without_renewal_ends_with_its_lifetime() {
    let (server, agent) = (SmallServer::start(), AgentFixture::start());
    let url = server.url("hang");
    let credentials = ToolRunCredentials { bearer: Some("s3cret.token".into()), fingerprint: None };
    let hangs = ToolRunOrder { lifetime_s: 2, credentials, ..order("curl", vec![file(&url, "null:", 1); 3]) };
    let began = Instant::now();
    agent.api.start(&hangs).unwrap();
    let arguments = until("curl runs", || processes_with(&url).into_iter().find(|words| words.contains("curl ")));
    assert!(!arguments.contains("s3cret"), "{arguments}");
    let status = ended(&agent, hangs.id);
    assert!(began.elapsed() < Duration::from_secs(2 + 3), "{:?}", began.elapsed());
    assert_eq!((status.state, status.files_done, status.files_failed), (ToolRunState::Stopped, 0, 0), "{status:?}");
    assert!(status.reason.as_ref().unwrap().contains("lifetime") && status.processes == 0, "{status:?}");
    assert!(processes_with(&url).is_empty());
}

#[test]
fn a_renewed_run_outlives_its_first_lifetime_until_it_is_stopped() {
    let (server, agent) = (SmallServer::start(), AgentFixture::start());
    let url = server.url("hang");
    let hangs = ToolRunOrder { lifetime_s: 3, ..order("curl", vec![file(&url, "null:", 1)]) };
    agent.api.start(&hangs).unwrap();
    assert_eq!(agent.api.renew(hangs.id, 60).unwrap().state, ToolRunState::Running);
    refused(agent.api.renew(hangs.id, 61), 400, "write 1 to 60");
    std::thread::sleep(Duration::from_millis(3500));
    let status = agent.api.run(hangs.id).unwrap();
    assert_eq!((status.state, status.processes), (ToolRunState::Running, 1), "{status:?}");
    let stopped = agent.api.stop(hangs.id).unwrap();
    assert_eq!((stopped.state, stopped.processes), (ToolRunState::Stopped, 0), "{stopped:?}");
    assert_eq!(stopped.reason.as_deref(), Some("it was ordered to stop"));
    assert!(processes_with(&url).is_empty());
    // What has ended does not change.
    assert_eq!(agent.api.renew(hangs.id, 60).unwrap(), stopped);
    assert_eq!(agent.api.stop(hangs.id).unwrap(), stopped);
    refused(agent.api.run(Uuid::now_v7()), 404, "no run of this id");
}

/// A program that stands for `longhaul`: it has a version, and otherwise runs this script.
fn pretended_longhaul(directory: &Path, script: &str) -> PathBuf {
    let path = directory.join("longhaul");
    let text = format!("#!/bin/sh\n[ \"$1\" = --version ] && echo longhaul test && exit\n{script}\n");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    // A process that another test started meanwhile may have the file open for writing, until it runs its own program.
    until("the script can be run", || Command::new(&path).arg("--version").stdout(Stdio::null()).status().ok());
    path
}

#[test]
fn clients_that_ignore_sigterm_are_killed_with_what_they_have_started() {
    let dir = tempfile::tempdir().unwrap();
    let script = "trap '' TERM\nsleep 601.25 &\nwhile :; do sleep 601.25; done";
    let agent = AgentFixture::with(|config| config.longhaul = Some(pretended_longhaul(dir.path(), script)));
    let hangs = order("longhaul", vec![file("lh://h.example/e/f", "null:", 1)]);
    agent.api.start(&hangs).unwrap();
    until("both sleep", || Some(processes_with("sleep 601.25")).filter(|all| all.len() >= 2));
    let stopped = agent.api.stop(hangs.id).unwrap();
    assert_eq!((stopped.state, stopped.processes), (ToolRunState::Stopped, 0), "{stopped:?}");
    until("nothing is left", || processes_with("sleep 601.25").is_empty().then_some(()));
}

#[test]
fn longhaul_gets_its_key_in_its_environment_and_reports_bytes_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (said, go_on) = (dir.path().join("said"), dir.path().join("go-on"));
    let script = format!(
        "echo \"$LONGHAUL_KEY $*\" > {}\necho '{{\"v\":1,\"event\":\"progress\",\"bytes\":40,\"files\":0}}'\n\
         while [ ! -e {} ]; do sleep 0.05; done",
        said.display(),
        go_on.display()
    );
    let agent = AgentFixture::with(|config| config.longhaul = Some(pretended_longhaul(dir.path(), &script)));
    let mut copy = order("longhaul", vec![file("lh://h.example/e/f", "null:", 100)]);
    copy.credentials.bearer = Some("lhk1_x".into());
    agent.api.start(&copy).unwrap();
    until("40 bytes are seen", || (agent.api.run(copy.id).unwrap().bytes_done == 40).then_some(()));
    fs::write(&go_on, "").unwrap();
    assert_eq!(ended(&agent, copy.id).bytes_done, 100);
    let said = fs::read_to_string(&said).unwrap();
    assert_eq!(said.trim(), "lhk1_x cp --json --sync none lh://h.example/e/f null:");
}

#[test]
fn an_agent_that_stops_ends_its_clients() {
    let (server, mut agent) = (SmallServer::start(), AgentFixture::start());
    let url = server.url("hang");
    agent.api.start(&ToolRunOrder { clients: 2, ..order("curl", vec![file(&url, "null:", 1); 2]) }).unwrap();
    until("two clients run", || Some(processes_with(&url)).filter(|all| all.len() == 2));
    agent.stop();
    assert!(processes_with(&url).is_empty());
}

#[test]
fn the_same_order_is_the_same_run_until_the_agent_starts_again() {
    let (server, mut agent) = (SmallServer::start(), AgentFixture::start());
    let get = order("curl", vec![file(server.url("f"), "f", BODY.len() as u64)]);
    let first = run(&agent, &get);
    let (again, is_new) = agent.api.start(&get).unwrap();
    assert!(!is_new && again == first, "{again:?}");
    refused(agent.api.start(&ToolRunOrder { clients: 2, ..get.clone() }), 409, "another order");
    agent.stop();
    let agent = AgentFixture::start();
    refused(agent.api.run(get.id), 404, "no run of this id");
    assert_eq!(run(&agent, &get).state, ToolRunState::Done);
}

#[test]
fn what_an_agent_does_not_run_is_refused() {
    let agent = AgentFixture::with(|config| {
        config.tools = Some(vec!["curl".into(), "longhaul".into()]);
        config.longhaul = Some("/no/longhaul".into());
        config.clients_max = 2;
    });
    let files = vec![file("https://h.example/f", "null:", 1); 3];
    refused(agent.api.start(&order("sh", files.clone())), 400, "does not run \"sh\"; it runs curl, longhaul");
    refused(agent.api.start(&order("xrdcp", files.clone())), 400, "does not run \"xrdcp\"");
    let missing = order("longhaul", vec![file("lh://h.example/e/f", "null:", 1)]);
    refused(agent.api.start(&missing), 503, "/no/longhaul");
    refused(agent.api.start(&ToolRunOrder { clients: 3, ..order("curl", files) }), 503, "0 of 2 clients");
    refused(agent.api.start(&order("curl", vec![file("file:///etc/passwd", "null:", 1)])), 400, "files[0]");
    refused(agent.api.start(&order("curl", vec![file("https://h.example/f", "../x", 1)])), 400, "files[0]");
    let tools = agent.api.tools().unwrap();
    assert_eq!(tools.tools.len(), 2);
    assert!(tools.tools[0].version.as_ref().unwrap().starts_with("curl "), "{tools:?}");
    assert!(tools.tools[1].missing.as_ref().unwrap().contains("/no/longhaul"), "{tools:?}");
}

#[test]
fn only_the_health_is_shown_without_the_key() {
    let agent = AgentFixture::start();
    for api in [agent.api_with(None), agent.api_with(Some("Bearer lhk1_x")), agent.api_with(Some("Basic eA=="))] {
        assert_eq!(api.health().unwrap().status, "ok");
        refused(api.tools(), 401, "key");
        refused(api.run(Uuid::now_v7()), 401, "key");
        refused(api.start(&order("curl", vec![file("https://h.example/f", "null:", 1)])), 401, "key");
        refused(api.stop(Uuid::now_v7()), 401, "key");
    }
    assert_eq!(agent.api.health().unwrap().clients_max, 8);
}

#[test]
fn curl_and_controllers_verify_a_server_by_its_key() {
    let (identity, fingerprint) = identity();
    let tls = AgentFixture::with(|config| config.identity = Some(identity));
    let health = serde_json::to_vec(&tls.api.health().unwrap()).unwrap();
    let agent = AgentFixture::start();
    // The document of the other agent is the file: it ends with a line feed.
    let url = format!("https://{}/api/v1/health", tls.address);
    let mut get = order("curl", vec![file(&url, "null:", health.len() as u64 + 1)]);
    get.credentials.fingerprint = Some(fingerprint.to_string());
    let status = run(&agent, &get);
    assert_eq!(status.state, ToolRunState::Done, "{status:?}");
    let other = Fingerprint([1; 32]).to_string();
    for (fingerprint, code) in [(Some(other), "curl: (90)"), (None, "curl: (60)")] {
        let mut get = ToolRunOrder { id: Uuid::now_v7(), ..get.clone() };
        get.credentials.fingerprint = fingerprint;
        let status = run(&agent, &get);
        assert!(status.state == ToolRunState::Failed && status.errors[0].contains(code), "{status:?}");
    }
}

/// Reports a test that this machine cannot run.
fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: agent::{test}: {why}");
}

#[test]
fn xrdcp_copies_to_memory_and_to_files_and_back() {
    let Some(server) = XrootdFixture::start(BODY) else {
        return skipped("xrdcp_copies_to_memory_and_to_files_and_back", "xrootd or xrdcp is not installed");
    };
    let agent = AgentFixture::start();
    let bytes = BODY.len() as u64;
    let files = vec![file(server.url("f"), "null:", bytes), file(server.url("f"), "a/f", bytes)];
    let status = run(&agent, &ToolRunOrder { streams: Some(4), ..order("xrdcp", files) });
    assert_eq!((status.state, status.bytes_done), (ToolRunState::Done, 2 * bytes), "{status:?}");
    assert_eq!(fs::read(agent.path("a/f")).unwrap(), BODY);
    let direction = ToolRunDirection::Put;
    let status = run(&agent, &ToolRunOrder { direction, ..order("xrdcp", vec![file("a/f", server.url("g"), bytes)]) });
    assert_eq!((status.state, server.file("g")), (ToolRunState::Done, BODY.to_vec()), "{status:?}");
    let status = run(&agent, &order("xrdcp", vec![file(server.url("missing"), "null:", bytes)]));
    assert!(status.errors[0].contains("no such file or directory"), "{status:?}");
}

/// A server of iperf3 for one test.
fn iperf3_server(port: u16) -> std::process::Child {
    let mut server = Command::new("iperf3");
    server.args(["--server", "--one-off", "--bind", "127.0.0.1", "--port", &port.to_string()]);
    let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // A connection that only looks whether the server is there would be its one test.
    let listening = format!(":{port:04X} 00000000:0000 0A");
    let listens = || fs::read_to_string("/proc/net/tcp").is_ok_and(|table| table.contains(&listening));
    until("the server listens", || listens().then_some(()));
    server
}

#[test]
fn iperf3_tests_a_path_in_both_directions() {
    if Command::new("iperf3").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skipped("iperf3_tests_a_path_in_both_directions", "iperf3 is not installed");
    }
    let agent = AgentFixture::start();
    for direction in [ToolRunDirection::Get, ToolRunDirection::Put] {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = iperf3_server(port);
        let bytes = 32 << 20;
        let test = ToolRunOrder {
            direction,
            streams: Some(2),
            limit_bit_s: Some(4_000_000_000),
            ..order("iperf3", vec![file(format!("127.0.0.1:{port}"), "null:", bytes)])
        };
        let status = run(&agent, &test);
        let _ = server.kill();
        let _ = server.wait();
        assert_eq!(status.state, ToolRunState::Done, "{status:?}");
        assert!(status.bytes_done >= bytes / 2 && status.retransmits.is_some(), "{status:?}");
    }
    let nobody = run(&agent, &order("iperf3", vec![file("127.0.0.1:1", "null:", 1)]));
    assert!(nobody.errors[0].contains("Connection refused"), "{nobody:?}");
}
