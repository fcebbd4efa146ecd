//! Faults in emulated paths, and whether `longhaul probe all` finds them: kind, direction, place.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use lab::fixture::{Fixture, up};
use serde_json::Value;

use crate::node::Node;

/// Kind, direction (none for both) and place of a cause.
type CauseKey = (&'static str, Option<&'static str>, &'static str);

/// A path with a fault, or with two at once, and the causes that the probe must find; a clean path has no cause.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Its name in the table.
    pub name: &'static str,
    scenario: &'static str,
    /// The wanted causes, in any order: none, one or two.
    wanted: [Option<CauseKey>; 2],
}

/// A scenario with a path of 1 Gbit/s and 50 ms, with further settings.
macro_rules! path {
    ($more:literal) => {
        concat!("[site.a]\n[site.b]\n[path.a-b]\nrtt = \"50ms\"\nrate = \"1Gbit/s\"\n", $more)
    };
}

const fn fault(
    name: &'static str,
    scenario: &'static str,
    kind: &'static str,
    direction: &'static str,
    place: &'static str,
) -> Fault {
    Fault { name, scenario, wanted: [Some((kind, Some(direction), place)), None] }
}

const fn clean(name: &'static str, scenario: &'static str) -> Fault {
    Fault { name, scenario, wanted: [None, None] }
}

/// All faults.
pub const FAULTS: [Fault; 21] = [
    clean("nothing wrong", path!("")),
    clean("nothing wrong over 303 ms", "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"303ms\"\nrate = \"1Gbit/s\""),
    fault("0.0046 % lost forward", path!("ab = { loss = \"0.0046%\" }"), "loss", "forward", "network"),
    fault("0.3 % lost in reverse", path!("ba = { loss = \"0.3%\" }"), "loss", "reverse", "network"),
    fault("a queue of 256 KiB forward", path!("ab = { queue = \"256KiB\" }"), "shallow_queue", "forward", "network"),
    fault(
        "a policer of 200 Mbit/s forward",
        "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"50ms\"\nab = { policer = \"200Mbit/s\" }",
        "policer",
        "forward",
        "network",
    ),
    fault(
        "windows of 256 KiB at the far host",
        "[site.a]\n[site.b]\nsysctl = { \"net.ipv4.tcp_rmem\" = \"4096 131072 262144\" }\n[path.a-b]\nrtt = \"50ms\"\nrate = \"1Gbit/s\"",
        "small_window",
        "forward",
        "far_host",
    ),
    fault(
        "a far host with a tenth of a processor",
        "[site.a]\n[site.b]\ncpu_share = 0.1\n[path.a-b]\nrtt = \"5ms\"",
        "processor",
        "forward",
        "far_host",
    ),
    fault(
        "packets above 1500 bytes vanish forward",
        path!("hops = 2\nab = { mtu_black_hole = 1500 }"),
        "mtu_hole",
        "forward",
        "hop",
    ),
    Fault {
        name: "the forward path is longer",
        scenario: "[site.a]\n[site.b]\n[site.c]\n[path.a-c]\nrtt = \"30ms\"\nhops = 2\nrate = \"200Mbit/s\"\n[path.c-b]\nrtt = \"30ms\"\nhops = 2\nrate = \"200Mbit/s\"\n\
                   [path.a-b]\nrtt = \"20ms\"\nrate = \"200Mbit/s\"\nab = { via = [\"c\"] }",
        wanted: [Some(("asymmetric_route", None, "network")), None],
    },
    Fault {
        name: "nine tenths of the delay are forward",
        scenario: "[site.a]\n[site.b]\n[path.a-b]\nrate = \"1Gbit/s\"\nab = { delay = \"45ms\" }\nba = { delay = \"5ms\" }",
        wanted: [Some(("asymmetric_route", None, "network")), None],
    },
    fault(
        "a third of the link in reverse",
        path!("ba = { rate = \"333Mbit/s\" }"),
        "narrow_link",
        "reverse",
        "network",
    ),
    fault("a queue of 512 KiB in reverse", path!("ba = { queue = \"512KiB\" }"), "shallow_queue", "reverse", "network"),
    fault(
        "a queue of 32 KiB forward, of 100 Mbit/s",
        "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"30ms\"\nrate = \"100Mbit/s\"\nab = { queue = \"32KiB\" }",
        "shallow_queue",
        "forward",
        "network",
    ),
    fault(
        "a policer of 40 Mbit/s in reverse",
        "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"20ms\"\nba = { policer = \"40Mbit/s\" }",
        "policer",
        "reverse",
        "network",
    ),
    Fault {
        name: "0.2 % lost forward, and 1 % overtaken in reverse",
        scenario: path!("ab = { loss = \"0.2%\" }\nba = { reorder = \"1%\", reorder_by = \"2ms\" }"),
        wanted: [Some(("loss", Some("forward"), "network")), Some(("reordering", Some("reverse"), "network"))],
    },
    Fault {
        name: "0.2 % lost in reverse, and windows of 256 KiB at the far host",
        scenario: "[site.a]\n[site.b]\nsysctl = { \"net.ipv4.tcp_rmem\" = \"4096 131072 262144\" }\n[path.a-b]\nrtt = \"50ms\"\nrate = \"1Gbit/s\"\nba = { loss = \"0.2%\" }",
        wanted: [Some(("loss", Some("reverse"), "network")), Some(("small_window", Some("forward"), "far_host"))],
    },
    fault(
        "1 % overtaken in reverse",
        path!("ba = { reorder = \"1%\", reorder_by = \"2ms\" }"),
        "reordering",
        "reverse",
        "network",
    ),
    fault("1 % twice forward", path!("ab = { duplicate = \"1%\" }"), "duplicates", "forward", "network"),
    fault(
        "one of four members loses 2 % forward",
        path!("hops = 1\necmp = 4\n[path.a-b.member.2]\nab = { loss = \"2%\" }"),
        "lossy_member",
        "forward",
        "network",
    ),
    fault(
        "others take 40 % forward",
        path!("ab = { cross_traffic = \"400Mbit/s\" }"),
        "cross_traffic",
        "forward",
        "network",
    ),
];

