//! Reads sites: their names, interfaces, uplink and settings.
//!
//! Does not know: other sites, or paths.

use super::super::problem::{Problem, instead};
use super::super::source::{Entry, Table, Value};
use super::super::words::WORDS;
use super::super::{Interface, LinkSettings, Profile, Site, quantity};
use super::address::{self, InterfaceNumbers};
use super::facts;
use super::link_settings::{self, Draft};

const SITE_WORDS: [&str; 8] = ["mtu", "profile", "address", "interface", "uplink", "sysctl", "cpu_share", "firewall"];
const MTU_DEFAULT: u16 = 9_000;
const INTERFACES_MAX: usize = 8;
const NAME_MAX: usize = 32;
/// The kernel's limit.
const INTERFACE_NAME_MAX: usize = 15;

/// Reads a site, whose number counts from 1. Also returns the line of each interface's address.
pub(super) fn read(entry: &Entry, number: usize) -> Result<(Site, Vec<usize>), Problem> {
    check_name(entry)?;
    let table = entry.table(super::SITE_REMEDY)?;
    table.only(&[&SITE_WORDS[..], &facts::SITE_FACTS[..]].concat(), "a site")?;
    let (interfaces, lines) = interfaces(entry, table, number)?;
    let site = Site {
        name: entry.key.clone(),
        profile: table.get("profile").map(profile).transpose()?.unwrap_or_default(),
        interfaces,
        uplink: table.get("uplink").map(uplink).transpose()?,
        sysctl: table.get("sysctl").map(sysctl).transpose()?.unwrap_or_default(),
        cpu_share: table.get("cpu_share").map(cpu_share).transpose()?,
        firewall: table.get("firewall").map(firewall).transpose()?.flatten(),
        facts: facts::site(table)?,
    };
    Ok((site, lines))
}

