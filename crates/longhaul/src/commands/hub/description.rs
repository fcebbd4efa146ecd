//! `longhaul hub site|endpoint|link|community`: adds, changes, shows and removes parts of the description of a collaboration.

use hubapi::{Api, DescribedPart};
use model::fault::{Exit, Fault};
use model::v1::hub::{Activity, Collaboration, Community, Endpoint, EndpointKind, Link, Route, Site, Storage};

use super::show;
use crate::args::{
    CommunityFacts, EndpointFacts, EndpointKindWord, LinkFacts, Named, NamedAction, SiteFacts, StorageFacts,
};
use crate::failure::Failure;
use crate::hub_client::failure;
use crate::printer::Printer;

/// An edit of `add` or `set`.
struct NamedEdit<T, F: clap::Args> {
    /// The name, and the facts to be set.
    named: Named<F>,
    /// The description before the change; none for `add`.
    before: Option<T>,
}

/// Runs `list`, `show` and `rm`, which all kinds have in common. Returns the edit of `add` or `set`.
fn run_common<T: DescribedPart, F: clap::Args>(
    action: NamedAction<F>,
    names: impl Fn(&Collaboration) -> Vec<String>,
    api: &Api,
    printer: &Printer,
) -> Result<Option<NamedEdit<T, F>>, Failure> {
    match action {
        NamedAction::List => {
            let all = api.collaboration().map_err(failure)?;
            names(&all).iter().for_each(|name| printer.line(name));
        }
        NamedAction::Show { name } => show(&api.described::<T>(&name).map_err(failure)?, printer)?,
        NamedAction::Rm { name } => drop(api.remove::<T>(&name).map_err(failure)?),
        NamedAction::Add(named) => {
            let known = names(&api.collaboration().map_err(failure)?);
            if known.contains(&named.name) {
                let message = format!("there is a {} already: `set` changes it", named.name);
                return Err(Failure { exit: Exit::Failed, fault: Fault::Config, message });
            }
            return Ok(Some(NamedEdit { named, before: None }));
        }
        NamedAction::Set(named) => {
            let before = api.described(&named.name).map_err(failure)?;
            return Ok(Some(NamedEdit { named, before: Some(before) }));
        }
    }
    Ok(None)
}

/// `hub site`.
///
/// # Errors
/// The hub cannot be reached or refuses the request, or an argument is wrong.
pub fn site(action: NamedAction<SiteFacts>, api: &Api, printer: &Printer) -> Result<(), Failure> {
    let names = |all: &Collaboration| all.sites.keys().cloned().collect();
    let Some(edit) = run_common::<Site, _>(action, names, api, printer)? else { return Ok(()) };
    let NamedEdit { named: Named { name, facts }, before } = edit;
    let mut site = before.unwrap_or_default();
    site.title = facts.title.unwrap_or(site.title);
    site.location = facts.location.or(site.location);
    api.put(&name, &site).map(drop).map_err(failure)
}

/// `hub endpoint`.
///
/// # Errors
/// The hub cannot be reached or refuses the request, or an argument is wrong.
pub fn endpoint(action: NamedAction<EndpointFacts>, api: &Api, printer: &Printer) -> Result<(), Failure> {
    let names = |all: &Collaboration| all.endpoints.keys().cloned().collect();
    let Some(edit) = run_common::<Endpoint, _>(action, names, api, printer)? else { return Ok(()) };
    let NamedEdit { named: Named { name, facts }, before } = edit;
    let mut endpoint = before.unwrap_or_default();
    endpoint.site = facts.site.unwrap_or(endpoint.site);
    endpoint.kind = facts.kind.map_or(endpoint.kind, |kind| match kind {
        EndpointKindWord::Node => EndpointKind::Node,
        EndpointKindWord::Webdav => EndpointKind::Webdav,
        EndpointKindWord::S3 => EndpointKind::S3,
    });
    if !facts.urls.is_empty() {
        endpoint.urls = facts.urls;
    }
    endpoint.api = facts.api.or(endpoint.api);
    endpoint.web = facts.web.or(endpoint.web);
    endpoint.node = facts.node.or(endpoint.node);
    endpoint.gateway = facts.gateway.or(endpoint.gateway);
    endpoint.tape = facts.tape.unwrap_or(endpoint.tape);
    endpoint.changeable = facts.changeable.unwrap_or(endpoint.changeable);
    if let Some(file) = facts.endpoint_key_file {
        let text = std::fs::read_to_string(&file);
        let text = text.map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
        endpoint.key = Some(text.trim().to_owned());
    }
    let limits = &mut endpoint.limits;
    limits.out_transfers = facts.out_transfers.or(limits.out_transfers);
    limits.in_transfers = facts.in_transfers.or(limits.in_transfers);
    limits.out_bit_s = facts.out_limit.map(|rate| rate.0).or(limits.out_bit_s);
    limits.files_s = facts.files_per_second.or(limits.files_s);
    limits.space_bytes = facts.space.map(|space| space.0).or(limits.space_bytes);
    limits.in_bit_s = facts.in_limit.map(|rate| rate.0).or(limits.in_bit_s);
    endpoint.storage = storage(facts.storage, endpoint.storage)?;
    api.put(&name, &endpoint).map(drop).map_err(failure)
}

