//! The frame of every page: one HTML file without scripts and external resources, in light and dark, for paper and phones. Pages are
//! well-formed XML too, so that a test can check them.
//!
//! Does not know: what a page is about. Its input is text, and is escaped.

mod lanes;
mod map;
mod plot;
mod scale;

use std::fmt::Write as _;

pub use lanes::{ChartLane, lanes};
pub use map::{LinkState, MapLink, MapSite, map};
pub use plot::{Plot, Step};
pub use scale::Scale;
pub use web::markup::text;

/// The largest number of characters of one text from a file.
const BRIEF_CHARS_MAX: usize = 600;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--back:#fff;--card:#f4f6f8;--good:#1a7f37;\
--part:#9a6700;--bad:#c62828;--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b5568c;--c4:#b57d00;--c5:#4a9fd4;--c6:#6b5bb5;\
--c7:#7a7f85}\
@media screen and (prefers-color-scheme:dark){:root{--ink:#e6e9ed;--soft:#9aa4af;--line:#3a424c;--back:#15191e;--card:#1e242b;\
--good:#4cc36b;--part:#e0a93b;--bad:#ff7b72;--c0:#58b0f0;--c1:#ff8a4c;--c2:#35c999;--c3:#e59ac5;--c4:#f0b93b;--c5:#8fd0ff;\
--c6:#a99bf0;--c7:#a0a6ad}}\
body{font:15px/1.5 system-ui,sans-serif;margin:0;background:var(--back);color:var(--ink)}\
main{max-width:72rem;margin:2rem auto;padding:0 1rem}h1,h2,h3{line-height:1.25;overflow-wrap:anywhere}h2{margin-top:2.5rem}\
.wide{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0}caption{text-align:left;color:var(--soft);padding:.25rem 0}\
td,th{border-bottom:1px solid var(--line);padding:.25rem .7rem;text-align:left;vertical-align:top}\
thead th{border-bottom-width:2px}tbody th{font-weight:600}.numbers td{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
code,.name{font-size:13px;overflow-wrap:anywhere}.name{font-family:ui-monospace,monospace;white-space:pre-wrap}\
small,figcaption,.soft{color:var(--soft)}\
.high,.cause,.bad{border-left:4px solid var(--bad)}.medium,.part{border-left:4px solid var(--part)}\
.low{border-left:4px solid var(--c4)}.info,.plain{border-left:4px solid var(--line)}.well,.good{border-left:4px solid var(--good)}\
.cause,.well,.verdict{padding:.1rem 1rem;margin:1rem 0}.verdict{background:var(--card)}.verdict p:first-child{font-size:1.2rem}\
dl.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));gap:.5rem 1.5rem}\
dl.facts div{border-top:1px solid var(--line)}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\
figure{margin:1.5rem 0;break-inside:avoid}figure svg.chart{width:100%;min-width:30rem;max-width:56rem;height:auto;display:block}\
.chart text{font-size:12px;fill:var(--soft)}.grid{stroke:var(--line);fill:none}.axis{stroke:var(--soft);fill:none}\
ul.key{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0;margin:.3rem 0}ul.key svg{width:24px;height:10px}\
.l0,.l1,.l2,.l3,.l4,.l5,.l6,.l7{fill:none;stroke-width:1.6}.l0{stroke:var(--c0)}.l1{stroke:var(--c1);stroke-dasharray:7 3}\
.l2{stroke:var(--c2);stroke-dasharray:2 2}.l3{stroke:var(--c3);stroke-dasharray:9 3 2 3}.l4{stroke:var(--c4);stroke-dasharray:4 2}\
.l5{stroke:var(--c5);stroke-dasharray:12 3}.l6{stroke:var(--c6);stroke-dasharray:1 3}.l7{stroke:var(--c7);stroke-dasharray:5 5}\
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}\
.f6{fill:var(--c6)}.f7{fill:var(--c7)}.faint{fill:var(--c0);opacity:.25}\
.chart .tag{paint-order:stroke;stroke:var(--back);stroke-width:3px}.link{fill:none;stroke:var(--c0)}.link.idle{stroke:var(--soft);stroke-dasharray:1.5 4}.link.over{stroke:var(--bad)}\
.link.core{stroke:var(--back)}.link.failed{stroke:var(--bad);stroke-dasharray:9 5}\
summary{cursor:pointer;color:var(--soft)}\
@media print{body{font-size:11px}main{margin:0;max-width:none}h2{break-after:avoid}tr{break-inside:avoid}.wide{overflow:visible}\
figure svg.chart{min-width:0}}";

/// A whole page, from its title and a body that is markup already.
pub fn page(title: &str, body: &str) -> String {
    // The page loads and runs nothing, whatever the file that was read contains.
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\
         <title>{}</title><style>{STYLE}</style></head><body><main>\n{body}</main></body></html>\n",
        brief(title)
    )
}

/// Escapes text of unknown length, and cuts it where it is too long.
pub fn brief(raw: &str) -> String {
    match raw.char_indices().nth(BRIEF_CHARS_MAX) {
        None => text(raw),
        Some((end, _)) => text(&raw[..end]) + " …",
    }
}

/// Escapes and cuts a name. Line breaks and tabs are shown as `\n` and `\t`.
pub fn name(raw: &str) -> String {
    let spelled = brief(raw).replace('\n', "\\n").replace('\t', "\\t");
    format!("<span class=\"name\">{spelled}</span>")
}

/// Builds a table. Cells are text, cut where too long; the first cell of a row is its heading.
pub struct Table(String);

impl Table {
    /// A table with a caption and column headings; `class` is one of the page's style.
    pub fn new(class: &str, caption: &str, heads: &[&str]) -> Table {
        let mut out =
            format!("<div class=\"wide\"><table class=\"{class}\"><caption>{}</caption><thead><tr>", brief(caption));
        for head in heads {
            let _ = write!(out, "<th scope=\"col\">{}</th>", brief(head));
        }
        out.push_str("</tr></thead><tbody>");
        Table(out)
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[String]) {
        let cells: Vec<String> = cells.iter().map(|cell| brief(cell)).collect();
        self.markup(&cells);
    }

    /// Adds a row of cells that are markup already.
    pub fn markup(&mut self, cells: &[String]) {
        self.0.push_str("<tr>");
        for (at, cell) in cells.iter().enumerate() {
            let _ = match at {
                0 => write!(self.0, "<th scope=\"row\">{cell}</th>"),
                _ => write!(self.0, "<td>{cell}</td>"),
            };
        }
        self.0.push_str("</tr>\n");
    }

    /// The table as markup.
    pub fn end(self) -> String {
        self.0 + "</tbody></table></div>"
    }

    /// The table as markup, folded behind a summary line.
    pub fn folded(self, line: &str) -> String {
        format!("<details><summary>{}</summary>{}</details>", text(line), self.end())
    }
}

#[cfg(test)]
pub mod tests;
