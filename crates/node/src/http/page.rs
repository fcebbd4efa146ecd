//! Directories as pages for people, and the list of exports at the root: what there is, in any order, what may be done with it, and how
//! the same is done by a program. Programs are given all of a directory, as HTML or as JSON.

mod json;
mod render;
mod sort;

use auth::Action;
use model::{Kind, Name, RelPath};
use serve::Length;
use store::{Stat, Store};
use web::target;
use web::{Headers, Response};

use super::refused::{Done, Outcome};
use super::request_context::RequestContext;
use super::text::Text;
use authn::sessions;
use render::{Doing, Page};
use sort::{Line, Order};

/// Entries on one page for a browser.
const PAGE_ENTRIES: usize = 10_000;
/// Parts of a directory that are counted.
const PARTS_MAX: usize = 1_000_000;
/// Entries that are sorted: a directory with more is shown as it is kept.
const SORTED_MAX: usize = 20_000;

/// Whether somebody looks at it in a browser, and not with a program that reads what it gets.
fn is_for_people(context: &RequestContext<'_>) -> bool {
    context.request().headers.all("accept").any(|kinds| kinds.contains("text/html"))
}

/// A credential in the address is in the browser's history and in what it sends on. A session takes its place.
fn without_credential(context: &mut RequestContext<'_>) -> Outcome<Option<Done>> {
    let by_field = context.request().headers.get("authorization").is_some();
    // One that is not good gets no session: those are for people, and there are not many.
    if context.principal.rejected.is_some() {
        return Ok(None);
    }
    let Some(credential) = context.target.authz().filter(|_| !by_field && is_for_people(context)) else {
        return Ok(None);
    };
    let text = credential.strip_prefix("Bearer ").unwrap_or(&credential).to_owned();
    let Some(id) = context.web.authenticator.sessions.open(text) else { return Ok(None) };
    let to = target::location("", &context.target.path, true, None);
    let cookie = sessions::cookie(&context.request().headers, context.exchange.is_secure(), Some(&id));
    let response = Response::new(303).with("Location", to).with("Set-Cookie", cookie).with("Cache-Control", "no-store");
    context.exchange.begin(response, Length::Known(0))?;
    context.exchange.end(&Headers::new())?;
    Ok(Some(Done { status: 303, bytes: 0 }))
}

/// Who looks, as a page says it.
fn principal(context: &RequestContext<'_>) -> Doing {
    let is_known = !context.principal.is_anonymous;
    let in_session =
        context.web.authenticator.sessions.credential(context.request(), context.exchange.is_secure()).is_some();
    Doing { enters: !is_known, leaves: is_known && in_session, ..Doing::default() }
}

fn line(name: &Name, stat: &Stat) -> Line {
    let size = (stat.meta.kind == Kind::File).then_some(stat.meta.size);
    Line { name: name.as_bytes().to_vec(), kind: stat.meta.kind, size, modified: Some(stat.meta.mtime) }
}

/// By what this client calls the node, and the place, for commands.
fn locator(context: &RequestContext<'_>, path: &RelPath) -> String {
    let host =
        context.called().filter(|host| host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b)));
    format!("lh://{}/{path}", host.unwrap_or("HOST"))
}

/// A directory. Without a slash at its end, names on the page would be taken for its neighbours': the client is sent on.
pub(crate) fn directory(context: &mut RequestContext<'_>, store: &dyn Store, path: &RelPath) -> Outcome {
    if !context.target.is_dir {
        let query = context.target.query.clone();
        let to = target::location("", &context.target.path, true, query.as_deref());
        let response = Response::new(307).with("Location", to);
        context.exchange.begin(response, Length::Known(0))?;
        context.exchange.end(&Headers::new())?;
        return Ok(Done { status: 307, bytes: 0 });
    }
    let mut doing = principal(context);
    if let Some((export, below)) = context.place()? {
        context.reach(Action::List, &export, &below)?;
        let writable = context.web.rules.is_writable(&export) == Some(true);
        let something = Name::new(b"something").map_or_else(|_| below.clone(), |name| below.join(&name));
        let may = |action| writable && context.access().allow(action, &export, writable, &something).is_ok();
        (doing.uploads, doing.makes_dirs) = (may(Action::Create), may(Action::MakeDir));
    }
    if let Some(done) = without_credential(context)? {
        return Ok(done);
    }
    let entries = store.list(path)?.filter_map(Result::ok);
    let mut lines = entries.filter_map(|(name, stat)| Some(line(&name, &stat.ok()?)));
    let place = context.target.path.clone();
    if json::is_wanted(context) {
        return json::send(context, &place, &mut lines);
    }
    let name = place.name().map_or_else(|| "copy".to_owned(), |name| name.to_string());
    let help = format!("longhaul cp -r {}/ {name}", locator(context, &place));
    let title = format!("/{place}");
    let page = Page {
        title: &title,
        order: Order::of(&context.target),
        is_root: false,
        help: &help,
        doing,
        carried: &carried(context),
        part: is_for_people(context).then(|| part(context)),
    };
    send(context, &page, &mut lines)
}

