//! The file of an exercise: who sends what to whom, when, and what should be reached.
//!
//! Does not know: how it is run.

mod check;
mod raw;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::data_set::{DataSet, FileMix, scaled};
use crate::search::{Parameter, ParameterName, Setting};

/// An exercise.
#[derive(Clone, Debug, PartialEq)]
pub struct Exercise {
    /// What it is, in a line.
    pub title: String,
    /// The seed of file contents and of all random draws.
    pub seed: u64,
    /// What sizes, goals and caps are multiplied with.
    pub scale: f64,
    /// What the times of phases, flows and faults are multiplied with.
    pub time_scale: f64,
    /// The most that all flows together may send, bit/s; none for no limit.
    pub rate_max_bit_s: Option<f64>,
    /// The SciTag of its traffic: the numbers of an experiment and of an activity in the registry, as one (draft-cc-v6ops-wlcg-flow-label-marking).
    pub scitag: Option<u16>,
    /// The lab that it runs in, if it brings one.
    pub lab: Option<LabNetwork>,
    /// Its sites.
    pub sites: BTreeMap<String, ExerciseSite>,
    /// What is known of the links between sites.
    pub links: Vec<ExerciseLink>,
    /// In the order of the file.
    pub phases: Vec<ExercisePhase>,
    /// The search for parameters, if it is one.
    pub search: Option<Search>,
}

/// The network of the lab that an exercise brings.
#[derive(Clone, Debug, PartialEq)]
pub enum LabNetwork {
    /// A scenario: a file, or the name of a shipped one.
    Scenario(String),
    /// The text of a scenario.
    Text(String),
}

/// A site, and where its node is. In a lab both addresses are the lab's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExerciseSite {
    /// The address of the node, `https://HOST:PORT`.
    pub node: Option<String>,
    /// The file with the key to its export `exercise`.
    pub key_file: Option<String>,
    /// The address of the agent on a client host of the site, `https://HOST:PORT`.
    pub agent: Option<String>,
    /// The file with the key to the agent.
    pub agent_key_file: Option<String>,
    /// Servers of other tools, by the names of these: URLs of the directory that the node has for exercises. In a lab they are started.
    pub servers: BTreeMap<String, String>,
    /// What the interface of the node carries, bit/s.
    pub interface_bit_s: Option<f64>,
    /// What its disks read, bit/s.
    pub read_bit_s: Option<f64>,
    /// What its disks write, bit/s.
    pub write_bit_s: Option<f64>,
}

/// What is known of the link between two sites, in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct ExerciseLink {
    /// Its name.
    pub name: String,
    /// The two sites.
    pub between: [String; 2],
    /// What it carries, bit/s.
    pub capacity_bit_s: Option<f64>,
    /// The most that the exercise may send over it in a direction, bit/s.
    pub rate_max_bit_s: Option<f64>,
}

impl ExerciseLink {
    /// Whether a flow between two sites crosses the link.
    pub fn joins(&self, from: &str, to: &str) -> bool {
        let [a, b] = &self.between;
        (a == from && b == to) || (a == to && b == from)
    }
}

/// What a flow moves, and with what.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowClass {
    /// Its name.
    pub name: String,
    /// The files of a round.
    pub files: ClassFiles,
    /// Where they are at both ends.
    pub medium: Medium,
    /// What moves them.
    pub tool: FlowTool,
    /// Clients at once; more than one only for tools of others, because one job fills a path.
    pub clients: u32,
    /// Files that each process of a tool of others copies, one after another.
    pub files_each: u32,
    /// Streams of each client; none leaves it to the tool.
    pub streams: Option<u32>,
    /// The window of each stream, bytes, for tools that take one.
    pub window_bytes: Option<u64>,
}

/// The files of a class.
#[derive(Clone, Debug, PartialEq)]
pub enum ClassFiles {
    /// A number of files of one size.
    Equal {
        /// The number.
        count: u64,
        /// The size of each, bytes.
        bytes: u64,
    },
    /// A published data set.
    Set(DataSet),
    /// Sizes drawn from a mix.
    Mix {
        /// The number of files.
        count: u64,
        /// The sizes and their shares.
        mix: FileMix,
    },
}

