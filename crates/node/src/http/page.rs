//! Directories as pages for people, and the list of exports at the root. A page has the entries in the requested order, forms for the
//! actions that the principal may do, and the command that does the same. Programs get the whole directory, as HTML or as JSON.

mod json;
mod render;
mod sort;

use auth::Action;
use model::{Kind, Name, RelPath};
use serve::Length;
use store::{Stat, Store};
use web::target;
use web::{Headers, Response};

use super::refused::{Outcome, RequestOutcome};
use super::request_context::RequestContext;
use super::text::Text;
use authn::sessions;
use render::{Page, PageActions};
use sort::{ListingRow, SortOrder};

/// Entries on one page for a browser.
const PAGE_ENTRIES: usize = 10_000;
/// The highest number of a page of a long directory.
const PARTS_MAX: usize = 1_000_000;
/// The most entries that are sorted: a longer directory is listed in the order of the store.
const SORTED_MAX: usize = 20_000;

/// Whether the client is a browser, which accepts HTML by name, and not a program.
fn is_for_people(context: &RequestContext<'_>) -> bool {
    context.request().headers.all("accept").any(|kinds| kinds.contains("text/html"))
}

/// Moves a credential in the address to a session and redirects the browser to the address without it, because an address stays in
/// the browser's history and is sent as a referrer. `None` where the request continues.
fn credential_to_session(context: &mut RequestContext<'_>) -> Outcome<Option<RequestOutcome>> {
    let by_field = context.request().headers.get("authorization").is_some();
    // An invalid credential gets no session: the number of sessions is bounded.
    if context.principal.rejected.is_some() {
        return Ok(None);
    }
    let Some(credential) = context.target.authz().filter(|_| !by_field && is_for_people(context)) else {
        return Ok(None);
    };
    let text = credential.strip_prefix("Bearer ").unwrap_or(&credential).to_owned();
    let Some(id) = context.service.services.authenticator.sessions.open(text) else { return Ok(None) };
    let to = target::location("", &context.target.path, true, None);
    let cookie = sessions::cookie(&context.request().headers, context.exchange.is_secure(), Some(&id));
    let response = Response::new(303).with("Location", to).with("Set-Cookie", cookie).with("Cache-Control", "no-store");
    context.exchange.begin(response, Length::Known(0))?;
    context.exchange.end(&Headers::new())?;
    Ok(Some(RequestOutcome { status: 303, bytes: 0 }))
}

/// The actions on a page that depend on the session.
fn session_actions(context: &RequestContext<'_>) -> PageActions {
    let is_known = !context.principal.is_anonymous;
    let in_session = context
        .service
        .services
        .authenticator
        .sessions
        .credential(context.request(), context.exchange.is_secure())
        .is_some();
    PageActions { opens_session: !is_known, closes_session: is_known && in_session, ..PageActions::default() }
}

fn line(name: &Name, stat: &Stat) -> ListingRow {
    let size = (stat.meta.kind == Kind::File).then_some(stat.meta.size);
    ListingRow { name: name.as_bytes().to_vec(), kind: stat.meta.kind, size, modified: Some(stat.meta.mtime) }
}

/// The locator of a path, with the client's name for the node, for commands.
fn locator(context: &RequestContext<'_>, path: &RelPath) -> String {
    let host =
        context.authority().filter(|host| host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b)));
    format!("lh://{}/{path}", host.unwrap_or("HOST"))
}

/// Answers with the page of a directory. A path without a final slash is redirected, because the relative links of the page need
/// the slash.
pub(crate) fn directory(context: &mut RequestContext<'_>, store: &dyn Store, path: &RelPath) -> Outcome {
    if !context.target.is_dir {
        let query = context.target.query.clone();
        let to = target::location("", &context.target.path, true, query.as_deref());
        let response = Response::new(307).with("Location", to);
        context.exchange.begin(response, Length::Known(0))?;
        context.exchange.end(&Headers::new())?;
        return Ok(RequestOutcome { status: 307, bytes: 0 });
    }
    let mut actions = session_actions(context);
    if let Some((export, below)) = context.place()? {
        context.resolve(Action::List, &export, &below)?;
        let writable = context.service.access_control.is_writable(&export) == Some(true);
        // The name stands for any new entry.
        let new_entry = Name::new(b"something").map_or_else(|_| below.clone(), |name| below.join(&name));
        let may = |action| writable && context.access().allow(action, &export, writable, &new_entry).is_ok();
        actions.uploads = may(Action::Create);
        actions.makes_dirs = may(Action::MakeDir);
    }
    if let Some(done) = credential_to_session(context)? {
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
        order: SortOrder::of(&context.target),
        is_root: false,
        help: &help,
        actions,
        link_query: &link_query(context),
        part: is_for_people(context).then(|| part(context)),
    };
    send(context, &page, &mut lines)
}

