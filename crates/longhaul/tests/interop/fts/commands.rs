//! FTS's own commands.

use serde_json::{Value, json};

use super::COMMANDS;
use super::hub_with_nodes::HubWithNodes;
use crate::case::Case;
use crate::context::CaseContext;

pub const CASES: &[Case] = &[
    Case::new(COMMANDS, "whoami", "whoami, and with --json", "name, VO, delegation id, base id", whoami),
    Case::new(COMMANDS, "submit", "transfer-submit -b, options; -status, --json", "FINISHED; the same bytes", submit),
    Case::new(COMMANDS, "bulk", "transfer-submit -f: 20 files of a document", "all of them arrive", bulk),
    Case::new(COMMANDS, "sources", "several sources, the first without the file", "FINISHED from the second", sources),
    Case::new(COMMANDS, "hops", "transfer-submit --multi-hop over three nodes", "type H; both hops FINISHED", hops),
    Case::new(COMMANDS, "overwrite", "onto another file; with -o", "FAILED in FTS's words; overwritten", overwrite),
    Case::new(COMMANDS, "checksum", "a checksum that the file does not have", "FAILED; nothing is there", checksum),
    Case::new(COMMANDS, "list", "transfer-list by name, VO, source, destination", "those, and no others", list),
    Case::new(COMMANDS, "cancel", "transfer-cancel ID", "CANCELED; nothing arrives", cancel),
    Case::new(
        COMMANDS,
        "cancel-files",
        "transfer-cancel ID:FILE and ID:FILE,FILE",
        "the other file arrives",
        cancel_files,
    ),
    Case::new(
        COMMANDS,
        "ban",
        "ban and unban a storage: cancel, and wait",
        "jobs listed; new ones refused; works again afterwards",
        ban,
    ),
    Case::new(COMMANDS, "ban-user", "ban and unban a user", "refused; allowed again", ban_user),
    Case::new(
        COMMANDS,
        "tape",
        "--bring-online, --copy-pin-lifetime, --archive-timeout of disks",
        "refused in a sentence",
        tape,
    ),
    Case::new(COMMANDS, "server-status", "server-status, --is-active", "transfers at work", server_status),
    Case::new(
        COMMANDS,
        "certificate",
        "with a certificate: whoami, delegate, submit, status, cancel",
        "a proxy is delegated; FINISHED",
        certificate,
    ),
    Case::new(COMMANDS, "delete-submit", "delete-submit", "refused in a sentence", delete_submit),
    Case::new(
        COMMANDS,
        "tokens",
        "tokens of a source and a destination that ask for some",
        "used there; printed nowhere",
        tokens,
    ),
];

fn whoami(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 0, &[]);
    let seen = hub.fts("whoami", &[]).expect_success();
    seen.expect_text("User DN: /CN=ann")
        .expect_text("VO: astro")
        .expect_text("Base id: 01874efb-4735-4595-bc9c-591aef8240c9");
    let seen = hub.fts("whoami", &["--json"]).expect_success();
    let who: Value = serde_json::from_str(&seen.out).unwrap();
    assert_eq!((&who["method"], &who["is_root"], &who["vos"]), (&json!("oauth2"), &json!(false), &json!(["astro"])));
    assert_eq!(who["delegation_id"].as_str().unwrap().len(), 16);
    hub.fts_as("nonsense", "whoami", &[]).expect_failure().expect_text("Unauthorized");
}

