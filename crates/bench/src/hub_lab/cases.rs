//! The measurements in the lab, and how they are judged.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use jiff::Timestamp;

use super::collaboration::{Collaboration, LINK_MBIT_S, MARK, Sample};

/// The result of a measurement.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The name of the measurement.
    pub what: &'static str,
    /// The numbers, with their units.
    pub measured: String,
    /// The target.
    pub target: &'static str,
    /// Whether the target was met.
    pub is_met: bool,
}

/// The longest that rates may take to settle after a change.
const SETTLE_MAX: Duration = Duration::from_secs(5);
/// The span over which a rate is judged.
const SECOND: Duration = Duration::from_secs(1);

/// The rate of the second that follows each sample, Mbit/s. Samples in the first `from` of the measurement are left out.
pub fn rates_of_seconds(samples: &[Sample], from: Duration) -> Vec<f64> {
    let Some(first) = samples.first() else { return Vec::new() };
    let mut rates = Vec::new();
    for (at, begin) in samples.iter().enumerate().filter(|(_, begin)| begin.at.duration_since(first.at) >= from) {
        let Some(end) = samples[at..].iter().find(|end| end.at.duration_since(begin.at) >= SECOND) else { break };
        let span = end.at.duration_since(begin.at).as_secs_f64();
        rates.push((end.bytes - begin.bytes) as f64 * 8e-6 / span);
    }
    rates
}

fn most(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(0.0, f64::max)
}

fn mean(samples: &[Sample], from: Duration) -> f64 {
    let rates = rates_of_seconds(samples, from);
    rates.iter().sum::<f64>() / rates.len().max(1) as f64
}

/// The mark in Mbit/s.
fn mark() -> f64 {
    LINK_MBIT_S as f64 * MARK
}

/// Three communities with the shares 1, 2 and 4 fill the link up to its mark; then half of its capacity goes away.
///
/// # Errors
/// The lab, a node or the hub fails.
pub fn shares_and_marks(lab: &mut Collaboration<'_>) -> Result<Vec<Outcome>> {
    for (index, community) in ["one", "two", "four"].iter().enumerate() {
        // Enough files to last for the whole measurement, two and more at a time.
        lab.submit(1 + index % 2, 24, &["--community", community])?;
    }
    let begun = Instant::now();
    while lab.running_transfers()? < 3 {
        ensure!(begun.elapsed() < Duration::from_secs(30), "the transfers do not begin");
    }
    let samples = lab.sample_link(Duration::from_secs(12))?;
    let all = rates_of_seconds(&samples, SETTLE_MAX);
    let mut sums = [0.0; 3];
    for _ in 0..8 {
        let rates_by_community = lab.rates_by_community()?;
        for (sum, name) in sums.iter_mut().zip(["one", "two", "four"]) {
            *sum += rates_by_community.get(name).copied().unwrap_or(0.0);
        }
        sleep(SECOND / 2);
    }
    let total: f64 = sums.iter().sum();
    let errors: Vec<f64> =
        sums.iter().zip([1.0, 2.0, 4.0]).map(|(sum, weight)| (sum / total / (weight / 7.0) - 1.0) * 100.0).collect();
    let worst = errors.iter().map(|error| error.abs()).fold(0.0, f64::max);
    let half = (LINK_MBIT_S / 2).to_string() + "Mbit/s";
    lab.hub(&["hub", "link", "set", "wan", "--capacity", &half])?;
    let after = lab.sample_link(Duration::from_secs(12))?;
    let settled = first_below(&after, mark() / 2.0);
    lab.hub(&["hub", "link", "set", "wan", "--capacity", &format!("{LINK_MBIT_S}Mbit/s")])?;
    Ok(vec![
        Outcome {
            what: "own traffic on the link, headers included: the most in any second after the first five; mean",
            measured: format!("{:.0}; {:.0} Mbit/s", most(&all), mean(&samples, SETTLE_MAX)),
            target: "never above 800 Mbit/s",
            is_met: most(&all) <= mark(),
        },
        Outcome {
            what: "communities with weights 1:2:4: deviation of each from its part",
            measured: errors.iter().map(|error| format!("{error:+.1} %")).collect::<Vec<_>>().join(", "),
            target: "within 5 %",
            is_met: worst <= 5.0,
        },
        Outcome {
            what: "capacity halved at the hub: seconds until every second is below the new mark",
            measured: settled.map_or("not within 12 s".to_owned(), |seconds| format!("{seconds:.1} s")),
            target: "5 s",
            is_met: settled.is_some_and(|seconds| seconds <= 5.0),
        },
    ])
}

/// The seconds from the first sample until the rate is this or below for good; none if it is above in the last second.
fn first_below(samples: &[Sample], rate: f64) -> Option<f64> {
    let first = samples.first()?;
    let mut settled = Some(0.0);
    for (at, begin) in samples.iter().enumerate() {
        let Some(end) = samples[at..].iter().find(|end| end.at.duration_since(begin.at) >= SECOND) else { break };
        let span = end.at.duration_since(begin.at).as_secs_f64();
        let is_above = (end.bytes - begin.bytes) as f64 * 8e-6 / span > rate;
        settled = match (is_above, settled) {
            (true, _) => None,
            (false, None) => Some(begin.at.duration_since(first.at).as_secs_f64()),
            (false, settled) => settled,
        };
    }
    settled
}

