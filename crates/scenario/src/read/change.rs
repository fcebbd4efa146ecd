//! Reads changes while packets flow: from an event, or from a command line.
//!
//! Does not know: when they happen.

use super::super::problem::{Problem, instead};
use super::super::source::{Entry, Table};
use super::super::words::WORDS;
use super::super::{Change, Scenario, Target, Word};
use super::link_settings;
use super::path::{DIRECTIONS, site_of};

const MEMBER_REMEDY: &str = "leave the member out, or describe members with ecmp in the scenario";

impl Change {
    /// Reads a change from a command line. `target` is a path, or a site for its uplink; `direction` is 0 for `ab` and
    /// 1 for `ba`; `member` counts from 0. A value is read as in a scenario; its quotes may be left out.
    ///
    /// # Errors
    /// The first thing that makes no sense, with the remedy; without a line.
    pub fn read(
        scenario: &Scenario,
        target: &str,
        direction: Option<usize>,
        member: Option<usize>,
        words: &[(String, String)],
    ) -> Result<Change, Problem> {
        let target = match (scenario.path(target), scenario.site(target)) {
            (Some(path), _) => Target::Path { path, direction, member },
            (None, Some(site)) if direction.is_none() && member.is_none() => Target::Uplink { site },
            (None, Some(_)) => return Err(no_parts_of_uplink(0, target)),
            (None, None) => {
                let paths = scenario.paths.iter().map(|path| path.name.as_str());
                let known = paths.chain(scenario.sites.iter().map(|site| site.name.as_str()));
                return Err(Problem::new(0, format!("there is no path or site {target:?}"), instead(target, known)));
            }
        };
        let entries: Vec<Entry> = words.iter().map(|(key, value)| Entry::typed(key, value)).collect();
        read(scenario, target, 0, &entries)
    }
}

/// The problem of a direction or member of a site's uplink, which has none.
fn no_parts_of_uplink(line: usize, site: &str) -> Problem {
    let what = format!("{site} is a site, whose uplink changes as a whole");
    Problem::new(line, what, "leave direction and member out, or name a path")
}

/// The target of an event.
pub(super) fn target(item: &Entry, table: &Table, scenario: &Scenario) -> Result<Target, Problem> {
    let direction = table.get("direction");
    let member = table.get("member");
    match (table.get("path"), table.get("site")) {
        (Some(entry), None) => {
            let name = entry.text("write the name of a path")?;
            let path = scenario.path(name).ok_or_else(|| {
                let names = scenario.paths.iter().map(|path| path.name.as_str());
                entry.problem(format!("there is no path {name:?}"), instead(name, names))
            })?;
            let member = member.map(|entry| number_of(entry, scenario, path)).transpose()?;
            Ok(Target::Path { path, direction: direction.map(direction_of).transpose()?, member })
        }
        (None, Some(entry)) => {
            let name = entry.text("write the name of a site")?;
            let site = site_of(entry, name, scenario)?;
            match direction.or(member) {
                Some(part) => Err(no_parts_of_uplink(part.line, name)),
                None => Ok(Target::Uplink { site }),
            }
        }
        (Some(_), Some(site)) => Err(site.problem("an event is about a path or a site", "write two events")),
        (None, None) => Err(item.problem("the event is about nothing", "add path = \"NAME\", or site = \"NAME\"")),
    }
}

fn direction_of(entry: &Entry) -> Result<usize, Problem> {
    let text = entry.text("write \"ab\" or \"ba\"")?;
    DIRECTIONS.iter().position(|key| *key == text).ok_or_else(|| entry.wrong("write \"ab\" or \"ba\""))
}

fn number_of(entry: &Entry, scenario: &Scenario, path: usize) -> Result<usize, Problem> {
    let count = scenario.paths[path].directions[0].members.len();
    let number: usize = entry.whole(1..=i128::MAX)?;
    if number <= count { Ok(number - 1) } else { Err(no_member(entry.line, number, count)) }
}

fn no_member(line: usize, number: usize, count: usize) -> Problem {
    Problem::new(line, format!("the path has no member {number}, but {count} in all"), MEMBER_REMEDY)
}

/// Reads a change's words, and checks that its target can have them.
pub(super) fn read(scenario: &Scenario, target: Target, line: usize, entries: &[Entry]) -> Result<Change, Problem> {
    let undirected = match target {
        Target::Path { path, direction, member } => {
            check_path(scenario, path, direction, member, line)?;
            direction.is_none()
        }
        Target::Uplink { site } => {
            check_uplink(scenario, site, line)?;
            true
        }
    };
    if entries.is_empty() {
        return Err(Problem::new(line, "nothing is to change", "write the change, like down = true"));
    }
    let mut words = Vec::new();
    for entry in entries {
        match entry.key.as_str() {
            "rtt" if undirected => words.push(Word::Delay(link_settings::half(entry)?)),
            "rtt" => return Err(entry.problem("rtt is of both directions", "write delay for one direction")),
            "withdrawn" if matches!(target, Target::Uplink { .. }) => {
                return Err(link_settings::uplink_withdrawn(entry));
            }
            key if WORDS.contains(&key) => words.push(Word::read(entry)?),
            _ => {
                let known: Vec<&str> = WORDS.iter().copied().chain(["rtt"]).collect();
                return Err(entry.unknown(&known, "a change"));
            }
        }
    }
    Ok(Change { target, words })
}

fn check_path(
    scenario: &Scenario,
    path: usize,
    direction: Option<usize>,
    member: Option<usize>,
    line: usize,
) -> Result<(), Problem> {
    let Some(path) = scenario.paths.get(path) else {
        return Err(Problem::new(line, "there is no such path", "name one of the scenario's"));
    };
    let path_directions = match direction {
        Some(direction @ 0..=1) => &path.directions[direction..=direction],
        Some(_) => return Err(Problem::new(line, "there is no such direction", "write ab or ba")),
        None => &path.directions[..],
    };
    if let Some(member) = member.filter(|member| *member >= path.directions[0].members.len()) {
        return Err(no_member(line, member.saturating_add(1), path.directions[0].members.len()));
    }
    if path_directions.iter().all(|one| !one.via.is_empty()) {
        let what = format!("{} goes over other sites, and has nothing of its own to change", path.name);
        return Err(Problem::new(line, what, "change the paths that it goes over"));
    }
    Ok(())
}

fn check_uplink(scenario: &Scenario, site: usize, line: usize) -> Result<(), Problem> {
    let Some(site) = scenario.sites.get(site) else {
        return Err(Problem::new(line, "there is no such site", "name one of the scenario's"));
    };
    match site.uplink {
        Some(_) => Ok(()),
        None => {
            let what = format!("{} has no uplink that could change", site.name);
            let remedy = format!("write uplink = {{}} in [site.{}], or change its paths", site.name);
            Err(Problem::new(line, what, remedy))
        }
    }
}
