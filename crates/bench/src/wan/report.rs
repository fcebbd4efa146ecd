//! The report: docs/results/wan.md.

use std::fmt::Write as _;

use super::cell::{Cell, Set, all};
use super::ideal::Bottleneck;
use super::rounds::{Outcome, Results, ToolRuns, Verdict};
use super::verdict::{JudgedTarget, judge};
use crate::paths::runner::{mark, spread_text};

/// The circumstances of the measurement.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The date of the run.
    pub date: String,
    /// The machine that was measured, with its kernel.
    pub machine: String,
    /// The arguments of `make bench-wan`.
    pub arguments: String,
    /// The tools' versions.
    pub versions: Vec<String>,
    /// Tools that could not take part, and why.
    pub missing: Vec<String>,
    /// The bottleneck.
    pub bottleneck: Bottleneck,
    /// The bottleneck's queue, as a scenario writes it.
    pub queue: String,
    /// The file system of the files.
    pub file_system: String,
    /// The sites' default congestion control, and how it was set; also for the rows with BBR.
    pub congestion: String,
    /// The longest that a run may take, s.
    pub cap_s: f64,
    /// The divisor of the sets' sizes.
    pub divide: u64,
    /// Which cells were chosen, and why.
    pub choice: String,
}

/// Writes the document from the results so far.
pub fn markdown(about: &Circumstances, results: &Results) -> String {
    let mut out = String::from("# Longhaul and its peers over emulated wide-area paths\n\n");
    head(&mut out, about);
    out.push_str("\n![rate against RTT](wan.svg)\n");
    targets(&mut out, &judge(results, about.bottleneck));
    for set in [Set::Large, Set::Medium, Set::Small, Set::Mixed, Set::Whole, Set::Split] {
        section(&mut out, about, results, set);
    }
    left_out(&mut out, results);
    commands(&mut out, results);
    out
}

fn head(out: &mut String, about: &Circumstances) {
    let Circumstances { date, machine, queue, file_system, congestion, cap_s, choice, .. } = about;
    let command = format!("make bench-wan {}", about.arguments);
    let rate = about.bottleneck.rate_bit_s / 1e6;
    let mtu = about.bottleneck.mtu;
    let _ = write!(
        out,
        "- Date: {date}\n\
         - Machine: {machine}\n\
         - Command: `{}`\n\
         - **Every number here is emulated**: both ends and the network (back end `tun`) share one machine\n\
         - Path: bottleneck {rate} Mbit/s of IP bytes, MTU {mtu}, queue {queue}; loss in the direction of the data alone;\n  \
           sites with the profile dtn. A lab of its own for each run; all tools of a round get the same seed\n\
         - Files: {file_system} at both sites; sets are the same for all, hot in memory, their copies removed after each \
         run\n\
         - Congestion control: {congestion}\n\
         - Tools take turns, round by round; medians (least to most). After each copy all files must be there with their\n  \
           sizes, and one, another each round, with its bytes; a tool that did not deliver has **failed**\n\
         - capped: ended after {cap_s:.0} s, and not run again in that cell; beside it the share of the bytes that had \
         arrived\n\
         - CPU: seconds of client and server per 10^9 bytes, by /proc in ticks of 10 ms\n\
         - others: the processor time of other programs meanwhile, in % of one processor\n\
         - lab: `emulator-limited` and why, where the lab and not its scenario was the limit\n\
         - Longhaul runs without any option (`-r` says that a directory is meant), sealed and verified; peers in clear.\n  \
           memory: zeros into nothing. iperf3 sends for the ideal time, rounded up to seconds; its receiver's rate counts, and\n  \
           its wall is what the set would take at that rate\n\
         - Tools: {}\n",
        command.trim(),
        about.versions.join("; ")
    );
    if about.divide > 1 {
        let _ = writeln!(out, "- **Sets are {} times smaller than their names say**", about.divide);
    }
    for missing in &about.missing {
        let _ = writeln!(out, "- **Left out: {missing}**");
    }
    let _ = write!(
        out,
        "- Cells: {choice}\n\n\
         Shares of the bottleneck. Gross: payload × 8 / wall / rate. Net, to which the targets refer: ideal / wall, where\n\n\
         ```text\nideal = payload × MTU / (MTU - 52) × 8 / rate + slow start\n\
         slow start = RTT × log2(BDP / (10 × (MTU - 52)))      # from ten segments to one BDP, doubling each RTT\n```\n\n\
         The bytes that slow start carries are not subtracted, so a little more than 100 % is possible.\n"
    );
}

