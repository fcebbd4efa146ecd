//! Light that an interface receives, by SNMP: sensors of ENTITY-SENSOR-MIB (RFC 3433), which ENTITY-MIB (RFC 6933) names and places.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::agent::{Agent, SnmpValue};
use super::object;

/// entPhysicalEntry, and its columns.
const ENT_PHYSICAL: [u64; 11] = [1, 3, 6, 1, 2, 1, 47, 1, 1, 1, 1];
const ENT_DESCR: u64 = 2;
const ENT_CONTAINED_IN: u64 = 4;
const ENT_NAME: u64 = 7;
/// entAliasMappingEntry: its column has the interface's ifIndex, as the identifier of that cell.
const ENT_ALIAS: [u64; 11] = [1, 3, 6, 1, 2, 1, 47, 1, 3, 2, 1];
const ENT_ALIAS_IDENTIFIER: u64 = 2;
const IF_INDEX: [u64; 10] = [1, 3, 6, 1, 2, 1, 2, 2, 1, 1];
/// entPhySensorEntry, and its columns.
const ENT_SENSOR: [u64; 10] = [1, 3, 6, 1, 2, 1, 99, 1, 1, 1];
const SENSOR_TYPE: u64 = 1;
const SENSOR_SCALE: u64 = 2;
const SENSOR_PRECISION: u64 = 3;
const SENSOR_VALUE: u64 = 4;
const SENSOR_STATUS: u64 = 5;
const SENSOR_UNITS: u64 = 6;

const TYPE_OTHER: i64 = 1;
const TYPE_WATTS: i64 = 6;
/// RFC 3433 ends at 12; agents that have dBm number it as CISCO-ENTITY-SENSOR-MIB does.
const TYPE_DBM: i64 = 14;
const STATUS_OK: i64 = 1;

/// No light at all has no value in dBm: the least that receivers report stands for it.
const DARK_DBM: f64 = -40.0;
/// No optic receives more, dBm: 1 W.
const LIGHT_DBM_MAX: f64 = 30.0;
/// Receivers of an interface: a bundle of fibres or colours has one for each lane.
const RECEIVERS_MAX: usize = 16;
/// How many containers a sensor can be within.
const DEPTH_MAX: usize = 16;
/// How often the sensors of an interface are looked for: an optic may be replaced.
const LOOK_EVERY: Duration = Duration::from_secs(3_600);

/// The sensors of the light that an interface receives.
#[derive(Debug, Default)]
pub(super) struct Receivers {
    known: Vec<u64>,
    looked: Option<Instant>,
}

impl Receivers {
    /// The weakest light that the interface receives, dBm; none where the agent has no sensor of it. An interface with several receivers needs all of them.
    ///
    /// # Errors
    /// The agent does not answer.
    pub(super) fn read(&mut self, agent: &mut Agent, if_index: u64, if_name: &str) -> Result<Option<f64>, String> {
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            // Set first: an agent that cannot answer is not asked for its tables at each reading.
            self.looked = Some(Instant::now());
            self.known = Inventory::read(agent)?.map_or(Vec::new(), |all| all.receivers(if_index, if_name));
        }
        let mut weakest = None;
        for sensor in &self.known {
            let cells = agent.get([
                object(&ENT_SENSOR, SENSOR_TYPE, Some(*sensor)),
                object(&ENT_SENSOR, SENSOR_SCALE, Some(*sensor)),
                object(&ENT_SENSOR, SENSOR_PRECISION, Some(*sensor)),
                object(&ENT_SENSOR, SENSOR_VALUE, Some(*sensor)),
                object(&ENT_SENSOR, SENSOR_STATUS, Some(*sensor)),
            ])?;
            if cells[0] == SnmpValue::Absent {
                // The optic was taken out, and another one has other sensors.
                self.looked = None;
            }
            let light = light_dbm(cells.each_ref().map(SnmpValue::integer));
            weakest = light.into_iter().chain(weakest).reduce(f64::min);
        }
        Ok(weakest)
    }
}

/// A sensor's light from its type, scale, precision, value and status.
fn light_dbm(sensor: [Option<i64>; 5]) -> Option<f64> {
    let [Some(kind), Some(scale), Some(precision), Some(value), Some(STATUS_OK)] = sensor else { return None };
    let decimals = i32::try_from(precision).ok().filter(|digits| (-8..=9).contains(digits))?;
    // A negative precision is the number of exact digits of a whole number: it moves no decimal point.
    let number = value as f64 * 10f64.powi(exponent(scale)? - decimals.max(0));
    let light = match kind {
        TYPE_WATTS if number < 0.0 => return None,
        TYPE_WATTS => (10.0 * (number * 1e3).log10()).max(DARK_DBM),
        TYPE_OTHER | TYPE_DBM => number,
        _ => return None,
    };
    (-100.0..=LIGHT_DBM_MAX).contains(&light).then_some(light)
}

/// The power of ten of an EntitySensorDataScale: yocto is 1, units are 9. RFC 3433 lists exa (14) before peta (15).
fn exponent(scale: i64) -> Option<i32> {
    match scale {
        14 => Some(18),
        15 => Some(15),
        1..=17 => i32::try_from((scale - 9) * 3).ok(),
        _ => None,
    }
}

