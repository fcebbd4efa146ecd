//! The settings of a NIC's driver by the names that rules use, and the text of each value.
//!
//! Numbers are decimal; switches are `on` or `off`; facts `yes` or `no`; the items of a list are separated by spaces.

use std::collections::BTreeMap;

use sys::ethtool::{Nic, Number};

use super::{host_result, number, unknown};
use crate::host::{HostError, HostResult};

/// The least power that a module measures, mW: 0.1 uW, -40 dBm (SFF-8472, SFF-8636).
const DARK_MW: f64 = 1e-4;

/// Counters of pause frames in both directions, by the drivers' names: mlx5; bnxt, cxgb4, tg3; mlx4, sfc; igb, e1000e, ixgbe; i40e; ice.
/// Not those of a single priority, nor those of the length of pauses.
const PAUSE_FRAMES: [&str; 22] = [
    "rx_pause_ctrl_phy",
    "tx_pause_ctrl_phy",
    "rx_pause_frames",
    "tx_pause_frames",
    "rx_xon_pause_rcvd",
    "rx_xoff_pause_rcvd",
    "tx_xon_sent",
    "tx_xoff_sent",
    "rx_pause",
    "tx_pause",
    "rx_flow_control_xon",
    "rx_flow_control_xoff",
    "tx_flow_control_xon",
    "tx_flow_control_xoff",
    "port.link_xon_rx",
    "port.link_xoff_rx",
    "port.link_xon_tx",
    "port.link_xoff_tx",
    "link_xon_rx.nic",
    "link_xoff_rx.nic",
    "link_xon_tx.nic",
    "link_xoff_tx.nic",
];

/// The kernel's object behind a name.
#[derive(Clone, Copy)]
enum SettingKind {
    /// A number that may be changed.
    Count(Number),
    /// A bound of the hardware.
    Bound(Number),
    /// A switch.
    Switch(Number),
}

/// The numbers, by name.
fn named(what: &str) -> Option<SettingKind> {
    use SettingKind::{Bound, Count, Switch};
    Some(match what {
        "ring.rx" => Count(Number::RingRx),
        "ring.rx.max" => Bound(Number::RingRxMax),
        "ring.tx" => Count(Number::RingTx),
        "ring.tx.max" => Bound(Number::RingTxMax),
        "coalesce.rx_usecs" => Count(Number::CoalesceRxUsecs),
        "coalesce.rx_frames" => Count(Number::CoalesceRxFrames),
        "coalesce.tx_usecs" => Count(Number::CoalesceTxUsecs),
        "coalesce.tx_frames" => Count(Number::CoalesceTxFrames),
        "coalesce.adaptive_rx" => Switch(Number::CoalesceAdaptiveRx),
        "coalesce.adaptive_tx" => Switch(Number::CoalesceAdaptiveTx),
        "pause.autoneg" => Switch(Number::PauseAutoneg),
        "pause.rx" => Switch(Number::PauseRx),
        "pause.tx" => Switch(Number::PauseTx),
        "channels.rx" => Count(Number::ChannelsRx),
        "channels.rx.max" => Bound(Number::ChannelsRxMax),
        "channels.tx" => Count(Number::ChannelsTx),
        "channels.tx.max" => Bound(Number::ChannelsTxMax),
        "channels.combined" => Count(Number::ChannelsCombined),
        "channels.combined.max" => Bound(Number::ChannelsCombinedMax),
        _ => return None,
    })
}

/// Reads a setting.
pub(super) fn read(nic: &str, what: &str) -> HostResult<String> {
    let nic = host_result(Nic::new(nic))?;
    match (named(what), what.split_once('.')) {
        (Some(SettingKind::Count(which) | SettingKind::Bound(which)), _) => {
            Ok(host_result(nic.number(which))?.to_string())
        }
        (Some(SettingKind::Switch(which)), _) => Ok(switch(host_result(nic.number(which))? != 0)),
        (None, Some(("feature", name))) => feature(&nic, name),
        (None, Some(("stat", name))) => counter(&host_result(nic.statistics())?, name),
        (None, Some(("link", what))) => link(&nic, what),
        (None, _) => fact(&nic, what),
    }
}

/// Changes a setting that can be changed.
pub(super) fn write(nic: &str, what: &str, value: &str) -> HostResult<()> {
    let nic = host_result(Nic::new(nic))?;
    match (named(what), what.strip_prefix("feature.")) {
        (Some(SettingKind::Count(which)), _) => host_result(nic.set_number(which, number(value)?)),
        (Some(SettingKind::Switch(which)), _) => host_result(nic.set_number(which, u32::from(is_on(value)?))),
        (None, Some(name)) => host_result(nic.set_feature(name, is_on(value)?)),
        _ => unknown(what),
    }
}

fn fact(nic: &Nic, what: &str) -> HostResult<String> {
    match what {
        // Name and release: a rule's `has = mlx5` compares the beginning.
        "driver" => {
            host_result(nic.driver()).map(|driver| format!("{} {}", driver.name, driver.version).trim().to_owned())
        }
        "firmware" => host_result(nic.driver()).and_then(|driver| non_empty(driver.firmware)),
        "bus" => host_result(nic.driver()).and_then(|driver| non_empty(driver.bus)),
        "fec" => host_result(nic.error_correction()).and_then(|kinds| non_empty(kinds.join(" "))),
        "timestamping" => host_result(nic.stamping_kinds()).and_then(|kinds| non_empty(kinds.join(" "))),
        "timestamping.on" => host_result(nic.stamps_arrivals()).map(yes_or_no),
        "ntuple.rules" => host_result(nic.steering_rules()).map(|rules| rules.to_string()),
        "rss.spread" => {
            host_result(nic.indirection_table()).and_then(|(table, queues)| is_even(&table, queues)).map(yes_or_no)
        }
        "module.rx_dbm" => host_result(nic.light_mw()).map(|lanes| dbm(&lanes)),
        _ => unknown(what),
    }
}

