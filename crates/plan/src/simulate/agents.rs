//! Agents of work on demand: each asks for an optical path when its queue has files, releases it when nothing is left, and gets another one when a link is cut.
//!
//! Does not know: the rates of queues. A path in light is a resource of one queue; without light, the queue has no route.

use scenario::{LightSettings, Scenario};

use super::queue::SimulatedQueue;
use crate::lightpaths::FreeWavelengths;
use crate::network::Network;
use crate::routes::NetworkRoute;

/// The agents of all queues on demand.
#[derive(Debug)]
pub struct LightAgents {
    settings: LightSettings,
    free: FreeWavelengths,
    agents: Vec<LightAgent>,
    /// Agents that wait for free wavelengths, by number, with the seconds that it will take to light their path; the oldest first.
    waiting: Vec<(usize, f64)>,
}

#[derive(Debug)]
struct LightAgent {
    queue: usize,
    state: LightState,
}

#[derive(Clone, Debug, PartialEq)]
enum LightState {
    /// Nothing is to move.
    Idle,
    /// No wavelength is free.
    Waits,
    /// The path is set up, and has light from a time on.
    SetUp { route: NetworkRoute, lit_s: f64, is_lit: bool },
}

/// A queue whose route changes.
#[derive(Clone, Debug, PartialEq)]
pub struct LightChange {
    /// The queue.
    pub queue: usize,
    /// The route that has light now; none if it went dark.
    pub route: Option<NetworkRoute>,
}

impl LightAgents {
    /// The agents of a scenario; none if no work is on demand.
    pub fn new(scenario: &Scenario, queues: &[SimulatedQueue]) -> Option<LightAgents> {
        let settings = scenario.simulation.light?;
        let on_demand = (0..queues.len()).filter(|queue| scenario.work[queues[*queue].work].on_demand);
        let agents: Vec<LightAgent> = on_demand.map(|queue| LightAgent { queue, state: LightState::Idle }).collect();
        let free = FreeWavelengths::new(settings.wavelengths);
        (!agents.is_empty()).then_some(LightAgents { settings, free, agents, waiting: Vec::new() })
    }

    /// Lets all agents act at a time. `waits` says which queues must not begin yet.
    pub fn act(
        &mut self,
        network: &Network,
        queues: &[SimulatedQueue],
        waits: &[bool],
        now_s: f64,
    ) -> Vec<LightChange> {
        let mut changes = Vec::new();
        for (number, agent) in self.agents.iter_mut().enumerate() {
            let queue = &queues[agent.queue];
            let has_files = !waits[agent.queue] && queue.has_files(now_s);
            match &agent.state {
                LightState::Idle if has_files => {
                    agent.state = LightState::Waits;
                    self.waiting.push((number, self.settings.setup.as_secs_f64()));
                }
                LightState::SetUp { route, is_lit, .. } if *is_lit && !has_files => {
                    self.free.free(route);
                    agent.state = LightState::Idle;
                    changes.push(LightChange { queue: agent.queue, route: None });
                }
                _ => {}
            }
        }
        self.set_up(network, queues, now_s);
        for agent in &mut self.agents {
            if let LightState::SetUp { route, lit_s, is_lit } = &mut agent.state
                && !*is_lit
                && *lit_s <= now_s
            {
                *is_lit = true;
                changes.push(LightChange { queue: agent.queue, route: Some(route.clone()) });
            }
        }
        changes
    }

    /// Sets up paths for agents that wait, as far as wavelengths are free.
    fn set_up(&mut self, network: &Network, queues: &[SimulatedQueue], now_s: f64) {
        for (number, delay_s) in std::mem::take(&mut self.waiting) {
            let agent = &mut self.agents[number];
            let queue = &queues[agent.queue];
            match self.free.take(network, queue.source, queue.target) {
                Some(route) => agent.state = LightState::SetUp { route, lit_s: now_s + delay_s, is_lit: false },
                None => self.waiting.push((number, delay_s)),
            }
        }
    }

    /// A link is down, or up again. Paths over a link that is down go dark, and their agents ask before all others.
    pub fn link_changed(&mut self, link: usize, is_down: bool) -> Vec<LightChange> {
        if !is_down {
            self.free.repair(link);
            return Vec::new();
        }
        self.free.cut(link);
        let mut changes = Vec::new();
        let mut dark = Vec::new();
        for (number, agent) in self.agents.iter_mut().enumerate() {
            let LightState::SetUp { route, .. } = &agent.state else { continue };
            if self.free.is_cut(route) {
                self.free.free(route);
                agent.state = LightState::Waits;
                dark.push((number, self.settings.restoration.as_secs_f64()));
                changes.push(LightChange { queue: agent.queue, route: None });
            }
        }
        dark.append(&mut self.waiting);
        self.waiting = dark;
        changes
    }

    /// When an agent has something to do next: a path has light, or a queue without files gets one.
    pub fn next_s(&self, queues: &[SimulatedQueue], now_s: f64) -> f64 {
        let next = |agent: &LightAgent| match &agent.state {
            LightState::SetUp { lit_s, is_lit: false, .. } => *lit_s,
            LightState::Idle => {
                Some(queues[agent.queue].next_file_s()).filter(|at| *at > now_s).unwrap_or(f64::INFINITY)
            }
            LightState::Waits | LightState::SetUp { .. } => f64::INFINITY,
        };
        self.agents.iter().map(next).fold(f64::INFINITY, f64::min)
    }
}
