//! The board of a hub: a run is reported there while it goes on, and can be stopped from there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use exercise::page::rate_text;
use hubapi::Api;
use model::Exit;
use model::id::Uuid;
use model::v1::exercise::{ExerciseBoard, ExerciseFlowState, ExerciseProgress};
use parking_lot::Mutex;

use crate::args::{ExerciseBoardArgs, ExerciseStopArgs};
use crate::failure::Failure;
use crate::hub_client;
use crate::printer::Printer;
use crate::settings::Settings;

/// How often a run is reported.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Flows of a run that are printed: those that are furthest behind.
const SHOWN_MAX: usize = 10;

/// Reports a run to a board, in a thread of its own: a hub that is slow or gone does not hold the run up.
pub struct BoardReporter {
    hub: Api,
    id: Uuid,
    latest: Mutex<Option<ExerciseProgress>>,
    stopped_by: Mutex<Option<String>>,
}

impl BoardReporter {
    /// Reports a new run to a hub.
    pub fn new(hub: Api) -> BoardReporter {
        BoardReporter { hub, id: Uuid::now_v7(), latest: Mutex::default(), stopped_by: Mutex::default() }
    }

    /// Notes the state that is reported next.
    pub fn note(&self, progress: ExerciseProgress) {
        *self.latest.lock() = Some(progress);
    }

    /// Reports the latest state every second until `over` is dropped. Sets `stop` when somebody has stopped the run.
    pub fn run(&self, over: &mpsc::Receiver<()>, stop: &AtomicBool) {
        let mut has_warned = false;
        while over.recv_timeout(REPORT_EVERY) == Err(RecvTimeoutError::Timeout) {
            match self.report() {
                Ok(()) => has_warned = false,
                Err(error) if !has_warned => {
                    Printer::note(&format!(
                        "the board of the hub does not get the state of this run, which goes on: {error}"
                    ));
                    has_warned = true;
                }
                Err(_) => {}
            }
            if self.stopped_by.lock().is_some() {
                stop.store(true, Ordering::Relaxed);
            }
        }
    }

    fn report(&self) -> Result<(), hubapi::Error> {
        let Some(progress) = self.latest.lock().clone() else { return Ok(()) };
        let answer = self.hub.report_exercise(self.id, &progress)?;
        *self.stopped_by.lock() = answer.stopped_by;
        Ok(())
    }

    /// Who stopped the run at the hub, if somebody did.
    pub fn stopped_by(&self) -> Option<String> {
        self.stopped_by.lock().clone()
    }

    /// Reports how the run ended. A hub that cannot be reached shows its last state.
    pub fn end(&self, result: String) {
        let mut latest = self.latest.lock();
        // The last rates say nothing about the whole run: its report does.
        let progress = latest.take().unwrap_or_default();
        *latest = Some(ExerciseProgress { flows: Vec::new(), result: Some(result), ..progress });
        drop(latest);
        if let Err(error) = self.report() {
            Printer::note(&format!("the board of the hub does not get the result of this run: {error}"));
        }
    }
}

/// Prints the runs on the board of a hub.
///
/// # Errors
/// No hub is named, or it does not answer.
pub fn show(args: &ExerciseBoardArgs, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let boards = hub_client::api(&args.at, settings)?.exercises().map_err(hub_client::failure)?;
    if printer.is_json() {
        printer.object(&boards);
        return Ok(Exit::Done);
    }
    if boards.exercises.is_empty() {
        printer.line("no exercise was reported in the last week");
    }
    for board in &boards.exercises {
        lines(board).iter().for_each(|line| printer.line(line));
    }
    Ok(Exit::Done)
}

/// Stops a run.
///
/// # Errors
/// No hub is named, it does not answer, or there is no such run.
pub fn stop(args: &ExerciseStopArgs, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let board = hub_client::api(&args.at, settings)?.stop_exercise(args.id).map_err(hub_client::failure)?;
    printer.line(&format!("{} is stopped: its controller learns it with its next report", board.progress.title));
    Ok(Exit::Done)
}

/// A run as text: what it does, what is missing, and the flows that are furthest behind.
fn lines(board: &ExerciseBoard) -> Vec<String> {
    let progress = &board.progress;
    let state = match (&progress.result, &board.stopped_by) {
        (Some(result), _) => result.clone(),
        (None, Some(by)) => format!("{} (stopped by {by})", progress.doing),
        (None, None) => format!("{}, {:.0} s, reported {}", progress.doing, progress.seconds, board.reported),
    };
    let mut lines = vec![format!("{}  {}: {state}", board.id, progress.title)];
    lines.extend(progress.missing.iter().map(|text| format!("  missing: {text}")));
    let mut behind: Vec<(f64, &ExerciseFlowState)> = progress
        .flows
        .iter()
        .filter_map(|flow| Some((part_of_goal(flow)?, flow)))
        .filter(|(part, _)| *part < 1.0)
        .collect();
    behind.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let rates = || progress.flows.iter().filter_map(|flow| flow.rate_bit_s);
    if rates().next().is_some() {
        let moving = progress.flows.iter().filter(|flow| flow.is_active);
        let goals: f64 = moving.filter_map(|flow| flow.goal_bit_s).sum();
        let goal = if goals > 0.0 { format!(" of {}", rate_text(goals)) } else { String::new() };
        lines.push(format!(
            "  {}{goal}; {} of {} flows are behind",
            rate_text(rates().sum()),
            behind.len(),
            progress.flows.len()
        ));
    }
    for (_, flow) in behind.into_iter().take(SHOWN_MAX) {
        let rate = flow.rate_bit_s.map_or_else(|| "no sample".to_owned(), rate_text);
        let goal = flow.goal_bit_s.map_or_else(String::new, rate_text);
        let why = if flow.why.is_empty() { String::new() } else { format!(": {}", flow.why) };
        lines.push(format!("  {}  {rate} of {goal}{why}", flow.name));
    }
    lines
}

/// The part of its goal that a flow achieves; none for a flow without a goal, or that does not move.
fn part_of_goal(flow: &ExerciseFlowState) -> Option<f64> {
    flow.goal_bit_s.filter(|_| flow.is_active).map(|goal| flow.rate_bit_s.unwrap_or(0.0) / goal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flows_that_are_furthest_behind_come_first_with_their_reasons() {
        let flow = |name: &str, rate_bit_s: Option<f64>, why: &str| ExerciseFlowState {
            name: name.into(),
            goal_bit_s: Some(1e9),
            rate_bit_s,
            is_active: true,
            why: why.into(),
            ..ExerciseFlowState::default()
        };
        let flows =
            vec![flow("fine", Some(2e9), ""), flow("near", Some(9e8), "network: 1 % lost"), flow("far", None, "")];
        let progress = ExerciseProgress {
            title: "dc".into(),
            doing: "50 %".into(),
            flows,
            missing: vec!["x was left out".into()],
            ..ExerciseProgress::default()
        };
        let mut board = ExerciseBoard { id: "7".into(), progress, ..ExerciseBoard::default() };
        assert_eq!(
            lines(&board)[1..],
            [
                "  missing: x was left out",
                "  2.90 Gbit/s of 3.00 Gbit/s; 2 of 3 flows are behind",
                "  far  no sample of 1.00 Gbit/s",
                "  near  900 Mbit/s of 1.00 Gbit/s: network: 1 % lost",
            ]
        );
        board.progress.result = Some("2 of 3 goals met".into());
        assert_eq!(lines(&board)[0], "7  dc: 2 of 3 goals met");
    }
}
