//! Rucio as it comes from PyPI: its core makes rules, its conveyor submits, polls and finishes them at a hub.

use std::time::Duration;

use serde_json::{Value, json};

use super::RUCIO;
use super::hub_with_nodes::{HubWithNodes, environment};
use super::postgres::{MISSING, Postgres};
use crate::case::Case;
use crate::context::{CaseContext, skip};

/// Much longer than one file, several sources, hops and a thousand files take together.
const PATIENCE: Duration = Duration::from_secs(400);
/// Files of the datasets.
const MANY: usize = 1000;

pub const CASES: &[Case] = &[
    Case::new(
        RUCIO,
        "sqlite",
        "submitter, poller, finisher on SQLite, over http: a file, two sources, a hop, 1,000 files",
        "rules OK, replicas AVAILABLE, the same bytes",
        sqlite,
    ),
    Case::new(
        RUCIO,
        "postgresql",
        "the same on PostgreSQL, over https with a certificate",
        "rules OK, replicas AVAILABLE, the same bytes",
        postgresql,
    ),
];

fn sqlite(context: &CaseContext) {
    let python = environment("rucio");
    let hub = HubWithNodes::start(context, 3, &["--anonymous", "rw"]);
    let database = format!("sqlite:///{}", context.path("rucio.db").display());
    let endpoint = hub.endpoint().replace("https://", "http://");
    conveyor(context, &hub, &python, &json!({"database": database, "hub": endpoint, "usercert": null}));
}

fn postgresql(context: &CaseContext) {
    let python = environment("rucio");
    // The operator of the conveyor delegates a proxy in its name, as at any FTS.
    environment("fts3");
    let hub = HubWithNodes::start(context, 3, &[]);
    hub.fts_by_certificate("delegate", &["-f"]).expect_success();
    let server = Postgres::start().unwrap_or_else(|| skip(MISSING));
    server.database("rucio");
    server.rows("rucio", "CREATE SCHEMA rucio");
    // As SQLAlchemy writes it.
    let database = format!("postgresql+psycopg://longhaul@/rucio?host={}", server.socket_dir().display());
    let robot = &context.test_bed.pki.robot;
    let both = [&robot.certificate, &robot.key].map(|file| std::fs::read(file).unwrap()).concat();
    let certificate = context.write("robot.pem", &both);
    let settings = json!({"database": database, "hub": hub.endpoint(), "usercert": certificate});
    conveyor(context, &hub, &python, &settings);
}

/// Runs the conveyor until all rules are as they should be.
fn conveyor(context: &CaseContext, hub: &HubWithNodes, python: &std::path::Path, settings: &Value) {
    let mut settings = settings.clone();
    settings["home"] = json!(context.path(""));
    settings["many"] = json!(MANY);
    for (name, node) in ["A", "B", "C"].iter().zip(&hub.nodes) {
        settings["rses"][name] = json!({"host": "127.0.0.1", "port": node.port, "disk": node.data("")});
    }
    let script = context.write("conveyor.py", include_bytes!("conveyor.py"));
    let file = context.write("settings.json", settings.to_string().as_bytes());
    let python = python.join("bin/python").display().to_string();
    let seen = context.run_for(PATIENCE, &[&python, &script, &file]).expect_success();
    let report: Value = seen.out.lines().last().and_then(|line| serde_json::from_str(line).ok()).expect("a report");
    assert_eq!(report["rules"], json!(["OK"]), "{report}");
    assert_eq!((&report["other_bytes"], &report["unavailable"]), (&json!([]), &json!([])), "{report}");
    assert_eq!(report["files"], json!(MANY + 3));
    let finished = format!("{}/jobs?state_in=FINISHED", hub.endpoint());
    let reply = context.curl(&["--oauth2-bearer", &hub.admin, &finished]).expect_status(200);
    let jobs: Vec<Value> = serde_json::from_slice(&reply.body).unwrap();
    let of_type = |kind: &str| jobs.iter().filter(|job| job["job_type"] == kind).count();
    assert_eq!((of_type("R"), of_type("H")), (1, 1), "several sources, and hops");
    assert!(of_type("N") > MANY / 200, "{} jobs for {MANY} files", of_type("N"));
}
