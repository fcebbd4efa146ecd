//! Tests of the report at the end of a run.

use super::super::samples::shell;
use super::*;

const BUDGET: &str = "at_once = { computes = 1, waits = 4 }\n[part.\"a/b\"]\nseconds = 30\npool = \"waits\"";

/// An outcome, and the file with what it printed.
fn outcome(dir: &tempfile::TempDir, name: &str, ending: Ending, took: u64, printed: &str) -> Outcome {
    let output = dir.path().join(name);
    fs::write(&output, printed).unwrap();
    let test = shell("a/b", name, "");
    let (took, processor) = (Duration::from_secs(took), Duration::from_secs(1));
    Outcome { test, ending, took, processor, output }
}

fn conclusion(outcomes: Vec<Outcome>, request: &Request) -> Conclusion {
    Conclusion::new(outcomes, toml::from_str(BUDGET).unwrap(), Duration::from_secs(3), request)
}

#[test]
fn a_failed_test_is_reported_with_its_last_lines_and_its_command() {
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (1..=100).map(|n| format!("line {n}\n")).collect();
    let outcomes = vec![
        outcome(&dir, "good", Ending::Passed, 1, "all is well"),
        outcome(&dir, "bad", Ending::Failed, 2, &lines),
        outcome(&dir, "stuck", Ending::Hung, 3, ""),
    ];
    let conclusion = conclusion(outcomes, &Request::default());
    let text = conclusion.text();
    assert!(!conclusion.is_green());
    for wanted in
        ["a/b bad failed after 2.0 s:", "    line 100\n", "-- --exact bad\n", "a/b stuck was ended, because it hung"]
    {
        assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
    }
    assert!(!text.contains("line 70\n") && text.contains("line 71\n"), "{text}");
    assert!(!text.contains("all is well"), "{text}");
    assert!(text.ends_with("\n1 passed, 2 failed, 0 skipped"), "{text}");
}

#[test]
fn skipped_and_unjudged_tests_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let printed = "x\nSKIPPED: b::t: no sshd\nNOT JUDGED: b::u: the emulator was late\n";
    let conclusion = conclusion(vec![outcome(&dir, "t", Ending::Passed, 1, printed)], &Request::default());
    let conclusion = conclusion.with_skipped(vec!["SKIPPED: advisories: no network".to_owned()]);
    let text = conclusion.text();
    assert!(conclusion.is_green());
    assert!(text.contains("NOT JUDGED: b::u: the emulator was late\nSKIPPED: advisories: no network\n"), "{text}");
    assert!(text.ends_with("\n1 passed, 0 failed, 3 skipped"), "{text}");
}

#[test]
fn a_test_that_could_not_judge_runs_again_and_one_that_failed_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let late = "NOT JUDGED: t: 1 % of the packets were late";
    assert!(is_not_judged(&outcome(&dir, "late", Ending::Passed, 1, late)));
    assert!(!is_not_judged(&outcome(&dir, "wrong", Ending::Failed, 1, late)));
    assert!(!is_not_judged(&outcome(&dir, "fine", Ending::Passed, 1, "SKIPPED: t: no fq")));
}

#[test]
fn a_program_over_its_budget_fails_the_run_with_its_slowest_tests() {
    let dir = tempfile::tempdir().unwrap();
    let outcomes =
        || vec![outcome(&dir, "quick", Ending::Passed, 1, ""), outcome(&dir, "slow", Ending::Passed, 90, "")];
    let over = conclusion(outcomes(), &Request::default());
    let text = over.text();
    assert!(!over.is_green());
    let begin = text.find("a/b took 91 s, more than 3 times its 30 s").unwrap_or_else(|| panic!("{text}"));
    assert!(text[begin..].find("a/b slow").unwrap() < text[begin..].find("a/b quick").unwrap(), "{text}");
    assert!(conclusion(outcomes().split_off(1), &Request::default()).is_green(), "90 s are three times its 30 s");
    let unhurried = Request { unhurried: true, ..Request::default() };
    assert!(conclusion(outcomes(), &unhurried).is_green(), "a busy machine takes longer");
}

#[test]
fn the_processor_time_of_a_program_that_computes_is_compared_with_its_budget() {
    let dir = tempfile::tempdir().unwrap();
    let computing = BUDGET.replace("waits\"", "computes\"");
    let conclusion = |took: u64, processor: u64| {
        let processor = Duration::from_secs(processor);
        let outcome = Outcome { processor, ..outcome(&dir, "sums", Ending::Passed, took, "") };
        let budget = toml::from_str(&computing).unwrap();
        Conclusion::new(vec![outcome], budget, Duration::from_secs(took), &Request::default())
    };
    assert!(conclusion(269, 48).is_green(), "it ran with a lower priority");
    let text = conclusion(100, 95).text();
    assert!(text.contains("a/b took 95 s of processor time, more than 3 times its 30 s"), "{text}");
}

#[test]
fn a_run_without_a_test_is_not_green() {
    assert!(!conclusion(Vec::new(), &Request::default()).is_green());
}
