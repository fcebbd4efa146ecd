//! Orders the sources of a file by the time at which the file is expected to arrive from each.

use std::collections::HashMap;
use std::time::Duration;

use sched::sources::Source;

use crate::database::submissions::{NewFile, NewJob, QueueKey};
use crate::snapshot::{Pair, Snapshot};
use crate::states::FileState;
use crate::topology::Topology;

/// The time that is added for a stopped source, since nobody knows how long it will be stopped.
const STOPPED_DELAY: Duration = Duration::from_secs(24 * 3600);

/// Puts the rows of each file of a job in the order in which its sources are to be tried. A file that is assigned to a pair counts as
/// queued there for the files after it, so that a job is divided among its sources.
pub fn order(job: &mut NewJob, topology: &Topology, snapshot: &Snapshot) {
    let mut assigned: HashMap<Pair, f64> = HashMap::new();
    for rows in job.files.chunk_by_mut(|a, b| a.at == b.at).filter(|rows| rows.len() > 1) {
        let expected = |row: &NewFile| {
            let pair = pair(&row.queue);
            let seen = snapshot.pairs.get(&pair).copied().unwrap_or_default();
            let is_stopped = topology.stopped(&row.queue.source, &row.queue.target, &row.queue.community).is_some();
            let source = Source {
                rate: seen.rate.or_else(|| described(topology, &row.queue)),
                queued: seen.queued_bytes + assigned.get(&pair).copied().unwrap_or(0.0),
                startup: if is_stopped { STOPPED_DELAY } else { Duration::ZERO },
                failed: 0,
            };
            source.expected(row.bytes as f64)
        };
        // Equal sources stay in the order in which they were named.
        rows.sort_by_cached_key(expected);
        for (rank, row) in rows.iter_mut().enumerate() {
            row.state = if rank == 0 { FileState::Queued } else { FileState::Standby };
        }
        *assigned.entry(pair(&rows[0].queue)).or_default() += rows[0].bytes as f64;
    }
}

fn pair(queue: &QueueKey) -> Pair {
    (queue.source.clone(), queue.target.clone())
}

/// The lowest rate of the described resources between two endpoints; `None` if none are described.
fn described(topology: &Topology, queue: &QueueKey) -> Option<f64> {
    let path = topology.path(&queue.source, &queue.target, &queue.community);
    let rates = path.iter().map(|resource| topology.resources[*resource as usize].below_mark());
    rates.reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use model::v1::hub::JobOrder;

    use super::*;
    use crate::admission::admit;
    use crate::roles::Member;
    use crate::snapshot::SeenPair;

    fn job(files: usize) -> NewJob {
        let file = r#"{"sources": ["lh://a/d/1", "lh://b/d/1", "lh://c/d/1"], "target": "lh://t/d/1", "bytes": 1000}"#;
        let order: JobOrder =
            serde_json::from_str(&format!(r#"{{"files": [{}]}}"#, vec![file; files].join(","))).unwrap();
        admit(&order, &Member::user("ann", "astro"), &Topology::default(), 1).unwrap()
    }

    fn seen(rates: &[(&str, f64, f64)]) -> Snapshot {
        let pair = |(source, rate, queued_bytes): &(&str, f64, f64)| {
            let seen = SeenPair { rate: Some(*rate), queued_bytes: *queued_bytes };
            ((format!("lh://{source}"), "lh://t".to_owned()), seen)
        };
        Snapshot { pairs: rates.iter().map(pair).collect(), ..Snapshot::default() }
    }

    fn tried(job: &NewJob) -> Vec<(&str, FileState)> {
        job.files.iter().map(|row| (row.queue.source.as_str(), row.state)).collect()
    }

    #[test]
    fn the_source_that_is_expected_to_end_first_is_tried_first() {
        let mut job = job(1);
        order(&mut job, &Topology::default(), &seen(&[("a", 10.0, 0.0), ("b", 1e6, 1e9), ("c", 1e6, 0.0)]));
        let (queued, standby) = (FileState::Queued, FileState::Standby);
        assert_eq!(tried(&job), [("lh://c", queued), ("lh://a", standby), ("lh://b", standby)]);
    }

    #[test]
    fn a_job_is_divided_among_its_sources() {
        let mut job = job(40);
        order(&mut job, &Topology::default(), &seen(&[("a", 3000.0, 0.0), ("b", 1000.0, 0.0), ("c", 1.0, 0.0)]));
        let queued = |source: &str| {
            tried(&job).iter().filter(|(name, state)| *name == source && *state == FileState::Queued).count()
        };
        assert_eq!((queued("lh://a"), queued("lh://b"), queued("lh://c")), (30, 10, 0));
    }

    #[test]
    fn stopped_sources_come_last_and_unknown_sources_keep_their_order() {
        let mut job = job(1);
        order(&mut job, &Topology::default(), &Snapshot::default());
        assert_eq!(tried(&job)[0].0, "lh://a");
        let toml = "[endpoint.a]\nurls = [\"lh://a\"]\nstopped = { reason = \"works\" }";
        let topology = Topology::new(toml::from_str(toml).unwrap()).unwrap();
        let order_json = r#"{"files": [{"sources": ["lh://a/d/1", "lh://b/d/1"], "target": "lh://t/d/1"}]}"#;
        let job_order: JobOrder = serde_json::from_str(order_json).unwrap();
        let mut job = admit(&job_order, &Member::user("ann", "astro"), &topology, 1).unwrap();
        order(&mut job, &topology, &Snapshot::default());
        assert_eq!(tried(&job)[0], ("lh://b", FileState::Queued));
    }
}
