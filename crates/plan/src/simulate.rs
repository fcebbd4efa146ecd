//! A simulator at flow level. It steps the code that runs for real (`sched` for rates, retries and shares, `pilot` for streams, `replicas` for the
//! choice of targets) against modelled paths, in virtual time. The same scenario and seed give the same result.
//!
//! Between two rounds rates are constant, so each queue is advanced by itself; see `docs/design/plan.md`.
//!
//! Does not know: packets, clocks. Congestion is a share of a link, not a queue of packets.

mod agents;
mod background;
mod choice;
mod conduct;
mod document;
mod files;
mod law;
mod loss_course;
mod outages;
mod outcome;
mod placement;
mod queue;
mod rates;
mod resources;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use scenario::Scenario;

use self::agents::{LightAgents, LightChange};
use self::background::PathTraffic;
use self::choice::{ChoiceState, RouteChooser};
use self::conduct::QueueConduct;
use self::outages::{Disturbance, Effect, disturbances};
use self::placement::{Feed, Placement, place};
use self::queue::SimulatedQueue;
use self::rates::Rates;
use self::resources::Resources;
use crate::network::Network;
use crate::routes::{self, Avoid, NetworkRoute};

pub use law::{PathTerms, equilibrium_loss};
pub use outcome::{CoursePoint, Outcome, ResourceOutcome, WorkOutcome};
pub use resources::SharedResource;

/// The most rounds at one moment: a step of no length that repeats is a fault of the simulator, and must not hang it.
const ROUNDS_WITHOUT_PROGRESS_MAX: u32 = 10_000;

/// How far a simulation is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulationProgress {
    /// The simulated time so far, seconds.
    pub now_s: f64,
    /// The time to simulate, seconds.
    pub duration_s: f64,
    /// Begins and ends of files so far.
    pub events: u64,
}

/// A simulation under way.
struct Simulator<'a> {
    scenario: &'a Scenario,
    network: Network,
    resources: Resources,
    /// The traffic of others, by the numbers of the paths.
    background: BTreeMap<usize, PathTraffic>,
    /// None if routes are the shortest ones.
    chooser: Option<RouteChooser>,
    /// Links that routes avoid now: closed ones, once routes have followed.
    closed: BTreeSet<usize>,
    /// What transfers may use of each resource now, bytes per second.
    capacities: Vec<f64>,
    /// The part of each resource that events leave.
    whole_parts: Vec<f64>,
    /// The part of each resource that the traffic of others leaves.
    free_parts: Vec<f64>,
    queues: Vec<SimulatedQueue>,
    feeds: Vec<Feed>,
    rates: Rates,
    /// Agents that ask for optical paths, if some work is on demand.
    agents: Option<LightAgents>,
    /// Sorted so that the earliest is last.
    disturbances: Vec<Disturbance>,
    now_s: f64,
    meters: SimulationMeters,
    outcome: Outcome,
}

/// Sums over the simulated time.
struct SimulationMeters {
    /// Bytes over each resource.
    carried: Vec<f64>,
    /// Bytes over each resource in the present round.
    round: Vec<f64>,
    peak_bytes_s: Vec<f64>,
    /// Seconds in which each resource bound a queue.
    bound_s: Vec<f64>,
    /// Seconds in which queues were active.
    active_s: f64,
    /// Bytes moved since the last point of the course.
    since_point: f64,
}

/// Simulates the work of a scenario in its network of a year. `carry_on` is called each round; if it returns false, the simulation ends there,
/// and the outcome holds what happened until then.
pub fn simulate(
    scenario: &Scenario,
    year: Option<u16>,
    carry_on: &mut dyn FnMut(SimulationProgress) -> bool,
) -> Outcome {
    let mut simulator = Simulator::new(scenario, Network::new(scenario, year));
    simulator.run(carry_on);
    simulator.finish()
}

