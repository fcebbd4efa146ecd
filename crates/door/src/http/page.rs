//! Directories as pages for people, and the list of exports at the root.

use std::fmt::Write;

use auth::Action;
use model::{Kind, Name, RelPath, Timestamp};
use store::{Stat, Store};
use web::{Headers, Response, date, target};

use super::exchange::Length;
use super::refused::{Done, Outcome};
use super::visit::Visit;

/// Entries on a page: a browser is no place for more.
const ENTRIES_MAX: usize = 10_000;

/// A line of the page.
struct Line {
    name: Vec<u8>,
    is_dir: bool,
    size: Option<u64>,
    modified: Option<Timestamp>,
}

fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// What a link on the page ends with: who came by a link with a credential in it goes on with that credential.
fn carried(visit: &Visit<'_>) -> String {
    let field = visit.request().headers.get("authorization").is_some();
    let query = visit.target.query.as_deref().filter(|_| !field).unwrap_or_default();
    let shown = query.split('&').find(|pair| ["authz=", "access_token="].iter().any(|name| pair.starts_with(name)));
    shown.map_or_else(String::new, |pair| escaped(format!("?{pair}").as_bytes()))
}

fn render(title: &str, lines: &[Line], above: bool, cut: bool, carried: &str) -> String {
    let title = escaped(title.as_bytes());
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <style>body{{font:16px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em}}\
         td{{padding:0 1em 0 0}}td.n{{text-align:right;font-variant-numeric:tabular-nums}}</style></head>\n\
         <body><h1>{title}</h1>\n<table>\n"
    );
    if above {
        let _ = writeln!(out, "<tr><td><a href=\"../{carried}\">../</a></td><td></td><td></td></tr>");
    }
    for line in lines {
        let slash = if line.is_dir { "/" } else { "" };
        let size = line.size.map_or_else(String::new, |bytes| model::units::Bytes(bytes).to_string());
        let modified = line.modified.map_or_else(String::new, date::http);
        // With ./ in front, no name is taken for a scheme.
        let _ = writeln!(
            out,
            "<tr><td><a href=\"./{}{slash}{carried}\">{}{slash}</a></td><td class=\"n\">{size}</td><td>{modified}</td></tr>",
            target::encode(&line.name),
            escaped(&line.name),
        );
    }
    out.push_str("</table>\n");
    if cut {
        let _ = writeln!(out, "<p>Only the first {ENTRIES_MAX} entries are shown.</p>");
    }
    out.push_str("</body></html>\n");
    out
}

fn send(visit: &mut Visit<'_>, page: &str) -> Outcome {
    let headers = Headers::new()
        .with("Content-Type", "text/html; charset=utf-8")
        .with("X-Content-Type-Options", "nosniff")
        // What names say is text; nothing on this page runs.
        .with("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        // The address of this page may have a key in it.
        .with("Referrer-Policy", "no-referrer")
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
    if let Some((export, below)) = visit.place()? {
        visit.reach(Action::List, &export, &below)?;
    }
    let mut lines: Vec<Line> = store
        .list(path)?
        .filter_map(Result::ok)
        .filter_map(|(name, stat)| Some(line(&name, &stat.ok()?)))
        .take(ENTRIES_MAX + 1)
        .collect();
    let cut = lines.len() > ENTRIES_MAX;
    lines.truncate(ENTRIES_MAX);
    lines.sort_by(|a, b| (!a.is_dir, &a.name).cmp(&(!b.is_dir, &b.name)));
    let title = format!("/{}", visit.target.path);
    let page = render(&title, &lines, true, cut, &carried(visit));
    send(visit, &page)
}

/// The root: what exports the visitor may see.
pub(crate) fn exports(visit: &mut Visit<'_>) -> Outcome {
    let visible = visit.web.host.visible(visit.access());
    let line = |name: &str| Line { name: name.as_bytes().to_vec(), is_dir: true, size: None, modified: None };
    let lines: Vec<Line> = visible.iter().map(|name| line(name)).collect();
    if lines.is_empty() && visit.visitor.is_nobody {
        return Err(visit
            .web
            .keeper
            .challenge_nobody("this node shows nothing to those who have not said who they are"));
    }
    let page = render("Exports", &lines, false, false, &carried(visit));
    send(visit, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_links_lead_where_they_say() {
        let lines = [
            Line { name: b"<script>&\"'".to_vec(), is_dir: false, size: Some(1500), modified: None },
            Line { name: b"a:b %\xff".to_vec(), is_dir: true, size: None, modified: None },
        ];
        let page = render("/d/<b>", &lines, true, false, "");
        assert!(!page.contains("<script>") && !page.contains("<b>"), "{page}");
        assert!(page.contains("href=\"./%3Cscript%3E%26%22%27\""), "{page}");
        assert!(page.contains("href=\"./a:b%20%25%FF/\""), "{page}");
        assert!(page.contains("1.46 KiB"), "{page}");
    }
}
