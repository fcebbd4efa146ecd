//! The page: a verdict first, then the numbers behind it, over time and stream by stream. The same stories make the same page, to the byte;
//! the length of a page is bounded, however long the stories are.

mod charts;
mod tables;

use std::fmt::Write as _;

use crate::html::{self, brief as text, name};
use crate::story::{Story, Tone};

/// The largest number of stories that are shown in full; further ones have a row in the comparison.
const SECTIONS_MAX: usize = 32;
/// The largest number of remarks, and of names of files, that one story shows.
const REMARKS_MAX: usize = 50;

/// Writes the page of these stories; there must be at least one.
pub fn page(title: Option<&str>, stories: &[Story]) -> String {
    let mut body = String::new();
    let default_title = match stories {
        [one] => one.title.as_str(),
        _ => "Jobs side by side",
    };
    let title = title.unwrap_or(default_title);
    let _ = writeln!(body, "<h1>{}</h1>", text(title));
    if stories.len() > 1 {
        body += &summary(stories);
        body += &tables::comparison(stories);
        body += &charts::comparison(stories);
    }
    for (at, story) in stories.iter().take(SECTIONS_MAX).enumerate() {
        section(&mut body, story, at + 1, stories.len() > 1 || title != story.title);
    }
    if stories.len() > SECTIONS_MAX {
        let _ = write!(body, "<p>The other {} are in the comparison above.</p>", stories.len() - SECTIONS_MAX);
    }
    html::page(title, &body)
}

/// The numbers of stories by outcome, and the range of their rates.
fn summary(stories: &[Story]) -> String {
    let tones =
        [(Tone::Good, "done"), (Tone::Part, "in part"), (Tone::Bad, "failed"), (Tone::Plain, "without a verdict")];
    let count = |tone| stories.iter().filter(|story| story.tone == tone).count();
    let words: Vec<String> = tones
        .into_iter()
        .filter(|(tone, _)| count(*tone) > 0)
        .map(|(tone, word)| format!("{} {word}", count(tone)))
        .collect();
    let rates = || stories.iter().filter_map(|story| story.comparison.rate_bit_s);
    let least = rates().reduce(f64::min);
    let most = rates().reduce(f64::max);
    let range = match (least, most) {
        (Some(least), Some(most)) => {
            format!("; mean rates from {} to {}", crate::format::rate(least), crate::format::rate(most))
        }
        _ => String::new(),
    };
    let tone = tones.into_iter().rev().map(|(tone, _)| tone).find(|tone| *tone != Tone::Plain && count(*tone) > 0);
    let class = tone.unwrap_or(Tone::Plain).class();
    let verdict = text(&format!("{} jobs or tests: {}{range}.", stories.len(), words.join(", ")));
    format!("<div class=\"verdict {class}\"><p>{verdict}</p></div>\n")
}

fn section(out: &mut String, story: &Story, number: usize, has_title: bool) {
    let _ = writeln!(out, "<section id=\"job{number}\">");
    if has_title {
        let _ = writeln!(out, "<h2>{number}. {}</h2>", text(&story.title));
    }
    verdict(out, story);
    out.push_str("<dl class=\"facts\">");
    for (what, value) in &story.numbers {
        let _ = write!(out, "<div><dt>{}</dt><dd>{}</dd></div>", text(what), text(value));
    }
    out.push_str("</dl>\n");
    misses(out, story);
    if let Some(timeline) = &story.timeline {
        out.push_str("<h3>Over time</h3>\n");
        *out += &charts::timeline(timeline, number);
    }
    if !story.streams.is_empty() {
        out.push_str("<h3>Streams</h3>\n");
        *out += &tables::streams(&story.streams);
    }
    for sheet in &story.sheets {
        *out += &tables::sheet(sheet);
    }
    remarks(out, story);
    out.push_str("</section>\n");
}

fn verdict(out: &mut String, story: &Story) {
    let _ = write!(out, "<div class=\"verdict {}\"><p>{}</p>", story.tone.class(), text(&story.verdict));
    if !story.evidence.is_empty() {
        let _ = write!(out, "<p><b>Evidence:</b> {}</p>", text(&story.evidence));
    }
    if !story.remedy.is_empty() {
        let _ = write!(out, "<p><b>Remedy:</b> {}</p>", text(&story.remedy));
    }
    out.push_str("</div>\n");
}

fn misses(out: &mut String, story: &Story) {
    let misses = &story.misses;
    if misses.named.is_empty() && misses.more == 0 {
        return;
    }
    out.push_str("<h3>What did not arrive</h3>\n");
    if !misses.named.is_empty() {
        *out += &tables::misses(&misses.named);
    }
    if misses.more > 0 {
        let _ = writeln!(out, "<p>… and {} more that are not named here.</p>", misses.more);
    }
}

fn remarks(out: &mut String, story: &Story) {
    if story.remarks.is_empty() && story.files.is_empty() {
        return;
    }
    out.push_str("<h3>Sources of this page</h3>\n<ul>");
    for file in story.files.iter().take(REMARKS_MAX) {
        let _ = write!(out, "<li>{}</li>", name(file));
    }
    for remark in story.remarks.iter().take(REMARKS_MAX) {
        let _ = write!(out, "<li>{}</li>", text(remark));
    }
    out.push_str("</ul>\n");
}

#[cfg(test)]
mod tests;
