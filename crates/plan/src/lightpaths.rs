//! Optical paths on demand: an agent asks for a path before a transfer, the path is set up over free wavelengths, and is released after it. A cut
//! link is restored over another route, where wavelengths are free.
//!
//! Does not know: packets, and rates below a wavelength.

use std::collections::{BTreeMap, BTreeSet};

use crate::network::Network;
use crate::routes::{Avoid, NetworkRoute, shortest};

/// The times and the equipment of an optical network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpticalSettings {
    /// Wavelengths of each link, in each direction.
    pub wavelengths: usize,
    /// Seconds from a request to light at both ends.
    pub setup_s: f64,
    /// Seconds from a cut to light over another route.
    pub restoration_s: f64,
    /// What one wavelength carries.
    pub wavelength_bit_s: f64,
}

/// A transfer for which an agent asks for a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathRequest {
    /// When it is asked for, seconds.
    pub at_s: f64,
    /// One end.
    pub from: usize,
    /// The other end.
    pub to: usize,
    /// Bytes to move.
    pub bytes: f64,
}

/// A link that is cut for good, in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    /// When, seconds.
    pub at_s: f64,
    /// The path of the scenario, by its number.
    pub path: usize,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct PathOutcome {
    /// When the path was lit first, seconds; none if never.
    pub began_s: Option<f64>,
    /// When the last byte had moved, seconds; none if never.
    pub ended_s: Option<f64>,
    /// How often a link of its path was cut.
    pub cuts: u32,
}

/// Which wavelengths are free, and which links are cut.
#[derive(Clone, Debug, Default)]
pub struct FreeWavelengths {
    /// Wavelengths of each link, in each direction.
    wavelengths: usize,
    /// Those in use on each link.
    used: BTreeMap<usize, usize>,
    cut: BTreeSet<usize>,
}

impl FreeWavelengths {
    /// All wavelengths are free.
    pub fn new(wavelengths: usize) -> FreeWavelengths {
        FreeWavelengths { wavelengths, ..FreeWavelengths::default() }
    }

    /// Takes a wavelength on each link of the shortest route that has one; none if there is no such route.
    pub fn take(&mut self, network: &Network, from: usize, to: usize) -> Option<NetworkRoute> {
        let full = self.used.iter().filter(|(_, used)| **used >= self.wavelengths).map(|(link, _)| *link);
        let avoid = Avoid { links: full.chain(self.cut.iter().copied()).collect(), ..Avoid::default() };
        let route = shortest(network, from, to, &avoid)?;
        route.links.iter().for_each(|link| *self.used.entry(*link).or_default() += 1);
        Some(route)
    }

    /// Gives the wavelengths of a route back.
    pub fn free(&mut self, route: &NetworkRoute) {
        for link in &route.links {
            if let Some(used) = self.used.get_mut(link) {
                *used = used.saturating_sub(1);
            }
        }
    }

    /// No route may use a link any more.
    pub fn cut(&mut self, link: usize) {
        self.cut.insert(link);
    }

    /// Routes may use a link again.
    pub fn repair(&mut self, link: usize) {
        self.cut.remove(&link);
    }

    /// Whether a link of a route is cut.
    pub fn is_cut(&self, route: &NetworkRoute) -> bool {
        route.links.iter().any(|link| self.cut.contains(link))
    }
}

/// A path that is in use.
struct LitPath {
    request: usize,
    route: NetworkRoute,
    /// When the path begins to carry data, seconds; once it does, the time up to which its bytes have been counted.
    lit_s: f64,
    left_bytes: f64,
}

/// Serves requests in the order in which they come; one that finds no free wavelength waits until a path is released.
pub fn serve(
    network: &Network,
    settings: &OpticalSettings,
    requests: &[PathRequest],
    cuts: &[Cut],
) -> Vec<PathOutcome> {
    let mut agents = Agents {
        network,
        settings,
        requests,
        outcomes: vec![PathOutcome { began_s: None, ended_s: None, cuts: 0 }; requests.len()],
        free: FreeWavelengths::new(settings.wavelengths),
        lit: Vec::new(),
        waiting: Vec::new(),
    };
    let mut due: Vec<(f64, LightpathEvent)> =
        requests.iter().enumerate().map(|(at, request)| (request.at_s, LightpathEvent::Request(at))).collect();
    due.extend(cuts.iter().map(|cut| (cut.at_s, LightpathEvent::Cut(cut.path))));
    due.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut now = 0.0;
    loop {
        let next_end = agents.next_end();
        let next_due = due.last().map_or(f64::INFINITY, |(at, _)| *at);
        let next = next_due.min(next_end.map_or(f64::INFINITY, |(at, _)| at));
        if next.is_infinite() {
            return agents.outcomes;
        }
        agents.flow(now, next);
        now = next;
        match next_end.filter(|(at, _)| *at <= next_due) {
            Some((_, lit)) => agents.release(lit, now),
            None => match due.pop() {
                Some((_, LightpathEvent::Request(request))) => agents.ask(request, now),
                Some((_, LightpathEvent::Cut(path))) => agents.cut_path(path, now),
                None => {}
            },
        }
    }
}

