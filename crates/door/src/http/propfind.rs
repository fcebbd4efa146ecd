//! PROPFIND: facts of a file, or of a directory and what is in it, as a document that is written as it goes.

use auth::Action;
use model::{Kind, RelPath};
use store::{Stat, Store};
use web::dav::{self, Ask, Depth, Quota, Resource, multistatus};
use web::{Headers, Response, target};

use super::exchange::{Length, read_little};
use super::get::etag;
use super::refused::{Done, Outcome, Refused, refuse};
use super::visit::Visit;

/// Bytes of the document that are sent together.
const TOGETHER_BYTES: usize = 64 << 10;

fn depth(visit: &Visit<'_>) -> Outcome<Depth> {
    match Depth::parse(visit.request().headers.get("depth")).map_err(|e| refuse(400, e.to_string()))? {
        // RFC 4918, section 9.1: a server may say no, in these very words.
        Depth::Infinity => {
            let body = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";
            let refused = Refused::new(403, body).with("Content-Type", "application/xml; charset=utf-8");
            Err(refused.into())
        }
        depth => Ok(depth),
    }
}

/// What is asked, once it is known that whoever asks may: strangers' bodies are not waited for.
fn question(visit: &mut Visit<'_>) -> Outcome<Ask> {
    let body = read_little(visit.exchange, dav::BODY_BYTES_MAX, "a PROPFIND")?;
    dav::propfind::parse(&body).map_err(|e| refuse(400, e.to_string()))
}

/// The facts of an entry, as a resource.
fn resource(href: String, stat: &Stat) -> Resource {
    let is_dir = stat.meta.kind == Kind::Dir;
    Resource {
        href,
        is_dir,
        size: (!is_dir).then_some(stat.meta.size),
        modified: Some(stat.meta.mtime),
        // When a file was made is not kept by every file system; its last change is a date that all have.
        created: Some(stat.meta.mtime),
        etag: (!is_dir).then(|| etag(stat).to_string()),
        executable: (!is_dir).then_some(stat.meta.mode & 0o111 != 0),
        quota: None,
        digests: Vec::new(),
    }
}

/// A document that goes out in pieces.
struct Document<'a, 'b> {
    visit: &'a mut Visit<'b>,
    waiting: String,
    bytes: u64,
}

impl Document<'_, '_> {
    fn add(&mut self, text: &str) -> Outcome<()> {
        self.waiting.push_str(text);
        if self.waiting.len() >= TOGETHER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Outcome<()> {
        self.visit.exchange.write(self.waiting.as_bytes())?;
        self.bytes += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }
}

fn wants_digests(ask: &Ask) -> bool {
    ask.names(dav::OWNCLOUD, "checksums") || ask.names(dav::DCACHE, "Checksums")
}

fn wants_quota(ask: &Ask) -> bool {
    ask.names(dav::DAV, "quota-available-bytes") || ask.names(dav::DAV, "quota-used-bytes")
}

/// What costs another look at the file, or at its device.
fn extra(visit: &Visit<'_>, store: &dyn Store, path: &RelPath, ask: &Ask, resource: &mut Resource) {
    if resource.is_dir && wants_quota(ask) {
        let space = store.space(path).ok().flatten();
        resource.quota =
            space.map(|s| Quota { available: s.free_bytes, used: s.total_bytes.saturating_sub(s.free_bytes) });
    }
    if !resource.is_dir && wants_digests(ask) {
        let known = store.open(path).ok().and_then(|source| visit.web.host.digests.known(&*source).ok());
        resource.digests = known.unwrap_or_default();
    }
}

/// Facts of an entry; of what a link leads to, where it leads anywhere inside.
fn facts(store: &dyn Store, path: &RelPath, stat: Stat) -> Stat {
    if stat.meta.kind != Kind::Symlink {
        return stat;
    }
    if store.is_dir(path) {
        return Stat { meta: model::Meta { kind: Kind::Dir, ..stat.meta }, ..stat };
    }
    store.open(path).and_then(|source| source.stat()).unwrap_or(stat)
}

/// Answers PROPFIND.
pub(crate) fn answer(visit: &mut Visit<'_>) -> Outcome {
    let Some((export, path)) = visit.place()? else { return root(visit) };
    let reach = visit.reach(Action::Stat, &export, &path)?;
    let stat = match reach.store.stat(&reach.path) {
        Ok(stat) => facts(&*reach.store, &reach.path, stat),
        Err(error) => return Err(error.into()),
    };
    let depth = depth(visit)?;
    let is_dir = stat.meta.kind == Kind::Dir;
    if is_dir && depth == Depth::One {
        visit.reach(Action::List, &export, &path)?;
    }
    let ask = question(visit)?;
    let entries = (is_dir && depth == Depth::One).then(|| reach.store.list(&reach.path)).transpose()?;
    let (own, origin) = (visit.target.path.clone(), visit.origin());
    begin(visit, entries.is_some())?;
    let mut document = Document { visit, waiting: multistatus::open(), bytes: 0 };
    let mut this = resource(target::location(&origin, &own, is_dir, None), &stat);
    extra(document.visit, &*reach.store, &reach.path, &ask, &mut this);
    document.add(&multistatus::response(&this, &ask))?;
    for (name, stat) in entries.into_iter().flatten().filter_map(Result::ok) {
        let below = reach.path.join(&name);
        // What went away meanwhile is not there.
        let Ok(stat) = stat.map(|stat| facts(&*reach.store, &below, stat)) else { continue };
        let href = target::location(&origin, &own.join(&name), stat.meta.kind == Kind::Dir, None);
        let mut one = resource(href, &stat);
        extra(document.visit, &*reach.store, &below, &ask, &mut one);
        document.add(&multistatus::response(&one, &ask))?;
    }
    end(document)
}

/// The root of the node: the exports.
fn root(visit: &mut Visit<'_>) -> Outcome {
    let names = visit.web.host.visible(visit.access());
    if names.is_empty() && visit.visitor.is_nobody {
        return Err(visit
            .web
            .keeper
            .challenge_nobody("this node shows nothing to those who have not said who they are"));
    }
    let depth = depth(visit)?;
    let ask = question(visit)?;
    let origin = visit.origin();
    begin(visit, depth == Depth::One)?;
    let mut document = Document { visit, waiting: multistatus::open(), bytes: 0 };
    let dir = |href: String| Resource { href, is_dir: true, ..Resource::default() };
    document.add(&multistatus::response(&dir(format!("{origin}/")), &ask))?;
    for name in names.iter().filter(|_| depth == Depth::One) {
        document.add(&multistatus::response(&dir(format!("{origin}/{}/", target::encode(name.as_bytes()))), &ask))?;
    }
    end(document)
}

fn begin(visit: &mut Visit<'_>, long: bool) -> Outcome<()> {
    let response = Response::new(207).with("Content-Type", "application/xml; charset=utf-8");
    // The document of one entry is built before it is sent, so that its length can be told: see `end`.
    if long { visit.exchange.begin(response, Length::Open).map_err(Into::into) } else { Ok(()) }
}

fn end(mut document: Document<'_, '_>) -> Outcome {
    document.waiting.push_str(multistatus::close());
    if !document.visit.exchange.has_begun() {
        let response = Response::new(207).with("Content-Type", "application/xml; charset=utf-8");
        let length = Length::Known(document.waiting.len() as u64);
        document.visit.exchange.begin(response, length)?;
    }
    document.flush()?;
    document.visit.exchange.end(&Headers::new())?;
    Ok(Done { status: 207, bytes: document.bytes })
}
