//! A page as HTML. Names are escaped, and no script runs.

use std::fmt::Write;

use web::markup::text;
use web::{date, target};

use super::sort::{ListingRow, SortKey, SortOrder};
use super::{PAGE_ENTRIES, SORTED_MAX};
use authn::sessions::FORM_QUERY;

/// The forms that a page has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageActions {
    /// Begin a session with a key or token.
    pub opens_session: bool,
    /// End the session.
    pub closes_session: bool,
    pub uploads: bool,
    pub makes_dirs: bool,
}

/// The content of a page, apart from its entries.
pub(super) struct Page<'a> {
    pub title: &'a str,
    pub order: SortOrder,
    pub is_root: bool,
    /// The part of a long directory that it shows, counted from 1; none if it shows all.
    pub part: Option<usize>,
    /// The command that does the same.
    pub help: &'a str,
    pub actions: PageActions,
    /// The query of links, empty or with a question mark.
    pub link_query: &'a str,
}

/// A name or another untrusted text, escaped for HTML.
pub(super) fn escaped(bytes: &[u8]) -> String {
    text(&String::from_utf8_lossy(bytes))
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em}\
    h1{font-size:1.3em;overflow-wrap:anywhere}header,footer{color:#555}table{border-collapse:collapse;width:100%}\
    th{text-align:left}td,th{padding:.1em 1em .1em 0}td{overflow-wrap:anywhere}\
    td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}td.t{white-space:nowrap}\
    form{margin:.6em 0}form.in{display:inline}code{overflow-wrap:anywhere}";