/// A request or a cut, by its number.
enum LightpathEvent {
    Request(usize),
    Cut(usize),
}

struct Agents<'a> {
    network: &'a Network,
    settings: &'a OpticalSettings,
    requests: &'a [PathRequest],
    outcomes: Vec<PathOutcome>,
    free: FreeWavelengths,
    lit: Vec<LitPath>,
    /// Requests that wait, by number, with the bytes that are left.
    waiting: Vec<(usize, f64)>,
}

impl Agents<'_> {
    /// When the next transfer ends, and the number of its lit path.
    fn next_end(&self) -> Option<(f64, usize)> {
        let end = |lit: &LitPath| lit.lit_s + lit.left_bytes * 8.0 / self.settings.wavelength_bit_s;
        (0..self.lit.len()).map(|at| (end(&self.lit[at]), at)).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Moves bytes on all lit paths.
    fn flow(&mut self, from_s: f64, until_s: f64) {
        for lit in &mut self.lit {
            let seconds = until_s - lit.lit_s.max(from_s);
            if seconds > 0.0 {
                lit.left_bytes = (lit.left_bytes - seconds * self.settings.wavelength_bit_s / 8.0).max(0.0);
                lit.lit_s = until_s;
            }
        }
    }

    fn ask(&mut self, request: usize, now: f64) {
        self.waiting.push((request, self.requests[request].bytes));
        self.light_waiting(now, self.settings.setup_s);
    }

    /// Sets up paths for requests that wait, the oldest first, as far as wavelengths are free.
    fn light_waiting(&mut self, now: f64, delay_s: f64) {
        for (request, left_bytes) in std::mem::take(&mut self.waiting) {
            let PathRequest { from, to, .. } = self.requests[request];
            let Some(route) = self.free.take(self.network, from, to) else {
                self.waiting.push((request, left_bytes));
                continue;
            };
            let lit_s = now + delay_s;
            self.outcomes[request].began_s.get_or_insert(lit_s);
            self.lit.push(LitPath { request, route, lit_s, left_bytes });
        }
    }

    fn release(&mut self, at: usize, now: f64) {
        let lit = self.lit.swap_remove(at);
        self.free.free(&lit.route);
        self.outcomes[lit.request].ended_s = Some(now);
        self.light_waiting(now, self.settings.setup_s);
    }

    fn cut_path(&mut self, path: usize, now: f64) {
        self.network.links_of_path(path).for_each(|link| self.free.cut(link));
        let (dark, lit): (Vec<LitPath>, Vec<LitPath>) =
            std::mem::take(&mut self.lit).into_iter().partition(|lit| self.free.is_cut(&lit.route));
        self.lit = lit;
        for lit in &dark {
            self.free.free(&lit.route);
            self.outcomes[lit.request].cuts += 1;
        }
        // Transfers whose path was cut are served before requests that wait already.
        let dark = dark.into_iter().map(|lit| (lit.request, lit.left_bytes));
        self.waiting = dark.chain(std::mem::take(&mut self.waiting)).collect();
        self.light_waiting(now, self.settings.restoration_s);
    }
}

#[cfg(test)]
mod tests {
    use scenario::Scenario;

    use super::*;

    const SETTINGS: OpticalSettings =
        OpticalSettings { wavelengths: 1, setup_s: 60.0, restoration_s: 5.0, wavelength_bit_s: 100e9 };

    fn ring() -> Network {
        let text = "[site.a]\n[site.b]\n[site.c]\n[path.a-b]\nrtt = \"10ms\"\n[path.a-c]\nrtt = \"20ms\"\n[path.c-b]\nrtt = \"20ms\"\n";
        Network::new(&Scenario::read(text).unwrap(), None)
    }

    fn request(at_s: f64) -> PathRequest {
        PathRequest { at_s, from: 0, to: 1, bytes: 12.5e12 }
    }

    #[test]
    fn a_path_is_lit_before_the_transfer_and_released_after_it() {
        let outcomes = serve(&ring(), &SETTINGS, &[request(0.0), request(0.0), request(10.0)], &[]);
        // 12.5 TB take 1000 s; two routes are there, and the third request waits for the first to be released.
        let times: Vec<_> =
            outcomes.iter().map(|outcome| (outcome.began_s.unwrap(), outcome.ended_s.unwrap())).collect();
        assert_eq!(times, [(60.0, 1060.0), (60.0, 1060.0), (1120.0, 2120.0)]);
    }

    #[test]
    fn a_cut_path_is_restored_and_the_transfer_goes_on() {
        let outcomes = serve(&ring(), &SETTINGS, &[request(0.0)], &[Cut { at_s: 560.0, path: 0 }]);
        assert_eq!(outcomes[0], PathOutcome { began_s: Some(60.0), ended_s: Some(1065.0), cuts: 1 });
    }

    #[test]
    fn without_another_route_the_transfer_never_ends() {
        let cuts = [Cut { at_s: 100.0, path: 0 }, Cut { at_s: 200.0, path: 1 }];
        assert_eq!(serve(&ring(), &SETTINGS, &[request(0.0)], &cuts)[0].ended_s, None);
    }
}
