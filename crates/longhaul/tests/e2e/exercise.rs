//! `longhaul exercise`: a lab from one file, faults, goals, searches, score cards, real nodes, bad input and interruption.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use exercise::record::RunRecord;
use lab::fixture::{LabLock, has_prerequisites};
use rustix::process::Signal;

use crate::client::{Client, words};
use crate::node::{Setup, signal};
use crate::wait::{LONG, skipped, until};

/// Three sites on two paths.
const NETWORK: &str = "[lab]\nnetwork = \"\"\"\n[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"20ms\"\nrate = \"60Mbit/s\"\n\
     [path.a-c]\nrtt = \"60ms\"\nrate = \"60Mbit/s\"\n\"\"\"\n[site.a]\n[site.b]\n[site.c]\n";

fn record(dir: &Path) -> RunRecord {
    serde_json::from_str(&fs::read_to_string(dir.join("record.json")).unwrap()).unwrap()
}

/// A client that may bring up a lab; none where labs cannot run, which is reported.
fn in_a_lab(test: &'static str) -> Option<(Client, LabLock)> {
    has_prerequisites(test).then(|| (Client::new(), LabLock::take().unwrap()))
}

#[test]
fn one_file_is_a_lab_with_nodes_flows_faults_goals_and_a_page() {
    let Some((client, _lock)) = in_a_lab("exercise: one file") else { return };
    let file = client.write(
        "mini.toml",
        format!(
            "[exercise]\ntitle = \"a mini challenge\"\nseed = 3\n{NETWORK}\
             [class.files]\nfiles = 12\nsize = \"500kB\"\n[class.stream]\nsize = \"2GB\"\nmedium = \"memory\"\n\
             [[phase]]\nname = \"push\"\nlasts = \"14s\"\n\
             [[phase.flow]]\nfrom = \"a\"\nto = [\"b\", \"c\"]\nclass = \"files\"\ngoal = \"1Mbit/s\"\n\
             [[phase.flow]]\nfrom = \"a\"\nto = \"b\"\nclass = \"stream\"\nrate_max = \"16Mbit/s\"\ngoal = \"15.9Mbit/s\"\n\
             [[phase.fault]]\nat = \"6s\"\nfor = \"2s\"\npath = \"a-b\"\nset = {{ down = true }}\n\
             [[phase.fault]]\nat = \"6s\"\nfor = \"2s\"\nnode = \"c\"\n\
             [[phase]]\nname = \"once\"\n[[phase.flow]]\nfrom = \"a\"\nto = \"b\"\nclass = \"files\"\ngoal = \"1kbit/s\"\n"
        ),
    );
    let out = client.path("run");
    let text = client.begin(words!["exercise", "run", &file, "--out", &out]).finish_within(LONG).expect(3).text();
    assert!(
        text.contains("push: a > b, stream") && text.contains("of 15.9 Mbit/s"),
        "the outage costs the goal: {text}"
    );
    let record = record(&out);
    assert!(record.emulated.as_ref().is_some_and(|text| text.contains("3 sites")), "{:?}", record.emulated);
    assert_eq!(record.missing, Vec::<String>::new());
    let [push, once] = record.phases.as_slice() else { panic!("{record:?}") };
    assert_eq!((push.flows.len(), push.faults.len()), (3, 2));
    assert!(push.faults.iter().all(|fault| fault.error.is_none() && fault.until_s.is_some()), "{:?}", push.faults);
    let files = |flow: usize| push.flows[flow].rounds.iter().map(|round| round.files).sum::<u64>();
    assert!(files(0) >= 24 && files(1) >= 12, "rounds are repeated, also after a node was away: {push:?}");
    let capped = &push.flows[2];
    let most = capped.rates_bit_s.iter().flatten().copied().fold(0.0, f64::max);
    assert!(most < 32e6, "a flow stays below its cap, but for the burst after the outage: {capped:?}");
    assert!(capped.rates_bit_s.iter().flatten().any(|rate| *rate > 12e6), "{capped:?}");
    assert_eq!((once.flows[0].rounds.len(), once.flows[0].rounds[0].files), (1, 12), "{once:?}");
    assert_eq!((once.flows[0].rounds[0].bytes, once.flows[0].rounds[0].state.as_str()), (6_000_000, "done"));
    assert!(push.nodes.iter().any(|node| node.resident_bytes.is_some_and(|bytes| bytes > 1 << 20)), "{:?}", push.nodes);
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("a mini challenge") && page.contains("What held flows back") && page.contains("down=true"));
    // The same record makes the same page, and a run is no regression against itself.
    let again = client.path("again.html");
    client.run(words!["exercise", "report", &out, "--out", &again]).expect(0);
    assert_eq!(fs::read_to_string(again).unwrap(), page);
    client.run(words!["exercise", "report", &out, &out]).expect(0);
}

