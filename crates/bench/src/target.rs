//! The targets, and whether they were met: arithmetic on medians. Does not know: how the medians were measured.

use std::fmt;

use crate::contestant::Role;

/// The measure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Seconds of a job.
    Wall,
    /// Bytes per second.
    Rate,
    /// Files per second.
    Files,
    /// CPU seconds of both sides per 10^9 bytes.
    Cpu,
    /// Peak resident memory of the larger side, MiB.
    Peak,
}

impl Measure {
    fn less_is_better(self) -> bool {
        matches!(self, Measure::Wall | Measure::Cpu | Measure::Peak)
    }

    /// A value with its unit.
    fn show(self, value: f64) -> String {
        match self {
            Measure::Wall if value < 1.0 => format!("{:.1} ms", value * 1e3),
            Measure::Wall => format!("{value:.2} s"),
            Measure::Rate => format!("{:.2} GB/s", value / 1e9),
            Measure::Files => format!("{value:.0} files/s"),
            Measure::Cpu => format!("{value:.3} CPU-s/GB"),
            Measure::Peak => format!("{value:.0} MiB"),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Measure::Wall => "wall",
            Measure::Rate => "rate",
            Measure::Files => "files/s",
            Measure::Cpu => "CPU",
            Measure::Peak => "memory of each side",
        })
    }
}

/// The contestant whose value a limit is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// The best peer whose payload goes in clear.
    BestPeer,
    /// The best peer that encrypts.
    BestEncryptedPeer,
    /// This contestant.
    Named(&'static str),
}

/// The upper bound of a measure that is better small, the lower bound of one that is better large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A fixed value.
    At(f64),
    /// The value of another contestant times a factor.
    Times(f64, Against),
}

/// One target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The contestant that must reach it.
    pub contestant: &'static str,
    /// The measure.
    pub measure: Measure,
    /// The bound.
    pub limit: Limit,
}

/// The medians of a contestant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Its name.
    pub name: &'static str,
    /// Its role in the comparison.
    pub role: Role,
    /// Seconds of a job.
    pub wall_s: f64,
    /// Bytes of a job.
    pub bytes: u64,
    /// Files of a job.
    pub files: u64,
    /// CPU seconds of both sides for a job.
    pub cpu_s: f64,
    /// Peak resident memory of the larger side.
    pub peak_mib: f64,
}

impl Figures {
    fn get(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Wall => self.wall_s,
            Measure::Rate => self.bytes as f64 / self.wall_s,
            Measure::Files => self.files as f64 / self.wall_s,
            Measure::Cpu => self.cpu_s / (self.bytes as f64 / 1e9),
            Measure::Peak => self.peak_mib,
        }
    }
}

/// The verdict on a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The target was met.
    Reached(String),
    /// The target was missed, by this share of the limit.
    Missed(String, f64),
    /// There is no contestant to compare with, or no measurement.
    Open(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Reached(text) => write!(f, "target {text}: reached"),
            Verdict::Missed(text, by) => write!(f, "target {text}: **missed by {:.1} %**", by * 100.0),
            Verdict::Open(text) => write!(f, "target {text}: not judged"),
        }
    }
}

