//! Reads paths: their ends, directions and members.
//!
//! Does not know: other paths (see `check`).

use super::super::problem::{Problem, instead};
use super::super::source::{Entry, Table};
use super::super::words::WORDS;
use super::super::{End, LinkSettings, Path, PathDirection, Scenario, quantity};
use super::PathLines;
use super::facts;
use super::link_settings::{self, Draft};

/// The keys of the directions, in their order.
pub(super) const DIRECTIONS: [&str; 2] = ["ab", "ba"];
/// The keys of a path besides directional words.
const PATH_WORDS: [&str; 8] = ["sites", "rtt", "hops", "mtu", "ecmp", "member", "ab", "ba"];
const MEMBER_WORDS: [&str; 3] = ["rtt", "ab", "ba"];
const NAME_MAX: usize = 70;
const ENDS_REMEDY: &str = "name its two sites, like sites = [\"canberra\", \"paris\"]";
const DIRECTION_REMEDY: &str = "write a table, like ab = { loss = \"0.3%\" }";

/// Reads a path between sites that were read before, and its lines.
pub(super) fn read(entry: &Entry, scenario: &Scenario) -> Result<(Path, PathLines), Problem> {
    check_name(entry, scenario)?;
    let table = entry.table(super::PATH_REMEDY)?;
    check_known(table, &[&PATH_WORDS[..], &facts::LINK_FACTS[..]].concat(), "a path")?;
    let ends = match table.get("sites") {
        Some(sites) => ends_of_sites(sites, scenario)?,
        None => ends_of_name(entry, scenario)?,
    };
    if ends[0].site == ends[1].site {
        let site = &scenario.sites[ends[0].site].name;
        let line = table.get("sites").unwrap_or(entry).line;
        return Err(Problem::new(line, format!("path {} leads from {site} to itself", entry.key), ENDS_REMEDY));
    }
    let mut via = [Vec::new(), Vec::new()];
    let mut lines = PathLines { header: entry.line, via: [entry.line; 2] };
    for (direction, key) in DIRECTIONS.into_iter().enumerate() {
        if let Some(entry) = direction_of(table, key)?.and_then(|words| words.get("via")) {
            via[direction] = sites_of_via(entry, ends, scenario)?;
            lines.via[direction] = entry.line;
        }
    }
    let over_others = [0, 1].map(|direction: usize| !via[direction].is_empty());
    refuse_idle_words(table, over_others)?;
    let members = members_of_directions(table, over_others)?;
    let [ab, ba] = via;
    let [ab_members, ba_members] = members;
    let hops = table.get("hops").map(|hops| hops.whole(0..=30)).transpose()?;
    let path = Path {
        name: entry.key.clone(),
        ends,
        hops: hops.unwrap_or(0),
        mtu: table.get("mtu").map(quantity::mtu).transpose()?,
        directions: [PathDirection { members: ab_members, via: ab }, PathDirection { members: ba_members, via: ba }],
        facts: facts::link(table)?,
    };
    Ok((path, lines))
}

fn check_name(entry: &Entry, scenario: &Scenario) -> Result<(), Problem> {
    let name = entry.key.as_str();
    let fits = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    if !(1..=NAME_MAX).contains(&name.len()) || !name.bytes().all(fits) {
        let what = format!("{name:?} cannot be the name of a path");
        return Err(entry.problem(what, "write 1 to 70 letters, digits, -, _ and ."));
    }
    if scenario.site(name).is_some() {
        // The command line names sites and paths in the same place.
        return Err(entry.problem(format!("{name} is the name of a site already"), "give the path another name"));
    }
    Ok(())
}

/// Refuses keys that are neither directional words nor among `more`.
fn check_known(table: &Table, more: &[&str], place: &str) -> Result<(), Problem> {
    let is_path = more.contains(&"rtt");
    // One delay for both directions would be mistaken for the round trip.
    if let Some(delay) = table.get("delay").filter(|_| is_path) {
        let remedy = "write rtt for both directions together, or delay within ab and ba";
        return Err(delay.problem(format!("{place} has no word \"delay\""), remedy));
    }
    let words: Vec<&str> = WORDS.iter().filter(|word| !(is_path && **word == "delay")).chain(more).copied().collect();
    table.only(&words, place)
}

