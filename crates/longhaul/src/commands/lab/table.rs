//! The numbers of a lab as tables.

use std::time::Duration;

use model::units::{BitRate, Bytes};
use model::{duration, v1};

/// Formats rows with columns as wide as their widest cell.
fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(at, cell)| format!("{cell:<0$}", width(at).unwrap_or(0)));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Sites and their addresses.
pub fn sites(lab: &v1::Lab) -> Vec<String> {
    let rows: Vec<_> =
        lab.sites.iter().map(|site| vec![format!("  {}", site.site), site.addresses.join("  ")]).collect();
    columns(&rows)
}

fn causes(link: &v1::LabLink) -> String {
    let counts = [
        ("queue full", link.queue_dropped),
        ("policed", link.policed),
        ("lost", link.lost),
        ("down", link.down),
        ("black hole", link.black_hole),
    ];
    let dropped = counts.iter().filter(|(_, count)| *count > 0).map(|(cause, count)| format!("{cause} {count}"));
    let others = [
        ("twice", link.duplicated),
        ("late", link.reordered),
        ("damaged", link.corrupted),
        ("damaged silently", link.corrupted_silently),
    ];
    let others = others.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{what} {count}"));
    let all = dropped.chain(others).collect::<Vec<_>>().join(", ");
    if all.is_empty() { "-".into() } else { all }
}

fn state(link: &v1::LabLink) -> String {
    let delay = format!("{:.2} ms", link.delay_s * 1e3);
    let rate = link.rate_bit_s.map_or("no bottleneck".into(), |rate| BitRate(rate).to_string());
    if link.is_down { format!("{delay}, DOWN") } else { format!("{delay}, {rate}") }
}

/// Every direction of every path and uplink, or only those that carried something.
pub fn links(lab: &v1::Lab, only_used: bool) -> Vec<String> {
    let titles =
        ["PATH", "DIRECTION", "NOW", "IN segments", "OUT", "DROPPED, DISTURBED", "QUEUE now / most", "LATE p99"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(lab.links.iter().filter(|link| link.segments > 0 || !only_used).map(|link| {
        let member = link.member.map(|member| format!(" #{member}")).unwrap_or_default();
        vec![
            format!("{}{member}", link.name),
            format!("{} -> {}", link.from, link.to),
            state(link),
            link.segments.to_string(),
            Bytes(link.out_bytes).to_string(),
            causes(link),
            format!("{} / {}", Bytes(link.queue_bytes), Bytes(link.queue_peak_bytes)),
            format!("{:.2} ms", link.late_p99_s * 1e3),
        ]
    }));
    columns(&rows)
}

/// The whole status: sites, links and the emulator.
pub fn status(lab: &v1::Lab) -> Vec<String> {
    let up = duration::show(Duration::from_secs_f64(lab.seconds));
    let mut lines = vec![format!("lab {}: up {up}, process {}, back end {}", lab.lab, lab.pid, lab.back_end)];
    lines.extend(sites(lab));
    lines.extend(links(lab, false).into_iter().map(|line| format!("  {line}")));
    let emulator = &lab.emulator;
    let refused = [
        ("without a recipient", emulator.unroutable),
        ("TTL ended", emulator.expired),
        ("larger than the path's MTU", emulator.too_big),
        ("firewalled", emulator.firewalled),
    ];
    let refused: Vec<_> =
        refused.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{n} packets {what}")).collect();
    if !refused.is_empty() {
        lines.push(format!("  refused: {}", refused.join(", ")));
    }
    let memory =
        format!("{} of packets in flight (most: {})", Bytes(emulator.memory_bytes), Bytes(emulator.memory_peak_bytes));
    let priority = if emulator.real_time { "real-time" } else { "ordinary (it may be late: needs CAP_SYS_NICE)" };
    lines.push(format!("  emulator: {:.1} s of processor time, {priority} priority, {memory}", emulator.cpu_s));
    match &lab.emulator_limited {
        Some(why) => lines.push(format!("  emulator-limited: {why}")),
        None => lines.push("  the lab itself was not the limit".into()),
    }
    lines
}
