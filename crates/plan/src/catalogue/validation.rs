//! Checks of a site's answers: what is missing, what contradicts itself, and what a measurement contradicts.
//!
//! Does not know: where measurements come from.

use super::questionnaire::{QUESTIONS, SiteRecord};

/// How much lower than the claim a measured rate may be: one stream of one test is not the whole link.
const TOLERANCE: f64 = 0.8;
/// Claims that are beyond what any site has today.
const DISK_PB_MAX: f64 = 10_000.0;
const LINK_GBIT_S_MAX: f64 = 10_000.0;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The record is complete, but somebody should look at it.
    Question,
    /// The record cannot be used as it is.
    Error,
}

/// A finding about an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerFinding {
    /// The question, by its name.
    pub question: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, and what to do.
    pub text: String,
}

/// What was measured at a site. None where nothing was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// The highest rate over the link, Gbit/s.
    pub link_gbit_s: Option<f64>,
    /// The rate at which the disks wrote, Gbit/s.
    pub disk_write_gbit_s: Option<f64>,
}

/// Checks a record.
pub fn validate(record: &SiteRecord, measured: Measured) -> Vec<AnswerFinding> {
    let mut findings: Vec<AnswerFinding> = missing(record).collect();
    findings.extend(absurd(record));
    findings.extend(contradictions(record));
    findings.extend(contradicted(record, measured));
    findings
}

fn missing(record: &SiteRecord) -> impl Iterator<Item = AnswerFinding> {
    let lacks = |name: &str| !record.answers.contains_key(name);
    QUESTIONS.iter().filter(move |question| question.required && lacks(question.name)).map(|question| AnswerFinding {
        question: question.name,
        severity: Severity::Error,
        text: format!("no answer to: {}", question.text),
    })
}

fn absurd(record: &SiteRecord) -> Vec<AnswerFinding> {
    let beyond = |name: &'static str, most: f64, unit: &str| {
        record.number(name).filter(|number| *number > most).map(|number| AnswerFinding {
            question: name,
            severity: Severity::Error,
            text: format!("{number} {unit} is more than any site has: is the unit right?"),
        })
    };
    [beyond("disk_pb", DISK_PB_MAX, "PB"), beyond("link_gbit_s", LINK_GBIT_S_MAX, "Gbit/s")]
        .into_iter()
        .flatten()
        .collect()
}

fn contradictions(record: &SiteRecord) -> Vec<AnswerFinding> {
    let mut findings = Vec::new();
    let mut ask = |question: &'static str, text: String| {
        findings.push(AnswerFinding { question, severity: Severity::Question, text });
    };
    if record.yes("dtn") == Some(false) && record.number("dtn_count").is_some_and(|count| count > 0.0) {
        ask("dtn_count", "the site has no data transfer node, but says how many: correct one of the two".to_owned());
    }
    if let (Some(link), Some(false)) = (record.number("link_gbit_s"), record.yes("link_can_100g"))
        && link >= 100.0
    {
        ask("link_can_100g", format!("the link has {link} Gbit/s, so it reaches 100 already: answer yes"));
    }
    if let (Some(inside), Some(link)) = (record.number("internal_gbit_s"), record.number("link_gbit_s"))
        && inside < link
    {
        let text =
            format!("storage is joined by {inside} Gbit/s, less than the link's {link}: the link cannot be filled");
        ask("internal_gbit_s", text);
    }
    if record.yes("dmz") == Some(true) && record.yes("firewall") == Some(true) {
        ask(
            "firewall",
            "a science DMZ lies outside the firewall: does the firewall filter data transfers too?".to_owned(),
        );
    }
    findings
}

/// Claims that a measurement does not reach.
fn contradicted(record: &SiteRecord, measured: Measured) -> Vec<AnswerFinding> {
    let compare = |question: &'static str, measured: Option<f64>| {
        let (claim, measured) = (record.number(question)?, measured?);
        (measured < claim * TOLERANCE).then(|| AnswerFinding {
            question,
            severity: Severity::Question,
            text: format!(
                "the site says {claim} Gbit/s, the best measurement is {measured:.1}: measure again, or correct the answer"
            ),
        })
    };
    let link = compare("link_gbit_s", measured.link_gbit_s);
    let disk = compare("disk_write_gbit_s", measured.disk_write_gbit_s);
    link.into_iter().chain(disk).collect()
}

#[cfg(test)]
mod tests {
    use super::super::questionnaire::Answer;
    use super::*;

    fn record(answers: &[(&str, Answer)]) -> SiteRecord {
        let answers = answers.iter().map(|(name, answer)| ((*name).to_owned(), answer.clone())).collect();
        SiteRecord { site: "a".into(), answers }
    }

    fn findings(answers: &[(&str, Answer)], measured: Measured) -> Vec<&'static str> {
        let all = validate(&record(answers), measured);
        all.iter().filter(|finding| finding.severity == Severity::Question).map(|finding| finding.question).collect()
    }

    #[test]
    fn a_record_without_a_required_answer_is_incomplete() {
        let all = validate(&record(&[]), Measured::default());
        let required = QUESTIONS.iter().filter(|question| question.required).count();
        assert_eq!(all.len(), required);
        assert!(all.iter().all(|finding| finding.severity == Severity::Error));
    }

    #[test]
    fn answers_that_contradict_each_other_are_asked_about() {
        use Answer::{Number, YesNo};
        let nothing = Measured::default();
        assert_eq!(findings(&[("dtn", YesNo(false)), ("dtn_count", Number(2.0))], nothing), ["dtn_count"]);
        assert_eq!(
            findings(&[("link_gbit_s", Number(100.0)), ("link_can_100g", YesNo(false))], nothing),
            ["link_can_100g"]
        );
        assert_eq!(
            findings(&[("link_gbit_s", Number(100.0)), ("internal_gbit_s", Number(56.0))], nothing),
            ["internal_gbit_s"]
        );
    }

    #[test]
    fn a_claim_that_a_measurement_does_not_reach_is_asked_about() {
        let claim = [("link_gbit_s", Answer::Number(100.0))];
        let measured = |gbit_s: f64| Measured { link_gbit_s: Some(gbit_s), ..Measured::default() };
        assert_eq!(findings(&claim, measured(36.0)), ["link_gbit_s"]);
        assert_eq!(findings(&claim, measured(91.0)), [""; 0]);
    }
}