fn targets(out: &mut String, judged: &[JudgedTarget]) {
    let missed = judged.iter().filter(|judged| !judged.met).count();
    let _ = write!(
        out,
        "\n## Targets (emulated)\n\n{} of {} met. Cells are SET/RTT in ms/loss in %.\n\n",
        judged.len() - missed,
        judged.len()
    );
    row(out, &["cell", "target", "Longhaul", ""].map(String::from));
    row(out, &["---", "---", "---", "---"].map(String::from));
    for JudgedTarget { cell, target, figure, met } in judged {
        let verdict = if *met { "met" } else { "**not met**" };
        row(out, &[cell.to_string(), target.clone(), figure.clone(), verdict.into()]);
    }
}

fn row(out: &mut String, cells: &[String]) {
    // A bar in a text would end the cell.
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

fn section(out: &mut String, about: &Circumstances, results: &Results, set: Set) {
    let mut outcomes: Vec<&Outcome> = results.outcomes.iter().filter(|outcome| outcome.cell.set == set).collect();
    if outcomes.is_empty() {
        return;
    }
    outcomes.sort_by_key(|outcome| outcome.cell);
    let title = match set {
        Set::Split => "One job against 16 processes: 16 files of 62.5 MB",
        set => set.title(),
    };
    let mut letters = title.chars();
    let title: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    let _ = write!(out, "\n## {title} (emulated)\n");
    if set == Set::Split {
        out.push_str("\nEach process has one of the files; the time is that of the last one to end.\n");
    }
    for outcome in outcomes {
        let Cell { loss_ppm, .. } = outcome.cell;
        let loss = if loss_ppm == 0 { "no loss".into() } else { format!("loss {} %", outcome.cell.loss_percent()) };
        let ideal_s = about.bottleneck.ideal_s(outcome.bytes, outcome.cell.rtt_s());
        let _ = write!(
            out,
            "\nRTT {} ms, {loss}; {:.1} MB, ideal {ideal_s:.2} s:\n\n",
            outcome.cell.rtt_ms(),
            outcome.bytes as f64 / 1e6
        );
        let columns =
            ["tool", "runs", "wall s", "Mbit/s", "gross %", "net %", "CPU s/GB client, server", "others %", "lab"];
        row(out, &columns.map(String::from));
        row(out, &["---"; 9].map(String::from));
        outcome
            .tool_runs
            .iter()
            .filter(|tool_runs| !tool_runs.runs.is_empty())
            .for_each(|tool_runs| row(out, &cells(about, outcome, tool_runs)));
    }
}

fn cells(about: &Circumstances, outcome: &Outcome, tool_runs: &ToolRuns) -> Vec<String> {
    let none = || "-".to_owned();
    let rtt_s = outcome.cell.rtt_s();
    let [wall, rate, gross, net] = match tool_runs.verdict() {
        Some(Verdict::Done(spread)) => {
            let wall_s = spread.median;
            let (gross, net) = (
                about.bottleneck.gross_share(outcome.bytes, wall_s),
                about.bottleneck.net_share(outcome.bytes, rtt_s, wall_s),
            );
            let rate = outcome.bytes as f64 * 8e-6 / wall_s;
            [spread_text(spread, 2), format!("{rate:.1}"), percent(gross), percent(net)]
        }
        Some(Verdict::Capped(share)) => {
            let arrived = share.map(|share| format!(" ({} % had arrived)", percent(share))).unwrap_or_default();
            let most = share.map(|share| share * outcome.bytes as f64 * 8e-6 / about.cap_s);
            [format!("capped{arrived}"), most.map_or_else(none, |most| format!("({most:.1})")), none(), none()]
        }
        Some(Verdict::Failed(reason)) => [format!("**failed**: {reason}"), none(), none(), none()],
        None => [none(), none(), none(), none()],
    };
    let cpu = tool_runs.cpu_s_per_gb(outcome.bytes).filter(|_| tool_runs.wall_s().is_some());
    let others_percent = tool_runs.runs.iter().map(|run| run.others_percent).fold(0.0, f64::max);
    vec![
        tool_runs.tool.title(),
        tool_runs.runs.len().to_string(),
        wall,
        rate,
        gross,
        net,
        cpu.map_or_else(none, |[client, server]| format!("{client:.2}, {server:.2}")),
        format!("{others_percent:.0}"),
        mark(tool_runs.runs.iter().map(|run| &run.limited)),
    ]
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

fn left_out(out: &mut String, results: &Results) {
    let run: Vec<Cell> = results.outcomes.iter().map(|outcome| outcome.cell).collect();
    let left_out: Vec<String> =
        all().into_iter().filter(|cell| !run.contains(cell)).map(|cell| cell.to_string()).collect();
    if !left_out.is_empty() {
        let _ = write!(out, "\n## Cells that were not run\n\n{}.\n", left_out.join(", "));
    }
    if !results.left_out.is_empty() {
        let left_out: Vec<String> = results.left_out.iter().map(ToString::to_string).collect();
        let _ = write!(out, "\nChosen, but time was over: {}.\n", left_out.join(", "));
    }
}

fn commands(out: &mut String, results: &Results) {
    out.push_str(
        "\n## Commands\n\nB: the receiver's address. /SOURCE and /TARGET: the files; /STATE: what a server needs for itself, \
         made anew for\neach run. Longhaul's client gets a state directory of its own by `LONGHAUL_STATE`.\n\n```text\n",
    );
    let runs = results.outcomes.iter().flat_map(|outcome| &outcome.tool_runs).flat_map(|tool_runs| &tool_runs.runs);
    let mut known: Vec<&str> = Vec::new();
    for command in runs.flat_map(|run| &run.commands).filter(|command| !command.is_empty()) {
        if !known.contains(&command.as_str()) {
            known.push(command);
            let _ = writeln!(out, "{command}");
        }
    }
    out.push_str(
        "```\n\nxrootd's configuration: `all.export /TARGET`, its port, and directories of its own. rclone's \
         `--multi-thread-streams` does\nnot apply: it uploads each file over WebDAV in one stream.\n",
    );
}

#[cfg(test)]
mod tests {
    use super::super::bed::RunEnd;
    use super::super::rounds::tests::{run_of, samples};
    use super::*;

    fn about() -> Circumstances {
        Circumstances {
            date: "2026-11-20".into(),
            machine: "virtual machine, Linux 6.18".into(),
            arguments: String::new(),
            versions: vec!["iperf 3.12".into()],
            missing: vec!["FDT: its jar is not given (--fdt)".into()],
            bottleneck: Bottleneck { rate_bit_s: 1e9, mtu: 9000 },
            queue: "bdp".into(),
            file_system: "tmpfs".into(),
            congestion: "cubic".into(),
            cap_s: 60.0,
            divide: 1,
            choice: "all".into(),
        }
    }

    #[test]
    fn the_page_has_targets_tables_failures_and_left_out_cells() {
        let mut results = samples();
        results.outcomes[0].tool_runs[2].runs[1].end = RunEnd::Capped(Some(0.25));
        results.outcomes[0].tool_runs[4].runs[1] = run_of(RunEnd::Failed("a | b".into()), 1.0);
        let text = markdown(&about(), &results);
        for wanted in [
            "`make bench-wan`",
            "**Left out: FDT: its jar is not given (--fdt)**",
            "wan.svg",
            "## One file of 1 GB (emulated)",
            "## One job against 16 processes",
            "RTT 303 ms, loss 0.0046 %; 1000.0 MB, ideal 10.69 s:",
            "| large/303/0.3 | at least 80 % of the bottleneck, net | 97.0 % | met |",
            "| Longhaul | 3 | 8.30 (8.30 to 8.30) | 964.4 | 96.4 | 97.0 | 0.50, 1.00 | 0 | - |",
            "| capped (25.0 % had arrived) | (33.3) | - | - | - | 0 | - |",
            "**failed**: a \\| b",
            "globus-url-copy (bbr)",
            "Chosen, but time was over: large/0/0.",
            "emulated",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        assert!(!text.contains("times smaller") && !text.contains("Cells that were not run"));
        let small = markdown(&Circumstances { divide: 10, ..about() }, &Results::default());
        assert!(small.contains("10 times smaller") && small.contains("small/7.5/0.3"));
    }
}
