//! Counters by SNMP: the interfaces MIB (RFC 2863), and light ([`light`]).

mod agent;
mod light;

use agent::{Agent, SnmpValue};
use light::Receivers;

use super::Reading;
use crate::config::SnmpLogin;
use crate::time;

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

/// The identifier of a column, or of its cell at an index.
fn object(table: &[u64], column: u64, index: Option<u64>) -> Vec<u64> {
    table.iter().copied().chain([column]).chain(index).collect()
}

/// ifName, and the cells that a reading is made from.
type InterfaceValues = [SnmpValue; 8];

/// An interface of an agent, with what is known of it from earlier readings.
pub struct SnmpInterface {
    agent: Agent,
    /// Its number, or its ifName.
    wanted: String,
    is_numbered: bool,
    /// Its number; none before an interface with the wanted name was looked for.
    index: Option<u64>,
    receivers: Receivers,
}

impl SnmpInterface {
    /// An interface, by its number or its ifName, of the agent at `HOST:PORT`. Nothing is sent yet.
    pub fn new(agent: &str, interface: &str, login: SnmpLogin) -> SnmpInterface {
        let index = interface.parse().ok();
        let agent = Agent::new(agent, login);
        SnmpInterface {
            agent,
            wanted: interface.to_owned(),
            is_numbered: index.is_some(),
            index,
            receivers: Receivers::default(),
        }
    }

    /// Reads the interface now.
    ///
    /// # Errors
    /// The agent does not answer, does not accept the community or the user, or has no such interface.
    pub fn read(&mut self) -> Result<Reading, String> {
        let reading = self.read_by_session();
        self.agent.drop_community_session();
        reading
    }

    fn read_by_session(&mut self) -> Result<Reading, String> {
        let (index, cells) = self.current_cells()?;
        let if_name = cells[0].text().unwrap_or_default();
        let light_in_dbm = self.receivers.read(&mut self.agent, index, if_name).unwrap_or_else(|why| {
            // Octets without light are better than neither.
            tracing::warn!(interface = self.wanted, why, "the light of an interface cannot be read");
            None
        });
        let [_, in_octets, out_octets, in_errors, out_errors, in_discards, out_discards, speed] =
            cells.each_ref().map(SnmpValue::unsigned);
        if in_octets.is_none() && out_octets.is_none() {
            let (agent, interface) = (self.agent.address(), &self.wanted);
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
            light_in_dbm,
            ..Reading::default()
        })
    }

    /// The number and the cells of the interface. The number may have changed with a restart of the agent.
    fn current_cells(&mut self) -> Result<(u64, InterfaceValues), String> {
        if let Some(index) = self.index {
            let cells = self.cells(index)?;
            if self.is_numbered || cells[0].text() == Some(&self.wanted) {
                return Ok((index, cells));
            }
        }
        let index = self.index_of_name()?;
        self.index = Some(index);
        self.receivers = Receivers::default();
        Ok((index, self.cells(index)?))
    }

    fn cells(&mut self, index: u64) -> Result<InterfaceValues, String> {
        self.agent.get([
            object(&IF_X_TABLE, IF_NAME, Some(index)),
            object(&IF_X_TABLE, IF_HC_IN_OCTETS, Some(index)),
            object(&IF_X_TABLE, IF_HC_OUT_OCTETS, Some(index)),
            object(&IF_TABLE, IF_IN_ERRORS, Some(index)),
            object(&IF_TABLE, IF_OUT_ERRORS, Some(index)),
            object(&IF_TABLE, IF_IN_DISCARDS, Some(index)),
            object(&IF_TABLE, IF_OUT_DISCARDS, Some(index)),
            object(&IF_X_TABLE, IF_HIGH_SPEED, Some(index)),
        ])
    }

    /// The number of the interface by its ifName.
    fn index_of_name(&mut self) -> Result<u64, String> {
        let names = self.agent.column(&object(&IF_X_TABLE, IF_NAME, None))?;
        let found = names.into_iter().find(|(_, name)| name.text() == Some(&self.wanted));
        let index = found.and_then(|(index, _)| index.last().copied());
        index.ok_or_else(|| {
            format!("the SNMP agent {} has no interface {:?} (ifName)", self.agent.address(), self.wanted)
        })
    }
}

#[cfg(test)]
mod tests;
