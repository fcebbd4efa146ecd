//! Alarms from findings: a finding must last before its alarm is raised, and be gone for a while before the alarm ends.

use std::collections::HashMap;

use model::v1::probe::Direction;
use model::v1::watch::{Acknowledgement, Alarm, AlarmKind, Annotation, Health};

use crate::diagnosis::is_diagnosed;
use crate::judge::{Finding, remedy};
use crate::segments::NETWORK;
use crate::time;

/// A finding must still be there after this time before its alarm is raised, milliseconds. A silent path raises its alarm at once.
const HOLD_MS: i64 = 60_000;
/// A finding must be gone for this time before its alarm ends, milliseconds.
const CLEAR_MS: i64 = 180_000;
/// The alarm of an exercise ends after this time without another run, milliseconds: nobody repeats it any more.
const EXERCISE_KEPT_MS: i64 = 30 * 86_400_000;
/// An event within this time of the beginning of an alarm may be related to it, milliseconds.
const RELATED_MS: i64 = 6 * 3_600_000;
/// The largest number of open alarms.
pub const ALARMS_MAX: usize = 10_000;

/// A change of an alarm.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is new.
    Raised(Alarm),
    /// It is worse than it was, or has another cause.
    Changed(Alarm),
    /// It has ended.
    Ended(Alarm),
}

impl Change {
    /// The alarm.
    pub fn alarm(&self) -> &Alarm {
        match self {
            Change::Raised(alarm) | Change::Changed(alarm) | Change::Ended(alarm) => alarm,
        }
    }

    /// The alarm, mutably.
    pub fn alarm_mut(&mut self) -> &mut Alarm {
        match self {
            Change::Raised(alarm) | Change::Changed(alarm) | Change::Ended(alarm) => alarm,
        }
    }
}

/// A finding that may become an alarm, or is one.
#[derive(Clone, Debug)]
struct OpenAlarm {
    alarm: Alarm,
    is_raised: bool,
    /// Whether its evidence has become richer, so that it is to be stored and sent again.
    is_renewed: bool,
    /// When the finding was there first, and last: milliseconds since 1970.
    first: i64,
    last: i64,
}

impl OpenAlarm {
    fn matches(&self, kind: AlarmKind, direction: Option<Direction>) -> bool {
        self.alarm.kind == kind && self.alarm.direction == direction
    }

    /// Whether it lasts until the next run of an exercise, whatever the tests of its path find.
    fn is_of_exercise(&self) -> bool {
        self.alarm.kind == AlarmKind::Exercise
    }

    /// Whether its finding is gone for good.
    fn is_over(&self, clear: i64, now: i64) -> bool {
        let clear = if self.is_of_exercise() { EXERCISE_KEPT_MS } else { clear };
        self.last < now && now - self.last >= clear
    }

    /// Records that the finding is still there; returns the change that follows.
    fn record(&mut self, finding: &Finding, hold: i64, events: &[Annotation], now: i64) -> Option<Change> {
        self.last = now;
        let is_renewed = std::mem::take(&mut self.is_renewed);
        let is_worse = rank(finding.severity) > rank(self.alarm.severity) || finding.cause != self.alarm.cause;
        self.alarm.evidence.clone_from(&finding.evidence);
        if is_worse {
            self.alarm.severity = finding.severity;
            self.alarm.cause = finding.cause;
            self.alarm.remedy = remedy(finding.cause).to_owned();
        }
        if !self.is_raised && now - self.first >= hold {
            self.is_raised = true;
            self.alarm.event = related(events, self.first);
            return Some(Change::Raised(self.alarm.clone()));
        }
        (self.is_raised && (is_worse || is_renewed)).then(|| Change::Changed(self.alarm.clone()))
    }
}

/// Alarms that last, and findings that may become alarms.
#[derive(Debug, Default)]
pub struct Alarms {
    /// By the two ends of their paths: an update of one path does not touch the others.
    open: HashMap<(String, String), Vec<OpenAlarm>>,
    /// The number of alarms and findings in all lists of `open`.
    count: usize,
    /// Shortens all times: 1 in production.
    scale: f64,
}