/// Where the files of a class are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// In scratch places of the nodes.
    #[default]
    Disk,
    /// Nowhere: bytes are made at the source and dropped at the target.
    Memory,
    /// In a scratch place at the source, and dropped at the target.
    Read,
    /// Made at the source, and in a scratch place at the target.
    Write,
}

/// What moves the files of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FlowTool {
    /// The node at the source, by its own protocol.
    #[default]
    Longhaul,
    /// The queue of a hub.
    Hub,
    /// A client of another tool, by the agent at the target: `curl`, `xrdcp`, …
    Client(String),
}

/// A part of an exercise, after the part before it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExercisePhase {
    /// Its name.
    pub name: String,
    /// How long it lasts; none until all flows are done.
    pub lasts: Option<Duration>,
    /// Its flows.
    pub flows: Vec<ExerciseFlow>,
    /// What is broken in it.
    pub faults: Vec<PhaseFault>,
    /// What its sites should sustain, all of their flows together.
    pub site_goals: Vec<SiteGoal>,
}

/// What a site should sustain in a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteGoal {
    /// The site.
    pub site: String,
    /// Whether it sends; else it receives.
    pub sends: bool,
    /// The rate of all of its flows in this direction together, bit/s.
    pub goal_bit_s: f64,
}

/// A flow: from a site to a site.
#[derive(Clone, Debug, PartialEq)]
pub struct ExerciseFlow {
    /// The name of its matrix, and of its two sites: `push: geneva > perth`.
    pub name: String,
    /// The source.
    pub from: String,
    /// The target.
    pub to: String,
    /// What it moves.
    pub class: FlowClass,
    /// When it begins, from the beginning of the phase.
    pub at: Duration,
    /// The rate to sustain, bit/s.
    pub goal_bit_s: Option<f64>,
    /// The most that it may send, bit/s.
    pub rate_max_bit_s: Option<f64>,
    /// Whether it begins again until the phase ends.
    pub repeats: bool,
}

/// Something that is broken in a phase, on purpose.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseFault {
    /// When, from the beginning of the phase.
    pub at: Duration,
    /// For how long; none until the end of the exercise.
    pub lasts: Option<Duration>,
    /// What.
    pub what: FaultKind,
}

/// What a fault breaks.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// Settings of a path of the lab, in the words of `longhaul lab set`.
    Path {
        /// The path.
        path: String,
        /// The settings: `loss=1%`, `down=true`.
        settings: Vec<String>,
    },
    /// The node of a site is ended, and started again afterwards.
    Node {
        /// The site.
        site: String,
    },
}

/// A search for parameters of one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The flow whose class is varied; its phase lasts one slot.
    pub flow: ExerciseFlow,
    /// The number of slots.
    pub slots: usize,
    /// The length of a slot.
    pub slot: Duration,
    /// What is varied.
    pub parameters: Vec<Parameter>,
}

impl Search {
    /// The class of the flow with the values of a setting.
    pub fn class_with(&self, setting: &Setting) -> FlowClass {
        let mut class = self.flow.class.clone();
        for (name, value) in setting.values() {
            match name {
                ParameterName::Clients => class.clients = value as u32,
                ParameterName::Streams => class.streams = Some(value as u32),
                ParameterName::Window => class.window_bytes = Some(value).filter(|window| *window > 0),
                ParameterName::Files => {}
            }
        }
        // Files of each client: all of them together are more, and smaller.
        match setting.value(ParameterName::Files) {
            Some(files) => class.divided(files.saturating_mul(class.clients.into())),
            None => class,
        }
    }

    /// The classes whose files are needed: one for each number of files that is tried.
    pub fn file_classes(&self) -> Vec<FlowClass> {
        let values = |name| self.parameters.iter().find(|parameter| parameter.name == name).map(|known| &known.values);
        let Some(files) = values(ParameterName::Files) else { return vec![self.flow.class.clone()] };
        let own = vec![u64::from(self.flow.class.clients)];
        let clients = values(ParameterName::Clients).unwrap_or(&own);
        let mut counts: Vec<u64> =
            files.iter().flat_map(|files| clients.iter().map(move |clients| files.saturating_mul(*clients))).collect();
        counts.sort_unstable();
        counts.dedup();
        counts.into_iter().map(|count| self.flow.class.divided(count)).collect()
    }
}

