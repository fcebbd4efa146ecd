//! Counters of the interfaces of routers and hosts: octets, errors, light. Readings come from CSV, JSON or SNMP ([`reader`]). Two successive readings
//! give a row of the archive, and errors or fading light of a path's segment explain its loss.

pub mod reader;
pub mod snmp;
pub mod text;

use std::collections::{BTreeMap, VecDeque};

use model::v1::probe::Direction;
use model::v1::watch::{AlarmKind, CauseKind};

use crate::archive::Row;
use crate::archive::columns::COUNTERS;
use crate::config::Interface;
use crate::judge::Finding;
use crate::time;

/// The name of counters among the tests.
pub const TEST: &str = "counters";

/// Rates above this are taken for errors, bit/s.
const RATE_MAX: f64 = 1e13;
/// Readings further apart than this leave a gap, milliseconds.
const INTERVAL_MS_MAX: i64 = 86_400_000;
/// How far back errors count, milliseconds.
const ERRORS_WINDOW_MS: i64 = 6 * 3_600_000;
/// Fewer errors in that time explain nothing.
const ERRORS_MIN: u64 = 10;
/// Light this far below its best of a day is reported: half of the power.
const LIGHT_FALL_DB: f64 = 3.0;
/// Rows of an interface that are kept in memory: a day, and no more than this number.
const REMEMBERED_MAX: usize = 1_500;
const REMEMBERED_MS: i64 = 86_400_000;
/// A reading further in the future than this is refused, milliseconds: the clock of its source is wrong.
const AHEAD_MS_MAX: i64 = 120_000;

/// A reading of an interface. Counters run since their last reset; a field is none where the source does not have it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Milliseconds since 1970.
    pub at: i64,
    /// Octets received.
    pub in_octets: Option<u64>,
    /// Octets sent.
    pub out_octets: Option<u64>,
    /// Frames received with errors.
    pub in_errors: Option<u64>,
    /// Frames that could not be sent.
    pub out_errors: Option<u64>,
    /// Frames dropped though they had no errors, in both directions.
    pub discards: Option<u64>,
    /// Codewords that forward error correction could not repair.
    pub fec_uncorrectable: Option<u64>,
    /// The rate in, bit/s, where the source gives rates instead of octets.
    pub in_bit_s: Option<f64>,
    /// The rate out, bit/s.
    pub out_bit_s: Option<f64>,
    /// Received light, dBm.
    pub light_in_dbm: Option<f64>,
    /// Speed of the interface, bit/s.
    pub capacity_bit_s: Option<f64>,
}

/// The row of the time between two readings; none where they are out of order or too far apart.
pub fn row_between(before: &Reading, after: &Reading) -> Option<Row> {
    let apart = after.at.checked_sub(before.at).filter(|apart| (1..=INTERVAL_MS_MAX).contains(apart))?;
    let plausible = |rate: f64| ((0.0..=RATE_MAX).contains(&rate)).then_some(rate as i64);
    let rate = |reported: Option<f64>, octets: fn(&Reading) -> Option<u64>| {
        let computed = || Some(increase(octets(before), octets(after))? as f64 * 8.0 / (apart as f64 / 1e3));
        reported.or_else(computed).and_then(plausible)
    };
    let count = |of: fn(&Reading) -> Option<u64>| increase(of(before), of(after)).and_then(|it| i64::try_from(it).ok());
    let values = vec![
        rate(after.in_bit_s, |reading| reading.in_octets),
        rate(after.out_bit_s, |reading| reading.out_octets),
        count(|reading| reading.in_errors),
        count(|reading| reading.out_errors),
        count(|reading| reading.discards),
        count(|reading| reading.fec_uncorrectable),
        after.light_in_dbm.filter(|light| light.abs() <= 100.0).map(|light| (light * 1e3) as i64),
        after.capacity_bit_s.and_then(plausible),
    ];
    debug_assert_eq!(values.len(), COUNTERS.len());
    Some(Row { at: before.at, values })
}

