//! The TOML file: its tables as they are written, and their conversion to the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::diagnosis::{FileDiagnosis, diagnosis};
use super::interface::{FileInterface, INTERFACES_MAX, interface};
use super::register::{FileRegister, register};
use super::values::{ConfigResult, check_name, rate, time_within};
use super::{
    Config, ConfigError, CounterSource, Group, Interface, JudgeConfig, Keep, KnownPath, Latency, Mode, Notify,
    NotifyKind, PLACES_MAX, PathTest, PlaceKind, PostRecords, Show, Throughput, WatchedPlace,
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct File {
    archive: Option<String>,
    domain: String,
    keep: FileKeep,
    node: BTreeMap<String, FileNode>,
    target: BTreeMap<String, FileTarget>,
    group: Vec<FileGroup>,
    path: Vec<FilePath>,
    interface: Vec<FileInterface>,
    judge: FileJudge,
    diagnosis: Option<FileDiagnosis>,
    notify: Vec<FileNotify>,
    quiet: Vec<String>,
    remote_write: Option<String>,
    post_records: Vec<FilePost>,
    register: Vec<FileRegister>,
    show: Vec<FileShow>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileKeep {
    raw: Option<String>,
    minutes: Option<String>,
    hours: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileNode {
    address: String,
    key_file: Option<PathBuf>,
    site: Option<String>,
    link: Option<String>,
    location: Option<[f64; 2]>,
    domain: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTarget {
    url: String,
    site: Option<String>,
    link: Option<String>,
    location: Option<[f64; 2]>,
    domain: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileGroup {
    name: Option<String>,
    mode: Option<String>,
    members: Option<Vec<String>>,
    from: Option<Vec<String>>,
    to: Option<Vec<String>>,
    pairs: Option<Vec<(String, String)>>,
    latency: Option<Switch<FileLatency>>,
    throughput: Option<Switch<FileThroughput>>,
    path: Option<Switch<FilePathTest>>,
}

/// `true`, `false`, or a table of settings.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "true, false, or a table of settings")]
enum Switch<T> {
    On(bool),
    Set(T),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileLatency {
    rate: Option<f64>,
    bytes: Option<u32>,
    ports: Option<u16>,
    report: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct FileThroughput {
    every: Option<String>,
    lasts: Option<String>,
    streams: Option<u32>,
    congestion: Option<String>,
    limit: Option<String>,
    waits_for_transfers: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FilePathTest {
    every: Option<String>,
    flows: Option<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePath {
    from: String,
    to: String,
    rate: Option<String>,
    #[serde(default)]
    segments: Vec<String>,
    #[serde(default)]
    hops: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileJudge {
    scale: Option<f64>,
    learn: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileNotify {
    webhook: Option<String>,
    alertmanager: Option<String>,
    mail: Option<FileMail>,
    severity: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileMail {
    server: String,
    from: String,
    to: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePost {
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileShow {
    to: String,
    #[serde(default)]
    networks: Vec<String>,
    #[serde(default)]
    places: Vec<String>,
    #[serde(default)]
    tests: Vec<String>,
    per_minute: Option<u32>,
}

/// Bounds of the time between two tests, and of the length of a test.
const EVERY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(30 * 86_400));
const LASTS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// Requests of another domain per minute, by default.
const PER_MINUTE_DEFAULT: u32 = 60;

pub(super) fn parse(text: &str) -> ConfigResult<Config> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
        ConfigError::new(format!("line {line}"), error.message().replace('\n', " "))
    })?;
    let mut places = BTreeMap::new();
    for (name, node) in file.node {
        let place = node_place(&name, node)?;
        places.insert(name, place);
    }
    for (name, target) in file.target {
        let at = format!("target {name}");
        if places.contains_key(&name) {
            return Err(ConfigError::new(at, "there is a node of this name already"));
        }
        let place = target_place(&name, target)?;
        places.insert(name, place);
    }
    if places.len() > PLACES_MAX {
        let what =
            format!("{} nodes and targets; a watch has {PLACES_MAX} at most: divide them among several", places.len());
        return Err(ConfigError::new("node", what));
    }
    for name in places.keys() {
        check_name(name)?;
    }
    let all_nodes: Vec<String> =
        places.iter().filter(|(_, p)| matches!(p.kind, PlaceKind::Node { .. })).map(|(name, _)| name.clone()).collect();
    let mut groups = Vec::new();
    for (index, group) in file.group.into_iter().enumerate() {
        groups.push(read_group(index, group, &places, &all_nodes)?);
    }
    let names: BTreeSet<&String> = groups.iter().map(|group: &Group| &group.name).collect();
    if names.len() < groups.len() {
        return Err(ConfigError::new("group", "two groups have the same name"));
    }
    let paths = file.path.into_iter().map(|path| known_path(path, &places)).collect::<ConfigResult<Vec<_>>>()?;
    let register = |table| register(table, |name| all_nodes.iter().any(|node| node == name));
    let registers = file.register.into_iter().map(register).collect::<ConfigResult<Vec<_>>>()?;
    let services: BTreeSet<&String> = registers.iter().map(|register| &register.url).collect();
    if services.len() < registers.len() {
        return Err(ConfigError::new("register", "a lookup service is named twice"));
    }
    let interfaces = read_interfaces(file.interface, &all_nodes)?;
    Ok(Config {
        archive: file.archive,
        domain: file.domain,
        keep: keep(&file.keep)?,
        places,
        groups,
        paths,
        interfaces,
        judge: judge(&file.judge)?,
        diagnosis: diagnosis(file.diagnosis)?,
        notify: file.notify.into_iter().map(notify).collect::<ConfigResult<Vec<_>>>()?,
        quiet: file.quiet.iter().map(|text| quiet(text)).collect::<ConfigResult<Vec<_>>>()?,
        remote_write: file.remote_write,
        post_records: file.post_records.into_iter().map(post_records).collect(),
        registers,
        shows: file.show.into_iter().map(show).collect::<ConfigResult<Vec<_>>>()?,
    })
}

fn read_interfaces(tables: Vec<FileInterface>, nodes: &[String]) -> ConfigResult<Vec<Interface>> {
    if tables.len() > INTERFACES_MAX {
        return Err(ConfigError::new(
            "interface",
            format!("{} interfaces; a watch reads {INTERFACES_MAX} at most", tables.len()),
        ));
    }
    let interfaces = tables.into_iter().map(interface).collect::<ConfigResult<Vec<_>>>()?;
    for Interface { name, source, .. } in &interfaces {
        if let CounterSource::Node(node) = source
            && !nodes.contains(node)
        {
            return Err(ConfigError::new(format!("interface {name}"), format!("there is no node {node:?}")));
        }
    }
    let names: BTreeSet<&String> = interfaces.iter().map(|interface| &interface.name).collect();
    if names.len() < interfaces.len() {
        Err(ConfigError::new("interface", "two interfaces have the same name"))
    } else {
        Ok(interfaces)
    }
}

fn location(at: &str, degrees: Option<[f64; 2]>) -> ConfigResult<Option<(f64, f64)>> {
    let Some([latitude, longitude]) = degrees else { return Ok(None) };
    if !(-90.0..=90.0).contains(&latitude) || !(-180.0..=180.0).contains(&longitude) {
        return Err(ConfigError::new(at, "location is latitude (-90 to 90) and longitude (-180 to 180), in degrees"));
    }
    Ok(Some((latitude, longitude)))
}

fn node_place(name: &str, node: FileNode) -> ConfigResult<WatchedPlace> {
    let at = format!("node {name}");
    let address = node.address.strip_prefix("lh://").unwrap_or(&node.address).trim_end_matches('/').to_owned();
    if address.is_empty() || address.contains(['/', '@', ' ']) {
        return Err(ConfigError::new(at, "address is HOST[:PORT] of a node"));
    }
    Ok(WatchedPlace {
        kind: PlaceKind::Node { address, key_file: node.key_file },
        site: node.site.unwrap_or_else(|| name.to_owned()),
        link: rate(&at, node.link.as_deref())?,
        location: location(&at, node.location)?,
        domain: node.domain.unwrap_or_default(),
    })
}

fn target_place(name: &str, target: FileTarget) -> ConfigResult<WatchedPlace> {
    const SCHEMES: [&str; 6] = ["lh", "stamp", "twamp", "ping", "iperf3", "pscheduler"];
    let at = format!("target {name}");
    let scheme = target.url.split_once("://").map_or("", |(scheme, _)| scheme);
    if !SCHEMES.contains(&scheme) {
        return Err(ConfigError::new(
            at,
            "url is stamp://HOST, twamp://HOST, ping://HOST, iperf3://HOST, pscheduler://HOST or lh://HOST",
        ));
    }
    Ok(WatchedPlace {
        kind: PlaceKind::Target { url: target.url },
        site: target.site.unwrap_or_else(|| name.to_owned()),
        link: rate(&at, target.link.as_deref())?,
        location: location(&at, target.location)?,
        domain: target.domain.unwrap_or_default(),
    })
}

fn read_group(
    index: usize,
    group: FileGroup,
    places: &BTreeMap<String, WatchedPlace>,
    nodes: &[String],
) -> ConfigResult<Group> {
    let name = group.name.unwrap_or_else(|| format!("group {}", index + 1));
    let place = format!("group {name}");
    let check_known = |names: Vec<String>| -> ConfigResult<Vec<String>> {
        match names.iter().find(|name| !places.contains_key(*name)) {
            Some(unknown) => Err(ConfigError::new(place.clone(), format!("there is no node or target {unknown:?}"))),
            None => Ok(names.into_iter().collect::<BTreeSet<_>>().into_iter().collect()),
        }
    };
    let members = group.members.map_or_else(|| Ok(nodes.to_vec()), check_known)?;
    let mode = match group.mode.as_deref().unwrap_or("mesh") {
        "mesh" => Mode::Mesh(members),
        "island" => {
            Mode::Island {
                from: group.from.map_or_else(|| Ok(nodes.to_vec()), check_known)?,
                to: check_known(group.to.ok_or_else(|| {
                    ConfigError::new(place.clone(), "an island needs `to`: the places that it tests")
                })?)?,
            }
        }
        "beacon" => Mode::Beacon(members),
        "pairs" => {
            let pairs = group.pairs.unwrap_or_default();
            check_known(pairs.iter().flat_map(|(from, to)| [from.clone(), to.clone()]).collect())?;
            Mode::Pairs(pairs)
        }
        other => {
            return Err(ConfigError::new(place, format!("mode is mesh, island, pairs or beacon, and not {other:?}")));
        }
    };
    let group = Group {
        name,
        mode,
        latency: switched(group.latency, true).map(|it| latency(&place, &it)).transpose()?,
        throughput: switched(group.throughput, true).map(|it| throughput(&place, &it)).transpose()?,
        path: switched(group.path, true).map(|it| path_test(&place, &it)).transpose()?,
    };
    Ok(group)
}

/// The settings of a switch; the defaults where it is missing, none where it is off.
fn switched<T: Default>(switch: Option<Switch<T>>, by_default: bool) -> Option<T> {
    match switch {
        None => by_default.then(T::default),
        Some(Switch::On(is_on)) => is_on.then(T::default),
        Some(Switch::Set(settings)) => Some(settings),
    }
}

fn latency(place: &str, table: &FileLatency) -> ConfigResult<Latency> {
    let at = format!("{place}, latency");
    let default = Latency::default();
    let bounds = (Duration::from_secs(1), Duration::from_secs(300));
    let latency = Latency {
        rate: table.rate.unwrap_or(default.rate),
        bytes: table.bytes.unwrap_or(default.bytes),
        ports: table.ports.unwrap_or(default.ports),
        report: time_within(&format!("{at}, report"), table.report.as_deref(), default.report, bounds)?,
    };
    let is_good = (0.1..=100.0).contains(&latency.rate)
        && (44..=8_972).contains(&latency.bytes)
        && (1..=32).contains(&latency.ports);
    if is_good {
        Ok(latency)
    } else {
        Err(ConfigError::new(at, "rate is 0.1 to 100 packets/s, bytes 44 to 8972, ports 1 to 32"))
    }
}

fn throughput(place: &str, table: &FileThroughput) -> ConfigResult<Throughput> {
    let at = format!("{place}, throughput");
    let default = Throughput::default();
    let throughput = Throughput {
        every: time_within(&format!("{at}, every"), table.every.as_deref(), default.every, EVERY)?,
        lasts: time_within(&format!("{at}, lasts"), table.lasts.as_deref(), default.lasts, LASTS)?,
        streams: table.streams.unwrap_or(default.streams),
        congestion: table.congestion.clone().or(default.congestion),
        limit: rate(&format!("{at}, limit"), table.limit.as_deref())?,
        waits_for_transfers: table.waits_for_transfers.unwrap_or(default.waits_for_transfers),
    };
    if !(1..=64).contains(&throughput.streams) {
        return Err(ConfigError::new(at, "streams is 1 to 64"));
    }
    if throughput.lasts * 2 > throughput.every {
        return Err(ConfigError::new(at, "both directions take longer than `every`"));
    }
    Ok(throughput)
}

fn path_test(place: &str, table: &FilePathTest) -> ConfigResult<PathTest> {
    let at = format!("{place}, path");
    let default = PathTest::default();
    let every = time_within(&format!("{at}, every"), table.every.as_deref(), default.every, EVERY)?;
    let flows = table.flows.unwrap_or(default.flows);
    if !(1..=64).contains(&flows) {
        return Err(ConfigError::new(at, "flows is 1 to 64"));
    }
    Ok(PathTest { every, flows })
}

fn known_path(path: FilePath, places: &BTreeMap<String, WatchedPlace>) -> ConfigResult<KnownPath> {
    let at = format!("path {} {}", path.from, path.to);
    if let Some(unknown) = [&path.from, &path.to].into_iter().find(|name| !places.contains_key(*name)) {
        return Err(ConfigError::new(at, format!("there is no node or target {unknown:?}")));
    }
    Ok(KnownPath {
        rate: rate(&at, path.rate.as_deref())?,
        from: path.from,
        to: path.to,
        segments: path.segments,
        hops: path.hops,
    })
}

fn keep(table: &FileKeep) -> ConfigResult<Keep> {
    let default = Keep::default();
    let bounds = (Duration::from_secs(86_400), Duration::from_secs(86_400 * 36_600));
    let duration = |name: &str, text: &Option<String>, default| {
        time_within(&format!("keep {name}"), text.as_deref(), default, bounds)
    };
    Ok(Keep {
        raw: duration("raw", &table.raw, default.raw)?,
        minutes: duration("minutes", &table.minutes, default.minutes)?,
        hours: duration("hours", &table.hours, default.hours)?,
    })
}

fn judge(table: &FileJudge) -> ConfigResult<JudgeConfig> {
    let default = JudgeConfig::default();
    let judge =
        JudgeConfig { scale: table.scale.unwrap_or(default.scale), learn: table.learn.unwrap_or(default.learn) };
    if (1e-5..=1.0).contains(&judge.scale) && (4..=200).contains(&judge.learn) {
        Ok(judge)
    } else {
        Err(ConfigError::new("judge", "scale is 0.00001 to 1, learn 4 to 200 tests"))
    }
}

fn notify(table: FileNotify) -> ConfigResult<Notify> {
    let at = "notify";
    let how = match (table.webhook, table.alertmanager, table.mail) {
        (Some(url), None, None) => NotifyKind::Webhook(url),
        (None, Some(url), None) => NotifyKind::Alertmanager(url),
        (None, None, Some(FileMail { server, from, to })) if !to.is_empty() => NotifyKind::Mail { server, from, to },
        _ => return Err(ConfigError::new(at, "each has one of webhook, alertmanager, mail = { server, from, to }")),
    };
    let critical_only = match table.severity.as_deref().unwrap_or("warning") {
        "warning" => false,
        "critical" => true,
        other => return Err(ConfigError::new(at, format!("severity is warning or critical, and not {other:?}"))),
    };
    Ok(Notify { how, critical_only })
}

fn post_records(table: FilePost) -> PostRecords {
    PostRecords { url: table.url, headers: table.headers.into_iter().collect() }
}

/// Reads a quiet time such as `22:00-06:00` (UTC): its first and last minute of the day.
fn quiet(text: &str) -> ConfigResult<(u16, u16)> {
    let minute = |text: &str| {
        let (hour, minute) = text.trim().split_once(':')?;
        let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
        (hour < 24 && minute < 60).then_some(hour * 60 + minute)
    };
    let read = || {
        let (from, to) = text.split_once('-')?;
        Some((minute(from)?, minute(to)?))
    };
    read().ok_or_else(|| {
        ConfigError::new("quiet", format!("{text:?} is not a time of the day: write it like 22:00-06:00 (UTC)"))
    })
}

fn show(table: FileShow) -> ConfigResult<Show> {
    let at = format!("show to {}", table.to);
    let network = |text: &String| {
        let read = text.parse().ok().or_else(|| text.parse::<std::net::IpAddr>().ok().map(ipnet::IpNet::from));
        read.ok_or_else(|| ConfigError::new(at.clone(), format!("{text} is not a network: write it like 192.0.2.0/24")))
    };
    Ok(Show {
        networks: table.networks.iter().map(network).collect::<ConfigResult<Vec<_>>>()?,
        to: table.to,
        places: table.places,
        tests: table.tests,
        per_minute: table.per_minute.unwrap_or(PER_MINUTE_DEFAULT),
    })
}
