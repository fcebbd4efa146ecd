//! The last line of a third-party copy. Only this line gives the client the outcome: the status was sent before the copy began.
//!
//! FTS decides by words in this line whether to retry, and retries where it finds none that it knows. So a permanent failure contains
//! the words by which FTS recognises it. The text of a temporary failure must not contain them.

use model::{Fault, Retry};

use super::line::one_line;

/// How a copy ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyOutcome {
    /// `success: Created`.
    Success,
    /// `failure: …`, with the reason.
    Failure(String),
    /// `aborted: …`, with the reason.
    Aborted(String),
}

/// The words for a permanent fault at which FTS does not retry. FTS compares without regard to case, and has no words for some
/// faults.
fn no_retry_words(fault: Fault) -> Option<&'static str> {
    match fault {
        Fault::Missing => Some("No such file or directory"),
        Fault::Auth => Some("Permission denied"),
        Fault::Integrity => Some("CHECKSUM MISMATCH"),
        _ => None,
    }
}

impl CopyOutcome {
    /// A failure, worded so that FTS retries it only if a retry is useful.
    pub fn failure(fault: Fault, retry: Retry, text: &str) -> CopyOutcome {
        if fault == Fault::Interrupted {
            return CopyOutcome::Aborted(text.to_owned());
        }
        let words = no_retry_words(fault).filter(|_| retry == Retry::Never);
        let has_words = |words: &&str| text.to_ascii_lowercase().contains(&words.to_ascii_lowercase());
        match words.filter(|words| !has_words(words)) {
            Some(words) => CopyOutcome::Failure(format!("{words}: {text}")),
            None => CopyOutcome::Failure(text.to_owned()),
        }
    }

    /// The line, with its line feed.
    pub fn line(&self) -> String {
        match self {
            CopyOutcome::Success => "success: Created\n".to_owned(),
            CopyOutcome::Failure(reason) => format!("failure: {}\n", one_line(reason)),
            CopyOutcome::Aborted(reason) => format!("aborted: {}\n", one_line(reason)),
        }
    }

    /// Parses a line; `None` where it is not a last line. The first word decides, without regard to case; `failed` counts as
    /// `failure`.
    pub fn parse(line: &str) -> Option<CopyOutcome> {
        let line = line.trim();
        let reason = |word: &str| {
            let (first, rest) = line.split_at_checked(word.len())?;
            first.eq_ignore_ascii_case(word).then(|| one_line(rest.trim_start_matches([':', ' '])))
        };
        if reason("success").is_some() {
            return Some(CopyOutcome::Success);
        }
        if let Some(why) = reason("failure").or_else(|| reason("failed")) {
            return Some(CopyOutcome::Failure(why));
        }
        reason("aborted").map(CopyOutcome::Aborted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_outcome_is_one_line_of_bounded_length() {
        assert_eq!(CopyOutcome::Success.line(), "success: Created\n");
        let failure =
            CopyOutcome::Failure("Remote side failed with status code 403;\r\n error message: \"no\"".to_owned());
        assert_eq!(failure.line(), "failure: Remote side failed with status code 403; error message: \"no\"\n");
        assert_eq!(CopyOutcome::Aborted(String::new()).line(), "aborted: \n");
        assert!(CopyOutcome::Failure("ü".repeat(5000)).line().len() < 1024);
    }

    #[test]
    fn last_lines_are_parsed_as_davix_does() {
        assert_eq!(CopyOutcome::parse("  SUCCESS: Created"), Some(CopyOutcome::Success));
        assert_eq!(CopyOutcome::parse("success"), Some(CopyOutcome::Success));
        assert_eq!(CopyOutcome::parse("Failed: x: y"), Some(CopyOutcome::Failure("x: y".to_owned())));
        assert_eq!(CopyOutcome::parse("failure"), Some(CopyOutcome::Failure(String::new())));
        assert_eq!(CopyOutcome::parse("aborted by user"), Some(CopyOutcome::Aborted("by user".to_owned())));
        for other in ["", "End", "succes", "Perf Marker", "fail", "ü"] {
            assert_eq!(CopyOutcome::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_permanent_failure_has_the_words_at_which_fts_does_not_retry() {
        let line = |fault, retry, text| CopyOutcome::failure(fault, retry, text).line();
        assert_eq!(line(Fault::Missing, Retry::Never, "gone"), "failure: No such file or directory: gone\n");
        let worded = "/data/f: no such file or directory";
        assert_eq!(line(Fault::Missing, Retry::Never, worded), format!("failure: {worded}\n"));
        assert_eq!(line(Fault::Auth, Retry::Never, "403"), "failure: Permission denied: 403\n");
        assert_eq!(line(Fault::Integrity, Retry::Never, "a, b"), "failure: CHECKSUM MISMATCH: a, b\n");
        assert_eq!(line(Fault::Integrity, Retry::Now, "a, b"), "failure: a, b\n");
        assert_eq!(line(Fault::Path, Retry::After, "Connection timed out"), "failure: Connection timed out\n");
        assert_eq!(line(Fault::Interrupted, Retry::Never, "hung up"), "aborted: hung up\n");
    }

    proptest! {
        #[test]
        fn any_reason_makes_one_line(text in any::<String>()) {
            let last = CopyOutcome::failure(Fault::Storage, Retry::Never, &text);
            prop_assert_eq!(last.line().matches(char::is_control).count(), 1);
            prop_assert!(matches!(CopyOutcome::parse(&last.line()), Some(CopyOutcome::Failure(_))));
        }
    }
}
