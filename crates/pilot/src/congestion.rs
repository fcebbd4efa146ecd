//! Chooses a congestion control: the kind that the evidence asks for, and the name that the host permits.

use std::time::Duration;

use model::laws;

/// The congestion controls that the host permits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permitted {
    /// Names that this process may set on a socket.
    pub names: Vec<String>,
    /// The congestion control that the user asked for; it is never changed.
    pub forced: Option<String>,
}

/// A kind of congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fills the path to the first loss: CUBIC, or another default of the host.
    LossBased,
    /// Sends at the rate that it measures (BBR): loss that is not congestion costs it little.
    ModelBased,
}

impl Kind {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::LossBased => "cubic",
            Kind::ModelBased => "bbr",
        }
    }
}

/// Below this round-trip time a stream recovers from loss at once, and CUBIC costs less processor time than BBR (197.9
/// against 163.3 Gbit/s between two hosts side by side; SC23).
const SHORT_RTT: Duration = Duration::from_millis(2);
/// Loss that may hurt CUBIC even over a short path. Smaller loss is not considered there.
const SHORT_PATH_LOSS_MIN: f64 = 1e-3;
/// Loss limits a stream whose rate is at least this part of the rate that CUBIC's law allows at that loss. Over a short path, only far
/// more loss than a bottleneck's own drops cause brings the law's rate so low.
const LAW_PART: f64 = 0.25;

/// Whether a congestion control takes every loss for congestion.
pub(super) fn is_loss_based(name: &str) -> bool {
    !name.starts_with("bbr")
}

/// The evidence for the choice, of one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// The smallest round-trip time.
    pub rtt: Duration,
    /// Share of the bytes sent again while no queue stood: loss that is not congestion.
    pub loss: f64,
    /// The rate of one stream, bytes per second.
    pub each_bytes_s: f64,
    /// Size of segments, bytes.
    pub mss_bytes: u32,
}

impl Evidence {
    /// Whether loss limits a stream, by CUBIC's law.
    fn loss_hurts(&self) -> bool {
        let law = laws::cubic_bit_s(self.mss_bytes.into(), self.rtt.as_secs_f64(), self.loss);
        self.loss >= SHORT_PATH_LOSS_MIN && self.each_bytes_s * 8.0 > law * LAW_PART
    }
}

/// The kind that the evidence asks for; none where `now`, the present congestion control, is of that kind.
pub fn wanted(path: &Evidence, now: &str) -> Option<Kind> {
    let want = if path.rtt >= SHORT_RTT || path.loss_hurts() { Kind::ModelBased } else { Kind::LossBased };
    let has = if is_loss_based(now) { Kind::LossBased } else { Kind::ModelBased };
    // Near the border the present congestion control stays.
    let near = path.rtt >= SHORT_RTT / 2 && path.rtt < SHORT_RTT * 2 && !path.loss_hurts();
    (want != has && !near).then_some(want)
}

/// The name of a permitted congestion control of this kind, if there is one.
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
    fn the_kind_is_chosen_by_the_path() {
        let path = |rtt, loss, rate: f64| Evidence { rtt, loss, each_bytes_s: rate / 8.0, mss_bytes: 1448 };
        assert_eq!(wanted(&path(303 * MS, 0.0, 1e9), "cubic"), Some(Kind::ModelBased));
        assert_eq!(wanted(&path(303 * MS, 0.0, 1e9), "bbr"), None);
        assert_eq!(wanted(&path(MS / 10, 0.0, 1e9), "bbr"), Some(Kind::LossBased));
        assert_eq!(wanted(&path(MS / 10, 0.0, 1e9), "reno"), None);
        assert_eq!(wanted(&path(MS / 2, 0.01, 2e8), "cubic"), Some(Kind::ModelBased), "a lossy cable on a short path");
        assert_eq!(wanted(&path(MS / 20, 0.01, 5e8), "cubic"), None, "drops of a shallow queue on a short path");
        let near = path(3 * MS, 0.0, 1e9);
        assert_eq!((wanted(&near, "cubic"), wanted(&near, "bbr")), (None, None), "near the border");
    }

    #[test]
    fn the_name_is_chosen_among_those_that_the_host_permits() {
        let names = |names: &[&str]| Permitted { names: names.iter().map(|n| (*n).into()).collect(), forced: None };
        assert_eq!(choose(Kind::ModelBased, &names(&["reno", "cubic", "bbr"])).as_deref(), Some("bbr"));
        assert_eq!(choose(Kind::ModelBased, &names(&["reno", "bbr", "bbr3"])).as_deref(), Some("bbr3"));
        assert_eq!(choose(Kind::ModelBased, &names(&["reno", "cubic"])), None);
        assert_eq!(choose(Kind::LossBased, &names(&["reno", "bbr"])), None);
    }
}
