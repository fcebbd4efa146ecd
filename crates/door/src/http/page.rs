//! Directories as pages for people, and the list of exports at the root: what there is, in any order, what may be done with it, and how
//! the same is done by a program.

mod render;
mod sort;

use auth::Action;
use model::{Kind, Name, RelPath};
use store::{Stat, Store};
use web::target;
use web::{Headers, Response};

use super::exchange::Length;
use super::refused::{Done, Outcome};
use super::sessions;
use super::visit::Visit;
use render::{Doing, Page};
use sort::{Line, Order};

/// Entries on a page: a browser is no place for more.
const ENTRIES_MAX: usize = 10_000;

/// Whether somebody looks at it in a browser, and not with a program that reads what it gets.
fn is_for_people(visit: &Visit<'_>) -> bool {
    visit.request().headers.all("accept").any(|kinds| kinds.contains("text/html"))
}

/// A credential in the address is in the browser's history and in what it sends on. A session takes its place.
fn without_credential(visit: &mut Visit<'_>) -> Outcome<Option<Done>> {
    let by_field = visit.request().headers.get("authorization").is_some();
    let Some(credential) = visit.target.authz().filter(|_| !by_field && is_for_people(visit)) else { return Ok(None) };
    let text = credential.strip_prefix("Bearer ").unwrap_or(&credential).to_owned();
    let Some(id) = visit.web.keeper.sessions.open(text) else { return Ok(None) };
    let to = target::location("", &visit.target.path, true, None);
    let cookie = sessions::cookie(&visit.request().headers, visit.exchange.is_secure(), Some(&id));
    let response = Response::new(303).with("Location", to).with("Set-Cookie", cookie).with("Cache-Control", "no-store");
    visit.exchange.begin(response, Length::Known(0))?;
    visit.exchange.end(&Headers::new())?;
    Ok(Some(Done { status: 303, bytes: 0 }))
}

/// Who looks, as a page says it.
fn visitor(visit: &Visit<'_>) -> Doing {
    let is_known = !visit.visitor.is_nobody;
    let in_session = visit.web.keeper.sessions.credential(visit.request(), visit.exchange.is_secure()).is_some();
    Doing { enters: !is_known, leaves: is_known && in_session, ..Doing::default() }
}

fn send(visit: &mut Visit<'_>, page: &str) -> Outcome {
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
    let response = Response { headers, ..Response::new(200) };
    visit.exchange.begin(response, Length::Known(page.len() as u64))?;
    visit.exchange.write(page.as_bytes())?;
    visit.exchange.end(&Headers::new())?;
    Ok(Done { status: 200, bytes: page.len() as u64 })
}

fn line(name: &Name, stat: &Stat) -> Line {
    let is_dir = stat.meta.kind == Kind::Dir;
    let size = (stat.meta.kind == Kind::File).then_some(stat.meta.size);
    Line { name: name.as_bytes().to_vec(), is_dir, size, modified: Some(stat.meta.mtime) }
}

/// By what this client calls the node, and the place, for commands.
fn locator(visit: &Visit<'_>, path: &RelPath) -> String {
    let host = visit.called().filter(|host| host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b)));
    format!("lh://{}/{path}", host.unwrap_or("HOST"))
}

/// A directory. Without a slash at its end, names on the page would be taken for its neighbours': the client is sent on.
pub(crate) fn directory(visit: &mut Visit<'_>, store: &dyn Store, path: &RelPath) -> Outcome {
    if !visit.target.is_dir {
        let query = visit.target.query.clone();
        let to = target::location("", &visit.target.path, true, query.as_deref());
        let response = Response::new(307).with("Location", to);
        visit.exchange.begin(response, Length::Known(0))?;
        visit.exchange.end(&Headers::new())?;
        return Ok(Done { status: 307, bytes: 0 });
    }
    let mut doing = visitor(visit);
    if let Some((export, below)) = visit.place()? {
        visit.reach(Action::List, &export, &below)?;
        let writable = visit.web.host.is_writable(&export) == Some(true);
        let something = Name::new(b"something").map_or_else(|_| below.clone(), |name| below.join(&name));
        let may = |action| writable && visit.access().allow(action, &export, writable, &something).is_ok();
        (doing.uploads, doing.makes_dirs) = (may(Action::Create), may(Action::MakeDir));
    }
    if let Some(done) = without_credential(visit)? {
        return Ok(done);
    }
    let mut lines: Vec<Line> = store
        .list(path)?
        .filter_map(Result::ok)
        .filter_map(|(name, stat)| Some(line(&name, &stat.ok()?)))
        .take(ENTRIES_MAX + 1)
        .collect();
    let cut = lines.len() > ENTRIES_MAX;
    lines.truncate(ENTRIES_MAX);
    let order = Order::of(&visit.target);
    order.sort(&mut lines);
    let place = visit.target.path.clone();
    let name = place.name().map_or_else(|| "copy".to_owned(), |name| name.to_string());
    let help = format!("longhaul cp -r {}/ {name}", locator(visit, &place));
    let title = format!("/{place}");
    let page =
        Page { title: &title, lines: &lines, order, is_root: false, cut, help: &help, doing, carried: &carried(visit) };
    send(visit, &page.render())
}

/// What a link on the page ends with: a program that came by a link with a credential in it goes on with that credential.
fn carried(visit: &Visit<'_>) -> String {
    let field = visit.request().headers.get("authorization").is_some();
    let query = visit.target.query.as_deref().filter(|_| !field && !is_for_people(visit)).unwrap_or_default();
    let shown = query.split('&').find(|pair| ["authz=", "access_token="].iter().any(|name| pair.starts_with(name)));
    shown.map_or_else(String::new, |pair| render::escaped(format!("?{pair}").as_bytes()))
}

/// The root: what exports the visitor may see.
pub(crate) fn exports(visit: &mut Visit<'_>) -> Outcome {
    let visible = visit.web.host.visible(visit.access());
    let line = |name: &str| Line { name: name.as_bytes().to_vec(), is_dir: true, size: None, modified: None };
    let mut lines: Vec<Line> = visible.iter().map(|name| line(name)).collect();
    if lines.is_empty() && visit.visitor.is_nobody && !is_for_people(visit) {
        return Err(visit
            .web
            .keeper
            .challenge_nobody("this node shows nothing to those who have not said who they are"));
    }
    if let Some(done) = without_credential(visit)? {
        return Ok(done);
    }
    let order = Order::of(&visit.target);
    order.sort(&mut lines);
    let help = format!("longhaul ls {}", locator(visit, &RelPath::root()));
    let doing = visitor(visit);
    let page = Page {
        title: "Exports",
        lines: &lines,
        order,
        is_root: true,
        cut: false,
        help: &help,
        doing,
        carried: &carried(visit),
    };
    send(visit, &page.render())
}
