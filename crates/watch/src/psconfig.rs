//! pSConfig templates of perfSONAR, imported whole: addresses, classes, filters, groups, hosts, includes, schedules, subtasks, tasks and tests become
//! a configuration of the watch, with a remark for each part that is not understood.
//!
//! A task is a group, a test and a schedule. Each becomes a group with an explicit list of pairs, after classes and excludes. Addresses with an agent
//! become nodes, since nodes of Longhaul replace those of perfSONAR; addresses without one become targets that answer TWAMP.

mod expand;
mod spec;
mod template;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::config::{Config, PLACES_MAX};
use expand::Expander;
use template::Template;

/// The largest depth of includes.
const INCLUDES_DEPTH_MAX: usize = 8;
/// The largest number of includes of an import.
const INCLUDES_MAX: usize = 64;

/// A configuration, and remarks on the parts of the template that are not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PsconfigImport {
    /// The configuration.
    pub toml: String,
    /// The parts that were not understood or have no counterpart, each by name.
    pub remarks: Vec<String>,
}

/// A template that cannot be imported: where, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct ImportError {
    /// The part of the template.
    pub place: String,
    /// What is wrong with it.
    pub what: String,
}

impl ImportError {
    fn new(place: impl Into<String>, what: impl Into<String>) -> ImportError {
        ImportError { place: place.into(), what: what.into() }
    }
}

type ImportResult<T> = Result<T, ImportError>;

/// Fetches an include by its URL.
pub type Fetch<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

/// Imports a template that includes no others.
///
/// # Errors
/// The text is not a template, or a value in it is invalid.
pub fn import(text: &str) -> ImportResult<PsconfigImport> {
    import_with(text, &mut |url| Err(format!("{url} is not fetched")))
}

/// Imports a template; includes are fetched.
///
/// # Errors
/// The text is not a template, a value in it is invalid, or it includes itself.
pub fn import_with(text: &str, fetch: Fetch<'_>) -> ImportResult<PsconfigImport> {
    let mut remarks = Vec::new();
    let mut whole = serde_json::Map::new();
    let mut includes = Includes { fetch, seen: BTreeSet::new(), open: Vec::new() };
    includes.merge("the template", text, &mut whole, &mut remarks)?;
    let template = Template::read(&whole, &mut remarks)?;
    if template.addresses.len() > PLACES_MAX {
        let what = format!(
            "{} addresses; a watch has {PLACES_MAX} at most: divide them among several",
            template.addresses.len()
        );
        return Err(ImportError::new("addresses", what));
    }
    let toml = write(&template, &mut remarks)?;
    // The result must be a valid configuration.
    Config::parse(&toml).map_err(|error| ImportError::new(error.place, error.what))?;
    remarks.sort();
    remarks.dedup();
    Ok(PsconfigImport { toml, remarks })
}

struct Includes<'a> {
    fetch: Fetch<'a>,
    seen: BTreeSet<String>,
    open: Vec<String>,
}

impl Includes<'_> {
    /// Merges a template and its includes; the first entry of a name counts.
    fn merge(
        &mut self,
        place: &str,
        text: &str,
        whole: &mut serde_json::Map<String, Value>,
        remarks: &mut Vec<String>,
    ) -> ImportResult<()> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| ImportError::new(place, format!("it is not JSON: {error}")))?;
        let Value::Object(own) = value else { return Err(ImportError::new(place, "a template is an object")) };
        let includes = own.get("includes").cloned().unwrap_or_default();
        for (section, content) in own {
            match (whole.get_mut(&section), content) {
                (Some(Value::Object(known)), Value::Object(more)) => {
                    for (name, entry) in more {
                        known.entry(name).or_insert(entry);
                    }
                }
                (Some(_), _) => {}
                (None, content) => drop(whole.insert(section, content)),
            }
        }
        for include in includes.as_array().into_iter().flatten() {
            let url = include.as_str().ok_or_else(|| ImportError::new(place, "an include is a URL"))?;
            self.include(url, whole, remarks)?;
        }
        Ok(())
    }

    fn include(
        &mut self,
        url: &str,
        whole: &mut serde_json::Map<String, Value>,
        remarks: &mut Vec<String>,
    ) -> ImportResult<()> {
        if self.open.iter().any(|open| open == url) {
            return Err(ImportError::new(format!("include {url}"), "it includes itself"));
        }
        if !self.seen.insert(url.to_owned()) {
            return Ok(());
        }
        if self.seen.len() > INCLUDES_MAX || self.open.len() >= INCLUDES_DEPTH_MAX {
            let what = format!("more than {INCLUDES_MAX} includes, or {INCLUDES_DEPTH_MAX} within one another");
            return Err(ImportError::new(format!("include {url}"), what));
        }
        match (self.fetch)(url) {
            Ok(text) => {
                self.open.push(url.to_owned());
                self.merge(&format!("include {url}"), &text, whole, remarks)?;
                self.open.pop();
            }
            Err(why) => remarks.push(format!("include {url}: {why}")),
        }
        Ok(())
    }
}

