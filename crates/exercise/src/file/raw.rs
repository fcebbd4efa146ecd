//! The words of the file, as they stand there.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::FileProblem;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    pub exercise: RawExercise,
    pub lab: Option<Spanned<RawLab>>,
    #[serde(default)]
    pub site: BTreeMap<String, Spanned<RawSite>>,
    #[serde(default)]
    pub link: BTreeMap<String, Spanned<RawLink>>,
    #[serde(default)]
    pub class: BTreeMap<String, Spanned<RawClass>>,
    #[serde(default)]
    pub phase: Vec<Spanned<RawPhase>>,
    pub search: Option<Spanned<RawSearch>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawExercise {
    pub title: String,
    #[serde(default)]
    pub seed: u64,
    pub scale: Option<Spanned<f64>>,
    pub time_scale: Option<Spanned<f64>>,
    pub rate_max: Option<Spanned<String>>,
    pub scitag: Option<Spanned<u16>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLab {
    pub scenario: Option<Spanned<String>>,
    pub network: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSite {
    pub node: Option<String>,
    pub key_file: Option<String>,
    pub agent: Option<String>,
    pub agent_key_file: Option<String>,
    #[serde(default)]
    pub servers: BTreeMap<String, String>,
    pub interface: Option<Spanned<String>>,
    pub read: Option<Spanned<String>>,
    pub write: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLink {
    pub between: [String; 2],
    pub capacity: Option<Spanned<String>>,
    pub rate_max: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawClass {
    pub files: Option<u64>,
    pub size: Option<Spanned<String>>,
    pub set: Option<Spanned<String>>,
    pub mix: Option<Vec<RawShare>>,
    pub medium: Option<Spanned<String>>,
    pub tool: Option<Spanned<String>>,
    pub clients: Option<Spanned<u32>>,
    pub files_each: Option<Spanned<u32>>,
    pub streams: Option<Spanned<u32>>,
    pub window: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawShare {
    pub share: f64,
    pub size: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPhase {
    pub name: String,
    pub lasts: Option<Spanned<String>>,
    #[serde(default)]
    pub flow: Vec<Spanned<RawFlow>>,
    #[serde(default)]
    pub fault: Vec<Spanned<RawFault>>,
    #[serde(default)]
    pub site: Vec<Spanned<RawSiteGoal>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSiteGoal {
    pub name: String,
    pub sends: Option<Spanned<String>>,
    pub receives: Option<Spanned<String>>,
}

/// One name, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Names {
    One(String),
    Several(Vec<String>),
}

impl Names {
    pub fn all(&self) -> &[String] {
        match self {
            Names::One(name) => std::slice::from_ref(name),
            Names::Several(names) => names,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFlow {
    pub from: Names,
    pub to: Names,
    pub class: String,
    /// How many equal flows there are from each source to each target.
    #[serde(default = "one")]
    pub count: u32,
    pub at: Option<Spanned<String>>,
    pub goal: Option<Spanned<String>>,
    pub rate_max: Option<Spanned<String>>,
    pub repeats: Option<bool>,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFault {
    pub at: Spanned<String>,
    #[serde(rename = "for")]
    pub lasts: Option<Spanned<String>>,
    pub path: Option<String>,
    pub set: Option<BTreeMap<String, toml::Value>>,
    pub node: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSearch {
    pub from: String,
    pub to: String,
    pub class: String,
    pub slots: Option<usize>,
    pub slot: Option<Spanned<String>>,
    pub parameter: BTreeMap<String, Vec<u64>>,
}

/// Reads the words.
pub(super) fn read(text: &str) -> Result<RawFile, FileProblem> {
    toml::from_str(text).map_err(|error| FileProblem {
        line: error.span().map_or(1, |span| line_at(text, span.start)),
        what: error.message().lines().next().unwrap_or_default().to_owned(),
        remedy: "docs/exercise.md lists the words of the file".to_owned(),
    })
}

/// The line of a position in the text, from 1.
pub(super) fn line_at(text: &str, position: usize) -> usize {
    text.as_bytes().iter().take(position).filter(|byte| **byte == b'\n').count() + 1
}