/// Checks a site's name, which becomes a host name.
fn check_name(entry: &Entry) -> Result<(), Problem> {
    let name = entry.key.as_str();
    let remedy = "write 1 to 32 of a-z, 0-9 and -, with a letter or digit at both ends";
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let whole = (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(fits);
    if !whole || name.starts_with('-') || name.ends_with('-') {
        return Err(entry.problem(format!("{name:?} cannot be the name of a site"), remedy));
    }
    if name == "localhost" {
        let what = "localhost cannot be the name of a site: every site has that name for itself";
        return Err(entry.problem(what, "choose another name"));
    }
    // Programs would take such a name for an address before they look it up.
    if name.bytes().all(|c| c.is_ascii_digit()) || name.starts_with("0x") {
        let what = format!("{name:?} reads like an address, so it cannot be the name of a site");
        return Err(entry.problem(what, "let it begin with a letter"));
    }
    Ok(())
}

/// The interfaces: `eth0`, whose words are the site's, and those with tables of their own.
fn interfaces(entry: &Entry, table: &Table, number: usize) -> Result<(Vec<Interface>, Vec<usize>), Problem> {
    let mtu = table.get("mtu");
    let mut interfaces = Vec::new();
    let mut lines = Vec::new();
    let mut add = |name: &str, header: &Entry, mtu: Option<&Entry>, address: Option<&Entry>| {
        let numbers = InterfaceNumbers { site: number, interface: interfaces.len() + 1 };
        let bytes = mtu.map(quantity::mtu).transpose()?.unwrap_or(MTU_DEFAULT);
        let (v4, v6) = address::read(address, numbers)?;
        if v6.is_some() && bytes < address::MTU_MIN_V6 {
            let what = format!("an MTU of {bytes} is too small for IPv6");
            let remedy = "write an mtu of 1280 or more, or give an IPv4 address alone, like address = \"10.1.0.1/24\"";
            return Err(mtu.unwrap_or(header).problem(what, remedy));
        }
        interfaces.push(Interface { name: name.to_owned(), mtu: bytes, v4, v6 });
        lines.push(address.unwrap_or(header).line);
        Ok(())
    };
    add("eth0", entry, mtu, table.get("address"))?;
    if let Some(more) = table.get("interface") {
        let remedy = format!("write a table with a header, like [site.{}.interface.eth1]", entry.key);
        for (at, header) in more.table(&remedy)?.entries.iter().enumerate() {
            check_interface_name(header, &entry.key)?;
            if at + 1 == INTERFACES_MAX {
                let what = format!("more than {INTERFACES_MAX} interfaces at {}", entry.key);
                return Err(header.problem(what, "describe fewer: the first, eth0, counts as well"));
            }
            let words = header.table(&remedy)?;
            words.only(&["mtu", "address"], "an interface")?;
            add(&header.key, header, words.get("mtu").or(mtu), words.get("address"))?;
        }
    }
    Ok((interfaces, lines))
}

fn check_interface_name(header: &Entry, site: &str) -> Result<(), Problem> {
    let name = header.key.as_str();
    if name == "eth0" {
        let remedy = format!("write its words in [site.{site}] itself");
        return Err(header.problem("eth0 is the site's first interface", remedy));
    }
    // To the kernel, `all` and `default` are the settings of every interface.
    let is_reserved = ["lo", "all", "default"].contains(&name);
    let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    if is_reserved || !(1..=INTERFACE_NAME_MAX).contains(&name.len()) || !name.bytes().all(fits) {
        let what = format!("{name:?} cannot be the name of an interface");
        return Err(header.problem(what, "write 1 to 15 of a-z and 0-9, like eth1"));
    }
    Ok(())
}

fn profile(entry: &Entry) -> Result<Profile, Problem> {
    match entry.text("write \"dtn\" or \"stock\"")? {
        "dtn" => Ok(Profile::Dtn),
        "stock" => Ok(Profile::Stock),
        other => Err(entry.wrong(instead(other, ["dtn", "stock"]))),
    }
}

fn uplink(entry: &Entry) -> Result<LinkSettings, Problem> {
    let table = entry.table("write a table, like { rate = \"10Gbit/s\", queue = \"64MB\" }")?;
    table.only(&WORDS, "an uplink")?;
    if let Some(withdrawn) = table.get("withdrawn") {
        return Err(link_settings::uplink_withdrawn(withdrawn));
    }
    let mut draft = Draft::default();
    draft.set_all(table)?;
    draft.finish()
}

fn sysctl(entry: &Entry) -> Result<Vec<(String, String)>, Problem> {
    let table = entry.table("write a table, like { \"net.ipv4.tcp_congestion_control\" = \"bbr\" }")?;
    let mut settings = Vec::new();
    flatten(table, "", &mut settings)?;
    Ok(settings)
}

/// Collects settings. To TOML, dotted keys without quotes are tables within tables; here they mean the same.
fn flatten(table: &Table, prefix: &str, settings: &mut Vec<(String, String)>) -> Result<(), Problem> {
    for entry in &table.entries {
        let name = format!("{prefix}{}", entry.key);
        let value = match &entry.value {
            Value::Table(inner) => {
                flatten(inner, &format!("{name}."), settings)?;
                continue;
            }
            Value::Text(text) => text.clone(),
            Value::Whole(whole) if i64::try_from(*whole).is_ok() => whole.to_string(),
            _ => return Err(entry.wrong("write a string or a whole number")),
        };
        let part =
            |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-');
        // Other settings belong to the whole machine, not to a site.
        if !name.starts_with("net.") || !name.split('.').all(part) {
            let what = format!("{name:?} is not a setting of a site's network");
            return Err(entry.problem(what, "write its dotted name, which begins with net."));
        }
        settings.push((name, value));
    }
    Ok(())
}

fn cpu_share(entry: &Entry) -> Result<f64, Problem> {
    let share = match entry.value {
        Value::Whole(whole) => whole as f64,
        Value::Fraction(fraction) => fraction,
        _ => f64::NAN,
    };
    if share.is_finite() && share > 0.0 {
        Ok(share)
    } else {
        Err(entry.wrong("write how many processors, above 0, without quotes, like 0.5"))
    }
}

/// `true`, `false`, or a table with `open`.
fn firewall(entry: &Entry) -> Result<Option<Vec<u16>>, Problem> {
    const REMEDY: &str = "write true, or { open = [22, 2811] }";
    match &entry.value {
        Value::Truth(true) => Ok(Some(Vec::new())),
        Value::Truth(false) => Ok(None),
        Value::Table(table) => {
            table.only(&["open"], "a firewall")?;
            let items = table.get("open").map(|open| open.list(REMEDY)).transpose()?.unwrap_or_default();
            items.iter().map(|item| item.whole(1..=i128::from(u16::MAX))).collect::<Result<_, _>>().map(Some)
        }
        _ => Err(entry.wrong(REMEDY)),
    }
}
