//! The tests that follow from a configuration: their ends, their kinds and their times.

use std::collections::BTreeMap;

use model::v1::node::{PathProbe, ProbeTest, Repeat, ScheduledTest, StreamTest, TcpProbe};
use model::v1::probe::Direction;
use model::v1::probe::tcp::Directions;

use crate::config::{Config, ConfigError, Group, Mode, PlaceKind, TESTS_MAX, Throughput, WatchedPlace};
use crate::slots::{Booking, Demand, book};

/// The kind of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TestKind {
    /// Loss and delays of both directions.
    Latency,
    /// What TCP gets in one direction.
    Throughput,
    /// Routers and MTU.
    Path,
}

impl TestKind {
    /// All kinds.
    pub const ALL: [TestKind; 3] = [TestKind::Latency, TestKind::Throughput, TestKind::Path];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            TestKind::Latency => "latency",
            TestKind::Throughput => "throughput",
            TestKind::Path => "path",
        }
    }

    /// The kind with a name.
    pub fn of_word(word: &str) -> Option<TestKind> {
        TestKind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// A test that a node repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// The node that makes it.
    pub from: String,
    /// The place that answers.
    pub to: String,
    /// What is measured.
    pub kind: TestKind,
    /// The direction of the data, for a test of throughput.
    pub direction: Direction,
    /// The order for the node.
    pub order: ScheduledTest,
    /// From one measurement to the next, seconds.
    pub every_s: f64,
}

impl Test {
    /// Its name, unique among the tests of its pair.
    pub fn word(&self) -> String {
        match (self.kind, self.direction) {
            (TestKind::Throughput, Direction::Reverse) => "throughput reverse".to_owned(),
            (kind, _) => kind.word().to_owned(),
        }
    }
}

/// All tests, with heavy ones booked into slots.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mesh {
    /// The tests, in the order of their ends and names.
    pub tests: Vec<Test>,
    /// A sentence for each period that is too short for its tests, which therefore run less often.
    pub remarks: Vec<String>,
}

/// The share of the spare time in its slot that a heavy test may wait before it is missed.
const SLIP_SHARE: f64 = 0.8;
/// The time that a test takes besides its length, seconds: control messages, claims, slow start of the next.
const GUARD_S: f64 = 10.0;
/// Slow start does not count in the throughput of a test longer than this, seconds.
const OMIT_FROM_S: f64 = 10.0;

impl Mesh {
    /// All tests of a configuration.
    ///
    /// # Errors
    /// There are too many tests.
    pub fn of(config: &Config) -> Result<Mesh, ConfigError> {
        let mut found: BTreeMap<(String, String, String), Test> = BTreeMap::new();
        let mut heavy: BTreeMap<u64, Heavy<'_>> = BTreeMap::new();
        for group in &config.groups {
            for (from, to) in pairs(config, group) {
                let light = light_tests(group, &from, &to);
                let is_answered = |test: &Test| test.kind != TestKind::Latency || answers_stream(&config.places[&to]);
                light.into_iter().filter(is_answered).for_each(|test| insert(&mut found, test));
                if let Some(throughput) = &group.throughput
                    && answers_tcp(&config.places[&to])
                {
                    heavy
                        .entry(throughput.every.as_secs())
                        .or_insert_with(|| Heavy::new(throughput))
                        .pairs
                        .push((from, to));
                }
            }
            if found.len() > TESTS_MAX {
                let what = format!("more than {TESTS_MAX} tests; divide them among several watches");
                return Err(ConfigError::new(format!("group {}", group.name), what));
            }
        }
        let mut remarks = Vec::new();
        for heavy in heavy.values() {
            let (tests, remark) = heavy.book(config);
            tests.into_iter().for_each(|test| insert(&mut found, test));
            remarks.extend(remark);
        }
        if found.len() > TESTS_MAX {
            let what = format!("{} tests, and a watch has {TESTS_MAX} at most; divide them among several", found.len());
            return Err(ConfigError::new("group", what));
        }
        Ok(Mesh { tests: found.into_values().collect(), remarks })
    }
}

/// Adds a test, unless an earlier group has the same test of the pair.
fn insert(found: &mut BTreeMap<(String, String, String), Test>, test: Test) {
    found.entry((test.from.clone(), test.to.clone(), test.word())).or_insert(test);
}

fn is_node(place: &WatchedPlace) -> bool {
    matches!(place.kind, PlaceKind::Node { .. })
}

fn answers_stream(place: &WatchedPlace) -> bool {
    match &place.kind {
        PlaceKind::Node { .. } => true,
        PlaceKind::Target { url } => !url.starts_with("iperf3://") && !url.starts_with("pscheduler://"),
    }
}

