//! The columns of each test, and how they are rolled up.

use super::Row;

/// How the numbers of many rows become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rollup {
    /// The sum of all.
    Sum,
    /// The smallest.
    Least,
    /// The largest.
    Most,
    /// The mean of the known numbers.
    Mean,
    /// The last known number.
    Last,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, with its unit.
    pub name: &'static str,
    /// How it is rolled up.
    pub rollup: Rollup,
    /// The resolution of the stored number: digits without meaning are not kept.
    pub step: i64,
}

const fn column(name: &'static str, rollup: Rollup, step: i64) -> Column {
    Column { name, rollup, step }
}

/// The columns of a stream. Round trips and queues are in steps of 10 microseconds, which is a path's own noise.
pub const LATENCY: &[Column] = &[
    column("span_ms", Rollup::Sum, 100),
    column("sent", Rollup::Sum, 1),
    column("lost_forward", Rollup::Sum, 1),
    column("lost_reverse", Rollup::Sum, 1),
    column("lost_unplaced", Rollup::Sum, 1),
    column("duplicates", Rollup::Sum, 1),
    column("reordered_forward", Rollup::Sum, 1),
    column("reordered_reverse", Rollup::Sum, 1),
    column("rtt_min_us", Rollup::Least, 10),
    column("rtt_median_us", Rollup::Mean, 10),
    column("rtt_p95_us", Rollup::Mean, 20),
    column("rtt_max_us", Rollup::Most, 100),
    column("queue_forward_us", Rollup::Mean, 20),
    column("queue_reverse_us", Rollup::Mean, 20),
    column("hops_forward", Rollup::Most, 1),
    column("hops_reverse", Rollup::Most, 1),
];

/// The columns of a test of TCP in one direction.
pub const THROUGHPUT: &[Column] = &[
    column("rate_bit_s", Rollup::Mean, 1_000),
    column("resent_ppm", Rollup::Mean, 1),
    column("rtt_min_us", Rollup::Least, 10),
    column("expected_bit_s", Rollup::Mean, 1_000),
];

/// The columns of a test of routers and MTU.
pub const PATH: &[Column] = &[
    column("hops_forward", Rollup::Last, 1),
    column("hops_reverse", Rollup::Last, 1),
    column("mtu_forward", Rollup::Least, 1),
    column("mtu_reverse", Rollup::Least, 1),
    column("route_forward", Rollup::Last, 1),
    column("route_reverse", Rollup::Last, 1),
];

/// The columns of an interface: rates in and out, errors, received light in thousandths of a dBm, capacity.
pub const COUNTERS: &[Column] = &[
    column("in_bit_s", Rollup::Mean, 1_000),
    column("out_bit_s", Rollup::Mean, 1_000),
    column("in_errors", Rollup::Sum, 1),
    column("out_errors", Rollup::Sum, 1),
    column("discards", Rollup::Sum, 1),
    column("fec_uncorrectable", Rollup::Sum, 1),
    column("light_in_mdbm", Rollup::Least, 10),
    column("capacity_bit_s", Rollup::Last, 1_000),
];

/// The columns of a test by its name.
pub fn of_test(test: &str) -> &'static [Column] {
    match test {
        "latency" => LATENCY,
        "path" => PATH,
        "counters" => COUNTERS,
        _ => THROUGHPUT,
    }
}

/// Rolls rows up to steps of `step` milliseconds, which begin at multiples of it. A step without rows has no row.
pub fn roll_up(columns: &[Column], rows: &[Row], step: i64) -> Vec<Row> {
    let mut rolled: Vec<(i64, Vec<&Row>)> = Vec::new();
    for row in rows {
        let begin = row.at - row.at.rem_euclid(step);
        match rolled.last_mut() {
            Some((at, group)) if *at == begin => group.push(row),
            _ => rolled.push((begin, vec![row])),
        }
    }
    let combined = |(at, group): (i64, Vec<&Row>)| {
        let value = |(index, column): (usize, &Column)| {
            let known: Vec<i64> = group.iter().filter_map(|row| row.values.get(index).copied().flatten()).collect();
            combine(column.rollup, &known)
        };
        Row { at, values: columns.iter().enumerate().map(value).collect() }
    };
    rolled.into_iter().map(combined).collect()
}

fn combine(rollup: Rollup, known: &[i64]) -> Option<i64> {
    match rollup {
        _ if known.is_empty() => None,
        Rollup::Sum => Some(known.iter().fold(0i64, |sum, value| sum.saturating_add(*value))),
        Rollup::Least => known.iter().min().copied(),
        Rollup::Most => known.iter().max().copied(),
        Rollup::Mean => {
            let sum: i128 = known.iter().map(|value| i128::from(*value)).sum();
            i64::try_from(sum / known.len() as i128).ok()
        }
        Rollup::Last => known.last().copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_sums_and_extremes_and_gaps_stay() {
        let minute = |at: i64, sent: i64, least: Option<i64>| {
            let mut values = vec![None; LATENCY.len()];
            values[1] = Some(sent);
            values[8] = least;
            Row { at: at * 60_000, values }
        };
        let rows = [minute(0, 600, Some(50)), minute(1, 590, Some(40)), minute(59, 600, None), minute(121, 7, None)];
        let hours = roll_up(LATENCY, &rows, 3_600_000);
        let values: Vec<_> = hours.iter().map(|row| (row.at, row.values[1], row.values[8], row.values[2])).collect();
        assert_eq!(values, [(0, Some(1_790), Some(40), None), (7_200_000, Some(7), None, None)]);
        assert_eq!(combine(Rollup::Mean, &[i64::MAX, i64::MAX]), Some(i64::MAX));
        assert_eq!((combine(Rollup::Sum, &[i64::MAX, 1]), combine(Rollup::Last, &[1, 2])), (Some(i64::MAX), Some(2)));
    }
}
