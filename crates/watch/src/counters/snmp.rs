//! Counters by SNMP v2c: the interfaces MIB (RFC 2863).

use std::time::Duration;

use snmp2::{Oid, SyncSession, Value};

use super::Reading;
use crate::time;

/// How long an agent may take to answer.
const SILENCE: Duration = Duration::from_secs(2);
/// Requests before an agent is given up: a datagram may be lost.
const TRIES: usize = 3;
/// Interfaces of one agent that are searched for a name.
const INTERFACES_MAX: usize = 10_000;

/// Columns of ifTable (1.3.6.1.2.1.2.2.1) and of ifXTable (1.3.6.1.2.1.31.1.1.1).
const IF_TABLE: [u64; 9] = [1, 3, 6, 1, 2, 1, 2, 2, 1];
const IF_X_TABLE: [u64; 10] = [1, 3, 6, 1, 2, 1, 31, 1, 1, 1];
const IF_IN_DISCARDS: u64 = 13;
const IF_IN_ERRORS: u64 = 14;
const IF_OUT_DISCARDS: u64 = 19;
const IF_OUT_ERRORS: u64 = 20;
const IF_NAME: u64 = 1;
const IF_HC_IN_OCTETS: u64 = 6;
const IF_HC_OUT_OCTETS: u64 = 10;
/// In Mbit/s.
const IF_HIGH_SPEED: u64 = 15;

fn oid(table: &[u64], column: u64, index: Option<u64>) -> Result<Oid<'static>, String> {
    let numbers: Vec<u64> = table.iter().copied().chain([column]).chain(index).collect();
    Oid::from(&numbers).map_err(|error| format!("an SNMP object identifier is invalid: {error:?}"))
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Counter64(number) => Some(*number),
        Value::Counter32(number) | Value::Unsigned32(number) => Some(u64::from(*number)),
        Value::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// Reads an interface, by its number or its ifName, of the agent at an address.
///
/// # Errors
/// The agent does not answer, or has no such interface.
pub fn read(agent: &str, interface: &str, community: &str) -> Result<Reading, String> {
    let opened = SyncSession::new_v2c(agent, community.as_bytes(), Some(SILENCE), fastrand::i32(1..i32::MAX / 2));
    let mut session = Box::new(opened.map_err(|error| format!("the SNMP agent {agent}: {error}"))?);
    let index = match interface.parse() {
        Ok(number) => number,
        Err(_) => index_of(&mut session, agent, interface)?,
    };
    let objects = [
        oid(&IF_X_TABLE, IF_HC_IN_OCTETS, Some(index))?,
        oid(&IF_X_TABLE, IF_HC_OUT_OCTETS, Some(index))?,
        oid(&IF_TABLE, IF_IN_ERRORS, Some(index))?,
        oid(&IF_TABLE, IF_OUT_ERRORS, Some(index))?,
        oid(&IF_TABLE, IF_IN_DISCARDS, Some(index))?,
        oid(&IF_TABLE, IF_OUT_DISCARDS, Some(index))?,
        oid(&IF_X_TABLE, IF_HIGH_SPEED, Some(index))?,
    ];
    let requested: Vec<&Oid> = objects.iter().collect();
    let values = retry(|| {
        let answer = session.get_many(&requested).map_err(|error| no_answer(agent, &error))?;
        Ok(answer.varbinds.map(|(_, value)| number(&value)).collect::<Vec<_>>())
    })?;
    let [in_octets, out_octets, in_errors, out_errors, in_discards, out_discards, speed] = values[..] else {
        return Err(format!("the SNMP agent {agent} answers {} of {} objects", values.len(), requested.len()));
    };
    if in_octets.is_none() && out_octets.is_none() {
        return Err(format!("the SNMP agent {agent} has no interface {interface} with 64-bit counters (ifXTable)"));
    }
    Ok(Reading {
        at: time::now(),
        in_octets,
        out_octets,
        in_errors,
        out_errors,
        discards: in_discards.zip(out_discards).map(|(received, sent)| received.saturating_add(sent)),
        capacity_bit_s: speed.filter(|speed| *speed > 0).map(|speed| speed as f64 * 1e6),
        ..Reading::default()
    })
}

fn no_answer(agent: &str, error: &snmp2::Error) -> String {
    format!("the SNMP agent {agent} does not answer (address, port, community?): {error}")
}

fn retry<T>(mut request: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let mut last = request();
    for _ in 1..TRIES {
        if last.is_ok() {
            break;
        }
        last = request();
    }
    last
}

/// The number of an interface by its ifName.
fn index_of(session: &mut SyncSession, agent: &str, name: &str) -> Result<u64, String> {
    let column = oid(&IF_X_TABLE, IF_NAME, None)?;
    let mut at = column.clone();
    for _ in 0..INTERFACES_MAX {
        let (next, found) = retry(|| {
            let mut answer = session.getnext(&at).map_err(|error| no_answer(agent, &error))?;
            let (next, value) = answer.varbinds.next().ok_or("its answer is empty")?;
            let found = matches!(value, Value::OctetString(text) if text == name.as_bytes());
            Ok((next.to_owned(), found))
        })?;
        if !next.starts_with(&column) || next == at {
            break;
        }
        if found {
            let index = next.iter().and_then(|numbers| numbers.last());
            return index.ok_or_else(|| format!("the SNMP agent {agent} numbers {name} beyond 64 bits"));
        }
        at = next;
    }
    Err(format!("the SNMP agent {agent} has no interface {name:?} (ifName)"))
}

#[cfg(test)]
mod tests;
