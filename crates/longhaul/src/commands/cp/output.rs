//! The output of a copy: its files, the steps of a dry run, and the receipt.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::{Locator, spec, v1};
use report::receipt;
use wire::SettledFile;
use wire::frame::{Outcome, Plan};

use super::checks;
use super::job::CopyJob;
use crate::failure::{self, Failure};
use crate::printer::Printer;

impl CopyJob<'_> {
    /// Prints the outcome of a file.
    pub(super) fn show_file(&self, file: &SettledFile) {
        let (outcome, suffix) = match &file.outcome {
            Outcome::Done => ("done", format!(" ({})", model::Bytes(file.size))),
            Outcome::Skipped => ("skipped", " (already there)".to_owned()),
            Outcome::Failed(refusal) => ("failed", format!(" FAILED: {}", refusal.reason)),
        };
        if self.printer.is_json() {
            let bytes = file.path.as_bytes();
            let path_b64 = std::str::from_utf8(bytes).is_err().then(|| STANDARD.encode(bytes));
            let path = file.path.to_string();
            self.printer.object(&v1::FileOutcome { v: 1, event: "file", path, path_b64, bytes: file.size, outcome });
        } else if *self.target == Locator::Pipe {
            Printer::note(&format!("{}{suffix}", file.path));
        } else {
            self.printer.line(&format!("{}{suffix}", file.path));
        }
    }

    /// Prints a step of a dry run.
    pub(super) fn show_step(&self, plan: &Plan) {
        let bytes = plan.path.as_bytes();
        if self.printer.is_json() {
            let path_b64 = std::str::from_utf8(bytes).is_err().then(|| STANDARD.encode(bytes));
            let step = plan.step.word();
            let path = plan.path.to_string();
            self.printer.object(&v1::Planned { v: 1, event: "would", step, path, path_b64, bytes: plan.bytes });
        } else if self.printer.is_chatty() {
            let size = match plan.step {
                spec::Step::Copy => format!(" ({})", model::Bytes(plan.bytes)),
                _ => String::new(),
            };
            self.printer.line(&format!("{:<6} {}{size}", plan.step.word(), plan.path));
        }
    }

    /// Writes the receipt to the file of `--receipt`, and prints it with its error.
    pub(super) fn deliver(&self, receipt: &v1::Receipt) -> Result<(), Failure> {
        if let Some(file) = &self.cp.receipt {
            let text = serde_json::to_string_pretty(receipt).unwrap_or_default();
            if checks::is_standard_output(file) {
                self.printer.line(&text);
                return Ok(());
            }
            let written = std::fs::write(file, text + "\n");
            written.map_err(|e| Failure::local(format!("cannot write the receipt to {}: {e}", file.display())))?;
        }
        if let (Some(wanted), Some(other)) =
            (&self.cp.congestion, congestion_used_instead(receipt, self.cp.congestion.as_deref()))
        {
            Printer::note(&format!("congestion control {wanted} is not available there; the streams ran with {other}"));
        }
        if let Some(error) = &receipt.error {
            // A user who interrupted the copy knows which one it was.
            let locators = if receipt.state == v1::State::Interrupted { Vec::new() } else { self.ends_in_full() };
            Printer::note(&failure::with_locators(error, &locators));
        } else if receipt.failed > 0 && receipt.files + receipt.links + receipt.skipped == 0 {
            let reason = receipt.failures.first().map_or("nothing arrived", |file| file.reason.as_str());
            Printer::note(&failure::with_locators(reason, &self.ends_in_full()));
        }
        if self.printer.is_json() {
            self.printer.object(receipt);
        } else if self.printer.is_chatty() && *self.target == Locator::Pipe {
            receipt::lines(receipt).iter().for_each(|line| Printer::note(line));
        } else if self.printer.is_chatty() {
            receipt::lines(receipt).iter().for_each(|line| self.printer.line(line));
        }
        Ok(())
    }
}

impl CopyJob<'_> {
    /// The locators of all sources and of the target, in full.
    pub(super) fn all_locators_in_full(&self) -> Vec<String> {
        self.sources.iter().chain([self.target]).map(failure::in_full).collect()
    }

    /// The source, or the number of sources, and the target, in full.
    pub(super) fn ends_in_full(&self) -> Vec<String> {
        let from = match self.sources {
            [one] => failure::in_full(one),
            many => format!("{} sources", many.len()),
        };
        vec![from, failure::in_full(self.target)]
    }
}

/// The congestion control that a sending stream used instead of the requested one.
fn congestion_used_instead<'a>(receipt: &'a v1::Receipt, wanted: Option<&str>) -> Option<&'a str> {
    let data = receipt.streams.iter().filter(|s| s.id > 0);
    data.map(|s| s.congestion.as_str()).find(|used| wanted.is_some_and(|wanted| wanted != *used))
}
