//! What `probe all` finds in paths that are made to be faulty: kind, direction and place of the first cause. The whole
//! list, with longer tests, is `make bench-probe`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use lab::rig::{Rig, up};
use serde_json::Value;
use tempfile::TempDir;

use crate::node::LONGHAUL;

pub struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn serve(rig: &Rig, dir: &TempDir) -> (Serving, String) {
    let mut command = rig.command("b", LONGHAUL).unwrap();
    command.args(["serve", "--listen", "0.0.0.0:0", "--anonymous", "rw", "--state"]).arg(dir.path().join("node"));
    command.arg("--export").arg(format!("d={}:rw", dir.path().display()));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim_end().rsplit(':').next().unwrap().to_owned();
    (Serving(child), port)
}

/// Causes that are found, the first one first; none where the lab was the limit.
fn causes(name: &str, sites: [&str; 2], path: &str) -> Option<Value> {
    let scenario = format!("[site.a]\n{}\n[site.b]\n{}\n[path.a-b]\n{path}\n", sites[0], sites[1]);
    let rig = up(name, &scenario)?;
    let dir = tempfile::tempdir().unwrap();
    let (_serving, port) = serve(&rig, &dir);
    let mut command = rig.command("a", LONGHAUL).unwrap();
    command.args(["probe", "all", &format!("b:{port}"), "-t", "2s", "--json", "--state"]).arg(dir.path().join("near"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {told}");
    let text = String::from_utf8(output.stdout).unwrap();
    let result: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    rig.limited(&rig.reading().unwrap()).is_none().then_some(result)
}

fn first_is(name: &str, sites: [&str; 2], path: &str, kind: &str, way: Option<&str>) {
    let Some(result) = causes(name, sites, path) else { return };
    let first = &result["causes"][0];
    assert_eq!((first["kind"].as_str(), first["way"].as_str()), (Some(kind), way), "{name}: {}", result["causes"]);
}

const PATH: &str = "rtt = \"20ms\"\nrate = \"100Mbit/s\"";

#[test]
fn faults_are_told_apart() {
    let lossy = format!("{PATH}\nba = {{ loss = \"0.3%\" }}");
    first_is("loss back", ["", ""], &lossy, "loss", Some("back"));
    let small = "sysctl = { \"net.ipv4.tcp_rmem\" = \"4096 65536 131072\" }";
    first_is("a small window", ["", small], PATH, "small_window", Some("there"));
}

#[test]
fn a_clean_path_raises_nothing() {
    let Some(result) = causes("clean", ["", ""], PATH) else { return };
    // Other tests use this machine's processors meanwhile, which is found as well, and rightly so.
    let causes: Vec<&Value> = result["causes"].as_array().unwrap().iter().collect();
    let of_the_path: Vec<_> = causes.iter().filter(|cause| cause["kind"] != "processor").collect();
    assert!(of_the_path.is_empty(), "{of_the_path:?}");
}
