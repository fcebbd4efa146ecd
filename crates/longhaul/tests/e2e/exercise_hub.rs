//! `longhaul exercise` with a hub: flows by its queue, its board, its stop switch, repeated runs whose outcomes its watch keeps, and score cards.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use exercise::record::RunRecord;
use lab::fixture::{LabLock, has_prerequisites};
use rustix::process::Signal;
use serde_json::Value;

use crate::client::{Client, words};
use crate::hub::{Hub, Member};
use crate::node::{Node, Setup, signal};
use crate::wait::{LONG, until, until_some};

/// Two nodes that have agreed to exercises, and an exercise between them.
struct Sites {
    files: Client,
    nodes: Vec<(Node, PathBuf)>,
}

impl Sites {
    fn new() -> Sites {
        let files = Client::new();
        let start = |name: &&str| {
            let key = files.path(&format!("{name}.key"));
            let scratch = files.path(&format!("scratch-{name}"));
            fs::create_dir(&scratch).unwrap();
            let node = Setup::new().arg("--exercise").arg(&scratch).start();
            fs::write(&key, node.grant(&["--export", "exercise", "--write"])).unwrap();
            (node, key)
        };
        let nodes = ["one", "two"].iter().map(start).collect();
        Sites { files, nodes }
    }

    /// An exercise with these classes and phases.
    fn exercise(&self, name: &str, rest: &str) -> String {
        let site = |(name, (node, key)): (&&str, &(Node, PathBuf))| {
            format!("[site.{name}]\nnode = \"https://{}\"\nkey_file = \"{}\"\n", node.address(), key.display())
        };
        let sites: String = ["one", "two"].iter().zip(&self.nodes).map(site).collect();
        let text = format!("[exercise]\ntitle = \"{name}\"\n{sites}{rest}");
        self.files.write(&format!("{name}.toml"), text).display().to_string()
    }

    /// Describes both nodes to a hub, with the right to their exercises.
    fn describe(&self, admin: &Member<'_>) {
        for (name, (node, key)) in ["one", "two"].iter().zip(&self.nodes) {
            admin.run(&["hub", "site", "add", name]).expect(0);
            let (url, key) = (node.at(""), key.display().to_string());
            let words = ["hub", "endpoint", "add", name, "--site", name, "--url", &url, "--endpoint-key-file", &key];
            admin.run(&words).expect(0);
        }
    }

    fn are_empty(&self) -> bool {
        ["one", "two"]
            .iter()
            .all(|name| fs::read_dir(self.files.path(&format!("scratch-{name}"))).unwrap().next().is_none())
    }
}

fn record(dir: &Path) -> RunRecord {
    serde_json::from_str(&fs::read_to_string(dir.join("record.json")).unwrap()).unwrap()
}

fn boards(member: &Member<'_>) -> Vec<Value> {
    member.json(&["exercise", "board"])[0]["exercises"].as_array().unwrap().clone()
}

#[test]
fn flows_by_a_hub_are_on_its_board_and_its_stop_switch_ends_them() {
    let hub = Hub::start(&[]);
    let admin = hub.member("admin", "root", "");
    let sites = Sites::new();
    sites.describe(&admin);
    let out = sites.files.path("run");
    let file = sites.exercise(
        "by-hub",
        "[class.files]\nfiles = 5\nsize = \"300kB\"\ntool = \"hub\"\n[class.stream]\nsize = \"100GB\"\nmedium = \"memory\"\n\
         [[phase]]\nname = \"once\"\n[[phase.flow]]\nfrom = \"one\"\nto = \"two\"\nclass = \"files\"\ngoal = \"1kbit/s\"\n\
         [[phase]]\nname = \"an hour\"\nlasts = \"1h\"\n[[phase.flow]]\nfrom = \"two\"\nto = \"one\"\nclass = \"stream\"\nrate_max = \"20Mbit/s\"\ngoal = \"20Mbit/s\"\n",
    );
    let running = admin.begin(&["exercise", "run", &file, "--out", &out.display().to_string()]);
    let board = until_some("the second phase is on the board", LONG, || {
        let found = boards(&admin).into_iter().next()?;
        let is_it = found["progress"]["doing"] == "an hour" && found["progress"]["flows"][0]["rate_bit_s"].is_number();
        is_it.then_some(found)
    });
    let flow = &board["progress"]["flows"][0];
    assert_eq!(
        (&flow["from"], &flow["to"], &flow["goal_bit_s"]),
        (&"two".into(), &"one".into(), &20e6.into()),
        "{board}"
    );
    let text = admin.run(&["exercise", "board"]).expect(0).text();
    assert!(text.contains("by-hub: an hour") && text.contains("of 20.0 Mbit/s"), "{text}");
    let id = board["id"].as_str().unwrap();
    let stranger = hub.member("user", "stranger", "");
    stranger.run(&["exercise", "stop", id]).expect(4);
    admin.run(&["exercise", "stop", id]).expect(0);
    running.finish_within(LONG).expect(130);
    let record = record(&out);
    assert!(
        record.stopped.as_ref().is_some_and(|why| why.contains("stopped by") && why.contains("at the hub")),
        "{record:?}"
    );
    let by_hub = &record.phases[0].flows[0];
    assert_eq!((by_hub.tool.as_str(), by_hub.rounds[0].state.as_str()), ("hub", "done"), "{by_hub:?}");
    assert_eq!((by_hub.rounds[0].files, by_hub.rounds[0].bytes), (5, 1_500_000), "{by_hub:?}");
    let most = record.phases[1].flows[0].rates_bit_s.iter().flatten().copied().fold(0.0, f64::max);
    assert!(most < 40e6, "the cap holds: {most}");
    let ended = boards(&admin).remove(0);
    assert!(ended["progress"]["result"].as_str().unwrap().contains("stopped by"), "{ended}");
    until("the scratch places are empty", LONG, || sites.are_empty());
}

