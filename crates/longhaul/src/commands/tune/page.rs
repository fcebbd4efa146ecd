//! The page of `tune audit --html`: one file without scripts, which loads nothing.

use std::fmt::Write as _;

use report::html::{self, text};
use tune::audit::{Audit, Finding, Status};

use super::show::{by_area, confidence, counts, observed, one_line, persist, severity, wanted, word};

/// The whole page.
pub fn page(headline: &str, audit: &Audit) -> String {
    let mut out = format!("<h1>Audit</h1><p>{}</p><p>{}</p>", text(headline), text(&counts(audit)));
    for (status, head) in [
        (Status::Differs, "Not as wanted"),
        (Status::Unknown, "Unknown"),
        (Status::Ok, "As wanted"),
        (Status::NotApplicable, "Not for this host"),
    ] {
        let findings: Vec<&Finding> = audit.findings.iter().filter(|finding| finding.status == status).collect();
        if findings.is_empty() {
            continue;
        }
        let _ = write!(out, "<h2>{head}</h2>");
        for (area, group) in by_area(&findings) {
            let _ = write!(out, "<h3>{}</h3>", word(area));
            table(&mut out, &group);
        }
    }
    html::page(&format!("Audit of {headline}"), &out)
}

fn table(out: &mut String, findings: &[&Finding]) {
    out.push_str(
        "<div class=\"wide\"><table><tr><th>rule</th><th>is</th><th>wanted</th><th>why, and how to change it</th></tr>",
    );
    for finding in findings {
        row(out, finding);
    }
    out.push_str("</table></div>\n");
}

fn row(out: &mut String, finding: &Finding) {
    let subject = finding.subject.as_deref().unwrap_or_default();
    let observed_value = observed(finding);
    let wanted = wanted(finding);
    let severity = severity(finding.severity);
    let _ = write!(
        out,
        "<tr class=\"{severity}\"><td><b>{}</b> {}<br/>{}<br/><small>{severity}</small></td><td>{}</td><td>{}</td><td>",
        text(&finding.id),
        text(subject),
        text(&finding.title),
        text(&observed_value),
        text(&wanted)
    );
    if let Some(note) = &finding.note {
        let _ = write!(out, "{}<br/>", text(note));
    }
    let _ = write!(out, "{}<br/><code>{}</code>", text(&one_line(&finding.why)), text(&one_line(&finding.command)));
    if let Some(conflict) = &finding.conflict {
        let other = text(&one_line(&conflict.other));
        let ours = text(&one_line(&conflict.ours));
        let _ = write!(out, "<br/><b>Others:</b> {other}<br/><b>Ours:</b> {ours}");
    }
    let source = text(&one_line(&finding.source));
    let known = confidence(finding.confidence);
    let _ = write!(
        out,
        "<br/><small>{source} ({known}); kept after a reboot by {}</small></td></tr>",
        persist(finding.persist)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_the_page() {
        let page = page("<script>alert(1)</script>", &Audit { findings: Vec::new() });
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
        assert!(page.contains("0 differ, 0 unknown") && page.trim_end().ends_with("</html>"));
    }
}
