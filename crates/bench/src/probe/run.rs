//! The runs: servers that keep running, one client after another, and the processor time of both.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Row, Sample, Tool, start_iperf3_server};
use crate::account::Accounts;
use crate::process::{Server, free_port};

/// The inputs of all runs.
pub struct Bench<'a> {
    /// The longhaul binary.
    pub longhaul: &'a Path,
    /// The directory for state and logs.
    pub scratch: &'a Path,
    /// Seconds of a run.
    pub seconds: u32,
    /// Rounds.
    pub rounds: u32,
}

impl Bench<'_> {
    /// Runs all tools over a number of streams, interleaved.
    ///
    /// # Errors
    /// A server does not start, or a test gives no numbers.
    pub fn run(&self, accounts: &Accounts, streams: u32) -> Result<Vec<Row>> {
        let node = self.node(accounts)?;
        let iperf3_server = start_iperf3_server(accounts, "iperf3", self.scratch)?;
        let mut rows = Tool::ALL.map(|tool| Row { tool, streams, samples: Vec::new() }).to_vec();
        // The first run of each tool warms caches and does not count.
        for round in 0..=self.rounds {
            for row in &mut rows {
                let server = if row.tool == Tool::Probe { &node } else { &iperf3_server };
                let sample = self.run_once(accounts, row.tool, server, streams)?;
                if round > 0 {
                    row.samples.push(sample);
                }
            }
        }
        Ok(rows)
    }

    fn node(&self, accounts: &Accounts) -> Result<Server> {
        let port = free_port()?;
        let state = self.scratch.join("node").display().to_string();
        let listen = format!("127.0.0.1:{port}");
        let words = [
            &self.longhaul.display().to_string(),
            "serve",
            "--anonymous",
            "ro",
            "--listen",
            &listen,
            "--state",
            &state,
        ];
        Server::start(accounts.side("node")?, &words.map(str::to_owned), port, &self.scratch.join("node.log"))
    }

    fn words(&self, tool: Tool, port: u16, streams: u32) -> Vec<String> {
        let port = port.to_string();
        let streams = streams.to_string();
        let seconds = self.seconds.to_string();
        let longhaul = self.longhaul.display().to_string();
        let at = format!("127.0.0.1:{port}");
        let time = format!("{seconds}s");
        let words: Vec<&str> = match tool {
            Tool::Probe => vec![&longhaul, "probe", "tcp", &at, "--json", "-P", &streams, "-t", &time],
            _ => vec!["iperf3", "-J", "-c", "127.0.0.1", "-p", &port, "-P", &streams, "-t", &seconds],
        };
        let large = if tool == Tool::Iperf3Large { &["-l", "1M"][..] } else { &[] };
        words.iter().chain(large).map(ToString::to_string).collect()
    }

    fn run_once(&self, accounts: &Accounts, tool: Tool, server: &Server, streams: u32) -> Result<Sample> {
        let words = self.words(tool, server.port, streams);
        let client = accounts.side("client")?;
        let server_before_s = server.side.cpu_s()?;
        client.enter()?;
        let client_before_s = client.cpu_s_ended();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env("LONGHAUL_STATE", self.scratch.join("client")).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("cannot start {}", words[0]));
        let client_after_s = client.cpu_s_ended();
        client.leave()?;
        let output = output?;
        let client_s = client_after_s? - client_before_s?;
        ensure!(output.status.success(), "{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
        let cpu_s = client_s + server.side.cpu_s()? - server_before_s;
        let (bytes, rate_bit_s) = parse_result(tool, &String::from_utf8_lossy(&output.stdout))?;
        Ok(Sample { rate_bit_s, cpu_s_per_gb: cpu_s / (bytes / 1e9) })
    }
}

/// The bytes that arrived, and their rate in bit/s, from the tool's output.
fn parse_result(tool: Tool, text: &str) -> Result<(f64, f64)> {
    let json = if tool == Tool::Probe { text.lines().last().unwrap_or_default() } else { text };
    let value: Value = serde_json::from_str(json).with_context(|| format!("no JSON from {}: {json}", tool.name()))?;
    let (bytes, rate) = match tool {
        Tool::Probe => (&value["directions"][0]["received_bytes"], &value["directions"][0]["rate_bit_s"]),
        _ => (&value["end"]["sum_received"]["bytes"], &value["end"]["sum_received"]["bits_per_second"]),
    };
    let number = |value: &Value| value.as_f64().filter(|n| *n > 0.0).with_context(|| format!("no result in {json}"));
    Ok((number(bytes)?, number(rate)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read() {
        let ours = "{\"event\":\"interval\"}\n{\"directions\":[{\"received_bytes\":1000,\"rate_bit_s\":8000}]}\n";
        assert_eq!(parse_result(Tool::Probe, ours).unwrap(), (1000.0, 8000.0));
        let iperf3_output = r#"{"end":{"sum_received":{"bytes":5,"bits_per_second":40.5}}}"#;
        assert_eq!(parse_result(Tool::Iperf3, iperf3_output).unwrap(), (5.0, 40.5));
        assert!(parse_result(Tool::Iperf3, r#"{"error":"busy"}"#).is_err());
    }
}
