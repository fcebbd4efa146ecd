//! A document as the rules read it: which of its characters are prose and which are code, and the anchors of its headings.
//!
//! Does not know: tables of contents, HTML, footnotes, which the documents here do not use.

use super::{RepositoryFile, Tree};

/// One document, line by line.
#[derive(Debug)]
pub struct Document {
    /// The path below the root, with slashes.
    pub path: String,
    /// Its lines; those of fenced blocks are empty.
    pub lines: Vec<String>,
    /// The same lines, with code between backticks blanked.
    pub prose: Vec<String>,
}

/// All documents of a tree.
pub fn documents(tree: &Tree) -> impl Iterator<Item = Document> + '_ {
    tree.files.iter().filter(|file| file.path.ends_with(".md")).map(Document::new)
}

impl Document {
    /// Parses a document.
    pub fn new(file: &RepositoryFile) -> Document {
        let text = String::from_utf8_lossy(&file.bytes);
        let open = without_fences(&text);
        let split = |text: &str| text.lines().map(String::from).collect();
        Document { path: file.path.clone(), prose: split(&without_code(&open)), lines: split(&open) }
    }

    /// The anchors of its headings, as GitHub and similar sites make them.
    pub fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for line in &self.lines {
            let text = line.trim_start_matches('#');
            if text.len() == line.len() || !text.starts_with(' ') {
                continue;
            }
            let name = anchor(text);
            let before = anchors.iter().filter(|known| **known == name).count();
            anchors.push(if before == 0 { name } else { format!("{name}-{before}") });
        }
        anchors
    }
}

/// The anchor of a heading: lower case, with hyphens for spaces, without other marks. A link is replaced with its text.
fn anchor(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading.trim();
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Empties the lines of fenced blocks, fences included.
fn without_fences(text: &str) -> String {
    let mut fence: Option<&str> = None;
    let mut out = String::new();
    for line in text.lines() {
        let bare = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => out.push_str(line),
            (Some(_), _) => {}
        }
        out.push('\n');
    }
    out
}

/// Blanks the code between backticks. Several backticks may begin and end it; it may go over the end of a line, not of a paragraph.
fn without_code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = chars.clone();
    let mut at = 0;
    while at < chars.len() {
        let run = run_of_ticks(&chars, at);
        if run == 0 {
            at += 1;
            continue;
        }
        match closing(&chars, at + run, run) {
            Some(end) => {
                out[at..end].iter_mut().filter(|c| **c != '\n').for_each(|c| *c = ' ');
                at = end;
            }
            None => at += run,
        }
    }
    out.into_iter().collect()
}

fn run_of_ticks(chars: &[char], at: usize) -> usize {
    chars[at..].iter().take_while(|c| **c == '`').count()
}

/// The end of the run of backticks that closes the code; none if there is none before the end of the paragraph.
fn closing(chars: &[char], from: usize, ticks: usize) -> Option<usize> {
    let mut at = from;
    while at < chars.len() {
        if chars[at] == '\n' && chars.get(at + 1) == Some(&'\n') {
            return None;
        }
        match run_of_ticks(chars, at) {
            0 => at += 1,
            run if run == ticks => return Some(at + run),
            run => at += run,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document::new(&RepositoryFile { path: "docs/a.md".into(), bytes: text.into() })
    }

    #[test]
    fn code_is_blanked_in_prose() {
        let read = document("a `[b](c)` d\n```sh\n[e](f)\n```\n`over\nlines` g\n``h ` i`` j `k\n\nl` m\n");
        let prose: Vec<&str> = read.prose.iter().map(|line| line.trim()).collect();
        assert_eq!(prose, ["a          d", "", "", "", "", "g", "j `k", "", "l` m"]);
        assert_eq!(read.lines[0], "a `[b](c)` d");
    }

    #[test]
    fn headings_have_anchors() {
        let read = document("# What `--plain` gives up\n## A: b, c_d\n## [Links](x.md) too\n#no\n## A: b, c_d\n");
        assert_eq!(read.anchors(), ["what---plain-gives-up", "a-b-c_d", "links-too", "a-b-c_d-1"]);
    }
}