fn answers_tcp(place: &WatchedPlace) -> bool {
    match &place.kind {
        PlaceKind::Node { .. } => true,
        PlaceKind::Target { url } => url.starts_with("iperf3://") || url.starts_with("pscheduler://"),
    }
}

/// The pairs of a group, the testing node first. No node tests itself, and each pair is tested once: a stream measures both directions.
fn pairs(config: &Config, group: &Group) -> Vec<(String, String)> {
    let node = |name: &&String| is_node(&config.places[*name]);
    let mut pairs = Vec::new();
    match &group.mode {
        Mode::Mesh(members) => {
            for (at, from) in members.iter().enumerate() {
                for to in &members[at + 1..] {
                    // A target only answers.
                    match (node(&from), node(&to)) {
                        (true, _) => pairs.push((from.clone(), to.clone())),
                        (false, true) => pairs.push((to.clone(), from.clone())),
                        (false, false) => {}
                    }
                }
            }
        }
        Mode::Island { from, to } => {
            for from in from.iter().filter(node) {
                pairs.extend(to.iter().filter(|to| *to != from).map(|to| (from.clone(), to.clone())));
            }
        }
        Mode::Pairs(named) => {
            for (a, b) in named.iter().filter(|(a, b)| a != b) {
                match (node(&a), node(&b)) {
                    (true, _) => pairs.push((a.clone(), b.clone())),
                    (false, true) => pairs.push((b.clone(), a.clone())),
                    (false, false) => {}
                }
            }
        }
        Mode::Beacon(_) => {}
    }
    pairs
}

fn light_tests(group: &Group, from: &str, to: &str) -> Vec<Test> {
    let test = |kind, order, every_s| Test {
        from: from.to_owned(),
        to: to.to_owned(),
        kind,
        direction: Direction::Forward,
        order,
        every_s,
    };
    let mut tests = Vec::new();
    if let Some(latency) = &group.latency {
        let report_s = latency.report.as_secs_f64();
        let stream = StreamTest {
            rate_packets_s: latency.rate,
            packet_bytes: latency.bytes,
            ports: latency.ports,
            report_s,
            ..StreamTest::default()
        };
        tests.push(test(TestKind::Latency, ScheduledTest::Stream(stream), report_s));
    }
    if let Some(path) = &group.path {
        let every_s = path.every.as_secs_f64();
        let probe = PathProbe { flows: path.flows, ..PathProbe::default() };
        let repeat = Repeat {
            test: ProbeTest::Path(probe),
            every_s,
            offset_s: start_offset_s(from, to, every_s),
            slip_s: every_s / 2.0,
            waits_for_transfers: false,
        };
        tests.push(test(TestKind::Path, ScheduledTest::Repeat(repeat), every_s));
    }
    tests
}

/// The offset of a light test in its period: tests of different pairs begin at different moments.
fn start_offset_s(from: &str, to: &str, every_s: f64) -> f64 {
    let hash = from
        .bytes()
        .chain([0])
        .chain(to.bytes())
        .fold(0u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    (f64::from(hash) / f64::from(u32::MAX) * every_s).floor().min(every_s)
}

/// The tests of throughput that have the same period, with the settings of the first group that has them.
struct Heavy<'a> {
    throughput: &'a Throughput,
    pairs: Vec<(String, String)>,
}