/// Judges a target by the figures of all contestants.
pub fn judge(target: &Target, all: &[Figures]) -> Verdict {
    let measure = target.measure;
    let sign = if measure.less_is_better() { "≤" } else { "≥" };
    let named = |name: &str| all.iter().find(|f| f.name == name);
    let head = format!("{}, {measure} {sign}", target.contestant);
    let (limit, text) = match target.limit {
        Limit::At(value) => (Some(value), format!("{head} {}", measure.show(value))),
        Limit::Times(times, against) => {
            let other = match against {
                Against::Named(name) => named(name),
                Against::BestPeer => best(measure, Role::Peer, all),
                Against::BestEncryptedPeer => best(measure, Role::EncryptedPeer, all),
            };
            let whose = match (against, other) {
                (Against::Named(name), _) => name.to_owned(),
                (Against::BestPeer, Some(best)) => format!("the best peer's ({})", best.name),
                (Against::BestPeer, None) => "the best peer's".to_owned(),
                (Against::BestEncryptedPeer, Some(best)) => format!("the best encrypted peer's ({})", best.name),
                (Against::BestEncryptedPeer, None) => "the best encrypted peer's".to_owned(),
            };
            (other.map(|f| f.get(measure) * times), format!("{head} {times} × {whose}"))
        }
    };
    let (Some(limit), Some(figures)) = (limit, named(target.contestant)) else { return Verdict::Open(text) };
    let value = figures.get(measure);
    let text = match target.limit {
        Limit::At(_) => format!("{text} ({})", measure.show(value)),
        _ => format!("{text} = {} ({})", measure.show(limit), measure.show(value)),
    };
    let by = if measure.less_is_better() { value / limit - 1.0 } else { 1.0 - value / limit };
    if by <= 0.0 { Verdict::Reached(text) } else { Verdict::Missed(text, by) }
}

fn best(measure: Measure, role: Role, all: &[Figures]) -> Option<&Figures> {
    let peers = all.iter().filter(|f| f.role == role);
    let order = |a: &&Figures, b: &&Figures| a.get(measure).total_cmp(&b.get(measure));
    if measure.less_is_better() { peers.min_by(order) } else { peers.max_by(order) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(name: &'static str, role: Role, wall_s: f64, cpu_s: f64) -> Figures {
        Figures { name, role, wall_s, bytes: 2_000_000_000, files: 100, cpu_s, peak_mib: 50.0 }
    }

    fn by(measure: Measure, limit: Limit) -> Option<f64> {
        let all = [
            figures("us", Role::Ours, 2.0, 1.0),
            figures("slow", Role::Peer, 8.0, 8.0),
            figures("fast", Role::Peer, 4.0, 2.0),
            figures("cp", Role::Reference, 1.0, 0.4),
            figures("tls", Role::EncryptedPeer, 3.0, 3.0),
        ];
        match judge(&Target { contestant: "us", measure, limit }, &all) {
            Verdict::Reached(_) => Some(0.0),
            Verdict::Missed(_, by) => Some((by * 1000.0).round() / 1000.0),
            Verdict::Open(_) => None,
        }
    }

    #[test]
    fn targets_are_judged() {
        let best = |times| Limit::Times(times, Against::BestPeer);
        assert_eq!(by(Measure::Wall, best(0.5)), Some(0.0), "2 s of 4 s; cp is not a peer");
        assert_eq!(by(Measure::Wall, best(0.4)), Some(0.25), "2 s of 1.6 s");
        let encrypted = Limit::Times(0.5, Against::BestEncryptedPeer);
        assert_eq!(by(Measure::Wall, encrypted), Some(0.333), "2 s of 1.5 s");
        assert_eq!(by(Measure::Files, best(2.0)), Some(0.0), "50 of 25 files/s");
        assert_eq!(by(Measure::Files, Limit::Times(0.8, Against::Named("cp"))), Some(0.375), "50 of 80 files/s");
        assert_eq!(by(Measure::Cpu, Limit::At(0.4)), Some(0.25), "0.5 of 0.4 s/GB");
        assert_eq!(by(Measure::Peak, Limit::At(40.0)), Some(0.25));
        assert_eq!(by(Measure::Rate, Limit::Times(1.0, Against::Named("absent"))), None);
    }

    #[test]
    fn a_verdict_names_the_peer_and_both_values() {
        let all = [figures("us", Role::Ours, 2.0, 1.0), figures("fast", Role::Peer, 4.0, 2.0)];
        let target = Target { contestant: "us", measure: Measure::Wall, limit: Limit::Times(0.4, Against::BestPeer) };
        let text = judge(&target, &all).to_string();
        assert_eq!(text, "target us, wall ≤ 0.4 × the best peer's (fast) = 1.60 s (2.00 s): **missed by 25.0 %**");
    }
}