#[test]
fn an_exercise_between_nodes_that_agreed_leaves_nothing_behind() {
    let client = Client::new();
    let places = ["one", "two"].map(|name| client.path(&format!("scratch-{name}")));
    places.iter().for_each(|place| fs::create_dir(place).unwrap());
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    collector.set_read_timeout(Some(LONG)).unwrap();
    let reports_to = collector.local_addr().unwrap().to_string();
    let start = |place| Setup::new().arg("--exercise").arg(place).arg("--fireflies").arg(&reports_to).start();
    let nodes = places.each_ref().map(start);
    let mut text = "[exercise]\ntitle = \"two nodes\"\nscitag = 452\n".to_owned();
    for (name, node) in ["one", "two"].iter().zip(&nodes) {
        let key = client.write(&format!("{name}.key"), node.grant(&["--export", "exercise", "--write"]));
        text += &format!("[site.{name}]\nnode = \"https://{}\"\nkey_file = \"{}\"\n", node.address(), key.display());
    }
    text += "[site.gone]\nnode = \"https://127.0.0.1:1\"\nkey_file = \"one.key\"\n\
         [class.tiny]\nset = \"5MB-in-tiny-files\"\n[[phase]]\nname = \"p\"\n[[phase.flow]]\nfrom = \"one\"\nto = [\"two\", \"gone\"]\nclass = \"tiny\"\n";
    let file = client.write("nodes.toml", &text);
    let out = client.path("run");
    let said = client.run(words!["exercise", "run", &file, "--out", &out]).expect(3).text();
    assert!(said.contains("gone is left out"), "{said}");
    let record = record(&out);
    assert_eq!(record.phases[0].flows.len(), 1, "{record:?}");
    let round = &record.phases[0].flows[0].rounds[0];
    assert_eq!((round.files, round.bytes, round.failed), (1_875, 5_000_000, 0), "{round:?}");
    assert!(record.missing.iter().any(|text| text.contains("gone was left out")), "{:?}", record.missing);
    // The traffic is marked as a data challenge of the SKA.
    let mut datagram = [0; 2048];
    let got = collector.recv(&mut datagram).unwrap();
    let firefly = String::from_utf8_lossy(&datagram[..got]).into_owned();
    assert!(firefly.contains("\"experiment-id\":7") && firefly.contains("\"activity-id\":4"), "{firefly}");
    // Nodes remove the files in the background.
    for place in &places {
        until("the scratch place is empty", LONG, || fs::read_dir(place).unwrap().next().is_none());
    }
    // Without the right nothing begins.
    let file = client.write("unasked.toml", text.replace("two.key", "one.key"));
    let said = client.run(words!["exercise", "run", &file, "--out", &out]);
    assert_ne!(said.code, 0, "the key of another node opens nothing: {}", said.text());
}