impl Alarms {
    /// Begins with the alarms that lasted when the watch was stopped; `scale` shortens all times.
    pub fn new(lasting: Vec<Alarm>, scale: f64, now: i64) -> Alarms {
        let count = lasting.len();
        let mut open: HashMap<_, Vec<OpenAlarm>> = HashMap::new();
        for alarm in lasting {
            let key = (alarm.from.clone(), alarm.to.clone());
            // Alarms whose finding is gone get the usual time before they end.
            open.entry(key).or_default().push(OpenAlarm {
                alarm,
                is_raised: true,
                is_renewed: false,
                first: now,
                last: now,
            });
        }
        Alarms { open, count, scale }
    }

    fn of_path(&self, from: &str, to: &str) -> impl Iterator<Item = &OpenAlarm> {
        self.open.get(&(from.to_owned(), to.to_owned())).into_iter().flatten()
    }

    fn find(&mut self, from: &str, to: &str, kind: AlarmKind, direction: Option<Direction>) -> Option<&mut OpenAlarm> {
        let of_path = self.open.get_mut(&(from.to_owned(), to.to_owned()))?;
        of_path.iter_mut().find(|open| open.matches(kind, direction))
    }

    fn span(&self, span: i64) -> i64 {
        (span as f64 * self.scale) as i64
    }

    /// Takes the present findings of a path; returns the changes that follow.
    pub fn update(
        &mut self,
        from: &str,
        to: &str,
        findings: &[Finding],
        events: &[Annotation],
        now: i64,
    ) -> Vec<Change> {
        let key = (from.to_owned(), to.to_owned());
        if findings.is_empty() && !self.open.contains_key(&key) {
            return Vec::new();
        }
        let hold = self.span(HOLD_MS);
        let clear = self.span(CLEAR_MS).max(1);
        let of_path = self.open.entry(key.clone()).or_default();
        let mut changes = Vec::new();
        for finding in findings {
            let known = of_path.iter().position(|open| open.matches(finding.kind, finding.direction));
            let at = match known {
                Some(at) => at,
                None if self.count >= ALARMS_MAX => continue,
                None => {
                    self.count += 1;
                    of_path.push(OpenAlarm {
                        alarm: alarm(from, to, finding, now),
                        is_raised: false,
                        is_renewed: false,
                        first: now,
                        last: now,
                    });
                    of_path.len() - 1
                }
            };
            let hold = if finding.kind == AlarmKind::Silent { 0 } else { hold };
            changes.extend(of_path[at].record(finding, hold, events, now));
        }
        let before = of_path.len();
        of_path.retain_mut(|open| {
            let is_over = open.is_over(clear, now);
            if is_over && open.is_raised {
                open.alarm.ended = Some(time::show(open.last));
                changes.push(Change::Ended(open.alarm.clone()));
            }
            !is_over
        });
        self.count -= before - of_path.len();
        if of_path.is_empty() {
            self.open.remove(&key);
        }
        changes
    }

    /// Takes the finding of a run of an exercise about a pair of sites, or that there is none any more; returns the change that follows.
    pub fn update_exercise(
        &mut self,
        from: &str,
        to: &str,
        exercise: &str,
        finding: Option<&Finding>,
        events: &[Annotation],
        now: i64,
    ) -> Option<Change> {
        let segment = exercise_segment(exercise);
        let key = (from.to_owned(), to.to_owned());
        let of_pair = self.open.entry(key.clone()).or_default();
        let known = of_pair.iter().position(|open| open.is_of_exercise() && open.alarm.segment == segment);
        let change = match (finding, known) {
            (Some(finding), Some(at)) => {
                // A later run has other numbers, also better ones.
                of_pair[at].is_renewed = true;
                of_pair[at].alarm.severity = finding.severity;
                of_pair[at].record(finding, 0, events, now)
            }
            (Some(finding), None) if self.count < ALARMS_MAX => {
                self.count += 1;
                let alarm = Alarm { segment, ..alarm(from, to, finding, now) };
                of_pair.push(OpenAlarm { alarm, is_raised: false, is_renewed: false, first: now, last: now });
                of_pair.last_mut().and_then(|open| open.record(finding, 0, events, now))
            }
            (None, Some(at)) => {
                self.count -= 1;
                let mut ended = of_pair.remove(at).alarm;
                ended.ended = Some(time::show(now));
                Some(Change::Ended(ended))
            }
            (Some(_), None) | (None, None) => None,
        };
        if of_pair.is_empty() {
            self.open.remove(&key);
        }
        change
    }

