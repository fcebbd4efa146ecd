//! The runs of an agent: those that are not finished, and the last ones that have ended.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use model::Fault;
use model::id::Uuid;
use parking_lot::Mutex;
use web::Refused;

use super::checked_order::CheckedOrder;
use super::limits::{ENDED_RUNS_MAX, GRACE};
use super::tool_run::{RunSettings, StopCause, ToolRun};

/// How long after SIGKILL a process may hang in the kernel before the agent no longer waits for it.
const HANGING: Duration = Duration::from_secs(3);

/// The runs of an agent.
pub(super) struct RunTable {
    settings: Arc<RunSettings>,
    /// The most processes of all runs at once.
    clients_max: u32,
    runs: Mutex<TableState>,
}

#[derive(Default)]
struct TableState {
    /// In the order in which they began.
    runs: Vec<Arc<ToolRun>>,
    /// The agent stops: there are no new runs.
    is_closed: bool,
}

impl TableState {
    /// The processes that unfinished runs may have.
    fn reserved(&self) -> u32 {
        self.runs.iter().filter(|run| !run.has_ended()).map(|run| run.clients).sum()
    }

    /// Forgets the oldest ended runs that are too many.
    fn forget_oldest(&mut self) {
        let mut surplus = self.runs.iter().filter(|run| run.has_ended()).count().saturating_sub(ENDED_RUNS_MAX);
        self.runs.retain(|run| {
            let is_kept = surplus == 0 || !run.has_ended();
            surplus -= usize::from(!is_kept);
            is_kept
        });
    }
}

impl RunTable {
    /// A table without runs.
    pub fn new(settings: RunSettings, clients_max: u32) -> RunTable {
        RunTable { settings: Arc::new(settings), clients_max, runs: Mutex::default() }
    }

    /// Begins a run. Returns it, and whether it is new: an order that was sent before is the run that it began then.
    ///
    /// # Errors
    /// The id belongs to another order, too many clients run, or the agent stops.
    pub fn begin(&self, order: CheckedOrder) -> Result<(Arc<ToolRun>, bool), Refused> {
        let mut table = self.runs.lock();
        if let Some(known) = table.runs.iter().find(|run| run.id == order.id) {
            if known.hash == order.hash {
                return Ok((Arc::clone(known), false));
            }
            return Err(Refused::new(409, format!("the run {} has another order; use a new id", order.id)));
        }
        let busy = |reason: String| {
            Refused { fault: Some(Fault::Local), ..Refused::new(503, reason) }.with("Retry-After", "5")
        };
        if table.is_closed {
            return Err(busy("the agent is stopping".to_owned()));
        }
        let used = table.reserved();
        if used.saturating_add(order.clients) > self.clients_max {
            return Err(busy(format!(
                "{used} of {} clients are in use and {} more are wanted; wait for another run to end, or start the agent with a \
                 greater --clients-max",
                self.clients_max, order.clients
            )));
        }
        let run = Arc::new(ToolRun::new(order, Arc::clone(&self.settings)));
        let supervised = Arc::clone(&run);
        let thread = thread::Builder::new().name("run".into()).spawn(move || supervised.supervise());
        thread.map_err(|error| busy(format!("the host of the agent starts no more threads: {error}")))?;
        table.runs.push(Arc::clone(&run));
        table.forget_oldest();
        Ok((run, true))
    }

    /// A run.
    pub fn get(&self, id: Uuid) -> Option<Arc<ToolRun>> {
        self.runs.lock().runs.iter().find(|run| run.id == id).cloned()
    }

    /// The processes that unfinished runs may have.
    pub fn clients(&self) -> u32 {
        self.runs.lock().reserved()
    }

    /// The most processes of all runs at once.
    pub fn clients_max(&self) -> u32 {
        self.clients_max
    }

    /// Stops all runs and refuses new ones; returns when no process is left, or hangs in the kernel.
    pub fn close(&self) {
        let runs = {
            let mut table = self.runs.lock();
            table.is_closed = true;
            table.runs.clone()
        };
        runs.iter().for_each(|run| run.stop(StopCause::Agent));
        runs.iter().for_each(|run| run.wait_until_ended(GRACE + HANGING));
    }

