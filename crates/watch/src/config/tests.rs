//! Valid and invalid configurations.

use super::*;

const MESH: &str = r#"
[node.cern]
address = "dtn.cern.example"
key-file = "/etc/longhaul/cern.key"
link = "100Gbit/s"
location = [46.23, 6.05]

[node.jbo]
address = "dtn.jbo.example:7000"
site = "manchester"

[target.far]
url = "stamp://far.example"

[[group]]
name = "ours"
latency = { rate = 20 }
throughput = { every = "4h", waits-for-transfers = false }

[[group]]
name = "others"
mode = "island"
from = ["cern"]
to = ["far"]
throughput = false
"#;

#[test]
fn a_mesh_is_described_in_a_few_lines() {
    let config = Config::parse(MESH).unwrap();
    assert_eq!(config.nodes().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["cern", "jbo"]);
    assert_eq!(config.places["jbo"].site, "manchester");
    let [ours, others] = &config.groups[..] else { panic!() };
    assert_eq!(ours.mode, Mode::Mesh(vec!["cern".into(), "jbo".into()]), "all nodes by default");
    assert_eq!((ours.latency.unwrap().rate, ours.path), (20.0, Some(PathTest::default())));
    let throughput = ours.throughput.as_ref().unwrap();
    assert!(throughput.every == Duration::from_secs(4 * 3_600) && !throughput.waits_for_transfers);
    assert_eq!(throughput.congestion.as_deref(), Some("cubic"));
    assert!(others.throughput.is_none() && others.latency.is_some());
}

#[test]
fn an_invalid_value_is_refused_with_its_place() {
    let refused = |text: &str| Config::parse(text).unwrap_err().to_string();
    for (text, part) in [
        ("nodes = 1", "line 1"),
        ("\n[node.a]\naddress = 7", "line 3"),
        ("[node.a]\naddress = \"a/b\"", "node a: address"),
        ("[node.\"a b\"]\naddress = \"a\"", "letters, digits"),
        ("[node.a]\naddress = \"a\"\nlink = \"100\"", "node a: "),
        ("[node.a]\naddress = \"a\"\nlocation = [91, 0]", "latitude"),
        ("[target.a]\nurl = \"http://a\"", "stamp://HOST"),
        ("[node.a]\naddress = \"a\"\n[target.a]\nurl = \"stamp://a\"", "this name"),
        ("[[group]]\nmembers = [\"x\"]", "no node or target \"x\""),
        ("[[group]]\nmode = \"star\"", "mesh, island, pairs or beacon"),
        ("[[group]]\nmode = \"island\"", "`to`"),
        ("[[group]]\nthroughput = { every = \"1s\" }", "from 10 s"),
        ("[[group]]\nthroughput = { every = \"30s\", lasts = \"20s\" }", "both directions"),
        ("[[group]]\nlatency = { rate = 1e9 }", "packets/s"),
        ("[[group]]\npath = { flows = 65 }", "flows"),
        ("[[group]]\nname = \"a\"\n[[group]]\nname = \"a\"", "the same name"),
        ("quiet = [\"25:00-06:00\"]", "22:00-06:00"),
        ("[[notify]]\nwebhook = \"http://a\"\nalertmanager = \"http://b\"", "one of"),
        ("[keep]\nraw = \"5min\"", "keep raw"),
        ("[judge]\nscale = 0", "scale"),
        ("diagnosis = { ports = 65 }", "ports 2 to 64"),
        ("diagnosis = { per-hour = 0 }", "per-hour is 1 to 120"),
        ("diagnosis = \"yes\"", "true, false"),
        ("[[show]]\nto = \"x\"\nnetworks = [\"everybody\"]", "not a network"),
        ("[[interface]]\nname = \"x\"\nsite = \"a\"\nnode = \"b\"", "no node"),
        ("[[interface]]\nname = \"x\"\nsite = \"a\"", "one of csv"),
        ("[[register]]\nurl = \"ftp://x\"", "https://"),
        ("[[register]]\nurl = \"https://x\"\nrole = \"king\"", "science-dmz"),
        ("[[register]]\nurl = \"https://x\"\naccess-policy = \"all\"", "research-education"),
        ("[[register]]\nurl = \"https://x\"\nform = \"2027\"", "2026"),
        ("[[register]]\nurl = \"https://x\"\nnodes = [\"a\"]", "no node"),
        ("[[register]]\nurl = \"https://x\"\n[[register]]\nurl = \"https://x\"", "twice"),
    ] {
        let error = refused(text);
        assert!(error.contains(part), "{text}: {error}");
    }
    let many: String = (0..=PLACES_MAX).map(|at| format!("[node.n{at}]\naddress = \"n{at}\"\n")).collect();
    assert!(refused(&many).contains("1000 at most"), "a thousand and one");
}

#[test]
fn diagnosis_is_on_unless_it_is_switched_off() {
    let read = |text: &str| Config::parse(text).unwrap().diagnosis;
    assert_eq!(
        (read(""), read("diagnosis = true")),
        (Some(DiagnosisConfig::default()), Some(DiagnosisConfig::default()))
    );
    assert_eq!(read("diagnosis = { per-hour = 3 }"), Some(DiagnosisConfig { per_hour: 3, ports: 32 }));
    assert_eq!(read("diagnosis = false"), None);
}

#[test]
fn a_schedule_has_the_same_id_for_the_same_names() {
    let id = schedule_id("a", "b", "latency");
    assert_eq!((id, id.get_version_num()), (schedule_id("a", "b", "latency"), 8));
    assert_ne!(id, schedule_id("b", "a", "latency"));
    assert_ne!(schedule_id("a", "bc", "x"), schedule_id("ab", "c", "x"));
}
