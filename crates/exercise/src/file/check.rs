//! Makes an exercise from the words of its file: units are read, names are found, every default is filled in.

mod class;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::units::{BitRate, Bytes};
use toml::Spanned;
use web::scitag::SciTag;

use super::raw::{RawFault, RawFile, RawFlow, RawLab, RawLink, RawPhase, RawSearch, RawSite, RawSiteGoal, line_at};
use super::{
    Exercise, ExerciseFlow, ExerciseLink, ExercisePhase, ExerciseSite, FaultKind, FileProblem, FlowClass, FlowTool,
    LabNetwork, PhaseFault, Search, SiteGoal,
};
use crate::agent::tool_names;
use crate::search::{Parameter, ParameterName, SlotSearch};

/// Flows of an exercise: the controller has a thread for each.
const FLOWS_MAX: usize = 1_000;
/// Files of a round: a node makes so many in a few requests.
const FILES_MAX: u64 = 200_000;
/// The slots of a search, and the length of each, where the file does not say.
const SLOTS: usize = 6;
const SLOT: Duration = Duration::from_secs(60);

type Result<T> = std::result::Result<T, FileProblem>;

/// The text of the file, for the lines of problems.
struct FileText<'a>(&'a str);

impl FileText<'_> {
    fn problem(&self, at: &std::ops::Range<usize>, what: impl Into<String>, remedy: impl Into<String>) -> FileProblem {
        FileProblem { line: line_at(self.0, at.start), what: what.into(), remedy: remedy.into() }
    }

    /// Reads a text with a unit; the error of its type says how to write it.
    fn read<T, E: std::fmt::Display>(
        &self,
        text: &Spanned<String>,
        read: impl Fn(&str) -> std::result::Result<T, E>,
    ) -> Result<T> {
        read(text.get_ref()).map_err(|error| self.problem(&text.span(), error.to_string(), "units stand in quotes"))
    }

    fn rate(&self, text: Option<&Spanned<String>>) -> Result<Option<f64>> {
        text.map(|text| Ok(self.read(text, str::parse::<BitRate>)?.0 as f64)).transpose()
    }

    fn bytes(&self, text: &Spanned<String>) -> Result<u64> {
        let bytes = self.read(text, str::parse::<Bytes>)?.0;
        if bytes == 0 {
            return Err(self.problem(&text.span(), "a size of 0", "write at least one byte"));
        }
        Ok(bytes)
    }

    /// A factor above 0, up to 1, which it is by default.
    fn factor(&self, stated: Option<&Spanned<f64>>) -> Result<f64> {
        let Some(stated) = stated else { return Ok(1.0) };
        let factor = *stated.get_ref();
        if factor > 0.0 && factor <= 1.0 {
            return Ok(factor);
        }
        Err(self.problem(&stated.span(), format!("a scale of {factor}"), "write a number above 0, up to 1"))
    }

    fn time(&self, text: Option<&Spanned<String>>) -> Result<Option<Duration>> {
        text.map(|text| self.read(text, model::duration::parse)).transpose()
    }
}

/// Checks a file and fills in its defaults.
pub(super) fn exercise(raw: &RawFile, text: &str) -> Result<Exercise> {
    let source = FileText(text);
    let settings = &raw.exercise;
    let scale = source.factor(settings.scale.as_ref())?;
    let time_scale = source.factor(settings.time_scale.as_ref())?;
    let sites = sites(&source, raw)?;
    let links =
        raw.link.iter().map(|(name, link)| self::link(&source, name, link, &sites)).collect::<Result<Vec<_>>>()?;
    let classes: BTreeMap<&str, FlowClass> = raw
        .class
        .iter()
        .map(|(name, class)| Ok((name.as_str(), class::class(&source, name, class)?)))
        .collect::<Result<_>>()?;
    let known = KnownParts { source: &source, sites: &sites, classes: &classes, has_lab: raw.lab.is_some() };
    let phases = raw.phase.iter().map(|phase| known.phase(phase)).collect::<Result<Vec<_>>>()?;
    let search = raw.search.as_ref().map(|search| known.search(search)).transpose()?;
    let exercise = Exercise {
        title: settings.title.clone(),
        seed: settings.seed,
        scale,
        time_scale,
        rate_max_bit_s: source.rate(settings.rate_max.as_ref())?.map(|rate| rate * scale),
        scitag: settings.scitag.as_ref().map(|tag| self::scitag(&source, tag)).transpose()?,
        lab: raw.lab.as_ref().map(|lab| self::lab(&source, lab)).transpose()?,
        links: links.into_iter().map(|link| scale_link(link, scale)).collect(),
        phases: phases.into_iter().map(|phase| scale_phase(phase, scale, time_scale)).collect(),
        sites,
        search: search.map(|search| Search { slot: search.slot.mul_f64(time_scale), ..search }),
    };
    check_extent(&exercise)?;
    Ok(exercise)
}

