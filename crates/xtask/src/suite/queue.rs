//! Runs tests beside one another, as many of each pool as the budget permits, and prints the progress.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::budget::{Budget, Pool};
use super::{Ending, Outcome, Test, process};

/// The interval of progress lines.
const REPORT_EVERY: Duration = Duration::from_secs(20);

/// The tests of one pool that have not begun.
type Waiting = Mutex<VecDeque<Test>>;

/// The tests that run and those that have ended.
#[derive(Default)]
struct Progress {
    running: BTreeMap<String, Instant>,
    ended: Vec<Outcome>,
    error: Option<anyhow::Error>,
    is_over: bool,
}

struct TestQueue {
    progress: Mutex<Progress>,
    over: Condvar,
    total: usize,
    began: Instant,
    outputs: PathBuf,
}

/// Runs all tests: many that wait, beside a few that compute with a lower priority, and one that measures with a higher one.
///
/// # Errors
/// A test cannot be started, or its program has no budget.
pub fn run(tests: Vec<Test>, budget: &Budget, outputs: PathBuf) -> Result<Vec<Outcome>> {
    let test_queue = TestQueue {
        progress: Mutex::default(),
        over: Condvar::new(),
        total: tests.len(),
        began: Instant::now(),
        outputs,
    };
    let pools = pools(tests, budget)?;
    thread::scope(|scope| {
        scope.spawn(|| test_queue.report());
        thread::scope(|scope| {
            for (pool, waiting) in &pools {
                (0..budget.at_once(*pool)).for_each(|_| drop(scope.spawn(|| test_queue.work(*pool, waiting))));
            }
        });
        test_queue.lock().is_over = true;
        test_queue.over.notify_all();
    });
    let progress = test_queue.progress.into_inner();
    progress.error.map_or(Ok(progress.ended), Err)
}

/// The tests of each pool. Those of the longest programs come first, so that no long test is left for the end.
fn pools(mut tests: Vec<Test>, budget: &Budget) -> Result<BTreeMap<Pool, Waiting>> {
    tests.sort_by_cached_key(|test| budget.order(test));
    let mut pools: BTreeMap<Pool, VecDeque<Test>> = BTreeMap::new();
    for test in tests {
        pools.entry(budget.pool(&test.part, &test.name)?).or_default().push_back(test);
    }
    Ok(pools.into_iter().map(|(pool, tests)| (pool, Mutex::new(tests))).collect())
}

impl TestQueue {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }

    /// One worker: runs one test after another, until none is left.
    fn work(&self, pool: Pool, waiting: &Waiting) {
        // The priority of this thread alone; its processes inherit it. Without the right to a higher priority, it stays as it is.
        let _ = rustix::process::nice(pool.niceness());
        loop {
            let next = waiting.lock().pop_front();
            let Some(test) = next else { return };
            let title = test.title();
            let output = self.outputs.join(file_name(&test));
            self.lock().running.insert(title.clone(), Instant::now());
            let result = process::run(test, output);
            let mut progress = self.lock();
            progress.running.remove(&title);
            match result {
                Ok(outcome) => {
                    if outcome.ending != Ending::Passed {
                        println!("failed: {title} ({:.1} s)", outcome.took.as_secs_f64());
                    }
                    progress.ended.push(outcome);
                }
                Err(error) => progress.error = Some(error.context(title)),
            }
        }
    }

    /// Prints progress lines until all tests have ended.
    fn report(&self) {
        let mut progress = self.lock();
        while !progress.is_over {
            self.over.wait_for(&mut progress, REPORT_EVERY);
            if !progress.is_over {
                println!("{}", self.line(&progress));
            }
        }
    }

    fn line(&self, progress: &Progress) -> String {
        let failed = progress.ended.iter().filter(|outcome| outcome.ending != Ending::Passed).count();
        let longest = progress.running.iter().min_by_key(|(_, began)| **began);
        let longest =
            longest.map(|(title, began)| format!("; longest: {title}, {:.0} s", began.elapsed().as_secs_f64()));
        format!(
            "{:5.0} s: {} of {} tests have run, {failed} failed, {} run now{}",
            self.began.elapsed().as_secs_f64(),
            progress.ended.len(),
            self.total,
            progress.running.len(),
            longest.unwrap_or_default()
        )
    }
}

/// Below the directory of outputs: a file for each test, in a directory for each program.
fn file_name(test: &Test) -> PathBuf {
    let part = test.part.replace([' ', '/'], "-");
    let name = if test.name.is_empty() { "all" } else { &test.name };
    PathBuf::from(part).join(format!("{}.txt", name.replace("::", ".")))
}

#[cfg(test)]
mod tests {
    use super::super::samples::shell;
    use super::*;

    fn budget() -> Budget {
        let row = |name: &str, pool: &str| format!("[part.{name}]\nseconds = 1\npool = {pool:?}\n");
        let rows = row("a", "computes") + &row("b", "waits") + &row("c", "measures");
        toml::from_str(&format!("at_once = {{ computes = 1, waits = 3 }}\n{rows}")).unwrap()
    }

    #[test]
    fn tests_of_all_pools_run_even_if_one_fails() {
        let dir = tempfile::tempdir().unwrap();
        let tests = vec![shell("a", "good", "echo a"), shell("b", "m::bad", "exit 1"), shell("c", "last", "nice")];
        let mut outcomes = run(tests, &budget(), dir.path().to_owned()).unwrap();
        outcomes.sort_by_key(|outcome| outcome.test.title());
        let endings: Vec<Ending> = outcomes.iter().map(|outcome| outcome.ending).collect();
        assert_eq!(endings, [Ending::Passed, Ending::Failed, Ending::Passed]);
        assert_eq!(std::fs::read_to_string(dir.path().join("a/good.txt")).unwrap(), "a\n");
        assert!(dir.path().join("b/m.bad.txt").exists());
    }

    #[test]
    fn a_test_that_computes_has_a_lower_priority_than_one_that_waits() {
        let dir = tempfile::tempdir().unwrap();
        let tests = vec![shell("a", "n", "nice"), shell("b", "n", "nice")];
        run(tests, &budget(), dir.path().to_owned()).unwrap();
        let niceness = |part: &str| std::fs::read_to_string(dir.path().join(part).join("n.txt")).unwrap();
        let [computes, waits] = ["a", "b"].map(|part| niceness(part).trim().parse::<i32>().unwrap());
        assert_eq!(computes, (waits + 5).min(19));
    }

    #[test]
    fn a_program_without_a_budget_is_named() {
        let error = run(vec![shell("z", "n", "true")], &budget(), PathBuf::new()).unwrap_err().to_string();
        assert!(error.contains("[part.\"z\"]"), "{error}");
    }

    #[test]
    fn two_tests_of_one_name_in_two_programs_have_outputs_of_their_own() {
        let [a, b] = ["store/faults", "engine/faults"].map(|part| file_name(&shell(part, "x::y", "")));
        assert_eq!(a, PathBuf::from("store-faults/x.y.txt"));
        assert_ne!(a, b);
    }
}
