//! `longhaul doctor`: checks an installation, and says what to do about each problem.

mod firewall;
mod host;
mod installation;
mod reach;

use model::Exit;
use serde::Serialize;

use self::reach::Reach;
use super::check_status::CheckStatus;
use super::installed_node::InstalledNode;
use crate::args::{Common, Doctor};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// The result of one check.
struct Diagnosis {
    /// What was checked, in a word or two.
    check: String,
    status: CheckStatus,
    /// What was found.
    found: String,
    /// What to do, unless all is well.
    remedy: Option<String>,
}

/// A diagnosis as JSON.
#[derive(Serialize)]
struct DiagnosisLine<'a> {
    v: u32,
    event: &'static str,
    check: &'a str,
    status: &'static str,
    found: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<&'a str>,
}

impl Diagnosis {
    fn well(check: impl Into<String>, found: impl Into<String>) -> Diagnosis {
        Diagnosis { check: check.into(), status: CheckStatus::Well, found: found.into(), remedy: None }
    }

    fn warning(check: impl Into<String>, found: impl Into<String>, remedy: impl Into<String>) -> Diagnosis {
        Diagnosis { status: CheckStatus::Warning, remedy: Some(remedy.into()), ..Diagnosis::well(check, found) }
    }

    fn problem(check: impl Into<String>, found: impl Into<String>, remedy: impl Into<String>) -> Diagnosis {
        Diagnosis { status: CheckStatus::Critical, remedy: Some(remedy.into()), ..Diagnosis::well(check, found) }
    }

    fn unknown(check: impl Into<String>, found: impl Into<String>, remedy: impl Into<String>) -> Diagnosis {
        Diagnosis { status: CheckStatus::Unknown, remedy: Some(remedy.into()), ..Diagnosis::well(check, found) }
    }

    fn word(&self) -> &'static str {
        match self.status {
            CheckStatus::Well => "ok",
            CheckStatus::Warning => "warning",
            CheckStatus::Critical => "problem",
            CheckStatus::Unknown => "unknown",
        }
    }

    fn print(&self, printer: &Printer) {
        let Diagnosis { check, found, remedy, .. } = self;
        if printer.is_json() {
            let (status, remedy) = (self.word(), remedy.as_deref());
            return printer.object(&DiagnosisLine { v: 1, event: "check", check, status, found, remedy });
        }
        if self.status == CheckStatus::Well && !printer.is_chatty() {
            return;
        }
        printer.line(&format!("{:<8} {check}: {found}", self.word()));
        if let Some(remedy) = remedy {
            printer.line(&format!("         to do: {remedy}"));
        }
    }
}

/// Runs the command.
///
/// # Errors
/// No place for the state is known, or an address is malformed.
pub fn run(doctor: &Doctor, common: &Common, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    let node = InstalledNode::find(doctor.config.as_ref(), common, settings)?;
    let reach = Reach::new(doctor, &node, settings)?;
    let mut diagnoses = Vec::new();
    let mut tell = |diagnosis: Diagnosis| {
        diagnosis.print(printer);
        diagnoses.push(diagnosis);
    };
    let (of_settings, node_settings) = installation::settings(&node);
    tell(of_settings);
    installation::state(&node.state).into_iter().for_each(&mut tell);
    if let Some(node_settings) = &node_settings {
        node_settings.exports.iter().for_each(|export| tell(installation::export(export)));
        tell(installation::certificate(node_settings.certificate()));
    }
    tell(host::clock(sys::clock_quality::read()));
    tell(firewall::check(reach.port()));
    reach.check(&mut tell);
    Ok(sum_up(&diagnoses, printer))
}

fn sum_up(diagnoses: &[Diagnosis], printer: &Printer) -> Exit {
    let count = |status| diagnoses.iter().filter(|diagnosis| diagnosis.status == status).count();
    let [problems, warnings, unknown] = [CheckStatus::Critical, CheckStatus::Warning, CheckStatus::Unknown].map(count);
    if printer.is_chatty() {
        let checks = diagnoses.len();
        printer.line(&format!("{checks} checks: {problems} problems, {warnings} warnings, {unknown} unknown"));
    }
    if problems > 0 { Exit::Failed } else { Exit::Done }
}
