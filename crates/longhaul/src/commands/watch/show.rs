//! Grid, history, alarms and explanations as text. A state is a word and a mark, so that no colour is needed.

use std::time::Duration;

use model::duration;
use model::units::{BitRate, Bytes};
use model::v1::watch::{Alarm, Explained, Grid, Half, Health, History, Interface, NodeTraffic, Talker, Talkers, Why};
use serde_json::Value;

/// The columns of a history that are shown.
const SHOWN_COLUMNS: [&str; 17] = [
    "sent",
    "lost_forward",
    "lost_reverse",
    "lost_unplaced",
    "rtt_min_us",
    "rtt_median_us",
    "rtt_p95_us",
    "rate_bit_s",
    "resent_ppm",
    "hops_forward",
    "hops_reverse",
    "mtu_forward",
    "in_bit_s",
    "out_bit_s",
    "in_errors",
    "out_errors",
    "light_in_mdbm",
];

fn mark(health: Health) -> &'static str {
    match health {
        Health::Ok => "+",
        Health::Warning => "!",
        Health::Critical => "X",
        Health::Unknown => "?",
    }
}

fn half(half: &Half) -> String {
    format!("{} {}", mark(half.health), half.text)
}

/// A line for each cell, the worst first.
pub fn grid_lines(grid: &Grid) -> Vec<String> {
    let width = |of: fn(&model::v1::watch::Cell) -> usize| grid.cells.iter().map(of).max().unwrap_or(0);
    let from = width(|cell| cell.from.len());
    let to = width(|cell| cell.to.len());
    let mut cells: Vec<_> = grid.cells.iter().collect();
    let rank = |health: Health| match health {
        Health::Critical => 0,
        Health::Warning => 1,
        Health::Unknown => 2,
        Health::Ok => 3,
    };
    cells.sort_by_key(|cell| (rank(cell.forward.health.worse(cell.reverse.health)), &cell.from, &cell.to, &cell.test));
    let line = |cell: &&model::v1::watch::Cell| {
        format!(
            "{:from$}  {:to$}  {:10}  forward {:32}  reverse {}",
            cell.from,
            cell.to,
            cell.test,
            half(&cell.forward),
            half(&cell.reverse)
        )
    };
    let mut lines: Vec<String> = cells.iter().map(line).collect();
    lines.push("+ ok  ! warning  X critical  ? unknown".into());
    lines
}

/// The health of the whole grid, and a line for a monitoring system.
pub fn grid_summary(grid: &Grid) -> (Health, String) {
    let halves = grid.cells.iter().flat_map(|cell| [cell.forward.health, cell.reverse.health]);
    let mut counts = [0usize; 4];
    halves.clone().for_each(|health| counts[health as usize] += 1);
    let health = halves.reduce(Health::worse).unwrap_or_default();
    let [ok, warning, critical, unknown] = counts;
    let line = format!(
        "{} - {ok} ok, {warning} warning, {critical} critical, {unknown} unknown | ok={ok} warning={warning} critical={critical} unknown={unknown}",
        health.word().to_uppercase()
    );
    (health, line)
}

/// A line of titles, and a line for each row. An unknown value is `-`.
pub fn history_lines(history: &History) -> Vec<String> {
    let column_indices: Vec<usize> = history
        .columns
        .iter()
        .enumerate()
        .filter(|(_, name)| SHOWN_COLUMNS.contains(&name.as_str()))
        .map(|(at, _)| at)
        .collect();
    let name = |at: &usize| format!("{:>14}", history.columns[*at]);
    let mut lines = vec![format!("{:20}{}", "from (UTC)", column_indices.iter().map(name).collect::<String>())];
    for row in &history.rows {
        let at = row.first().copied().flatten().unwrap_or(0.0);
        let time = jiff::Timestamp::from_second(at as i64).map_or_else(|_| at.to_string(), |time| time.to_string());
        let value = |at: &usize| match row.get(*at).copied().flatten() {
            Some(value) => format!("{value:>14}"),
            None => format!("{:>14}", "-"),
        };
        lines.push(format!("{time:20}{}", column_indices.iter().map(value).collect::<String>()));
    }
    lines.extend(history.annotations.iter().map(|note| format!("{}  {} ({})", note.at, note.text, note.by)));
    lines
}

/// An alarm: what is wrong, its cause and place, and the remedy.
pub fn alarm_lines(alarm: &Alarm) -> Vec<String> {
    let direction = alarm.direction.map_or("both directions", model::v1::probe::Direction::word);
    let ended = alarm.ended.as_ref().map_or(String::new(), |ended| format!(" until {ended}"));
    let mut lines = vec![
        format!(
            "{} {} {}: {} to {}, {direction}, since {}{ended}",
            alarm.id,
            alarm.severity.word(),
            alarm.kind.word(),
            alarm.from,
            alarm.to,
            alarm.since
        ),
        format!("    {}", alarm.evidence),
        format!("    cause: {}; where: {}", alarm.cause.word(), alarm.segment),
        format!("    {}", alarm.remedy),
    ];
    lines.extend(alarm.event.iter().map(|event| format!("    at about that time: {event}")));
    lines.extend(alarm.acknowledged.iter().map(|seen| format!("    seen by {}: {}", seen.by, seen.note)));
    lines
}