fn scitag(source: &FileText<'_>, stated: &Spanned<u16>) -> Result<u16> {
    let value = *stated.get_ref();
    if value >= SciTag::MIN {
        return Ok(value);
    }
    let remedy = "write 64 × the number of the experiment + that of the activity: 452 for data challenges of the SKA";
    Err(source.problem(&stated.span(), format!("{value} is no SciTag"), remedy))
}

/// Goals and caps are scaled; what a link carries is what it carries.
fn scale_link(link: ExerciseLink, scale: f64) -> ExerciseLink {
    ExerciseLink { rate_max_bit_s: link.rate_max_bit_s.map(|rate| rate * scale), ..link }
}

fn scale_phase(mut phase: ExercisePhase, scale: f64, time_scale: f64) -> ExercisePhase {
    phase.lasts = phase.lasts.map(|lasts| lasts.mul_f64(time_scale));
    for fault in &mut phase.faults {
        fault.at = fault.at.mul_f64(time_scale);
        fault.lasts = fault.lasts.map(|lasts| lasts.mul_f64(time_scale));
    }
    phase.site_goals.iter_mut().for_each(|goal| goal.goal_bit_s *= scale);
    for flow in &mut phase.flows {
        flow.at = flow.at.mul_f64(time_scale);
        flow.goal_bit_s = flow.goal_bit_s.map(|goal| goal * scale);
        flow.rate_max_bit_s = flow.rate_max_bit_s.map(|rate| rate * scale);
    }
    phase
}

fn check_extent(exercise: &Exercise) -> Result<()> {
    let whole = |what: String, remedy: &str| Err(FileProblem { line: 1, what, remedy: remedy.to_owned() });
    let flows = exercise.flows().count();
    if flows == 0 && exercise.search.is_none() {
        return whole("no flow and no search".into(), "add a [[phase]] with a [[phase.flow]], or a [search]");
    }
    if flows > FLOWS_MAX {
        return whole(format!("{flows} flows"), "an exercise has 1,000 flows at most");
    }
    let searched = exercise.search.iter().flat_map(|search| search.file_classes());
    if let Some(class) = searched.into_iter().find(|class| class.count() > FILES_MAX) {
        return whole(format!("a search with {} files", class.count()), "lower the values of files and clients");
    }
    let mut names = BTreeSet::new();
    for name in exercise.phases.iter().map(|phase| &phase.name).chain(exercise.flows().map(|(_, flow)| &flow.name)) {
        if !names.insert(name) {
            let remedy = "give each phase a name of its own, and write count where a phase has equal flows";
            return whole(format!("two phases, or two flows of a phase, are named {name:?}"), remedy);
        }
    }
    Ok(())
}

fn lab(source: &FileText<'_>, raw: &Spanned<RawLab>) -> Result<LabNetwork> {
    match (&raw.get_ref().scenario, &raw.get_ref().network) {
        (Some(scenario), None) => Ok(LabNetwork::Scenario(scenario.get_ref().clone())),
        (None, Some(network)) => Ok(LabNetwork::Text(network.get_ref().clone())),
        _ => {
            let remedy = "write scenario = \"NAME or FILE\", or network = \"\"\" and the text of a scenario";
            Err(source.problem(&raw.span(), "the lab does not say what its network is", remedy))
        }
    }
}

fn sites(source: &FileText<'_>, raw: &RawFile) -> Result<BTreeMap<String, ExerciseSite>> {
    let mut sites = BTreeMap::new();
    for (name, site) in &raw.site {
        sites.insert(name.clone(), self::site(source, site)?);
        let has_node = site.get_ref().node.is_some();
        if !has_node && raw.lab.is_none() {
            let what = format!("the site {name} has no node");
            return Err(source.problem(
                &site.span(),
                what,
                "write node = \"https://HOST:PORT\" and key_file, or add [lab]",
            ));
        }
    }
    Ok(sites)
}

