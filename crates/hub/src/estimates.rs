//! Estimates how long an order would take, from the recent rates of its pairs of endpoints and from the capacities on their paths.

use std::collections::BTreeMap;

use model::Refusal;
use model::v1::hub::{Estimate, JobOrder};

use crate::admission::admit;
use crate::roles::Member;
use crate::snapshot::Snapshot;
use crate::states::FileState;
use crate::topology::Topology;

/// The expected rate of a pair of endpoints.
struct PairRate {
    /// Bytes per second; `None` if nothing is known about the pair.
    rate: Option<f64>,
    /// What bounds the rate, in words.
    bound_by: String,
}

/// How long an order would take if it had its pairs of endpoints to itself.
///
/// # Errors
/// The order could not be submitted.
pub fn estimate(
    order: &JobOrder,
    member: &Member,
    topology: &Topology,
    snapshot: &Snapshot,
    now: i64,
) -> Result<Estimate, Refusal> {
    let job = admit(order, member, topology, now)?;
    let mut wanted: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for file in job.files.iter().filter(|file| file.state == FileState::Queued) {
        *wanted.entry((&file.queue.source, &file.queue.target)).or_default() += file.bytes;
    }
    let unsized_files = job.files.iter().filter(|file| file.state == FileState::Queued && file.bytes == 0).count();
    let bytes: i64 = wanted.values().sum();
    let mut estimate =
        Estimate { bytes: bytes.max(0) as u64, unsized_files: unsized_files as u64, ..Estimate::default() };
    let mut seconds = Some(0.0f64);
    for ((source, target), bytes) in &wanted {
        let PairRate { rate, bound_by } = pair_rate(topology, snapshot, source, target, &job.community);
        let pair_seconds = rate.filter(|rate| *rate > 0.0).map(|rate| *bytes as f64 / rate);
        if pair_seconds.zip(seconds).is_none_or(|(pair, longest)| pair >= longest) {
            estimate.bound_by = bound_by;
            estimate.rate_bit_s = rate.map(|rate| (rate * 8.0) as u64);
        }
        seconds = seconds.zip(pair_seconds).map(|(longest, pair)| longest.max(pair));
    }
    apply_limit(&mut estimate, &mut seconds, order.limit_bit_s.unwrap_or(0));
    estimate.seconds = seconds.filter(|_| unsized_files == 0);
    Ok(estimate)
}

/// Slows an estimate down to the rate limit of the job, if that is below the rate of its pairs of endpoints.
fn apply_limit(estimate: &mut Estimate, seconds: &mut Option<f64>, limit_bit_s: u64) {
    if limit_bit_s == 0 {
        return;
    }
    let limited = estimate.bytes as f64 * 8.0 / limit_bit_s as f64;
    if seconds.is_none_or(|seconds| seconds < limited) {
        *seconds = Some(limited);
        estimate.rate_bit_s = Some(limit_bit_s);
        estimate.bound_by = "the limit of the job".to_owned();
    }
}

fn pair_rate(topology: &Topology, snapshot: &Snapshot, source: &str, target: &str, community: &str) -> PairRate {
    let path = topology.path(source, target, community);
    let resources = path.iter().filter_map(|at| topology.resources.get(*at as usize));
    let narrowest = resources.map(|one| (one.below_mark(), one.of.name())).min_by(|a, b| a.0.total_cmp(&b.0));
    let pair = (source.to_owned(), target.to_owned());
    let seen = snapshot.pairs.get(&pair).and_then(|seen| seen.rate).filter(|rate| *rate > 0.0);
    match (narrowest, seen) {
        (Some((usable, name)), Some(seen)) if usable < seen => {
            PairRate { rate: Some(usable), bound_by: format!("the usable capacity of {name}") }
        }
        (_, Some(seen)) => {
            PairRate { rate: Some(seen), bound_by: format!("the rate last seen from {source} to {target}") }
        }
        (Some((usable, name)), None) => {
            PairRate { rate: Some(usable), bound_by: format!("the usable capacity of {name}") }
        }
        (None, None) => PairRate {
            rate: None,
            bound_by: format!(
                "nothing has moved from {source} to {target} within a day, and no link between them is described"
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::SeenPair;
    use model::v1::hub::FileOrder;

    const DESCRIBED: &str = "[site.a]
[site.b]
[endpoint.a]
site = \"a\"
urls = [\"lh://a/\"]
[endpoint.b]
site = \"b\"
urls = [\"lh://b/\"]
\
                             [link.wan]
capacity_bit_s = 8000000
[[route]]
from = \"a\"
to = \"b\"
links = [\"wan\"]
";

    fn of(described: &str, bytes: Option<u64>, seen: Option<f64>) -> Estimate {
        let topology = Topology::new(toml::from_str(described).unwrap()).unwrap();
        let mut snapshot = Snapshot::default();
        snapshot.pairs.insert(("a".into(), "b".into()), SeenPair { rate: seen, ..SeenPair::default() });
        let file = FileOrder {
            sources: vec!["lh://a/e/f".into()],
            target: "lh://b/e/f".into(),
            bytes,
            ..FileOrder::default()
        };
        let order = JobOrder { files: vec![file], ..JobOrder::default() };
        estimate(&order, &Member::user("ann", ""), &topology, &snapshot, 0).unwrap()
    }

    #[test]
    fn the_estimate_takes_the_lower_of_the_seen_rate_and_the_usable_capacity() {
        // 95 % of the link's 1 MB/s are payload.
        let by_link = of(DESCRIBED, Some(950_000), None);
        assert_eq!((by_link.seconds, by_link.rate_bit_s), (Some(1.0), Some(7_600_000)));
        assert_eq!(by_link.bound_by, "the usable capacity of link wan");
        assert_eq!(of(DESCRIBED, Some(950_000), Some(5e6)).seconds, Some(1.0));
        let slower = of(DESCRIBED, Some(950_000), Some(95_000.0));
        assert_eq!((slower.seconds, slower.bound_by.contains("rate last seen")), (Some(10.0), true));
    }

    #[test]
    fn without_a_size_or_a_rate_there_is_no_estimate() {
        let no_size = of(DESCRIBED, None, Some(1e6));
        assert_eq!((no_size.seconds, no_size.unsized_files), (None, 1));
        let bare = DESCRIBED.split("[link").next().unwrap();
        let no_rate = of(bare, Some(1), None);
        assert_eq!((no_rate.seconds, no_rate.rate_bit_s), (None, None));
        assert!(no_rate.bound_by.contains("nothing has moved"));
    }
}
