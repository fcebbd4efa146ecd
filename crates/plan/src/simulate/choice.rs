//! The choice of a route for a queue whose first file is there: by the free capacity of now, or by a forecast of the traffic of others.
//!
//! Does not know: how queues get their rates.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::traffic::ForecastMethod;
use predict::{HORIZON, Model};
use scenario::RouteChoice;

use super::background::{PathTraffic, left_part};
use super::queue::SimulatedQueue;
use crate::network::Network;
use crate::routes::{NetworkRoute, shortest_routes};

/// The routes that are compared.
const ROUTES: usize = 4;
/// Hours after which a queue counts as never done.
const HOURS_MAX: usize = 24 * 60;

/// Chooses routes.
#[derive(Debug)]
pub(super) struct RouteChooser {
    forecasts: Option<Forecasts>,
    routes: HashMap<(usize, usize), Vec<NetworkRoute>>,
}

/// The forecasts of the traffic on paths.
#[derive(Debug)]
struct Forecasts {
    /// By the numbers of the paths.
    models: BTreeMap<usize, Model>,
    /// The hour of the forecasts below.
    hour: usize,
    /// Medians of the next hours, bit/s.
    medians: BTreeMap<usize, Vec<f64>>,
}

/// What queues that have their routes use of a link.
#[derive(Clone, Copy, Debug)]
struct LinkUse {
    rate_bytes_s: f64,
    until_s: f64,
}

/// The state of the network at the time of a choice.
pub(super) struct ChoiceState<'a> {
    pub network: &'a Network,
    /// The traffic of others, by the numbers of the paths.
    pub background: &'a BTreeMap<usize, PathTraffic>,
    /// What transfers may use of each link while nothing is broken, bytes per second, by the numbers of the links.
    pub usable: &'a [f64],
    /// What they may use now.
    pub capacities: &'a [f64],
    /// All queues with the links of their routes.
    pub queues: &'a [SimulatedQueue],
    /// Links that are closed.
    pub closed: &'a BTreeSet<usize>,
    pub now_s: f64,
}

impl RouteChooser {
    /// A chooser; none if routes are the shortest ones. What cannot be forecast is returned as text, and the load of now counts instead.
    pub fn new(
        choice: RouteChoice,
        background: &BTreeMap<usize, PathTraffic>,
        seed: u64,
    ) -> (Option<RouteChooser>, Vec<String>) {
        let mut problems = Vec::new();
        let forecasts = match choice {
            RouteChoice::Shortest => return (None, problems),
            RouteChoice::LeastLoaded => None,
            RouteChoice::Forecast(method) => Some(Forecasts::fit(method, background, seed, &mut problems)),
        };
        (Some(RouteChooser { forecasts, routes: HashMap::new() }), problems)
    }

    /// The best route for a queue; none if no route is open.
    pub fn choose(&mut self, queue: &SimulatedQueue, state: &ChoiceState) -> Option<NetworkRoute> {
        let find = || shortest_routes(state.network, queue.source, queue.target, ROUTES);
        let routes = self.routes.entry((queue.source, queue.target)).or_insert_with(find);
        let open = routes.iter().filter(|route| !route.links.iter().any(|link| state.closed.contains(link)));
        let mut best: Option<(f64, &NetworkRoute)> = None;
        if let Some(forecasts) = &mut self.forecasts {
            forecasts.update(state);
        }
        for route in open {
            let cost = match &self.forecasts {
                None => -free_now(route, state),
                Some(forecasts) => forecasts.done_after_s(route, queue.left_bytes(), state),
            };
            // Of equal ones the shortest.
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, route));
            }
        }
        best.map(|(_, route)| route.clone())
    }
}

/// What the queues with routes use of a link.
fn uses(link: usize, state: &ChoiceState) -> Vec<LinkUse> {
    let of_link = state.queues.iter().filter(|queue| queue.route.as_ref().is_some_and(|it| it.links.contains(&link)));
    of_link
        .filter(|queue| queue.rate_bytes_s > 0.0 && !queue.is_done())
        .map(|queue| LinkUse {
            rate_bytes_s: queue.rate_bytes_s,
            until_s: state.now_s + queue.left_bytes() / queue.rate_bytes_s,
        })
        .collect()
}

/// The least capacity of a route's links that nobody uses now, bytes per second.
fn free_now(route: &NetworkRoute, state: &ChoiceState) -> f64 {
    let free = |link: &usize| {
        let used: f64 = uses(*link, state).iter().map(|it| it.rate_bytes_s).sum();
        (state.capacities[*link] - used).max(0.0)
    };
    route.links.iter().map(free).fold(f64::INFINITY, f64::min)
}

impl Forecasts {
    fn fit(
        method: ForecastMethod,
        background: &BTreeMap<usize, PathTraffic>,
        seed: u64,
        problems: &mut Vec<String>,
    ) -> Forecasts {
        let mut models = BTreeMap::new();
        for (path, traffic) in background {
            match Model::fit(method, &traffic.measured_until(0.0), seed) {
                Ok(model) => drop(models.insert(*path, model)),
                Err(problem) => problems.push(format!("forecasts: {problem}")),
            }
        }
        Forecasts { models, hour: usize::MAX, medians: BTreeMap::new() }
    }

    /// Forecasts again if another hour has begun.
    fn update(&mut self, state: &ChoiceState) {
        let hour = (state.now_s / 3600.0) as usize;
        if self.hour == hour {
            return;
        }
        self.hour = hour;
        self.medians.clear();
        for (path, model) in &self.models {
            // If a forecast fails, the present load counts.
            let measured = state.background[path].measured_until(state.now_s);
            if let Ok(bands) = model.forecast(&measured) {
                self.medians.insert(*path, bands.iter().map(|band| band.median).collect());
            }
        }
    }

    /// The seconds after which bytes would have moved over a route, if the traffic of others is as forecast and queues with routes keep their
    /// rates until they are done. After the forecast its last day is repeated.
    fn done_after_s(&self, route: &NetworkRoute, bytes: f64, state: &ChoiceState) -> f64 {
        let links: Vec<(usize, Vec<LinkUse>)> = route.links.iter().map(|link| (*link, uses(*link, state))).collect();
        let mut left = bytes;
        for hour in 0..HOURS_MAX {
            let from_s = state.now_s + hour as f64 * 3600.0;
            let free = |(link, uses): &(usize, Vec<LinkUse>)| {
                let used: f64 = uses.iter().filter(|it| it.until_s > from_s).map(|it| it.rate_bytes_s).sum();
                (self.capacity(*link, hour, state) - used).max(0.0)
            };
            let rate = links.iter().map(free).fold(f64::INFINITY, f64::min);
            if left <= rate * 3600.0 {
                return hour as f64 * 3600.0 + left / rate;
            }
            left -= rate * 3600.0;
        }
        f64::INFINITY
    }

    /// What transfers may use of a link in an hour from now, bytes per second.
    fn capacity(&self, link: usize, hour: usize, state: &ChoiceState) -> f64 {
        match self.medians.get(&state.network.links[link].path) {
            Some(medians) => {
                state.usable[link] * left_part(medians[hour % HORIZON], state.network.links[link].capacity_bit_s)
            }
            None => state.capacities[link],
        }
    }
}