fn site(source: &FileText<'_>, raw: &Spanned<RawSite>) -> Result<ExerciseSite> {
    let site = raw.get_ref();
    let is_tool = |name: &&String| tool_names().any(|tool| tool == name.as_str());
    if let Some(unknown) = site.servers.keys().find(|name| !is_tool(name)) {
        let known: Vec<&str> = tool_names().collect();
        let remedy = format!("write one of {}", known.join(", "));
        return Err(source.problem(&raw.span(), format!("a server of {unknown}, which is no tool of agents"), remedy));
    }
    Ok(ExerciseSite {
        node: site.node.clone(),
        key_file: site.key_file.clone(),
        agent: site.agent.clone(),
        agent_key_file: site.agent_key_file.clone(),
        servers: site.servers.clone(),
        interface_bit_s: source.rate(site.interface.as_ref())?,
        read_bit_s: source.rate(site.read.as_ref())?,
        write_bit_s: source.rate(site.write.as_ref())?,
    })
}

fn link(
    source: &FileText<'_>,
    name: &str,
    raw: &Spanned<RawLink>,
    sites: &BTreeMap<String, ExerciseSite>,
) -> Result<ExerciseLink> {
    let link = raw.get_ref();
    if let Some(unknown) = link.between.iter().find(|site| !sites.contains_key(*site)) {
        let what = format!("the link {name} joins {unknown}, which is no site of this file");
        return Err(source.problem(&raw.span(), what, format!("add [site.{unknown}]")));
    }
    Ok(ExerciseLink {
        name: name.to_owned(),
        between: link.between.clone(),
        capacity_bit_s: source.rate(link.capacity.as_ref())?,
        rate_max_bit_s: source.rate(link.rate_max.as_ref())?,
    })
}

/// What phases refer to.
struct KnownParts<'a> {
    source: &'a FileText<'a>,
    sites: &'a BTreeMap<String, ExerciseSite>,
    classes: &'a BTreeMap<&'a str, FlowClass>,
    has_lab: bool,
}

