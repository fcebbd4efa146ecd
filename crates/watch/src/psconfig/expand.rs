//! Groups become pairs of addresses: classes and filters select addresses, the group pairs them, and excludes remove pairs.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::template::{Address, Exclude, Filter, Group, PairingOptions, Selector, Template};
use super::{ImportError, ImportResult};

/// The largest depth of classes.
const CLASS_DEPTH_MAX: usize = 16;

/// Expands groups of a template.
pub(super) struct Expander<'t> {
    template: &'t Template,
}

impl<'t> Expander<'t> {
    pub fn new(template: &'t Template) -> Expander<'t> {
        Expander { template }
    }

    /// The pairs of a group, each once and in one order: a stream measures both directions.
    pub fn pairs(&self, group: &str, remarks: &mut Vec<String>) -> ImportResult<Vec<(String, String)>> {
        let place = format!("groups {group}");
        let found = self.template.groups.get(group);
        let found =
            found.ok_or_else(|| ImportError::new(format!("task with group {group}"), "there is no such group"))?;
        let ordered = match found {
            Group::Mesh { addresses, options } => {
                let all = self.select(addresses, &place, remarks)?;
                let pairs = all.iter().flat_map(|a| all.iter().map(move |b| (a.clone(), b.clone()))).collect();
                self.without_excluded(pairs, options, &place, remarks)?
            }
            Group::Disjoint { a_addresses, b_addresses, unidirectional, options } => {
                if *unidirectional {
                    remarks.push(format!("{place}: both directions of a unidirectional group are measured"));
                }
                let a = self.select(a_addresses, &place, remarks)?;
                let b = self.select(b_addresses, &place, remarks)?;
                let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a.clone(), b.clone()))).collect();
                self.without_excluded(pairs, options, &place, remarks)?
            }
            Group::List { addresses } => {
                let all = self.select(addresses, &place, remarks)?;
                remarks.push(format!("{place}: tests of one end alone are not imported ({} addresses)", all.len()));
                Vec::new()
            }
        };
        let mut seen = BTreeSet::new();
        let is_new = |pair: &(String, String)| {
            let (a, b) = pair;
            seen.insert(if a < b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) })
        };
        Ok(ordered.into_iter().filter(is_new).collect())
    }

    fn select(&self, selectors: &[Selector], place: &str, remarks: &mut Vec<String>) -> ImportResult<Vec<String>> {
        let mut all = Vec::new();
        for selector in selectors {
            all.extend(self.names(selector, place, remarks)?);
        }
        let mut seen = BTreeSet::new();
        all.retain(|name| {
            seen.insert(name.clone()) && self.template.addresses.get(name).is_some_and(|it| it.is_on(self.template))
        });
        Ok(all)
    }

    fn names(&self, selector: &Selector, place: &str, remarks: &mut Vec<String>) -> ImportResult<Vec<String>> {
        match selector {
            Selector::Named { name, label } => {
                if !self.template.addresses.contains_key(name) {
                    return Err(ImportError::new(place, format!("there is no address {name}")));
                }
                if let Some(label) = label {
                    remarks.push(format!("{place}: label {label} of {name} is not imported"));
                }
                Ok(vec![name.clone()])
            }
            Selector::Class { class } => {
                let all = self.template.addresses.iter();
                let mut names = Vec::new();
                for (name, address) in all {
                    if self.is_of_class(class, address, place, CLASS_DEPTH_MAX, remarks)? {
                        names.push(name.clone());
                    }
                }
                Ok(names)
            }
        }
    }

    fn is_of_class(
        &self,
        class: &str,
        address: &Address,
        place: &str,
        depth: usize,
        remarks: &mut Vec<String>,
    ) -> ImportResult<bool> {
        if depth == 0 {
            return Err(ImportError::new(
                format!("address-classes {class}"),
                "it refers to itself, or is nested too deeply",
            ));
        }
        let found = self.template.classes.get(class);
        let found = found.ok_or_else(|| ImportError::new(place, format!("there is no address class {class}")))?;
        if let Some(source) = found.data_source.as_ref().filter(|source| source.kind != "current-config") {
            remarks.push(format!(
                "address-classes {class}: data source {} is taken as the template's addresses",
                source.kind
            ));
        }
        let place = format!("address-classes {class}");
        let fits = |filter: &Option<Filter>, otherwise: bool, remarks: &mut Vec<String>| match filter {
            Some(filter) => self.fits(filter, address, &place, depth - 1, remarks),
            None => Ok(otherwise),
        };
        Ok(fits(&found.match_filter, true, remarks)? && !fits(&found.exclude_filter, false, remarks)?)
    }

    fn fits(
        &self,
        filter: &Filter,
        address: &Address,
        place: &str,
        depth: usize,
        remarks: &mut Vec<String>,
    ) -> ImportResult<bool> {
        if depth == 0 {
            return Err(ImportError::new(place, "it refers to itself, or is nested too deeply"));
        }
        let host = address.host(self.template);
        Ok(match filter {
            Filter::AddressClass { class } => self.is_of_class(class, address, place, depth, remarks)?,
            Filter::Tag { tag } => address.tags.contains(tag),
            Filter::IpVersion { ip_version } => match address.address.parse::<IpAddr>() {
                Ok(ip) => ip.is_ipv4() == (*ip_version == 4),
                // A name may have addresses of both versions.
                Err(_) => true,
            },
            Filter::Netmask { netmask } => {
                let net: IpNet =
                    netmask.parse().map_err(|_| ImportError::new(place, format!("{netmask} is not a netmask")))?;
                address.address.parse::<IpAddr>().is_ok_and(|ip| net.contains(&ip))
            }
            Filter::Host { no_agent, tag, jq } => {
                if jq.is_some() {
                    remarks.push(format!("{place}: jq is not supported, and taken as true"));
                }
                let has_no_agent = address.no_agent || host.is_some_and(|host| host.no_agent);
                let has_tag = |tag: &String| host.is_some_and(|host| host.tags.contains(tag));
                no_agent.is_none_or(|wanted| wanted == has_no_agent) && tag.as_ref().is_none_or(has_tag)
            }
            Filter::Jq { jq } => {
                remarks.push(format!("{place}: jq {jq} is not supported, and taken as true"));
                true
            }
            Filter::Not { filter } => !self.fits(filter, address, place, depth - 1, remarks)?,
            Filter::And { filters } => self.count(filters, address, place, depth, remarks)? == filters.len(),
            Filter::Or { filters } => self.count(filters, address, place, depth, remarks)? > 0,
        })
    }

    /// The number of filters that match.
    fn count(
        &self,
        filters: &[Filter],
        address: &Address,
        place: &str,
        depth: usize,
        remarks: &mut Vec<String>,
    ) -> ImportResult<usize> {
        let mut count = 0;
        for filter in filters {
            count += usize::from(self.fits(filter, address, place, depth - 1, remarks)?);
        }
        Ok(count)
    }

    /// The pairs without those that the options exclude.
    fn without_excluded(
        &self,
        pairs: Vec<(String, String)>,
        options: &PairingOptions,
        place: &str,
        remarks: &mut Vec<String>,
    ) -> ImportResult<Vec<(String, String)>> {
        let mut excluded = BTreeSet::new();
        for Exclude { local_address, target_addresses } in &options.excludes {
            for local in self.names(local_address, place, remarks)? {
                for target in target_addresses {
                    excluded
                        .extend(self.names(target, place, remarks)?.into_iter().map(|target| (local.clone(), target)));
                }
            }
        }
        let addresses = &self.template.addresses;
        let rule = options.excludes_self.as_deref().unwrap_or("host");
        let is_self = |a: &String, b: &String| match rule {
            "disabled" => false,
            "address" => addresses[a].address == addresses[b].address,
            _ => a == b || addresses[a].host.is_some() && addresses[a].host == addresses[b].host,
        };
        let stays =
            |pair: &(String, String)| pair.0 != pair.1 && !is_self(&pair.0, &pair.1) && !excluded.contains(pair);
        Ok(pairs.into_iter().filter(stays).collect())
    }
}
