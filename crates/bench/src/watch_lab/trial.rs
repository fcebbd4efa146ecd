//! A trial: faults are put in, and the alarms of the watch are compared with them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use model::v1::watch::{Alarm, AlarmKind, Health};

use super::faults::{Fault, ROUNDS, Round};
use super::mesh::{Mesh, passes};

/// The time from when all faults of a round are found until its alarms are judged: an hour of compressed time.
const SETTLE: Duration = Duration::from_secs(60);
/// The same for losses: three hours of compressed time. A compressed minute has a sixth of its usual packets, and a cause and a place are decided by
/// counts of lost packets: so these are the packets of half an hour.
const SETTLE_LOSS: Duration = Duration::from_secs(180);
/// The same for faults that TCP tests find: until all pairs have been tested once more.
const SETTLE_TCP: Duration = Duration::from_secs(100);
/// The longest wait after a round for all alarms to end.
const RECOVER_MAX: Duration = Duration::from_secs(50);
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The outcome of a fault.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The fault.
    pub fault: Fault,
    /// When it was put in and taken out.
    pub span: [SystemTime; 2],
    /// The time until the first alarm of a path with the fault.
    pub found_after: Option<Duration>,
    /// The cause and segment that most alarms of these paths named at the end.
    pub named: String,
    /// Whether cause and segment are right.
    pub is_right: bool,
}

/// The results of all rounds.
#[derive(Clone, Debug, Default)]
pub struct Trials {
    /// The outcome of each fault.
    pub outcomes: Vec<Outcome>,
    /// Alarms of paths without a fault, and alarms before the first fault.
    pub false_alarms: Vec<Alarm>,
    /// The time without a fault before the first one.
    pub clean: Duration,
}

/// Runs the rounds that have a fault whose name `wanted` accepts.
///
/// # Errors
/// The lab or the watch fails, or a signal ended the run.
pub fn run(mesh: &Mesh<'_>, wanted: impl Fn(&str) -> bool) -> Result<Trials> {
    let begun = Instant::now();
    mesh.wait_until_learned()?;
    let mut trials = Trials { clean: begun.elapsed(), ..Trials::default() };
    trials.false_alarms.extend(mesh.alarms()?.into_iter().filter(|alarm| alarm.kind != AlarmKind::Stale));
    for alarm in &trials.false_alarms {
        println!("before any fault: {}", alarm_text(alarm));
    }
    for round in ROUNDS.iter().filter(|round| round.faults.iter().any(|fault| wanted(fault.name))) {
        run_round(mesh, round, &mut trials)?;
    }
    Ok(trials)
}

fn run_round(mesh: &Mesh<'_>, round: &Round, trials: &mut Trials) -> Result<()> {
    let before = newest(&mesh.alarms()?);
    let begun = Instant::now();
    let begun_time = SystemTime::now();
    round.faults.iter().try_for_each(|fault| mesh.apply(&fault.method, true))?;
    let mut found: Vec<Option<Duration>> = vec![None; round.faults.len()];
    let is_found_by = |kind| round.faults.iter().any(|fault| fault.kinds.contains(&kind));
    let settle = match (is_found_by(AlarmKind::Throughput), is_found_by(AlarmKind::Loss)) {
        (true, _) => SETTLE_TCP,
        (false, true) => SETTLE_LOSS,
        (false, false) => SETTLE,
    };
    let mut all_found = None;
    let raised = loop {
        mesh.wait(POLL_INTERVAL)?;
        let raised: Vec<Alarm> = mesh.alarms()?.into_iter().filter(|alarm| is_of_round(alarm, before)).collect();
        for (at, fault) in found.iter_mut().zip(round.faults) {
            let is_found = raised.iter().any(|alarm| passes(alarm, fault.segment));
            *at = at.or_else(|| is_found.then(|| begun.elapsed()));
        }
        if found.iter().all(Option::is_some) {
            all_found.get_or_insert_with(Instant::now);
        }
        let has_settled = all_found.is_some_and(|at: Instant| at.elapsed() >= settle);
        if has_settled || begun.elapsed() >= round.time_limit {
            break raised;
        }
    };
    round.faults.iter().try_for_each(|fault| mesh.apply(&fault.method, false))?;
    let span = [begun_time, SystemTime::now()];
    for (fault, found_after) in round.faults.iter().zip(found) {
        let outcome = judge(fault, found_after, span, &raised);
        println!(
            "{}: {} after {:?} ({})",
            fault.name,
            outcome.named,
            outcome.found_after,
            if outcome.is_right { "right" } else { "WRONG" }
        );
        trials.outcomes.push(outcome);
    }
    for alarm in &raised {
        println!("    {}", alarm_text(alarm));
    }
    let is_of_a_fault = |alarm: &Alarm| round.faults.iter().any(|fault| passes(alarm, fault.segment));
    trials.false_alarms.extend(raised.into_iter().filter(|alarm| !is_of_a_fault(alarm)));
    recover(mesh)
}

fn newest(alarms: &[Alarm]) -> i64 {
    alarms.iter().map(|alarm| alarm.id).max().unwrap_or_default()
}

/// Whether an alarm was raised in this round. An alarm about missing tests does not count: it says nothing about the path.
fn is_of_round(alarm: &Alarm, before: i64) -> bool {
    alarm.id > before && alarm.kind != AlarmKind::Stale
}

/// Waits until there is no alarm, at most [`RECOVER_MAX`].
fn recover(mesh: &Mesh<'_>) -> Result<()> {
    let begun = Instant::now();
    let lasts = |alarm: &Alarm| alarm.ended.is_none() && alarm.kind != AlarmKind::Stale;
    while begun.elapsed() < RECOVER_MAX && mesh.alarms()?.iter().any(lasts) {
        mesh.wait(POLL_INTERVAL)?;
    }
    Ok(())
}

/// Judges a fault by the cause and segment that most alarms of its paths name, or the most severe if the counts are equal. Alarms that have
/// ended count as well: that of a clock ends soon.
fn judge(fault: &Fault, found_after: Option<Duration>, span: [SystemTime; 2], raised: &[Alarm]) -> Outcome {
    let mut counts: BTreeMap<(&str, &str), (usize, Health)> = BTreeMap::new();
    for alarm in raised.iter().filter(|alarm| passes(alarm, fault.segment)) {
        let (count, worst) = counts.entry((alarm.cause.word(), &alarm.segment)).or_insert((0, alarm.severity));
        *count += 1;
        *worst = (*worst).max(alarm.severity);
    }
    let most = counts.iter().max_by_key(|(_, rank)| **rank).map(|(named, _)| *named);
    Outcome {
        fault: *fault,
        span,
        found_after,
        named: most.map_or_else(|| "nothing".into(), |(cause, segment)| format!("{cause}, {segment}")),
        is_right: most == Some((fault.cause.word(), fault.segment)),
    }
}

fn alarm_text(alarm: &Alarm) -> String {
    let direction = alarm.direction.map(|direction| format!(" {direction:?}")).unwrap_or_default();
    let ended = if alarm.ended.is_some() { " (over)" } else { "" };
    format!(
        "{}-{}{direction} {:?}: {}, {}{ended}: {}",
        alarm.from,
        alarm.to,
        alarm.kind,
        alarm.cause.word(),
        alarm.segment,
        alarm.evidence
    )
}
