//! What the threads of a phase share: its time, the limits of its flows, and what these say about themselves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::v1::exercise::ExerciseFlowState;
use parking_lot::Mutex;

use crate::caps::Caps;
use crate::file::ExerciseFlow;

/// How often a wait looks whether the phase is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What the threads of a phase share.
pub(crate) struct PhaseControl<'a> {
    stop: &'a AtomicBool,
    began: Instant,
    lasts: Option<Duration>,
    /// All flows are done.
    done: AtomicBool,
    caps: Caps,
    flows: Mutex<SharedFlows>,
}

/// The flows of a phase as their threads report them.
#[derive(Default)]
struct SharedFlows {
    active: Vec<bool>,
    limits_bit_s: Vec<u64>,
    states: Vec<ExerciseFlowState>,
}

impl<'a> PhaseControl<'a> {
    /// A phase that begins now.
    pub fn new(stop: &'a AtomicBool, lasts: Option<Duration>, caps: Caps, flows: &[ExerciseFlow]) -> PhaseControl<'a> {
        let shared = SharedFlows {
            active: vec![false; flows.len()],
            limits_bit_s: vec![0; flows.len()],
            states: flows.iter().map(state_of).collect(),
        };
        PhaseControl {
            stop,
            began: Instant::now(),
            lasts,
            done: AtomicBool::new(false),
            caps,
            flows: Mutex::new(shared),
        }
    }

    /// Seconds since the phase began.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Whether the phase is over, or the run is stopped.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.lasts.is_some_and(|lasts| self.began.elapsed() >= lasts)
    }

    /// Waits until a time after the beginning of the phase. Returns whether the phase still goes on.
    pub fn wait_until(&self, at: Duration) -> bool {
        while !self.is_over() && self.began.elapsed() < at {
            std::thread::sleep(LOOK_EVERY);
        }
        !self.is_over()
    }

    /// Sleeps, or until the phase is over.
    pub fn pause(&self, time: Duration) {
        self.wait_until(self.began.elapsed() + time);
    }

    /// Notes that a flow moves or no longer moves; the limits of all change with it.
    pub fn set_active(&self, flow: usize, is_active: bool) {
        let mut flows = self.flows.lock();
        flows.active[flow] = is_active;
        flows.states[flow].is_active = is_active;
        flows.states[flow].rate_bit_s = None;
        flows.limits_bit_s = self.caps.limits_bit_s(&flows.active);
    }

    /// The limit of a flow, bit/s; none if no cap holds it.
    pub fn limit_bit_s(&self, flow: usize) -> Option<u64> {
        self.caps.holds(flow).then(|| self.flows.lock().limits_bit_s[flow])
    }

    /// Notes the rate of a flow, and what it says about itself.
    pub fn note(&self, flow: usize, rate_bit_s: Option<f64>, why: &str) {
        let state = &mut self.flows.lock().states[flow];
        state.rate_bit_s = rate_bit_s;
        why.clone_into(&mut state.why);
    }

    /// All flows as they are.
    pub fn states(&self) -> Vec<ExerciseFlowState> {
        self.flows.lock().states.clone()
    }

    /// As [`PhaseControl::wait_until`], but also ends when all flows are done.
    pub fn goes_on_until(&self, at: Duration) -> bool {
        let is_over = || self.is_over() || self.done.load(Ordering::Relaxed);
        while !is_over() && self.began.elapsed() < at {
            std::thread::sleep(LOOK_EVERY);
        }
        !is_over()
    }

    /// When the phase began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Whether all flows are done.
    pub fn done(&self) -> &AtomicBool {
        &self.done
    }

    /// Notes that all flows are done.
    pub fn end(&self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

/// The state of a flow that has not begun.
fn state_of(flow: &ExerciseFlow) -> ExerciseFlowState {
    ExerciseFlowState {
        name: flow.name.clone(),
        from: flow.from.clone(),
        to: flow.to.clone(),
        goal_bit_s: flow.goal_bit_s,
        ..ExerciseFlowState::default()
    }
}