impl<'a> Simulator<'a> {
    fn new(scenario: &'a Scenario, network: Network) -> Simulator<'a> {
        let Placement { mut queues, feeds } = place(scenario);
        let conduct = QueueConduct::of(&scenario.simulation);
        queues.iter_mut().for_each(|queue| queue.conduct = conduct);
        let mut resources = Resources::new(scenario, &network);
        if let Some(light) = &scenario.simulation.light {
            let on_demand = (0..queues.len()).filter(|queue| scenario.work[queues[*queue].work].on_demand);
            on_demand.for_each(|queue| resources.add_light_path(queue, light));
        }
        let (mut disturbances, mut ignored) = disturbances(scenario, &network, &resources);
        let background = background::all(scenario, &network);
        disturbances.extend(background::disturbances(&background, &network, &resources));
        // Of those at one time, the first is applied first.
        disturbances.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        disturbances.reverse();
        let (chooser, problems) = RouteChooser::new(scenario.simulation.choice, &background, scenario.seed);
        ignored.extend(problems);
        let count = resources.all.len();
        let mut simulator = Simulator {
            rates: Rates::new(scenario, &queues),
            agents: LightAgents::new(scenario, &queues),
            outcome: Outcome {
                simulated_s: 0.0,
                stopped: false,
                complete: false,
                events: 0,
                rounds: 0,
                work: work_outcomes(scenario, &queues, &feeds),
                resources: Vec::new(),
                course: Vec::new(),
                ignored,
            },
            meters: SimulationMeters {
                carried: vec![0.0; count],
                round: vec![0.0; count],
                peak_bytes_s: vec![0.0; count],
                bound_s: vec![0.0; count],
                active_s: 0.0,
                since_point: 0.0,
            },
            background,
            chooser,
            closed: BTreeSet::new(),
            capacities: resources.usable.clone(),
            whole_parts: vec![1.0; count],
            free_parts: vec![1.0; count],
            now_s: 0.0,
            scenario,
            network,
            resources,
            queues,
            feeds,
            disturbances,
        };
        simulator.route();
        simulator
    }

    fn run(&mut self, carry_on: &mut dyn FnMut(SimulationProgress) -> bool) {
        let duration_s = self.scenario.simulation.duration.as_secs_f64();
        let mut idle_rounds = 0;
        self.record_point();
        while self.now_s < duration_s {
            self.disturb();
            let waits = self.waiting_queues();
            self.act(&waits);
            self.choose_routes(&waits);
            self.rates.set(self.scenario, self.now_s, &self.capacities, &mut self.queues, &waits);
            let until_s = self.next_round_s(duration_s, &waits);
            idle_rounds = if until_s > self.now_s { 0 } else { idle_rounds + 1 };
            self.advance(until_s, &waits);
            self.outcome.rounds += 1;
            if self.now_s >= duration_s * self.outcome.course.len() as f64 / outcome::POINTS as f64 {
                self.record_point();
            }
            if self.queues.iter().all(SimulatedQueue::is_done) {
                self.outcome.complete = true;
                break;
            }
            let progress = SimulationProgress { now_s: self.now_s, duration_s, events: self.outcome.events };
            if !carry_on(progress) || idle_rounds > ROUNDS_WITHOUT_PROGRESS_MAX {
                self.outcome.stopped = true;
                break;
            }
        }
        self.record_point();
    }

    /// Applies the disturbances that are due.
    fn disturb(&mut self) {
        if self.disturbances.last().is_none_or(|next| next.at_s > self.now_s) {
            return;
        }
        self.apply_disturbances();
        self.note_paths();
    }

    /// Tells each queue whether its path is gone.
    fn note_paths(&mut self) {
        for queue in &mut self.queues {
            let is_gone = queue.terms.is_none() || queue.path.iter().any(|at| self.capacities[*at as usize] == 0.0);
            queue.note_path(self.now_s, is_gone);
        }
    }

    fn apply_disturbances(&mut self) {
        while let Some(due) = self.disturbances.pop_if(|next| next.at_s <= self.now_s) {
            match due.effect {
                Effect::Capacity { resource, fraction } => {
                    self.whole_parts[resource as usize] = fraction;
                    self.set_capacity(resource as usize);
                    if let (SharedResource::Link(link), Some(agents)) =
                        (self.resources.all[resource as usize], &mut self.agents)
                    {
                        let changes = agents.link_changed(link, fraction == 0.0);
                        self.relight(changes);
                    }
                }
                Effect::Background { resource, fraction } => {
                    self.free_parts[resource as usize] = fraction;
                    self.set_capacity(resource as usize);
                }
                Effect::Routes(closed) => {
                    self.closed = closed;
                    self.route();
                }
            }
            self.rates.paths_changed(&self.queues);
        }
    }

    fn set_capacity(&mut self, resource: usize) {
        let part = self.whole_parts[resource] * self.free_parts[resource];
        // The usable rate may be infinite, and infinity times 0 is not a number.
        self.capacities[resource] = if part == 0.0 { 0.0 } else { self.resources.usable[resource] * part };
    }

    /// Lets the agents ask for paths and release them.
    fn act(&mut self, waits: &[bool]) {
        if let Some(agents) = &mut self.agents {
            let changes = agents.act(&self.network, &self.queues, waits, self.now_s);
            self.relight(changes);
        }
    }

    /// Gives queues on demand the routes that have light now.
    fn relight(&mut self, changes: Vec<LightChange>) {
        if changes.is_empty() {
            return;
        }
        for LightChange { queue: number, route } in changes {
            let queue = &mut self.queues[number];
            let work = &self.scenario.work[queue.work];
            queue.terms = route
                .as_ref()
                .map(|route| PathTerms::new(self.scenario, &self.network, work, queue.source, route, route));
            queue.path = route
                .map_or_else(Vec::new, |_| self.resources.light_path(number, queue.source, queue.target, work.on_tape));
        }
        self.note_paths();
        self.rates.paths_changed(&self.queues);
    }

    /// Gives each queue the shortest route, or the fixed one. A queue keeps the route that was chosen for it, unless a link of it is closed; then
    /// another one is chosen. Queues on demand get theirs when it has light.
    fn route(&mut self) {
        let avoid = Avoid { links: self.closed.clone(), ..Avoid::default() };
        let mut known: HashMap<(usize, usize), Option<NetworkRoute>> = HashMap::new();
        for at in 0..self.queues.len() {
            let queue = &mut self.queues[at];
            if self.scenario.work[queue.work].on_demand {
                continue;
            }
            if let Some(route) = &queue.route {
                if !route.links.iter().any(|link| self.closed.contains(link)) {
                    continue;
                }
                queue.route = None;
            }
            let (source, target) = (queue.source, queue.target);
            let mut find = |from: usize, to: usize| {
                let find = || routes::between(&self.network, from, to, &avoid);
                known.entry((from, to)).or_insert_with(find).clone()
            };
            // The reverse route carries acknowledgements; where there is none, nothing moves.
            let directions = find(source, target).zip(find(target, source));
            self.set_route(at, directions);
        }
        self.rates.paths_changed(&self.queues);
    }

    /// Gives a queue a route and the route back; none if there is no route.
    fn set_route(&mut self, at: usize, directions: Option<(NetworkRoute, NetworkRoute)>) {
        let queue = &mut self.queues[at];
        let work = &self.scenario.work[queue.work];
        queue.terms = directions.as_ref().map(|(forward, reverse)| {
            PathTerms::new(self.scenario, &self.network, work, queue.source, forward, reverse)
        });
        queue.path = directions.map_or_else(Vec::new, |(forward, _)| {
            self.resources.path(queue.source, queue.target, &forward, work.on_tape)
        });
    }

    /// Chooses the routes of queues whose first file is there.
    fn choose_routes(&mut self, waits: &[bool]) {
        let Some(mut chooser) = self.chooser.take() else { return };
        for at in (0..self.queues.len()).filter(|at| !waits[*at]) {
            let queue = &self.queues[at];
            let has_own_route = queue.route.is_some() || self.scenario.work[queue.work].on_demand;
            if has_own_route || !queue.is_active(self.now_s) {
                continue;
            }
            let state = ChoiceState {
                network: &self.network,
                background: &self.background,
                usable: &self.resources.usable,
                capacities: &self.capacities,
                queues: &self.queues,
                closed: &self.closed,
                now_s: self.now_s,
            };
            let Some(route) = chooser.choose(&self.queues[at], &state) else { continue };
            let reverse = route.reversed(&self.network);
            self.queues[at].route = Some(route.clone());
            self.set_route(at, reverse.map(|reverse| (route, reverse)));
            self.rates.paths_changed(&self.queues);
        }
        self.chooser = Some(chooser);
    }

    /// Which queues wait until another is done.
    fn waiting_queues(&self) -> Vec<bool> {
        self.queues.iter().map(|queue| queue.after.is_some_and(|after| !self.queues[after].is_done())).collect()
    }

    /// The end of the round: after the step of the scheduler, or at the next change where that is exact; at the next disturbance at the latest.
    fn next_round_s(&self, duration_s: f64, waits: &[bool]) -> f64 {
        let step_s = self.scenario.simulation.step.as_secs_f64();
        let next = if step_s > 0.0 {
            self.now_s + step_s
        } else {
            let queues = self.queues.iter().zip(waits).filter(|(_, waits)| !**waits);
            queues.map(|(queue, _)| queue.next_event_s(self.now_s)).fold(f64::INFINITY, f64::min)
        };
        let disturbance = self.disturbances.last().map_or(f64::INFINITY, |next| next.at_s);
        let light = self.agents.as_ref().map_or(f64::INFINITY, |agents| agents.next_s(&self.queues, self.now_s));
        next.min(disturbance).min(light).min(duration_s)
    }

    /// Advances all queues to a time.
    fn advance(&mut self, until_s: f64, waits: &[bool]) {
        let from_s = self.now_s;
        let seconds = until_s - from_s;
        self.meters.round.fill(0.0);
        for at in (0..self.queues.len()).filter(|at| !waits[*at]) {
            let queue = &mut self.queues[at];
            let deadline_s = deadline_s(&self.scenario.work[queue.work]);
            let outcome = &mut self.outcome.work[queue.work];
            let events = &mut self.outcome.events;
            queue.advance(from_s, until_s, &mut |done| {
                *events += 2;
                outcome.record(&done, deadline_s);
            });
            queue.files.take_answered().iter().for_each(|file| outcome.answered(file));
            self.meter(at, seconds);
        }
        for (resource, bytes) in self.meters.round.iter().enumerate() {
            self.meters.carried[resource] += bytes;
            if seconds > 0.0 {
                let peak = &mut self.meters.peak_bytes_s[resource];
                *peak = peak.max(bytes / seconds);
            }
        }
        self.now_s = until_s;
        self.feed();
    }

    /// Counts what a queue moved in this round.
    fn meter(&mut self, at: usize, seconds: f64) {
        let queue = &mut self.queues[at];
        let bytes = queue.take_moved_bytes();
        if bytes > 0.0 {
            queue.path.iter().for_each(|resource| self.meters.round[*resource as usize] += bytes);
            self.meters.since_point += bytes;
            self.meters.active_s += seconds;
            if let Some(resource) = self.rates.bound_by[at] {
                self.meters.bound_s[resource as usize] += seconds;
            }
        }
        if seconds > 0.0 {
            self.rates.used(at, self.now_s + seconds, bytes / seconds, queue);
        }
    }

    /// Passes completed files to the queues that relays feed.
    fn feed(&mut self) {
        for parent in 0..self.queues.len() {
            if !self.queues[parent].feeds {
                continue;
            }
            let completed = self.queues[parent].take_completed();
            for feed in self.feeds.iter().filter(|feed| feed.from == parent) {
                if let files::QueueFiles::Fed(files) = &mut self.queues[feed.to].files {
                    files.extend(completed.iter().copied());
                }
            }
        }
    }

    /// Adds the state at this moment to the course.
    fn record_point(&mut self) {
        let since = self.outcome.course.last().map_or(0.0, |last| last.at_s);
        let seconds = self.now_s - since;
        if seconds <= 0.0 && !self.outcome.course.is_empty() {
            return;
        }
        let buffered = self.queues.iter().map(|queue| queue.waiting(self.now_s) as f64 * queue.files.mean_bytes());
        self.outcome.course.push(CoursePoint {
            at_s: self.now_s,
            rate_bit_s: if seconds > 0.0 { self.meters.since_point * 8.0 / seconds } else { 0.0 },
            waiting: self.queues.iter().map(|queue| queue.waiting(self.now_s)).sum(),
            buffered_bytes: buffered.sum(),
        });
        self.meters.since_point = 0.0;
    }

    fn finish(mut self) -> Outcome {
        self.outcome.simulated_s = self.now_s;
        let meters = &self.meters;
        let used = (0..self.resources.all.len()).filter(|at| meters.carried[*at] > 0.0);
        let mut resources: Vec<ResourceOutcome> = used
            .map(|at| ResourceOutcome {
                name: self.resources.all[at].name(&self.network),
                usable_bit_s: self.resources.usable[at] * 8.0,
                mean_bit_s: meters.carried[at] * 8.0 / self.now_s.max(f64::MIN_POSITIVE),
                peak_bit_s: meters.peak_bytes_s[at] * 8.0,
                bound: meters.bound_s[at] / meters.active_s.max(f64::MIN_POSITIVE),
            })
            .collect();
        let utilisation = |resource: &ResourceOutcome| resource.mean_bit_s / resource.usable_bit_s;
        resources.sort_by(|a, b| utilisation(b).total_cmp(&utilisation(a)).then_with(|| a.name.cmp(&b.name)));
        self.outcome.resources = resources;
        self.outcome
    }
}

/// The time after which files of a work are late, seconds.
fn deadline_s(work: &scenario::Work) -> f64 {
    work.deadline.map_or(f64::INFINITY, |deadline| (work.at + deadline).as_secs_f64())
}

/// The outcomes of work before it begins. The files of a queue that a relay feeds are those of the relay.
fn work_outcomes(scenario: &Scenario, queues: &[SimulatedQueue], feeds: &[Feed]) -> Vec<WorkOutcome> {
    let mut files: Vec<u64> = queues.iter().map(|queue| queue.files.left()).collect();
    // A feed comes after the queue that it is from.
    for feed in feeds {
        files[feed.to] = files[feed.from];
    }
    let of_work = |number: usize| {
        queues.iter().zip(&files).filter(move |(queue, _)| queue.work == number).map(|(_, files)| files).sum()
    };
    scenario.work.iter().enumerate().map(|(number, work)| WorkOutcome::new(&work.name, of_work(number))).collect()
}

#[cfg(test)]
mod tests;
