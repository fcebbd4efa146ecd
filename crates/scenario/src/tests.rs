//! Scenarios read as written: every word, precedence, changes from a command line, and the shipped scenarios.
//!
//! Does not know: refusals (see `tests/refusals.rs`).

use std::time::Duration;

use model::units::{BitRate, Bytes};
use proptest::prelude::*;

use super::*;

const WHOLE: &str = include_str!("../testdata/whole.toml");

fn read(text: &str) -> Scenario {
    Scenario::read(text).unwrap_or_else(|problem| panic!("{problem}\n{text}"))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn all_words_are_read() {
    let scenario = read(WHOLE);
    assert_eq!((scenario.seed, scenario.memory), (7, Some(Bytes(2_000_000_000))));
    let names: Vec<&str> = scenario.sites.iter().map(|site| site.name.as_str()).collect();
    assert_eq!(names, ["paris", "canberra", "singapore"], "the order of the file, not of the alphabet");
    let [paris, canberra, singapore] = &scenario.sites[..] else { panic!() };
    assert_eq!(paris.profile, Profile::Stock);
    assert_eq!(paris.firewall, Some(vec![22, 2811]));
    assert_eq!(paris.cpu_share, Some(0.5));
    let setting = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let congestion = setting("net.ipv4.tcp_congestion_control", "bbr");
    assert_eq!(paris.sysctl, [congestion, setting("net.core.rmem_max", "1048576")]);
    let uplink = paris.uplink.as_ref().unwrap();
    assert_eq!((uplink.rate, uplink.queue), (Some(BitRate(10_000_000_000)), Queue::Bytes(Bytes(64_000_000))));
    let eth1 = &paris.interfaces[1];
    assert_eq!((eth1.name.as_str(), eth1.mtu), ("eth1", 1400));
    assert_eq!(eth1.v4, Some(("10.77.1.2".parse().unwrap(), 24)), "given out");
    assert_eq!(eth1.v6, Some(("fd4c:6f6e:6700:1::2".parse().unwrap(), 64)));
    assert_eq!(canberra.interfaces[0].v4, Some(("10.1.0.1".parse().unwrap(), 24)));
    assert_eq!(canberra.interfaces[0].v6, Some(("fd00:1::1".parse().unwrap(), 64)));
    assert_eq!(canberra.interfaces[0].mtu, 9000);
    assert_eq!(canberra.firewall, Some(vec![]));
    assert_eq!((singapore.firewall.as_ref(), singapore.interfaces[0].v6), (None, None));
}

#[test]
fn all_words_of_a_path_are_read() {
    let scenario = read(WHOLE);
    let path = &scenario.paths[scenario.path("canberra-paris").unwrap()];
    assert_eq!(path.ends, [End { site: 1, interface: 0 }, End { site: 0, interface: 0 }]);
    assert_eq!((path.hops, path.mtu), (4, Some(1500)));
    let wanted = LinkSettings {
        delay: Duration::from_micros(151_500),
        jitter: Duration::from_micros(200),
        rate: Some(BitRate(1_000_000_000)),
        queue: Queue::Time(ms(50)),
        policer: Some(Policer { rate: BitRate(500_000_000), burst: Bytes(625_000) }),
        loss: Loss::Burst(0.0005, 0.2),
        reorder: 0.001,
        reorder_by: ms(3),
        duplicate: 0.25,
        corrupt: 0.0,
        corrupt_silent: 1.0,
        cross_traffic: Some(BitRate(400_000_000)),
        mtu_black_hole: Some(1400),
        down: false,
        withdrawn: false,
    };
    assert_eq!(path.directions[1].members, [wanted]);
    assert_eq!(
        path.directions[0].members,
        [LinkSettings::default()],
        "the words are those of the other direction only"
    );
    assert_eq!(path.directions[0].via, [2]);
    assert_eq!(path.rtt(), Duration::from_millis(303), "a direction over others counts as much as the other one");
}

#[test]
fn the_more_specific_word_wins() {
    let scenario = read(WHOLE);
    let [ab, ba] = &scenario.paths[scenario.path("balanced").unwrap()].directions;
    let losses = |members: &[LinkSettings]| members.iter().map(|settings| settings.loss.clone()).collect::<Vec<_>>();
    let (path, direction) = (Loss::Every(1000), Loss::Random(0.03));
    assert_eq!(losses(&ab.members), [direction.clone(), Loss::List(vec![17, 400]), direction]);
    assert_eq!(losses(&ba.members), [path.clone(), Loss::None, path]);
    let delays: Vec<Duration> = ab.members.iter().map(|settings| settings.delay).collect();
    assert_eq!(delays, [ms(7), ms(9), ms(5)], "rtt, a member's rtt, a member's delay");
    assert_eq!(ab.members[0].policer, Some(Policer { rate: BitRate(8_000_000), burst: Bytes(128 << 10) }));
    assert_eq!(ab.members[1].policer, None, "taken back");
}

#[test]
fn events_are_sorted_by_time() {
    let scenario = read(WHOLE);
    let times: Vec<Duration> = scenario.events.iter().map(|event| event.at).collect();
    assert_eq!(times, [ms(500), ms(30_000), ms(90_000)]);
    let path = scenario.path("balanced").unwrap();
    let first = Change {
        target: Target::Path { path, direction: Some(1), member: Some(2) },
        words: vec![Word::Down(true), Word::MtuBlackHole(None)],
    };
    assert_eq!(scenario.events[0], Event { at: ms(500), change: first, lasts: Some(ms(30_000)) });
    let target = Target::Path { path, direction: None, member: None };
    let second = Change { target, words: vec![Word::Delay(ms(100)), Word::Rate(None)] };
    assert_eq!(scenario.events[1].change, second);
    let third = Change { target: Target::Uplink { site: 0 }, words: vec![Word::CrossTraffic(None)] };
    assert_eq!(scenario.events[2], Event { at: ms(90_000), change: third, lasts: None });
}

fn words(words: &[(&str, &str)]) -> Vec<(String, String)> {
    words.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn changes_are_read_from_a_command_line() {
    let scenario = read(WHOLE);
    let path = scenario.path("balanced").unwrap();
    let typed = [
        ("loss", "1%"),
        ("rate", "100Mbit/s"),
        ("down", "true"),
        ("queue", "50ms"),
        ("policer", "none"),
        ("rtt", "40ms"),
        ("duplicate", "0.5"),
        ("cross_traffic", "\"1Mbit/s\""),
        ("mtu_black_hole", "false"),
    ];
    let change = Change::read(&scenario, "balanced", None, Some(1), &words(&typed)).unwrap();
    assert_eq!(change.target, Target::Path { path, direction: None, member: Some(1) });
    let wanted = [
        Word::Loss(Loss::Random(0.01)),
        Word::Rate(Some(BitRate(100_000_000))),
        Word::Down(true),
        Word::Queue(Queue::Time(ms(50))),
        Word::Policer(None),
        Word::Delay(ms(20)),
        Word::Duplicate(0.5),
        Word::CrossTraffic(Some(BitRate(1_000_000))),
        Word::MtuBlackHole(None),
    ];
    assert_eq!(change.words, wanted);
    let every = Change::read(&scenario, "paris", None, None, &words(&[("loss", "{ every = 20 }")])).unwrap();
    assert_eq!(every, Change { target: Target::Uplink { site: 0 }, words: vec![Word::Loss(Loss::Every(20))] });
}

#[test]
fn invalid_changes_are_refused() {
    let scenario = read(WHOLE);
    let refused = |target: &str, direction, member, typed: &[(&str, &str)]| {
        let problem = Change::read(&scenario, target, direction, member, &words(typed)).unwrap_err();
        assert_eq!(problem.line, 0);
        assert!(!problem.to_string().contains("line"), "{problem}");
        problem.remedy
    };
    let down = [("down", "true")];
    assert_eq!(refused("pariss", None, None, &down), "did you mean \"paris\"?");
    assert!(refused("paris", Some(0), None, &down).contains("leave direction and member out"));
    assert!(refused("canberra", None, None, &down).contains("uplink = {}"));
    assert!(refused("balanced", Some(2), None, &down).contains("ab or ba"));
    assert!(refused("balanced", None, Some(usize::MAX), &down).contains("ecmp"));
    assert!(refused("canberra-paris", Some(0), None, &down).contains("paths that it goes over"));
    assert!(refused("balanced", None, None, &[]).contains("down = true"));
    assert_eq!(refused("balanced", None, None, &[("los", "1%")]), "did you mean \"loss\"?");
    assert!(refused("balanced", Some(1), None, &[("rtt", "1ms")]).contains("delay"));
    assert!(refused("balanced", None, None, &[("rate", "0")]).contains("down = true"));
    assert!(refused("balanced", None, None, &[("rate", "100")]).contains("unit"));
    assert!(refused("balanced", None, None, &[("loss", "101%")]).contains("100%"));
    assert!(refused("balanced", None, None, &[("down", "maybe")]).contains("true or false"));
}

#[test]
fn words_can_be_taken_back() {
    let mut settings = LinkSettings::default();
    let before = settings.clone();
    let back = settings.set(Word::Loss(Loss::Every(3)));
    assert_ne!(settings, before);
    settings.set(back);
    assert_eq!(settings, before);
}

#[test]
fn all_shipped_scenarios_are_read() {
    for Shipped { name, what, text } in SHIPPED {
        let scenario = Scenario::read(text).unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert!(!scenario.paths.is_empty(), "{name}");
        assert!(text.starts_with("# ") && !what.is_empty(), "{name} tells newcomers what it is");
        assert_eq!(shipped(name).map(|shipped| shipped.text), Some(*text));
    }
    assert_eq!(shipped("nothing"), None);
    let rtt = |name: &str| read(shipped(name).unwrap().text).paths[0].rtt();
    assert_eq!(rtt("canberra-paris"), ms(303));
    assert_eq!(rtt("lan"), Duration::from_micros(200));
}

proptest! {
    /// Any text is read or refused, and a problem names a line of the text.
    #[test]
    fn mangled_text_is_read_or_refused(
        source in 0..=SHIPPED.len(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, mangling()), 1..4),
    ) {
        let mut text = SHIPPED.get(source).map_or(WHOLE, |shipped| shipped.text).to_owned();
        for (at, length, insert) in cuts {
            let at = text.floor_char_boundary(at.index(text.len() + 1));
            let end = text.floor_char_boundary((at + length).min(text.len()));
            text.replace_range(at..end, &insert);
        }
        if let Err(problem) = Scenario::read(&text) {
            prop_assert!((1..=text.lines().count().max(1)).contains(&problem.line), "{problem}\n{text}");
            prop_assert!(!problem.what.is_empty() && !problem.remedy.is_empty());
        }
        crate::fuzzing::text(text.as_bytes());
    }

    /// The same where the text is still TOML: the value of a line is replaced.
    #[test]
    fn other_values_are_read_or_refused(line in any::<prop::sample::Index>(), value in prop::sample::select(VALUES.to_vec())) {
        let lines: Vec<&str> = WHOLE.lines().collect();
        let settings: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].contains(" = ")).collect();
        let at = settings[line.index(settings.len())];
        let key = lines[at].split(" = ").next().unwrap_or_default();
        let changed = format!("{key} = {value}");
        let text: Vec<&str> = (0..lines.len()).map(|n| if n == at { changed.as_str() } else { lines[n] }).collect();
        if let Err(problem) = Scenario::read(&text.join("\n")) {
            prop_assert!((1..=lines.len()).contains(&problem.line), "{problem}");
        }
    }

    /// The same for a command line.
    #[test]
    fn mangled_words_are_read_or_refused(key in 0..TYPED_WORDS.len(), value in mangling()) {
        let typed = words(&[(TYPED_WORDS[key], &value)]);
        if let Err(problem) = Change::read(&read(WHOLE), "balanced", None, None, &typed) {
            prop_assert_eq!(problem.line, 0);
        }
    }
}

