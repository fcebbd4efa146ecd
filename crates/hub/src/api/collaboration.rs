//! The description of sites, endpoints, links and communities: requests that show, change and stop them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::v1::hub::{Collaboration, Community, Endpoint, Link, LinkMark, Site, Stopped};
use model::{Fault, Refusal};
use serde::Serialize;
use web::Refused;

use super::{ApiRequest, ApiResult, json};

/// A description without its secrets.
fn without_keys(described: &Collaboration) -> Collaboration {
    let mut public = described.clone();
    public.endpoints.values_mut().for_each(|endpoint| endpoint.key = None);
    public
}

/// GET /api/v1/collaboration.
pub(super) async fn show(request: ApiRequest) -> ApiResult {
    json(200, &without_keys(&request.hub.topology.load().described))
}

/// PUT /api/v1/collaboration.
pub(super) async fn replace(request: ApiRequest) -> ApiResult {
    let mut wanted: Collaboration = request.read("a collaboration")?;
    let change = |described: &mut Collaboration| {
        for (name, endpoint) in &mut wanted.endpoints {
            keep_key(endpoint, described.endpoints.get(name));
        }
        *described = wanted;
        Ok(())
    };
    request.hub.describe(change).await?;
    show(request).await
}

/// Keeps the key of an endpoint if the new description has none: the API never shows a key, so a client cannot send it back.
fn keep_key(endpoint: &mut Endpoint, before: Option<&Endpoint>) {
    if endpoint.key.is_none() {
        endpoint.key = before.and_then(|before| before.key.clone());
    }
}

fn found_or_404<T: Serialize>(kind: &str, name: &str, found: Option<&T>) -> ApiResult {
    match found {
        Some(found) => json(200, found),
        None => Err(Refused::new(404, format!("there is no {kind} {name}"))),
    }
}

fn remove<T>(kind: &str, name: &str, all: &mut BTreeMap<String, T>) -> Result<(), Refusal> {
    let none = || Refusal::new(Fault::Missing, format!("there is no {kind} {name}"));
    all.remove(name).map(drop).ok_or_else(none)
}

/// GET /api/v1/sites/NAME, and so on.
pub(super) async fn site(request: ApiRequest) -> ApiResult {
    found_or_404("site", &request.id, request.hub.topology.load().described.sites.get(&request.id))
}

pub(super) async fn endpoint(request: ApiRequest) -> ApiResult {
    found_or_404(
        "endpoint",
        &request.id,
        without_keys(&request.hub.topology.load().described).endpoints.get(&request.id),
    )
}

pub(super) async fn link(request: ApiRequest) -> ApiResult {
    found_or_404("link", &request.id, request.hub.topology.load().described.links.get(&request.id))
}

pub(super) async fn community(request: ApiRequest) -> ApiResult {
    found_or_404("community", &request.id, request.hub.topology.load().described.communities.get(&request.id))
}

/// PUT /api/v1/sites/NAME, and so on.
pub(super) async fn put_site(request: ApiRequest) -> ApiResult {
    let site: Site = request.read("a site")?;
    let name = request.id.clone();
    let change = |all: &mut Collaboration| {
        all.sites.insert(name, site);
        Ok(())
    };
    request.hub.describe(change).await?;
    self::site(request).await
}

pub(super) async fn put_endpoint(request: ApiRequest) -> ApiResult {
    let mut endpoint: Endpoint = request.read("an endpoint")?;
    let name = request.id.clone();
    let change = |all: &mut Collaboration| {
        keep_key(&mut endpoint, all.endpoints.get(&name));
        all.endpoints.insert(name, endpoint);
        Ok(())
    };
    request.hub.describe(change).await?;
    self::endpoint(request).await
}

pub(super) async fn put_link(request: ApiRequest) -> ApiResult {
    let link: Link = request.read("a link")?;
    let name = request.id.clone();
    let change = |all: &mut Collaboration| {
        all.links.insert(name, link);
        Ok(())
    };
    request.hub.describe(change).await?;
    self::link(request).await
}