/// Writes the configuration that follows from the tasks.
fn write(template: &Template, remarks: &mut Vec<String>) -> ImportResult<String> {
    let expander = Expander::new(template);
    let mut used: BTreeSet<String> = BTreeSet::new();
    let mut groups = Vec::new();
    for (name, task) in &template.tasks {
        if task.disabled {
            remarks.push(format!("task {name} is disabled"));
            continue;
        }
        let pairs = expander.pairs(&task.group, remarks)?;
        for test in task.tests(template) {
            let Some(settings) = spec::settings(template, name, task, &test, remarks)? else { continue };
            let mut group = toml::Table::new();
            let title = if test == task.test { name.clone() } else { format!("{name} {test}") };
            group.insert("name".into(), title.into());
            group.insert("mode".into(), "pairs".into());
            let pair = |(from, to): &(String, String)| toml::Value::Array(vec![from.clone().into(), to.clone().into()]);
            group.insert("pairs".into(), toml::Value::Array(pairs.iter().map(pair).collect()));
            for kind in ["latency", "throughput", "path"] {
                let value =
                    if kind == settings.kind { toml::Value::Table(settings.values.clone()) } else { false.into() };
                group.insert(kind.into(), value);
            }
            used.extend(pairs.iter().flat_map(|(from, to)| [from.clone(), to.clone()]));
            groups.push(toml::Value::Table(group));
        }
    }
    let mut all = toml::Table::new();
    let (nodes, targets) = places(template, &used);
    all.insert("node".into(), toml::Value::Table(nodes));
    all.insert("target".into(), toml::Value::Table(targets));
    all.insert("group".into(), toml::Value::Array(groups));
    for name in template.archives.keys() {
        remarks.push(format!("archive {name} is not imported: the watch has an archive of its own"));
    }
    let text = toml::to_string(&all).map_err(|error| ImportError::new("the configuration", error.to_string()))?;
    let head =
        "# Imported from a pSConfig template. Each node needs `key-file`: a key that `longhaul grant` makes there.\n\n";
    Ok(format!("{head}{text}"))
}

fn places(template: &Template, used: &BTreeSet<String>) -> (toml::Table, toml::Table) {
    let mut nodes = toml::Table::new();
    let mut targets = toml::Table::new();
    for (name, address) in template.addresses.iter().filter(|(name, _)| used.contains(*name)) {
        let mut place = BTreeMap::from([("site".to_owned(), address.site(name))]);
        let has_agent = !address.no_agent && address.host(template).is_none_or(|host| !host.no_agent);
        let table = if has_agent {
            place.insert("address".into(), address.url_host());
            &mut nodes
        } else {
            place.insert("url".into(), format!("twamp://{}", address.url_host()));
            &mut targets
        };
        let place: toml::Table = place.into_iter().map(|(key, value)| (key, toml::Value::String(value))).collect();
        table.insert(name.clone(), toml::Value::Table(place));
    }
    (nodes, targets)
}

#[cfg(test)]
mod tests;