#[test]
fn goals_that_no_link_carries_are_refused_with_the_arithmetic() {
    let client = Client::new();
    let text = format!(
        "[exercise]\ntitle = \"too much\"\n{NETWORK}[link.a-b]\nbetween = [\"a\", \"b\"]\ncapacity = \"60Mbit/s\"\n\
         [class.x]\nsize = \"1GB\"\n[[phase]]\nname = \"p\"\n[[phase.flow]]\nfrom = \"a\"\nto = \"b\"\ncount = 4\nclass = \"x\"\ngoal = \"20Mbit/s\"\n"
    );
    let file = client.write("much.toml", &text);
    client.run(words!["exercise", "run", &file, "--dry-run"]).refused(2, &["cannot be met", "--anyway"]);
    let said = client.run(words!["exercise", "run", &file, "--dry-run", "--anyway"]).expect(0).text();
    assert!(said.contains("84.0 Mbit/s of the link a-b") && said.contains("60.0 Mbit/s"), "{said}");
    let bad = client.write("bad.toml", text.replace("class = \"x\"", "class = \"y\""));
    client.run(words!["exercise", "run", &bad]).refused(2, &["line", "y is no class"]);
    client.run(words!["exercise", "run", "nowhere"]).refused(2, &["exercise list"]);
    let listed = client.run(words!["exercise", "list"]).expect(0).text();
    assert!(listed.contains("dc-mini") && listed.contains("endurance"), "{listed}");
    let flood = client.run(words!["exercise", "list", "flood"]).expect(0).text();
    assert!(flood.contains("count = 25"), "{flood}");
}

#[test]
fn an_exercise_that_is_interrupted_cleans_up_and_reports() {
    let Some((client, _lock)) = in_a_lab("exercise: interrupted") else { return };
    let file = client.write(
        "long.toml",
        format!(
            "[exercise]\ntitle = \"long\"\n{NETWORK}[class.x]\nsize = \"100GB\"\nmedium = \"memory\"\n\
             [[phase]]\nname = \"an hour\"\nlasts = \"1h\"\n[[phase.flow]]\nfrom = \"a\"\nto = \"b\"\nclass = \"x\"\n"
        ),
    );
    let out = client.path("run");
    let running = client.begin(words!["exercise", "run", &file, "--out", &out]);
    until("the phase begins", LONG, || running.out().contains("an hour"));
    std::thread::sleep(Duration::from_secs(4));
    signal(&running.child, Signal::INT);
    running.finish_within(LONG).expect(130);
    let record = record(&out);
    assert!(record.stopped.is_some() && record.phases[0].flows[0].rounds[0].bytes > 0, "{record:?}");
}

#[test]
fn old_tools_fetch_the_same_files_from_their_own_servers_below_one_cap() {
    let Some((client, _lock)) = in_a_lab("exercise: old tools") else { return };
    let tools: Vec<&str> = ["curl", "rsync", "xrdcp"].into_iter().filter(|tool| is_installed(tool)).collect();
    let class =
        |tool: &&str| format!("[class.{tool}]\nfiles = 6\nsize = \"300kB\"\ntool = \"{tool}\"\nfiles_each = 3\n");
    let flow = |tool: &&str| format!("[[phase.flow]]\nfrom = \"a\"\nto = \"b\"\nclass = \"{tool}\"\n");
    let all = |of: &dyn Fn(&&str) -> String| tools.iter().map(of).collect::<String>();
    let file = client.write(
        "old.toml",
        format!(
            "[exercise]\ntitle = \"old tools\"\nrate_max = \"24Mbit/s\"\n{NETWORK}{}[class.stream]\nsize = \"10GB\"\nmedium = \"memory\"\n\
             [[phase]]\nname = \"tools\"\n{}[[phase]]\nname = \"capped\"\nlasts = \"12s\"\n\
             [[phase.flow]]\nfrom = \"a\"\nto = [\"b\", \"c\"]\nclass = \"stream\"\ncount = 2\n",
            all(&class),
            all(&flow)
        ),
    );
    let out = client.path("run");
    let outcome = client.begin(words!["exercise", "run", &file, "--out", &out]).finish_within(Duration::from_secs(180));
    let record = record(&out);
    for (flow, tool) in record.phases[0].flows.iter().zip(&tools) {
        // A round begins again with a lower limit when another flow begins.
        let round = flow.rounds.last().unwrap();
        assert_eq!(
            (flow.tool.as_str(), round.state.as_str(), round.files, round.bytes),
            (*tool, "done", 6, 1_800_000),
            "{flow:?}"
        );
        assert!(round.cpu_s.is_some_and(|seconds| seconds > 0.0), "{flow:?}");
    }
    // The global cap: four flows together stay below it once they are under way.
    let sums = exercise::record::sum(record.phases[1].flows.iter());
    let steady: Vec<f64> = sums[4..sums.len() - 1].iter().copied().flatten().collect();
    let mean = steady.iter().sum::<f64>() / steady.len() as f64;
    assert!(mean > 12e6 && mean < 26e6, "{mean}: {sums:?}; {}", outcome.err);
}