impl<'a> Heavy<'a> {
    fn new(throughput: &'a Throughput) -> Heavy<'a> {
        Heavy { throughput, pairs: Vec::new() }
    }

    fn book(&self, config: &Config) -> (Vec<Test>, Option<String>) {
        let directed: Vec<(&String, &String, Direction)> = self
            .pairs
            .iter()
            .flat_map(|(from, to)| [(from, to, Direction::Forward), (from, to, Direction::Reverse)])
            .collect();
        let demands: Vec<Demand> =
            directed.iter().map(|(from, to, direction)| demand(config, from, to, *direction)).collect();
        let lasts_s = self.throughput.lasts.as_secs_f64();
        let period_s = self.throughput.every.as_secs_f64();
        let booking = book(&demands, lasts_s + GUARD_S, period_s);
        let remark = (booking.period_s > period_s).then(|| {
            format!(
                "{} tests of throughput take {} slots of {} s: each runs every {}, not every {}",
                demands.len(),
                booking.count,
                lasts_s + GUARD_S,
                model::duration::show(std::time::Duration::from_secs_f64(booking.period_s)),
                model::duration::show(self.throughput.every)
            )
        });
        let tests = directed
            .iter()
            .enumerate()
            .map(|(at, (from, to, direction))| self.test(from, to, *direction, &booking, at));
        (tests.collect(), remark)
    }

    fn test(&self, from: &str, to: &str, direction: Direction, booking: &Booking, at: usize) -> Test {
        let lasts_s = self.throughput.lasts.as_secs_f64();
        let omit_s = if lasts_s > OMIT_FROM_S { lasts_s / 4.0 } else { 0.0 };
        let tcp = TcpProbe {
            streams: self.throughput.streams,
            direction: Directions::from(direction),
            seconds: Some(lasts_s - omit_s),
            omit_s,
            congestion: self.throughput.congestion.clone(),
            pace_bit_s: self.throughput.limit.map_or(0, |limit| limit.0),
            ..TcpProbe::default()
        };
        let repeat = Repeat {
            test: ProbeTest::Tcp(tcp),
            every_s: booking.period_s,
            offset_s: booking.offset_s(at),
            slip_s: ((booking.slot_s - lasts_s) * SLIP_SHARE).max(0.0),
            waits_for_transfers: self.throughput.waits_for_transfers,
        };
        Test {
            from: from.to_owned(),
            to: to.to_owned(),
            kind: TestKind::Throughput,
            direction,
            order: ScheduledTest::Repeat(repeat),
            every_s: booking.period_s,
        }
    }
}

/// The resources that a heavy test occupies: both nodes, and the links of their sites unless the site is the same.
fn demand(config: &Config, from: &str, to: &str, direction: Direction) -> Demand {
    let a = &config.places[from];
    let b = &config.places[to];
    let mut resources = vec![format!("node {from}"), format!("node {to}")];
    if a.site != b.site {
        resources.extend([format!("link {}", a.site), format!("link {}", b.site)]);
    }
    Demand { name: format!("{from} {to} {}", direction.word()), resources }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(nodes: usize, rest: &str) -> Config {
        let nodes: String =
            (0..nodes).map(|at| format!("[node.n{at}]\naddress = \"n{at}\"\nsite = \"s{}\"\n", at / 2)).collect();
        Config::parse(&format!("{nodes}{rest}")).unwrap()
    }

    fn count(mesh: &Mesh, kind: TestKind) -> usize {
        mesh.tests.iter().filter(|test| test.kind == kind).count()
    }

    #[test]
    fn each_pair_has_one_stream_and_throughput_tests_of_both_directions() {
        let mesh = Mesh::of(&config(6, "[[group]]\n")).unwrap();
        let counts = TestKind::ALL.map(|kind| count(&mesh, kind));
        assert_eq!((counts, mesh.remarks.len()), ([15, 30, 15], 0));
    }

    #[test]
    fn heavy_tests_never_share_a_node_or_a_link() {
        let config = config(12, "[[group]]\nthroughput = { every = \"1h\" }\n");
        let mesh = Mesh::of(&config).unwrap();
        let mut begins: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for test in mesh.tests.iter().filter(|test| test.kind == TestKind::Throughput) {
            let ScheduledTest::Repeat(repeat) = &test.order else { panic!() };
            let needs = demand(&config, &test.from, &test.to, test.direction).resources;
            begins.entry(repeat.offset_s.to_bits()).or_default().extend(needs);
        }
        for (at, mut needs) in begins {
            let all = needs.len();
            needs.sort();
            needs.dedup();
            assert_eq!(needs.len(), all, "at {}", f64::from_bits(at));
        }
    }

    #[test]
    fn a_hundred_sites_are_planned_quickly_with_a_remark_on_a_short_period() {
        let nodes: String = (0..100).map(|at| format!("[node.n{at}]\naddress = \"n{at}\"\n")).collect();
        let begun = std::time::Instant::now();
        let config = Config::parse(&format!("{nodes}[[group]]\nthroughput = {{ every = \"1h\" }}\n")).unwrap();
        let mesh = Mesh::of(&config).unwrap();
        let took = begun.elapsed();
        assert_eq!(count(&mesh, TestKind::Throughput), 9_900);
        assert!(took.as_secs_f64() < 10.0, "the bound is ten times the goal: {took:?}");
        assert!(mesh.remarks[0].contains("not every 1 h"), "{:?}", mesh.remarks);
    }

    #[test]
    fn islands_test_other_places_and_beacons_test_none() {
        let rest = "[target.t]\nurl = \"stamp://t\"\n[target.i]\nurl = \"iperf3://i\"\n\
                    [[group]]\nname = \"a\"\nmode = \"island\"\nfrom = [\"n0\"]\nto = [\"t\", \"i\", \"n0\"]\n\
                    [[group]]\nname = \"b\"\nmode = \"beacon\"\n";
        let mesh = Mesh::of(&config(3, rest)).unwrap();
        assert!(mesh.tests.iter().all(|test| test.from == "n0" && test.to != "n0"));
        let heavy: Vec<_> =
            mesh.tests.iter().filter(|test| test.kind == TestKind::Throughput).map(|t| t.to.as_str()).collect();
        assert_eq!(heavy, ["i", "i"]);
    }
}
