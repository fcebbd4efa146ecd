//! Faults put into emulated paths, and whether `longhaul probe all` finds them: kind, direction, place.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};
use lab::rig::{Rig, up};
use serde_json::Value;

/// A fault, and what is to be said of it; nothing of a clean path.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Its name in the table.
    pub name: &'static str,
    scenario: &'static str,
    /// Kind, direction (none for both) and place of the first cause.
    wanted: Option<(&'static str, Option<&'static str>, &'static str)>,
}

/// A path of 1 Gbit/s over 50 ms, with so many words more.
macro_rules! path {
    ($more:literal) => {
        concat!("[site.a]\n[site.b]\n[path.a-b]\nrtt = \"50ms\"\nrate = \"1Gbit/s\"\n", $more)
    };
}

const fn fault(
    name: &'static str,
    scenario: &'static str,
    kind: &'static str,
    way: &'static str,
    place: &'static str,
) -> Fault {
    Fault { name, scenario, wanted: Some((kind, Some(way), place)) }
}

/// All of them.
pub const FAULTS: [Fault; 13] = [
    Fault { name: "nothing wrong", scenario: path!(""), wanted: None },
    fault("0.0046 % lost there", path!("ab = { loss = \"0.0046%\" }"), "loss", "there", "network"),
    fault("0.3 % lost back", path!("ba = { loss = \"0.3%\" }"), "loss", "back", "network"),
    fault("a queue of 256 KiB there", path!("ab = { queue = \"256KiB\" }"), "shallow_queue", "there", "network"),
    fault(
        "a policer of 200 Mbit/s there",
        "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"50ms\"\nab = { policer = \"200Mbit/s\" }",
        "policer",
        "there",
        "network",
    ),
    fault(
        "windows of 256 KiB at the far host",
        "[site.a]\n[site.b]\nsysctl = { \"net.ipv4.tcp_rmem\" = \"4096 131072 262144\" }\n[path.a-b]\nrtt = \"50ms\"\nrate = \"1Gbit/s\"",
        "small_window",
        "there",
        "far_host",
    ),
    fault(
        "a far host with a tenth of a processor",
        "[site.a]\n[site.b]\ncpu_share = 0.1\n[path.a-b]\nrtt = \"5ms\"",
        "processor",
        "there",
        "far_host",
    ),
    fault(
        "packets above 1500 bytes vanish there",
        path!("hops = 2\nab = { mtu_black_hole = 1500 }"),
        "mtu_hole",
        "there",
        "hop",
    ),
    Fault {
        name: "the way there is longer",
        scenario: "[site.a]\n[site.b]\n[site.c]\n[path.a-c]\nrtt = \"30ms\"\nhops = 2\n[path.c-b]\nrtt = \"30ms\"\nhops = 2\n\
                   [path.a-b]\nrtt = \"20ms\"\nrate = \"1Gbit/s\"\nab = { via = [\"c\"] }",
        wanted: Some(("asymmetric_route", None, "network")),
    },
    fault(
        "1 % overtaken back",
        path!("ba = { reorder = \"1%\", reorder_by = \"2ms\" }"),
        "reordering",
        "back",
        "network",
    ),
    fault("1 % twice there", path!("ab = { duplicate = \"1%\" }"), "duplicates", "there", "network"),
    fault(
        "one of four ways loses 2 % there",
        path!("hops = 1\necmp = 4\n[path.a-b.member.2]\nab = { loss = \"2%\" }"),
        "lossy_member",
        "there",
        "network",
    ),
    fault(
        "others take 40 % there",
        path!("ab = { cross_traffic = \"400Mbit/s\" }"),
        "cross_traffic",
        "there",
        "network",
    ),
];

/// What came of one fault.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The fault.
    pub fault: Fault,
    /// What was said first, run by run; and whether that is it.
    pub said: Vec<(String, bool)>,
    /// Runs in which the lab was the limit: they do not count.
    pub limited: u32,
}