    /// Reports the alarms of a path that tests were ordered for as changed, when their findings are judged next.
    pub fn renew(&mut self, from: &str, to: &str) {
        let of_path = self.open.get_mut(&(from.to_owned(), to.to_owned()));
        let diagnosed = of_path.into_iter().flatten().filter(|open| is_diagnosed(open.alarm.kind));
        diagnosed.for_each(|open| open.is_renewed = true);
    }

    /// Sets the number of an alarm that was stored.
    pub fn set_id(&mut self, alarm: &Alarm) {
        let of_path = self.open.get_mut(&(alarm.from.clone(), alarm.to.clone())).into_iter().flatten();
        let is_it = |open: &&mut OpenAlarm| {
            open.matches(alarm.kind, alarm.direction) && (!open.is_of_exercise() || open.alarm.segment == alarm.segment)
        };
        of_path.filter(is_it).for_each(|open| open.alarm.id = alarm.id);
    }

    /// Sets the segment of an alarm; returns the alarm if the segment has changed.
    pub fn set_segment(
        &mut self,
        from: &str,
        to: &str,
        kind: AlarmKind,
        direction: Option<Direction>,
        segment: &str,
    ) -> Option<Alarm> {
        let open = self.find(from, to, kind, direction)?;
        if open.alarm.segment == segment {
            return None;
        }
        segment.clone_into(&mut open.alarm.segment);
        open.is_raised.then(|| open.alarm.clone())
    }

    /// Acknowledges an alarm.
    pub fn acknowledge(&mut self, id: i64, acknowledged: Acknowledgement) -> Option<Alarm> {
        let open = self.open.values_mut().flatten().find(|open| open.is_raised && open.alarm.id == id)?;
        open.alarm.acknowledged = Some(acknowledged);
        Some(open.alarm.clone())
    }

    /// All alarms that last.
    pub fn all(&self) -> Vec<Alarm> {
        let mut all: Vec<Alarm> =
            self.open.values().flatten().filter(|open| open.is_raised).map(|open| open.alarm.clone()).collect();
        all.sort_by_key(|alarm| std::cmp::Reverse(alarm.id));
        all
    }

    /// Alarms of a path.
    pub fn of(&self, from: &str, to: &str) -> Vec<Alarm> {
        let mut all: Vec<Alarm> =
            self.of_path(from, to).filter(|open| open.is_raised).map(|open| open.alarm.clone()).collect();
        all.sort_by_key(|alarm| std::cmp::Reverse(alarm.id));
        all
    }

    /// Ends the alarms of paths that are not watched any more. Those of exercises stay: their sites need not be watched.
    pub fn end_unwatched(&mut self, is_watched: impl Fn(&str, &str) -> bool, now: i64) -> Vec<Change> {
        let mut changes = Vec::new();
        self.open.retain(|(from, to), of_path| {
            let is_watched = is_watched(from, to);
            let before = of_path.len();
            of_path.retain_mut(|open| {
                let stays = is_watched || open.is_of_exercise();
                if !stays && open.is_raised {
                    open.alarm.ended = Some(time::show(now));
                    changes.push(Change::Ended(open.alarm.clone()));
                }
                stays
            });
            self.count -= before - of_path.len();
            !of_path.is_empty()
        });
        changes
    }
}

/// The rank of a severity, for comparison: unknown is better than a warning.
fn rank(severity: Health) -> u8 {
    match severity {
        Health::Ok => 0,
        Health::Unknown => 1,
        Health::Warning => 2,
        Health::Critical => 3,
    }
}

