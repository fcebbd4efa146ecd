//! Random losses on a mesh of two halves with a core between them: the causes and segments that are named, over many seeds.

use std::collections::BTreeMap;

use model::v1::node::{Delays, PortLoss, StreamReport};
use model::v1::probe::Direction;
use model::v1::watch::{AlarmKind, CauseKind};

use super::*;
use crate::observation::Observation;

const SITES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const MINUTE: i64 = 60_000;
const DAY: i64 = 86_400_000;
/// Packets of a minute: as few as the lab of `make bench-watch` sends, a sixth of the usual ones.
const PACKETS: u64 = 100;
const PORTS: u64 = 4;
/// Minutes before the faults begin.
const CLEAN: i64 = 360;

/// How packets are lost.
#[derive(Clone, Copy, Debug)]
enum LossPattern {
    /// Each packet with this chance.
    Evenly(f64),
    /// In bursts: the chance that one begins, and that it ends.
    InBursts(f64, f64),
    /// Each packet with this chance, of those ports that routers send over one of four members.
    OfOneMember(f64),
}

/// A fault of a segment.
#[derive(Clone, Copy, Debug)]
struct RandomFault {
    segment: &'static str,
    lost: LossPattern,
}

impl RandomFault {
    fn cause(&self) -> CauseKind {
        match self.lost {
            LossPattern::OfOneMember(_) => CauseKind::LossyMember,
            LossPattern::Evenly(_) | LossPattern::InBursts(..) => CauseKind::RandomLoss,
        }
    }
}

/// Whether packets from one site to another pass a segment.
fn passes(from: usize, to: usize, segment: &str) -> bool {
    let core = if from < 3 && to >= 3 { "core" } else { "core (back)" };
    let crosses = (from < 3) != (to < 3);
    segment == format!("{} out", SITES[from]) || segment == format!("{} in", SITES[to]) || crosses && segment == core
}

/// The packets that a direction of a path loses in a minute, by its ports.
struct LossProcess {
    faults: Vec<(LossPattern, bool)>,
    /// The member of each port.
    members: Vec<u8>,
}

impl LossProcess {
    fn new(from: usize, to: usize, faults: &[RandomFault], random: &mut fastrand::Rng) -> LossProcess {
        let crossed = faults.iter().filter(|fault| passes(from, to, fault.segment));
        LossProcess {
            faults: crossed.map(|fault| (fault.lost, false)).collect(),
            members: (0..PORTS).map(|_| random.u8(..4)).collect(),
        }
    }

    /// Lost packets by port. One of the ports is replaced every minute, like those of a stream.
    fn minute(&mut self, minute: i64, random: &mut fastrand::Rng) -> Vec<u64> {
        self.members[minute as usize % PORTS as usize] = random.u8(..4);
        let mut lost = vec![0; PORTS as usize];
        for packet in 0..PACKETS {
            let port = (packet % PORTS) as usize;
            let member = self.members[port];
            let is_lost = |(how, in_burst): &mut (LossPattern, bool)| match how {
                LossPattern::Evenly(chance) => random.f64() < *chance,
                LossPattern::OfOneMember(chance) => member == 1 && random.f64() < *chance,
                LossPattern::InBursts(begins, ends) => {
                    let chance = if *in_burst { 1.0 - *ends } else { *begins };
                    *in_burst = random.f64() < chance;
                    *in_burst
                }
            };
            lost[port] += u64::from(self.faults.iter_mut().map(is_lost).fold(false, |any, one| any | one));
        }
        lost
    }
}

/// The report of a minute of a path, by the losses of its ports forward and in reverse.
fn report(minute: i64, forward: &[u64], reverse: &[u64]) -> Observation {
    let [lost_forward, lost_reverse] = [forward, reverse].map(|lost| lost.iter().sum::<u64>());
    let ports = forward.iter().zip(reverse).enumerate();
    // A replaced port has another number.
    let number = |at: usize| (minute - (minute - at as i64).rem_euclid(PORTS as i64)) as u16 + 1;
    let by_port = ports.map(|(at, (forward, reverse))| PortLoss {
        port: number(at),
        sent: (PACKETS / PORTS) as u32,
        lost: (forward + reverse) as u32,
        lost_reverse: *reverse as u32,
    });
    let delays = Some(Delays { min_us: 30_000, median_us: 30_020, p95_us: 30_100, max_us: 30_300 });
    Observation::Stream(Box::new(StreamReport {
        sent: PACKETS,
        received: PACKETS - (lost_forward + lost_reverse).min(PACKETS),
        lost_forward,
        lost_reverse,
        round_trip: delays,
        ports: PORTS as u16,
        by_port: if lost_forward + lost_reverse > 0 { by_port.collect() } else { Vec::new() },
        ..StreamReport::default()
    }))
}

fn configuration() -> String {
    let mut text = String::from("[[group]]\nthroughput = false\npath = false\n");
    for name in SITES {
        text += &format!("[node.{name}]\naddress = \"{name}\"\nlink = \"100Mbit/s\"\n");
    }
    for (from, to) in SITES[..3].iter().flat_map(|from| SITES[3..].iter().map(move |to| (from, to))) {
        text += &format!("[[path]]\nfrom = \"{from}\"\nto = \"{to}\"\nsegments = [\"core\"]\n");
    }
    text
}

/// A watch of the mesh, and the losses of its paths.
struct Mesh {
    watch: Watch,
    changes: mpsc::UnboundedReceiver<Change>,
    tests: Vec<Test>,
    losses: Vec<[LossProcess; 2]>,
    random: fastrand::Rng,
    begin: i64,
    /// The latest alarm of each direction of a path.
    alarms: BTreeMap<(String, String, bool), Alarm>,
    _dir: tempfile::TempDir,
}