const TYPED_WORDS: [&str; 6] = ["rtt", "rate", "queue", "policer", "loss", "mtu_black_hole"];

/// Values of all types, and at all limits.
const VALUES: [&str; 24] = [
    "0",
    "1",
    "-1",
    "65535",
    "99999999999999999999999999999999999999999",
    "1e309",
    "-0.0",
    "nan",
    "inf",
    "true",
    "false",
    "\"none\"",
    "\"\"",
    "\"0%\"",
    "\"100%\"",
    "\"18446744073709551615s\"",
    "\"1h\"",
    "\"0.1ms\"",
    "\"1Gbit/s\"",
    "[]",
    "[[1], {}]",
    "{}",
    "{ rate = \"16000000Tbit/s\" }",
    "1979-05-27",
];

/// Text that is inserted: noise, and pieces of the language.
fn mangling() -> impl Strategy<Value = String> {
    let pieces = [
        "",
        "\n",
        "\"",
        "=",
        "[",
        "]",
        "{",
        "}",
        ".",
        "-",
        "0",
        "-1",
        "1e309",
        "99999999999999999999999999999999999999999",
        "nan",
        "inf",
        "true",
        "\"none\"",
        "\"0%\"",
        "\"18446744073709551615s\"",
        "\"1h\"",
        "[site.a]\n",
        "[path.london-paris.member.1]\n",
        "[[event]]\n",
        "ecmp = 3\n",
        "via = [\"london\"]\n",
        "ab = { via = [] }\n",
        "1979-05-27",
        "é",
        "\r",
        "\0",
        "sites = [\"a\", \"b\"]\n",
        "#",
        "a.b.c.d = 1\n",
        "0x",
        "0o7",
        "\"10.77.1.1/0\"",
    ];
    prop_oneof![prop::sample::select(pieces.to_vec()).prop_map(str::to_owned), any::<String>()]
}