fn alarm(from: &str, to: &str, finding: &Finding, now: i64) -> Alarm {
    Alarm {
        id: 0,
        from: from.to_owned(),
        to: to.to_owned(),
        kind: finding.kind,
        direction: finding.direction,
        severity: finding.severity,
        since: time::show(now),
        ended: None,
        evidence: finding.evidence.clone(),
        cause: finding.cause,
        segment: NETWORK.to_owned(),
        remedy: remedy(finding.cause).to_owned(),
        event: None,
        acknowledged: None,
    }
}

/// What stands in the place of a segment in the alarm of an exercise.
fn exercise_segment(exercise: &str) -> String {
    format!("exercise {exercise}")
}

/// The event nearest to a time, within [`RELATED_MS`], in words.
fn related(events: &[Annotation], at: i64) -> Option<String> {
    let near = |event: &Annotation| Some((at - time::parse(&event.at)?, event.text.clone()));
    let nearest = events
        .iter()
        .filter_map(near)
        .filter(|(apart, _)| apart.abs() <= RELATED_MS)
        .min_by_key(|(apart, _)| apart.abs());
    nearest.map(|(apart, text)| {
        let span = model::duration::show(std::time::Duration::from_millis(apart.unsigned_abs()));
        format!("{text} ({span} {})", if apart >= 0 { "before" } else { "after" })
    })
}

#[cfg(test)]
mod tests {
    use model::v1::watch::CauseKind;

    use super::*;

    const MINUTE: i64 = 60_000;

    fn finding(kind: AlarmKind, severity: Health) -> Finding {
        Finding {
            kind,
            direction: Some(Direction::Forward),
            severity,
            evidence: "numbers".into(),
            cause: CauseKind::RandomLoss,
        }
    }