/// Some drivers leave a field empty, or fill it with a placeholder.
fn non_empty(text: String) -> HostResult<String> {
    if text.is_empty() || text == "N/A" { Err(HostError::Absent) } else { Ok(text) }
}

fn switch(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

fn yes_or_no(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

fn is_on(value: &str) -> HostResult<bool> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(HostError::Failed(format!("a switch is on or off, not {other:?}"))),
    }
}

/// `NAME`: whether a feature is on; `NAME.fixed`: whether the driver does not let it be changed.
fn feature(nic: &Nic, name: &str) -> HostResult<String> {
    let all = host_result(nic.features())?;
    let find = |name: &str| all.iter().find(|(known, _)| known == name).map(|(_, feature)| *feature);
    match name.strip_suffix(".fixed") {
        Some(name) => find(name).map(|feature| yes_or_no(feature.fixed)),
        None => find(name).map(|feature| switch(feature.on)),
    }
    .ok_or(HostError::Absent)
}

/// A counter; for pause frames, the sum of all counters of the driver.
fn counter(all: &[(String, u64)], name: &str) -> HostResult<String> {
    let matches = |known: &str| if name == "pause_frames" { PAUSE_FRAMES.contains(&known) } else { known == name };
    let counts = all.iter().filter(|(known, _)| matches(known)).map(|(_, count)| *count);
    counts.reduce(u64::saturating_add).map(|count| count.to_string()).ok_or(HostError::Absent)
}

fn link(nic: &Nic, what: &str) -> HostResult<String> {
    let link = host_result(nic.link())?;
    let not_known = || HostError::Failed("the link is down, or the driver does not report it".into());
    match what {
        "speed_mbit_s" => link.speed_mbit_s.map(|speed| speed.to_string()).ok_or_else(not_known),
        "duplex" => link.full_duplex.map(|full| if full { "full" } else { "half" }.to_owned()).ok_or_else(not_known),
        "autoneg" => Ok(switch(link.negotiated)),
        _ => unknown(what),
    }
}

/// Whether each queue has its share of the table, to one entry if the queues do not divide it.
fn is_even(table: &[u32], queues: u32) -> HostResult<bool> {
    if table.is_empty() || queues == 0 {
        return Err(HostError::Absent);
    }
    let mut shares: BTreeMap<u32, usize> = BTreeMap::new();
    for queue in table {
        *shares.entry(*queue).or_default() += 1;
    }
    let least = if shares.len() < queues as usize { 0 } else { shares.values().copied().min().unwrap_or(0) };
    Ok(shares.values().all(|share| *share <= least + 1))
}

/// Power of each lane, dBm.
fn dbm(lanes_mw: &[f64]) -> String {
    let lanes: Vec<String> = lanes_mw.iter().map(|mw| format!("{:.2}", 10.0 * mw.max(DARK_MW).log10())).collect();
    lanes.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_spreads_flows_evenly_is_recognised() {
        assert_eq!(is_even(&[0, 1, 2, 3, 0, 1, 2, 3], 4), Ok(true));
        assert_eq!(is_even(&[0, 1, 2, 0, 1, 2, 0, 1], 3), Ok(true), "three do not divide eight");
        assert_eq!(is_even(&[0, 1, 0, 1, 0, 1, 0, 1], 4), Ok(false), "two queues have nothing");
        assert_eq!(is_even(&[0, 0, 0, 1], 2), Ok(false));
        assert_eq!(is_even(&[0, 1], 4), Ok(true), "there are more queues than entries");
        assert_eq!(is_even(&[], 4), Err(HostError::Absent));
    }

    #[test]
    fn pause_counters_are_summed() {
        let all = [
            ("rx_pause_ctrl_phy".to_owned(), 3),
            ("tx_pause_ctrl_phy".to_owned(), 4),
            ("rx_prio0_pause".to_owned(), 9),
        ];
        assert_eq!(counter(&all, "pause_frames"), Ok("7".into()));
        assert_eq!(counter(&all, "rx_prio0_pause"), Ok("9".into()));
        assert_eq!(counter(&all[2..], "pause_frames"), Err(HostError::Absent), "the driver does not count them");
    }

    #[test]
    fn light_power_and_switches_are_converted() {
        assert_eq!(dbm(&[1.0, 0.5, 0.0]), "0.00 -3.01 -40.00");
        assert_eq!((is_on("on"), is_on("off")), (Ok(true), Ok(false)));
        assert!(is_on("off [fixed]").is_err() && number("-1").is_err());
        assert_eq!(non_empty("N/A".into()), Err(HostError::Absent));
    }

    #[test]
    fn bounds_of_the_hardware_are_not_changed() {
        assert!(matches!(write("lo", "ring.rx.max", "1"), Err(HostError::Failed(_))));
        assert!(matches!(read("lo", "no.such.thing"), Err(HostError::Failed(_))));
    }
}