fn submit(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 2, &[]);
    let (source, target) = (hub.put(0, "run7", b"123456789"), hub.at(1, "in/run7"));
    let words = [
        "-b",
        "-i",
        "1",
        "--src-access-token",
        "",
        "--dst-access-token",
        "",
        "--job-metadata",
        r#"{"run": 7}"#,
        "--file-metadata",
        r#"{"part": 1}"#,
        "-p",
        "5",
        "--retry",
        "2",
        "-K",
        "--activity",
        "production",
        "--nostreams",
        "4",
        "--timeout",
        "600",
        "--strict-copy",
        "--scitag",
        "66",
        "--unmanaged-tokens",
        &source,
        &target,
        "ADLER32:091e01de",
    ];
    let seen = hub.fts("transfer-submit", &words).expect_success().expect_text("Job successfully submitted");
    let seen = seen.expect_text("Job finished with state FINISHED");
    let id = seen.lines().into_iter().find_map(|line| line.strip_prefix("Job id: ").map(str::to_owned)).unwrap();
    assert_eq!(hub.get(1, "in/run7"), b"123456789");
    let seen = hub.fts("transfer-status", &[&id]).expect_success();
    seen.expect_text(&format!("Request ID: {id}"))
        .expect_text("Status: FINISHED")
        .expect_text("Priority: 5")
        .expect_text("VO Name: astro");
    let job = hub.job(&id);
    assert_eq!((&job["job_type"], &job["retry"], &job["job_metadata"]["run"]), (&json!("N"), &json!(2), &json!(7)));
    let file = &job["files"][0];
    assert_eq!((&file["file_state"], &file["file_metadata"]), (&json!("FINISHED"), &json!({"part": 1})));
    assert_eq!((&file["filesize"], &file["activity"]), (&json!(9), &json!("production")));
    assert_eq!((&file["source_surl"], &file["dest_surl"]), (&json!(source), &json!(target)));
    hub.fts("transfer-status", &["0197f2a0-0000-7000-8000-000000000001"]).expect_failure().expect_text("not found");
    let words = ["--dry-run", "--src-access-token", "", "--dst-access-token", "", &source, &target];
    hub.fts("transfer-submit", &words).expect_success().expect_text("\"sources\"");
}

fn bulk(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 2, &[]);
    let content = |at: usize| format!("file {at}").repeat(at + 1).into_bytes();
    let file = |at: usize| {
        let source = hub.put(0, &format!("f{at}"), &content(at));
        json!({"sources": [source], "destinations": [hub.at(1, &format!("in/g{at}"))], "filesize": content(at).len(),
            "source_tokens": [""], "destination_tokens": [""]})
    };
    let document = json!({"files": (0..20).map(file).collect::<Vec<_>>(), "params": {"priority": 2}});
    let job = hub.ended(&hub.submit_document(&document, &[]));
    assert_eq!((&job["job_state"], &job["priority"]), (&json!("FINISHED"), &json!(2)));
    assert_eq!(job["files"].as_array().unwrap().len(), 20);
    (0..20).for_each(|at| assert_eq!(hub.get(1, &format!("in/g{at}")), content(at)));
}

fn sources(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 3, &[]);
    let there = hub.put(1, "copy", b"from the second");
    let missing = hub.at(0, "copy");
    let document = json!({"files": [{"sources": [missing, there], "destinations": [hub.at(2, "copy")],
        "selection_strategy": "orderly", "source_tokens": ["", ""], "destination_tokens": [""]}]});
    let job = hub.ended(&hub.submit_document(&document, &["--retry", "-1"]));
    assert_eq!((&job["job_state"], &job["job_type"]), (&json!("FINISHED"), &json!("R")), "{job}");
    let states: Vec<_> = job["files"].as_array().unwrap().iter().map(|file| &file["file_state"]).collect();
    assert_eq!(states, ["FAILED", "FINISHED"]);
    assert_eq!(hub.get(2, "copy"), b"from the second");
}

fn hops(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 3, &[]);
    let (first, between, last) = (hub.put(0, "h", b"hop, hop"), hub.at(1, "h"), hub.at(2, "h"));
    let hop = |from: &str, to: &str| json!({"sources": [from], "destinations": [to], "source_tokens": [""], "destination_tokens": [""]});
    let document = json!({"files": [hop(&first, &between), hop(&between, &last)]});
    let job = hub.ended(&hub.submit_document(&document, &["--multi-hop"]));
    assert_eq!((&job["job_state"], &job["job_type"]), (&json!("FINISHED"), &json!("H")), "{job}");
    assert_eq!((&job["source_se"], &job["dest_se"]), (&json!(hub.storage(0)), &json!(hub.storage(2))));
    assert_eq!((hub.get(1, "h"), hub.get(2, "h")), (b"hop, hop".to_vec(), b"hop, hop".to_vec()));
}