/// Sends a page with these lines. A browser is shown a part of a long directory, with links to the others; a program that reads what
/// it gets is given all of it, and no links that it would have to know of.
fn send(context: &mut RequestContext<'_>, page: &Page<'_>, lines: &mut dyn Iterator<Item = Line>) -> Outcome {
    let headers = Headers::new()
        .with("Content-Type", "text/html; charset=utf-8")
        .with("X-Content-Type-Options", "nosniff")
        // What names say is text; nothing on this page runs.
        .with(
            "Content-Security-Policy",
            "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
        )
        // Its forms say where they come from; nobody else is told.
        .with("Referrer-Policy", "same-origin")
        .with("Cache-Control", "no-store");
    let mut first: Vec<Line> = lines.take(SORTED_MAX + 1).collect();
    let is_sorted = first.len() <= SORTED_MAX;
    if is_sorted {
        page.order.sort(&mut first);
    }
    let mut text = Text::begin(context.exchange, Response { headers, ..Response::new(200) }, Length::Open)?;
    text.write(context.exchange, page.head(is_sorted).as_bytes())?;
    let (mut all, mut shown) = (first.into_iter().chain(lines), 0);
    let (before, most) = page.part.map_or((0, usize::MAX), |part| ((part - 1) * PAGE_ENTRIES, PAGE_ENTRIES));
    for line in all.by_ref().skip(before).take(most) {
        text.write(context.exchange, page.row(&line).as_bytes())?;
        shown += 1;
    }
    let goes_on = page.part.is_some() && all.next().is_some();
    text.write(context.exchange, page.tail(shown, goes_on).as_bytes())?;
    Ok(text.end(context.exchange)?)
}

/// Which part of a long directory a browser asks for, counted from 1.
fn part(context: &RequestContext<'_>) -> usize {
    let query = context.target.query.as_deref().unwrap_or_default();
    let asked = target::pairs(query).find(|(name, _)| name == "page").and_then(|(_, value)| value.parse().ok());
    asked.unwrap_or(1).clamp(1, PARTS_MAX)
}

/// What a link on the page ends with: a program that came by a link with a credential in it goes on with that credential.
fn carried(context: &RequestContext<'_>) -> String {
    let field = context.request().headers.get("authorization").is_some();
    let query = context.target.query.as_deref().filter(|_| !field && !is_for_people(context)).unwrap_or_default();
    let shown = query.split('&').find(|pair| ["authz=", "access_token="].iter().any(|name| pair.starts_with(name)));
    shown.map_or_else(String::new, |pair| render::escaped(format!("?{pair}").as_bytes()))
}

/// The root: what exports the principal may see.
pub(crate) fn exports(context: &mut RequestContext<'_>) -> Outcome {
    let visible = context.web.rules.visible(context.access());
    let line = |name: &str| Line { name: name.as_bytes().to_vec(), kind: Kind::Dir, size: None, modified: None };
    let lines: Vec<Line> = visible.iter().map(|name| line(name)).collect();
    if lines.is_empty() && context.principal.is_anonymous && !is_for_people(context) {
        return Err(context
            .web
            .authenticator
            .challenge_anonymous("this node shows nothing to those who have not said who they are")
            .into());
    }
    if let Some(done) = without_credential(context)? {
        return Ok(done);
    }
    if json::is_wanted(context) {
        return json::send(context, &RelPath::root(), &mut lines.into_iter());
    }
    let help = format!("longhaul ls {}", locator(context, &RelPath::root()));
    let page = Page {
        title: "Exports",
        order: Order::of(&context.target),
        is_root: true,
        help: &help,
        doing: principal(context),
        carried: &carried(context),
        part: None,
    };
    send(context, &page, &mut lines.into_iter())
}
