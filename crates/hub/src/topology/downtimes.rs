//! Downtimes: stops that begin or end at a given time.

use model::v1::hub::{Collaboration, Stopped};

use super::{TopologyError, wrong};
use crate::time;

/// Whether a stop is in force at a time, milliseconds since 1970.
pub(super) fn is_in_force(stopped: &Stopped, at: i64) -> bool {
    let has_begun = time::parse(&stopped.from).is_none_or(|from| from <= at);
    has_begun && time::parse(&stopped.until).is_none_or(|until| at < until)
}

/// All stops of a description, whether in force or not, each with the name of what it stops.
pub(super) fn all_stops(described: &Collaboration) -> impl Iterator<Item = (String, &Stopped)> {
    let label = |kind: &str, name: &String| format!("{kind} {name}");
    let everything = described.stopped.iter().map(|stopped| ("everything".to_owned(), stopped));
    let sites = described.sites.iter().filter_map(move |(name, it)| Some((label("site", name), it.stopped.as_ref()?)));
    let endpoints =
        described.endpoints.iter().filter_map(move |(name, it)| Some((label("endpoint", name), it.stopped.as_ref()?)));
    let links = described.links.iter().filter_map(move |(name, it)| Some((label("link", name), it.stopped.as_ref()?)));
    let communities = described
        .communities
        .iter()
        .filter_map(move |(name, it)| Some((label("community", name), it.stopped.as_ref()?)));
    everything.chain(sites).chain(endpoints).chain(links).chain(communities)
}

/// Checks that all times of downtimes can be read, and that no downtime ends before it begins.
pub(super) fn check_downtimes(described: &Collaboration) -> Result<(), TopologyError> {
    for (what, stopped) in all_stops(described) {
        let mut times = Vec::new();
        for text in [&stopped.from, &stopped.until].into_iter().filter(|text| !text.is_empty()) {
            let at = time::parse(text);
            times.push(
                at.ok_or_else(|| wrong(what.clone(), format!("{text:?} is not a time: write 2026-12-24T18:00:00Z")))?,
            );
        }
        if times.len() == 2 && times[0] >= times[1] {
            return Err(wrong(what, "its downtime ends before it begins"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Topology;
    use super::*;

    const NOON: i64 = 1_782_000_000_000;

    fn described(from: i64, until: i64) -> Collaboration {
        let show = |at: i64| if at == 0 { String::new() } else { time::show(at) };
        toml::from_str(&format!(
            "[site.x]\nstopped = {{ reason = \"power\", from = \"{}\", until = \"{}\" }}\n[endpoint.a]\nsite = \"x\"\nurls = [\"lh://a/\"]\n",
            show(from),
            show(until)
        ))
        .unwrap()
    }

    #[test]
    fn a_downtime_begins_and_ends() {
        let (from, until) = (NOON, NOON + 3_600_000);
        for (at, is_stopped, next) in [
            (from - 1, false, Some(from)),
            (from, true, Some(until)),
            (until - 1, true, Some(until)),
            (until, false, None),
        ] {
            let topology = Topology::at(described(from, until), at).unwrap();
            assert_eq!((topology.is_stopped("a"), topology.next_change()), (is_stopped, next), "at {at}");
        }
        assert!(Topology::at(described(0, until), 0).unwrap().is_stopped("a"), "from now on");
        assert!(Topology::at(described(from, 0), i64::MAX).unwrap().is_stopped("a"), "until somebody starts it");
    }

    #[test]
    fn invalid_downtimes_are_refused() {
        let wrong = |described| Topology::new(described).unwrap_err().to_string();
        assert!(wrong(described(NOON, NOON)).contains("site x: its downtime ends before it begins"));
        let mut tomorrow = described(NOON, 0);
        tomorrow.sites.get_mut("x").unwrap().stopped.as_mut().unwrap().from = "tomorrow".into();
        assert!(wrong(tomorrow).contains("\"tomorrow\" is not a time"));
    }
}
