//! Which congestion control a path asks for, and which of those the host permits.

use std::time::Duration;

/// What the host permits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permitted {
    /// Names that a socket of ours may be given.
    pub names: Vec<String>,
    /// The one that somebody asked for: never changed.
    pub forced: Option<String>,
}

/// A kind of congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fills the path to the first loss: CUBIC, or what else the host has by default.
    LossBased,
    /// Sends at the rate that it measures (BBR): loss that is not congestion costs it little.
    ModelBased,
}

impl Kind {
    /// How people call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::LossBased => "cubic",
            Kind::ModelBased => "bbr",
        }
    }
}

/// Below this round-trip time loss is recovered from at once, and CUBIC costs less processor time than BBR (197.9
/// against 163.3 Gbit/s between two hosts side by side; SC23).
const SHORT: Duration = Duration::from_millis(2);
/// Loss that hurts CUBIC even over a short path.
const LOSS_MUCH: f64 = 1e-3;

/// Whether a congestion control takes every loss for congestion.
pub(super) fn is_loss_based(name: &str) -> bool {
    !name.starts_with("bbr")
}

/// What kind the evidence asks for: none where the present one will do. `loss` is the share of bytes sent again while no
/// queue stood, so that it was not congestion.
pub fn wanted(rtt: Duration, loss: f64, now: &str) -> Option<Kind> {
    let want = if rtt >= SHORT || loss >= LOSS_MUCH { Kind::ModelBased } else { Kind::LossBased };
    let has = if is_loss_based(now) { Kind::LossBased } else { Kind::ModelBased };
    // Near the border the present one stays.
    let near = rtt >= SHORT / 2 && rtt < SHORT * 2 && loss < LOSS_MUCH;
    (want != has && !near).then_some(want)
}

/// The name to use for a kind, if the host permits one.
pub fn choose(kind: Kind, permitted: &Permitted) -> Option<String> {
    let fits = |name: &&String| match kind {
        Kind::ModelBased => !is_loss_based(name),
        Kind::LossBased => *name == "cubic",
    };
    // A later version of BBR where there is one.
    permitted.names.iter().filter(fits).max().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_path_decides() {
        assert_eq!(wanted(303 * MS, 0.0, "cubic"), Some(Kind::ModelBased));
        assert_eq!(wanted(303 * MS, 0.0, "bbr"), None);
        assert_eq!(wanted(MS / 10, 0.0, "bbr"), Some(Kind::LossBased));
        assert_eq!(wanted(MS / 10, 0.0, "reno"), None);
        assert_eq!(wanted(MS / 10, 0.01, "cubic"), Some(Kind::ModelBased), "a lossy cable next door");
        assert_eq!((wanted(3 * MS, 0.0, "cubic"), wanted(3 * MS, 0.0, "bbr")), (None, None), "near the border");
    }

    #[test]
    fn the_host_permits() {
        let names = |names: &[&str]| Permitted { names: names.iter().map(|n| (*n).into()).collect(), forced: None };
        assert_eq!(choose(Kind::ModelBased, &names(&["reno", "cubic", "bbr"])).as_deref(), Some("bbr"));
        assert_eq!(choose(Kind::ModelBased, &names(&["reno", "bbr", "bbr3"])).as_deref(), Some("bbr3"));
        assert_eq!(choose(Kind::ModelBased, &names(&["reno", "cubic"])), None);
        assert_eq!(choose(Kind::LossBased, &names(&["reno", "bbr"])), None);
    }
}