fn overwrite(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 2, &[]);
    let source = hub.put(0, "f", b"new");
    let target = hub.put(1, "f", b"of somebody else");
    let job = hub.ended(&hub.submit(&[&source, &target]));
    assert_eq!(job["job_state"], "FAILED", "{job}");
    assert_eq!(job["files"][0]["reason"], "Destination file exists and overwrite is not enabled");
    assert_eq!(hub.get(1, "f"), b"of somebody else");
    let job = hub.ended(&hub.submit(&["-o", &source, &target]));
    assert_eq!(job["job_state"], "FINISHED", "{job}");
    assert_eq!(hub.get(1, "f"), b"new");
    let both = ["-o", "--overwrite-on-retry", "--src-access-token", "", "--dst-access-token", "", &source, &target];
    hub.fts("transfer-submit", &both).expect_failure().expect_text("Incompatible overwrite flags");
}

fn checksum(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 2, &[]);
    let (source, target) = (hub.put(0, "f", b"123456789"), hub.at(1, "f"));
    let job = hub.ended(&hub.submit(&["-C", "both", "--retry", "-1", &source, &target, "ADLER32:091e01df"]));
    assert_eq!(job["job_state"], "FAILED", "{job}");
    assert!(job["files"][0]["reason"].as_str().is_some_and(|reason| reason.contains("091e01d")), "{job}");
    assert!(!hub.has(1, "f"));
}

/// Makes jobs wait at a node.
fn hold(hub: &HubWithNodes, node: usize) {
    let words = ["--storage", &hub.storage(node), "--status", "wait", "--allow-submit"];
    hub.fts_as(&hub.admin, "ban", &words).expect_success().expect_text("No jobs affected");
}

fn release(hub: &HubWithNodes, node: usize) {
    hub.fts_as(&hub.admin, "ban", &["--storage", &hub.storage(node), "--unban"]).expect_success();
}

fn list(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 3, &[]);
    hold(&hub, 0);
    let source = hub.put(0, "f", b"x");
    let (one, two) = (hub.submit(&[&source, &hub.at(1, "f")]), hub.submit(&[&source, &hub.at(2, "f")]));
    let listed = |words: &[&str]| -> Vec<String> {
        let seen = hub.fts("transfer-list", &[&["--json"], words].concat()).expect_success();
        let jobs: Vec<Value> = serde_json::from_str(&seen.out).unwrap();
        let mut ids: Vec<String> = jobs.iter().map(|job| job["job_id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    let mut both = vec![one.clone(), two.clone()];
    both.sort();
    assert_eq!(listed(&[]), both);
    assert_eq!(listed(&["-u", "/CN=ann", "-o", "astro", "--source", &hub.storage(0)]), both);
    assert_eq!(listed(&["--destination", &hub.storage(2)]), std::slice::from_ref(&two));
    assert!(listed(&["-o", "other"]).is_empty() && listed(&["-u", "/CN=bob"]).is_empty());
    hub.fts("transfer-list", &[])
        .expect_success()
        .expect_text(&format!("Request ID: {one}"))
        .expect_text("Status: SUBMITTED");
}

fn cancel(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 2, &[]);
    hold(&hub, 0);
    let id = hub.submit(&[&hub.put(0, "f", b"x"), &hub.at(1, "f")]);
    hub.fts("transfer-cancel", &[&id]).expect_success().expect_text("CANCELED");
    let job = hub.ended(&id);
    assert_eq!((&job["job_state"], &job["files"][0]["file_state"]), (&json!("CANCELED"), &json!("CANCELED")));
    release(&hub, 0);
    let id = hub.submit(&[&hub.at(0, "f"), &hub.at(1, "g")]);
    assert_eq!(hub.ended(&id)["job_state"], "FINISHED");
    assert!(!hub.has(1, "f"), "what was cancelled arrived");
    hub.fts("transfer-cancel", &[&id]).expect_success().expect_text("FINISHED");
}

fn cancel_files(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 2, &[]);
    hold(&hub, 0);
    let file = |at: usize| {
        json!({"sources": [hub.put(0, &format!("f{at}"), b"x")], "destinations": [hub.at(1, &format!("f{at}"))],
            "source_tokens": [""], "destination_tokens": [""]})
    };
    let id = hub.submit_document(&json!({"files": (0..4).map(file).collect::<Vec<_>>()}), &[]);
    let number = |at: usize| hub.job(&id)["files"][at]["file_id"].as_i64().unwrap();
    let seen = hub.fts("transfer-cancel", &[&format!("{id}:{}", number(0))]).expect_success();
    assert_eq!(seen.lines(), ["CANCELED"]);
    let seen = hub.fts("transfer-cancel", &[&format!("{id}:{},{}", number(1), number(2))]).expect_success();
    assert_eq!(seen.lines(), ["CANCELED", "CANCELED"]);
    release(&hub, 0);
    let job = hub.ended(&id);
    let states: Vec<_> = job["files"].as_array().unwrap().iter().map(|file| &file["file_state"]).collect();
    assert_eq!(states, ["CANCELED", "CANCELED", "CANCELED", "FINISHED"]);
    assert_eq!((hub.has(1, "f0"), hub.has(1, "f3")), (false, true));
}

