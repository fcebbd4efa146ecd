//! The time at which perfSONAR's dashboard would have shown a fault on the same data, by its shipped thresholds (Grafana agent 5.2): loss
//! among a minute's 600 packets is yellow from 1 % on, a round trip from 1 s on.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use watch::archive::Level;
use watch::archive::columns::LATENCY;
use watch::archive::store::{Archive, SeriesKey};

use super::mesh::{SITES, segments};
use super::trial::Outcome;

/// Packets of a minute of latency.
const MINUTE_PACKETS: f64 = 600.0;
const YELLOW_LOSS: f64 = 0.01;

/// The time from the fault until the first of its paths would have been yellow; none if no path would have been.
///
/// # Errors
/// The archive cannot be read.
pub async fn yellow_after(archive: &Archive, outcome: &Outcome) -> Result<Option<Duration>> {
    let ms = |at: SystemTime| at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let [begin, end] = outcome.span.map(ms);
    let column = |name: &str| LATENCY.iter().position(|column| column.name == name).unwrap_or_default();
    let mut first: Option<i64> = None;
    for (at, from) in SITES.iter().enumerate() {
        for to in &SITES[at + 1..] {
            let passes = |from: &str, to: &str| segments(from, to).iter().any(|passed| passed == outcome.fault.segment);
            let lost = match (passes(from, to), passes(to, from)) {
                (true, _) => column("lost_forward"),
                (_, true) => column("lost_reverse"),
                _ => continue,
            };
            let key = SeriesKey { from: (*from).into(), to: (*to).into(), test: "latency".into() };
            let rows = archive.rows(&key, Level::Raw, begin, end).await?;
            let mut sent = 0.0;
            let mut missing = 0.0;
            for row in &rows {
                sent += row.values[column("sent")].unwrap_or_default() as f64;
                missing += row.values[lost].unwrap_or_default() as f64;
                if sent >= MINUTE_PACKETS {
                    if missing / sent >= YELLOW_LOSS {
                        first = Some(first.map_or(row.at, |earliest| earliest.min(row.at)));
                    }
                    (sent, missing) = (0.0, 0.0);
                }
            }
        }
    }
    Ok(first.map(|at| Duration::from_millis((at - begin).max(0).unsigned_abs())))
}