impl Page<'_> {
    /// The HTML before the entries.
    pub fn head(&self, is_sorted: bool) -> String {
        let title = escaped(self.title.as_bytes());
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = escaped(host.as_bytes());
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} – {host}</title>\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<style>{STYLE}</style></head>\n\
             <body><header>{host}, a node of longhaul{}</header>\n<h1>{title}</h1>\n",
            self.session()
        );
        if !is_sorted {
            let _ = writeln!(out, "<p>There are more than {SORTED_MAX} entries: they are not sorted.</p>");
        }
        out.push_str("<table>\n<tr>");
        for (key, word, name) in SortKey::ALL {
            let _ =
                write!(out, "<th><a href=\"{}\">{name}</a>{}</th>", self.order.link(key, word), self.order.arrow(key));
        }
        out.push_str("</tr>\n");
        if !self.is_root {
            let _ = writeln!(out, "<tr><td><a href=\"../{}\">../</a></td><td></td><td></td></tr>", self.link_query);
        }
        out
    }

    /// The HTML of an entry.
    pub fn row(&self, line: &ListingRow) -> String {
        let slash = if line.is_dir() { "/" } else { "" };
        let size = line.size.map_or_else(String::new, |bytes| model::units::Bytes(bytes).to_string());
        let modified = line.modified.map_or_else(String::new, date::http);
        // With ./ in front, no name is read as a scheme.
        format!(
            "<tr><td><a href=\"./{}{slash}{}\">{}{slash}</a></td><td class=\"n\">{size}</td><td class=\"t\">{modified}</td></tr>\n",
            target::encode(&line.name),
            self.link_query,
            escaped(&line.name),
        )
    }

    /// The HTML after the entries, of which `sent` were sent.
    pub fn tail(&self, sent: usize, has_more: bool) -> String {
        let mut out = "</table>\n".to_owned();
        if sent == 0 && self.part.is_none_or(|part| part == 1) {
            let nothing = if self.is_root && self.actions.opens_session {
                "Nothing is shown to anonymous clients."
            } else {
                "There is nothing here."
            };
            let _ = writeln!(out, "<p>{nothing}</p>");
        }
        self.others(&mut out, has_more);
        self.forms(&mut out);
        let help = escaped(self.help.as_bytes());
        let _ = writeln!(
            out,
            "<footer><p>With many or large files a program is quicker, goes on where it stopped and verifies what arrived:<br>\
             <code>{help}</code></p></footer>\n</body></html>"
        );
        out
    }

    /// Links to the other parts of a long directory.
    fn others(&self, out: &mut String, has_more: bool) {
        let Some(part) = self.part.filter(|part| *part > 1 || has_more) else { return };
        let _ = write!(out, "<p>Page {part}, of {PAGE_ENTRIES} entries each.");
        if part > 1 {
            let _ = write!(out, " <a rel=\"prev\" href=\"{}\">← before</a>", self.order.part_link(part - 1));
        }
        if has_more {
            let _ = write!(out, " <a rel=\"next\" href=\"{}\">next →</a>", self.order.part_link(part + 1));
        }
        out.push_str("</p>\n");
    }

    fn session(&self) -> String {
        if !self.actions.closes_session {
            return String::new();
        }
        format!(
            " <form class=\"in\" method=\"post\" action=\"?{FORM_QUERY}\"><input type=\"hidden\" name=\"do\" value=\"leave\">\
             <button>Sign out</button></form>"
        )
    }

    fn forms(&self, out: &mut String) {
        let PageActions { opens_session, uploads, makes_dirs, .. } = self.actions;
        if uploads {
            let _ = writeln!(
                out,
                "<form method=\"post\" action=\"?{FORM_QUERY}\" enctype=\"multipart/form-data\"><label>Send files \
                 <input type=\"file\" name=\"file\" multiple required></label> <button>Send</button></form>"
            );
        }
        if makes_dirs {
            let _ = writeln!(
                out,
                "<form method=\"post\" action=\"?{FORM_QUERY}\"><input type=\"hidden\" name=\"do\" value=\"mkdir\"><label>New folder \
                 <input name=\"name\" required></label> <button>Make folder</button></form>"
            );
        }
        if opens_session {
            let _ = writeln!(
                out,
                "<form method=\"post\" action=\"?{FORM_QUERY}\"><input type=\"hidden\" name=\"do\" value=\"enter\"><label>Access key or token \
                 <input type=\"password\" name=\"key\" autocomplete=\"off\" required></label> <button>Sign in</button></form>"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use model::Kind;

    use super::*;

    fn page(lines: &[ListingRow], actions: PageActions) -> String {
        let page = Page {
            title: "/d/<b>",
            order: SortOrder::default(),
            is_root: false,
            part: Some(1),
            help: "longhaul cp -r lh://h/<d>/ d",
            actions,
            link_query: "",
        };
        let rows: String = lines.iter().map(|line| page.row(line)).collect();
        [page.head(true), rows, page.tail(lines.len(), false)].concat()
    }

    #[test]
    fn a_long_directory_has_pages() {
        let order = SortOrder { is_descending: true, ..SortOrder::default() };
        let page = Page {
            title: "",
            order,
            is_root: false,
            part: Some(2),
            help: "",
            actions: PageActions::default(),
            link_query: "",
        };
        let tail = page.tail(1, true);
        assert!(tail.contains("\"?page=1&amp;sort=name&amp;order=desc\"") && tail.contains("\"?page=3&amp;"), "{tail}");
        assert!(!page.tail(1, false).contains("next"));
        let first = Page { part: Some(1), ..page };
        assert!(!first.tail(1, false).contains("Page"));
        assert!(first.head(false).contains("not sorted"));
    }

    #[test]
    fn names_are_escaped_in_text_and_in_links() {
        let lines = [
            ListingRow { name: b"<script>&\"'".to_vec(), kind: Kind::File, size: Some(1500), modified: None },
            ListingRow { name: b"a:b %\xff".to_vec(), kind: Kind::Dir, size: None, modified: None },
        ];
        let page = page(&lines, PageActions::default());
        assert!(!page.contains("<script>") && !page.contains("<b>") && !page.contains("<d>"), "{page}");
        assert!(page.contains("href=\"./%3Cscript%3E%26%22%27\""), "{page}");
        assert!(page.contains("href=\"./a:b%20%25%FF/\""), "{page}");
        assert!(page.contains("1.46 KiB"), "{page}");
        assert!(!page.contains("<form"), "{page}");
    }

    #[test]
    fn each_permitted_action_has_a_form() {
        let all = page(&[], PageActions { opens_session: true, closes_session: true, uploads: true, makes_dirs: true });
        for text in ["Send files", "New folder", "Access key or token", "Sign out", "There is nothing here"] {
            assert!(all.contains(text), "{text}: {all}");
        }
        assert!(!page(&[], PageActions::default()).contains("<form"));
    }
}