fn ban(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 3, &[]);
    hold(&hub, 0);
    let (source, storage) = (hub.put(0, "f", b"x"), hub.storage(1));
    let (gone, kept) = (hub.submit(&[&source, &hub.at(1, "f")]), hub.submit(&[&source, &hub.at(2, "f")]));
    let seen = hub.fts_as(&hub.admin, "ban", &["--storage", &storage]).expect_success();
    let seen = seen.expect_text("Affected jobs:").expect_text(&gone).expect_without(&kept);
    assert_eq!(hub.job(&gone)["job_state"], "CANCELED", "{seen:?}");
    let words = ["--src-access-token", "", "--dst-access-token", "", &source, &hub.at(1, "g")];
    hub.fts("transfer-submit", &words).expect_failure().expect_text("banned");
    hub.fts("ban", &["--storage", &storage]).expect_failure().expect_text("needs the role");
    release(&hub, 1);
    release(&hub, 0);
    assert_eq!(hub.ended(&kept)["job_state"], "FINISHED");
    let again = hub.submit(&[&source, &hub.at(1, "g")]);
    assert_eq!(hub.ended(&again)["job_state"], "FINISHED");
}

fn ban_user(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 2, &[]);
    hold(&hub, 0);
    let id = hub.submit(&[&hub.put(0, "f", b"x"), &hub.at(1, "f")]);
    let seen = hub.fts_as(&hub.admin, "ban", &["--user", "/CN=ann"]).expect_success();
    seen.expect_text("Affected jobs:").expect_text(&id);
    hub.fts("transfer-list", &[]).expect_failure().expect_text("banned");
    hub.fts_as(&hub.admin, "ban", &["--user", "/CN=root"]).expect_failure().expect_text("409");
    hub.fts_as(&hub.admin, "ban", &["--user", "/CN=ann", "--unban"]).expect_success();
    assert_eq!(hub.job(&id)["job_state"], "CANCELED");
}

fn tape(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 2, &[]);
    let (source, target) = (hub.put(0, "f", b"x"), hub.at(1, "f"));
    for option in ["--bring-online", "--copy-pin-lifetime", "--archive-timeout"] {
        let words = ["--src-access-token", "", "--dst-access-token", "", option, "60", &source, &target];
        hub.fts("transfer-submit", &words).expect_failure().expect_text("no tape");
    }
}