/// Whether a sensor measures what an optic receives, by its name and description: "Rx Power", "Lane 2 receive power", "DOM RX Power Sensor for Ethernet1".
fn is_receiver(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).collect();
    let has = |known: &[&str]| words.iter().any(|word| known.contains(word));
    has(&["rx", "receive", "received", "receiver", "rxpower"])
        && !has(&["tx", "transmit", "transmitted", "bias", "threshold"])
}

/// Whether a text has a name as a whole: "Ethernet1" is not in "Ethernet1/2" nor in "Ethernet10".
fn names(text: &str, name: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let mut after = text[at + name.len()..].chars();
            let next = after.next();
            let joins = next.is_some_and(|c| "/.:-_".contains(c)) && is_part(after.next());
            !is_part(before) && !before.is_some_and(|c| "/.:-_".contains(c)) && !is_part(next) && !joins
        })
}

/// What an agent's host consists of, as far as it concerns light.
#[derive(Debug, Default)]
struct Inventory {
    /// Receivers with their names and descriptions.
    sensors: BTreeMap<u64, String>,
    /// The container of each part.
    within: BTreeMap<u64, u64>,
    /// The parts that are interfaces, by ifIndex.
    ports: BTreeMap<u64, BTreeSet<u64>>,
}

impl Inventory {
    /// Reads the tables; none where the agent has no sensors that could measure light.
    fn read(agent: &mut Agent) -> Result<Option<Inventory>, String> {
        let kinds = by_part(agent.column(&object(&ENT_SENSOR, SENSOR_TYPE, None))?);
        let is_kind = |kind: &SnmpValue, known: i64| kind.integer() == Some(known);
        let mut optical: BTreeSet<u64> = kinds
            .iter()
            .filter(|(_, kind)| is_kind(kind, TYPE_WATTS) || is_kind(kind, TYPE_DBM))
            .map(|(part, _)| *part)
            .collect();
        if kinds.values().any(|kind| is_kind(kind, TYPE_OTHER)) {
            let units = by_part(agent.column(&object(&ENT_SENSOR, SENSOR_UNITS, None))?);
            let is_dbm = |part: &u64| {
                units.get(part).and_then(SnmpValue::text).is_some_and(|unit| unit.trim().eq_ignore_ascii_case("dbm"))
            };
            optical.extend(
                kinds.iter().filter(|(part, kind)| is_kind(kind, TYPE_OTHER) && is_dbm(part)).map(|(part, _)| *part),
            );
        }
        if optical.is_empty() {
            return Ok(None);
        }
        let mut sensors: BTreeMap<u64, String> = BTreeMap::new();
        for column in [ENT_NAME, ENT_DESCR] {
            let texts = by_part(agent.column(&object(&ENT_PHYSICAL, column, None))?);
            for (part, text) in texts.iter().filter(|(part, _)| optical.contains(part)) {
                let known = sensors.entry(*part).or_default();
                *known = format!("{known} {}", text.text().unwrap_or_default());
            }
        }
        sensors.retain(|_, text| is_receiver(text));
        if sensors.is_empty() {
            return Ok(None);
        }
        let within = by_part(agent.column(&object(&ENT_PHYSICAL, ENT_CONTAINED_IN, None))?);
        let within = within.into_iter().filter_map(|(part, container)| Some((part, container.unsigned()?))).collect();
        let mut ports: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for (index, alias) in agent.column(&object(&ENT_ALIAS, ENT_ALIAS_IDENTIFIER, None))? {
            let SnmpValue::Identifier(alias) = alias else { continue };
            if let (Some(part), Some([if_index])) = (index.first(), alias.strip_prefix(&IF_INDEX[..])) {
                ports.entry(*if_index).or_default().insert(*part);
            }
        }
        Ok(Some(Inventory { sensors, within, ports }))
    }

    /// The receivers of an interface: those within the smallest container of its port that has any and has no other port; else those that name the
    /// interface.
    fn receivers(&self, if_index: u64, if_name: &str) -> Vec<u64> {
        let own = self.ports.get(&if_index);
        let placed = own.into_iter().flatten().find_map(|port| self.receivers_near(*port, if_index));
        let named = || self.sensors.iter().filter(|(_, text)| names(text, if_name)).map(|(part, _)| *part).collect();
        let mut found: Vec<u64> = placed.unwrap_or_else(named);
        found.truncate(RECEIVERS_MAX);
        found
    }

    fn receivers_near(&self, port: u64, if_index: u64) -> Option<Vec<u64>> {
        let others = self.ports.iter().filter(|(index, _)| **index != if_index).flat_map(|(_, parts)| parts);
        let shared: BTreeSet<u64> = others.flat_map(|part| self.containers(*part)).collect();
        for container in self.containers(port) {
            if shared.contains(&container) {
                return None;
            }
            let inside = self.sensors.keys().filter(|sensor| self.containers(**sensor).contains(&container));
            let inside: Vec<u64> = inside.copied().collect();
            if !inside.is_empty() {
                return Some(inside);
            }
        }
        None
    }

    /// A part, and the parts that it is within, the smallest first.
    fn containers(&self, part: u64) -> Vec<u64> {
        let next = |part: &u64| self.within.get(part).copied().filter(|container| *container != 0);
        std::iter::successors(Some(part), next).take(DEPTH_MAX).collect()
    }
}

/// The cells of a column by the number of their part.
fn by_part(rows: Vec<super::agent::IndexedValue>) -> BTreeMap<u64, SnmpValue> {
    rows.into_iter().filter_map(|(index, cell)| Some((*index.first()?, cell))).collect()
}

#[cfg(test)]
mod tests;
