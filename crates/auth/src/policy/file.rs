//! The format of `access.toml`: turns text into a [`Policy`], or reports the line with an error. Does not know clients.

use std::ops::Range;
use std::time::Duration;

use ipnet::{IpNet, Ipv6Net};
use model::name::{Name, RelPath};
use serde::Deserialize;
use toml::Spanned;

use super::address::{Addresses, ThirdParty};
use super::dn::DistinguishedName;
use super::error::PolicyError;
use super::rule::{Rule, RuleSubject};
use super::{AskedWhen, Callout, Macaroons, Policy};
use crate::actions::Actions;
use crate::address_prefix::prefix;
use crate::issuer::Issuer;
use crate::issuer::Profile;
use crate::limits::POLICY_BYTES;
use crate::voms_attributes::plain_fqan;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct File {
    audiences: Vec<String>,
    issuer: Vec<Spanned<FileIssuer>>,
    allow: Vec<Spanned<FileRule>>,
    addresses: Option<Spanned<FileAddresses>>,
    third_party: Option<Spanned<FileThirdParty>>,
    callout: Option<Spanned<FileCallout>>,
    macaroons: Option<Spanned<FileMacaroons>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileIssuer {
    name: String,
    iss: String,
    #[serde(default)]
    audiences: Vec<String>,
    profile: Option<Profile>,
    export: Option<String>,
    exports: Option<Vec<String>>,
    path: Option<String>,
    jwks: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRule {
    anyone: Option<bool>,
    issuer: Option<String>,
    group: Option<String>,
    subject: Option<String>,
    dn: Option<String>,
    fqan: Option<String>,
    key: Option<String>,
    export: String,
    path: Option<String>,
    rights: Vec<FileRight>,
    #[serde(default)]
    from: Vec<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FileRight {
    Read,
    Create,
    #[serde(alias = "write")]
    Modify,
    Stage,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct FileAddresses {
    allow: Vec<String>,
    refuse: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileThirdParty {
    local: Option<bool>,
    private: Option<bool>,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    refuse: Vec<String>,
    guests: Option<bool>,
    #[serde(default)]
    nat64: Vec<String>,
    max_streams: Option<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCallout {
    command: Vec<String>,
    timeout: Option<String>,
    #[serde(default)]
    when: AskedWhen,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileMacaroons {
    on: Option<bool>,
    max_validity: Option<String>,
}

/// An error without its line: what is wrong, and what to write instead.
type Complaint = (String, &'static str);

fn complain<T>(what: impl Into<String>, remedy: &'static str) -> Result<T, Complaint> {
    Err((what.into(), remedy))
}

fn line(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1
}

/// Reads a policy.
pub(super) fn parse(text: &str) -> Result<Policy, PolicyError> {
    if text.len() > POLICY_BYTES {
        return Err(PolicyError::TooLong { bytes: text.len() });
    }
    let syntax = |error: toml::de::Error| PolicyError::Syntax {
        line: line(text, error.span().map_or(0, |span| span.start)),
        what: error.message().trim().replace('\n', " "),
    };
    let file: File = toml::from_str(text).map_err(syntax)?;
    let at = |span: Range<usize>| {
        move |(what, remedy): Complaint| PolicyError::Meaning { line: line(text, span.start), what, remedy }
    };
    let mut policy = Policy { audiences: file.audiences, ..Policy::default() };
    for spanned in file.issuer {
        let span = spanned.span();
        let issuer = issuer(spanned.into_inner(), &policy.issuers).map_err(at(span))?;
        policy.issuers.push(issuer);
    }
    for spanned in file.allow {
        let span = spanned.span();
        policy.rules.push(rule(spanned.into_inner(), &policy.issuers).map_err(at(span))?);
    }
    if let Some(spanned) = file.addresses {
        let (span, raw) = (spanned.span(), spanned.into_inner());
        let read = || Ok(Addresses { allow: nets(&raw.allow)?, refuse: nets(&raw.refuse)? });
        policy.addresses = read().map_err(at(span))?;
    }
    if let Some(spanned) = file.third_party {
        let span = spanned.span();
        policy.third_party = third_party(spanned.into_inner()).map_err(at(span))?;
    }
    if let Some(spanned) = file.callout {
        let span = spanned.span();
        policy.callout = Some(callout(spanned.into_inner()).map_err(at(span))?);
    }
    if let Some(spanned) = file.macaroons {
        let span = spanned.span();
        policy.macaroons = macaroons(&spanned.into_inner()).map_err(at(span))?;
    }
    Ok(policy)
}

fn issuer(raw: FileIssuer, known: &[Issuer]) -> Result<Issuer, Complaint> {
    if !raw.iss.starts_with("https://") {
        return complain(format!("iss {:?} is not a URL with https", raw.iss), "write the exact iss of its tokens");
    }
    if raw.name.is_empty() || known.iter().any(|other| other.name == raw.name || other.iss == raw.iss) {
        let what = format!("the issuer {:?} is there twice, or has no name", raw.name);
        return complain(what, "give each issuer one [[issuer]] with a name of its own");
    }
    if raw.export.is_some() && raw.exports.is_some() {
        let remedy =
            "write export where scopes are below one, exports where their first component names one of several";
        return complain("export and exports exclude each other", remedy);
    }
    for name in raw.export.iter().chain(raw.exports.iter().flatten()) {
        export(name)?;
    }
    Ok(Issuer {
        name: raw.name,
        iss: raw.iss,
        audiences: raw.audiences,
        profile: raw.profile,
        export: raw.export,
        exports: raw.exports,
        path: path(raw.path.as_deref())?,
        jwks: raw.jwks,
    })
}

fn rule(raw: FileRule, issuers: &[Issuer]) -> Result<Rule, Complaint> {
    export(&raw.export)?;
    if raw.rights.is_empty() {
        return complain("rights is empty", "list some of read, create, modify (or write), stage");
    }
    let actions = raw.rights.iter().fold(Actions::NONE, |all, right| {
        all | match right {
            FileRight::Read => Actions::FOR_READ,
            FileRight::Create => Actions::FOR_CREATE,
            FileRight::Modify => Actions::FOR_MODIFY,
            FileRight::Stage => Actions::FOR_STAGE,
        }
    });
    let (path, addresses) = (path(raw.path.as_deref())?, nets(&raw.from)?);
    let export = raw.export.clone();
    Ok(Rule { subject: subject(raw, issuers)?, export, path, actions, addresses })
}

fn subject(raw: FileRule, issuers: &[Issuer]) -> Result<RuleSubject, Complaint> {
    let remedy = "write one of: anyone = true; issuer with group; issuer with subject; dn; fqan; key";
    let iss = |name: String| {
        let found = issuers.iter().find(|issuer| issuer.name == name || issuer.iss == name);
        let unknown = || (format!("there is no issuer {name:?}"), "add an [[issuer]] with that name");
        found.map(|issuer| issuer.iss.clone()).ok_or_else(unknown)
    };
    match (raw.anyone, raw.issuer, raw.group, raw.subject, raw.dn, raw.fqan, raw.key) {
        (Some(true), None, None, None, None, None, None) => Ok(RuleSubject::Anyone),
        (None, Some(name), Some(group), None, None, None, None) => Ok(RuleSubject::Group { iss: iss(name)?, group }),
        (None, Some(name), None, Some(subject), None, None, None) => {
            Ok(RuleSubject::Subject { iss: iss(name)?, subject })
        }
        (None, None, None, None, Some(dn), None, None) => {
            let read = DistinguishedName::parse(&dn).map(RuleSubject::Dn);
            read.map_err(|error| (error.to_string(), "openssl x509 -subject shows the name of a certificate"))
        }
        (None, None, None, None, None, Some(fqan), None) => {
            let fqan = plain_fqan(&fqan);
            let is_fqan = fqan.len() > 1 && fqan.starts_with('/') && !fqan.ends_with('/');
            let what = format!("{fqan:?} is not a group or a role of a virtual organisation");
            let remedy = "write it as voms-proxy-info -fqan shows it, for example /cms or /cms/Role=production";
            if is_fqan { Ok(RuleSubject::Fqan(fqan.to_owned())) } else { complain(what, remedy) }
        }
        (None, None, None, None, None, None, Some(key)) => {
            let is_id = key.len() == 16 && key.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            let what = format!("{key:?} is not the id of a key");
            if is_id { Ok(RuleSubject::Key(key)) } else { complain(what, "longhaul grant list shows the ids of keys") }
        }
        _ => complain("an [[allow]] names exactly one subject", remedy),
    }
}

fn export(name: &str) -> Result<(), Complaint> {
    match Name::new(name.as_bytes()) {
        Ok(_) => Ok(()),
        Err(error) => complain(error.to_string(), "write the name of an export as longhaul serve has it"),
    }
}

fn path(text: Option<&str>) -> Result<RelPath, Complaint> {
    let read = RelPath::parse(text.unwrap_or_default().as_bytes());
    read.map_err(|error| (error.to_string(), "write a path below the export, without .."))
}

fn nets(texts: &[String]) -> Result<Vec<IpNet>, Complaint> {
    let remedy = "write 192.0.2.0/24, 2001:db8::/32, or one address; names are not resolved";
    let read = |text: &String| prefix(text).ok_or_else(|| (format!("{text:?} is not an address or a prefix"), remedy));
    texts.iter().map(read).collect()
}

fn duration(text: &str) -> Result<Duration, Complaint> {
    // At most ten years, so that every program can represent the date.
    let read = model::duration::parse(text).map_err(|error| (error.to_string(), "for example 30s, 10min or 24h"))?;
    if read < Duration::from_secs(1) || read > Duration::from_secs(3650 * 24 * 3600) {
        return complain(format!("{text:?} is too short or too long"), "write a time between 1s and 3650d");
    }
    Ok(read)
}

/// A prefix of RFC 6052.
fn nat64(net: IpNet) -> Result<Ipv6Net, Complaint> {
    match net {
        IpNet::V6(net) if super::nat64::LENGTHS.contains(&net.prefix_len()) => Ok(net),
        other => complain(format!("nat64 = {other}"), "write an IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits"),
    }
}

fn third_party(raw: FileThirdParty) -> Result<ThirdParty, Complaint> {
    let usual = ThirdParty::default();
    let max_streams = raw.max_streams.unwrap_or(usual.max_streams);
    if !(1..=100).contains(&max_streams) {
        return complain(format!("max_streams = {max_streams}"), "write a number from 1 to 100");
    }
    Ok(ThirdParty {
        local: raw.local.unwrap_or(usual.local),
        loopback: usual.loopback,
        private: raw.private.unwrap_or(usual.private),
        allow: nets(&raw.allow)?,
        refuse: nets(&raw.refuse)?,
        for_anonymous: raw.guests.unwrap_or(usual.for_anonymous),
        nat64: nets(&raw.nat64)?.into_iter().map(nat64).collect::<Result<_, _>>()?,
        max_streams,
    })
}

fn callout(raw: FileCallout) -> Result<Callout, Complaint> {
    if !raw.command.first().is_some_and(|program| program.starts_with('/')) {
        return complain(
            "command does not begin with a program",
            "write command = [\"/path/to/program\", \"argument\"]",
        );
    }
    Ok(Callout { command: raw.command, timeout: duration(raw.timeout.as_deref().unwrap_or("5s"))?, asked: raw.when })
}

fn macaroons(raw: &FileMacaroons) -> Result<Macaroons, Complaint> {
    let max_validity = raw.max_validity.as_deref().map_or(Ok(Macaroons::default().max_validity), duration)?;
    Ok(Macaroons { on: raw.on.unwrap_or(true), max_validity })
}

#[cfg(test)]
mod tests;