fn server_status(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 0, &[]);
    hub.fts("server-status", &[])
        .expect_success()
        .expect_text("longhaul")
        .expect_text("active: 0")
        .expect_text("staging: 0");
    hub.fts("server-status", &["--is-active"]).expect_success();
}

fn certificate(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 2, &[]);
    hub.fts_by_certificate("whoami", &[]).expect_success().expect_text("/DC=test/CN=robot");
    let seen = hub.fts_by_certificate("delegate", &["-f", "-H", "8"]).expect_success().expect_text("Delegation id: ");
    let who = hub.fts_by_certificate("whoami", &["--json"]).expect_success();
    let who: Value = serde_json::from_str(&who.out).unwrap();
    assert!(seen.out.contains(who["delegation_id"].as_str().unwrap()), "{seen:?}");
    let (source, target) = (hub.put(0, "f", b"by certificate"), hub.at(1, "f"));
    let words = ["-b", "-i", "1", "--activity", "production", &source, &target];
    hub.fts_by_certificate("transfer-submit", &words).expect_success().expect_text("Job finished with state FINISHED");
    assert_eq!(hub.get(1, "f"), b"by certificate");
    hold(&hub, 0);
    let seen = hub.fts_by_certificate("transfer-submit", &["--json", &source, &hub.at(1, "g")]).expect_success();
    let id: String = serde_json::from_str(seen.out.trim()).unwrap();
    hub.fts_by_certificate("transfer-list", &["-u", "/DC=test/CN=robot"]).expect_success().expect_text(&id);
    hub.fts("transfer-status", &[&id]).expect_failure().expect_text("not found");
    hub.fts_by_certificate("transfer-cancel", &[&id]).expect_success().expect_text("CANCELED");
    // Bans are by the name that whoami prints.
    let words = ["--user", "/DC=test/CN=robot"];
    hub.fts_as(&hub.admin, "ban", &words).expect_success().expect_text("No jobs affected");
    hub.fts_by_certificate("whoami", &[]).expect_failure().expect_text("banned");
}

fn delete_submit(context: &CaseContext) {
    let hub = HubWithNodes::start(context, 1, &[]);
    let source = hub.put(0, "f", b"stays");
    hub.fts_by_certificate("delete-submit", &[&source])
        .expect_failure()
        .expect_text("deletions are not done here: delete at the storage");
    assert_eq!(hub.get(0, "f"), b"stays");
}

fn tokens(context: &CaseContext) {
    let (closed, guarded) = (context.closed(), context.guarded());
    closed.put("f", b"behind a token");
    let policy = context.write("access.toml", b"[third_party]\nlocal = true\n");
    let hub = HubWithNodes::start(context, 0, &["--access", &policy]);
    let (read, write) = (context.token(&["read"]), context.token(&["read", "create", "modify"]));
    let (source, target) = (closed.https("f"), guarded.https("f"));
    let seen = hub
        .fts(
            "transfer-submit",
            &["--json", "--src-access-token", &read, "--dst-access-token", &write, &source, &target],
        )
        .expect_success();
    let id: String = serde_json::from_str(seen.out.trim()).unwrap();
    let job = hub.ended(&id);
    assert_eq!(job["job_state"], "FINISHED", "{job}");
    assert_eq!(guarded.get("f"), b"behind a token");
    let log = std::fs::read_to_string(context.path("hub.log")).unwrap();
    for token in [&read, &write] {
        assert!(!job.to_string().contains(token.as_str()) && !log.contains(token.as_str()), "a token is printed");
    }
    let wrong = context.token(&["read"]);
    let words = [
        "--json",
        "--retry",
        "-1",
        "--src-access-token",
        &read,
        "--dst-access-token",
        &wrong,
        &source,
        &guarded.https("g"),
    ];
    let seen = hub.fts("transfer-submit", &words).expect_success();
    let job = hub.ended(&serde_json::from_str::<String>(seen.out.trim()).unwrap());
    assert_eq!(job["job_state"], "FAILED", "{job}");
    assert!(!guarded.has("g"));
}