    /// Stops a run, and returns when no process of it is left, or hangs in the kernel.
    pub fn stop(&self, run: &ToolRun) {
        run.stop(StopCause::Order);
        run.wait_until_ended(GRACE + HANGING);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::installed::InstalledTools;
    use super::super::process::Launcher;
    use super::super::words::{ToolRunCredentials, ToolRunDirection, ToolRunFile, ToolRunOrder, ToolRunState};
    use super::*;

    fn table(directory: &Path, clients_max: u32) -> (RunTable, InstalledTools) {
        let launcher = Launcher::new(directory);
        let tools = InstalledTools::find(Some(&["curl".to_owned()]), None, &launcher).unwrap();
        (RunTable::new(RunSettings { launcher, authorities: None, state: None }, clients_max), tools)
    }

    /// An order that fails at once: nothing listens on port 1 of loopback.
    fn order(id: u128, clients: u32, tools: &InstalledTools) -> CheckedOrder {
        let file = |n| ToolRunFile { source: format!("http://127.0.0.1:1/{n}"), target: "null:".into(), bytes: 1 };
        let order = ToolRunOrder {
            id: Uuid::from_u128(id),
            tool: "curl".into(),
            direction: ToolRunDirection::Get,
            files: (0..8).map(file).collect(),
            files_each: 1,
            credentials: ToolRunCredentials::default(),
            streams: None,
            window_bytes: None,
            limit_bit_s: None,
            clients,
            seconds: None,
            scitag: None,
            lifetime_s: 60,
        };
        CheckedOrder::check(&order, tools).unwrap()
    }

    #[test]
    fn an_order_is_one_run_however_often_it_is_sent() {
        let dir = tempfile::tempdir().unwrap();
        let (table, tools) = table(dir.path(), 4);
        let (first, is_new) = table.begin(order(1, 2, &tools)).unwrap();
        assert!(is_new);
        first.wait_until_ended(Duration::from_secs(60));
        let status = first.status();
        assert_eq!((status.state, status.files_failed, status.processes), (ToolRunState::Failed, 8, 0));
        let (again, is_new) = table.begin(order(1, 2, &tools)).unwrap();
        assert!(!is_new && Arc::ptr_eq(&first, &again));
        assert_eq!(table.begin(order(1, 3, &tools)).err().unwrap().status, 409);
        assert!(table.get(Uuid::from_u128(1)).is_some() && table.get(Uuid::from_u128(2)).is_none());
    }

    #[test]
    fn more_clients_than_permitted_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (table, tools) = table(dir.path(), 4);
        let refused = table.begin(order(1, 5, &tools)).err().unwrap();
        assert!(
            refused.status == 503 && refused.reason.contains("0 of 4 clients are in use and 5 more"),
            "{refused:?}"
        );
        assert_eq!((table.clients(), table.clients_max()), (0, 4));
        let (run, _) = table.begin(order(1, 4, &tools)).unwrap();
        run.wait_until_ended(Duration::from_secs(60));
        assert!(table.begin(order(2, 4, &tools)).is_ok(), "an ended run has no clients");
        table.close();
        assert!(table.begin(order(3, 1, &tools)).err().unwrap().reason.contains("stopping"));
    }

    #[test]
    fn the_oldest_ended_runs_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let (table, tools) = table(dir.path(), 1);
        let run = Arc::new(ToolRun::new(order(0, 1, &tools), Arc::clone(&table.settings)));
        // A run that is stopped before it begins starts no process.
        run.stop(StopCause::Order);
        run.supervise();
        assert_eq!(run.status().state, ToolRunState::Stopped);
        let mut state = TableState { runs: vec![run; ENDED_RUNS_MAX + 3], is_closed: false };
        state.runs.push(Arc::new(ToolRun::new(order(1, 1, &tools), Arc::clone(&table.settings))));
        state.forget_oldest();
        assert_eq!((state.runs.len(), state.reserved()), (ENDED_RUNS_MAX + 1, 1));
        assert!(!state.runs[ENDED_RUNS_MAX].has_ended(), "a run that has not ended is kept");
    }
}