/// Both directions of a path, with their bounds and alarms.
pub fn why_lines(why: &Why) -> Vec<String> {
    let rtt = why.rtt_s.map_or(String::new(), |rtt| format!(", round trip {:.1} ms", rtt * 1e3));
    let mut lines = vec![format!("{} to {}{rtt}", why.from, why.to)];
    lines.extend(direction_lines("forward", &why.forward));
    lines.extend(direction_lines("reverse", &why.reverse));
    if why.alarms.is_empty() {
        lines.push("nothing is wrong that these tests can see".into());
    }
    lines.extend(why.alarms.iter().flat_map(alarm_lines));
    lines.push(format!("measured: {}", why.tests.join("; ")));
    lines
}

fn direction_lines(name: &str, side: &Explained) -> Vec<String> {
    let rate = |bit_s: f64| BitRate(bit_s.max(0.0) as u64).to_string();
    let known = |rate_bit_s: Option<f64>| rate_bit_s.map_or("not known".to_owned(), rate);
    let share = |loss: Option<f64>| loss.map_or("not known".to_owned(), |loss| format!("{:.5} %", loss * 100.0));
    let bound = side.expectation.bound_by.as_ref().map_or(String::new(), |term| format!(" ({term})"));
    let mut lines = vec![
        format!("{} {name}: {}", mark(side.health), side.health.word()),
        format!(
            "    expected {}{bound}, TCP gets {}",
            known(side.expectation.rate_bit_s),
            known(side.throughput_bit_s)
        ),
        format!(
            "    lost {} in 6 h, {} in 24 h of {} packets; the path allows {}",
            share(side.loss_6h),
            share(side.loss_24h),
            side.packets_24h,
            side.expectation.loss_allowed.map_or("an unknown share".to_owned(), |loss| format!("{loss:.1e}"))
        ),
    ];
    let term = |term: &model::v1::watch::Term| format!("      {} {}: {}", term.name, rate(term.rate_bit_s), term.text);
    lines.extend(side.expectation.terms.iter().map(term));
    if !side.hops.is_empty() {
        let hops: Vec<&str> = side.hops.iter().map(|hop| if hop.is_empty() { "*" } else { hop }).collect();
        let mtu = side.mtu_bytes.map_or(String::new(), |mtu| format!("; packets of up to {mtu} bytes pass"));
        lines.push(format!("    routers {}{mtu}", hops.join(" ")));
    }
    lines
}

/// A line for each address, the fastest first, then what each node moved.
pub fn talker_lines(found: &Talkers) -> Vec<String> {
    let width = found.talkers.iter().map(|talker| talker.address.len()).max().unwrap_or(0);
    let talker = |talker: &Talker| {
        format!(
            "{:width$}  {:>14}  sent {}, received {} ({})",
            talker.address,
            BitRate(talker.rate_bit_s).to_string(),
            Bytes(talker.bytes_sent),
            Bytes(talker.bytes_received),
            talker.nodes.join(", ")
        )
    };
    let node = |node: &NodeTraffic| {
        let span = duration::show(Duration::from_secs_f64(node.seconds.max(0.0)));
        format!("{}: {} in, {} out within {span}", node.node, Bytes(node.bytes_in), Bytes(node.bytes_out))
    };
    found.talkers.iter().map(talker).chain(found.nodes.iter().map(node)).collect()
}

/// A line for each interface, the fullest first.
pub fn interface_lines(interfaces: &[Interface]) -> Vec<String> {
    let width = interfaces.iter().map(|interface| interface.name.len()).max().unwrap_or(0);
    let side = |bit_s: Option<f64>, share: Option<f64>| {
        let rate = bit_s.map_or("not known".to_owned(), |rate| BitRate(rate.max(0.0) as u64).to_string());
        share.map_or(rate.clone(), |share| format!("{rate} ({:.0} %)", share * 100.0))
    };
    let fullest = |interface: &Interface| {
        interface.in_utilisation.into_iter().chain(interface.out_utilisation).fold(0.0, f64::max)
    };
    let line = |interface: &&Interface| {
        let light = interface.light_in_dbm.map_or(String::new(), |light| format!(", light {light:.1} dBm"));
        let error = interface.error.as_ref().map_or(String::new(), |error| format!("; {error}"));
        format!(
            "{:width$}  in {:22} out {:22} {} errors in 6 h{light}, read {}{error}",
            interface.name,
            side(interface.in_bit_s, interface.in_utilisation),
            side(interface.out_bit_s, interface.out_utilisation),
            interface.errors_6h,
            interface.at.as_deref().unwrap_or("never")
        )
    };
    let mut sorted: Vec<&Interface> = interfaces.iter().collect();
    sorted.sort_by(|a, b| fullest(b).total_cmp(&fullest(a)));
    sorted.iter().map(line).collect()
}

/// A line for each node.
pub fn node_lines(nodes: &[Value]) -> Vec<String> {
    let text = |node: &Value, field: &str| node[field].as_str().unwrap_or("-").to_owned();
    nodes
        .iter()
        .flat_map(|node| {
            let error = node["error"].as_str().map_or(String::new(), |error| format!("; {error}"));
            let head = format!(
                "{}: {} tests, {} measurements, last heard {}{error}",
                text(node, "node"),
                node["tests"],
                node["measurements"],
                text(node, "heard")
            );
            let refused = node["refused"].as_array().cloned().unwrap_or_default();
            let refused = refused.into_iter().map(|why| format!("    refused: {}", why.as_str().unwrap_or_default()));
            let disbelieved = node["disbelieved"].as_u64().filter(|count| *count > 0);
            let disbelieved =
                disbelieved.map(|count| format!("    {count} not believed: {}", text(node, "disbelieved_why")));
            std::iter::once(head).chain(refused).chain(disbelieved).collect::<Vec<_>>()
        })
        .collect()
}
