//! `longhaul data audit`: compares the files at an endpoint with the catalogue.

use std::path::Path;
use std::time::Duration;

use hubapi::Api;
use model::Exit;
use model::units::Bytes;
use model::v1::hub::{Audit, AuditFinding, AuditOrder, AuditState, ListedFile};

use super::print_value;
use crate::args::DataAuditAction;
use crate::failure::Failure;
use crate::hub_client::failure;
use crate::printer::Printer;

/// The time between two queries of the state of an audit.
const QUERY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the command.
pub(super) fn run(action: &DataAuditAction, api: &Api, printer: &Printer) -> Result<Exit, Failure> {
    match action {
        DataAuditAction::Run { endpoint, below, listing, taken } => {
            let listing = listing.as_deref().map(read).transpose()?;
            let order = AuditOrder { below: below.clone(), listing, taken: taken.clone() };
            let audit = wait(api.order_audit(endpoint, &order).map_err(failure)?, AuditState::Listing, api, printer)?;
            let is_fine = audit.missing == 0 && audit.wrong_size == 0 && audit.dark == 0;
            return report_end(&audit, if is_fine { Exit::Done } else { Exit::Partial }, printer);
        }
        DataAuditAction::List => {
            let all = api.audits().map_err(failure)?.audits;
            all.iter().for_each(|audit| print_value(printer, audit, line));
        }
        DataAuditAction::Show { number } => {
            print_value(printer, &api.audit(*number).map_err(failure)?, line);
            let mut after = 0;
            loop {
                let page = api.audit_findings(*number, after).map_err(failure)?;
                page.findings.iter().for_each(|finding| print_value(printer, finding, finding_line));
                match page.next {
                    Some(next) => after = next,
                    None => break,
                }
            }
        }
        DataAuditAction::Clean { number } => {
            let audit = wait(api.clean_audit(*number).map_err(failure)?, AuditState::Cleaning, api, printer)?;
            return report_end(&audit, Exit::Done, printer);
        }
    }
    Ok(Exit::Done)
}

/// Waits until an audit has left a state.
fn wait(mut audit: Audit, state: AuditState, api: &Api, printer: &Printer) -> Result<Audit, Failure> {
    let mut reported_count = 0;
    while audit.state == state {
        std::thread::sleep(QUERY_INTERVAL);
        audit = api.audit(audit.number).map_err(failure)?;
        let count = audit.listed.max(audit.deleted);
        if printer.is_chatty() && audit.state == state && count > reported_count {
            Printer::note(&format!("audit {}: {count} files so far", audit.number));
            reported_count = count;
        }
    }
    Ok(audit)
}

/// Prints an audit that has ended. Returns `exit`, or the exit code of a failure.
fn report_end(audit: &Audit, exit: Exit, printer: &Printer) -> Result<Exit, Failure> {
    print_value(printer, audit, line);
    Ok(if audit.state == AuditState::Failed { Exit::Failed } else { exit })
}

/// Reads a listing, as `find DIR -type f -printf '%P\\t%s\\t%Ts\\n'` writes it.
fn read(path: &Path) -> Result<Vec<ListedFile>, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let mut files = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        let mut parts = line.split('\t');
        let path = parts.next().unwrap_or_default().to_owned();
        let number = |part: Option<&str>| {
            part.filter(|part| !part.is_empty())
                .map(|part| {
                    part.parse::<u64>().map_err(|_| wrong(format!("line {}: {part:?} is not a number", at + 1)))
                })
                .transpose()
        };
        let bytes = number(parts.next())?;
        let changed = number(parts.next())?;
        files.push(ListedFile { path, bytes, changed_s: changed.and_then(|at| i64::try_from(at).ok()) });
    }
    Ok(files)
}

fn line(audit: &Audit) -> String {
    let state = match audit.state {
        AuditState::Listing => "listing",
        AuditState::Done => "done",
        AuditState::Failed => "failed",
        AuditState::Cleaning => "cleaning",
        AuditState::Cleaned => "cleaned",
    };
    let deleted = if audit.deleted > 0 { format!(", {} of them deleted", audit.deleted) } else { String::new() };
    let error = audit.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
    format!(
        "{:6}  {state:8}  {}/{}  begun {}: {} files listed, {} missing, {} of another size, {} unknown to the catalogue ({}){deleted}{error}",
        audit.number,
        audit.endpoint,
        audit.below,
        audit.begun,
        audit.listed,
        audit.missing,
        audit.wrong_size,
        audit.dark,
        Bytes(audit.dark_bytes)
    )
}

fn finding_line(finding: &AuditFinding) -> String {
    let bytes = finding.bytes.map(|bytes| format!("  {}", Bytes(bytes))).unwrap_or_default();
    format!("  {:8}  {}{bytes}", finding.kind, finding.path)
}
