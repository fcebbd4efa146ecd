//! The report: docs/results/lab.md.

use std::fmt::Write as _;

use super::runner::Section;

/// The circumstances of the measurement.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The date of the run.
    pub date: String,
    /// The machine that was measured, with its kernel.
    pub machine: String,
    /// The version of iperf3.
    pub iperf: String,
    /// The arguments of `make bench-lab`.
    pub arguments: String,
    /// How often the ceiling and the bottleneck were measured.
    pub rounds: u32,
}

/// Writes the document from the results so far.
pub fn markdown(about: &Circumstances, sections: &[Section], has_picture: bool) -> String {
    let mut out = String::from("# The lab, measured\n\n");
    let Circumstances { date, machine, iperf, arguments, rounds } = about;
    let command = format!("make bench-lab {arguments}");
    let _ = write!(
        out,
        "- Date: {date}\n\
         - Machine: {machine}\n\
         - Command: `{}`; ceiling and bottleneck in {rounds} interleaved rounds, medians (least to most)\n\
         - Back end: `tun`. **Every number here is emulated**: both ends and the network share one machine.\n\
         - Load: {iperf}, memory to memory; its receiver's rate counts. Sites have the lab's own settings (profile dtn)\n\
         - others: the processor time of other programs meanwhile, in % of one processor: /proc/stat without this program\n  \
           and its children, by ticks of 10 ms\n\
         - lab: `emulator-limited` and why, where the lab and not its scenario was the limit\n",
        command.trim()
    );
    if has_picture {
        out.push_str("\n![rate against RTT](lab.svg)\n");
    }
    for section in sections {
        out += &section.text;
        if !section.failures.is_empty() {
            out.push_str("\nRuns that came to no number:\n\n");
            section.failures.iter().for_each(|failure| out += &format!("- {failure}\n"));
        }
    }
    let commands: Vec<&String> = sections.iter().flat_map(|section| &section.commands).collect();
    if !commands.is_empty() {
        out.push_str("\n## Commands\n\nB and B6: the receiver's addresses; its server: `iperf3 -s -1`.\n\n```text\n");
        for (at, command) in commands.iter().enumerate() {
            if !commands[..at].contains(command) {
                out += &format!("{command}\n");
            }
        }
        out.push_str("```\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_headers_sections_failures_and_commands_once() {
        let about = Circumstances {
            date: "2026-11-20".into(),
            machine: "virtual machine, Linux 6.18".into(),
            iperf: "iperf 3.12".into(),
            arguments: String::new(),
            rounds: 5,
        };
        let section = Section {
            text: "\n## Ceiling (emulated)\n".into(),
            failures: vec!["a: no route".into()],
            commands: vec!["iperf3 -c B".into()],
        };
        let text = markdown(&about, &[section.clone(), section], true);
        for wanted in ["`make bench-lab`;", "Back end: `tun`", "lab.svg", "## Ceiling", "- a: no route", "Linux 6.18"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert_eq!(text.matches("iperf3 -c B\n").count(), 1);
        assert!(!markdown(&about, &[], false).contains("lab.svg"));
    }
}