impl KnownParts<'_> {
    fn phase(&self, raw: &Spanned<RawPhase>) -> Result<ExercisePhase> {
        let phase = raw.get_ref();
        let lasts = self.source.time(phase.lasts.as_ref())?;
        let mut flows = Vec::new();
        for flow in &phase.flow {
            flows.extend(self.matrix(&phase.name, flow, lasts)?);
        }
        let faults = phase.fault.iter().map(|fault| self.fault(fault)).collect::<Result<Vec<_>>>()?;
        let mut site_goals = Vec::new();
        for site in &phase.site {
            site_goals.extend(self.site_goals(site)?);
        }
        Ok(ExercisePhase { name: phase.name.clone(), lasts, flows, faults, site_goals })
    }

    /// The goals of a site: one for each direction that is stated.
    fn site_goals(&self, raw: &Spanned<RawSiteGoal>) -> Result<Vec<SiteGoal>> {
        let site = raw.get_ref();
        self.site(&site.name, &raw.span())?;
        let goal = |rate: Option<&Spanned<String>>, sends| {
            let rate = self.source.rate(rate)?;
            Ok(rate.map(|goal_bit_s| SiteGoal { site: site.name.clone(), sends, goal_bit_s }))
        };
        let goals = [goal(site.sends.as_ref(), true)?, goal(site.receives.as_ref(), false)?];
        if goals.iter().all(Option::is_none) {
            let what = format!("the goal of {} has no rate", site.name);
            return Err(self.source.problem(&raw.span(), what, "write sends = \"10Gbit/s\", or receives"));
        }
        Ok(goals.into_iter().flatten().collect())
    }

    /// The flows of a matrix: from each source to each target, not from a site to itself.
    fn matrix(&self, phase: &str, raw: &Spanned<RawFlow>, lasts: Option<Duration>) -> Result<Vec<ExerciseFlow>> {
        let flow = raw.get_ref();
        let at = self.source.time(flow.at.as_ref())?.unwrap_or_default();
        if lasts.is_some_and(|lasts| at >= lasts) {
            return Err(self.source.problem(
                &raw.span(),
                "the flow begins after its phase has ended",
                "lower at, or raise lasts",
            ));
        }
        let class = self.class(&flow.class, &raw.span())?;
        let pairs = flow.from.all().len().saturating_mul(flow.to.all().len());
        if pairs.saturating_mul(flow.count as usize) > FLOWS_MAX {
            let what = format!("{} flows from each of {pairs} sources to their targets", flow.count);
            return Err(self.source.problem(&raw.span(), what, "an exercise has 1,000 flows at most"));
        }
        let mut flows = Vec::new();
        for from in flow.from.all() {
            // From a site to itself only its disks are tested.
            let tests_disks = class.medium.reads() != class.medium.writes();
            for to in flow.to.all().iter().filter(|to| *to != from || tests_disks) {
                self.site(from, &raw.span())?;
                self.site(to, &raw.span())?;
                for number in 1..=flow.count {
                    let copy = if flow.count > 1 { format!(" {number}") } else { String::new() };
                    flows.push(ExerciseFlow {
                        name: format!("{phase}: {from} > {to}, {}{copy}", class.name),
                        from: from.clone(),
                        to: to.clone(),
                        class: class.clone(),
                        at,
                        goal_bit_s: self.source.rate(flow.goal.as_ref())?,
                        rate_max_bit_s: self.source.rate(flow.rate_max.as_ref())?,
                        repeats: flow.repeats.unwrap_or(lasts.is_some()),
                    });
                }
            }
        }
        if flows.is_empty() {
            return Err(self.source.problem(&raw.span(), "a flow from a site to itself", "name another target"));
        }
        if flow.repeats == Some(true) && lasts.is_none() {
            return Err(self.source.problem(
                &raw.span(),
                "a flow that repeats for ever",
                "say how long its phase lasts",
            ));
        }
        Ok(flows)
    }

    fn site(&self, name: &str, span: &std::ops::Range<usize>) -> Result<()> {
        if self.sites.contains_key(name) {
            return Ok(());
        }
        Err(self.source.problem(span, format!("{name} is no site of this file"), format!("add [site.{name}]")))
    }

    fn class(&self, name: &str, span: &std::ops::Range<usize>) -> Result<FlowClass> {
        let found = self.classes.get(name).cloned();
        found.ok_or_else(|| {
            self.source.problem(span, format!("{name} is no class of this file"), format!("add [class.{name}]"))
        })
    }

    fn fault(&self, raw: &Spanned<RawFault>) -> Result<PhaseFault> {
        let fault = raw.get_ref();
        if !self.has_lab {
            let remedy = "add [lab], or break real networks by hand";
            return Err(self.source.problem(&raw.span(), "faults are injected in a lab only", remedy));
        }
        let what = match (&fault.path, &fault.set, &fault.node) {
            (Some(path), Some(set), None) => {
                let settings = set.iter().map(|(word, value)| format!("{word}={}", setting_text(value))).collect();
                FaultKind::Path { path: path.clone(), settings }
            }
            (None, None, Some(site)) => {
                self.site(site, &raw.span())?;
                FaultKind::Node { site: site.clone() }
            }
            _ => {
                let remedy = "write path and set = { loss = \"1%\" }, or node = \"SITE\"";
                return Err(self.source.problem(&raw.span(), "the fault does not say what is broken", remedy));
            }
        };
        Ok(PhaseFault {
            at: self.source.read(&fault.at, model::duration::parse)?,
            lasts: self.source.time(fault.lasts.as_ref())?,
            what,
        })
    }

    fn search(&self, raw: &Spanned<RawSearch>) -> Result<Search> {
        let search = raw.get_ref();
        let span = raw.span();
        self.site(&search.from, &span)?;
        self.site(&search.to, &span)?;
        let class = self.class(&search.class, &span)?;
        let is_client = matches!(class.tool, FlowTool::Client(_));
        let of_clients = [ParameterName::Clients, ParameterName::Window];
        let parameter = |(name, values): (&String, &Vec<u64>)| match ParameterName::of_word(name) {
            Some(name) if !is_client && of_clients.contains(&name) => {
                let what = format!("{} has no {}", class.tool.name(), name.word());
                Err(self.source.problem(&span, what, "vary streams and files, or use a client of another tool"))
            }
            Some(name) => Ok(Parameter { name, values: values.clone() }),
            None => {
                let remedy = "parameters are clients, streams, window and files";
                Err(self.source.problem(&span, format!("a search cannot vary {name}"), remedy))
            }
        };
        let parameters = search.parameter.iter().map(parameter).collect::<Result<Vec<_>>>()?;
        let slots = search.slots.unwrap_or(SLOTS);
        SlotSearch::new(&parameters, slots).map_err(|error| {
            self.source.problem(
                &span,
                error.to_string(),
                "write slots = 6 and, below [search.parameter], streams = [1, 2, 4, 8]",
            )
        })?;
        let flow = ExerciseFlow {
            name: format!("search: {} > {}", search.from, search.to),
            from: search.from.clone(),
            to: search.to.clone(),
            class,
            at: Duration::ZERO,
            goal_bit_s: None,
            rate_max_bit_s: None,
            repeats: true,
        };
        Ok(Search { flow, slots, slot: self.source.time(search.slot.as_ref())?.unwrap_or(SLOT), parameters })
    }
}

/// A setting of a path as a word of `longhaul lab set`.
fn setting_text(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