/// PUT /api/v1/marks/NAME. The check of the description refuses a mark out of bounds.
pub(super) async fn set_mark(request: ApiRequest) -> ApiResult {
    let LinkMark { mark } = request.read("a mark")?;
    let name = request.id.clone();
    let change = |all: &mut Collaboration| {
        let link = all.links.get_mut(&name);
        let link = link.ok_or_else(|| Refusal::new(Fault::Missing, format!("there is no link {name}")))?;
        link.mark = mark;
        Ok(())
    };
    request.hub.describe(change).await?;
    tracing::info!(link = request.id, mark, by = request.member.owner, "a mark was set");
    self::link(request).await
}

/// GET /api/v1/endpoints/NAME/host: the audit of the host's settings, as the node reports it.
pub(super) async fn host(request: ApiRequest) -> ApiResult {
    let (hub, name) = (Arc::clone(&request.hub), request.id.clone());
    let reading = tokio::task::spawn_blocking(move || {
        let api = hub.servers.node(&hub.topology.load(), &name).map_err(|why| Refused::new(409, why))?;
        api.host().map_err(|error| match error {
            nodeapi::Error::Refused { problem, .. } if problem.status == 404 => {
                Refused::new(404, format!("the node {name} does not audit its host: start it with --audit"))
            }
            error => Refused::new(502, format!("{name}: {}", model::fault::with_causes(&error))),
        })
    });
    let audit = reading.await.unwrap_or_else(|error| Err(Refused::new(500, format!("the request broke off: {error}"))));
    json(200, &audit?)
}

pub(super) async fn put_community(request: ApiRequest) -> ApiResult {
    let community: Community = request.read("a community")?;
    let name = request.id.clone();
    let change = |all: &mut Collaboration| {
        all.communities.insert(name, community);
        Ok(())
    };
    request.hub.describe(change).await?;
    self::community(request).await
}

/// DELETE /api/v1/sites/NAME, and so on.
pub(super) async fn remove_site(request: ApiRequest) -> ApiResult {
    request.hub.describe(|all| remove("site", &request.id, &mut all.sites)).await?;
    show(request).await
}

pub(super) async fn remove_endpoint(request: ApiRequest) -> ApiResult {
    request.hub.describe(|all| remove("endpoint", &request.id, &mut all.endpoints)).await?;
    show(request).await
}

pub(super) async fn remove_link(request: ApiRequest) -> ApiResult {
    request.hub.describe(|all| remove("link", &request.id, &mut all.links)).await?;
    show(request).await
}

pub(super) async fn remove_community(request: ApiRequest) -> ApiResult {
    request.hub.describe(|all| remove("community", &request.id, &mut all.communities)).await?;
    show(request).await
}

/// PUT /api/v1/stops/WHAT: no new transfer begins for it.
pub(super) async fn stop(request: ApiRequest) -> ApiResult {
    let stopped: Stopped = request.read("a stop")?;
    set_stopped(request, Some(stopped)).await
}

/// DELETE /api/v1/stops/WHAT.
pub(super) async fn start(request: ApiRequest) -> ApiResult {
    set_stopped(request, None).await
}

async fn set_stopped(request: ApiRequest, stopped: Option<Stopped>) -> ApiResult {
    request.hub.describe(|all| stop_field(all, &request.id).map(|field| *field = stopped)).await?;
    tracing::info!(what = request.id, by = request.member.owner, "a stop was set or ended");
    show(request).await
}

/// The field that says whether something is stopped, by `all`, `site:NAME`, `endpoint:NAME`, `link:NAME` or `community:NAME`.
fn stop_field<'a>(all: &'a mut Collaboration, what: &str) -> Result<&'a mut Option<Stopped>, Refusal> {
    let (kind, name) = what.split_once(':').unwrap_or((what, ""));
    let found = match kind {
        "all" if name.is_empty() => Some(&mut all.stopped),
        "site" => all.sites.get_mut(name).map(|it| &mut it.stopped),
        "endpoint" => all.endpoints.get_mut(name).map(|it| &mut it.stopped),
        "link" => all.links.get_mut(name).map(|it| &mut it.stopped),
        "community" => all.communities.get_mut(name).map(|it| &mut it.stopped),
        _ => {
            let reason =
                format!("{what:?} cannot be stopped: all, site:NAME, endpoint:NAME, link:NAME or community:NAME");
            return Err(Refusal::new(Fault::Config, reason));
        }
    };
    found.ok_or_else(|| Refusal::new(Fault::Missing, format!("there is no {kind} {name}")))
}