impl Outcome {
    /// Found in most runs that count.
    pub fn is_found(&self) -> bool {
        let right = self.said.iter().filter(|(_, right)| *right).count();
        right * 2 > self.said.len()
    }
}

/// A node at a site; gone with this.
pub(super) struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn serve(rig: &Rig, longhaul: &Path, dir: &Path) -> Result<(Serving, String)> {
    let mut command = rig.command("b", longhaul)?;
    command.args(["serve", "--listen", "0.0.0.0:0", "--anonymous", "rw", "--state"]).arg(dir.join("node"));
    command.arg("--export").arg(format!("d={}:rw", dir.display()));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("the node's output")?).read_line(&mut line)?;
    let port = line.trim_end().rsplit(':').next().unwrap_or_default().to_owned();
    Ok((Serving(child), port))
}

/// Puts a fault into a path of its own, and asks, so many times.
pub fn run(longhaul: &Path, fault: Fault, rounds: u32, seconds: u32) -> Result<Outcome> {
    let mut outcome = Outcome { fault, said: Vec::new(), limited: 0 };
    for _ in 0..rounds {
        let rig = up("bench-probe", fault.scenario).context("a lab needs root and /dev/net/tun")?;
        let dir = tempfile::tempdir()?;
        let (_serving, port) = serve(&rig, longhaul, dir.path())?;
        let mut command = rig.command("a", longhaul)?;
        command.args(["probe", "all", &format!("b:{port}"), "-t", &format!("{seconds}s")]);
        if fault.scenario.contains("rate = \"1Gbit/s\"") {
            // Who asks knows what he pays for.
            command.args(["--link", "1Gbit/s"]);
        }
        command.args(["--json", "--state"]);
        let output = command.arg(dir.path().join("near")).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{}: {}", fault.name, String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout)?;
        let result: Value = serde_json::from_str(text.lines().last().context("a result")?)?;
        if rig.limited(&rig.reading()?).is_some() {
            outcome.limited += 1;
        }
        outcome.said.push(judge(&fault, &result));
    }
    Ok(outcome)
}

/// What is said first, and whether it is what was to be found.
fn judge(fault: &Fault, result: &Value) -> (String, bool) {
    let first = &result["causes"][0];
    let (kind, way) = (first["kind"].as_str(), first["way"].as_str());
    // A place is a word, or an object with that name.
    let place = first["segment"].as_str().or_else(|| first["segment"].as_object()?.keys().next().map(String::as_str));
    match (fault.wanted, kind) {
        (None, None) => ("nothing".into(), true),
        (Some(wanted), Some(kind)) => {
            let said = (kind, way, place.unwrap_or_default());
            (format!("{kind}, {}, {}", way.unwrap_or("both"), said.2), said == wanted)
        }
        (_, said) => (said.unwrap_or("nothing").into(), false),
    }
}

/// The table, and whether enough were found: nine in ten, and nothing where nothing is wrong.
pub fn markdown(head: &str, outcomes: &[Outcome]) -> (String, bool) {
    let mut text = format!("# Faults in emulated paths, and what `longhaul probe all` says first\n\n{head}\n\n");
    text += "| fault | found | said first, run by run | lab was the limit |\n| --- | --- | --- | --- |\n";
    for outcome in outcomes {
        let said: Vec<&str> = outcome.said.iter().map(|(said, _)| said.as_str()).collect();
        let found = if outcome.is_found() { "yes" } else { "**no**" };
        let _ = writeln!(text, "| {} | {found} | {} | {} |", outcome.fault.name, said.join("; "), outcome.limited);
    }
    let faults = outcomes.iter().filter(|outcome| outcome.fault.wanted.is_some());
    let found = faults.clone().filter(|outcome| outcome.is_found()).count();
    let clean = outcomes.iter().filter(|outcome| outcome.fault.wanted.is_none()).all(Outcome::is_found);
    let count = faults.count();
    let _ = writeln!(
        text,
        "\n{found} of {count} faults found; a clean path raises {}.",
        if clean { "nothing" } else { "**something**" }
    );
    (text, found * 10 >= count * 9 && clean)
}
