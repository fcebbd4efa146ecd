//! The first cause that `probe all` finds in faulty paths: kind, direction and place. `make bench-probe` has the whole list
//! of faults, with longer tests.

use std::process::Stdio;

use lab::fixture::up;
use serde_json::Value;

use super::{CpuWaitBaseline, is_judged, serve_at_b};
use crate::node::LONGHAUL;

/// The causes that are found in the path, in order; none where the lab was the limit. Other tests use this machine's
/// processors meanwhile, and the probe rightly finds that as well.
fn causes(name: &str, sites: [&str; 2], path: &str) -> Option<(Vec<Value>, CpuWaitBaseline)> {
    let scenario = format!("[site.a]\n{}\n[site.b]\n{}\n[path.a-b]\n{path}\n", sites[0], sites[1]);
    let fixture = up(name, &scenario)?;
    let (dir, since) = (tempfile::tempdir().unwrap(), CpuWaitBaseline::now());
    let serving = serve_at_b(&fixture, &dir);
    let mut command = fixture.command("a", LONGHAUL).unwrap();
    command
        .args(["probe", "all", &format!("b:{}", serving.address.port()), "-t", "1s", "--json", "--state"])
        .arg(dir.path().join("near"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {complaints}");
    let text = String::from_utf8(output.stdout).unwrap();
    let result: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let limited = fixture.limited(&fixture.reading().unwrap());
    if limited.is_some() && !is_judged(name, limited, &since) {
        return None;
    }
    let causes = result["causes"].as_array().unwrap().iter();
    Some((causes.filter(|cause| cause["kind"] != "processor").cloned().collect(), since))
}

fn assert_first_cause(name: &str, sites: [&str; 2], path: &str, kind: &str, direction: Option<&str>) {
    let Some((causes, since)) = causes(name, sites, path) else { return };
    let is_it = |first: &Value| (first["kind"].as_str(), first["direction"].as_str()) == (Some(kind), direction);
    assert!(causes.first().is_some_and(is_it) || !is_judged(name, None, &since), "{name}: {causes:?}");
}

const PATH: &str = "rtt = \"20ms\"\nrate = \"100Mbit/s\"";

#[test]
fn faults_are_distinguished() {
    let lossy = format!("{PATH}\nba = {{ loss = \"0.3%\" }}");
    assert_first_cause("loss in reverse", ["", ""], &lossy, "loss", Some("reverse"));
    let small = "sysctl = { \"net.ipv4.tcp_rmem\" = \"4096 65536 131072\" }";
    assert_first_cause("a small window", ["", small], PATH, "small_window", Some("forward"));
}

#[test]
fn a_clean_path_has_no_cause() {
    let Some((causes, since)) = causes("clean", ["", ""], PATH) else { return };
    assert!(causes.is_empty() || !is_judged("a_clean_path_has_no_cause", None, &since), "{causes:?}");
}