/// Whether an agent can run a tool here; a missing one is reported.
fn is_installed(tool: &str) -> bool {
    let is_there = std::process::Command::new(tool).arg("--version").output().is_ok();
    if !is_there {
        skipped("exercise: old tools", &format!("{tool} is not installed"));
    }
    is_there
}

/// Whether a whole file lies in a directory or below it.
fn has_file(dir: &Path) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.into_iter().any(|path| {
        if path.is_dir() { has_file(&path) } else { path.metadata().is_ok_and(|file| file.len() == 100_000) }
    })
}

#[test]
fn an_agent_that_dies_leaves_a_gap_that_the_report_names() {
    let client = Client::new();
    let places = ["one", "two"].map(|name| client.path(&format!("scratch-{name}")));
    places.iter().for_each(|place| fs::create_dir(place).unwrap());
    let nodes = places.each_ref().map(|place| Setup::new().arg("--exercise").arg(place).start());
    let work = client.path("work");
    let agent = client.begin(words!["exercise", "agent", "--listen", "127.0.0.1:0", "--work", &work, "--tool", "curl"]);
    until("the agent listens", LONG, || agent.out().contains("key lhk1_"));
    let printed = agent.out();
    let line = |start: &str| printed.lines().find_map(|line| line.strip_prefix(start)).unwrap().trim().to_owned();
    client.write("agent.key", line("key "));
    let mut text = "[exercise]\ntitle = \"an agent dies\"\n".to_owned();
    for (name, node) in ["one", "two"].iter().zip(&nodes) {
        client.write(&format!("{name}.key"), node.grant(&["--export", "exercise", "--write"]));
        text += &format!("[site.{name}]\nnode = \"https://{}\"\nkey_file = \"{name}.key\"\n", node.address());
    }
    text += &format!(
        "agent = \"{}\"\nagent_key_file = \"agent.key\"\n[class.files]\nfiles = 400\nsize = \"100kB\"\ntool = \"curl\"\n\
         [[phase]]\nname = \"p\"\nlasts = \"16s\"\n[[phase.flow]]\nfrom = \"one\"\nto = \"two\"\nclass = \"files\"\nrate_max = \"8Mbit/s\"\ngoal = \"1Mbit/s\"\n",
        line("listening on ")
    );
    let file = client.write("dies.toml", &text);
    let out = client.path("run");
    let running = client.begin(words!["exercise", "run", &file, "--out", &out]);
    until("a file arrives at the agent", LONG, || has_file(&work));
    std::thread::sleep(Duration::from_secs(2));
    signal(&agent.child, Signal::KILL);
    let text = running.finish_within(LONG).expect(3).text();
    let record = record(&out);
    assert!(record.missing.iter().any(|text| text.contains("was not sampled in")), "{:?}", record.missing);
    let flow = &record.phases[0].flows[0];
    let sampled: Vec<f64> = flow.rates_bit_s.iter().copied().flatten().collect();
    assert!(flow.rates_bit_s.iter().any(Option::is_none) && !sampled.is_empty(), "{flow:?}");
    assert!(text.contains("missing:"), "{text}");
}
