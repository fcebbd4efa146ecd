//! The report of a client of iperf3 (`--json`).

use serde::Deserialize;

/// What a test has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TestResult {
    /// Bytes that have arrived.
    pub bytes: u64,
    /// TCP retransmissions of the sender; none where its system does not count them.
    pub retransmits: Option<u64>,
}

#[derive(Deserialize)]
struct TestReport {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    end: EndReport,
}

#[derive(Default, Deserialize)]
struct EndReport {
    #[serde(default)]
    sum_sent: Option<SumReport>,
    #[serde(default)]
    sum_received: Option<SumReport>,
}

#[derive(Deserialize)]
struct SumReport {
    bytes: u64,
    #[serde(default)]
    retransmits: Option<u64>,
}

/// Reads a report.
///
/// # Errors
/// The test has failed, or the text is not a report.
pub(super) fn read(text: &[u8]) -> Result<TestResult, String> {
    let report: TestReport =
        serde_json::from_slice(text).map_err(|error| format!("its report cannot be read: {error}"))?;
    if let Some(error) = report.error {
        return Err(error);
    }
    let retransmits = report.end.sum_sent.as_ref().and_then(|sent| sent.retransmits);
    let received = report.end.sum_received.or(report.end.sum_sent);
    let bytes = received.ok_or("its report has no sums")?.bytes;
    Ok(TestResult { bytes, retransmits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_that_arrived_and_retransmissions_those_of_the_sender() {
        let text = r#"{"start": {}, "intervals": [], "end": {"streams": [],
            "sum_sent": {"start": 0, "bytes": 1000, "retransmits": 3, "sender": true},
            "sum_received": {"start": 0, "bytes": 900, "sender": true}}}"#;
        assert_eq!(read(text.as_bytes()), Ok(TestResult { bytes: 900, retransmits: Some(3) }));
        let sent = r#"{"end": {"sum_sent": {"bytes": 1000}}}"#;
        assert_eq!(read(sent.as_bytes()), Ok(TestResult { bytes: 1000, retransmits: None }));
    }

    #[test]
    fn a_test_that_failed_says_why() {
        let text = r#"{"start": {}, "end": {}, "error": "unable to connect to server: Connection refused"}"#;
        assert_eq!(read(text.as_bytes()), Err("unable to connect to server: Connection refused".to_owned()));
        assert!(read(b"iperf3: no").unwrap_err().contains("cannot be read"));
        assert!(read(b"{}").unwrap_err().contains("no sums"));
    }
}