/// The results of one fault.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The fault.
    pub fault: Fault,
    /// The first cause of each run (the first two, for two faults), and whether it is right.
    pub first_causes: Vec<(String, bool)>,
    /// Runs in which the lab was the limit: they do not count.
    pub limited: u32,
}

impl Outcome {
    /// Whether it was found in most runs that count.
    pub fn is_found(&self) -> bool {
        let right = self.first_causes.iter().filter(|(_, right)| *right).count();
        right * 2 > self.first_causes.len()
    }
}

/// Starts a node at site `b` that lets anonymous clients write below a directory.
pub(super) fn serve(fixture: &Fixture, longhaul: &Path, dir: &Path) -> Result<Node> {
    let mut command = fixture.command("b", longhaul)?;
    command.args(["serve", "--listen", "0.0.0.0:0", "--anonymous", "rw", "--state"]).arg(dir.join("node"));
    command.arg("--export").arg(format!("d={}:rw", dir.display()));
    Node::start(command.stderr(Stdio::null()))
}

/// Puts a fault into a path of its own, and runs the probe `rounds` times.
///
/// # Errors
/// A lab or a node does not start, or the probe fails.
pub fn run(longhaul: &Path, fault: Fault, rounds: u32, seconds: u32) -> Result<Outcome> {
    let mut outcome = Outcome { fault, first_causes: Vec::new(), limited: 0 };
    for _ in 0..rounds {
        let fixture = up("bench-probe", fault.scenario).context("a lab needs root and /dev/net/tun")?;
        let dir = tempfile::tempdir()?;
        // The user states the rate of the link.
        let link = ["1Gbit/s", "200Mbit/s", "100Mbit/s"]
            .into_iter()
            .find(|link| fault.scenario.contains(&format!("\nrate = \"{link}\"")));
        let node = serve(&fixture, longhaul, dir.path())?;
        let mut command = fixture.command("a", longhaul)?;
        command.args(["probe", "all", &format!("b:{}", node.port), "-t", &format!("{seconds}s")]);
        command.args(link.iter().flat_map(|link| ["--link", link]));
        command.args(["--json", "--state"]);
        let output = command.arg(dir.path().join("near")).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{}: {}", fault.name, String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout)?;
        let result: Value = serde_json::from_str(text.lines().last().context("a result")?)?;
        if fixture.limited(&fixture.reading()?).is_some() {
            outcome.limited += 1;
        }
        outcome.first_causes.push(judge(&fault, &result));
    }
    Ok(outcome)
}

/// The kind, direction and place of a cause in the probe's JSON.
fn cause_key(cause: &Value) -> (&str, Option<&str>, &str) {
    let kind = cause["kind"].as_str().unwrap_or_default();
    let direction = cause["direction"].as_str();
    // A place is a word, or an object with that name.
    let place = cause["segment"].as_str().or_else(|| cause["segment"].as_object()?.keys().next().map(String::as_str));
    (kind, direction, place.unwrap_or_default())
}

/// The first causes as text, and whether they are the wanted ones.
fn judge(fault: &Fault, result: &Value) -> (String, bool) {
    let wanted: Vec<CauseKey> = fault.wanted.into_iter().flatten().collect();
    let causes = result["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let first: Vec<_> = causes.iter().take(wanted.len().max(1)).map(cause_key).collect();
    let is_right = first.len() == wanted.len() && wanted.iter().all(|one| first.contains(one));
    let words =
        first.iter().map(|(kind, direction, place)| format!("{kind}, {}, {place}", direction.unwrap_or("both")));
    let words = words.collect::<Vec<_>>().join(" + ");
    (if words.is_empty() { "nothing".into() } else { words }, is_right)
}

/// Writes the table; returns it, and whether enough faults were found: nine of ten, and none on a clean path.
pub fn markdown(head: &str, outcomes: &[Outcome]) -> (String, bool) {
    let mut text =
        format!("# Faults in emulated paths, and the first cause that `longhaul probe all` reports\n\n{head}\n\n");
    text += "| fault | found | first cause, run by run | lab was the limit |\n| --- | --- | --- | --- |\n";
    for outcome in outcomes {
        let first_causes: Vec<&str> = outcome.first_causes.iter().map(|(cause, _)| cause.as_str()).collect();
        let found = if outcome.is_found() { "yes" } else { "**no**" };
        let _ =
            writeln!(text, "| {} | {found} | {} | {} |", outcome.fault.name, first_causes.join("; "), outcome.limited);
    }
    let faults = outcomes.iter().filter(|outcome| outcome.fault.wanted[0].is_some());
    let found = faults.clone().filter(|outcome| outcome.is_found()).count();
    let clean = outcomes.iter().filter(|outcome| outcome.fault.wanted[0].is_none()).all(Outcome::is_found);
    let count = faults.count();
    let _ = writeln!(
        text,
        "\n{found} of {count} faults found; clean paths raise {}.",
        if clean { "nothing" } else { "**something**" }
    );
    (text, found * 10 >= count * 9 && clean)
}