/// The increase of a counter; none where it was reset.
fn increase(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

/// The readings after `after`, in order. The last reading up to `after` comes before them: the first row is counted from it.
///
/// # Errors
/// The clock of a reading is ahead.
pub fn fresh(mut readings: Vec<Reading>, after: i64, now: i64) -> Result<Vec<Reading>, String> {
    readings.sort_by_key(|reading| reading.at);
    if let Some(ahead) = readings.last().map(|last| last.at.saturating_sub(now)).filter(|ahead| *ahead > AHEAD_MS_MAX) {
        return Err(format!("the clock of its readings is ahead by {} s", ahead / 1_000));
    }
    let begin = readings.iter().rposition(|reading| reading.at <= after).unwrap_or(0);
    readings.drain(..begin);
    Ok(readings)
}

/// The part of a stored row that is kept in memory.
#[derive(Clone, Copy, Debug)]
struct RecentRow {
    /// Milliseconds since 1970.
    at: i64,
    received_errors: u64,
    sent_errors: u64,
    light_dbm: Option<f64>,
}

/// The state of an interface.
#[derive(Clone, Debug, Default)]
struct InterfaceState {
    last: Option<Reading>,
    row: Option<Row>,
    recent: VecDeque<RecentRow>,
    /// Why the last attempt to read it failed.
    error: Option<String>,
}

/// All interfaces, by their names.
#[derive(Clone, Debug, Default)]
pub struct Interfaces(BTreeMap<String, InterfaceState>);

impl Interfaces {
    /// The last reading that rows were made from.
    pub fn last(&self, name: &str) -> Option<Reading> {
        self.0.get(name)?.last.clone()
    }

    /// Records that readings were stored, and the rows made from them.
    pub fn record(&mut self, name: &str, last: Reading, rows: &[Row]) {
        let known = self.0.entry(name.to_owned()).or_default();
        for row in rows {
            let value = |at: usize| row.values[at].and_then(|value| u64::try_from(value).ok()).unwrap_or(0);
            known.recent.push_back(RecentRow {
                at: row.at,
                received_errors: value(2).saturating_add(value(5)),
                sent_errors: value(3),
                light_dbm: row.values[6].map(|light| light as f64 / 1e3),
            });
        }
        while known.recent.len() > REMEMBERED_MAX
            || known.recent.front().is_some_and(|oldest| last.at - oldest.at > REMEMBERED_MS)
        {
            known.recent.pop_front();
        }
        known.row = rows.last().cloned().or(known.row.take());
        known.last = Some(last);
        known.error = None;
    }

    /// Records that an interface cannot be read.
    pub fn record_error(&mut self, name: &str, why: String) {
        self.0.entry(name.to_owned()).or_default().error = Some(why);
    }

    /// Drops all interfaces but these.
    pub fn retain(&mut self, interfaces: &[Interface]) {
        self.0.retain(|name, _| interfaces.iter().any(|interface| interface.name == *name));
    }

    /// Explains a finding by counters, where it is loss that an optic could cause; `segments_of` names the segments of a direction.
    pub fn explain(
        &self,
        finding: &mut Finding,
        interfaces: &[Interface],
        segments_of: impl Fn(Direction) -> Vec<String>,
        now: i64,
    ) {
        let may_be_optical =
            matches!(finding.cause, CauseKind::RandomLoss | CauseKind::LossyMember | CauseKind::Unknown);
        if finding.kind != AlarmKind::Loss || !may_be_optical {
            return;
        }
        let directions = finding.direction.map_or(vec![Direction::Forward, Direction::Reverse], |known| vec![known]);
        let segments: Vec<String> = directions.into_iter().flat_map(segments_of).collect();
        if let Some(why) = interfaces.iter().find_map(|interface| self.evidence_for(interface, &segments, now)) {
            finding.cause = CauseKind::Optics;
            finding.evidence = format!("{}; {why}", finding.evidence);
        }
    }

    fn evidence_for(&self, interface: &Interface, segments: &[String], now: i64) -> Option<String> {
        let known = self.0.get(&interface.name)?;
        let name = &interface.name;
        let errors = |of: fn(&RecentRow) -> u64| known.errors(of, now);
        if segments.contains(&interface.segment_in) {
            let received = errors(|it| it.received_errors);
            if received >= ERRORS_MIN {
                return Some(format!("{name} received {received} frames or codewords with errors in 6 h"));
            }
            if let Some((best, last)) = known.fallen_light() {
                return Some(format!("the light that {name} receives fell from {best:.1} to {last:.1} dBm"));
            }
        }
        let sent = errors(|it| it.sent_errors);
        let is_sending = segments.contains(&interface.segment_out) && sent >= ERRORS_MIN;
        is_sending.then(|| format!("{name} had {sent} errors in sending in 6 h"))
    }

    /// Interfaces as the API shows them.
    pub fn show(&self, interfaces: &[Interface], now: i64) -> Vec<model::v1::watch::Interface> {
        let nothing = InterfaceState::default();
        let show = |interface: &Interface| self.0.get(&interface.name).unwrap_or(&nothing).show(interface, now);
        interfaces.iter().map(show).collect()
    }
}

impl InterfaceState {
    fn errors(&self, of: fn(&RecentRow) -> u64, now: i64) -> u64 {
        let counting = self.recent.iter().filter(|it| now - it.at <= ERRORS_WINDOW_MS);
        counting.map(of).fold(0, u64::saturating_add)
    }

    /// The strongest light of a day and the last one, dBm, where it has fallen far.
    fn fallen_light(&self) -> Option<(f64, f64)> {
        let last = self.recent.back()?.light_dbm?;
        let best = self.recent.iter().filter_map(|it| it.light_dbm).fold(last, f64::max);
        (best - last >= LIGHT_FALL_DB).then_some((best, last))
    }

    fn show(&self, interface: &Interface, now: i64) -> model::v1::watch::Interface {
        let value = |at: usize| self.row.as_ref().and_then(|row| row.values[at]).map(|value| value as f64);
        let (in_bit_s, out_bit_s) = (value(0), value(1));
        let capacity_bit_s = interface.capacity.map(|rate| rate.0 as f64).or(value(7)).filter(|rate| *rate > 0.0);
        let share = |rate: Option<f64>| Some(rate? / capacity_bit_s?);
        model::v1::watch::Interface {
            name: interface.name.clone(),
            segment_in: interface.segment_in.clone(),
            segment_out: interface.segment_out.clone(),
            at: self.last.as_ref().map(|last| time::show(last.at)),
            capacity_bit_s,
            in_bit_s,
            out_bit_s,
            in_utilisation: share(in_bit_s),
            out_utilisation: share(out_bit_s),
            errors_6h: self.errors(|it| it.received_errors.saturating_add(it.sent_errors), now),
            light_in_dbm: value(6).map(|light| light / 1e3),
            error: self.error.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
