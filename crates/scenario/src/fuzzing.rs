//! The entry point for fuzzing: property tests run it in every `make test`, and `make fuzz` for as long as wanted.

use crate::Scenario;

/// Tests the text of a scenario: any text gets an answer, and a problem names a line of the text.
pub fn text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Scenario::read(&text) {
        Ok(scenario) => assert!(!scenario.sites.is_empty()),
        Err(problem) => {
            assert!((1..=text.lines().count().max(1)).contains(&problem.line), "{problem}");
            assert!(!problem.what.is_empty() && !problem.remedy.is_empty());
        }
    }
}