#[test]
fn a_repeated_exercise_has_a_trend_and_the_watch_keeps_its_rates() {
    let sites = Sites::new();
    let config = sites.files.write("watch.toml", "[judge]\nscale = 0.02\nlearn = 4\n");
    let hub = Hub::start(&["--watch", config.display().to_string().leak()]);
    let operator = hub.member("operator", "noc", "");
    let out = sites.files.path("nightly");
    let file = sites.exercise(
        "nightly",
        "[class.files]\nfiles = 4\nsize = \"200kB\"\n[[phase]]\nname = \"push\"\n[[phase.flow]]\nfrom = \"one\"\nto = \"two\"\nclass = \"files\"\n",
    );
    let running = operator.begin(&["exercise", "run", &file, "--every", "4s", "--out", &out.display().to_string()]);
    let runs = || {
        fs::read_dir(&out).map_or(0, |dir| dir.flatten().filter(|run| run.path().join("record.json").exists()).count())
    };
    until("it has run three times", LONG, || runs() >= 3);
    let page = until_some("the page has all of them", LONG, || {
        fs::read_to_string(out.join("trend.html")).ok().filter(|page| page.contains("3 runs"))
    });
    assert!(page.contains("Sustained rate of each run"), "{page}");
    let history = || {
        let test = "exercise nightly: push: one > two, files";
        let found = operator.run(&["watch", "history", "one", "two", "--test", test, "--since", "1h", "--json"]);
        let history: Option<Value> = found.text().lines().next().and_then(|line| serde_json::from_str(line).ok());
        history.and_then(|history| Some(history["rows"].as_array()?.len())).unwrap_or(0)
    };
    // A row holds the runs of a minute.
    until("the watch has its rates", LONG, || history() >= 1);
    signal(&running.child, Signal::INT);
    let code = running.finish_within(LONG).code;
    assert_eq!(code, 0, "a signal between two runs is its end");
    // Rates that nobody can have are refused.
    let refused = operator.run(&["watch", "history", "one", "two", "--test", "exercise other: flow"]);
    assert!(refused.expect(1).err.contains("nothing is watched"));
}

#[test]
fn a_score_card_grades_two_sites_of_a_lab() {
    if !has_prerequisites("exercise: score card") {
        return;
    }
    let (client, _lock) = (Client::new(), LabLock::take().unwrap());
    let network = client.write("two.toml", "[site.a]\n[site.b]\n[path.a-b]\nrtt = \"20ms\"\nrate = \"80Mbit/s\"\n");
    let page = client.path("card.html");
    let outcome = client
        .begin(words![
            "exercise",
            "scorecard",
            "a",
            "b",
            "--lab",
            network,
            "--set",
            "5MB-in-tiny-files",
            "--scale",
            "0.2",
            "--nic",
            "100Mbit/s",
            "--reference",
            "esnet-10g",
            "--out",
            page
        ])
        .finish_within(Duration::from_secs(240));
    let text = outcome.text();
    assert!(text.contains("5MB-in-tiny-files"), "{text}{}", outcome.err);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("Score card: a to b") && page.contains("of what is possible"), "{text}");
}