    fn words(changes: &[Change]) -> Vec<&'static str> {
        let word = |change: &Change| match change {
            Change::Raised(_) => "raised",
            Change::Changed(_) => "changed",
            Change::Ended(_) => "ended",
        };
        changes.iter().map(word).collect()
    }

    #[test]
    fn a_lasting_finding_raises_one_alarm_which_ends_after_a_quiet_time() {
        let mut alarms = Alarms::new(Vec::new(), 1.0, 0);
        let loss = [finding(AlarmKind::Loss, Health::Warning)];
        assert!(alarms.update("a", "b", &loss, &[], 0).is_empty());
        assert_eq!(words(&alarms.update("a", "b", &loss, &[], MINUTE)), ["raised"]);
        assert!(alarms.update("a", "b", &loss, &[], 2 * MINUTE).is_empty());
        assert!(alarms.update("c", "d", &[], &[], 60 * MINUTE).is_empty(), "another path has no alarm");
        let worse = [finding(AlarmKind::Loss, Health::Critical)];
        assert_eq!(words(&alarms.update("a", "b", &worse, &[], 3 * MINUTE)), ["changed"]);
        assert!(alarms.update("a", "b", &[], &[], 5 * MINUTE).is_empty(), "two quiet minutes are not enough");
        assert!(alarms.update("a", "b", &worse, &[], 5 * MINUTE + 1).is_empty(), "the alarm had not ended");
        let ended = alarms.update("a", "b", &[], &[], 9 * MINUTE);
        assert_eq!((words(&ended), ended[0].alarm().ended.is_some(), alarms.all().len()), (vec!["ended"], true, 0));
        assert!(alarms.update("a", "b", &loss, &[], 20 * MINUTE).is_empty());
        assert!(
            alarms.update("a", "b", &[], &[], 24 * MINUTE).is_empty(),
            "a finding that did not last raised no alarm"
        );
    }

    #[test]
    fn a_silent_path_raises_an_alarm_at_once_with_the_nearest_event() {
        let mut alarms = Alarms::new(Vec::new(), 1.0, 0);
        let event = |at: i64, text: &str| Annotation { at: time::show(at), text: text.into(), ..Annotation::default() };
        let events = [event(0, "too old"), event(10 * 3_600_000 - 12 * MINUTE, "firewall update")];
        let changes = alarms.update("a", "b", &[finding(AlarmKind::Silent, Health::Critical)], &events, 10 * 3_600_000);
        assert_eq!(words(&changes), ["raised"]);
        assert_eq!(changes[0].alarm().event.as_deref(), Some("firewall update (12 min 00 s before)"));
    }

    #[test]
    fn alarms_survive_a_restart_and_can_be_acknowledged() {
        let mut alarms = Alarms::new(Vec::new(), 1.0, 0);
        alarms.update("a", "b", &[finding(AlarmKind::Silent, Health::Critical)], &[], 0);
        let mut kept = alarms.all();
        kept[0].id = 7;
        let mut alarms = Alarms::new(kept, 1.0, 10 * MINUTE);
        let seen = Acknowledgement { by: "noc".into(), note: "on it".into() };
        assert!(alarms.acknowledge(7, seen.clone()).is_some() && alarms.acknowledge(8, seen).is_none());
        assert!(alarms.update("a", "b", &[], &[], 11 * MINUTE).is_empty());
        assert_eq!(words(&alarms.update("a", "b", &[], &[], 14 * MINUTE)), ["ended"]);
        let mut alarms = Alarms::new(Vec::new(), 1.0, 0);
        alarms.update("a", "b", &[finding(AlarmKind::Silent, Health::Critical)], &[], 0);
        assert_eq!(words(&alarms.end_unwatched(|_, _| false, 5)), ["ended"]);
    }

    #[test]
    fn alarms_of_exercises_last_until_a_later_run_of_the_same_one_is_good() {
        let mut alarms = Alarms::new(Vec::new(), 1.0, 0);
        let slow = finding(AlarmKind::Exercise, Health::Warning);
        let take = |alarms: &mut Alarms, exercise: &str, finding: Option<&Finding>, now: i64| {
            words(&alarms.update_exercise("a", "b", exercise, finding, &[], now).into_iter().collect::<Vec<_>>())
                .first()
                .copied()
        };
        assert_eq!(take(&mut alarms, "nightly", None, 0), None);
        assert_eq!(take(&mut alarms, "nightly", Some(&slow), 0), Some("raised"));
        assert_eq!(take(&mut alarms, "weekly", Some(&slow), 0), Some("raised"));
        assert_eq!(alarms.all()[0].segment, "exercise nightly");
        assert!(
            alarms.update("a", "b", &[], &[], 60 * MINUTE).is_empty()
                && alarms.end_unwatched(|_, _| false, 9).is_empty()
        );
        assert_eq!(take(&mut alarms, "nightly", Some(&slow), 24 * 60 * MINUTE), Some("changed"));
        assert_eq!(take(&mut alarms, "weekly", None, 24 * 60 * MINUTE), Some("ended"));
        let mut kept = alarms.all();
        assert_eq!(kept.len(), 1);
        kept[0].id = 3;
        let mut alarms = Alarms::new(kept, 1.0, 0);
        assert_eq!(take(&mut alarms, "nightly", None, 48 * 60 * MINUTE), Some("ended"));
        assert!(alarms.open.is_empty() && alarms.count == 0);
    }

    #[test]
    fn the_number_of_open_alarms_is_bounded() {
        let mut alarms = Alarms::new(Vec::new(), 1.0, 0);
        let silent = [finding(AlarmKind::Silent, Health::Critical)];
        let raised =
            (0..ALARMS_MAX + 5).filter(|path| !alarms.update("a", &path.to_string(), &silent, &[], 0).is_empty());
        assert_eq!((raised.count(), alarms.all().len()), (ALARMS_MAX, ALARMS_MAX));
        assert_eq!(words(&alarms.update("a", "0", &[], &[], 4 * MINUTE)), ["ended"]);
        assert_eq!(words(&alarms.update("b", "c", &silent, &[], 4 * MINUTE)), ["raised"]);
        assert!(alarms.update("b", "d", &silent, &[], 4 * MINUTE).is_empty());
    }
}