impl Mesh {
    async fn new(faults: &[RandomFault], seed: u64) -> Mesh {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::open(&format!("sqlite:{}/watch.db", dir.path().display())).await.unwrap();
        let watched = WatchPlan::of(Config::parse(&configuration()).unwrap()).unwrap();
        let tests = watched.mesh.tests.iter().filter(|test| test.kind == TestKind::Latency);
        let tests: Vec<Test> = tests.cloned().collect();
        let (watch, changes) = Watch::new(watched, archive).await.unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut losses = Vec::new();
        for test in &tests {
            let (from, to) = (site(&test.from), site(&test.to));
            let forward = LossProcess::new(from, to, faults, &mut random);
            losses.push([forward, LossProcess::new(to, from, faults, &mut random)]);
        }
        // Bins of losses begin at the same times in every run.
        let begin = time::now() / DAY * DAY;
        Mesh { watch, changes, tests, losses, random, begin, alarms: BTreeMap::new(), _dir: dir }
    }

    /// Runs one minute. In four of ten minutes tests of TCP load a path, and its losses do not count.
    fn run_minute(&mut self, minute: i64) {
        let at = self.begin + minute * MINUTE;
        let mut accepted = Vec::new();
        for (number, (test, [forward, reverse])) in self.tests.iter().zip(&mut self.losses).enumerate() {
            if (minute + 3 * number as i64) % 10 < 4 {
                continue;
            }
            let none = vec![0; PORTS as usize];
            let observation = if minute < CLEAN {
                report(minute, &none, &none)
            } else {
                let forward = forward.minute(minute, &mut self.random);
                report(minute, &forward, &reverse.minute(minute, &mut self.random))
            };
            accepted.push((test.clone(), observation, at, 60.0));
        }
        self.watch.judge(&accepted, at + MINUTE);
        self.watch.judge_all_paths(at + MINUTE + 1);
        while let Ok(change) = self.changes.try_recv() {
            let alarm = change.alarm();
            if alarm.kind == AlarmKind::Loss {
                let is_forward = alarm.direction == Some(Direction::Forward);
                self.alarms.insert((alarm.from.clone(), alarm.to.clone(), is_forward), alarm.clone());
            }
        }
    }

    /// The cause and segment that most alarms of the paths over a fault name; none without alarms.
    fn verdict(&self, fault: &RandomFault) -> Option<(CauseKind, String)> {
        let mut counts: BTreeMap<(&str, &str), (usize, CauseKind)> = BTreeMap::new();
        for alarm in self.alarms.values().filter(|alarm| is_over(alarm, fault.segment)) {
            counts.entry((alarm.cause.word(), &alarm.segment)).or_insert((0, alarm.cause)).0 += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, (count, _))| *count);
        most.map(|((_, segment), (_, cause))| (cause, segment.to_owned()))
    }
}

/// The number of faults that are named rightly an hour after the first alarm of each; panics at an alarm of another path.
async fn count_named_rightly(faults: &[RandomFault], minutes: i64, seed: u64) -> usize {
    let mut mesh = Mesh::new(faults, seed).await;
    let mut first: Vec<Option<i64>> = vec![None; faults.len()];
    let mut right = 0;
    for minute in 0..CLEAN + minutes {
        mesh.run_minute(minute);
        for (fault, first) in faults.iter().zip(&mut first) {
            let Some(verdict) = mesh.verdict(fault) else { continue };
            let first = *first.get_or_insert(minute);
            if minute == (first + 60).min(CLEAN + minutes - 1) {
                right += usize::from(verdict == (fault.cause(), fault.segment.to_owned()));
            }
        }
    }
    let is_false = |alarm: &&Alarm| !faults.iter().any(|fault| is_over(alarm, fault.segment));
    assert_eq!(mesh.alarms.values().find(is_false), None);
    right
}

fn site(name: &str) -> usize {
    SITES.iter().position(|site| *site == name).unwrap()
}

/// Whether the path of an alarm passes a segment in the direction of the alarm.
fn is_over(alarm: &Alarm, segment: &str) -> bool {
    let (from, to) = (site(&alarm.from), site(&alarm.to));
    match alarm.direction {
        Some(Direction::Forward) => passes(from, to, segment),
        Some(Direction::Reverse) => passes(to, from, segment),
        None => false,
    }
}

/// With 60 seeds, and evidence of e^10 for a bad member, 502 of 540 of these and of rarer faults were named rightly: losses in bursts are
/// sometimes found on only one path of a segment within the hour.
#[tokio::test]
async fn most_faults_are_named_rightly_after_few_losses() {
    let even = |segment, chance| RandomFault { segment, lost: LossPattern::Evenly(chance) };
    let member = RandomFault { segment: "core", lost: LossPattern::OfOneMember(0.02) };
    let bursts = RandomFault { segment: "c in", lost: LossPattern::InBursts(0.0003, 0.3) };
    let rounds = [
        (vec![member, even("core (back)", 0.0005)], 100),
        (vec![even("d in", 0.0005), even("b in", 0.0002)], 300),
        (vec![bursts, even("a out", 0.003)], 200),
    ];
    let mut all = 0;
    let mut right_count = 0;
    for seed in 0..6 {
        for (faults, minutes) in &rounds {
            all += faults.len();
            right_count += count_named_rightly(faults, *minutes, seed).await;
        }
    }
    assert!(right_count * 5 >= all * 4, "{right_count} of {all}");
}