/// `["canberra", "paris/eth1"]`
fn ends_of_sites(sites: &Entry, scenario: &Scenario) -> Result<[End; 2], Problem> {
    let remedy = "write two sites, like [\"canberra\", \"paris/eth1\"]";
    let [a, b] = sites.list(remedy)? else {
        return Err(sites.problem("a path joins two sites", remedy));
    };
    Ok([end(a, scenario)?, end(b, scenario)?])
}

fn end(item: &Entry, scenario: &Scenario) -> Result<End, Problem> {
    let text = item.text("write a site, or SITE/INTERFACE")?;
    let (site, interface) = text.split_once('/').unwrap_or((text, "eth0"));
    let site = site_of(item, site, scenario)?;
    let interfaces = &scenario.sites[site].interfaces;
    match interfaces.iter().position(|known| known.name == interface) {
        Some(interface) => Ok(End { site, interface }),
        None => Err(item.problem(
            format!("{} has no interface {interface:?}", scenario.sites[site].name),
            instead(interface, interfaces.iter().map(|known| known.name.as_str())),
        )),
    }
}

/// A site by its name.
pub(crate) fn site_of(entry: &Entry, name: &str, scenario: &Scenario) -> Result<usize, Problem> {
    let names = scenario.sites.iter().map(|site| site.name.as_str());
    scenario.site(name).ok_or_else(|| entry.problem(format!("there is no site {name:?}"), instead(name, names)))
}

/// The only reading of the name `A-B` as two sites. Names of sites may have hyphens themselves.
fn ends_of_name(entry: &Entry, scenario: &Scenario) -> Result<[End; 2], Problem> {
    let name = entry.key.as_str();
    let splits = name.match_indices('-').map(|(at, _)| (&name[..at], &name[at + 1..]));
    let mut fitting = splits.filter_map(|(a, b)| Some([scenario.site(a)?, scenario.site(b)?]));
    match (fitting.next(), fitting.next()) {
        (Some(sites), None) => Ok(sites.map(|site| End { site, interface: 0 })),
        (Some(_), Some(_)) => {
            Err(entry.problem(format!("the name {name} can be read as two sites in more than one way"), ENDS_REMEDY))
        }
        (None, _) => {
            Err(entry.problem(format!("the name {name} is not that of two sites"), ends_remedy(name, scenario)))
        }
    }
}

/// The remedy for a name that fits no two sites: often one of them is merely misspelt.
fn ends_remedy(name: &str, scenario: &Scenario) -> String {
    let names = || scenario.sites.iter().map(|site| site.name.as_str());
    let mut unknown = None;
    for (at, _) in name.match_indices('-') {
        let (a, b) = (&name[..at], &name[at + 1..]);
        let missing = match (scenario.site(a), scenario.site(b)) {
            (Some(_), None) => b,
            (None, Some(_)) => a,
            _ => continue,
        };
        let guess = instead(missing, names());
        if guess.starts_with("did") {
            return format!("there is no site {missing:?}, {guess} Or {ENDS_REMEDY}");
        }
        unknown = unknown.or(Some(missing));
    }
    match unknown {
        Some(missing) => format!("there is no site {missing:?}: add [site.{missing}], or {ENDS_REMEDY}"),
        None => ENDS_REMEDY.to_owned(),
    }
}

/// The table of one direction, whose words are known.
fn direction_of<'t>(table: &'t Table, key: &str) -> Result<Option<&'t Table>, Problem> {
    let Some(entry) = table.get(key) else { return Ok(None) };
    let words = entry.table(DIRECTION_REMEDY)?;
    check_known(words, &["via"], "a direction of a path")?;
    Ok(Some(words))
}

fn sites_of_via(via: &Entry, ends: [End; 2], scenario: &Scenario) -> Result<Vec<usize>, Problem> {
    let mut sites = Vec::new();
    for item in via.list("write a list of sites, like via = [\"singapore\"]")? {
        let name = item.text("write the name of a site")?;
        let site = site_of(item, name, scenario)?;
        if ends.iter().any(|end| end.site == site) {
            let remedy = "name only the sites in between";
            return Err(item.problem(format!("{name} is an end of the path, and cannot be in via"), remedy));
        }
        if sites.contains(&site) {
            return Err(item.problem(format!("via names {name} twice"), "name each site once"));
        }
        sites.push(site);
    }
    Ok(sites)
}