/// Other traffic with CUBIC shares the link. It must get the capacity above the mark.
///
/// # Errors
/// The lab, a node or the hub fails.
pub fn cross_traffic(lab: &mut Collaboration<'_>, dir: &std::path::Path) -> Result<Vec<Outcome>> {
    lab.submit(2, 24, &[])?;
    let begun = Instant::now();
    while lab.running_transfers()? == 0 {
        ensure!(begun.elapsed() < Duration::from_secs(30), "the transfer does not begin");
    }
    sleep(SETTLE_MAX);
    let mut own_mbit_s = 0.0;
    let mut total_mbit_s = 0.0;
    let mut runs = 0;
    while runs < 4 {
        let cross_traffic = lab.start_cross_traffic(dir)?;
        let samples = lab.sample_link(Duration::from_secs(3))?;
        drop(cross_traffic);
        total_mbit_s += mean(&samples, SECOND / 2);
        own_mbit_s += lab.rates_by_community()?.values().sum::<f64>();
        runs += 1;
    }
    own_mbit_s /= f64::from(runs);
    total_mbit_s /= f64::from(runs);
    let others_mbit_s = total_mbit_s - own_mbit_s;
    Ok(vec![Outcome {
        what: "a copy of others with CUBIC on the same link: what it has; what the hub's transfers have",
        measured: format!("{others_mbit_s:.0}; {own_mbit_s:.0} Mbit/s"),
        target: "what is above the mark: 200 Mbit/s",
        is_met: others_mbit_s >= 0.95 * (LINK_MBIT_S as f64 - mark()),
    }])
}

/// A job with a deadline competes with others for the link.
///
/// # Errors
/// The lab, a node or the hub fails.
pub fn deadline(lab: &mut Collaboration<'_>) -> Result<Vec<Outcome>> {
    for community in ["one", "two", "four"] {
        lab.submit(1, 24, &["--community", community])?;
    }
    sleep(SETTLE_MAX);
    let promised = Duration::from_secs(30);
    // Five files of 256 MiB are 10.7 Gbit: 13 s at the rate of the mark, and far longer than the promise at an equal share of it.
    let deadline = SystemTime::now().duration_since(UNIX_EPOCH)? + promised;
    let deadline = Timestamp::from_second(deadline.as_secs() as i64)?.to_string();
    let begun = Instant::now();
    let job = lab.submit(2, 5, &["--deadline", &deadline])?;
    loop {
        let job_state = lab.job(&job)?;
        if job_state["ended"].is_string() {
            ensure!(job_state["state"] == "done", "{job_state}");
            break;
        }
        ensure!(begun.elapsed() < promised * 3, "the job does not end");
        sleep(Duration::from_millis(200));
    }
    let took = begun.elapsed().as_secs_f64();
    Ok(vec![Outcome {
        what: "a job of 1.3 GB promised within 30 s, while three communities fill the link",
        measured: format!("{took:.1} s"),
        target: "31.5 s at the most: 5 % after its promise",
        is_met: took <= promised.as_secs_f64() * 1.05,
    }])
}

/// Fifty users submit to one endpoint that takes ten transfers at once.
///
/// # Errors
/// The lab, a node or the hub fails.
pub fn many_users(lab: &mut Collaboration<'_>) -> Result<Vec<Outcome>> {
    lab.hub(&["hub", "endpoint", "set", "nb", "--in-transfers", "10"])?;
    for user in 0..50 {
        lab.submit(1, 1, &["--activity", &format!("user{user}")])?;
    }
    let begun = Instant::now();
    let mut most = 0;
    while begun.elapsed() < Duration::from_secs(20) {
        most = most.max(lab.running_transfers()?);
        sleep(Duration::from_millis(100));
    }
    lab.hub(&["hub", "endpoint", "set", "nb", "--in-transfers", "20"])?;
    Ok(vec![Outcome {
        what: "50 activities with a file each to an endpoint that takes 10 transfers: the most at once",
        measured: most.to_string(),
        target: "10",
        is_met: most == 10,
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(bytes_of_tenth: impl Fn(u64) -> u64, tenths: u64) -> Vec<Sample> {
        let now = Instant::now();
        let mut bytes = 0;
        (0..tenths)
            .map(|tenth| {
                let sample = Sample { at: now + Duration::from_millis(tenth * 100), bytes };
                bytes += bytes_of_tenth(tenth);
                sample
            })
            .collect()
    }

    #[test]
    fn the_rate_of_every_second_is_taken() {
        // 100 Mbit/s, and 200 in the fourth second.
        let samples = samples(|tenth| if (30..40).contains(&tenth) { 2_500_000 } else { 1_250_000 }, 100);
        let rates = rates_of_seconds(&samples, Duration::ZERO);
        assert!((most(&rates) - 200.0).abs() < 1e-6 && (rates[0] - 100.0).abs() < 1e-6);
        assert!((most(&rates_of_seconds(&samples, SETTLE_MAX)) - 100.0).abs() < 1e-6);
    }

    #[test]
    fn a_rate_has_settled_when_it_stays_below() {
        let settling = samples(|tenth| if tenth < 20 { 2_500_000 } else { 1_250_000 }, 100);
        let settled = first_below(&settling, 100.1).unwrap();
        assert!((1.9..2.1).contains(&settled), "{settled}");
        assert_eq!(first_below(&settling, 99.0), None);
        assert_eq!(first_below(&settling, 201.0), Some(0.0));
    }
}
