//! PROPFIND: properties of a file, or of a directory and its entries, as a document that is sent while it is written.

use auth::Action;
use model::{Kind, RelPath};
use serve::Length;
use store::{Stat, Store};
use web::dav::{self, Depth, PropfindRequest, Quota, Resource, multistatus};
use web::{Response, target};

use super::etag::etag;
use super::get;
use super::lock;
use super::refused::{Outcome, Refused, refuse};
use super::request_context::RequestContext;
use super::text::Text;
use crate::access::ResolvedPath;
use crate::dead_properties;
use crate::http::short_body::read_short_body;

fn depth(context: &RequestContext<'_>, is_dir: bool) -> Outcome<Depth> {
    match Depth::parse(context.request().headers.get("depth")).map_err(|e| refuse(400, e.to_string()))? {
        // A file has no entries below it.
        Depth::Infinity if !is_dir => Ok(Depth::Zero),
        // RFC 4918, section 9.1: a server may refuse, with this element.
        Depth::Infinity => {
            let body = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";
            let refused = Refused::new(403, body).with("Content-Type", "application/xml; charset=utf-8");
            Err(refused.into())
        }
        depth => Ok(depth),
    }
}

/// Reads the body. It is called after the check of rights: the node does not wait for the bodies of clients without rights.
fn read_request(context: &mut RequestContext<'_>) -> Outcome<PropfindRequest> {
    let body = read_short_body(context.exchange, dav::BODY_BYTES_MAX, "a PROPFIND")?;
    dav::propfind::parse(&body).map_err(|e| refuse(400, e.to_string()))
}

/// An entry as a resource of WebDAV.
fn resource(before: &str, place: &RelPath, stat: &Stat) -> Resource {
    let is_dir = stat.meta.kind == Kind::Dir;
    Resource {
        href: target::location(before, place, is_dir, None),
        is_dir,
        content_type: (!is_dir).then(|| get::content_type(place).to_owned()),
        size: (!is_dir).then_some(stat.meta.size),
        modified: Some(stat.meta.mtime),
        // Not every file system keeps the time of creation; all keep the time of the last change.
        created: Some(stat.meta.mtime),
        etag: (!is_dir).then(|| etag(stat).to_string()),
        executable: (!is_dir).then_some(stat.meta.mode & 0o111 != 0),
        ..Resource::default()
    }
}

fn wants_digests(query: &PropfindRequest) -> bool {
    query.names(dav::OWNCLOUD, "checksums") || query.names(dav::DCACHE, "Checksums")
}

fn wants_quota(query: &PropfindRequest) -> bool {
    query.names(dav::DAV, "quota-available-bytes") || query.names(dav::DAV, "quota-used-bytes")
}

/// The source of properties that cost further calls: the store of the entries, and their export.
struct PropertySource<'a> {
    resolved: &'a ResolvedPath,
    export: &'a str,
}

impl PropertySource<'_> {
    /// Adds quota, digests, dead properties and locks of an entry: `path` is in the store, `place` in the export.
    fn add_to(
        &self,
        context: &RequestContext<'_>,
        path: &RelPath,
        place: &RelPath,
        query: &PropfindRequest,
        resource: &mut Resource,
    ) {
        let store = &*self.resolved.store;
        if resource.is_dir && wants_quota(query) {
            // The bytes below a directory are not counted, and those on the device are not all below it.
            let space = store.space(path).ok().flatten();
            resource.quota = space.map(|space| Quota { available: space.free_bytes, used: None });
        }
        if !resource.is_dir && wants_digests(query) {
            let known = store.open(path).ok().and_then(|source| context.service.services.digests.known(&*source).ok());
            resource.digests = known.unwrap_or_default();
        }
        if multistatus::may_be_dead(query) {
            resource.dead = dead_properties::read(store, path);
        }
        resource.locks =
            context.service.access_control.locks.covering(self.export, place).into_iter().map(lock::active).collect();
    }
}

/// The state of an entry; of a link that stays inside the store, the state of its target.
fn followed(store: &dyn Store, path: &RelPath, stat: Stat) -> Stat {
    if stat.meta.kind != Kind::Symlink {
        return stat;
    }
    if store.is_dir(path) {
        return Stat { meta: model::Meta { kind: Kind::Dir, ..stat.meta }, ..stat };
    }
    store.open(path).and_then(|source| source.stat()).unwrap_or(stat)
}

/// Answers PROPFIND.
pub(crate) fn answer(context: &mut RequestContext<'_>) -> Outcome {
    let Some((export, path)) = context.place()? else { return root(context) };
    let resolved = context.resolve(Action::Stat, &export, &path)?;
    let stat = match resolved.store.stat(&resolved.path) {
        Ok(stat) => followed(&*resolved.store, &resolved.path, stat),
        Err(error) => return Err(error.into()),
    };
    let is_dir = stat.meta.kind == Kind::Dir;
    let depth = depth(context, is_dir)?;
    if is_dir && depth == Depth::One {
        context.resolve(Action::List, &export, &path)?;
    }
    let query = read_request(context)?;
    let entries = (is_dir && depth == Depth::One).then(|| resolved.store.list(&resolved.path)).transpose()?;
    let own = context.target.path.clone();
    let before = context.href_prefix();
    let mut this = resource(&before, &own, &stat);
    let source = PropertySource { resolved: &resolved, export: &export };
    source.add_to(context, &resolved.path, &path, &query, &mut this);
    let first = [multistatus::open(), multistatus::response(&this, &query)].concat();
    let Some(entries) = entries else { return whole(context, first) };
    let mut document = Text::begin(context.exchange, head(), Length::Open)?;
    document.write(context.exchange, first.as_bytes())?;
    for (name, stat) in entries.filter_map(Result::ok) {
        let below = resolved.path.join(&name);
        // An entry that has been removed meanwhile is left out.
        let Ok(stat) = stat.map(|stat| followed(&*resolved.store, &below, stat)) else { continue };
        let mut one = resource(&before, &own.join(&name), &stat);
        source.add_to(context, &below, &path.join(&name), &query, &mut one);
        document.write(context.exchange, multistatus::response(&one, &query).as_bytes())?;
    }
    document.write(context.exchange, multistatus::close().as_bytes())?;
    Ok(document.end(context.exchange)?)
}

/// Answers PROPFIND of the root: the exports.
fn root(context: &mut RequestContext<'_>) -> Outcome {
    let names = context.service.access_control.visible(context.access());
    if names.is_empty() && context.principal.is_anonymous {
        return Err(context
            .service
            .services
            .authenticator
            .challenge_anonymous("this node shows nothing to anonymous clients")
            .into());
    }
    let depth = depth(context, true)?;
    let query = read_request(context)?;
    let dir = |href: String| Resource { href, is_dir: true, ..Resource::default() };
    let before = context.href_prefix();
    let mut text = [multistatus::open(), multistatus::response(&dir(format!("{before}/")), &query)].concat();
    for name in names.iter().filter(|_| depth == Depth::One) {
        text.push_str(&multistatus::response(&dir(format!("{before}/{}/", target::encode(name.as_bytes()))), &query));
    }
    whole(context, text)
}

fn head() -> Response {
    Response::new(207).with("Content-Type", multistatus::CONTENT_TYPE)
}

/// Sends a short document, which is built first, so that its length is known.
fn whole(context: &mut RequestContext<'_>, mut text: String) -> Outcome {
    text.push_str(multistatus::close());
    Ok(Text::send(context.exchange, head(), text.as_bytes())?)
}
