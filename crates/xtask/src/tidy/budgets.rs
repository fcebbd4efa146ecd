//! Every test program has a budget in seconds (`crates/xtask/tests.toml`), and the budgets of each pool together fit a run.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use cargo_metadata::MetadataCommand;

use super::{Breach, Tree};
use crate::suite::budget::{Budget, EXAMPLES, Pool, part_name};

/// The longest that the tests of a pool may run by their budgets, on two processors that do nothing else. Pools run beside one
/// another; the rest of the 15 minutes of `make test` is compiling.
const RUN_SECONDS_MAX: u64 = 660;

/// Every program has a budget, every budget a program, and the budgets of each pool fit a run.
///
/// # Errors
/// cargo cannot read the workspace, or the budget is not valid.
pub fn check(tree: &Tree) -> Result<Vec<Breach>> {
    Ok(judge(&programs(tree)?, &Budget::load()?))
}

fn programs(tree: &Tree) -> Result<BTreeSet<String>> {
    let mut command = MetadataCommand::new();
    command.manifest_path(tree.root.join("Cargo.toml")).no_deps().other_options(["--offline".to_string()]);
    let metadata = command.exec().context("cargo metadata failed")?;
    let mut names = BTreeSet::from([EXAMPLES.to_owned()]);
    for package in metadata.workspace_packages() {
        let tested = package.targets.iter().filter(|target| target.test);
        names.extend(tested.map(|target| part_name(&package.name, target)));
    }
    Ok(names)
}

fn judge(programs: &BTreeSet<String>, budget: &Budget) -> Vec<Breach> {
    let breach = |what: String| Breach::new("crates/xtask/tests.toml", 0, what);
    let without = programs.iter().filter(|name| !budget.part.contains_key(*name));
    let mut breaches: Vec<Breach> =
        without.map(|name| breach(format!("the tests of {name:?} have no budget"))).collect();
    let gone = budget.part.keys().filter(|name| !programs.contains(*name));
    breaches.extend(gone.map(|name| breach(format!("[part.{name:?}] is the budget of no test program"))));
    for pool in [Pool::Computes, Pool::Waits, Pool::Measures, Pool::Alone] {
        let seconds = budget.seconds(pool);
        if seconds > RUN_SECONDS_MAX {
            let what =
                format!("the budgets of {pool:?} add up to a run of {seconds} s; it may take {RUN_SECONDS_MAX} s");
            breaches.push(breach(what));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(programs: &[&str], rows: &str) -> Vec<String> {
        let programs = programs.iter().map(|name| (*name).to_owned()).collect();
        let budget = toml::from_str(&format!("at_once = {{ computes = 2, waits = 4 }}\n{rows}")).unwrap();
        judge(&programs, &budget).into_iter().map(|breach| breach.what).collect()
    }

    #[test]
    fn a_program_without_a_budget_and_a_budget_without_a_program_are_found() {
        let row = "[part.a]\nseconds = 10\npool = \"waits\"\n";
        assert!(faults(&["a"], row).is_empty());
        assert!(faults(&["a", "b"], row)[0].contains("\"b\" have no budget"));
        assert!(faults(&[], row)[0].contains("the budget of no test program"));
    }

    #[test]
    fn the_budgets_of_a_pool_must_fit_a_run() {
        let row = |seconds: u64, pool: &str| format!("[part.a]\nseconds = {seconds}\npool = {pool:?}\n");
        assert!(faults(&["a"], &row(RUN_SECONDS_MAX * 4, "waits")).is_empty(), "four run at once");
        assert!(faults(&["a"], &row(RUN_SECONDS_MAX * 4, "measures"))[0].contains("add up to a run of"));
    }
}