/// Sends a page with these entries. A browser gets one part of a long directory, with links to the others; a program gets the whole
/// directory without such links.
fn send(context: &mut RequestContext<'_>, page: &Page<'_>, lines: &mut dyn Iterator<Item = ListingRow>) -> Outcome {
    let headers = Headers::new()
        .with("Content-Type", "text/html; charset=utf-8")
        .with("X-Content-Type-Options", "nosniff")
        // No script runs on this page.
        .with(
            "Content-Security-Policy",
            "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'",
        )
        // The node's own forms send their origin; other sites do not get the address.
        .with("Referrer-Policy", "same-origin")
        .with("Cache-Control", "no-store");
    let mut first: Vec<ListingRow> = lines.take(SORTED_MAX + 1).collect();
    let is_sorted = first.len() <= SORTED_MAX;
    if is_sorted {
        page.order.sort(&mut first);
    }
    let mut text = Text::begin(context.exchange, Response { headers, ..Response::new(200) }, Length::Open)?;
    text.write(context.exchange, page.head(is_sorted).as_bytes())?;
    let mut all = first.into_iter().chain(lines);
    let mut sent = 0;
    let (before, most) = page.part.map_or((0, usize::MAX), |part| ((part - 1) * PAGE_ENTRIES, PAGE_ENTRIES));
    for line in all.by_ref().skip(before).take(most) {
        text.write(context.exchange, page.row(&line).as_bytes())?;
        sent += 1;
    }
    let has_more = page.part.is_some() && all.next().is_some();
    text.write(context.exchange, page.tail(sent, has_more).as_bytes())?;
    Ok(text.end(context.exchange)?)
}

/// The part of a long directory that a browser asks for, counted from 1.
fn part(context: &RequestContext<'_>) -> usize {
    let query = context.target.query.as_deref().unwrap_or_default();
    let wanted = target::pairs(query).find(|(name, _)| name == "page").and_then(|(_, value)| value.parse().ok());
    wanted.unwrap_or(1).clamp(1, PARTS_MAX)
}

/// The query of the links on a page: the links of a program that has its credential in the address keep that credential.
fn link_query(context: &RequestContext<'_>) -> String {
    let by_field = context.request().headers.get("authorization").is_some();
    let query = context.target.query.as_deref().filter(|_| !by_field && !is_for_people(context)).unwrap_or_default();
    let credential =
        query.split('&').find(|pair| ["authz=", "access_token="].iter().any(|name| pair.starts_with(name)));
    credential.map_or_else(String::new, |pair| render::escaped(format!("?{pair}").as_bytes()))
}

/// Answers with the page of the root: the exports that the principal may see.
pub(crate) fn exports(context: &mut RequestContext<'_>) -> Outcome {
    let visible = context.service.access_control.visible(context.access());
    let line = |name: &str| ListingRow { name: name.as_bytes().to_vec(), kind: Kind::Dir, size: None, modified: None };
    let lines: Vec<ListingRow> = visible.iter().map(|name| line(name)).collect();
    if lines.is_empty() && context.principal.is_anonymous && !is_for_people(context) {
        return Err(context
            .service
            .services
            .authenticator
            .challenge_anonymous("this node shows nothing to anonymous clients")
            .into());
    }
    if let Some(done) = credential_to_session(context)? {
        return Ok(done);
    }
    if json::is_wanted(context) {
        return json::send(context, &RelPath::root(), &mut lines.into_iter());
    }
    let help = format!("longhaul ls {}", locator(context, &RelPath::root()));
    let page = Page {
        title: "Exports",
        order: SortOrder::of(&context.target),
        is_root: true,
        help: &help,
        actions: session_actions(context),
        link_query: &link_query(context),
        part: None,
    };
    send(context, &page, &mut lines.into_iter())
}
