//! iperf3 as the load of a path: its arguments, and its JSON report.
//!
//! Does not know: where it runs.

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The flow of one run of iperf3, from the first site to the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The load.
    pub load: Load,
    /// Whether it runs over IPv6.
    pub v6: bool,
    /// Seconds before counting begins.
    pub omit_s: u32,
    /// Seconds that are counted.
    pub measure_s: u32,
}

/// The kind of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// As fast as TCP goes.
    Tcp {
        /// Parallel streams.
        streams: u32,
        /// Congestion control.
        congestion: &'static str,
    },
    /// Datagrams at a fixed rate.
    Udp {
        /// Payload rate, bit/s.
        bit_s: f64,
        /// Payload of each datagram, bytes.
        bytes: u32,
        /// The buffers of its sockets, in bytes; see [`buffer_max`].
        buffer: u64,
    },
}

/// The results that iperf3 reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Iperf3Report {
    /// Payload rate at the receiver, bit/s.
    pub bit_s: f64,
    /// Segments that the sender sent again in the counted time.
    pub retransmits: Option<u64>,
    /// Datagrams that the receiver missed.
    pub lost: Option<u64>,
}

impl Flow {
    /// The client's arguments.
    pub fn arguments(&self, address: &str) -> Vec<String> {
        let mut words: Vec<String> = ["-c", address, "-J", "-t", &self.measure_s.to_string()].map(String::from).into();
        if self.omit_s > 0 {
            words.extend(["-O".to_owned(), self.omit_s.to_string()]);
        }
        match self.load {
            Load::Tcp { streams, congestion } => {
                words.extend(["-C", congestion, "-P", &streams.to_string(), "-l", "1M"].map(String::from));
            }
            Load::Udp { bit_s, bytes, buffer } => {
                let rate = format!("{bit_s:.0}");
                let bytes = bytes.to_string();
                let buffer = buffer.to_string();
                words.extend(["-u", "-b", &rate, "-l", &bytes, "-w", &buffer].map(String::from));
            }
        }
        words
    }

    /// The command as a report shows it.
    pub fn command_line(&self) -> String {
        format!("iperf3 {}", self.arguments(if self.v6 { "B6" } else { "B" }).join(" "))
    }
}

/// The largest socket buffer that this machine allows, up to a bound, in bytes.
pub fn buffer_max() -> u64 {
    const WANTED: u64 = 4 << 20;
    let limit = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).unwrap_or_default();
        text.trim().parse().unwrap_or(WANTED)
    };
    WANTED.min(limit("rmem_max")).min(limit("wmem_max"))
}

/// Parses the output of `iperf3 -J`; an error that it reports is returned as one.
///
/// # Errors
/// iperf3 reports an error, or the text is not its report.
pub fn parse(text: &str) -> Result<Iperf3Report> {
    let value: Value = serde_json::from_str(text).context("iperf3 printed no JSON")?;
    if let Some(error) = value.get("error").and_then(Value::as_str) {
        bail!("iperf3: {error}");
    }
    let end = value.get("end").context("iperf3 printed no end")?;
    let datagrams = end.get("sum").filter(|sum| sum.get("lost_packets").is_some());
    // For datagrams, this version of iperf3 reports in `sum` what later versions report in `sum_received`.
    let received = end.get("sum_received").or(datagrams).context("iperf3 printed no sum")?;
    let bit_s = received.get("bits_per_second").and_then(Value::as_f64).context("iperf3 printed no rate")?;
    let number = |of: Option<&Value>, name: &str| of.and_then(|of| of.get(name)).and_then(Value::as_u64);
    Ok(Iperf3Report {
        bit_s,
        retransmits: number(end.get("sum_sent"), "retransmits"),
        lost: number(datagrams, "lost_packets"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_makes_the_arguments_of_the_client() {
        let load = Load::Tcp { streams: 4, congestion: "cubic" };
        let flow = Flow { load, v6: false, omit_s: 12, measure_s: 10 };
        assert_eq!(flow.arguments("10.0.0.2").join(" "), "-c 10.0.0.2 -J -t 10 -O 12 -C cubic -P 4 -l 1M");
        let flow =
            Flow { load: Load::Udp { bit_s: 2e8, bytes: 1472, buffer: 4096 }, v6: true, omit_s: 0, measure_s: 8 };
        assert_eq!(flow.command_line(), "iperf3 -c B6 -J -t 8 -u -b 200000000 -l 1472 -w 4096");
    }

    #[test]
    fn the_receivers_rate_counts() {
        let text = r#"{"start": {}, "intervals": [], "end": {
            "sum_sent": {"bits_per_second": 12e9, "retransmits": 7},
            "sum_received": {"bits_per_second": 11.5e9}}}"#;
        assert_eq!(parse(text).unwrap(), Iperf3Report { bit_s: 11.5e9, retransmits: Some(7), lost: None });
    }

    #[test]
    fn lost_datagrams_are_read_from_the_report() {
        let text = r#"{"end": {"sum": {"bits_per_second": 2e8, "lost_packets": 21, "packets": 20000}}}"#;
        assert_eq!(parse(text).unwrap(), Iperf3Report { bit_s: 2e8, retransmits: None, lost: Some(21) });
    }

    #[test]
    fn an_error_that_iperf3_reports_is_returned() {
        let error = parse(r#"{"start": {}, "error": "unable to connect to server: Connection refused"}"#).unwrap_err();
        assert!(error.to_string().contains("Connection refused"));
        assert!(parse("iperf3: what?").is_err());
        assert!(parse(r#"{"end": {}}"#).is_err());
    }
}