/// Refuses words of a direction that goes over other sites: it has those of the paths between these sites, and its own would do nothing.
fn refuse_idle_words(table: &Table, over_others: [bool; 2]) -> Result<(), Problem> {
    let idle = |entry: &Entry, place: &str| {
        let remedy = "leave it out, and describe the paths that it goes over";
        Err(entry.problem(format!("{} does nothing {place}", entry.key), remedy))
    };
    if over_others == [true; 2] {
        let own = table.entries.iter().find(|entry| !["sites", "ab", "ba"].contains(&entry.key.as_str()));
        own.map_or(Ok(()), |entry| idle(entry, "on a path that goes over other sites in both directions"))?;
    }
    let members = members(table)?;
    let tables = std::iter::once(table).chain(members.iter().filter_map(|member| member.table("").ok()));
    for table in tables {
        for (key, _) in DIRECTIONS.into_iter().zip(over_others).filter(|(_, over_others)| *over_others) {
            let words = direction_of(table, key)?.and_then(|words| link_settings::words(words).next());
            words.map_or(Ok(()), |entry| idle(entry, "in a direction that goes over other sites"))?;
        }
    }
    Ok(())
}

/// The tables of single members.
fn members(table: &Table) -> Result<&[Entry], Problem> {
    match table.get("member") {
        Some(entry) => Ok(&entry.table("write tables with headers, like [path.NAME.member.2]")?.entries),
        None => Ok(&[]),
    }
}

/// The members of both directions: words of the path, overridden by those of a direction, then of a member, then of a direction of that
/// member.
fn members_of_directions(table: &Table, over_others: [bool; 2]) -> Result<[Vec<LinkSettings>; 2], Problem> {
    let mut drafts = [Draft::default(), Draft::default()];
    apply_words(&mut drafts.each_mut(), table)?;
    let ecmp = table.get("ecmp");
    let count: usize = ecmp.map(|ecmp| ecmp.whole(1..=64)).transpose()?.unwrap_or(1);
    let mut drafts = drafts.map(|draft| vec![draft; count]);
    for entry in members(table)? {
        if ecmp.is_none() {
            return Err(entry.problem("members without ecmp", "write their number, like ecmp = 4"));
        }
        let number = entry.key.parse().ok().filter(|number| (1..=count).contains(number)).ok_or_else(|| {
            let what = format!("there is no member {:?}", entry.key);
            entry.problem(what, format!("write a number from 1 to {count}, or a larger ecmp"))
        })?;
        let words = entry.table("write a table with a header, like [path.NAME.member.2]")?;
        check_known(words, &MEMBER_WORDS, "a member of a path")?;
        if let Some(via) = DIRECTIONS.iter().find_map(|key| words.get(key)?.table("").ok()?.get("via")) {
            return Err(via.problem("a member cannot go over other sites", "write via in the path's own ab or ba"));
        }
        let [ab, ba] = &mut drafts;
        apply_words(&mut [&mut ab[number - 1], &mut ba[number - 1]], words)?;
    }
    let [ab, ba] = &drafts;
    Ok([finish(ab, over_others[0])?, finish(ba, over_others[1])?])
}

/// Sets a table's words: those for both directions, then those for one.
fn apply_words(drafts: &mut [&mut Draft; 2], table: &Table) -> Result<(), Problem> {
    for draft in drafts.iter_mut() {
        table.get("rtt").map_or(Ok(()), |rtt| draft.set_delay_from(rtt))?;
        draft.set_all(table)?;
    }
    for (draft, key) in drafts.iter_mut().zip(DIRECTIONS) {
        direction_of(table, key)?.map_or(Ok(()), |words| draft.set_all(words))?;
    }
    Ok(())
}

fn finish(drafts: &[Draft], over_others: bool) -> Result<Vec<LinkSettings>, Problem> {
    if over_others {
        Ok(vec![LinkSettings::default(); drafts.len()])
    } else {
        drafts.iter().map(Draft::finish).collect()
    }
}
