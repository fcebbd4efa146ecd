//! The questions that sites are asked, and the record of a site's answers.
//!
//! Does not know: whether answers make sense; see `validation`.

use std::collections::BTreeMap;

/// What an answer looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number with this unit.
    Number(&'static str),
    /// Yes or no.
    YesNo,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A line of text.
    Text,
    /// A year.
    Year,
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogueQuestion {
    /// The name of the answer in files and in the API.
    pub name: &'static str,
    /// The question as a site reads it.
    pub text: &'static str,
    /// What helps to answer it; may be empty.
    pub hint: &'static str,
    /// The form of the answer.
    pub kind: Kind,
    /// Whether a record without it is incomplete.
    pub required: bool,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A number in the unit of the question.
    Number(f64),
    /// Yes or no.
    YesNo(bool),
    /// A word or a line of text.
    Text(String),
}

/// The answers of one site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteRecord {
    /// The name of the site.
    pub site: String,
    /// By the names of the questions.
    pub answers: BTreeMap<String, Answer>,
}

/// All questions, in the order of the form.
pub const QUESTIONS: &[CatalogueQuestion] = &[
    question("contact", "Who answers questions about this record?", "name and mail address", Kind::Text, true),
    question(
        "disk_pb",
        "How much disk space does the site have for the collaboration?",
        "usable, after RAID or erasure coding",
        Kind::Number("PB"),
        true,
    ),
    question(
        "raid",
        "How is the disk space protected?",
        "",
        Kind::Choice(&["raid5", "raid6", "erasure coding", "replication", "none"]),
        true,
    ),
    question(
        "file_system",
        "Which file system holds the data?",
        "for example Lustre, GPFS, Ceph, EOS, dCache",
        Kind::Text,
        false,
    ),
    question(
        "disk_write_gbit_s",
        "At which rate can one data transfer write to disk?",
        "measured, if possible: longhaul probe disk",
        Kind::Number("Gbit/s"),
        true,
    ),
    question(
        "disk_read_gbit_s",
        "At which rate can one data transfer read from disk?",
        "",
        Kind::Number("Gbit/s"),
        false,
    ),
    question("tape_pb", "How much tape space does the site have?", "0 if none", Kind::Number("PB"), false),
    question(
        "link_gbit_s",
        "What is the capacity of the site's external link?",
        "of the link, not of a switch behind it",
        Kind::Number("Gbit/s"),
        true,
    ),
    question("link_can_100g", "Can the link be raised to 100 Gbit/s or more?", "", Kind::YesNo, true),
    question("link_adequate_until", "Until which year is the link adequate?", "", Kind::Year, false),
    question("dtn", "Does the site have or plan a data transfer node?", "", Kind::YesNo, true),
    question("dtn_count", "How many data transfer nodes?", "", Kind::Number("nodes"), false),
    question(
        "dmz",
        "Does the site have a science DMZ?",
        "a part of the network for data transfers, outside the general firewall",
        Kind::YesNo,
        true,
    ),
    question(
        "firewall",
        "Is there a firewall between the data transfer nodes and the wide-area network?",
        "",
        Kind::YesNo,
        true,
    ),
    question(
        "internal_gbit_s",
        "At which rate are storage and data transfer nodes joined?",
        "for example InfiniBand 40 or 56 Gbit/s",
        Kind::Number("Gbit/s"),
        false,
    ),
    question(
        "growth_factor",
        "By which factor does the site have to grow?",
        "over the planned period",
        Kind::Number("×"),
        false,
    ),
];

const fn question(
    name: &'static str,
    text: &'static str,
    hint: &'static str,
    kind: Kind,
    required: bool,
) -> CatalogueQuestion {
    CatalogueQuestion { name, text, hint, kind, required }
}

impl CatalogueQuestion {
    /// The question of a name.
    pub fn named(name: &str) -> Option<&'static CatalogueQuestion> {
        QUESTIONS.iter().find(|question| question.name == name)
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// The text is no answer of this kind; says what one looks like.
    pub fn read(&self, text: &str) -> Result<Answer, String> {
        let text = text.trim();
        match self.kind {
            Kind::Number(unit) => match text.parse::<f64>() {
                Ok(number) if number.is_finite() && number >= 0.0 => Ok(Answer::Number(number)),
                Ok(_) => Err(format!("{text} {unit} cannot be: write a number that is not negative")),
                Err(_) => Err(format!("{text:?} is not a number: write the number of {unit}, without the unit")),
            },
            Kind::Year => match text.parse::<u16>() {
                Ok(year) if (1990..=2200).contains(&year) => Ok(Answer::Number(f64::from(year))),
                _ => Err(format!("{text:?} is not a year: write four digits, like 2030")),
            },
            Kind::YesNo => match text.to_ascii_lowercase().as_str() {
                "yes" | "true" => Ok(Answer::YesNo(true)),
                "no" | "false" => Ok(Answer::YesNo(false)),
                _ => Err(format!("{text:?} is neither yes nor no")),
            },
            Kind::Choice(words) => match words.iter().find(|word| word.eq_ignore_ascii_case(text)) {
                Some(word) => Ok(Answer::Text((*word).to_owned())),
                None => Err(format!("{text:?} is none of: {}", words.join(", "))),
            },
            Kind::Text if text.is_empty() => Err("the answer is empty".to_owned()),
            Kind::Text => Ok(Answer::Text(text.to_owned())),
        }
    }
}

impl SiteRecord {
    /// The number that answers a question.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.answers.get(name) {
            Some(Answer::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// The yes or no that answers a question.
    pub fn yes(&self, name: &str) -> Option<bool> {
        match self.answers.get(name) {
            Some(Answer::YesNo(yes)) => Some(*yes),
            _ => None,
        }
    }

    /// The text that answers a question.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.answers.get(name) {
            Some(Answer::Text(text)) => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_by_their_kind() {
        let read = |name: &str, text: &str| CatalogueQuestion::named(name).unwrap().read(text);
        assert_eq!(read("disk_pb", " 29.5 "), Ok(Answer::Number(29.5)));
        assert_eq!(read("raid", "RAID6"), Ok(Answer::Text("raid6".into())));
        assert_eq!(read("dtn", "Yes"), Ok(Answer::YesNo(true)));
        assert_eq!(read("link_adequate_until", "2022"), Ok(Answer::Number(2022.0)));
    }

    #[test]
    fn an_answer_of_another_kind_is_refused_with_what_to_write() {
        let problem = |name: &str, text: &str| CatalogueQuestion::named(name).unwrap().read(text).unwrap_err();
        assert!(problem("disk_pb", "2 PB").contains("without the unit"));
        assert!(problem("disk_pb", "-1").contains("not negative"));
        assert!(problem("disk_pb", "NaN").contains("cannot be"));
        assert!(problem("raid", "raid7").contains("raid6"));
        assert!(problem("dtn", "maybe").contains("neither"));
        assert!(problem("link_adequate_until", "soon").contains("2030"));
    }
}
