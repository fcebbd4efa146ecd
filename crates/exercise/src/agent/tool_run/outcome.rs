//! What a process that has ended has copied, or why it has failed.

use super::super::iperf3_report;
use super::super::process::{OutputForm, ProcessOutput};

/// What a process has copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copied {
    /// Bytes of its files.
    pub bytes: u64,
    /// TCP retransmissions, where the tool reports them.
    pub retransmits: Option<u64>,
}

/// What is known of a process that has ended.
pub(super) struct EndedClient<'a> {
    /// How it ended, if not with success.
    pub failure: Option<String>,
    /// What it printed.
    pub output: &'a ProcessOutput,
    /// The size of the local targets.
    pub arrived: Option<u64>,
    /// The size of the files by the order, bytes.
    pub expected: u64,
}

/// Judges a process that has ended.
///
/// # Errors
/// It has failed, or has copied another number of bytes than the order says. The text follows the name of the tool.
pub(super) fn judge(form: OutputForm, ended: EndedClient<'_>) -> Result<Copied, String> {
    if form == OutputForm::Iperf3 {
        return judge_test(ended);
    }
    let stderr = &ended.output.stderr;
    if let Some(failure) = ended.failure {
        return Err(if stderr.is_empty() { failure } else { format!("{failure}: {stderr}") });
    }
    let printed = match form {
        OutputForm::Bytes => {
            // One line for each file.
            let text = String::from_utf8_lossy(&ended.output.stdout);
            let bytes: Result<u64, _> = text.split_whitespace().map(str::parse::<u64>).sum();
            let bytes = bytes.ok().filter(|_| !text.trim().is_empty());
            Some(bytes.ok_or_else(|| format!("printed {text:?}, which is no number of bytes"))?)
        }
        _ => None,
    };
    match [printed, ended.arrived].into_iter().flatten().find(|bytes| *bytes != ended.expected) {
        Some(bytes) => Err(format!("copied {bytes} bytes, and the order says {}", ended.expected)),
        None => Ok(Copied { bytes: ended.expected, retransmits: None }),
    }
}

/// Judges a test of iperf3, which says on stdout why it has failed.
fn judge_test(ended: EndedClient<'_>) -> Result<Copied, String> {
    match (iperf3_report::read(&ended.output.stdout), ended.failure) {
        (Ok(result), None) => Ok(Copied { bytes: result.bytes, retransmits: result.retransmits }),
        (Ok(_), Some(failure)) => Err(failure),
        (Err(why), None) => Err(format!("failed: {why}")),
        (Err(why), Some(failure)) => Err(format!("{failure}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(failure: Option<&str>, stdout: &str, arrived: Option<u64>, form: OutputForm) -> Result<u64, String> {
        let output = ProcessOutput { stdout: stdout.into(), stderr: "no route".into() };
        let client = EndedClient { failure: failure.map(str::to_owned), output: &output, arrived, expected: 100 };
        judge(form, client).map(|copied| copied.bytes)
    }

    #[test]
    fn a_copy_has_the_size_that_was_ordered() {
        assert_eq!(ended(None, "100\n", Some(100), OutputForm::Bytes), Ok(100));
        assert_eq!(ended(None, "60\n40\n", Some(100), OutputForm::Bytes), Ok(100));
        assert_eq!(ended(None, "", None, OutputForm::Nothing), Ok(100));
        for (printed, arrived) in [("99", None), ("99", Some(100)), ("100", Some(99))] {
            let short = ended(None, printed, arrived, OutputForm::Bytes);
            assert_eq!(short, Err("copied 99 bytes, and the order says 100".to_owned()));
        }
        assert!(ended(None, "x", None, OutputForm::Bytes).unwrap_err().contains("no number of bytes"));
        assert!(ended(None, "", None, OutputForm::Bytes).is_err());
    }

    #[test]
    fn a_failure_has_the_words_of_the_tool() {
        let failed = ended(Some("ended with exit status: 7"), "0", None, OutputForm::Bytes);
        assert_eq!(failed, Err("ended with exit status: 7: no route".to_owned()));
        let test = ended(Some("ended with exit status: 1"), r#"{"error": "server is busy"}"#, None, OutputForm::Iperf3);
        assert_eq!(test, Err("ended with exit status: 1: server is busy".to_owned()));
        let report = r#"{"end": {"sum_received": {"bytes": 7}}}"#;
        assert_eq!(ended(None, report, None, OutputForm::Iperf3), Ok(7));
        assert!(ended(Some("ended with signal: 9"), report, None, OutputForm::Iperf3).is_err());
    }
}