/// The storage of an endpoint, if the catalogue may store files there.
fn storage(facts: StorageFacts, before: Option<Storage>) -> Result<Option<Storage>, Failure> {
    let has_details = facts.naming.is_some()
        || !facts.attribute.is_empty()
        || facts.capacity.is_some()
        || facts.high_water.is_some()
        || facts.low_water.is_some()
        || facts.greedy.is_some();
    if before.is_none() && facts.storage.is_none() {
        return if has_details {
            Err(Failure::usage("say where the catalogue may store files: --storage lh://HOST/EXPORT/DIR"))
        } else {
            Ok(None)
        };
    }
    let mut storage = before.unwrap_or_default();
    storage.url = facts.storage.unwrap_or(storage.url);
    storage.naming = facts.naming.unwrap_or(storage.naming);
    storage.capacity_bytes = facts.capacity.map(|bytes| bytes.0).or(storage.capacity_bytes);
    storage.high_water_percent = facts.high_water.or(storage.high_water_percent);
    storage.low_water_percent = facts.low_water.or(storage.low_water_percent);
    storage.greedy = facts.greedy.unwrap_or(storage.greedy);
    for text in facts.attribute {
        let wrong = || Failure::usage(format!("--attribute {text}: write WORD=VALUE"));
        let (word, value) = text.split_once('=').ok_or_else(wrong)?;
        storage.attributes.insert(word.to_owned(), value.to_owned());
    }
    Ok(Some(storage))
}

/// `hub link`.
///
/// # Errors
/// The hub cannot be reached or refuses the request, or an argument is wrong.
pub fn link(action: NamedAction<LinkFacts>, api: &Api, printer: &Printer) -> Result<(), Failure> {
    let names = |all: &Collaboration| all.links.keys().cloned().collect();
    let Some(edit) = run_common::<Link, _>(action, names, api, printer)? else { return Ok(()) };
    let NamedEdit { named: Named { name, facts }, before } = edit;
    let capacity = facts.capacity.map(|rate| rate.0).or(before.as_ref().map(|link| link.capacity_bit_s));
    let capacity_bit_s =
        capacity.ok_or_else(|| Failure::usage("say how much the link carries: --capacity 10Gbit/s"))?;
    let before = before.unwrap_or(Link { capacity_bit_s, mark: 1.0, duplex: true, others_bit_s: 0, stopped: None });
    let link = Link {
        capacity_bit_s,
        mark: facts.mark.unwrap_or(before.mark),
        duplex: before.duplex && !facts.half_duplex,
        others_bit_s: facts.others.map_or(before.others_bit_s, |rate| rate.0),
        stopped: before.stopped,
    };
    api.put(&name, &link).map_err(failure)?;
    if facts.between.is_empty() {
        return Ok(());
    }
    let mut all = api.collaboration().map_err(failure)?;
    for pair in &facts.between {
        let wrong = || Failure::usage(format!("--between {pair}: write two sites, A,B"));
        let (from, to) = pair.split_once(',').ok_or_else(wrong)?;
        let is_same = |route: &&mut Route| {
            (route.from.as_str(), route.to.as_str()) == (from, to)
                || (route.from.as_str(), route.to.as_str()) == (to, from)
        };
        match all.routes.iter_mut().find(is_same) {
            Some(route) if route.links.contains(&name) => {}
            Some(route) => route.links.push(name.clone()),
            None => all.routes.push(Route { from: from.to_owned(), to: to.to_owned(), links: vec![name.clone()] }),
        }
    }
    api.describe(&all).map(drop).map_err(failure)
}

/// `hub community`.
///
/// # Errors
/// The hub cannot be reached or refuses the request, or an argument is wrong.
pub fn community(action: NamedAction<CommunityFacts>, api: &Api, printer: &Printer) -> Result<(), Failure> {
    let names = |all: &Collaboration| all.communities.keys().cloned().collect();
    let Some(edit) = run_common::<Community, _>(action, names, api, printer)? else { return Ok(()) };
    let NamedEdit { named: Named { name, facts }, before } = edit;
    let mut community = before.unwrap_or_default();
    community.share = facts.share.or(community.share);
    community.cap_bit_s = facts.cap.map(|rate| rate.0).or(community.cap_bit_s);
    if !facts.vo.is_empty() {
        community.vos = facts.vo;
    }
    for text in facts.activity {
        let wrong = || Failure::usage(format!("--activity {text}: write NAME=WEIGHT"));
        let (activity, weight) = text.split_once('=').ok_or_else(wrong)?;
        let share = Some(weight.parse().map_err(|_| wrong())?);
        community.activities.insert(activity.to_owned(), Activity { share });
    }
    api.put(&name, &community).map(drop).map_err(failure)
}