/// Why a file is not an exercise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; {remedy}")]
pub struct FileProblem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
    /// What to write.
    pub remedy: String,
}

/// An exercise that ships with the program.
#[derive(Clone, Copy, Debug)]
pub struct ShippedExercise {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),+) => { [$(ShippedExercise { name: $name, text: include_str!(concat!("../exercises/", $name, ".toml")) }),+] };
}

/// The exercises that ship with the program. Those of `before-after` and `xrdcp-modes` move the same files
/// with an old tool, and then with Longhaul.
pub const SHIPPED: [ShippedExercise; 20] = shipped![
    "dc-mini",
    "endurance",
    "flood",
    "sc11",
    "ska-push",
    "srcnet-24h",
    "before-after/ahri-colorado",
    "before-after/ahri-harvard",
    "before-after/cms-ucsd",
    "before-after/imperial-singaren",
    "before-after/ithemba",
    "before-after/jisc-rule",
    "before-after/nci-wits",
    "before-after/southampton-diamond",
    "before-after/southampton-latest",
    "before-after/tifr",
    "before-after/vlbi-pretoria",
    "xrdcp-modes/lan",
    "xrdcp-modes/jbo-paris",
    "xrdcp-modes/canberra-jbo"
];

/// The shipped exercise of a name.
pub fn shipped(name: &str) -> Option<&'static ShippedExercise> {
    SHIPPED.iter().find(|exercise| exercise.name == name)
}

impl Exercise {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The first problem, with its line.
    pub fn read(text: &str) -> Result<Exercise, FileProblem> {
        check::exercise(&raw::read(text)?, text)
    }

    /// All flows, with the numbers of their phases.
    pub fn flows(&self) -> impl Iterator<Item = (usize, &ExerciseFlow)> {
        self.phases.iter().enumerate().flat_map(|(number, phase)| phase.flows.iter().map(move |flow| (number, flow)))
    }

    /// The sites that flows use.
    pub fn used_sites(&self) -> Vec<&str> {
        let searched = self.search.iter().map(|search| &search.flow);
        let mut used: Vec<&str> = self
            .flows()
            .map(|(_, flow)| flow)
            .chain(searched)
            .flat_map(|flow| [flow.from.as_str(), flow.to.as_str()])
            .collect();
        used.sort_unstable();
        used.dedup();
        used
    }
}

impl FlowClass {
    /// The same volume in another number of files.
    fn divided(&self, count: u64) -> FlowClass {
        let (_, bytes) = self.volume(1.0);
        let files = ClassFiles::Equal { count, bytes: (bytes / count.max(1)).max(1) };
        FlowClass { name: format!("{}-{count}", self.name), files, ..self.clone() }
    }

    /// The number of files of a round.
    pub fn count(&self) -> u64 {
        match &self.files {
            ClassFiles::Equal { count, .. } | ClassFiles::Mix { count, .. } => *count,
            ClassFiles::Set(set) => set.count(),
        }
    }

    /// The number of files of a round, and their bytes.
    pub fn volume(&self, scale: f64) -> (u64, u64) {
        match &self.files {
            ClassFiles::Equal { count, bytes } => (*count, count.saturating_mul(scaled(*bytes, scale))),
            ClassFiles::Set(set) => (set.count(), set.bytes(scale)),
            ClassFiles::Mix { count, mix } => (*count, mix.files(*count, scale, 0).map(|file| file.bytes).sum()),
        }
    }
}

impl Medium {
    /// Whether files are read from a scratch place.
    pub fn reads(self) -> bool {
        matches!(self, Medium::Disk | Medium::Read)
    }

    /// Whether files are written to a scratch place.
    pub fn writes(self) -> bool {
        matches!(self, Medium::Disk | Medium::Write)
    }
}

impl FlowTool {
    /// Its name in files and reports.
    pub fn name(&self) -> &str {
        match self {
            FlowTool::Longhaul => "longhaul",
            FlowTool::Hub => "hub",
            FlowTool::Client(name) => name,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Path { path, settings } => write!(f, "{path}: {}", settings.join(" ")),
            FaultKind::Node { site } => write!(f, "the node of {site} is ended"),
        }
    }
}
